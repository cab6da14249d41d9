"""W's search heads: gaps case by case, weights against the stated logits, heads against plain Python."""

from __future__ import annotations

import functools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from benchmarks.head_cases import CASES, Token, as_rows, built_head, counted, hard_texts, program_of
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.layers import Layer
from separatrix.precision import system_named
from separatrix.tasks import task
from separatrix.tasks.vocabulary import Vocabulary, numbered, words
from separatrix.witnesses.language import Built, Program, Symbolic, build
from separatrix.witnesses.language.head_gaps import LAWS, Law, Look, least_lead, proven_gap
from separatrix.witnesses.language.search_heads import (
    Mark,
    Places,
    count,
    exact_next,
    nearest_coefficients,
    pentagonal,
    tally,
)

SYSTEMS = ("float64", "nearest:61", "nearest:63")
EXACT = tuple(name for name in CASES if name != "only")


@functools.cache
def built(head: str, n: int, arithmetic: str) -> Built:
    return built_head(CASES[head], n, system_named(arithmetic))


def found(head: str, n: int, arithmetic: str, texts: list[list[Token]]) -> list[list[Fraction]]:
    """What the weights return at every position."""
    system = system_named(arithmetic)
    outputs = built(head, n, arithmetic).model.outputs(as_rows(texts))
    return [[Fraction(value) for value in row] for row in system.decode(outputs)[..., 0].tolist()]


def meant(head: str, text: list[Token]) -> list[Fraction]:
    return [CASES[head].meaning(text, k) for k in range(1, len(text) + 1)]


def rounded(values: list[Fraction], arithmetic: str) -> list[Fraction]:
    system = system_named(arithmetic)
    return [Fraction(value) for value in system.decode(system.encode(values)).tolist()]


def symbolic(head: str, n: int, text: list[Token]) -> list[Fraction | None]:
    return [here[0] for here in Symbolic().outputs(program_of(CASES[head], n), as_rows([text])[0])]


# Gaps


@pytest.mark.parametrize("head", LAWS)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 9])
def test_the_least_lead_is_one(head: str, n: int) -> None:
    assert proven_gap(head, n) == 1


@pytest.mark.slow
@pytest.mark.parametrize("head", LAWS)
@pytest.mark.parametrize("n", [32, 64])
def test_the_least_lead_is_one_in_longer_texts(head: str, n: int) -> None:
    assert proven_gap(head, n) == 1


@pytest.mark.parametrize("n", [3, 6, 11])
def test_no_smaller_factor_is_enough(n: int) -> None:
    """One less in the factor of D, and the lead is gone in MATCH, CLOSE and NEAREST."""

    def with_less(head: str) -> Law:
        law = LAWS[head]
        return replace(
            law, logit=lambda look, n: law.logit(look, n) + look.distance - look.first * look.square
        )

    for head in ("MATCH", "CLOSE", "NEAREST", "only", "COUNT"):
        assert least_lead(with_less(head), n) == 0


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 12), low=st.integers(-12, 24), reach=st.integers(0, 24))
def test_nearest_has_its_gap_for_any_range_of_targets(n: int, low: int, reach: int) -> None:
    factor, alpha, beta = nearest_coefficients(n, low, low + reach)
    for t in range(low, low + reach + 1):
        first = -pentagonal(1 - t) - alpha - beta * t
        places = sorted(range(2, n + 1), key=lambda place: (abs(place - t), -place))
        ranked = [-pentagonal(place - t) for place in places]
        assert all(ranked[i] >= ranked[i + 1] + 1 for i in range(len(ranked) - 1))
        assert ranked[-1] >= first + 1
        assert first >= ranked[0] - factor + 1


def test_pentagonal_numbers_order_by_distance_and_then_the_later() -> None:
    order = [0, 1, -1, 2, -2, 3, -3]
    assert [pentagonal(u) for u in order] == [0, 1, 2, 5, 7, 12, 15]


# Weights


def looks_of(head: str, text: list[Token], k: int) -> list[Look]:
    """The positions that k sees, as the law of its head reads them."""
    asking, seen = text[k - 1], []
    wanted = {"COPY": k - 2, "tally": asking.asked_count, "NEAREST": asking.near}
    for place, token in enumerate(text[:k], start=1):
        seen.append(
            Look(
                place=place,
                distance=(token.key - asking.asked) ** 2,
                square=asking.asked**2,
                wanted=wanted.get(head, 1),
                count=token.key_count,
                asked=asking.asked_count,
            )
        )
    return seen


@pytest.mark.parametrize("head", LAWS)
def test_the_weights_make_the_stated_logits(head: str) -> None:
    """Differences of ⟨Wq x, Wk x⟩ over the scale, from the tensors, in exact numbers."""
    n = 8
    # Powers of two only, so that shares are exact numbers too.
    powers = [1, 2, 4, 8]
    text = [Token(asked_count=1, near=3)]
    for place in range(2, n + 1):
        text.append(
            Token(
                key=(3 * place) % n,
                asked=1 + place % n,
                key_count=powers[place % 4],
                asked_count=powers[(place + 1) % 4] - (head == "MATCHNEXT"),
                near=1 + (5 * place) % n,
            )
        )
    weights = built(head, n, "float64")
    streams = Symbolic().run(weights.program, as_rows([text])[0])
    operation = weights.program.layers[-1].heads[0]
    scale = weights.scales[operation.result]
    layer = weights.model.layers[-1]
    assert isinstance(layer, Layer)
    head_tensors = layer.heads[0]
    assert isinstance(head_tensors, Head)
    layout = stream_of(weights, streams)
    queries = exact_product(head_tensors.query, layout)
    keys = exact_product(head_tensors.key, layout)
    for k in range(2, n + 1):
        logits = [
            sum((a * b for a, b in zip(queries[k - 1], keys[place], strict=True)), Fraction(0)) / scale
            for place in range(k)
        ]
        if head == "MATCHNEXT" and text[k - 1].asked_count == 0:
            continue
        stated = [LAWS[head].logit(look, n) for look in looks_of(head, text, k)]
        assert [x - logits[0] for x in logits] == [x - stated[0] for x in stated]


def stream_of(weights: Built, held: list[Any]) -> list[list[Fraction]]:
    """The stream's vectors, in the order of the coordinates that the layout names."""
    places = [slot.name for slot in weights.model.layout.slots]
    found = []
    for here in held:
        by_name = {field.name: vector for field, vector in here.items()}
        found.append([value for name in places for value in by_name[name]])
    return found


def exact_product(matrix: torch.Tensor, rows: list[list[Fraction]]) -> list[list[Fraction]]:
    exact = [[Fraction(value) for value in row] for row in matrix.tolist()]
    return [[sum((a * b for a, b in zip(row, x, strict=True)), Fraction(0)) for row in exact] for x in rows]


# Heads against their meaning


@st.composite
def texts(draw: st.DrawFn) -> list[Token]:
    n = draw(st.integers(2, 10))
    marks = st.integers(0, draw(st.integers(1, n)))
    made = [Token(asked=draw(st.integers(1, n)), near=draw(st.integers(1, n)))]
    for place in range(2, n + 1):
        made.append(
            Token(
                key=draw(marks),
                asked=draw(st.integers(1, n)),
                asked_count=draw(st.integers(1, place)),
                near=draw(st.integers(1, n)),
            )
        )
    return counted(made)


@pytest.mark.slow
@pytest.mark.parametrize("head", EXACT)
@given(text=texts())
@settings(max_examples=10, deadline=None)
def test_heads_do_what_they_mean(head: str, text: list[Token]) -> None:
    n = len(text)
    wanted = meant(head, text)
    for arithmetic in SYSTEMS[:2]:
        assert found(head, n, arithmetic, [text])[0] == rounded(wanted, arithmetic)


@pytest.mark.parametrize("head", EXACT)
@given(text=texts())
@settings(max_examples=8, deadline=None)
def test_programs_mean_what_they_say(head: str, text: list[Token]) -> None:
    assert symbolic(head, len(text), text) == meant(head, text)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(text=texts(), hidden=st.sets(st.integers(1, 9)))
def test_exact_next_needs_no_consecutive_counts(text: list[Token], hidden: set[int]) -> None:
    """Some keys are hidden from the head, as the other side of an edge is."""
    seen = [replace(token, key=0, key_count=0) if i in hidden else token for i, token in enumerate(text)]
    for head in ("EXACTNEXT", "EXACTNEXT on shares"):
        wanted = meant(head, seen)
        assert symbolic(head, len(text), seen) == wanted
        for arithmetic in SYSTEMS[:2]:
            assert found(head, len(text), arithmetic, [seen])[0] == rounded(wanted, arithmetic)


@pytest.mark.parametrize("head", EXACT)
@pytest.mark.parametrize("arithmetic", SYSTEMS)
def test_worst_cases_at_full_length(head: str, arithmetic: str) -> None:
    hard = list(hard_texts(16, seed=3))
    for text, row in zip(hard, found(head, 16, arithmetic, hard), strict=True):
        assert row == rounded(meant(head, text), arithmetic)


@pytest.mark.slow
@pytest.mark.parametrize("head", EXACT)
@pytest.mark.parametrize("n", [64, 400])
def test_worst_cases_of_long_texts(head: str, n: int) -> None:
    hard = list(hard_texts(n, seed=n))
    for text, row in zip(hard, found(head, n, "float64", hard), strict=True):
        assert row == rounded(meant(head, text), "float64")


@pytest.mark.parametrize("head", EXACT)
def test_texts_shorter_than_the_longest(head: str) -> None:
    short = [text[:5] for text in hard_texts(5, seed=1)]
    for text, row in zip(short, found(head, 16, "float64", short), strict=True):
        assert row == rounded(meant(head, text), "float64")


def test_only_takes_the_mean_of_all_matches() -> None:
    text = [Token(), *(Token(key=key, asked=2) for key in (2, 1, 2, 2, 3))]
    assert symbolic("only", 6, text) == [1, 2, 2, 3, Fraction(11, 3), Fraction(11, 3)]
    assert found("only", 6, "float64", [text])[0][3] == 3


# The tree on which W's head fails


EDGES = ((3, 4), (3, 5), (1, 3), (2, 3), (3, 6))


def side_of(edge_end: int, vertex: int, asked_count: int) -> list[Token]:
    """A token for each edge with its first or its second endpoint and that vertex' count; then the query."""
    seen: dict[int, int] = {}
    text = [Token()]
    for edge in EDGES:
        for end in edge:
            seen[end] = seen.get(end, 0) + 1
        text.append(Token(key=edge[edge_end], key_count=seen[edge[edge_end]]))
    return [*text, Token(asked=vertex, asked_count=asked_count)]


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["float64", "nearest:61"])
def test_exact_next_finds_the_edges_in_order_where_match_next_does_not(arithmetic: str) -> None:
    """Edges at vertex 3 are those at places 2 to 6, on the left with counts 1, 2, 5, on the right 3, 4.

    W's reader takes what it finds for the next edge if its count is larger than the query's.
    """
    right, misled = [], []
    for m in range(1, 6):
        for end in (0, 1):
            text = side_of(end, 3, m)
            answers = {head: found(head, 7, arithmetic, [text])[0][-1] for head in ("EXACTNEXT", "MATCHNEXT")}
            assert answers["MATCHNEXT"] == CASES["MATCHNEXT"].meaning(text, 7)
            here = (m < 5) and EDGES[m][end] == 3
            assert answers["EXACTNEXT"] == (m + 2 if here else 1)
            right += [m] if here else []
            count_found = text[int(answers["MATCHNEXT"]) - 1].key_count
            misled += [(m, end)] if count_found > m and count_found != m + 1 else []
    assert right == [1, 2, 3, 4]
    assert misled == [(1, 1), (2, 0), (3, 0)]


# All together, on words


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(numbers=st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_counting_tallying_and_finding_the_one_before(numbers: list[int]) -> None:
    """COUNT, tally and EXACTNEXT on words: where did this number stand the last time?"""
    tokens = torch.tensor([0, *numbers])
    expected = [1]
    for place, number in enumerate(numbers, start=2):
        before = [p for p in range(2, place) if numbers[p - 2] == number]
        expected.append(max(before, default=1))
    program = previous_occurrence()
    assert [here[0] for here in Symbolic().outputs(program, tokens)] == expected
    for arithmetic in ("float64", "nearest:41"):
        outputs = previous_built(arithmetic).model.outputs(tokens[None])
        assert system_named(arithmetic).decode(outputs)[0, :, 0].tolist() == expected


@functools.cache
def previous_built(arithmetic: str) -> Built:
    return build(previous_occurrence(), system_named(arithmetic))


@functools.cache
def previous_occurrence() -> Program:
    vocabulary = Vocabulary(words("start", "<s>"), numbered("number", 5, first=1))
    program = Program(task("index-lookup", n=4), causal=True, gated=True, vocabulary=vocabulary, longest=10)
    known, places = program.words(), Places(program)
    mark = Mark(known.number("number"), known.square("number"))
    with program.layer() as layer:
        share = count(layer, "share", places, key=mark, query=mark)
    with program.layer() as layer:
        # The share counts the token itself, so the largest m is the longest text.
        whole = tally(layer, "whole", places, share=share)
    m, square = whole[0], whole[1]
    with program.layer() as layer:
        found = exact_next(
            layer,
            "before",
            places,
            key=mark,
            query=mark,
            key_count=Mark(m - places.first, square - places.first),
            query_count=Mark(m - 2, square - 4 * m + 4),
            value=places.place,
        )
    program.answer_vector(found)
    return program
