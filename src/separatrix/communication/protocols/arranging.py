"""Which protocol runs a model on a task, under which split, and at which positions an answer is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, final

from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols.any_partition import AnyPartition, Query
from separatrix.communication.protocols.interface import Protocol
from separatrix.communication.protocols.one_way import OneWay, is_prefix
from separatrix.communication.protocols.rows import RowByRow
from separatrix.communication.task_problems import partition_of
from separatrix.errors import InvalidInput
from separatrix.evidence.fitting import check_run
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.explicit.graph_transformer import GraphTransformer
from separatrix.models.explicit.graph_unit import GraphUnit
from separatrix.models.explicit.linear_rnn import LayeredRNN
from separatrix.models.explicit.transformer import Transformer
from separatrix.models.interface import SequenceModel
from separatrix.models.population import Population, SingleMember
from separatrix.models.quantised import Quantised
from separatrix.options import require
from separatrix.precision import NumberSystem
from separatrix.registry import unknown_name
from separatrix.tasks import Task
from separatrix.tasks.interface import ChainTask, Classes, Partition, Tokens
from separatrix.tasks.specs import spec_of
from separatrix.theorems import Artefact, theorem
from separatrix.witnesses import Witness

__all__ = ["Arrangement", "Model", "arrange", "artefacts", "check_batch", "check_input"]

Model: TypeAlias = Witness | SequenceModel | Population

_KINDS: Final[Mapping[str, type[Protocol]]] = MappingProxyType(
    {kind.theorem: kind for kind in (OneWay, AnyPartition, RowByRow)}
)
_TRAINED: Final[Mapping[str, str]] = MappingProxyType(
    {"transformer": "transformer", "llama": "transformer", "hybrid": "hybrid", "linear-rnn": "linear-rnn"}
)
"""Families of the architectures that are trained; the others are recurrent and no more is said of them."""
_DEEPEST: Final = 3
"""Layers of the deepest Transformers that have a family of their own."""


def artefacts() -> Iterator[Artefact]:
    """The key of every protocol."""
    for kind in _KINDS.values():
        yield Artefact(theorem=kind.theorem, kind="protocol", task=None, family=kind.family)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Arrangement:
    """A protocol, and what its runs are of."""

    task: Task
    model: SequenceModel
    population: Population | None
    """Where the model came from, if it is a trained one; its files are made from this."""
    family: str
    partition_name: str
    protocol: Protocol
    query: Query


def arrange(
    model: Model,
    task: Task,
    *,
    partition: str | Partition | None = None,
    at: Sequence[int] | None = None,
    arithmetic: NumberSystem | None = None,
    protocol: str | None = None,
    query: Query = "vector",
    family: str | None = None,
) -> Arrangement:
    """How two parties run this model on inputs of the task's full length.

    `partition` is a name or a `Partition`; without one the first split of the task that the protocol takes.
    `at` are positions, counted from 0, at which an answer is wanted; without them, all labelled ones that Bob
    holds in a one-way protocol, all vertices of a graph, and the last labelled position otherwise.
    `arithmetic` has an explicit model compute in other numbers. `protocol` is the id of a theorem, to
    be told which of several protocols to take; `query` says how a query crosses in that of S-T4.
    """
    plain, population = _plain(model, arithmetic)
    if isinstance(model, Witness):
        require(
            model.script is None,
            f"A protocol runs models that answer at once; a witness of {model.theorem} writes before that.",
        )
        require(
            model.task == task or model.task.full_length() == task.full_length(),
            f"This witness was built for {spec_of(model.task)}; got {spec_of(task)}.",
        )
    kind = _kind_for(plain, protocol)
    name, split = _split(task, partition, kind)
    require(
        not isinstance(task, ChainTask) and (kind is OneWay or not split.written),
        f"{task.name} has words here that neither party holds but the model writes; this protocol runs "
        "models that answer at once.",
    )
    asked = _asked(task, split, kind) if at is None else _checked(task, at)
    made = _made(kind, plain, task, split, asked, query)
    return Arrangement(
        task=task,
        model=plain,
        population=population,
        family=_family(made, task, family or _own_family(model)),
        partition_name=name,
        protocol=made,
        query=query,
    )


def check_input(task: Task, row: Shaped[Tensor, "pos *width"]) -> None:
    """Raise `InvalidInput` unless a row is an input of the task, and of full length."""
    task.check(row)
    check_batch(task, row.unsqueeze(0))


def check_batch(task: Task, inputs: Shaped[Tensor, "batch pos *width"]) -> None:
    """Raise `InvalidInput` unless rows are as long as inputs are, without padding: both know the length."""
    require(
        inputs.ndim >= 2 and len(inputs) > 0 and inputs.shape[1] == task.length,
        f"A protocol runs on a batch of inputs of {task.length} positions; got {tuple(inputs.shape)}.",
    )
    space = task.input_space
    if isinstance(space, Tokens) and space.pad is not None and bool((inputs == space.pad).any()):
        used = int((inputs != space.pad).sum(1).min())
        raise InvalidInput(
            f"Both parties know how long the input is, {task.length} words with n={task.n}; got {used}. "
            "Give a longer input or a smaller n."
        )


def _plain(model: Model, arithmetic: NumberSystem | None) -> tuple[SequenceModel, Population | None]:
    """The model itself, in the numbers that were asked for."""
    if isinstance(model, Witness):
        return _plain(model.model, arithmetic)
    if isinstance(model, ExplicitModel):
        return (model if arithmetic is None else model.with_arithmetic(arithmetic)), None
    require(
        arithmetic is None,
        "A trained model computes in the floats it was trained in; only an explicit one takes an arithmetic.",
    )
    if isinstance(model, Population):
        require(
            model.members == 1,
            f"Two parties run one model; this population has {model.members}. Pass population.alone(0).",
        )
        return model.member(0), model
    if isinstance(model, SequenceModel):
        return model, None
    raise InvalidInput(
        f"A protocol runs a witness, an explicit model or a trained one; got {type(model).__name__}."
    )


def _kind_for(model: SequenceModel, wanted: str | None) -> type[Protocol]:
    if wanted is not None:
        entry = theorem(wanted).id
        if entry not in _KINDS:
            raise unknown_name("protocol", wanted, tuple(_KINDS))
        return _KINDS[entry]
    if isinstance(model, GraphUnit):
        raise InvalidInput(
            f"A graph unit of order {model.order} attends to tuples of vertices, and no protocol for it is "
            "shorter than the graph itself; take --family graph-transformer."
        )
    if isinstance(model, GraphTransformer):
        return RowByRow
    if isinstance(model, Transformer) and len(model.layers) == 1:
        return AnyPartition
    return OneWay


def _split(task: Task, given: str | Partition | None, kind: type[Protocol]) -> tuple[str, Partition]:
    known = task.partitions()
    if given is None and kind is OneWay:
        fitting = [(name, split) for name, split in known.items() if is_prefix(split)]
        if fitting:
            return fitting[0]
    if isinstance(given, Partition):
        _, split = partition_of(task, given)  # refuses what does not cover the input
        return next((name for name, each in known.items() if each == split), "given"), split
    return partition_of(task, given)


def _asked(task: Task, split: Partition, kind: type[Protocol]) -> tuple[int, ...]:
    if kind is RowByRow:
        return tuple(range(task.length))
    row = task.full_length().sample(1, seed=0).inputs
    labelled = task.solve(row).mask[0].nonzero()[:, 0].tolist()
    if kind is OneWay:
        return tuple(position for position in labelled if position in split.bob) or (labelled[-1],)
    return (labelled[-1],)


def _checked(task: Task, at: Sequence[int]) -> tuple[int, ...]:
    strange = next((position for position in at if not 0 <= position < task.length), None)
    require(
        len(at) > 0 and strange is None,
        f"Answers are wanted at some of the {task.length} positions of an input; got "
        f"{'none' if strange is None else f'position {strange + 1}'}.",
    )
    return tuple(at)


def _made(
    kind: type[Protocol],
    model: SequenceModel,
    task: Task,
    split: Partition,
    asked: tuple[int, ...],
    query: Query,
) -> Protocol:
    scores = isinstance(task.target_space, Classes)
    makers: Mapping[type[Protocol], Callable[[], Protocol]] = {
        OneWay: lambda: OneWay(model, split, asked, scores=scores),
        AnyPartition: lambda: AnyPartition(model, task, split, asked, query=query),
        RowByRow: lambda: RowByRow(model, split, asked),
    }
    return makers[kind]()


def _own_family(model: Model) -> str | None:
    """The family that a model is of; None where all that is known is that it carries a state."""
    match model:
        case Witness():
            return model.family
        case Quantised():
            return _own_family(model.model)
        case Population() | SingleMember():
            return _TRAINED.get(model.name if isinstance(model, Population) else model.population.name)
        case Transformer():
            return f"transformer-{len(model.layers)}" if len(model.layers) <= _DEEPEST else "transformer"
        case LayeredRNN():
            return "hybrid" if model.attention else "linear-rnn"
        case _:
            return None


def _family(made: Protocol, task: Task, wanted: str | None) -> str:
    """The model's family where the protocol runs it, else the one that the theorem speaks of."""
    if wanted is not None:
        try:
            check_run(theorem(made.theorem), task=task.name, family=wanted)
        except InvalidInput:
            return made.family
        return wanted
    return made.family
