"""W's search heads, each alone in a small causal program, what it means in plain Python, and hard texts.

A text is a list of tokens; what a token says is given as numbers, so that a head can be asked about any text.
Position 1 has the mark 0. A head returns a place, but for COUNT, which returns a share.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.precision import NumberSystem
from separatrix.tasks import task
from separatrix.witnesses.language import Built, Field, LayerScript, Program, build
from separatrix.witnesses.language.gated import product
from separatrix.witnesses.language.search_heads import (
    Mark,
    Places,
    close,
    copy,
    count,
    exact_next,
    exact_next_share,
    match,
    match_next,
    nearest,
    only,
    tally,
)

__all__ = ["CASES", "Case", "Token", "as_rows", "built_head", "hard_texts", "program_of"]

BACK: Final = 2


@dataclass(frozen=True, kw_only=True)
class Token:
    """The mark a key has and how often it was seen, what a query asks for, and near which place."""

    key: int = 0
    asked: int = 1
    key_count: int = 0
    asked_count: int = 1
    near: int = 1


Text = Sequence[Token]


@dataclass(frozen=True, eq=False)
class Inputs:
    """The fields of a token, as numbers of the input."""

    key: Mark
    asked: Mark
    key_count: Mark
    asked_count: Mark
    near: Field
    key_share: Field
    asked_share: Field
    next_share: Field


@dataclass(frozen=True)
class Case:
    """A head: how it is written, what it returns at position k of a text."""

    write: Callable[[Program, Places, Inputs, int], Field]
    meaning: Callable[[Text, int], Fraction]


def program_of(case: Case, n: int) -> Program:
    """A program of the head and nothing else, for texts of n tokens with marks and counts up to n."""
    # Any task with real inputs can carry the numbers; its own meaning plays no part.
    program = Program(task("nearest-neighbour", n=4), causal=True, gated=True, longest=n)
    square = n * n

    def number(name: str, column: int, high: int) -> Field:
        return program.reals(name, [column], low=0, high=high)

    inputs = Inputs(
        key=Mark(number("key", 1, n), number("key squared", 2, square)),
        asked=Mark(number("asked", 3, n), number("asked squared", 4, square)),
        key_count=Mark(number("key count", 5, n), number("key count squared", 6, square)),
        asked_count=Mark(number("asked count", 7, n), number("asked count squared", 8, square)),
        near=program.reals("near", [9], low=1, high=n),
        key_share=program.reals("key share", [10], low=0, high=1),
        asked_share=program.reals("asked share", [11], low=0, high=1),
        next_share=program.reals("next share", [12], low=0, high=1),
    )
    program.answer_vector(case.write(program, Places(program), inputs, n)[0])
    return program


def built_head(case: Case, n: int, system: NumberSystem) -> Built:
    """Its weights, for an arithmetic."""
    return build(program_of(case, n), system)


def as_rows(texts: Sequence[Text]) -> Float[Tensor, "batch pos width"]:
    """Texts of one length as the numbers of the input."""
    rows = torch.zeros(len(texts), len(texts[0]), 18, dtype=torch.float64)
    for i, text in enumerate(texts):
        for j, token in enumerate(text):
            pairs = [(x, x * x) for x in (token.key, token.asked, token.key_count, token.asked_count)]
            shares = [1 / m if m else 0 for m in (token.key_count, token.asked_count, token.asked_count + 1)]
            numbers = [1, *(x for pair in pairs for x in pair), token.near, *shares]
            rows[i, j, : len(numbers)] = torch.tensor(numbers, dtype=torch.float64)
    return rows


def _alone(
    head: Callable[[LayerScript, Places, Inputs, int], Field],
) -> Callable[[Program, Places, Inputs, int], Field]:
    def write(program: Program, places: Places, inputs: Inputs, n: int) -> Field:
        with program.layer() as layer:
            return head(layer, places, inputs, n)

    return write


def _on_shares(head: str) -> Callable[[Program, Places, Inputs, int], Field]:
    """Shares are squared in a layer before the head's."""

    def write(program: Program, places: Places, inputs: Inputs, n: int) -> Field:
        with program.layer() as layer:
            asked = inputs.asked_share if head == "EXACTNEXT" else inputs.next_share
            x = Mark(asked, product(layer, "asked share squared", asked, asked, 0, 1))
            had = inputs.key_share
            y = Mark(had, product(layer, "key share squared", had, had, 0, 1))
        key, query, place = inputs.key, inputs.asked, places.place
        with program.layer() as layer:
            if head == "EXACTNEXT":
                return exact_next_share(
                    layer,
                    "found",
                    places,
                    key=key,
                    query=query,
                    key_share=y,
                    query_share=x,
                    value=place,
                    most=n,
                )
            return match_next(
                layer, "found", places, key=key, query=query, key_share=y, next_share=x, value=place, most=n
            )

    return write


def _matches(text: Text, k: int) -> list[int]:
    """Positions from 2 to k with the mark that is asked for at k; positions count from 1."""
    return [place for place in range(2, k + 1) if text[place - 1].key == text[k - 1].asked]


def _nearest(text: Text, k: int) -> Fraction:
    near = text[k - 1].near
    found = sorted(_matches(text, k), key=lambda place: (abs(place - near), -place))
    return Fraction(found[0] if found else 1)


def _successors(text: Text, k: int) -> Fraction:
    wanted = text[k - 1].asked_count + 1
    found = [place for place in _matches(text, k) if text[place - 1].key_count == wanted]
    return mean(found)


def _next_by_w(text: Text, k: int) -> Fraction:
    """|1/m′ − 1/(m + 1)| is |(m + 1)/m′ − 1| but for a factor that all matches share."""
    wanted = text[k - 1].asked_count + 1
    found = _matches(text, k)
    return Fraction(min(found, key=lambda p: abs(wanted / text[p - 1].key_count - 1), default=1))


CASES: Final = MappingProxyType(
    {
        "COPY": Case(
            _alone(lambda layer, places, _, n: copy(layer, "found", places, back=BACK, value=places.place)),
            lambda text, k: Fraction(max(1, k - BACK)),
        ),
        "COUNT": Case(
            _alone(lambda layer, places, i, n: count(layer, "found", places, key=i.key, query=i.asked)),
            lambda text, k: Fraction(1, 1 + len(_matches(text, k))),
        ),
        "tally": Case(
            _alone(lambda layer, places, i, n: tally(layer, "found", places, share=i.asked_share)),
            lambda text, k: Fraction(text[k - 1].asked_count),
        ),
        "MATCH": Case(
            _alone(
                lambda layer, places, i, n: match(
                    layer, "found", places, key=i.key, query=i.asked, value=places.place
                )
            ),
            lambda text, k: Fraction(min(_matches(text, k), default=1)),
        ),
        "CLOSE": Case(
            _alone(
                lambda layer, places, i, n: close(
                    layer, "found", places, key=i.key, query=i.asked, value=places.place
                )
            ),
            lambda text, k: Fraction(max(_matches(text, k), default=1)),
        ),
        "NEAREST": Case(
            _alone(
                lambda layer, places, i, n: nearest(
                    layer, "found", places, key=i.key, query=i.asked, near=i.near, value=places.place
                )
            ),
            _nearest,
        ),
        "EXACTNEXT": Case(
            _alone(
                lambda layer, places, i, n: exact_next(
                    layer,
                    "found",
                    places,
                    key=i.key,
                    query=i.asked,
                    key_count=i.key_count,
                    query_count=i.asked_count,
                    value=places.place,
                )
            ),
            _successors,
        ),
        "EXACTNEXT on shares": Case(_on_shares("EXACTNEXT"), _successors),
        "MATCHNEXT": Case(_on_shares("MATCHNEXT"), _next_by_w),
        "only": Case(
            _alone(
                lambda layer, places, i, n: only(
                    layer, "found", places, key=i.key, query=i.asked, value=places.place
                )
            ),
            lambda text, k: mean(_matches(text, k)),
        ),
    }
)


def mean(found: list[int]) -> Fraction:
    return Fraction(sum(found), len(found)) if found else Fraction(1)


def counted(text: Text) -> list[Token]:
    """The same text, each key with how often its mark was there up to it, position 1 with 0."""
    seen: dict[int, int] = {}
    made = []
    for place, token in enumerate(text, start=1):
        if place > 1 and token.key:
            seen[token.key] = seen.get(token.key, 0) + 1
            made.append(replace(token, key_count=seen[token.key]))
        else:
            made.append(replace(token, key_count=0))
    return made


def hard_texts(n: int, *, seed: int) -> Iterator[list[Token]]:
    """Texts of n tokens at the ends of what a head meets, then some drawn at random."""
    draw = random.Random(seed)
    start = Token()

    def text(keys: Callable[[int], int], asked: Callable[[int], int]) -> list[Token]:
        rest = [
            Token(
                key=keys(place),
                asked=asked(place),
                asked_count=draw.choice([1, max(1, place - 1), place, draw.randint(1, place)]),
                near=draw.choice([1, n, place, draw.randint(1, n)]),
            )
            for place in range(2, n + 1)
        ]
        return counted([start, *rest])

    for mark in (1, n):
        other = mark - 1 or 2
        yield text(lambda _, m=mark: m, lambda _, m=mark: m)  # type: ignore[misc]
        yield text(lambda _, o=other: o, lambda _, m=mark: m)  # type: ignore[misc]
        yield text(lambda p, m=mark, o=other: m if p == n else o, lambda _, m=mark: m)  # type: ignore[misc]
        yield text(lambda p, m=mark, o=other: m if p == 2 else o, lambda _, m=mark: m)  # type: ignore[misc]
        yield text(lambda p, m=mark, o=other: m if p in (2, n) else o, lambda _, m=mark: m)  # type: ignore[misc]
    yield text(lambda _: 0, lambda _: n)
    for kinds in (2, 3, n):
        marks = [1 + draw.randrange(n) for _ in range(kinds)]
        yield text(lambda _, m=marks: draw.choice(m), lambda _, m=marks: draw.choice(m))  # type: ignore[misc]
