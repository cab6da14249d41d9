"""Configs of published checkpoints: parameters as published or worked out by hand, and the state by hand.

The configs are cut down to the fields that sizes depend on, and otherwise as their authors wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from separatrix.audits import audit
from separatrix.audits.catalogue import KINDS

CONFIGS = Path(__file__).parent / "configs"
FEW = 1000
MANY = 1_000_000

STATE: dict[str, tuple[int, Callable[[int], int]]] = {
    "bert-base-uncased": (109_514_298, lambda n: 0),
    "gpt2": (124_439_808, lambda n: 2 * 12 * 768 * 32 * n),
    "pythia-70m": (70_426_624, lambda n: 2 * 6 * 512 * 16 * n),
    "opt-125m": (125_239_296, lambda n: 2 * 12 * 768 * 16 * n),
    "phi-2": (2_779_683_840, lambda n: 2 * 32 * 2560 * 16 * n),
    "falcon-7b": (6_921_720_704, lambda n: 2 * 32 * 64 * 16 * n),
    "falcon-40b": (41_303_293_952, lambda n: 2 * 60 * 128 * 64 * 16 * n),
    "llama-2-7b": (6_738_415_616, lambda n: 2 * 32 * 4096 * 16 * n),
    "llama-3-8b": (8_030_261_248, lambda n: 2 * 32 * 8 * 128 * 16 * n),
    "mistral-7b-v0.1": (7_241_732_096, lambda n: 2 * 32 * 8 * 128 * 16 * min(n, 4095)),
    "mixtral-8x7b-v0.1": (46_702_792_704, lambda n: 2 * 32 * 8 * 128 * 16 * n),
    "qwen2.5-7b": (7_615_616_512, lambda n: 2 * 28 * 4 * 128 * 16 * n),
    "qwen3-0.6b": (596_049_920, lambda n: 2 * 28 * 8 * 128 * 16 * n),
    "qwen3-30b-a3b": (30_532_122_624, lambda n: 2 * 48 * 4 * 128 * 16 * n),
    "gemma-2b": (2_506_172_416, lambda n: 2 * 18 * 256 * 16 * n),
    "gemma-2-9b": (9_241_705_984, lambda n: 2 * 21 * 8 * 256 * 32 * (n + min(n, 4095))),
    "gemma-3-4b": (3_880_263_168, lambda n: 2 * 4 * 256 * 16 * (5 * n + 29 * min(n, 1023))),
    "phi-3-mini": (3_821_079_552, lambda n: 2 * 32 * 3072 * 16 * min(n, 2046)),
    "gpt-oss-20b": (20_914_757_184, lambda n: 2 * 12 * 8 * 64 * 16 * (n + min(n, 127))),
    "mamba-130m": (129_135_360, lambda n: 24 * 1536 * (16 + 4) * 32),
    "mamba-codestral-7b": (7_285_403_648, lambda n: 64 * (8192 * 128 * 32 + (8192 + 2048) * 4 * 16)),
    "falcon-mamba-7b": (7_272_665_088, lambda n: 64 * 8192 * (16 * 32 + 4 * 16)),
    "rwkv-4-169m": (169_342_464, lambda n: 12 * 768 * (3 + 2) * 32),
    "recurrentgemma-2b": (
        2_682_862_080,
        lambda n: 18 * 2560 * (32 + 3 * 16) + 8 * 2 * 256 * 16 * min(n, 2047),
    ),
    "jamba-v0.1": (51_570_323_328, lambda n: 28 * 8192 * (16 * 32 + 4 * 16) + 4 * 2 * 8 * 128 * 16 * n),
    "zamba2-1.2b": (
        1_215_064_704,
        lambda n: 38 * (4096 * 128 * 32 + (4096 + 256) * 4 * 16) + 6 * 2 * 4096 * 16 * n,
    ),
    "falcon-h1-0.5b": (
        521_411_104,
        lambda n: 36 * (1536 * 128 * 32 + (1536 + 256) * 4 * 16 + 2 * 2 * 64 * 16 * n),
    ),
    "bamba-9b": (
        29 * (4096 * (2 * 8192 + 256 + 128) + 8448 * 5 + 3 * 128 + 8192 + 8192 * 4096)
        + 3 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
        + 32 * (3 * 4096 * 14336 + 2 * 4096)
        + 2 * 128256 * 4096
        + 4096,
        lambda n: 29 * (8192 * 128 * 32 + (8192 + 256) * 4 * 16) + 3 * 2 * 8 * 128 * 16 * n,
    ),
    "nemotron-h-8b": (
        24 * (4096 * (2 * 8192 + 2048 + 128) + 10240 * 5 + 3 * 128 + 8192 + 8192 * 4096)
        + 24 * 2 * 4096 * 21504
        + 4 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
        + 52 * 4096
        + 2 * 131072 * 4096
        + 4096,
        lambda n: 24 * (8192 * 128 * 32 + (8192 + 2048) * 4 * 16) + 4 * 2 * 8 * 128 * 16 * n,
    ),
    "granite-4.0-h-tiny": (
        6_939_037_248,
        lambda n: 36 * (3072 * 128 * 32 + (3072 + 256) * 4 * 16) + 4 * 2 * 4 * 128 * 16 * n,
    ),
    "qwen3-next-80b-a3b": (
        79_674_391_296,
        lambda n: 36 * (32 * 128 * 128 * 32 + 8192 * 4 * 16) + 12 * 2 * 2 * 256 * 16 * n,
    ),
    "minimax-text-01": (456_089_655_296, lambda n: 70 * 64 * 128 * 128 * 16 + 10 * 2 * 8 * 128 * 16 * n),
    # The checkpoint holds a bias for each of 256 experts in 26 layers that is no trained parameter.
    "kimi-linear-48b-a3b": (
        49_122_681_728 - 26 * 256,
        lambda n: 20 * (32 * 128 * 128 * 32 + 3 * 4096 * 4 * 16) + 7 * (512 + 64) * 16 * n,
    ),
    "gla-1.3b": (
        24 * (2048 * (2 * 1024 + 3 * 2048 + 16) + 16 * 1024 + 1024 + 512 + 3 * 2048 * 5632 + 2 * 2048)
        + 2 * 32000 * 2048
        + 2048,
        lambda n: 24 * 4 * 256 * 512 * 32,
    ),
    "retnet-1.3b": (
        24 * (2048 * (2 * 2048 + 3 * 4096) + 512 + 3 * 2048 * 2816 + 2 * 2048) + 2 * 32000 * 2048 + 2048,
        lambda n: 24 * 8 * 256 * 512 * 32,
    ),
    "hgrn2-1.3b": (
        24 * (4 * 2048 * 2048 + 2048 + 2048 + 3 * 2048 * 5632 + 2 * 2048) + 2 * 32000 * 2048 + 2048,
        lambda n: 24 * 16 * 128 * 128 * 32,
    ),
    "delta_net-1.3b": (1_365_677_056, lambda n: 24 * (16 * 128 * 128 * 32 + 3 * 2048 * 4 * 16)),
    "gated_deltanet-1.3b": (
        21 * (2048 * (2 * 1536 + 3 * 3072 + 2 * 6) + 2 * 6 + 6144 * 4 + 512 + 3 * 2048 * 5632 + 2 * 2048)
        + 2 * 32000 * 2048
        + 2048,
        lambda n: 21 * (6 * 256 * 512 * 32 + (1536 + 1536 + 3072) * 4 * 16),
    ),
    "kda-1.3b": (
        24
        * (
            4 * 2048 * 2048
            + 2 * (2048 * 128 + 128 * 2048)
            + 2048
            + 2048 * 16
            + 16
            + 2048
            + 128
            + 3 * 2048 * 4
            + 3 * 2048 * 5632
            + 2 * 2048
        )
        + 2 * 32000 * 2048
        + 2048,
        lambda n: 24 * (16 * 128 * 128 * 32 + 3 * 2048 * 4 * 16),
    ),
    "rwkv7-1.5b": (1_527_404_544, lambda n: 24 * (32 * 64 * 64 * 32 + 2 * 2048 * 16)),
}


def at(name: str) -> Path:
    return CONFIGS / f"{name}.json"


@pytest.mark.parametrize("name", STATE)
def test_parameters_and_state(name: str) -> None:
    parameters, state = STATE[name]
    counted = audit(at(name), n=[FEW, MANY])
    assert counted.size.parameters == parameters
    assert counted.size.state_bits(FEW) == state(FEW)
    assert counted.size.state_bits(MANY) == state(MANY)
    assert counted.grows == (state(2 * MANY) > state(MANY))
    assert not counted.generic


@pytest.mark.slow
def test_every_config_is_looked_at_and_every_kind_has_one() -> None:
    assert {path.stem for path in CONFIGS.iterdir()} == set(STATE)
    counted = {audit(at(name)).model_type for name in STATE}
    # Those without a checkpoint here are held against transformers alone.
    assert set(KINDS) - counted == {"qwen2_moe", "olmo_hybrid"}


@pytest.mark.parametrize(
    ("name", "heads", "key_width", "value_width"),
    [
        ("gla-1.3b", 4, 1024, 2048),
        ("delta_net-1.3b", 16, 2048, 2048),
        ("hgrn2-1.3b", 16, 2048, 2048),
        ("retnet-1.3b", 8, 2048, 4096),
    ],
)
def test_a_head_has_a_matrix_of_its_own_width(
    name: str, heads: int, key_width: int, value_width: int
) -> None:
    """Published figures took the product of the whole widths: 4 and 16 times too much for two of these."""
    counted = audit(at(name))
    recurrent = counted.state_at(FEW)["recurrent state"]
    assert heads * recurrent == counted.size.layers * key_width * value_width * 32


def test_the_state_is_told_part_by_part() -> None:
    counted = audit(at("recurrentgemma-2b"), n=[10, 5000])
    assert counted.state_at(5000) == {
        "sliding window of 2,048": 8 * 2 * 256 * 16 * 2047,
        "recurrent state": 18 * 2560 * 32,
        "convolution state": 18 * 2560 * 3 * 16,
    }
    assert counted.state_at(10)["sliding window of 2,048"] == 8 * 2 * 256 * 16 * 10
    assert counted.composition == "18 × gated recurrence, 8 × sliding attention"
    assert counted.bounded_bits == counted.size.state_bits(5000)
    assert list(audit(at("jamba-v0.1")).state_at(1)) == [
        "key-value cache",
        "recurrent state",
        "convolution state",
    ]


def test_precision_is_that_of_the_config_unless_another_is_asked_for() -> None:
    usual, narrow = audit(at("mamba-codestral-7b")), audit(at("mamba-codestral-7b"), precision=8)
    assert usual.size.precision_bits == 16
    assert narrow.state_at(1)["convolution state"] * 2 == usual.state_at(1)["convolution state"]
    assert narrow.state_at(1)["recurrent state"] == usual.state_at(1)["recurrent state"]
    half = audit(at("mamba-codestral-7b"), state_precision=16)
    assert half.state_at(1)["recurrent state"] * 2 == usual.state_at(1)["recurrent state"]
    # MiniMax keeps its matrices in the model's own dtype.
    full, small = audit(at("minimax-text-01")), audit(at("minimax-text-01"), precision=8)
    assert small.state_at(1)["recurrent state"] * 2 == full.state_at(1)["recurrent state"]
    assert "no dtype: numbers of 32 bits" in audit(at("gpt2")).notes[0]


def test_notes_say_what_is_special() -> None:
    assert audit(at("gemma-3-4b")).notes == ("Only the language model (text_config) is counted.",)
    assert "shared by 16 query heads" in audit(at("falcon-40b")).notes[0]
    assert "An encoder" in audit(at("bert-base-uncased"), precision=32).notes[0]
    assert "Weights are quantised" in audit(at("gpt-oss-20b")).notes[0]


@pytest.mark.parametrize(("name", "last"), [("bert-base-uncased", 512), ("gpt2", 1024), ("opt-125m", 2048)])
def test_lengths_beyond_a_table_of_positions_are_noted(name: str, last: int) -> None:
    within, beyond = audit(at(name), n=[last]), audit(at(name), n=[1, last + 1])
    (said,) = set(beyond.notes) - set(within.notes)
    assert said.startswith(f"Its table of positions ends at {last:,}: it cannot read more tokens than that.")
    assert ("by formula only" in said) == bool(beyond.size.state)
    listed = beyond.to_fields()["notes"]
    assert isinstance(listed, list)
    assert said in listed
    assert not any("positions ends" in said for said in audit(at("pythia-70m"), n=[10**9]).notes)


def test_a_folder_a_file_and_its_fields_say_the_same(tmp_path: Path) -> None:
    text = at("mamba-130m").read_text()
    (tmp_path / "config.json").write_text(text)
    of_folder, of_file = audit(tmp_path), audit(tmp_path / "config.json")
    assert of_folder.size == of_file.size == audit(json.loads(text)).size == audit(str(tmp_path)).size
    assert (of_folder.title, of_file.title) == (tmp_path.name, tmp_path.name)


def test_a_body_without_a_head_is_counted_without() -> None:
    fields = json.loads(at("bert-base-uncased").read_text())
    assert audit({**fields, "architectures": ["BertModel"]}).size.parameters == 109_482_240
    unknown = audit({**fields, "architectures": ["BertForSinging"]})
    assert unknown.size.parameters == 109_482_240
    assert "what BertForSinging adds to it is not counted." in unknown.notes[2]
    nameless = audit({name: value for name, value in fields.items() if name != "architectures"})
    assert nameless.size.parameters == 109_514_298
    assert "names no architecture: the head for words is counted, and no pooler." in nameless.notes[2]
    fields = json.loads(at("llama-3-8b").read_text())
    head = 4096 * 128256
    assert audit({**fields, "architectures": ["LlamaModel"]}).size.parameters == 8_030_261_248 - head


def test_attention_inside_a_linear_model_is_counted() -> None:
    fields = json.loads(at("gla-1.3b").read_text())
    inside = {"layers": [3, 11], "num_heads": 16, "num_kv_heads": 4}
    counted = audit({**fields, "attn": inside})
    assert counted.state_at(FEW)["key-value cache"] == 2 * 2 * 4 * 128 * 16 * FEW
    assert counted.state_at(FEW)["recurrent state"] == 22 * 4 * 256 * 512 * 32
    windowed = audit({**fields, "attn": {**inside, "window_size": 64}})
    assert windowed.state_at(FEW)["sliding window of 64"] == 2 * 2 * 4 * 128 * 16 * 64
    assert not windowed.grows
