"""Tiny models made here, loaded from their folders: what they write is what a plain loop writes."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput, TooLarge
from separatrix.experiments.reading.tiny_causal_lm import save_tiny_llama, word_tokenizer
from separatrix.interop.causal_lm import (
    CausalLM,
    has_transformers,
    load_causal_lm,
    quietly,
    require_transformers,
)

pytestmark = pytest.mark.extra

TEXT = "the cat sat on the mat.\n\nA dog ran to a fox; then it slept all day\n"
PROMPTS = ("the cat", "A dog ran to a fox;", " slept all day\n\nA", "the mat. then it slept on the", "A")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    save_tiny_llama(path, [TEXT], context=48)
    return path


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to / "copy")
    return to / "copy"


def continued(lm: CausalLM, prompt: str, most_tokens: int) -> str:
    """One token after another, each from a whole pass without cache, padding or `generate`."""
    tokenizer, model = lm._tokenizer, lm._model
    tokens = tokenizer(prompt)["input_ids"]
    written: list[int] = []
    with torch.no_grad():
        for _ in range(most_tokens):
            logits = model(input_ids=torch.tensor([tokens + written]), use_cache=False).logits
            written.append(int(logits[0, -1].argmax()))
            if written[-1] in lm._ends:
                break
    return str(tokenizer.decode(written, skip_special_tokens=True))


def test_a_batch_is_written_as_one_by_one(folder: Path) -> None:
    lm = load_causal_lm(folder)
    whole = [continued(lm, prompt, 12) for prompt in PROMPTS]
    assert len(set(whole)) > 2
    assert lm.complete(PROMPTS, most_tokens=12, stop="\n\n\n\n") == whole
    assert lm._independent is True
    assert lm.complete([], most_tokens=12, stop="\n") == []


def test_it_is_cut_at_the_stop(folder: Path) -> None:
    lm = load_causal_lm(folder)
    whole = [continued(lm, prompt, 12) for prompt in PROMPTS]
    stop = whole[0][5:9]
    cut = lm.complete(PROMPTS, most_tokens=12, stop=stop)
    assert cut == [text.partition(stop)[0] for text in whole]
    assert cut[0] != whole[0]


def test_rows_that_have_stopped_are_not_written_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = load_causal_lm(folder)
    whole = continued(lm, PROMPTS[0], 20)
    generate, widths = lm._model.generate, list[int]()

    def noted(**given: Any) -> Any:
        found = generate(**given)
        widths.append(found.shape[1])
        return found

    monkeypatch.setattr(lm._model, "generate", noted)
    lm.complete(PROMPTS[:1], most_tokens=20, stop=whole[:3])
    assert 2 < widths[0] < 2 + 20


def test_the_folder_cannot_ask_for_sampling(folder: Path, tmp_path: Path) -> None:
    other = copied(folder, tmp_path)
    settings = {"do_sample": True, "temperature": 9.0, "repetition_penalty": 5.0, "eos_token_id": 1}
    (other / "generation_config.json").write_text(json.dumps(settings))
    plain, asked = load_causal_lm(folder), load_causal_lm(other)
    assert asked.complete(PROMPTS, most_tokens=12, stop="#") == plain.complete(
        PROMPTS, most_tokens=12, stop="#"
    )


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    lm = load_causal_lm(folder)
    assert lm.context == 48
    lm.complete(["the cat " * 12], most_tokens=23, stop="#")
    with pytest.raises(
        InvalidInput, match="reads at most 48 tokens; the longest prompt has 25 and 24 are to"
    ):
        lm.complete(["the cat " * 12], most_tokens=24, stop="#")
    with pytest.raises(InvalidInput, match="makes no token"):
        lm.complete([""], most_tokens=1, stop="#")
    for most, stop in ((0, "#"), (1, "")):
        with pytest.raises(InvalidInput, match="at least one token"):
            lm.complete(["A"], most_tokens=most, stop=stop)


def test_a_tokenizer_that_closes_every_text(folder: Path, tmp_path: Path) -> None:
    other = copied(folder, tmp_path)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    closing = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, closing],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
    }
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    closed, plain = load_causal_lm(other), load_causal_lm(folder)
    assert closed._tokenizer("the cat")["input_ids"][-1] == 1
    written = plain.complete(PROMPTS, most_tokens=6, stop="#")
    assert closed.complete(PROMPTS, most_tokens=6, stop="#") == written


def test_a_tokenizer_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    other = copied(folder, tmp_path)
    word_tokenizer([" ".join(map(str, range(100)))]).save_pretrained(other)
    with pytest.raises(InvalidInput, match="they do not belong together"):
        load_causal_lm(other).complete(["95 96 97 98"], most_tokens=1, stop="#")


def test_memory_that_does_not_suffice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = load_causal_lm(folder)
    whole = lm.complete(PROMPTS, most_tokens=6, stop="#")
    generate, sizes, most = lm._model.generate, list[int](), 2

    def limited(**given: Any) -> Any:
        sizes.append(len(given["input_ids"]))
        if sizes[-1] > most:
            raise torch.OutOfMemoryError("no more")
        return generate(**given)

    monkeypatch.setattr(lm._model, "generate", limited)
    assert lm.complete(PROMPTS, most_tokens=6, stop="#") == whole
    assert sizes == [5, 2, 2, 1]
    most = 0
    with pytest.raises(TooLarge, match="does not hold"):
        lm.complete(PROMPTS, most_tokens=6, stop="#")


def saved(folder: Path, make: Callable[[Any, int], Any]) -> Path:
    transformers = require_transformers()
    tokenizer = word_tokenizer([TEXT])
    with torch.random.fork_rng(), quietly(transformers):
        torch.manual_seed(0)
        make(transformers, len(tokenizer)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def rwkv(transformers: Any, words: int) -> Any:
    config = transformers.RwkvConfig(vocab_size=words, hidden_size=16, num_hidden_layers=2)
    model = transformers.RwkvForCausalLM(config)
    with torch.no_grad():
        for values in model.parameters():
            values.add_(torch.randn_like(values))
    return model


def mamba(transformers: Any, words: int) -> Any:
    config = transformers.MambaConfig(
        vocab_size=words, hidden_size=16, num_hidden_layers=2, initializer_range=1.0
    )
    return transformers.MambaForCausalLM(config)


def gpt2(transformers: Any, words: int) -> Any:
    config = transformers.GPT2Config(
        vocab_size=words, n_embd=16, n_layer=2, n_head=2, initializer_range=1.0, eos_token_id=1
    )
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.parametrize(("make", "independent"), [(rwkv, False), (mamba, True), (gpt2, True)])
def test_other_architectures_are_not_disturbed_by_their_neighbours(
    tmp_path: Path, make: Callable[[Any, int], Any], independent: bool
) -> None:
    lm = load_causal_lm(saved(tmp_path, make))
    alone = [lm.complete([prompt], most_tokens=6, stop="#")[0] for prompt in PROMPTS]
    assert lm.complete(PROMPTS, most_tokens=6, stop="#") == alone
    assert lm._independent is independent
    assert alone == [continued(lm, prompt, 6) for prompt in PROMPTS]


def test_weights_that_are_missing_or_damaged(folder: Path, tmp_path: Path) -> None:
    other = copied(folder, tmp_path)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(
        InvalidInput, match=r"lack 9 of the tensors that its config asks for, such as model\."
    ):
        load_causal_lm(other)
    (other / "config.json").write_text(json.dumps(config))
    whole = (other / "model.safetensors").read_bytes()
    (other / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match="cannot be loaded as a causal language model"):
        load_causal_lm(other)


def test_other_things_that_cannot_be_loaded(folder: Path, tmp_path: Path) -> None:
    other = copied(folder, tmp_path)
    config = json.loads((other / "config.json").read_text())
    for kind in ("no-such-model", "vit"):
        (other / "config.json").write_text(json.dumps(config | {"model_type": kind}))
        with pytest.raises(InvalidInput, match="cannot be loaded"):
            load_causal_lm(other)
    (other / "config.json").write_text(json.dumps(config))
    (other / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"The tokenizer in .* cannot be loaded"):
        load_causal_lm(other)


def test_code_in_the_folder_is_not_run(folder: Path, tmp_path: Path) -> None:
    other = copied(folder, tmp_path)
    config = json.loads((other / "config.json").read_text())
    (other / "evil.py").write_text("raise SystemExit('ran')")
    config |= {"auto_map": {"AutoModelForCausalLM": "evil.Model"}}
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidInput, match=r"names code of its own \(auto_map\)"):
        load_causal_lm(other)


@pytest.mark.parametrize(
    ("device", "dtype", "sentence"),
    [
        ("abacus", "auto", "A device is named like"),
        ("cuda:99", "auto", "There is no cuda:99 here"),
        ("cpu", "int3", "Numbers are of the type"),
    ],
)
def test_devices_and_types(folder: Path, device: str, dtype: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        load_causal_lm(folder, device=device, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_type_of_numbers(folder: Path, dtype: Any) -> None:
    lm = load_causal_lm(folder, dtype=dtype)
    assert lm._model.dtype == getattr(torch, dtype)
    assert len(lm.complete(PROMPTS, most_tokens=3, stop="#")) == len(PROMPTS)


def test_without_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_transformers()
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert not has_transformers()
    with pytest.raises(InvalidInput, match=r"need the extra hf.*pip install 'separatrix\[hf\]'"):
        load_causal_lm(folder)


def test_nobody_is_called_and_nothing_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    load_causal_lm(folder).complete(PROMPTS, most_tokens=4, stop="#")
    assert capfd.readouterr() == ("", "")
