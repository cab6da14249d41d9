"""The update of a memory of one-bit cells: counter, addressed cells, registers; each adds its units."""

from __future__ import annotations

import torch

from separatrix.models.explicit.recurrent import Update
from separatrix.models.explicit.recurrent_maps import Coordinates, same, spread
from separatrix.witnesses._rnn_blocks import ONE, MapWriter, addresses, lower, ones, vector

__all__ = ["Memory"]


class Memory:
    """Collects the weights of one step. The state has a field `counter`, the units `flip` and `clear`."""

    def __init__(self, tokens: Coordinates, state: Coordinates, units: Coordinates) -> None:
        """Coordinates of token codes, state and hidden layer."""
        self._state, self._units = state, units
        self._counter = state.numbers("counter")
        self._carry, self._write = MapWriter(state, state), MapWriter(state, units)
        self._from_state, self._from_input = MapWriter(units, state), MapWriter(units, tokens)
        self._bias = torch.zeros(units.width, dtype=torch.float64)

    def count(self, advance: str) -> None:
        """The counter goes on by one, modulo 2^bits, when the input `advance` is 1."""
        bits = self._counter
        self._from_state.add("flip", "counter", lower(bits, diagonal=False))
        self._from_state.add("clear", "counter", lower(bits, diagonal=True))
        for unit, more in (("flip", 0), ("clear", 1)):
            self._from_input.add(unit, advance, ones(bits, 1))
            self._bias += vector(self._units, **{unit: -torch.arange(bits, dtype=torch.float64) - more})
        self._carry.each("counter", "counter")
        self._write.each("counter", "flip").each("counter", "clear", -2)

    def reset(self, when: str) -> None:
        """Every bit of the counter that is 1 is taken away when the input `when` is 1."""
        self._from_state.each("reset", "counter")
        self._from_input.add("reset", when, ones(self._counter, 1))
        self._bias += vector(self._units, reset=-1)
        self._write.each("counter", "reset", -1)

    def store(
        self,
        field: str,
        unit: str,
        *,
        cells: int,
        first: int,
        from_input: str | None = None,
        from_register: tuple[str, str] | None = None,
    ) -> None:
        """Cell j takes bits when the counter is at first + j: those of the input, or a register's.

        A register is stored only when the input named beside it is 1, which a bias of −1 waits for.
        """
        digits = self._state.numbers(field) // cells
        self._addressed(unit, cells=cells, first=first)
        self._from_state.each(unit, field, -1)
        if from_input is not None:
            self._from_input.add(unit, from_input, ONE, outer=spread(cells), inner=same(digits))
        if from_register is not None:
            register, when = from_register
            self._from_state.add(unit, register, ONE, outer=spread(cells), inner=same(digits))
            self._from_input.add(unit, when, ONE, inner=spread(cells * digits))
            self._bias += vector(self._units, **{unit: -1})
        self._carry.each(field, field)
        self._write.each(field, unit)

    def add_modulo_2(self, field: str, touch: str, both: str, *, cells: int, from_input: str) -> None:
        """Cell j is added the bits of the input modulo 2 when the counter is at j."""
        digits = self._state.numbers(field) // cells
        for unit in (touch, both):
            self._addressed(unit, cells=cells, first=0)
            self._from_input.add(unit, from_input, ONE, outer=spread(cells), inner=same(digits))
        self._from_state.each(both, field)
        self._bias += vector(self._units, **{both: -1})
        self._carry.each(field, field)
        self._write.each(field, touch).each(field, both, -2)

    def register(self, field: str, *, keep: str, new: str, when: str, bits: str) -> None:
        """The register keeps its bits unless the input `when` is 1; then it takes those of the input."""
        self._from_state.each(keep, field)
        self._from_input.add(keep, when, -ones(self._state.numbers(field), 1))
        self._from_input.each(new, bits)
        self._write.each(field, keep).each(field, new)

    def _addressed(self, unit: str, *, cells: int, first: int) -> None:
        """Minus the distance of first + j from the counter, for all digits of cell j alike."""
        digits = self._units.numbers(unit) // cells
        signs, bias = addresses(first, cells, self._counter)
        self._from_state.add(unit, "counter", signs, inner=spread(digits))
        self._bias += vector(self._units, **{unit: bias.repeat_interleave(digits)})

    def update(self) -> Update:
        """The step."""
        return Update(
            activation="relu",
            carry=self._carry.done(),
            write=self._write.done(),
            from_state=self._from_state.done(),
            from_input=self._from_input.done(),
            bias=self._bias,
            offset=torch.zeros(self._state.width, dtype=torch.float64),
        )
