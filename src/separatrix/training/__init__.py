"""Training: populations of models side by side, from a store that remembers and resumes."""

from __future__ import annotations

from separatrix.training.jobs import Job, Plan
from separatrix.training.recipes import Against, Curriculum, Halving, Member, Training
from separatrix.training.running import Observer, Trained, load_run, run_job, train

__all__ = [
    "Against",
    "Curriculum",
    "Halving",
    "Job",
    "Member",
    "Observer",
    "Plan",
    "Trained",
    "Training",
    "load_run",
    "run_job",
    "train",
]
