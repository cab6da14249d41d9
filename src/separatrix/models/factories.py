"""What `module:factory` names: the function that makes a user's module, its options, the hash of its code."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from torch import nn

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.options import require

__all__ = ["PLAIN_NAME", "Factory", "Maker", "code_of", "factory_of", "maker_named", "reason"]

Maker: TypeAlias = Callable[..., nn.Module]
PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

_OPTION_TYPES: Final = (bool, int, float, str)
_COUNTS: Final = ("layers", "width")
"""Options that every config has, as whole numbers."""
_RESERVED: Final = ("kind", "owner", "validate")
"""What a config says of itself."""
_LONGEST_REASON: Final = 300


@dataclass(frozen=True, kw_only=True)
class Factory:
    """A user's function that makes a module, and what it takes."""

    name: str
    maker: Maker
    takes_signature: bool
    options: Mapping[str, Any]
    """Its keyword-only parameters with their defaults."""
    code: str | None
    """The hash of its source; None where nobody kept that."""

    def __call__(self, signature: object, given: Mapping[str, Any]) -> nn.Module:
        """A new module with these options; a factory that fails is refused in a sentence."""
        try:
            module = self.maker(signature, **given) if self.takes_signature else self.maker(**given)
        except SeparatrixError:
            raise  # a sentence already
        except Exception as error:
            said = ", ".join(f"{word}={value!r}" for word, value in given.items())
            raise InvalidInput(
                f"{self.name} cannot make a module{f' with {said}' if said else ''}; it raises "
                f"{reason(error)}"
            ) from error
        if not isinstance(module, nn.Module):
            raise InvalidInput(
                f"{self.name} must return an nn.Module; what it returns is of type {type(module).__name__}."
            )
        return module


def reason(error: BaseException) -> str:
    """An exception in one line of bounded length."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return said if len(said) <= _LONGEST_REASON else f"{said[: _LONGEST_REASON - 1]}…"


def maker_named(name: str) -> Maker:
    """The function that `module:factory` names; the module is imported, which runs its code."""
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
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"The module {place} cannot be imported; it raises {reason(error)}") from error
    if word not in vars(module):
        raise InvalidInput(f"The module {place} has nothing called {word}; define it there.")
    maker = vars(module)[word]
    if not callable(maker):
        raise InvalidInput(
            f"{name} must be a function that returns an nn.Module; it is of type {type(maker).__name__}."
        )
    return maker  # type: ignore[no-any-return]


def factory_of(name: str, maker: Maker) -> Factory:
    """The factory that is called this; one that takes what it cannot be given is refused."""
    try:
        signature = inspect.signature(maker)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"What {name} takes cannot be told; write a function of your own around it."
        ) from error
    options: dict[str, Any] = {}
    others = []
    for word, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and type(parameter.default) in _OPTION_TYPES:
            options[word] = parameter.default
        else:
            others.append(parameter)
    if len(others) > 1 or any(other.kind is not other.POSITIONAL_OR_KEYWORD for other in others):
        raise InvalidInput(
            f"A factory is called with the task's signature, and its options are keyword-only with a number, "
            f"a truth value or a text as default; {name} takes {signature}."
        )
    for word, default in options.items():
        require(
            word not in _RESERVED,
            f"{name} has an option {word}, which is what a config calls something else; rename it.",
        )
        require(
            word not in _COUNTS or type(default) is int,
            f"{name} has {word}={default!r}, and {word} is a whole number in every model; rename it.",
        )
    return Factory(
        name=name, maker=maker, takes_signature=bool(others), options=options, code=code_of(name, maker)
    )


def code_of(name: str, maker: Maker) -> str | None:
    """The hash of the file that the factory is named in, and of the one it is defined in, if another.

    Where there is no file, as in a notebook, the lines of the factory alone. What these import is left out.
    """
    while isinstance(maker, functools.partial):
        maker = maker.func
    modules = dict.fromkeys([sys.modules[name.partition(":")[0]], inspect.getmodule(maker)])
    files = [_source_of(module) for module in modules if module is not None]
    texts = [text for text in files if text is not None]
    if not texts:
        alone = _source_of(maker)
        texts = [] if alone is None else [alone]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest() if texts else None


def _source_of(what: Any) -> str | None:
    try:
        return inspect.getsource(what)
    except (OSError, TypeError):
        return None
