"""`separatrix export`: a witness or a trained run as a Hugging Face folder or an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import note, note_if_long, printable_line, write_json
from separatrix.cli.subjects import Asked, RunSubject, Subject
from separatrix.errors import InvalidInput

if TYPE_CHECKING:
    from separatrix.interop.onnx_files import OnnxManifest

__all__ = ["export"]

_ONNX: Final = "model.onnx"


def export(
    asked: Asked,
    *,
    to: Annotated[
        Literal["hf", "onnx"],
        Parameter(help="hf: a folder for AutoModelForCausalLM; onnx: model.onnx with its manifest."),
    ],
    out: Annotated[Path, Parameter(help="Folder to write to, made if need be.")],
    positions: Annotated[
        Whole | None,
        Parameter(help="Positions of an ONNX model's inputs. [default: those of the task]"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Write a witness or a trained run in the format of others.

    The extra hf or onnx is needed.
    """
    if to == "hf" and positions is not None:
        raise InvalidInput("A Hugging Face folder is for texts of any length; leave --positions out.")
    subject = asked.subject()
    with note_if_long("Exporting; this may take a minute."):
        facts = _folder(subject, out) if to == "hf" else _file(subject, out, positions)
    if json:
        about = {"path": asked.path, "to": to, "out": str(out), "task": _task(subject)}
        write_json({**about, "run": subject.run.key if isinstance(subject, RunSubject) else None, **facts})
        return
    if to == "onnx":
        note(f"Inputs are {_axes(facts['inputs'])}, outputs {_axes(facts['outputs'])}.")
    else:
        note("Load it with AutoModelForCausalLM after separatrix.interop.register_auto().")
    print(printable_line(str(out)))


def _folder(subject: Subject, out: Path) -> dict[str, Any]:
    from separatrix.interop import save_pretrained_folder
    from separatrix.interop.model_folders import model_folder

    if isinstance(subject, RunSubject):
        place = save_pretrained_folder(subject.population, out, task=subject.task)
    else:
        place = save_pretrained_folder(subject.witness, out)
    written = model_folder(place)
    return {"model_type": written.model_type, "sha256": written.sha256()}


def _file(subject: Subject, out: Path, positions: int | None) -> dict[str, Any]:
    from separatrix.interop import export_onnx

    path = out / _ONNX
    if isinstance(subject, RunSubject):
        manifest: OnnxManifest = export_onnx(subject.population, path, n=positions, task=subject.task)
    else:
        manifest = export_onnx(subject.witness, path, n=positions)
    return {
        "file": str(path),
        "sha256": manifest.model_sha256,
        "inputs": manifest.inputs.to_fields(),
        "outputs": manifest.outputs.to_fields(),
    }


def _task(subject: Subject) -> dict[str, Any]:
    from separatrix.tasks.specs import spec_of

    return spec_of(subject.task).to_fields()


def _axes(fields: dict[str, Any]) -> str:
    return f"{fields['dtype']} ({', '.join(fields['shape'])})"
