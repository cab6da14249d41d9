"""What every witness is held to: right answers on all inputs, and evaluators that agree."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from fractions import Fraction

import torch
from torch import Tensor

from separatrix.certificates.exhaustive import first_wrong, wrong_rows
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.reading import model_from
from separatrix.precision import NumberSystem
from separatrix.tasks import Task
from separatrix.witnesses import Witness
from separatrix.witnesses.language import Symbolic
from separatrix.witnesses.language.exact import ExactReals

__all__ = [
    "evaluators_agree",
    "mutations",
    "rebuilt",
    "right_on_every_input",
    "right_on_samples",
    "wrong_answers",
]


def wrong_answers(model: ExplicitModel, task: Task, rows: Tensor) -> int:
    """How many rows are answered wrongly."""
    return int(wrong_rows(model, task, rows).sum())


def right_on_every_input(witness: Witness, system: NumberSystem | None = None) -> bool:
    """Every input of the task, in the witness's arithmetic or another."""
    model = witness.model if system is None else witness.model.with_arithmetic(system)
    return first_wrong(model, witness.task, witness.task.enumerate(), witness.script) is None


def right_on_samples(witness: Witness, *, count: int, seed: int = 0) -> bool:
    """Random inputs of all lengths and of the full one."""
    tasks = (witness.task, witness.task.full_length())
    batches = (each.sample(count, seed=seed + i).inputs for i, each in enumerate(tasks))
    return first_wrong(witness.model, witness.task, batches, witness.script) is None


def evaluators_agree(witness: Witness, row: Tensor, *, within: float = 1e-9) -> bool:
    """What the program means, what it computes on the reals, and what the tensors give, on one input.

    The tensors must lie within rounding of the reals everywhere; the meaning must choose the same class
    wherever the task asks for an answer.
    """
    built, task = witness.built, witness.task
    assert built is not None
    labels = task.solve(row.unsqueeze(0))
    symbolic = Symbolic().outputs(built.program, row)
    reals = ExactReals(built.scales).outputs(built.program, row)
    tensors = built.model.forward(row.unsqueeze(0))[0]
    for place, (meant, real) in enumerate(zip(symbolic, reals, strict=True)):
        for ball, number in zip(real, tensors[place].tolist(), strict=True):
            if abs(float(ball.mid()) - number) > within + float(ball.rad()):
                return False
        if not bool(labels.mask[0, place]):
            continue
        if any(score is None for score in meant):
            return False
        scores = [score for score in meant if score is not None]
        if built.model.classes is not None:
            best = max(range(len(scores)), key=lambda i: (scores[i], -i))
            if best != int(labels.targets[0, place]):
                return False
        else:
            wanted = labels.targets[0, place].tolist()
            gap = max(abs(score - Fraction(x)) for score, x in zip(scores, wanted, strict=True))
            if gap > Fraction(1, 10**6):
                return False
    return True


def rebuilt(witness: Witness, tensors: dict[str, Tensor]) -> Witness:
    """The same witness with other weights."""
    import dataclasses

    model = model_from(witness.model.spec(), tensors).with_arithmetic(witness.arithmetic)
    return dataclasses.replace(witness, model=model, built=None)


def mutations(witness: Witness, *, every: int = 1) -> Iterator[tuple[str, Witness]]:
    """Single weights changed: negated, scaled, raised, or swapped with their neighbour; each `every`-th."""
    original = {name: tensor.clone() for name, tensor in witness.model.tensors().items()}
    count = 0
    for name, tensor in original.items():
        flat = tensor.reshape(-1)
        for place in range(flat.numel()):
            for kind in ("negate", "double", "raise", "swap"):
                count += 1
                if count % every:
                    continue
                changed = flat.clone()
                if kind == "negate":
                    changed[place] = -changed[place]
                elif kind == "double":
                    changed[place] = changed[place] * 2
                elif kind == "raise":
                    changed[place] = changed[place] + 1
                else:
                    other = (place + 1) % flat.numel()
                    changed[[place, other]] = changed[[other, place]]
                if torch.equal(changed, flat):
                    continue
                tensors = copy.copy(original)
                tensors[name] = changed.reshape(tensor.shape)
                yield f"{kind} {name}[{place}]", rebuilt(witness, tensors)
