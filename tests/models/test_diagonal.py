"""Powers of complex numbers in pairs of real ones, beside torch's own complex numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.models.kernels import diagonal
from separatrix.models.kernels.diagonal import powers


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


def test_the_operator_that_gpus_use_has_the_gradient_of_the_formula() -> None:
    decay, angle = (part.requires_grad_() for part in pairs(2, 3, seed=1))
    assert torch.autograd.gradcheck(diagonal._exponential, (decay, angle))
    assert torch.autograd.gradgradcheck(diagonal._exponential, (decay, angle))
    torch.library.opcheck(diagonal._exponential, (decay, angle))


def _by_operator(decay: Tensor, angle: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor]:
    real, imag = decay.unsqueeze(-1) * exponents, angle.unsqueeze(-1) * exponents
    found: tuple[Tensor, Tensor] = diagonal._exponential(real, imag)
    return found
