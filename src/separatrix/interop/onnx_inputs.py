"""How a witness's inputs become vectors, as a module an exporter can read: every code is a table.

The length of an input is fixed, so whatever is a function of token, place and length is listed. Where that
would be too long, the witness is refused and not approximated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from separatrix.errors import InvalidInput
from separatrix.models.explicit.inputs import InputMap, RealInputs, TokenInputs
from separatrix.models.explicit.windows import WindowInputs

__all__ = ["Embedded", "InputModule", "input_module"]

_MOST_LISTED: Final = 1 << 25


class Embedded(NamedTuple):
    """The stream before the first layer, the model's own elements last, and which positions count."""

    stream: Float[Tensor, "batch pos width"]
    shown: Bool[Tensor, "batch pos"]


class InputModule(nn.Module, ABC):
    """Inputs of one length to vectors."""

    def __init__(self, inputs: InputMap, n: int) -> None:
        super().__init__()
        self.own = nn.Buffer(inputs.appended.clone())
        self.places = nn.Buffer(torch.arange(n))

    def forward(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Embedded:
        """Vectors of all positions; padding is not shown."""
        lengths = self.lengths(inputs)
        stream = self.vectors(inputs, lengths)
        shown = self.places.unsqueeze(0) < lengths.unsqueeze(1)
        if len(self.own):
            batch = inputs.shape[0]
            stream = torch.cat([stream, self.own.unsqueeze(0).expand(batch, -1, -1)], dim=1)
            always = torch.ones_like(shown[:, :1]).expand(-1, len(self.own))
            shown = torch.cat([shown, always], dim=1)
        return Embedded(stream, shown)

    @abstractmethod
    def lengths(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Int[Tensor, "batch"]:
        """Positions of each input without its padding."""

    @abstractmethod
    def vectors(
        self, inputs: Shaped[Tensor, "batch pos *width"], lengths: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch pos width"]:
        """The vectors of all places."""


def input_module(inputs: InputMap, n: int) -> InputModule:
    """The module for inputs of n positions."""
    if isinstance(inputs, TokenInputs):
        if any(each.placed for each in inputs.classes):
            return _ListedTokens(inputs, n)
        return _Tokens(inputs, n)
    if isinstance(inputs, RealInputs):
        return _Reals(inputs, n)
    if isinstance(inputs, WindowInputs):
        return _Windows(inputs, n)
    raise InvalidInput(
        f"Inputs of the kind {inputs.kind} are read by solving equations for each of them, which ONNX has no "
        "operation for; witnesses on tokens, windows of tokens and rows of real numbers are exported."
    )


def _lengths(inputs: Int[Tensor, "batch pos"], pad: int | None) -> Int[Tensor, "batch"]:
    return torch.full_like(inputs[:, 0], inputs.shape[1]) if pad is None else (inputs != pad).sum(1)


@final
class _Tokens(InputModule):
    """Token and place apart: a row for the token, and the place's features through the map of its class."""

    def __init__(self, inputs: TokenInputs, n: int) -> None:
        super().__init__(inputs, n)
        self.pad = inputs.pad
        end = _tokens(inputs)
        dims = [track.code.dim for track in inputs.tracks]
        features = sum(dims)
        _require_room((end + len(inputs.classes) * features) * inputs.width, "tokens")
        rows = torch.zeros(end, inputs.width, dtype=torch.float64)
        classes = torch.full((end,), len(inputs.classes))
        maps = torch.zeros(len(inputs.classes) + 1, features, inputs.width, dtype=torch.float64)
        starts = dict(
            zip((track.name for track in inputs.tracks), torch.tensor([0, *dims]).cumsum(0), strict=False)
        )
        for number, each in enumerate(inputs.classes):
            here = slice(each.first, each.first + each.count)
            classes[here], rows[here] = number, each.bias
            if each.code is not None:
                rows[here] += each.code.rows(torch.arange(each.count)) @ each.matrix.T
            for name, matrix in each.tracks.items():
                start = int(starts[name])
                maps[number, start : start + matrix.shape[1]] = matrix.T
        self.rows, self.classes, self.maps = nn.Buffer(rows), nn.Buffer(classes), nn.Buffer(maps)
        self.features = None if features == 0 else nn.Buffer(_features(inputs, n))

    def lengths(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch"]:
        """Tokens that are no padding."""
        return _lengths(inputs, self.pad)

    def vectors(
        self, inputs: Int[Tensor, "batch pos"], lengths: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch pos width"]:
        """The row, and for each class what its map makes of the place."""
        found = self.rows[inputs]
        if self.features is None:
            return found
        known = self.features[lengths] if len(self.features) > 1 else self.features
        chosen = self.classes[inputs]
        for number in range(self.maps.shape[0] - 1):
            of_class = known @ self.maps[number]
            found = found + torch.where((chosen == number).unsqueeze(2), of_class, 0.0)
        return found


@final
class _ListedTokens(InputModule):
    """A row for each token at each place, where a token writes at coordinates of its place."""

    def __init__(self, inputs: TokenInputs, n: int) -> None:
        super().__init__(inputs, n)
        self.pad = inputs.pad
        tokens = torch.arange(_tokens(inputs))
        of_length = inputs.pad is not None and (
            inputs.knows_length
            or any(each.placed is not None and each.placed.rule.knows_length for each in inputs.classes)
        )
        lengths = range(n + 1) if of_length else (n,)
        _require_room(len(lengths) * n * len(tokens) * inputs.width, "tokens at places")
        places = torch.arange(n).unsqueeze(1).expand(-1, len(tokens))
        rows = [
            inputs.of_tokens(tokens.expand(n, -1), places, torch.full((n,), length)) for length in lengths
        ]
        self.listed = nn.Buffer(torch.stack(rows))

    def lengths(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch"]:
        """Tokens that are no padding."""
        return _lengths(inputs, self.pad)

    def vectors(
        self, inputs: Int[Tensor, "batch pos"], lengths: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch pos width"]:
        """What is listed for the token there."""
        if len(self.listed) == 1:
            return self.listed[0][self.places, inputs]
        return self.listed[lengths.unsqueeze(1), self.places, inputs]


@final
class _Reals(InputModule):
    """An affine map of the row, and the place's features through theirs."""

    def __init__(self, inputs: RealInputs, n: int) -> None:
        super().__init__(inputs, n)
        self.padded = inputs.padded
        self.matrix, self.bias = nn.Buffer(inputs.matrix.T.clone()), nn.Buffer(inputs.bias.clone())
        features = None
        if inputs.tracks:
            joined = torch.cat([inputs.track_matrices[track.name] for track in inputs.tracks], dim=1)
            features = nn.Buffer(_features(inputs, n) @ joined.T)
        self.features = features

    def lengths(self, inputs: Float[Tensor, "batch pos row"]) -> Int[Tensor, "batch"]:
        """Rows up to the last that is not all zeros, or all rows."""
        order = (self.places + 1).unsqueeze(0)
        if not self.padded:
            return torch.full_like(inputs[:, 0, 0], inputs.shape[1], dtype=torch.int64)
        filled = (inputs != 0).to(torch.int64).amax(2)
        return (filled * order).amax(1)

    def vectors(
        self, inputs: Float[Tensor, "batch pos row"], lengths: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch pos width"]:
        """The sum of both."""
        found = inputs.to(torch.float64) @ self.matrix + self.bias
        if self.features is None:
            return found
        return found + (self.features[lengths] if len(self.features) > 1 else self.features)


@final
class _Windows(InputModule):
    """z times a vector of the place, and one more of the place."""

    def __init__(self, inputs: WindowInputs, n: int) -> None:
        super().__init__(inputs, n)
        places = torch.arange(n)
        slot = (places + inputs.reach) % inputs.window
        self.slope = nn.Buffer(inputs.number.T + inputs.slots.T[slot])
        nothing = torch.zeros(1, n, dtype=torch.int64)
        self.rest = nn.Buffer(inputs.vectors(nothing, places.unsqueeze(0), torch.tensor([n]))[0])

    def lengths(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch"]:
        """All numbers."""
        return torch.full_like(inputs[:, 0], inputs.shape[1])

    def vectors(
        self, inputs: Int[Tensor, "batch pos"], lengths: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch pos width"]:
        """The number at the place in both."""
        return inputs.to(torch.float64).unsqueeze(2) * self.slope + self.rest


def _tokens(inputs: TokenInputs) -> int:
    """How many tokens there are, padding included."""
    end = max((each.first + each.count for each in inputs.classes), default=0)
    return end if inputs.pad is None else max(end, inputs.pad + 1)


def _features(inputs: TokenInputs | RealInputs, n: int) -> Float[Tensor, "length pos feature"]:
    """What places know, track after track: for every length where it matters, else for the full one only."""
    padded = inputs.pad is not None if isinstance(inputs, TokenInputs) else inputs.padded
    lengths = torch.arange(n + 1) if padded and inputs.knows_length else torch.tensor([n])
    _require_room(len(lengths) * n * sum(track.code.dim for track in inputs.tracks), "places")
    places = torch.arange(n).expand(len(lengths), -1)
    return torch.cat([track.rows(places, lengths.unsqueeze(1)) for track in inputs.tracks], dim=2)


def _require_room(numbers: int, what: str) -> None:
    if numbers > _MOST_LISTED:
        raise InvalidInput(
            f"In ONNX the codes of {what} become tables; here they would hold {numbers:,} numbers, and at "
            f"most {_MOST_LISTED:,} are written. Choose a smaller n or alphabet."
        )
