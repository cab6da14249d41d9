"""From theorem to code: where each claim of the papers stands in the sources, with its proof and tests."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from separatrix.certificates.proofs import PROOFS
from separatrix.communication.bounds import RULES
from separatrix.communication.protocols.any_partition import AnyPartition
from separatrix.communication.protocols.one_way import OneWay
from separatrix.communication.protocols.rows import RowByRow
from separatrix.theorems import THEOREMS, WORKS, Artefact, Owed, Theorem
from separatrix.witnesses import CATALOGUE

__all__ = ["theorem_to_code"]

_ROOT: Final = Path(__file__).parent.parent
_SOURCE: Final = "src/separatrix"
_WIDTH: Final = 110
_HEADINGS: Final = ("theorem", "claim", "task", "family", "code", "proof", "tests", "page")
_WITNESS_TESTS: Final = {
    "disjointness": "witnesses/test_sparse_threshold.py",
    "last_match": "witnesses/test_matching_layers.py",
    "recurrent:dyck": "witnesses/test_dyck_rnn.py",
    "recurrent:dyck_sigmoid": "witnesses/test_dyck_rnn.py",
    "recurrent:stored_input": "witnesses/test_stored_input.py",
    "replay.replays": "witnesses/replay/test_replays.py",
    "turing.hybrid": "witnesses/turing/test_runs.py",
    "turing.searches": "witnesses/turing/test_runs.py",
    "turing.tape": "witnesses/turing/test_runs.py",
}
"""Tests of constructions that are not named as the modules are."""
_PROOF_TESTS: Final = {
    "disjointness": "certificates/test_proof_sparse_threshold.py",
    "last_match": "certificates/test_proof_matching.py",
    "matching_layers": "certificates/test_proof_matching.py",
}
_BOUND_TESTS: Final = ("communication/test_bounds.py", "communication/test_bounds_checked.py")


def theorem_to_code() -> str:
    """The page: a table for each paper, a row for each claim and what shows it."""
    parts = [
        "# From theorem to code",
        textwrap.fill(
            "What each claim of the papers is in the sources: weights that do it, the rule that states a "
            "bound with its derivation, or the protocol that two parties run; then the module that proves "
            "weights right on every input, and the tests. Where no general proof is named, a certificate "
            "tries every input while there are few. [The results](results.md) has the statements; "
            "`separatrix.theorems` is where both pages are read from.",
            _WIDTH,
        ),
    ]
    for letter, work in WORKS.items():
        entries = [entry for entry in THEOREMS.values() if entry.source.work == letter]
        rows = [row for entry in entries for row in _rows(entry)]
        lines = [f"| {' | '.join(_HEADINGS)} |", "|---" * len(_HEADINGS) + "|"]
        for row in rows:
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        parts += [f"## {letter}: {work.title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _rows(entry: Theorem) -> Iterator[tuple[str, ...]]:
    if entry.restates is not None:
        yield entry.id, f"restates {entry.restates}", *("",) * (len(_HEADINGS) - 2)
    merged: dict[tuple[str, ...], list[Artefact]] = {}
    for owed in entry.owes:
        for artefact in entry.artefacts:
            if artefact.kind == owed.kind and artefact.variant == owed.variant and _about(owed, artefact):
                merged.setdefault((f"{owed.kind}: {owed.formula}", *_where(artefact)), []).append(artefact)
    for (claim, *cells), artefacts in merged.items():
        tasks = _listed(artefact.task or "every task" for artefact in artefacts)
        families = _listed(artefact.family or "—" for artefact in artefacts)
        yield entry.id, claim, tasks, families, *cells


def _about(owed: Owed, artefact: Artefact) -> bool:
    tasks, families = owed.tasks or (None,), owed.families or (None,)
    return artefact.task in tasks and artefact.family in families


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _where(artefact: Artefact) -> tuple[str, str, str, str]:
    """Code, proof, tests and page."""
    if artefact.kind == "witness":
        return _witness(artefact)
    if artefact.kind == "bound":
        function = RULES[artefact].function
        place = f"{function.__module__.replace('.', '/').replace('separatrix', _SOURCE, 1)}.py"
        return (
            _link(function.__name__, place),
            "in its docstring",
            ", ".join(map(_test, _BOUND_TESTS)),
            "[bounds](communication.md#bounds)",
        )
    name = _PROTOCOLS[artefact.theorem]
    return (
        _link(name, f"{_SOURCE}/communication/protocols/{name}.py"),
        "in its docstring",
        _test(f"communication/test_protocol_{name}.py"),
        "[protocols](communication.md#protocols)",
    )


_PROTOCOLS: Final[Mapping[str, str]] = {
    kind.theorem: kind.__module__.rpartition(".")[2] for kind in (OneWay, AnyPartition, RowByRow)
}


def _witness(artefact: Artefact) -> tuple[str, str, str, str]:
    entry = next(each for each in CATALOGUE if each.artefact == artefact)
    module, _, function = entry.home.partition(":")
    home = PROOFS.get((entry.theorem, entry.task, entry.variant), "").partition(":")
    named = _WITNESS_TESTS.get(entry.home, _WITNESS_TESTS.get(module))
    tests = [named or f"witnesses/test_{module}.py"]
    proof = "every input is tried"
    if home[0]:
        proof = _link(home[2], f"{_SOURCE}/certificates/proofs/{home[0]}.py")
        tests.append(_PROOF_TESTS.get(home[0], f"certificates/test_proof_{home[0]}.py"))
    thinks = entry.theorem.startswith("W-")
    page = (
        "[thinking](thinking.md#the-constructions)" if thinks else "[witnesses](witnesses.md#every-witness)"
    )
    code = _link(function, f"{_SOURCE}/witnesses/{module.replace('.', '/')}.py")
    return code, proof, ", ".join(map(_test, tests)), page


def _test(place: str) -> str:
    return _link(Path(place).stem, f"tests/{place}")


def _link(text: str, place: str) -> str:
    assert (_ROOT / place).is_file(), f"there is no {place}"
    return f"[`{text}`](../{place})"
