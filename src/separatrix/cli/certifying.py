"""`separatrix certify`: prove weights right on every input, or show the input on which they are wrong.

A witness gets one certificate. A trained run gets a verdict for every question and every right answer to it,
which is also kept in its store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import (
    cut,
    note,
    note_if_long,
    printable,
    printable_line,
    stdout_console,
    wrapped,
    write_json,
)
from separatrix.cli.runs import percent
from separatrix.cli.settling import settling
from separatrix.cli.subjects import Asked, RunSubject, WitnessSubject
from separatrix.errors import InvalidFile

if TYPE_CHECKING:
    from rich.console import Console

    from separatrix.evidence import Breaking, Case, Certificate, Counterexample, Coverage
    from separatrix.witnesses import Witness

__all__ = ["certify", "kept", "print_counterexample"]

_COLOURS: Final = {"proved": "bold green", "refuted": "bold red", "unknown": "bold yellow"}
_GAPS_SHOWN: Final = 5
_NO_BOUND: Final = -1e29
"""Below this, a bound says nothing."""


def certify(
    asked: Asked,
    *,
    device: Annotated[str, Parameter(help="auto, cpu, cuda or cuda:1, for a run.")] = "auto",
    seed: Annotated[Whole, Parameter(help="Seed of attacks and samples, for a run.")] = 0,
    json: AsJson = False,
) -> int:
    """Prove a witness or a trained model right on every input, or find one on which it is wrong.

    A trained model has one layer of softmax attention and gets a verdict for every question and answer.
    Exit code 0 if proved, 1 if refuted or neither.
    """
    subject = asked.subject()
    if isinstance(subject, RunSubject):
        return _certify_run(asked, subject, device=device, seed=seed, json=json)
    asked.refuse("device", "seed", why="A witness is proven on the CPU and without chance")
    return _certify_witness(subject, json=json)


def _certify_witness(subject: WitnessSubject, *, json: bool) -> int:
    from separatrix.certificates import certify as prove
    from separatrix.certificates import replay
    from separatrix.witnesses.files import stated_certificate

    witness = subject.witness
    stated = stated_certificate(subject.folder, witness)
    with note_if_long("Proving the weights right on every input; this may take minutes."):
        found = prove(witness)
    if found.counterexample is not None:
        assert replay(witness, found.counterexample), "a counterexample must fail again"
    if json:
        about = {"family": witness.family, "variant": witness.variant, "path": str(subject.folder)}
        write_json({**found.to_fields(), **about, "stated": None if stated is None else stated.verdict})
    else:
        _print_certificate(witness, found)
    if stated is not None and stated.verdict != found.verdict:
        note(f"The certificate in the folder says {stated.verdict}; this proof says {found.verdict}.")
    return 0 if found.verdict == "proved" else 1


def _certify_run(asked: Asked, subject: RunSubject, *, device: str, seed: int, json: bool) -> int:
    from separatrix.certificates import certify as prove
    from separatrix.certificates.questions import cells_of
    from separatrix.training.running import chosen_device

    where = chosen_device(device)
    subject.task.sample(1, seed=seed)  # a seed that is none is refused now, not behind the last case
    with settling(cells_of(subject.task), quiet=json) as observer:
        found = prove(subject.population, subject.task, device=where, seed=seed, observer=observer)
    path = kept(subject, found)
    if json:
        about = {"run": subject.run.key, "model": subject.model, "path": asked.path, "evidence": path}
        write_json({**found.to_fields(), **about})
    else:
        _print_coverage(subject, found)
    return 0 if found.verdict == "proved" else 1


def kept(subject: RunSubject, found: Coverage | Breaking) -> str | None:
    """Where the store keeps what was found; None, and a word about it, where it cannot or has better."""
    from separatrix.evidence import Breaking

    store, key = subject.store, subject.run.key
    try:
        path = store.write_evidence(key, found)
        known = store.breaking(key) if isinstance(found, Breaking) else None
    except InvalidFile as problem:
        note(f"The result is not kept: {problem}")
        return None
    if known is None or known == found:
        return str(path)
    failed = known.attack_failures + known.samples.failures
    note(
        f"The store keeps its stronger attacks on these weights: {failed:,} of {known.tried:,} inputs "
        "failed. This result is not kept."
    )
    return None


def _print_certificate(witness: Witness, found: Certificate) -> None:
    console = stdout_console()
    width = console.width
    head = f"{found.theorem}: {found.task.name} by {witness.family}, in {found.arithmetic}"
    console.print(Text.assemble((found.verdict, _COLOURS[found.verdict]), f"  {head}"))
    lines = [f"inputs: {found.inputs}", f"weights: {found.weights_sha256}"]
    lines += [f"why not: {found.reason}"] if found.reason else []
    lines += [str(claim) for claim in found.claims]
    lines += [f"assumes: {assumption}" for assumption in found.assumptions]
    for line in lines:
        print("\n".join(cut(wrapped(printable_line(line), width))))
    if found.counterexample is not None:
        print("counterexample, run once more with the same outcome:")
        print_counterexample(found.counterexample, width)


def print_counterexample(found: Counterexample, width: int, *, right: str = "", answered: str = "") -> None:
    """The input as text, and both answers, in the task's words where they are given."""
    from separatrix.evidence.specs import as_text

    text = printable(found.text) if found.text else as_text(found.input)
    print("\n".join(cut(wrapped(text, width, indent="  "))))
    right, answered = right or as_text(found.expected), answered or as_text(found.answered)
    answers = printable_line(f"right: {right}; answered: {answered}")
    print("\n".join(cut(wrapped(answers, width, indent="  "))))


def _print_coverage(subject: RunSubject, found: Coverage) -> None:
    console = stdout_console()
    head = f"{found.task} by {subject.model}, in {found.arithmetic}"
    first, *rest = wrapped(printable_line(head), console.width - len(found.verdict) - 2)
    console.print(Text.assemble((found.verdict, _COLOURS[found.verdict]), f"  {first}"))
    for line in rest:
        print(f"{'':<{len(found.verdict)}}  {line}")
    console.print(_totals(found))
    lines = _least(found)
    lines += [f"assumes: {assumption}" for assumption in found.assumptions]
    lines += [f"run: {subject.run.key}", f"weights: {found.weights_sha256}"]
    for line in lines:
        print("\n".join(wrapped(printable_line(line), console.width)))
    _print_gaps(console, found)
    if found.counterexample is not None:
        _print_broken(console, subject, found, found.counterexample)


def _totals(found: Coverage) -> Table:
    """What sampling says and what is proven, side by side: as a share, and in numbers."""
    table = Table(box=None, padding=(0, 4, 0, 0), pad_edge=False, header_style="bold")
    for name in ("right on samples", "proved", "broken", "unknown"):
        table.add_column(name, justify="right", no_wrap=True)
    shares = [found.sampled_right / found.sampled if found.sampled else None, *found.shares.values()]
    colours = ("", "green", "red", "yellow")
    table.add_row(
        *(
            Text("–" if share is None else f"{percent(share)} %", colour if share else "")
            for share, colour in zip(shares, colours, strict=True)
        )
    )
    counts = (found.proved, found.refuted, found.unknown)
    table.add_row(f"{found.sampled_right:,} of {found.sampled:,}", *(f"{count:,}" for count in counts))
    return table


def _least(found: Coverage) -> list[str]:
    """How many cases there are, and by how much the right answer leads in the tightest proof."""
    lines = [f"cases: {len(found.cases):,}, every question with every right answer"]
    proved = [case for case in found.cases if case.verdict == "proved"]
    if proved:
        tight = min(proved, key=lambda case: case.margin)
        lines.append(f"least proven margin: {tight.margin:.4g}, for {tight.query} with {tight.target}")
    return lines


def _print_gaps(console: Console, found: Coverage) -> None:
    """The cases that are farthest from being settled."""
    unknown = [case for case in found.cases if case.verdict == "unknown"]
    if not unknown:
        return
    widest = sorted(unknown, key=lambda case: -_gap(case))[:_GAPS_SHOWN]
    console.print(Text("unknown, the widest gaps", "bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("  question", overflow="fold")
    table.add_column("answer", overflow="fold")
    for name in ("proven lead", "least found", "gap"):
        table.add_column(name, justify="right", no_wrap=True)
    for case in widest:
        bounded = case.margin > _NO_BOUND
        table.add_row(
            Text(f"  {printable_line(case.query)}"),
            Text(printable_line(case.target)),
            f"{case.margin:.4g}" if bounded else "none",
            "–" if case.found is None else f"{case.found:.4g}",
            f"{case.gap:.4g}" if bounded and case.gap is not None else "–",
        )
    console.print(table)
    if len(unknown) > len(widest):
        print(f"  … and {len(unknown) - len(widest):,} more (--json has all)")


def _gap(case: Case) -> float:
    return float("inf") if case.gap is None else case.gap


def _print_broken(
    console: Console, subject: RunSubject, found: Coverage, counterexample: Counterexample
) -> None:
    from separatrix.cli.looking import drawn, looking

    console.print(Text("counterexample, which the model itself gets wrong", "bold"))
    print_counterexample(
        counterexample,
        console.width,
        right=subject.words(counterexample.expected),
        answered=subject.words(counterexample.answered),
    )
    look = looking(subject.population, subject.task, found)
    assert look is not None, "the case of a counterexample has its input"
    console.print(Text(f"where each head looks from position {look.asked + 1}, in percent", "bold"))
    for line in drawn(look, console.width):
        console.print(line)
