from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.tensor_files import bytes_of, laid_out, read_tensors

DTYPES = [
    *(torch.float64, torch.float32, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]


def written(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    layout = laid_out(tensors, metadata or {})
    return b"".join([layout.head, *map(bytes_of, layout.tensors)])


def read(content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    return read_tensors(io.BytesIO(content), len(content), what="'x'")


SHAPES = st.lists(st.integers(0, 3), max_size=4)


@pytest.mark.slow
@given(
    described=st.dictionaries(
        st.text(max_size=5).filter(lambda name: name != "__metadata__"),
        st.tuples(SHAPES, st.sampled_from(DTYPES)),
        max_size=5,
    ),
    metadata=st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3),
)
def test_tensors_come_back_here_and_elsewhere(
    described: dict[str, tuple[list[int], torch.dtype]], metadata: dict[str, str]
) -> None:
    tensors = {
        name: (torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
        for name, (shape, dtype) in described.items()
    }
    content = written(tensors, metadata)
    found, said = read(content)
    assert said == metadata
    for other in (found, load(content)):
        assert other.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert other[name].dtype == tensor.dtype
            assert other[name].equal(tensor)
    assert written(dict(reversed(tensors.items())), metadata) == content


def test_rows_are_written_as_they_are_read() -> None:
    grid = torch.arange(6.0).reshape(2, 3)
    found, _ = read(written({"across": grid.T, "thinned": grid[:, ::2], "one": torch.tensor(3.5)}))
    assert found["across"].equal(grid.T)
    assert found["thinned"].equal(grid[:, ::2])
    assert found["one"].shape == ()


def test_wide_numbers_come_first_so_that_all_are_aligned() -> None:
    content = written({"a": torch.ones(3).bool(), "b": torch.ones(1), "c": torch.ones(1).double()})
    (length,) = struct.unpack("<Q", content[:8])
    head = json.loads(content[8 : 8 + length])
    assert [*head] == ["__metadata__", "c", "b", "a"]
    assert length % 8 == 0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn])
def test_other_numbers_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(InvalidInput, match=f"'x' is of {dtype}"):
        laid_out({"x": torch.zeros(2).to(dtype)}, {})


def test_a_header_that_could_not_be_read_is_not_written() -> None:
    with pytest.raises(InvalidInput, match="header may have 16,777,216 bytes"):
        laid_out({}, {"long": "x" * (1 << 24)})


def _head(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        (length,) = struct.unpack("<Q", content[:8])
        head = json.loads(content[8 : 8 + length])
        change(head)
        text = json.dumps(head).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    return changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: b"", "no safetensors file, or it is cut off"),
        (lambda content: content[:7], "no safetensors file"),
        (lambda content: struct.pack("<Q", 1 << 62) + content[8:], "no safetensors file"),
        (lambda content: struct.pack("<Q", 17 << 20) + bytes(18 << 20), "no safetensors file"),
        (lambda _: struct.pack("<Q", 2) + b"[]", "is no JSON object"),
        (lambda _: struct.pack("<Q", 2) + b"\xff\xff", "is not JSON"),
        (lambda content: content[:-1], "or the file is cut off"),
        (lambda content: content + b"\0", "has 17 bytes of numbers; its tensors take 16"),
        (_head(lambda head: head.update(__metadata__={"a": 1})), "metadata that are not texts by name"),
        (_head(lambda head: head.update(__metadata__=[])), "metadata that are not texts by name"),
        (_head(lambda head: head["x"].update(dtype="F8")), "must be F64 or F32 or BF16"),
        (_head(lambda head: head["x"].update(shape=[1 << 61])), "does not lie where its shape says"),
        (_head(lambda head: head["x"].update(shape=[-4])), "has a shape that is none"),
        (_head(lambda head: head["x"].update(data_offsets=[8, 24])), "does not lie where its shape says"),
        (_head(lambda head: head.update(y=dict(head["x"]))), "does not lie where its shape says"),
        (
            _head(
                lambda head: head.update(y={"dtype": "I8", "shape": [0, 1 << 40], "data_offsets": [16, 16]})
            ),
            "does not lie where its shape says",
        ),
    ],
)
def test_strangers_files(change: Callable[[bytes], bytes], words: str) -> None:
    content = change(written({"x": torch.ones(4)}, {"a": "b"}))
    with pytest.raises(InvalidFile) as refusal:
        read(content)
    assert words in str(refusal.value)
