"""What a model carries between the calls that `generate` makes, in the place of a cache of keys and values.

Our models carry states of their own making, and each state counts positions for all of its rows at once.
Prompts of different lengths come with padding on the left; so rows with as much of it go together, and their
states begin behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.interop.hub_searches import SearchWatch
from separatrix.models.interface import CausalModel

__all__ = ["Carried", "paddings", "whole"]


@dataclass
class _Group:
    """Rows with as much padding before them, and where their model is."""

    rows: Int[Tensor, "row"]
    padding: int
    state: Any
    room: int = 0


@final
class Carried:
    """The states of all rows after `get_seq_length` positions, padding included. Going on changes it.

    Where the model searches, `watch` has read what was written behind `prompt` positions.
    """

    is_croppable = False
    """A state cannot be taken back."""

    def __init__(self, model: CausalModel[Any], padding: Sequence[int], device: torch.device) -> None:
        """Before the first token, with so much padding on the left of each row."""
        self._model, self._seen, self.padding = model, 0, tuple(padding)
        self.watch: SearchWatch | None = None
        self.prompt = 0
        self._groups = [
            _Group(rows=rows, padding=before, state=model.start(len(rows), device=device))
            for before, rows in _together(padding, device)
        ]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions that were read, padding included, as transformers counts them."""
        return self._seen

    def reorder_cache(self, beam_idx: Int[Tensor, "row"]) -> None:
        """Row i goes on from what row `beam_idx[i]` carries: beams of one prompt, so of one padding."""
        if self.watch is not None:
            self.watch.reorder(beam_idx.tolist())
        for group in self._groups:
            sources = beam_idx.to(group.rows.device)[group.rows]
            places = torch.searchsorted(group.rows, sources)
            group.state, group.room = self._model.kept(group.state, places), 0

    def advance(self, tokens: Int[Tensor, "row pos"], *, last_only: bool) -> Float[Tensor, "row asked out"]:
        """The outputs at the next positions, or at the last of them; padding has outputs of 0."""
        found: list[tuple[_Group, Float[Tensor, "row asked out"]]] = []
        for group in self._groups:
            behind = max(0, group.padding - self._seen)
            if behind >= tokens.shape[1]:
                raise InvalidInput("A row of padding alone has nothing to go on from; give it a token.")
            found.append((group, self._group(group, tokens[group.rows, behind:], last_only=last_only)))
        self._seen += tokens.shape[1]
        first = found[0][1]
        asked = 1 if last_only else tokens.shape[1]
        outputs = first.new_zeros(tokens.shape[0], asked, first.shape[2])
        for group, part in found:
            outputs[group.rows, asked - part.shape[1] :] = part
        return outputs

    def _group(
        self, group: _Group, tokens: Int[Tensor, "row pos"], *, last_only: bool
    ) -> Float[Tensor, "row asked out"]:
        count = tokens.shape[1]
        if group.room < count:
            # Doubled whenever it is used up, so that a state that grows is seldom copied.
            group.room = 2 * (self._seen + count)
            group.state = self._model.reserve(group.state, group.room)
        group.room -= count
        if last_only:
            scores, group.state = self._model.read(tokens, group.state)
            return scores.unsqueeze(1)
        parts = []
        for place in range(count):
            scores, group.state = self._model.step(tokens[:, place], group.state)
            parts.append(scores)
        return torch.stack(parts, dim=1)


def whole(
    model: CausalModel[Any], tokens: Int[Tensor, "row pos"], padding: Sequence[int]
) -> Float[Tensor, "row pos out"]:
    """The outputs at every position, all at once; padding on the left has outputs of 0."""
    groups = _together(padding, tokens.device)
    if len(groups) == 1 and groups[0][0] == 0:
        return model.forward(tokens)
    parts = [(before, rows, model.forward(tokens[rows, before:])) for before, rows in groups]
    first = parts[0][2]
    outputs = first.new_zeros(*tokens.shape, first.shape[2])
    for before, rows, part in parts:
        outputs[rows, before:] = part
    return outputs


def paddings(mask: Int[Tensor, "row pos"], *, behind: bool) -> list[int]:
    """How much padding stands on the left of each row; on the right there may be some if `behind` allows."""
    shown = mask.bool()
    before = (shown.cumsum(1) == 0).sum(1)
    inside = shown.sum(1)
    # A run of ones: everything from the first to the last.
    places = torch.arange(mask.shape[1], device=mask.device)
    run = (places >= before[:, None]) & (places < (before + inside)[:, None])
    after = mask.shape[1] - before - inside
    if (
        not bool((run == shown).all())
        or bool((inside == 0).any())
        or (not behind and bool((after > 0).any()))
    ):
        raise InvalidInput(
            "An attention mask hides padding on the left of a row and nothing else; tokenize with "
            "padding_side='left', and leave no row empty."
        )
    return [int(count) for count in before.tolist()]


def _together(padding: Sequence[int], device: torch.device) -> list[tuple[int, Int[Tensor, "row"]]]:
    """The rows of each amount of padding, in order."""
    rows: dict[int, list[int]] = {}
    for row, before in enumerate(padding):
        rows.setdefault(before, []).append(row)
    return [(before, torch.tensor(each, device=device)) for before, each in sorted(rows.items())]
