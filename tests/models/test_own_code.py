"""The code of a user's module belongs to what a run is: other code, another key."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import linecache
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.own import plain_model
from separatrix.models.specs import ModelSpec, model_spec_of
from separatrix.store import Store
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.training import Job, Member, Training, train
from separatrix.training.jobs import job_for

AVERAGING = QSparseAveraging(n=5, q=2, d=3)
QUICK = Training(steps=4, batch=2, eval_examples=4, test_examples=4)


NET = """
from torch import nn

def net(signature):
    return nn.Sequential(nn.Linear(5, 4), nn.{part}(), nn.Linear(4, 3))
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes a module that can be imported, and makes Python forget what it knew under that name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()

    return write


def test_other_code_is_another_run(tmp_path: Path, written: Callable[[str, str], None]) -> None:
    store = Store(tmp_path / "store")
    found = []
    for part in ("Tanh", "Sigmoid", "Tanh"):
        written("edited_net", NET.format(part=part))
        (one,) = train(
            AVERAGING, "edited_net:net", members=[Member()], training=QUICK, store=store, device="cpu"
        )
        assert one.run is not None
        found.append((one.run.key, one.accuracy, repr(one.population.copies._hidden.module[1])))  # type: ignore[union-attr, index]
    assert found[0] == found[2]
    assert found[0][0] != found[1][0]
    assert [part for _, _, part in found] == ["Tanh()", "Sigmoid()", "Tanh()"]


def test_a_job_is_not_done_with_other_code(written: Callable[[str, str], None]) -> None:
    written("moved_net", NET.format(part="Tanh"))
    job = job_for(AVERAGING, "moved_net:net", members=[Member()], training=QUICK)
    again = Job.from_json(json.loads(json.dumps(job.to_json())))
    assert (again, again.key) == (job, job.key)
    again.population(1, own_code=True)
    written("moved_net", NET.format(part="Sigmoid"))
    with pytest.raises(InvalidInput) as error:
        again.population(1, own_code=True)
    assert str(error.value) == (
        "The code of moved_net:net is not what it was when this was written; bring that back, or train anew."
    )
    unsaid = dataclasses.replace(again, model=dataclasses.replace(again.model, code=None))
    assert unsaid.population(1, own_code=True).members == 1


def test_code_is_that_of_the_file_and_of_where_the_factory_is(written: Callable[[str, str], None]) -> None:
    codes = []
    for part, more in (("Tanh", ""), ("Sigmoid", ""), ("Sigmoid", "# more"), ("Tanh", "")):
        written("inner_net", NET.format(part=part))
        written("outer_net", f"from inner_net import net\n{more}")
        codes.append(plain_model("outer_net:net").code)
    assert len(set(codes)) == 3
    assert codes[0] == codes[3] is not None


def test_code_without_a_file_is_the_factory_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    place = types.ModuleType("typed_in")
    monkeypatch.setitem(sys.modules, "typed_in", place)
    for source in (NET.format(part="Tanh"), NET.format(part="Sigmoid")):
        file = f"<cell {len(source)}>"
        exec(compile(source, file, "exec"), vars(place))
        place.net.__module__ = "typed_in"
        assert plain_model("typed_in:net").code is None
        lines = source.splitlines(keepends=True)
        monkeypatch.setitem(linecache.cache, file, (len(source), None, lines, file))
        exec(compile(source, file, "exec"), vars(place))
        place.net.__module__ = "typed_in"
        body = source[source.index("def net") :]
        assert plain_model("typed_in:net").code == hashlib.sha256(body.encode()).hexdigest()


@pytest.mark.parametrize("code", ["", "x" * 64, "ab", 7])
def test_a_spec_has_the_hash_of_its_code_whole(code: Any) -> None:
    with pytest.raises(InvalidInput, match="code is named by its SHA-256, 64 lower-case hexadecimal digits"):
        ModelSpec(name="my:net", code=code)


def test_models_that_come_with_the_package_have_no_code() -> None:
    for name in MODELS.names():
        kind = MODELS.get(name)
        assert model_spec_of(kind, kind.Config()).to_fields().keys() == {"name", "params"}
