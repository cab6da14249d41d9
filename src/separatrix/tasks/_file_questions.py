"""Questions from a Hotpot-QA file, with as many of their paragraphs as are wanted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks._question_source import Order, Source, shuffled
from separatrix.tasks.byte_text import Pieces, largest_sum, shorten
from separatrix.tasks.domains import permutation, subset
from separatrix.tasks.hotpot import Hotpot, Question
from separatrix.tasks.interface import require

__all__ = ["FileQuestions"]

_GOLD = 2


class FileQuestions(Source):
    """A uniform question of the file, its two gold paragraphs, and n − 2 of its others, all uniform."""

    def __init__(self, hotpot: Hotpot, *, n: int, pool: int, order: Order, cue: str, chain: bool) -> None:
        """Only questions with at least `pool` paragraphs are taken."""
        self._n, self._order, self._chain = n, order, chain
        self._questions = [question for question in hotpot.questions if len(question.paragraphs) >= pool]
        require(
            bool(self._questions),
            f"No question of {hotpot.path} has {pool} paragraphs; the most is {hotpot.most_paragraphs}. "
            f"Try {hotpot.most_paragraphs}.",
        )
        self._numbers = {f"Question: {found.question}": found for found in self._questions}
        texts: list[str] = []
        self._first, self._counts = [], []
        self.longest = self.longest_continuation = 0
        for question in self._questions:
            lines = [f"{line}\n" for line in _gold_first(question)]
            asked, answer = f"Question: {question.question}\n{cue}", self._after(question)
            self._first.append(len(texts))
            self._counts.append(len(lines))
            texts += [*lines, asked, answer]
            sizes = [len(line.encode()) for line in lines]
            paragraphs = sum(sizes[:_GOLD]) + largest_sum(sizes[_GOLD:], n - _GOLD)
            continuation = len(answer.encode())
            self.longest = max(self.longest, paragraphs + len(asked.encode()) + continuation)
            self.longest_continuation = max(self.longest_continuation, continuation)
        self.prompt_pieces = n + 1
        self.pieces = Pieces(texts, width=self.longest)
        self.cut = sum(self.pieces.sizes[:n])
        self.prompt = self.cut + self.pieces.sizes[self._counts[0]]
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def draw(self, draws: Draws) -> Int[Tensor, "batch piece"]:
        """The others are drawn by sorting random keys, with keys for what a question has not at the end."""
        record = draws.integers("question", (1,), len(self._questions))
        gold = torch.arange(_GOLD, device=record.device).expand(len(record), _GOLD)
        chosen = gold
        most = max(self._counts)
        if self._n > _GOLD:
            keys = draws.keys("others", most - _GOLD)
            missing = torch.arange(_GOLD, most, device=keys.device) >= self._on(record.device)[1].take(record)
            keys.masked_fill_(missing, (1 << 63) - 1)
            others = keys.argsort(dim=1, stable=True)[:, : self._n - _GOLD] + _GOLD
            chosen = torch.cat([gold, others], dim=1)
        order = shuffled(draws, self._n, gold, self._order)
        return self._chosen(record, chosen.gather(1, order))

    def count(self) -> int:
        """Choices and orders of the paragraphs, over all questions."""
        return sum(map(self._inputs, self._counts))

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch piece"]:
        """Question by question; read on the host, one number after another."""
        ends = list(itertools.takewhile(lambda end: end < 1 << 62, itertools.accumulate(self._sizes())))
        found = []
        for number in numbers.tolist():
            record = sum(end <= number for end in ends)
            rest = number - (ends[record - 1] if record else 0)
            found.append([record, *self._order_of(rest, self._counts[record])])
        table = torch.tensor(found, device=numbers.device)
        return self._chosen(table[:, :1], table[:, 1:])

    def continuation(self, paragraphs: list[str], question: str) -> str:
        """Look the question up."""
        require(question in self._numbers, f"The file has no such question: '{shorten(question)}'.")
        record = self._numbers[question]
        gold = {record.paragraphs[place] for place in record.gold}
        for line in paragraphs:
            require(
                line in record.paragraphs,
                f"The file has no such paragraph with this question: '{shorten(line)}'.",
            )
        require(
            len(set(paragraphs)) == len(paragraphs) and gold <= set(paragraphs),
            "The paragraphs must be different ones, and the two that the question needs among them.",
        )
        require(
            self._order == "random" or gold == set(paragraphs[-_GOLD:]),
            "With order gold-last the two paragraphs that the question needs must come last.",
        )
        return self._after(record)

    def _after(self, question: Question) -> str:
        return f" {question.reasoning}\nAnswer: {question.answer}" if self._chain else f" {question.answer}"

    def _sizes(self) -> Iterator[int]:
        return map(self._inputs, self._counts)

    def _inputs(self, count: int) -> int:
        """How many inputs a question with this many paragraphs makes."""
        others = self._n - _GOLD
        free = math.factorial(self._n) if self._order == "random" else math.factorial(others) * _GOLD
        return math.comb(count - _GOLD, others) * free

    def _order_of(self, number: int, count: int) -> list[int]:
        """The paragraphs, gold ones being 0 and 1, in the order with this number."""
        others = self._n - _GOLD
        orders = math.factorial(self._n if self._order == "random" else others)
        number, order = divmod(number, orders)
        number, swap = divmod(number, 1 if self._order == "random" else _GOLD)
        chosen = [
            place + _GOLD for place in subset(torch.tensor([number]), others, count - _GOLD)[0].tolist()
        ]
        if self._order == "gold-last":
            ordered = [chosen[place] for place in permutation(torch.tensor([order]), others)[0].tolist()]
            return [*ordered, swap, 1 - swap]
        every = [0, 1, *chosen]
        return [every[place] for place in permutation(torch.tensor([order]), self._n)[0].tolist()]

    def _chosen(
        self, record: Int[Tensor, "batch 1"], places: Int[Tensor, "batch n"]
    ) -> Int[Tensor, "batch piece"]:
        first, counts = (table.take(record) for table in self._on(record.device))
        return torch.cat([first + places, first + counts, first + counts + 1], dim=1)

    def _on(self, device: torch.device) -> tuple[Int[Tensor, "question"], Int[Tensor, "question"]]:
        """Where each question's pieces begin and how many paragraphs it has, copied once."""
        if device not in self._tables:
            self._tables[device] = (
                torch.tensor(self._first, device=device),
                torch.tensor(self._counts, device=device),
            )
        return self._tables[device]


def _gold_first(question: Question) -> list[str]:
    gold = [question.paragraphs[place] for place in question.gold]
    return [*gold, *(line for line in question.paragraphs if line not in gold)]
