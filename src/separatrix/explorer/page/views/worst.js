// The certifier at work: a verdict, what it rests on, and the input that is worst.

import { asking, badge, count, el, facts, field, menu, put, short, table } from "/common.js";
import { choosing } from "/choosing.js";

const TONES = { proved: "good", refuted: "bad", unknown: "plain" };

function worst(answer) {
  const found = answer.worst;
  if (!found) return answer.cases ? null : el("p", { class: "note" }, "No single input is shown for this verdict.");
  const wrong = found.kind === "wrong";
  return [
    el("h2", null, wrong ? "The input that breaks it" : "The tightest input"),
    el("div", { class: "tokens" }, found.words.map((word) => el("span", { class: "token" }, word))),
    facts([
      ["input", el("code", null, found.input)],
      ["right answer", found.expected],
      ["answered", found.answered],
      ["how it was found", wrong
        ? `The weights answer it wrongly${answer.replayed ? "; run once more from the input alone, they do again." : "."}`
        : `Of ${count(found.tried)} inputs, hard ones and random ones, its answer leads by least: ${short(found.margin)}.`],
    ]),
  ];
}

function claims(answer) {
  if (!answer.claims.length) return null;
  return table(answer.verdict === "proved" ? "What the proof rests on" : "What a proof would rest on", ["claim", "must be", "proven to be", "room"],
    answer.claims.map((claim) => [claim.statement, claim.requirement, claim.interval ?? "not proven",
      claim.margin === null ? "–" : short(claim.margin)]));
}

function cases(answer) {
  if (!answer.cases) return null;
  return table("Cases, the tightest first", ["question", "right answer", "verdict", "lead"],
    answer.cases.slice(0, 40).map((each) => [each.query, each.target, each.verdict,
      each.margin === null ? "–" : short(each.margin)]));
}

function drawn(answer) {
  return [
    el("p", null, badge(answer.verdict, TONES[answer.verdict]), ` ${answer.subject}, in ${answer.arithmetic}`),
    answer.reason ? el("p", { class: "note" }, answer.reason) : null,
    worst(answer),
    claims(answer),
    cases(answer),
    facts([["inputs covered", answer.inputs], ["time", `${answer.seconds} s`]]),
    answer.evidence
      ? el("details", null, el("summary", null, "The evidence, as a file has it"),
        el("pre", { tabindex: "0" }, JSON.stringify(answer.evidence, null, 1)))
      : null,
  ];
}

export function mount(root, ask, about) {
  const question = asking(ask, (answer) => {
    choice.offer(answer.witnesses);
    const before = arithmetic.value;
    put(arithmetic, answer.arithmetics.map((name) => el("option", { value: name }, name)));
    arithmetic.value = before;
    return drawn(answer);
  });
  const size = el("input", { type: "number", min: 1, max: 32, value: about.default.n });
  const arithmetic = menu(["as built"], "as built", () => send());
  const strength = el("input", { type: "range", min: 0, max: 100, step: 5, value: about.default.strength,
    oninput: () => put(shown, `${strength.value} %`), onchange: () => send() });
  const shown = el("output", null, `${strength.value} %`);
  const choice = choosing(about, {
    fits: (entry) => !entry.writes,
    fitsRun: () => true,
    onchange: () => { strength.value = 100; put(shown, "100 %"); send(); },
  });
  const changed = [field("Arithmetic", arithmetic), field("Strength of the queries", el("span", null, strength, " ", shown))];
  const send = () => {
    const chosen = choice.payload();
    for (const each of changed) each.hidden = Boolean(chosen.run);
    question.put(chosen.run ? chosen
      : { ...chosen, n: Number(size.value), arithmetic: arithmetic.value, strength: Number(strength.value) });
  };
  root.append(
    el("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); send(); } },
      field("Weights", choice.element), field("n", size), changed, el("button", { class: "primary" }, "Certify")),
    question.element);
  send();
}
