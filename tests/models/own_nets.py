"""Modules and mixers such as a user would bring, good and bad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from separatrix.accounting import StatePart, recurrent_state
from separatrix.models.laws import constant, normal
from separatrix.models.members import Linear, taken
from separatrix.models.population import Signature, State
from separatrix.models.stack import Mixer, Mixing, StackConfig
from separatrix.options import option, require
from separatrix.tasks.interface import Tokens

a_number = 7


class WordNet(nn.Module):
    """Tied tables, a frozen scale, a buffer of whole numbers and one that is not saved."""

    places: Tensor
    fade: Tensor

    def __init__(self, words: int, out: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.mix = nn.TransformerEncoderLayer(width, 1, 7, dropout=0, batch_first=True)
        self.out = nn.Linear(width, words, bias=False)
        self.out.weight = self.table.weight
        self.scale = nn.Parameter(torch.rand(()), requires_grad=False)
        self.register_buffer("places", torch.arange(words))
        self.register_buffer("fade", torch.linspace(1, 2, width), persistent=False)
        self.answers = out

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.mix(self.table(self.places[tokens]) * self.fade)
        return self.out(x)[..., : self.answers] * self.scale  # type: ignore[no-any-return]


class RowNet(nn.Module):
    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.both = nn.Sequential(nn.Linear(wide, 6), nn.Tanh(), nn.Linear(6, out))
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, rows: Tensor) -> Tensor:
        return self.both(rows + rows.mean(1, keepdim=True)) * self.gain  # type: ignore[no-any-return]


def words(signature: Signature, *, width: int = 5) -> nn.Module:
    assert isinstance(signature.inputs, Tokens)
    return WordNet(signature.inputs.size, signature.out, width)


class RecurrentNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.LSTM(5, 3, batch_first=True)

    def forward(self, rows: Tensor) -> Tensor:
        return self.mix(rows)[0]  # type: ignore[no-any-return]


def recurrent() -> nn.Module:
    return RecurrentNet()


def rows() -> nn.Module:
    return RowNet(5, 3)


def greedy(signature: Signature, depth: int, *more: int) -> nn.Module:
    raise NotImplementedError


def nothing(signature: Signature) -> Any:
    return None


def weightless() -> nn.Module:
    return nn.Softmax(-1)


def narrow() -> nn.Module:
    return nn.Linear(5, 2)


def two_values() -> nn.Module:
    return nn.LSTM(5, 3, batch_first=True)


def unfit() -> nn.Module:
    return nn.Linear(4, 3)


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.25))


def attention_dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 3), nn.TransformerEncoderLayer(3, 1, 4, batch_first=True))


class Noisy(nn.Linear):
    def forward(self, rows: Tensor) -> Tensor:
        found = super().forward(rows)
        return found + torch.randn_like(found)


def noisy() -> nn.Module:
    return Noisy(5, 3)


class BatchNormed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(5), nn.Linear(5, 3)

    def forward(self, rows: Tensor) -> Tensor:
        return self.out(self.norm(rows.transpose(1, 2)).transpose(1, 2))  # type: ignore[no-any-return]


def batch_normed() -> nn.Module:
    return BatchNormed()


def of_changing_size() -> nn.Module:
    inner = 4 + int(torch.randint(3, ()))
    return nn.Sequential(nn.Linear(5, inner), nn.Linear(inner, 3))


class Fading(Mixer):
    """A mean that forgets: h = a h + (1 − a) v, with a learned a for each coordinate."""

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        forget: float = option(1.0, help="the initial logit of what is kept")

        def validate(self) -> None:
            require(abs(self.forget) < 20, f"{self.owner} needs |forget| < 20; got forget={self.forget}.")

    def __init__(self, members: int, config: Config) -> None:
        super().__init__(members)
        self.width = config.width
        self.value = Linear(members, config.width, config.width, law=normal(0.2), bias=constant(0))
        self.kept = self.parameter("kept", (config.width,), constant(config.forget))

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        state, seen = self.start(x.shape[1], x), []
        for row in x.unbind(2):
            found, state = self.step(row, state)
            seen.append(found)
        return taken(torch.stack(seen, dim=2), at)

    def start(self, batch: int, like: Tensor) -> State:
        return like.new_zeros(self.members, batch, self.width)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        kept = torch.sigmoid(self.kept).unsqueeze(1)
        state = kept * state + (1 - kept) * self.value(x)
        return state, state

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        return (recurrent_state(numbers=self.width, precision_bits=precision),)


class Averaging(Mixing):
    """The mean of all positions: no options, no steps."""

    def __init__(self, members: int, config: StackConfig) -> None:
        super().__init__(members)
        self.value = Linear(members, config.width, config.width, law=normal(0.2))

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        return taken(self.value(x.mean(2, keepdim=True)).expand_as(x), at)


class FirstFive(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows[..., :5]


def first_five() -> nn.Module:
    return FirstFive()
