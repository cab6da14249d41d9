"""The config and the model that `AutoConfig` and `AutoModelForCausalLM` know after `register_auto`.

This module imports transformers, if it is there; nothing else here does before it is asked to.

One model class serves witnesses and trained models alike. The weights are its parameters, so that
transformers loads and saves them; the model itself, which reads tokens and goes on from a state, is ours. In
`generate` that state stands in the place of transformers' cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.interop.causal_lm import has_transformers, require_transformers
from separatrix.interop.hub_records import HubRecord, TensorShape
from separatrix.interop.hub_searches import FREE, SearchWatch, forced_scores
from separatrix.interop.hub_states import Carried, paddings, whole
from separatrix.models.interface import CausalModel
from separatrix.models.population import CausalPopulation, SingleMember
from separatrix.witnesses.files import witness_from

if TYPE_CHECKING or not has_transformers():
    # As much of transformers as is used here, so that types are the same with and without it.
    class PretrainedConfig:
        def __init__(self, **others: Any) -> None: ...

    class PreTrainedModel(nn.Module):
        config: SeparatrixConfig

        def __init__(self, config: SeparatrixConfig) -> None: ...

        def post_init(self) -> None: ...

    class GenerationMixin: ...

    class CausalLMOutputWithPast:
        def __init__(self, *, logits: Tensor, past_key_values: Carried | None) -> None: ...

        def to_tuple(self) -> tuple[Any, ...]: ...
else:
    _transformers = require_transformers()
    PretrainedConfig, PreTrainedModel = _transformers.PretrainedConfig, _transformers.PreTrainedModel
    GenerationMixin = _transformers.GenerationMixin
    CausalLMOutputWithPast = _transformers.modeling_outputs.CausalLMOutputWithPast

__all__ = ["MODEL_TYPE", "SeparatrixConfig", "SeparatrixForCausalLM"]

MODEL_TYPE: Final = "separatrix"


class SeparatrixConfig(PretrainedConfig):
    """`separatrix` is the record of a witness or a trained model, checked when the config is made."""

    model_type = MODEL_TYPE

    def __init__(
        self,
        *,
        separatrix: Mapping[str, object] | None = None,
        writes: bool = True,
        vocab_size: int = 1,
        known_tokens: int = 1,
        padding_token: int | None = None,
        **others: Any,  # transformers hands its own fields through here
    ) -> None:
        """`writes` says that the classes of an answer are words, so that they can be written.

        `vocab_size` is how many there are, and `known_tokens` how many tokens the model reads, of which
        `padding_token` may be one.
        """
        self.separatrix = None if separatrix is None else dict(separatrix)
        self.writes, self.vocab_size, self.known_tokens = writes, vocab_size, known_tokens
        self.padding_token = padding_token
        self.is_decoder, self.use_cache = True, True
        super().__init__(**{**others, "tie_word_embeddings": False})
        if self.separatrix is not None:
            self.record()

    def record(self) -> HubRecord:
        """The record, read strictly."""
        if self.separatrix is None:
            raise InvalidInput(
                "This config names no model; make a folder with separatrix.interop.save_pretrained_folder."
            )
        return HubRecord.from_json(self.separatrix)


class SeparatrixForCausalLM(PreTrainedModel, GenerationMixin):
    """A witness or a trained model that reads tokens from left to right."""

    config_class = SeparatrixConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    _is_stateful = True

    def __init__(self, config: SeparatrixConfig) -> None:
        """Room for the weights; transformers fills it."""
        super().__init__(config)
        record = config.record()
        self._record = record
        self._built: CausalModel[Any] | None = None
        self.tokens = _Tokens(config.known_tokens)
        if record.witness is None:
            self.model: nn.Module = record.population()
        else:
            self.model = _Weights(record.tensors)
        self.post_init()

    def forward(
        self,
        input_ids: Int[Tensor, "row pos"],
        attention_mask: Int[Tensor, "row whole"] | None = None,
        past_key_values: Carried | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        shifted: bool = False,
        following: Sequence[int] | None = None,
        return_dict: bool | None = None,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Scores at every position, or at the last `logits_to_keep`.

        All positions are computed at once unless `use_cache` asks for the state behind them, or a state to
        go on from is given. With `shifted` the largest score of a position is 0: `generate` rounds scores to
        float32, and what is less than the largest stays so. `following` is what searches make follow.
        """
        model = self.plain
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        cached = past_key_values is not None or bool(use_cache)
        self._require_room(input_ids, attention_mask, seen)
        before = [0] * len(input_ids)
        if past_key_values is None:
            if attention_mask is not None:
                before = paddings(attention_mask, behind=not cached)
            elif self.config.padding_token in input_ids[:, 0].tolist():
                raise InvalidInput("A row begins with padding; give the attention mask that hides it.")
        tokens = self._known(input_ids)
        if cached:
            state = past_key_values or Carried(model, before, tokens.device)
            logits = state.advance(tokens, last_only=logits_to_keep == 1)
        else:
            state, logits = None, whole(model, tokens, before)
        logits = logits[:, -logits_to_keep:] if logits_to_keep else logits
        if shifted:
            logits = logits - logits.amax(-1, keepdim=True)
        if following is not None:
            assert self.config.padding_token is not None
            logits = forced_scores(logits, following, self.config.padding_token + 1)
        found = CausalLMOutputWithPast(logits=logits, past_key_values=state)
        return found if return_dict in (None, True) else found.to_tuple()

    def prepare_inputs_for_generation(
        self,
        input_ids: Int[Tensor, "row pos"],
        past_key_values: Carried | None = None,
        attention_mask: Int[Tensor, "row pos"] | None = None,
        use_cache: bool | None = None,
        **others: Any,  # what transformers keeps for other models
    ) -> dict[str, Any]:
        """What the state has not read yet, and where to go on from."""
        if not self.config.writes:
            raise InvalidInput(
                f"The answers to {self._record.task.name} are no words of its inputs, so they are not "
                "written; take them from the logits, and their names from config.id2label."
            )
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        return {
            "input_ids": input_ids[:, seen:],
            "past_key_values": past_key_values,
            "attention_mask": attention_mask,
            "use_cache": use_cache,
            "logits_to_keep": 1,
            "shifted": True,
            "following": self._following(input_ids, attention_mask, past_key_values, use_cache),
        }

    def _following(
        self,
        tokens: Int[Tensor, "row pos"],
        mask: Int[Tensor, "row pos"] | None,
        carried: Carried | None,
        use_cache: bool | None,
    ) -> list[int] | None:
        """What has to follow each row where its words are searches; None for a model that does not search."""
        script = self._record.script()
        if script is None or not script.searches:
            return None
        if use_cache is False:
            raise InvalidInput("A model that searches writes with its cache; leave use_cache=False out.")
        if carried is None:
            return [FREE] * len(tokens)
        if carried.watch is None:
            # The first call behind the prompts: so far nothing else was read.
            seen = carried.get_seq_length()
            assert self.config.padding_token is not None
            prompts = [row[before:seen].tolist() for row, before in zip(tokens, carried.padding, strict=True)]
            carried.watch, carried.prompt = SearchWatch(script, prompts, end=self.config.padding_token), seen
        return carried.watch.next(tokens[:, carried.prompt :])

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """It makes its own."""
        return False

    @property
    def plain(self) -> CausalModel[Any]:
        """The model itself, with these weights."""
        if self._built is None:
            if self._record.witness is None:
                self._built = SingleMember(cast(CausalPopulation, self.model))
            else:
                self._built = self._witness()
        return self._built

    @property
    def longest(self) -> int | None:
        """The most tokens it reads; None if any number will do."""
        if self._record.witness is not None and self._record.witness.script is None:
            # Its last token may be a question, which needs no place.
            return self._record.made_task().length
        return self.plain.longest

    def _witness(self) -> CausalModel[Any]:
        assert self._record.witness is not None
        weights = cast(_Weights, self.model)
        model = witness_from(self._record.witness, weights.tensors()).model
        if not isinstance(model, CausalModel):
            raise InvalidFile("The witness of this folder does not read from left to right.")
        return model

    def _known(self, tokens: Int[Tensor, "row pos"]) -> Int[Tensor, "row pos"]:
        """Padding as a token that the model knows: in a row that has ended, any will do.

        What is read behind the end of a row changes nothing before it.
        """
        padding = self.config.padding_token
        strange = (tokens < 0) | (tokens >= self.config.known_tokens)
        if padding is not None:
            strange &= tokens != padding
        if bool(strange.any()):
            raise InvalidInput(
                f"Tokens run from 0 to {self.config.known_tokens - 1}; got {int(tokens[strange][0])}."
            )
        return torch.where(tokens < self.config.known_tokens, tokens, 0)

    def _require_room(
        self, tokens: Int[Tensor, "row pos"], mask: Int[Tensor, "row whole"] | None, seen: int
    ) -> None:
        given = seen + tokens.shape[1] if mask is None else int(mask.sum(1).max())
        if self.longest is not None and given > self.longest:
            raise InvalidInput(
                f"This model was made for texts of at most {self.longest:,} tokens; got {given:,}. Build it "
                "for a larger n."
            )

    def get_input_embeddings(self) -> nn.Module:
        """What tokens there are; how they become vectors is the model's own affair."""
        return self.tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Refused: the words of a task are what they are."""
        raise InvalidInput("The tokens of this model are those of its task and cannot be exchanged.")

    def get_output_embeddings(self) -> None:
        """There is no table that scores are read from in one way only."""
        return

    def _init_weights(self, module: nn.Module) -> None:
        """Weights come from the folder; none is drawn here."""


class _Weights(nn.Module):
    """The weights of a witness by their names, a slash for each dot."""

    def __init__(self, shapes: tuple[TensorShape, ...]) -> None:
        super().__init__()
        self._names = tuple(each.name for each in shapes)
        for each in shapes:
            room = each.empty()
            try:
                if room.is_floating_point():
                    self.register_parameter(_key(each.name), nn.Parameter(room, requires_grad=False))
                else:
                    self.register_buffer(_key(each.name), room)
            except (KeyError, TypeError) as error:
                raise InvalidFile(f"A witness has no tensor '{each.name[:80]}'.") from error

    def tensors(self) -> dict[str, Float[Tensor, "..."] | Int[Tensor, "..."]]:
        """All of them, on the CPU."""
        found = {name: getattr(self, _key(name)).detach().cpu() for name in self._names}
        if any(value.is_floating_point() and value.dtype != torch.float64 for value in found.values()):
            raise InvalidInput(
                "The weights of a witness are float64, whatever it computes with; load it with dtype='auto'."
            )
        return found


def _key(name: str) -> str:
    return name.replace(".", "/")


class _Tokens(nn.Module):
    """How many tokens a model knows, in the place of a table of them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.num_embeddings = count

    def forward(self, tokens: Int[Tensor, "row pos"]) -> Float[Tensor, "row pos width"]:
        """Refused."""
        raise InvalidInput("This model takes input_ids; it has no vectors of tokens to hand out.")
