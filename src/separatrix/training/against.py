"""A member's worst inputs while it learns: the attack of the one-layer certificates, on many cases at once.

With one layer, what stands at a position has a weight and a value of its own, and the model's lead over a
rival is a smooth function of their sums. Its gradient says which letter is worst at each position; all
positions choose at once, and the gradient is taken anew. Here that is done for a few hundred cases side by
side. Nothing is polished and nothing is proven: what counts is what a member can learn from.

Members are attacked one by one, on the same cases at the same step, so that none depends on its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.certificates.one_layer.form import OneLayer, form_of
from separatrix.certificates.questions import questions_of
from separatrix.errors import InvalidInput
from separatrix.models.attention import Attention
from separatrix.models.population import Population
from separatrix.models.stack import Block, Frame
from separatrix.randomness import Draws
from separatrix.tasks.interface import Batch, Task
from separatrix.training.cases import Cases, cases_at
from separatrix.training.labelled import judged, questions

__all__ = ["Attack", "require_covered"]

_STREAM: Final = "against"
_STARTS: Final = 3
"""Rivals that are aimed at in each case: the nearest, the next, and one by chance."""
_STEPS: Final = 8
_NUMBERS_AT_ONCE: Final = 1 << 25
_READY: Final = 0.9
"""Right answers to random inputs from which on there is something to be learned from the worst ones."""
_TRIED: Final = 256
_RANDOM_FROM: Final = 1 << 60
"""They are drawn far behind the examples that a member learns from."""
_FREE: Final = -1e30
"""Costs less than anything: what has it is chosen."""


def require_covered(population: Population, task: Task) -> None:
    """Refuse a model or a task whose worst inputs cannot be looked for."""
    layers = len(population.blocks) if isinstance(population, Frame) else 0
    block = population.blocks[0] if isinstance(population, Frame) else None
    if layers != 1 or not isinstance(block, Block) or not isinstance(block.mixer, Attention):
        several = f" with {layers} layers" if layers > 1 else ""
        raise InvalidInput(
            "Worst inputs are looked for in models with one layer of softmax attention; got "
            f"{population.name}{several}. Leave against out, or take transformer with layers=1."
        )
    try:
        questions_of(task)
    except InvalidInput as refusal:
        raise InvalidInput(
            f"Training against worst inputs needs a task on which whole models are certified: {refusal}"
        ) from None


@final
class Attack:
    """What looks for the worst inputs of the members of a population."""

    def __init__(self, single: Population, task: Task, *, cases: int) -> None:
        """`single` is a population of one like the members' own, into which their weights are put."""
        self.task, self.single, self.cases = task, single, cases
        self.questions = questions_of(task)
        self.device = next(single.parameters()).device
        self._known: tuple[int, Cases] | None = None

    @torch.no_grad()
    def worst(self, weights: Mapping[str, Tensor], *, seed: int, step: int) -> Batch | None:
        """What is found against these weights; None if there is nothing to be learned from it.

        So it is where they are not finite, or mostly wrong on random inputs: a member that is given its worst
        inputs before it does the task may never learn it.
        """
        if not all(bool(values.isfinite().all()) for values in weights.values()):
            return None
        self.single.load_state_dict(weights)
        return self.found(weights, seed=seed, step=step) if self._is_ready(seed, step) else None

    @torch.no_grad()
    def found(self, weights: Mapping[str, Tensor], *, seed: int, step: int) -> Batch:
        """The worse half of the worst inputs of the step's cases, the worst first."""
        self.single.load_state_dict(weights)
        form = form_of(self.single, device=self.device)
        cases = self._cases(step)
        letters, leads = [], []
        for first, part in cases.parts(self._at_once(form, cases)):
            worst, lead = _Seen(form, part).attacked(seed=seed, number=step * len(cases.asked) + first)
            letters.append(worst)
            leads.append(lead)
        lead = torch.cat(leads)
        order = lead.flatten().argsort(stable=True)[: -(-lead.numel() // 2)]
        return cases.batch(order // lead.shape[1], torch.cat(letters).flatten(0, 1)[order])

    def _is_ready(self, seed: int, step: int) -> bool:
        drawn = self.task.sample(_TRIED, seed=seed, start=_RANDOM_FROM + step * _TRIED, device=self.device)
        asked = questions(drawn, 1, most=self.task.asking.most)
        found = judged(self.single(asked.inputs, asked.at), asked, self.task.target_space)
        return int(found.labels_right) >= _READY * int(found.labels)

    def _cases(self, step: int) -> Cases:
        """Those of a step, which all members share."""
        if self._known is None or self._known[0] != step:
            self._known = step, cases_at(step, self.task, self.questions, self.cases, device=self.device)
        return self._known[1]

    def _at_once(self, form: OneLayer, cases: Cases) -> int:
        """Questions whose tables are held at the same time."""
        of_letter = form.heads * (form.part + 1) + _STARTS * cases.allowed.shape[1]
        return max(1, _NUMBERS_AT_ONCE // (of_letter * cases.positions * len(cases.letters)))


@final
class _Seen:
    """Cases as one member sees them: what every letter at every position adds to the sums."""

    def __init__(self, form: OneLayer, cases: Cases) -> None:
        self.form, self.cases = form, cases
        positions, device = cases.positions, cases.asked.device
        place, question = (
            torch.arange(positions, device=device),
            torch.arange(len(cases.asked), device=device),
        )

        def attended(x: Float[Tensor, "pos option width"]) -> tuple[Tensor, Tensor]:
            normed = form.before(x)
            key = torch.einsum("tow,hwp->htop", normed, form.key) + form.key_bias[:, None, None]
            value = torch.einsum("tow,hwp->htop", normed, form.value) + form.value_bias[:, None, None]
            return form.turned(key, place), value

        key, value = attended(form.read(cases.letters.expand(positions, *cases.letters.shape)))
        asked = form.read(cases.own.expand(positions, *cases.own.shape))
        own_key, own_value = (each[:, cases.asked, question] for each in attended(asked))
        asked = asked[cases.asked, question]
        self.stream = asked + form.outward_bias
        query = torch.einsum("qw,hwp->hqp", form.before(asked), form.query) + form.query_bias.unsqueeze(1)
        query = form.turned(query.unsqueeze(2), cases.asked).squeeze(2) / math.sqrt(form.part)

        scores = torch.einsum("hqp,htop->qhto", query, key)
        own_scores = torch.einsum("hqp,hqp->qh", query, own_key)
        # What is asked stands in every input; what a causal model has not seen weighs nothing.
        unseen = place == cases.asked.unsqueeze(1)
        if form.causal:
            unseen = place >= cases.asked.unsqueeze(1)
        somewhere = cases.allowed.any(1) & ~unseen.unsqueeze(2)
        scores = scores.masked_fill(~somewhere.unsqueeze(1), -math.inf)
        greatest = torch.maximum(scores.amax((2, 3)), own_scores)
        weights = (scores - greatest[..., None, None]).exp().float()
        own_weights = (own_scores - greatest).exp().unsqueeze(2)
        ones = torch.ones_like(own_value[..., :1])
        self.own = own_weights * torch.cat([own_value, ones], 2).transpose(0, 1)
        with_one = torch.cat([value, torch.ones_like(value[..., :1])], 3).float()
        table = weights.permute(0, 2, 3, 1).unsqueeze(4) * with_one.permute(1, 2, 0, 3)
        self.table: Float[Tensor, "question place sum"] = table.flatten(3).flatten(1, 2)
        """For each letter at each position its weight times its value, and its weight, for all heads."""

    def attacked(
        self, *, seed: int, number: int
    ) -> tuple[Int[Tensor, "question case pos"], Float[Tensor, "question case"]]:
        """The worst input found in each case, as letters, and its least lead over a rival."""
        cases = self.cases
        questions, count, positions, _ = cases.allowed.shape
        draws = Draws(seed=seed, stream=_STREAM, batch=questions, start=number, device=cases.asked.device)
        middle = self._middle()
        rivals = self._rivals(middle, draws)
        letters = cases.least(self._slopes(middle.expand(-1, -1, _STARTS, -1), rivals)[1])
        best, least = letters, torch.full_like(letters[..., 0], math.inf, dtype=torch.float64)
        for step in range(_STEPS):
            # In the end nobody is aimed at: by then another may have come nearest.
            leads, slopes = self._slopes(self._sums(letters), rivals if step < _STEPS // 2 else None)
            better = leads < least
            best, least = torch.where(better.unsqueeze(3), letters, best), torch.minimum(least, leads)
            if step >= _STEPS // 2:  # all at once may overshoot: some positions stay as they were at best
                stays = draws.coins(f"stay {step}", (count, _STARTS, positions)).unsqueeze(4)
                at_best = slopes.gather(4, best.unsqueeze(4))
                slopes.scatter_(4, best.unsqueeze(4), at_best.masked_fill(stays, _FREE))
            letters = cases.least(slopes)
        least, start = least.min(2)
        place = start[..., None, None].expand(-1, -1, 1, positions)
        return best.gather(2, place).squeeze(2), least

    def _middle(self) -> Float[Tensor, "question case 1 sum"]:
        """The sums where all letters that may stand somewhere are equally likely."""
        allowed = self.cases.allowed
        share = (allowed.float() / allowed.sum(3, keepdim=True)).flatten(2)
        return (torch.bmm(share, self.table).double() + self.own.flatten(1).unsqueeze(1)).unsqueeze(2)

    def _sums(
        self, letters: Int[Tensor, "question case start pos"]
    ) -> Float[Tensor, "question case start sum"]:
        questions, _, _, positions = letters.shape
        rows, wide = self.table.shape[1], self.table.shape[2]
        at = torch.arange(positions, device=letters.device) * (rows // positions)
        at = at + torch.arange(questions, device=letters.device).view(-1, 1, 1, 1) * rows
        chosen = self.table.view(-1, wide)[(letters + at).flatten()]
        return chosen.view(*letters.shape, wide).sum(3).double() + self.own.flatten(1)[:, None, None]

    def _rivals(
        self, middle: Float[Tensor, "question case 1 sum"], draws: Draws
    ) -> Int[Tensor, "question case start"]:
        """Whom each start aims at: those nearest in the middle of a case, and for the last one by chance."""
        leads = self._leads(middle).squeeze(2)
        rivals = leads.shape[2]
        chance = draws.integers("rival", (leads.shape[1], 1), rivals)
        nearest = torch.arange(_STARTS - 1, device=leads.device) % rivals
        return torch.cat([leads.argsort(dim=2, stable=True)[..., nearest], chance], 2)

    def _leads(
        self, sums: Float[Tensor, "question case start sum"]
    ) -> Float[Tensor, "question case start rival"]:
        by_head = sums.reshape(*sums.shape[:3], self.form.heads, -1)
        read = torch.einsum("qcshp,hpw->qcsw", by_head[..., :-1] / by_head[..., -1:], self.form.outward)
        outputs = self.form.tail(self.stream[:, None, None] + read)
        return outputs @ self.cases.directions.transpose(2, 3) + self.cases.offsets.unsqueeze(2)

    def _slopes(
        self,
        sums: Float[Tensor, "question case start sum"],
        rivals: Int[Tensor, "question case start"] | None,
    ) -> tuple[Float[Tensor, "question case start"], Float[Tensor, "question case start pos letter"]]:
        """The least leads, and what each letter adds to the lead over the rival, or over the nearest."""
        with torch.enable_grad():
            sums = sums.detach().clone().requires_grad_()
            leads = self._leads(sums)
            least = leads.amin(3)
            aimed = least if rivals is None else leads.gather(3, rivals.unsqueeze(3)).squeeze(3)
            (by_sum,) = torch.autograd.grad(aimed.sum(), [sums])
        by_sum = by_sum.float().nan_to_num(0, 0, 0)
        slopes = torch.bmm(by_sum.flatten(1, 2), self.table.transpose(1, 2))
        return least.detach(), slopes.view(*least.shape, self.cases.positions, -1)
