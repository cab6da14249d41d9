"""From a program to plain tensors, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import InputMap, RealInputs, TokenClass, TokenInputs
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.layout import Layout, Slot
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.linear_rnn import Hybrid, LayeredRNN, LinearRNN
from separatrix.models.explicit.positions import Track
from separatrix.models.explicit.transformer import CausalTransformer, Transformer, UnmaskedTransformer
from separatrix.precision import NumberSystem
from separatrix.tasks import Reals
from separatrix.witnesses.language.forms import Field, Linear, Matrix, zeros
from separatrix.witnesses.language.gated_layers import gated_feed_forward, recurrent_layer
from separatrix.witnesses.language.operations import Gadget, HeadOperation
from separatrix.witnesses.language.placing import Epoch, rows_of, tensor, vector
from separatrix.witnesses.language.program import (
    FlagSource,
    LayerScript,
    PlaceSource,
    Program,
    RealSource,
    TokenSource,
)
from separatrix.witnesses.language.scales import scales_of

__all__ = ["Built", "build"]

_LONGEST_NAME: Final = 100

Places = Mapping[Field, int]
"""Where each field of a stream starts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Built:
    """A program as weights, with the scales that were chosen."""

    program: Program
    model: Transformer | LayeredRNN
    scales: Mapping[Field, Fraction]

    def __repr__(self) -> str:
        return f"<built program for {self.program.task.name}: {self.model.describe().splitlines()[0]}>"


def build(program: Program, system: NumberSystem) -> Built:
    """Fields → layout → scales → input map → layers → readout."""
    _require_whole(program)
    epochs = lay_out(program)
    scales = scales_of(program, system)
    inputs = _input_map(program, epochs[0])
    recurrent = tuple(
        recurrent_layer(script.memories, script.gadgets, epochs[0])
        for script in program.layers
        if script.recurrent
    )
    layers = tuple(
        _layer(script, scales, epochs[2 * i : 2 * i + 3], gated=program.gated)
        for i, script in enumerate(program.layers)
        if not script.recurrent
    )
    readout, layout = _readout(program, epochs[-1]), _named(program, epochs)
    model: Transformer | LayeredRNN
    if recurrent and layers:
        model = Hybrid(
            inputs=inputs, recurrent=recurrent, top=layers[0], readout=readout, layout=layout, numbers=system
        )
    elif recurrent:
        model = LinearRNN(inputs=inputs, recurrent=recurrent, readout=readout, layout=layout, numbers=system)
    else:
        kind = CausalTransformer if program.causal else UnmaskedTransformer
        model = kind(inputs=inputs, layers=layers, readout=readout, layout=layout, numbers=system)
    return Built(program=program, model=model, scales=scales)


def _require_whole(program: Program) -> None:
    if program.answer is None or not program.layers:
        raise InvalidInput("A program has a layer and an answer; finish it with answer_code, or another one.")
    kinds = [script.recurrent for script in program.layers]
    if any(kinds) and kinds not in ([True] * len(kinds), [True] * (len(kinds) - 1) + [False]):
        raise InvalidInput(
            "Recurrent layers come first and at most one layer of attention follows them; "
            f"got {' '.join('recurrent' if kind else 'attention' for kind in kinds)}."
        )
    names = [field.name for stage in _written(program) for field in stage]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"Fields have different names; two are called '{twice}'.")


def lay_out(program: Program) -> list[Epoch]:
    """The coordinates of the stream at the input, and after each attention and each feed-forward map.

    A residual adds what a layer writes to what is there, so a slot is not used twice while one lasts. Where
    nothing old is needed any more the residual is left out and the coordinates start afresh.
    """
    written = _written(program)
    needed = _needed(program)
    epochs = [Epoch({})]
    for stage, fields in enumerate(written):
        old_needed = any(field in needed[stage] for before in written[:stage] for field in before)
        if stage and fields and not old_needed and not program.gated:
            epochs.append(Epoch({}))
        elif stage:
            epochs.append(epochs[-1])
        epoch = epochs[-1]
        for field in fields:
            epoch.places[field] = epoch.width
    return epochs


def _written(program: Program) -> list[list[Field]]:
    """The fields that appear at the input, and at each attention and feed-forward map in turn."""
    stages = [[source.field for source in program.sources]]
    for layer in program.layers:
        stages.append([*(head.result for head in layer.heads), *(memory.result for memory in layer.memories)])
        stages.append([gadget.result for gadget in layer.gadgets if not gadget.result.inner])
    return stages


def _needed(program: Program) -> list[set[Field]]:
    """For each stage, the fields that something behind it reads."""
    assert program.answer is not None, "a program answers"
    later: set[Field] = set(program.answer.form.parts)
    found = [set(later)]
    for layer in reversed(program.layers):
        later |= {field for gadget in layer.gadgets for field in gadget.reads()}
        found.append(set(later))
        later |= {field for head in layer.heads for field in head.reads()}
        later |= {field for memory in layer.memories for field in memory.reads()}
        found.append(set(later))
    return found[::-1]


def _input_map(program: Program, epoch: Epoch) -> InputMap:
    tracks: dict[str, Track] = {}
    for source in program.sources:
        if isinstance(source, PlaceSource):
            tracks[source.field.name] = Track(name=source.field.name, rule=source.rule, code=source.code)
    own = torch.zeros(len(program.elements), epoch.width, dtype=torch.float64)
    for row, element in enumerate(program.elements):
        for field, given in element.items():
            start = epoch.places[field]
            own[row, start : start + field.dim] = torch.tensor([float(value) for value in given])
        for source in program.sources:
            if isinstance(source, FlagSource) and source.values is None:
                own[row, epoch.places[source.field]] = 1
    if not program.on_words:
        return _real_map(program, epoch, tracks, own)
    return _token_map(program, epoch, tracks, own)


def _token_map(
    program: Program, epoch: Epoch, tracks: Mapping[str, Track], own: Float[Tensor, "extra width"]
) -> TokenInputs:
    vocabulary = program.vocabulary
    classes = []
    for block in vocabulary.blocks:
        bias = torch.zeros(epoch.width, dtype=torch.float64)
        code, matrix = None, torch.zeros(epoch.width, 0, dtype=torch.float64)
        used = {}
        for source in program.sources:
            field, start = source.field, epoch.places[source.field]
            rows = slice(start, start + field.dim)
            match source:
                case TokenSource() if source.block == block.name:
                    assert code is None or code is source.code, "a block has one code"
                    if code is None:
                        code = source.code
                        matrix = torch.zeros(epoch.width, code.dim, dtype=torch.float64)
                    matrix[rows] = torch.eye(field.dim, dtype=torch.float64)
                case PlaceSource() if source.blocks is None or block.name in source.blocks:
                    placed = torch.zeros(epoch.width, field.dim, dtype=torch.float64)
                    placed[rows] = torch.eye(field.dim, dtype=torch.float64)
                    used[field.name] = placed
                case FlagSource():
                    bias[start] = 1 if source.values is None else float(source.values.get(block.name, 0))
                case _:
                    pass
        classes.append(
            TokenClass(
                name=block.name,
                first=vocabulary.offset(block.name),
                count=block.size,
                code=code,
                matrix=matrix,
                bias=bias,
                tracks=used,
            )
        )
    return TokenInputs(
        classes=tuple(classes), position_tracks=tuple(tracks.values()), pad=vocabulary.pad, own=own
    )


def _real_map(
    program: Program, epoch: Epoch, tracks: Mapping[str, Track], own: Float[Tensor, "extra width"]
) -> RealInputs:
    space = program.task.input_space
    assert isinstance(space, Reals)
    matrix = torch.zeros(epoch.width, space.width, dtype=torch.float64)
    bias = torch.zeros(epoch.width, dtype=torch.float64)
    placed = {}
    for source in program.sources:
        start = epoch.places[source.field]
        match source:
            case RealSource():
                for row, column in enumerate(source.columns):
                    matrix[start + row, column] = 1
            case PlaceSource():
                placed[source.field.name] = torch.zeros(epoch.width, source.field.dim, dtype=torch.float64)
                placed[source.field.name][start : start + source.field.dim] = torch.eye(source.field.dim)
            case FlagSource():
                bias[start] = 1
            case TokenSource():
                raise AssertionError("a real input has no tokens")
    return RealInputs(
        matrix=matrix,
        bias=bias,
        track_matrices=placed,
        position_tracks=tuple(tracks.values()),
        padded=True,
        own=own,
    )


def _layer(
    script: LayerScript, scales: Mapping[Field, Fraction], epochs: Sequence[Epoch], *, gated: bool
) -> Layer:
    before, between, after = epochs
    heads = tuple(_head(head, scales.get(head.result), before) for head in script.heads)
    # A layer without a head of its own has one that returns nothing: W's layers all attend.
    heads = heads or (_idle(before.width),)
    output = zeros(between.width, sum(head.out for head in heads))
    column = 0
    for operation in script.heads:
        start = between.places[operation.result]
        for i in range(operation.result.dim):
            output[start + i, column + i] = Fraction(1)
        column += operation.result.dim
    psi = None
    if script.gadgets and gated:
        psi = gated_feed_forward(script.gadgets, between)
    elif script.gadgets:
        psi = feed_forward(script.gadgets, between, after)
    return Layer(
        heads=heads,
        output=tensor(output),
        attention_residual=between is before,
        feed_forward=psi,
        feed_forward_residual=psi is not None and after is between,
    )


def _idle(width: int) -> Head:
    nothing = torch.zeros(1, width, dtype=torch.float64)
    return Head(query=nothing, key=nothing.clone(), value=nothing.clone())


def _head(operation: HeadOperation, scale: Fraction | None, epoch: Epoch) -> Head:
    if not operation.selects:
        nothing = torch.zeros(1, epoch.width, dtype=torch.float64)
        return Head(query=nothing, key=nothing.clone(), value=tensor(rows_of(operation.value, epoch)))
    assert scale is not None
    queries = np.concatenate([rows_of(query * scale, epoch) for query, _ in operation.match])
    keys = np.concatenate([rows_of(key, epoch) for _, key in operation.match])
    return Head(query=tensor(queries), key=tensor(keys), value=tensor(rows_of(operation.value, epoch)))


@dataclass(frozen=True, eq=False)
class _Known:
    """Fields as affine functions of the current hidden vector: matrix·hidden + offset."""

    fields: dict[Field, tuple[Matrix, tuple[Fraction, ...]]]
    width: int

    def form(self, form: Linear) -> tuple[Matrix, tuple[Fraction, ...]]:
        matrix, offset = zeros(form.out, self.width), list(form.offset)
        for field, part in form.parts.items():
            inside, constant = self.fields[field]
            matrix = matrix + part @ inside
            offset = [a + b for a, b in zip(offset, part @ np.array(constant, dtype=object), strict=True)]
        return matrix, tuple(offset)


def feed_forward(gadgets: Sequence[Gadget], between: Epoch, after: Epoch) -> FeedForward:
    """ψ: gadgets of one depth share a hidden layer; what deeper ones still need is carried along."""
    known = _Known({}, between.width)
    mine = {gadget.result for gadget in gadgets}
    for field, start in between.places.items():
        if field in mine:  # with a residual its coordinates are there already, and still empty
            continue
        matrix = zeros(field.dim, between.width)
        for i in range(field.dim):
            matrix[i, start + i] = Fraction(1)
        known.fields[field] = matrix, (Fraction(0),) * field.dim
    waves = _waves(gadgets)
    maps = []
    for depth, wave in enumerate(waves):
        deeper = [field for later in waves[depth + 1 :] for gadget in later for field in gadget.reads()]
        results = {gadget.result for gadget in wave}
        carried = [field for field in dict.fromkeys(deeper) if field in known.fields and field not in results]
        carried += [
            field for field in known.fields if field in mine and not field.inner and field not in carried
        ]
        known, hidden = _hidden(known, wave, carried)
        maps.append(hidden)
    final, bias = zeros(after.width, known.width), [Fraction(0)] * after.width
    for gadget in gadgets:
        if gadget.result.inner:
            continue
        start = after.places[gadget.result]
        matrix, offset = known.fields[gadget.result]
        final[start : start + gadget.result.dim] = matrix
        bias[start : start + gadget.result.dim] = offset
    maps.append(Affine(matrix=tensor(final), bias=vector(bias)))
    return FeedForward(maps=tuple(maps))


def _waves(gadgets: Sequence[Gadget]) -> list[list[Gadget]]:
    """Gadgets by depth: a gadget stands behind those whose results it reads."""
    depth: dict[Field, int] = {}
    for gadget in gadgets:
        depth[gadget.result] = 1 + max((depth.get(field, 0) for field in gadget.reads()), default=0)
    waves: list[list[Gadget]] = [[] for _ in range(max(depth.values()))]
    for gadget in gadgets:
        waves[depth[gadget.result] - 1].append(gadget)
    return waves


def _hidden(known: _Known, wave: Sequence[Gadget], carried: Iterable[Field]) -> tuple[_Known, Affine]:
    """One hidden layer: the units of the gadgets, and ReLU(x), ReLU(−x) for what is carried."""
    rows: list[Matrix] = []
    offsets: list[Fraction] = []
    spans: list[tuple[Field, Matrix, tuple[Fraction, ...], int]] = []
    for gadget in wave:
        start = len(offsets)
        for unit in gadget.units:
            matrix, offset = known.form(unit.form)
            rows.append(matrix)
            offsets += offset
        spans.append((gadget.result, gadget.mix, gadget.offset, start))
    for field in carried:
        matrix, offset = known.fields[field]
        start, signs = len(offsets), (1,) if field.low >= 0 and not field.noisy else (1, -1)
        for sign in signs:
            rows.append(matrix * Fraction(sign))
            offsets += [value * sign for value in offset]
        mix = zeros(field.dim, field.dim * len(signs))
        for i in range(field.dim):
            for side, sign in enumerate(signs):
                mix[i, side * field.dim + i] = Fraction(sign)
        spans.append((field, mix, (Fraction(0),) * field.dim, start))
    width = len(offsets)
    fields = {}
    for field, mix, offset, start in spans:
        matrix = zeros(field.dim, width)
        matrix[:, start : start + mix.shape[1]] = mix
        fields[field] = matrix, offset
    return _Known(fields, width), Affine(matrix=tensor(np.concatenate(rows)), bias=vector(offsets))


def _readout(program: Program, epoch: Epoch) -> Readout:
    answer = program.answer
    assert answer is not None
    parts = Linear(answer.form.parts, (Fraction(0),) * answer.form.out)
    image = Affine(matrix=tensor(rows_of(parts, epoch)), bias=vector(answer.form.offset))
    return Readout(map=image, code=answer.code, scores=answer.scores)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _named(program: Program, epochs: Sequence[Epoch]) -> Layout:
    slots = []
    for epoch in dict.fromkeys(epochs):
        for field, start in epoch.places.items():
            slots.append(
                Slot(
                    name=_short(field.name),
                    start=start,
                    stop=start + field.dim,
                    since=field.since,
                    note=field.note,
                )
            )
    heads = tuple(tuple(map(str, (*layer.heads, *layer.memories))) for layer in program.layers)
    return Layout(slots=tuple(slots), heads=heads)
