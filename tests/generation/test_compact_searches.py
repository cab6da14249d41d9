"""Compact traces: spelled out as the task spells them, and searched as the full form is, right or wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.runs import Run, Search
from separatrix.generation.scripts.is_tree_searches import (
    CompactSpelling,
    CompactTraceScript,
    SearchTraceScript,
)
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.retrieval_trace import expand, spell_out
from separatrix.tasks.tree_search import tour
from tests.generation.writers import Writer

START, END = "<StartSearch>", "<EndSearch>"
GRAPH = "<s> 1 ~ 3 2 ~ 3 3 ~ 4"


def searching(n: int, trace: str, graphs: str = "hub") -> IsTree:
    return IsTree(n=n, form="retrieval", trace=trace, graphs=graphs)  # type: ignore[arg-type]


def script_for(task: IsTree) -> CompactTraceScript | SearchTraceScript:
    return CompactTraceScript(task) if task.trace == "compact" else SearchTraceScript(task)


def reciting(task: IsTree, texts: Sequence[Sequence[str]], prompts: Sequence[Sequence[int]]) -> Writer:
    """It writes these words behind these prompts, each where it stands; in a gap `_` it writes <s>."""
    known = {tuple(prompt): text for prompt, text in zip(prompts, texts, strict=True)}
    length, vocabulary = len(prompts[0]), task.vocabulary

    def following(history: Sequence[int]) -> int:
        text, place = known.get(tuple(history[:length]), ()), len(history) - length
        word = text[place] if 0 <= place < len(text) else "_"
        return vocabulary.token("<s>" if word == "_" else word)

    return Writer(following, vocabulary.size)


def recited(text: str, *, trace: str = "compact", limit: int | None = None, graph: str = GRAPH) -> Run:
    """One run behind a small graph."""
    task = searching(4, trace)
    given = [task.vocabulary.token(word) for word in graph.split()]
    model = reciting(task, [text.split()], [given])
    return generate(model, [given], script_for(task), limit=limit)[0]


def words(run: Run, trace: str = "compact") -> str:
    return " ".join(map(searching(4, trace).vocabulary.word, run.written))


def texts_of(task: IsTree, rows: Int[Tensor, "row pos"], *, gaps: bool) -> list[list[str]]:
    """The task's own words behind each graph, with `_` for those that a search returns."""
    labels, found = task.solve(rows), []
    for row, targets, mask in zip(rows, labels.targets, labels.mask, strict=True):
        verdict = int(mask.nonzero().max())
        tokens = [*row[task.prompt : verdict + 1].tolist(), int(targets[verdict])]
        kept = mask[task.prompt - 1 : verdict + 1].tolist()
        spelled = [task.vocabulary.word(token) for token in tokens]
        found.append([word if own or not gaps else "_" for word, own in zip(spelled, kept, strict=True)])
    return found


def played(task: IsTree, rows: Int[Tensor, "row pos"]) -> list[Run]:
    """The task's own traces by a model that knows all but what searches return."""
    script = script_for(task)
    prompts = [script.prompt(row) for row in rows]
    return generate(reciting(task, texts_of(task, rows, gaps=True), prompts), prompts, script, batch=256)


def asked(run: Run) -> list[tuple[str, int, str, str | None]]:
    """What was asked, in how long a text, and what came of it."""
    return [(each.pattern, each.text, each.outcome, each.result) for each in run.searches]


def is_searched_like_the_full_form(
    n: int, short: Int[Tensor, "row pos"], long: Int[Tensor, "row pos"]
) -> int:
    """Both forms of the same graphs: the same searches and results, the task's own texts; counted."""
    compact, full = searching(n, "compact"), searching(n, "full")
    wanted = texts_of(compact, short, gaps=False)
    searches = 0
    for text, mine, other in zip(wanted, played(compact, short), played(full, long), strict=True):
        assert (mine.outcome, mine.answer) == ("answered", other.answer)
        assert [compact.vocabulary.word(token) for token in mine.written] == text
        assert asked(mine) == asked(other)
        assert len(mine.returned) == len(mine.searches) == text.count(END)
        searches += len(mine.searches)
    return searches


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_every_small_graph_is_searched_like_the_full_form(n: int) -> None:
    compact, full = (next(iter(searching(n, trace).enumerate())) for trace in ("compact", "full"))
    assert is_searched_like_the_full_form(n, compact, full) >= 2 * len(compact)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "count", "graphs"), [(9, 24, "uniform"), (16, 6, "hub"), (32, 3, "hub")])
def test_random_graphs_are_searched_like_the_full_form(n: int, count: int, graphs: str) -> None:
    compact, full = (
        searching(n, trace, graphs).sample(count, seed=n).inputs for trace in ("compact", "full")
    )
    assert is_searched_like_the_full_form(n, compact, full) > 2 * n


def test_words_are_spelled_out_as_whole_traces_are() -> None:
    task = searching(6, "compact", "uniform")
    for row, trace in zip(
        rows := task.sample(40, seed=3).inputs, texts_of(task, rows, gaps=False), strict=True
    ):
        graph, full = task.render(row).split()[: task.prompt], expand(trace)
        assert spelled(graph + trace) == [*graph, *full]


def spelled(written: Sequence[str]) -> list[str]:
    """Word by word through the spelling, as a transcript puts them to it."""
    spelling, text = CompactSpelling(), b""
    query: list[bytes] | None = None
    for word in written:
        if word == START:
            query = []
        elif word == END:
            assert query is not None
            pieces = spelling.query(query)
            assert pieces is not None
            text += b"".join(each + b" " for each in (START.encode(), *pieces, END.encode()))
            query = None
        elif query is not None:
            query.append(word.encode())
        else:
            text += spelling.word(word.encode())
    return text.decode().split()


def test_a_search_in_short_finds_and_fails() -> None:
    parent = f"{START} 1 {END}"
    run = recited(f"0 1 1 {parent} _ {START} 0 1 {END} _ {START} 3 {END} _ NO")
    assert words(run) == f"0 1 1 {parent} 0 {START} 0 1 {END} 3 {START} 3 {END} FAILED NO"
    begun = f"{GRAPH} 0 - 1 1 "
    first, second, third = run.searches
    assert first == Search(place=5, pattern=r"(\d+)\s-\s1\s", text=len(begun), outcome="found", result="0")
    full = " ".join(spell_out(["1"]))
    assert second.text == len(f"{begun}{START} {full} {END} 0 ")
    assert (third.pattern, third.outcome, third.result) == (r"(\d+)\s-\s3\s", "failed", None)
    assert run.outcome == "answered"


def test_the_pair_behind_a_new_vertex_is_found_later() -> None:
    new = f"{START} 3 {END} _"
    for pair, found in (("1 3", "1"), ("3 1", "FAILED"), ("4 3", "4")):
        run = recited(f"0 1 {new} {pair} {new} NO")
        assert words(run) == f"0 1 {START} 3 {END} FAILED {pair} {START} 3 {END} {found} NO"
    # Behind a parent that was found, and behind an edge that was not, no pair is written.
    run = recited(f"0 1 {START} 1 {END} _ 4 3 {new} YES")
    assert words(run).endswith(f"4 3 {START} 3 {END} FAILED YES")
    run = recited(f"0 1 {START} 4 1 {END} _ 4 3 {new} YES")
    assert words(run).endswith(f"{START} 4 1 {END} FAILED 4 3 {START} 3 {END} FAILED YES")


@pytest.mark.parametrize(
    "query", ["", "~", "1 ~", "FAILED", "1 2 3", "<s>", "NO", "1 FAILED", "- 1", "1 2 3 4 1 2 3 4"]
)
def test_a_search_that_is_none_leaves_the_run_without_an_answer(query: str) -> None:
    text = " ".join(f"0 1 1 {START} {query} {END}".split())
    run = recited(f"{text} _ YES")
    assert (run.outcome, run.answer) == ("invalid", None)
    assert [each.outcome for each in run.searches] == ["invalid"]
    assert words(run) == text, "nothing is filled in"


def test_an_end_without_a_start_is_invalid() -> None:
    run = recited(f"0 1 1 {END} YES")
    assert (run.outcome, run.searches) == ("invalid", ())


def test_a_second_start_begins_anew_and_what_stood_there_stays_as_it_is() -> None:
    run = recited(f"0 1 1 {START} 4 {START} 1 {END} _ {START} 1 {END} _ YES")
    assert [each.result for each in run.searches] == ["0", "0"]
    begun = f"{GRAPH} 0 - 1 1 {START} 4 "
    assert run.searches[0].text == len(begun)
    assert run.searches[1].text == len(f"{begun}{START} {' '.join(spell_out(['1']))} {END} 0 ")


@pytest.mark.parametrize("trace", ["compact", "full"])
def test_a_search_that_is_cut_off_by_the_limit_is_never_run(trace: str) -> None:
    """With k words of a search allowed, result and all, both forms stop without it until the last fits."""
    query = ["1"] if trace == "compact" else spell_out(["1"])
    text = [*(["0", "1"] if trace == "compact" else ["0", "-", "1"]), "1", START, *query, END, "_", "YES"]
    for limit in range(len(text) + 1):
        run = recited(" ".join(text), trace=trace, limit=limit)
        ran = limit >= len(text) - 1
        assert (len(run.written), len(run.searches)) == (limit, int(ran))
        assert run.outcome == ("answered" if limit == len(text) else "limit")


def test_a_search_in_too_long_a_text_is_a_timeout() -> None:
    task = searching(4, "compact")
    given = [task.vocabulary.token(word) for word in GRAPH.split()]
    model = reciting(task, [f"0 1 1 {START} 1 {END} _ YES".split()], [given])
    (run,) = generate(model, [given], CompactTraceScript(task), search_limits=SearchLimits(text=3))
    assert (run.outcome, [each.outcome for each in run.searches]) == ("timeout", ["timeout"])


def test_a_trace_may_begin_in_the_prompt() -> None:
    begun = f"{GRAPH} 0 1 1 {START} 1 {END} 0 {START} 3"
    run = recited(f"{END} _ 1 3 {START} 3 {END} _ NO", graph=begun)
    assert words(run) == f"{END} FAILED 1 3 {START} 3 {END} 1 NO"
    full = f"{GRAPH} 0 - 1 1 {START} {' '.join(spell_out(['1']))} {END} 0 "
    assert run.searches[0].text == len(full)
    run = recited(f"{START} 3 {END} _ NO", graph=f"{GRAPH} 0 1 {START} 3 {END} FAILED 4 3")
    assert words(run) == f"{START} 3 {END} 4 NO", "a pair that the prompt ends with is found too"


def test_smaller_graphs_are_told_by_their_words() -> None:
    for graph in ("<s>", "<s> 1 ~ 2"):
        run = recited(f"0 1 1 {START} 1 {END} _ {START} 0 1 {END} _ NO", graph=graph)
        assert [each.result for each in run.searches] == ["0", "2" if "2" in graph else None]


# A search is never begun within a pair, where `expand` would take its marker for a word of the pair.
OUTSIDE = ["1", "2", "3", "4", "0", "FAILED", "-"]


def fickle(task: IsTree, seed: int) -> Writer:
    """It writes anything, searches above all, by a hash of everything before."""

    def following(history: Sequence[int]) -> int:
        draw, text = (
            random.Random(f"{seed} {list(history)}"),
            [task.vocabulary.word(each) for each in history],
        )
        trace = text[task.prompt :]
        if START in trace and END not in trace[len(trace) - trace[::-1].index(START) :]:
            query = trace[len(trace) - trace[::-1].index(START) :]
            done = len(query) == 2 or (query and draw.random() < 0.5)
            return task.vocabulary.token(
                END if done else draw.choice("01234" if draw.random() < 0.95 else "~")
            )
        if len(trace) >= 2 and draw.random() < 0.05:
            return task.vocabulary.token("NO")
        open_pair = len(trace) < 2 or "FAILED" in trace[-2:]
        return task.vocabulary.token(START if not open_pair and draw.random() < 0.6 else draw.choice(OUTSIDE))

    return Writer(following, task.vocabulary.size)


def naive(task: IsTree, model: Writer, given: list[int], limit: int) -> tuple[list[str], str]:
    """One row, the whole text expanded anew for every search, with Python's engine."""
    text = [task.vocabulary.word(token) for token in given]
    while len(text) - len(given) < limit:
        word = task.vocabulary.word(model.following([task.vocabulary.token(each) for each in text]))
        text.append(word)
        if word == "NO":
            return text[len(given) :], "answered"
        if word != END or len(text) - len(given) == limit:
            continue
        start = len(text) - 1 - text[::-1].index(START)
        query, full = text[start + 1 : -1], [*text[: task.prompt], *expand(text[task.prompt : start])]
        if not all(each.isdigit() for each in query):
            return text[len(given) :], "invalid"
        found = re.search("".join(spell_out(query)), "".join(f"{each} " for each in full))
        text.append(found.group(1) if found else "FAILED")
    return text[len(given) :], "limit"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 119), st.integers(0, 60))
def test_whatever_is_written_is_searched_as_a_naive_decoder_searches_it(
    seed: int, graph: int, limit: int
) -> None:
    task = searching(4, "compact")
    row = next(iter(task.enumerate()))[graph]
    script, model = CompactTraceScript(task), fickle(task, seed)
    run = generate(model, [script.prompt(row)], script, limit=limit)[0]
    wanted, outcome = naive(task, model, script.prompt(row), limit)
    assert [task.vocabulary.word(token) for token in run.written] == wanted
    assert run.outcome == outcome


def test_a_compact_trace_read_as_a_tour() -> None:
    task = searching(8, "compact", "uniform")
    rows = task.sample(12, seed=8).inputs
    lengths = set()
    for walk, run in zip(tour(task.edges(rows), task.n).tolist(), played(task, rows), strict=True):
        found = CompactTraceScript(task).tour(run.written)
        assert found == walk[: len(found)]
        assert run.answer != task.vocabulary.token("YES") or len(found) == 2 * task.n - 1
        lengths.add(len(found))
    assert len(lengths) > 1


def test_the_script() -> None:
    script = CompactTraceScript(searching(3, "compact"))
    row = script.task.parse("<s> 1 ~ 3 2 ~ 3")
    assert [script.vocabulary.word(each) for each in script.prompt(row)] == ["<s>", *"1~32~3"]
    assert script.limit == script.task.length - script.task.prompt + 1
    for task in (IsTree(n=4), IsTree(n=4, form="cot"), searching(4, "full")):
        with pytest.raises(
            InvalidInput, match=r"trace='compact', where patterns are left out; got .*Set both"
        ):
            CompactTraceScript(task)
