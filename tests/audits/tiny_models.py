"""Tiny language models as folders: one that looks up what it has read, by hand-made weights, and others that
cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from separatrix.experiments.reading.tiny_causal_lm import word_tokenizer
from separatrix.interop.causal_lm import quietly, require_transformers

__all__ = ["save_looking_up", "save_tiny_mamba"]

_NEAR = 2e6
"""Sharpness of heads that look a fixed number of places back: enough up to a few hundred tokens."""
_MATCH = 200.0


def save_looking_up(folder: Path, texts: Iterable[str], *, context: int = 512) -> None:
    """A LLaMA of two layers that knows how "The red lamp is in room" went on when it was read before.

    At the end of such a phrase the words three and four places back are the thing; the first layer copies
    them. It also copies the words four and five places back, which at the word to be found are the thing too.
    The second layer attends where both agree, and copies the word that stands there.
    """
    transformers = require_transformers()
    tokenizer = word_tokenizer(texts)
    words = len(tokenizer)
    size = 2 * words + 2  # of a head: two words to be compared, and the pair of numbers that turns
    # The word, those 3, 4 and 5 places back, what was found, and a one; a multiple of the heads.
    width = 3 * -(-(5 * words + 1) // 3)
    config = transformers.LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=1,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=size,
        max_position_embeddings=context,
        # The first pair of a head turns by one radian a place, all others not to speak of.
        rope_parameters={"rope_type": "default", "rope_theta": 1e300},
        rms_norm_eps=1e-12,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with quietly(transformers):
        model = transformers.LlamaForCausalLM(config)
        with torch.no_grad():
            _write_weights(model, words, size)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _write_weights(model: Any, words: int, size: int) -> None:
    for parameter in model.parameters():
        parameter.zero_()
    fields = {name: slice(place * words, (place + 1) * words) for place, name in enumerate(FIELDS)}
    one = 5 * words
    eye = torch.eye(words)
    table = model.model.embed_tokens.weight
    table[:, fields["word"]] = eye
    table[:, one] = 1.0
    for layer in model.model.layers:
        layer.input_layernorm.weight.fill_(1.0)
    first, second = (layer.self_attn for layer in model.model.layers)
    half = size // 2  # a pair that turns is number i and number i + half
    for head, (back, name) in enumerate(zip((3, 4, 5), FIELDS[1:4], strict=True)):
        angle = torch.tensor(float(back))
        place = head * size
        # q·k is cos((here − there) − back): largest where the distance is `back`.
        first.q_proj.weight[place, one] = _NEAR**0.5
        first.k_proj.weight[place, one] = _NEAR**0.5 * torch.cos(angle)
        first.k_proj.weight[place + half, one] = _NEAR**0.5 * torch.sin(angle)
        first.v_proj.weight[place + 1 : place + 1 + words, fields["word"]] = eye
        first.o_proj.weight[fields[name], place + 1 : place + 1 + words] = eye
    thing, owner = slice(1, 1 + words), slice(half + 1, half + 1 + words)
    second.q_proj.weight[thing, fields["back 3"]] = _MATCH * eye
    second.k_proj.weight[thing, fields["back 4"]] = eye
    second.q_proj.weight[owner, fields["back 4"]] = _MATCH * eye
    second.k_proj.weight[owner, fields["back 5"]] = eye
    second.v_proj.weight[1 : 1 + words, fields["word"]] = eye
    second.o_proj.weight[fields["found"], 1 : 1 + words] = eye
    model.model.norm.weight.fill_(1.0)
    model.lm_head.weight[:, fields["found"]] = eye


FIELDS = ("word", "back 3", "back 4", "back 5", "found")


def save_tiny_mamba(folder: Path, texts: Iterable[str], *, width: int = 4, state: int = 2) -> None:
    """A Mamba with random weights and next to no memory."""
    transformers = require_transformers()
    tokenizer = word_tokenizer(texts)
    config = transformers.MambaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        state_size=state,
        num_hidden_layers=1,
        expand=1,
        conv_kernel=2,
        time_step_rank=1,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]), quietly(transformers):
        torch.manual_seed(0)
        transformers.MambaForCausalLM(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
