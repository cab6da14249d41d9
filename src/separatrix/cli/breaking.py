"""`separatrix break`: look for inputs that a model is wrong on, and say how random samples do beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from separatrix.cli.certifying import kept, print_counterexample
from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import note_if_long, printable_line, stdout_console, wrapped, write_json
from separatrix.cli.runs import percent
from separatrix.cli.subjects import Asked, RunSubject, Subject

if TYPE_CHECKING:
    from separatrix.evidence import Attempt, Breaking

__all__ = ["break_weights"]

_SHOWN: Final = 3


def break_weights(
    asked: Asked,
    *,
    budget: Annotated[
        str,
        Parameter(help="Time for all attacks, such as 500ms, 60s, 2m or 1h.", allow_leading_hyphen=True),
    ] = "60s",
    seed: Annotated[Whole, Parameter(help="Seed of the attacks and of the samples.")] = 0,
    samples: Annotated[
        Whole | None,
        Parameter(help="Random samples to compare with. [default: as many as are attacked, from 10^4]"),
    ] = None,
    device: Annotated[str, Parameter(help="auto, cpu, cuda or cuda:1.")] = "auto",
    json: AsJson = False,
) -> int:
    """Attack a witness or a trained model of any kind, and count what fails beside random samples.

    Nothing found does not mean that there is nothing. Exit code 1 if it is broken.
    """
    from separatrix.certificates.attacks import break_model, seconds_of
    from separatrix.training.running import chosen_device

    seconds = seconds_of(budget)
    where = chosen_device(device)
    subject = asked.subject()
    model = subject.population if isinstance(subject, RunSubject) else subject.witness
    with note_if_long(f"Attacking; this ends within about {seconds:,.0f} seconds."):
        found = break_model(model, subject.task, budget=seconds, seed=seed, device=where, samples=samples)
    path = kept(subject, found) if isinstance(subject, RunSubject) else None
    if json:
        about = {
            "run": subject.run.key if isinstance(subject, RunSubject) else None,
            "model": _model(subject),
        }
        write_json({**found.to_fields(), **about, "path": asked.path, "evidence": path})
    else:
        _print(subject, found)
    return 1 if found.broken else 0


def _model(subject: Subject) -> str:
    return subject.model if isinstance(subject, RunSubject) else subject.witness.family


def _print(subject: Subject, found: Breaking) -> None:
    console = stdout_console()
    verdict, colour = ("broken", "bold red") if found.broken else ("not broken", "bold green")
    head = f"{found.task} by {_model(subject)}, in {found.arithmetic}, after {found.tried:,} inputs"
    first, *rest = wrapped(printable_line(head), console.width - len(verdict) - 2)
    console.print(Text.assemble((verdict, colour), f"  {first}"))
    for line in rest:
        print(f"{'':<{len(verdict)}}  {line}")
    console.print(_attempts(found))
    for line in _notes(found):
        print("\n".join(wrapped(printable_line(line), console.width)))
    if isinstance(subject, RunSubject):
        print(f"run: {subject.run.key}")
    print(f"weights: {found.weights_sha256}")
    if not found.broken:
        print("Nothing found does not mean that there is nothing.")
        return
    count = len(found.counterexamples)
    console.print(Text(f"{count:,} counterexample{'s' * (count > 1)}, each run again alone", "bold"))
    for each in found.counterexamples[:_SHOWN]:
        right, answered = subject.words(each.expected), subject.words(each.answered)
        print_counterexample(each, console.width, right=right, answered=answered)
    if count > _SHOWN:
        print(f"… and {count - _SHOWN:,} more (--json has all)")


def _attempts(found: Breaking) -> Table:
    """A row for each attack, all of them together, and random samples last."""
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("attack", overflow="fold")
    for name in ("tried", "failed", "share", "least margin"):
        table.add_column(name, justify="right", no_wrap=True)
    for attempt in found.attempts:
        table.add_row(*_row(attempt, printable_line(attempt.attack)))
    tried = found.tried - found.samples.tried
    if len(found.attempts) > 1:
        rate = found.attack_failures / tried if tried else 0.0
        table.add_row("all attacks", f"{tried:,}", _failures(found.attack_failures), f"{percent(rate)} %", "")
    table.add_row(*_row(found.samples, printable_line(found.samples.attack)))
    return table


def _notes(found: Breaking) -> list[str]:
    """What the attacks say of themselves, those that say the same in one line."""
    said: dict[str, list[str]] = {}
    for attempt in (*found.attempts, found.samples):
        if attempt.note:
            said.setdefault(attempt.note, []).append(attempt.attack)
    return [f"{', '.join(attacks)}: {note}" for note, attacks in said.items()]


def _row(attempt: Attempt, name: str) -> tuple[Text | str, ...]:
    margin = "–" if attempt.least_margin is None else f"{attempt.least_margin:.4g}"
    share = f"{percent(attempt.rate)} %" if attempt.tried else "–"
    return Text(name), f"{attempt.tried:,}", _failures(attempt.failures), share, margin


def _failures(count: int) -> Text:
    return Text(f"{count:,}", "red" if count else "")
