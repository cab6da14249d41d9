"""Powers of complex numbers in pairs of real ones, beside torch's own complex numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.models.kernels import diagonal
from separatrix.models.kernels.diagonal import exponential_less_one, powers


def pairs(*shape: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Decays below 0 and angles of several turns."""
    generator = torch.Generator().manual_seed(seed)
    decay, angle = torch.rand((2, *shape), generator=generator, dtype=torch.float64)
    return -3 * decay, 20 * angle - 10


def test_powers_are_those_of_complex_numbers() -> None:
    decay, angle = pairs(2, 3)
    exponents = torch.arange(7, dtype=torch.float64)
    expected = torch.polar(decay.exp(), angle).unsqueeze(-1) ** exponents
    for found in (powers(decay, angle, exponents), _by_operator(decay, angle, exponents)):
        torch.testing.assert_close(torch.complex(*found), expected)


def test_little_less_than_one_is_not_lost() -> None:
    decay, angle = pairs(2, 3)
    large = torch.polar(decay.exp(), angle) - 1
    small = torch.complex(1e-9 * decay, 1e-9 * angle)
    for less_one in (exponential_less_one, diagonal._less_one):
        torch.testing.assert_close(torch.complex(*less_one(decay, angle)), large)
        found = torch.complex(*less_one(small.real, small.imag))
        torch.testing.assert_close(found, small + small**2 / 2, rtol=1e-12, atol=0)


@pytest.mark.parametrize("operator", [diagonal._exponential, diagonal._less_one])
def test_the_operators_that_gpus_use_have_the_gradient_of_the_formula(operator: Any) -> None:
    decay, angle = (part.requires_grad_() for part in pairs(2, 3, seed=1))
    assert torch.autograd.gradcheck(operator, (decay, angle))
    assert torch.autograd.gradgradcheck(operator, (decay, angle))
    torch.library.opcheck(operator, (decay, angle))


def _by_operator(decay: Tensor, angle: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor]:
    real, imag = decay.unsqueeze(-1) * exponents, angle.unsqueeze(-1) * exponents
    found: tuple[Tensor, Tensor] = diagonal._exponential(real, imag)
    return found
