// A Turing machine that weights run: the tape step by step, beside the words that the model writes for it.

import { asking, count, el, field, menu, put, stepper, table } from "/common.js";
import { later, saying, verdict, weights } from "./written.js";

const FAMILIES = [
  ["linear-rnn+retrieval", "linear RNN that searches for its cells"],
  ["hybrid-cot", "linear RNN with one attention layer"],
  ["linear-rnn-cot", "linear RNN with the tape in its state"],
];
const MOVES = { L: "left", R: "right", S: "stay" };

// The cells before each step, and after the last.
function tapes(answer, blank) {
  const cells = new Map(answer.left.map((_, place) => [answer.first + place, blank]));
  answer.tape.forEach((symbol, place) => cells.set(place, symbol));
  const found = answer.steps.map((step) => {
    const now = new Map(cells);
    cells.set(step.cell, step.write);
    return now;
  });
  return [...found, new Map(cells)];
}

// A row of cells that is the input: a click, or Enter, turns a cell to the next symbol.
function cellsInput(onchange) {
  const element = el("div", { class: "cells", role: "group", "aria-label": "The tape, cell by cell" });
  let symbols = [];
  let alphabet = ["_"];
  const give = (focus) => {
    draw();
    onchange(symbols.join(""));
    element.querySelectorAll("button")[focus]?.focus();
  };
  const draw = () => put(element,
    symbols.map((symbol, place) => el("button", {
      type: "button", class: "cell", "aria-label": `Cell ${place}: ${symbol}; turn to the next symbol`,
      onclick: () => {
        symbols[place] = alphabet[(alphabet.indexOf(symbol) + 1) % alphabet.length];
        give(place);
      },
    }, symbol)),
    el("button", { type: "button", class: "cell", "aria-label": "One cell more",
      onclick: () => {
        if (symbols.length >= 10) return;
        symbols.push(alphabet[1] ?? alphabet[0]);
        give(symbols.length);
      } }, "+"),
    el("button", { type: "button", class: "cell", "aria-label": "One cell less",
      onclick: () => { symbols.pop(); give(symbols.length + 1); } }, "−"));
  const set = (next, known) => {
    // What is there already stays, and with it the focus.
    if (next.join() === symbols.join() && known.join() === alphabet.join() && element.firstChild) return;
    [symbols, alphabet] = [[...next], known];
    draw();
  };
  return { element, set };
}

export function mount(root, ask, about) {
  let steps = null;
  let machines = null;

  const show = (answer) => {
    steps?.stop();
    machines = answer.machines;
    const own = machines.find(({ name }) => name === answer.machine);
    if (machine.options.length !== machines.length) {
      put(machine, machines.map(({ name }) => el("option", { value: name }, name)));
      machine.value = answer.machine;
    }
    put(says, own.says);
    cells.set(answer.tape, own.alphabet);
    const before = tapes(answer, own.blank);
    const tape = el("div", { class: "turing-tape", role: "img" });
    const spoken = saying();
    const wrote = el("div", { class: "tokens written", tabindex: "0", role: "region", "aria-label": "Words of this step" });
    const amount = el("p", { class: "note" });
    const returned = new Set(answer.returned);
    const rules = table("Its rules, the one that fires marked", ["state", "reads", "writes", "moves", "goes on in"],
      answer.rules.map(([state, read, write, move, next]) => [state, read, write, MOVES[move], next]));
    const rows = [...rules.querySelectorAll("tbody tr")];
    const draw = (step, index) => {
      const head = step?.cell ?? answer.head;
      const state = step?.state ?? answer.state;
      put(tape, [...before[index].keys()].sort((a, b) => a - b).map((cell) => {
        const symbol = before[index].get(cell);
        const classes = ["cell", symbol === own.blank && "blank", cell === head && "head",
          index > 0 && answer.steps[index - 1].cell === cell && "wrote"].filter(Boolean).join(" ");
        return el("span", { class: classes, "data-state": cell === head ? state : null }, symbol);
      }));
      const line = [...before[index].keys()].sort((a, b) => a - b).map((cell) => before[index].get(cell)).join(" ");
      tape.setAttribute("aria-label", `Tape ${line}; the head is at cell ${head}, in state ${state}`);
      put(spoken, step
        ? `In state ${step.state} it reads ${step.read}: writes ${step.write}, ` +
          `${step.move === "S" ? "stays" : `goes ${MOVES[step.move]}`}, and is then in ${step.next}.`
        : `It has halted in state ${state}.`);
      const begin = index > 0 ? answer.steps[index - 1].end : 0;
      const end = step ? step.end : answer.words.length;
      put(wrote, answer.words.slice(begin, end).map((word, place) =>
        el("span", { class: `token${returned.has(begin + place) ? " returned" : ""}` }, word)));
      put(amount, begin === end ? "No words are left to write."
        : `Words ${count(begin + 1)} to ${count(end)} of ${count(answer.words.length)}` +
          (answer.family === "linear-rnn+retrieval" ? "; green ones were pasted back by a search." : "."));
      rows.forEach((row, place) => row.classList.toggle("now",
        step !== null && answer.rules[place][0] === step.state && answer.rules[place][1] === step.read));
    };
    steps = stepper([...answer.steps, null], draw, { label: "step", first: 0, pace: 600 });
    return [
      verdict(answer),
      steps, tape, spoken,
      el("div", { class: "split" },
        el("div", null, el("h2", null, "What the model writes for it"), amount, wrote,
          el("p", { class: "note" }, answer.same
            ? `All ${count(answer.steps.length)} steps are those of the machine itself.`
            : "These are not the steps of the machine itself.")),
        el("div", null, el("h2", null, "The machine"), rules)),
      weights(answer.weights),
    ];
  };

  const question = asking(ask, show);
  const send = () => question.put({ machine: machine.value, family: family.value, tape: input.value });
  const soon = later(send);
  const machine = menu([about.default.machine], about.default.machine, () => {
    input.value = machines?.find(({ name }) => name === machine.value)?.example ?? "";
    send();
  });
  const family = menu(FAMILIES, about.default.family, send);
  const input = el("input", { class: "typed", spellcheck: "false", autocomplete: "off", value: about.default.tape,
    oninput: () => soon() });
  const cells = cellsInput((tape) => { input.value = tape; soon(); });
  const says = el("p", { class: "note" });
  root.append(
    el("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); send(); } },
      field("Machine", machine), field("Model", family),
      field("Tape, at most 10 cells", input), el("button", { class: "primary" }, "Run")),
    el("div", { class: "controls" }, cells.element, says),
    question.element);
  send();
  return () => { soon.stop(); steps?.stop(); };
}
