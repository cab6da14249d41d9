"""Text as bytes: what the text tasks share.

A text task's tokens are the bytes of UTF-8 and one padding token. A row is a prompt and the answer after
it; labels stand from the prompt's last byte on, and the last of them is the newline that ends the answer.
Rows are written without a loop over examples: all the pieces of text that can occur lie end to end in one
table, an example is a list of piece numbers, and one gather copies them all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Task, Tokens, require

__all__ = [
    "NEWLINE",
    "PAD",
    "ByteTask",
    "Pieces",
    "answer_text",
    "divide",
    "largest_sum",
    "numbered_prompts",
    "shorten",
]

PAD: Final = 256
NEWLINE: Final = 10
_AT_ONCE: Final = 256


class Pieces:
    """Pieces of text laid end to end, with room behind them to read padding from."""

    def __init__(self, texts: Iterable[str], *, width: int) -> None:
        """`width` is the most bytes that rows written from these pieces have."""
        encoded = [text.encode() for text in texts]
        self.sizes = tuple(map(len, encoded))
        self._width = width
        self._flat = b"".join(encoded)
        self._tables: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = {}

    def write(
        self, chosen: Int[Tensor, "batch piece"], *, lead: str = ""
    ) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch piece+1"]]:
        """The lead and then each row's pieces, padded; and where each piece begins and the last ends.

        Source and destination run in step within a piece, so the source of place p is p plus an offset
        that changes only where a piece begins: scatter the changes, add them up, and read.
        """
        flat, starts, sizes = self._on(chosen.device)
        size = sizes.take(chosen)
        ends = torch.nn.functional.pad(size.cumsum(1), (1, 0))
        padding = torch.full((len(chosen), 1), len(self._flat), dtype=torch.int64, device=chosen.device)
        offsets = torch.cat([starts.take(chosen), padding], dim=1) - ends
        changes = torch.diff(offsets, dim=1, prepend=torch.zeros_like(padding)).int()
        # One spare column: a row may be full, and then its padding begins behind it.
        source = torch.zeros(len(chosen), self._width + 1, dtype=torch.int32, device=chosen.device)
        source.scatter_add_(1, ends, changes)
        source = source[:, : self._width].cumsum(1, dtype=torch.int32)
        source += torch.arange(self._width, dtype=torch.int32, device=chosen.device)
        before = _lead(lead, chosen.device)
        rows = torch.empty(len(chosen), len(before) + self._width, dtype=torch.int64, device=chosen.device)
        rows[:, : len(before)] = before
        rows[:, len(before) :] = flat.index_select(0, source.flatten()).view(source.shape)
        return rows, ends + len(before)

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The table on a device, copied there once: a copy from the host cannot be captured in a graph."""
        if device not in self._tables:
            text = torch.frombuffer(bytearray(self._flat or b"\0"), dtype=torch.uint8).short()
            flat = torch.cat(
                [text[: len(self._flat)], torch.full((self._width + 1,), PAD, dtype=torch.int16)]
            )
            sizes = torch.tensor(self.sizes, dtype=torch.int64)
            self._tables[device] = (flat.to(device), (sizes.cumsum(0) - sizes).to(device), sizes.to(device))
        return self._tables[device]


@cache
def _lead(text: str, device: torch.device) -> Int[Tensor, "pos"]:
    return torch.tensor(list(text.encode()), dtype=torch.int64, device=device)


@dataclass(frozen=True, kw_only=True)
class ByteTask(Task):
    """A task whose inputs are texts that end in an answer; a leaf says what follows a prompt."""

    @property
    @abstractmethod
    def cue(self) -> str:
        """The last words of a prompt, on a line of their own; the model writes on from there."""

    @abstractmethod
    def continuation(self, prompt: str) -> str:
        """What belongs after a prompt, without the newline at its end; `InvalidInput` if it is no prompt."""

    @property
    @abstractmethod
    def longest_continuation(self) -> int:
        """The most bytes a continuation has."""

    @property
    def input_space(self) -> Tokens:
        """Bytes and padding."""
        return Tokens(size=PAD + 1, pad=PAD)

    @property
    def target_space(self) -> Classes:
        """Bytes."""
        return Classes(size=PAD)

    @property
    def asking(self) -> Asking:
        """Every byte of the answer."""
        return Asking(most=self.longest_continuation + 1)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Each text is read on the host, one after another: this is the oracle, not the sampler."""
        targets = torch.zeros(inputs.shape, dtype=torch.int64)
        mask = torch.zeros(inputs.shape, dtype=torch.bool)
        for number, row in enumerate(inputs.tolist()):
            prompt = self.prompt_of(_text(row))
            answer = f"{self.continuation(prompt)}\n".encode()
            first = len(prompt.encode()) - 1
            targets[number, first : first + len(answer)] = torch.tensor(list(answer))
            mask[number, first : first + len(answer)] = True
        return Labels(targets=targets.to(inputs.device), mask=mask.to(inputs.device))

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """A prompt of the task and the right continuation."""
        text = _text(row.tolist())
        prompt = self.prompt_of(text)
        right, found = self.continuation(prompt), text[len(prompt) :]
        require(
            found == right,
            f"After '{self.cue}' this text must go on with '{shorten(right)}'; got '{shorten(found)}'.",
        )

    def render(self, row: Int[Tensor, "pos"]) -> str:
        """The bytes as text, up to the padding."""
        tokens = row.tolist()
        require(
            all(0 <= token <= PAD for token in tokens),
            f"Tokens of {self.name} are bytes, 0 to 255, and {PAD} for padding; got {shorten(str(tokens))}.",
        )
        return bytes(token for token in tokens if token != PAD).decode(errors="backslashreplace")

    def parse(self, text: str) -> Int[Tensor, "pos"]:
        """A text as bytes, padded; a text that stops at the end of its prompt is completed."""
        if text.endswith(f"\n{self.cue}"):
            text += self.continuation(text)
        try:
            tokens = text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"A text must be valid Unicode; got a lone surrogate at character {error.start + 1}."
            ) from None
        require(
            len(tokens) <= self.length,
            f"This task's texts have at most {self.length:,} bytes; got {len(tokens):,}.",
        )
        row = torch.tensor([*tokens, *[PAD] * (self.length - len(tokens))], dtype=torch.int64)
        self.check(row)
        return row

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The byte as a character; those that have none as an escape."""
        return "\\n" if int(target) == NEWLINE else bytes([int(target)]).decode(errors="backslashreplace")

    def prompt_of(self, text: str) -> str:
        """A whole text up to the end of its cue; `InvalidInput` if it has none."""
        place = text.rfind(f"\n{self.cue}")
        require(place >= 0, f"A text of {self.name} needs a line that begins with '{self.cue}'; got none.")
        return text[: place + 1 + len(self.cue)]

    def _labelled(
        self, rows: Int[Tensor, "batch pos"], prompt: Int[Tensor, "batch"], end: Int[Tensor, "batch"]
    ) -> Batch:
        """Rows as a batch: each place from the prompt's last byte on is labelled with the byte after it."""
        first, last = prompt.unsqueeze(1) - 1, end.unsqueeze(1) - 1
        places = first + torch.arange(self.longest_continuation + 1, device=rows.device)
        # A shorter continuation writes its last label several times, which changes nothing.
        places = torch.minimum(places, last)
        following = rows.gather(1, (places + 1).clamp_(max=rows.shape[1] - 1))
        following.masked_fill_(places == last, NEWLINE)
        targets = torch.zeros_like(rows).scatter_(1, places, following)
        mask = torch.zeros_like(rows, dtype=torch.bool).scatter_(1, places, True)
        return Batch(inputs=rows, targets=targets, mask=mask, lengths=end)


def numbered_prompts(task: ByteTask, numbers: Sequence[int], *, seed: int) -> Iterator[tuple[int, str, str]]:
    """Number, prompt and right continuation of each of these examples under a seed."""
    for first in range(0, len(numbers), _AT_ONCE):
        chosen = list(numbers[first : first + _AT_ONCE])
        rows = task.sample(len(chosen), seed=seed, start=torch.tensor(chosen)).inputs
        for number, row in zip(chosen, rows, strict=True):
            before, cue, continuation = task.render(row).rpartition(f"\n{task.cue}")
            yield number, before + cue, continuation


def divide(numbers: Int[Tensor, "batch"], size: int) -> tuple[Int[Tensor, "batch"], Int[Tensor, "batch"]]:
    """Quotient and remainder by a size that may be far beyond 64 bits."""
    if size >= 1 << 62:
        return torch.zeros_like(numbers), numbers
    return numbers // size, numbers % size


def largest_sum(sizes: Sequence[int], count: int) -> int:
    """The most that `count` different ones of these sizes add up to."""
    return sum(sorted(sizes)[len(sizes) - count :])


def shorten(text: str) -> str:
    """A text that fits into a message of one line."""
    return (text if len(text) <= 60 else f"{text[:57]}…").replace("\n", "\\n")


def _text(row: list[int]) -> str:
    size = row.index(PAD) if PAD in row else len(row)
    try:
        return bytes(row[:size]).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"A row must be valid UTF-8; byte {error.start + 1} is not.") from None


def answer_text(task: Task, labels: Shaped[Tensor, "label *width"]) -> str:
    """An example's labels as one text: word by word, or for a task on bytes the text that they spell."""
    if isinstance(task, ByteTask):
        spelled = bytes(labels.tolist()).decode(errors="backslashreplace")
        return spelled.removesuffix("\n").removeprefix(" ")
    return " ".join(task.render_target(label) for label in labels)
