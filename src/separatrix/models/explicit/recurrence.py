"""A layer of W's linear RNN: the recurrence h ← A h + B x stands where a Transformer has attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit.linear import FeedForward, taken
from separatrix.records import JsonObject, Reader

__all__ = ["RecurrentLayer"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RecurrentLayer:
    """h_t = A h_{t−1} + B x_t with h_0 = 0; y = x + C h, and then y + g(y), or y where there is no g."""

    transition: Float[Tensor, "state state"]
    feed: Float[Tensor, "state width"]
    output: Float[Tensor, "width state"]
    feed_forward: FeedForward | None

    @property
    def state(self) -> int:
        """Numbers carried from token to token."""
        return self.transition.shape[0]

    @property
    def out(self) -> int:
        """Coordinates of the stream behind it: those before it."""
        return self.output.shape[0]

    @property
    def parameters(self) -> int:
        """Numbers in it."""
        inside = 0 if self.feed_forward is None else self.feed_forward.parameters
        return self.transition.numel() + self.feed.numel() + self.output.numel() + inside

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Its weights by name."""
        found = {
            f"{prefix}.transition": self.transition,
            f"{prefix}.feed": self.feed,
            f"{prefix}.output": self.output,
        }
        if self.feed_forward is not None:
            found |= self.feed_forward.tensors(f"{prefix}.feed_forward")
        return found

    def spec(self) -> JsonObject:
        """How many numbers it carries, and its feed-forward map."""
        return {
            "state": self.state,
            "feed_forward": None if self.feed_forward is None else self.feed_forward.spec(),
        }

    @classmethod
    def taken(cls, data: object, tensors: dict[str, Tensor], prefix: str, *, width: int) -> RecurrentLayer:
        """The layer a file describes, its weights removed from `tensors`."""
        read = Reader(data, what="a recurrent layer")
        state = read.count("state")
        inside = None if read.skip_null("feed_forward") else read.value("feed_forward")
        read.finish()
        psi = None
        if inside is not None:
            psi = FeedForward.taken(inside, tensors, f"{prefix}.feed_forward", inner=width)
            if psi.maps[-1].out != width:
                raise InvalidFile("A feed-forward map with a residual gives a stream as wide as it reads.")
        return cls(
            transition=taken(tensors, f"{prefix}.transition", state, state),
            feed=taken(tensors, f"{prefix}.feed", state, width),
            output=taken(tensors, f"{prefix}.output", width, state),
            feed_forward=psi,
        )
