// A linear RNN that searches its own text: each pattern it writes, what the pattern matches, and its state.

import { asking, el, field, menu, put, stepper } from "/common.js";
import { graphBoard } from "./graph_board.js";
import { later, saying, sight, verdict, weights } from "./written.js";

const TASKS = [
  ["associative-recall", "associative recall: a key once more"],
  ["index-lookup", "index lookup: the p-th word"],
  ["c-gram", "c-gram: what followed these two"],
  ["counting", "counting: more than k times?"],
  ["is-tree", "is-tree: a graph, drawn"],
];
const GRAPH = { vertices: 4, edges: [[1, 3], [2, 3], [1, 4]] };

// The search that is being written, or has just been answered, once so many words stand there.
function searchAt(answer, upto) {
  return answer.searches.find(({ start, end }) => start < upto && upto <= end + 2) ?? null;
}

// The words up to a place; the match of a search and its group are marked in the text before it.
function textUpto(answer, upto, search) {
  const closed = search !== null && upto > search.end;
  const [from, to] = closed && search.match ? search.match : [-1, -1];
  const [first, last] = closed && search.group ? search.group : [-1, -1];
  const returned = new Set(answer.returned.map((place) => place + answer.prompt));
  const inside = (place) => answer.searches.find(({ start, end }) => start <= place && place <= end);
  const pieces = [];
  let offset = 0;
  answer.words.slice(0, upto).forEach((word, place) => {
    const spaced = `${word} `;
    const owner = inside(place);
    const kind = owner === undefined ? (returned.has(place) ? "pasted" : "") : owner === search ? "open" : "asked";
    // A word is cut where a mark begins or ends in it.
    const cuts = [0, ...[from, to, first, last].map((at) => at - offset)
      .filter((at) => at > 0 && at < spaced.length).sort((a, b) => a - b), spaced.length];
    const parts = cuts.slice(1).map((end, index) => {
      const [begin, at] = [cuts[index], offset + cuts[index]];
      const piece = spaced.slice(begin, end);
      if (at >= first && at < last) return el("mark", { class: "group" }, piece);
      return at >= from && at < to ? el("mark", null, piece) : piece;
    });
    pieces.push(kind ? el("span", { class: kind }, parts) : parts);
    offset += spaced.length;
  });
  return pieces;
}

function asked(search, upto) {
  if (search === null) return el("p", { class: "note" }, "No search is open.");
  const result = upto <= search.end ? "being written …"
    : search.match === null ? el("span", { class: "missed" }, "FAILED: nothing matches")
      : upto <= search.end + 1 ? "searched" : ["found ", el("span", { class: "found" }, search.result), ", pasted back"];
  return [el("p", null, search.asks), el("p", null, el("code", null, search.pattern)), el("p", { class: "note" }, result)];
}

function registers(answer, numbers) {
  let from = 0;
  return answer.registers.map(({ name, size, kinds }) => {
    const own = numbers.slice(from, from + size);
    from += size;
    const cells = own.map((number) => {
      const word = kinds ? answer.kinds[number] || "·" : String(number);
      return el("span", { class: `token${number === 0 ? " none" : ""}`, title: word }, word);
    });
    return el("div", { class: "register" }, el("span", { class: "register-name" }, name), cells);
  });
}

// Where the walk through a graph stands after so many written words, and by which edges it came.
function marksAt(answer, count) {
  const met = new Set();
  const used = [];
  let at = null;
  for (const [place, vertex] of answer.walk) {
    if (place >= count) break;
    if (at !== null && !met.has(vertex)) used.push([at, vertex]);
    met.add(vertex);
    at = vertex;
  }
  return { at, met, used };
}

export function mount(root, ask, about) {
  let steps = null;
  let bySearch = null; // as the reader has chosen, else where there are many
  let board = null;

  const show = (answer) => {
    steps?.stop();
    steps = null;
    if (answer.text !== undefined) input.value = answer.text;
    examples = answer.examples;
    if (!answer.asked) return [verdict(answer), el("p", null, answer.says)];
    const total = answer.words.length - answer.prompt;
    const text = el("div", { class: "reading", tabindex: "0", role: "region", "aria-label": "The text" });
    const says = saying();
    const search = el("div", { class: "search" });
    const state = el("div", { class: "registers" });
    const result = el("div", null, verdict(answer));
    const draw = (written) => {
      const upto = answer.prompt + written;
      const current = searchAt(answer, upto);
      put(text, textUpto(answer, upto, current));
      put(search, asked(current, upto));
      put(says, spoken(answer, written, current));
      put(state, registers(answer, answer.states[written - 1]));
      result.classList.toggle("hushed", written < total);
      if (answer.walk.length && board) board.mark(marksAt(answer, written));
      const seen = text.querySelector("mark.group") ?? text.lastElementChild;
      if (seen) sight(text, seen);
    };
    const place = el("div");
    const restep = (searches) => {
      steps?.stop();
      const each = Array.from({ length: total }, (_, word) => word + 1);
      const ends = answer.searches.map(({ end }) => end + 2 - answer.prompt);
      const frames = searches ? [...ends.filter((word) => word < total), total] : each;
      steps = stepper(frames, draw, { label: searches ? "search" : "word",
        first: searches ? 0 : Math.max(0, frames.length - 2) });
      put(place, steps);
    };
    const many = bySearch ?? answer.searches.length > 1;
    const choice = el("input", { type: "checkbox", checked: many,
      onchange: () => { bySearch = choice.checked; restep(choice.checked); } });
    restep(many);
    const count = answer.states[0]?.length ?? 0;
    return [
      place,
      el("label", { class: "check" }, choice, " search by search"),
      el("div", { class: "split" },
        el("div", null, says, text, search, result),
        el("div", null,
          el("h2", null, "All that the model carries"),
          el("p", { class: "note" }, `${count} whole numbers, however long the text is; the newest stands first.`),
          state)),
      weights(answer.weights),
    ];
  };
  const spoken = (answer, written, search) => {
    const word = answer.words[answer.prompt + written - 1];
    if (answer.returned.includes(written - 1)) {
      return word === "FAILED" ? "Nothing matches: FAILED is pasted back." : `The search returns ${word}.`;
    }
    if (written === answer.words.length - answer.prompt) return `It answers ${word}.`;
    return search === null ? `It writes ${word}.` : "It writes a pattern, piece by piece.";
  };

  let examples = { [about.default.task]: about.default.text };
  const question = asking(ask, show);
  const send = () => {
    const chosen = task.value;
    question.put(chosen === "is-tree" ? { task: chosen, ...board.graph() } : { task: chosen, text: input.value });
  };
  const soon = later(send);
  const drawing = el("section", { class: "watch-drawing", "aria-label": "The graph" });
  const tools = el("section", { class: "watch-tools", "aria-label": "Changing the graph" });
  const changed = () => {
    steps?.stop();
    const graph = task.value === "is-tree";
    typed.hidden = graph;
    bySearch = null;
    layout.classList.toggle("single", !graph);
    if (graph && board === null) {
      board = graphBoard({ graph: GRAPH, most: 8, onchange: () => { steps?.stop(); soon(); } });
      put(drawing, board.drawing);
      put(tools, board.tools);
    }
    if (!graph) input.value = examples[task.value] ?? input.value;
    for (const part of [drawing, tools]) part.hidden = !graph;
    send();
  };
  const task = menu(TASKS, about.default.task, changed);
  const input = el("input", { class: "typed", spellcheck: "false", autocomplete: "off", value: about.default.text });
  const typed = el("div", { class: "controls grow" },
    el("label", { class: "field wide" }, el("span", { class: "field-label" }, "Input, 3 to 24 words"), input),
    el("button", { class: "primary" }, "Look"));
  const layout = el("div", { class: "watch" }, drawing,
    el("section", { class: "watch-result", "aria-label": "The text and its searches" }, question.element), tools);
  root.append(
    el("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); send(); } }, field("Task", task), typed),
    layout);
  changed();
  return () => { soon.stop(); steps?.stop(); };
}
