"""Runs of any machine: a tape of at most n cells, then the state in which the machine halts.

The registered task `turing` knows the machines of the library and their own tapes. This one takes a machine
from anywhere, so it has no name on the command line's list; every word over the alphabet is a tape.

>>> from separatrix.tasks.machines import parse_machine
>>> flip = parse_machine('''
...     start: flip
...     halt: done
...     flip 0 -> flip 1 R
...     flip 1 -> flip 0 R
...     flip _ -> done S
... ''')
>>> runs = MachineRuns(n=3, program=flip, steps=10)
>>> row = runs.parse("<s> 0 1 =")
>>> runs.render_target(runs.solve(row.unsqueeze(0)).answer[0])
'done'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks._turing_inputs import Reach
from separatrix.tasks.domains import digits, split_union
from separatrix.tasks.interface import (
    Asking,
    Batch,
    Classes,
    Labels,
    Partition,
    TokenTask,
    option,
    require,
    require_numbered,
)
from separatrix.tasks.machines import MOVES, Machine, execute
from separatrix.tasks.shaping import positions
from separatrix.tasks.vocabulary import Vocabulary, words

__all__ = ["MachineRuns"]

_MOST_STEPS: Final = 1 << 20
_LONGEST_TAPE: Final = 1 << 16


@dataclass(frozen=True, kw_only=True)
class MachineRuns(TokenTask):
    """Say in which state a machine halts that is started on a tape of at most n cells.

    A row is `<s>`, the cells and `=`, and the label at `=` is the state. A run that takes more than `steps`
    steps or leaves the cells −left … right has no label. What is left out of `left` and `right` is as much as
    that many steps can reach. Samples are uniform in their length and then in their symbols.
    """

    name = "machine-runs"
    title = "Runs of a machine"
    source = "W"

    n: int = option(help="most cells of the input tape")
    program: Machine = option(help="the machine", flag=False)  # noqa: RUF009
    steps: int = option(help="most steps of a run")
    left: int | None = option(None, help="cells left of the input")
    right: int | None = option(None, help="the last cell to the right, where the input begins at 0")

    def validate(self) -> None:
        """A machine, sizes within reach, and room for the input."""
        require(
            isinstance(self.program, Machine),
            "machine-runs needs a Machine for program, as parse_machine makes one of a text; "
            f"got a {type(self.program).__name__}.",
        )
        require(
            0 <= self.n <= _LONGEST_TAPE,
            f"A tape has 0 to {_LONGEST_TAPE} cells; got n={self.n}. Try 16.",
        )
        require(
            1 <= self.steps <= _MOST_STEPS,
            f"A run has 1 to {_MOST_STEPS:,} steps; got steps={self.steps}. Try 1000.",
        )
        for key, given, least in (("left", self.left, 0), ("right", self.right, self.n)):
            require(
                given is None or (type(given) is int and least <= given <= _MOST_STEPS),
                f"With n={self.n} there must be {key} from {least} to {_MOST_STEPS:,}, or none to take what "
                f"the steps can reach; got {key}={str(given)[:40]}.",
            )

    @property
    def reach(self) -> Reach:
        """Room for steps, cells left of the input and cells in all; one cell behind the input at least."""
        left = self.steps if self.left is None else self.left
        right = max(self.n, self.steps) if self.right is None else self.right
        return Reach(self.steps, left, left + 1 + right)

    @property
    def vocabulary(self) -> Vocabulary:
        """As that of the task turing: states (live ones first), symbols and moves, then the two marks."""
        machine = self.program
        return Vocabulary(
            words("state", *machine.live, *machine.halting),
            words("symbol", *machine.alphabet),
            words("move", *MOVES),
            words("mark", "<s>", "="),
            padded=True,
        )

    @property
    def length(self) -> int:
        """The tape between its marks."""
        return self.n + 2

    @property
    def target_space(self) -> Classes:
        """A state."""
        return Classes(size=len(self.program.states))

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    @property
    def sampled_sizes(self) -> tuple[int, int]:
        """Symbols on the tape."""
        return 0, self.n

    def positions_of(self, size: int) -> int:
        """The tape between its marks."""
        return size + 2

    def draw(self, draws: Draws) -> Batch:
        """Uniform length, uniform symbols."""
        count = self.drawn_sizes(draws)
        tape = draws.integers("symbols", (self.n,), len(self.program.alphabet))
        inputs = self._write(tape, count)
        labels = self.solve(inputs)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=count + 2)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """By the plain simulator, row by row."""
        vocabulary, reach = self.vocabulary, self.reach
        targets = torch.zeros_like(inputs)
        mask = torch.zeros_like(inputs, dtype=torch.bool)
        for row, tokens in enumerate(inputs.tolist()):
            given = [vocabulary.word(token) for token in tokens if token != vocabulary.pad]
            done = execute(self.program, given[1:-1], max_steps=reach.steps)
            cells = [step.cell for step in done.steps]
            within = all(-reach.left <= cell < reach.space - reach.left for cell in cells)
            if done.outcome == "halted" and within:
                targets[row, len(given) - 1] = vocabulary.token(done.state)
                mask[row, len(given) - 1] = True
        return Labels(targets=targets, mask=mask)

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """A tape of this machine between the marks."""
        given = self.render(row).split()
        alphabet = self.program.alphabet
        require(
            len(given) >= 2
            and given[0] == "<s>"
            and given[-1] == "="
            and all(word in alphabet for word in given[1:-1]),
            f"{self.program.name} needs '<s> tape =' with a tape of 0 to {self.n} of the symbols "
            f"{' '.join(alphabet)[:60]}; got '{' '.join(given)[:60]}'.",
        )

    def domain_size(self) -> int:
        """The words of each length: a geometric sum, in closed form as n may be large."""
        base = len(self.program.alphabet)
        return self.n + 1 if base == 1 else (base ** (self.n + 1) - 1) // (base - 1)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """Shortest first, then in the order of their digits."""
        require_numbered(self)
        base = len(self.program.alphabet)
        count, rest = split_union(numbers, [base**k for k in range(self.n + 1)])
        # The k digits stand in front: the number of a longer word that goes on with zeros.
        shifted = rest * numbers.new_tensor([base ** (self.n - k) for k in range(self.n + 1)])[count]
        return self._write(digits(shifted, [base] * self.n), count)

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the tape, or its first half."""
        return {
            "prefix/suffix": Partition.prefix(self.length, self.n + 1),
            "halves": Partition.prefix(self.length, 1 + (self.n + 1) // 2),
        }

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The state."""
        return self.vocabulary.word(int(target))

    def _write(self, tape: Int[Tensor, "batch n"], count: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """`<s>`, the first `count` cells, `=`, padding."""
        vocabulary = self.vocabulary
        rows = torch.nn.functional.pad(tape + vocabulary.offset("symbol"), (1, 1))
        rows[:, 0] = vocabulary.offset("mark")
        end = (count + 1).unsqueeze(1)
        assert vocabulary.pad is not None
        rows.masked_fill_(positions(rows) > end, vocabulary.pad)
        return rows.scatter_(1, end, vocabulary.offset("mark") + 1)
