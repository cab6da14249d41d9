"""The audit against what transformers builds and allocates: tiny models, random weights, no download.

A config is written by transformers itself and read here; the parameters must be those of the model, and the
state must be the bytes of every tensor that one pass and three further tokens leave in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.audits import audit

pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("default")]

USUAL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SHARED = {"num_key_value_heads": 2}
LOCAL = {**SHARED, "sliding_window": 8}
SCAN = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 12}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LOCAL_EXPERTS = {"num_local_experts": 3, "num_experts_per_tok": 2}
NEMOTRON = {**SHARED, "head_dim": 16, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2}
DELTA = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 20,
}
LATENT = {"kv_lora_rank": 24, "qk_rope_head_dim": 8, "v_head_dim": 16, "qk_nope_head_dim": 12}
ALTERNATING = {"layer_types": ["linear_attention", "full_attention"] * 2}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("bert", {}),
    ("bert", {"is_decoder": True}),
    ("gpt2", {"n_inner": 80, "n_positions": 40}),
    ("gpt_neox", {}),
    ("gpt_neox", {"attention_bias": False, "tie_word_embeddings": True}),
    ("opt", {"ffn_dim": 96}),
    ("opt", {"ffn_dim": 96, "word_embed_proj_dim": 32, "do_layer_norm_before": False}),
    ("phi", {}),
    ("phi", {**SHARED, "qk_layernorm": True}),
    ("falcon", {}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    ("falcon", {"multi_query": False, "parallel_attn": False, "bias": True, "alibi": True}),
    ("llama", SHARED),
    ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 24, "tie_word_embeddings": True}),
    ("mistral", LOCAL),
    ("mistral", {**SHARED, "sliding_window": None}),
    ("mixtral", {**LOCAL, **LOCAL_EXPERTS}),
    ("qwen2", SHARED),
    ("qwen2", {**LOCAL, "use_sliding_window": True, "max_window_layers": 1}),
    ("qwen2_moe", {**SHARED, **EXPERTS, "decoder_sparse_step": 2, "shared_expert_intermediate_size": 40}),
    ("qwen3", {**SHARED, "head_dim": 24, "attention_bias": True}),
    ("qwen3_moe", {**LOCAL, **EXPERTS, "head_dim": 24, "mlp_only_layers": [3], "use_sliding_window": True}),
    ("gemma", {**SHARED, "head_dim": 24}),
    ("gemma2", {**LOCAL, "head_dim": 24}),
    ("gemma3_text", {**LOCAL, "head_dim": 24, "sliding_window_pattern": 3}),
    ("phi3", LOCAL),
    ("gpt_oss", {**LOCAL, **LOCAL_EXPERTS, "head_dim": 16}),
    ("mamba", {"state_size": 8, "time_step_rank": 6}),
    ("mamba", {"use_bias": True, "use_conv_bias": False, "conv_kernel": 3}),
    ("falcon_mamba", {"state_size": 8}),
    ("mamba2", {"num_heads": 8, "head_dim": 16, "state_size": 12, "n_groups": 2}),
    ("mamba2", {"num_heads": 8, "head_dim": 16, "n_groups": 1, "use_bias": True, "conv_kernel": 3}),
    ("rwkv", {"attention_hidden_size": 64}),
    ("recurrent_gemma", {"num_key_value_heads": 1, "lru_width": 48, "attention_window_size": 8}),
    (
        "jamba",
        {
            **SHARED,
            "mamba_d_state": 8,
            "num_experts": 3,
            "attn_layer_period": 4,
            "attn_layer_offset": 2,
        },
    ),
    (
        "zamba2",
        {
            **SHARED,
            "mamba_d_state": 8,
            "mamba_ngroups": 2,
            "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
            "adapter_rank": 5,
            "num_mem_blocks": 2,
        },
    ),
    (
        "zamba2",
        {
            "mamba_d_state": 8,
            "layers_block_type": ["hybrid", "mamba", "hybrid", "hybrid"],
            "adapter_rank": 5,
            "use_shared_attention_adapter": True,
        },
    ),
    ("falcon_h1", {**SHARED, **SCAN, "mamba_d_ssm": 128, "mamba_rms_norm": True, "projectors_bias": True}),
    ("falcon_h1", {**SHARED, **SCAN, "mamba_d_ssm": None}),
    ("bamba", {**SHARED, **SCAN, "attn_layer_indices": [2]}),
    (
        "bamba",
        {**SHARED, **SCAN, "attn_layer_indices": [1, 3], "attention_bias": True, "mamba_proj_bias": True},
    ),
    (
        "nemotron_h",
        {**NEMOTRON, "ssm_state_size": 12, "layers_block_type": ["mamba", "mlp", "mamba", "attention"]},
    ),
    (
        "nemotron_h",
        {
            **NEMOTRON,
            "layers_block_type": ["mamba", "moe", "attention", "moe"],
            "n_routed_experts": 3,
            "moe_intermediate_size": 24,
            "moe_shared_expert_intermediate_size": 40,
            "mlp_bias": True,
            "use_bias": True,
        },
    ),
    (
        "granitemoehybrid",
        {
            **SHARED,
            **SCAN,
            **LOCAL_EXPERTS,
            "layer_types": ["mamba", "mamba", "attention", "mamba"],
            "shared_intermediate_size": 40,
        },
    ),
    (
        "granitemoehybrid",
        {
            **SHARED,
            **SCAN,
            "num_local_experts": 0,
            "layer_types": ["mamba", "attention"] * 2,
            "shared_intermediate_size": 40,
        },
    ),
    ("qwen3_next", {**SHARED, **DELTA, **EXPERTS, "head_dim": 16, "shared_expert_intermediate_size": 40}),
    ("olmo_hybrid", {**SHARED, **DELTA, **ALTERNATING}),
    ("olmo_hybrid", {}),
    (
        "kimi_linear",
        {
            **LATENT,
            **ALTERNATING,
            **EXPERTS,
            "num_key_value_heads": 4,
            "linear_head_dim": 10,
            "linear_num_heads": 3,
        },
    ),
    ("minimax", {**SHARED, **LOCAL_EXPERTS, **ALTERNATING, "head_dim": 16, "block_size": 8}),
]
READ = 21
"""Tokens of the first pass: more than any window or kernel here."""
MORE = 3


@pytest.mark.parametrize(("kind", "fields"), CASES, ids=[f"{kind}-{i}" for i, (kind, _) in enumerate(CASES)])
def test_parameters_and_cache_are_those_of_transformers(
    kind: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    model = built(kind, fields)
    model.config.save_pretrained(tmp_path)
    counted = audit(tmp_path, n=[READ + MORE])
    assert counted.model_type == kind
    assert not counted.generic
    assert counted.size.parameters == sum(one.numel() for one in model.parameters())
    allocated = sum(one.numel() * one.element_size() for one in carried(model))
    assert 8 * allocated == counted.size.state_bits(READ + MORE)
    assert (allocated == 0) == (kind == "bert" and not fields)


@pytest.mark.parametrize(
    ("name", "fields", "included"),
    [
        ("BertModel", {}, "the pooler is"),
        ("BertForMaskedLM", {}, "the head for words is"),
        ("BertForMaskedLM", {"tie_word_embeddings": False}, "the head for words is"),
        ("BertLMHeadModel", {"is_decoder": True}, "the head for words is"),
        ("BertForPreTraining", {}, "the head for words, the pooler and the map to 2 scores are"),
        ("BertForNextSentencePrediction", {}, "the pooler and the map to 2 scores are"),
        ("BertForSequenceClassification", {"num_labels": 5}, "the pooler and the map to labels are"),
        ("BertForTokenClassification", {}, "the map to labels is"),
        ("BertForQuestionAnswering", {}, "the map to labels is"),
        ("BertForMultipleChoice", {}, "the pooler and the map to a score are"),
    ],
)
def test_the_end_of_bert_is_that_of_its_architecture(
    name: str, fields: dict[str, Any], included: str, tmp_path: Path
) -> None:
    from transformers.models.bert import modeling_bert

    kinds: dict[str, Any] = vars(modeling_bert)
    model = kinds[name](kinds["BertConfig"](**{**USUAL, **fields}))
    model.config.architectures = [name]
    model.config.save_pretrained(tmp_path)
    counted = audit(tmp_path, n=[READ])
    assert counted.size.parameters == sum(one.numel() for one in model.parameters())
    assert f"The parameters are those of {name}: {included} included." in counted.notes


def built(kind: str, fields: dict[str, Any]) -> Any:
    import transformers

    config = transformers.AutoConfig.for_model(kind, **{**USUAL, **fields})
    config.dtype = torch.bfloat16
    auto = transformers.AutoModelForMaskedLM if kind == "bert" and not fields else None
    made: Any = auto or transformers.AutoModelForCausalLM
    torch.manual_seed(0)
    return made.from_config(config, dtype=torch.bfloat16).eval()


@torch.no_grad()
def carried(model: Any) -> list[torch.Tensor]:
    """Every tensor that lives on after READ tokens at once and MORE one by one."""
    from transformers import DynamicCache

    tokens = torch.arange(READ + MORE).remainder(50).add(3).unsqueeze(0)
    kind = model.config.model_type
    if kind == "bert" and not model.config.is_decoder:
        output = model(tokens)
        return [one for one in tensors(dict(output)) if one.shape[:2] != (1, READ + MORE)]
    scans = {"mamba", "falcon_mamba", "mamba2"}
    name = "state" if kind == "rwkv" else "cache_params" if kind in scans else "past_key_values"
    state: Any = DynamicCache(config=model.config) if kind == "recurrent_gemma" else None
    position = 0
    for chunk in (tokens[:, :READ], *torch.split(tokens[:, READ:], 1, dim=1)):
        given = {} if state is None else {name: state}
        if kind == "recurrent_gemma":
            places = torch.arange(position, position + chunk.shape[1]).unsqueeze(0)
            model(chunk, use_cache=True, position_ids=places, **given)
        else:
            state = model(chunk, use_cache=True, **given)[name]
        position += chunk.shape[1]
    inside = [module for module in model.modules() if type(module).__name__.startswith("RecurrentGemmaR")]
    own = [[vars(module).get(part) for part in ("conv1d_state", "recurrent_states")] for module in inside]
    return list(tensors([state, own]))


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors inside a cache, each once; a window's length, which is one too, is left out."""
    seen: set[int] = set()

    def walk(one: Any) -> Iterator[torch.Tensor]:
        if isinstance(one, torch.Tensor):
            if id(one) not in seen:
                seen.add(id(one))
                yield one
        elif isinstance(one, list | tuple):
            for item in one:
                yield from walk(item)
        elif isinstance(one, dict):
            for item in one.values():
                yield from walk(item)
        elif type(one).__module__ in {
            "transformers.cache_utils",
            "transformers.models.minimax.modeling_minimax",
        }:
            yield from walk(
                {name: item for name, item in vars(one).items() if name != "_sliding_window_tensor"}
            )

    yield from walk(value)
