"""Nothing is skipped in silence: a skip that `allowed_skips.toml` does not list fails the run."""

from __future__ import annotations

import fnmatch
import gc
import os
import signal
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Products in bfloat16 without the matrix unit of some processors: there are virtual machines that announce it
# and end a program that uses it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# What a shell starts in the background ignores Ctrl-C, and tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does, and is no reason to fail.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

LISTED = tomllib.loads((Path(__file__).parent / "allowed_skips.toml").read_text())["skip"]


class SkipLedger:
    """Sees every report, also those of the worker processes."""

    def __init__(self) -> None:
        self.unlisted: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # A failure that was expected is reported as skipped as well; it must be listed like any other.
        if report.skipped:
            reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
            if not any(
                fnmatch.fnmatch(report.nodeid, entry["test"]) and entry["reason"] in reason
                for entry in LISTED
            ):
                self.unlisted.append(f"{report.nodeid}: {reason}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.unlisted:
            terminalreporter.write_line(
                f"SKIPPED BUT NOT LISTED in tests/allowed_skips.toml: {line}", red=True
            )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Compiling every model and every sampler takes seconds each; the rest of their conformance is quick."""
    for item in items:
        if item.name in {"test_it_compiles_to_one_graph", "test_sampling_compiles_to_one_graph"}:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """All that is imported by now stays: the collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the end it is taken apart like everything else."""
    gc.unfreeze()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipLedger())
