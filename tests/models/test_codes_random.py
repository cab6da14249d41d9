"""Random signs: drawn as said, compared pair by pair, searched for until they hold."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
import torch

from separatrix.errors import InvalidInput, TooLarge
from separatrix.models.explicit.codes import RandomSign, dimension_needed
from separatrix.models.explicit.codes import random_sign as module
from separatrix.randomness import Draws


@pytest.mark.parametrize("seed", [0, 12345, 2**64 - 1])
@pytest.mark.parametrize("dim", [1, 31, 32, 33, 128, 129, 422])
def test_rows_are_the_streams_coins(seed: int, dim: int) -> None:
    code = RandomSign(count=1 << 40, dim=dim, seed=seed)
    for start in (0, 7, 2**32 - 2, 2**40 - 4):
        coins = Draws(seed=seed, stream="random-sign", batch=4, start=start).coins("signs", (dim,))
        assert code.rows(torch.arange(start, start + 4)).equal(1 - 2 * coins.to(torch.float64))


def test_a_published_row_never_changes() -> None:
    signs = RandomSign(count=3, dim=16, seed=7).rows(torch.tensor(2)).tolist()
    assert "".join("+" if sign > 0 else "-" for sign in signs) == "--+++-++++-+++++"


def slow_distances(code: RandomSign) -> dict[int, int]:
    words = [tuple(row) for row in code.rows(torch.arange(code.count)).tolist()]
    most: Counter[int] = Counter()
    for place, word in enumerate(words):
        seen = Counter(
            sum(a != b for a, b in zip(word, other, strict=True))
            for at, other in enumerate(words)
            if at != place
        )
        most |= seen
    return dict(most)


@pytest.mark.parametrize(
    ("count", "dim", "seed"),
    [(0, 5, 0), (1, 5, 0), (2, 1, 0), (2, 1, 1), (20, 3, 1), (40, 23, 2), (64, 100, 3)],
)
def test_distances_are_those_of_all_pairs(
    count: int, dim: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = RandomSign(count=count, dim=dim, seed=seed)
    expected = slow_distances(code)
    assert code.distances() == expected
    assert code.coherence == max([Fraction(0), *(Fraction(dim - 2 * d, dim) for d in expected)])
    assert code.absolute_coherence == max([Fraction(0), *(Fraction(abs(dim - 2 * d), dim) for d in expected)])
    monkeypatch.setattr(module, "_PRODUCTS_AT_ONCE", 170)
    assert module._measured_distances.__wrapped__(code) == expected


def test_equal_words_are_seen() -> None:
    """Twenty words of three signs cannot all differ: distance 0 is reported, and γ = 1."""
    code = RandomSign(count=20, dim=3, seed=1)
    assert 0 in code.distances()
    assert code.coherence == 1


@pytest.mark.parametrize(("count", "dim"), [(1024, 422), (2, 23), (100, 273)])
def test_search_takes_the_dimension_of_the_formula(count: int, dim: int) -> None:
    code = RandomSign.search(count=count, gamma=Fraction(1, 4))
    assert code.dim == dim == math.ceil(32 * (2 * math.log(count) - math.log(2)))
    assert code.coherence <= Fraction(1, 4)


def test_the_formula_at_a_million_words() -> None:
    assert module._hoeffding_dimension(1 << 20, Fraction(1, 4)) == 866


def test_search_takes_the_first_seed_that_holds_and_only_such() -> None:
    """In so few dimensions most seeds fail, so the search must really look."""
    gamma, dim = Fraction(1, 4), 64
    found = RandomSign.search(count=20, gamma=gamma, dim=dim, tries=2000)
    assert found.seed > 0
    for seed in range(found.seed + 1):
        distances = slow_distances(RandomSign(count=20, dim=dim, seed=seed))
        holds = dim - 2 * min(distances) <= gamma * dim
        assert holds == (seed == found.seed)
    again = RandomSign.search(count=20, gamma=gamma, dim=dim, seed=found.seed + 1, tries=5000)
    assert again.seed > found.seed


def test_a_vain_search_says_so() -> None:
    with pytest.raises(
        InvalidInput, match=r"None of 3 seeds from 5 on keeps 20 random words of 3 signs within"
    ):
        RandomSign.search(count=20, gamma=Fraction(1, 4), dim=3, seed=5, tries=3)
    with pytest.raises(InvalidInput, match=r"0 ≤ γ < 1; got 1\. Try Fraction"):
        RandomSign.search(count=20, gamma=1)
    with pytest.raises(InvalidInput, match=r"γ = 0 needs its dim said"):
        RandomSign.search(count=20, gamma=0)
    with pytest.raises(InvalidInput, match="needs seed between 0 and 18446744073709551615; got -1"):
        RandomSign.search(count=20, gamma=0.5, seed=-1)
    with pytest.raises(TooLarge, match=r"take more than 1048576 signs each; try a larger γ"):
        RandomSign.search(count=20, gamma=1e-9)


def test_too_many_pairs_are_refused_and_rows_are_not() -> None:
    code = RandomSign(count=(1 << 14) + 1, dim=8, seed=0)
    assert code.rows(torch.tensor([1 << 14])).abs().sum() == 8
    with pytest.raises(TooLarge, match=r"up to 16384 words and .* got 16385 words of 8\. Try ExtendedBCH"):
        code.distances()
    with pytest.raises(TooLarge, match="up to 16384 words"):
        RandomSign.search(count=(1 << 14) + 1, gamma=Fraction(1, 2))
    with pytest.raises(TooLarge, match="268435456 signs"):
        RandomSign(count=1 << 14, dim=(1 << 14) + 1, seed=0).distances()


def slow_dimension(count: int, gamma: Fraction) -> int:
    dim = 1
    while True:
        far = sum(math.comb(dim, ones) for ones in range(dim + 1) if abs(dim - 2 * ones) > gamma * dim)
        if Fraction(math.comb(count, 2) * far, 2**dim) < 1:
            return dim
        dim += 1


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [Fraction(1, 5), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 50, 1000])
def test_the_exact_dimension_is_the_least(count: int, gamma: Fraction) -> None:
    assert dimension_needed(count=count, gamma=gamma) == slow_dimension(count, gamma)


def test_at_gamma_0_only_two_words_are_ever_certain() -> None:
    """One pair may be orthogonal; of three pairs, chance alone never promises it."""
    assert dimension_needed(count=2, gamma=0) == slow_dimension(2, Fraction(0)) == 2
    with pytest.raises(TooLarge, match=r"need more than 32768 dimensions; try a larger γ"):
        dimension_needed(count=3, gamma=0)


def test_the_exact_dimensions_at_a_quarter() -> None:
    counts = (10**3, 10**4, 10**5, 10**6)
    assert [dimension_needed(count=count, gamma=Fraction(1, 4)) for count in counts] == [352, 493, 637, 776]
