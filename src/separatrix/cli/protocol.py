"""`separatrix protocol`: two parties run a model on an input split between them; every bit is counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter
from rich.text import Text

from separatrix.cli.flags import AsJson, Family, Variant, Wanted, Whole
from separatrix.cli.inputs import sized
from separatrix.cli.output import cut, note_if_long, printable, stdout_console, wrapped, write_json
from separatrix.errors import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor

    from separatrix.communication.protocols import Arrangement
    from separatrix.communication.protocols.arranging import Model
    from separatrix.evidence import Comparison, Transcript
    from separatrix.precision import NumberSystem
    from separatrix.store import Store
    from separatrix.tasks import Task

__all__ = ["protocol"]

_MOST_RUNS: Final = 100_000
_AT_ONCE: Final = 256
_MESSAGES_SHOWN: Final = 24


def protocol(
    task: Wanted,
    *,
    family: Family = None,
    variant: Variant = None,
    partition: Annotated[
        str | None,
        Parameter(
            help="Who holds what: a split of the task (odd/even, prefix/suffix …), Alice's positions counted "
            "from 1 as 1,4-6, or both parties' as 1-3/4-6. [default: the task's first that fits]"
        ),
    ] = None,
    precision: Annotated[
        Whole | None, Parameter(help="Bits of a number, odd: W's p-bit numbers. S's are in --arithmetic.")
    ] = None,
    arithmetic: Annotated[
        str | None,
        Parameter(
            help="down:N,K (S: multiples of N^-K), nearest:P (W), float64 or float32; floats only for a "
            "prefix and a suffix. [default: S's numbers, as coarse as the weights allow]"
        ),
    ] = None,
    theorem: Annotated[
        Literal["S-T2", "S-T4", "R-G"] | None,
        Parameter(help="Which protocol, where there are several; S-T2 runs every causal model."),
    ] = None,
    send: Annotated[
        Literal["vector", "queries", "token"],
        Parameter(help="How a query crosses in S-T4: its vector, what each head makes of it, or itself."),
    ] = "vector",
    at: Annotated[
        str | None,
        Parameter(
            help="Positions to answer at, counted from 1 as 1,4-6. [default: the last that has an answer; "
            "all of Bob's for S-T2; every vertex of a graph]"
        ),
    ] = None,
    input: Annotated[
        str | None,
        Parameter(help="An input in the task's words, instead of drawn ones.", allow_leading_hyphen=True),
    ] = None,
    runs: Annotated[Whole, Parameter(help="How many inputs to draw.")] = 1,
    seed: Annotated[Whole, Parameter(help="Seed of the inputs.")] = 0,
    processes: Annotated[
        bool,
        Parameter(
            help="Run the parties as two processes that talk over a loopback socket.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    model: Annotated[Path | None, Parameter(help="Folder of a witness, instead of building one.")] = None,
    run: Annotated[str | None, Parameter(help="Key of a trained run, instead of a witness.")] = None,
    store: Annotated[
        Path | None, Parameter(help="Folder of the store. [default: $SEPARATRIX_STORE, or runs]")
    ] = None,
    json: AsJson = False,
) -> int:
    """Let Alice and Bob run a model on their parts of an input, and count every bit between them.

    Exit code 1 if what they find is not what the model itself gives.
    """
    from separatrix.communication.protocols import arrange
    from separatrix.communication.protocols.weights import weights_for

    if not 1 <= runs <= _MOST_RUNS:
        raise InvalidInput(f"--runs is from 1 to {_MOST_RUNS:,}; got {runs}.")
    numbers = _numbers(arithmetic, precision)
    row: Tensor | None = None
    if model is None and run is None:
        made, row = _asked(task, input, family, variant)
        with note_if_long("Writing the weights; this may take a while."):
            found = weights_for(made, family, variant=variant, numbers=numbers)
    else:
        found, made = _from_files(task, model, run, store)
        row = None if input is None else made.parse(input)
    arrangement = arrange(
        found,
        made,
        partition=partition,
        at=None if at is None else _positions(at),
        protocol=theorem,
        query=send,
        arithmetic=None if model is None and run is None else numbers,
    )
    first, transcripts = _runs(arrangement, row, runs=runs, seed=seed, processes=processes)
    facts = _facts(arrangement, transcripts, first)
    if json:
        write_json(facts)
    else:
        _print(arrangement, transcripts, facts)
    return 0 if facts["agrees"] else 1


def _numbers(arithmetic: str | None, precision: int | None) -> NumberSystem | None:
    from separatrix.precision import FixedNearest, system_named

    if arithmetic is not None and precision is not None:
        raise InvalidInput("--precision and --arithmetic both say which numbers to take; give one of them.")
    if precision is not None:
        try:
            return FixedNearest(p=precision)
        except InvalidInput as refusal:
            raise InvalidInput(
                f"{refusal} For S's numbers, odd or not, take --arithmetic down:N,K, such as down:16,2."
            ) from None
    return None if arithmetic is None else system_named(arithmetic)


def _positions(text: str) -> list[int]:
    """Positions counted from 1, with ranges, as positions counted from 0."""
    if not re.fullmatch(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*", text, re.ASCII):
        raise InvalidInput(f"--at takes positions counted from 1, such as 1,4-6; got '{text[:60]}'.")
    found: list[int] = []
    for each in text.split(","):
        first, _, last = each.partition("-")
        found += range(int(first) - 1, int(last or first))
    return found


def _asked(
    task: Wanted, text: str | None, family: str | None, variant: str | None
) -> tuple[Task, Tensor | None]:
    """The task, and the input if one was given; without --n the task is as large as the input needs."""
    given = _given(task)
    if text is not None:
        return sized(Wanted(task.kind, given), text, family=family, variant=variant)
    return task.made(given), None


def _given(task: Wanted) -> dict[str, Any]:
    return {key: value for key, value in task.given.items() if value is not None or key != "n"}


def _from_files(task: Wanted, folder: Path | None, run: str | None, place: Path | None) -> tuple[Model, Task]:
    """A witness from its folder or a trained model from a store, and the task that it was made for."""
    if folder is not None and run is not None:
        raise InvalidInput("--model and --run both name the model; give one of them.")
    found, made = _witness(folder) if folder is not None else _trained(run or "", place)
    own = {key: getattr(made, key, None) for key in _given(task)} if made.name == task.kind.name else {}
    if made.name != task.kind.name or own != _given(task):
        parameters = "".join(f", {key}={value}" for key, value in own.items())
        raise InvalidInput(
            f"That model was made for {made.name}{parameters}; name this task and leave its parameters out."
        )
    return found, made


def _witness(folder: Path) -> tuple[Model, Task]:
    from separatrix.witnesses.files import load

    found = load(folder)
    return found, found.task


def _trained(key: str, place: Path | None) -> tuple[Model, Task]:
    from separatrix.evidence import TaskSpec
    from separatrix.records import Reader, thaw
    from separatrix.store import Store, default_place
    from separatrix.tasks.specs import task_of
    from separatrix.training.remembered import load_run

    store: Store = Store(default_place() if place is None else place, must_exist=True)
    run = store.run(key)
    spec = TaskSpec.read(Reader(thaw(run.config["task"]), what=f"the task of run {run.short}"))
    return load_run(store, key).population, task_of(spec)


def _runs(
    arrangement: Arrangement, row: Tensor | None, *, runs: int, seed: int, processes: bool
) -> tuple[Tensor, list[Transcript]]:
    """The first input, and the transcripts of all."""
    from separatrix.communication.protocols import check_input, run_protocols

    if row is not None:
        check_input(arrangement.task, row)
        return row, run_protocols(arrangement, row.unsqueeze(0), processes=processes)
    full = arrangement.task.full_length()
    first = full.sample(1, seed=seed).inputs[0]
    transcripts: list[Transcript] = []
    for start in range(0, runs, _AT_ONCE):
        rows = full.sample(min(_AT_ONCE, runs - start), seed=seed, start=start).inputs
        transcripts += run_protocols(arrangement, rows, processes=processes)
    return first, transcripts


def _facts(arrangement: Arrangement, transcripts: list[Transcript], first: Tensor) -> dict[str, Any]:
    from separatrix.communication.protocols import comparisons
    from separatrix.precision import name_of

    shown, protocol = transcripts[0], arrangement.protocol
    agreeing = sum(each.agrees for each in transcripts)
    beside = comparisons(shown)
    return {
        "task": shown.task.to_fields(),
        "family": shown.family,
        "theorem": shown.protocol,
        "partition": shown.partition,
        "alice": [position + 1 for position in protocol.partition.alice],
        "bob": [position + 1 for position in protocol.partition.bob],
        "arithmetic": name_of(protocol.system),
        "precision_bits": protocol.system.bits,
        "bits": shown.bits,
        "counts": [
            {"name": count.name, "formula": count.formula, "bits": count.bits} for count in protocol.counts()
        ],
        "bound": beside[0].bound.to_fields() if beside else None,
        "enough": beside[0].enough if beside else None,
        "bounds": [each.bound.to_fields() for each in beside],
        "runs": len(transcripts),
        "agreeing": agreeing,
        "agrees": agreeing == len(transcripts),
        "input": arrangement.task.render(first),
        "output": shown.to_fields()["output"],
        "direct_output": shown.to_fields()["direct_output"],
        "rounds": shown.rounds,
        "messages": [
            {"sender": each.sender, "name": each.name, "bits": each.bits} for each in shown.messages
        ],
    }


def _print(arrangement: Arrangement, transcripts: list[Transcript], facts: dict[str, Any]) -> None:
    from separatrix.communication.protocols import comparisons

    console, shown = stdout_console(), transcripts[0]
    head = f"{shown.task} by {shown.family}, split {shown.partition}, in {facts['arithmetic']}"
    console.print(Text.assemble((f"{shown.protocol}: {shown.bits:,} bits", "bold cyan"), f"  {head}"))
    print("\n".join(cut(wrapped(printable(facts["input"]), console.width - 2, indent="  "), most=4)))
    width = max(len(each.name) for each in shown.messages)
    other = {"Alice": "Bob", "Bob": "Alice"}
    said = [
        f"  {each.sender:>5} → {other[each.sender]:<5}  {each.name:<{width}}  {each.bits:>9,} bits"
        for each in shown.messages
    ]
    print("\n".join(cut(said, most=_MESSAGES_SHOWN)))
    for count in arrangement.protocol.counts():
        print(f"{count.name:<8} {count.bits:>9,} bits: {count.formula}")
    for beside in comparisons(shown):
        print("\n".join(wrapped(_needed(beside), console.width)))
    answers = ", ".join(f"{_word(arrangement, each)} at {each['position']}" for each in facts["output"][:6])
    more = f" and {len(facts['output']) - 6} more" if len(facts["output"]) > 6 else ""
    print("\n".join(wrapped(f"answer   {answers}{more}", console.width)))
    agreeing, runs = facts["agreeing"], facts["runs"]
    if agreeing == runs:
        verdict = Text.assemble(("agrees", "bold green"), " with the model itself, bit for bit, ")
    else:
        verdict = Text.assemble(("DIFFERS", "bold red"), " from the model itself ")
    console.print(
        verdict.append(f"in {agreeing if agreeing == runs else runs - agreeing:,} of {runs:,} runs")
    )


def _word(arrangement: Arrangement, answer: dict[str, Any]) -> str:
    """An answer as the task writes it."""
    import torch

    from separatrix.tasks.interface import Classes

    value, space = answer["answer"], arrangement.task.target_space
    if not isinstance(space, Classes) or value >= space.size:
        return str(value)
    return arrangement.task.render_target(torch.tensor(value))


def _needed(beside: Comparison) -> str:
    bound = beside.bound
    if bound.at_least is None:
        return f"needed   {bound.asymptotic} bits ({bound.theorem})"
    kept = "" if beside.enough else "; a model whose every run is this short is wrong on some input"
    return f"needed   {int(bound.at_least):>9,} bits: {bound.formula} ({bound.theorem}){kept}"
