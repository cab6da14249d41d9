"""Affine maps and the feed-forward map ψ, in any number system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.precision import FixedPoint, Numbers, NumberSystem, concatenate
from separatrix.records import JsonObject, Reader

__all__ = ["Affine", "FeedForward", "Prepared", "Tensors", "affine", "taken"]

Tensors = Mapping[str, Tensor]


def affine(
    system: NumberSystem,
    x: Numbers,
    matrix: Float[Tensor, "out inner"],
    bias: Float[Tensor, "out"] | None = None,
) -> Numbers:
    """x Wᵀ + b along the last axis: in fixed point the exact value rounded once, in floats as floats do."""
    return Prepared(system, matrix, bias, x.device)(x)


@final
class Prepared:
    """An affine map whose weights are encoded once, for one number system and device."""

    def __init__(
        self,
        system: NumberSystem,
        matrix: Float[Tensor, "out inner"],
        bias: Float[Tensor, "out"] | None,
        device: torch.device,
    ) -> None:
        """W, and b if there is one."""
        self._system, self._out = system, matrix.shape[0]
        biased = bias is not None and bool((bias != 0).any())
        self._exact = biased and isinstance(system, FixedPoint)
        weights = matrix
        if bias is not None and self._exact:
            weights = torch.cat([matrix, bias[:, None]], dim=1)
        self._weights = system.encode(weights.T.to(device))
        self._bias = system.encode(bias.to(device)) if bias is not None and biased else None

    def __call__(self, x: Numbers) -> Numbers:
        """The image, along the last axis."""
        system, lead = self._system, x.shape[:-1]
        flat = x.reshape(-1, x.shape[-1])
        if self._exact:
            ones = system.encode(torch.ones(flat.shape[0], 1, dtype=torch.float64, device=x.device))
            product = system.matmul(concatenate([flat, ones], axis=1), self._weights)
        else:
            product = system.matmul(flat, self._weights)
            if self._bias is not None:
                product = system.add(product, self._bias)
        return product.reshape(*lead, self._out)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Affine:
    """One map W x + b."""

    matrix: Float[Tensor, "out inner"]
    bias: Float[Tensor, "out"]

    def __call__(self, system: NumberSystem, x: Numbers) -> Numbers:
        """The image."""
        return affine(system, x, self.matrix, self.bias)

    @property
    def out(self) -> int:
        """Coordinates of the image."""
        return self.matrix.shape[0]

    @property
    def inner(self) -> int:
        """Coordinates it reads."""
        return self.matrix.shape[1]

    @property
    def parameters(self) -> int:
        """Numbers in it."""
        return self.matrix.numel() + self.bias.numel()

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Its weights by name."""
        return {f"{prefix}.matrix": self.matrix, f"{prefix}.bias": self.bias}

    @classmethod
    def taken(cls, tensors: dict[str, Tensor], prefix: str, *, inner: int) -> Affine:
        """The map of these names, removed from `tensors`."""
        matrix = taken(tensors, f"{prefix}.matrix", None, inner)
        return cls(matrix=matrix, bias=taken(tensors, f"{prefix}.bias", matrix.shape[0]))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FeedForward:
    """ψ: affine maps with ReLU between them; or, as W has it, W3 (ReLU(W1 x + b1) ⊗ (W2 x + b2)) + b3."""

    KINDS: ClassVar[tuple[str, ...]] = ("relu", "reglu")

    maps: tuple[Affine, ...]
    kind: Literal["relu", "reglu"] = "relu"

    def __call__(self, system: NumberSystem, x: Numbers) -> Numbers:
        """The image."""
        return self.prepared(system, x.device)(x)

    def prepared(self, system: NumberSystem, device: torch.device) -> Callable[[Numbers], Numbers]:
        """The same function with its weights encoded once."""
        maps = [Prepared(system, each.matrix, each.bias, device) for each in self.maps]

        def gated(x: Numbers) -> Numbers:
            first, second, last = maps
            return last(system.multiply(system.relu(first(x)), second(x)))

        def plain(x: Numbers) -> Numbers:
            for each in maps[:-1]:
                x = system.relu(each(x))
            return maps[-1](x)

        return gated if self.kind == "reglu" else plain

    @property
    def hidden(self) -> int:
        """Its inner width: the widest of its hidden layers."""
        return max((each.out for each in self.maps[:-1]), default=0)

    @property
    def parameters(self) -> int:
        """Numbers in it."""
        return sum(each.parameters for each in self.maps)

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Its weights by name."""
        return {
            name: tensor
            for i, each in enumerate(self.maps)
            for name, tensor in each.tensors(f"{prefix}.{i}").items()
        }

    def spec(self) -> JsonObject:
        """Kind and number of maps."""
        return {"kind": self.kind, "maps": len(self.maps)}

    @classmethod
    def taken(cls, data: object, tensors: dict[str, Tensor], prefix: str, *, inner: int) -> FeedForward:
        """The map a file describes, its weights removed from `tensors`."""
        read = Reader(data, what="a feed-forward map")
        kind, count = read.choice("kind", ("relu", "reglu")), read.count("maps")
        read.finish()
        if not (count == 3 if kind == "reglu" else 1 <= count <= 64):
            raise InvalidFile(f"A feed-forward map of kind {kind} cannot have {count} affine maps.")
        maps: list[Affine] = []
        for i in range(count):
            width = inner if i == 0 or (kind == "reglu" and i == 1) else maps[-1].out
            maps.append(Affine.taken(tensors, f"{prefix}.{i}", inner=width))
        if kind == "reglu" and maps[0].out != maps[1].out:
            raise InvalidFile("The two inner maps of a gated feed-forward map have one width.")
        return cls(maps=tuple(maps), kind="reglu" if kind == "reglu" else "relu")


def taken(tensors: dict[str, Tensor], name: str, *shape: int | None) -> Float[Tensor, "..."]:
    """The finite float64 tensor of this name and shape (None: any), removed from `tensors`."""
    if name not in tensors:
        raise InvalidFile(f"The weights lack the tensor '{name}'.")
    tensor = tensors.pop(name)
    fits = tensor.ndim == len(shape) and all(
        want is None or want == got for want, got in zip(shape, tensor.shape, strict=True)
    )
    if tensor.dtype != torch.float64 or not fits:
        wanted = " × ".join("any" if want is None else str(want) for want in shape)
        raise InvalidFile(
            f"The tensor '{name}' must be float64 of shape {wanted}; "
            f"got {str(tensor.dtype).removeprefix('torch.')} of shape {' × '.join(map(str, tensor.shape))}."
        )
    if not bool(tensor.isfinite().all()):
        raise InvalidFile(f"The tensor '{name}' holds a number that is not finite.")
    return tensor
