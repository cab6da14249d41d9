"""Searches while decoding: what is asked, what is filled in, and how a run ends when a search does not."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.runs import Run, Search
from separatrix.tasks.vocabulary import Vocabulary, words
from tests.generation.writers import SEARCHING, Told, Writer, prompt, reciting, spelled, tokens, told

START, END, FAILED = tokens("<StartSearch> <EndSearch> FAILED")


def one(text: str, given: str = "", limits: SearchLimits | None = None) -> Run:
    (run,) = generate(reciting(text), [prompt(0, given)], told(), search_limits=limits)
    return run


def test_a_result_is_the_next_token_whatever_the_model_would_write() -> None:
    run = one(r"a <StartSearch> b \s (\S+) <EndSearch> _ YES", "b 7 b 8")
    assert spelled(run.written) == r"a <StartSearch> b \s (\S+) <EndSearch> 7 YES"
    assert run.returned == {6}
    text = len("0 6 b 7 b 8 a ")
    assert run.searches == (Search(place=5, pattern=r"b\s(\S+)", text=text, outcome="found", result="7"),)
    assert run.outcome == "answered"


def test_a_search_without_a_match_returns_failed_and_the_run_goes_on() -> None:
    run = one(r"<StartSearch> ab \s (\S+) <EndSearch> _ NO")
    assert spelled(run.written) == r"<StartSearch> ab \s (\S+) <EndSearch> FAILED NO"
    assert [search.outcome for search in run.searches] == ["failed"]
    assert run.outcome == "answered"


def test_a_search_reads_what_searches_wrote_but_not_itself() -> None:
    again = r"<StartSearch> <StartSearch> \s b \s (\S+) <EndSearch> _"
    run = one(rf"<StartSearch> b \s (\S+) <EndSearch> _ {again} YES", "b 9")
    # The second <StartSearch> in a row begins anew, so the first of them belongs to the text.
    assert [search.pattern for search in run.searches] == [r"b\s(\S+)", r"\sb\s(\S+)"]
    assert [search.result for search in run.searches] == ["9", "9"]
    run = one(
        r"<StartSearch> b \s (\S+) <EndSearch> _ <StartSearch> 5 \s (\S+) \s $ <EndSearch> _ YES", "b 5"
    )
    assert [search.result for search in run.searches] == ["5", None]


def test_answers_inside_a_search_do_not_end_a_run() -> None:
    run = one(r"<StartSearch> YES \s (\S+) <EndSearch> _ NO", "YES 3")
    assert spelled(run.written) == r"<StartSearch> YES \s (\S+) <EndSearch> 3 NO"


def test_an_answer_that_a_search_returned_does_not_end_a_run() -> None:
    run = one(r"<StartSearch> 3 \s (\S+) <EndSearch> _ NO", "3 YES")
    assert spelled(run.written) == r"<StartSearch> 3 \s (\S+) <EndSearch> YES NO"
    assert run.returned == {5}


@pytest.mark.parametrize(
    ("text", "given", "outcome", "search"),
    [
        ("<EndSearch>", "", "invalid", None),
        (r"<StartSearch> ( <EndSearch>", "", "invalid", "invalid"),
        (r"<StartSearch> <EndSearch>", "", "invalid", "invalid"),
        (r"<StartSearch> a <EndSearch>", "a", "invalid", "invalid"),
        (r"<StartSearch> ( a ) | b <EndSearch>", "b", "invalid", "invalid"),
        (r"<StartSearch> b ( ) <EndSearch>", "b", "invalid", "no word"),
        (r"<StartSearch> ( b . a ) <EndSearch>", "b a", "invalid", "no word"),
        (r"<StartSearch> ( b . ) <EndSearch>", "b a", "invalid", "no word"),
        (r"<StartSearch> b \s (\S+) <EndSearch>", "b <EndSearch>", "invalid", "no word"),
        (r"<StartSearch> b \s (\S+) <EndSearch>", "b <StartSearch>", "invalid", "no word"),
        (r"<StartSearch> (( a+)+$ <EndSearch>", "", "invalid", "invalid"),
    ],
)
def test_a_run_that_loses_its_meaning_is_invalid(
    text: str, given: str, outcome: str, search: str | None
) -> None:
    run = one(text, given)
    assert run.outcome == outcome
    assert [each.outcome for each in run.searches] == ([search] if search else [])
    assert spelled(run.written) == text, "nothing is filled in"


def test_a_search_that_is_cut_off_ends_the_run_as_a_timeout() -> None:
    run = one(r"<StartSearch> ( a ) <EndSearch> _ YES", "a", SearchLimits(text=3))
    assert (run.outcome, run.answer) == ("timeout", None)
    assert [search.outcome for search in run.searches] == ["timeout"]


def test_results_count_towards_the_limit() -> None:
    text = r"<StartSearch> b \s (\S+) <EndSearch> _ YES"
    for limit, outcome, searches in ((5, "limit", 0), (6, "limit", 1), (7, "answered", 1)):
        (run,) = generate(reciting(text), [prompt(0, "b 3")], told(), limit=limit)
        assert (len(run.written), run.outcome, len(run.searches)) == (limit, outcome, searches)


def test_a_search_may_be_open_at_the_end_of_a_prompt() -> None:
    run = one(r"\s (\S+) <EndSearch> _ YES", "b 3 <StartSearch> b")
    assert spelled(run.written) == r"\s (\S+) <EndSearch> 3 YES"
    run = one("YES", r"b 3 <StartSearch> b \s (\S+) <EndSearch>")
    assert spelled(run.written) == "YES", "what a prompt asked is not asked again"


def test_without_searches_the_markers_are_words_like_others() -> None:
    (run,) = generate(reciting("<EndSearch> <StartSearch> YES"), [prompt(0)], told(searches=False))
    assert (spelled(run.written), run.searches) == ("<EndSearch> <StartSearch> YES", ())


def test_a_vocabulary_without_the_words_of_searches_is_refused() -> None:
    small = Told(vocabulary=Vocabulary(words("some", "<StartSearch>", "<EndSearch>", "YES")))
    with pytest.raises(
        InvalidInput, match="has the words <StartSearch>, <EndSearch> and FAILED: 'FAILED' is no"
    ):
        generate(Writer(lambda _: 2, 3), [[0]], small)


def test_without_the_engine_only_searches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert generate(reciting("YES"), [prompt(0)], told(searches=False))[0].outcome == "answered"
    with pytest.raises(InvalidInput, match="google-re2 is not installed"):
        generate(reciting("YES"), [prompt(0)], told())


# Patterns of these pieces mean the same to Python's engine.
PIECES = tokens(r"a ab b \s . (\S+) (\S+) ^ $ 1 12")
OUTSIDE = tokens(r"a ab b 1 12 0 NO FAILED")


def fickle(seed: int) -> Writer:
    """It writes anything, searches above all, by a hash of everything before."""

    def following(history: Sequence[int]) -> int:
        draw = random.Random(f"{seed} {list(history)}")
        searching = next((token for token in reversed(history) if token in (START, END)), END) == START
        if draw.random() < 0.02:
            return draw.choice([START, END, SEARCHING.token("YES")])
        if searching:
            pattern = history[len(history) - [*reversed(history)].index(START) :]
            grouped = SEARCHING.token(r"(\S+)") in pattern
            return END if grouped and draw.random() < 0.7 else draw.choice(PIECES)
        return START if draw.random() < 0.4 else draw.choice(OUTSIDE)

    return Writer(following, SEARCHING.size)


def naive(model: Writer, given: list[int], limit: int) -> tuple[list[str], str]:
    """One row from its first token for every token, with Python's engine: the words, and how they end."""
    history = [SEARCHING.word(token) for token in given]
    length = len(history)

    def written() -> list[str]:
        return history[length:]

    while len(history) - length < limit:
        word = SEARCHING.word(model.following([SEARCHING.token(each) for each in history]))
        before = " ".join(history)
        history.append(word)
        searching = before.rfind("<StartSearch>") > before.rfind("<EndSearch>")
        if word == "YES" and not searching:
            return written(), "answered"
        if word != "<EndSearch>":
            continue
        if not searching:
            return written(), "invalid"
        if len(history) - length == limit:
            break
        text, _, span = before.rpartition("<StartSearch>")
        pattern = span.replace(" ", "")
        if re.compile(pattern).groups == 0:
            return written(), "invalid"
        found = re.search(pattern, text)
        result = found.group(1) if found else "FAILED"
        number = re.fullmatch("0|[1-9][0-9]{0,3}", result) and int(result) < 5000
        if not number and result not in {*"ab.^$", "ab", "NO", "FAILED", "(\\S+)", "\\s", "YES"}:
            return written(), "invalid"
        history.append(result)
    return written(), "limit"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(
        st.lists(st.sampled_from([*PIECES, *OUTSIDE, START, END]), min_size=1, max_size=8),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 40),
    st.integers(1, 5),
)
def test_every_row_of_a_batch_as_a_naive_decoder_writes_it(
    seed: int, prompts: list[list[int]], limit: int, batch: int
) -> None:
    model = fickle(seed)
    rules = Told(vocabulary=SEARCHING, answers=frozenset(tokens("YES")), limit=limit)
    runs = generate(model, prompts, rules, batch=batch)
    got = [([SEARCHING.word(token) for token in run.written], run.outcome) for run in runs]
    assert got == [naive(model, each, limit) for each in prompts]
