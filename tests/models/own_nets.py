"""Modules and mixers such as a user would bring, good and bad."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from separatrix.accounting import StatePart, recurrent_state
from separatrix.errors import InvalidInput
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


class NoisyInTraining(nn.Linear):
    def forward(self, rows: Tensor) -> Tensor:
        found = super().forward(rows)
        return found + torch.randn_like(found) if self.training else found


def noisy_in_training() -> nn.Module:
    return NoisyInTraining(5, 3).eval()


class BatchNormed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(5), nn.Linear(5, 3)

    def forward(self, rows: Tensor) -> Tensor:
        return self.out(self.norm(rows.transpose(1, 2)).transpose(1, 2))  # type: ignore[no-any-return]


def batch_normed() -> nn.Module:
    return BatchNormed()


class Scaled(nn.Module):
    """No weight has an axis."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.rand(())), nn.Parameter(torch.zeros(()))

    def forward(self, rows: Tensor) -> Tensor:
        return rows[..., :3] * self.gain + self.shift


def scaled() -> nn.Module:
    return Scaled()


class Called(nn.Linear):
    """Weights with the names of what holds them."""

    def __init__(self) -> None:
        super().__init__(5, 3)
        self.draw, self.members = nn.Parameter(torch.rand(())), nn.Parameter(torch.rand(3))

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) * self.draw + self.members


def called() -> nn.Module:
    return Called()


class Sometimes(nn.Module):
    """One table has no part in most answers."""

    def __init__(self, words: int, out: int) -> None:
        super().__init__()
        self.always, self.rarely = nn.Embedding(words, out), nn.Embedding(words, out)

    def forward(self, tokens: Tensor) -> Tensor:
        found = self.always(tokens)
        rising = bool((tokens[0].diff() >= 0).all())
        return found + self.rarely(tokens) if rising else found  # type: ignore[no-any-return]


def sometimes(signature: Signature) -> nn.Module:
    assert isinstance(signature.inputs, Tokens)
    return Sometimes(signature.inputs.size, signature.out)


class Rows(nn.Module):
    """A linear map of rows and whatever a test puts beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(5, 3)

    def forward(self, rows: Tensor) -> Tensor:
        return self.map(rows)  # type: ignore[no-any-return]


class ComplexWeight(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Parameter(torch.tensor([1j, 1, -1j]))

    def forward(self, rows: Tensor) -> Tensor:
        return (self.map(rows) * self.turn).real  # type: ignore[no-any-return]


class ComplexBuffer(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.tensor([1j, 1, -1j]))


class Spare(Rows):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.spare = nn.ParameterList(nn.Parameter(torch.ones(2)) for _ in range(count))


class Detached(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows).detach()


class Cut(torch.autograd.Function):
    """Forward only."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.clone()


class Undifferentiable(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        return Cut.apply(super().forward(rows))  # type: ignore[no-any-return, no-untyped-call]


class ForTwo(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows.reshape(2, 5, 5))


class Squeezed(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows.squeeze())


class AcrossBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.LSTM(5, 3)

    def forward(self, rows: Tensor) -> Tensor:
        return self.mix(rows)[0]  # type: ignore[no-any-return]


class NotNumbers(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) / torch.zeros(()) * 0


class Clamping(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        self.map.weight.data.mul_(0.5)
        return super().forward(rows)


class Caching(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        self.register_buffer("seen", rows)
        return super().forward(rows)


class OfFullLength(Rows):
    """What it reads is five positions of float32 on a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.places = torch.ones(5, 5)

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward((rows + self.places).float())


def full_length() -> nn.Module:
    return OfFullLength()


def complex_weight() -> nn.Module:
    return ComplexWeight()


def complex_buffer() -> nn.Module:
    return ComplexBuffer()


def spare() -> nn.Module:
    return Spare(1)


def much_to_spare() -> nn.Module:
    return Spare(5)


def detached() -> nn.Module:
    return Detached()


def undifferentiable() -> nn.Module:
    return Undifferentiable()


def for_two() -> nn.Module:
    return ForTwo()


def squeezed() -> nn.Module:
    return Squeezed()


def across_batch() -> nn.Module:
    return AcrossBatch()


def not_numbers() -> nn.Module:
    return NotNumbers()


def clamping() -> nn.Module:
    return Clamping()


def caching() -> nn.Module:
    return Caching()


def lazy() -> nn.Module:
    return nn.LazyLinear(3)


def elsewhere() -> nn.Module:
    return nn.Linear(5, 3, device="meta")


def double() -> nn.Module:
    return nn.Linear(5, 3, dtype=torch.float64)


def failing(*, width: int = 3) -> nn.Module:
    raise RuntimeError("no such\n    file")


def refusing() -> nn.Module:
    raise InvalidInput("Three is not enough; try 4.")


calls = itertools.count()


def drawing_elsewhere() -> nn.Module:
    net = nn.Linear(5, 3)
    nn.init.constant_(net.bias, next(calls))
    return net


class Asking(Rows):
    """The host has to wait for a number of the device's."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) * (1 + rows.sum().item() * 0)


def asking() -> nn.Module:
    return Asking()


def of_changing_parts() -> nn.Module:
    return nn.Linear(5, 3, bias=bool(torch.randint(2, ())))


def of_a_kind(*, kind: str = "gru") -> nn.Module:
    raise NotImplementedError


def in_words(*, layers: str = "two") -> nn.Module:
    raise NotImplementedError


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
