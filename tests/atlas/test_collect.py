"""What the page says comes from the registries: put something in, and the page says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from docs.generate import results_page

from separatrix.atlas import collect as collecting
from separatrix.atlas.collect import Claim, Content, Result, collect_content
from separatrix.atlas.drawings import draw_examples
from separatrix.atlas.render import render_page
from separatrix.errors import InvalidInput
from separatrix.registry import Registry
from separatrix.tasks import TASKS, Task
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.vocabulary import Vocabulary, words
from separatrix.theorems import THEOREMS
from tests.atlas.markup import read

HOSTILE = "<script>alert('1')</script>\" onload=x &amp; {{ 7 * 7 }}"


@dataclass(frozen=True, kw_only=True)
class Hostile(IndexLookup):
    __doc__ = f"{HOSTILE}.\n\nMore."

    name = "my <b>own</b> task"
    title = HOSTILE
    source = "S, Q"

    @property
    def vocabulary(self) -> Vocabulary:
        symbols = (f"<i>&{number}" for number in range(self.alphabet))
        indices = (f"'\"@{number}" for number in range(self.n))
        return Vocabulary(words("symbol", *symbols), words("index", *indices), padded=True)


@dataclass(frozen=True, kw_only=True)
class Demanding(IndexLookup):
    """A task whose parameters nobody could guess."""

    name = "demanding"
    title = "Demanding"

    secret: int

    def __post_init__(self) -> None:
        raise InvalidInput("demanding needs <more>.")


@pytest.fixture
def own_tasks(monkeypatch: pytest.MonkeyPatch) -> Registry[type[Task]]:
    """A registry that holds nothing yet, in the place of the real one."""
    registry: Registry[type[Task]] = Registry("task", package="separatrix.tasks", names=())
    monkeypatch.setattr(collecting, "TASKS", registry)
    return registry


def holder(folder: Path, monkeypatch: pytest.MonkeyPatch, *keys: str) -> str:
    """A module that holds the artefacts with these keys, as source text."""
    name = f"holder_{abs(hash(keys)):x}"
    source = (
        "from separatrix.theorems import Artefact\n\ndef artefacts():\n    return [" + ", ".join(keys) + "]\n"
    )
    (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    return name


@pytest.mark.slow
def test_without_holders_nothing_is_built() -> None:
    content = collect_content(seed=0, holders=())
    assert {claim.state for claim in _claims(content)} == {"not built yet"}
    assert [(tally.noun, tally.built) for tally in content.tallies] == [
        ("tasks", len(TASKS.names())),
        ("witnesses", 0),
        ("bounds", 0),
        ("protocols", 0),
    ]
    owed = [
        artefact
        for theorem in THEOREMS.values()
        if theorem.status != "open"
        for artefact in theorem.artefacts
    ]
    assert [tally.owed for tally in content.tallies[1:]] == [
        sum(artefact.kind == kind for artefact in owed) for kind in ("witness", "bound", "protocol")
    ]


@pytest.mark.slow
def test_an_entry_turns_not_built_yet_into_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_tasks: Registry[type[Task]]
) -> None:
    key = "Artefact(theorem='S-T1', kind='witness', task='index-lookup', family='transformer-1')"
    before = collect_content(seed=0, holders=())
    after = collect_content(
        seed=0, holders=(holder(tmp_path, monkeypatch, key), "separatrix.no_such_package")
    )
    assert [claim.state for claim in _result(before, "S-T1").claims] == ["not built yet"]
    assert [claim.state for claim in _result(after, "S-T1").claims] == ["built"]
    assert sum(claim.state == "built" for claim in _claims(after)) == 1
    assert after.tallies[1].built == 1
    shown = read(render_page(after, {}))
    [line] = [row for row in shown.find("tr") if row.attributes.get("id") == "result-S-T1"]
    assert "built" in [s.text for s in line.find("span") if s.attributes.get("class") == "state built"]
    assert "1 of" in " ".join(shown.find("ul")[0].all_text.split())


@pytest.mark.slow
def test_a_claim_about_several_tasks_is_built_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_tasks: Registry[type[Task]]
) -> None:
    owed = THEOREMS["W-5.6"].artefacts
    assert len(owed) > 2
    name = holder(tmp_path, monkeypatch, *(_source(artefact) for artefact in owed[:2]))
    content = collect_content(seed=0, holders=(name,))
    [claim] = _result(content, "W-5.6").claims
    assert claim.state == f"2 of {len(owed)} built"
    assert claim.missing == owed[2:]
    page = render_page(content, {})
    assert f'<span class="state partly">2 of {len(owed)} built</span>' in page
    assert f"missing: {owed[2].task} with hybrid" in page


def test_an_artefact_of_no_theorem_is_our_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "Artefact(theorem='S-T99', kind='bound', task=None, family=None)"
    with pytest.raises(AssertionError, match="S-T99"):
        collect_content(seed=0, holders=(holder(tmp_path, monkeypatch, key),))


def test_a_holder_that_cannot_be_imported_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_holder.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="broken"):
        collect_content(seed=0, holders=("broken_holder",))


def test_a_task_that_cannot_be_imported_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: Registry[type[Task]] = Registry("task", package="separatrix.tasks", names=("never-written",))
    monkeypatch.setattr(collecting, "TASKS", registry)
    with pytest.raises(ModuleNotFoundError, match="never_written"):
        collect_content(seed=0)


@pytest.mark.slow
def test_a_users_task_is_drawn_and_everything_it_says_is_escaped(own_tasks: Registry[type[Task]]) -> None:
    own_tasks.register(Hostile.name)(Hostile)
    content = collect_content(seed=0, holders=())
    page = render_page(content, draw_examples(content.tasks))
    document = read(page)
    [plate] = document.find("article")
    assert plate.find("h3")[0].text == HOSTILE
    assert plate.find("code")[0].text == Hostile.name
    [drawing] = plate.find("svg")
    card = content.tasks[0]
    assert card.example is not None
    assert card.example.text in plate.all_text
    assert card.example.answers[0] in [text.text for text in drawing.find("text")]
    assert len(document.find("script")) == 1
    assert not document.find("i")
    assert "<b>own" not in page


@pytest.mark.slow
def test_a_task_without_an_example_says_why(own_tasks: Registry[type[Task]]) -> None:
    own_tasks.register("demanding")(Demanding)
    content = collect_content(seed=0, holders=())
    assert content.tasks[0].example is None
    page = render_page(content, draw_examples(content.tasks))
    assert "No example is drawn: demanding needs a value for secret; none was given." in page


@pytest.mark.slow
def test_no_two_claims_of_a_result_read_alike() -> None:
    """Neither in the data nor on the page of results."""
    content = collect_content(seed=0, holders=())
    for result in _results(content):
        said = [(claim.owed.kind, claim.owed.formula, result.remarks(claim)) for claim in result.claims]
        assert len(set(said)) == len(said), result.theorem.id
    assert _result(content, "S-T11").remarks(_result(content, "S-T11").claims[1]) == ("via minimal DFA",)
    lines = {line.split(" | ")[0][2:]: line for line in results_page().splitlines() if line.startswith("| ")}
    assert set(THEOREMS) - set(lines) == {"S-AR1", "R-CONJ"}
    for name, line in lines.items():
        claims = line.rsplit(" | ", 1)[1].split("<br>")
        assert len(set(claims)) == len(claims), name
    assert "mp ≥ N/2 (communication; via EQ)" in lines["S-T11"]
    assert "(graph unit of order 5)" in lines["R-G"]
    assert "beyond the source’s statement" in lines["S-T3"]
    assert "beyond the source’s statement" not in lines["UP-RNN"]


@pytest.mark.parametrize("seed", [-1, 1 << 63])
def test_a_seed_out_of_range(seed: int) -> None:
    with pytest.raises(InvalidInput, match=f"got seed={seed}"):
        collect_content(seed=seed)


def _claims(content: Content) -> list[Claim]:
    return [claim for result in _results(content) for claim in result.claims]


def _results(content: Content) -> list[Result]:
    return [*(result for row in content.rows for result in row.results), *content.partners]


def _result(content: Content, name: str) -> Result:
    [found] = [result for row in content.rows for result in row.results if result.theorem.id == name]
    return found


def _source(artefact: object) -> str:
    return repr(artefact)
