"""Bounded Dyck by a recurrent model of constant size: a stack of `depth` slots and a bit for failure.

A slot holds the type of a bracket, one coordinate a type, or nothing; slot 1 is the top. An opening bracket
shifts the stack down and enters at the top, a closing one of the top's type shifts it up. A bracket that does
neither, because the stack is full or the top is of another type or missing, sets the bit `dead` and empties
the stack, for good. So there is one state for each stack, Σ_{i ≤ depth} types^i of them, and a dead one: for
two types and depth 2 the 8 states of the minimal automaton.

One hidden layer does it, since every entry of the next state is a sum of units of which at most one is 1, and
every unit is an AND. Write o_τ, c_τ for "an opening, a closing bracket of type τ came", O = Σ o_τ,
s_{j,τ} for slot j, and full = Σ_τ s_{depth,τ}. The units, each 1 or at most 0 before the activation, are

    enter_τ      o_τ − full − dead               a bracket enters at the top
    down_{j,τ}   O + s_{j,τ} − full − 1          slot j moves to j + 1
    up_{σ,j,τ}   c_σ + s_{1,σ} + s_{j+1,τ} − 2   slot j + 1 moves to j, the top being the type that is closed
    overflow     O + full − 1                    ┐
    wrong_σ      c_σ − s_{1,σ} − dead            │ the reasons to be dead
    stay         dead                            ┘

Invariant: dead ∈ {0, 1}; each slot is a unit vector or 0; no slot above an occupied one is empty; dead = 1
implies that all slots are 0. It holds at the start, and the 2·types tokens preserve it, as the sums above say
case by case; with integers below 2^24 there is no rounding, at any length, in any of the number systems. The
string read so far is in the language iff dead = 0 and slot 1 is empty; what may follow a prefix of a member
is told by slot 1 and by full.

With sigmoid-type activations the units are a(g·(u − ½)), u being the sum above, and g = 32. Suppose units are
within ε of 0 or 1. An entry of the state adds up at most types + 2 units, so it is within
δ = (types + 2)·ε of its true value; a unit reads at most types + 1 entries of the state, so u is off by at
most (types + 1)·δ. With ε = 1/(4·(types + 1)·(types + 2)) this is 1/4: u − ½ keeps its sign and a distance
1/4 from 0, and the next units are within 1/(1 + e^(g/4)) < e^(−8) ≤ ε/4 of 0 or 1, for up to 8 types. So ε
holds for ever, and 3ε/4 is left for the rounding of a number system. The readout's sum over dead and slot 1
is off by at most 1/4 as well, and is compared with ½; likewise where it tells what may follow. The hard
sigmoid is 0 up to −3 and 1 from 3 on, and g/2 is 16: there nothing is off at all.
"""

from __future__ import annotations

from typing import Final

import torch

from separatrix.errors import TooLarge
from separatrix.models.explicit.recurrent import Readout, RecurrentModel, Update
from separatrix.models.explicit.recurrent_maps import Coordinates, LinearMap, same, spread, summed
from separatrix.models.explicit.recurrent_tokens import Activation, TokenBlock, TokenCode
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses._rnn_blocks import ONE, MapWriter, layer, ones, vector

__all__ = ["dyck_rnn_model"]

GAIN: Final = 32
EXACT: Final = ("relu", "hard-sigmoid")
MOST_UNITS: Final = 1 << 24


def dyck_rnn_model(task: Dyck, *, activation: Activation = "relu") -> RecurrentModel:
    """The model for the task's types and depth, right at every prefix of every length.

    In the form next it is right at every prefix of a member, and says nothing of use after other strings.

    State: types·depth + 1 numbers, with ReLU and the hard sigmoid each 0 or 1. Units:
    types²·(depth − 1) + types·(depth + 1) + 2.
    """
    types, depth = task.types, task.depth
    moved = types * (depth - 1)
    if types * moved + moved + 2 * types + 2 > MOST_UNITS:
        raise TooLarge(
            f"The recurrent model for {types} types and depth {depth} has {types * moved:,} units and more; "
            "at most 2^24 are built. Choose a smaller depth."
        )
    tokens = TokenCode(
        size=2 * types,
        blocks=tuple(
            TokenBlock(name=f"{side} {kind + 1}", first=2 * kind + place, count=1)
            for kind in range(types)
            for place, side in enumerate(("open", "close"))
        ),
    )
    state = Coordinates.of(slots=types * depth, dead=1)
    units = Coordinates.of(enter=types, down=moved, up=types * moved, overflow=1, wrong=types, stay=1)
    bias = vector(units, overflow=-1)
    if moved:
        bias += vector(units, down=-1, up=-2)
    update = _thresholds(
        Update(
            activation="relu",
            carry=MapWriter(state, state).done(),
            write=_write(state, units, types, moved),
            from_state=_from_state(units, state, types, moved),
            from_input=_from_input(units, tokens.coordinates, types, moved),
            bias=bias,
            offset=torch.zeros(state.width, dtype=torch.float64),
        ),
        activation,
    )
    return RecurrentModel(
        tokens=tokens,
        update=update,
        readout=_membership(state, types)
        if task.form == "recognise"
        else _continuations(state, types, moved),
        binary=("slots", "dead") if activation in EXACT else (),
    )


def _from_state(units: Coordinates, state: Coordinates, types: int, moved: int) -> LinearMap:
    """What each unit reads of slots and dead."""
    bottom = (0, moved)  # skips to slot `depth`, whose sum says whether the stack is full
    writer = MapWriter(units, state)
    writer.add("enter", "slots", -ones(types, types), skip=bottom).add("enter", "dead", -ones(types, 1))
    if moved:
        writer.add("down", "slots", ONE, inner=same(moved))
        writer.add("down", "slots", -ones(1, types), inner=spread(moved), skip=bottom)
        writer.add("up", "slots", ONE, outer=same(types), inner=spread(moved))
        writer.add("up", "slots", ONE, outer=spread(types), inner=same(moved), skip=(0, types))
    writer.add("overflow", "slots", ones(1, types), skip=bottom)
    writer.add("wrong", "slots", -ONE, outer=same(types)).add("wrong", "dead", -ones(types, 1))
    return writer.each("stay", "dead").done()


def _from_input(units: Coordinates, brackets: Coordinates, types: int, moved: int) -> LinearMap:
    """What each unit reads of the bracket: its own, or whether it opens."""
    own = torch.eye(2 * types, dtype=torch.float64)
    opening, closing = own[0::2].contiguous(), own[1::2].contiguous()
    opens = opening.sum(0, keepdim=True)
    writer = MapWriter(units, brackets)
    writer.add("enter", "open 1", opening)
    if moved:
        writer.add("down", "open 1", opens, inner=spread(moved))
        writer.add("up", "open 1", closing, inner=spread(moved))
    return writer.add("overflow", "open 1", opens).add("wrong", "open 1", closing).done()


def _write(state: Coordinates, units: Coordinates, types: int, moved: int) -> LinearMap:
    """Which units make up each entry of the next state."""
    writer = MapWriter(state, units)
    writer.add("slots", "enter", ONE, inner=same(types))
    if moved:
        writer.add("slots", "down", ONE, inner=same(moved), skip=(types, 0))
        writer.add("slots", "up", ONE, outer=summed(types), inner=same(moved))
    return writer.add("dead", "overflow", ones(1, types + 2)).done()


def _membership(state: Coordinates, types: int) -> Readout:
    """2·(dead + Σ_τ s_{1,τ}) for "no", 1 for "yes"."""
    scores = Coordinates.of(no=1, yes=1)
    writer = MapWriter(scores, state).add("no", "slots", 2 * ones(1, types)).add("no", "dead", 2 * ONE)
    return Readout(layers=(layer(writer, vector(scores, yes=1)),))


def _continuations(state: Coordinates, types: int, moved: int) -> Readout:
    """1: nothing is open; 2·s_{1,t}: opens or closes t; 2·s_{1,t} + 2·full − 1: closes t and nothing else.

    With the top t these are 1, 2 and 1, or 1, 2 and 3 if the stack is full; without a top 1, 0 and −1; and
    those of the other types are no more than 1. The best is ahead by 1, and errors of δ an entry take at most
    2·types·δ < 1/2 of it between the two classes of one type, and less than 1 elsewhere.
    """
    scores = Coordinates.of(nothing_open=1, not_full=types, full=types)
    writer = MapWriter(scores, state)
    for name in ("not full", "full"):
        writer.add(name, "slots", 2 * ONE, inner=same(types))
    writer.add("full", "slots", 2 * ones(types, types), skip=(0, moved))
    return Readout(layers=(layer(writer, vector(scores, nothing_open=1, full=-1)),))


def _thresholds(update: Update, activation: Activation) -> Update:
    """Each ReLU(u), u an integer of at most 1, as a(g·(u − ½)).

    tanh gives −1 and 1 where the others give 0 and 1, so half of it counts, with half a unit added to the
    state for each; and tanh(y/2) is the logistic function in that scale, so half the gain does the same.
    """
    if activation == "relu":
        return update
    centred = activation == "tanh"
    gain, share = (GAIN / 2, 0.5) if centred else (float(GAIN), 1.0)
    halves = torch.full((update.units.width,), 0.5 if centred else 0.0, dtype=torch.float64)
    return Update(
        activation=activation,
        carry=update.carry,
        write=update.write.scaled(share),
        from_state=update.from_state.scaled(gain),
        from_input=update.from_input.scaled(gain),
        bias=gain * (update.bias - 0.5),
        offset=update.write.image(halves),
    )
