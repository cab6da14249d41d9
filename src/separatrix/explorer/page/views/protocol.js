// Alice and Bob run a model on an input that neither holds whole; a counter adds up every bit.

import { asking, badge, bitstring, count, el, facts, field, menu, put, stepper, svg } from "/common.js";
import { saying } from "./written.js";

const amount = (bits) => `${count(bits)} ${bits === 1 ? "bit" : "bits"}`;
const OTHER = { Alice: "Bob", Bob: "Alice" };

function scale(answer, bits) {
  const bound = answer.bounds[0]?.at_least ?? null;
  const most = Math.max(answer.bits, bound ?? 0, 1);
  const at = (amount) => 2 + (396 * amount) / most;
  const left = bound !== null && at(bound) > 300;
  return svg("svg", { class: "scale", viewBox: "0 0 400 34", role: "img",
    "aria-label": `${bits} of ${answer.bits} bits sent${bound === null ? "" : `; at least ${bound} are needed`}` },
  svg("rect", { class: "meter-track", x: 2, y: 4, width: 396, height: 10 }),
  svg("rect", { class: "meter-fill", x: 2, y: 4, width: at(bits) - 2, height: 10 }),
  bound === null ? null : [
    svg("line", { class: "meter-need", x1: at(bound), x2: at(bound), y1: 0, y2: 18 }),
    svg("text", { x: at(bound) + (left ? -3 : 3), y: 30, "text-anchor": left ? "end" : "start" },
      `at least ${count(bound)} needed`)]);
}

function needed(answer) {
  if (!answer.bounds.length) return "No theorem here proves a number of bits for this split.";
  return answer.bounds.map(({ theorem, at_least: bits, formula, enough }) => el("p", null,
    `${count(bits)} bits on some input (${theorem}: ${formula})${enough ? "" : "; this run has fewer"}`));
}

const named = (name) => (/^(the |keys |answers|parts)/.test(name) ? name : `the ${name}`);

function party(name, answer, told) {
  const speaks = told.length > 0 && told.at(-1).sender === name;
  const knows = told.length === answer.messages.length && answer.knows.includes(name);
  const learned = told.filter(({ sender, name: what }) => sender !== name && !(knows && what === "the answer"));
  return el("section", { class: `party${speaks ? " speaks" : ""}`, "aria-label": name },
    el("h2", null, name),
    el("div", { class: "tokens" }, answer.held.map(({ word, holder }) => holder === name
      ? el("span", { class: "token" }, word)
      : el("span", { class: "token unknown", "aria-label": "not known" }, "?"))),
    el("ul", null,
      learned.map((message, place) => el("li", { class: place === learned.length - 1 && !speaks ? "new" : "" },
        `${message.name}, ${amount(message.bits)}`)),
      knows ? el("li", { class: "new" }, `the answer: ${answer.answers.map(({ answer: said }) => said).join(" ")}`) : null));
}

function outcome(answer) {
  const word = (which) => answer.answers.map((each) => each[which]).join(" ");
  const right = word("answer") === word("oracle");
  const where = answer.answers.length > 1 ? "At all positions they find " : "They find ";
  return el("p", { class: "verdict" }, where, el("b", null, word("answer")), ", the oracle ",
    el("b", null, word("oracle")), ". ", badge(right ? "right" : "wrong", right ? "good" : "bad"), " ",
    badge(answer.agrees ? "as the model itself, bit for bit" : "not as the model itself", answer.agrees ? "good" : "bad"));
}

export function mount(root, ask, about) {
  let steps = null;
  let runs = null;

  const show = (answer) => {
    steps?.stop();
    runs = answer.runs;
    if (run.options.length !== runs.length) {
      put(run, runs.map(({ name }) => el("option", { value: name }, name)));
      run.value = answer.run;
    }
    offer(answer.run, answer.partition);
    input.value = answer.text;
    const says = saying();
    const total = el("output", null);
    const bar = el("div");
    const parties = el("div", { class: "parties" });
    const result = el("div", null, outcome(answer));
    const draw = (told, index) => {
      const bits = told.reduce((sum, each) => sum + each.bits, 0);
      const newest = told.at(-1);
      put(total, count(bits));
      put(bar, scale(answer, bits));
      put(parties, party("Alice", answer, told),
        el("div", { class: "lane" }, told.map((each, place) => el("div",
          { class: `message from-${each.sender}${place === told.length - 1 ? " now" : ""}` },
          el("b", null, each.sender === "Alice" ? `${each.name} →` : `← ${each.name}`),
          el("p", null, amount(each.bits)),
          place === told.length - 1 ? [bitstring(each.first), each.bits > each.first.length ? " …" : ""] : null))),
        party("Bob", answer, told));
      put(says, newest
        ? `${newest.sender} tells ${OTHER[newest.sender]} ${named(newest.name)}: ${amount(newest.bits)}. ${newest.means}`
        : "Each holds a part of the input, and nothing has been said.");
      result.classList.toggle("hushed", index < answer.messages.length);
    };
    const frames = [[], ...answer.messages.map((_, place) => answer.messages.slice(0, place + 1))];
    steps = stepper(frames, draw, { label: "moment", first: frames.length - 1, pace: 1400 });
    return [
      el("p", { class: "says" }, answer.question),
      steps,
      el("p", { class: "counter" }, total, `of ${count(answer.bits)} bits in all`),
      bar, says, parties, result,
      facts([
        ["needed", needed(answer)],
        ...answer.counts.map(({ name, formula, bits }) => [`${name} by the theorem`, `${count(bits)} bits: ${formula}`]),
        ["protocol", `${answer.theorem}: ${answer.statement}`],
        ["numbers", answer.arithmetic],
      ]),
    ];
  };

  const offer = (name, value) => {
    const splits = runs?.find((each) => each.name === name)?.splits ?? [about.default.partition];
    put(limit, `Input, in the task's words${runs ? `, n at most ${runs.find((each) => each.name === name).most}` : ""}`);
    put(split, splits.map((each) => el("option", { value: each }, each)));
    if (value) split.value = value;
  };
  const question = asking(ask, show);
  const send = () => question.put({ run: run.value, partition: split.value, text: input.value });
  const run = menu([about.default.run], about.default.run, () => {
    offer(run.value, null);
    input.value = runs?.find(({ name }) => name === run.value)?.example ?? "";
    send();
  });
  const split = menu([about.default.partition], about.default.partition, send);
  const limit = el("span", { class: "field-label" }, "Input, in the task's words");
  const input = el("input", { class: "typed", spellcheck: "false", autocomplete: "off", value: about.default.text });
  root.append(
    el("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); send(); } },
      field("Task and model", run), field("Who holds what", split),
      el("label", { class: "field wide" }, limit, input),
      el("button", { class: "primary" }, "Run")),
    question.element);
  send();
  return () => steps?.stop();
}
