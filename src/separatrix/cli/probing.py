"""`separatrix probe`: how well a language model finds one thing among n, beside the wall of its memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from separatrix.cli.flags import AsJson, Whole, Wholes
from separatrix.cli.output import note, printable_line, stdout_console, wrapped, write_json
from separatrix.cli.progress import shown_answers
from separatrix.cli.surroundings import Terminated
from separatrix.errors import InvalidInput

if TYPE_CHECKING:
    from separatrix.audits.probing import Probe

__all__ = ["probe"]

_PLACE: Final = Path("out") / "probe"
_BAR: Final = 20


def probe(
    model: Annotated[
        Path, Parameter(help="Folder of a causal language model, as save_pretrained writes it.")
    ],
    /,
    *,
    task: Annotated[str, Parameter(help="phone-book, associative-recall, index-lookup or distractor-qa.")],
    n: Annotated[Wholes, Parameter(help="Sizes of the lists. [default: 4 8 16 32]")] = None,
    count: Annotated[Whole, Parameter(help="Questions at each n.")] = 100,
    seed: Annotated[Whole, Parameter(help="Same seed, same questions.")] = 0,
    shots: Annotated[
        Whole | None, Parameter(help="Worked examples before a question. [default: 2; distractor-qa 4]")
    ] = None,
    device: Annotated[
        str, Parameter(help="cpu, cuda, cuda:1 …; auto takes CUDA where there is one.")
    ] = "auto",
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        Parameter(help="Type of the numbers; auto takes them as they are stored."),
    ] = "auto",
    at_once: Annotated[Whole, Parameter(help="Questions that are asked side by side.")] = 16,
    out: Annotated[
        Path | None,
        Parameter(help="Folder for answers, result and figures. [default: out/probe/MODEL]"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure how well a language model on disk finds one thing among n, with its memory's wall beside.

    The same command goes on where it was interrupted.
    """
    from separatrix.audits.probing import LENGTHS
    from separatrix.audits.probing import probe as probed

    if at_once < 1:
        raise InvalidInput(f"At least one question is asked at once; got at-once={at_once}. Try 16.")
    place = _PLACE / (model.absolute().name or "model") if out is None else out
    try:
        with shown_answers() as progress:
            found = probed(
                model,
                task=task,
                n=LENGTHS if n is None else n,
                count=count,
                seed=seed,
                shots=shots,
                device=device,
                dtype=dtype,
                out=place,
                at_once=at_once,
                progress=progress,
            )
    except (KeyboardInterrupt, Terminated):
        note(f"Interrupted; what was answered is kept, and the same command goes on in '{place}'.")
        raise
    files = {kind: str(place / f"{found.task}.{kind}") for kind in ("json", "svg", "png")}
    if json:
        write_json({**found.to_fields(), "files": files})
        return
    _print(found)
    print(printable_line(files["svg"]))


def _print(found: Probe) -> None:
    console = stdout_console()
    title = f"{found.title}: {found.model_type}, {found.task} after {found.shots} worked examples"
    console.print(Text(printable_line(title), "bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("n", "asked", "exact", "95 % interval", "contained", "no answer"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for score in found.scores:
        low, high = score.interval
        table.add_row(
            f"{score.n:,}",
            f"{score.asked:,}",
            f"{100 * score.accuracy:.1f} %",
            f"{100 * low:.1f} – {100 * high:.1f} %",
            f"{score.contained:,}",
            f"{score.unanswered:,}",
            "█" * round(_BAR * score.accuracy),
        )
    console.print(table)
    for line in wrapped(printable_line(found.about_wall), console.width):
        console.print(line)
    for remark in found.notes:
        for line in wrapped(f"note: {printable_line(remark)}", console.width):
            console.print(Text(line, "dim"))
