"""The pages that are read from the registries and from measured figures. `make docs` writes them.

The tasks, the results and the way from theorems to code are generated whole; the pages of witnesses, of
models that think, of models that are trained and of communication have their tables filled in.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import textwrap
import typing
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import thinking_tables
from benchmarks.witness_tables import (
    bits_series,
    bits_table,
    certified_table,
    lookup_table,
    peer_table,
    precision_table,
    read_data,
)
from benchmarks.witness_tasks import task_for

from docs.theorem_map import theorem_to_code
from separatrix.atlas.bounds import collect_bounds
from separatrix.atlas.collect import Claim, Content, Result, TaskCard, collect_content
from separatrix.atlas.models import MODEL_N, ModelCard, collect_models
from separatrix.certificates.plots import plot_bits
from separatrix.cli.output import paragraphs
from separatrix.files import written_whole
from separatrix.tasks import TASKS, Task
from separatrix.witnesses import CATALOGUE, Choices

__all__ = ["FIGURES", "PAGES"]

_HERE = Path(__file__).parent
_HEADS = _HERE.parent / "benchmarks" / "results" / "heads.json"
_WIDTH = 110
_SHOWN_SIZE = 8
_MOST_LINES = 12


def tasks_page() -> str:
    """Every task: what it is, how it is sampled, its parameters, one example."""
    parts = [
        "# The tasks",
        textwrap.fill(
            "Each is exactly what its paper states, and where the papers are silent the text says what was "
            "chosen. `separatrix describe TASK` shows the same with sizes, splits and theorems. Examples are "
            "drawn with seed 0.",
            _WIDTH,
        ),
    ]
    for card in _content().tasks:
        parts += _task(card, TASKS.get(card.name))
    return "\n\n".join(parts) + "\n"


def results_page() -> str:
    """The table of results with the state of each, the open questions, the partners, and the slips."""
    content = _content()
    parts = [
        "# The results",
        textwrap.fill(
            "What the papers prove, in the order of the papers, and what the software holds for each. States "
            "are read from the registries. "
            + " ".join(f"{tally.built} of {tally.owed} {tally.noun}." for tally in content.tallies),
            _WIDTH,
        ),
        _table([result for row in content.rows for result in row.results]),
        "## Upper partners",
        "What shows how much of a lower bound is needed.",
        _table(content.partners),
        "## Open",
        "\n".join(
            f"- **{entry.id}.** {entry.statement} ({entry.source.place})" for entry in content.questions
        ),
        "## Slips in print",
        "What a program stumbles over, and what is right instead.",
    ]
    for work, errata in content.errata:
        parts.append(f"### {work.letter}: {work}")
        parts.append("\n".join(f"- {', '.join(erratum.results)}. {erratum.slip}" for erratum in errata))
    return "\n\n".join(parts) + "\n"


def witnesses_page() -> str:
    """The page as it stands, with its tables made anew."""
    data = read_data()
    tables = {
        "catalogue": _catalogue(),
        "bits": bits_table(data),
        "lookup": lookup_table(data),
        "certified": certified_table(data),
        "precision": precision_table(data),
        "peers": peer_table(data),
    }
    return _with_tables("witnesses.md", tables)


def thinking_page() -> str:
    """The page as it stands, with its tables made anew."""
    data = thinking_tables.read_data()
    measured = {name: thinking_tables.table_of(data, name) for name in thinking_tables.TABLES}
    return _with_tables("thinking.md", {"heads": _heads(), "sizes": _sizes(), **measured})


def models_page() -> str:
    """The page as it stands, with its table made anew."""
    return _with_tables("models.md", {"zoo": _zoo()})


def communication_page() -> str:
    """The page as it stands, with its table made anew."""
    return _with_tables("communication.md", {"bounds": _bounds()})


def _with_tables(page: str, tables: Mapping[str, str]) -> str:
    text = (_HERE / page).read_text()
    for name, table in tables.items():
        text = _filled_in(text, name, table)
    return text


def _filled_in(text: str, name: str, table: str) -> str:
    """The text with a table in the place that is marked for it."""
    begin, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    assert found and closed, f"the page has no place for {name}"  # noqa: PT018
    return f"{before}{begin}{table}\n{end}{after}"


def witnesses_figure(path: Path) -> None:
    """Parameter bits against N."""
    plot_bits(bits_series(read_data()), path, title="parameter bits of the least proven witness")


PAGES: Mapping[str, Callable[[], str]] = {
    "tasks.md": tasks_page,
    "results.md": results_page,
    "witnesses.md": witnesses_page,
    "thinking.md": thinking_page,
    "models.md": models_page,
    "communication.md": communication_page,
    "theorem-to-code.md": theorem_to_code,
}
FIGURES: Mapping[str, Callable[[Path], None]] = {"witnesses-bits.svg": witnesses_figure}


def _catalogue() -> str:
    lines = [
        "| theorem | task | family | width | layers | heads | parameters | parameter bits |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for entry in CATALOGUE:
        witness = entry.builder()(task_for(entry, _SHOWN_SIZE), Choices())
        size = witness.size
        shown = f"`{_chosen(witness.task)}`" + (f": {entry.variant}" if entry.variant else "")
        counts = (size.width, size.layers, size.heads, size.parameters, size.parameter_bits)
        cells = (entry.theorem, shown, entry.family, *(f"{count:,}" for count in counts))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _heads() -> str:
    """The least p of each of W's heads, by the length of the text; what was not measured is left open."""
    rows = json.loads(_HEADS.read_text())["rows"]
    least = {(row["head"], row["n"]): row["p"] for row in rows}
    sizes = sorted({row["n"] for row in rows})
    lines = [
        "| head | " + " | ".join(f"n = {n:,}" for n in sizes) + " |",
        "|---|" + "---:|" * len(sizes),
    ]
    for head in dict.fromkeys(row["head"] for row in rows):
        lines.append(f"| {head} | " + " | ".join(str(least.get((head, n), "")) for n in sizes) + " |")
    return "\n".join(lines)


def _sizes() -> str:
    """Sizes of W's constructions, and how many numbers they carry or keep."""
    lines = [
        "| theorem | task | family | layers | heads | width | parameters | state | cache |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for entry in CATALOGUE:
        if not entry.theorem.startswith("W-"):
            continue
        size = entry.builder()(task_for(entry, _SHOWN_SIZE), Choices()).size
        shown = f"{entry.task}, {entry.variant}" if entry.variant else entry.task
        carried = sum(part.fixed_bits for part in size.state) // size.precision_bits
        kept = sum(part.bits_per_position for part in size.state) // size.precision_bits
        counts = (size.layers, size.heads, size.width, size.parameters, carried, kept)
        cells = (entry.theorem, shown, entry.family, *(f"{count:,}" for count in counts))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _zoo() -> str:
    """Every architecture that comes with the package, with what it carries and how large it is."""
    heads = ("model", "what it is", "source", "causal", "state bits after n tokens", f"at n = {MODEL_N}")
    lines = [f"| {' | '.join(heads)} | parameters |", "|---|---|---|---|---:|---:|---:|"]
    lines += ["| " + " | ".join(_architecture(card)) + " |" for card in collect_models().cards]
    return "\n".join(lines)


def _bounds() -> str:
    """Every bound with its formula, and what it comes to at one size."""
    lines = ["| result | task | family | bound | what it comes to | via |", "|---|---|---|---|---|---|"]
    for card in collect_bounds().cards:
        who = f"{', '.join(card.families)}{f' ({card.variant})' if card.variant else ''}"
        for line in card.lines:
            condition = f", if {line.condition}" if line.condition else ""
            cells = (card.theorem, card.task, who, f"{line.formula}{condition}", line.needs, line.via)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _architecture(card: ModelCard) -> tuple[str, ...]:
    assert card.size is not None, card.problem
    state = (card.state, f"{card.size.state_bits(MODEL_N):,}") if card.causal else ("—", "—")
    what = f"{card.title}. {card.summary}"
    reads = "yes" if card.causal else "no"
    return f"`{card.name}`", what, card.source, reads, *state, f"{card.size.parameters:,}"


def _chosen(task: Task) -> str:
    """The task with the parameters that are not its defaults."""
    defaults = {field.name: field.default for field in dataclasses.fields(task)}
    chosen = {name: getattr(task, name) for name in defaults if getattr(task, name) != defaults[name]}
    return f"{task.name}({', '.join(f'{name}={value}' for name, value in chosen.items())})"


def _content() -> Content:
    return collect_content(seed=0)


def _task(card: TaskCard, kind: type[Task]) -> list[str]:
    assert card.example is not None, card.problem
    example = card.example
    text = [_filled(part) for part in paragraphs(inspect.getdoc(kind) or "")]
    flags = " ".join(_flag(name, value) for name, value in example.changed.items())
    command = f"$ separatrix sample {card.name} {flags} --seed 0 --count {example.number + 1}"
    if example.number:
        command += "    # the last of them"
    shown = "\n".join([command, *_cut(example.text), *_cut(f"→ {example.answer_text}")])
    return [
        f"## {card.title} (`{card.name}`, {kind.source})",
        *text,
        _parameters(kind),
        f"```text\n{shown}\n```",
    ]


def _filled(block: str) -> str:
    return textwrap.fill(block, _WIDTH, subsequent_indent="  " if block.startswith("- ") else "")


def _flag(name: str, value: object) -> str:
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag} {value}"


def _cut(text: str) -> list[str]:
    lines = [piece for line in text.splitlines() for piece in textwrap.wrap(line, _WIDTH) or [""]]
    return lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "…"]


def _parameters(kind: type[Task]) -> str:
    types = typing.get_type_hints(kind)
    lines = ["| parameter | default | |", "|---|---|---|"]
    for field in dataclasses.fields(kind):
        default = "needed" if field.default is dataclasses.MISSING else f"`{field.default}`"
        choices = (
            typing.get_args(types[field.name])
            if typing.get_origin(types[field.name]) is typing.Literal
            else ()
        )
        named = f" ({', '.join(f'`{choice}`' for choice in choices)})" if choices else ""
        help_line = field.metadata.get("help", "").replace("|", "\\|")
        lines.append(f"| `{field.name}` | {default} | {help_line}{named} |")
    return "\n".join(lines)


def _table(results: typing.Iterable[Result]) -> str:
    lines = ["| id | statement | tasks | families | what is owed, and its state |", "|---|---|---|---|---|"]
    for result in results:
        owed = "<br>".join(_claim(result, claim) for claim in result.claims)
        cells = (
            result.theorem.id,
            result.theorem.statement,
            ", ".join(result.tasks) or "every task",
            ", ".join(result.families) or "—",
            owed or f"restates {result.theorem.restates}",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _claim(result: Result, claim: Claim) -> str:
    condition = (f"if {claim.owed.condition}",) if claim.owed.condition else ()
    remarks = "; ".join((*result.remarks(claim), *condition))
    return f"{claim.owed.kind}: {claim.owed.formula}{f' ({remarks})' if remarks else ''} — *{claim.state}*"


def main() -> None:
    """Write every page and figure."""
    for name, page in PAGES.items():
        with written_whole(_HERE / name) as file:
            file.write(page())
    for name, draw in FIGURES.items():
        draw(_HERE / name)


if __name__ == "__main__":
    main()
