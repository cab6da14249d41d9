"""Models as ONNX files: a witness in float64, a trained model in the type of its weights.

The graph is for inputs of one length and any number of rows. A manifest beside it, JSON under the same name,
says what goes in, what comes out, which model it is, and the hash of the file it speaks of.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.evidence import TaskSpec
from separatrix.evidence.specs import require_sha256
from separatrix.files import made_folder, replace_file
from separatrix.interop.onnx_witnesses import witness_module
from separatrix.interop.sources import Exportable, Source, WitnessSource, source_of
from separatrix.models.kernels.exported import exporting
from separatrix.models.population import Population
from separatrix.models.specs import ModelSpec, model_spec_of
from separatrix.records import JsonObject, Reader, Record
from separatrix.tasks.interface import Task, Tokens
from separatrix.tasks.specs import spec_of
from separatrix.version import __version__
from separatrix.witnesses.files import WitnessRecord, record_of

__all__ = ["OnnxManifest", "export_onnx"]

_INPUTS: Final = "inputs"
_OUTPUTS: Final = "outputs"
_BATCH: Final = "batch"
_MOST_ROWS: Final = 1 << 16
_OPSET: Final = 20
_LONGEST_NAME: Final = 100
_QUIET: Final = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")


@final
@dataclass(frozen=True, kw_only=True)
class OnnxManifest(Record):
    """What an ONNX file of ours holds and how it is fed.

    Shapes are axis by axis; a name stands for any number. `model_sha256` is that of the file.
    """

    SCHEMA = "separatrix.onnx"

    file: str
    model_sha256: str
    task: TaskSpec | None
    model: ModelSpec | None
    witness: WitnessRecord | None
    inputs: TensorAxes
    outputs: TensorAxes
    opset: int
    package: str

    def __post_init__(self) -> None:
        require_sha256("A manifest", self.model_sha256)
        if (self.model is None) == (self.witness is None):
            raise InvalidInput("A manifest is about a witness or a trained model, one of the two.")

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "file": self.file,
            "model_sha256": self.model_sha256,
            "task": None if self.task is None else self.task.to_fields(),
            "model": None if self.model is None else self.model.to_fields(),
            "witness": None if self.witness is None else self.witness.to_fields(),
            "inputs": self.inputs.to_fields(),
            "outputs": self.outputs.to_fields(),
            "opset": self.opset,
            "package": self.package,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> OnnxManifest:
        """The manifest whose fields `read` holds."""
        return cls(
            file=read.text("file", longest=_LONGEST_NAME),
            model_sha256=read.text("model_sha256"),
            task=read.optional_record("task", TaskSpec),
            model=read.optional_record("model", ModelSpec),
            witness=read.optional_record("witness", WitnessRecord),
            inputs=read.record("inputs", TensorAxes),
            outputs=read.record("outputs", TensorAxes),
            opset=read.count("opset"),
            package=read.text("package", longest=_LONGEST_NAME),
        )


@final
@dataclass(frozen=True, kw_only=True)
class TensorAxes(Record):
    """What goes in or comes out: its name in the graph, its type, and its axes."""

    SCHEMA = "separatrix.onnx-tensor"

    name: str
    dtype: str
    shape: tuple[str, ...]
    """Numbers, and `batch` for as many rows as there are."""

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}

    @classmethod
    def from_fields(cls, read: Reader) -> TensorAxes:
        """The axes whose fields `read` holds."""
        return cls(
            name=read.text("name", longest=_LONGEST_NAME),
            dtype=read.text("dtype", longest=_LONGEST_NAME),
            shape=read.texts("shape"),
        )


def export_onnx(
    model: Exportable, path: Path | str, *, n: int | None = None, task: Task | None = None
) -> OnnxManifest:
    """Write a witness or a trained model as an ONNX file, and its manifest beside it.

    `n` is how many positions inputs have; without it, as many as the task's, or as a witness that writes
    reads at most.
    """
    _require_exporter()
    source, place = source_of(model, task), Path(path)
    if place.suffix != ".onnx":
        raise InvalidInput(f"An ONNX file is named like model.onnx; got '{place.name}'.")
    positions = _positions(source, n)
    example = _example(source, positions)
    content, outputs = _exported(_module(source, positions), example)
    manifest = _manifest(source, place.name, content, example, outputs)
    page = json.dumps(manifest.to_json(), indent=1, ensure_ascii=False) + "\n"
    with made_folder(place.parent):
        replace_file(place, content)
        replace_file(place.with_suffix(".json"), page.encode())
    return manifest


def _require_exporter() -> None:
    for name in ("onnx", "onnxscript"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InvalidInput(
                "ONNX files need the extra onnx; install it with: pip install 'separatrix[onnx]'."
            ) from error


def _positions(source: Source, n: int | None) -> int:
    """How long inputs are, within what the model was made for."""
    most: int | None
    if isinstance(source, WitnessSource):
        usual = most = source.witness.positions
    else:
        usual, most = source.population.signature.length, source.population.longest
    if n is None:
        return usual
    if n < 1 or (most is not None and n > most):
        least = "at least 1" if most is None else f"1 to {most}"
        raise InvalidInput(f"This model reads inputs of {least} positions; got n={n}.")
    return n


def _module(source: Source, n: int) -> nn.Module:
    if isinstance(source, WitnessSource):
        return witness_module(source.witness.model, n).eval()
    alone = source.population.alone(0).cpu()
    kind = next(alone.parameters()).dtype
    return _WithoutMembers(alone if kind == torch.float64 else alone.float()).eval().requires_grad_(False)


@final
class _WithoutMembers(nn.Module):
    """A population of one without the axis of members."""

    def __init__(self, population: Population) -> None:
        super().__init__()
        self.population = population

    def forward(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Float[Tensor, "batch pos out"]:
        """The outputs at every position."""
        return self.population(inputs.unsqueeze(0)).squeeze(0)  # type: ignore[no-any-return]


def _example(source: Source, n: int) -> Shaped[Tensor, "batch pos *width"]:
    """Two rows such as it reads; what stands in them does not matter."""
    if isinstance(source, WitnessSource):
        space = source.witness.task.input_space
    else:
        space = source.population.signature.inputs
    if isinstance(space, Tokens):
        return torch.zeros(2, n, dtype=torch.int64)
    return torch.zeros(2, n, space.width)


def _exported(
    module: nn.Module, example: Shaped[Tensor, "batch pos *width"]
) -> tuple[bytes, Float[Tensor, "batch pos out"]]:
    """The file's bytes, and what the module itself gives for the example."""
    rows = torch.export.Dim(_BATCH, min=1, max=_MOST_ROWS)
    try:
        with _quietly(), exporting(), torch.no_grad():
            program = torch.export.export(module, (example,), dynamic_shapes=({0: rows},))
            made: Any = torch.onnx.export(
                program,
                (),
                dynamo=True,
                input_names=[_INPUTS],
                output_names=[_OUTPUTS],
                opset_version=_OPSET,
                verbose=False,
            )
            _tidy(made)
            content: bytes = made.model_proto.SerializeToString()
            outputs: Tensor = program.module()(example)
    except SeparatrixError:
        raise
    except Exception as error:  # what torch's exporter raises depends on what it stumbles over
        reason = " ".join(str(error.__cause__ or error).split())
        raise InvalidInput(f"This model does what ONNX has no operation for: {reason[:200]}.") from error
    return content, outputs


def _tidy(made: Any) -> None:
    """The axis of rows by its name, and nothing about where this was written, which torch would note."""
    model = made.model
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.shape[0] = _BATCH
    model.metadata_props.clear()
    for holder in (model.graph, *model.functions.values()):
        holder.metadata_props.clear()
        for node in holder.all_nodes():
            node.metadata_props.clear()
            for value in node.outputs:
                value.metadata_props.clear()


def _manifest(
    source: Source,
    name: str,
    content: bytes,
    example: Shaped[Tensor, "batch pos *width"],
    outputs: Float[Tensor, "batch pos out"],
) -> OnnxManifest:
    witness = model = None
    if isinstance(source, WitnessSource):
        witness = record_of(source.witness)
    else:
        model = model_spec_of(type(source.population), source.population.config)
    return OnnxManifest(
        file=name,
        model_sha256=hashlib.sha256(content).hexdigest(),
        task=None if source.task is None else spec_of(source.task),
        model=model,
        witness=witness,
        inputs=_axes(_INPUTS, example),
        outputs=_axes(_OUTPUTS, outputs),
        opset=_OPSET,
        package=f"separatrix {__version__}, torch {torch.__version__}",
    )


def _axes(name: str, values: Shaped[Tensor, "batch *rest"]) -> TensorAxes:
    return TensorAxes(
        name=name,
        dtype=str(values.dtype).removeprefix("torch."),
        shape=(_BATCH, *map(str, values.shape[1:])),
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the exporter from talking: what matters is said in sentences of ours."""
    loggers = [logging.getLogger(name) for name in _QUIET]
    levels = [each.level for each in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for each in loggers:
                each.setLevel(logging.CRITICAL)
            yield
        finally:
            for each, level in zip(loggers, levels, strict=True):
                each.setLevel(level)
