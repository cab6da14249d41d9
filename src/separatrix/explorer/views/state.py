"""The state of a recurrent model in bits, token by token, and how many bits a bound says it must have.

A witness whose state holds only zeros and ones is shown as it is. The numbers of a trained model are rounded
to a few bits each after every token, and it goes on from the rounded state: what one sees is all it carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from separatrix.communication import bounds_for
from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.evidence import Bound
from separatrix.explorer.folder import Folder
from separatrix.explorer.opening import TrainedRun, opened_run, opened_witness
from separatrix.explorer.view import Deadline, View, number_in, only, text_in
from separatrix.explorer.views._named import LARGEST, input_for, named, offered, text_for, words_of
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.interface import CausalModel
from separatrix.models.quantised import Quantised
from separatrix.tasks import Classes, Task, Tokens
from separatrix.witnesses.witness import Witness

__all__ = ["VIEW"]

_CHOICES: Final = tuple(each for each in offered("rnn") if not each.entry.variant)
_MOST_BITS: Final = 4096
_MOST_LENGTH: Final = 160


def _answer(asked: dict[str, object], folder: Folder, deadline: Deadline) -> dict[str, object]:
    only(asked, "witness", "path", "run", "bits", "n", "input", "seed")
    if "run" in asked:
        path, key = text_in(asked, "path", longest=400), text_in(asked, "run", longest=64)
        about = _of_run(opened_run(folder, path, key), asked, deadline)
    elif "path" in asked:
        witness = opened_witness(folder, text_in(asked, "path", longest=400))
        about = _of_witness(witness, input_for(asked, witness.task), deadline)
    else:
        choice = named(asked, _CHOICES)
        task, text = text_for(asked, choice)
        about = _of_witness(choice.built(task), text, deadline)
    return {"witnesses": [each.name for each in _CHOICES], **about}


def _of_witness(witness: Witness, text: str, deadline: Deadline) -> dict[str, object]:
    model, task = witness.model, witness.task
    if not isinstance(model, RecurrentModel) or set(model.binary) != {
        each.name for each in model.state.fields
    }:
        raise InvalidInput(
            "This view shows recurrent witnesses whose state is zeros and ones; choose another."
        )
    if model.state.width > _MOST_BITS:
        raise InvalidInput(f"This view shows {_MOST_BITS} bits; this state has {model.state.width}.")
    row = _row(task, text)
    state, frames, scores = model.start(1), [], []
    for place in range(len(row)):
        deadline.check()
        output, state = model.step(row[place : place + 1], state)
        scores.append(output[0])
        numbers = model.arithmetic.decode_float64(state)[0]
        frames.append("".join("1" if number > 0.5 else "0" for number in numbers.tolist()))
    return {
        **_about(task, row, text, torch.stack(scores)),
        "fields": [{"name": each.name, "bits": each.numbers} for each in model.state.fields],
        "frames": frames,
        "carried": model.state.width,
        "source": f"{witness.theorem}: {task.name} by {witness.family}",
        "rounded": None,
    }


def _of_run(trained: TrainedRun, asked: Mapping[str, object], deadline: Deadline) -> dict[str, object]:
    """A trained model, its state rounded; the reach is as far as its own state goes on this input."""
    bits = number_in(asked, "bits", least=1, most=8, default=4)
    task, text = trained.task, input_for(asked, trained.task)
    member = trained.population.member(0)
    if not isinstance(member, CausalModel):
        raise InvalidInput("This view shows models that read token by token; this run's model does not.")
    model = member
    row = _row(task, text)
    if _grows(model, task):
        raise InvalidInput("What this model carries grows with every token; this view shows a fixed state.")
    with torch.no_grad():
        reach = max(_reach(model, row), 1e-6)
        rounded = Quantised(model, bits=bits, reach=reach)
        state, frames, scores = rounded.start(1), [], []
        for place in range(len(row)):
            deadline.check()
            output, state = rounded.step(row[place : place + 1], state)
            scores.append(output[0].double())
            numbers = _numbers(state)
            if numbers.numel() * bits > _MOST_BITS:
                raise InvalidInput(
                    f"This view shows {_MOST_BITS} bits; this state has {numbers.numel()} numbers. Take "
                    "fewer bits a number, or a smaller model."
                )
            frames.append(_bits(numbers, bits, reach))
    width = len(frames[0]) // bits
    return {
        **_about(task, row, text, torch.stack(scores)),
        "fields": [{"name": f"{width} numbers of {bits} bits", "bits": width * bits}],
        "frames": frames,
        "carried": width * bits,
        "source": f"run {trained.run.short}, right on {100 * (trained.run.accuracy or 0):.1f} % of inputs",
        "rounded": {"bits": bits, "reach": round(reach, 4), "numbers": width},
    }


def _row(task: Task, text: str) -> Int[Tensor, "pos"]:
    if not isinstance(task.input_space, Tokens) or not isinstance(task.target_space, Classes):
        raise InvalidInput("This view shows tasks whose inputs are tokens and whose answers are classes.")
    if task.length > _MOST_LENGTH or task.n > LARGEST:
        raise InvalidInput(f"This view shows inputs with n up to {LARGEST}; this task has n={task.n}.")
    row = task.parse(text)
    task.check(row)
    return row[row != task.input_space.pad] if task.input_space.pad is not None else row


def _about(
    task: Task, row: Int[Tensor, "pos"], text: str, scores: Float[Tensor, "pos out"]
) -> dict[str, object]:
    """The input, what is answered where something is asked, and what must be carried."""
    labels = task.solve(_padded(task, row).unsqueeze(0))
    places = [int(place) for place in labels.mask[0].nonzero().flatten() if place < len(row)]
    found = [int(scores[place, : task.target_space.size].argmax()) for place in places]  # type: ignore[union-attr]
    wanted = [int(labels.targets[0, place]) for place in places]
    return {
        "task": task.name,
        "n": task.n,
        "input": text,
        "words": words_of(task, row),
        "asked_at": places,
        "answer": " ".join(task.render_target(torch.tensor(each)) for each in found),
        "expected": " ".join(task.render_target(torch.tensor(each)) for each in wanted),
        "right": found == wanted,
        "bound": _bound(task),
    }


def _padded(task: Task, row: Int[Tensor, "pos"]) -> Int[Tensor, "length"]:
    space = task.input_space
    assert isinstance(space, Tokens)
    filler = row.new_full((task.length - len(row),), 0 if space.pad is None else space.pad)
    return torch.cat([row, filler])


def _bound(task: Task) -> dict[str, object] | None:
    """The largest number of bits that a theorem says every recurrent model must carry for this task."""
    try:
        found = bounds_for(task, family="rnn")
    except SeparatrixError:
        return None
    in_bits = [each for each in found if each.quantity == "state bits" and each.at_least is not None]
    if not in_bits:
        return None
    best = max(in_bits, key=_at_least)
    return {
        "at_least": float(_at_least(best)),
        "theorem": best.theorem,
        "formula": best.formula,
        "via": None if best.via is None else str(best.via),
    }


def _at_least(bound: Bound) -> Fraction:
    return Fraction(bound.at_least or 0)


def _grows(model: CausalModel[Any], task: Task) -> bool:
    size = model.size(task.length, 32)
    return any(part.bits_per_position for part in size.state)


def _reach(model: CausalModel[Any], row: Int[Tensor, "pos"]) -> float:
    state, largest = model.start(1), 0.0
    for place in range(len(row)):
        _, state = model.step(row[place : place + 1], state)
        numbers = _numbers(state)
        largest = max(largest, float(numbers.abs().max()) if numbers.numel() else 0.0)
    return largest


def _numbers(state: object) -> Float[Tensor, "number"]:
    """Every number of a state, in order."""
    if isinstance(state, Tensor):
        return state.double().flatten() if state.is_floating_point() else torch.zeros(0, dtype=torch.float64)
    if isinstance(state, list | tuple):
        parts = [_numbers(part) for part in state]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)
    return torch.zeros(0, dtype=torch.float64)


def _bits(numbers: Shaped[Tensor, "number"], bits: int, reach: float) -> str:
    """The point of the grid that each number is, in binary."""
    steps = (1 << bits) - 1
    points = ((numbers / reach + 1) / 2 * steps).round().clamp(0, steps).long()
    return "".join(format(int(point), f"0{bits}b") for point in points)


VIEW: Final = View(
    name="state",
    title="State in bits",
    says="What a recurrent model remembers after each token, bit by bit, and how much it must remember.",
    default={"witness": "dyck · rnn", "n": 12, "input": "([]())[()][]"},
    answer=_answer,
)
