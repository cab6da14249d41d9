"""Runs of a protocol, and their transcripts.

    arrangement = arrange(witness, task, partition="odd/even")
    transcripts = run_protocols(arrangement, inputs)

`run_protocol` does both for one input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols.any_partition import Query
from separatrix.communication.protocols.arranging import (
    Arrangement,
    Model,
    arrange,
    check_batch,
    check_input,
)
from separatrix.communication.protocols.in_process import run_in_process
from separatrix.communication.protocols.interface import Known
from separatrix.communication.protocols.processes import run_in_processes
from separatrix.evidence import Party, Transcript
from separatrix.precision import NumberSystem
from separatrix.records import JsonValue
from separatrix.tasks import Task
from separatrix.tasks.interface import Partition
from separatrix.tasks.specs import spec_of

__all__ = ["run_protocol", "run_protocols"]


def run_protocols(
    arrangement: Arrangement,
    inputs: Shaped[Tensor, "batch pos *width"],
    *,
    processes: bool = False,
    keep: bool = False,
    timeout: float = 120.0,
) -> list[Transcript]:
    """A transcript for each of several inputs; with `keep`, also what the messages said.

    In this process, or with `processes` in two of their own, which have `timeout` seconds.
    """
    check_batch(arrangement.task, inputs)
    protocol = arrangement.protocol
    if processes:
        messages, known = run_in_processes(arrangement, inputs, keep=keep, timeout=timeout)
    else:
        recorders, known = run_in_process(protocol, inputs, keep=keep)
        messages = [tuple(recorder.messages) for recorder in recorders]
    with torch.no_grad():
        direct = protocol.direct(inputs)
    empty = Transcript(
        protocol=protocol.theorem,
        task=spec_of(arrangement.task),
        family=arrangement.family,
        partition=arrangement.partition_name,
        messages=(),
        output=None,
        direct_output=None,
    )
    return [
        replace(
            empty,
            messages=messages[row],
            output=_listed(_computed(known, row, protocol.asked), protocol.asked),
            direct_output=_listed(direct[row], protocol.asked),
        )
        for row in range(len(inputs))
    ]


def run_protocol(
    model: Model,
    task: Task,
    inputs: Shaped[Tensor, "pos *width"],
    *,
    partition: str | Partition | None = None,
    at: Sequence[int] | None = None,
    arithmetic: NumberSystem | None = None,
    protocol: str | None = None,
    query: Query = "vector",
    family: str | None = None,
    processes: bool = False,
    keep: bool = False,
) -> Transcript:
    """Two parties run a model on one input of the task, of full length; see `arrange` for the options."""
    arrangement = arrange(
        model,
        task,
        partition=partition,
        at=at,
        arithmetic=arithmetic,
        protocol=protocol,
        query=query,
        family=family,
    )
    check_input(task, inputs)
    return run_protocols(arrangement, inputs.unsqueeze(0), processes=processes, keep=keep)[0]


def _computed(known: Mapping[Party, Sequence[Known]], row: int, asked: Sequence[int]) -> Known:
    """What the parties found, from the one who computed it; where both know an answer it is the same."""
    found = {}
    for position in asked:
        answers = [each[row][position] for each in known.values() if position in each[row]]
        found[position] = next(answer for answer in answers if answer.outputs is not None)
        assert all(answer.value == found[position].value for answer in answers), "they know different answers"
    return found


def _listed(known: Known, asked: Sequence[int]) -> JsonValue:
    """Positions counted from 1, as people do."""
    return tuple({"position": position + 1, **known[position].to_fields()} for position in asked)
