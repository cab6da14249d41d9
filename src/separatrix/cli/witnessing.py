"""`separatrix witness`: build weights that do a task, describe them; with --out, certify and keep them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from separatrix.cli.flags import Arithmetic, AsJson, Family, Variant
from separatrix.cli.output import (
    note,
    note_if_long,
    printable,
    printable_line,
    stdout_console,
    wrapped,
    write_json,
)
from separatrix.errors import InvalidInput
from separatrix.files import has_own, made_folder

if TYPE_CHECKING:
    from separatrix.evidence import Certificate
    from separatrix.tasks import Task
    from separatrix.witnesses import Witness

__all__ = ["witness"]


def witness(
    task: Task,
    *,
    family: Family = None,
    variant: Variant = None,
    minimise: Annotated[
        Literal["bits", "width", "precision"] | None,
        Parameter(help="Take what is proven with the fewest parameter bits, least width or bits a number."),
    ] = None,
    addresses: Annotated[
        str | None,
        Parameter(
            help="Code of addresses: binary, bch-1/2, bch-1/4, bch-1/8, random-1/2, random-1/4 or one-hot. "
            "[default: binary]"
        ),
    ] = None,
    arithmetic: Arithmetic = None,
    out: Annotated[Path | None, Parameter(help="Folder for weights, spec, certificate and README.")] = None,
    json: AsJson = False,
) -> None:
    """Build weights that do a task on every input; with --out, certify and keep them."""
    started = time.monotonic()
    replaced = out is not None and has_own(out, "witness.json", what="witness")
    if minimise is not None:
        built, certificate = _minimised(task, family, variant, minimise, addresses or arithmetic)
    else:
        built, certificate = _built(task, family, variant, addresses, arithmetic), None
    seconds = time.monotonic() - started
    if out is not None:
        certificate = _kept(built, certificate, out)
    if json:
        write_json(_facts(built, certificate, out, seconds))
        return
    _print(built, certificate)
    if out is not None:
        what = "Replaced the witness there by" if replaced else "Wrote"
        assert certificate is not None
        kind = "a certified witness" if certificate.verdict == "proved" else "an unproven witness"
        note(f"{what} {kind} of {built.theorem}.")
        print(printable_line(str(out)))


def _built(
    task: Task, family: str | None, variant: str | None, addresses: str | None, arithmetic: str | None
) -> Witness:
    from separatrix.precision import system_named
    from separatrix.witnesses import Choices, witness_for
    from separatrix.witnesses.catalogue import fitted

    choices: dict[str, Any] = {} if addresses is None else {"addresses": addresses}
    if arithmetic is not None:
        choices["system"] = system_named(arithmetic)
    return witness_for(
        fitted(task, family=family, variant=variant),
        family=family,
        variant=variant,
        choices=Choices(**choices),
    )


def _minimised(
    task: Task,
    family: str | None,
    variant: str | None,
    by: Literal["bits", "width", "precision"],
    chosen: str | None,
) -> tuple[Witness, Certificate]:
    from separatrix.certificates.minimising import minimised

    if chosen is not None:
        raise InvalidInput(
            "--minimise chooses addresses and arithmetic itself; leave --addresses and --arithmetic out."
        )
    with note_if_long("Trying choices and proving each; this may take minutes."):
        return minimised(task, family=family, variant=variant, by=by)


def _kept(built: Witness, certificate: Certificate | None, out: Path) -> Certificate:
    """Certify and write; weights that could be proven right and are not leave nothing behind."""
    from separatrix.certificates import certify
    from separatrix.certificates.proofs import PROOFS
    from separatrix.witnesses.files import save

    with made_folder(out):  # first: a place that cannot be written to is known before a long proof
        if certificate is None:
            with note_if_long("Proving the weights right on every input; this may take minutes."):
                certificate = certify(built)
        if certificate.verdict != "proved":
            known = (built.theorem, built.task.name, built.variant) in PROOFS
            if certificate.verdict == "refuted" or known:
                raise InvalidInput(f"Nothing was written: {_obstacle(certificate)}")
            note(f"Not proved for all inputs, only tried on some: {certificate.reason}")
        save(built, out, certificate)
    return certificate


def _obstacle(certificate: Certificate) -> str:
    if certificate.counterexample is not None:
        text = f"the weights fail in {certificate.arithmetic} on the input {certificate.counterexample.text}"
        return f"{text[:200]}. Try another --arithmetic or a smaller n."
    return (
        f"the weights could not be proven right in {certificate.arithmetic} "
        f"({certificate.reason.rstrip('.')}). Try another --arithmetic or a smaller n."
    )


def _facts(
    built: Witness, certificate: Certificate | None, out: Path | None, seconds: float
) -> dict[str, Any]:
    from separatrix.precision import name_of
    from separatrix.tasks.specs import spec_of
    from separatrix.witnesses.files import stated, weights_sha256

    size = built.size
    return {
        "theorem": built.theorem,
        "task": spec_of(built.task).to_fields(),
        "family": built.family,
        "variant": built.variant,
        "n": built.task.n,
        "arithmetic": name_of(built.arithmetic),
        "width": size.width,
        "ffn_width": size.ffn_width,
        "layers": size.layers,
        "heads": size.heads,
        "precision_bits": size.precision_bits,
        "parameters": size.parameters,
        "parameters_without_embeddings": size.parameters_without_embeddings,
        "parameter_bits": size.parameter_bits,
        "state_bits": size.state_bits(built.positions),
        "weights_sha256": weights_sha256(built.model),
        "claims": [stated(claim) for claim in built.claims],
        "out": None if out is None else str(out),
        "verdict": None if certificate is None else certificate.verdict,
        "certificate": None if certificate is None else certificate.to_fields(),
        "seconds": round(seconds, 3),
    }


def _print(built: Witness, certificate: Certificate | None) -> None:
    console = stdout_console()
    head, *rest = printable(str(built)).splitlines()
    console.print(Text(head, "bold cyan"))
    for line in rest:
        first, *more = wrapped(line.strip(), console.width - 6)
        indent = "" if line.lstrip() == line else "  "
        print("\n".join([f"{indent}{first}", *(f"{indent}    {each}" for each in more)]))
    print()
    for line in built.size.table(n=built.positions).splitlines():
        print("\n".join(wrapped(line, console.width)))
    print()
    if certificate is None:
        verdict = "not certified: no proof was asked for; --out DIR proves and keeps it"
    else:
        proved = "right on" if certificate.verdict == "proved" else "not proved for"
        verdict = f"{certificate.verdict}: {proved} {certificate.inputs} inputs, in {certificate.arithmetic}"
    print("\n".join(wrapped(verdict, console.width)))
