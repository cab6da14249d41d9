// Heat maps of every head. The token that is hovered or focused shows what it reads, in all heads at once.

import { asking, badge, el, facts, field, heatmap, put, short } from "/common.js";
import { choosing } from "/choosing.js";

function tokens(answer) {
  return answer.words.map((word, place) =>
    el("span", { class: `token${answer.asked_at.includes(place) ? " asks" : ""}` }, word));
}

function drawn(answer) {
  const marks = tokens(answer);
  const said = el("p", { class: "note", "aria-live": "polite" });
  const maps = [];
  const choose = (place) => {
    const read = new Set(answer.layers.flatMap((layer) => layer.flatMap((head) => head.reads[place] ?? [])));
    marks.forEach((mark, other) => {
      mark.classList.toggle("here", other === place);
      mark.classList.toggle("read", read.has(other) && other !== place);
    });
    put(said, sentence(answer, place));
    for (const map of maps) map.markRow(place);
  };
  const figures = answer.layers.flatMap((layer, number) => layer.map((head, which) => {
    const map = heatmap(head.weights, {
      rows: answer.words.slice(0, head.weights.length), columns: answer.words, onrow: choose,
      title: `layer ${number + 1}, head ${which + 1}: who reads whom`,
      describe: (row) => line(answer, head, row),
    });
    maps.push(map);
    return el("figure", null,
      el("figcaption", null, `Layer ${number + 1}, head ${which + 1}: each row is a token that reads`),
      el("div", { class: "scroll" }, map));
  }));
  choose(answer.asked_at.at(-1) ?? 0);
  return [
    el("p", null, "The witness answers ", el("b", null, answer.answer ?? "nothing"), ", the oracle ",
      el("b", null, answer.expected), ". ", badge(answer.right ? "right" : "wrong", answer.right ? "good" : "bad")),
    el("div", { class: "tokens" }, marks),
    said,
    el("div", { class: "heads" }, figures),
    facts([["task", `${answer.task} with n=${answer.n}`], ["theorem", `${answer.theorem}: ${answer.statement}`],
      ["family", answer.family], ["arithmetic", answer.arithmetic]]),
  ];
}

function line(answer, head, row) {
  const reads = head.reads[row];
  const shown = reads.slice(0, 4).map((place) => `${answer.words[place]} at ${place + 1}`).join(", ");
  const more = reads.length > 4 ? ` and ${reads.length - 4} more` : "";
  const lead = head.leads[row];
  return `${answer.words[row]} at ${row + 1} reads ${shown}${more}` +
    (lead === null ? ", all that it sees" : `, which leads by ${short(lead)}`);
}

function sentence(answer, row) {
  const parts = answer.layers.flatMap((layer, number) => layer.flatMap((head, which) => {
    if (!head.reads[row]) return []; // what a model adds to its input asks for nothing in the last layer
    const name = layer.length > 1 ? `layer ${number + 1}, head ${which + 1}` : `layer ${number + 1}`;
    return `${name}: ${line(answer, head, row)}`;
  }));
  return parts.slice(0, 6).join("; ") + (parts.length > 6 ? "; …" : ".");
}

export function mount(root, ask, about) {
  const question = asking(ask, (answer) => {
    choice.offer(answer.witnesses);
    input.value = answer.input;
    return drawn(answer);
  });
  const input = el("input", { class: "typed", value: about.default.input, spellcheck: "false", autocomplete: "off" });
  const size = el("input", { type: "number", min: 1, max: 32, value: about.default.n });
  const choice = choosing(about, {
    fits: (entry) => entry.kind === "witness" && !entry.writes && /transformer/.test(entry.form ?? ""),
    onchange: () => { input.value = ""; send(); },
  });
  const send = (seed = 0) => question.put({ ...choice.payload(), n: Number(size.value), input: input.value, seed });
  let seed = 0;
  root.append(
    el("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); send(); } },
      field("Witness", choice.element),
      field("n", size),
      el("label", { class: "field wide" }, el("span", { class: "field-label" }, "Input, in the task's words"), input),
      el("button", { class: "primary" }, "Look"),
      el("button", { type: "button", onclick: () => { input.value = ""; send((seed += 1)); } }, "Another input")),
    question.element);
  send();
}
