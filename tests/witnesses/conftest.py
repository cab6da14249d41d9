"""A small certified witness, and its folder to be used or spoilt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import separatrix
from separatrix.certificates import certify
from separatrix.evidence import Certificate
from separatrix.witnesses import Witness, witness_for
from separatrix.witnesses.files import (
    save,
)


@pytest.fixture(scope="module")
def built() -> Witness:
    return witness_for(separatrix.task("index-lookup", n=4, alphabet=2))


@pytest.fixture(scope="module")
def certificate(built: Witness) -> Certificate:
    return certify(built)


@pytest.fixture(scope="module")
def original(built: Witness, certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(built, tmp_path_factory.mktemp("witness") / "deep" / "down", certificate)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "w"))
