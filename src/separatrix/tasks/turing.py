"""Turing machine runs: a tape, then the tape the machine leaves and the state it halts in (W, theorem 4.1).

W's theorems 4.1, 5.4 and 5.8 let small recurrent models run any machine by writing the run down, one step
after another; without that, the answer must come at once.

>>> from separatrix.tasks import task
>>> add_one = task("turing", n=2, machine="binary-increment", form="direct")
>>> row = add_one.parse("<s> 0 1 =")
>>> add_one.render(row)
'<s> 0 1 = _ 1 0 _'
>>> add_one.render_target(add_one.solve(row.unsqueeze(0)).answer[0])
'done'
>>> step_by_step = task("turing", n=2, machine="binary-increment")
>>> step_by_step.render(step_by_step.parse("<s> 0 1 ="))
'<s> 0 1 = 0 R right 1 R right _ L carry 0 L carry 1 S done _ 1 0 _'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks._turing_inputs import PROBLEMS, Problem, Reach
from separatrix.tasks.interface import Asking, Batch, ChainTask, Classes, Labels, Partition, option, require
from separatrix.tasks.machines import MOVES, Machine, execute, library_machine
from separatrix.tasks.shaping import constant
from separatrix.tasks.vocabulary import Vocabulary, words

_MOST_STEPS: Final = 1 << 16
_STEP_WORDS: Final = 3


@TASKS.register("turing")
@dataclass(frozen=True, kw_only=True)
class Turing(ChainTask):
    """Run a machine of the library to its end.

    A row is `<s>`, the n cells of the input, `=`, and then what a model has to write: in the chain of
    thought three words for each step (the symbol written, the move, the next state), in both forms the
    `space` cells of the final tape, from `origin` cells left of the input on, and last the halting state.
    The moves are L, R and S (stay). All of it is labelled from `=` on; the last word is a label only.

    The papers give no law for the tapes. Here they are uniform over the n-digit words (binary-increment,
    parity), over the numbers 0 … n in strokes (unary-increment), over pairs of factors of ⌈(n − 1)/2⌉ and
    ⌊(n − 1)/2⌋ digits (binary-multiplication). palindrome and balanced-brackets are accepted with
    probability ½, uniform among the words that are and among those that are not. The busy beavers start on
    an empty tape and so have one example, with n = 0.

    Unless they are given, `max_steps` and `space` are the most that any input of n cells needs.
    """

    name = "turing"
    title = "Turing machine"
    source = "W"
    showcase = MappingProxyType({"n": 5})

    n: int = option(help="cells of the input tape; 0 for the busy beavers")
    machine: Literal[
        "unary-increment",
        "binary-increment",
        "parity",
        "palindrome",
        "balanced-brackets",
        "binary-multiplication",
        "busy-beaver-2",
        "busy-beaver-3",
        "busy-beaver-4",
    ] = option("binary-increment", help="the machine to run")
    form: Literal["direct", "cot"] = option("cot", help="the result at once, or every step before it")
    max_steps: int = option(0, help="steps to make room for; 0 for as many as any input needs")
    space: int = option(0, help="cells to make room for; 0 for as many as any input needs")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        self._require_size()
        needed = self.problem.reach(self.n)
        for key, given, least in (
            ("max_steps", self.max_steps, needed.steps),
            ("space", self.space, needed.space),
        ):
            require(
                given == 0 or least <= given <= _MOST_STEPS,
                f"{self.machine} with n={self.n} needs {key} from {least} to {_MOST_STEPS}, or 0 for "
                f"{least}; got {key}={given}.",
            )

    def _require_size(self) -> None:
        problem, n = self.problem, self.n
        if problem.least == 0:
            require(n == 0, f"{self.machine} starts on an empty tape; got n={n}. Try 0.")
            return
        kind = "an even n" if problem.even else "n"
        require(
            n >= problem.least and not (problem.even and n % 2),
            f"{self.machine} needs {kind} ≥ {problem.least}; got n={n}. Try 8.",
        )
        require(
            n <= _MOST_STEPS and problem.reach(n).steps <= _MOST_STEPS,
            f"turing takes runs of at most {_MOST_STEPS:,} steps, and {self.machine} with n={n} may need "
            f"more. Try {_largest(problem)}.",
        )

    @property
    def problem(self) -> Problem:
        """The tapes of this machine."""
        return PROBLEMS[self.machine]

    @property
    def program(self) -> Machine:
        """The machine itself."""
        return library_machine(self.machine)

    @property
    def reach(self) -> Reach:
        """Room for steps, cells left of the input and cells in all."""
        needed = self.problem.reach(self.n)
        return Reach(self.max_steps or needed.steps, needed.left, self.space or needed.space)

    @property
    def origin(self) -> int:
        """Where the input's first cell lies in the final tape."""
        return self.reach.left

    @property
    def vocabulary(self) -> Vocabulary:
        """States (live ones first), symbols and moves, then the two marks."""
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
        """The prompt, the chain and the final tape; the last label needs no position of its own."""
        chain = _STEP_WORDS * self.reach.steps if self.form == "cot" else 0
        return self.n + 2 + chain + self.reach.space

    @property
    def target_space(self) -> Classes:
        """A state, a symbol or a move."""
        return Classes(size=self.vocabulary.offset("mark"))

    @property
    def asking(self) -> Asking:
        """From the end of the prompt on."""
        return Asking(most=self.length - self.prompt + 1)

    def draw(self, draws: Draws) -> Batch:
        """Random tapes, run in lockstep."""
        return self._run(self.problem.draw(draws, self.n))

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Run the machine on the tape of the prompt."""
        return self._run(inputs[:, 1 : self.n + 1] - self.vocabulary.offset("symbol")).labels

    @property
    def prompt(self) -> int:
        """The tape between its two marks."""
        return self.n + 2

    def check_prompt(self, row: Int[Tensor, "prompt"]) -> None:
        """A tape of this machine between the marks."""
        vocabulary = self.vocabulary
        tokens = row.tolist()
        prompt = [vocabulary.word(token) for token in tokens if token != vocabulary.pad]
        tape = [token - vocabulary.offset("symbol") for token in tokens[1:-1]]
        require(
            len(prompt) == self.prompt
            and prompt[0] == "<s>"
            and prompt[-1] == "="
            and self.problem.accepts(tape),
            f"{self.machine} needs the prompt '<s> tape =' with a tape of {self.problem.describe(self.n)}; "
            f"got '{_short(' '.join(prompt))}'.",
        )

    def completed(self, prompt: Int[Tensor, "prompt"]) -> Int[Tensor, "pos"]:
        """The run that the prompt calls for, by the plain simulator."""
        vocabulary, machine = self.vocabulary, self.program
        given = [vocabulary.word(token) for token in prompt.tolist()]
        done = execute(machine, given[1:-1], max_steps=self.reach.steps)
        written = [
            word
            for step in done.steps
            if self.form == "cot"
            for word in (step.rule.write, step.rule.move, step.rule.state)
        ]
        final = [machine.blank] * self.reach.space
        begin = self.origin + done.first
        final[begin : begin + len(done.tape)] = done.tape
        return vocabulary.parse(" ".join((*given, *written, *final)), length=self.length)

    def domain_size(self) -> int:
        """One input for each tape: the rest of a row follows from it."""
        return self.problem.count(self.n)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """Tapes in the order of their digits, with their runs."""
        return self._run(self.problem.decode(numbers, self.n)).inputs

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the tape, or its first half; Bob has what follows."""
        return {
            "prefix/suffix": Partition.prefix(self.length, self.n + 1, given=self.prompt),
            "halves": Partition.prefix(self.length, 1 + (self.n + 1) // 2, given=self.prompt),
        }

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The word."""
        return self.vocabulary.word(int(target))

    def _run(self, tape: Int[Tensor, "batch n"]) -> Batch:
        """Rows and labels of these tapes: first the machine's steps in lockstep, then the words for them."""
        vocabulary, device = self.vocabulary, tape.device
        codes, cells, state = _simulate(self.program, self.reach, tape)
        symbol, mark = vocabulary.offset("symbol"), vocabulary.offset("mark")
        prompt = self.n + 2
        targets = torch.zeros(len(tape), self.length, dtype=torch.int64, device=device)
        written = targets[:, prompt - 1 :]
        chain = torch.zeros_like(state)
        if self.form == "cot":
            words_of, going_on = _step_words(self.program, vocabulary, device)
            chain = _STEP_WORDS * going_on.take(codes).sum(1, keepdim=True)
            room = _STEP_WORDS * codes.shape[1]
            steps = words_of.index_select(0, codes.flatten()).view(len(tape), room)
            written[:, :room] = steps.masked_fill_(torch.arange(room, device=device) >= chain, 0)
        result = torch.cat([cells + symbol, state], dim=1)
        written.scatter_(1, chain + torch.arange(result.shape[1], device=device), result)
        last = chain + self.reach.space
        places = torch.arange(written.shape[1], device=device)
        mask = torch.zeros(targets.shape, dtype=torch.bool, device=device)
        mask[:, prompt - 1 :] = places <= last
        inputs = torch.empty_like(targets)
        inputs[:, 0] = mark
        inputs[:, 1 : prompt - 1] = tape + symbol
        inputs[:, prompt - 1] = mark + 1
        inputs[:, prompt:] = written[:, :-1].masked_fill(places[:-1] >= last, mark + 2)
        return Batch(inputs=inputs, targets=targets, mask=mask, lengths=(prompt + last).squeeze(1))


def _simulate(
    machine: Machine, reach: Reach, tape: Int[Tensor, "batch n"]
) -> tuple[Int[Tensor, "batch step"], Int[Tensor, "batch cell"], Int[Tensor, "batch 1"]]:
    """All runs at once by table lookup: a code (state and symbol read) a step, final cells, final states.

    A run that has halted keeps its state and changes nothing, so every run takes the same steps.
    """
    symbols = len(machine.alphabet)
    states = (*machine.live, *machine.halting)
    after, write, move = [], [], []
    for number, state in enumerate(states):
        for place, symbol in enumerate(machine.alphabet):
            rule = machine.transitions.get((state, symbol))
            after.append(symbols * (states.index(rule.state) if rule else number))
            write.append(machine.alphabet.index(rule.write) if rule else place)
            move.append(MOVES[rule.move] if rule else 0)
    after_of, write_of, move_of = (constant(tuple(table), tape.device) for table in (after, write, move))
    cells = torch.full((len(tape), reach.space), machine.alphabet.index(machine.blank), device=tape.device)
    cells[:, reach.left : reach.left + tape.shape[1]] = tape
    codes = []
    head = torch.full((len(tape), 1), reach.left, device=tape.device)
    base = torch.full_like(head, symbols * states.index(machine.start))
    for _ in range(reach.steps):
        code = base + cells.gather(1, head)
        codes.append(code)
        cells.scatter_(1, head, write_of.take(code))
        head = head.add_(move_of.take(code))
        base = after_of.take(code)
    return torch.cat([*codes, base[:, :0]], dim=1), cells, base // symbols


def _step_words(
    machine: Machine, vocabulary: Vocabulary, device: torch.device
) -> tuple[Int[Tensor, "code word"], Int[Tensor, "code"]]:
    """The three words of each code's step, and 1 where the machine is still going on."""
    table, going_on = [], []
    for state in (*machine.live, *machine.halting):
        for symbol in machine.alphabet:
            rule = machine.transitions.get((state, symbol))
            spelled = (rule.write, rule.move, rule.state) if rule else (symbol, "S", state)
            table += [vocabulary.token(word) for word in spelled]
            going_on.append(int(rule is not None))
    return constant(tuple(table), device).view(-1, _STEP_WORDS), constant(tuple(going_on), device)


def _largest(problem: Problem) -> int:
    """The largest n whose runs are short enough."""
    low, high = 1, _MOST_STEPS + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if problem.reach(middle).steps <= _MOST_STEPS else (low, middle)
    return low - (low % 2 if problem.even else 0)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"
