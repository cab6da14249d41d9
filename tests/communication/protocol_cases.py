"""Models for the tests of protocols: witnesses in several numbers, and random one-layer Transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from separatrix.communication.protocols import Arrangement, Part, run_protocols
from separatrix.communication.protocols.in_process import run_parts
from separatrix.evidence import Transcript
from separatrix.models.explicit.codes import Binary, OneHot
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.positions import Own, Track
from separatrix.models.explicit.transformer import CausalTransformer, Transformer, UnmaskedTransformer
from separatrix.precision import FixedDown, FixedNearest, NumberSystem
from separatrix.tasks import Task, task
from separatrix.tasks.interface import Tokens
from separatrix.witnesses import Choices, Witness, witness_for


class Case(NamedTuple):
    """A witness to be built."""

    task: str
    family: str
    system: NumberSystem
    parameters: dict[str, Any]

    def built(self) -> tuple[Witness, Task]:
        made = task(self.task, **self.parameters)
        return witness_for(made, family=self.family, choices=Choices(system=self.system)), made

    def __str__(self) -> str:
        extra = "-".join(f"{key}{value}" for key, value in self.parameters.items())
        return f"{self.task}-{self.family}-{extra}-{self.system.bits}"


ONE_LAYER = (
    Case("index-lookup", "transformer-1", FixedDown(n=16, k=2), {"n": 12, "alphabet": 5}),
    Case("index-lookup", "transformer-1", FixedNearest(p=31), {"n": 7, "alphabet": 3}),
    Case("index-lookup", "transformer", FixedNearest(p=61), {"n": 6, "alphabet": 4}),
    Case("dyck", "transformer-1", FixedDown(n=8, k=2), {"n": 8}),
    Case("dyck", "transformer-1", FixedNearest(p=25), {"n": 6}),
    Case("equality", "transformer-1", FixedDown(n=64, k=2), {"n": 8}),
    Case("disjointness", "transformer-1", FixedNearest(p=21), {"n": 10}),
    Case("match2", "transformer-1", FixedDown(n=16, k=4), {"n": 8, "modulus": 11}),
    Case("match3", "transformer-1", FixedNearest(p=41), {"n": 4, "modulus": 8}),
    Case(
        "match3", "transformer-1", FixedNearest(p=41), {"n": 6, "modulus": 8, "variant": "local", "window": 1}
    ),
    Case("q-sparse-averaging", "transformer-1", FixedNearest(p=25), {"n": 8}),
    Case("equality", "transformer-1", FixedNearest(p=71), {"n": 4}),
)
RECURRENT = (
    Case("index-lookup", "rnn", FixedNearest(p=21), {"n": 9, "alphabet": 6}),
    Case("associative-recall", "rnn", FixedDown(n=16, k=4), {"n": 4}),
    Case("equality", "rnn", FixedNearest(p=31), {"n": 8}),
    Case("dyck", "rnn", FixedNearest(p=31), {"n": 10}),
    Case("dyck", "rnn", FixedDown(n=16, k=4), {"n": 8, "types": 3, "depth": 3}),
    Case("index-lookup", "hybrid", FixedNearest(p=61), {"n": 6, "alphabet": 4}),
    Case("counting", "hybrid", FixedNearest(p=61), {"n": 8}),
    Case("dyck", "transformer-3", FixedNearest(p=31), {"n": 6}),
)


def inputs_of(made: Task, count: int, *, seed: int = 0, start: int = 0) -> Tensor:
    """Inputs of full length."""
    return made.full_length().sample(count, seed=seed, start=start).inputs


def answers(transcript: Transcript) -> list[Any]:
    """What the parties found, in the order of the positions asked for."""
    output: Any = transcript.output
    return [each["answer"] for each in output]


def grid(*shape: int, seed: int, reach: int = 8) -> Tensor:
    """Multiples of 1/4, which are exact in every way to compute them."""
    drawn = torch.randint(-reach, reach + 1, shape, generator=torch.Generator().manual_seed(seed))
    return drawn.double() / 4


def random_transformer(
    made: Task,
    seed: int,
    *,
    heads: int,
    causal: bool,
    own: int,
    psi: bool,
    system: NumberSystem,
    reach: int = 8,
) -> Transformer:
    """One layer with every weight drawn, which does nothing in particular."""
    space = made.input_space
    assert isinstance(space, Tokens)
    width, places, code = 4, Binary(count=16), OneHot(count=space.size)

    def drawn(*shape: int) -> Tensor:
        drawn.seed += 1  # type: ignore[attr-defined]
        return grid(*shape, seed=1000 * seed + drawn.seed, reach=reach)  # type: ignore[attr-defined]

    drawn.seed = 0  # type: ignore[attr-defined]
    kind = TokenClass(
        name="all",
        first=0,
        count=space.size,
        code=code,
        matrix=drawn(width, code.dim),
        bias=drawn(width),
        tracks={"place": drawn(width, places.dim)},
    )
    layer = Layer(
        heads=tuple(
            Head(query=drawn(2 + h, width), key=drawn(2 + h, width), value=drawn(3 - h % 2, width))
            for h in range(heads)
        ),
        output=drawn(width, sum(3 - h % 2 for h in range(heads))),
        attention_residual=psi,
        feed_forward=FeedForward(
            maps=(
                Affine(matrix=drawn(5, width), bias=drawn(5)),
                Affine(matrix=drawn(width, 5), bias=drawn(width)),
            )
        )
        if psi
        else None,
        feed_forward_residual=False,
    )
    form = CausalTransformer if causal else UnmaskedTransformer
    return form(
        inputs=TokenInputs(
            classes=(kind,),
            position_tracks=(Track(name="place", rule=Own(), code=places),),
            pad=space.pad,
            own=drawn(0 if causal else own, width),
        ),
        layers=(layer,),
        readout=Readout(map=Affine(matrix=drawn(3, width), bias=drawn(3)), code=None, scores=True),
        numbers=system,
    )


def split_texts(length: int) -> Iterator[str]:
    """Ways to say who holds what, the lopsided ones among them."""
    yield "odd/even"
    yield "halves"
    yield "1"
    yield f"1-{length - 1}"
    yield f"2,{length}"


def ran_on_garbage(arrangement: Arrangement, inputs: Tensor, garbage: Tensor) -> list[Transcript]:
    """Each party gets its own half of the inputs and garbage where the other's would be."""
    protocol = arrangement.protocol
    mixed = {}
    for party, other in (("Alice", protocol.partition.bob), ("Bob", protocol.partition.alice)):
        seen = inputs.clone()
        places = torch.tensor((*other, *protocol.partition.written), dtype=torch.int64)
        seen[:, places] = garbage[:, places]
        mixed[party] = seen
    parts = [Part.of(party, mixed[party], protocol.partition) for party in ("Alice", "Bob")]
    recorders, _ = run_parts(protocol, parts[0], parts[1], keep=True)
    said = run_protocols(arrangement, inputs, keep=True)
    assert [tuple(recorder.messages) for recorder in recorders] == [each.messages for each in said]
    return said
