"""Every witness there is, by what it shows, and where its construction lives; listing imports nothing."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast, final

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.registry import unknown_name
from separatrix.tasks import Task
from separatrix.tasks.interface import ChainTask
from separatrix.theorems import Artefact, families_within
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.witness import Witness, shown_by

__all__ = ["CATALOGUE", "Entry", "artefacts", "entries_for", "no_witness", "witness_for"]

Builder = Callable[[Task, Choices], Witness]


@final
@dataclass(frozen=True, kw_only=True)
class Entry:
    """One construction: the key of what it shows, and its function as `module:name` in this package.

    `takes` are parameters of the task that must have a certain value for the construction to be about it.
    """

    theorem: str
    task: str
    family: str
    variant: str = ""
    home: str
    takes: Mapping[str, object] = field(default_factory=dict)

    @property
    def artefact(self) -> Artefact:
        """The key."""
        return shown_by(self.theorem, self.task, self.family, self.variant)

    def serves(self, task: Task) -> bool:
        """Whether it is about this task."""
        return task.name == self.task and all(
            getattr(task, name) == value for name, value in self.takes.items()
        )

    def builder(self) -> Builder:
        """The function, imported now."""
        module, _, name = self.home.partition(":")
        return cast(Builder, getattr(importlib.import_module(f"separatrix.witnesses.{module}"), name))


CATALOGUE: Final = (
    Entry(theorem="S-T1", task="index-lookup", family="transformer-1", home="index_lookup:index_lookup"),
    Entry(
        theorem="S-E-cited",
        task="dyck",
        family="transformer-3",
        home="dyck:dyck_recognise",
        takes={"form": "recognise"},
    ),
    Entry(
        theorem="S-E-cited",
        task="dyck",
        family="transformer-2",
        variant="next characters",
        home="dyck:dyck_next",
        takes={"form": "next"},
    ),
    Entry(
        theorem="S-T7",
        task="nearest-neighbour",
        family="transformer-2",
        home="nearest_neighbour:nearest_neighbour",
    ),
    Entry(theorem="S-T7", task="mqar", family="transformer-2", home="recall:mqar"),
    Entry(
        theorem="S-T7", task="associative-recall", family="transformer-2", home="recall:associative_recall"
    ),
    Entry(
        theorem="R-qSA",
        task="q-sparse-averaging",
        family="transformer-1",
        home="sparse_averaging:sparse_averaging",
    ),
    Entry(theorem="R-M2", task="match2", family="transformer-1", home="matching:match2"),
    Entry(
        theorem="R-M3", task="match3", family="third-order", home="matching:match3", takes={"variant": "full"}
    ),
    Entry(
        theorem="R-M3′",
        task="match3",
        family="transformer-2",
        variant="last-output",
        home="last_match:match3_last",
        takes={"variant": "last"},
    ),
    Entry(
        theorem="R-M3′",
        task="match3",
        family="transformer-1",
        variant="local",
        home="matching_layers:match3_local",
        takes={"variant": "local"},
    ),
    Entry(
        theorem="UP-M3",
        task="match3",
        family="transformer-1",
        home="matching_layers:match3_wide",
        takes={"variant": "full"},
    ),
    Entry(
        theorem="R-G",
        task="cycle3",
        family="third-order",
        variant="graph unit of order 3",
        home="cycles:cycle3",
    ),
    Entry(
        theorem="R-G",
        task="cycle5",
        family="third-order",
        variant="graph unit of order 5",
        home="cycles:cycle5",
    ),
    Entry(
        theorem="S-T6",
        task="equality",
        family="transformer-2",
        home="equality:equality",
        takes={"alice": None},
    ),
    Entry(
        theorem="S-L5",
        task="equality",
        family="transformer-2",
        variant="any balanced partition",
        home="equality:partition_equality",
    ),
    Entry(
        theorem="S-T13",
        task="sparse-threshold",
        family="transformer-2",
        home="sparse_threshold:sparse_threshold",
    ),
    Entry(theorem="S-T13", task="disjointness", family="transformer-2", home="disjointness:disjointness"),
    Entry(
        theorem="UP-TF1",
        task="dyck",
        family="transformer-1",
        variant="linear size",
        home="linear_size:dyck_linear",
        takes={"form": "recognise"},
    ),
    Entry(
        theorem="UP-TF1",
        task="equality",
        family="transformer-1",
        variant="linear size",
        home="linear_size:equality_linear",
        takes={"alice": None},
    ),
    Entry(
        theorem="UP-TF1",
        task="disjointness",
        family="transformer-1",
        variant="linear size",
        home="linear_size:disjointness_linear",
    ),
    Entry(theorem="S-E", task="dyck", family="rnn", home="recurrent:dyck"),
    Entry(
        theorem="S-E",
        task="dyck",
        family="rnn",
        variant="sigmoid-type activations",
        home="recurrent:dyck_sigmoid",
    ),
    Entry(theorem="UP-RNN", task="index-lookup", family="rnn", home="recurrent:stored_input"),
    Entry(theorem="UP-RNN", task="associative-recall", family="rnn", home="recurrent:stored_input"),
    Entry(theorem="UP-RNN", task="mqar", family="rnn", home="recurrent:stored_input"),
    Entry(
        theorem="UP-RNN", task="equality", family="rnn", home="recurrent:stored_input", takes={"alice": None}
    ),
    Entry(
        theorem="W-4.6",
        task="index-lookup",
        family="transformer",
        home="small_transformers:index_lookup_constant",
    ),
    Entry(
        theorem="W-4.6",
        task="associative-recall",
        family="transformer",
        home="small_transformers:associative_recall_constant",
    ),
    Entry(theorem="W-4.6", task="c-gram", family="transformer", home="small_transformers:c_gram_constant"),
    Entry(
        theorem="W-4.6", task="counting", family="transformer", home="small_transformers:counting_constant"
    ),
    Entry(
        theorem="W-4.7",
        task="is-tree",
        family="transformer-cot",
        home="is_tree_tour:is_tree_tour",
        takes={"form": "cot"},
    ),
    Entry(
        theorem="W-4.7",
        task="is-tree",
        family="transformer-cot",
        variant="every n",
        home="is_tree_tour:is_tree_tour_every_n",
        takes={"form": "cot"},
    ),
    Entry(
        theorem="W-4.8",
        task="dyck",
        family="transformer-cot",
        home="replay.replays:dyck_replay",
        takes={"form": "recognise"},
    ),
    Entry(
        theorem="W-5.2",
        task="index-lookup",
        family="linear-rnn+retrieval",
        home="small_searches:index_lookup_search",
    ),
    Entry(
        theorem="W-5.2",
        task="associative-recall",
        family="linear-rnn+retrieval",
        home="small_searches:associative_recall_search",
    ),
    Entry(theorem="W-5.2", task="c-gram", family="linear-rnn+retrieval", home="small_searches:c_gram_search"),
    Entry(
        theorem="W-5.2", task="counting", family="linear-rnn+retrieval", home="small_searches:counting_search"
    ),
    Entry(
        theorem="W-5.3",
        task="is-tree",
        family="linear-rnn+retrieval",
        home="is_tree_searches:is_tree_searches",
        takes={"form": "retrieval", "trace": "full"},
    ),
    Entry(
        theorem="W-5.4",
        task="turing",
        family="linear-rnn+retrieval",
        home="turing.searches:turing_searches",
        takes={"form": "cot"},
    ),
    Entry(theorem="W-5.6", task="index-lookup", family="hybrid", home="small_hybrids:index_lookup_hybrid"),
    Entry(
        theorem="W-5.6",
        task="associative-recall",
        family="hybrid",
        home="small_hybrids:associative_recall_hybrid",
    ),
    Entry(theorem="W-5.6", task="c-gram", family="hybrid", home="small_hybrids:c_gram_hybrid"),
    Entry(theorem="W-5.6", task="counting", family="hybrid", home="small_hybrids:counting_hybrid"),
    Entry(
        theorem="W-5.7",
        task="is-tree",
        family="hybrid-cot",
        home="is_tree_doubling:is_tree_doubling",
        takes={"form": "cot"},
    ),
    Entry(
        theorem="W-5.8",
        task="turing",
        family="hybrid-cot",
        home="turing.hybrid:turing_hybrid",
        takes={"form": "cot"},
    ),
    Entry(
        theorem="W-4.1",
        task="turing",
        family="linear-rnn-cot",
        home="turing.tape:turing_tape",
        takes={"form": "cot"},
    ),
)


def artefacts() -> Iterator[Artefact]:
    """The key of every witness."""
    return (entry.artefact for entry in CATALOGUE)


def entries_for(task: str, family: str | None = None, variant: str | None = None) -> tuple[Entry, ...]:
    """The constructions for a task: those in the family itself first, then those in families within it."""
    order = (None,) if family is None else families_within(family)
    return tuple(
        entry
        for name in order
        for entry in CATALOGUE
        if entry.task == task
        and (name is None or entry.family == name)
        and (variant is None or entry.variant == variant)
    )


def fitted(task: Task, *, family: str | None = None, variant: str | None = None) -> Task:
    """The task as the first construction writes it, where no more than the form of a chain is in the way.

    The question stays the same: IsTree with a tour is still IsTree.
    """
    known = entries_for(task.name, family, variant)
    if not known or not isinstance(task, ChainTask) or any(entry.serves(task) for entry in known):
        return task
    return dataclasses.replace(task, **dict[str, Any](known[0].takes))


def witness_for(
    task: Task,
    *,
    family: str | None = None,
    variant: str | None = None,
    choices: Choices | None = None,
) -> Witness:
    """Weights that do the task on every input: by the first construction that is about such a task."""
    known = entries_for(task.name, family, variant)
    if not known:
        raise no_witness(task.name, family, variant)
    entry = next((each for each in known if each.serves(task)), None)
    if entry is None:
        raise _other_parameters(task, known)
    return entry.builder()(task, choices or Choices())


def _other_parameters(task: Task, known: tuple[Entry, ...]) -> InvalidInput:
    served = dict.fromkeys(
        " and ".join(f"{name}={value}" for name, value in entry.takes.items()) for entry in known
    )
    mine = {name: getattr(task, name) for entry in known for name in entry.takes}
    got = ", ".join(f"{name}={str(value)[:40]}" for name, value in mine.items())
    return InvalidInput(
        f"There are such witnesses for {task.name} with {' or with '.join(served)}; got {got}."
    )


def no_witness(task: str, family: str | None, variant: str | None) -> SeparatrixError:
    """The error for a task that has no construction of this kind: what there is instead."""
    known = [entry for entry in CATALOGUE if entry.task == task]
    if not known:
        built = ", ".join(dict.fromkeys(entry.task for entry in CATALOGUE))
        return InvalidInput(f"There is no witness for {task} yet. There are some for {built}.")
    families = tuple(dict.fromkeys(entry.family for entry in known))
    if family is not None and not entries_for(task, family):
        return unknown_name(f"witness for {task} in the family", family, families)
    variants = tuple(dict.fromkeys(entry.variant or "(none)" for entry in entries_for(task, family)))
    return unknown_name(f"witness for {task} of the variant", str(variant), variants)
