"""A protocol in files, for a party that runs in a process of its own: what both know, and one's own part.

`setting.json` names the task, the split, what is asked and the model; `weights.safetensors` holds the
weights. A part is one tensor, in a file that only its party is told of. Everything is read as strictly as if
it came from a stranger, and nothing in it is executed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import torch
from torch import Tensor

from separatrix.communication.protocols.any_partition import Query
from separatrix.communication.protocols.arranging import Arrangement, Model, arrange
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import TaskSpec
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.explicit.reading import model_from
from separatrix.models.population import signature_of
from separatrix.models.specs import ModelSpec, build, model_spec_of
from separatrix.precision import name_of, system_named
from separatrix.records import JsonObject, Reader, parse_json, thaw
from separatrix.tasks import Task
from separatrix.tasks.interface import Partition
from separatrix.tasks.specs import spec_of, task_of
from separatrix.tensor_files import bytes_of, laid_out, read_tensors

__all__ = ["FOLDERS", "read_setting", "read_tensor", "write_setting", "write_tensor"]

FOLDERS: Final = "separatrix-"
"""How the names of the folders begin in which two processes find their files."""
_SETTING: Final = "setting.json"
_WEIGHTS: Final = "weights.safetensors"
_ONE: Final = "values"
_DTYPES: Final = {"float32": torch.float32, "float64": torch.float64}


def write_setting(folder: Path, arrangement: Arrangement) -> None:
    """All that both parties know, into a folder that is there."""
    protocol, (model, tensors) = arrangement.protocol, _described(arrangement)
    split = protocol.partition
    setting: JsonObject = {
        "task": spec_of(arrangement.task).to_fields(),
        "protocol": protocol.theorem,
        "alice": list(split.alice),
        "bob": list(split.bob),
        "written": list(split.written),
        "asked": list(protocol.asked),
        "query": arrangement.query,
        "model": model,
    }
    (folder / _SETTING).write_text(json.dumps(setting), encoding="utf-8")
    _write(folder / _WEIGHTS, tensors)


def read_setting(folder: Path) -> Arrangement:
    """The protocol that a folder describes."""
    read = Reader(parse_json((folder / _SETTING).read_bytes(), what=f"'{_SETTING}'"), what=f"'{_SETTING}'")
    task = task_of(read.record("task", TaskSpec))
    protocol = read.text("protocol")
    split = Partition(
        alice=_places(read, "alice"), bob=_places(read, "bob"), written=_places(read, "written")
    )
    asked = _places(read, "asked")
    query: Query = read.choice("query", get_args(Query))
    model = _model(Reader(read.value("model"), what="the model"), task, _read(folder / _WEIGHTS))
    read.finish()
    return arrange(model, task, partition=split, at=asked, protocol=protocol, query=query)


def write_tensor(path: Path, values: Tensor) -> None:
    """One tensor."""
    _write(path, {_ONE: values})


def read_tensor(path: Path) -> Tensor:
    """The tensor of a file that holds one."""
    tensors = _read(path)
    if set(tensors) != {_ONE}:
        raise InvalidFile(f"'{path.name}' holds one tensor by the name '{_ONE}'; got {len(tensors)}.")
    return tensors[_ONE]


def _described(arrangement: Arrangement) -> tuple[JsonObject, Mapping[str, Tensor]]:
    model, population = arrangement.model, arrangement.population
    if isinstance(model, ExplicitModel):
        return {"explicit": model.spec(), "arithmetic": name_of(model.arithmetic)}, model.tensors()
    if population is None:
        raise InvalidInput(
            "A process of its own reads the model from files; of trained models pass the population of one, "
            "population.alone(i), instead of its member."
        )
    spec = model_spec_of(type(population), population.config)
    dtype = str(next(population.parameters()).dtype).removeprefix("torch.")
    return {"population": spec.to_fields(), "dtype": dtype}, population.state_dict()


def _model(read: Reader, task: Task, tensors: dict[str, Tensor]) -> Model:
    if read.has("explicit"):
        system = system_named(read.text("arithmetic"))
        explicit = model_from(thaw(read.value("explicit")), tensors)
        read.finish()
        return explicit.with_arithmetic(system)
    spec, dtype = read.record("population", ModelSpec), read.choice("dtype", tuple(_DTYPES))
    read.finish()
    population = build(spec, signature_of(task), members=1).to(_DTYPES[dtype])
    population.load_state_dict(tensors)
    return population


def _places(read: Reader, name: str) -> tuple[int, ...]:
    found = read.items(name)
    whole = [place for place in found if isinstance(place, int) and not isinstance(place, bool)]
    if len(whole) != len(found) or min(whole, default=0) < 0:
        raise InvalidFile(f"Field '{name}' of {read.what} must be positions counted from 0.")
    return tuple(whole)


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    layout = laid_out(tensors, {})
    path.write_bytes(b"".join([layout.head, *map(bytes_of, layout.tensors)]))


def _read(path: Path) -> dict[str, Tensor]:
    content = path.read_bytes()
    return read_tensors(io.BytesIO(content), len(content), what=f"'{path.name}'")[0]
