"""Readers whose scores are known beforehand, and runs that are killed, torn and taken up again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.experiments.reading.comparing import Comparison, ReadingScore, compare
from separatrix.experiments.reading.prompts import BookReading, ParagraphReading, Reading
from separatrix.interop.answer_log import answer_log
from separatrix.interop.asking import Contestant, Progress
from separatrix.tasks import task
from tests.experiments.reading.readers import Script, contestant, looks_up, reads_last, reads_most, silent
from tests.forked import forked

HOTPOT = ParagraphReading(questions=60, ns=(2, 4, 8))
BOOK = BookReading(questions=60, ns=(1, 2, 16))
SMALL = ParagraphReading(questions=5, ns=(2, 4))


def compared(folder: Path, reading: Reading, *contestants: Contestant) -> Comparison:
    with answer_log(folder) as log:
        return compare(contestants, reading, log=log)


def accuracies(comparison: Comparison, model: str, order: str) -> list[float | None]:
    return [score.accuracy for score in comparison.scores if (score.model, score.order) == (model, order)]


@pytest.mark.slow
@pytest.mark.parametrize("reading", [HOTPOT, BOOK], ids=["distractor-qa", "phone-book"])
def test_who_reads_everything_answers_everything(tmp_path: Path, reading: Reading) -> None:
    found = compared(tmp_path, reading, contestant("oracle", Script(reads_most)))
    assert [(score.order, score.n) for score in found.scores] == [
        (order, n) for order in ("random", "gold-last") for n in reading.ns
    ]
    assert all((score.asked, score.kept, score.right) == (60, 60, 60) for score in found.scores)
    assert all(score.task == reading.name and score.unanswered == 0 for score in found.scores)
    assert found.notes == ()


@pytest.mark.slow
def test_who_forgets_is_helped_by_gold_last(tmp_path: Path) -> None:
    forgetful = contestant("forgetful", Script(reads_last))
    found = compared(tmp_path, HOTPOT, contestant("oracle", Script(reads_most)), forgetful)
    assert accuracies(found, "forgetful", "gold-last") == [1.0, 1.0, 1.0]
    alone, four, eight = accuracies(found, "forgetful", "random")
    # Both gold paragraphs are the last two of n with probability 2 / (n (n − 1)): 1/6 and 1/28. The town may
    # also be right by another who lives there, but never without the person's own paragraph.
    assert alone == 1.0
    assert four is not None
    assert eight is not None
    assert 0.02 < four < 0.4
    assert eight < 0.2
    assert eight < four
    assert accuracies(found, "oracle", "random") == [1.0, 1.0, 1.0]


def test_who_forgets_the_phone_book(tmp_path: Path) -> None:
    found = compared(tmp_path, BOOK, contestant("forgetful", Script(reads_last)))
    assert accuracies(found, "forgetful", "gold-last") == [1.0, 1.0, 1.0]
    alone, two, sixteen = accuracies(found, "forgetful", "random")
    assert (alone, two) == (1.0, 1.0)
    assert sixteen is not None
    assert sixteen < 0.35  # 2/16 of the places


@pytest.mark.slow
def test_only_what_everybody_answers_is_scored(tmp_path: Path) -> None:
    oracle = Script(reads_most)
    found = compared(tmp_path, HOTPOT, contestant("oracle", oracle), contestant("dry", Script(looks_up)))
    days = [prompt for prompt in HOTPOT.prompts() if "On which day" in prompt.text.split("\n")[-2]]
    kept = len({prompt.question for prompt in days})
    assert 0 < kept < 60
    assert {(score.asked, score.kept, score.right) for score in found.scores} == {(60, kept, kept)}
    # Rivers are asked about with the gold alone, and never again.
    amid = [prompt for prompt in oracle.asked if prompt.rpartition("\n\n")[2].count("[") > 2]
    assert set(amid) == {prompt.text for prompt in days if prompt.n > 2}
    assert len(amid) == len(set(amid))


@pytest.mark.slow
def test_who_is_silent_leaves_nothing_to_score(tmp_path: Path) -> None:
    mute, oracle = Script(silent), Script(reads_most)
    found = compared(tmp_path, HOTPOT, contestant("oracle", oracle), contestant("mute", mute))
    assert {(score.asked, score.kept, score.right) for score in found.scores} == {(60, 0, 0)}
    assert {(score.accuracy, score.interval) for score in found.scores} == {(None, None)}
    (note,) = found.notes
    assert note == (
        "distractor-qa: none of 60 questions was answered by every model with the gold alone, so there is "
        "nothing to score."
    )
    assert len(mute.asked) == len(oracle.asked) == 60


@pytest.mark.slow
def test_no_answer_is_told_from_a_wrong_one(tmp_path: Path) -> None:
    def stops_early(prompt: str) -> str:
        amid = prompt.rpartition("\n\n")[2].count("[") > 2
        return " So much to read." if amid else reads_most(prompt)

    found = compared(tmp_path, SMALL, contestant("early", Script(stops_early)))
    assert [score.unanswered for score in found.scores] == [0, 5, 0, 5]
    assert [score.right for score in found.scores] == [5, 0, 5, 0]


@pytest.mark.slow
def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    oracle = Script(reads_most)
    first = compared(tmp_path, SMALL, contestant("oracle", oracle))
    assert len(oracle.asked) == len(set(oracle.asked)) == 5 * 3  # alone, and in two orders amid four
    again = Contestant(name="oracle", config_sha256="0" * 64, identity="oracle", open=unopened)
    assert compared(tmp_path, SMALL, again) == first
    # Another model, or the same one with other weights, has its own answers.
    other = Script(silent)
    changed = Contestant(name="oracle", config_sha256="0" * 64, identity="other", open=lambda: other)
    assert compared(tmp_path, SMALL, changed).scores[0].kept == 0
    assert len(other.asked) == 5


def unopened() -> Script:
    raise AssertionError("there is nothing left to ask")


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from separatrix.experiments.reading.comparing import compare
from separatrix.interop.answer_log import answer_log
from tests.experiments.reading.readers import Script, contestant, reads_last
from tests.experiments.reading.test_comparing import HOTPOT

class Dying(Script):
    def complete(self, prompts, *, most_tokens, stop):
        if len(self.asked) >= 70:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().complete(prompts, most_tokens=most_tokens, stop=stop)

with answer_log(Path("log")) as log:
    compare([contestant("forgetful", Dying(reads_last))], HOTPOT, log=log, at_once=4)
"""


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    program = KILLED.format(root=str(Path(__file__).parents[3]))
    assert forked(program, folder=tmp_path).returncode == -9
    with answer_log(tmp_path / "log") as log:
        assert len(log) == 72
        assert log.notes == ()
    rest = Script(reads_last)
    taken_up = compared(tmp_path / "log", HOTPOT, contestant("forgetful", rest))
    whole = Script(reads_last)
    at_once = compared(tmp_path / "whole", HOTPOT, contestant("forgetful", whole))
    assert [counts(score) for score in taken_up.scores] == [counts(score) for score in at_once.scores]
    assert len(rest.asked) == len(whole.asked) - 72


def counts(score: ReadingScore) -> tuple[str, int, int, int, int]:
    return score.order, score.n, score.asked, score.kept, score.right


@pytest.mark.slow
def test_a_torn_line_is_dropped_and_asked_again(tmp_path: Path) -> None:
    first = compared(tmp_path, SMALL, contestant("oracle", Script(reads_most)))
    file = tmp_path / "answers.jsonl"
    whole = file.read_bytes()
    for torn in (whole[:-1], whole[:-30], whole + b'{"schema": "sep'):
        file.write_bytes(torn)
        oracle = Script(reads_most)
        with answer_log(tmp_path) as log:
            assert log.notes == (
                f"One answer was damaged in '{file}' and dropped; such questions are asked again.",
            )
            again = compare([contestant("oracle", oracle)], SMALL, log=log, at_once=4)
        assert [counts(score) for score in again.scores] == [counts(score) for score in first.scores]
        assert len(oracle.asked) == (len(torn) < len(whole))
        with answer_log(tmp_path) as log:
            assert (len(log), log.notes) == (15, ())


@pytest.mark.slow
def test_damaged_lines_in_the_middle_are_passed_over(tmp_path: Path) -> None:
    compared(tmp_path, SMALL, contestant("oracle", Script(reads_most)))
    file = tmp_path / "answers.jsonl"
    lines = file.read_text().splitlines()
    lines[2], lines[5] = "\0" * 40, json.dumps(json.loads(lines[5]) | {"seconds": -1})
    file.write_text("\n".join(lines) + "\n")
    with answer_log(tmp_path) as log:
        assert len(log) == 13
        assert log.notes[0].startswith("2 answers were damaged")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        answer_log(tmp_path),
        pytest.raises(InvalidInput, match=r"^Process \d+ is writing answers into"),
        answer_log(tmp_path),
    ):
        pass


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").mkdir()
    with pytest.raises(InvalidFile, match="cannot be read"), answer_log(tmp_path):
        pass


@pytest.mark.slow
def test_progress_is_told(tmp_path: Path) -> None:
    told: list[Progress] = []
    with answer_log(tmp_path) as log:
        compare([contestant("o", Script(reads_most))], SMALL, log=log, at_once=4, progress=told.append)
    assert [(one.done, one.of) for one in told] == [(4, 5), (5, 5), (9, 15), (13, 15), (15, 15)]


@pytest.mark.slow
def test_scores_are_written_and_read(tmp_path: Path) -> None:
    for score in compared(tmp_path, SMALL, contestant("forgetful", Script(reads_last))).scores:
        written = json.loads(json.dumps(score.to_json()))
        assert ReadingScore.from_json(written) == score
        assert written["interval"] == list(score.interval or ())
        with pytest.raises(InvalidFile, match="right \\+ unanswered ≤ kept ≤ asked"):
            ReadingScore.from_json(written | {"right": 6})


def test_names_differ(tmp_path: Path) -> None:
    twice = [contestant("one", Script(silent))] * 2
    with pytest.raises(InvalidInput, match="different names; got one, one"):
        compared(tmp_path, SMALL, *twice)
    with pytest.raises(InvalidInput, match="at least one model"):
        compared(tmp_path, SMALL)


def test_paragraphs_are_the_tasks_own() -> None:
    prompts = list(SMALL.prompts())
    for prompt in prompts:
        quiz = task("distractor-qa", n=prompt.n, order=prompt.order)
        row = quiz.parse(prompt.text)
        assert quiz.render(row).endswith(f"\nAnswer: {prompt.answer}")
    assert Counter((prompt.order, prompt.n) for prompt in prompts) == {
        (order, n): 5 for order in ("random", "gold-last") for n in (2, 4)
    }
    # The same question everywhere.
    for number in {prompt.question for prompt in prompts}:
        assert len({(p.text.split("\n")[-2], p.answer) for p in prompts if p.question == number}) == 1


def test_books_are_the_tasks_own_thinned_out() -> None:
    full = {prompt.question: set(entries(prompt.text)) for prompt in BOOK.prompts() if prompt.n == 16}
    places: Counter[int] = Counter()
    for prompt in BOOK.prompts():
        book = task("phone-book", n=prompt.n)
        assert book.render(book.parse(prompt.text)).endswith(f"\nAnswer: {prompt.answer}")
        assert set(entries(prompt.text)) <= full[prompt.question]
        last = entries(prompt.text)[-1].endswith(prompt.answer)
        assert last or prompt.order == "random"
        if (prompt.order, prompt.n) == ("random", 2):
            places[last] += 1
    assert min(places.values()) > 15  # fair: 30 of 60 each


def entries(text: str) -> list[str]:
    return text.split("\n")[1:-2]


@pytest.mark.parametrize(
    ("reading", "given"),
    [
        (ParagraphReading, {"ns": (4, 8)}),
        (ParagraphReading, {"ns": ()}),
        (BookReading, {"ns": (1, 8, 4)}),
        (BookReading, {"orders": ("sorted",)}),
        (BookReading, {"questions": 0}),
    ],
)
def test_readings_that_make_no_sense(reading: type[Reading], given: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="got"):
        reading(**{"questions": 3} | given)  # type: ignore[arg-type]


def hotpot_file(path: Path, *paragraphs: int) -> Path:
    """A question for each of these numbers of paragraphs."""
    records = [
        {
            "question": f"Which gate is number {number}?",
            "answer": f"The Gate, {number}",
            "context": [[f"T{place}", [f"Sentence {place} of {number}."]] for place in range(count)],
            "supporting_facts": [["T1", 0], ["T4", 0]],
        }
        for number, count in enumerate(paragraphs)
    ]
    path.write_text(json.dumps(records))
    return path


@pytest.mark.slow
def test_questions_of_a_file(tmp_path: Path) -> None:
    file = hotpot_file(tmp_path / "hotpot.json", *[6] * 7)
    reading = ParagraphReading(questions=10, ns=(2, 6), file=file)

    def knows(prompt: str) -> str:
        text = prompt.rpartition("\n\n")[2]
        assert "Sentence 1 of" in text
        assert "Sentence 4 of" in text
        number = text.split("\n")[-2].removesuffix("?").split()[-1]
        return f" I know, and the answer is gate {number}. Is it not?"

    found = compared(tmp_path / "log", reading, contestant("knows", Script(knows)))
    assert {(score.asked, score.kept, score.right) for score in found.scores} == {(7, 7, 7)}
    assert found.notes == ("distractor-qa: 10 questions were wanted, and 7 were found.",)
    with pytest.raises(InvalidInput, match=r"No question of .* has 8 paragraphs"):
        list(ParagraphReading(questions=10, ns=(2, 8), file=file).prompts())


def test_as_many_different_questions_as_are_wanted(tmp_path: Path) -> None:
    file = hotpot_file(tmp_path / "hotpot.json", *[5] * 300)
    prompts = list(ParagraphReading(questions=290, ns=(2,), orders=("random",), file=file).prompts())
    assert len({prompt.text.split("\n")[-2] for prompt in prompts}) == len(prompts) == 290


def test_questions_are_those_with_enough_paragraphs(tmp_path: Path) -> None:
    file = hotpot_file(tmp_path / "hotpot.json", 5, 6, 5, 6, 7, 5)
    prompts = list(ParagraphReading(questions=6, ns=(2, 6), file=file).prompts())
    for n in (2, 6):
        asked = {prompt.text.split("\n")[-2] for prompt in prompts if prompt.n == n}
        assert asked == {f"Question: Which gate is number {number}?" for number in (1, 3, 4)}
