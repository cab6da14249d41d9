from __future__ import annotations

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


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    cases = {
        Path("/dev/null"): "'/dev/null' is no ordinary file and is left alone; name another.",
        tmp_path: f"'{tmp_path}' is a folder; name a file in it.",
        tmp_path / "no" / "x": f"there is no folder '{tmp_path / 'no'}'; make it first.",
        tmp_path / "file" / "x": f"there is no folder '{tmp_path / 'file'}'; make it first.",
        tmp_path / ("x" * 300): "File name too long; choose a place that can be written to.",
        tmp_path / "nul\0": "embedded null byte; choose a place that can be written to.",
        tmp_path / "circle": "choose a place that can be written to.",
        Path("/proc/x"): "'/proc/x' cannot be written: ",
    }
    for path, words in cases.items():
        with pytest.raises(InvalidFile) as refusal, written_whole(path):
            pytest.fail("nothing may be written")
        assert words in str(refusal.value)
    assert Path("/dev/null").is_char_device()
    assert names(tmp_path) == ["circle", "file"]
