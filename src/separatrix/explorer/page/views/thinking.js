// A graph that is drawn, and the walk that a model writes down before it says whether it is a tree.

import { asking, el, field, menu, put, stepper } from "/common.js";
import { graphBoard } from "./graph_board.js";
import { later, saying, tape, verdict, weights } from "./written.js";

const FAMILIES = [
  ["transformer-cot", "Transformer, nine layers"],
  ["hybrid-cot", "linear RNN with one attention layer"],
];

// What the drawing shows after so many words: where the walk stands, whom it has met, by which edges.
function marksAt(answer, upto) {
  const met = new Set();
  const used = [];
  let at = null;
  for (const step of answer.steps.slice(0, upto)) {
    if (step.at !== null && step.at !== at) {
      if (at !== null && !met.has(step.at)) used.push([at, step.at]);
      met.add(step.at);
      at = step.at;
    }
  }
  return { at, met, used, looks: answer.steps[upto - 1]?.looks ?? null };
}

export function mount(root, ask, about) {
  let steps = null;
  const show = (answer) => {
    steps?.stop();
    steps = null;
    if (!answer.asked) return [verdict(answer), el("p", null, answer.says)];
    const given = answer.prompt.length;
    const text = tape([...answer.prompt, ...answer.steps.map((step) => step.word)],
      (place) => (place < given ? "given" : ""));
    const says = saying();
    const result = el("div", { class: "verdict-place" });
    const draw = (step, index) => {
      text.show(given + index + 1);
      put(says, step.says);
      board.mark(marksAt(answer, index + 1));
      result.classList.toggle("hushed", index + 1 < answer.steps.length);
    };
    put(result, verdict(answer));
    // The box has to be in the page before its newest word can be brought into sight.
    steps = stepper(answer.steps, draw, { label: "word", first: answer.steps.length - 1 });
    requestAnimationFrame(() => text.show(answer.steps.length + given));
    return [steps, says, text, result, weights(answer.weights)];
  };
  const question = asking(ask, show);
  const send = () => question.put({ family: family.value, ...board.graph() });
  const soon = later(send);
  const board = graphBoard({
    graph: { vertices: about.default.vertices, edges: about.default.edges }, most: 12,
    onchange: () => { steps?.stop(); soon(); },
  });
  const family = menu(FAMILIES, about.default.family, send);
  root.append(el("div", { class: "watch" },
    el("section", { class: "watch-drawing", "aria-label": "The graph" }, board.drawing),
    el("section", { class: "watch-result", "aria-label": "The chain of thought" },
      el("div", { class: "controls" }, field("Model", family)), question.element),
    el("section", { class: "watch-tools", "aria-label": "Changing the graph" }, board.tools)));
  send();
  return () => { soon.stop(); steps?.stop(); };
}
