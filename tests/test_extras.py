"""Every extra installs what it promises, beside the pinned torch."""

from __future__ import annotations

import importlib
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

EXTRAS = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
MODULES = {"google-re2": "re2", "import-linter": "importlinter", "pytest-xdist": "xdist"}


def as_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


@pytest.mark.extra
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("requirement", [line for extra in EXTRAS.values() for line in extra])
def test_extra_is_installed_and_imports(requirement: str) -> None:
    name, least = re.sub(r"\[.*\]", "", requirement).split(">=")
    assert as_numbers(version(name)) >= as_numbers(least)
    importlib.import_module(MODULES.get(name, name.replace("-", "_")))


@pytest.mark.extra
def test_torch_is_the_pinned_one() -> None:
    pinned = re.search(
        r"^torch==(\S+)$", (Path(__file__).parent.parent / "constraints.txt").read_text(), re.M
    )
    assert pinned
    assert version("torch").split("+")[0] == pinned.group(1)


def test_the_extras_exist() -> None:
    assert sorted(EXTRAS) == [
        "bench",
        "cluster",
        "data",
        "dev",
        "docs",
        "harness",
        "hf",
        "onnx",
        "search",
        "serve",
        "solver",
    ]
