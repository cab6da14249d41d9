"""The Hotpot-QA file: what is read, what is put right, and what is refused, with which words."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidFile
from separatrix.tasks import hotpot, task
from separatrix.tasks.hotpot import read_hotpot

SMALL = Path(__file__).parent.parent / "data" / "hotpot_small.json"

GOOD: dict[str, Any] = {
    "_id": "1",
    "question": "What is in the box?",
    "answer": "tea",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["Box", 0], ["Tin", 1]],
    "context": [
        ["Box", ["In the box is a tin."]],
        ["Lid", ["A lid."]],
        ["Tin", ["A tin.", " It holds tea."]],
    ],
}


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "questions.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InvalidFile) as caught:
        read_hotpot(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def changed(**values: Any) -> list[dict[str, Any]]:
    """A good record and a second one with these values; None takes a key out."""
    record = copy.deepcopy(GOOD) | {"question": "And what else?"} | values
    return [GOOD, {key: value for key, value in record.items() if value is not None}]


def test_records_are_read() -> None:
    found = read_hotpot(SMALL)
    assert [question.answer for question in found.questions] == [
        "Oona Téllez",
        "Castle Pellin",
        "yes",
        "its bell foundry",
    ]
    first = found.questions[0]
    assert first.paragraphs[1] == (
        "[Hesk] Hesk is an island in the Marrow Sea. Its only harbour town is Brannoch. "
        "About four hundred people live there."
    )
    assert first.gold == (1, 2)
    assert first.reasoning == "Its only harbour town is Brannoch. Its mayor is Oona Téllez."
    assert found.most_paragraphs == 6


def test_harmless_things_are_put_right() -> None:
    found = read_hotpot(SMALL)
    assert found.left_out == 2, "the question asked twice, and the one with a single gold paragraph"
    assert found.questions[1].paragraphs[-1] == "[An Empty Page]"
    third, sixth = found.questions[2], found.questions[3]
    assert third.question == "Were The Paper Orchard's director and Basil Ume linked to the same town?"
    assert len(third.paragraphs) == 5, "a paragraph that stands there twice counts once"
    assert third.reasoning.count("Ines Vondra is a director") == 1
    assert sixth.reasoning == "The Tin Choir is a band from Lower Quell."
    assert sixth.gold == (0, 1)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = written(tmp_path, [GOOD])
    assert read_hotpot(path) is read_hotpot(path)
    written(tmp_path, [GOOD | {"answer": "coffee beans"}])
    assert read_hotpot(path).questions[0].answer == "coffee beans"


def test_a_byte_order_mark_is_harmless(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + json.dumps([GOOD]).encode()
    assert read_hotpot(written(tmp_path, content)).questions[0].answer == "tea"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"question": None}, "question 2 has no 'question'"),
        ({"answer": None}, "question 2 has no 'answer'"),
        ({"context": None}, "question 2 has no 'context'"),
        ({"supporting_facts": None}, "question 2 has no 'supporting_facts'"),
        ({"answer": "  "}, "question 2 has nothing as its 'answer'"),
        ({"question": ""}, "question 2 has nothing as its 'question'"),
        ({"answer": 7}, "question 2 has a number as its 'answer' where text is needed"),
        ({"question": ["x"]}, "question 2 has a list as its 'question' where text is needed"),
        ({"answer": "\ud800"}, "question 2 has half a character (a lone surrogate) in its 'answer'"),
        ({"answer": "x" * 70_000}, "question 2 has 70,000 bytes as its 'answer'; at most 65,536 are taken"),
        ({"context": {}}, "question 2 needs a 'context' that is a list of 1 to 256 paragraphs"),
        ({"context": []}, "question 2 needs a 'context' that is a list of 1 to 256 paragraphs"),
        (
            {"context": [["Box", "In the box."]]},
            "question 2 needs paragraphs that are pairs of a title and a list of sentences",
        ),
        (
            {"context": [["Box", [True]]]},
            "question 2 has true or false as a sentence where text is needed",
        ),
        ({"context": [[None, []]]}, "question 2 has null as a title where text is needed"),
        (
            {"context": [["Box", ["a"]], ["Box", ["b"]], ["Tin", []]]},
            "question 2 has two different paragraphs with the title 'Box'",
        ),
        (
            {"context": [["Box", ["a"]], ["Tin", ["x] b"]], ["Tin] x", ["b"]]]},
            "question 2 has two paragraphs that read alike",
        ),
        (
            {"context": [["Box", ["a" * 40_000, "b" * 40_000]], ["Tin", ["b"]]]},
            "question 2 has a paragraph of 80,007 bytes; at most 65,536 are taken",
        ),
        (
            {"supporting_facts": []},
            "question 2 needs 'supporting_facts' that are a list of at least one pair",
        ),
        (
            {"supporting_facts": [["Box", -1]]},
            "question 2 needs supporting facts that are pairs of a title and a sentence's number",
        ),
        (
            {"supporting_facts": [["Box", True]]},
            "question 2 needs supporting facts that are pairs of a title and a sentence's number",
        ),
        (
            {"supporting_facts": [["Box", 1.5]]},
            "question 2 needs supporting facts that are pairs of a title and a sentence's number",
        ),
        (
            {"supporting_facts": [["Box", 0], ["Jar", 0]]},
            (
                "question 2 names 'Jar' as supporting, but has no paragraph of that title (the distractor "
                "files of Hotpot-QA have them all, the fullwiki files do not)"
            ),
        ),
    ],
)
def test_bad_records(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    path = written(tmp_path, changed(**values))
    assert refusal(path) == f"{path} is no Hotpot-QA file that can be used: {message}."


def test_bad_files(tmp_path: Path) -> None:
    missing = tmp_path / "none.json"
    assert refusal(missing) == f"Cannot read the Hotpot-QA file {missing}: No such file or directory."
    assert refusal(tmp_path) == f"Cannot read the Hotpot-QA file {tmp_path}: it is no regular file."
    assert "it is no regular file" in refusal(Path("/dev/zero"))
    assert "null" in refusal(Path("a\0b"))
    beginning = f"{tmp_path / 'questions.json'} is no Hotpot-QA file that can be used: "
    for content, words in (
        ({"data": []}, "it must be a list of questions, not an object"),
        ([], "it holds no question"),
        ([3], "question 1 must be an object, not a number"),
        (
            [GOOD | {"supporting_facts": [["Box", 0]]}],
            "none of its questions names two paragraphs as supporting",
        ),
        (b'["\xff"]', "byte 3 is not valid UTF-8"),
        (b"[" * 100_000, "it is nested 100000 deep, and at most 16 are taken"),
        (b'{"a":' * 100_000, "it is nested 100000 deep, and at most 16 are taken"),
    ):
        assert refusal(written(tmp_path, content)) == f"{beginning}{words}."


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[{",
        b'[{"question": "what',
        b"[1e99999, NaN]",
        b"[" + b"9" * 100_000 + b"]",
        b'["' + b'\\"' * 200_000,
        b'["\\',
        b"[1] [2]",
        json.dumps([GOOD]).encode()[:-20],
    ],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_json(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    message = refusal(path)
    assert message.startswith(f"The Hotpot-QA file {path} ")
    assert len(message) < len(str(path)) + 200


def test_brackets_in_strings_are_no_nesting(tmp_path: Path) -> None:
    record = GOOD | {"question": 'What is \\ "[[[[[[[[[[[[[[[[[[[[" ?'}
    assert read_hotpot(written(tmp_path, [record])).questions[0].question == record["question"]


def test_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, [GOOD])
    monkeypatch.setattr(hotpot, "MOST_BYTES", 100)
    size = path.stat().st_size
    assert refusal(path) == (
        f"Cannot read the Hotpot-QA file {path}: it has {size} bytes, and at most 100 are taken."
    )
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(5 << 30)
    assert "5,368,709,120 bytes" in refusal(huge)


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, [GOOD])

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "open", forbidden)
    assert refusal(path) == f"Cannot read the Hotpot-QA file {path}: Permission denied."


def test_a_task_says_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="No such file"):
        task("distractor-qa", n=4, file=tmp_path / "none.json")


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(sorted(GOOD)), inner)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(value=JSON, key=st.sampled_from(sorted(GOOD)), cut=st.integers(0, 400))
def test_any_json_is_questions_or_an_error(tmp_path: Path, value: Any, key: str, cut: int) -> None:
    hotpot._read.cache_clear()
    for content in ([GOOD | {key: value}], value, json.dumps([GOOD]).encode()[:cut]):
        path = written(tmp_path, content)
        try:
            found = read_hotpot(path)
        except InvalidFile:
            assert "\n" not in refusal(path)
        else:
            assert found.questions
