"""The page that lies beside a witness's weights: what they are, and how to run and certify them."""

from __future__ import annotations

from typing import Final

from separatrix.evidence import Certificate
from separatrix.precision import name_of
from separatrix.tasks.specs import spec_of
from separatrix.theorems import theorem
from separatrix.version import __version__
from separatrix.witnesses.witness import Witness

__all__ = ["readme"]

_USE: Final = """\
import torch

import separatrix

witness = separatrix.load(".")
batch = witness.task.sample(3, seed=0)
asked = batch.mask.int().argmax(1, keepdim=True)  # the first position that has an answer
answers = witness.model.answers(batch.inputs, at=asked)
rows = torch.arange(len(asked)).unsqueeze(1)
for i in range(len(asked)):
    print(answers[i].tolist(), "where", batch.targets[rows, asked][i].tolist(), "is right")

certificate = separatrix.certify(".")
print(certificate.verdict)
"""

_USE_IN_WRITING: Final = """import separatrix
from separatrix.witnesses.solving import ask

witness = separatrix.load(".")
for solution in ask(witness, witness.task.sample(3, seed=0).inputs):
    print(" ".join(solution.words))
    print("answers", solution.text, "which is", "right" if solution.right else "wrong")

certificate = separatrix.certify(".")
print(certificate.verdict)
"""

_FILES: Final = (
    "`weights.safetensors` has the weights, float64 numbers that the arithmetic rounds to its own; "
    "`witness.json` has all else. Each names the other by its SHA-256. "
    f"Written by separatrix {__version__}."
)


def readme(witness: Witness, certificate: Certificate | None) -> str:
    """Markdown whose Python block runs as it stands, in the folder it lies in."""
    stated = theorem(witness.theorem)
    about, arithmetic = str(spec_of(witness.task))[:400], name_of(witness.arithmetic)
    if certificate is None:
        standing = "These weights have not been certified yet."
    else:
        standing = (
            f"Certificate: **{certificate.verdict}**, on {certificate.inputs} inputs, in "
            f"{certificate.arithmetic}. `certificate.json` has every claim with its proven interval and what "
            "the proof assumes."
        )
    return "\n".join(
        [
            f"# {stated.id}: {witness.task.name} by {witness.family}",
            "",
            f"{stated.statement} ({stated.source})",
            "",
            f"Explicit weights for {about}, to be computed with in {arithmetic}. {standing}",
            "",
            "Load and run them here with Python:",
            "",
            f"```python\n{_USE if witness.script is None else _USE_IN_WRITING}```",
            "",
            "Prove them right again, from the weights and the spec alone:",
            "",
            "```sh\nseparatrix certify .\n```",
            "",
            "## What is in the model",
            "",
            f"```text\n{witness}\n```",
            "",
            "## Size",
            "",
            f"```text\n{witness.size.table(n=witness.positions)}\n```",
            "",
            _FILES,
            "",
        ]
    )
