"""`separatrix dataset`: examples of a task as JSON lines, a dataset, or a task of lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import note, note_if_long, printable_line, write_json
from separatrix.errors import InvalidInput

if TYPE_CHECKING:
    from separatrix.tasks import Task

__all__ = ["dataset"]


def dataset(
    task: Task,
    *,
    out: Annotated[Path, Parameter(help="Folder to write to, made if need be; a dataset in it is replaced.")],
    to: Annotated[
        Literal["jsonl", "datasets", "harness"],
        Parameter(help="JSON lines, Parquet for `datasets`, or a task file for lm-evaluation-harness."),
    ] = "jsonl",
    count: Annotated[Whole, Parameter(help="How many examples.")] = 1000,
    seed: Annotated[Whole, Parameter(help="Same seed, same examples.")] = 0,
    start: Annotated[Whole, Parameter(help="Number of the first example.")] = 0,
    shots: Annotated[
        Whole | None,
        Parameter(help="Worked examples before a question of the harness. [default: 4, before texts 0]"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Write examples of a task as a dataset, with a card that says what they are."""
    from separatrix.interop.harness_tasks import harness_name, write_harness_folder
    from separatrix.interop.task_datasets import write_task_folder
    from separatrix.interop.task_folders import task_folder_in

    if shots is not None and to != "harness":
        raise InvalidInput(f"--shots is for --to harness; got --to {to}. Leave it out.")
    before = task_folder_in(out)  # a folder with other things in it is refused before anything is drawn
    with note_if_long(f"Drawing {count:,} examples; they appear in '{out}' when they are whole."):
        if to == "harness":
            written = write_harness_folder(task, out, count=count, seed=seed, start=start, shots=shots)
        else:
            written = write_task_folder(task, out, to=to, count=count, seed=seed, start=start)
    name = harness_name(task) if to == "harness" else None
    if json:
        write_json(
            {
                "folder": str(out),
                "format": to,
                "task": task.name,
                "n": task.n,
                "parameters": written.to_fields()["task"],
                "seed": seed,
                "start": start,
                "count": count,
                "file": written.file,
                "sha256": written.sha256,
                "harness_task": name,
            }
        )
        return
    wrote = "Wrote" if before is None else f"Replaced {_counted(before.count, before.task.name)} there by"
    note(f"{wrote} {_counted(count, task.name)}.")
    if name is not None:
        note(f"Run it with: lm_eval --include_path {out} --tasks {name} --model hf --model_args pretrained=…")
    print(printable_line(str(out)))


def _counted(count: int, task: str) -> str:
    return f"{count:,} example{'s' if count > 1 else ''} of {task}"
