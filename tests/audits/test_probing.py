"""Probes of readers whose scores are known beforehand, of tiny models from disk, and what the wall is."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from separatrix.audits import audit
from separatrix.audits.probe_plots import plot_probe
from separatrix.audits.probe_prompts import PROBES, asked_of
from separatrix.audits.probing import Probe, ProbeScore, ProbeWall, memory_of, probe, probed
from separatrix.errors import InvalidFile, InvalidInput, UnknownName
from separatrix.experiments.reading.tiny_causal_lm import save_tiny_llama
from separatrix.interop.answer_log import answer_log
from separatrix.interop.asking import Interview, Progress
from separatrix.interop.completer import Completer
from separatrix.store.intervals import wilson
from separatrix.tasks import task
from tests.audits.tiny_models import save_looking_up, save_tiny_mamba
from tests.experiments.reading.readers import Script, contestant, reads_most, silent

CONFIGS = Path(__file__).parent / "configs"
SIZES = (2, 5, 16)


def folder_of(place: Path, config: str = "llama-3-8b") -> Path:
    """A folder that looks like a model's, with nothing in its files but the config."""
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(CONFIGS / f"{config}.json", place / "config.json")
    for name in ("model.safetensors", "tokenizer.json"):
        (place / name).touch()
    return place


def ask(
    place: Path,
    model: Completer,
    name: str = "associative-recall",
    *,
    n: Sequence[int] = SIZES,
    count: int = 20,
    shots: int | None = None,
    config: str = "llama-3-8b",
    told: list[Progress] | None = None,
) -> Probe:
    """A probe of a scripted reader."""
    asked = asked_of(name)
    prompts = [one for size in n for one in asked.prompts(size, count=count, seed=0, shots=shots)]
    source = folder_of(place / "model", config)
    with answer_log(place / "log") as log:
        interview = Interview(
            task=name,
            most_tokens=asked.most_tokens,
            stop=asked.stop,
            log=log,
            at_once=8,
            progress=None if told is None else told.append,
        )
        return probed(
            contestant("reader", model),
            asked,
            prompts,
            interview=interview,
            source=str(source),
            shots=shots,
            seed=0,
        )


def looks_up(prompt: str) -> str:
    """Reads the whole of the last question, by a regular expression."""
    text = prompt.rpartition("\n\n")[2]
    if text.startswith("List: "):
        words = text.partition("\n")[0].removeprefix("List: ").split(", ")
        place = re.search(r"number (\d+) in", text)
        assert place
        return f" {words[int(place[1]) - 1].upper()}.\nList: and so on"
    if text.startswith("The "):
        thing = re.search(r"Answer: (The .*) is in room$", text)
        assert thing
        room = re.search(rf"^{thing[1]} is in room (\d+)\.$", text, re.M)
        return f" {room[1]}.\nThe next" if room else " nowhere\n"
    return reads_most(prompt)


def forgets(prompt: str) -> str:
    """Remembers the last thing only."""
    before, _, question = prompt.rpartition("\nQuestion")
    return looks_up(f"{before.splitlines()[-1]}\nQuestion{question}")


def test_answers_are_kept_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("mine")
    with pytest.raises(InvalidFile, match=r"e\.txt' is a file; name a folder, which is made if need be\."):
        answer_log(tmp_path / "e.txt").__enter__()
    assert (tmp_path / "e.txt").read_text() == "mine"


@pytest.mark.parametrize("name", PROBES)
def test_who_reads_everything_answers_everything(name: str, tmp_path: Path) -> None:
    told: list[Progress] = []
    found = ask(tmp_path, Script(looks_up), name, told=told)
    assert [(score.n, score.asked, score.right) for score in found.scores] == [(n, 20, 20) for n in SIZES]
    assert all(score.contained == 20 and score.unanswered == 0 for score in found.scores)
    assert all(score.interval == wilson(20, 20) for score in found.scores)
    assert (found.task, found.shots, found.notes) == (name, asked_of(name).usual_shots, ())
    assert (told[-1].done, told[-1].of) == (60, 60)


def test_who_forgets_falls_like_one_in_n(tmp_path: Path) -> None:
    found = ask(tmp_path, Script(forgets), n=(1, 2, 16), count=200)
    one, two, sixteen = (score.accuracy for score in found.scores)
    assert one == 1.0
    assert 0.38 < two < 0.62
    assert 0.01 < sixteen < 0.14


@pytest.mark.parametrize(
    ("write", "right", "contained", "unanswered"),
    [
        (lambda prompt: f" Room{looks_up(prompt)}", 0, 20, 0),
        (lambda prompt: f" 1{looks_up(prompt).strip()}", 0, 0, 0),
        (silent, 0, 0, 20),
        (lambda _: " \n", 0, 0, 20),
    ],
)
def test_exact_contained_and_not_there(
    write: Callable[[str], str], right: int, contained: int, unanswered: int, tmp_path: Path
) -> None:
    (score,) = ask(tmp_path, Script(write), n=(4,)).scores
    assert (score.right, score.contained, score.unanswered) == (right, contained, unanswered)
    assert score.interval.low == 0.0 < score.interval.high < 0.2


@pytest.mark.parametrize("name", PROBES)
def test_questions_are_the_same_whatever_else_is_asked(name: str) -> None:
    asked = asked_of(name)
    few, many = (asked.prompts(4, count=count, seed=3, shots=None) for count in (3, 70))
    assert many[:3] == few
    assert len({prompt.text for prompt in many}) == 70
    longer, other = (
        asked.prompts(9, count=3, seed=3, shots=None),
        asked.prompts(4, count=3, seed=4, shots=None),
    )
    assert other[0].text != few[0].text
    # The worked examples stand first, the same at every n.
    before = {prompt.text.rpartition("\n\n")[0] for prompt in (*many, *longer)}
    assert len(before) == 1
    assert before.pop().count("Question: ") == asked.usual_shots
    assert asked.prompts(4, count=1, seed=3, shots=0)[0].text.count("Question: ") == 1
    assert not any(f"\n\n{prompt.text.rpartition(chr(10) * 2)[2]}" in prompt.text[:-1] for prompt in few)


def test_texts_are_the_tasks_own() -> None:
    for prompt in asked_of("phone-book").prompts(6, count=5, seed=2, shots=0):
        book = task("phone-book", n=6)
        assert book.render(book.parse(prompt.text)).endswith(f"Answer: {prompt.answer}")
    for prompt in asked_of("distractor-qa").prompts(6, count=5, seed=2, shots=2):
        quiz = task("distractor-qa", n=6, shots=2)
        assert quiz.render(quiz.parse(prompt.text)).endswith(f"\nAnswer: {prompt.answer}")
    lookup = task("index-lookup", n=6, lengths="full").sample(5, seed=2)
    for place, prompt in enumerate(asked_of("index-lookup").prompts(6, count=5, seed=2, shots=1)):
        listed = prompt.text.rpartition("List: ")[2].partition("\n")[0].split(", ")
        assert len(listed) == 6
        assert f"number {int(lookup.inputs[place, -1]) - 63} in the list" in prompt.text
    things = {
        line
        for prompt in asked_of("associative-recall").prompts(64, count=5, seed=2, shots=0)
        for line in re.findall(r"^The (.*) is in room", prompt.text, re.M)
    }
    assert len(things) > 200


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("phone-book", lambda n: 10 ** (7 * n)),
        ("associative-recall", lambda n: 900**n),
        ("index-lookup", lambda n: 64**n),
        ("distractor-qa", lambda n: 49 ** (n // 2)),
    ],
)
def test_the_wall_is_where_the_lists_outnumber_the_states(
    name: str, lists: Callable[[int], int], tmp_path: Path
) -> None:
    for bits in (0, 1, 6, 23, 24, 47, 512, 4097):
        largest = asked_of(name).largest_n(bits)
        assert lists(largest) <= 2**bits < lists(largest + 1)
    memory = memory_of(folder_of(tmp_path, "mamba-130m"), asked_of(name))
    bits = audit(tmp_path).bounded_bits
    assert memory.wall is not None
    assert (memory.grows, memory.wall.state_bits) == (False, bits)
    assert memory.wall.largest_n == asked_of(name).largest_n(bits)
    assert f"beyond n = {memory.wall.largest_n:,} it is wrong on some list" in memory.in_words
    assert memory.wall.theorem in memory.in_words


def test_where_there_is_no_wall(tmp_path: Path) -> None:
    asked = asked_of("index-lookup")
    memory = memory_of(folder_of(tmp_path / "a", "llama-3-8b"), asked)
    assert (memory.grows, memory.wall) == (True, None)
    assert memory.in_words == "It keeps something for every token that it reads, so its memory sets no wall."
    hybrid = memory_of(folder_of(tmp_path / "b", "jamba-v0.1"), asked)
    assert (hybrid.grows, hybrid.wall) == (True, None)
    assert re.search(
        r"sets no wall\. The part of it that stops growing would .* n = [\d,]+\.$", hybrid.in_words
    )
    strange = folder_of(tmp_path / "c")
    (strange / "config.json").write_text(json.dumps({"model_type": "never-heard-of"}))
    unknown = memory_of(strange, asked)
    assert (unknown.grows, unknown.wall) == (None, None)
    assert unknown.in_words.startswith("Its memory could not be counted: ")


def test_an_interrupted_probe_goes_on(tmp_path: Path) -> None:
    class Interrupted(Script):
        def complete(self, prompts: Sequence[str], *, most_tokens: int, stop: str) -> list[str]:
            if len(self.asked) >= 24:
                raise KeyboardInterrupt
            return super().complete(prompts, most_tokens=most_tokens, stop=stop)

    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path, Interrupted(looks_up))
    rest = Script(looks_up)
    found = ask(tmp_path, rest)
    assert len(rest.asked) == 60 - 24
    assert [score.right for score in found.scores] == [20, 20, 20]
    again = Script(silent)
    assert ask(tmp_path, again) == found
    assert again.asked == []
    more = Script(looks_up)
    assert [score.asked for score in ask(tmp_path, more, n=(2, 7), count=25).scores] == [25, 25]
    assert len(more.asked) == 5 + 25


class Short(Script):
    """Has room for so many characters."""

    most = 600

    def refusal(self, prompts: Sequence[str], *, most_tokens: int) -> str | None:
        assert most_tokens == 12
        return "It reads 600 letters." if max(map(len, prompts)) > self.most else None


def test_lengths_without_room_are_left_out(tmp_path: Path) -> None:
    reader = Short(looks_up)
    found = ask(tmp_path, reader, n=(2, 4, 64, 128), shots=0)
    assert [score.n for score in found.scores] == [2, 4]
    assert found.notes == ("Left out n = 64, 128: It reads 600 letters.",)
    assert max(map(len, reader.asked)) <= 600
    with pytest.raises(InvalidInput, match=r"^associative-recall with n = 64 is too long: It reads 600"):
        ask(tmp_path, reader, n=(64, 128))


def test_probes_are_written_and_read(tmp_path: Path) -> None:
    for config in ("llama-3-8b", "mamba-130m"):
        found = ask(tmp_path / config, Script(forgets), config=config)
        written = json.loads(json.dumps(found.to_json()))
        assert Probe.from_json(written) == found
        assert written["scores"][0]["interval"] == list(found.scores[0].interval)
        for broken in (written | {"grows": 1}, written | {"scores": []}, written | {"more": 1}):
            with pytest.raises(InvalidFile):
                Probe.from_json(broken)
        worse = written["scores"][0] | {"right": 21}
        with pytest.raises(InvalidFile, match="right ≤ contained ≤ asked"):
            Probe.from_json(written | {"scores": [worse]})


def a_probe(*, wall: int | None, grows: bool | None = False, source: str = "models/tiny") -> Probe:
    scores = tuple(
        ProbeScore(n=n, asked=50, right=right, contained=right + 2, unanswered=0)
        for n, right in ((4, 48), (16, 30), (64, 3))
    )
    found = ProbeWall(largest_n=wall, state_bits=99, needs="n·log₂900", theorem="S-P9") if wall else None
    return Probe(
        source=source,
        model_type="mamba",
        config_sha256="0" * 64,
        task="associative-recall",
        counts="things",
        shots=2,
        seed=0,
        scores=scores,
        grows=grows,
        wall=found,
        about_wall="Words about <it>.",
        notes=("A <note>.",),
    )


def test_a_table_for_notebooks() -> None:
    html = a_probe(wall=20, source="models/<b>")._repr_html_()
    assert "<caption>&lt;b&gt; (mamba) on associative-recall</caption>" in html
    assert "<td>48</td><td>86.5 – 98.9 %</td><td>50</td>" in html
    assert "Words about &lt;it&gt;." in html
    assert "A &lt;note&gt;." in html


@pytest.mark.slow
def test_a_figure_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        plot_probe(a_probe(wall=20), tmp_path / f"{name}.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.slow
def test_figures_differ_by_their_walls(tmp_path: Path) -> None:
    drawn = {}
    cases = {"in": a_probe(wall=20), "far": a_probe(wall=10**9), "none": a_probe(wall=None, grows=True)}
    for name, found in cases.items():
        for kind in ("svg", "png"):
            for time in range(2):
                plot_probe(found, tmp_path / f"{name}{time}.{kind}")
            drawn[name, kind] = (tmp_path / f"{name}0.{kind}").read_bytes()
            assert drawn[name, kind] == (tmp_path / f"{name}1.{kind}").read_bytes()
    assert len(set(drawn.values())) == len(drawn)


@pytest.mark.slow
def test_figures_of_odd_probes(tmp_path: Path) -> None:
    plot_probe(a_probe(wall=1, source="_$\\frac{$\x1b\u4e00"), tmp_path / "one.svg")
    plot_probe(a_probe(wall=None, grows=None), tmp_path / "two.svg")
    with pytest.raises(InvalidInput, match=r"ends in \.svg or \.png"):
        plot_probe(a_probe(wall=1), tmp_path / "three.pdf")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"task": "phone-bok"}, "There is no probe 'phone-bok'. Did you mean phone-book?"),
        ({"task": "phone-book", "n": [0]}, "phone-book needs 1 ≤ n ≤ 4096"),
        ({"task": "distractor-qa", "n": [1, 4]}, "distractor-qa needs n ≥ 2"),
        ({"task": "associative-recall", "n": [4097]}, "at most 4,096 things; got n=4097"),
        ({"task": "index-lookup", "n": []}, "1 to 64 sizes n; got 0"),
        ({"task": "index-lookup", "n": [4.5]}, "n is a whole number; got 4.5"),
        ({"task": "index-lookup", "count": 0}, "1 to 100,000 questions; got count=0"),
        ({"task": "index-lookup", "shots": 9}, "after 0 to 8 worked examples; got shots=9"),
        ({"task": "distractor-qa", "shots": 5}, "after 0 to 4 worked examples; got shots=5"),
        ({"task": "index-lookup", "seed": -1}, "A seed is a whole number"),
        ({"task": "index-lookup", "n": [4]}, "there is no folder"),
    ],
)
def test_what_is_refused(asked: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidInput, UnknownName), match=re.escape(words)):
        probe(tmp_path / "nowhere", out=tmp_path / "out", **asked)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models from hand-made and random weights that know the words of the questions."""
    place = tmp_path_factory.mktemp("models")
    prompts = [
        prompt
        for n in (2, 4, 8)
        for prompt in asked_of("associative-recall").prompts(n, count=6, seed=0, shots=0)
    ]
    texts = [f"{prompt.text} {prompt.answer}\n" for prompt in prompts]
    save_looking_up(place / "looking-up", texts)
    save_tiny_llama(place / "llama", texts, context=70)
    save_tiny_mamba(place / "mamba", texts)
    return place


@pytest.mark.extra
@pytest.mark.slow
def test_a_model_that_looks_up_is_right_everywhere(models: Path, tmp_path: Path) -> None:
    asked = {"task": "associative-recall", "n": (2, 4, 8), "count": 6, "shots": 0, "device": "cpu"}
    found = probe(models / "looking-up", out=tmp_path, **asked)  # type: ignore[arg-type]
    assert [(score.n, score.right) for score in found.scores] == [(2, 6), (4, 6), (8, 6)]
    assert (found.model_type, found.grows, found.wall) == ("llama", True, None)
    assert Probe.from_json(json.loads((tmp_path / "associative-recall.json").read_text())) == found
    figure = (tmp_path / "associative-recall.svg").read_bytes()
    assert (tmp_path / "associative-recall.png").exists()
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 18
    # Again, from the answers on disk, and without any, from a folder that is thrown away.
    assert probe(models / "looking-up", out=tmp_path, **asked) == found  # type: ignore[arg-type]
    assert (tmp_path / "associative-recall.svg").read_bytes() == figure
    assert probe(models / "looking-up", **asked) == found  # type: ignore[arg-type]


@pytest.mark.extra
@pytest.mark.slow
def test_models_that_learned_nothing_find_nothing(models: Path) -> None:
    asked = {"task": "associative-recall", "n": (2, 4, 8), "count": 6, "shots": 0, "device": "cpu"}
    scan = probe(models / "mamba", **asked)  # type: ignore[arg-type]
    assert [score.right for score in scan.scores] == [0, 0, 0]
    assert scan.wall is not None
    assert 900**scan.wall.largest_n <= 2**scan.wall.state_bits < 900 ** (scan.wall.largest_n + 1)
    llama = probe(models / "llama", **asked)  # type: ignore[arg-type]
    assert [(score.n, score.right) for score in llama.scores] == [(2, 0), (4, 0)]
    assert re.match(
        r"Left out n = 8: '.*' reads at most 70 tokens; the longest prompt has \d+", llama.notes[0]
    )
