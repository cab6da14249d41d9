"""The retrieval tool: what searches return, and what hostile ones cannot do."""

from __future__ import annotations

import random
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.generation import matching
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.searching import (
    FAILED,
    INVALID,
    TIMEOUT,
    Found,
    require_engine,
    search,
    search_bytes,
)

ALWAYS_APART = SearchLimits(work=0)
"""Every search in a process of its own."""
PATIENT = SearchLimits(seconds=60.0)
"""For what a search finds; how soon is a matter of the processor."""


@pytest.mark.parametrize("limits", [SearchLimits(), ALWAYS_APART], ids=["here", "apart"])
@pytest.mark.parametrize(
    ("pattern", "text", "result"),
    [
        ("(b+)", "abbc", Found("bb")),
        ("a(b*)", "acabb", Found("")),
        ("(x)", "abc", FAILED),
        ("(a)(b)", "ab", Found("a")),
        ("(a)|(b)", "b", INVALID),
        ("a", "a", INVALID),
        ("", "a", INVALID),
        ("(", "a", INVALID),
        ("a)", "a", INVALID),
        (r"(a)\1", "aa", INVALID),
        ("(?=a)(a)", "a", INVALID),
        ("(?P<n>a)", "a", Found("a")),
        (r"(\d+)\s-\s3\s", "0 - 1 12 - 3 ", Found("12")),
        (r"(\d+)\s-\s3\s", "0 - 1 12 - 31 ", FAILED),
        (r"(?:^|\s)q\s+(\S+)", "a q b q c ", Found("b")),
        (r"(\S+) $", "a b c ", Found("c")),
        (r"(\S+)\s$", "a b c\n", Found("c")),
        ("(.+)", "a\nb", Found("a")),
        ("(a\0b)", "xa\0b", Found("a\0b")),
        ("(é)", "né", Found("é")),
        (r"(\C)$", "né", INVALID),
        ("(\ud800)", "a", INVALID),
        ("(a)", "\ud800", INVALID),
        ("(\U0010ffff{3})", "\U0010ffff" * 3, Found("\U0010ffff" * 3)),
        (r"(\x{10FFFF})", "a", FAILED),
        ("(a){0}b", "b", INVALID),
    ],
)
def test_what_a_search_returns(pattern: str, text: str, result: object, limits: SearchLimits) -> None:
    assert search(pattern, text, limits) == result


def test_nothing_is_logged(capfd: pytest.CaptureFixture[str]) -> None:
    search("(a**)(", "a")
    search(r"(a)\1", "a")
    assert capfd.readouterr() == ("", "")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["<s>", "q", "qq", "a", "12", "1", "-", "~"]), max_size=12))
def test_searches_of_the_project_as_python_finds_them(listed: list[str]) -> None:
    text = "".join(f"{word} " for word in listed)
    for pattern in (
        r"^(?:\S+\s){3}(\S+)",
        r"(?:^|\s)q\s+(\S+)",
        r"^(?:(?:\S+ )*?(q) ){2}(?:\S+ )*\S+ \S+ $",
        r".* 1 (\S+) 1 ",
        r"^<s>\s(?:\d+\s~\s\d+\s)*?(?:1\s~\s)?(\d+)(?:\s~\s1)?\s(?:\d+\s~\s|0\s-\s)",
    ):
        found = re.search(pattern, text)
        assert search(pattern, text) == (Found(found.group(1)) if found else FAILED)


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2500, 4096])
def test_a_word_is_found_by_its_index(count: int) -> None:
    text = "".join(f"{word} " for word in ["<s>", *(f"s{i}" for i in range(1, 4097)), "4096"])
    assert search(rf"^(?:\S+\s){{{count}}}(\S+)", text) == Found(f"s{count}")
    assert search(rf"^(?:\S+\s){{{count + 4097}}}(\S+)", text) == FAILED


def test_a_group_holds_its_latest_match_wherever_in_a_chain_it_was() -> None:
    for text, result in (("a" + "b" * 1499, "a"), ("a" + "b" * 999 + "c" + "b" * 499, "c")):
        assert search("^(?:(a|c)|b){1500}$", text) == Found(result)


@pytest.mark.slow
@pytest.mark.parametrize("times", [57, 1001])
def test_words_are_counted(times: int) -> None:
    listed = ["s1"] * times + ["s2"] * 50 + ["s11"] * 50
    random.Random(times).shuffle(listed)
    for more in (0, 1):
        text = "".join(f"{word} " for word in ["<s>", *listed, "s1", str(times)])
        pattern = rf"^(?:(?:\S+ )*?(s1) ){{{times + more}}}(?:\S+ )*\S+ \S+ $"
        assert search(pattern, text, PATIENT) == (FAILED if more else Found("s1"))


@pytest.mark.slow
def test_four_thousand_words_are_counted() -> None:
    text = "".join(f"{word} " for word in ["<s>", *["s1"] * 4096, "s1", "4095"])
    assert search(r"^(?:(?:\S+\s)*?(s1)\s){4096}(?:\S+\s)*\S+\s\S+\s$", text, PATIENT) == Found("s1")
    assert search(r"^(?:(?:\S+\s)*?(s1)\s){4097}(?:\S+\s)*\S+\s\S+\s$", text, PATIENT) == FAILED


AB = "".join(random.Random(5).choices("ab", k=200_000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "result"),
    [
        ("(a+)+$", FAILED),
        ("((a{1000}){1000}){1000}", INVALID),
        ("(((a{30}){30}){30})", INVALID),
        ("(" * 1500 + ")" * 500, INVALID),
        ("[" + r"\p{L}" * 400, INVALID),
        ("([" + "[:alpha:]" * 200, INVALID),
        ("(a" + "?" * 2000 + ")", INVALID),
        ("(" + "(a?)" * 500 + "X)", FAILED),
        ("(" + ".*" * 1000 + "X)", FAILED),
        ("(" + "|" * 2000 + "X)", Found("")),
        ("(X" + "é" * 2000 + ")", FAILED),
        (r"((?i)" + r"\pL" * 600 + ")", INVALID),
        (r"((?i)" + r"[\pL]" * 400 + ")", INVALID),
        ("(" + r"\pL" * 600 + ")", Found(AB[:600])),
        ("(" + r"[\pLé]" * 330 + ")", Found(AB[:330])),
    ],
    ids=range(15),
)
def test_hostile_patterns_end(pattern: str, result: object) -> None:
    assert search(pattern, AB + "c", PATIENT) == result


@pytest.mark.parametrize(
    "pattern",
    ["((?:a?a?a?b?b?b?){500}X)", "((?:[ab]?[^c]?){9999}X)", "(a[ab]{900}a)[ab]*$", "((?:[ab]*){1000})$"],
)
def test_a_search_that_is_cut_off_is_no_failure(pattern: str) -> None:
    assert search(pattern, AB * 40, SearchLimits(seconds=0.05)) is TIMEOUT
    assert search("(b)", AB, ALWAYS_APART) == Found("b"), "the next search is answered as ever"


def test_limits_of_lengths() -> None:
    limits = SearchLimits(pattern=5, text=10, count=6)
    assert search("(aaa)", "a" * 10, limits) == Found("aaa")
    assert search("(aaaa)", "a" * 10, limits) is INVALID
    assert search("(a)", "a" * 11, limits) is TIMEOUT
    assert search("(é)", "é" * 6, limits) is TIMEOUT
    assert search("(a{7})", "a" * 10, SearchLimits(count=6)) is INVALID
    assert search(r"((?:\S+\s){5000}x)", "a", SearchLimits(memory=1 << 16)) is INVALID


def test_a_search_apart_whose_process_died_is_cut_off_and_the_next_is_not() -> None:
    assert search("(b)", "ab", ALWAYS_APART) == Found("b")
    process = matching._GUARDED._process
    assert process is not None
    process.kill()
    process.wait()
    assert search("(b)", "ab", ALWAYS_APART) == Found("b")


def test_a_process_that_greets_too_late_is_not_read_as_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    matching._GUARDED.close()
    monkeypatch.setattr(matching, "_START", 0.0)
    assert search("(b)", "ab" * 99, ALWAYS_APART) is TIMEOUT
    monkeypatch.undo()
    assert search("(b)", "ab" * 99, ALWAYS_APART) == Found("b")


def test_what_a_pattern_costs_is_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.75, 0.0, 1.5])
    allowed: list[float] = []

    def match_within(self: matching.Ready, text: bytes, seconds: float) -> None:
        allowed.append(seconds)
        raise matching.NotFinished

    monkeypatch.setattr("separatrix.generation.searching.time.thread_time", lambda: next(clock))
    monkeypatch.setattr(matching.Ready, "match_within", match_within)
    limits = SearchLimits(work=0, seconds=1.0)
    assert search("(b)", "ab", limits) is TIMEOUT
    assert search("(b)", "ab", limits) is TIMEOUT
    assert allowed == [0.25]


def test_text_may_come_as_bytes() -> None:
    assert search_bytes("(é+)", "aéé".encode()) == Found("éé")
    assert search_bytes("(.)b", b"\xffb") == FAILED


def test_without_the_engine_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidInput, match="google-re2 is not installed here; install it"):
        require_engine()
    with pytest.raises(InvalidInput, match="A search needs RE2"):
        search("(a)", "a")


PIECES = (
    *"()[]{}|*+?.^$\\ab1,-: é\0\n",
    *("{1001}", "{9999}", "{2,1500}", "(?:", "(?P<n>", "(?i)", "[^", "[[:alpha:]", r"\Q", r"\E"),
    *(r"\p{L}", r"\x{", r"\C", r"\b", "(?=", r"\1"),
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.text("ab1 é\n", max_size=12))
def test_nothing_raises(pattern: str, text: str) -> None:
    found = search(pattern, text)
    assert found in (FAILED, INVALID) or (isinstance(found, Found) and found.text in text)
