"""Bits written are the bits read, and no more than were counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.communication.wire import BitReader, BitString, BitWriter, Recorder
from separatrix.errors import InvalidInput

NUMBERS = st.lists(
    st.integers(1, 70).flatmap(
        lambda bits: st.tuples(st.just(bits), st.booleans(), st.integers(0, (1 << bits) - 1))
    ),
    max_size=20,
)


@pytest.mark.slow
@given(NUMBERS)
def test_what_is_written_is_read(given: list[tuple[int, bool, int]]) -> None:
    writer = BitWriter()
    for bits, signed, number in given:
        if signed:
            writer.signed(number - (1 << (bits - 1)), bits=bits)
        else:
            writer.unsigned(number, bits=bits)
    message = writer.done()
    assert message.bits == sum(bits for bits, _, _ in given)
    assert len(message.data) == -(-message.bits // 8)
    reader = BitReader(message)
    for bits, signed, number in given:
        if signed:
            assert reader.signed(bits=bits) == number - (1 << (bits - 1))
        else:
            assert reader.unsigned(bits=bits) == number
    reader.finish()


def test_the_first_bit_is_the_highest_of_the_first_byte() -> None:
    writer = BitWriter()
    writer.unsigned(1, bits=1)
    writer.all_signed([-1, 0], bits=4)
    assert writer.done() == BitString(bits=9, data=bytes([0b11111000, 0]))


def test_what_does_not_fit_is_refused() -> None:
    writer = BitWriter()
    with pytest.raises(InvalidInput, match="3 bits hold numbers from 0 to 7; got 8"):
        writer.unsigned(8, bits=3)
    with pytest.raises(InvalidInput, match="3 bits hold numbers from -4 to 3; got 4"):
        writer.signed(4, bits=3)
    with pytest.raises(InvalidInput, match="9 bits fill 2 bytes; got 1 bytes"):
        BitString(bits=9, data=b"\0")
    reader = BitReader(BitString(bits=9, data=b"\xff\x80"))
    assert reader.all_unsigned(2, bits=4) == [15, 15]
    with pytest.raises(InvalidInput, match="1 bits more than the protocol reads"):
        reader.finish()
    with pytest.raises(InvalidInput, match="has 1 bits left; 2 were asked for"):
        reader.unsigned(bits=2)


def test_a_recorder_counts_what_was_sent() -> None:
    recorder = Recorder()
    recorder.note("Alice", "state", BitString(bits=9, data=b"\xff\x80"), keep=True)
    recorder.note("Bob", "answer", BitString(bits=1, data=b"\x80"), keep=False)
    assert [(each.sender, each.bits, each.payload) for each in recorder.messages] == [
        ("Alice", 9, b"\xff\x80"),
        ("Bob", 1, None),
    ]
