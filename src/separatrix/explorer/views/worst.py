"""The certifier's worst input: prove weights right on every input, or show the one that breaks them.

A witness may be asked to compute with coarser numbers than it was built for, or with queries that were made
weaker; it then fails somewhere, and where is what one sees. A trained model with one layer of attention gets
a verdict for every question; any other is attacked.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.certificates import break_model, certify, replay
from separatrix.certificates.suspects import suspects
from separatrix.errors import InvalidInput
from separatrix.evidence import Case, Certificate, Counterexample
from separatrix.explorer.folder import Folder
from separatrix.explorer.opening import TrainedRun, opened_run, opened_witness
from separatrix.explorer.view import Deadline, View, chosen, number_in, only, text_in
from separatrix.explorer.views._named import LARGEST, named, offered, words_of
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.transformer import Transformer
from separatrix.precision import name_of, system_named
from separatrix.records import JsonValue, freeze
from separatrix.tasks import Classes, Reals, Task
from separatrix.witnesses.witness import Witness

__all__ = ["VIEW"]

_CHOICES: Final = offered("transformer-1", "transformer-2", "transformer-3", "transformer", "rnn")
_AS_BUILT: Final = "as built"
_ARITHMETICS: Final = (
    _AS_BUILT,
    "float32",
    *(f"nearest:{bits}" for bits in (5, 7, 9, 11, 13, 17, 21, 33)),
    "down:8,1",
    "down:16,2",
)
_TRIED: Final = 256
_MOST_CASES: Final = 400
_RESERVED: Final = 0.3
"""Of the time for an answer: when so much is left, what is known of a trained model is shown."""
_NO_BOUND: Final = -1e29
"""Below this a margin says that nothing was bounded."""


class _EnoughTime(Exception):
    """So much is settled, and now it has to be shown."""


def _answer(asked: dict[str, object], folder: Folder, deadline: Deadline) -> dict[str, object]:
    only(asked, "witness", "path", "run", "n", "arithmetic", "strength")
    menus: dict[str, object] = {
        "witnesses": [each.name for each in _CHOICES],
        "arithmetics": list(_ARITHMETICS),
    }
    if "run" in asked:
        path, key = text_in(asked, "path", longest=400), text_in(asked, "run", longest=64)
        return menus | _of_run(opened_run(folder, path, key), deadline)
    if "path" in asked:
        witness = opened_witness(folder, text_in(asked, "path", longest=400))
    else:
        choice = named(asked, _CHOICES)
        witness = choice.built(choice.task(number_in(asked, "n", least=1, most=LARGEST, default=8)))
    return menus | _of_witness(_changed(witness, asked), deadline)


def _changed(witness: Witness, asked: Mapping[str, object]) -> Witness:
    """The same weights in other numbers, or with the queries of every head made weaker."""
    model: ExplicitModel = witness.model
    strength = number_in(asked, "strength", least=0, most=100, default=100)
    if strength != 100:
        model = _weaker(model, strength / 100)
    arithmetic = chosen(asked, "arithmetic", _ARITHMETICS, default=_AS_BUILT)
    if arithmetic != _AS_BUILT:
        model = model.with_arithmetic(system_named(arithmetic))
    return dataclasses.replace(witness, model=model)


def _weaker(model: ExplicitModel, factor: float) -> ExplicitModel:
    if not isinstance(model, Transformer):
        raise InvalidInput("Only the queries of a Transformer can be made weaker; leave the strength at 100.")
    layers = []
    for layer in model.layers:
        heads = [
            dataclasses.replace(head, query=head.query * factor) if isinstance(head, Head) else head
            for head in layer.heads
        ]
        layers.append(dataclasses.replace(layer, heads=tuple(heads)))
    return dataclasses.replace(model, layers=tuple(layers))


def _of_witness(witness: Witness, deadline: Deadline) -> dict[str, object]:
    started = time.monotonic()
    found = certify(witness)
    deadline.check()
    counterexample = found.counterexample
    replayed = replay(witness, counterexample) if counterexample is not None else None
    shown = _broken(witness.task, counterexample) if counterexample is not None else _tightest(witness)
    return {
        "subject": f"{witness.task.name} with n={witness.task.n} by {witness.family}",
        "arithmetic": name_of(witness.arithmetic),
        "verdict": found.verdict,
        "reason": found.reason,
        "inputs": str(found.inputs),
        "claims": _claims(found),
        "worst": shown,
        "replayed": replayed,
        "evidence": found.to_json() if counterexample is None else counterexample.to_json(),
        "seconds": round(time.monotonic() - started, 2),
    }


def _claims(found: Certificate) -> list[dict[str, object]]:
    """What was to be proven, and by how much it holds."""
    return [
        {
            "name": claim.name,
            "statement": claim.statement,
            "requirement": claim.requirement,
            "interval": None if claim.interval is None else str(claim.interval),
            "margin": None if claim.margin is None else float(claim.margin),
        }
        for claim in found.claims
    ]


def _broken(task: Task, found: Counterexample) -> dict[str, object]:
    row = _tensor(task, found.input)
    text = found.text or task.render(row)
    return _wrong(task, row, text, expected=found.expected, answered=found.answered)


def _wrong(
    task: Task, row: Shaped[Tensor, "pos *width"], text: str, *, expected: JsonValue, answered: JsonValue
) -> dict[str, object]:
    return {
        "kind": "wrong",
        "input": text,
        "words": words_of(task, row),
        "expected": _in_words(task, expected),
        "answered": _in_words(task, answered),
        "margin": None,
        "tried": None,
    }


def _tightest(witness: Witness) -> dict[str, object] | None:
    """Of inputs made to be hard and some random ones, the one that is answered by the least lead."""
    model, task = witness.model, witness.task
    if not isinstance(task.target_space, Classes) or witness.script is not None:
        return None
    by_hand, drawn = suspects(task, _TRIED), task.full_length().sample(_TRIED, seed=0).inputs
    rows = drawn if by_hand is None else torch.cat([by_hand, drawn])
    labels = task.solve(rows)
    scores = model.forward(rows)
    right = scores.gather(2, labels.targets.clamp(min=0).unsqueeze(2)).squeeze(2)
    rivals = scores.scatter(2, labels.targets.clamp(min=0).unsqueeze(2), -torch.inf).amax(2)
    leads = torch.where(labels.mask, right - rivals, torch.inf).amin(1)
    worst = int(leads.argmin())
    row = rows[worst]
    expected = labels.targets[worst][labels.mask[worst]]
    answered = scores[worst][labels.mask[worst]].argmax(1)
    return {
        "kind": "tightest",
        "input": task.render(row),
        "words": words_of(task, row),
        "expected": " ".join(task.render_target(each) for each in expected),
        "answered": " ".join(task.render_target(each) for each in answered),
        "margin": round(float(leads[worst]), 6),
        "tried": len(rows),
    }


def _of_run(trained: TrainedRun, deadline: Deadline) -> dict[str, object]:
    task, run = trained.task, trained.run
    about: dict[str, object] = {
        "subject": f"run {run.short}: {task.name} with n={task.n}",
        "claims": [],
        "replayed": None,
    }
    started = time.monotonic()
    cases: list[Case] = []
    reserve = deadline.left * _RESERVED

    def settled(case: Case) -> None:
        cases.append(case)
        if deadline.left <= reserve:
            raise _EnoughTime

    evidence: dict[str, object] | None = None
    complete = True
    try:
        found = certify(trained.population, task, observer=settled)
        evidence = None if found.counterexample is None else found.counterexample.to_json()
    except _EnoughTime:
        complete = False
    except InvalidInput as refusal:
        return about | _attacked(trained, refusal, deadline)
    return about | {
        "arithmetic": _kind(trained),
        **_of_cases(task, cases, complete=complete),
        "evidence": evidence,
        "seconds": round(time.monotonic() - started, 2),
    }


def _kind(trained: TrainedRun) -> str:
    """The numbers in which a trained model computes."""
    return "float64" if next(trained.population.parameters()).dtype == torch.float64 else "float32"


def _attacked(trained: TrainedRun, refusal: InvalidInput, deadline: Deadline) -> dict[str, object]:
    """What cannot be proved can be attacked."""
    started = time.monotonic()
    broken = break_model(trained.population, trained.task, budget=max(0.5, deadline.left / 2), samples=_TRIED)
    first = broken.counterexamples[0] if broken.counterexamples else None
    return {
        "arithmetic": broken.arithmetic,
        "verdict": "refuted" if broken.broken else "unknown",
        "reason": f"{refusal} So it was attacked with {broken.tried:,} inputs.",
        "inputs": f"{broken.tried:,} inputs tried",
        "worst": None if first is None else _broken(trained.task, first),
        "evidence": broken.to_json(),
        "seconds": round(time.monotonic() - started, 2),
    }


def _of_cases(task: Task, cases: list[Case], *, complete: bool) -> dict[str, object]:
    """What the cases say together; one that is broken breaks the model, all have to be proved to prove it."""
    count = Counter(case.verdict for case in cases)
    refuted = next((case for case in cases if case.verdict == "refuted"), None)
    proved = complete and count["proved"] == len(cases)
    reason = f"{count['proved']:,} cases proved, {count['refuted']:,} broken, {count['unknown']:,} unknown."
    if not complete:
        reason += " There was no time for the others; `separatrix certify` takes as long as it needs."
    which = "every question with every right answer" if complete else "questions with one right answer each"
    return {
        "verdict": "refuted" if refuted is not None else "proved" if proved else "unknown",
        "reason": reason,
        "inputs": f"{len(cases):,} cases: {which}",
        "worst": None if refuted is None else _broken_case(task, refuted),
        "cases": [_case(each) for each in sorted(cases, key=lambda case: case.margin)[:_MOST_CASES]],
    }


def _broken_case(task: Task, case: Case) -> dict[str, object]:
    """The input of a refuted case, which the model itself answered wrongly."""
    row = _tensor(task, case.input)
    right = task.solve(row.unsqueeze(0)).targets[0, case.asked]
    return _wrong(task, row, task.render(row), expected=freeze(right.tolist()), answered=case.answered)


def _case(case: Case) -> dict[str, object]:
    """A case; without a bound worth the name it has no margin."""
    margin = case.margin if case.margin > _NO_BOUND else None
    return {"query": case.query, "target": case.target, "verdict": case.verdict, "margin": margin}


def _tensor(task: Task, numbers: JsonValue) -> Shaped[Tensor, "pos *width"]:
    kind = torch.float32 if isinstance(task.input_space, Reals) else torch.int64
    return torch.tensor(numbers, dtype=kind)


def _in_words(task: Task, answers: JsonValue) -> str:
    given = answers if isinstance(answers, tuple) else (answers,)
    space = task.target_space
    if not isinstance(space, Classes):
        rows = given if given and isinstance(given[0], tuple) else (given,)
        return " ".join(f"({', '.join(f'{number:.4g}' for number in row)})" for row in rows)  # type: ignore
    words = []
    for one in given:
        known = isinstance(one, int) and 0 <= one < space.size
        words.append(task.render_target(torch.tensor(one)) if known else f"class {one}")
    return " ".join(words)


VIEW: Final = View(
    name="worst",
    title="Worst input",
    says="Proved on every input, or the input that breaks it: the certifier on coarse or weak weights.",
    default={"witness": "index-lookup · transformer-1", "n": 8, "strength": 40},
    answer=_answer,
)
