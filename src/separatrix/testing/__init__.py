"""Conformance classes: put your own task through what ours go through.

They use plain `assert` and need no test runner; under pytest a subclass whose name begins with `Test` is
collected as it is.
"""

from separatrix.testing.task_conformance import TaskConformance

__all__ = ["TaskConformance"]
