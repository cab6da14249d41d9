// The state of a recurrent model: a column of bits for every token, and a meter of bits carried and needed.

import { asking, badge, bitstring, count, el, facts, field, put, stepper, svg } from "/common.js";
import { choosing } from "/choosing.js";

const RECURRENT = ["lstm", "linear-transformer", "retnet", "dss", "mamba", "linear-rnn"];

function grid(answer, mark) {
  const width = answer.frames.length;
  const bits = answer.carried;
  const size = Math.max(3, Math.min(16, Math.floor(480 / Math.max(bits, 1)), Math.floor(900 / width)));
  const top = 40;
  const cells = answer.frames.flatMap((frame, time) => [...frame].map((bit, place) => svg("rect", {
    class: bit === "1" ? "grid-on" : "grid-off", x: 2 + time * size, y: top + place * size,
    width: size - 1, height: size - 1,
  })));
  const labels = size >= 10 ? answer.words.slice(0, width).map((word, time) => {
    const x = 2 + (time + 0.5) * size;
    const turned = { transform: `rotate(-90 ${x} ${top - 5})`, dy: 4 };
    return svg("text", { class: word.length > 1 ? "tick" : "tick middle", x, y: top - 5,
      ...(word.length > 1 ? turned : {}) }, word.slice(0, 5));
  }) : [];
  mark.setAttribute("width", size);
  mark.setAttribute("height", bits * size + 2);
  mark.setAttribute("y", top - 1);
  mark.place = (time) => mark.setAttribute("x", 1.5 + time * size);
  const [w, h] = [4 + width * size, top + bits * size + 4];
  return svg("svg", { class: "bit-grid", width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img",
    "aria-label": `${bits} bits after each of ${width} tokens; the steps below read them out` }, labels, cells, mark);
}

function meter(answer) {
  const needed = answer.bound?.at_least ?? null;
  const most = Math.max(answer.carried, needed ?? 0, 1);
  const at = (bits) => (300 * bits) / most;
  return svg("svg", { width: 304, height: 22, viewBox: "0 0 304 22", role: "img",
    "aria-label": `${answer.carried} bits carried${needed === null ? "" : `, at least ${needed} needed`}` },
  svg("rect", { class: "meter-track", x: 0, y: 6, width: 300, height: 10 }),
  svg("rect", { class: "meter-fill", x: 0, y: 6, width: at(answer.carried), height: 10 }),
  needed === null ? null : svg("line", { class: "meter-need", x1: at(needed), x2: at(needed), y1: 0, y2: 22 }));
}

function against(answer) {
  if (!answer.bound) return "No theorem here says how many bits are needed.";
  const { at_least: needed, theorem, formula, via } = answer.bound;
  return `At least ${count(needed)} bits are needed (${theorem}: ${formula}${via ? `, via ${via}` : ""}); ` +
    (answer.carried < needed
      ? `with ${count(answer.carried)} it must be wrong on some input.`
      : `it carries ${count(answer.carried)}.`);
}

function drawn(answer) {
  const mark = svg("rect", { class: "grid-now", x: 0, y: 0 });
  const picture = grid(answer, mark);
  const parts = el("div", null);
  const marks = answer.words.map((word, place) =>
    el("span", { class: `token${answer.asked_at.includes(place) ? " asks" : ""}` }, word));
  const steps = stepper(answer.frames, (frame, time) => {
    mark.place(time);
    marks.forEach((each, place) => each.classList.toggle("here", place === time));
    let from = 0;
    put(parts, answer.fields.map(({ name, bits }) => {
      const now = frame.slice(from, from + bits);
      const before = time > 0 ? answer.frames[time - 1].slice(from, from + bits) : "0".repeat(bits);
      from += bits;
      return el("p", null, el("span", { class: "field-label" }, `${name} `), bitstring(now, before));
    }));
  }, { label: "token", first: answer.frames.length - 1 });
  return [
    el("p", null, "It answers ", el("b", null, answer.answer || "nothing"), ", the oracle ",
      el("b", null, answer.expected), ". ", badge(answer.right ? "right" : "wrong", answer.right ? "good" : "bad")),
    el("div", { class: "tokens" }, marks),
    steps,
    parts,
    el("h2", null, "All tokens at once"),
    el("p", { class: "note" }, "A column for each token, a row for each bit."),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Bits over time" }, picture),
    el("h2", null, "Bits carried and needed"),
    meter(answer),
    el("p", { class: "note" }, against(answer)),
    facts([["task", `${answer.task} with n=${answer.n}`], ["weights", answer.source],
      ...(answer.rounded ? [["rounded", `${answer.rounded.numbers} numbers to ${answer.rounded.bits} bits each, ` +
        `between -${answer.rounded.reach} and ${answer.rounded.reach}`]] : [])]),
  ];
}

export function mount(root, ask, about) {
  let steps = null;
  const question = asking(ask, (answer) => {
    choice.offer(answer.witnesses);
    input.value = answer.input;
    const shown = drawn(answer);
    steps = shown[2];
    return shown;
  });
  const input = el("input", { class: "typed", value: about.default.input, spellcheck: "false", autocomplete: "off" });
  const size = el("input", { type: "number", min: 1, max: 32, value: about.default.n });
  const bits = el("input", { type: "number", min: 1, max: 8, value: 4 });
  const rounding = field("Bits a number", bits);
  const choice = choosing(about, {
    fits: (entry) => !entry.writes && entry.form === "recurrent",
    fitsRun: (run) => RECURRENT.includes(run.model),
    onchange: () => { input.value = ""; send(); },
  });
  const send = (seed = 0) => {
    const chosen = choice.payload();
    rounding.hidden = !chosen.run;
    question.put({ ...chosen, n: Number(size.value), input: input.value, seed,
      ...(chosen.run ? { bits: Number(bits.value) } : {}) });
  };
  let seed = 0;
  root.append(
    el("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); send(); } },
      field("Model", choice.element), field("n", size), rounding,
      el("label", { class: "field wide" }, el("span", { class: "field-label" }, "Input, in the task's words"), input),
      el("button", { class: "primary" }, "Look"),
      el("button", { type: "button", onclick: () => { input.value = ""; send((seed += 1)); } }, "Another input")),
    question.element);
  send();
  return () => steps?.stop();
}
