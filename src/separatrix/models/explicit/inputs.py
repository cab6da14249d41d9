"""How an input becomes vectors: an affine map of the code of its token and of the codes of its place.

Nothing is looked up in a table with a row for every token or place. A class of tokens (symbols, indices,
keys) has a code for its numbers and a matrix, so an alphabet of 2^20 costs as much as its code is wide.
Each class has its own map of the place, because a token such as an index need not say where it stands.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.codes import Code, OneHot
from separatrix.models.explicit.codes.reading import code_from
from separatrix.models.explicit.linear import taken
from separatrix.models.explicit.placed import Placed, placed_from
from separatrix.models.explicit.positions import Own, Track, track_from
from separatrix.records import JsonObject, Reader

__all__ = ["InputMap", "RealInputs", "TokenClass", "TokenInputs", "inputs_from", "require_rows"]


class InputMap(ABC):
    """From inputs of a task to the stream's first vectors, place by place."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def width(self) -> int:
        """Coordinates of a vector."""

    @property
    @abstractmethod
    def tracks(self) -> tuple[Track, ...]:
        """What places know."""

    @property
    @abstractmethod
    def appended(self) -> Float[Tensor, "extra width"]:
        """Vectors of the model's own elements, such as a dummy, that stand behind every input."""

    @property
    @abstractmethod
    def codes(self) -> tuple[Code, ...]:
        """Every code it uses; the same one may come twice."""

    @abstractmethod
    def check(self, inputs: Shaped[Tensor, "batch pos *width"]) -> None:
        """Raise `InvalidInput` unless these can be inputs."""

    @abstractmethod
    def lengths(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Int[Tensor, "batch"]:
        """Positions of each input without its padding."""

    @abstractmethod
    def vectors(
        self,
        inputs: Shaped[Tensor, "batch pos *width"],
        places: Int[Tensor, "batch asked"],
        lengths: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch asked width"]:
        """The vectors at places of the input, in float64, newly made."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Its weights by name."""

    @abstractmethod
    def spec(self) -> JsonObject:
        """All that is no weight."""

    def embed(
        self,
        inputs: Shaped[Tensor, "batch pos *width"],
        places: Int[Tensor, "batch asked"],
        lengths: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch asked width"]:
        """The vectors at these places; from the input's end on they are the model's own elements."""
        end = inputs.shape[1]
        found = self.vectors(inputs, places.clamp(max=end - 1), lengths)
        if len(self.appended):
            behind = places >= end
            found[behind] = self.appended.to(found.device)[places[behind] - end]
        return found

    @property
    def parameters(self) -> int:
        """Numbers in it: weights and lists, and what each of its codes stores."""
        stored = {str(code.spec()): code.parameters for code in self.codes}
        return sum(tensor.numel() for tensor in self.tensors().values()) + sum(stored.values())

    @property
    def longest(self) -> int | None:
        """As many places as every track has a number for; None where there is none that ends.

        Unit vectors mark some places and leave the others out, on purpose.
        """
        counted = [track for track in self.tracks if not isinstance(track.code, OneHot)]
        ends = [track.code.count - track.rule.shift for track in counted if isinstance(track.rule, Own)]
        return min(ends, default=None)

    @property
    def knows_length(self) -> bool:
        """Whether vectors depend on the input's length."""
        return any(track.rule.knows_length for track in self.tracks)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TokenClass:
    """Tokens `first` … `first + count − 1`: number v at a place has the vector

    bias + matrix·code(v) + Σ over tracks of tracks[name]·code(place),

    and, with `placed`, a copy of a few numbers of its own in coordinates that belong to its place.
    """

    name: str
    first: int
    count: int
    code: Code | None
    matrix: Float[Tensor, "width dim"]
    bias: Float[Tensor, "width"]
    tracks: Mapping[str, Float[Tensor, "width dim"]]
    placed: Placed | None = None

    def spec(self) -> JsonObject:
        """Name, range, code, which tracks it uses, and what it writes at coordinates of its place, if so."""
        return {
            "name": self.name,
            "first": self.first,
            "count": self.count,
            "code": None if self.code is None else self.code.spec(),
            "tracks": list(self.tracks),
            "placed": None if self.placed is None else self.placed.spec(),
        }


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TokenInputs(InputMap):
    """Inputs of tokens; `pad` fills a row behind its end."""

    kind: ClassVar[str] = "tokens"

    classes: tuple[TokenClass, ...]
    position_tracks: tuple[Track, ...]
    pad: int | None
    own: Float[Tensor, "extra width"]

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        return self.own.shape[1]

    @property
    def tracks(self) -> tuple[Track, ...]:
        """What places know."""
        return self.position_tracks

    @property
    def appended(self) -> Float[Tensor, "extra width"]:
        """The model's own elements."""
        return self.own

    @property
    def codes(self) -> tuple[Code, ...]:
        """Those of tokens, then those of places."""
        return (*(each.code for each in self.classes if each.code), *(track.code for track in self.tracks))

    def check(self, inputs: Int[Tensor, "batch pos"]) -> None:
        """Rows of tokens, each of some class or padding."""
        require_rows(inputs, None)
        end = max((each.first + each.count for each in self.classes), default=0)
        end = end if self.pad is None else max(end, self.pad + 1)
        if inputs.numel() and not bool(((inputs >= 0) & (inputs < end)).all()):
            strange = inputs[(inputs < 0) | (inputs >= end)][0]
            raise InvalidInput(f"Tokens run from 0 to {end - 1}; got {int(strange)}.")

    def lengths(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch"]:
        """All tokens before the first padding."""
        if self.pad is None:
            return torch.full(inputs.shape[:1], inputs.shape[1], device=inputs.device)
        return (inputs != self.pad).sum(1)

    def vectors(
        self,
        inputs: Int[Tensor, "batch pos"],
        places: Int[Tensor, "batch asked"],
        lengths: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch asked width"]:
        """Those of the tokens that stand there."""
        return self.of_tokens(inputs.gather(1, places), places, lengths)

    def of_tokens(
        self,
        tokens: Int[Tensor, "batch asked"],
        places: Int[Tensor, "batch asked"],
        lengths: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch asked width"]:
        """Class by class; a token of no class, padding among them, has the vector 0."""
        spread = lengths.unsqueeze(1).expand_as(places)
        chosen = [(tokens >= each.first) & (tokens < each.first + each.count) for each in self.classes]
        counts = [int(mask.sum()) for mask in chosen]
        if places.numel() in counts:  # long runs of one class, as most chunks are, need no scattering
            only = self.classes[counts.index(places.numel())]
            rows = self._rows(only, tokens.reshape(-1), places.reshape(-1), spread.reshape(-1))
            return rows.reshape(*places.shape, self.width)
        found = torch.zeros(*places.shape, self.width, dtype=torch.float64, device=tokens.device)
        for each, mask, count in zip(self.classes, chosen, counts, strict=True):
            if count:
                found[mask] = self._rows(each, tokens[mask], places[mask], spread[mask])
        return found

    def _rows(
        self,
        each: TokenClass,
        tokens: Int[Tensor, "row"],
        places: Int[Tensor, "row"],
        lengths: Int[Tensor, "row"],
    ) -> Float[Tensor, "row width"]:
        """The vectors of tokens of one class: one product with all its matrices side by side."""
        code = None if each.code is None else each.code.rows(tokens - each.first)
        features, matrices = ([], []) if code is None else ([code], [each.matrix])
        for track in self.tracks:
            if track.name in each.tracks:
                features.append(track.rows(places.unsqueeze(1), lengths.unsqueeze(1)).squeeze(1))
                matrices.append(each.tracks[track.name])
        bias = each.bias.to(tokens.device)
        if features:
            joined = torch.cat(matrices, dim=1).T.to(tokens.device)
            rows = torch.addmm(bias, torch.cat(features, dim=1), joined)
        else:
            rows = bias.expand(len(tokens), -1).clone()
        if each.placed is not None and code is not None:
            rows += each.placed.rows(code, places, lengths, width=self.width)
        return rows

    def tensors(self) -> dict[str, Tensor]:
        """Matrices and biases by class, lists by track."""
        found = _own_tensors(self)
        for each in self.classes:
            prefix = f"inputs.{each.name}"
            found[f"{prefix}.bias"] = each.bias
            if each.code is not None:
                found[f"{prefix}.matrix"] = each.matrix
            if each.placed is not None:
                found[f"{prefix}.placed"] = each.placed.matrix
            found |= {f"{prefix}.tracks.{name}": matrix for name, matrix in each.tracks.items()}
        return found

    def spec(self) -> JsonObject:
        """Classes, tracks, padding."""
        return {
            "kind": self.kind,
            "width": self.width,
            "classes": [each.spec() for each in self.classes],
            "tracks": [track.spec() for track in self.tracks],
            "pad": self.pad,
            "appended": len(self.own),
        }


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RealInputs(InputMap):
    """Inputs of real rows: bias + matrix·row + Σ over tracks of matrix·code(place).

    A row of zeros at the end is padding if `padded`.
    """

    kind: ClassVar[str] = "reals"

    matrix: Float[Tensor, "width row"]
    bias: Float[Tensor, "width"]
    track_matrices: Mapping[str, Float[Tensor, "width dim"]]
    position_tracks: tuple[Track, ...]
    padded: bool
    own: Float[Tensor, "extra width"]

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        return self.own.shape[1]

    @property
    def tracks(self) -> tuple[Track, ...]:
        """What places know."""
        return self.position_tracks

    @property
    def appended(self) -> Float[Tensor, "extra width"]:
        """The model's own elements."""
        return self.own

    @property
    def codes(self) -> tuple[Code, ...]:
        """Those of places."""
        return tuple(track.code for track in self.tracks)

    def check(self, inputs: Float[Tensor, "batch pos row"]) -> None:
        """Rows of so many numbers."""
        require_rows(inputs, self.matrix.shape[1])

    def lengths(self, inputs: Float[Tensor, "batch pos row"]) -> Int[Tensor, "batch"]:
        """Rows up to the last that is not all zeros, or all rows."""
        if not self.padded:
            return torch.full(inputs.shape[:1], inputs.shape[1], device=inputs.device)
        filled = (inputs != 0).any(2)
        order = torch.arange(1, inputs.shape[1] + 1, device=inputs.device)
        return (filled * order).amax(1)

    def vectors(
        self,
        inputs: Float[Tensor, "batch pos row"],
        places: Int[Tensor, "batch asked"],
        lengths: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch asked width"]:
        """One affine map for all rows."""
        device = inputs.device
        index = places.unsqueeze(2).expand(-1, -1, inputs.shape[2])
        rows = inputs.gather(1, index).double()
        vectors = rows @ self.matrix.T.to(device) + self.bias.to(device)
        for track in self.tracks:
            matrix = self.track_matrices[track.name].to(device)
            vectors = vectors + track.rows(places, lengths.unsqueeze(1)) @ matrix.T
        return vectors

    def tensors(self) -> dict[str, Tensor]:
        """The map, and those of the tracks."""
        found = _own_tensors(self)
        found |= {"inputs.rows.matrix": self.matrix, "inputs.rows.bias": self.bias}
        return found | {f"inputs.rows.tracks.{name}": matrix for name, matrix in self.track_matrices.items()}

    def spec(self) -> JsonObject:
        """Width of rows, tracks, padding."""
        return {
            "kind": self.kind,
            "width": self.width,
            "row": self.matrix.shape[1],
            "tracks": [track.spec() for track in self.tracks],
            "padded": self.padded,
            "appended": len(self.own),
        }


def require_rows(inputs: object, width: int | None) -> None:
    """Refuse what is no batch of inputs: tokens (batch, pos), or numbers (batch, pos, width)."""
    if not isinstance(inputs, Tensor):
        raise InvalidInput(f"Inputs are a tensor; got {type(inputs).__name__}.")
    axes = "(batch, pos)" if width is None else f"(batch, pos, {width})"
    fits = inputs.ndim == 2 if width is None else inputs.ndim == 3 and inputs.shape[2] == width
    if not fits or inputs.is_floating_point() != (width is not None):
        kind = "whole numbers" if width is None else "floats"
        raise InvalidInput(
            f"Inputs of this model are {kind} of shape {axes}; "
            f"got {str(inputs.dtype).removeprefix('torch.')} of shape {tuple(inputs.shape)}."
        )


def _own_tensors(inputs: InputMap) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {"inputs.appended": inputs.appended} if len(inputs.appended) else {}
    for track in inputs.tracks:
        table = track.rule.stored()
        if table is not None:
            found[f"inputs.lists.{track.name}"] = table
    return found


def inputs_from(data: object, tensors: dict[str, Tensor]) -> InputMap:
    """The input map that a file describes; its weights are removed from `tensors`."""
    read = Reader(data, what="the input map")
    kind = read.choice("kind", (TokenInputs.kind, RealInputs.kind))
    width = _limited(read.count("width"), "the width of the stream", 1 << 20)
    lists = {
        name.removeprefix("inputs.lists."): tensors.pop(name)
        for name in [*tensors]
        if name.startswith("inputs.lists.")
    }
    tracks = tuple(track_from(each, lists) for each in read.items("tracks"))
    names = [track.name for track in tracks]
    if len(set(names)) != len(names):
        raise InvalidFile("The position tracks of an input map have different names.")
    extra = _limited(read.count("appended"), "the number of appended elements", 1 << 12)
    own = taken(tensors, "inputs.appended", extra, width) if extra else torch.zeros(0, width).double()
    if kind == RealInputs.kind:
        row = _limited(read.count("row"), "the width of a row", 1 << 20)
        padded = read.value("padded")
        read.finish()
        if not isinstance(padded, bool):
            raise InvalidFile("Field 'padded' of the input map must be true or false.")
        return RealInputs(
            matrix=taken(tensors, "inputs.rows.matrix", width, row),
            bias=taken(tensors, "inputs.rows.bias", width),
            track_matrices={
                track.name: taken(tensors, f"inputs.rows.tracks.{track.name}", width, track.code.dim)
                for track in tracks
            },
            position_tracks=tracks,
            padded=padded,
            own=own,
        )
    classes = tuple(_class_from(each, tensors, tracks, width) for each in read.items("classes"))
    pad = read.optional_count("pad")
    read.finish()
    if len({each.name for each in classes}) != len(classes):
        raise InvalidFile("The classes of tokens of an input map have different names.")
    spans = sorted((each.first, each.first + each.count, each.name) for each in classes if each.count)
    for (_, end, name), (start, _, other) in itertools.pairwise(spans):
        if start < end:
            raise InvalidFile(f"The classes of tokens '{name}' and '{other}' have a token in common.")
    return TokenInputs(classes=classes, position_tracks=tracks, pad=pad, own=own)


def _class_from(
    data: object, tensors: dict[str, Tensor], tracks: tuple[Track, ...], width: int
) -> TokenClass:
    read = Reader(data, what="a class of tokens")
    name, first, count = read.text("name", longest=100), read.count("first"), read.count("count")
    code = None if read.skip_null("code") else code_from(read.value("code"))
    used = read.texts("tracks")
    blocks = None if read.skip_null("placed") else read.value("placed")
    read.finish()
    if blocks is not None and code is None:
        raise InvalidFile(f"The class of tokens '{name}' has no code and so nothing to write at its places.")
    dims = {track.name: track.code.dim for track in tracks}
    strange = [each for each in used if each not in dims]
    if strange:
        raise InvalidFile(f"The class of tokens '{name}' uses the track '{strange[0]}', which is not there.")
    dim = 0 if code is None else code.dim
    matrix, placed = torch.zeros(width, 0).double(), None
    if code is not None:
        matrix = taken(tensors, f"inputs.{name}.matrix", width, dim)
    if blocks is not None:
        placed = placed_from(blocks, tensors, f"inputs.{name}.placed", dim=dim, width=width)
    return TokenClass(
        name=name,
        first=first,
        count=count,
        code=code,
        matrix=matrix,
        bias=taken(tensors, f"inputs.{name}.bias", width),
        tracks={each: taken(tensors, f"inputs.{name}.tracks.{each}", width, dims[each]) for each in used},
        placed=placed,
    )


def _limited(value: int, what: str, most: int) -> int:
    if value > most:
        raise InvalidInput(f"At most {most:,} is taken for {what}; got {value:,}.")
    return value
