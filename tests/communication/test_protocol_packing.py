"""Numbers of a whole batch come back bit for bit, in the layout that `wire` has, or are refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.communication.protocols.packing import RowsReader, RowsWriter, steps_of, width_between
from separatrix.communication.wire import BitString, BitWriter
from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, FixedNearest, FixedPoint, Float32, Float64, Integers

FIXED = (
    FixedDown(n=3, k=1),
    FixedDown(n=1024, k=3),
    FixedDown(n=1024, k=6),
    FixedNearest(p=5),
    FixedNearest(p=399),
)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(-(1 << 90), 1 << 90), st.integers(0, 1 << 80)).flatmap(
            lambda ends: st.tuples(
                st.just(ends[0]),
                st.just(ends[0] + ends[1]),
                st.lists(st.integers(ends[0], ends[0] + ends[1]), min_size=4, max_size=4),
            )
        ),
        max_size=6,
    )
)
def test_whole_numbers_are_laid_out_as_one_by_one(given: list[tuple[int, int, list[int]]]) -> None:
    rows, single = RowsWriter(2), [BitWriter(), BitWriter()]
    for low, high, numbers in given:
        rows.whole(Integers.from_ints(numbers, (2, 2)), low=low, high=high)
        for number, writer in zip(numbers, (single[0], single[0], single[1], single[1]), strict=True):
            writer.unsigned(number - low, bits=width_between(low, high))
    messages = rows.done()
    assert messages == [writer.done() for writer in single]
    reader = RowsReader(messages)
    for low, high, numbers in given:
        assert reader.whole(2, low=low, high=high).to_ints() == numbers
    reader.finish()


@pytest.mark.parametrize("system", FIXED, ids=str)
def test_a_number_of_a_system_takes_its_bits(system: FixedPoint) -> None:
    values = torch.randn(5, 3, 2, generator=torch.Generator().manual_seed(1)) * torch.tensor([1e-3, 1e9])
    numbers = system.encode(values)
    writer = RowsWriter(5)
    writer.numbers(numbers)
    messages = writer.done()
    assert {message.bits for message in messages} == {6 * system.bits}
    found = RowsReader(messages).numbers(system, 3, 2)
    assert steps_of(found).to_ints() == steps_of(numbers).to_ints()


@pytest.mark.parametrize("system", [Float32(), Float64()], ids=str)
def test_a_float_comes_back_with_its_sign_and_its_last_bit(system: Float32 | Float64) -> None:
    values = torch.tensor([[0.0, -0.0, 1 / 3], [5e-324, -1e-45, torch.finfo(torch.float32).max]])
    numbers = system.encode(values.double())
    writer = RowsWriter(2)
    writer.numbers(numbers)
    messages = writer.done()
    assert messages[0].bits == 3 * system.bits
    found = RowsReader(messages).numbers(system, 3)
    as_bits = torch.int32 if system.bits == 32 else torch.int64
    assert torch.equal(found.parts[0].view(as_bits), numbers.parts[0].view(as_bits))


def test_what_cannot_have_been_sent_is_refused() -> None:
    writer = RowsWriter(1)
    writer.whole(Integers.of(torch.tensor([7]), 3), low=0, high=7)
    message = writer.done()
    with pytest.raises(InvalidInput, match="a number above 5"):
        RowsReader(message).whole(low=0, high=5)
    with pytest.raises(InvalidInput, match="3 bits left; 4 were asked for"):
        RowsReader(message).whole(low=0, high=8)
    with pytest.raises(InvalidInput, match="3 bits more"):
        RowsReader(message).finish()
    with pytest.raises(InvalidInput, match="has 4 bits in every run; got 3"):
        RowsReader(message).expect(4)
    with pytest.raises(InvalidInput, match=r"one length; got \[3, 4\] bits"):
        RowsReader([*message, BitString(bits=4, data=b"\x00")])
    with pytest.raises(AssertionError, match="above 6"):
        RowsWriter(1).whole(Integers.of(torch.tensor([7]), 3), low=0, high=6)
    with pytest.raises(AssertionError, match="below 8"):
        RowsWriter(1).whole(Integers.of(torch.tensor([7]), 3), low=8, high=9)
