// What the views have in common in which a model writes: the words one after another, the verdict, the weights.

import { badge, count, el, facts } from "/common.js";

export function verdict({ answer, oracle }) {
  const right = answer === oracle;
  return el("p", { class: "verdict" }, "It answers ", el("b", null, answer ?? "nothing"), ", the oracle ",
    el("b", null, oracle), ". ", badge(right ? "right" : "wrong", right ? "good" : "bad"));
}

export function weights(about) {
  const heads = about.heads ? `, ${count(about.heads)} ${about.heads === 1 ? "head" : "heads"}` : "";
  return el("details", { class: "weights" }, el("summary", null, `The weights: ${about.theorem}, ${about.family}`),
    facts([
      ["theorem", about.statement],
      ["size", `${count(about.layers)} layers, width ${count(about.width)}${heads}, ` +
        `${count(about.parameters)} numbers in ${about.arithmetic}`],
    ]));
}

// Words as tokens. show(upto) writes the first so many and hides the rest where they will stand; the newest
// one is marked and brought into sight within its box.
export function tape(words, classes = () => "") {
  const tokens = words.map((word, place) => el("span", { class: `token ${classes(place)}` }, word));
  const element = el("div", { class: "tokens written", tabindex: "0", role: "region", "aria-label": "The text" }, tokens);
  element.show = (upto) => {
    tokens.forEach((token, place) => {
      token.classList.toggle("later", place >= upto);
      token.classList.toggle("here", place === upto - 1);
    });
    const newest = tokens[upto - 1];
    if (newest) sight(element, newest);
  };
  return element;
}

// Scroll a box, and nothing around it, so that a part of it can be seen.
export function sight(box, part) {
  const [outer, inner] = [box.getBoundingClientRect(), part.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    box.scrollTop += inner.top - outer.top - outer.height / 3;
  }
}

// A line that says what the current step means; screen readers hear it.
export function saying() {
  return el("p", { class: "saying", "aria-live": "polite" });
}

// Ask only when nothing has changed for a moment.
export function later(act, pause = 250) {
  let timer = null;
  const wait = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), pause);
  };
  wait.stop = () => clearTimeout(timer);
  return wait;
}
