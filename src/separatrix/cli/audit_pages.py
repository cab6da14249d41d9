"""The pages that `separatrix audit` prints: one model, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from separatrix.cli.audit_charts import chart
from separatrix.cli.output import printable_line, stdout_console, wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from separatrix.audits import Audit, Wall

__all__ = ["page", "page_side_by_side"]

_THOUSAND: Final = 1000
_BIT_UNITS: Final = ("bit", "kbit", "Mbit", "Gbit", "Tbit", "Pbit", "Ebit")
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LONGEST_TITLE: Final = 24


def page(audit: Audit, *, with_chart: bool = False) -> None:
    """One model: its counts, its state at each length, its walls, and what to know of the count."""
    console = stdout_console()
    title = f"{audit.source}: {audit.model_type}" if audit.source != audit.model_type else audit.source
    console.print(Text(printable_line(title), "bold"))
    _print_counts(console, audit)
    if audit.size.state:
        console.print()
        console.print(_state_table(audit))
        if with_chart:
            console.print("", *chart(audit, width=console.width), sep="\n")
    console.print()
    for line in wrapped(_verdict(audit), console.width):
        console.print(line)
    if audit.walls:
        console.print(_wall_table(audit))
    for remark in audit.notes:
        for line in wrapped(f"note: {printable_line(remark)}", console.width):
            console.print(Text(line, "dim"))


def page_side_by_side(audits: Sequence[Audit]) -> None:
    """Several models, a column each."""
    console = stdout_console()
    table = _plain_table()
    table.add_column("", no_wrap=False)
    for audit in audits:
        table.add_column(printable_line(_short(audit.title)), justify="right", overflow="fold")
    kinds = (f"{audit.model_type} (generic)" if audit.generic else audit.model_type for audit in audits)
    table.add_row("type", *map(printable_line, kinds))
    table.add_row("layers", *(audit.composition for audit in audits))
    table.add_row("parameters", *(f"{audit.size.parameters:,}" for audit in audits))
    table.add_row("vocabulary", *(f"{audit.vocabulary:,}" for audit in audits))
    for n in audits[0].lengths:
        table.add_row(f"state at {n:,}", *(bits_in_words(audit.size.state_bits(n)) for audit in audits))
    table.add_row("part that is bounded", *(bits_in_words(audit.bounded_bits) for audit in audits))
    walls = dict.fromkeys((wall.task, wall.theorem) for audit in audits for wall in audit.walls)
    if walls:
        table.add_row()
        table.add_row("largest n it may do")
    for task, theorem in walls:
        found = (_strongest(audit, task) for audit in audits)
        table.add_row(
            f"{task} ({theorem})", *("–" if wall is None else f"{wall.largest_n:,}" for wall in found)
        )
    console.print(table)
    remark = (
        "The largest n are those that the bounded part alone may still do, with each model's own words where "
        "that says more. A dash: everything grows, or nothing is carried; there is no such part."
    )
    own = (f"{audit.title}: {remark}" for audit in audits for remark in audit.notes)
    for text in (remark, *own) if walls else own:
        for line in wrapped(printable_line(text), console.width):
            console.print(Text(line, "dim"))


def bits_in_words(bits: int) -> str:
    """A number of bits to three digits, in thousands."""
    value, place = float(bits), 0
    while value >= _THOUSAND and place < len(_BIT_UNITS) - 1:
        value, place = value / _THOUSAND, place + 1
    return f"{value:.3g} {_BIT_UNITS[place]}"


def bytes_in_words(bits: int) -> str:
    """A number of bits as bytes, in powers of 1024."""
    value, place = bits / 8, 0
    while value >= 1024 and place < len(_BYTE_UNITS) - 1:
        value, place = value / 1024, place + 1
    return f"{value:.3g} {_BYTE_UNITS[place]}"


def _print_counts(console: Console, audit: Audit) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    size = audit.size
    without = f"{size.parameters_without_embeddings:,} without embeddings"
    table.add_row("parameters", f"{size.parameters:,} ({without})")
    table.add_row("layers", audit.composition)
    table.add_row("vocabulary", f"{audit.vocabulary:,}")
    has_recurrence = any(part.name == "recurrent state" for part in size.state)
    kept = f"; recurrent state {audit.recurrent_bits} bits" if has_recurrence else ""
    table.add_row("numbers", f"{size.precision_bits} bits{kept}")
    console.print(table)


def _state_table(audit: Audit) -> Table:
    """A row for each length, a column for each part."""
    table = _plain_table()
    table.add_column("n", justify="right", no_wrap=True)
    parts = audit.size.state
    for part in parts:
        table.add_column(part.name, justify="right")
    if len(parts) > 1:
        table.add_column("state", justify="right")
    table.add_column("in bytes", justify="right", no_wrap=True)
    for n in audit.lengths:
        cells = [bits_in_words(part.bits(n)) for part in parts]
        whole = audit.size.state_bits(n)
        table.add_row(
            f"{n:,}", *cells, *([bits_in_words(whole)] if len(parts) > 1 else []), bytes_in_words(whole)
        )
    return table


def _verdict(audit: Audit) -> str:
    """What the bounds say about this model, in two sentences."""
    if not audit.size.state:
        return "It carries nothing from token to token, so bounds on what is carried do not bind it."
    if not audit.walls:
        return "Everything it carries grows with the input: bounds on memories of one size do not bind it."
    held = bits_in_words(audit.bounded_bits)
    if audit.grows:
        return (
            f"The part that stops growing holds at most {held}. Beyond these n it alone is wrong on some "
            "input of the task, whatever the weights; layers that keep every position have to answer."
        )
    return (
        f"All that it carries is at most {held}. Beyond these n it is wrong on some input of the task, "
        "whatever the weights."
    )


def _wall_table(audit: Audit) -> Table:
    """A row for each task: the wall whatever the words are, and the one for the model's own vocabulary."""
    table = _plain_table()
    table.add_column("task", no_wrap=True)
    table.add_column("theorem", no_wrap=True)
    table.add_column("n, any words", justify="right", no_wrap=True)
    stronger = {wall.task: wall for wall in audit.walls if wall.vocabulary is not None}
    if stronger:
        table.add_column(f"n, {audit.vocabulary:,} words", justify="right", no_wrap=True)
    table.add_column("n counts", ratio=1)
    for wall in audit.walls:
        if wall.vocabulary is None:
            own = stronger.get(wall.task)
            cells = ["" if own is None else f"{own.largest_n:,}"] if stronger else []
            table.add_row(wall.task, wall.theorem, f"{wall.largest_n:,}", *cells, wall.counts)
    return table


def _strongest(audit: Audit, task: str) -> Wall | None:
    """The nearest wall of a task."""
    return min(
        (wall for wall in audit.walls if wall.task == task), key=lambda wall: wall.largest_n, default=None
    )


def _plain_table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)


def _short(title: str) -> str:
    return title if len(title) <= _LONGEST_TITLE else f"…{title[1 - _LONGEST_TITLE :]}"
