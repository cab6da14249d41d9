"""Counts as chains: RE2 finds what it finds where it takes the count itself, and what Python finds."""

from __future__ import annotations

import re

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from separatrix.generation.patterns import SearchLimits, expanded

LIMITS = SearchLimits()


def first_group(pattern: str, text: str, *, copies: bool) -> str | bool | None:
    """What the first group holds after the first match; False without a match."""
    options = re2.Options()
    options.log_errors = False
    found = re2.compile(pattern, options).search(text)
    if found is None:
        return False
    if not copies:
        return str(found.group(1)) if found.group(1) is not None else None
    start, end = max(found.span(group) for group in range(1, len(found.groups()) + 1))
    return text[start:end] if start >= 0 else None


@pytest.mark.parametrize(
    ("pattern", "chained"),
    [
        ("(a)", "(a)"),
        ("(a{1000})", "(a{1000})"),
        ("(a{2500})", "(a{1000}a{1000}a{500})"),
        ("(a{2000})", "(a{1000}a{1000})"),
        ("(a{2500}?)", "(a{1000}?a{1000}?a{500}?)"),
        ("(a{2500,})", "(a{1000}a{1000}a{500,})"),
        ("(a{2000,}?)", "(a{1000}?a{1000,}?)"),
        ("(a{0,1500})", "(a{0,1000}a{0,500})"),
        ("(a{3,1003})", "(a{3}a{0,1000})"),
        ("(a{1500,1500})", "(a{1000}a{500})"),
        (r"(\d{1001})", r"(\d{1000}\d{1})"),
        (r"([a\]]{1001})", r"([a\]]{1000}[a\]]{1})"),
        (r"([]{}]{1001})", r"([]{}]{1000}[]{}]{1})"),
        (r"([[:alpha:]]{1001})", r"([[:alpha:]]{1000}[[:alpha:]]{1})"),
        (r"(\x{41}{1001})", r"(\x{41}{1000}\x{41}{1})"),
        (r"(\pN{1001})", r"(\pN{1000}\pN{1})"),
        (r"(\Q{}\E{1001})", r"(\{\}{1000}\}{1})"),
        (r"(\Qa{1001}\E)", r"(a\{1001\})"),
        (r"(a\{1001})", r"(a\{1001})"),
        ("([a{1001}])", "([a{1001}])"),
        ("(a{,1001})", "(a{,1001})"),
        ("(a{01001})", "(a{01001})"),
        ("(a)(b)(?P<c>d)", "(a)(?:b)(?:d)"),
        ("(?P<c>d)(a(b))", "(d)(?:a(?:b))"),
        ("(?i:(a)){1001}", "(?i:(?:a)){1000}(?i:(a)){1}"),
        ("(?:(a)|b){1001}", "(?:(a)|b){1000}(?:(a)|b){1}"),
        ("(?:(a)?b){1001}", "(?:(a)?b){1000}(?:(a)?b){1}"),
        ("(?:(a)){0,1001}", "(?:(a)){0,1000}(?:(a)){0,1}"),
        ("(?:(a){0,1001}b){1001}", "(?:(a){0,1000}(a){0,1}b){1000}(?:(a){0,1000}(a){0,1}b){1}"),
        ("(?:(a){1001}){2}", "(?:(?:a){1000}(a){1}){2}"),
    ],
)
def test_how_a_chain_is_written(pattern: str, chained: str) -> None:
    assert expanded(pattern, LIMITS) == chained


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "a", "(?:a)", "a{2500}", "(", ")", "(a", "a)", "((a)", "(a))", "[", "([a)", "(\\", "(?=a)(b)"),
        *("(?!a)(b)", "(?<=a)(b)", "(?P=a)(b)", "(?P<a>b)(?P<a>c)", "(?P<>a)", "(?#a)(b)", "(?P<a b>c)"),
        *("({1001})", "(|{1001})", "{1001}(a)", "(a**)", "(a{1001}{2})", "(a{2}{1001})", "(a{1001}*)"),
        *("(a{10001})", "(a{5,10001})", "(a{10001,})", "(a{1002,1001})", "(a{99999999999})x{9999999}"),
        *("(" + "a" * 2047 + ")", r"(?i)(\pL)", "(?i){1001}(a)", "(?z)(a)"),
    ],
)
def test_what_is_no_pattern(pattern: str) -> None:
    assert expanded(pattern, LIMITS) is None


def test_nested_chains_stop_at_their_length() -> None:
    pattern = "(a)"
    for _ in range(8):
        pattern = f"(?:{pattern}){{9999}}"
    assert expanded(pattern, LIMITS) is None


def test_white_space_is_written_short_for_printable_texts() -> None:
    assert expanded(r"(\S+)\s[\s\S]\\s", LIMITS, printable=True) == r"([!-~]+) [\s\S]\\s"


ATOMS = st.sampled_from(["a", "b", "c", ".", r"\w", "[ab]", "[^a]", r"\Qab\E", "^", "$", r"\b", "(?i)"])


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    bounds = st.tuples(st.integers(0, 5), st.integers(0, 4)).map(
        lambda ends: f"{{{ends[0]},{ends[0] + ends[1]}}}"
    )
    counts = st.one_of(
        st.integers(0, 7).map(lambda r: f"{{{r}}}"), st.integers(0, 7).map(lambda r: f"{{{r},}}"), bounds
    )
    counted = st.tuples(
        st.one_of(
            inner.map(lambda x: f"(?:{x})"),
            inner.map(lambda x: f"({x})"),
            ATOMS.filter(lambda a: "i" not in a),
        ),
        st.one_of(counts, st.sampled_from(["*", "+", "?"])),
        st.sampled_from(["", "?"]),
    ).map("".join)
    return st.one_of(
        counted,
        inner.map(lambda x: f"({x})"),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map(lambda x: f"(?:{x})"),
    )


PATTERNS = st.recursive(ATOMS, compound, max_leaves=6)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(PATTERNS, st.text("abc ", max_size=12), st.integers(1, 3))
@example("(?:(a)|b){5}", "aabbb", 2)
@example("(?:(?:(a)|b){5})+", "abbbbbbbbb", 2)
@example("(?:(a?)b?){7}", "aab", 3)
@example("(?:(a)|b){0,5}?c", "abbc", 2)
def test_a_chain_finds_what_the_count_finds(pattern: str, text: str, block: int) -> None:
    pattern = f"{pattern}()"
    chained = expanded(pattern, LIMITS, block=block)
    assert chained is not None
    assert first_group(chained, text, copies=True) == first_group(pattern, text, copies=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["s1", "s2", "s12"]), max_size=8), st.integers(0, 9), st.integers(1, 4))
def test_a_chain_counts_words_as_python_does(listed: list[str], count: int, block: int) -> None:
    text = "".join(f"{word} " for word in ["<s>", *listed])
    for pattern in (rf"^(?:\S+\s){{{count}}}(\S+)", rf"^(?:(?:\S+\s)*?(s1)\s){{{count}}}(?:\S+\s)*$"):
        chained = expanded(pattern, LIMITS, printable=True, block=block)
        assert chained is not None
        found = re.search(pattern, text)
        assert first_group(chained, text, copies=True) == (found.group(1) if found else False)
