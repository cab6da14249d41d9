"""Witnesses on disk: weights as safetensors, everything else as JSON, and a page that says how to use them.

A folder may come from a stranger. Its files are parsed, checked against each other by their hashes, and
never executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, final, get_args

import torch

from separatrix.accounting import Size
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import Certificate, Claim, Relation, TaskSpec
from separatrix.evidence.specs import require_sha256
from separatrix.files import made_folder, naming, written_whole
from separatrix.generation.scripts import Script, script_named
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.reading import model_from
from separatrix.models.interface import CausalModel
from separatrix.precision import name_of, system_named
from separatrix.records import JsonObject, Reader, Record, parse_json, thaw
from separatrix.tasks import Classes, Reals, Task
from separatrix.tasks.interface import WordTask
from separatrix.tasks.specs import spec_of, task_of
from separatrix.tasks.vocabulary import Vocabulary
from separatrix.theorems import family, theorem
from separatrix.version import __version__
from separatrix.witnesses.readme import readme
from separatrix.witnesses.weight_files import (
    WEIGHTS,
    canonical,
    spec_sha256,
    tensors_from,
    weight_bytes,
    weights_sha256,
)
from separatrix.witnesses.witness import Witness

__all__ = [
    "CERTIFICATE",
    "README",
    "SPEC",
    "WEIGHTS",
    "WitnessRecord",
    "load",
    "record_of",
    "save",
    "stated",
    "stated_certificate",
    "weight_bytes",
    "weights_sha256",
    "witness_from",
]

SPEC: Final = "witness.json"
CERTIFICATE: Final = "certificate.json"
README: Final = "README.md"
_MOST_WEIGHTS: Final = 2**30
_MOST_TEXT: Final = 64 * 2**20
_LONGEST_NAME: Final = 100
_LARGEST: Final = 1 << 62
_LARGEST_SEED: Final = 1 << 64
_MASKED_OR_NOT: Final = ("transformer", "causal-transformer")
_FORMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "transformer-1": _MASKED_OR_NOT,
        "transformer-2": _MASKED_OR_NOT,
        "transformer-3": _MASKED_OR_NOT,
        "transformer": _MASKED_OR_NOT,
        "transformer-cot": ("causal-transformer",),
        "third-order": (*_MASKED_OR_NOT, "graph-unit"),
        "rnn": ("recurrent", "linear-rnn"),
        "linear-rnn": ("linear-rnn",),
        "linear-rnn-cot": ("linear-rnn",),
        "linear-rnn+retrieval": ("linear-rnn",),
        "hybrid": ("hybrid",),
        "hybrid-cot": ("hybrid",),
    }
)
"""The forms of models that a family has."""
_WRITE: Final = ("transformer-cot", "linear-rnn-cot", "linear-rnn+retrieval", "hybrid-cot")
_SEARCH: Final = ("linear-rnn+retrieval",)


@final
@dataclass(frozen=True, kw_only=True)
class WitnessRecord(Record):
    """What `witness.json` holds: the spec of the model and what it is a witness of.

    Its claims have no intervals: what a proof would have to show is stated here, only a certificate shows it.
    """

    SCHEMA = "separatrix.witness"

    theorem: str
    family: str
    variant: str
    task: TaskSpec
    arithmetic: str
    weights_sha256: str
    size: Size
    claims: tuple[Claim, ...]
    script: str | None
    """The kind of the script by which it is asked, where it writes before it answers."""
    model: str
    """The model's spec, as JSON text."""
    package: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "theorem", theorem(self.theorem).id)
        family(self.family)
        system_named(self.arithmetic)
        require_sha256("A witness", self.weights_sha256)
        if any(claim.interval is not None for claim in self.claims):
            raise InvalidInput("A witness only states its claims; intervals belong to a certificate.")

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "theorem": self.theorem,
            "family": self.family,
            "variant": self.variant,
            "task": self.task.to_fields(),
            "arithmetic": self.arithmetic,
            "weights_sha256": self.weights_sha256,
            "size": self.size.to_fields(),
            "claims": [stated(claim) for claim in self.claims],
            "script": self.script,
            "model": json.loads(self.model),
            "package": self.package,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> WitnessRecord:
        """The record whose fields `read` holds."""
        return cls(
            theorem=read.text("theorem", longest=_LONGEST_NAME),
            family=read.text("family", longest=_LONGEST_NAME),
            variant=read.text("variant", longest=_LONGEST_NAME),
            task=read.record("task", TaskSpec),
            arithmetic=read.text("arithmetic", longest=_LONGEST_NAME),
            weights_sha256=read.text("weights_sha256"),
            size=read.record("size", Size),
            claims=tuple(_claim(each) for each in read.items("claims")),
            script=None if read.skip_null("script") else read.text("script", longest=_LONGEST_NAME),
            model=canonical(thaw(read.value("model"))),
            package=read.text("package", longest=_LONGEST_NAME),
        )


def stated(claim: Claim) -> JsonObject:
    """A claim as a witness has it: what is to be proven, and nothing about whether it was."""
    fields = claim.to_fields()
    return {name: fields[name] for name in ("name", "statement", "relation", "threshold", "unit", "source")}


def _claim(data: object) -> Claim:
    read = Reader(data, what="a claim of the witness")
    claim = Claim(
        name=read.text("name"),
        statement=read.text("statement"),
        relation=read.choice("relation", get_args(Relation)),
        threshold=read.exact("threshold"),
        unit=read.text("unit"),
        source=read.text("source"),
    )
    read.finish()
    return claim


def save(witness: Witness, folder: Path | str, certificate: Certificate | None = None) -> Path:
    """Write a witness into a folder, made if need be, with its certificate if there is one.

    All files are written out under other names before the first takes its place, so whatever goes wrong
    leaves a witness that was there before as it was. A certificate that was there before goes: it speaks of
    what is no longer there.
    """
    content, record = weight_bytes(witness.model), record_of(witness)
    files = {WEIGHTS: content, SPEC: _page(record.to_json())}
    if certificate is not None:
        _require_about(certificate, witness)
        files[CERTIFICATE] = _page(certificate.to_json())
    files[README] = readme(witness, certificate).encode()
    with made_folder(folder) as place:
        _write(place, files)
    return place


def record_of(witness: Witness) -> WitnessRecord:
    """All of a witness but its weights, which it names by their hash."""
    return WitnessRecord(
        theorem=witness.theorem,
        family=witness.family,
        variant=witness.variant,
        task=spec_of(witness.task),
        arithmetic=name_of(witness.arithmetic),
        weights_sha256=weights_sha256(witness.model),
        size=witness.size,
        claims=witness.claims,
        script=None if witness.script is None else witness.script.kind,
        model=canonical(witness.model.spec()),
        package=f"separatrix {__version__}",
    )


def load(folder: Path | str) -> Witness:
    """The witness in a folder, checked against its own hashes; a certificate in it is not read."""
    place = Path(folder)
    spec_file = place / SPEC
    data = _json(spec_file)
    with naming(spec_file, again="`separatrix witness … --out` writes it anew."):
        record = WitnessRecord.from_json(data)
    content = _content(place / WEIGHTS, most=_MOST_WEIGHTS)
    found = hashlib.sha256(content).hexdigest()
    if found != record.weights_sha256:
        raise InvalidFile(
            f"'{WEIGHTS}' is not the file that '{SPEC}' speaks of: its SHA-256 is {found[:12]}…, not "
            f"{record.weights_sha256[:12]}…. Take both files from one folder, or write them again."
        )
    tensors, stated = tensors_from(content)
    spec = json.loads(record.model)
    if stated != spec_sha256(spec):
        raise InvalidFile(f"'{WEIGHTS}' was written for another model than '{SPEC}' describes.")
    witness = _read(record, _model(spec, tensors), task_of(record.task))
    if weight_bytes(witness.model) != content:
        raise InvalidFile(f"'{WEIGHTS}' is not laid out as this package does; load and save it there.")
    _require_stated(witness, record)
    return witness


def witness_from(record: WitnessRecord, tensors: Mapping[str, torch.Tensor]) -> Witness:
    """The witness that a record describes, with these weights; both may come from a stranger."""
    witness = _read(record, _model(json.loads(record.model), tensors), task_of(record.task))
    if weights_sha256(witness.model) != record.weights_sha256:
        raise InvalidFile(
            f"These are not the weights of this witness: it names {record.weights_sha256[:12]}…, and they "
            f"have the SHA-256 {weights_sha256(witness.model)[:12]}…. Write both again."
        )
    _require_stated(witness, record)
    return witness


def _require_stated(witness: Witness, record: WitnessRecord) -> None:
    if witness.size != record.size:
        raise InvalidFile(f"'{SPEC}' states a size that its weights do not have.")
    _require_owed(witness)


def _require_owed(witness: Witness) -> None:
    """A theorem says for which tasks and families there are weights, a family of what make they are."""
    if witness.artefact not in theorem(witness.theorem).artefacts:
        raise InvalidFile(
            f"'{SPEC}' says that it shows {witness.theorem} for {witness.task.name} by {witness.family}, "
            "of which that theorem does not speak."
        )
    most = {"transformer-1": 1, "transformer-2": 2, "transformer-3": 3}.get(witness.family)
    if most is not None and witness.size.layers > most:
        raise InvalidFile(f"'{SPEC}' says {witness.family}, but the model has {witness.size.layers} layers.")
    if witness.model.form not in _FORMS.get(witness.family, ()):
        raise InvalidFile(f"'{SPEC}' says {witness.family}, but the model's form is {witness.model.form}.")
    script = witness.script
    if script is not None and (
        witness.family not in _WRITE or (script.searches and witness.family not in _SEARCH)
    ):
        does = "searches" if script.searches else "writes before it answers"
        raise InvalidFile(f"'{SPEC}' says {witness.family}, but its script {script.kind} {does}.")


def stated_certificate(folder: Path | str, witness: Witness) -> Certificate | None:
    """The certificate that lies beside a witness, None if there is none; one about other things is refused.

    What it says is not taken on trust: this is for comparing it with a fresh proof.
    """
    path = Path(folder) / CERTIFICATE
    try:
        if not path.exists() and not path.is_symlink():
            return None
    except (OSError, ValueError) as failure:
        raise InvalidFile(f"'{path}' cannot be read: {_reason(failure)}.") from failure
    data = _json(path)
    with naming(path, again="Remove it to certify without it."):
        certificate = Certificate.from_json(data)
    _require_about(certificate, witness)
    return certificate


def _require_about(certificate: Certificate, witness: Witness) -> None:
    digest = weights_sha256(witness.model)
    if certificate.weights_sha256 != digest:
        raise InvalidFile(
            f"'{CERTIFICATE}' is a certificate for other weights: it names "
            f"{certificate.weights_sha256[:12]}…, and these have the SHA-256 {digest[:12]}…. Remove it to "
            "certify without it."
        )
    if certificate.task != spec_of(witness.task):
        raise InvalidFile(
            f"'{CERTIFICATE}' is a certificate for another task: it names {str(certificate.task)[:200]}, and "
            f"the witness is for {str(spec_of(witness.task))[:200]}."
        )
    if certificate.arithmetic != name_of(witness.arithmetic):
        raise InvalidFile(
            f"'{CERTIFICATE}' is a certificate for another arithmetic: it names "
            f"{certificate.arithmetic[:40]}, and the witness computes in {name_of(witness.arithmetic)}."
        )


def _write(place: Path, files: Mapping[str, bytes]) -> None:
    """Everything under other names first; then, when nothing can fail any more, the names."""
    with ExitStack() as stack:
        for name in reversed([*files]):
            file = stack.enter_context(written_whole(place / name))
            file.buffer.write(files[name])
            file.flush()
    if CERTIFICATE not in files:
        with suppress(OSError):
            (place / CERTIFICATE).unlink()


def _model(spec: object, tensors: Mapping[str, torch.Tensor]) -> ExplicitModel:
    _refuse_huge(spec)
    try:
        return model_from(spec, tensors)
    except InvalidInput as error:
        raise InvalidFile(f"The model in '{SPEC}' breaks a rule: {error}") from error


def _refuse_huge(spec: object, name: str = "") -> None:
    """Counts that no int64 holds are nonsense, and arithmetic on them would fail far from here."""
    if isinstance(spec, Mapping):
        for field, value in spec.items():
            _refuse_huge(value, field)
    elif isinstance(spec, list):
        for value in spec:
            _refuse_huge(value, name)
    elif isinstance(spec, int) and abs(spec) > (_LARGEST_SEED if name == "seed" else _LARGEST):
        raise InvalidFile(f"The model in '{SPEC}' has the number {spec} for '{name[:40]}': out of reach.")


def _read(record: WitnessRecord, model: ExplicitModel, task: Task) -> Witness:
    script = None
    if record.script is None:
        _refuse_misfit(model, task)
    else:
        script = _script(record.script, task)
        _refuse_other_words(model, script)
    return Witness(
        task=task,
        theorem=record.theorem,
        family=record.family,
        variant=record.variant,
        model=model.with_arithmetic(system_named(record.arithmetic)),
        claims=record.claims,
        script=script,
    )


def _script(kind: str, task: Task) -> Script:
    try:
        return script_named(kind, task)
    except InvalidInput as error:
        raise InvalidFile(f"'{SPEC}' names a script that does not fit its task: {error}") from error


def _refuse_other_words(model: ExplicitModel, script: Script) -> None:
    """Refuse a model that does not read and write the words of its script."""
    words = _words(script.vocabulary)
    try:
        given = model.outputs(torch.tensor([[0], [words - 1]])).shape[-1]
    except (InvalidInput, RuntimeError, IndexError) as error:
        raise InvalidFile(f"The model in '{SPEC}' cannot read the words of its script.") from error
    if given != words or not isinstance(model, CausalModel):
        raise InvalidFile(f"The model in '{SPEC}' scores {given} words; its script has {words}.")


def _words(vocabulary: Vocabulary) -> int:
    return vocabulary.size - (0 if vocabulary.pad is None else 1)


def _refuse_misfit(model: ExplicitModel, task: Task) -> None:
    """Refuse a model that cannot read the task's inputs or does not give its kind of answers."""
    space, answers = task.input_space, task.target_space
    if isinstance(space, Reals):
        rows = torch.zeros(1, 1, space.width)
    else:
        rows = torch.tensor([[0], [space.size - 1]])
    try:
        given = model.outputs(rows).shape[-1]
    except (InvalidInput, RuntimeError, IndexError) as error:
        raise InvalidFile(f"The model in '{SPEC}' cannot read the inputs of {task.name}.") from error
    wanted, scored = (answers.size, True) if isinstance(answers, Classes) else (answers.width, False)
    # A model may score all words; the classes of a task on words are the first of them.
    words = _words(task.vocabulary) if isinstance(task, WordTask) and scored else wanted
    if given not in (wanted, max(wanted, words)) or (model.classes is not None) != scored:
        raise InvalidFile(
            f"The model in '{SPEC}' gives {given} numbers; {task.name} asks for "
            f"{f'scores of {wanted} classes' if scored else f'vectors of width {wanted}'}."
        )


def _json(path: Path) -> object:
    """A file of JSON in which every text is Unicode, so that it can be shown and written again."""
    data = parse_json(_content(path, most=_MOST_TEXT), what=f"'{path.name}'")
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidFile(f"'{path.name}' holds half a character, which is no text.") from error
    return data


def _content(path: Path, *, most: int) -> bytes:
    try:
        if path.parent.exists() and not path.parent.is_dir():
            raise InvalidFile(f"'{path.parent}' is a file; a witness is the folder that `--out` named.")
        if not path.is_file():
            raise InvalidFile(
                f"There is no file '{path.name}' in '{path.parent}'; a witness is a folder with {SPEC} and "
                f"{WEIGHTS}, as `separatrix witness … --out DIR` writes it."
            )
        with path.open("rb") as file:
            content = file.read(most + 1) if path.stat().st_size <= most else None
    except (OSError, ValueError) as failure:
        if isinstance(failure, InvalidFile):
            raise
        raise InvalidFile(f"'{path}' cannot be read: {_reason(failure)}.") from failure
    if content is None or len(content) > most:
        raise InvalidFile(f"'{path}' is too large; at most {most:,} bytes are read.")
    return content


def _reason(failure: Exception) -> str:
    return (failure.strerror if isinstance(failure, OSError) else None) or str(failure)


def _page(fields: object) -> bytes:
    return (json.dumps(fields, indent=1, ensure_ascii=False) + "\n").encode()
