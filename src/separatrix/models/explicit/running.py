"""A causal model in the middle of a text: its cells, and how tokens become vectors and vectors scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from separatrix.models.explicit.cells import cell_of
from separatrix.models.explicit.inputs import InputMap, TokenInputs
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.linear import Prepared
from separatrix.models.explicit.recurrence import RecurrentLayer
from separatrix.models.interface import CausalModel
from separatrix.precision import Numbers, NumberSystem, concatenate

__all__ = ["Running", "TokenByToken"]

_MOST_TABLED: Final = 1 << 23  # numbers: 64 MiB


@final
class Running:
    """The state of a causal model after `seen` tokens. Going on changes it in place."""

    def __init__(
        self,
        inputs: InputMap,
        layers: Sequence[Layer | RecurrentLayer],
        readout: Readout,
        system: NumberSystem,
        *,
        batch: int,
        device: torch.device,
    ) -> None:
        """Before the first token."""
        self.seen = 0
        self._system, self._device = system, device
        self._embedding = _Embedding(inputs, device)
        self.cells = [cell_of(layer, system, batch, device) for layer in layers]
        self._map = Prepared(system, readout.map.matrix, readout.map.bias, device)
        self._words = None
        if readout.code is not None:
            rows = readout.code.rows(torch.arange(readout.code.count, device=device))
            self._words = Prepared(system, rows, None, device)

    def advance(self, tokens: Shaped[Tensor, "batch pos *width"]) -> Numbers:
        """The last layer's stream at the next positions."""
        stream = self._system.encode(self._embedding(tokens, self.seen))
        self.seen += tokens.shape[1]
        for cell in self.cells:
            stream = cell.advance(stream)
        return stream

    def outputs(self, stream: Numbers) -> Numbers:
        """What the model answers, given the last layer's stream."""
        y = self._map(stream)
        return y if self._words is None else self._words(y)

    def scores(self, stream: Numbers) -> Float[Tensor, "..."]:
        """The same as float64."""
        return self._system.decode_float64(self.outputs(stream))

    @property
    def carried(self) -> int:
        """Numbers that go from this token to the next, for a row of the batch."""
        return sum(cell.carried for cell in self.cells)

    def numbers(self) -> Numbers:
        """What goes from this token to the next, (batch, number), layer by layer."""
        return concatenate([cell.numbers() for cell in self.cells], axis=1)

    def carried_after(self, seen: int) -> int:
        """How many numbers that is after so many tokens."""
        return sum(cell.carried_after(seen) for cell in self.cells)

    def resume(self, numbers: Numbers, seen: int) -> None:
        """Go on from what another run of the same model carried after `seen` tokens."""
        self.seen, start = seen, 0
        for cell in self.cells:
            end = start + cell.carried_after(seen)
            cell.resume(numbers[:, start:end], seen)
            start = end

    def keep_rows(self, rows: Int[Tensor, "row"]) -> None:
        """Go on with these rows of the batch only."""
        for cell in self.cells:
            cell.keep_rows(rows)


class TokenByToken(CausalModel[Running]):
    """How every model made of causal layers goes on, once it has started."""

    def step(
        self, token: Shaped[Tensor, "batch *width"], state: Running
    ) -> tuple[Float[Tensor, "batch out"], Running]:
        """One position through all layers, against what they carry."""
        return self.read(token.unsqueeze(1), state)

    def read(
        self, tokens: Shaped[Tensor, "batch pos *width"], state: Running
    ) -> tuple[Float[Tensor, "batch out"], Running]:
        """Several positions at once."""
        return state.scores(state.advance(tokens)[:, -1]), state

    def kept(self, state: Running, rows: Int[Tensor, "row"]) -> Running:
        """What the layers carry for these rows."""
        state.keep_rows(rows)
        return state


class _Embedding:
    """Vectors of tokens at places: in a small vocabulary looked up, else made by the input map."""

    def __init__(self, inputs: InputMap, device: torch.device) -> None:
        self._inputs, self._device = inputs, device
        self._rows: Float[Tensor, "token width"] | None = None
        if isinstance(inputs, TokenInputs) and not any(each.placed for each in inputs.classes):
            self._tabulate(inputs)

    def _tabulate(self, inputs: TokenInputs) -> None:
        """A row for each token without its place, and for each class the map of the place's features."""
        end = max((each.first + each.count for each in inputs.classes), default=0)
        features = sum(track.code.dim for track in inputs.tracks)
        if (end + 2 + (len(inputs.classes) + 1) * features) * inputs.width > _MOST_TABLED:
            return
        rows = torch.zeros(end + 2, inputs.width, dtype=torch.float64)
        classes = torch.full((end + 2,), len(inputs.classes), dtype=torch.int64)
        for number, each in enumerate(inputs.classes):
            here = slice(each.first, each.first + each.count)
            classes[here] = number
            rows[here] = each.bias
            if each.code is not None:
                rows[here] += each.code.rows(torch.arange(each.count)) @ each.matrix.T
        maps = torch.zeros(len(inputs.classes) + 1, features, inputs.width, dtype=torch.float64)
        for number, each in enumerate(inputs.classes):
            first = 0
            for track in inputs.tracks:
                if track.name in each.tracks:
                    maps[number, first : first + track.code.dim] = each.tracks[track.name].T
                first += track.code.dim
        self._rows, self._classes, self._maps = (part.to(self._device) for part in (rows, classes, maps))

    def __call__(
        self, tokens: Shaped[Tensor, "batch pos *width"], seen: int
    ) -> Float[Tensor, "batch pos width"]:
        batch, count = tokens.shape[:2]
        own = torch.arange(seen, seen + count, device=tokens.device)
        places, lengths = own.expand(batch, count), torch.full((batch,), seen + count, device=tokens.device)
        if self._rows is not None:
            found = self._rows[tokens]
            if self._maps.shape[1]:
                known = [track.rows(own.unsqueeze(0), lengths[:1, None])[0] for track in self._inputs.tracks]
                features = torch.cat(known, dim=1)
                of_classes = torch.einsum("pf,cfw->cpw", features, self._maps)
                found = found + of_classes[self._classes[tokens], own - seen]
            return found
        if isinstance(self._inputs, TokenInputs):
            return self._inputs.of_tokens(tokens, places, lengths)
        # Places before the new ones are never asked for, so what stands there does not matter.
        padded = torch.cat([tokens[:, :1].expand(-1, seen, *tokens.shape[2:]), tokens], dim=1)
        return self._inputs.embed(padded, places, lengths)
