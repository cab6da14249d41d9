"""Inputs for matching in a window: each number in a coordinate of its own, and the window as a set.

Number z at place i is held as z in coordinate (i + T) mod (2T + 1) of as many, so that the numbers of any
window of 2T + 1 places lie in different coordinates and a mean over the window keeps them apart. The window
is one vector, the dual of its places' addresses. T places before the row and T behind it are elements of
the model's own; every window has 2T + 1 places that way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit.codes import SignCode
from separatrix.models.explicit.duals import duals
from separatrix.models.explicit.inputs import InputMap, require_rows
from separatrix.models.explicit.linear import taken
from separatrix.models.explicit.positions import Track
from separatrix.models.explicit.sparse_sets import sign_code_from
from separatrix.records import JsonObject, Reader

__all__ = ["WindowInputs", "window_duals"]


@lru_cache(maxsize=16)
def _spelled(code: SignCode, places: int, reach: int) -> Float[Tensor, "place dim"]:
    first = torch.arange(places).unsqueeze(1)
    return duals(code, first + torch.arange(2 * reach + 1))


def window_duals(code: SignCode, places: int, reach: int) -> Float[Tensor, "place dim"]:
    """The dual vector of each place's window; address a belongs to place a − T."""
    return _spelled(code, places, reach)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class WindowInputs(InputMap):
    """Tokens that are numbers: at place i number z has the vector

    bias + number·z + slots·(z e_s) + phase·e_s + address·u_{i+T} + wanted·w, with s = (i + T) mod (2T + 1).
    """

    kind: ClassVar[str] = "windows"

    code: SignCode
    places: int
    reach: int
    number: Float[Tensor, "width 1"]
    slots: Float[Tensor, "width slot"]
    phase: Float[Tensor, "width slot"]
    address: Float[Tensor, "width dim"]
    wanted: Float[Tensor, "width dim"]
    bias: Float[Tensor, "width"]
    own: Float[Tensor, "extra width"]

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        return self.bias.shape[0]

    @property
    def window(self) -> int:
        """2T + 1 places."""
        return 2 * self.reach + 1

    @property
    def tracks(self) -> tuple[Track, ...]:
        """Places are part of the map itself."""
        return ()

    @property
    def appended(self) -> Float[Tensor, "extra width"]:
        """T elements that stand for the places before the row, then T for those behind it."""
        return self.own

    @property
    def codes(self) -> tuple[SignCode, ...]:
        """That of the addresses."""
        return (self.code,)

    def check(self, inputs: Int[Tensor, "batch pos"]) -> None:
        """Rows of numbers."""
        require_rows(inputs, None)

    def lengths(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch"]:
        """All numbers."""
        return torch.full(inputs.shape[:1], inputs.shape[1], device=inputs.device)

    def vectors(
        self,
        inputs: Int[Tensor, "batch pos"],
        places: Int[Tensor, "batch asked"],
        lengths: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch asked width"]:
        """Everything through its matrix."""
        device = inputs.device
        numbers = inputs.gather(1, places).double().unsqueeze(2)
        slot = torch.nn.functional.one_hot((places + self.reach) % self.window, self.window).double()
        windows = window_duals(self.code, self.places, self.reach).to(device)
        return (
            self.bias.to(device)
            + numbers @ self.number.T.to(device)
            + (numbers * slot) @ self.slots.T.to(device)
            + slot @ self.phase.T.to(device)
            + self.code.rows(places + self.reach) @ self.address.T.to(device)
            + windows[places] @ self.wanted.T.to(device)
        )

    def tensors(self) -> dict[str, Tensor]:
        """The matrices, and the elements behind the input."""
        return {
            "inputs.number": self.number,
            "inputs.slots": self.slots,
            "inputs.phase": self.phase,
            "inputs.address": self.address,
            "inputs.wanted": self.wanted,
            "inputs.bias": self.bias,
            "inputs.appended": self.own,
        }

    def spec(self) -> JsonObject:
        """The code, and how many there are of everything."""
        return {
            "kind": self.kind,
            "width": self.width,
            "code": self.code.spec(),
            "places": self.places,
            "reach": self.reach,
        }

    @classmethod
    def taken(cls, data: object, tensors: dict[str, Tensor]) -> WindowInputs:
        """The map a file describes; its weights are removed from `tensors`."""
        read = Reader(data, what="the input map")
        read.choice("kind", (cls.kind,))
        code = sign_code_from(read.value("code"))
        width, places, reach = read.count("width"), read.count("places"), read.count("reach")
        read.finish()
        if not 1 <= reach <= 64 or not 1 <= places <= 1 << 16 or places + 2 * reach > code.count:
            raise InvalidFile("A map of windows has an address for each place and for T more on either side.")
        window = 2 * reach + 1
        return cls(
            code=code,
            places=places,
            reach=reach,
            number=taken(tensors, "inputs.number", width, 1),
            slots=taken(tensors, "inputs.slots", width, window),
            phase=taken(tensors, "inputs.phase", width, window),
            address=taken(tensors, "inputs.address", width, code.dim),
            wanted=taken(tensors, "inputs.wanted", width, code.dim),
            bias=taken(tensors, "inputs.bias", width),
            own=taken(tensors, "inputs.appended", 2 * reach, width),
        )
