"""Tiny models in Hugging Face's format, with random weights: every step of the way runs, and none is learned.

The tokenizer is made of the words of the texts that the model is to read.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import torch

from separatrix.interop.causal_lm import quietly, require_transformers

__all__ = ["save_tiny_llama", "word_tokenizer"]

_SPECIAL: Final = ("<pad>", "</s>", "<unk>")
_WORD: Final = r" ?[^\s]+|\s"
"""A word with the blank before it, or a single blank or line break, so that pieces joined give the text."""


def save_tiny_llama(
    folder: Path,
    texts: Iterable[str],
    *,
    width: int = 16,
    layers: int = 2,
    context: int = 2048,
    seed: int = 0,
) -> None:
    """Write a folder that `load_causal_lm` reads: a LLaMA of few weights that knows these words."""
    transformers = require_transformers()
    tokenizer = word_tokenizer(texts)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=context,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        initializer_range=1.0,
    )
    with torch.random.fork_rng(devices=[]), quietly(transformers):
        torch.manual_seed(seed)
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def word_tokenizer(texts: Iterable[str]) -> Any:
    """A tokenizer of transformers whose tokens are the words of these texts."""
    transformers, tokenizers = require_transformers(), importlib.import_module("tokenizers")
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(_WORD), "isolated")
    words = dict.fromkeys(piece for text in texts for piece, _ in split.pre_tokenize_str(text))
    numbers = {word: number for number, word in enumerate((*_SPECIAL, *words))}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token=_SPECIAL[2]))
    model.pre_tokenizer = split
    model.decoder = tokenizers.decoders.Fuse()
    pad, end, unknown = _SPECIAL
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token=pad, eos_token=end, unk_token=unknown
    )
