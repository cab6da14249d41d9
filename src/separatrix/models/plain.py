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
import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, TypeAlias

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.func import functional_call

from separatrix.accounting import Size, StatePart
from separatrix.errors import InvalidInput
from separatrix.models.members import MemberModule, taken
from separatrix.models.population import ModelConfig, Population, Signature
from separatrix.options import option, require
from separatrix.tasks.interface import Tokens

__all__ = ["PLAIN_NAME", "plain_model"]

Factory: TypeAlias = Callable[..., nn.Module]
PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_OPTION_TYPES: Final = (bool, int, float, str)
_INHERITED: Final = ("layers", "width")


def plain_model(name: str) -> type[Population]:
    """The model that the factory `module:factory` makes; the module is imported, which runs its code."""
    return _model(name, _factory(name))


@cache
def _model(text: str, factory: Factory) -> type[Population]:
    """One class for each factory, so that a model named twice is the same."""
    takes_signature, options = _taken_by(text, factory)
    config = _config(text, options)
    said = {"name": text, "title": text, "source": f"the user's own {text}", "Config": config}
    inside = {"factory": staticmethod(factory), "takes_signature": takes_signature, "options": tuple(options)}
    return type("PlainModel", (_PlainModel,), {"__module__": __name__, **said, **inside})


def _factory(name: str) -> Factory:
    if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
        raise InvalidInput(
            f"A model of your own is named module:factory, such as my_models:make_net; got {name!r:.60}."
        )
    place, word = name.split(":")
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise InvalidInput(
                f"The module {place} needs {error.name}, which is not installed; install it first."
            ) from error
        raise InvalidInput(
            f"There is no module {error.name} to import {word} from; put its folder on PYTHONPATH."
        ) from error
    except Exception as error:
        raise InvalidInput(
            f"The module {place} cannot be imported; it raises {type(error).__name__}: {error}"
        ) from error
    if word not in vars(module):
        raise InvalidInput(f"The module {place} has nothing called {word}; define it there.")
    factory = vars(module)[word]
    if not callable(factory):
        raise InvalidInput(
            f"{name} must be a function that returns an nn.Module; it is of type {type(factory).__name__}."
        )
    return factory  # type: ignore[no-any-return]


def _taken_by(text: str, factory: Factory) -> tuple[bool, dict[str, Any]]:
    """Whether the factory takes the signature, and its options with their defaults."""
    options: dict[str, Any] = {}
    others = []
    for word, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and type(parameter.default) in _OPTION_TYPES:
            options[word] = parameter.default
        else:
            others.append(parameter)
    if len(others) > 1 or any(other.kind is not other.POSITIONAL_OR_KEYWORD for other in others):
        raise InvalidInput(
            f"A factory is called with the task's signature, and its options are keyword-only with a number, "
            f"a truth value or a text as default; {text} takes {inspect.signature(factory)}."
        )
    return bool(others), options


def _config(text: str, options: dict[str, Any]) -> type[ModelConfig]:
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
    takes_signature: ClassVar[bool]
    options: ClassVar[tuple[str, ...]]

    def __init__(self, config: ModelConfig, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        self.copies = _Copies(members, self._make, signature, name=self.name)

    def _make(self) -> nn.Module:
        given = {word: getattr(self.config, word) for word in self.options}
        kind = type(self)
        module = kind.factory(self.signature, **given) if kind.takes_signature else kind.factory(**given)
        if not isinstance(module, nn.Module):
            raise InvalidInput(
                f"{self.name} must return an nn.Module; what it returns is of type {type(module).__name__}."
            )
        return module

    @property
    def shape(self) -> tuple[int, int]:
        """Unknown."""
        return 0, 0

    @property
    def fusible(self) -> Sequence[nn.Module]:
        """Nothing: what a module of the user's own does may be beyond a compiler."""
        return ()

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """It does not read token by token."""
        return ()

    def size(self, n: int, precision: int) -> Size:
        """Parameters as the module holds them; its width is the widest last axis, unless it is an option."""
        size = super().size(n, precision)
        if "width" in self.options:
            return size
        widest = max(values.shape[-1] for values in self.parameters() if values.dim() > 1)
        return dataclasses.replace(size, width=widest)

    def forward(
        self,
        inputs: Shaped[Tensor, "member batch pos *width"],
        at: Int[Tensor, "member batch label"] | None = None,
    ) -> Float[Tensor, "member batch label out"]:
        """Every member's own module on its own inputs."""
        return taken(self.copies(inputs), at)


class _Copies(MemberModule):
    """The weights of all copies, stacked under the names they have in the module, a slash for each dot."""

    def __init__(
        self, members: int, make: Callable[[], nn.Module], signature: Signature, *, name: str
    ) -> None:
        super().__init__(members)
        self._make, self._name = make, name
        with _seeded(0):
            module = make()
            _probe(module, signature, name=name)
        self._module = _Hidden(
            module=module,
            words=tuple(word for word, _ in _tensors(module)),
            recurrent=any(isinstance(part, nn.RNNBase) for part in module.modules()),
        )
        for word, values in _tensors(module):
            stacked = torch.zeros(members, *values.shape, dtype=values.dtype)
            trained = isinstance(values, nn.Parameter) and values.requires_grad
            holder = nn.Parameter(stacked) if trained else nn.Buffer(stacked)
            setattr(self, _key(word), holder)
        require(
            any(True for _ in self.parameters()), f"{name} returns a module that has no weights to train."
        )

    def draw(self, prefix: str, member: int, seed: int) -> None:
        """Give one member what a fresh module has."""
        with _seeded(seed), torch.no_grad():
            for word, values in _tensors(self._make()):
                mine = getattr(self, _key(word))
                require(
                    mine.shape[1:] == values.shape,
                    f"{self._name} returns modules of different shapes: {word} is {tuple(mine.shape[1:])} in "
                    f"one and {tuple(values.shape)} in another.",
                )
                mine[member].copy_(values)

    def forward(
        self, inputs: Shaped[Tensor, "member batch pos *width"]
    ) -> Float[Tensor, "member batch pos out"]:
        """One call for each member."""
        if not self._module.recurrent:
            return self._called(inputs)
        with warnings.catch_warnings():
            # A member's weights are slices of stacked ones and never one block, as cuDNN would have them.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")
            return self._called(inputs)

    def _called(
        self, inputs: Shaped[Tensor, "member batch pos *width"]
    ) -> Float[Tensor, "member batch pos out"]:
        module, words = self._module.module, self._module.words
        if inputs.is_floating_point():
            inputs = inputs.to(next(self.parameters()).dtype)
        outputs = [
            functional_call(module, {word: getattr(self, _key(word))[member] for word in words}, (row,))
            for member, row in enumerate(inputs.unbind(0))
        ]
        return torch.stack(outputs)


@dataclass(frozen=True, kw_only=True)
class _Hidden:
    """Holds the module out of the sight of its owner, whose weights are the stacked ones alone."""

    module: nn.Module
    words: tuple[str, ...]
    recurrent: bool


def _key(word: str) -> str:
    return word.replace(".", "/")


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights and buffers, each once, under its first name."""
    yield from module.named_parameters()
    yield from module.named_buffers()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's CPU generator begins at this seed within, and is what it was behind."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _probe(module: nn.Module, signature: Signature, *, name: str) -> None:
    """Refuse a module that gives no output of the right shape, draws numbers, or changes its own buffers."""
    dropping = [part for part in module.modules() if _drops(part)]
    require(
        not dropping,
        f"{name} has active dropout ({type(dropping[0]).__name__ if dropping else ''}), and a member must "
        "compute the same whoever its neighbours are; set its probability to 0.",
    )
    inputs = _inputs(signature)
    before = [values.clone() for _, values in module.named_buffers()]
    module.train()
    with torch.no_grad():
        try:
            first, second = module(inputs), module(inputs)
        except Exception as error:
            raise InvalidInput(
                f"{name} cannot read an input of shape {tuple(inputs.shape)}, (batch, pos…); it raises "
                f"{type(error).__name__}: {error}"
            ) from error
    shape = (*inputs.shape[:2], signature.out)
    found = f"shape {tuple(first.shape)}" if isinstance(first, Tensor) else f"the type {type(first).__name__}"
    require(
        isinstance(first, Tensor) and tuple(first.shape) == shape and first.is_floating_point(),
        f"{name} must answer an input of shape {tuple(inputs.shape)} with numbers of shape {shape}, "
        f"(batch, pos, out); it answers with {found}.",
    )
    for (word, values), old in zip(module.named_buffers(), before, strict=True):
        require(
            torch.equal(values, old),
            f"{name} changes its buffer {word} while it computes, as batch norm does, and a member must not "
            "depend on what was computed before; take a layer norm.",
        )
    require(
        torch.equal(first, second),
        f"{name} answers the same input differently each time; take dropout and noise out of it.",
    )


def _drops(part: nn.Module) -> bool:
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return part.p > 0
    return isinstance(part, nn.MultiheadAttention | nn.RNNBase) and part.dropout > 0


def _inputs(signature: Signature) -> Tensor:
    if isinstance(signature.inputs, Tokens):
        return torch.arange(2 * signature.length).view(2, -1) % signature.inputs.size
    return torch.ones(2, signature.length, signature.inputs.width)
