"""Trying a user's module out before it is trained: what cannot be a member is refused, and why is said.

A member must compute the same whoever its neighbours are and whatever was computed before, for any number of
examples at once; and each of its weights must be learned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.models.factories import reason
from separatrix.models.population import Signature
from separatrix.options import require
from separatrix.tasks.interface import Tokens

__all__ = ["check_twin", "probe", "tensors_of", "unreadable"]

_EXAMPLES: Final = (0, 1)
_OTHER_BATCHES: Final = ((2, 1, 0), (1,))
"""More than these in another order, and one alone: the last part of an evaluation may be that small."""
_MOST_LISTED: Final = 3


def tensors_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights and buffers, each once, under its first name."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def unreadable(name: str, inputs: Shaped[Tensor, "batch pos *width"], error: Exception) -> InvalidInput:
    """What is said of a module that fails on these inputs."""
    return InvalidInput(
        f"{name} cannot read an input of shape {tuple(inputs.shape)}, (batch, pos…), of {inputs.dtype} on "
        f"{inputs.device}; it raises {reason(error)}"
    )


def probe(module: nn.Module, signature: Signature, *, name: str) -> None:
    """Refuse a module that cannot be a member, as it computes now."""
    _check_tensors(module, name=name)
    _check_dropout(module, name=name)
    inputs = _inputs(signature, module, _EXAMPLES)
    before = {word: values.detach().clone() for word, values in tensors_of(module)}
    with torch.no_grad():
        first, second = (_answer(module, inputs, signature, name=name) for _ in range(2))
    _check_unchanged(module, before, name=name)
    require(
        torch.equal(first, second),
        f"{name} answers the same input differently each time; take dropout and noise out of it.",
    )
    _check_other_batches(module, first, signature, name=name)
    _check_gradients(module, inputs, signature, name=name)


def check_twin(module: nn.Module, twin: nn.Module, *, name: str) -> None:
    """Refuse a factory that makes two modules under one seed with different weights."""
    for (word, values), (same, others) in zip(tensors_of(module), tensors_of(twin), strict=False):
        require(
            word == same and torch.equal(values, others),
            f"{name} makes modules under one seed that differ in {word}; draw all that is random with torch, "
            "and leave no weight without a first value.",
        )


def _check_tensors(module: nn.Module, *, name: str) -> None:
    for word, values in tensors_of(module):
        require(
            not is_lazy(values), f"{name} leaves the shape of {word} to the first input; give it its sizes."
        )
        require(
            not values.is_complex(),
            f"{name} has complex numbers in {word}, and weights are real; keep its real and its imaginary "
            "part as two axes, and join them with torch.view_as_complex where it computes.",
        )
        require(
            values.device.type == "cpu",
            f"{name} puts {word} on the device {values.device}; leave it on the CPU, training moves it.",
        )


def _check_dropout(module: nn.Module, *, name: str) -> None:
    dropping = next((part for part in module.modules() if _drops(part)), None)
    require(
        dropping is None,
        f"{name} has active dropout ({type(dropping).__name__}), and a member must compute the same whoever "
        "its neighbours are; set its probability to 0.",
    )


def _drops(part: nn.Module) -> bool:
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return part.p > 0
    return isinstance(part, nn.MultiheadAttention | nn.RNNBase) and part.dropout > 0


def _inputs(
    signature: Signature, module: nn.Module, examples: tuple[int, ...]
) -> Shaped[Tensor, "batch pos *width"]:
    """Examples by number, no two of them alike."""
    number = torch.tensor(examples).unsqueeze(1)
    if isinstance(signature.inputs, Tokens):
        return (torch.arange(signature.length) + number) % signature.inputs.size
    wide = signature.length * signature.inputs.width
    between = (torch.arange(wide, dtype=torch.float64) + wide * number).cos().add(1).div(2)
    kinds = [values.dtype for values in module.parameters() if values.is_floating_point()]
    like = kinds[0] if kinds else torch.get_default_dtype()
    return between.view(len(examples), signature.length, -1).to(like)


def _answer(
    module: nn.Module, inputs: Shaped[Tensor, "batch pos *width"], signature: Signature, *, name: str
) -> Float[Tensor, "batch pos out"]:
    try:
        found = module(inputs)
    except SeparatrixError:
        raise
    except Exception as error:
        raise unreadable(name, inputs, error) from error
    shape = (*inputs.shape[:2], signature.out)
    kind = f"the type {type(found).__name__}"
    if isinstance(found, Tensor):
        kind = f"{found.dtype} of shape {tuple(found.shape)}"
    require(
        isinstance(found, Tensor) and tuple(found.shape) == shape and found.is_floating_point(),
        f"{name} must answer an input of shape {tuple(inputs.shape)} with numbers of shape {shape}, "
        f"(batch, pos, out); it answers with {kind}.",
    )
    require(
        not found.isnan().any(), f"{name} answers with NaN before it is trained; look at its first weights."
    )
    return found  # type: ignore[no-any-return]


def _check_unchanged(module: nn.Module, before: dict[str, Tensor], *, name: str) -> None:
    for word, values in tensors_of(module):
        require(
            word in before and torch.equal(values, before[word]),
            f"{name} changes its own {word} while it computes, as batch norm does, and a member must not "
            "depend on what was computed before; take a layer norm.",
        )


def _check_other_batches(
    module: nn.Module, first: Float[Tensor, "batch pos out"], signature: Signature, *, name: str
) -> None:
    near = math.sqrt(torch.finfo(first.dtype).eps) * float(first.abs().max())
    for examples in _OTHER_BATCHES:
        with torch.no_grad():
            found = _answer(module, _inputs(signature, module, examples), signature, name=name)
        for row, example in zip(found, examples, strict=True):
            require(
                example not in _EXAMPLES or torch.allclose(row, first[example], rtol=0, atol=near),
                f"{name} answers an example differently where others stand beside it; keep the examples of a "
                "batch apart (batch_first=True in the parts of torch that read (pos, batch) without it).",
            )


def _check_gradients(
    module: nn.Module, inputs: Shaped[Tensor, "batch pos *width"], signature: Signature, *, name: str
) -> None:
    trained = {word: values for word, values in module.named_parameters() if values.requires_grad}
    require(bool(trained), f"{name} returns a module that has no weights to train.")
    found = _answer(module, inputs, signature, name=name)
    require(
        found.requires_grad,
        f"{name} answers with numbers that no gradient leads back from to its weights; take detach(), "
        "no_grad and what rounds or counts out of it.",
    )
    try:
        slopes = torch.autograd.grad(found.sum(), list(trained.values()), allow_unused=True)
    except Exception as error:
        raise InvalidInput(f"{name} cannot be differentiated; it raises {reason(error)}") from error
    idle = [word for word, slope in zip(trained, slopes, strict=True) if slope is None]
    require(
        not idle,
        f"{name} has weights that no gradient comes to: {_listed(idle)}; use them, leave them out, or freeze "
        "them with requires_grad_(False).",
    )


def _listed(words: list[str]) -> str:
    shown = ", ".join(words[:_MOST_LISTED])
    return shown if len(words) <= _MOST_LISTED else f"{shown} and {len(words) - _MOST_LISTED} more"
