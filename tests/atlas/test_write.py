"""The page on disk: where it goes, and that a failure leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from separatrix.atlas.write import write_page
from separatrix.errors import InvalidFile


def test_left_out_it_goes_under_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_page("x", None) == Path("out/atlas/index.html")
    assert (tmp_path / "out/atlas/index.html").read_text() == "x"


def test_a_folder_gets_an_index_and_a_file_is_taken_as_given(tmp_path: Path) -> None:
    assert write_page("x", tmp_path / "new" / "folder") == tmp_path / "new/folder/index.html"
    assert write_page("x", str(tmp_path / "page.html")) == tmp_path / "page.html"


def test_an_old_page_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_page("old", tmp_path)
    write_page("new … page", tmp_path)
    assert (tmp_path / "index.html").read_bytes() == "new … page".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidFile) as caught:
        write_page("x", tmp_path / "taken" / "deeper")
    assert str(caught.value) == (
        f"The atlas cannot be written to '{tmp_path}/taken/deeper/index.html': Not a directory; "
        "choose a folder that can be written to."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_folder_where_the_page_should_be_leaves_no_part_behind(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(InvalidFile, match="is a folder"):
        write_page("x", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_a_name_no_file_can_have() -> None:
    with pytest.raises(InvalidFile, match="null byte"):
        write_page("x", "nothing\0here")


def test_a_last_step_that_fails_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_page("old", tmp_path)

    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InvalidFile, match="No space left on device"):
        write_page("new page", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_bytes() == b"old"
