"""`separatrix certify`: prove the weights in a folder right, or show the input on which they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.text import Text

from separatrix.cli.flags import AsJson
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

if TYPE_CHECKING:
    from separatrix.evidence import Certificate, Counterexample
    from separatrix.witnesses import Witness

__all__ = ["certify"]

_COLOURS = {"proved": "bold green", "refuted": "bold red", "unknown": "bold yellow"}


def certify(
    path: Annotated[Path, Parameter(help="the folder of a witness, as `witness … --out` writes it")],
    /,
    *,
    json: AsJson = False,
) -> int:
    """Prove a witness right on every input, from its weights and spec alone.

    Exit code 0 if proved, 1 if refuted or neither.
    """
    from separatrix.certificates import certify as prove
    from separatrix.certificates import replay
    from separatrix.witnesses.files import load, stated_certificate

    witness = load(path)
    stated = stated_certificate(path, witness)
    with note_if_long("Proving the weights right on every input; this may take minutes."):
        found = prove(witness)
    if found.counterexample is not None:
        assert replay(witness, found.counterexample), "a counterexample must fail again"
    if json:
        facts = {**found.to_fields(), "family": witness.family, "variant": witness.variant, "path": str(path)}
        write_json({**facts, "stated": None if stated is None else stated.verdict})
    else:
        _print(witness, found)
    if stated is not None and stated.verdict != found.verdict:
        note(f"The certificate in the folder says {stated.verdict}; this proof says {found.verdict}.")
    return 0 if found.verdict == "proved" else 1


def _print(witness: Witness, found: Certificate) -> None:
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
        _print_counterexample(found.counterexample, width)


def _print_counterexample(found: Counterexample, width: int) -> None:
    from separatrix.evidence.specs import as_text

    print("counterexample, run once more with the same outcome:")
    text = printable(found.text) if found.text else as_text(found.input)
    print("\n".join(cut(wrapped(text, width, indent="  "))))
    answers = f"right: {as_text(found.expected)}; answered: {as_text(found.answered)}"
    print("\n".join(cut(wrapped(answers, width, indent="  "))))
