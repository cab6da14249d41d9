"""Tokenizers for our folders: the words of a task, or bytes, with the numbers that they have here."""

from __future__ import annotations

import importlib
from typing import Any, Final

from separatrix.errors import InvalidInput
from separatrix.interop.causal_lm import require_transformers
from separatrix.tasks.byte_text import PAD as BYTE_PAD
from separatrix.tasks.byte_text import ByteTask
from separatrix.tasks.interface import Task, WordTask
from separatrix.tasks.vocabulary import PAD, Vocabulary

__all__ = ["padding_of", "tokenizer_for", "vocabulary_of"]

_MOST_WORDS: Final = 1 << 20


def vocabulary_of(task: Task) -> Vocabulary | None:
    """The words of a task's inputs; None where they are bytes."""
    if isinstance(task, WordTask):
        return task.vocabulary
    if isinstance(task, ByteTask):
        return None
    raise InvalidInput(
        f"The inputs of {task.name} are real numbers and no tokens, so there is no text to go in; export it "
        "to ONNX instead."
    )


def padding_of(vocabulary: Vocabulary | None) -> int:
    """The token that fills up rows; one behind all words where a task's own texts need none."""
    if vocabulary is None:
        return BYTE_PAD
    return vocabulary.size if vocabulary.pad is None else vocabulary.pad


def tokenizer_for(vocabulary: Vocabulary | None) -> Any:
    """A tokenizer of transformers with these words, or with the 256 bytes where there are none.

    It has no token for what it does not know: such a text is refused, not read as something else.
    """
    transformers = require_transformers()
    tokenizers = importlib.import_module("tokenizers")
    made = _bytes(tokenizers) if vocabulary is None else _words(tokenizers, vocabulary)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def _words(tokenizers: Any, vocabulary: Vocabulary) -> Any:
    if vocabulary.size > _MOST_WORDS:
        raise InvalidInput(
            f"A tokenizer lists all of its words, at most {_MOST_WORDS:,}; this task has "
            f"{vocabulary.size:,}. Choose a smaller alphabet."
        )
    numbers = {vocabulary.word(token): token for token in range(vocabulary.size)}
    assert len(numbers) == vocabulary.size, "no two tokens of a vocabulary are spelled alike"
    numbers[PAD] = padding_of(vocabulary)
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers))
    if vocabulary.separator:
        made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    else:
        made.pre_tokenizer = _one_by_one(tokenizers)
        made.decoder = tokenizers.decoders.Fuse()
    return made


def _bytes(tokenizers: Any) -> Any:
    """Bytes as the library spells them: one printable character for each."""
    # The alphabet lists the characters of printable bytes first, the others in order behind them.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + place) for place, byte in enumerate(others)
    }
    numbers = {spelled[byte]: byte for byte in range(256)} | {PAD: BYTE_PAD}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers))
    pieces = [
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        _one_by_one(tokenizers),
    ]
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(pieces)
    made.decoder = tokenizers.decoders.ByteLevel()
    return made


def _one_by_one(tokenizers: Any) -> Any:
    """Every character is a word."""
    return tokenizers.pre_tokenizers.Split(tokenizers.Regex("[\\s\\S]"), "isolated")
