"""Greedy decoding: a model reads prompts and writes on, one token at a time, until each row has answered.

Rows of a batch go position by position together. A row whose prompt is longer goes on reading while others
write, so that what a row writes depends on nothing but its own prompt. Where a script allows searches, the
words between <StartSearch> and <EndSearch> are a pattern; its result is the row's next token, whatever the
model would have written there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.asking import Asking, Transcript
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.runs import Outcome, Progress, Run, Search
from separatrix.generation.scripts.base import Script
from separatrix.generation.searching import require_engine
from separatrix.generation.spelling import AsWritten
from separatrix.models.interface import CausalModel
from separatrix.tasks.vocabulary import Vocabulary

__all__ = ["Rules", "generate", "greedy"]

_BATCH: Final = 64
_ANY_LENGTH: Final = 1 << 62


class Rules(Protocol):
    """How a run goes, as scripts state it."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's words."""

    @property
    def answers(self) -> Collection[int]:
        """Tokens that end a run when the model writes one outside a search."""

    @property
    def limit(self) -> int:
        """The most tokens added to a prompt, results of searches included."""

    @property
    def searches(self) -> bool:
        """Whether words between the search markers are searches."""


def generate(
    model: CausalModel[Any],
    prompts: Sequence[Sequence[int]],
    rules: Rules,
    *,
    limit: int | None = None,
    batch: int = _BATCH,
    device: torch.device | str = "cpu",
    search_limits: SearchLimits | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Run]:
    """A run for each prompt, in their order; `limit` lowers or raises the script's own."""
    vocabulary = rules.vocabulary
    if isinstance(rules, Script):
        _refuse_longer(prompts, rules)
    size = vocabulary.size if vocabulary.pad is None else vocabulary.pad  # padding is last, and no word
    _check_prompts(prompts, size)
    asking = None
    if rules.searches:
        require_engine()
        spelling = rules.spelling if isinstance(rules, Script) else AsWritten
        asking = Asking(vocabulary, search_limits or SearchLimits(), spelling)
    return _decoded(
        model,
        prompts,
        answers=frozenset(rules.answers),
        limit=rules.limit if limit is None else limit,
        size=size,
        asking=asking,
        batch=batch,
        device=device,
        progress=progress,
    )


def greedy(
    model: CausalModel[Any],
    prompts: Sequence[Sequence[int]],
    answers: Collection[int],
    limit: int,
    *,
    batch: int = _BATCH,
    device: torch.device | str = "cpu",
) -> list[Run]:
    """A run for each prompt, with no words and no searches."""
    _check_prompts(prompts, None)
    return _decoded(
        model,
        prompts,
        answers=frozenset(answers),
        limit=limit,
        size=None,
        asking=None,
        batch=batch,
        device=device,
        progress=None,
    )


def _check_prompts(prompts: Sequence[Sequence[int]], size: int | None) -> None:
    for place, prompt in enumerate(prompts):
        if not prompt:
            raise InvalidInput(f"A prompt has at least one token; prompt {place + 1} has none.")
        strange = next((t for t in prompt if t < 0 or (size is not None and t >= size)), None)
        if strange is not None:
            most = "" if size is None else f" to {size - 1}"
            raise InvalidInput(f"Tokens of a prompt run from 0{most}; got {strange} in prompt {place + 1}.")


def _refuse_longer(prompts: Sequence[Sequence[int]], script: Script) -> None:
    place = max(range(len(prompts)), key=lambda each: len(prompts[each]), default=0)
    if prompts and len(prompts[place]) > script.longest:
        raise InvalidInput(
            f"{script.task.name} with n={script.task.n} has texts of at most {script.longest:,} tokens; "
            f"prompt {place + 1} has {len(prompts[place]):,}. Build the model for a larger n."
        )


def _room(model: CausalModel[Any], prompt: Sequence[int], place: int) -> int:
    """Tokens that the model can still read behind a prompt, and one more that it need not read."""
    if model.longest is None:
        return _ANY_LENGTH
    if len(prompt) > model.longest:
        raise InvalidInput(
            f"This model was made for texts of at most {model.longest:,} tokens; prompt {place + 1} has "
            f"{len(prompt):,}. Build it for a larger n."
        )
    return model.longest + 1 - len(prompt)


def _decoded(
    model: CausalModel[Any],
    prompts: Sequence[Sequence[int]],
    *,
    answers: frozenset[int],
    limit: int,
    size: int | None,
    asking: Asking | None,
    batch: int,
    device: torch.device | str,
    progress: Callable[[Progress], None] | None,
) -> list[Run]:
    if limit < 0 or batch < 1:
        raise InvalidInput(f"A limit is at least 0 and a batch at least 1; got {limit} and {batch}.")
    room = [_room(model, prompt, place) for place, prompt in enumerate(prompts)]
    rows = [
        _Row(prompt, answers, min(limit, left), size, asking)
        for prompt, left in zip(prompts, room, strict=True)
    ]
    told = _Told(rows, progress)
    # Rows of like length go together, so that fewer wait for others to be read.
    waiting = sorted(rows, key=lambda row: len(row.prompt)) if limit else []
    for start in range(0, len(waiting), batch):
        _write_together(model, waiting[start : start + batch], device, told)
    return [row.run() for row in rows]


class _Row:
    """One prompt and what has been written behind it."""

    def __init__(
        self,
        prompt: Sequence[int],
        answers: frozenset[int],
        limit: int,
        size: int | None,
        asking: Asking | None,
    ) -> None:
        self.prompt = list(prompt)
        self.written: list[int] = []
        self.outcome: Outcome | None = None if limit else "limit"
        self._answers = answers
        self._limit = limit
        self._size = size
        self._asking = asking
        self._transcript: Transcript | None = None
        self._result: int | None = None
        self._returned: list[int] = []
        self._searches: list[Search] = []

    def next(self, position: int, choice: int | None) -> int:
        """The token at this position: the prompt's, a search's result, or the model's choice.

        A row that has ended needs a token too, until it is dropped; any that the model knows will do.
        """
        if position < len(self.prompt):
            return self.prompt[position]
        if self.outcome is None:
            self._write(choice)
        return self.written[-1] if self.outcome is None else self.prompt[0]

    def run(self) -> Run:
        """What happened."""
        assert self.outcome is not None
        return Run(
            prompt=len(self.prompt),
            written=tuple(self.written),
            returned=frozenset(self._returned),
            searches=tuple(self._searches),
            outcome=self.outcome,
        )

    def _write(self, choice: int | None) -> None:
        if self._result is not None:
            self._returned.append(len(self.written))
            self._put(self._result)
            self._result = None
        elif choice is None or (self._size is not None and choice >= self._size):
            self.outcome = "invalid"
        elif self._asking is not None and choice == self._asking.end:
            self._search(self._read())
        else:
            searching = self._put(choice)
            if choice in self._answers and not searching:
                self.outcome = "answered"
        if self.outcome is None and len(self.written) >= self._limit:
            self.outcome = "limit"

    def _put(self, token: int) -> bool:
        """Write a token down; whether it stands in an open search."""
        self.written.append(token)
        if self._asking is None:
            return False
        transcript = self._read()
        transcript.add(token)
        return transcript.searching

    def _read(self) -> Transcript:
        """The transcript, begun with the prompt when it is first needed."""
        assert self._asking is not None
        if self._transcript is None:
            self._transcript = Transcript(self._asking)
            for token in self.prompt:
                self._transcript.add(token)
        return self._transcript

    def _search(self, transcript: Transcript) -> None:
        assert self._asking is not None
        place = len(self.written)
        self.written.append(self._asking.end)
        if not transcript.searching:
            self.outcome = "invalid"
        elif len(self.written) < self._limit:
            record, self._result = transcript.ask(place)
            self._searches.append(record)
            if self._result is None:
                self.outcome = "timeout" if record.outcome == "timeout" else "invalid"


class _Told:
    """Whoever wants to know how far it is, told after every position."""

    def __init__(self, rows: list[_Row], progress: Callable[[Progress], None] | None) -> None:
        self._rows = rows
        self._progress = progress

    def __call__(self) -> None:
        if self._progress is not None:
            tokens = sum(len(row.written) for row in self._rows)
            done = sum(row.outcome is not None for row in self._rows)
            self._progress(Progress(tokens=tokens, done=done, prompts=len(self._rows)))


@torch.no_grad()
def _write_together(
    model: CausalModel[Any], rows: list[_Row], device: torch.device | str, told: Callable[[], None]
) -> None:
    """Read what all prompts have in length, then go on position by position until every row has ended."""
    position = min(len(row.prompt) for row in rows)
    prefix = torch.tensor([row.prompt[:position] for row in rows], device=device)
    room = 2 * position  # doubled whenever it is used up, so that a state that grows is seldom copied
    scores, state = model.read(prefix, model.reserve(model.start(len(rows), device=device), room))
    while True:
        choices = _choices(scores)
        tokens = [row.next(position, choice) for row, choice in zip(rows, choices, strict=True)]
        told()
        going = [place for place, row in enumerate(rows) if row.outcome is None]
        if not going:
            return
        if 2 * len(going) < len(rows):
            state = model.kept(state, torch.tensor(going, device=device))
            rows, tokens = [rows[place] for place in going], [tokens[place] for place in going]
            room = position  # what is kept has none
        if position >= room:
            room = 2 * position
            state = model.reserve(state, room - position)
        scores, state = model.step(torch.tensor(tokens, device=device), state)
        position += 1


def _choices(scores: Float[Tensor, "batch out"]) -> list[int | None]:
    """The first of the largest scores in each row; none where a score is no number."""
    numbers = torch.where(scores.isnan().any(dim=-1), -1, scores.argmax(dim=-1))
    return [choice if choice >= 0 else None for choice in numbers.tolist()]
