"""The generator against published vectors and a plain second one, and the laws of what is built on it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.randomness import (
    Draws,
    host_constant,
    philox4x32,
    site_number,
)
from separatrix.tasks import TASKS

VECTORS = json.loads((Path(__file__).parent / "data" / "randomness.json").read_text())


def plain_philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 in Python's whole numbers, as the paper states it."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        left, right = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (right >> 32) ^ c1 ^ k0, right % 2**32, (left >> 32) ^ c3 ^ k1, left % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [c0, c1, c2, c3]


def plain_word(seed: int, stream: str, site: str, example: int, place: int) -> int:
    """One word of the layout, straight from the module's description."""
    purpose = zlib.crc32(f"{stream}/{site}".encode())
    counter = [place // 4, purpose, example % 2**32, example // 2**32]
    return plain_philox(counter, [seed % 2**32, seed // 2**32])[place % 4]


def numbers(words: list[str]) -> list[int]:
    return [int(word, 16) for word in words]


@pytest.mark.parametrize("case", VECTORS["philox4x32-10"])
def test_known_answers_of_the_bare_function(case: dict[str, Any]) -> None:
    counter, key = numbers(case["counter"]), numbers(case["key"])
    assert plain_philox(counter, key) == numbers(case["words"])
    words = philox4x32(tuple(torch.tensor(word) for word in counter), (key[0], key[1]))  # type: ignore[arg-type]
    assert [int(word) for word in words] == numbers(case["words"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own remarks
@pytest.mark.parametrize("rows", [1, 3, 16, 70])
def test_compiled_for_a_cpu_words_are_the_same(rows: int) -> None:
    """Really compiled, to C++, in which a product that wraps has no meaning: some came out wrong."""
    seeds, starts = torch.arange(rows) * 2**33 + 5, torch.arange(rows) * 2**31 + 2**40
    ways: dict[str, Callable[[], Draws]] = {
        "a seed and a start": lambda: Draws(seed=7, stream="x", batch=rows, start=5),
        "a seed for each row": lambda: Draws(seed=seeds, stream="x", batch=rows, start=5),
        "a start for each row": lambda: Draws(seed=7, stream="x", batch=rows, start=starts),
        "both for each row": lambda: Draws(seed=seeds, stream="x", batch=rows, start=starts),
    }
    for name, way in ways.items():
        torch.compiler.reset()
        compiled = torch.compile(lambda way=way: way().words("s", 7), dynamic=False)
        assert torch.equal(compiled(), way().words("s", 7)), name


@pytest.mark.parametrize("case", VECTORS["layout"])
def test_published_vectors_of_the_layout(case: dict[str, Any]) -> None:
    draws = Draws(seed=case["seed"], stream=case["stream"], batch=1, start=case["example"])
    expected = numbers(case["words"])
    assert draws.words(case["site"], len(expected))[0].tolist() == expected
    place = len(expected) - 1
    assert plain_word(case["seed"], case["stream"], case["site"], case["example"], place) == expected[-1]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**62 - 200), st.integers(1, 40), st.integers(1, 150))
def test_words_equal_the_plain_ones(seed: int, start: int, count: int, batch: int) -> None:
    words = Draws(seed=seed, stream="a", batch=batch, start=start).words("b", count)
    assert words.shape == (batch, count)
    for row, place in ((0, 0), (batch - 1, count - 1), (batch // 2, count // 2)):
        assert int(words[row, place]) == plain_word(seed, "a", "b", start + row, place)


def test_chunks_do_not_show() -> None:
    """A batch larger than what is worked on at once has the same rows."""
    whole = Draws(seed=9, stream="s", batch=40, start=0).words("x", 9000)
    alone = Draws(seed=9, stream="s", batch=1, start=33).words("x", 9000)
    assert torch.equal(whole[33:34], alone)


@pytest.mark.parametrize("bound", [1, 2, 64, 63, 1000, 2**31])
@pytest.mark.parametrize("wide", [False, True])
def test_integers_are_uniform(bound: int, wide: bool) -> None:
    drawn = Draws(seed=4, stream="s", batch=500).integers("x", (40,), bound, wide=wide)
    assert 0 <= int(drawn.min()) <= int(drawn.max()) < bound
    cells = min(bound, 10)
    seen = Counter((drawn * cells // bound).flatten().tolist())
    sizes = (
        [sum(value * cells // bound == cell for value in range(bound)) for cell in range(cells)]
        if bound <= 1000
        else [bound / cells] * cells
    )
    for cell in range(cells):
        share = sizes[cell] / bound
        assert abs(seen[cell] - 20000 * share) <= 5 * math.sqrt(20000 * share * (1 - share)) + 1e-9


def test_nothing_may_be_drawn() -> None:
    draws = Draws(seed=3, stream="s", batch=4)
    assert (
        draws.words("x", 0).shape
        == draws.integers("x", (0,), 7).shape
        == draws.integers("x", (0,), 8).shape
        == (4, 0)
    )
    assert draws.permutations("x", 0).shape == (4, 0)


def test_small_alphabets_share_words_without_overlap() -> None:
    """Bits of one 32-bit word: five symbols of six bits, low bits first, two bits left over."""
    draws = Draws(seed=3, stream="s", batch=1)
    word = int(draws.words("x", 1)[0, 0])
    symbols = draws.integers("x", (5,), 64)[0].tolist()
    assert symbols == [(word >> (6 * place)) & 63 for place in range(5)]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 2**31), st.integers(0, 2**64 - 1))
def test_wide_integers_are_the_exact_quotient(bound: int, seed: int) -> None:
    draws = Draws(seed=seed, stream="s", batch=1)
    keys, drawn = draws.keys("x", 6)[0].tolist(), draws._scaled("x", 6, bound, wide=True)[0].tolist()
    assert drawn == [key * bound >> 62 for key in keys]


def test_a_bound_for_each_example() -> None:
    bounds = torch.arange(1, 301)
    drawn = Draws(seed=4, stream="s", batch=300).integers("x", (50,), bounds)
    assert bool((drawn < bounds.unsqueeze(1)).all())
    assert bool((drawn >= 0).all())
    assert bool((drawn.amax(1) >= bounds // 2).all())


def test_permutations_are_uniform() -> None:
    drawn = Draws(seed=4, stream="s", batch=12000).permutations("x", 4)
    seen = Counter(map(tuple, drawn.tolist()))
    assert len(seen) == 24
    assert all(abs(count - 500) < 130 for count in seen.values())


@pytest.mark.parametrize(("count", "bound"), [(2, 5), (3, 3), (1, 1), (2, 400), (40, 400), (64, 4096)])
def test_distinct_values_are_distinct_and_uniform(count: int, bound: int) -> None:
    drawn = Draws(seed=6, stream="s", batch=3000).distinct("x", count, bound)
    assert drawn.shape == (3000, count)
    assert 0 <= int(drawn.min()) <= int(drawn.max()) < bound
    assert all(len(set(row)) == count for row in drawn.tolist())
    halves = (drawn * 2 // bound).double().mean(0)
    expected = (torch.arange(bound) * 2 // bound).double().mean()
    assert bool(((halves - expected).abs() < 5 * 0.5 / math.sqrt(3000)).all())


@pytest.mark.slow
def test_distinct_pairs_have_every_order_equally_often() -> None:
    """The branch that draws until distinct: 30 values are too many to permute for two."""
    draws = Draws(seed=6, stream="s", batch=60000)
    seen = Counter(map(tuple, (draws.distinct("x", 2, 2000) // 500).tolist()))
    expected = {(a, b): 60000 * (0.25 * (499 if a == b else 500) / 1999) for a in range(4) for b in range(4)}
    assert all(abs(seen[pair] - mean) < 5 * math.sqrt(mean) for pair, mean in expected.items())


def test_distinct_ends_well_even_if_every_draw_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Draws, "integers", lambda self, site, shape, bound: torch.zeros(self.batch, *shape).long()
    )
    drawn = Draws(seed=6, stream="s", batch=3).distinct("x", 5, 1000)
    assert drawn.tolist() == [[0, 1, 2, 3, 4]] * 3


def test_no_two_tasks_share_a_site_number() -> None:
    """CRC-32 tells the streams of all tasks apart, also with the common site names."""
    sites = ("length", "index", "symbols", "order", "keys", "values", "kind", "edges", "x")
    seen = {site_number(stream, site) for stream in TASKS.names() for site in sites}
    assert len(seen) == len(TASKS.names()) * len(sites)


START = "A start on the device is one int64 number without an axis, or one for each example."
SEEDS = "Seeds on the device are int64, one for each example of the batch."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "A seed is a whole number from 0 to 2^64 − 1; got -1."),
        ({"seed": 2**64}, f"A seed is a whole number from 0 to 2^64 − 1; got {2**64}."),
        ({"batch": 0}, "A batch holds at least one example; got batch=0."),
        ({"start": -1}, "Examples are numbered from 0 to 2^62 − 1; got start=-1."),
        ({"seed": 1.5}, "A seed is a whole number from 0 to 2^64 − 1; got 1.5."),
        ({"seed": True}, "A seed is a whole number from 0 to 2^64 − 1; got True."),
        ({"batch": 2.5}, "A batch holds at least one example; got batch=2.5."),
        ({"start": "1"}, "Examples are numbered from 0 to 2^62 − 1; got start='1'."),
        ({"start": torch.tensor([1, 2])}, START),
        ({"start": torch.tensor(1.0)}, START),
        ({"seed": torch.tensor([1, 2])}, SEEDS),
        ({"seed": torch.tensor([1.0])}, SEEDS),
        ({"device": "nope"}, "A device is named like cpu, cuda or cuda:1; got 'nope'."),
    ],
)
def test_bad_parameters(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Draws(**{"seed": 0, "stream": "s", "batch": 1, **change})
    assert str(caught.value) == message


def test_bad_requests() -> None:
    draws = Draws(seed=0, stream="s", batch=1)
    with pytest.raises(InvalidInput, match="Only 3 different values exist; got a request for 4"):
        draws.distinct("x", 4, 3)
    with pytest.raises(InvalidInput, match="between 1 and 2\\^31; got 0"):
        draws.integers("x", (1,), 0)


def test_the_mark_is_the_one_that_the_compiler_sets() -> None:
    """It is set by hand, so that the compiler need not be imported for it."""

    def ours() -> int:
        return 1

    def theirs() -> int:
        return 1

    torch.compiler.assume_constant_result(theirs)  # type: ignore[no-untyped-call]
    assert host_constant(ours) is ours
    assert vars(ours) == vars(theirs) != {}


def test_tasks_are_imported_without_the_compiler() -> None:
    script = (
        "import sys; from separatrix.tasks import TASKS; [TASKS.get(name) for name in TASKS.names()];"
        "print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "False"]


@pytest.mark.gpu
def test_same_bytes_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    here, there = (Draws(seed=5, stream="s", batch=200, start=7, device=device) for device in ("cpu", "cuda"))
    assert torch.equal(here.words("x", 99), there.words("x", 99).cpu())
    for wide in (False, True):
        drawn = [draws.integers("x", (50,), 63, wide=wide).cpu() for draws in (here, there)]
        assert torch.equal(*drawn)
    assert torch.equal(here.permutations("x", 70), there.permutations("x", 70).cpu())
    assert torch.equal(here.distinct("x", 40, 400), there.distinct("x", 40, 400).cpu())
