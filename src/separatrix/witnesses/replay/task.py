"""Runs of a recurrent circuit: at most n words that it reads, then the word it answers with.

>>> from separatrix.witnesses.replay.examples import parity
>>> runs = CircuitRuns(n=4, circuit=parity())
>>> runs.render_target(runs.solve(runs.parse("b a b").unsqueeze(0)).answer[0])
'EVEN'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import Batch, Classes, Labels, Partition, TokenTask
from separatrix.tasks.domains import digits, split_union
from separatrix.tasks.interface import Asking, option, require, require_numbered
from separatrix.tasks.shaping import positions, uniform_between
from separatrix.tasks.vocabulary import Vocabulary, words
from separatrix.witnesses.replay.circuits import RecurrentCircuit

__all__ = ["CircuitRuns"]


@dataclass(frozen=True, kw_only=True)
class CircuitRuns(TokenTask):
    """Say what a recurrent circuit answers to 1 to n words.

    The oracle is the circuit, run step by step: the theorem is about following a network, whatever it does.
    The label stands at the last word; a run without an answer within `steps` steps has none. Samples are
    uniform in their length and then in their words. Circuits come from anywhere, so the task has no name on
    the command line's list.
    """

    name = "circuit-runs"
    title = "Runs of a recurrent circuit"
    source = "W"

    n: int = option(help="most words it reads")
    circuit: RecurrentCircuit = option(help="the network", flag=False)  # noqa: RUF009
    steps: int | None = option(None, help="most steps of a run, one for each word if nothing is said")

    def validate(self) -> None:
        """Sizes within reach."""
        require(1 <= self.n <= 1 << 16, f"A circuit is run on 1 to 2^16 words; got n={self.n}. Try 16.")
        require(
            self.steps is None or self.n <= self.steps <= 1 << 20,
            f"A circuit takes a step for each of n={self.n} words, and at most 2^20; "
            f"got steps={self.steps}. Try {2 * self.n}.",
        )

    @property
    def most_steps(self) -> int:
        """Steps that a run may take."""
        return self.n if self.steps is None else self.steps

    @property
    def vocabulary(self) -> Vocabulary:
        """Answers, and what the circuit reads."""
        circuit = self.circuit
        return Vocabulary(words("answer", *circuit.answers), words("input", *circuit.reads), padded=True)

    @property
    def length(self) -> int:
        """The words and nothing else."""
        return self.n

    @property
    def target_space(self) -> Classes:
        """An answer."""
        return Classes(size=len(self.circuit.answers))

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    def draw(self, draws: Draws) -> Batch:
        """Uniform length, uniform words."""
        count = uniform_between(draws, "length", 1, self.n)
        inputs = self._ended(draws.integers("words", (self.n,), len(self.circuit.reads)), count)
        labels = self.solve(inputs)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=count)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Every row is run."""
        vocabulary = self.vocabulary
        targets = torch.zeros_like(inputs)
        mask = torch.zeros_like(inputs, dtype=torch.bool)
        for row, tokens in enumerate(inputs.tolist()):
            given = [vocabulary.word(token) for token in tokens if token != vocabulary.pad]
            most = self.most_steps if self.circuit.thinks else len(given)
            answer = self.circuit.run(given, most_steps=most).answer
            if answer is not None:
                targets[row, len(given) - 1] = vocabulary.token(answer)
                mask[row, len(given) - 1] = True
        return Labels(targets=targets, mask=mask)

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """One word or more that the circuit reads."""
        given = self.render(row).split()
        require(
            len(given) >= 1 and all(word in self.circuit.reads for word in given),
            f"{self.circuit.name[:40]} reads 1 to {self.n} of the words {' '.join(self.circuit.reads)[:60]}; "
            f"got '{' '.join(given)[:60]}'.",
        )

    def domain_size(self) -> int:
        """The texts of each length."""
        return sum(len(self.circuit.reads) ** count for count in range(1, self.n + 1))

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """Shortest first; the first word counts most."""
        require_numbered(self)
        base = len(self.circuit.reads)
        part, rest = split_union(numbers, [base**count for count in range(1, self.n + 1)])
        # The words stand in front: the number of a longer text that goes on with the first word.
        shifted = rest * numbers.new_tensor([base ** (self.n - k) for k in range(1, self.n + 1)])[part]
        return self._ended(digits(shifted, [base] * self.n), part + 1)

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the first half."""
        return {"halves": Partition.prefix(self.n, self.n // 2)} if self.n > 1 else {}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The answer's word."""
        return self.vocabulary.word(int(target))

    def _ended(
        self, numbers: Int[Tensor, "batch pos"], count: Int[Tensor, "batch"]
    ) -> Int[Tensor, "batch pos"]:
        """The first `count` words, and padding behind them."""
        vocabulary = self.vocabulary
        assert vocabulary.pad is not None
        rows = numbers + vocabulary.offset("input")
        return rows.masked_fill_(positions(rows) >= count.unsqueeze(1), vocabulary.pad)
