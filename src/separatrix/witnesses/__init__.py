"""Witnesses: explicit weights that do a task on every input, one file a theorem."""

from __future__ import annotations

from separatrix.witnesses.catalogue import CATALOGUE, Entry, artefacts, entries_for, witness_for
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.witness import Witness

__all__ = ["CATALOGUE", "Choices", "Entry", "Witness", "artefacts", "entries_for", "witness_for"]
