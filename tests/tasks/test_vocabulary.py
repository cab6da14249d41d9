"""Words and numbers, both ways, and only in their canonical spelling."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.tasks.vocabulary import Vocabulary, numbered, words

VOCABULARY = Vocabulary(
    words("answer", "NO", "YES"), numbered("vertex", 12, first=1), numbered("s", 3, prefix="s"), padded=True
)


def test_every_word_comes_back() -> None:
    spelled = [VOCABULARY.word(token) for token in range(VOCABULARY.size)]
    assert spelled == ["NO", "YES", *map(str, range(1, 13)), "s0", "s1", "s2", "<pad>"]
    assert [VOCABULARY.token(word) for word in spelled] == list(range(VOCABULARY.size))


@pytest.mark.parametrize(
    "word", ["0", "13", "01", "+1", "1 ", "s3", "s", "S0", "s-1", "²", "١", "1_0", "yes", "9" * 400]
)
def test_other_spellings_are_refused(word: str) -> None:
    with pytest.raises(InvalidInput, match="is no word of this task; known are NO YES, 1 … 12, s0 s1 s2"):
        VOCABULARY.token(word)


@given(st.lists(st.integers(0, 16), max_size=6))
def test_text_round_trip(tokens: list[int]) -> None:
    row = torch.tensor(tokens + [17] * (6 - len(tokens)))
    assert torch.equal(VOCABULARY.parse(VOCABULARY.render(row), length=6), row)


def test_wrong_counts_and_padding_are_refused() -> None:
    with pytest.raises(InvalidInput, match="This task's inputs have at most 2 words; got 3"):
        VOCABULARY.parse("1 2 3", length=2)
    with pytest.raises(InvalidInput, match="exactly 2 words; got 1"):
        Vocabulary(numbered("bit", 2)).parse("1", length=2)
    with pytest.raises(InvalidInput, match="added by the software"):
        VOCABULARY.parse("1 <pad>", length=2)
    with pytest.raises(InvalidInput, match="at most 16,777,216 characters"):
        VOCABULARY.parse("1 " * (1 << 24), length=2)


def test_characters_without_a_separator() -> None:
    brackets = Vocabulary(words("bracket", "(", ")"), separator="")
    assert brackets.parse("(())", length=4).tolist() == [0, 0, 1, 1]
    assert brackets.render(torch.tensor([0, 1])) == "()"
