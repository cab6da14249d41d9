"""Witnesses that write, from a stranger: another script, another make, tokens that belong to two classes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import separatrix
from separatrix.witnesses import Witness, witness_for
from separatrix.witnesses.files import load, save
from tests.witnesses.forging import refusal, with_spec

LOOKUP = separatrix.task("index-lookup", n=3, alphabet=2)
TREE = separatrix.task("is-tree", n=3, form="cot")


@pytest.mark.parametrize("family", ["transformer-cot", "hybrid-cot"])
def test_witnesses_that_write_come_back(family: str, tmp_path: Path) -> None:
    witness = witness_for(TREE, family=family)
    again = load(save(witness, tmp_path))
    assert again.script is not None
    assert witness.script is not None
    assert (again.script.kind, again.family) == (witness.script.kind, family)


@pytest.mark.parametrize(
    ("family", "claimed", "words"),
    [
        ("transformer", {"theorem": "W-5.6", "family": "hybrid"}, "hybrid, but the model's form is causal"),
        ("hybrid", {"theorem": "W-4.6", "family": "transformer"}, "transformer, but the model's form is hyb"),
        ("hybrid", {"theorem": "UP-RNN", "family": "rnn"}, "says rnn, but the model's form is hybrid"),
        (
            "linear-rnn+retrieval",
            {"theorem": "UP-RNN", "family": "rnn"},
            "says rnn, but its script index-search searches",
        ),
    ],
)
def test_a_family_is_not_what_a_file_calls_it(
    family: str, claimed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    honest = witness_for(LOOKUP, family=family)
    forged: Witness = dataclasses.replace(honest, **claimed)
    assert words in refusal(save(forged, tmp_path))


@pytest.mark.parametrize("kind", ["is-tree-doubling", "is-tree-searches", "index-search", "replay", None])
def test_a_script_is_that_of_the_model(kind: str | None, tmp_path: Path) -> None:
    folder = save(witness_for(TREE, family="transformer-cot"), tmp_path)

    def change(record: dict[str, Any]) -> None:
        record["script"] = kind

    with_spec(folder, change)
    refusal(folder)


def test_a_token_has_one_class(tmp_path: Path) -> None:
    folder = save(witness_for(TREE, family="transformer-cot"), tmp_path)

    def change(record: dict[str, Any]) -> None:
        classes = record["model"]["inputs"]["classes"]
        classes[1]["first"] = classes[0]["first"] + classes[0]["count"] - 1

    with_spec(folder, change)
    assert "'answer' and 'special' have a token in common" in refusal(folder)
