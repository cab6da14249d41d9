"""What every task must satisfy, as tests that a user can inherit.

    class TestMyTask(TaskConformance):
        typical = (MyTask(n=32), MyTask(n=7))      # sampled
        small = (MyTask(n=3, alphabet=2),)         # listed whole

        def definition(self, task, row):           # a second, plain definition of the answer
            return {len(row) - 1: row[0]}          # position -> target

        def balance(self, task):                   # the law of an example's last label, if it is known
            return {0: 0.5, 1: 0.5}

The definition is the point: it must be written another way than the oracle, slow and obvious, so that the
two can disagree.
"""

from __future__ import annotations

import math
import unittest
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.randomness import Band
from separatrix.tasks.interface import Batch, Classes, Labels, Reals, Task, Vectors

__all__ = ["TaskConformance"]

Answers = Mapping[int, Any]


class TaskConformance(ABC):
    """Inherit, name your tasks, write the definition; the methods that begin with `test_` do the rest."""

    typical: ClassVar[Sequence[Task]]
    """Tasks of everyday size: they are sampled."""
    small: ClassVar[Sequence[Task]]
    """Tasks with few inputs: they are listed whole."""
    compiles: ClassVar[bool] = True
    """Whether sampling is one graph to `torch.compile`; text tasks look tables up on the host."""
    samples: ClassVar[int] = 256
    """Examples to draw from each typical task; the label balance takes sixteen times as many."""
    large: ClassVar[int] = 2100
    """A batch that samplers may work on in parts."""
    seed: ClassVar[int] = 20240613

    @abstractmethod
    def definition(self, task: Task, row: list[Any]) -> Answers:
        """The right answer at every labelled position of an input, straight from the words of the paper."""

    @abstractmethod
    def balance(self, task: Task) -> Mapping[int, float] | None:
        """The probability of each value of an example's last label, or None where no law is claimed."""

    def test_oracle_agrees_with_the_definition_on_samples(self) -> None:
        """On random inputs, `solve` and the labels of `sample` both say what the definition says."""
        for task in self.typical:
            batch = task.sample(self.samples, seed=self.seed)
            self._compare(task, batch.inputs, batch.labels)
            self._compare(task, batch.inputs, task.solve(batch.inputs))

    def test_oracle_agrees_with_the_definition_on_every_input(self) -> None:
        """On every input of the small tasks."""
        for task in self.small:
            for inputs in task.enumerate():
                self._compare(task, inputs, task.solve(inputs))

    def test_enumeration_is_complete(self) -> None:
        """As many different inputs as claimed, each one valid, and every sample is among them."""
        for task in self.small:
            listed = [row for inputs in task.enumerate() for row in inputs]
            known = {_key(row) for row in listed}
            assert len(listed) == len(known) == task.domain_size(), (
                f"{task}: {task.domain_size()} inputs claimed, {len(listed)} listed, {len(known)} different"
            )
            for row in listed:
                task.check(row)
            for row in task.sample(self.samples, seed=self.seed).inputs:
                assert _key(row) in known, f"{task} samples {task.render(row)!r}, which is not listed"

    def test_same_bytes_for_any_batch_split(self) -> None:
        """An example depends on the seed and its number, not on its neighbours."""
        for task in self.typical:
            whole = task.sample(24, seed=self.seed, start=5)
            parts = [
                task.sample(size, seed=self.seed, start=start) for start, size in ((5, 1), (6, 16), (22, 7))
            ]
            for field in ("inputs", "targets", "mask", "lengths"):
                joined = torch.cat([getattr(part, field) for part in parts])
                assert _same_bytes(getattr(whole, field), joined), f"{task}: {field} depend on the batch"

    def test_start_may_be_a_tensor(self) -> None:
        """A counter on the device gives the same examples, so that a captured graph can advance."""
        for task in self.typical:
            given = task.sample(8, seed=self.seed, start=11)
            _same_batch(task, given, task.sample(8, seed=self.seed, start=torch.tensor(11)))

    def test_rows_may_have_seeds_of_their_own(self) -> None:
        """The examples of several streams in one batch are those of each alone."""
        for task in self.typical:
            seeds = torch.tensor([self.seed, 7, self.seed])
            mixed = task.sample(3, seed=seeds, start=torch.tensor([5, 5, 2]))
            alone = [
                task.sample(1, seed=seed, start=at) for seed, at in ((self.seed, 5), (7, 5), (self.seed, 2))
            ]
            _same_batch(task, Batch.joined(alone), mixed)

    def test_as_many_answers_as_asked_for(self) -> None:
        """No input has more labels than `asking` says."""
        for task in self.small:
            found = max(int(task.solve(inputs).mask.sum(1).max()) for inputs in task.enumerate())
            assert found <= task.asking.most, (
                f"{task}: an input has {found} labels where `asking` says at most {task.asking.most}"
            )

    def test_answers_depend_on_what_stands_before_them(self) -> None:
        """Unless `asking` says that answers look ahead, inputs that begin alike have the same labels."""
        for task in self.small:
            if task.asking.ahead:
                continue
            known: dict[bytes, bytes] = {}
            for inputs in task.enumerate():
                labels = task.solve(inputs)
                for row, place in labels.mask.nonzero().tolist():
                    label = _key(labels.targets[row, place])
                    first = known.setdefault(_key(inputs[row, : place + 1]), label)
                    assert first == label, f"{task}: a label at {place} depends on what stands behind it"

    def test_a_large_batch_has_the_same_rows(self) -> None:
        """Also where a batch is so large that it is worked on in parts."""
        for task in self.typical:
            whole = task.sample(self.large, seed=self.seed)
            alone = task.sample(1, seed=self.seed, start=self.large - 1)
            assert _same_bytes(whole.inputs[-1:], alone.inputs), f"{task}: rows depend on the batch's size"
            assert _same_bytes(whole.targets[-1:], alone.targets)

    def test_bands_hold_samples_of_their_lengths(self) -> None:
        """Where sizes are drawn, no sample of a band is longer than it says, and no label behind that."""
        for task in self.typical:
            least, most = task.sampled_sizes
            assert task.positions_of(most) == task.length, f"{task}: the greatest size is not the length"
            for number in range(2 if least < most else 0):
                band = Band(number=number, of=2)
                drawn, longest = task.sample(64, seed=self.seed, band=band), task.longest_in(band)
                assert int(drawn.lengths.max()) <= longest, f"{task}: a sample is longer than its band"
                assert not drawn.mask[:, longest:].any(), f"{task}: a label stands behind its band"

    def test_mirrored_samples_have_opposite_lengths(self) -> None:
        """Where sizes are drawn, one with an odd number is as much below the greatest as the one before it is
        above the least, which is what it is without mirroring.
        """
        for task in self.typical:
            least, most = task.sampled_sizes
            if least == most:
                continue
            opposite = {
                (task.positions_of(size), task.positions_of(least + most - size))
                for size in range(least, most + 1)
            }
            plain, drawn = (task.sample(64, seed=self.seed, mirrored=mirrored) for mirrored in (False, True))
            assert _same_bytes(plain.inputs[::2], drawn.inputs[::2]), f"{task}: mirroring changes the first"
            lengths = drawn.lengths.view(-1, 2).tolist()
            assert all((first, second) in opposite for first, second in lengths), (
                f"{task}: mirrored samples are not of opposite sizes"
            )
            labels = task.solve(drawn.inputs)
            assert torch.equal(labels.mask, drawn.mask), f"{task}: mirrored samples have other labels"
            assert _same_bytes(labels.targets[labels.mask], drawn.targets[drawn.mask])

    def test_sampling_compiles_to_one_graph(self) -> None:
        """`torch.compile` takes the sampler whole, without a break, and draws the same."""
        if not self.compiles:
            return
        for task in self.typical[:1]:

            def draw(start: Tensor, task: Task = task) -> tuple[Tensor, Tensor]:
                batch = task.sample(3, seed=self.seed, start=start)
                return batch.inputs, batch.targets

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the compiler's own remarks
                torch.compiler.reset()
                compiled = torch.compile(draw, backend="eager", fullgraph=True)
                found = compiled(torch.tensor(7))
            for mine, plain in zip(found, draw(torch.tensor(7)), strict=True):
                assert _same_bytes(mine, plain), f"{task}: compiled sampling differs"

    def test_what_is_no_input_is_refused(self) -> None:
        """Change one entry of a listed input: it is another listed one, or `check` says no."""
        for task in self.small:
            known = {_key(row) for inputs in task.enumerate() for row in inputs}
            rows = (
                task.sample(16, seed=self.seed).inputs
                if task.domain_size() > 16
                else task.decode(torch.arange(task.domain_size()))
            )
            for number, row in enumerate(rows):
                spoiled = row.clone()
                place = number % task.length
                spoiled[place] = row[(place + 1) % task.length] if number % 2 else row[place] + 1
                if _key(spoiled) not in known:
                    assert _refuses(task, spoiled), (
                        f"{task} takes {spoiled.tolist()} for an input that the enumeration does not list: "
                        "either `check_content` is too lax or `domain_size` and `decode` miss it"
                    )
            assert _refuses(task, rows[0][:-1]), f"{task} takes a row that is too short"

    def test_seeds_matter(self) -> None:
        """Another seed, other examples."""
        for task in self.typical:
            first, second = (task.sample(64, seed=seed).inputs for seed in (self.seed, self.seed + 1))
            assert not _same_bytes(first, second), f"{task} ignores its seed"

    def test_same_bytes_on_a_gpu(self) -> None:
        """A CUDA device draws what the CPU draws."""
        _need_gpu()
        for task in self.typical:
            here = task.sample(self.samples, seed=self.seed, start=3)
            there = task.sample(self.samples, seed=self.seed, start=3, device="cuda")
            _same_batch(task, here, there)

    def test_sampling_is_captured_in_a_graph(self) -> None:
        """A CUDA graph records the sampling once and draws fresh examples on every replay."""
        _need_gpu()
        for task in self.typical:
            start = torch.zeros((), dtype=torch.int64, device="cuda")
            task.sample(32, seed=self.seed, start=start, device="cuda")  # tables are made outside the graph
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                recorded = task.sample(32, seed=self.seed, start=start, device="cuda")
                start += 32
            for replay in range(3):
                graph.replay()
                _same_batch(task, task.sample(32, seed=self.seed, start=32 * replay), recorded)

    def test_shapes_types_and_mask(self) -> None:
        """Declared shapes and types; labels only within an example's length, zero elsewhere, one at least."""
        for task in self.typical:
            _check_shapes(task, task.sample(self.samples, seed=self.seed))

    def test_samples_are_inputs(self) -> None:
        """Every sampled row passes the task's own check."""
        for task in self.typical:
            for row in task.sample(self.samples, seed=self.seed).inputs:
                task.check(row)

    def test_text_round_trip(self) -> None:
        """`parse` undoes `render`, on samples and on every input of the small tasks."""
        for task in (*self.typical, *self.small):
            rows: Iterable[Tensor] = task.sample(32, seed=self.seed).inputs
            if task in self.small:
                rows = (row for inputs in task.enumerate() for row in inputs)
            for row in rows:
                text = task.render(row)
                assert _same_bytes(task.parse(text), row), f"{task}: {text!r} does not come back"

    def test_label_balance(self) -> None:
        """The last labels of many samples follow the stated law within five standard errors."""
        count = 16 * self.samples
        for task in self.typical:
            law = self.balance(task)
            if law is None:
                continue
            assert math.isclose(sum(law.values()), 1, abs_tol=1e-9), "the stated law must sum to one"
            seen = Counter(task.sample(count, seed=self.seed).labels.answer.tolist())
            assert set(seen) <= set(law), f"{task}: labels {set(seen) - set(law)} are not in the stated law"
            for value, share in law.items():
                spread = 5 * math.sqrt(share * (1 - share) / count) + 1e-12
                assert abs(seen[value] / count - share) <= spread, (
                    f"{task}: label {value} has share {seen[value] / count:.4f}, {share:.4f} was stated"
                )

    def test_partitions_cover_the_input(self) -> None:
        """Each split gives every position to exactly one party, and something to both."""
        for task in self.typical:
            for name, split in task.partitions().items():
                held = sorted((*split.alice, *split.bob, *split.written))
                assert held == list(range(task.length)), f"{task}: {name} is no split of the positions"
                assert split.alice, f"{task}: {name} leaves Alice nothing"
                assert split.bob, f"{task}: {name} leaves Bob nothing"

    def _compare(self, task: Task, inputs: Tensor, labels: Labels) -> None:
        for row, targets, mask in zip(inputs, labels.targets, labels.mask, strict=True):
            expected = self.definition(task, row.tolist())
            places = mask.nonzero().flatten().tolist()
            assert sorted(expected) == places, f"{task}: {task.render(row)!r} is labelled at {places}"
            for place in places:
                assert _right(task, targets[place], expected[place]), (
                    f"{task}: {task.render(row)!r} has {targets[place].tolist()} at {place}, "
                    f"the definition says {expected[place]}"
                )


def _need_gpu() -> None:
    if not torch.cuda.is_available():
        raise unittest.SkipTest("needs a CUDA device")


def _same_batch(task: Task, here: Batch, there: Batch) -> None:
    for field in ("inputs", "targets", "mask", "lengths"):
        same = _same_bytes(getattr(here, field), getattr(there, field).cpu())
        assert same, f"{task}: {field} differ"


def _right(task: Task, found: Tensor, expected: Any) -> bool:
    if isinstance(task.target_space, Vectors):
        wanted = torch.tensor(expected, dtype=torch.float64)
        return bool(torch.allclose(found.double(), wanted, rtol=0, atol=1e-6))
    return int(found) == int(expected)


def _check_shapes(task: Task, batch: Batch) -> None:
    count, space, answers = len(batch.inputs), task.input_space, task.target_space
    width = (space.width,) if isinstance(space, Reals) else ()
    out = (answers.width,) if isinstance(answers, Vectors) else ()
    _is(task, "inputs", batch.inputs, (count, task.length, *width), torch.float32 if width else torch.int64)
    _is(task, "targets", batch.targets, (count, task.length, *out), torch.float32 if out else torch.int64)
    _is(task, "mask", batch.mask, (count, task.length), torch.bool)
    _is(task, "lengths", batch.lengths, (count,), torch.int64)
    short, long = int(batch.lengths.min()), int(batch.lengths.max())
    assert 1 <= short <= long <= task.length, f"{task}: lengths run from {short} to {long}"
    if isinstance(answers, Classes):
        _within(task, "targets", batch.targets, answers.size)
    if not isinstance(space, Reals):
        _within(task, "inputs", batch.inputs, space.size)
    inside = torch.arange(task.length).unsqueeze(0) < batch.lengths.unsqueeze(1)
    assert bool((inside | ~batch.mask).all()), f"{task}: a label stands behind an example's end"
    assert bool(batch.mask.any(1).all()), f"{task}: an example has no label"
    assert not batch.targets[~batch.mask].any(), f"{task}: targets outside the mask must be zero"


def _is(task: Task, name: str, found: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    same = tuple(found.shape) == shape and found.dtype == dtype
    assert same, f"{task}: {name} are {found.dtype} {tuple(found.shape)}, and {dtype} {shape} was declared"


def _within(task: Task, name: str, found: Tensor, size: int) -> None:
    low, high = int(found.min()), int(found.max())
    assert 0 <= low <= high < size, (
        f"{task}: {name} run from {low} to {high} where 0 to {size - 1} was declared"
    )


def _refuses(task: Task, row: Tensor) -> bool:
    try:
        task.check(row)
    except InvalidInput:
        return True
    return False


def _same_bytes(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and bool(torch.equal(first, second))


def _key(row: Tensor) -> bytes:
    return row.contiguous().numpy().tobytes()
