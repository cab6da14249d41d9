"""Associative recall in one sequence of tokens, where the first occurrence of the query counts."""

from __future__ import annotations

from fractions import Fraction

from separatrix.models.explicit.codes import Binary, Ladder
from separatrix.models.explicit.positions import Own
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.language import Program, Rival, address_rivals

__all__ = ["sequence_program"]


def sequence_program(task: AssociativeRecall, choices: Choices) -> Program:
    """Every place fetches the token in front of it; the query takes the first place that fetched its token.

    Layer 1 is that of `pairs_program`: place j ≥ 1 fetches the code x̃_j of token j − 1, d signs, and η₁ makes
    each off by at most 1/(16nd). Place 0 has nothing before it and fetches its own token.

    Layer 2. The query's logit with place j is η₂(n⟨x_q, x̃_j⟩ − j), and 2n·η₂ less at place 0. Let j be the
    first place from 1 on whose token before it is the query; the task says that there is one, at most n − 1.
    A later such place j + m falls behind by m, less ⅛ for what was fetched. Another token's place falls
    behind by at least 2nw − n, less ⅛, where w is in how many signs the two tokens differ, and no more than n
    places do so. Place 0 falls behind by more than n. η₂ is derived from these leads less ¼, and what is left
    pays for rounding. The query's own place is such a later place, or another token's.

    Width 2d + 2·dim + 3 with dim that of the code of n + 1 addresses. Logits grow like n·log n instead of
    log n, because the order of n places must be told apart; that is O(log n) bits all the same.
    """
    signs = Binary(count=task.vocabulary.blocks[0].size)
    code, n = choices.code(task.length), task.n
    program = Program(task, causal=True)
    symbol = program.token("symbol", block="symbol", code=signs)
    address = program.position("address", Own(), code)
    before = program.position("before", Own(shift=-1), code)
    late = program.position("late", Own(), Ladder(count=task.length))
    start = program.position("start", Own(), Ladder(count=1, first=1))
    with program.layer() as layer:
        fetched = layer.select(
            "fetched",
            match=[(before, address)],
            value=symbol,
            rivals=address_rivals(code),
            within=Fraction(1, 16 * n * signs.dim),
        )
    with program.layer() as layer:
        found = layer.select(
            "found",
            match=[(n * symbol, fetched), (-program.one, late + 2 * n * start)],
            value=symbol,
            rivals=[*_later(n), Rival(gap=n - Fraction(1, 4), count=n + 1)],
        )
        read = layer.step("digits", found, off=-1, on=1)
    program.answer_code(2 * read - 1, code=signs)
    return program


def _later(n: int) -> list[Rival]:
    """Places behind the first by 1, by 2 or 3, by 4 to 7, and so on."""
    found, ahead = [], 1
    while ahead < n:
        found.append(Rival(gap=ahead - Fraction(1, 4), count=ahead))
        ahead *= 2
    return found
