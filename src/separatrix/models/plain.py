"""A plain `nn.Module` as a population: copies of it, their weights stacked, computed one after another.

`plain_model("my_module:make_net")` imports the module and takes the factory. It is called as
`make_net(signature)`, or `make_net()` if it takes nothing, and returns a module whose `forward` maps inputs
(batch, pos), or (batch, pos, width) where they are real numbers, to outputs (batch, pos, out). Keyword-only
parameters with a default that is a number, a truth value or a text become options of the model:

    def make_net(signature: Signature, *, width: int = 64, layers: int = 2) -> nn.Module: ...

A member's weights are what the factory draws after torch's generator is seeded with the member's seed; the
global generator is put back behind it.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.func import functional_call

from separatrix.accounting import Size, StatePart
from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.models.factories import Factory, Maker, factory_of, maker_named
from separatrix.models.members import MemberModule, taken
from separatrix.models.population import ModelConfig, Population, Signature
from separatrix.models.probing import check_twin, probe, tensors_of, unreadable
from separatrix.options import option, require

__all__ = ["plain_model"]

_INHERITED: Final = ("layers", "width")


def plain_model(name: str) -> type[Population]:
    """The model that the factory `module:factory` makes; the module is imported, which runs its code."""
    return _model(name, maker_named(name))


@cache
def _model(text: str, maker: Maker) -> type[Population]:
    """One class for each factory, so that a model named twice is the same."""
    factory = factory_of(text, maker)
    config = _config(text, factory.options)
    said = {"name": text, "title": text, "source": f"the user's own {text}", "Config": config}
    inside: dict[str, Any] = {"factory": factory, "code": factory.code, "tried": set()}
    return type("PlainModel", (_PlainModel,), {"__module__": __name__, **said, **inside})


def _config(text: str, options: Mapping[str, Any]) -> type[ModelConfig]:
    fields: list[Any] = [
        (word, type(default), option(default, help=f"{word} of {text}")) for word, default in options.items()
    ]
    # A factory that has no width or layers cannot be given one.
    fields += [
        (word, int, dataclasses.field(default=1, init=False, repr=False))
        for word in _INHERITED
        if word not in options
    ]
    config = dataclasses.make_dataclass("Config", fields, bases=(ModelConfig,), frozen=True, kw_only=True)
    config.__module__ = __name__
    config.__qualname__ = f"{text.split(':')[1]}.Config"
    return config


class _PlainModel(Population):
    """Copies of a module that knows nothing of members."""

    factory: ClassVar[Factory]
    tried: ClassVar[set[tuple[ModelConfig, Signature]]]
    """What has been found fit: a model is built again for each member that is done."""

    def __init__(self, config: ModelConfig, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        with _seeded(0):
            module = self._make()
        if (config, signature) not in self.tried:
            self._try_out(module)
            self.tried.add((config, signature))
        self.copies = _Copies(members, module, self._make, name=self.name)

    def _try_out(self, module: nn.Module) -> None:
        # Gradients are part of it, also where the caller has no use for them.
        with torch.inference_mode(False), torch.enable_grad():
            with _seeded(0):
                twin = self._make()
            probe(twin, self.signature, name=self.name)
        check_twin(module, twin, name=self.name)

    def _make(self) -> nn.Module:
        given = {word: getattr(self.config, word) for word in self.factory.options}
        return self.factory(self.signature, given).train()

    @property
    def shape(self) -> tuple[int, int]:
        """Unknown."""
        return 0, 0

    @property
    def fusible(self) -> Sequence[nn.Module]:
        """Nothing: what a module of the user's own does may be beyond a compiler."""
        return ()

    @property
    def recordable(self) -> bool:
        """Not with a recurrent layer of torch's, whose library does not let itself be recorded."""
        return not self.copies.recurrent

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """It does not read token by token."""
        return ()

    def size(self, n: int, precision: int) -> Size:
        """Parameters as the module holds them; its width is the widest last axis, unless it is an option.

        A single number, which has no axis, is one wide.
        """
        size = super().size(n, precision)
        if "width" in self.factory.options:
            return size
        wide = [values.shape[-1] for values in self.parameters() if values.dim() > 1]
        return dataclasses.replace(size, width=max([1, *wide]))

    def forward(
        self,
        inputs: Shaped[Tensor, "member batch pos *width"],
        at: Int[Tensor, "member batch label"] | None = None,
    ) -> Float[Tensor, "member batch label out"]:
        """Every member's own module on its own inputs."""
        return taken(self.copies(inputs), at)


class _Copies(MemberModule):
    """The weights of all copies, stacked under the names they have in the module, a slash for each dot."""

    def __init__(self, members: int, module: nn.Module, make: Callable[[], nn.Module], *, name: str) -> None:
        super().__init__(members)
        self._make, self._name = make, name
        self._hidden = _Hidden(
            module=module,
            words=tuple(word for word, _ in tensors_of(module)),
            recurrent=any(isinstance(part, nn.RNNBase) for part in module.modules()),
        )
        self.stacked = nn.Module()
        for word, values in tensors_of(module):
            rows = torch.zeros(members, *values.shape, dtype=values.dtype)
            trained = isinstance(values, nn.Parameter) and values.requires_grad
            setattr(self.stacked, _key(word), nn.Parameter(rows) if trained else nn.Buffer(rows))

    @property
    def recurrent(self) -> bool:
        """Whether a part of the module is torch's own LSTM, GRU or RNN."""
        return self._hidden.recurrent

    def draw(self, prefix: str, member: int, seed: int) -> None:
        """Give one member what a fresh module has."""
        with _seeded(seed), torch.no_grad():
            drawn = dict(tensors_of(self._make()))
        for word in sorted(drawn.keys() ^ set(self._hidden.words)):
            raise InvalidInput(f"{self._name} returns modules of different parts: only some have {word}.")
        for word, values in drawn.items():
            mine = getattr(self.stacked, _key(word))
            require(
                mine.shape[1:] == values.shape,
                f"{self._name} returns modules of different shapes: {word} is {tuple(mine.shape[1:])} in "
                f"one and {tuple(values.shape)} in another.",
            )
            with torch.no_grad():
                mine[member].copy_(values)

    def forward(
        self, inputs: Shaped[Tensor, "member batch pos *width"]
    ) -> Float[Tensor, "member batch pos out"]:
        """One call for each member."""
        if inputs.is_floating_point():
            inputs = inputs.to(next(self.parameters()).dtype)
        if not self.recurrent:
            return self._called(inputs)
        with warnings.catch_warnings():
            # A member's weights are slices of stacked ones and never one block, as cuDNN would have them.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")
            with _without_onednn() if _is_refused(inputs) else nullcontext():
                return self._called(inputs)

    def _called(
        self, inputs: Shaped[Tensor, "member batch pos *width"]
    ) -> Float[Tensor, "member batch pos out"]:
        module, words = self._hidden.module, self._hidden.words
        outputs = []
        for member, row in enumerate(inputs.unbind(0)):
            weights = {word: getattr(self.stacked, _key(word))[member] for word in words}
            try:
                outputs.append(functional_call(module, weights, (row,)))
            except (SeparatrixError, MemoryError, torch.OutOfMemoryError):
                raise
            except Exception as error:
                # It may read full length in float32 on a CPU and nothing else.
                raise unreadable(self._name, row, error) from error
        return torch.stack(outputs)


def _is_refused(inputs: Tensor) -> bool:
    """Whether oneDNN would not have LSTMs on this processor as they are asked for here."""
    rounds = inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return rounds and not torch.ops.mkldnn._is_mkldnn_bf16_supported()


@contextmanager
def _without_onednn() -> Iterator[None]:
    """In the block all is torch's own: oneDNN refuses LSTMs in bfloat16 on processors that have no such
    products, where torch's own take them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration on top of oneDNN")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


@dataclass(frozen=True, kw_only=True)
class _Hidden:
    """Holds the module out of the sight of its owner, whose weights are the stacked ones alone."""

    module: nn.Module
    words: tuple[str, ...]
    recurrent: bool


def _key(word: str) -> str:
    return word.replace(".", "/")


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's CPU generator begins at this seed within, and is what it was behind."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
