"""Other attention: shares against slow oracles, and witnesses that survive it or do not."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.experiments import study_of
from separatrix.experiments.attention_variants import _FROM_LOGITS, VARIANTS, with_attention
from separatrix.experiments.cells import chosen
from separatrix.experiments.measurements import read_series
from separatrix.experiments.outcomes import outcome_of
from separatrix.experiments.plain_witnesses import count_right, plain_witnesses, tried
from separatrix.experiments.projecting import projection_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.reproducing import known_in, reproduce
from separatrix.experiments.tables import per_cent
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.third_order import ThirdOrderHead
from separatrix.models.explicit.transformer import Transformer
from separatrix.models.specs import architecture_of
from separatrix.precision import Float64
from separatrix.store import Store, key_of
from separatrix.store.bundles import read_bundle, results_folder
from tests.markdown_tables import section_of, tables_in

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Row = np.ndarray[tuple[int], np.dtype[np.float64]]
SECTION = section_of("docs/experiments.md", "### Other attention (`x-attention`)")
PANELS = {"index lookup": "index-lookup", "Dyck-(2,2)": "dyck"}
"""What the page calls the tasks that are trained, and the panels they stand in."""
SMALL = {plain.row: plain for plain in plain_witnesses(6)}
rows_of_logits = st.lists(st.integers(-6, 6).map(lambda eighth: eighth / 4), min_size=1, max_size=5)


def by_every_support(logits: list[float]) -> list[float]:
    """The nearest point of the simplex: of all supports the one whose shares are positive and optimal."""
    best, nearest = [], math.inf
    for size in range(1, len(logits) + 1):
        for support in itertools.combinations(range(len(logits)), size):
            shift = (sum(logits[i] for i in support) - 1) / size
            shares = [logits[i] - shift if i in support else 0.0 for i in range(len(logits))]
            distance = sum((a - b) ** 2 for a, b in zip(shares, logits, strict=True))
            if min(shares) >= 0 and distance < nearest - 1e-12:
                best, nearest = shares, distance
    return best


@settings(max_examples=60, deadline=None)
@given(logits=rows_of_logits, scale=st.sampled_from([0.1, 1.0, 1e6]), hidden=st.integers(0, 2))
def test_sparsemax_is_the_nearest_point_of_the_simplex(
    logits: list[float], scale: float, hidden: int
) -> None:
    scaled = [scale * each for each in logits]
    row = torch.tensor([[*scaled, *[1e9] * hidden]], dtype=torch.float64)
    mask = torch.tensor([[True] * len(logits) + [False] * hidden])
    shares = _FROM_LOGITS["sparsemax"](row, mask)[0].tolist()
    assert shares[: len(logits)] == pytest.approx(by_every_support(scaled), abs=1e-9)
    assert shares[len(logits) :] == [0.0] * hidden


@settings(max_examples=60, deadline=None)
@given(logits=rows_of_logits, hidden=st.integers(0, 2))
def test_hard_attention_takes_the_largest(logits: list[float], hidden: int) -> None:
    row = torch.tensor([[*logits, *[1e9] * hidden]], dtype=torch.float64)
    mask = torch.tensor([[True] * len(logits) + [False] * hidden])
    largest = [place for place, each in enumerate(logits) if each == max(logits)]
    wanted = {
        "average-hard": {place: 1 / len(largest) for place in largest},
        "leftmost": {largest[0]: 1.0},
        "last": {largest[-1]: 1.0},
    }
    for variant, shares in wanted.items():
        found = _FROM_LOGITS[variant](row, mask)[0].tolist()
        assert found == pytest.approx([shares.get(place, 0.0) for place in range(len(found))])


def test_logits_that_differ_in_their_last_bits_are_equal() -> None:
    row, mask = torch.tensor([[1e3, 1e3 * (1 + 1e-15), 999.0]], dtype=torch.float64), torch.ones(1, 3).bool()
    assert _FROM_LOGITS["leftmost"](row, mask).tolist() == [[1.0, 0.0, 0.0]]
    assert _FROM_LOGITS["average-hard"](row, mask).tolist() == [[0.5, 0.5, 0.0]]


def textbook_shares(variant: str, query: Row, keys: Matrix) -> Row:
    """The share of each key that one query sees, as the definitions are written."""
    logits = keys @ query
    largest = np.flatnonzero(np.isclose(logits, logits.max(), rtol=1e-9, atol=1e-9))
    shares = np.zeros(len(keys))
    match variant:
        case "softmax":
            shares = np.exp(logits) / np.exp(logits).sum()
        case "sparsemax":  # the threshold above which the logits add up to 1, by halving
            low, high = logits.max() - 1, logits.max()
            for _ in range(80):
                middle = (low + high) / 2
                above = np.maximum(logits - middle, 0).sum() > 1
                low, high = (middle, high) if above else (low, middle)
            shares = np.maximum(logits - low, 0)
        case "average-hard":
            shares[largest] = 1 / len(largest)
        case "leftmost":
            shares[largest[0]] = 1
        case "last":
            shares[largest[-1]] = 1
        case "linear":
            positive = [np.where(x > 0, x + 1, np.exp(x)) for x in (query, *keys)]
            products = np.array([positive[0] @ key for key in positive[1:]])
            shares = products / products.sum()
        case _:
            raise AssertionError(f"no textbook has {variant}")
    return shares


def textbook_heads(variant: str, stream: Matrix, head: Head, third: ThirdOrderHead) -> Matrix:
    """What both heads return at every position, side by side; each sees itself and what is before it."""
    found = []
    for place in range(len(stream)):
        seen = stream[: place + 1]
        shares = textbook_shares(variant, head.query.numpy() @ stream[place], seen @ head.key.numpy().T)
        pairs = list(itertools.product(seen, repeat=2))
        keys = [(third.first_key.numpy() @ x) * (third.second_key.numpy() @ y) for x, y in pairs]
        values = [(third.first_value.numpy() @ x) * (third.second_value.numpy() @ y) for x, y in pairs]
        of_pairs = textbook_shares(variant, third.query.numpy() @ stream[place], np.array(keys))
        found.append([*(shares @ (seen @ head.value.numpy().T)), *(of_pairs @ np.array(values))])
    return np.array(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", VARIANTS)
def test_heads_with_random_matrices_attend_as_the_textbooks_define_it(variant: str, seed: int) -> None:
    generator, width = torch.Generator().manual_seed(seed), 5

    def matrix(rows: int) -> torch.Tensor:
        return torch.randn(rows, width, generator=generator, dtype=torch.float64)

    head = Head(query=matrix(3), key=matrix(3), value=matrix(2))
    third = ThirdOrderHead(
        query=matrix(3),
        first_key=matrix(3),
        second_key=matrix(3),
        first_value=matrix(2),
        second_value=matrix(2),
    )
    plain = SMALL["S-T1: index-lookup"].witness.model
    assert isinstance(plain, Transformer)
    layer = Layer(
        heads=(head, third),
        output=torch.eye(4, dtype=torch.float64),
        attention_residual=False,
        feed_forward=None,
        feed_forward_residual=False,
    )
    changed = with_attention(replace(plain, layers=(layer,)), variant)
    assert isinstance(changed, Transformer)
    (other,) = changed.layers
    # Every key of the first head comes twice with two values, so that first, last and mean of the largest
    # differ.
    once = torch.randn(4, width, generator=generator, dtype=torch.float64)
    unseen = torch.linalg.svd(head.key).Vh[-1]
    stream = torch.cat([once, once + unseen])
    system, causal = Float64(), torch.ones(len(stream), len(stream)).tril().bool()
    numbers = system.encode(stream[None])
    found = system.decode_float64(other(system, numbers, other.keep(system, numbers), causal[None]))[0]
    wanted = textbook_heads(variant, stream.numpy(), head, third)
    assert np.allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-9)
    for another in set(VARIANTS) - {variant}:
        assert not np.allclose(wanted, textbook_heads(another, stream.numpy(), head, third), rtol=0.01)


@pytest.mark.parametrize("row", ["S-T1: index-lookup", "R-M3: match3", "S-T6: equality", "W-4.6: c-gram"])
def test_with_softmax_a_witness_is_what_it_was(row: str) -> None:
    plain = SMALL[row]
    rows = tried(plain.task, "random", 6)
    before, after = plain.witness.model.forward(rows), with_attention(plain.witness.model, "softmax")
    assert torch.allclose(after.forward(rows), before, rtol=1e-9, atol=1e-9)
    assert after.size(6, 64) == plain.witness.model.size(6, 64)


@pytest.mark.parametrize(
    ("row", "survives"),
    [
        ("S-T1: index-lookup", {"softmax", "sparsemax", "average-hard", "leftmost", "last"}),
        ("R-qSA: q-sparse-averaging", {"softmax", "sparsemax", "average-hard"}),
        ("UP-TF1: dyck, linear size", {"softmax", "sparsemax", "average-hard", "linear"}),
    ],
)
def test_what_survives_depends_on_what_a_head_takes_together(row: str, survives: set[str]) -> None:
    plain = SMALL[row]
    rows = tried(plain.task, "random", 24)
    right = {v: count_right(with_attention(plain.witness.model, v), plain.task, rows) for v in VARIANTS}
    assert {variant for variant, count in right.items() if count == len(rows)} == survives


def test_a_line_says_why_weights_fail(tmp_path: Path) -> None:
    study = chosen(study_of("x-attention"), panels=["witnesses-random"], rows=["R-qSA", "S-T1"])
    panel = reproduce(study, Store(tmp_path), device="cpu").outcome.panels[0]
    notes = {(one.cell.row[:4], VARIANTS[one.cell.column]): one.note for one in panel.cells}
    assert notes["S-T1", "last"] == notes["R-qS", "sparsemax"] == ""
    assert notes["R-qS", "last"].startswith("what is asked for is a mean over several largest logits")
    assert notes["S-T1", "linear"] == "shares in proportion to φ(q)·φ(k) leave weight on every place"


@pytest.mark.slow
def test_trained_are_the_kinds_that_learn() -> None:
    lookup, dyck = study_of("x-attention", Settings(budget="paper")).panels[2:]
    for panel, layers in ((lookup, 1), (dyck, 2)):
        kinds = ("softmax", "sparsemax", "average-hard", "linear")
        assert panel.rows == tuple(f"TF-({layers},64): {kind}" for kind in kinds)
        models = {cell.row: cell.jobs[0].model for cell in panel.cells}
        softmax, sparse, hard, linear = models.values()
        assert (sparse.params["attention"], hard.params["attention"]) == ("sparsemax", "average-hard")
        assert linear.name == "linear-transformer"
        # The plain one is the paper's own, so that its runs count.
        jobs = study_of("s-fig2", Settings(budget="paper")).jobs
        assert softmax.to_fields() in [architecture_of(job.model.to_fields()) for job in jobs]
    assert 3 < projection_of(study_of("x-attention", Settings(budget="quick"))).minutes < 10


def test_what_is_kept_of_witnesses_is_all_and_says_what_the_docs_say() -> None:
    results = results_folder()
    assert results is not None
    kept = read_series(results / "x-attention")
    study = study_of("x-attention", Settings(budget="paper"))
    assert {series.key for series in study.series} == set(kept)
    right_on_all: dict[str, set[str]] = {}
    for one in kept.values():
        assert one.question["attention"] == VARIANTS
        witness = key_of({"witness": one.question["witness"]})
        whole = {VARIANTS[c] for c, found in one.by_column.items() if found.right == found.examples}
        right_on_all[witness] = right_on_all.get(witness, set(VARIANTS)) & whole
        assert {found.examples for found in one.by_column.values()} == {256}
    words = " ".join(SECTION.split())
    assert f"The {len(right_on_all)} witnesses that are Transformers" in words
    assert "on 256 random inputs and on 256 with worst ones" in words
    said = {
        variant: row["right on all"]
        for row in tables_in(SECTION)[0]
        for variant in row["attention"].split(", ")
    }
    assert said == {
        variant: str(sum(variant in whole for whole in right_on_all.values())) for variant in VARIANTS
    }


def test_what_is_kept_of_training_is_what_the_docs_say() -> None:
    results = results_folder()
    assert results is not None
    known = known_in(read_bundle(results / "x-attention"))
    outcome = outcome_of(study_of("x-attention", Settings(budget="paper")), known, measured={})
    kept = {
        (one.panel.name, cell.cell.row.partition(": ")[2], cell.cell.column): per_cent(cell.accuracy)
        for one in outcome.panels
        for cell in one.cells
        if cell.accuracy is not None
    }
    said: dict[tuple[str, str, int], str] = {}
    panel, rows = "", tables_in(SECTION)[1]
    for heading in list(rows[0])[1:]:
        place = re.fullmatch(r"(?:(.+), N = )?(\d+)", heading)
        assert place is not None, f"{heading!r} names no length"
        panel = PANELS[place[1]] if place[1] else panel
        said |= {(panel, row["attention"].split(",")[0], int(place[2])): row[heading] for row in rows}
    assert said == kept
