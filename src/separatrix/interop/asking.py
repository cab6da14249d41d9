"""Asking language models: who is asked, what, and the answers kept on disk as they come.

An answer stands under a key of everything that decides it, so that what is on disk is not asked again, and a
run that is killed goes on where it was.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final

import torch

from separatrix.interop.answer_log import Answer, AnswerLog
from separatrix.interop.causal_lm import Dtype, load_causal_lm
from separatrix.interop.completer import Completer
from separatrix.interop.model_folders import model_folder
from separatrix.store.keys import key_of

__all__ = ["AT_ONCE", "ORDERS", "Contestant", "Interview", "Order", "Progress", "Prompt", "contestant_at"]

AT_ONCE: Final = 16
"""Prompts that a model is given side by side, and answers that go to disk together."""
Order = Literal["random", "gold-last"]
ORDERS: Final[tuple[Order, ...]] = ("random", "gold-last")
"""Where what a question asks for stands: anywhere, or last."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One question as it is put once: its number, what it stands amid, and the right answer."""

    question: int
    order: Order
    n: int
    text: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A model that is asked: what it is called, what it is, and how to open it.

    `identity` is a hash of everything that decides what it writes; answers on disk are its own by that.
    """

    name: str
    config_sha256: str
    identity: str
    open: Callable[[], Completer]


def contestant_at(name: str, folder: Path, *, device: str, dtype: Dtype = "auto") -> Contestant:
    """The model in a Hugging Face folder, looked through and hashed now, loaded when it is asked.

    Device "auto" is CUDA where there is one.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    found = model_folder(folder)
    return Contestant(
        name=name,
        config_sha256=found.config_sha256,
        identity=key_of({"folder": found.sha256(), "dtype": dtype}),
        open=lambda: load_causal_lm(folder, device=device, dtype=dtype),
    )


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How many of the prompts that a model has to answer by now are answered."""

    task: str
    model: str
    done: int
    of: int


@final
@dataclass(frozen=True, kw_only=True)
class Interview:
    """Where models are asked: how much they may write, the answers so far, and who is told of them."""

    task: str
    most_tokens: int
    stop: str
    log: AnswerLog
    at_once: int = AT_ONCE
    progress: Callable[[Progress], None] | None = None

    def ask(
        self,
        contestant: Contestant,
        prompts: Sequence[Prompt],
        *,
        look: Callable[[Completer], Collection[int]] = lambda _: (),
    ) -> None:
        """Have every prompt answered; a model that has answered them all is not opened.

        `look` is called with the opened model before it is asked, and the n that it names are left out.
        """
        wanted: dict[str, Prompt] = {}
        for prompt in prompts:  # with the gold alone both orders read the same
            wanted.setdefault(self.key(contestant, prompt), prompt)
        if all(key in self.log for key in wanted):
            return
        model = contestant.open()
        left_out = look(model)
        wanted = {key: prompt for key, prompt in wanted.items() if prompt.n not in left_out}
        # The longest first: if memory or context do not suffice, that shows at once.
        open_keys = sorted(
            (key for key in wanted if key not in self.log),
            key=lambda key: len(wanted[key].text),
            reverse=True,
        )
        for first in range(0, len(open_keys), self.at_once):
            some = {key: wanted[key] for key in open_keys[first : first + self.at_once]}
            self._ask_some(contestant, model, some)
            self._tell(contestant, wanted)
        del model
        _free_memory()

    def _ask_some(self, contestant: Contestant, model: Completer, asked: dict[str, Prompt]) -> None:
        began = time.perf_counter()
        texts = model.complete(
            [prompt.text for prompt in asked.values()], most_tokens=self.most_tokens, stop=self.stop
        )
        seconds = (time.perf_counter() - began) / len(asked)
        self.log.append(
            Answer(
                key=key,
                model=contestant.name,
                task=self.task,
                order=prompt.order,
                n=prompt.n,
                question=prompt.question,
                text=text,
                seconds=seconds,
            )
            for (key, prompt), text in zip(asked.items(), texts, strict=True)
        )

    def _tell(self, contestant: Contestant, wanted: Collection[str]) -> None:
        if self.progress is not None:
            done = sum(key in self.log for key in wanted)
            self.progress(Progress(task=self.task, model=contestant.name, done=done, of=len(wanted)))

    def key(self, contestant: Contestant, prompt: Prompt) -> str:
        """What decides an answer: who is asked, what, and how much may be written."""
        return key_of(
            {
                "model": contestant.identity,
                "prompt": prompt.text,
                "most_tokens": self.most_tokens,
                "stop": self.stop,
            }
        )

    def answer(self, contestant: Contestant, prompt: Prompt) -> Answer | None:
        """What a model wrote; None if it was not asked."""
        return self.log.get(self.key(contestant, prompt))


def _free_memory() -> None:
    """Make room for the next model on the same device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
