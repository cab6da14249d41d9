"""`separatrix runs` says how a run scored when it really wrote, where that was tried."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from separatrix.store import Run, Store
from tests.cli.running import run
from tests.evidence.examples import make_decoded
from tests.store.examples import finished


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    return finished(Store("runs"))


def test_show_has_a_line_for_it(written: Run) -> None:
    assert "decoded" not in run("runs", "show", written.short).out
    Store("runs").write_evidence(written.key, make_decoded())
    shown = " ".join(run("runs", "show", written.short).out.split())
    assert "decoded score 93.00 %: 900 right, 40 wrong, 60 unanswered; on is-tree(" in shown
    evidence = run("runs", "show", written.short, "--json").answer["evidence"]
    assert (evidence["decoded.right"], evidence["decoded.examples"]) == (900, 1000)


def test_a_damaged_record_is_said(written: Run) -> None:
    Store("runs").write_evidence(written.key, make_decoded()).write_text("[]")
    shown = " ".join(run("runs", "show", written.short).out.split())
    assert "separatrix.decoding is a JSON object" in shown
    assert "`separatrix reproduce` writes it anew." in shown


def test_exports_have_its_figures(written: Run) -> None:
    Store("runs").write_evidence(written.key, make_decoded())
    (row,) = csv.DictReader(io.StringIO(run("runs", "export").out))
    assert (row["decoded.right"], row["decoded.unanswered"], row["decoded.searches"]) == (
        "900",
        "60",
        "41234",
    )
