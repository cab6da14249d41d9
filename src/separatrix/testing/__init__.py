"""Conformance classes: put your own task or model through what ours go through.

They use plain `assert` and need no test runner; under pytest a subclass whose name begins with `Test` is
collected as it is.
"""

from separatrix.testing.model_conformance import ModelConformance
from separatrix.testing.task_conformance import TaskConformance

__all__ = ["ModelConformance", "TaskConformance"]
