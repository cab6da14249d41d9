"""Extended BCH codes: field, generator, words, weights and coherence, each against another definition."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import ExtendedBCH
from separatrix.models.explicit.codes._galois import PRIMITIVE, generator_polynomial, powers, remainder
from separatrix.models.explicit.codes._weights import counted, most_by_packing, of_dual
from separatrix.models.explicit.codes.bch import LENGTHS, _dual_rows, _matrix

TABLE = [
    # length, k, designed distance, γ, words of which no two are opposite
    (16, 7, 5, Fraction(1, 4), 64),
    (32, 11, 11, Fraction(1, 4), 1024),
    (64, 16, 23, Fraction(1, 4), 32768),
    (128, 22, 47, Fraction(1, 4), 2**21),
    (16, 11, 3, Fraction(1, 2), 1024),
    (32, 16, 7, Fraction(1, 2), 32768),
    (64, 24, 15, Fraction(1, 2), 2**23),
    (256, 21, 111, Fraction(1, 8), 2**20),
]


def multiply(a: int, b: int, degree: int) -> int:
    """Shift and add, reducing as it goes: no logarithms."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a >> degree:
            a ^= PRIMITIVE[degree]
        b >>= 1
    return product


def value_at(polynomial: int, element: int, degree: int) -> int:
    total = 0
    for place in reversed(range(polynomial.bit_length())):
        total = multiply(total, element, degree) ^ (polynomial >> place & 1)
    return total


def every_code() -> list[tuple[int, int]]:
    return [(length, designed) for length in LENGTHS for designed in range(1, length)]


@pytest.mark.parametrize("degree", sorted(PRIMITIVE))
def test_alpha_runs_through_all_elements(degree: int) -> None:
    elements = powers(degree)
    assert sorted(elements) == list(range(1, 1 << degree))
    for before, after in itertools.pairwise([*elements, 1]):
        assert multiply(before, 2, degree) == after


@pytest.mark.slow
@pytest.mark.parametrize("degree", sorted(PRIMITIVE))
def test_generators_have_their_roots_and_as_few_as_can_be(degree: int) -> None:
    elements = powers(degree)
    polynomial, roots = 0, set[int]()
    for designed in range(1, 1 << degree):
        if generator_polynomial(degree, designed) != polynomial:
            polynomial = generator_polynomial(degree, designed)
            roots = {e for e, element in enumerate(elements) if value_at(polynomial, element, degree) == 0}
        wanted = {(e << squarings) % len(elements) for e in range(1, designed) for squarings in range(degree)}
        assert roots == wanted
        assert set(range(1, designed)) <= roots
        assert len(roots) == polynomial.bit_length() - 1
        assert remainder(1 << len(elements) | 1, polynomial) == 0


def test_known_generators() -> None:
    """As printed in the books for α⁴ = α + 1 and α⁵ = α² + 1."""
    assert generator_polynomial(4, 3) == 0b10011
    assert generator_polynomial(4, 5) == 0b111010001
    assert generator_polynomial(4, 7) == 0b10100110111
    assert generator_polynomial(5, 5) == 0o3551
    assert generator_polynomial(5, 7) == 0o107657
    assert generator_polynomial(4, 15) == (1 << 15) - 1


@pytest.mark.parametrize(
    ("length", "designed"), [(8, 3), (16, 5), (32, 11), (64, 23), (128, 47), (256, 111), (256, 1)]
)
def test_words_are_what_the_roots_demand(length: int, designed: int) -> None:
    """Power sums α^0·c_0 + α^1·c_1 + … vanish, the parity is even, and numbers add like words."""
    degree = length.bit_length() - 1
    code = ExtendedBCH(
        length=length,
        designed=designed,
        count=min(1 << 40, ExtendedBCH(length=length, designed=designed, count=0).words),
    )
    source = random.Random(length)
    numbers = [source.randrange(code.count) for _ in range(8)]
    numbers += [numbers[0] ^ numbers[1], code.count - 1, 1, 0]
    words = ((1 - code.rows(torch.tensor(numbers))) / 2).to(torch.int64).tolist()
    for word in words:
        assert sum(word) % 2 == 0
        polynomial = sum(bit << place for place, bit in enumerate(word[:-1]))
        assert all(value_at(polynomial, powers(degree)[e], degree) == 0 for e in range(1, designed))
    assert words[8] == [a ^ b for a, b in zip(words[0], words[1], strict=True)]
    assert words[-1] == [0] * length


@pytest.mark.parametrize(
    ("length", "designed", "count"), [(16, 5, 128), (32, 11, 1000), (64, 15, 2**24), (256, 95, 77)]
)
def test_rows_are_messages_times_the_generator(length: int, designed: int, count: int) -> None:
    code = ExtendedBCH(length=length, designed=designed, count=count)
    assert code.generator.shape == (code.bits, code.dim) == (math.ceil(math.log2(count)), length)
    assert code.parameters == code.generator.numel()
    source = random.Random(count)
    for number in [0, 1, count - 1, *(source.randrange(count) for _ in range(20))]:
        word = [0] * length
        for place, row in enumerate(code.generator.tolist()):
            if number >> place & 1:
                word = [a ^ b for a, b in zip(word, row, strict=True)]
        assert code.rows(torch.tensor(number)).tolist() == [1 - 2 * bit for bit in word]


def test_the_last_row_makes_opposites() -> None:
    code = ExtendedBCH.whole(length=32, designed=11)
    half = code.count // 2
    assert code.rows(torch.arange(half)).equal(-code.rows(torch.arange(half, 2 * half)))
    two_sided = ExtendedBCH.whole(length=32, designed=11, one_sided=False)
    assert two_sided.count == half
    assert two_sided.rows(torch.arange(half)).equal(code.rows(torch.arange(half)))


def pair_counts(code: ExtendedBCH) -> list[Counter[int]]:
    """Distances from each word to all others, by comparing entries."""
    rows = code.rows(torch.arange(code.count))
    return [Counter((rows != row).sum(dim=1).tolist()) - Counter({0: 1}) for row in rows]


SMALL = [
    (length, designed, count, one_sided)
    for length, designed in every_code()
    if length <= 32
    for one_sided in (True, False)
    for words in [ExtendedBCH(length=length, designed=designed, count=0, one_sided=one_sided).words]
    for count in sorted({1, 2, 3, min(words, 100), min(words, 256), words})
    if count <= min(words, 1024)
]


@pytest.mark.slow
def test_distances_hold_for_all_pairs_of_every_small_code() -> None:
    assert len(SMALL) > 200
    for length, designed, count, one_sided in SMALL:
        code = ExtendedBCH(length=length, designed=designed, count=count, one_sided=one_sided)
        proven = code.distances()
        counts = pair_counts(code)
        for seen in counts:
            assert 0 not in seen, "two numbers have the same word"
            assert all(times <= proven.get(distance, 0) for distance, times in seen.items())
        if count & (count - 1) == 0:
            assert all(seen == proven for seen in counts)
        occurring = {distance for seen in counts for distance in seen}
        largest = max((Fraction(length - 2 * d, length) for d in occurring), default=Fraction(0))
        assert max(largest, Fraction(0)) <= code.coherence
        assert (
            max((abs(Fraction(length - 2 * d, length)) for d in occurring), default=0)
            <= code.absolute_coherence
        )
        if not one_sided:
            assert length not in proven


@pytest.mark.slow
@pytest.mark.parametrize(("length", "bits", "designed", "gamma", "count"), TABLE)
def test_the_table(length: int, bits: int, designed: int, gamma: Fraction, count: int) -> None:
    two_sided = ExtendedBCH.whole(length=length, designed=designed, one_sided=False)
    one_sided = ExtendedBCH.whole(length=length, designed=designed)
    assert two_sided.dimension == one_sided.dimension == bits
    assert (two_sided.count, one_sided.count) == (count, 2 * count)
    assert two_sided.absolute_coherence == two_sided.coherence == gamma
    assert one_sided.coherence == gamma
    assert one_sided.absolute_coherence == 1
    assert sum(one_sided.distances().values()) == 2 * count - 1
    assert sum(two_sided.distances().values()) == count - 1
    for both, sided in ((False, two_sided), (True, one_sided)):
        found = ExtendedBCH.least(count=sided.count, gamma=gamma, one_sided=both)
        assert found == sided
    larger = ExtendedBCH.least(count=2 * count + 1, gamma=gamma) if length < 64 else None
    assert larger is None or larger.dim > length


def test_the_weights_of_a_printed_code() -> None:
    """As the literature prints them for the [32, 16, 8] and the [128, 22, 48] code."""
    assert ExtendedBCH.whole(length=32, designed=7).distances() == {
        8: 620, 12: 13888, 16: 36518, 20: 13888, 24: 620, 32: 1,
    }  # fmt: skip
    assert ExtendedBCH.whole(length=128, designed=47).distances() == {
        48: 42672, 56: 877824, 64: 2353310, 72: 877824, 80: 42672, 128: 1,
    }  # fmt: skip


def test_counting_agrees_with_making_each_word() -> None:
    source = random.Random(3)
    for bits, dim in [(0, 5), (1, 7), (2, 3), (5, 9), (9, 20), (12, 33)]:
        rows = [source.getrandbits(dim) for _ in range(bits)]
        slow = [0] * (dim + 1)
        for message in range(1 << bits):
            word = 0
            for place, row in enumerate(rows):
                if message >> place & 1:
                    word ^= row
            slow[word.bit_count()] += 1
        assert counted(_matrix(rows, dim)) == slow


def krawtchouk(dim: int, degree: int, weight: int) -> int:
    return sum(
        (-1) ** s * math.comb(weight, s) * math.comb(dim - weight, degree - s) for s in range(degree + 1)
    )


def test_the_dual_has_the_weights_that_macwilliams_says() -> None:
    for length, designed in [(8, 3), (16, 3), (16, 5), (32, 5), (32, 11), (64, 15), (64, 1)]:
        code = ExtendedBCH(length=length, designed=designed, count=0)
        dual = _matrix(_dual_rows(length, designed), length)
        whole = _matrix(list(_whole_rows(code)), length)
        assert not ((whole @ dual.T) % 2).any()
        assert len(whole) + len(dual) == length
        if len(dual) <= 24:
            counts = counted(dual)
            slow = [
                Fraction(
                    sum(count * krawtchouk(length, degree, weight) for weight, count in enumerate(counts)),
                    1 << len(dual),
                )
                for degree in range(length + 1)
            ]
            assert of_dual(counts) == slow
            if len(whole) <= 20:
                assert of_dual(counts) == counted(whole)
                assert of_dual(of_dual(counts)) == counts


def _whole_rows(code: ExtendedBCH) -> list[int]:
    from separatrix.models.explicit.codes.bch import _all_rows

    return list(_all_rows(code.length, code.designed))


def test_more_words_than_can_be_counted_are_taken_from_the_dual() -> None:
    code = ExtendedBCH(length=32, designed=3, count=2**26)
    assert code.dimension == 26
    weights = code.distances()
    assert sum(weights.values()) == 2**26 - 1
    assert (min(weights), weights[4], weights[32]) == (4, 1240, 1)
    part = ExtendedBCH(length=32, designed=3, count=2**25)
    assert part.distances() == {weight: count for weight, count in weights.items() if weight < 32}
    assert part.absolute_coherence == Fraction(3, 4)


def test_what_no_count_reaches_is_bounded() -> None:
    code = ExtendedBCH(length=256, designed=95, count=2**28)
    assert code.dimension == 29
    assert code.coherence == code.absolute_coherence == Fraction(1, 4)
    counted_part = ExtendedBCH(length=256, designed=95, count=2**18)
    assert all(count <= code.distances()[weight] for weight, count in counted_part.distances().items())
    everything = ExtendedBCH.whole(length=256, designed=95)
    assert everything.distances()[256] == 1
    assert everything.absolute_coherence == 1


def test_the_packing_bound_holds_wherever_the_weights_are_known() -> None:
    tight = 0
    for length, designed in every_code():
        code = ExtendedBCH(length=length, designed=designed, count=0)
        if code.dimension > 16:
            continue
        known = ExtendedBCH.whole(length=length, designed=designed).distances()
        least = designed + designed % 2
        assert least <= min(known), "the designed distance is a theorem"
        bound = most_by_packing(dim=length, bits=code.dimension, least=least)
        assert all(count <= bound.get(weight, 0) for weight, count in known.items())
        tight += sum(count == bound[weight] for weight, count in known.items() if weight < length)
    assert tight, "somewhere the bound is attained"


def test_the_least_code_for_round_numbers() -> None:
    """Dimensions at γ = ¼ for a thousand, ten thousand, … vectors, of which no two are opposite."""
    counts = (10**3, 10**4, 10**5, 10**6)
    quarter = Fraction(1, 4)
    assert [ExtendedBCH.least(count=c, gamma=quarter, one_sided=False).dim for c in counts] == [
        32,
        64,
        128,
        128,
    ]
    for count in (0, 1, 2, 5, 33, 1000, 40_000):
        for gamma in (0, 0.125, Fraction(1, 3), 0.75):
            for one_sided in (True, False):
                try:
                    code = ExtendedBCH.least(count=count, gamma=gamma, one_sided=one_sided)
                except InvalidInput:
                    assert count > 256
                    assert gamma <= 0.125
                    continue
                assert code.count == count
                assert code.coherence <= gamma
                assert one_sided or code.absolute_coherence <= gamma


def test_no_code_is_a_sentence() -> None:
    with pytest.raises(
        InvalidInput, match=r"No extended BCH code of length up to 256 has 1048576 words within γ = 1/16; try"
    ):
        ExtendedBCH.least(count=1 << 20, gamma=Fraction(1, 16))
    with pytest.raises(InvalidInput, match="0 ≤ γ < 1; got 'x'"):
        ExtendedBCH.least(count=3, gamma="x")  # type: ignore[arg-type]


def test_distances_are_made_once() -> None:
    first = ExtendedBCH(length=64, designed=23, count=1000).distances()
    assert ExtendedBCH(length=64, designed=23, count=999, one_sided=False).distances() is first
