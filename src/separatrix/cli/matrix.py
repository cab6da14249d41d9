"""`separatrix matrix`: the communication matrix of a problem or a task, what it says, and a picture of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter
from rich.table import Table
from rich.text import Text

import separatrix
from separatrix.cli.flags import AsJson, Whole, assembled, flag_of, own_options, task_flags
from separatrix.cli.output import note_if_long, printable_line, stdout_console, write_json
from separatrix.cli.progress import shown_filling
from separatrix.errors import InvalidInput
from separatrix.registry import unknown_name

if TYPE_CHECKING:
    from separatrix.communication.entries import Entries
    from separatrix.communication.fooling_search import FoolingSet
    from separatrix.communication.ranks import LogRank
    from separatrix.communication.studying import Study
    from separatrix.tasks import Task

__all__ = ["matrix", "matrix_command"]

_MEMBERS_WRITTEN: Final = 1024
_MEMBERS_SHOWN: Final = 4

PROBLEM_NAME = inspect.Parameter(
    "problem",
    inspect.Parameter.POSITIONAL_ONLY,
    annotation=Annotated[
        str, Parameter(help="index, eq, disj, gt or ip, or the name of a task with one of few answers.")
    ],
)
_PARTITION = inspect.Parameter(
    "partition",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        Parameter(
            help="How a task's positions are split: a name such as odd/even or halves, or Alice's positions "
            "counted from 1, such as 1,4-6. [default: the first that `separatrix describe` lists]"
        ),
    ],
)
_POSITION = inspect.Parameter(
    "position",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Whole | None,
        Parameter(
            help="Where the label stands that the parties want, counted from 1. [default: the only one, or "
            "the last of a chain of thought, or whether any label is 1]"
        ),
    ],
)


def matrix(
    entries: Entries,
    *,
    picture: Annotated[Path | None, Parameter(help="File for a picture; it ends in .png or .svg.")] = None,
    budget: Annotated[float, Parameter(help="Seconds for fooling sets and for the best protocol.")] = 5.0,
    json: AsJson = False,
) -> None:
    """Show the matrix of a two-party problem, and how many bits two parties need by it."""
    from separatrix.communication.matrices import CommunicationMatrix
    from separatrix.communication.pictures import check_picture, save_picture, terminal_picture
    from separatrix.communication.studying import study

    if picture is not None:
        check_picture(picture)
    with note_if_long("Listing what Alice and Bob may hold; this may take a while."):
        rows = entries.rows
    with shown_filling(rows) as watch:
        made = CommunicationMatrix.of(entries, watch=watch)
    with note_if_long("Searching; --budget limits the search."):
        found = study(made, budget=budget)
    if picture is not None:
        save_picture(made, picture)
    if json:
        write_json({**_facts(found), "picture": None if picture is None else str(picture)})
        return
    console = stdout_console()
    console.print(Text.assemble((printable_line(made.title), "bold"), f": {_size(found)}"))
    for line in terminal_picture(made, width=min(console.width, 80)):
        print(printable_line(line.rstrip()))
    console.print(_table(found))
    if picture is not None:
        print(printable_line(str(picture)))


def matrix_command(words: Sequence[str]) -> Callable[..., int | None]:
    """`matrix` with the flags of the problem or the task that the words begin with."""
    first = words[0] if words and not words[0].startswith("-") else None
    classic, kind = _named(first)
    flags = _problem_flags(classic) if kind is None else task_flags(kind).flags
    split = [_PARTITION, _POSITION] if classic is None else []
    own = own_options(matrix, taken={"entries"}, types={"Entries": object})
    clash = {flag.name for flag in flags} & {option.name for option in (*split, *own)}
    assert not clash, f"{first} has options of this command's own names: {clash}"

    def run(problem: str, /, **options: Any) -> int | None:
        if first is None:
            raise InvalidInput(f"Name the problem right after matrix; got '{problem}' later on.")
        given = {flag.name: options.pop(flag.name) for flag in flags if flag.name in options}
        partition, position = options.pop("partition", None), options.pop("position", None)
        name = problem if kind is None else kind.name
        matrix(_entries(name, kind, given, partition=partition, position=position), **options)
        return None

    return assembled(run, [PROBLEM_NAME, *flags, *split, *own], like=matrix)


def _named(name: str | None) -> tuple[str | None, type[Task] | None]:
    """A classic problem's name or a task's kind; neither where nothing is named.

    Papers write INDEX and DISJ, so letters may have either case.
    """
    if name is None:
        return None, None
    from separatrix.communication.problems import PROBLEMS

    for known in (name, name.lower()):
        if known in PROBLEMS:
            return known, None
        if known in separatrix.TASKS:
            return None, separatrix.TASKS.get(known)
    raise unknown_name("problem or task", name, (*PROBLEMS, *separatrix.TASKS.names()))


def _problem_flags(name: str | None) -> list[inspect.Parameter]:
    group = Group(f"Parameters of {name}" if name else "Parameters of the problem", sort_key=1)
    text = "Length of the strings." if name else "Size. A task has more options: add its name before --help."
    required = inspect.Parameter.empty
    flags = [flag_of("n", int, help=text, default=required, group=group)]
    if name in {None, "index"}:
        flags.append(flag_of("alphabet", int, help="Symbols of Alice's string.", default=2, group=group))
    return flags


def _entries(
    name: str,
    kind: type[Task] | None,
    given: dict[str, Any],
    *,
    partition: str | None,
    position: int | None,
) -> Entries:
    from separatrix.communication.entries import ProblemEntries
    from separatrix.communication.problems import problem
    from separatrix.communication.task_problems import task_problem

    if kind is None:
        return ProblemEntries(problem(name, **given))
    reading = None if position is None else position - 1
    return task_problem(separatrix.task(name, **given), partition, reading=reading)


def _facts(found: Study) -> dict[str, Any]:
    from separatrix.communication.fooling_search import fooling_bits

    table = found.matrix
    return {
        "problem": table.title,
        "rows": table.rows,
        "columns": table.columns,
        "values": table.values,
        "total": table.total,
        "one_way": found.one_way
        and {
            "messages_at_least": found.one_way.at_least,
            "messages_at_most": found.one_way.at_most,
            "bits": found.one_way.bits,
            "bits_enough": found.one_way.bits_enough,
        },
        "rank_over_reals": _rank(found.over_rationals),
        "rank_over_gf2": _rank(found.over_gf2),
        "fooling_sets": [_fooling(found, one) for one in found.fooling or ()],
        "fooling_bits": None if found.fooling is None else fooling_bits(found.fooling),
        "rectangle_bits": found.rectangles and found.rectangles.bits,
        "discrepancy": found.discrepancy
        and {"at_most": float(found.discrepancy.at_most), "bits": found.discrepancy.bits},
        "complexity": found.complexity
        and {"bits": found.complexity.bits, "leaves": found.complexity.tree.leaves},
        "bits_at_least": found.at_least,
        "bits_at_most": found.at_most,
        "left_out": dict(found.left_out),
    }


def _rank(rank: LogRank | None) -> dict[str, Any] | None:
    return rank and {"ranks": list(rank.ranks), "bits": rank.bits}


def _fooling(found: Study, one: FoolingSet) -> dict[str, Any]:
    return {
        "value": one.value,
        "size": one.size,
        "at_most": one.at_most,
        "bits": one.bits,
        "method": one.method,
        "note": one.note,
        "members": [_member(found, *member) for member in one.members[:_MEMBERS_WRITTEN]],
    }


def _member(found: Study, row: int, column: int) -> list[str]:
    return [found.matrix.row_text(row), found.matrix.column_text(column)]


def _size(found: Study) -> str:
    table = found.matrix
    promise = "" if table.total else ", not every pair an input"
    return f"{table.rows:,} × {table.columns:,} entries, {table.values} answers{promise}"


def _table(found: Study) -> Table:
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column()
    for name, key, text in _lines(found):
        grid.add_row(name, text or Text(f"left out: {found.left_out.get(key, '')}", "dim"))
    return grid


def _lines(found: Study) -> list[tuple[str, str, str]]:
    """A name, the key of the reason it may be left out, and what was found."""
    way, sets = found.one_way, found.fooling
    rows = ""
    if way is not None:
        count = f"{way.at_least:,}" if way.exact else f"{way.at_least:,} to {way.at_most:,}"
        bits = _bits(way.bits) if way.bits == way.bits_enough else f"{way.bits} to {way.bits_enough} bits"
        what = "different rows" if found.matrix.total else "messages, by a clique and a colouring"
        rows = f"{count} {what}: {bits}"
    return [
        ("one message", "one_way", rows),
        ("rank over the reals", "over_rationals", _ranked(found.over_rationals)),
        ("rank over GF(2)", "over_gf2", _ranked(found.over_gf2)),
        ("fooling sets", "fooling", "" if sets is None else _fooled(found, sets)),
        ("rectangles", "rectangles", _at_least(found.rectangles)),
        ("discrepancy", "discrepancy", _discrepant(found)),
        ("best protocol", "complexity", _solved(found)),
        ("both know it after", "", _between(found)),
    ]


def _ranked(rank: LogRank | None) -> str:
    if rank is None:
        return ""
    ranks = ", ".join(f"{count:,} for {value}" for value, count in enumerate(rank.ranks))
    return f"{ranks}: at least {sum(rank.ranks):,} leaves, {_bits(rank.bits)}"


def _fooled(found: Study, sets: Sequence[FoolingSet]) -> str:
    from separatrix.communication.fooling_search import fooling_bits

    sizes = ", ".join(
        f"{one.size:,} for {one.value} ({'none is larger' if one.optimal else f'at most {one.at_most:,}'})"
        for one in sets
    )
    members = ", ".join(
        f"({', '.join(_member(found, *member))})" for member in sets[0].members[:_MEMBERS_SHOWN]
    )
    more = ", …" if sets[0].size > _MEMBERS_SHOWN else ""
    notes = "".join(f"\n{note}" for note in dict.fromkeys(one.note for one in sets if one.note))
    text = f"{sizes}: at least {_bits(fooling_bits(sets))}\n{members}{more}{notes}"
    return "\n".join(map(printable_line, text.split("\n")))


def _at_least(bound: Any) -> str:
    return "" if bound is None else f"at least {_bits(bound.bits)}"


def _discrepant(found: Study) -> str:
    if found.discrepancy is None:
        return ""
    exact = "" if found.discrepancy.rectangle else "at most "
    return f"{exact}{float(found.discrepancy.at_most):.4g}: at least {_bits(found.discrepancy.bits)}"


def _solved(found: Study) -> str:
    if found.complexity is None:
        return ""
    return f"{_bits(found.complexity.bits)}, {found.complexity.tree.leaves} leaves"


def _between(found: Study) -> str:
    if found.at_least == found.at_most:
        return f"{_bits(found.at_least)}, exactly"
    return f"{found.at_least} to {found.at_most} bits"


def _bits(count: int) -> str:
    return f"{count} bit" if count == 1 else f"{count} bits"
