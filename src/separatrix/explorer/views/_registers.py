"""The state of a linear RNN in words: which register holds which numbers, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from separatrix.explorer.view import Deadline
from separatrix.models.explicit.linear_rnn import LinearRNN
from separatrix.tasks.vocabulary import Vocabulary
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.witness import Witness

__all__ = ["kinds_of", "registers_of", "states_along"]

KINDS: Final = "kinds"
"""The register, in every construction that has one, whose numbers are the ids of words."""
_SPELLED: Final = {"indexs": "indices"}


def registers_of(witness: Witness) -> list[dict[str, object]]:
    """Each memory by its name: how many numbers it carries, and whether they shift from token to token."""
    assert witness.built is not None, "weights of this package have their program beside them"
    return [
        {
            "name": _SPELLED.get(memory.result.name, memory.result.name),
            "size": memory.feed.out,
            "shifts": memory.result.dim < memory.feed.out,
            "kinds": memory.result.name == KINDS,
        }
        for layer in witness.built.program.layers
        for memory in layer.memories
    ]


def kinds_of(vocabulary: Vocabulary) -> list[str]:
    """What the numbers 0, 1, 2 … in the register of kinds stand for; 0 is no word at all."""
    words = Words(vocabulary)
    names = [name for block in vocabulary.blocks for name in (block.spelled or (block.name,))]
    found = {words.id(name): name for name in names}
    return ["", *(found[number] for number in sorted(found))]


def states_along(
    model: LinearRNN, prompt: Sequence[int], written: Sequence[int], deadline: Deadline
) -> list[list[int]]:
    """For each written word the numbers that the model carried when it wrote it."""
    running = model.start(1)
    tokens = torch.tensor([[*prompt, *written]])
    found = []
    with torch.no_grad():
        running.advance(tokens[:, : len(prompt)])
        for place in range(len(prompt), tokens.shape[1]):
            deadline.check()
            numbers = model.arithmetic.decode_float64(running.numbers())[0]
            found.append([int(number) for number in numbers.round().tolist()])
            running.advance(tokens[:, place : place + 1])
    return found
