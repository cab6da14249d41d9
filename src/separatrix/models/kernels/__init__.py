"""What mixers compute, each in several ways that agree: a readable reference, a fast form, and GPU kernels."""

from __future__ import annotations

__all__: list[str] = []
