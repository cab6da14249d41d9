"""Two texts, one state: why a recurrent model that carries too few bits is wrong, shown on itself.

Of more prefixes than a state can tell apart, two end in the same state. From there on the model cannot know
which of them it read, and if the right answers differ behind some suffix, it is wrong on one of the two. The
argument only says that such prefixes exist; `collide` finds them, and hands back the input that the model
gets wrong, with the other one that proves why.

Prefixes come from a reduction: one for each string that Alice may hold, any two of which some question of
Bob's tells apart. They are searched in three ways, each with a share of the budget. Models forget, so strings
come first that differ only at their beginning; then random ones; then all in order of number. If there are
more strings than states and that last share covers one more than there are states, a collision is certain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.communication.problems import Strings
from separatrix.communication.protocols.carriers import Carrier, carrier_of
from separatrix.communication.protocols.packing import RowsWriter
from separatrix.communication.reductions import Reduction, reduction_for
from separatrix.errors import InvalidInput
from separatrix.evidence import Counterexample
from separatrix.models.interface import CausalModel
from separatrix.options import require
from separatrix.randomness import Draws
from separatrix.tasks import Task
from separatrix.tasks.interface import Vectors
from separatrix.tasks.specs import spec_of
from separatrix.witnesses.naming import arithmetic_of, json_of, weights_of

__all__ = ["Collision", "collide"]

Row: TypeAlias = Shaped[Tensor, "pos *width"]
_AT_ONCE: Final = 1 << 12
_EARLY_SIZES: Final = (1 << 6, 1 << 12)
_EARLY_TAILS: Final = 4


@final
@dataclass(frozen=True, kw_only=True)
class Collision:
    """Two inputs that a model cannot tell apart at `cut`, and whose right answers at `place` differ.

    Their tokens from `cut` to `place` are the same, so the model answers both alike there. `tried` counts the
    prefixes that were read before two met.
    """

    task: Task
    first: Row
    second: Row
    cut: int
    place: int
    expected: tuple[Tensor, Tensor]
    answered: Tensor
    state: bytes
    tried: int
    counterexample: Counterexample

    def __str__(self) -> str:
        texts = [self.task.render(row) for row in (self.first, self.second)]
        rights = [self.task.render_target(right) for right in self.expected]
        lines = [
            f"after {self.cut} positions both inputs have led to the same state:",
            *(f"  {text}  (right: {right})" for text, right in zip(texts, rights, strict=True)),
            f"so both get the answer {self.task.render_target(self.answered)}, and one of them is wrong",
        ]
        return "\n".join(lines)


def collide(
    model: CausalModel[Any],
    task: Task,
    *,
    reduction: Reduction[Any] | None = None,
    most: int = 1 << 20,
    seed: int = 0,
) -> Collision | None:
    """Two inputs of the task that prove this model wrong; None if `most` prefixes lead to as many states.

    Prefixes come from the reduction that the task's lower bound rests on, unless another is given.
    """
    reduction = reduction or reduction_for(task)
    require(reduction.task == task, f"The reduction is to {reduction.task}; the task is {task}.")
    cut = _cut_of(reduction)
    require(most >= 2, f"Two prefixes at least must be tried to find two that meet; got most={most}.")
    names = weights_of(model), arithmetic_of(model)
    carrier = carrier_of(model)
    seen: dict[bytes, Int[Tensor, "place"]] = {}
    tried = 0
    for strings in _searched(reduction.problem.alice, most=most, seed=seed):
        states = _states(carrier, reduction.alice(strings))
        tried += len(strings)
        for string, state in zip(strings, states, strict=True):
            other = seen.setdefault(state, string)
            if other is string or torch.equal(other, string):
                continue
            pair = torch.stack([other, string])
            found = _shown(model, reduction, pair, cut=cut, tried=tried, names=names)
            if found is not None:
                return found
    return None


def _cut_of(reduction: Reduction[Any]) -> int:
    """How many positions Alice reads; she must hold a beginning."""
    alice = reduction.partition.alice
    require(
        alice == tuple(range(len(alice))),
        f"A state is carried from a prefix to a suffix, and under {reduction.split} Alice holds no prefix.",
    )
    return len(alice)


def _searched(strings: Strings, *, most: int, seed: int) -> Iterator[Int[Tensor, "batch place"]]:
    """Strings in batches, at most so many in all: early ones, random ones, then all in order."""
    left = most
    for batch in itertools.chain(_early(strings, seed, most // 4), _random(strings, seed, most // 4)):
        left -= len(batch)
        yield batch
    for low in range(0, min(left, strings.count), _AT_ONCE):
        high = min(low + _AT_ONCE, left, strings.count)
        yield strings.decode(torch.arange(low, high))


def _early(strings: Strings, seed: int, most: int) -> Iterator[Int[Tensor, "batch place"]]:
    """All beginnings of a few symbols, then of some more, each time with one random ending."""
    left = most
    for size in _EARLY_SIZES:
        changing = min(strings.length, int(math.log(size, strings.symbols)))
        heads = Strings(length=changing, symbols=strings.symbols)
        if heads.count < 2:  # an alphabet larger than that
            continue
        draws = Draws(seed=seed, stream="pigeonhole", batch=_EARLY_TAILS)
        tails = draws.integers("tail", (strings.length - changing,), strings.symbols)
        for tail in tails:
            if heads.count > left:
                return
            left -= heads.count
            yield torch.cat([heads.all(), tail.expand(heads.count, -1)], dim=1)


def _random(strings: Strings, seed: int, most: int) -> Iterator[Int[Tensor, "batch place"]]:
    for start in range(0, min(most, strings.count), _AT_ONCE):
        batch = min(_AT_ONCE, most - start)
        yield strings.drawn(Draws(seed=seed, stream="pigeonhole", batch=batch, start=start), "string")


def _states(carrier: Carrier, tokens: Shaped[Tensor, "batch pos *width"]) -> list[bytes]:
    """The exact state after each prefix: the bits that would cross the cut."""
    writer = RowsWriter(len(tokens))
    with torch.no_grad():
        carrier.write(carrier.read(tokens), writer, tokens.shape[1])
    return [message.data for message in writer.done()]


def _shown(
    model: CausalModel[Any],
    reduction: Reduction[Any],
    pair: Int[Tensor, "2 place"],
    *,
    cut: int,
    tried: int,
    names: tuple[str, str],
) -> Collision | None:
    """The collision of two strings, run once more side by side; None if it is not seen then.

    A float may come out otherwise in a batch of another size, and then two states met by rounding only.
    """
    task = reduction.task
    question = reduction.problem.apart(pair[:1], pair[1:])
    asked = reduction.inputs(pair, question.expand(2, -1))
    held = _states(carrier_of(model), asked[:, 0, :cut])
    if held[0] != held[1]:
        return None
    for number in range(asked.shape[1]):
        rows = asked[:, number]
        labels = task.solve(rows)
        assert torch.equal(labels.mask[0], labels.mask[1]), "both are asked at the same places"
        differ = (labels.targets[0] != labels.targets[1]).reshape(rows.shape[1], -1).any(1) & labels.mask[0]
        if not bool(differ.any()):
            continue
        place = int(differ.int().argmax())
        assert torch.equal(rows[0, cut : place + 1], rows[1, cut : place + 1]), "Bob's part is one"
        answers = _answers(model, task, rows[:, : place + 1])
        if not torch.equal(answers[0], answers[1]):
            return None
        wrong = 0 if _is_wrong(task, answers[0], labels.targets[0, place]) else 1
        return Collision(
            task=task,
            first=rows[0],
            second=rows[1],
            cut=cut,
            place=place,
            expected=(labels.targets[0, place], labels.targets[1, place]),
            answered=answers[0],
            state=held[0],
            tried=tried,
            counterexample=Counterexample(
                task=spec_of(task),
                input=json_of(rows[wrong]),
                expected=json_of(labels.targets[wrong, place]),
                answered=json_of(answers[wrong]),
                weights_sha256=names[0],
                arithmetic=names[1],
                text=task.render(rows[wrong]),
            ),
        )
    raise InvalidInput(f"{reduction.name} does not tell two of its strings apart.")


def _answers(
    model: CausalModel[Any], task: Task, rows: Shaped[Tensor, "batch pos *width"]
) -> Shaped[Tensor, "batch *out"]:
    """What the model says at the last of these positions: a class, or a vector."""
    with torch.no_grad():
        outputs, _ = model.read(rows, model.start(len(rows)))
    return outputs if isinstance(task.target_space, Vectors) else outputs.argmax(-1)


def _is_wrong(task: Task, answer: Tensor, right: Tensor) -> bool:
    space = task.target_space
    if isinstance(space, Vectors):
        return not bool((answer - right).norm() < space.tolerance)
    return not torch.equal(answer, right)
