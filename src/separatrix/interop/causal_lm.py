"""Causal language models from Hugging Face folders on disk, asked to write on.

`transformers` (extra `hf`) is imported when a folder is opened. Nothing is fetched, no code of the model's is
run, and decoding is greedy whatever the folder's own generation settings say.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.interop.completer import Completer
from separatrix.interop.model_folders import ModelFolder, model_folder

__all__ = ["CausalLM", "Dtype", "has_transformers", "load_causal_lm", "quietly", "require_transformers"]

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
_OURS: Final = "separatrix"
_DTYPES: Final = ("auto", "float32", "bfloat16", "float16")
_PROBE: Final = 16
"""Tokens of the prompt that shows whether rows disturb each other."""
_PADDING: Final = 5
_TAIL: Final = 8
"""Tokens looked back for a stop, besides one for each of its bytes: a token may stand for no text."""


def has_transformers() -> bool:
    """Whether the extra `hf` is there."""
    try:
        require_transformers()
    except InvalidInput:
        return False
    return True


def require_transformers() -> Any:
    """The module, or a sentence that says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("transformers")
    except ImportError as error:
        raise InvalidInput(
            "Hugging Face folders need the extra hf; install it with: pip install 'separatrix[hf]'."
        ) from error


def load_causal_lm(folder: Path | str, *, device: str = "cpu", dtype: Dtype = "auto") -> CausalLM:
    """Look through the folder, load its tokenizer and weights, and put the model on a device.

    `dtype` "auto" takes the numbers as they are stored.
    """
    place = _device(device)
    if dtype not in _DTYPES:
        raise InvalidInput(f"Numbers are of the type {', '.join(_DTYPES)}; got dtype={dtype!r}.")
    found = model_folder(folder)
    transformers = require_transformers()
    if found.model_type == _OURS:
        importlib.import_module("separatrix.interop.hub_folders").register_auto()
    with quietly(transformers):
        tokenizer = _loaded_tokenizer(transformers, found)
        model = _loaded_model(transformers, found, dtype).to(place).eval()
    return CausalLM(tokenizer, model, name=str(found.path), device=place)


@final
class CausalLM(Completer):
    """A loaded model with its tokenizer."""

    def __init__(self, tokenizer: Any, model: Any, *, name: str, device: torch.device) -> None:
        """A tokenizer and a model of transformers, already on the device; `name` is for messages."""
        self._transformers = require_transformers()
        self._tokenizer, self._model, self._name, self._device = tokenizer, model, name, device
        self._ends = _ends(model, tokenizer)
        self._pad = (
            tokenizer.pad_token_id if tokenizer.pad_token_id is not None else next(iter(self._ends), 0)
        )
        # The folder's own settings may ask for sampling or penalties, and `generate` would fill them in.
        model.generation_config = self._transformers.GenerationConfig()
        self._most_rows: int | None = None
        self._independent: bool | None = None

    @property
    def context(self) -> int | None:
        """The most tokens it has positions for; None where its config names no limit."""
        most = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        return most if isinstance(most, int) and most > 0 else None

    def refusal(self, prompts: Sequence[str], *, most_tokens: int) -> str | None:
        """The longest prompt and what is to be written must fit into its positions."""
        with quietly(self._transformers):
            return self._no_room([self._encode(prompt) for prompt in prompts], most_tokens)

    def complete(self, prompts: Sequence[str], *, most_tokens: int, stop: str) -> list[str]:
        """Greedy continuations, side by side with padding on the left.

        A model that would be disturbed by that gets one prompt at a time. Where memory does not suffice for
        all rows at once they are halved.
        """
        if most_tokens < 1 or not stop:
            raise InvalidInput(
                f"A completion has a stop and at least one token; got {most_tokens} and {stop!r}."
            )
        if not prompts:
            return []
        with quietly(self._transformers), torch.inference_mode():
            rows = [self._encode(prompt) for prompt in prompts]
            refusal = self._no_room(rows, most_tokens)
            if refusal is not None:
                raise InvalidInput(refusal)
            texts = [""] * len(rows)
            for group in self._groups(rows):
                written = self._written([rows[number] for number in group], most_tokens, stop)
                for number, text in zip(group, written, strict=True):
                    texts[number] = text
        return texts

    def _encode(self, prompt: str) -> list[int]:
        try:
            tokens = [int(token) for token in self._tokenizer(prompt)["input_ids"]]
        except Exception as error:  # a tokenizer without a word for the unknown raises nothing more special
            raise InvalidInput(
                f"The tokenizer of '{self._name}' has no tokens for {prompt[:40]!r}, so its model cannot be "
                "asked this."
            ) from error
        # Some tokenizers close every text, and after that nothing would follow.
        while tokens and tokens[-1] in self._ends:
            tokens.pop()
        if not tokens:
            raise InvalidInput(f"The tokenizer of '{self._name}' makes no token of {prompt[:40]!r}.")
        known = int(self._model.get_input_embeddings().num_embeddings)
        if max(tokens) >= known:
            raise InvalidInput(
                f"The tokenizer of '{self._name}' has token {max(tokens):,}, but its model only {known:,} of "
                "them; they do not belong together."
            )
        return tokens

    def _no_room(self, rows: Sequence[Sequence[int]], most_tokens: int) -> str | None:
        longest = max(map(len, rows), default=0)
        if self.context is None or longest + most_tokens <= self.context:
            return None
        return (
            f"'{self._name}' reads at most {self.context:,} tokens; the longest prompt has {longest:,} "
            f"and {most_tokens:,} are to be written. Ask with fewer paragraphs or entries."
        )

    def _groups(self, rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Numbers of rows that go together: all, or each by itself."""
        if len(rows) > 1 and self._rows_are_independent(rows[0]):
            yield list(range(len(rows)))
        else:
            yield from ([number] for number in range(len(rows)))

    def _rows_are_independent(self, row: Sequence[int]) -> bool:
        """Whether prompts are continued side by side as they are alone, found out once.

        Some recurrent models read padding like any token, whatever mask comes with it, and some mix up their
        rows.
        """
        if self._independent is None:
            long = [row[place % len(row)] for place in range(_PROBE)]
            short = long[:-_PADDING]
            alone = torch.cat([self._logits([long]), self._logits([short])], dim=1)
            beside = self._logits([long, short])
            # Half of the digits that the type has, in units of how much logits differ from each other.
            allowed = torch.finfo(self._model.dtype).eps ** 0.5 * float(alone.std())
            self._independent = float((alone - beside).abs().max()) <= allowed
        return self._independent

    def _logits(self, rows: Sequence[Sequence[int]]) -> Float[Tensor, "two row vocab"]:
        """Those of two further tokens, so that what is kept between them is looked at as well."""
        settings = self._generation(2, ends=())
        settings.output_logits = settings.return_dict_in_generate = True
        tokens, mask = self._padded(rows)
        found = self._model.generate(input_ids=tokens, attention_mask=mask, generation_config=settings)
        return torch.stack(found.logits).float()

    def _written(self, rows: Sequence[Sequence[int]], most_tokens: int, stop: str) -> list[str]:
        texts: list[str] = []
        while len(texts) < len(rows):
            size = min(len(rows) - len(texts), self._most_rows or len(rows))
            try:
                texts += self._batch(rows[len(texts) : len(texts) + size], most_tokens, stop)
            except torch.OutOfMemoryError as error:
                if size == 1:
                    raise TooLarge(
                        f"The memory of {self._device} does not hold '{self._name}' with a prompt of "
                        f"{max(map(len, rows)):,} tokens; take a larger device or another dtype."
                    ) from error
                self._most_rows = size // 2
                torch.cuda.empty_cache()
        return texts

    def _batch(self, rows: Sequence[Sequence[int]], most_tokens: int, stop: str) -> list[str]:
        tokens, mask = self._padded(rows)
        width = tokens.shape[1]
        found = self._model.generate(
            input_ids=tokens,
            attention_mask=mask,
            generation_config=self._generation(most_tokens),
            stopping_criteria=self._transformers.StoppingCriteriaList([_Stop(self._text, width, stop)]),
        )
        return [self._text(row).partition(stop)[0] for row in found[:, width:].tolist()]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "row pos"], Int[Tensor, "row pos"]]:
        """Tokens with padding on the left, and a mask of what is to be read."""
        width = max(map(len, rows))
        tokens = [[self._pad] * (width - len(row)) + list(row) for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(tokens, device=self._device), torch.tensor(mask, device=self._device)

    def _text(self, tokens: Sequence[int]) -> str:
        return str(
            self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    def _generation(self, most_tokens: int, *, ends: Sequence[int] | None = None) -> Any:
        """Greedy, and nothing but greedy."""
        ends = self._ends if ends is None else ends
        return self._transformers.GenerationConfig(
            do_sample=False,
            num_beams=1,
            use_cache=True,
            max_new_tokens=most_tokens,
            eos_token_id=list(ends) or None,
            pad_token_id=self._pad,
        )


@final
class _Stop:
    """Ends a row whose last tokens spell the stop; a plain callable is what `generate` needs."""

    def __init__(self, text: Any, width: int, stop: str) -> None:
        self._text, self._width, self._stop = text, width, stop
        self._reach = len(stop.encode()) + _TAIL
        self._done: Bool[Tensor, "row"] | None = None

    def __call__(self, tokens: Int[Tensor, "row pos"], _scores: object) -> Bool[Tensor, "row"]:
        tails = tokens[:, max(self._width, tokens.shape[1] - self._reach) :].tolist()
        found = torch.tensor([self._stop in self._text(tail) for tail in tails], device=tokens.device)
        self._done = found if self._done is None else self._done | found
        return self._done


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InvalidInput(f"A device is named like cpu, cuda or cuda:1; got {name!r}.") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidInput(
            f"There is no {name} here; {torch.cuda.device_count()} CUDA devices were found. Try cpu."
        )
    return device


def _loaded_tokenizer(transformers: Any, found: ModelFolder) -> Any:
    try:
        return transformers.AutoTokenizer.from_pretrained(
            str(found.path.absolute()), local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # what a damaged file raises depends on the kind of tokenizer
        raise InvalidInput(
            f"The tokenizer in '{found.path}' cannot be loaded: {_first_line(error)}"
        ) from error


def _loaded_model(transformers: Any, found: ModelFolder, dtype: Dtype) -> Any:
    try:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            str(found.path.absolute()),
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:  # an unknown type, a package it needs, damaged weights: each raises its own
        raise InvalidInput(
            f"The {found.model_type} in '{found.path}' cannot be loaded as a causal language model: "
            f"{_first_line(error)}"
        ) from error
    wrong = sorted(map(str, (*report["missing_keys"], *report["mismatched_keys"])))
    if wrong:
        # They would be random numbers, and the model would be scored all the same.
        raise InvalidInput(
            f"The weights in '{found.path}' lack {len(wrong)} of the tensors that its config asks for, such "
            f"as {wrong[0]}; they do not belong together."
        )
    return model


def _ends(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every token that ends a text, according to the folder's settings, its config or its tokenizer."""
    sources = (model.generation_config, model.config, tokenizer)
    for named in (getattr(source, "eos_token_id", None) for source in sources):
        if isinstance(named, int):
            return (named,)
        if isinstance(named, list | tuple) and named:
            return tuple(int(token) for token in named)
    return ()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = lines[0][:300]
    return text if text.endswith((".", "!", "?")) else f"{text}."


@contextmanager
def quietly(transformers: Any) -> Iterator[None]:
    """Keep transformers from talking: what matters is said in sentences of ours."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.set_verbosity_error()
        log.disable_progress_bar()
        try:
            yield
        finally:
            log.set_verbosity(level)
            if bars:
                log.enable_progress_bar()
