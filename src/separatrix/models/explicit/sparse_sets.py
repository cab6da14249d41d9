"""Inputs for sparse averaging: a value, the address of the place, and a vector that stands for the set.

This is R's element map φ. What a row says about its set is one vector, the dual of the set's addresses,
so that a head whose queries are these vectors and whose keys are addresses sees the same logit at every
member and a smaller one elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit.codes import SignCode
from separatrix.models.explicit.codes.reading import code_from
from separatrix.models.explicit.duals import duals
from separatrix.models.explicit.inputs import InputMap, require_rows
from separatrix.models.explicit.linear import taken
from separatrix.models.explicit.positions import Track
from separatrix.records import JsonObject, Reader

__all__ = ["SparseSetInputs", "sign_code_from"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SparseSetInputs(InputMap):
    """Rows of d coordinates and q members, numbers from 1, 0 for none: at place i the vector

    bias + value·v + address·u_i + wanted·w_S. A missing member in column c stands for the number places + c,
    one of the addresses behind those of the places, so that every set has q members. All rows count: one
    of zeros holds a value and the empty set, and is no padding.
    """

    kind: ClassVar[str] = "sparse-sets"

    code: SignCode
    places: int
    value: Float[Tensor, "width d"]
    address: Float[Tensor, "width dim"]
    wanted: Float[Tensor, "width dim"]
    bias: Float[Tensor, "width"]
    own: Float[Tensor, "extra width"]
    members: int

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        return self.bias.shape[0]

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The address is part of the map itself."""
        return ()

    @property
    def appended(self) -> Float[Tensor, "extra width"]:
        """The elements that fill up small sets."""
        return self.own

    @property
    def codes(self) -> tuple[SignCode, ...]:
        """That of the addresses."""
        return (self.code,)

    def check(self, inputs: Float[Tensor, "batch pos row"]) -> None:
        """Rows of a value and the members of a set."""
        require_rows(inputs, self.value.shape[1] + self.members)

    def lengths(self, inputs: Float[Tensor, "batch pos row"]) -> Int[Tensor, "batch"]:
        """All rows."""
        return torch.full(inputs.shape[:1], inputs.shape[1], device=inputs.device)

    def vectors(
        self,
        inputs: Float[Tensor, "batch pos row"],
        places: Int[Tensor, "batch asked"],
        lengths: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch asked width"]:
        """Value, address and dual vector through their matrices."""
        device = inputs.device
        d = self.value.shape[1]
        index = places.unsqueeze(2).expand(-1, -1, inputs.shape[2])
        rows = inputs.gather(1, index).double()
        columns = torch.arange(self.members, device=device)
        asked = rows[..., d:].long()
        sets = torch.where(asked > 0, asked - 1, self.places + columns)
        return (
            self.bias.to(device)
            + rows[..., :d] @ self.value.T.to(device)
            + self.code.rows(places) @ self.address.T.to(device)
            + duals(self.code, sets) @ self.wanted.T.to(device)
        )

    def tensors(self) -> dict[str, Tensor]:
        """The matrices, and the elements behind the input."""
        found = {
            "inputs.value": self.value,
            "inputs.address": self.address,
            "inputs.wanted": self.wanted,
            "inputs.bias": self.bias,
        }
        return found | ({"inputs.appended": self.own} if len(self.own) else {})

    def spec(self) -> JsonObject:
        """The code, and how many there are of everything."""
        return {
            "kind": self.kind,
            "width": self.width,
            "code": self.code.spec(),
            "places": self.places,
            "dimension": self.value.shape[1],
            "members": self.members,
            "appended": len(self.own),
        }

    @classmethod
    def taken(cls, data: object, tensors: dict[str, Tensor]) -> SparseSetInputs:
        """The map a file describes; its weights are removed from `tensors`."""
        read = Reader(data, what="the input map")
        read.choice("kind", (cls.kind,))
        code = sign_code_from(read.value("code"))
        width, places, members = read.count("width"), read.count("places"), read.count("members")
        d, extra = read.count("dimension"), read.count("appended")
        read.finish()
        if not 1 <= members <= 64 or places + members > code.count or extra > 64:
            raise InvalidFile("A map of sparse sets has an address for each place and 1 to 64 more.")
        return cls(
            code=code,
            places=places,
            value=taken(tensors, "inputs.value", width, d),
            address=taken(tensors, "inputs.address", width, code.dim),
            wanted=taken(tensors, "inputs.wanted", width, code.dim),
            bias=taken(tensors, "inputs.bias", width),
            own=taken(tensors, "inputs.appended", extra, width) if extra else torch.zeros(0, width).double(),
            members=members,
        )


def sign_code_from(data: object) -> SignCode:
    """A code of signs, narrow enough that dual vectors are exact."""
    code = code_from(data)
    if not isinstance(code, SignCode) or code.dim > 1 << 13:
        raise InvalidFile("Sets are told apart by addresses of signs, 8192 of them at most.")
    return code
