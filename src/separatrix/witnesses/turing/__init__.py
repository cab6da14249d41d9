"""Turing machines as weights, by searches (W-5.4), by attention (W-5.8) or on a tape in the state (W-4.1)."""

from __future__ import annotations

from separatrix.witnesses.turing.compile import TuringFamily, compile_turing

__all__ = ["TuringFamily", "compile_turing"]
