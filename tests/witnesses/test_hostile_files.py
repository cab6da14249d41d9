"""Folders that somebody spoilt: whatever was done to them is found, and said in a sentence."""

from __future__ import annotations

import copy
import errno
import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import separatrix
from separatrix.errors import InvalidFile, SeparatrixError
from separatrix.evidence import Certificate
from separatrix.files import written_whole
from separatrix.witnesses import Witness, files, witness_for
from separatrix.witnesses.files import (
    CERTIFICATE,
    SPEC,
    WEIGHTS,
    load,
    save,
    stated_certificate,
)
from tests.witnesses.forging import (
    parts_of,
    record_of,
    refusal,
    set_number,
    with_spec,
    with_weight_file,
    with_weights,
)


def _as_pipe(path: Path) -> None:
    """Reading it would wait for ever."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", [SPEC, WEIGHTS])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Path.unlink, "There is no file"),
        (lambda path: path.write_bytes(b""), "is not"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is not"),
        (lambda path: path.write_bytes(path.read_bytes()[:20]), "is not"),
        (lambda path: path.write_bytes(b"\x89PNG" * 99), "is not"),
        (lambda path: os.truncate(path, 1 << 32), "is too large; at most"),
        (_as_pipe, "There is no file"),
        (lambda path: (path.unlink(), path.mkdir()), "There is no file"),
        (lambda path: (path.unlink(), path.symlink_to(path)), ""),
    ],
)
def test_broken_files(folder: Path, name: str, change: Callable[[Path], Any], words: str) -> None:
    change(folder / name)
    said = refusal(folder)
    assert words in said
    assert name in said


def test_weights_name_the_spec_they_belong_to(folder: Path) -> None:
    record = record_of(folder)
    record["model"]["layout"]["slots"].clear()
    (folder / SPEC).write_text(json.dumps(record), encoding="utf-8")
    assert (
        refusal(folder)
        == "'weights.safetensors' was written for another model than 'witness.json' describes."
    )


def test_a_full_disk_is_met_before_anything_is_replaced(
    built: Witness, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held back in memory reaches the disk while all old files are still in place."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextmanager
    def on_a_full_disk(path: Path) -> Iterator[Any]:
        with written_whole(path) as file:
            yield SimpleNamespace(buffer=file.buffer, flush=full) if path.name == WEIGHTS else file

    monkeypatch.setattr(files, "written_whole", on_a_full_disk)
    other = witness_for(separatrix.task("index-lookup", n=4, alphabet=4))
    with pytest.raises(InvalidFile, match="cannot be written: No space left on device"):
        save(other, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert load(folder).task == built.task


@pytest.mark.parametrize("name", [SPEC, WEIGHTS])
def test_what_may_not_be_read(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the system's answer is given here."""
    original_open = Path.open

    def denied(self: Path, *args: Any, **options: Any) -> Any:
        if self.name == name:
            raise PermissionError(13, "Permission denied")
        return original_open(self, *args, **options)

    monkeypatch.setattr(Path, "open", denied)
    assert f"{name}' cannot be read: Permission denied" in refusal(folder)


def test_a_folder_that_is_none(folder: Path) -> None:
    assert "is a file; a witness is the folder that `--out` named" in refusal(folder / SPEC)
    assert "There is no file 'witness.json' in" in refusal(folder / "nowhere")
    for name in ("a\0b", "a\ud800"):
        assert refusal(folder / name)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (struct.pack("<Q", 2**63) + b"{}", "no safetensors file, or it is cut off"),
        (struct.pack("<Q", 2**40) + b"{}", "no safetensors file, or it is cut off"),
        (struct.pack("<Q", 0), "no safetensors file, or it is cut off"),
        (struct.pack("<Q", 2) + b"[]", "is no JSON object"),
        (struct.pack("<Q", 2) + b"{}", "does not say for which model it was written"),
        (struct.pack("<Q", 2) + b"\xff\xfe", "is not JSON"),
        (struct.pack("<Q", 200_000) + b"[" * 200_000, "is nested too deep"),
        (struct.pack("<Q", 15) + b'{"a":1,"a":2}  ', "repeats a field name"),
        (struct.pack("<Q", 20) + b'{"__metadata__":{}} ', "does not say for which model"),
    ],
)
def test_hostile_headers(folder: Path, header: bytes, words: str) -> None:
    with_weight_file(folder, header)
    assert words in refusal(folder)


def _describe(**fields: Any) -> Callable[[dict[str, Any], bytes], bytes]:
    def change(header: dict[str, Any], numbers: bytes) -> bytes:
        header["readout.bias"] |= fields
        return numbers

    return change


def _extra(header: dict[str, Any], numbers: bytes) -> bytes:
    end = len(numbers)
    header["zzz"] = {"dtype": "F64", "shape": [1], "data_offsets": [end, end + 8]}
    return numbers + bytes(8)


def _empty_and_endless(header: dict[str, Any], numbers: bytes) -> bytes:
    end = len(numbers)
    header["zzz"] = {"dtype": "F64", "shape": [0, 2**62, 4], "data_offsets": [end, end]}
    return numbers


def _missing(header: dict[str, Any], numbers: bytes) -> bytes:
    last = [*header][-1]
    return numbers[: header.pop(last)["data_offsets"][0]]


def _unsorted(header: dict[str, Any], numbers: bytes) -> bytes:
    header |= {"__metadata__": header.pop("__metadata__")}
    return numbers


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_extra, "The weights hold the tensor 'zzz', which belongs to nothing"),
        (_empty_and_endless, "The tensor 'zzz' of 'weights.safetensors' does not lie where its shape says"),
        (_missing, "The weights lack the tensor"),
        (_unsorted, "is not laid out as this package does"),
        (_describe(dtype="F32"), "must be F64 or I64; it is F32"),
        (_describe(dtype="I64"), "must be float64 of shape"),
        (_describe(shape=[2**60]), "does not lie where its shape says"),
        (_describe(shape=[2**62, 4]), "does not lie where its shape says"),
        (_describe(shape=[0, 2**60]), "does not lie where its shape says"),
        (_describe(shape=[-1]), "has a shape that is none"),
        (_describe(shape=[1.0]), "has a shape that is none"),
        (_describe(shape=[True]), "has a shape that is none"),
        (_describe(shape=[1] * 9), "has a shape that is none"),
        (_describe(shape="1"), "must be an array"),
        (_describe(data_offsets=[0, 8]), "does not lie where its shape says"),
        (_describe(data_offsets=[]), "does not lie where its shape says"),
        (_describe(more=1), "has fields that its schema does not know"),
        (lambda _, numbers: numbers[:-8], "or the file is cut off"),
        (lambda _, numbers: numbers + b"\0", "bytes of numbers; its tensors take"),
    ],
)
def test_weights_that_are_not_the_models(
    folder: Path, change: Callable[[dict[str, Any], bytes], bytes], words: str
) -> None:
    with_weights(folder, change)
    assert words in refusal(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_are_finite(folder: Path, value: float) -> None:
    header, _ = parts_of((folder / WEIGHTS).read_bytes())
    names = [name for name in header if name != "__metadata__"]
    for name in names:
        if header[name]["dtype"] == "F64":
            set_number(folder, name, 0, value)
            assert f"The tensor '{name}' of '{WEIGHTS}' holds a number that is not finite" in refusal(folder)
            break


HUGE = 2**60


def _at(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        inner: Any = record
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_at("theorem", value="S-T99"), "There is no theorem 'S-T99'"),
        (_at("theorem", value="x" * 9999), "may have 100 characters"),
        (_at("family", value="lstm"), "There is no family 'lstm'"),
        (_at("arithmetic", value="float8"), "An arithmetic is float64, float32, down:N,K"),
        (_at("arithmetic", value="nearest:9998"), "need an odd p from 3 to 399"),
        (_at("schema", value="separatrix.certificate"), "Expected a record of schema 'separatrix.witness'"),
        (_at("version", value=2), "was written by a newer separatrix"),
        (_at("weights_sha256", value=None), "must be text"),
        (_at("surprise", value=1), "has fields that its schema does not know: 'surprise'"),
        (_at("task", "name", value="hotpot"), "There is no task 'hotpot'"),
        (_at("task", "name", value="dyck"), "dyck has no parameter 'alphabet'"),
        (_at("task", "params", "n", value=HUGE), f"needs 1 ≤ n ≤ 2^24; got n={HUGE}"),
        (_at("task", "params", "n", value=-1), "needs 1 ≤ n ≤ 2^24; got n=-1"),
        (_at("task", "params", "n", value="4"), "needs a whole number for n"),
        (_at("task", "params", "n", value=[4]), "index-lookup takes no list for n"),
        (_at("task", "params", "n", value={"a": 4}), "index-lookup takes no object for n"),
        (_at("task", "params", "alphabet", value=8), "cannot read the inputs of index-lookup"),
        (
            _at("task", value={"name": "nearest-neighbour", "params": {"n": 4}}),
            "cannot read the inputs of nea",
        ),
        (
            _at("task", value={"name": "q-sparse-averaging", "params": {"n": 4}}),
            "cannot read the inputs of q-",
        ),
        (
            _at("task", value={"name": "distractor-qa", "params": {"file": "/etc/passwd"}}),
            "cannot name anoth",
        ),
        (_at("model", value=[]), "A model's form is one of"),
        (_at("model", "form", value="oracle"), "A model's form is one of"),
        (_at("model", "form", value="recurrent"), "lacks the field 'tokens'"),
        (_at("model", "inputs", "width", value=HUGE), "At most 1,048,576 is taken for the width"),
        (_at("model", "inputs", "appended", value=HUGE), "At most 4,096 is taken for the number of appended"),
        (_at("model", "inputs", "pad", value=10**30), "out of reach"),
        (_at("model", "inputs", "classes", 0, "count", value=10**30), "out of reach"),
        (_at("model", "inputs", "classes", 0, "code", "count", value=HUGE), "A code breaks a rule"),
        (_at("model", "inputs", "classes", value=[]), "which belongs to nothing"),
        (_at("model", "layers", value=[]), "A Transformer has 1 to 64 layers; got 0"),
        (_at("model", "layers", 0, "feed_forward", "maps", value=HUGE), "cannot have"),
        (_at("model", "layers", 0, "heads", value=["standard"] * 3), "The weights lack the tensor"),
        (_at("model", "readout", "code", "count", value=HUGE), "A code breaks a rule"),
        (_at("model", "layout", value=json.loads("[" * 29 + "]" * 29)), "is a JSON object; got"),
        (_at("size", "width", value=10**29), "states a size that its weights do not have"),
        (_at("claims", value=None), "must be an array"),
        (_at("variant", value="\ud800"), "holds half a character"),
    ],
)
def test_specs_that_make_no_sense(folder: Path, change: Callable[[dict[str, Any]], None], words: str) -> None:
    with_spec(folder, change)
    assert words in refusal(folder)


def test_a_witness_cannot_bring_its_own_proof(folder: Path, certificate: Certificate) -> None:
    with_spec(folder, _at("claims", value=[claim.to_fields() for claim in certificate.claims]))
    assert "interval" in refusal(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deep"),
        ('{"a": ' * 100_000, "nested too deep"),
        ('{"schema": "separatrix.witness", "schema": "separatrix.witness"}', "repeats a field name"),
        ('{"a": NaN}', "has NaN, which is no JSON number"),
        ('{"a": 1e999}', "is beyond every float"),
        ("[1, 2]", "is a JSON object; got"),
        ('{"a": ' + "9" * 5000 + "}", "more than 4,300 digits"),
    ],
)
@pytest.mark.parametrize("name", [SPEC, CERTIFICATE])
def test_hostile_json(folder: Path, built: Witness, name: str, text: str, words: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(InvalidFile, match=re.escape(words)):
        stated_certificate(folder, built) if name == CERTIFICATE else load(folder)


VALUES = st.one_of(
    st.sampled_from([None, True, 0, 1, -1, 2**31, 2**62, HUGE, 2**64, 10**30, 10**40, 0.5, 1e300]),
    st.sampled_from(["", "standard", "own", "across", "binary", "float32", "\x1b", "transformer", "reals"]),
    st.sampled_from([[], {}, [[]], [{}], {"kind": "binary", "count": 2**40}, {"kind": "own", "shift": 2}]),
    st.integers(),
    st.text(max_size=4),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(inner, (*path, key))


def _changed(record: dict[str, Any], draw: st.DataObject) -> None:
    for _ in range(draw.draw(st.integers(1, 3))):
        *path, last = draw.draw(st.sampled_from([place for place in _places(record) if place]))
        inner: Any = record
        for step in path:
            inner = inner[step]
        kind = draw.draw(st.sampled_from(["replace", "delete", "double"]))
        if kind == "replace":
            inner[last] = copy.deepcopy(draw.draw(VALUES))  # a later change must not reach the next example
        elif kind == "delete":
            del inner[last]
        elif isinstance(inner, list):
            inner.append(copy.deepcopy(inner[last]))
        else:
            inner[f"{last}x"] = copy.deepcopy(inner[last])


def _attempt(folder: Path) -> None:
    """Load it and run it, or say why not."""
    try:
        witness = load(folder)
        if witness.task.length < 1000:
            witness.model.answers(witness.task.sample(2, seed=0).inputs)
    except SeparatrixError as error:
        refused = str(error)
    else:
        refused = "no"
    assert 0 < len(refused) < 2000


FUZZ = settings(
    max_examples=150,
    deadline=20_000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.slow
@FUZZ
@given(draw=st.data())
def test_no_spec_crashes(
    original: Path, tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("f")
    shutil.copytree(original, folder, dirs_exist_ok=True)
    with_spec(folder, lambda record: _changed(record, draw))
    _attempt(folder)


@pytest.mark.slow
@FUZZ
@given(draw=st.data())
def test_no_header_crashes(
    original: Path, tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("f")
    shutil.copytree(original, folder, dirs_exist_ok=True)

    def change(header: dict[str, Any], numbers: bytes) -> bytes:
        _changed(header, draw)
        return numbers

    with_weights(folder, change)
    _attempt(folder)


@pytest.mark.slow
@FUZZ
@given(
    name=st.sampled_from([SPEC, WEIGHTS]),
    edits=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=6)), min_size=1, max_size=4
    ),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
def test_no_bytes_crash(
    original: Path,
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    edits: list[tuple[float, bytes]],
    cut: float | None,
) -> None:
    folder = tmp_path_factory.mktemp("f")
    shutil.copytree(original, folder, dirs_exist_ok=True)
    content = bytearray((folder / name).read_bytes())
    for where, piece in edits:
        at = int(where * len(content))
        content[at : at + len(piece)] = piece
    if cut is not None:
        del content[int(cut * len(content)) :]
    if name == WEIGHTS:
        with_weight_file(folder, bytes(content))
    else:
        (folder / name).write_bytes(content)
    _attempt(folder)
