"""Nothing outside the folder can be read, whatever a name says and wherever a link leads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from separatrix.errors import InvalidFile, InvalidInput, SeparatrixError
from separatrix.explorer import folder as module
from separatrix.explorer.folder import Folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with something in it, beside a secret that is not."""
    inside = tmp_path / "inside"
    for name in ("one", "deep/two", "deep/er/three", ".hidden/four"):
        (inside / name).mkdir(parents=True)
        (inside / name / "witness.json").write_text(name)
    (inside / "runs").mkdir()
    (inside / "runs" / "runs.sqlite").write_text("")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "witness.json").write_text("secret")
    return inside


def test_it_lists_what_lies_two_levels_deep_and_is_neither_hidden_nor_a_link(place: Path) -> None:
    (place / "linked").symlink_to(place.parent / "secret")
    (place / "own").symlink_to(place / "one")
    (place / "file").mkdir()
    (place / "file" / "witness.json").symlink_to(place.parent / "secret" / "witness.json")
    found = [(entry.path, entry.kind) for entry in Folder(place).entries()]
    assert found == [("deep/two", "witness"), ("one", "witness"), ("runs", "store")]
    (place / "witness.json").write_text("")
    assert (".", "witness") in [(entry.path, entry.kind) for entry in Folder(place).entries()]


def test_it_lists_no_more_than_can_be_shown(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 2)
    assert len(Folder(place).entries()) == 2


def test_copies_are_private_and_go_away(place: Path) -> None:
    folder = Folder(place)
    with folder.copied("one", "witness.json", optional=("missing.json",)) as copy:
        assert (copy / "witness.json").read_text() == "one"
        assert not copy.is_relative_to(place)
        assert copy.stat().st_mode & 0o077 == 0
    assert not copy.exists()
    assert folder.read("deep/two", "witness.json", most=100) == b"deep/two"


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "one/../../secret",
        "one/..",
        "./one",
        "/etc",
        "{outside}",
        "one//",
        "",
        "one/",
        ".hidden/four",
        "deep/./two",
        "one\\..\\..\\secret",
        "linked",
        "linked/.",
        "own",
        "missing",
        "one/witness.json",
        "one\0",
        "x" * 5000,
        "a/" * 150,
        "\ud800",
    ],
)
def test_no_path_leads_out(place: Path, path: str) -> None:
    (place / "linked").symlink_to(place.parent / "secret")
    (place / "own").symlink_to(place / "one")
    with (
        pytest.raises((InvalidFile, InvalidInput)) as refusal,
        Folder(place).copied(path.format(outside=place.parent / "secret"), "witness.json"),
    ):
        pass
    assert "secret" not in str(refusal.value).replace(path, "").replace(repr(path), "").replace(
        repr(str(place.parent / "secret")), ""
    )


@pytest.mark.parametrize("name", ["../two/witness.json", "link.json", "folder", "pipe", "sub/witness.json"])
def test_no_file_name_leads_out(place: Path, name: str) -> None:
    one = place / "one"
    (one / "link.json").symlink_to(place.parent / "secret" / "witness.json")
    (one / "sub").symlink_to(place.parent / "secret")
    (one / "folder").mkdir()
    os.mkfifo(one / "pipe")  # opening it would wait for ever
    with pytest.raises(SeparatrixError), Folder(place).copied("one", name):
        pass
    with pytest.raises(SeparatrixError):
        Folder(place).read("one", name, most=100)


def test_a_folder_that_is_exchanged_for_a_link_is_not_followed(place: Path) -> None:
    folder = Folder(place)
    (place / "one" / "witness.json").unlink()
    (place / "one").rmdir()
    (place / "one").symlink_to(place.parent / "secret")
    with pytest.raises(InvalidFile, match="links and hidden names are not followed"):
        folder.read("one", "witness.json", most=100)


def test_what_is_too_large_is_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "one" / "witness.json").write_bytes(b"x" * 101)
    with pytest.raises(InvalidFile, match="reads 100 bytes"):
        Folder(place).read("one", "witness.json", most=100)
    monkeypatch.setattr(module, "LARGEST_FILE", 100)
    with pytest.raises(InvalidFile, match="reads 100 bytes"), Folder(place).copied("one", "witness.json"):
        pass


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="There is no folder"):
        Folder(tmp_path / "missing")
