"""`separatrix protocol`: what is said between Alice and Bob, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from separatrix.communication.protocols.attention_parts import AttentionPart
from tests.cli.running import refused, run

DYCK = ("protocol", "dyck", "--family", "transformer-1", "--n", "6")


def test_every_bit_is_listed_and_adds_up() -> None:
    ran = run(*DYCK, "--runs", "20", "--json")
    assert ran.code == 0
    said = ran.answer
    assert said["bits"] == sum(message["bits"] for message in said["messages"])
    assert said["agrees"] is True
    assert (said["runs"], said["agreeing"]) == (20, 20)
    assert (said["theorem"], said["partition"], said["arithmetic"]) == ("S-T4", "odd/even", "down:6,2")
    assert (said["alice"], said["bob"]) == ([1, 3, 5], [2, 4, 6])
    assert {count["name"] for count in said["counts"]} == {"printed", "counted"}
    assert said["bits"] <= said["counts"][1]["bits"]
    assert said["bound"]["theorem"] == "S-L1"
    assert said["enough"] is True
    assert said["output"] == said["direct_output"]


def test_it_prints_who_says_what() -> None:
    ran = run(*DYCK)
    assert ran.code == 0
    assert "Bob → Alice  the query's vector" in ran.out
    assert "3m(p + log N)H" in ran.out
    assert "needed" in ran.out
    assert "agrees with the model itself, bit for bit, in 1 of 1 runs" in ran.out


def test_the_same_seed_draws_the_same_input() -> None:
    first, again, other = (run(*DYCK, "--json", "--seed", seed).answer["input"] for seed in ("1", "1", "2"))
    assert first == again
    assert first != other


@pytest.mark.parametrize("seed", ["3", "4", "5"])
def test_what_is_shown_is_what_was_run(seed: str) -> None:
    lookup = ("protocol", "index-lookup", "--family", "transformer-1", "--n", "9", "--json", "--seed", seed)
    said = run(*lookup, "--runs", "3").answer
    *symbols, index = said["input"].split()
    assert f"s{said['output'][0]['answer']}" == symbols[int(index[1:]) - 1]


def test_numbers_are_fine_enough_for_the_weights_to_be_right() -> None:
    said = run("protocol", "index-lookup", "--family", "hybrid", "--n", "8", "--json").answer
    *symbols, index = said["input"].split()
    assert f"s{said['output'][0]['answer']}" == symbols[int(index[1:]) - 1]
    assert said["arithmetic"] == "down:9,4"  # in down:9,2 they can be written, and answer at random


def test_a_recurrent_network_sends_its_state() -> None:
    said = run("protocol", "index-lookup", "--family", "rnn", "--n", "16", "--json").answer
    assert (said["bits"], said["bound"]["at_least"], said["theorem"]) == (104, 96, "S-T2")
    assert said["messages"] == [{"sender": "Alice", "name": "state after 16 tokens", "bits": 104}]


def test_a_graph_is_split_by_rows() -> None:
    said = run(
        "protocol", "cycle3", "--family", "graph-transformer", "--n", "6", "--runs", "5", "--json"
    ).answer
    assert (said["theorem"], said["partition"], said["agreeing"]) == ("R-G", "groups", 5)


def test_an_input_and_a_way_to_send_the_query() -> None:
    ran = run("protocol", "dyck", "--family", "transformer-1", "--input", "()[]", "--send", "token", "--json")
    said = ran.answer
    assert said["input"] == "()[]"
    assert said["task"]["params"]["n"] == 4
    assert said["messages"][0] == {"sender": "Bob", "name": "the query's token", "bits": 2}
    assert said["output"][0]["answer"] == 1


def test_answers_at_several_positions() -> None:
    said = run("protocol", "match2", "--n", "4", "--modulus", "5", "--at", "1,3-4", "--json").answer
    assert [answer["position"] for answer in said["output"]] == [1, 3, 4]
    assert len(said["messages"]) == 21
    printed = run("protocol", "match2", "--n", "4", "--modulus", "5", "--at", "1-4").out
    assert "lines more (--json has all)" in printed


def test_a_witness_from_its_folder(tmp_path: Path) -> None:
    folder = str(tmp_path / "lookup")
    assert run("witness", "index-lookup", "--n", "4", "--alphabet", "3", "--out", folder).code == 0
    said = run("protocol", "index-lookup", "--model", folder, "--precision", "31", "--json").answer
    assert (said["arithmetic"], said["agrees"]) == ("nearest:31", True)
    assert "made for index-lookup, n=4; name this task" in refused(
        "protocol", "index-lookup", "--n", "5", "--model", folder
    )
    assert "made for index-lookup; name this task" in refused("protocol", "dyck", "--model", folder)
    assert "both name the model" in refused("protocol", "dyck", "--model", folder, "--run", "abc")


@pytest.mark.slow
def test_a_trained_model_from_a_store(tmp_path: Path) -> None:
    store = str(tmp_path / "runs")
    trained = run(
        *("train", "index-lookup", "--n", "4", "--alphabet", "3", "--model", "lstm", "--width", "8"),
        *("--steps", "2", "--batch", "4", "--store", store, "--json"),
    )
    assert trained.code == 0, trained.err
    listed = run("runs", "list", "--store", store, "--json").answer
    key = listed["runs"][0]["key"]
    said = run("protocol", "index-lookup", "--run", key, "--store", store, "--runs", "3", "--json").answer
    assert (said["agrees"], said["arithmetic"], said["theorem"]) == (True, "float32", "S-T2")


@pytest.mark.slow
def test_two_processes() -> None:
    apart = run(*DYCK, "--processes", "--json")
    assert apart.code == 0
    assert apart.answer == run(*DYCK, "--json").answer


def test_disagreement_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_theirs(self: Any, other: Any) -> None:
        self._total = other

    monkeypatch.setattr(AttentionPart, "set_total", only_theirs)
    ran = run(*DYCK, "--runs", "5")
    assert ran.code == 1
    assert "DIFFERS from the model itself in 4 of 5 runs" in ran.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--precision", "0"), "W's numbers need an odd p from 3 to 399; got p=0. Try 3."),
        (("--precision", "8"), "got p=8. Try 9. For S's numbers, odd or not, take --arithmetic down:N,K"),
        (("--precision", "5"), "needs numbers up to"),
        (("--partition", "1-3/5-6"), "here position 4 is given to nobody."),
        (("--partition", "1-4/4-6"), "here position 4 is given to Alice and Bob."),
        (("--partition", "thirds"), "dyck is split by a name (odd/even, prefix/suffix, halves)"),
        (("--arithmetic", "float64"), "exact in p-bit arithmetic"),
        (("--arithmetic", "float8"), "An arithmetic is float64"),
        (("--arithmetic", "nearest:21", "--precision", "21"), "give one of them"),
        (("--runs", "0"), "--runs is from 1 to 100,000; got 0."),
        (("--at", "7"), "got position 7."),
        (("--at", "x"), "--at takes positions counted from 1, such as 1,4-6; got 'x'."),
        (("--send", "shout"), "--send is one of vector, queries, token; got 'shout'."),
        (("--theorem", "S-T3"), "--theorem is one of S-T2, S-T4, R-G; got 'S-T3'."),
        (("--model", "/nowhere"), "nowhere"),
        (("--run", "abc", "--store", "/nowhere"), "nowhere"),
    ],
)
def test_wrong_use_is_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused(*DYCK, *words)


def test_families_without_a_protocol_are_refused() -> None:
    assert "no witness for dyck in the family 'fnn'" in refused(
        "protocol", "dyck", "--n", "6", "--family", "fnn"
    )
    assert "attends to tuples" in refused("protocol", "cycle3", "--n", "4", "--family", "third-order")
    assert "dyck needs a value for n" in refused("protocol", "dyck", "--family", "rnn")
