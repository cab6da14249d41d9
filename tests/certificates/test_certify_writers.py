"""Verdicts on models that write: proved only if every input was run to its end."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from separatrix.certificates import certify, replay
from separatrix.certificates.searching import is_proved
from separatrix.errors import InvalidInput
from separatrix.generation import asking
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.searching import TIMEOUT, Found, Result
from separatrix.tasks import task
from separatrix.witnesses import Witness, witness_for
from tests.witnesses.checking import rebuilt


@pytest.fixture(scope="module")
def lookup() -> Witness:
    return witness_for(task("index-lookup", n=2, alphabet=2), family="linear-rnn+retrieval")


def wrong_at_the_end(witness: Witness) -> Witness:
    """Whatever it has found, it answers with the first word."""
    tensors = {name: tensor.clone() for name, tensor in witness.model.tensors().items()}
    tensors["readout.bias"][0] += 1e6
    return rebuilt(witness, tensors)


def cutting(monkeypatch: pytest.MonkeyPatch, lengths: range) -> None:
    """Searches in texts of these lengths are cut off, as on a machine that is too busy."""
    search = getattr(asking, "search_bytes")  # noqa: B009

    def cut(pattern: str, text: bytes, limits: SearchLimits | None = None) -> Result:
        return TIMEOUT if len(text) in lengths else search(pattern, text, limits)

    monkeypatch.setattr(asking, "search_bytes", cut)


def lying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search finds the same."""

    def lie(pattern: str, text: bytes, limits: SearchLimits | None = None) -> Result:
        return Found("s0")

    monkeypatch.setattr(asking, "search_bytes", lie)


def test_every_input_is_run(lookup: Witness) -> None:
    certificate = certify(lookup)
    assert (certificate.verdict, certificate.claims[0].name) == ("proved", "wrong answers")
    assert is_proved(lookup)


def test_wrong_answers_are_refuted_and_replayed(lookup: Witness) -> None:
    wrong = wrong_at_the_end(lookup)
    certificate = certify(wrong)
    assert certificate.verdict == "refuted"
    assert certificate.counterexample is not None
    assert replay(wrong, certificate.counterexample)
    assert not is_proved(wrong)


@pytest.mark.parametrize("lengths", [range(99), range(10, 99)])
def test_a_search_that_is_cut_off_proves_nothing_and_refutes_nothing(
    lookup: Witness, lengths: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutting(monkeypatch, lengths)
    certificate = certify(lookup)
    assert (certificate.verdict, certificate.claims) == ("unknown", lookup.claims)
    assert certificate.reason == "A search was cut off, so that not every input was run to its end."
    assert not is_proved(lookup)


def test_what_is_wrong_elsewhere_is_refuted_all_the_same(
    lookup: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = torch.cat([*lookup.task.enumerate()])
    assert lookup.script is not None
    spelled = [map(lookup.script.vocabulary.word, lookup.script.prompt(row)) for row in rows]
    lengths = sorted({len("".join(f"{word} " for word in listed)) for listed in spelled})
    assert len(lengths) > 1
    lying(monkeypatch)
    cutting(monkeypatch, range(lengths[0] + 1))
    certificate = certify(lookup)
    assert certificate.verdict == "refuted"
    assert certificate.counterexample is not None
    cutting(monkeypatch, range(lengths[-1] + 1))
    with pytest.raises(InvalidInput, match="A search was cut off"):
        replay(lookup, certificate.counterexample)


def test_a_proof_about_answers_at_once_says_nothing_about_a_model_that_writes() -> None:
    brackets = task("dyck", n=4)
    at_once, writing = (witness_for(brackets, family=family) for family in ("rnn", "transformer-cot"))
    assert certify(at_once).verdict == "proved"
    forged = dataclasses.replace(at_once, script=writing.script)
    assert not is_proved(forged)
    assert certify(forged).verdict == "refuted"


def test_a_script_belongs_to_its_task(lookup: Witness) -> None:
    assert certify(lookup, task("index-lookup", n=2, alphabet=2)).verdict == "proved"
    with pytest.raises(InvalidInput, match="is certified for its own task"):
        certify(lookup, task("index-lookup", n=3, alphabet=2))
