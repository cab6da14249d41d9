"""Our models as folders of transformers: written, and known to its `Auto` classes.

A folder holds `config.json` with the record of the model, `model.safetensors`, `generation_config.json` that
says when a text is over, and a tokenizer for the task's own words. It is loaded by registration: nothing in
it is executed, and it names no code.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.files import made_folder
from separatrix.interop.causal_lm import quietly, require_transformers
from separatrix.interop.hub_records import HubRecord, require_causal, shapes_of
from separatrix.interop.hub_tokenizers import padding_of, tokenizer_for, vocabulary_of
from separatrix.interop.sources import Exportable, Source, WitnessSource, source_of
from separatrix.models.interface import CausalModel
from separatrix.models.specs import model_spec_of
from separatrix.tasks.byte_text import NEWLINE, ByteTask
from separatrix.tasks.interface import ChainTask, Classes, Task, Tokens
from separatrix.tasks.specs import spec_of
from separatrix.tasks.vocabulary import Vocabulary
from separatrix.witnesses.files import record_of

__all__ = ["register_auto", "save_pretrained_folder"]

_MODELS: Final = "separatrix.interop.hub_models"
_MOST_LABELS: Final = 4096


def register_auto() -> None:
    """Let `AutoConfig` and `AutoModelForCausalLM` of transformers load our folders; twice is as once."""
    transformers = require_transformers()
    models = importlib.import_module(_MODELS)
    transformers.AutoConfig.register(models.MODEL_TYPE, models.SeparatrixConfig, exist_ok=True)
    transformers.AutoModelForCausalLM.register(
        models.SeparatrixConfig, models.SeparatrixForCausalLM, exist_ok=True
    )


def save_pretrained_folder(model: Exportable, folder: Path | str, *, task: Task | None = None) -> Path:
    """Write a witness or a trained model as a folder that `AutoModelForCausalLM.from_pretrained` loads.

    A witness and a run of a store know their task; beside a population of one, or a member of a larger one,
    name the task it was trained on.
    """
    transformers = require_transformers()
    described = _described(source_of(model, task))
    with quietly(transformers):
        made = _made(transformers, described)
        tokenizer = tokenizer_for(_words(described.record))
        with made_folder(folder) as place:
            made.save_pretrained(str(place))
            tokenizer.save_pretrained(str(place))
    return place


class _Described(NamedTuple):
    """The record of a model, its weights under the names they have in the folder, and what it scores."""

    record: HubRecord
    weights: dict[str, Tensor]
    classes: int


def _described(source: Source) -> _Described:
    if source.task is None:
        raise InvalidInput(
            "A folder has the words of a task in it; name the task that this model was trained on, as task=…."
        )
    _require_words(source.task)
    if isinstance(source, WitnessSource):
        model = source.witness.model
        if not isinstance(model, CausalModel) or model.classes is None:
            raise InvalidInput(
                f"This witness for {source.task.name} sees all of its input at once, so it is no causal "
                "language model; export it to ONNX instead."
            )
        tensors = model.tensors()
        record = HubRecord(
            task=spec_of(source.task), witness=record_of(source.witness), tensors=shapes_of(tensors)
        )
        # Blocks may share a matrix; in a file each has its own.
        weights = {name.replace(".", "/"): value.clone().contiguous() for name, value in tensors.items()}
        return _Described(record, weights, model.classes)
    population = require_causal(source.population)
    record = HubRecord(task=spec_of(source.task), model=model_spec_of(type(population), population.config))
    weights = {name: value.detach().cpu() for name, value in population.state_dict().items()}
    return _Described(record, weights, population.signature.out)


def _require_words(task: Task) -> None:
    if not isinstance(task.input_space, Tokens) or not isinstance(task.target_space, Classes):
        raise InvalidInput(
            f"A causal language model reads tokens and scores them; {task.name} is about real numbers. "
            "Export it to ONNX instead."
        )


def _made(transformers: Any, described: _Described) -> Any:
    """A model of transformers with these weights, and how it is asked."""
    models = importlib.import_module(_MODELS)
    made = models.SeparatrixForCausalLM(_config(models, described))
    weights = {f"model.{name}": value for name, value in described.weights.items()}
    made.load_state_dict(weights, assign=True)
    made.generation_config = _generation(transformers, described.record)
    longest = made.eval().longest
    # The last word that is written need not be read.
    made.config.max_position_embeddings = None if longest is None else longest + made.config.writes
    return made


def _config(models: Any, described: _Described) -> Any:
    record = described.record
    task, words, writes = record.made_task(), _words(record), _are_words(record)
    dtype = next(value.dtype for value in described.weights.values() if value.is_floating_point())
    config = models.SeparatrixConfig(
        separatrix=record.to_json(),
        writes=writes,
        vocab_size=described.classes,
        known_tokens=_known(record, words),
        padding_token=padding_of(words),
        dtype=str(dtype).removeprefix("torch."),
    )
    space = task.target_space
    if not writes and isinstance(space, Classes) and space.size <= _MOST_LABELS:
        config.id2label = {each: task.render_target(torch.tensor(each)) for each in range(space.size)}
        config.label2id = {label: each for each, label in config.id2label.items()}
    return config


def _words(record: HubRecord) -> Vocabulary | None:
    script = record.script()
    return vocabulary_of(record.made_task()) if script is None else script.vocabulary


def _known(record: HubRecord, words: Vocabulary | None) -> int:
    """Tokens that it reads: a trained model knows padding too, a witness never has to."""
    if record.witness is None or words is None:
        space = record.made_task().input_space
        assert isinstance(space, Tokens)
        return space.size
    return words.size if words.pad is None else words.pad


def _are_words(record: HubRecord) -> bool:
    """Whether what it answers with can stand behind what it reads: class i is word i."""
    task, words = record.made_task(), _words(record)
    if record.script() is not None or words is None:
        return True
    space = task.target_space
    assert isinstance(space, Classes)
    return space.size <= words.size and all(
        task.render_target(torch.tensor(each)) == words.word(each) for each in range(space.size)
    )


def _generation(transformers: Any, record: HubRecord) -> Any:
    """Greedy, until an answer is written or none can come any more."""
    task, script, words = record.made_task(), record.script(), _words(record)
    most, ends = 1, None
    if script is not None and script.searches:
        most, ends = script.limit + 1, [padding_of(words)]  # with the padding that ends a row
    elif script is not None:
        most, ends = script.limit, sorted(script.answers)
    elif isinstance(task, ByteTask):
        most, ends = task.longest_continuation + 1, [NEWLINE]
    elif isinstance(task, ChainTask):
        most = task.length - task.prompt + 1
    return transformers.GenerationConfig(
        do_sample=False,
        num_beams=1,
        use_cache=True,
        max_new_tokens=most,
        eos_token_id=ends,
        pad_token_id=padding_of(words),
    )
