"""What mixers compute, in several ways that agree: a readable reference, a fast form, GPU kernels."""

from __future__ import annotations

__all__: list[str] = []
