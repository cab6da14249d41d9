"""Distractor QA: n paragraphs of which two are needed, a question, its answer (W, section 6.2, on Hotpot-QA).

>>> from separatrix.tasks import task
>>> quiz = task("distractor-qa", n=3, shots=0)
>>> row = quiz.parse('''[Ada Abara] Ada Abara works as a baker and lives in the town of Coldford.
... [Coldford] Coldford lies on the river Wend, and its market day is Friday.
... [Yara Novak] Yara Novak works as a potter and lives in the town of Coldford.
... Question: On which day is the market of the town where Yara Novak lives?
... Reasoning:''')
>>> print(quiz.render(row)[-88:])
Reasoning: Yara Novak lives in Coldford. Coldford's market day is Friday.
Answer: Friday
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks._file_questions import FileQuestions
from separatrix.tasks._own_questions import OwnQuestions
from separatrix.tasks._question_source import Source
from separatrix.tasks._stock import DAYS, MOST_PEOPLE, MOST_TOWNS
from separatrix.tasks._town_stories import (
    ASKS,
    LINKS,
    Stories,
    person_pieces,
    question_pieces,
    reasoning_pieces,
    town_pieces,
)
from separatrix.tasks.byte_text import ByteTask, shorten
from separatrix.tasks.hotpot import Hotpot, read_hotpot
from separatrix.tasks.interface import Batch, Partition, option, require

_CUES: Final = {"cot": "Reasoning:", "direct": "Answer:"}
# Worked examples: name, job, home, its river and market day, and which of the two is asked for.
_WORKED: Final = (
    ("Lotte Brandt", "miller", "Saltmoor", "Orrin", "Monday", 0),
    ("Ravi Anand", "printer", "Quarrydown", "Teal", "Saturday", 1),
    ("Selma Osei", "carpenter", "Wexcombe", "Sable", "Thursday", 1),
    ("Piotr Wolny", "singer", "Lanternhythe", "Averil", "Sunday", 0),
)


@TASKS.register("distractor-qa")
@dataclass(frozen=True, kw_only=True)
class DistractorQA(ByteTask):
    """Find two paragraphs among n and put them together, after worked examples with reasoning.

    As in W, n paragraphs with the two that are needed among them come in random order before the question,
    or with those two last, in either order (`order="gold-last"`, W's control). Four worked examples come
    before it all: the same four every time, each with its two paragraphs only. With `form="cot"`, as in W,
    a model writes the reasoning and then the answer, with `form="direct"` the answer alone.

    Without a file the questions are about invented people and towns, uniform in every choice: ⌈n/2⌉
    paragraphs about different people, ⌊n/2⌋ about different towns, everybody's home one of these towns,
    the person asked about one of these people, the market day or the river asked for. With a Hotpot-QA
    file in the distractor form the question is uniform over the file, and so are its n − 2 other
    paragraphs among those that it has; the reasoning is the file's supporting sentences.

    Under one seed, example i asks the same question whatever `n` and `order` are, so `gold_only` gives the
    examples to score on: W counts the questions that every model answers from the gold paragraphs alone.

    Tokens are bytes; what a model has to write is labelled, with a newline at its end.
    """

    name = "distractor-qa"
    title = "Distractor QA"
    source = "W"
    showcase = MappingProxyType({"n": 6, "shots": 0})

    n: int = option(help="paragraphs before the question, the two gold ones included")
    order: Literal["random", "gold-last"] = option("random", help="where the gold paragraphs stand")
    form: Literal["cot", "direct"] = option("cot", help="reasoning and answer, or the answer alone")
    shots: int = option(4, help="worked examples before the paragraphs, 0 to 4")
    people: int = option(MOST_PEOPLE, help="invented people to choose from")
    towns: int = option(MOST_TOWNS, help="invented towns to choose from")
    facts: int = option(len(DAYS), help="jobs, rivers and market days to choose from, of each")
    file: Path | None = option(  # noqa: RUF009
        None, help="a Hotpot-QA file (distractor form) to take questions from"
    )
    pool: int = option(0, help="take only questions of the file with so many paragraphs; 0 for n")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        if isinstance(self.file, (str, os.PathLike)):
            object.__setattr__(self, "file", Path(self.file))
        require(
            self.file is None or isinstance(self.file, Path),
            f"distractor-qa needs a path for file; got {self.file!r}.",
        )
        require(
            0 <= self.shots <= len(_WORKED),
            f"distractor-qa has {len(_WORKED)} worked examples; got shots={self.shots}. Try {len(_WORKED)}.",
        )
        for key, most in (("people", MOST_PEOPLE), ("towns", MOST_TOWNS), ("facts", len(DAYS))):
            given = getattr(self, key)
            require(
                1 <= given <= most,
                f"distractor-qa needs {key} from 1 to {most}; got {key}={given}. Try {most}.",
            )
        require(self.n >= 2, f"distractor-qa needs n ≥ 2, the two gold paragraphs; got n={self.n}. Try 8.")
        if self.file is None:
            self._require_stock()
        else:
            self._require_file()

    def _require_stock(self) -> None:
        most = min(2 * self.people, 2 * self.towns + 1)
        require(
            self.n <= most,
            f"distractor-qa needs n ≤ {most} with people={self.people} and towns={self.towns}, half of the "
            f"paragraphs for each; got n={self.n}. Try {most}.",
        )
        require(self.pool == 0, f"distractor-qa needs a file for pool; got pool={self.pool} and no file.")

    def _require_file(self) -> None:
        stock = (self.people, self.towns, self.facts)
        require(
            stock == (MOST_PEOPLE, MOST_TOWNS, len(DAYS)),
            "distractor-qa takes people, towns and facts from the file; leave these three options out.",
        )
        require(
            self.pool == 0 or self.pool >= self.n,
            f"distractor-qa needs pool ≥ n, or 0 for n; got n={self.n} and pool={self.pool}.",
        )
        # Reads the file now, so that what is wrong with it is said here.
        assert self._source.longest > 0

    def gold_only(self) -> DistractorQA:
        """The same examples with the two gold paragraphs alone."""
        return dataclasses.replace(self, n=2, pool=0 if self.file is None else self.pool or self.n)

    @property
    def preamble(self) -> str:
        """The worked examples."""
        return _preamble(self.shots, self.form)

    @property
    def length(self) -> int:
        """The worked examples and the longest of the questions."""
        return len(self.preamble.encode()) + self._source.longest

    @property
    def cue(self) -> str:
        """What the model goes on from."""
        return _CUES[self.form]

    @property
    def longest_continuation(self) -> int:
        """The longest of the answers, with the reasoning if that is asked for."""
        return self._source.longest_continuation

    def draw(self, draws: Draws) -> Batch:
        """A question and its paragraphs, as the class says."""
        return self._write(self._source.draw(draws))

    def continuation(self, prompt: str) -> str:
        """Read the paragraphs after the worked examples, or look the question up in the file."""
        require(
            prompt.startswith(self.preamble),
            f"This text must begin with the {self.shots} worked examples; got '{shorten(prompt)}'.",
        )
        *paragraphs, question, _ = prompt.removeprefix(self.preamble).split("\n")
        require(
            len(paragraphs) == self.n,
            f"This text needs {self.n} paragraphs of one line each and a question; got '{shorten(prompt)}'.",
        )
        return self._source.continuation(paragraphs, question)

    def domain_size(self) -> int:
        """Every choice the sampler has, counted."""
        return self._source.count()

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """The example with each number."""
        return self._write(self._source.decode(numbers)).inputs

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the paragraphs, Bob the question, where these are the first of the stock."""
        before = len(self.preamble.encode())
        cut, given = before + self._source.cut, before + self._source.prompt
        return {"prefix/suffix": Partition.prefix(self.length, cut, given=given)}

    @cached_property
    def _source(self) -> Source:
        """Kept with the task, so that a file that changes later does not change it."""
        hotpot = None if self.file is None else read_hotpot(self.file)
        return _make_source(self, hotpot)

    def _write(self, chosen: Int[Tensor, "batch piece"]) -> Batch:
        rows, bounds = self._source.pieces.write(chosen, lead=self.preamble)
        return self._labelled(rows, bounds[:, self._source.prompt_pieces], bounds[:, -1])


@lru_cache(maxsize=4)
def _make_source(task: DistractorQA, hotpot: Hotpot | None) -> Source:
    cue, chain = task.cue, task.form == "cot"
    if hotpot is not None:
        pool = task.pool or task.n
        return FileQuestions(hotpot, n=task.n, pool=pool, order=task.order, cue=cue, chain=chain)
    stories = Stories(people=task.people, towns=task.towns, facts=task.facts, cue=cue, chain=chain)
    return OwnQuestions(stories, n=task.n, order=task.order)


@lru_cache(maxsize=16)
def _preamble(shots: int, form: str) -> str:
    texts = []
    for number, (name, job, home, river, day, asked) in enumerate(_WORKED[:shots]):
        paragraphs = ["".join(person_pieces(name, job, home)), "".join(town_pieces(home, river, day))]
        question = "".join(question_pieces(ASKS[asked], name, _CUES[form]))
        value = (day, river)[asked]
        answer = "".join(reasoning_pieces(name, home, LINKS[asked], value)) if form == "cot" else f" {value}"
        # Either paragraph comes first in half of them.
        texts.append("".join((*paragraphs[:: 1 if number % 2 else -1], question, answer, "\n\n")))
    return "".join(texts)
