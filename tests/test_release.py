"""What is handed out: the wheel is whole, runs the tutorial by itself, and says its version and makers."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import separatrix
from tests.test_docs import blocks, commands

ROOT = Path(__file__).parent.parent
TUTORIAL = "docs/tutorial.md"
CAME_FROM = "import separatrix; print(separatrix.__file__)"
RUN_COMMANDS = """
import json, sys
from separatrix.cli import main
for command in json.loads(sys.argv[1]):
    code = main(command)
    if code and (command[0], code) != ("break", 1):
        sys.exit(f"{command} ended with {code}")
"""


def done(*command: str | Path, folder: Path) -> str:
    """What a command prints, run outside of the checkout and with nothing of it on the path."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SEPARATRIX"))}
    ran = subprocess.run(
        list(map(str, command)),
        check=False,
        cwd=folder,
        env={**own, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, f"{ran.stdout[-2000:]}{ran.stderr[-4000:]}"
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # What is installed already need not be fetched.
    alone = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    done(*pip, *alone, "--wheel-dir", folder, ROOT, folder=folder)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel in it, and the packages it needs lent by this one."""
    folder = tmp_path_factory.mktemp("clean")
    done(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    python = folder / "bin" / "python"
    site = Path(
        done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder).strip()
    )
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    done(*pip, "--no-deps", "--no-index", "--target", site, wheel, folder=folder)
    # A path in a .pth is searched after the environment's own, and the .pth files there are not read: the
    # checkout, which is installed there to be edited, stays out.
    (site / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


@pytest.mark.slow
@pytest.mark.extra
def test_the_wheel_has_every_file(wheel: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/separatrix", "results"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    owed = {
        re.sub(r"^results/", "separatrix/results/", name.removeprefix("src/"))
        for name in listed
        if (ROOT / name).exists()
    }
    with zipfile.ZipFile(wheel) as file:
        found = {name for name in file.namelist() if ".dist-info/" not in name}
        about = {Path(name).name for name in file.namelist() if ".dist-info/" in name}
    assert found == owed
    assert {"separatrix/py.typed", "separatrix/atlas/templates/atlas.html"} <= found
    assert {"LICENSE", "entry_points.txt", "METADATA"} <= about
    assert wheel.stat().st_size < 20e6


@pytest.mark.slow
@pytest.mark.extra
def test_the_tutorial_runs_from_the_wheel(clean: Path, tmp_path: Path) -> None:
    assert Path(done(clean, "-c", CAME_FROM, folder=tmp_path).strip()).is_relative_to(clean.parent.parent)
    done(clean, "-c", "\n".join(blocks(TUTORIAL, "python")), folder=tmp_path)
    (tmp_path / "commands").mkdir()
    done(clean, "-c", RUN_COMMANDS, json.dumps(commands(TUTORIAL)), folder=tmp_path / "commands")


def test_the_tutorial_installs_the_wheel_of_this_version() -> None:
    (install,) = blocks(TUTORIAL, "sh")
    assert (
        shlex.split(install.splitlines()[-1])[-1] == f"separatrix-{separatrix.__version__}-py3-none-any.whl"
    )


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", text, re.MULTILINE) == [separatrix.__version__]
    assert 'name: "The Separatrix developers"' in text


@pytest.mark.extra
def test_the_citation_is_well_formed() -> None:
    yaml = importlib.import_module("yaml")
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "version", "license"} <= set(found)
    assert found["license"] == "Apache-2.0"
    papers = {one["identifiers"][0]["value"] for one in found["references"]}
    assert papers == {"arXiv:2406.09347", "arXiv:2306.02896", "arXiv:2402.18510"}
    assert all(one["type"] == "article" and one["title"] and one["authors"] for one in found["references"])
