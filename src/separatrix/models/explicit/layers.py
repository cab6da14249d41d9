"""A layer: heads, what joins them, the feed-forward map, and which residuals there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit.codes import Code
from separatrix.models.explicit.codes.reading import code_from
from separatrix.models.explicit.heads import AttentionHead, Head
from separatrix.models.explicit.linear import Affine, FeedForward, affine, taken
from separatrix.models.explicit.third_order import ThirdOrderHead
from separatrix.precision import Numbers, NumberSystem, concatenate
from separatrix.records import JsonObject, Reader

__all__ = ["Layer", "Readout"]

_HEADS: Final[Mapping[str, type[Head] | type[ThirdOrderHead]]] = MappingProxyType(
    {Head.kind: Head, ThirdOrderHead.kind: ThirdOrderHead}
)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """A(x) = Wo [heads], y = A(x) or x + A(x), and then ψ(y), or y + ψ(y), or y where there is no ψ.

    With both residuals and a gated ψ this is W's block x + A(x) + g(x + A(x)); with none of them S's and R's.
    """

    heads: tuple[AttentionHead, ...]
    output: Float[Tensor, "out joined"]
    attention_residual: bool
    feed_forward: FeedForward | None
    feed_forward_residual: bool

    def __call__(
        self,
        system: NumberSystem,
        stream: Numbers,
        kept: tuple[tuple[Numbers, ...], ...],
        mask: Bool[Tensor, "batch query key"],
    ) -> Numbers:
        """The layer at the positions of `stream`, given what its heads kept of all."""
        joined = concatenate(
            [head.attend(system, stream, known, mask) for head, known in zip(self.heads, kept, strict=True)],
            axis=-1,
        )
        return self.behind(system, stream, joined)

    def behind(self, system: NumberSystem, stream: Numbers, joined: Numbers) -> Numbers:
        """The rest of the layer at some positions, given what all heads return there, side by side."""
        y = affine(system, joined, self.output)
        if self.attention_residual:
            y = system.add(stream, y)
        if self.feed_forward is None:
            return y
        image = self.feed_forward(system, y)
        return system.add(y, image) if self.feed_forward_residual else image

    def keep(self, system: NumberSystem, stream: Numbers) -> tuple[tuple[Numbers, ...], ...]:
        """What each head keeps of these positions."""
        return tuple(head.keep(system, stream) for head in self.heads)

    @property
    def out(self) -> int:
        """Coordinates of the stream behind it."""
        if self.feed_forward is not None:
            return self.feed_forward.maps[-1].out
        return self.output.shape[0]

    @property
    def parameters(self) -> int:
        """Numbers in it."""
        inside = 0 if self.feed_forward is None else self.feed_forward.parameters
        return sum(head.parameters for head in self.heads) + self.output.numel() + inside

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Its weights by name."""
        found = {f"{prefix}.output": self.output}
        for i, head in enumerate(self.heads):
            found |= head.tensors(f"{prefix}.heads.{i}")
        if self.feed_forward is not None:
            found |= self.feed_forward.tensors(f"{prefix}.feed_forward")
        return found

    def spec(self) -> JsonObject:
        """Heads by kind, the feed-forward map, the residuals."""
        return {
            "heads": [head.kind for head in self.heads],
            "attention_residual": self.attention_residual,
            "feed_forward": None if self.feed_forward is None else self.feed_forward.spec(),
            "feed_forward_residual": self.feed_forward_residual,
        }

    @classmethod
    def taken(cls, data: object, tensors: dict[str, Tensor], prefix: str, *, width: int) -> Layer:
        """The layer a file describes, its weights removed from `tensors`."""
        read = Reader(data, what="a layer")
        kinds = read.texts("heads")
        residuals = {name: read.value(name) for name in ("attention_residual", "feed_forward_residual")}
        inside = None if read.skip_null("feed_forward") else read.value("feed_forward")
        read.finish()
        for name, value in residuals.items():
            if not isinstance(value, bool):
                raise InvalidFile(f"Field '{name}' of a layer must be true or false.")
        strange = [kind for kind in kinds if kind not in _HEADS]
        if strange or not kinds:
            raise InvalidFile(f"The heads of a layer are {' or '.join(_HEADS)}; got {kinds or 'none'}.")
        heads = tuple(
            _HEADS[kind].taken(tensors, f"{prefix}.heads.{i}", width=width) for i, kind in enumerate(kinds)
        )
        output = taken(tensors, f"{prefix}.output", None, sum(head.out for head in heads))
        if residuals["attention_residual"] and output.shape[0] != width:
            raise InvalidFile("A layer with a residual gives back a stream as wide as the one it reads.")
        psi = None
        if inside is not None:
            psi = FeedForward.taken(inside, tensors, f"{prefix}.feed_forward", inner=output.shape[0])
            if residuals["feed_forward_residual"] and psi.maps[-1].out != output.shape[0]:
                raise InvalidFile("A feed-forward map with a residual gives a stream as wide as it reads.")
        return cls(
            heads=heads,
            output=output,
            attention_residual=bool(residuals["attention_residual"]),
            feed_forward=psi,
            feed_forward_residual=bool(residuals["feed_forward_residual"]),
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Readout:
    """From a position's vector to its output.

    Vectors, or a score for each class: W x + b itself; or, where classes have a code, ⟨code(v), W x + b⟩.
    """

    map: Affine
    code: Code | None
    scores: bool

    def __call__(self, system: NumberSystem, stream: Numbers) -> Numbers:
        """The outputs."""
        y = self.map(system, stream)
        if self.code is None:
            return y
        rows = self.code.rows(torch.arange(self.code.count, device=y.device))
        return affine(system, y, rows)

    @property
    def classes(self) -> int | None:
        """How many there are to choose from."""
        if not self.scores:
            return None
        return self.map.out if self.code is None else self.code.count

    def spec(self) -> JsonObject:
        """Whether outputs are scores, and the code of the classes."""
        return {"scores": self.scores, "code": None if self.code is None else self.code.spec()}

    @classmethod
    def taken(cls, data: object, tensors: dict[str, Tensor], *, width: int) -> Readout:
        """The readout a file describes, its weights removed from `tensors`."""
        read = Reader(data, what="the readout")
        scores = read.value("scores")
        code = None if read.skip_null("code") else code_from(read.value("code"))
        read.finish()
        if not isinstance(scores, bool):
            raise InvalidFile("Field 'scores' of the readout must be true or false.")
        image = Affine.taken(tensors, "readout", inner=width)
        if code is not None and (image.out != code.dim or code.count > 1 << 20):
            raise InvalidFile("The readout's map gives as many numbers as the code of its classes has.")
        return cls(map=image, code=code, scores=scores)
