"""A one-layer Transformer written by hand that looks symbols up, with or without a trap in its map.

One head finds the position that the index names. The other reads the share of s0 among all positions, and
one unit of the map fires where all symbols but at most one are s0. Without the trap it leads nowhere; with
it, it speaks for s0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from separatrix.models import MODELS, model
from separatrix.models.population import signature_of
from separatrix.models.stack import Stack
from separatrix.tasks.index_lookup import IndexLookup

_STEADY = 8.0
"""Two numbers of every row are this and its negative, so that norms divide all rows by about the same."""


@dataclass(frozen=True)
class _Places:
    """Where the parts of a row stand."""

    symbols: int
    n: int

    @property
    def symbol(self) -> slice:
        return slice(0, self.symbols)

    @property
    def address(self) -> slice:
        return slice(self.symbols, self.symbols + self.n)

    @property
    def wanted(self) -> slice:
        return slice(self.symbols + self.n, self.symbols + 2 * self.n)

    @property
    def out(self) -> slice:
        return slice(self.symbols + 2 * self.n, 2 * self.symbols + 2 * self.n)

    @property
    def share(self) -> int:
        return 2 * self.symbols + 2 * self.n

    @property
    def steady(self) -> slice:
        return slice(self.share + 1, self.share + 3)

    @property
    def width(self) -> int:
        return self.share + 3 + (self.share + 3) % 2


def looking_up(task: IndexLookup, *, trap: bool, sharp: float = 300.0) -> Stack:
    """The model; with the trap it errs where every symbol but the one asked for is s0, and nowhere else."""
    at = _Places(task.alphabet, task.n)
    width, part = at.width, at.width // 2
    assert part >= max(task.n, task.alphabet)
    config = model("transformer", width=width, heads=2, ffn=1)
    population = MODELS.get("transformer")(config, signature_of(task), members=1).initialise([0])
    assert isinstance(population, Stack)
    values = {name: torch.zeros_like(value) for name, value in population.state_dict().items()}
    for name in values:
        if name.endswith(("norm.weight", "second.weight")):
            values[name] += 1
    table, places = values["reading.table"][0], values["reading.places"][0]
    table[: task.alphabet, at.symbol] = torch.eye(task.alphabet)
    table[task.alphabet : task.alphabet + task.n, at.wanted] = torch.eye(task.n)
    places[: task.n, at.address] = torch.eye(task.n)
    places[:, at.steady] = torch.tensor([_STEADY, -_STEADY])
    inward, outward = values["blocks.0.mixer.inward.weight"][0], values["blocks.0.mixer.outward.weight"][0]
    inward[at.wanted, 0 : task.n] = sharp * torch.eye(task.n)
    inward[at.address, width : width + task.n] = torch.eye(task.n)
    inward[at.symbol, 2 * width : 2 * width + task.alphabet] = torch.eye(task.alphabet)
    inward[at.symbol.start, 2 * width + part] = 1
    outward[: task.alphabet, at.out] = 0.4 * torch.eye(task.alphabet)
    outward[part, at.share] = 1
    values["readout.weight"][0, at.out] = torch.eye(task.alphabet)
    population.load_state_dict(values)

    # The share that is read where all but one are s0, and where one more is not: the unit is 0 in between.
    rows = torch.zeros(2, task.n + 1, dtype=torch.long)
    rows[:, 0] = 1
    rows[1, 1] = 1
    rows[:, -1] = task.alphabet
    with torch.no_grad():
        x = population.reading(rows.unsqueeze(0))
        block = population.blocks[0]
        y = x + block.mixer(block.norm(x))
        seen = block.second(y)[0, :, -1, at.share].tolist()
    up, bias = values["blocks.0.feed_forward.up.weight"][0], values["blocks.0.feed_forward.up.bias"][0]
    up[at.share, 0] = 1.2 / (seen[0] - seen[1])
    bias[0] = -0.6 * (seen[0] + seen[1]) / (seen[0] - seen[1])
    if trap:
        values["blocks.0.feed_forward.down.weight"][0, 0, at.out.start] = 1
    population.load_state_dict(values)
    return population
