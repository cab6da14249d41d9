"""The table of results: complete, in order, and in the house's names."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from separatrix.errors import InvalidInput, UnknownName
from separatrix.theorems import (
    FAMILIES,
    THEOREMS,
    Artefact,
    Owed,
    Slip,
    Source,
    Theorem,
    families_around,
    families_within,
    family,
    open_questions,
    rows,
    theorem,
)

# Written by hand: every line of the table of results with the ids it names and the kinds of artefact owed.
TABLE = [
    (("S-T1",), {"witness"}),
    (("S-T2",), {"protocol"}),
    (("S-T3", "S-P9"), {"bound"}),
    (("S-T4",), {"protocol"}),
    (("S-L1", "S-T5", "S-T10"), {"bound"}),
    (("S-E",), {"witness"}),
    (("S-E-cited",), {"witness"}),
    (("S-L4", "S-T11"), {"bound"}),
    (("S-T12",), {"bound"}),
    (("S-T6",), {"witness"}),
    (("S-T13",), {"witness"}),
    (("S-L5", "S-C13.1"), {"witness", "bound"}),
    (("S-T7", "S-T8"), {"witness", "bound"}),
    (("R-qSA",), {"witness", "bound"}),
    (("R-M2", "R-M3"), {"witness", "bound"}),
    (("R-M3′",), {"witness"}),
    (("R-G",), {"witness", "bound", "protocol"}),
    (("W-4.1",), {"witness", "bound"}),
    (("W-4.6",), {"witness", "bound"}),
    (("W-4.7",), {"witness", "bound"}),
    (("W-4.8",), {"witness"}),
    (("W-5.1",), {"bound"}),
    (("W-5.2", "W-5.3"), {"witness"}),
    (("W-5.4",), {"witness"}),
    (("W-5.6", "W-5.7"), {"witness"}),
    (("W-5.8",), {"witness"}),
]
OUTSIDE = {"S-AR1", "R-CONJ", "UP-RNN", "UP-TF1", "UP-M3"}

TASKS = {
    "index-lookup",
    "associative-recall",
    "mqar",
    "nearest-neighbour",
    "dyck",
    "equality",
    "disjointness",
    "sparse-threshold",
    "q-sparse-averaging",
    "match2",
    "match3",
    "cycle3",
    "cycle5",
    "c-gram",
    "counting",
    "is-tree",
    "turing",
    "distractor-qa",
    "phone-book",
}
FAMILY_NAMES = [
    "transformer-1",
    "transformer-2",
    "transformer-3",
    "transformer",
    "transformer-cot",
    "third-order",
    "graph-transformer",
    "fnn",
    "rnn",
    "linear-rnn",
    "linear-rnn-cot",
    "linear-rnn+retrieval",
    "hybrid",
    "hybrid-cot",
]


def test_rows_are_the_table_in_order() -> None:
    assert [(row.ids, set(row.kinds)) for row in rows()] == TABLE


def test_every_id_is_known_and_no_other() -> None:
    named = {name for ids, _ in TABLE for name in ids} | OUTSIDE
    assert set(THEOREMS) == named
    assert all(theorem(name).id == name for name in named)


def test_families_are_the_fourteen_in_order() -> None:
    assert list(FAMILIES) == FAMILY_NAMES
    assert all(entry.description.endswith(".") for entry in FAMILIES.values())
    assert all(outer in FAMILIES for entry in FAMILIES.values() for outer in entry.within)


@pytest.mark.parametrize("entry", THEOREMS.values(), ids=lambda entry: entry.id)
def test_entry_is_well_formed(entry: Theorem) -> None:
    assert entry.statement.endswith(".")
    assert entry.length
    assert set(entry.tasks) <= TASKS
    assert set(entry.families) <= set(FAMILY_NAMES)
    assert all(partner in THEOREMS for partner in entry.partners)
    assert entry.restates is None or entry.restates in THEOREMS
    assert all(slip.printed.endswith(".") and slip.right.endswith(".") for slip in entry.slips)
    assert entry.source.work == entry.id.split("-")[0] or entry.id.startswith("UP-")
    assert str(entry.source).startswith(("Sep", "Rep", "RNN", "An elementary"))


def test_a_theorem_speaks_of_a_task_unless_it_speaks_of_all() -> None:
    general = {"S-T2", "S-T4", "S-L4", "S-C13.1", "W-4.8"}
    assert {name for name, entry in THEOREMS.items() if not entry.tasks} == general | {"S-T10"}


def test_every_bound_on_a_named_task_says_its_argument() -> None:
    for entry in THEOREMS.values():
        for owed in entry.owes:
            assert owed.kind != "bound" or owed.status == "open" or owed.via, entry.id


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("S-T3", "mp ≥ N·log|Σ|"),
        ("S-T5", "mH ≥ (N − 1)/(3(p + log N))"),
        ("S-T8", "m ≥ N/(2p)"),
        ("S-T11", "mp ≥ N/2"),
        ("S-T4", "3m(p + log N)H bits, both ways"),
    ],
)
def test_exact_formulas(name: str, formula: str) -> None:
    assert formula in {owed.formula for owed in theorem(name).owes if owed.exact}


def test_asymptotic_formulas_do_not_claim_to_be_exact() -> None:
    for entry in THEOREMS.values():
        for owed in entry.owes:
            hidden = any(mark in owed.formula for mark in ("O(", "Ω", "Õ", "poly", "ω"))
            assert not (owed.exact and hidden), (entry.id, owed.formula)


def test_statuses() -> None:
    assert {entry.id for entry in open_questions()} == {"S-AR1", "R-CONJ"}
    assert {name for name, entry in THEOREMS.items() if entry.status == "conditional"} == {"W-4.1"}
    assert theorem("W-4.1").conditions == ("PSPACE ⊄ P/poly",)
    assert [owed.status for owed in theorem("W-4.1").owes] == ["proven", "conditional"]


def test_upper_partners() -> None:
    partners = {name: entry.partners for name, entry in THEOREMS.items() if entry.partners}
    assert partners == {
        "S-T3": ("UP-RNN",),
        "S-P9": ("UP-RNN",),
        "S-T5": ("UP-TF1",),
        "S-T10": ("UP-TF1",),
        "S-T11": ("UP-RNN",),
        "S-T12": ("UP-TF1",),
        "S-T8": ("UP-RNN",),
        "R-M3": ("UP-M3",),
        "W-4.6": ("UP-RNN",),
    }
    assert theorem("UP-RNN").tasks == ("index-lookup", "associative-recall", "mqar", "equality")
    assert theorem("UP-TF1").tasks == ("dyck", "equality", "disjointness")


def test_slips_stand_with_the_theorem_they_concern() -> None:
    with_slips = {name for name, entry in THEOREMS.items() if entry.slips}
    assert {"S-T1", "S-T4", "S-T6", "S-T7", "S-E", "W-4.6", "W-4.7", "W-5.2", "W-5.3", "W-5.7"} <= with_slips
    assert "+3" in str(theorem("S-T7").slips[0])
    assert "(3,4), (3,5), (1,3), (2,3), (3,6)" in theorem("W-4.7").slips[0].right


def test_artefacts_are_one_for_each_task_and_family() -> None:
    owed = theorem("W-4.6").artefacts
    assert len(owed) == 4 + 8
    assert Artefact(theorem="W-4.6", kind="witness", task="c-gram", family="transformer") in owed
    assert Artefact(theorem="W-4.6", kind="bound", task="counting", family="linear-rnn-cot") in owed
    assert theorem("S-T2").artefacts == (Artefact(theorem="S-T2", kind="protocol", task=None, family="rnn"),)
    assert theorem("S-L1").artefacts[0].family is None
    every = [artefact for entry in THEOREMS.values() for artefact in entry.artefacts]
    assert len(set(every)) == len(every)


def test_what_binds_and_what_suffices_never_meet_in_one_cell_by_mistake() -> None:
    """A family that a linear bound covers has no small witness for the same form of the task."""
    linear = ("N", "(N", "Ω(N", "Ω(n)", "Ω̃(N", "log|Σ|")
    for entry in THEOREMS.values():
        for owed in entry.owes:
            if (
                owed.kind != "bound"
                or not any(mark in owed.formula for mark in linear)
                or owed.status == "open"
            ):
                continue
            covered = {inner for name in owed.families for inner in families_within(name)}
            for other in THEOREMS.values():
                small = {
                    (task, name)
                    for there in other.owes
                    if there.kind == "witness" and not there.variant and not other.id.startswith("UP-")
                    for task in there.tasks
                    for name in there.families
                }
                clash = {(task, name) for task, name in small if task in owed.tasks and name in covered}
                # R-qSA's bound by q on one unit is not linear in N, and its own witness meets it.
                assert clash <= {("q-sparse-averaging", "transformer-1")}, (entry.id, other.id)


def test_lookup_forgives_case_and_the_straight_quote() -> None:
    assert theorem("s-t1") is THEOREMS["S-T1"]
    assert theorem("R-M3'") is THEOREMS["R-M3′"]
    assert theorem("r-qsa") is THEOREMS["R-qSA"]


def test_unknown_ids_are_answered_with_near_ones_and_the_list() -> None:
    with pytest.raises(
        UnknownName, match=r"There is no theorem 'W-4\.9'\. Did you mean .*W-4\.\d.*Known: S-T1, "
    ):
        theorem("W-4.9")
    with pytest.raises(UnknownName, match=r"There is no family 'transformers'\. Did you mean transformer"):
        family("transformers")


def test_families_within() -> None:
    assert families_within("rnn") == ("rnn", "linear-rnn")
    assert families_within("transformer-3") == ("transformer-3", "transformer-2", "transformer-1")
    assert set(families_within("hybrid-cot")) == {"hybrid-cot", "hybrid", "linear-rnn", "linear-rnn-cot"}
    with pytest.raises(UnknownName):
        families_within("cnn")


def test_families_around() -> None:
    assert families_around("rnn") == ("rnn",)
    assert families_around("transformer-2") == ("transformer-2", "transformer-3", "transformer")
    assert set(families_around("hybrid")) == {"hybrid", "hybrid-cot"}
    for inner in FAMILIES:
        assert set(families_around(inner)) == {outer for outer in FAMILIES if inner in families_within(outer)}
    with pytest.raises(UnknownName):
        families_around("cnn")


def test_nothing_that_sees_later_positions_lies_within_what_does_not() -> None:
    """An unmasked Transformer is no causal one; a recurrent model is causal by its make."""
    assert families_within("transformer-cot") == ("transformer-cot",)
    unmasked = {name for name in FAMILIES if name.startswith(("transformer", "third", "graph", "fnn"))}
    for name in ("transformer-cot", "rnn", "linear-rnn-cot", "linear-rnn+retrieval", "hybrid", "hybrid-cot"):
        assert not set(families_within(name)) & (unmasked - {"transformer-cot"}), name
    for name in ("transformer-cot", "hybrid", "hybrid-cot"):
        assert "ausal" in family(name).description


@pytest.mark.parametrize(
    ("name", "reached", "missed"),
    [
        ("S-T3", {"rnn", "linear-rnn"}, {"linear-rnn-cot", "hybrid"}),  # a bound binds what lies within
        ("S-T2", {"rnn", "linear-rnn"}, {"hybrid"}),  # and so does a protocol
        ("S-T1", {"transformer-1", "transformer-2", "transformer"}, {"transformer-cot"}),  # a witness serves
        ("W-5.6", {"hybrid", "hybrid-cot"}, {"linear-rnn"}),  # what lies around
        ("W-4.6", {"transformer", "rnn", "linear-rnn", "linear-rnn-cot"}, {"transformer-3", "hybrid"}),
        ("S-C13.1", {"transformer-2", "transformer-3"}, {"transformer-1"}),  # a bound on protocols: around
        ("S-L1", set(), {"rnn", "transformer-1"}),
    ],
)
def test_reach(name: str, reached: set[str], missed: set[str]) -> None:
    reach = set(theorem(name).reach)
    assert reached <= reach
    assert not missed & reach


def test_formulas_state_and_do_not_ask() -> None:
    """Whether a claim is open stands in its status; who prints it adds the question mark, once."""
    assert not [entry.id for entry in THEOREMS.values() for owed in entry.owes if "?" in owed.formula]


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        THEOREMS["S-T1"] = THEOREMS["S-T2"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        THEOREMS["S-T1"].statement = "P = NP."  # type: ignore[misc]


SOURCE = Source(work="S", place="nowhere")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Source(work="X", place="1"), "names one of the works S, R, W"),
        (lambda: Owed(kind="proof", formula="x"), "one of witness, bound, protocol"),  # type: ignore[arg-type]
        (lambda: Owed(kind="bound", formula="x", status="conditional"), "names its condition"),
        (lambda: Owed(kind="bound", formula=""), "needs its formula"),
        (lambda: Theorem(id="T 1", statement="x.", source=SOURCE, length="N"), "looks like S-T1"),
        (lambda: Theorem(id="S-X", statement="x.", source=SOURCE, length="N"), "owes artefacts or restates"),
        (
            lambda: Theorem(
                id="S-X",
                statement="x.",
                source=SOURCE,
                length="N",
                owes=(Owed(kind="bound", formula="1"), Owed(kind="bound", formula="2")),
            ),
            "owes the same artefact twice",
        ),
    ],
)
def test_malformed_entries_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput, match=message):
        make()


def test_unknown_family_in_an_entry() -> None:
    with pytest.raises(UnknownName, match="no family 'perceptron'"):
        Owed(kind="bound", formula="x", families=("perceptron",))


def test_slip_reads_as_a_sentence() -> None:
    assert str(Slip(place="App. E", printed="7 states.", right="8.")) == "App. E: 7 states. 8."


def test_ground_floor_imports_without_torch() -> None:
    script = (
        "import sys, separatrix.theorems, separatrix.evidence, separatrix.accounting; "
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
