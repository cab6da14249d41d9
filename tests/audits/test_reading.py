"""Reading configs: what is missing, absurd, hostile or unknown is answered in one sentence."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import separatrix
from separatrix.audits import audit
from separatrix.audits.auditing import OWN_SCHEMA
from separatrix.audits.catalogue import KINDS
from separatrix.errors import InvalidFile, InvalidInput, SeparatrixError, UnknownName
from separatrix.models.sizing import size_of
from separatrix.models.specs import ModelSpec
from separatrix.tasks.interface import Tokens

CONFIGS = Path(__file__).parent / "configs"
LLAMA = json.loads((CONFIGS / "llama-3-8b.json").read_text())
MAMBA = json.loads((CONFIGS / "mamba-130m.json").read_text())


def sentence(fields: dict[str, Any] | Path | str) -> str:
    with pytest.raises(SeparatrixError) as caught:
        audit(fields)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": None}, "The config of a llama model lacks hidden_size, without which"),
        ({"hidden_size": -4096}, "Field 'hidden_size' of the config must be a whole number from 1 to"),
        ({"hidden_size": 0}, "got 0."),
        ({"hidden_size": 4096.5}, "got 4,096.5."),
        ({"hidden_size": "big"}, "got the text 'big'."),
        ({"hidden_size": True}, "got true."),
        ({"hidden_size": [1]}, "got a list."),
        ({"hidden_size": {"x": 1}}, "got an object."),
        ({"hidden_size": 10**12}, "from 1 to 100,000,000; got 1,000,000,000,000."),
        ({"hidden_size": 10**400}, "got a very large number."),
        (
            {"num_hidden_layers": 10**6},
            "Field 'num_hidden_layers' of the config must be a whole number from 1 to",
        ),
        (
            {"num_attention_heads": 33},
            "A llama model shares its width among its heads evenly; got 4,096 among 33",
        ),
        ({"num_key_value_heads": 5}, "A llama model shares its query heads among its key heads evenly"),
        ({"attention_bias": "no"}, "Field 'attention_bias' of the config must be true or false"),
        ({"torch_dtype": "float3"}, "The config's dtype is one of float64, float32"),
        ({"torch_dtype": 16}, "Field 'torch_dtype' of the config must be text; got 16."),
        ({"model_type": ["llama"]}, "Field 'model_type' of the config must be text"),
        ({"architectures": "LlamaForCausalLM"}, "Field 'architectures' of the config must be a list"),
        ({"architectures": [1]}, "Field 'architectures' of the config must be a list of texts"),
    ],
)
def test_fields_that_are_none(change: dict[str, Any], words: str) -> None:
    assert words in sentence({**LLAMA, **change})


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("gpt-oss-20b", {"layer_types": ["full_attention"]}, "'layer_types' of the config names 1 layers"),
        (
            "gpt-oss-20b",
            {"layer_types": ["magic"] * 24},
            "made of full_attention, sliding_attention; got 'magic'",
        ),
        ("nemotron-h-8b", {"hybrid_override_pattern": "M-X"}, "must be made of M * - E; got 'M-X'"),
        ("nemotron-h-8b", {"hybrid_override_pattern": None}, "lacks hybrid_override_pattern"),
        ("recurrentgemma-2b", {"_block_types": ["rnn"]}, "must be made of recurrent and attention"),
        ("zamba2-1.2b", {"hybrid_layer_ids": None}, "lacks layers_block_type"),
        ("zamba2-1.2b", {"hybrid_layer_ids": [-1]}, "must be a list of layers, counted from 0"),
        (
            "jamba-v0.1",
            {"attn_layer_offset": 8},
            "Field 'attn_layer_offset' of the config must be a whole number",
        ),
        ("gla-1.3b", {"expand_k": 0}, "Field 'expand_k' of the config must be a number above 0"),
        (
            "gla-1.3b",
            {"num_heads": 3},
            "A gla model shares its key width among its heads evenly; got 1,024 among 3",
        ),
        ("gla-1.3b", {"attn": {"num_heads": 4}}, "Field 'attn' of the config lacks layers"),
        ("gla-1.3b", {"attn": []}, "Field 'attn' of the config must be an object"),
        ("rwkv7-1.5b", {"value_dim": [2048, 2048]}, "'value_dim' of the config has 2 widths for 24 layers"),
        ("rwkv7-1.5b", {"value_dim": "wide"}, "'value_dim' of the config must be a whole number"),
        (
            "falcon-h1-0.5b",
            {"mamba_n_heads": 7},
            "A falcon_h1 model shares its inner channels among its heads evenly",
        ),
        (
            "mamba-130m",
            {"expand": "two", "intermediate_size": None},
            "Field 'expand' of the config must be a number",
        ),
    ],
)
def test_fields_of_a_kind_that_are_none(name: str, change: dict[str, Any], words: str) -> None:
    fields = json.loads((CONFIGS / f"{name}.json").read_text())
    assert words in sentence({**fields, **change})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[1, 2]", "is a JSON object with fields such as hidden_size"),
        (b"null", "is a JSON object with fields such as hidden_size"),
        (b'"llama"', "is a JSON object with fields such as hidden_size"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 200_000, "is nested too deep"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "is nested deeper than 32 levels"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "' has a whole number of more than 4,300 digits, beyond"),
        (b'{"hidden_size": 1, "hidden_size": 2}', "repeats a field name"),
        (b'{"x": 1e999}', "beyond every float"),
        (b" " * (17 << 20), "has more than 16,777,216 bytes"),
    ],
    ids=lambda value: None if isinstance(value, str) else value[:12],
)
def test_files_that_are_none(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert words in sentence(file)
    assert words in sentence(tmp_path)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    assert "there is no file" in sentence(tmp_path / "nothing.json")
    assert "has no config.json" in sentence(tmp_path)
    os.mkfifo(tmp_path / "config.json")
    assert "is no ordinary file" in sentence(tmp_path)
    assert "cannot be read" in sentence(tmp_path / ("x" * 5000))
    assert "there is no file" in sentence("no\0where")


def test_infinity_is_read_past(tmp_path: Path) -> None:
    """transformers has written it into configs for years."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**MAMBA, "time_step_limit": [0.0, float("inf")], "other": float("nan")}))
    assert "Infinity" in file.read_text()
    assert audit(file).size == audit(MAMBA).size


def test_an_unknown_type_is_counted_from_its_fields() -> None:
    known = audit(LLAMA)
    found = audit({**LLAMA, "model_type": "llame"})
    assert found.generic
    assert found.size.parameters == known.size.parameters
    assert found.size.state == known.size.state
    assert "not known here: counted as a decoder of the Llama kind" in found.notes[0]
    nameless = {name: value for name, value in LLAMA.items() if name != "model_type"}
    assert audit(nameless).model_type == "nameless"
    assert audit(nameless).generic
    near = audit({**LLAMA, "model_type": "x", "sliding_window": 100})
    assert near.size.state_bits(10**6) == near.size.state_bits(99)


def test_an_unknown_type_that_remembers_otherwise_says_so() -> None:
    strange = {**LLAMA, "model_type": "x", "mamba_d_state": 16, "layer_types": ["mamba"] * 32}
    assert audit(strange).notes[1] == "Not counted, though the config speaks of it: mamba_d_state."
    many = {**strange, "kv_lora_rank": 512, "conv_kernel": 4, "linear_head_dim": 1}
    assert "and more." in audit(many).notes[1]


def test_an_unknown_type_without_fields_lists_what_is_known() -> None:
    with pytest.raises(UnknownName, match="There is no model_type 'mambo' here, and without hidden_size"):
        audit({"model_type": "mambo", "num_hidden_layers": 2})
    text = sentence({"model_type": "mambo"})
    assert "Did you mean mamba" in text
    assert all(name in text for name in KINDS)
    assert "The config has no model_type, and without hidden_size, num_hidden_layers" in sentence({})
    assert "There is no model_type 'a\\x1bb' here" in sentence({"model_type": "a\x1bb"})


def test_the_language_model_inside_another_is_read() -> None:
    for place in ("text_config", "llm_config", "language_config"):
        found = audit(
            {"model_type": "seeing", "torch_dtype": "float16", place: {**LLAMA, "torch_dtype": None}}
        )
        assert found.size.parameters == audit(LLAMA).size.parameters
        assert found.size.precision_bits == 16
        assert place in found.notes[0]
    bare = {name: value for name, value in LLAMA.items() if name != "model_type"}
    assert not audit({"model_type": "llama", "text_config": bare}).generic


def test_lengths_and_precisions_that_are_none() -> None:
    for n in ([], [0], [-5], [True], [1.5], [10**13], range(1, 70)):
        with pytest.raises(InvalidInput, match="length"):
            audit(MAMBA, n=n)  # type: ignore[arg-type]
    for precision in (0, -1, 5000):
        with pytest.raises(InvalidInput, match="A number has 1 to 4,096 bits"):
            audit(MAMBA, precision=precision)
        with pytest.raises(InvalidInput, match="got state_precision"):
            audit(MAMBA, state_precision=precision)
    for wrong in ({"n": [10**5000]}, {"precision": 10**5000}, {"state_precision": -(10**5000)}):
        with pytest.raises(InvalidInput, match=r"got (state_)?(precision=)?a very large number\.$"):
            audit(MAMBA, **wrong)
    with pytest.raises(InvalidInput, match=r"got precision=16\.0"):
        audit(MAMBA, precision=16.0)  # type: ignore[arg-type]
    assert audit(MAMBA, n=[9, 3, 9]).lengths == (3, 9)
    assert audit({**MAMBA, "torch_dtype": "torch.float16"}).size.precision_bits == 16
    assert audit({**MAMBA, "dtype": "float64"}).size.precision_bits == 64


def test_a_model_of_our_own(tmp_path: Path) -> None:
    task = separatrix.task("index-lookup", n=50, alphabet=8)
    config = separatrix.model("mamba", layers=3, width=32)
    found = audit(config, task=task, precision=16, n=[10])
    assert found.size == size_of(config, task, precision=16)
    words = task.input_space
    assert isinstance(words, Tokens)
    assert (found.model_type, found.vocabulary) == ("mamba", words.size)
    assert found.walls[0].largest_n == found.size.state_bits(1)
    spec = ModelSpec(name="mamba", params={"layers": 3, "width": 32})
    file = tmp_path / "model.json"
    file.write_text(json.dumps(spec.to_json()))
    assert OWN_SCHEMA == ModelSpec.SCHEMA
    for other in (spec, file, spec.to_json()):
        assert audit(other, task=task, precision=16, n=[10]).size == found.size
    assert audit(spec, n=[40]).size == size_of(config, separatrix.task("index-lookup", n=40))
    grows = audit(separatrix.model("transformer"), task=task, n=[10])
    assert grows.grows
    assert grows.walls == ()


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(InvalidInput, match="An audit is made of a path to"):
        audit(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="a config says that itself"):
        audit(MAMBA, task=separatrix.task("index-lookup", n=8))
    with pytest.raises(InvalidFile, match="breaks a rule"):
        audit({"schema": OWN_SCHEMA, "version": 1, "name": "mamba", "params": {"layers": 0}})


def test_an_audit_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        audit(MAMBA).vocabulary = 3  # type: ignore[misc]


VALUES = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-3, 300),
    some.integers(),
    some.floats(allow_nan=False),
    some.text(max_size=4),
    some.lists(some.integers(-1, 5), max_size=3),
    some.lists(some.sampled_from(["mamba", "attention", "full_attention", "hybrid"]), max_size=4),
    some.dictionaries(some.text(max_size=3), some.integers(), max_size=2),
)


@pytest.mark.slow
@given(data=some.data(), name=some.sampled_from(sorted(path.stem for path in CONFIGS.iterdir())))
def test_no_config_is_answered_with_anything_but_counts_or_a_sentence(
    data: some.DataObject, name: str
) -> None:
    fields = json.loads((CONFIGS / f"{name}.json").read_text())
    changed = data.draw(some.dictionaries(some.sampled_from(sorted(fields)), VALUES, max_size=3))
    dropped = data.draw(some.sets(some.sampled_from(sorted(fields)), max_size=2))
    strange = {key: value for key, value in {**fields, **changed}.items() if key not in dropped}
    try:
        found = audit(strange)
    except SeparatrixError as refused:
        said = str(refused)
    else:
        assert found.size.parameters > 0
        said = json.dumps(found.to_fields())
    assert said
    assert "\n" not in said
