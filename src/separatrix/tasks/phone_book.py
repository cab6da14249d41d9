"""Phone book: names with numbers, then one of the names; answer its number (named by W, section 4.2).

>>> from separatrix.tasks import task
>>> book = task("phone-book", n=2, digits=4)
>>> row = book.parse('''Phone book:
... Ada Abara: 4071
... Amir Ivers: 9388
... Question: What is the number of Amir Ivers?
... Answer:''')
>>> book.render(row)[-12:]
'Answer: 9388'
>>> labels = book.solve(row.unsqueeze(0))
>>> "".join(book.render_target(target) for target in labels.targets[0][labels.mask[0]])
' 9388\\\\n'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks._stock import MOST_PEOPLE, person
from separatrix.tasks.byte_text import ByteTask, Pieces, divide, largest_sum, shorten
from separatrix.tasks.domains import arrangement, arrangements, digits
from separatrix.tasks.interface import Batch, Partition, option, require

_HEADER: Final = "Phone book:\n"
_QUESTION: Final = "Question: What is the number of "
_CUE: Final = "Answer:"
_MOST_DIGITS: Final = 15


@TASKS.register("phone-book")
@dataclass(frozen=True, kw_only=True)
class PhoneBook(ByteTask):
    """Look up one entry of a list in plain text.

    W names the test (section 4.2, after others' measurements) and gives no law. Here the n names are
    different ones, uniform from the first `names` of an invented stock and in random order; every number
    has `digits` uniform digits, so numbers may repeat; the entry asked for is uniform.

    Tokens are bytes. The answer's label is a space, the digits and a newline.
    """

    name = "phone-book"
    title = "Phone book"
    source = "W"
    showcase = MappingProxyType({"n": 8})

    n: int = option(help="entries of the book")
    digits: int = option(7, help="digits of a number")
    names: int = option(MOST_PEOPLE, help="names to choose from")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(
            1 <= self.names <= MOST_PEOPLE,
            f"phone-book knows 1 to {MOST_PEOPLE} names; got names={self.names}. Try {MOST_PEOPLE}.",
        )
        require(
            1 <= self.n <= self.names,
            f"phone-book needs 1 ≤ n ≤ {self.names}, one entry a name; got n={self.n}. "
            f"Try {min(32, self.names)}.",
        )
        require(
            1 <= self.digits <= _MOST_DIGITS,
            f"phone-book needs numbers of 1 to {_MOST_DIGITS} digits; got digits={self.digits}. Try 7.",
        )

    @property
    def length(self) -> int:
        """The longest text: the longest names all in one book, and the longest of them asked for."""
        return _longest(self.n, self.digits, self.names)

    @property
    def cue(self) -> str:
        """The number comes next."""
        return _CUE

    @property
    def longest_continuation(self) -> int:
        """A space and the digits."""
        return 1 + self.digits

    def draw(self, draws: Draws) -> Batch:
        """Different names, uniform numbers, a uniform question."""
        listed = draws.distinct("names", self.n, self.names)
        numbers = draws.integers("numbers", (self.n, self.digits), 10)
        return self._write(listed, numbers, draws.integers("asked", (1,), self.n))

    def continuation(self, prompt: str) -> str:
        """Go through the entries to the one that is asked for."""
        lines = prompt.split("\n")
        require(
            len(lines) == self.n + 3 and f"{lines[0]}\n" == _HEADER and lines[-1] == _CUE,
            f"A phone book has the line '{_HEADER.strip()}', {self.n} entries, a question and '{_CUE}'; "
            f"got '{shorten(prompt)}'.",
        )
        book: dict[str, str] = {}
        for line in lines[1:-2]:
            entry, _, number = line.partition(": ")
            require(
                entry in _known(self.names) and entry not in book,
                f"An entry needs one of the {self.names} known names, each once; got '{shorten(line)}'.",
            )
            require(
                len(number) == self.digits and set(number) <= set("0123456789"),
                f"The number of {entry} must have {self.digits} digits; got '{shorten(number)}'.",
            )
            book[entry] = number
        asked = lines[-2].removeprefix(_QUESTION).removesuffix("?")
        require(
            lines[-2] == f"{_QUESTION}{asked}?" and asked in book,
            f"The question must be '{_QUESTION}…?' with a name from the book; got '{shorten(lines[-2])}'.",
        )
        return f" {book[asked]}"

    def domain_size(self) -> int:
        """Lists of names, times numbers, times questions."""
        numbers: int = 10 ** (self.n * self.digits)
        return arrangements(self.n, self.names) * numbers * self.n

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """The question counts fastest, then the numbers, then the names."""
        rest, asked = divide(numbers, self.n)
        order, values = divide(rest, 10 ** (self.n * self.digits))
        places = digits(values, [10] * (self.n * self.digits)).view(-1, self.n, self.digits)
        return self._write(arrangement(order, self.n, self.names), places, asked.unsqueeze(1)).inputs

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the book, Bob the question, where the first n names are listed and one asked for."""
        sizes = self._pieces().sizes
        book = len(_HEADER) + sum(sizes[: self.n])
        asked = book + sizes[self.names] - self.longest_continuation
        return {"prefix/suffix": Partition.prefix(self.length, book, given=asked)}

    def _pieces(self) -> Pieces:
        return _pieces(self.names, self.digits, self.length - len(_HEADER))

    def _write(
        self,
        listed: Int[Tensor, "batch n"],
        numbers: Int[Tensor, "batch n digits"],
        asked: Int[Tensor, "batch 1"],
    ) -> Batch:
        """Entries and question with zeros for digits, and the digits added in their places."""
        question = listed.gather(1, asked) + self.names
        rows, bounds = self._pieces().write(torch.cat([listed, question], dim=1), lead=_HEADER)
        # Digits end before the newline of an entry, and where the text ends.
        behind = torch.cat([bounds[:, 1:-1] - 1, bounds[:, -1:]], dim=1)
        answer = numbers.gather(1, asked.unsqueeze(2).expand(-1, 1, self.digits))
        places = behind.unsqueeze(2) - self.digits + torch.arange(self.digits, device=rows.device)
        rows.scatter_add_(1, places.flatten(1), torch.cat([numbers, answer], dim=1).flatten(1))
        end = bounds[:, -1]
        return self._labelled(rows, end - self.longest_continuation, end)


@lru_cache(maxsize=256)
def _longest(n: int, size: int, names: int) -> int:
    sizes = [len(person(number).encode()) for number in range(names)]
    book = len(_HEADER) + largest_sum(sizes, n) + n * (len(": \n") + size)
    return book + len(_QUESTION) + max(sizes) + len(f"?\n{_CUE} ") + size


@cache
def _pieces(names: int, size: int, width: int) -> Pieces:
    """An entry for each name, then a question for each name."""
    known = [person(number) for number in range(names)]
    zeros = "0" * size
    entries = (f"{name}: {zeros}\n" for name in known)
    questions = (f"{_QUESTION}{name}?\n{_CUE} {zeros}" for name in known)
    return Pieces((*entries, *questions), width=width)


@lru_cache(maxsize=16)
def _known(names: int) -> frozenset[str]:
    return frozenset(person(number) for number in range(names))
