"""Greedy decoding without searches: stopping, ragged batches, rows that are dropped, bad prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate, greedy
from separatrix.generation.runs import Progress, Run, score
from tests.generation.writers import (
    SEARCHING,
    Histories,
    Turner,
    Writer,
    prompt,
    reciting,
    spelled,
    tokens,
    told,
)


def by_hand(model: Turner, given: Sequence[int], answers: frozenset[int], limit: int) -> Run:
    """The recurrence in whole numbers, from the start for every token."""
    written: list[int] = []
    while len(written) < limit:
        state = 0
        for token in [*given, *written]:
            state = (model.factor * state + token + 1) % model.modulus
        written.append(state)
        if state in answers:
            return Run(prompt=len(given), written=tuple(written), outcome="answered")
    return Run(prompt=len(given), written=tuple(written), outcome="limit")


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=9), max_size=9),
    st.sets(st.integers(0, 12), max_size=3),
    st.integers(0, 20),
    st.integers(1, 10),
)
def test_a_batch_writes_what_each_row_writes_alone(
    prompts: list[list[int]], answers: set[int], limit: int, batch: int
) -> None:
    model = Turner(5, 13)
    wanted = [by_hand(model, each, frozenset(answers), limit) for each in prompts]
    assert greedy(model, prompts, answers, limit, batch=batch) == wanted
    assert [greedy(model, [each], answers, limit)[0] for each in prompts] == wanted


def test_a_run_ends_with_the_first_answer_and_says_which() -> None:
    model = reciting("3 1 YES 4 NO", "NO", "1 2 3 4 5 6 7")
    runs = generate(model, [prompt(0), prompt(1, "5 5 5"), prompt(2)], told(limit=5, searches=False))
    assert [spelled(run.written) for run in runs] == ["3 1 YES", "NO", "1 2 3 4 5"]
    assert [run.outcome for run in runs] == ["answered", "answered", "limit"]
    assert [run.answer for run in runs] == [SEARCHING.token("YES"), SEARCHING.token("NO"), None]
    assert [run.prompt for run in runs] == [2, 5, 2]


def test_answers_in_a_prompt_do_not_end_a_run() -> None:
    (run,) = generate(reciting("1 NO"), [prompt(0, "YES NO")], told(searches=False))
    assert spelled(run.written) == "1 NO"


def test_rows_are_dropped_once_more_than_half_are_done() -> None:
    model = reciting("YES", "1 YES", "1 1 1 YES", "1 1 1 1 1 YES")
    runs = generate(model, [prompt(which) for which in range(4)], told(searches=False))
    assert [len(run.written) for run in runs] == [1, 2, 4, 6]
    # Two steps read the prompts, and the last token of a batch is never read.
    assert model.batches == [4, 4, 4, 4, 4, 1, 1]


def test_the_common_part_of_prompts_is_read_at_once() -> None:
    class Reader(Writer):
        def read(
            self, tokens: Int[Tensor, "batch pos"], state: Histories
        ) -> tuple[Float[Tensor, "batch out"], Histories]:
            shapes.append(tuple(tokens.shape))
            return super().read(tokens, state)

    shapes: list[tuple[int, ...]] = []
    plain = reciting("YES", "2 YES", "3 YES")
    model = Reader(plain.following, plain.size_of_vocabulary)
    prompts = [prompt(0, "1 1 1 1"), prompt(1, "1"), prompt(2, "1 1")]
    assert generate(model, prompts, told(searches=False)) == generate(plain, prompts, told(searches=False))
    assert shapes == [(3, 3)]


def test_room_is_made_before_it_is_needed_and_again_for_rows_that_are_kept() -> None:
    class Noting(Writer):
        def step(
            self, token: Int[Tensor, "batch"], state: Histories
        ) -> tuple[Float[Tensor, "batch out"], Histories]:
            assert not torch.is_grad_enabled()
            assert len(state[0]) < room[0], "there is always room for the token that is read"
            return super().step(token, state)

        def kept(self, state: Histories, rows: Int[Tensor, "row"]) -> Histories:
            room[0] = len(state[0])
            return super().kept(state, rows)

        def reserve(self, state: Histories, positions: int) -> Histories:
            room[0] = len(state[0]) + positions
            noted.append(len(state))
            return state

    room = [0]
    noted: list[int] = []
    plain = reciting("YES", "1 YES", "1 1 1 YES", " ".join(["1"] * 40))
    model = Noting(plain.following, plain.size_of_vocabulary)
    prompts = [prompt(which) for which in range(4)]
    runs = generate(model, prompts, told(searches=False, limit=30))
    assert runs == generate(plain, prompts, told(searches=False, limit=30))
    assert noted == [4, 4, 1, 1, 1], "at 0, 4, then 6 for the one that is kept, 12 and 24"


def test_a_limit_may_be_given_apart() -> None:
    (run,) = generate(reciting("1 2 3"), [prompt(0)], told(searches=False), limit=2)
    assert spelled(run.written) == "1 2"
    (run,) = generate(reciting("1 2 3"), [prompt(0)], told(searches=False), limit=0)
    assert (run.written, run.outcome) == ((), "limit")
    assert generate(reciting(), [], told()) == []


def test_the_first_of_equal_scores_is_written() -> None:
    class Undecided(Turner):
        def step(
            self, token: Int[Tensor, "batch"], state: Tensor
        ) -> tuple[Float[Tensor, "batch out"], Tensor]:
            scores, state = super().step(token, state)
            return torch.tensor([[0.0, 1.0, 1.0, 0.5]], dtype=torch.float64).expand(len(scores), 4), state

    assert greedy(Undecided(1, 4), [[0]], [], 3)[0].written == (1, 1, 1)


def test_tokens_outside_the_vocabulary_and_scores_that_are_no_numbers_are_invalid() -> None:
    class Broken(Turner):
        def step(
            self, token: Int[Tensor, "batch"], state: Tensor
        ) -> tuple[Float[Tensor, "batch out"], Tensor]:
            scores, state = super().step(token, state)
            scores[token == 3, 1] = torch.nan
            return scores, state

    runs = greedy(Broken(1, 9), [[2], [3], [0]], [], 2)
    assert [(run.written, run.outcome) for run in runs] == [
        ((3,), "invalid"),
        ((), "invalid"),
        ((1, 3), "limit"),
    ]
    assert SEARCHING.pad is not None
    for outside in (SEARCHING.pad, SEARCHING.size):
        strange = replace(
            reciting("1 2"),
            size_of_vocabulary=SEARCHING.size + 1,
            following=lambda _, outside=outside: outside,  # type: ignore[misc]
        )
        (run,) = generate(strange, [prompt(0)], told())
        assert (run.written, run.outcome, run.answer) == ((), "invalid", None)


def test_progress_is_told() -> None:
    heard: list[Progress] = []
    model = reciting("YES", "1 YES", "1 1 YES")
    generate(
        model, [prompt(which) for which in range(3)], told(searches=False), batch=2, progress=heard.append
    )
    assert [(each.tokens, each.done) for each in heard] == [(2, 1), (3, 2), (4, 2), (5, 2), (6, 3)]
    assert {each.prompts for each in heard} == {3}


def test_what_cannot_be_asked() -> None:
    with pytest.raises(InvalidInput, match="at least one token; prompt 2 has none"):
        generate(reciting(), [[1], []], told())
    assert SEARCHING.pad is not None
    for strange in (SEARCHING.pad, SEARCHING.size):
        with pytest.raises(
            InvalidInput, match=f"run from 0 to {SEARCHING.pad - 1}; got {strange} in prompt 1"
        ):
            generate(reciting(), [[strange]], told())
    with pytest.raises(InvalidInput, match="got -1 in prompt 1"):
        greedy(reciting(), [[-1]], [], 3)
    with pytest.raises(InvalidInput, match="at least 0 and a batch at least 1; got -1 and 64"):
        greedy(reciting(), [tokens("1")], [], -1)


def test_an_input_without_an_answer_scores_a_half() -> None:
    assert score([1, 0, None, 1], [1, 1, 1, 1]) == (1 + 0 + 0.5 + 1) / 4
    with pytest.raises(InvalidInput, match="got 1 answers and 2 right ones"):
        score([1], [1, 0])
    with pytest.raises(InvalidInput, match="at least one"):
        score([], [])
