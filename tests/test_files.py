from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from separatrix.errors import InvalidFile
from separatrix.files import written_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_whole_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with written_whole(path) as file:
        file.write("ä → b\n")
        assert "out.txt" not in names(tmp_path)
    assert names(tmp_path) == ["out.txt"]
    assert path.read_bytes() == "ä → b\n".encode()


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, BrokenPipeError])
def test_what_goes_wrong_leaves_the_old_file(tmp_path: Path, failure: type[BaseException]) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail() -> None:
        with written_whole(path) as file:
            file.write("half")
            raise failure

    with pytest.raises((failure, InvalidFile)):
        fail()
    assert names(tmp_path) == ["out.txt"]
    assert path.read_text() == "old"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with written_whole(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.fixture
def _umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_permissions_stay_and_new_files_have_the_usual_ones(tmp_path: Path) -> None:
    for mode in (None, 0o600, 0o644, 0o755, 0o666):
        path = tmp_path / "out.txt"
        if mode is not None:
            path.write_text("old")
            path.chmod(mode)
        with written_whole(path) as file:
            file.write("new")
            (part,) = tmp_path.glob(".*.part")
            assert permissions(part) & ~permissions(path if mode else part) == 0, "no wider in between"
        assert path.read_text() == "new"
        assert permissions(path) == (0o640 if mode is None else mode)
        path.unlink()


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def commoner() -> Iterator[Path]:
    """A folder of a user who is not allowed everything; root, who is, becomes that user for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            yield Path(folder)
    finally:
        if root:
            os.seteuid(0)


def test_a_write_protected_file_is_left_alone(commoner: Path) -> None:
    path = commoner / "kept"
    path.write_text("old")
    path.chmod(0o444)
    (commoner / "link").symlink_to(path)
    for name in (path, commoner / "link"):
        with pytest.raises(InvalidFile) as refusal, written_whole(name):
            pytest.fail("nothing may be written")
        assert str(refusal.value) == f"'{name}' is write-protected and is left alone; name another file."
    assert path.read_text() == "old"
    assert names(commoner) == ["kept", "link"]


def test_a_folder_without_permission_is_refused(commoner: Path) -> None:
    folder = commoner / "closed"
    for mode in (0o500, 0o600):
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(InvalidFile, match="Permission denied"), written_whole(folder / "x"):
            pytest.fail("nothing may be written")
        folder.rmdir()


def test_what_leads_into_the_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every step: in the name, through a link to a file, through a link to a folder."""
    kept = tmp_path / "kept"
    kept.write_text("old")
    (tmp_path / "devices").symlink_to("/dev")
    (tmp_path / "first").symlink_to("second")
    monkeypatch.chdir(tmp_path)
    with kept.open() as file:
        (tmp_path / "second").symlink_to(f"/dev/fd/{file.fileno()}")
        cases = {
            f"/dev/fd/{file.fileno()}": "/dev",
            f"/proc/self/fd/{file.fileno()}": "/proc",
            f"/proc/{os.getpid()}/fd/{file.fileno()}": "/proc",
            f"/tmp/../dev/fd/{file.fileno()}": "/dev",
            f"devices/fd/{file.fileno()}": "/proc",
            "devices/null": "/dev",
            "devices/new": "/dev",
            "first": "/dev",
            "second": "/dev",
            "/dev/null": "/dev",
            "/dev/new": "/dev",
            "/proc/x": "/proc",
            "/proc/self/cwd/kept": "/proc",
        }
        for name, system in cases.items():
            with pytest.raises(InvalidFile) as refusal, written_whole(Path(name)):
                pytest.fail("nothing may be written")
            assert (
                str(refusal.value)
                == f"'{name}' leads into {system}, which is no place for files; name another."
            )
    assert kept.read_text() == "old"
    assert names(tmp_path) == ["devices", "first", "kept", "second"]
    assert Path("/dev/null").is_char_device()
    with written_whole(tmp_path / "devices.txt") as new:
        new.write("only the name is like it")


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    os.mkfifo(tmp_path / "fifo")
    cases = {
        tmp_path / "fifo": f"'{tmp_path / 'fifo'}' is no ordinary file and is left alone; name another.",
        tmp_path: f"'{tmp_path}' is a folder; name a file in it.",
        tmp_path / "no" / "x": f"there is no folder '{tmp_path / 'no'}'; make it first.",
        tmp_path / "file" / "x": f"there is no folder '{tmp_path / 'file'}'; make it first.",
        tmp_path / ("x" * 300): "File name too long; choose a place that can be written to.",
        tmp_path / "nul\0": "embedded null byte; choose a place that can be written to.",
        tmp_path / "circle": "Too many levels of symbolic links; choose a place that can be written to.",
    }
    for path, words in cases.items():
        with pytest.raises(InvalidFile) as refusal, written_whole(path):
            pytest.fail("nothing may be written")
        assert words in str(refusal.value)
    assert names(tmp_path) == ["circle", "fifo", "file"]
