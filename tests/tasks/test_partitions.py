"""Who holds what in the tasks' splits, word by word."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.tasks import task
from separatrix.tasks.cycle3 import Cycle3

RECALL = "associative-recall"
SPLITS: list[tuple[str, dict[str, Any], str, str, tuple[str, ...]]] = [
    ("index-lookup", {"n": 4, "alphabet": 3}, "s2 s0 s1 s1 @3", "prefix/suffix", ("s2 s0 s1 s1", "@3")),
    (RECALL, {"n": 2, "values": 2}, "k0 v1 k3 v0 k0", "prefix/suffix", ("k0 v1 k3 v0", "k0")),
    (RECALL, {"n": 4, "form": "sequence"}, "s2 s1 s3 s1 s2", "prefix/suffix", ("s2 s1 s3 s1", "s2")),
    (
        "mqar",
        {"n": 4, "vocabulary_size": 8},
        "k2 v1 k0 v3 k0 v3 k2 v1",
        "prefix/suffix",
        ("k2 v1 k0 v3", "k0 k2", "v3 v1"),
    ),
    (
        "nearest-neighbour",
        {"n": 4, "dimension": 4, "noise": 1},
        "++-+ :1 -+-- :0 +--+ :0 ++++?",
        "prefix/suffix",
        ("++-+ :1 -+-- :0 +--+ :0", "++++?"),
    ),
    (
        "nearest-neighbour",
        {"n": 4, "dimension": 4, "noise": 1},
        "++-+ :1 -+-- :0 +--+ :0 ++++?",
        "halves",
        ("++-+ :1 -+-- :0", "+--+ :0 ++++?"),
    ),
    ("is-tree", {"n": 4}, "<s> 1 ~ 3 2 ~ 3 3 ~ 4", "prefix/suffix", ("<s> 1 ~ 3 2 ~ 3", "3 ~ 4")),
    ("match3", {"n": 7, "modulus": 9}, "1 2 3 4 5 6 7", "halves", ("1 2 3", "4 5 6 7")),
    ("match3", {"n": 6, "modulus": 9}, "1 2 3 4 5 6", "halves", ("1 2", "3 4 5 6")),
    ("match2", {"n": 5, "modulus": 9}, "1 2 3 4 5", "halves", ("1 2", "3 4 5")),
    ("dyck", {"n": 6}, "([)()]", "odd/even", ("( ) )", "[ ( ]")),
    ("dyck", {"n": 6}, "([)()]", "prefix/suffix", ("( [ )", "( ) ]")),
    ("dyck", {"n": 6}, "([)()]", "halves", ("( [ )", "( ) ]")),
    ("equality", {"n": 4, "alphabet": 4}, "0 1 [SEP] 2 3", "halves", ("0 1 [SEP]", "2 3")),
    ("equality", {"n": 4, "alphabet": 4}, "0 1 [SEP] 2 3", "odd/even", ("0 [SEP] 3", "1 2")),
    ("disjointness", {"n": 6}, "011000", "halves", ("0 1 1", "0 0 0")),
    ("disjointness", {"n": 6}, "011010", "odd/even", ("0 1 1", "1 0 0")),
    ("turing", {"n": 2, "form": "direct"}, "<s> 0 1 =", "prefix/suffix", ("<s> 0 1", "=", "_ 1 0 _")),
    ("turing", {"n": 2, "form": "direct"}, "<s> 0 1 =", "halves", ("<s> 0", "1 =", "_ 1 0 _")),
    ("counting", {"n": 3, "alphabet": 3}, "s0 s2 s0 s0 >1", "prefix/suffix", ("s0 s2 s0", "s0 >1")),
    ("c-gram", {"n": 5, "alphabet": 3}, "s0 s2 s0 s1 s0 s2 s0", "prefix/suffix", ("s0 s2 s0 s1 s0", "s2 s0")),
]


@pytest.mark.parametrize(("name", "parameters", "text", "split", "held"), SPLITS)
def test_who_holds_which_words(
    name: str, parameters: dict[str, Any], text: str, split: str, held: tuple[str, ...]
) -> None:
    one = task(name, **parameters)
    whole = one.render(one.parse(text))
    words = whole.split() if " " in whole else list(whole)
    assert len(words) == one.length
    parts = one.partitions()[split]
    found = [" ".join(words[place] for place in part) for part in (parts.alice, parts.bob, parts.written)]
    assert found == [*held, *[""] * (3 - len(held))]


@pytest.mark.parametrize(
    ("name", "parameters", "split", "alice", "bob"),
    [
        ("q-sparse-averaging", {"n": 5}, "prefix/suffix", (0, 1, 2, 3), (4,)),
        ("q-sparse-averaging", {"n": 5}, "halves", (0, 1), (2, 3, 4)),
        ("cycle3", {"n": 8}, "groups", (0, 1), (2, 3, 4, 5, 6, 7)),
        ("cycle5", {"n": 7}, "halves", (0, 1, 2), (3, 4, 5, 6)),
        ("sparse-threshold", {"n": 5}, "halves", (0, 1), (2, 3, 4)),
        ("sparse-threshold", {"n": 5}, "prefix/suffix", (0, 1), (2, 3, 4)),
        ("sparse-threshold", {"n": 5}, "odd/even", (0, 2, 4), (1, 3)),
    ],
)
def test_who_holds_which_rows(
    name: str, parameters: dict[str, Any], split: str, alice: tuple[int, ...], bob: tuple[int, ...]
) -> None:
    parts = task(name, **parameters).partitions()[split]
    assert (parts.alice, parts.bob, parts.written) == (alice, bob, ())


def test_in_the_reduction_to_cycles_each_party_holds_its_own_set() -> None:
    """Edges u → v are Alice's set, edges v → w are Bob's."""
    graphs = Cycle3(n=10, instances="disjointness").sample(64, seed=1).inputs
    split = Cycle3(n=10).partitions()["groups"]
    alice, bob = graphs[:, list(split.alice)], graphs[:, list(split.bob)]
    v, w = slice(3, 6), slice(6, 9)
    assert bool(alice[:, :, v].any(0).all())
    assert not bob[:, :, v].any()
    assert bool(bob[:, :3, w].any(0).all())
    assert not alice[:, :, w].any()


def test_where_the_model_writes_the_copy_itself_nothing_is_split() -> None:
    assert task("equality", n=4, form="ncp").partitions() == {}


@pytest.mark.parametrize("form", ["cot", "retrieval"])
def test_the_last_edge_is_bobs_in_every_form(form: str) -> None:
    is_tree = task("is-tree", n=4, form=form)
    words = is_tree.render(is_tree.parse("<s> 1 ~ 3 2 ~ 3 3 ~ 4")).split()
    split = is_tree.partitions()["prefix/suffix"]
    assert " ".join(words[place] for place in split.alice) == "<s> 1 ~ 3 2 ~ 3"
    assert " ".join(words[place] for place in split.bob) == "3 ~ 4"
    assert split.written == tuple(range(10, is_tree.length))
