"""The attention of a witness, token by token: where each head of each layer looks, and by how much.

The model runs as it is. Its heads are wrapped so that what each of them computes anyway, logits and weights
in the model's own arithmetic, is also written down.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Final, final

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.explorer.folder import Folder
from separatrix.explorer.opening import opened_witness
from separatrix.explorer.view import Deadline, View, only, text_in
from separatrix.explorer.views._named import input_for, named, offered, text_for, words_of
from separatrix.models.explicit.heads import Head, HeadAround
from separatrix.models.explicit.linear import affine
from separatrix.models.explicit.transformer import Transformer
from separatrix.precision import Numbers, NumberSystem, name_of
from separatrix.tasks import Task
from separatrix.theorems import theorem
from separatrix.witnesses.solving import ask
from separatrix.witnesses.witness import Witness

__all__ = ["VIEW", "watched"]

_CHOICES: Final = offered("transformer-1", "transformer-2", "transformer-3", "transformer")
_MOST_HEADS: Final = 64
_MOST_POSITIONS: Final = 160


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What one head computed: (query, key), and which keys a query may see."""

    logits: Float[Tensor, "query key"]
    weights: Float[Tensor, "query key"]
    mask: Bool[Tensor, "query key"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Watched(HeadAround):
    """A head that computes what another does and writes down where it looked."""

    head: Head
    seen: list[Seen] = field(default_factory=list)

    def attend(
        self,
        system: NumberSystem,
        stream: Numbers,
        kept: tuple[Numbers, ...],
        mask: Bool[Tensor, "batch query key"],
    ) -> Numbers:
        """As the head; beside it, its logits and weights once more."""
        logits = system.matmul(affine(system, stream, self.head.query), kept[0].transpose(-1, -2))
        weights = system.softmax(logits, mask=mask)
        numbers = [system.decode_float64(each)[0] for each in (logits, weights)]
        self.seen.append(Seen(logits=numbers[0], weights=numbers[1], mask=mask[0]))
        return self.head.attend(system, stream, kept, mask)


def watched(model: Transformer, row: Shaped[Tensor, "pos *width"]) -> list[list[Seen]]:
    """Where every head of every layer looks on one input."""
    layers = []
    for layer in model.layers:
        heads = []
        for head in layer.heads:
            if not isinstance(head, Head):
                raise InvalidInput("The heads of this model look at pairs of positions; choose another.")
            heads.append(_Watched(head=head))
        layers.append(dataclasses.replace(layer, heads=tuple(heads)))
    dataclasses.replace(model, layers=tuple(layers)).outputs(row.unsqueeze(0))
    return [[_joined(head) for head in layer.heads if isinstance(head, _Watched)] for layer in layers]


def _joined(head: _Watched) -> Seen:
    """All queries, where they were taken a few at a time."""
    return Seen(
        logits=torch.cat([part.logits for part in head.seen]),
        weights=torch.cat([part.weights for part in head.seen]),
        mask=torch.cat([part.mask for part in head.seen]),
    )


def _at(head: Seen, places: Int[Tensor, "place"]) -> Seen:
    """The same head at some of the positions; its queries come first and need not be all."""
    asking = places[places < len(head.logits)]
    return Seen(
        logits=head.logits[asking][:, places],
        weights=head.weights[asking][:, places],
        mask=head.mask[asking][:, places],
    )


def _answer(asked: dict[str, object], folder: Folder, deadline: Deadline) -> dict[str, object]:
    only(asked, "witness", "path", "n", "input", "seed")
    witness, text = _chosen(asked, folder)
    model, task = witness.model, witness.task
    if not isinstance(model, Transformer) or witness.script is not None:
        raise InvalidInput("This view shows Transformers that answer at once; these weights are none.")
    heads = sum(len(layer.heads) for layer in model.layers)
    if heads > _MOST_HEADS or task.length > _MOST_POSITIONS:
        raise InvalidInput(
            f"This view shows {_MOST_HEADS} heads and {_MOST_POSITIONS} positions at most; these weights "
            f"have {heads} heads and read {task.length} positions. Choose a smaller n."
        )
    row = task.parse(text)
    task.check(row)
    solution = ask(witness, row.unsqueeze(0))[0]
    deadline.check()
    seen = watched(model, row)
    labels = task.solve(row.unsqueeze(0))
    asked_at = [int(place) for place in labels.mask[0].nonzero().flatten()]
    # Behind a short input there is padding, which nobody reads, and behind that what the model adds itself.
    length, own = int(model.inputs.lengths(row.unsqueeze(0))[0]), len(model.inputs.appended)
    shown = torch.tensor([*range(length), *range(len(row), len(row) + own)])
    return {
        "witnesses": [each.name for each in _CHOICES],
        "task": task.name,
        "n": task.n,
        "input": text,
        "words": [*words_of(task, row)[:length], *(f"own {place + 1}" for place in range(own))],
        "asked_at": asked_at,
        "answer": solution.text,
        "expected": _expected(task, row),
        "right": solution.right,
        "theorem": witness.theorem,
        "statement": theorem(witness.theorem).statement,
        "family": witness.family,
        "arithmetic": name_of(witness.arithmetic),
        "layers": [[_shown(_at(head, shown)) for head in layer] for layer in seen],
    }


def _chosen(asked: dict[str, object], folder: Folder) -> tuple[Witness, str]:
    if "path" in asked:
        witness = opened_witness(folder, text_in(asked, "path", longest=400))
        return witness, input_for(asked, witness.task)
    choice = named(asked, _CHOICES)
    task, text = text_for(asked, choice)
    return choice.built(task), text


def _expected(task: Task, row: Shaped[Tensor, "pos *width"]) -> str:
    """The oracle's answers in the task's words."""
    labels = task.solve(row.unsqueeze(0))
    return " ".join(task.render_target(each) for each in labels.targets[labels.mask])


def _shown(head: Seen) -> dict[str, object]:
    """Weights in four digits, and for each query what it reads and by how much that leads."""
    reads, leads = [], []
    for logits, weights, mask in zip(head.logits, head.weights, head.mask, strict=True):
        read = mask & (weights >= weights[mask].max() / 2)
        others = mask & ~read
        reads.append([int(place) for place in read.nonzero().flatten()])
        lead = float(logits[read].min() - logits[others].max()) if bool(others.any()) else None
        leads.append(None if lead is None else round(lead, 4))
    return {
        "weights": [[round(value, 4) for value in row] for row in head.weights.tolist()],
        "reads": reads,
        "leads": leads,
    }


VIEW: Final = View(
    name="attention",
    title="Attention",
    says="Where each head of a Transformer looks, token by token, and by how much its target leads.",
    default={"witness": "index-lookup · transformer-1", "n": 8, "input": "s4 s5 s2 s5 s5 s0 s5 s6 @6"},
    answer=_answer,
)
