"""The last layer of Index, recall, c-gram and counting, whatever told it of the tokens before each place.

Words are points of a parabola: the word of number i has (i, i², 1). So −(x − y)², which is largest where two
words are the same, is a product of what the asking place holds and what the other one does, and neither the
alphabet nor the length makes anything wider. All numbers are whole, all gaps at least 1, and the heads are
hard: what they return is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses.language import LayerScript, Linear, Program, Rival, joined
from separatrix.witnesses.language.forms import Term, as_linear, constant
from separatrix.witnesses.language.gated import product

__all__ = [
    "Before",
    "answer_label",
    "answer_more",
    "answer_next",
    "answer_symbol_at",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Before:
    """What a place knows of the tokens before it.

    `numbers` and `squares` are those one token back, two back and so on. `early` is 1 where fewer tokens
    stand before the place than are asked for, so that what it holds there means nothing.
    """

    numbers: Sequence[Term]
    squares: Sequence[Term]
    early: Term


def answer_symbol_at(
    program: Program, task: IndexLookup, layer: LayerScript, *, place: Term, square: Term
) -> None:
    """The symbol at the place that the index names.

    At index p the logit of place j is −(p − j)². The place p is before the index, so it is there, and every
    other place is at least 1 below.
    """
    words = program.words()
    found = layer.select(
        "found",
        match=[
            (2 * words.number("index"), place),
            (-program.one, square),
            (-words.square("index"), program.one),
        ],
        value=words.number("symbol"),
        rivals=_all_rivals(task.length),
        hard=True,
    )
    _answer(program, "symbol", found)


def answer_label(program: Program, task: AssociativeRecall, layer: LayerScript, before: Before) -> None:
    """The label behind the key that is asked for, among pairs.

    At the query x the logit of a place that holds y as the token before it is −(x − y)², and 1 less if it is
    a key itself: the first key may hold its own number there. Keys differ, so the label behind x stands alone
    at 0 and all else lies at −1 or below: the order of places plays no part.
    """
    words = program.words()
    (number,), (square,) = before.numbers, before.squares
    found = layer.select(
        "found",
        match=[
            (2 * words.number("key"), number),
            (-program.one, as_linear(square) + words.is_("key")),
            (-words.square("key"), program.one),
        ],
        value=words.number("value"),
        rivals=_all_rivals(task.length),
        hard=True,
    )
    _answer(program, "value", found)


def answer_next(
    program: Program,
    task: AssociativeRecall | CGramRetrieval,
    layer: LayerScript,
    before: Before,
    *,
    place: Term,
) -> None:
    """The token that followed when the last tokens first stood side by side.

    With q the last tokens of the query and D(j) the sum of the squared differences between them and the
    tokens before place j, the logit of j is −n·D(j) − j, and n less where `early` is 1. The task says that a
    place with D = 0 and enough tokens before it is there; let j ≤ n be the first. A later such place is at
    least 1 below, and any other place, or an early one, at least n + 1 − j ≥ 1.
    """
    words, n = program.words(), task.n
    # What the query is asks for what stood one token back at the answer's place, and so on.
    asked = [words.number("symbol"), *before.numbers[:-1]]
    squares = [words.square("symbol"), *before.squares[:-1]]
    found = layer.select(
        "found",
        match=[
            (2 * joined(asked), n * joined(before.numbers)),
            (-n * program.one, _sum(before.squares)),
            (-_sum(squares), n * program.one),
            (-program.one, as_linear(place) + n * as_linear(before.early)),
        ],
        value=words.number("symbol"),
        rivals=_all_rivals(task.length),
        hard=True,
    )
    _answer(program, "symbol", found)


def answer_more(program: Program, task: Counting, layer: LayerScript, before: Before) -> None:
    """Whether the token before the threshold occurs more often than the threshold says.

    With v the token before the threshold, the logit of a token x is −(x − v)², and that of the threshold
    itself is 0: it is told v² more than its number 0 earns. So the winners are the c places of v in the
    sequence, the token v that is asked about, and the threshold, and the mean of "is the threshold" over them
    is 1/(c + 2). With the threshold k one product makes (2k + 5)/(c + 2) − 2, which is at most −1/(k + 3) if
    c > k and at least 1/(k + 2) if not: the answer is its sign. Hence the 2·log n bits behind the point.
    """
    words = program.words()
    (number,), (square,) = before.numbers, before.squares
    share = layer.select(
        "share",
        match=[
            (2 * as_linear(number), words.number("symbol")),
            (-program.one, words.square("symbol")),
            (as_linear(square), words.is_("threshold") - program.one),
        ],
        value=words.is_("threshold"),
        rivals=_all_rivals(task.length),
        hard=True,
    )
    ratio = product(layer, "ratio", 2 * words.number("threshold") + 5, share, 0, 2 * task.n + 5)
    program.answer_scores(joined([ratio - 2, 2 - ratio]))


def _answer(program: Program, block: str, found: Term) -> None:
    program.answer_words(numbers={block: (constant([1]), found)}, words={})


def _all_rivals(length: int) -> list[Rival]:
    return [Rival(gap=Fraction(1), count=length)]


def _sum(terms: Sequence[Term]) -> Linear:
    return sum((as_linear(term) for term in terms[1:]), start=as_linear(terms[0]))
