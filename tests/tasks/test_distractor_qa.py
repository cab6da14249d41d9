"""Distractor QA against regular expressions, its law, and the words of its errors."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidFile, InvalidInput, TooLarge
from separatrix.tasks import Task, task
from separatrix.tasks._stock import DAYS, JOBS, RIVERS, person, town
from separatrix.tasks.distractor_qa import DistractorQA
from separatrix.testing import TaskConformance

SMALL = Path(__file__).parent.parent / "data" / "hotpot_small.json"
PERSON = r"^\[(.+)\] \1 works as a (\w+) and lives in the town of (.+)\.$"
TOWN = r"^\[(.+)\] \1 lies on the river (\w+), and its market day is (\w+)\.$"


def text_of(row: list[int]) -> str:
    return bytes(token for token in row if token != 256).decode()


class TestDistractorQA(TaskConformance):
    compiles = False
    samples = 48
    typical = (
        DistractorQA(n=8),
        DistractorQA(n=5, order="gold-last", shots=1),
        DistractorQA(n=2, form="direct", shots=2),
        DistractorQA(n=7, people=4, towns=3, form="direct", order="gold-last", shots=0),
        DistractorQA(n=4, file=SMALL),
        DistractorQA(n=3, file=SMALL, pool=5, order="gold-last", form="direct", shots=0),
        DistractorQA(n=2, file=SMALL, shots=0),
    )
    small = (
        DistractorQA(n=2, people=2, towns=2, facts=2, shots=0),
        DistractorQA(n=3, people=2, towns=1, facts=2, shots=0),
        DistractorQA(n=4, people=2, towns=2, facts=1, shots=1, form="direct"),
        DistractorQA(n=4, people=2, towns=2, facts=1, shots=0, order="gold-last"),
        DistractorQA(n=3, people=3, towns=1, facts=2, shots=0, order="gold-last", form="direct"),
        DistractorQA(n=4, file=SMALL, shots=0),
        DistractorQA(n=5, file=SMALL, order="gold-last", form="direct", shots=0),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, DistractorQA)
        cue = "Reasoning:" if task.form == "cot" else "Answer:"
        prompt = re.match(rf"(?s).*\n{cue}", text_of(row))
        assert prompt is not None
        own = prompt[0].rpartition("\n\n")[2]
        told, answer = self.from_file(own) if task.file else self.from_text(own)
        after = f" {told}\nAnswer: {answer}\n" if task.form == "cot" else f" {answer}\n"
        last = len(prompt[0].encode()) - 1
        return {last + place: byte for place, byte in enumerate(after.encode())}

    @staticmethod
    def from_text(text: str) -> tuple[str, str]:
        homes = {name: home for name, _, home in re.findall(PERSON, text, re.MULTILINE)}
        towns = {name: (river, day) for name, river, day in re.findall(TOWN, text, re.MULTILINE)}
        asked = re.search(r"^Question: (On which day|Which river) .* where (.+) lives\?$", text, re.MULTILINE)
        assert asked is not None
        home = homes[asked[2]]
        river, day = towns[home]
        if asked[1] == "Which river":
            return f"{asked[2]} lives in {home}. {home} lies on the river {river}.", river
        return f"{asked[2]} lives in {home}. {home}'s market day is {day}.", day

    @staticmethod
    def from_file(text: str) -> tuple[str, str]:
        asked = re.search(r"^Question: (.*)$", text, re.MULTILINE)
        assert asked is not None
        for record in json.loads(SMALL.read_text()):
            if re.sub(r"\s+", " ", record["question"]) == asked[1]:
                sentences = dict(record["context"])
                told: list[str] = []
                for title, place in record["supporting_facts"]:
                    for sentence in sentences[title][place : place + 1]:
                        if sentence.strip() not in told:
                            told.append(sentence.strip())
                return " ".join(told), record["answer"]
        raise AssertionError(asked[1])

    def balance(self, task: Task) -> dict[int, float]:
        return {ord("\n"): 1.0}


def bodies(quiz: DistractorQA, count: int) -> list[str]:
    return [quiz.render(row).removeprefix(quiz.preamble) for row in quiz.sample(count, seed=5).inputs]


def assert_uniform(seen: Counter[Any], kinds: int) -> None:
    count = sum(seen.values())
    assert len(seen) == kinds
    for value, times in seen.items():
        assert abs(times / count - 1 / kinds) < 5 * (1 / kinds / count) ** 0.5, value


@pytest.mark.slow
@pytest.mark.parametrize("order", ["random", "gold-last"])
def test_every_input_is_equally_likely(order: Any) -> None:
    quiz = DistractorQA(n=3, people=2, towns=1, facts=1, shots=0, order=order)
    assert_uniform(Counter(bodies(quiz, 4000)), quiz.domain_size())
    quiz = DistractorQA(n=4, people=2, towns=2, facts=1, shots=0, order=order)
    assert_uniform(Counter(bodies(quiz, 12_000)), quiz.domain_size())


@pytest.mark.slow
@pytest.mark.parametrize("order", ["random", "gold-last"])
def test_every_question_paragraph_and_order_of_a_file_is_equally_likely(order: Any) -> None:
    quiz = DistractorQA(n=4, file=SMALL, order=order, shots=0, form="direct")
    seen = Counter(bodies(quiz, 4000))
    assert set(seen) <= {quiz.render(row) for rows in quiz.enumerate() for row in rows}
    assert_uniform(Counter(body.split("\n")[4] for body in seen.elements()), 4)
    # The first question has five paragraphs, so three pairs of others, in any order of all or of the pair.
    harbour = Counter(body for body in seen.elements() if "Gull Point Light stands?" in body)
    assert_uniform(harbour, 3 * (24 if order == "random" else 2 * 2))


def test_paragraphs_are_as_the_class_says() -> None:
    for body in bodies(DistractorQA(n=9), 50):
        people = re.findall(PERSON, body, re.MULTILINE)
        towns = re.findall(TOWN, body, re.MULTILINE)
        assert len({name for name, _, _ in people}) == 5
        assert len({name for name, _, _ in towns}) == 4
        assert {home for _, _, home in people} <= {name for name, _, _ in towns}
        assert {job for _, job, _ in people} <= set(JOBS)
        assert {river for _, river, _ in towns} <= set(RIVERS)
        assert {day for _, _, day in towns} <= set(DAYS)


def test_the_gold_pair_stands_anywhere_or_last() -> None:
    for order, places in (("random", {0, 1, 2, 3, 4, 5}), ("gold-last", {4, 5})):
        first, second = Counter[int](), Counter[int]()
        quiz = DistractorQA(n=6, order=order, shots=0)  # type: ignore[arg-type]
        for body in bodies(quiz, 1200):
            titles = [line[1 : line.index("]")] for line in body.split("\n")[:6]]
            asked = re.search(r"where (.+) lives\?", body)
            home = re.search(r"Reasoning: .* lives in (\w+)\.", body)
            assert asked is not None
            assert home is not None
            first[titles.index(asked[1])] += 1
            second[titles.index(home[1])] += 1
        assert_uniform(first, len(places))
        assert_uniform(second, len(places))
        assert set(first) == set(second) == places


def question(body: str) -> str:
    return body[body.index("Question:") :]


def test_an_example_asks_the_same_whatever_surrounds_it() -> None:
    for quiz in (
        DistractorQA(n=12),
        DistractorQA(n=6, people=3, towns=3, facts=2),
        DistractorQA(n=5, file=SMALL),
        DistractorQA(n=3, file=SMALL, pool=4, form="direct"),
    ):
        alone = quiz.gold_only()
        last = DistractorQA(n=quiz.n, order="gold-last", **_other_options(quiz))
        for whole, gold, behind in zip(bodies(quiz, 40), bodies(alone, 40), bodies(last, 40), strict=True):
            assert question(whole) == question(gold) == question(behind)
            assert set(gold.split("\n")) <= set(whole.split("\n"))
            assert set(behind.split("\n")[quiz.n - 2 : quiz.n]) == set(gold.split("\n")[:2])


def _other_options(quiz: DistractorQA) -> dict[str, Any]:
    return {key: getattr(quiz, key) for key in ("form", "people", "towns", "facts", "file", "pool")}


def test_worked_examples() -> None:
    shown = DistractorQA(n=2).preamble
    assert shown.count("\n\n") == shown.count("Reasoning:") == 4
    assert "Reasoning" not in DistractorQA(n=2, form="direct").preamble
    assert DistractorQA(n=2, shots=0).preamble == ""
    for block in shown.strip().split("\n\n"):
        told, answer = TestDistractorQA.from_text(block)
        assert block.endswith(f"Reasoning: {told}\nAnswer: {answer}")
    stock = {person(number) for number in range(4096)} | {town(number) for number in range(1024)}
    assert not stock & set(re.findall(r"\[(.*?)\]", shown)), "worked examples are about nobody in the stock"


def test_the_split_is_between_paragraphs_and_question() -> None:
    for quiz in (
        DistractorQA(n=3, people=4, towns=2, facts=3, shots=1),
        DistractorQA(n=4, file=SMALL, order="gold-last"),
    ):
        split = quiz.partitions()["prefix/suffix"]
        row = quiz.decode(torch.tensor([0]))[0]
        held, asked, written = (
            text_of(row[list(places)].tolist()) for places in (split.alice, split.bob, split.written)
        )
        assert held.startswith(quiz.preamble)
        assert held.endswith(".\n")
        assert held.removeprefix(quiz.preamble).count("\n") == quiz.n
        assert re.fullmatch(rf"Question: [^\n]*\?\n{quiz.cue}", asked)
        assert written == quiz.continuation(held + asked)


def test_the_longest_text_fits_exactly() -> None:
    for quiz in (
        DistractorQA(n=2, people=3, towns=3, facts=3, shots=0),
        DistractorQA(n=4, file=SMALL, shots=0),
        DistractorQA(n=5, file=SMALL, shots=0, form="direct"),
    ):
        longest = max(int((rows != 256).sum(1).max()) for rows in quiz.enumerate())
        room = 0 if quiz.file else 12
        assert quiz.length - room <= longest <= quiz.length


def test_domains_are_counted() -> None:
    assert DistractorQA(n=4, file=SMALL).domain_size() == 24 * (3 + 6 + 3 + 1)
    assert DistractorQA(n=5, file=SMALL, order="gold-last").domain_size() == 12 * (1 + 4 + 1)
    large = DistractorQA(n=2048)
    assert large.domain_size() > 10**9000
    with pytest.raises(TooLarge, match="Inputs with 2048 paragraphs are too many to be numbered"):
        large.decode(torch.tensor([0]))
    sampled = large.sample(1, seed=1)
    large.check(sampled.inputs[0])


def test_a_changed_file_makes_a_new_task_and_leaves_the_old(tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    records = json.loads(SMALL.read_text())
    path.write_text(json.dumps(records[:1]))
    before = DistractorQA(n=3, file=path, shots=0)
    path.write_text(json.dumps(records[1:]))
    after = DistractorQA(n=3, file=str(path), shots=0)  # type: ignore[arg-type]
    assert after == before
    assert {question(body) for body in bodies(before, 20)} != {question(body) for body in bodies(after, 20)}
    assert (before.domain_size(), after.domain_size()) == (3 * 6, (4 + 3 + 2) * 6)
    path.unlink()
    before.check(before.sample(1, seed=0).inputs[0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 1}, "distractor-qa needs n ≥ 2, the two gold paragraphs; got n=1. Try 8."),
        (
            {"n": 9, "people": 4},
            (
                "distractor-qa needs n ≤ 8 with people=4 and towns=1024, half of the paragraphs for each; "
                "got n=9. Try 8."
            ),
        ),
        (
            {"n": 1 << 60},
            (
                "distractor-qa needs n ≤ 2049 with people=4096 and towns=1024, half of the paragraphs for "
                "each; got n=1152921504606846976. Try 2049."
            ),
        ),
        ({"n": 4, "people": 0}, "distractor-qa needs people from 1 to 4096; got people=0. Try 4096."),
        ({"n": 4, "facts": 8}, "distractor-qa needs facts from 1 to 7; got facts=8. Try 7."),
        ({"n": 4, "shots": 5}, "distractor-qa has 4 worked examples; got shots=5. Try 4."),
        ({"n": 4, "pool": 5}, "distractor-qa needs a file for pool; got pool=5 and no file."),
        ({"n": 4, "file": 5}, "distractor-qa needs a path for file; got 5."),
        (
            {"n": 4, "file": SMALL, "pool": 3},
            "distractor-qa needs pool ≥ n, or 0 for n; got n=4 and pool=3.",
        ),
        (
            {"n": 4, "file": SMALL, "people": 9},
            "distractor-qa takes people, towns and facts from the file; leave these three options out.",
        ),
        (
            {"n": 7, "file": SMALL},
            f"No question of {SMALL} has 7 paragraphs; the most is 6. Try 6.",
        ),
        ({"n": 4, "order": "sorted"}, "distractor-qa knows order as random or gold-last; got 'sorted'."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("distractor-qa", **parameters)
    assert str(caught.value) == message


def test_bad_choices_without_the_registry() -> None:
    with pytest.raises(InvalidInput, match="knows form as cot or direct; got 'long'"):
        DistractorQA(n=4, form="long")  # type: ignore[arg-type]


ADA = "[Ada Abara] Ada Abara works as a baker and lives in the town of Alderbank.\n"
BANK = "[Alderbank] Alderbank lies on the river Tarn, and its market day is Monday.\n"
ASK = "Question: Which river flows past the town where Ada Abara lives?\nAnswer:"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ADA + BANK, "A text of distractor-qa needs a line that begins with 'Answer:'; got none."),
        (ADA + BANK + ASK + " Wend", "After 'Answer:' this text must go on with ' Tarn'; got ' Wend'."),
        (
            ADA + ASK,
            (
                "This text needs 2 paragraphs of one line each and a question; got "
                "'[Ada Abara] Ada Abara works as a baker and lives in the t…'."
            ),
        ),
        ("\nAnswer:", "This text needs 2 paragraphs of one line each and a question; got '\\nAnswer:'."),
        ("Answer:", "A text of distractor-qa needs a line that begins with 'Answer:'; got none."),
        (
            ADA + ADA + ASK,
            (
                "A paragraph must be about a person or a town of the stock, each once, with known facts; got "
                "'[Ada Abara] Ada Abara works as a baker and lives in the t…'."
            ),
        ),
        (
            ADA + BANK.replace("Tarn", "Rhine") + ASK,
            (
                "A paragraph must be about a person or a town of the stock, each once, with known facts; got "
                "'[Alderbank] Alderbank lies on the river Rhine, and its ma…'."
            ),
        ),
        (
            BANK + BANK.replace("Alderbank", town(1)) + ASK,
            "1 of the paragraphs must be about people; got 0.",
        ),
        (
            ADA.replace("of Alderbank", f"of {town(1)}") + BANK + ASK,
            f"Everybody must live in a town that has a paragraph; got '{town(1)}'.",
        ),
        (
            ADA + BANK + ASK.replace("Ada Abara", "Alderbank"),
            (
                "The question must be 'On which day is the market of the town where … lives?' or 'Which "
                "river flows past the town where … lives?' about one of the people; got "
                "'Question: Which river flows past the town where Alderbank…'."
            ),
        ),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        DistractorQA(n=2, shots=0, form="direct").parse(text)
    assert str(caught.value) == message


def test_bad_text_with_worked_examples_or_gold_last() -> None:
    with pytest.raises(InvalidInput, match="must begin with the 4 worked examples; got"):
        DistractorQA(n=2, form="direct").parse(ADA + BANK + ASK)
    joe = ADA.replace("Ada Abara", person(1))
    late = DistractorQA(n=3, shots=0, form="direct", order="gold-last")
    assert late.render(late.parse(joe + BANK + ADA + ASK)).endswith("Answer: Tarn")
    with pytest.raises(InvalidInput) as caught:
        late.parse(ADA + BANK + joe + ASK)
    assert str(caught.value) == (
        "With order gold-last the paragraphs about Ada Abara and Alderbank must come last."
    )


def test_bad_text_about_a_file() -> None:
    quiz = DistractorQA(n=2, file=SMALL, shots=0, form="direct", order="gold-last")
    row = quiz.decode(torch.tensor([0]))[0]
    first, second, asked, answer = quiz.render(row).split("\n")
    larger = DistractorQA(n=3, file=SMALL, shots=0, form="direct", order="gold-last")
    other = "[Marrow Ferry] The Marrow Ferry is a boat line. It sails twice a week in winter."
    assert larger.parse("\n".join([other, first, second, asked, answer])).shape == (larger.length,)
    for lines, message in (
        ([first, second, "Question: Why?", answer], "The file has no such question: 'Question: Why?'."),
        (["[X] y", second, asked, answer], "The file has no such paragraph with this question: '[X] y'."),
        (
            [second, second, asked, answer],
            "The paragraphs must be different ones, and the two that the question needs among them.",
        ),
        (
            [first, other, second, asked, answer],
            "With order gold-last the two paragraphs that the question needs must come last.",
        ),
        ([first, second, asked, "Answer: no"], "After 'Answer:' this text must go on with"),
    ):
        with pytest.raises(InvalidInput) as caught:
            (quiz if len(lines) == 4 else larger).parse("\n".join(lines))
        assert str(caught.value).startswith(message)


WORDS = st.sampled_from(
    [ADA, BANK, ASK, " Tarn", "\n", "[Ada Abara]", "Question: ", "Answer:", "\ud800", "é"]
)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=8).map("".join)))
def test_any_text_is_a_row_or_an_error(text: str) -> None:
    for quiz in (QUIZ, FILE_QUIZ):
        try:
            row = quiz.parse(text)
        except InvalidInput:
            continue
        assert quiz.parse(quiz.render(row)).equal(row)


QUIZ = DistractorQA(n=2, shots=0, form="direct", people=2, towns=2)
FILE_QUIZ = DistractorQA(n=2, shots=0, file=SMALL)


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(-1, 9) | st.integers(),
    people=st.integers(-1, 6) | st.integers(),
    towns=st.integers(-1, 6) | st.integers(),
    facts=st.integers(-1, 9),
    shots=st.integers(-1, 5),
    pool=st.sampled_from([0, 0, 3, 5, 99]),
    order=st.sampled_from(["random", "gold-last"]),
    form=st.sampled_from(["cot", "direct"]),
    file=st.sampled_from([None, None, None, SMALL, str(SMALL), "none.json", Path("/")]),
)
def test_any_options_make_a_task_or_an_error(file: Any, **parameters: Any) -> None:
    if file is not None:
        for key in ("people", "towns", "facts"):
            del parameters[key]
    try:
        quiz = task("distractor-qa", file=file, **parameters)
    except (InvalidInput, InvalidFile):
        return
    batch = quiz.sample(2, seed=1)
    assert batch.inputs.shape == (2, quiz.length)
    for row in batch.inputs:
        quiz.check(row)
    assert quiz.domain_size() >= 1
