"""`separatrix bound` and `separatrix wall`: what no weights of a size can do, and how far a size reaches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from separatrix.cli.flags import AsJson, Wanted, Whole
from separatrix.cli.output import stdout_console, wrapped, write_json
from separatrix.errors import InvalidInput
from separatrix.theorems import theorem

if TYPE_CHECKING:
    from separatrix.communication.walls import Wall
    from separatrix.evidence import Bound
    from separatrix.tasks import Task

__all__ = ["bound", "wall"]

Precision = Annotated[Whole | None, Parameter(help="Bits of a number, p.")]
Heads = Annotated[Whole | None, Parameter(help="Attention heads of a layer, H.")]
Width = Annotated[
    Whole | None,
    Parameter(help="Numbers of a recurrent state, or the stream's width, m (a head's, if larger)."),
]
Layers = Annotated[Whole | None, Parameter(help="Layers, L.")]
StateBits = Annotated[Whole | None, Parameter(help="Bits of a recurrent state, mp.")]

_NOT_PROVEN = "that is not a proof that it can be done"


def bound(
    task: Task,
    *,
    family: Annotated[str | None, Parameter(help="Family of models. [default: all]")] = None,
    precision: Precision = None,
    heads: Heads = None,
    width: Width = None,
    layers: Layers = None,
    state_bits: StateBits = None,
    json: AsJson = False,
) -> int:
    """State how much a task needs, by every theorem that says so; with a size, whether it has that much.

    Exit code 1 means that the size is too small.
    """
    from separatrix.communication.bounds import Given, bounds_for

    given = Given(precision=precision, heads=heads, width=width, layers=layers, state_bits=state_bits)
    given.require_one_state()
    if family is None and (width is not None or state_bits is not None):
        raise InvalidInput("A size is held against the bounds on one family; say which with --family.")
    found = bounds_for(task, family, precision=precision, heads=heads, width=width, layers=layers)
    amounts = [given.amount(each.quantity) if each.status == "proven" else None for each in found]
    verdicts = [
        None if amount is None else each.met_by(amount) for each, amount in zip(found, amounts, strict=True)
    ]
    meets = None if not any(met is not None for met in verdicts) else False not in verdicts
    if json:
        write_json(_facts(task, family, found, verdicts, meets, precision))
    else:
        _print(task, family, found, amounts, verdicts, precision)
    return 1 if meets is False else 0


def wall(
    task: Wanted,
    *,
    family: Annotated[str, Parameter(help="Family of models.")],
    state_bits: StateBits = None,
    width: Width = None,
    heads: Heads = None,
    precision: Precision = None,
    layers: Layers = None,
    json: AsJson = False,
) -> None:
    """Find the largest n at which no theorem forbids models of a size to do a task.

    A task has parameters of its own: add its name before --help.
    """
    from separatrix.communication.walls import wall as found_wall

    parameters = {key: value for key, value in task.given.items() if value is not None or key != "n"}
    if "n" in parameters:
        raise InvalidInput("wall finds the largest n; leave --n out.")
    found = found_wall(
        task.kind.name,
        family=family,
        state_bits=state_bits,
        width=width,
        heads=heads,
        precision=precision,
        layers=layers,
        **parameters,
    )
    if json:
        write_json(found.to_fields())
    else:
        _print_wall(found)


def _facts(
    task: Task,
    family: str | None,
    found: tuple[Bound, ...],
    verdicts: list[bool | None],
    meets: bool | None,
    precision: int | None,
) -> dict[str, Any]:
    from separatrix.tasks.specs import spec_of

    nothing = dict.fromkeys(("quantity", "at_least", "asymptotic", "theorem", "formula", "via"))
    first: dict[str, Any] = dict(found[0].to_fields()) if found else {**nothing, "status": None}
    return {
        **first,
        "task": spec_of(task).to_fields(),
        "asked_family": family,
        "least_width": _least_width(found[0], precision) if found else None,
        "meets": meets,
        "bounds": [{**each.to_fields(), "meets": met} for each, met in zip(found, verdicts, strict=True)],
        "says": None if found else _silence(task, family),
    }


def _silence(task: Task, family: str | None) -> str:
    from separatrix.communication.bounds import no_bound

    return str(no_bound(task.name, family))


def _least_width(each: Bound, precision: int | None) -> int | None:
    """Bits of a state in numbers of so many bits each, rounded up."""
    if precision is None or each.quantity != "state bits" or each.at_least is None:
        return None
    return -(-math.ceil(each.at_least) // precision)


def _print(
    task: Task,
    family: str | None,
    found: tuple[Bound, ...],
    amounts: list[int | None],
    verdicts: list[bool | None],
    precision: int | None,
) -> None:
    from separatrix.tasks.specs import spec_of

    console = stdout_console()
    by = f" by {family}" if family else ", by any family"
    console.print(Text.assemble((str(spec_of(task)), "bold cyan"), by))
    if not found:
        console.print(_silence(task, family))
        return
    for each, amount, met in zip(found, amounts, verdicts, strict=True):
        console.print()
        console.print(_headline(each))
        lines = _lines(each, precision)
        if met is not None:
            lines.append(("this size", f"{amount:,} {each.unit}: {'enough' if met else 'too little'}"))
        for name, words in lines:
            _print_pair(name, words, console.width)
    console.print()
    for name, assumptions in _assumed(found).items():
        entry = theorem(name)
        console.print(Text.assemble((entry.id, "bold"), f"  {entry.source}"))
        for label, words in (("length", entry.length), *(("assumes", each) for each in assumptions)):
            _print_pair(label, words, console.width)
    console.print()
    console.print(_conclusion(found, verdicts))


def _print_pair(name: str, words: str, width: int) -> None:
    first, *more = wrapped(words, max(20, width - 13))
    print("\n".join([f"  {name:<9}  {first}", *(f"{'':13}{line}" for line in more)]))


def _headline(each: Bound) -> Text:
    by = each.family or f"two parties, split {each.partition}"
    if each.status == "open":
        claim = f"open: {each.quantity} {each.asymptotic}?"
    else:
        claim = f"{each.quantity} {each.requirement}{f', if {each.condition}' if each.condition else ''}"
    return Text.assemble((claim, "bold"), f"  {each.theorem}, {by}")


def _lines(each: Bound, precision: int | None) -> list[tuple[str, str]]:
    lines = [("formula", each.formula), ("grows as", each.asymptotic), ("via", str(each.via or ""))]
    least = _least_width(each, precision)
    if least is not None:
        lines.append(("width", f"m ≥ {least:,} numbers of {precision} bits"))
    return [(name, words) for name, words in lines if words]


def _assumed(found: tuple[Bound, ...]) -> dict[str, list[str]]:
    """What each theorem's bounds assume, each assumption once."""
    assumed: dict[str, dict[str, None]] = {}
    for each in found:
        assumed.setdefault(each.theorem, {}).update(dict.fromkeys(each.assumptions))
    return {name: list(assumptions) for name, assumptions in assumed.items()}


def _conclusion(found: tuple[Bound, ...], verdicts: list[bool | None]) -> str:
    broken = dict.fromkeys(each.theorem for each, met in zip(found, verdicts, strict=True) if met is False)
    if broken:
        return f"This size is too small by {' and '.join(broken)}: no such model does it on all inputs."
    if any(verdicts):
        return f"This size meets every bound it can be held against; {_NOT_PROVEN}."
    return f"No bound forbids a size that meets it; {_NOT_PROVEN}."


def _print_wall(found: Wall) -> None:
    console = stdout_console()
    reach = (
        "no wall"
        if found.largest_n is None
        else f"largest n: {found.largest_n:,}"
        if found.largest_n
        else "no n at all"
    )
    console.print(Text.assemble((reach, "bold cyan"), f"  {found.task} by {found.family}"))
    print("\n".join(wrapped(found.why, console.width)))
    if found.bound is not None:
        entry = theorem(found.bound.theorem)
        print("\n".join(wrapped(f"{entry.id}: {entry.statement} ({entry.source})", console.width)))
        if found.largest_n:
            print(f"Up to there no bound forbids it; {_NOT_PROVEN}.")
