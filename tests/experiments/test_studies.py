"""The named studies: each is there at every budget, asks for what its paper shows, and can be cut down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from separatrix.errors import InvalidInput, SeparatrixError, UnknownName
from separatrix.experiments import EXPERIMENTS, study_of
from separatrix.experiments.cells import Cell, Panel, chosen
from separatrix.experiments.protocols import S_RATES, Lengths, Settings
from separatrix.models.population import signature_of
from separatrix.models.specs import build
from separatrix.training.recipes import Halving

SMOKE, QUICK, PAPER = (Settings(budget=budget) for budget in ("smoke", "quick", "paper"))
TRAINED = tuple(name for name in EXPERIMENTS.names() if name != "w-hotpot")


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("settings", [SMOKE, QUICK, PAPER], ids=lambda settings: settings.budget)
def test_every_study_has_cells_whose_models_fit_their_tasks(name: str, settings: Settings) -> None:
    study = study_of(name, settings)
    assert (study.name, study.budget) == (name, settings.budget)
    assert study.cells
    # Wide models take long to make, so each is made for its longest task only.
    for job in {(job.model, job.task.name): job for job in study.jobs}.values():
        build(job.model, signature_of(job.built_task), 1)


def test_index_lookup_at_the_full_budget_is_the_paper_s_grid() -> None:
    lookup, dyck = study_of("s-fig2", PAPER).panels
    assert lookup.columns == dyck.columns == (20, 50, 100, 200, 400)
    assert lookup.rows == (
        "LSTM-(3,256)",
        "LinTF-(6,256)",
        "RetNet-(6,256)",
        "DSS-(6,256)",
        "Mamba-(6,256)",
        "TF-(1,64)",
    )
    assert (lookup.curves_at, dyck.curves_at) == (200, 400)
    for cell in lookup.cells:
        (job,) = cell.jobs
        assert job.task.params["n"] == cell.column
        assert job.task.params["alphabet"] == 64
        assert tuple(member.lr for member in job.members) == S_RATES
        assert (job.training.steps, job.training.batch, job.training.test_examples) == (250_000, 64, 5000)


@pytest.mark.slow
def test_the_full_grid_tries_every_architecture_of_the_paper() -> None:
    study = study_of("s-fig2", Settings(budget="paper", grid="full"))
    sizes = {
        row.partition("-")[0]: len(next(cell for cell in study.panels[0].cells if cell.row == row).jobs)
        for row in study.panels[0].rows
    }
    assert sizes == {"LSTM": 12, "LinTF": 32, "RetNet": 32, "DSS": 16, "Mamba": 16, "TF": 32}


@pytest.mark.parametrize(
    ("name", "panel", "begun"),
    [
        ("s-fig2", "index-lookup", {"transformer"}),
        ("s-fig2", "dyck", set()),
        ("s-fig4", "eq-random", {"linear-transformer", "transformer"}),
        ("s-fig4", "eq-ncp", {"linear-transformer", "transformer"}),
        ("s-eq-depth", "eq-one", {"transformer"}),
        ("x-lengths", "index-lookup", {"transformer"}),
        ("x-positions", "index-lookup", set()),
        ("x-positions", "eq-random", {"linear-transformer"}),
    ],
)
def test_who_begins_by_fan_in(name: str, panel: str, begun: set[str]) -> None:
    jobs = chosen(study_of(name, Settings(budget="paper")), panels=[panel]).jobs
    assert {job.model.name for job in jobs if job.model.params.get("initial") == "fan-in"} == begun


def test_halving_can_be_left_out() -> None:
    with_it, without = (
        study_of("s-fig3", Settings(budget="paper", halving=halving)).jobs[0].training
        for halving in (True, False)
    )
    assert with_it.halving is not None
    assert without.halving is None
    assert with_it.steps == without.steps


def test_seeds_multiply_the_members() -> None:
    one, three = (
        study_of("s-fig3", Settings(budget="quick", seeds=seeds)).jobs[0] for seeds in ((0,), (0, 1, 2))
    )
    assert len(three.members) == 3 * len(one.members)
    assert {member.seed for member in three.members} == {0, 1, 2}


def test_a_quick_look_takes_lower_rates_for_wide_recurrent_models() -> None:
    rates = {
        f"{name}: {job.model}": [member.lr for member in job.members]
        for name in ("s-fig2", "s-fig3", "s-fig4")
        for job in study_of(name, QUICK).jobs
        if job.model.name in {"mamba", "retnet", "linear-transformer", "lstm"}
        and job.task.params.get("form") != "ncp"
    }
    for name, tried in rates.items():
        narrow = [5e-3, 1e-3] if "lstm" in name else [1e-3, 5e-4]
        wide = any(f"width={width}" in name for width in (256, 512, 1024)) and "lstm" not in name
        assert tried == ([5e-4, 1e-4] if wide else narrow), name


def test_who_copies_has_rates_and_time_at_the_quick_budget() -> None:
    tried = {
        (job.model.name, job.task.params["n"]): ([member.lr for member in job.members], job.training.steps)
        for job in study_of("s-fig4", QUICK).jobs
        if job.task.params.get("form") == "ncp"
    }
    assert tried["mamba", 100] == ([1e-2, 5e-3], 30_000)
    assert tried["mamba", 600] == ([1e-2, 5e-3], 4_000)
    assert tried["retnet", 100][0] == [1e-3, 5e-4]
    assert (tried["transformer", 100][1], tried["transformer", 600][1]) == (40_000, 80_000)
    assert {tried[name, 600][1] for name in ("dss", "lstm", "linear-transformer", "retnet")} == {4_000}


def test_linear_transformers_look_up_an_index_without_positions() -> None:
    jobs = [job for name in ("s-fig2", "s-fig4") for job in study_of(name, PAPER).jobs]
    found = {(job.task.name, job.model.params.get("positions")) for job in jobs if "linear" in job.model.name}
    assert found == {("index-lookup", "none"), ("equality", None)}


def test_trees_are_decoded_where_something_is_written_first() -> None:
    direct, chain, searches = study_of("w-istree", PAPER).panels
    assert not any(cell.decoded for cell in direct.cells)
    assert all(cell.decoded for cell in (*chain.cells, *searches.cells))
    assert chain.columns == searches.columns == (16, 32, 64, 128)
    assert {cell.jobs[0].task.params["trace"] for cell in searches.cells} == {"compact"}
    rates = {cell.row: cell.jobs[0].members[0].lr for cell in chain.cells}
    assert (rates["Transformer 1M"], rates["Mamba 1M"], rates["Hybrid 1M"]) == (1e-3, 3e-4, 3e-4)


def test_depth_is_compared_at_one_length() -> None:
    for panel in study_of("s-eq-depth", PAPER).panels:
        assert panel.rows == ("1 layer", "2 layers")
        assert panel.column_name == "width"
        assert {job.task.params["n"] for cell in panel.cells for job in cell.jobs} == {200}
        assert all(cell.jobs[0].model.params["width"] == cell.column for cell in panel.cells)


@pytest.mark.parametrize("row", ["TF", "tf", "TF-(1,64)"])
def test_a_part_is_chosen_by_rows_columns_and_panels(row: str) -> None:
    study = chosen(study_of("s-fig2", PAPER), panels=["index-lookup"], rows=[row], columns=[200, 400])
    assert [(cell.row, cell.column) for cell in study.cells] == [("TF-(1,64)", 200), ("TF-(1,64)", 400)]


def test_rows_are_named_whole_or_by_a_whole_word() -> None:
    study = chosen(study_of("w-istree", PAPER), rows=["Transformer"], panels=["cot"])
    assert study.panels[0].rows == ("Transformer 0.5M", "Transformer 1M", "Transformer 2M")
    with pytest.raises(UnknownName, match="There is no row 'Trans'"):
        chosen(study, rows=["Trans"])


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"panels": ["dycks"]}, "There is no panel 'dycks'. Did you mean dyck?"),
        ({"rows": ["GPT"]}, "There is no row 'GPT'"),
        ({"columns": [30]}, "has the columns 20, 50, 100, 200, 400; got 30"),
        ({"panels": ["dyck"], "rows": ["DSS"]}, "No cell of s-fig2 lies in all that was chosen"),
    ],
)
def test_a_choice_that_is_not_there_is_refused(choice: dict[str, list[str]], said: str) -> None:
    with pytest.raises(SeparatrixError, match=said):
        chosen(study_of("s-fig2", PAPER), **choice)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": "huge"}, "A budget is smoke, quick or paper; got 'huge'"),
        ({"grid": "half"}, "A grid is final or full; got 'half'"),
        ({"grid": "full"}, "The full grid belongs to --budget paper; got --budget smoke"),
        ({"seeds": ()}, "Seeds are different numbers, at least one"),
        ({"seeds": (1, 1)}, "Seeds are different numbers, at least one"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Settings(**given)  # type: ignore[arg-type]


def test_an_unknown_study_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"There is no experiment 's-fig1'\. Did you mean s-fig"):
        study_of("s-fig1")


def test_a_cell_says_in_one_way_how_it_is_had() -> None:
    with pytest.raises(InvalidInput, match="A cell has jobs or a measure, and not both"):
        Cell(row="x", column=1)


def test_a_panel_has_one_cell_in_a_place() -> None:
    cell = study_of("s-fig3").cells[0]
    with pytest.raises(InvalidInput, match="two cells in one place"):
        Panel(name="p", title="p", cells=(cell, cell))


def test_bands_are_taken_where_they_pay() -> None:
    jobs = [
        job
        for name in ("s-fig2", "s-fig3", "s-fig4", "s-dss-wide")
        for job in study_of(name, Settings(budget="paper", lengths="bands")).jobs
    ]
    for job in jobs:
        drawn = job.task.name in {"index-lookup", "equality"} and job.built_task.n >= 100
        assert job.training.bands == (4 if drawn and job.model.name != "dss" else 1), job
        job.population(1)  # which refuses bands that there are none of
    assert {job.training.bands for job in jobs} == {1, 4}
    assert {job.training.halving for job in jobs} == {Halving(first=20_000, factor=3)}
    for name in ("s-fig2", "s-fig4"):
        for settings in (Settings(budget="quick"), Settings(budget="paper", lengths="all")):
            assert {job.training.bands for job in study_of(name, settings).jobs} == {1}


def test_in_pairs_go_those_that_can_and_the_others_in_bands() -> None:
    bands, pairs = (
        [job for name in ("s-fig2", "s-fig4") for job in study_of(name, settings).jobs]
        for settings in (Settings(budget="paper", lengths="bands"), Settings(budget="paper"))
    )
    changed = set()
    for before, after in zip(bands, pairs, strict=True):
        if after.training.paired:
            usual = 4 if after.built_task.n >= 100 else 1
            assert replace(after, training=replace(after.training, paired=False, bands=usual)) == before
            after.population(1)  # which refuses pairs where one would see the other
            changed.add(after.model.name)
        else:
            assert after == before
    assert changed == {"linear-transformer", "mamba", "retnet"}  # the LSTM would wait for both


@pytest.mark.parametrize(
    ("lengths", "paired"),
    [("pairs", {"linear-transformer", "mamba", "retnet"}), ("all", set()), ("bands", set())],
)
def test_a_quick_look_has_pairs_and_no_bands(lengths: Lengths, paired: set[str]) -> None:
    settings = Settings(budget="quick", lengths=lengths)
    jobs = [job for name in ("s-fig2", "s-fig4") for job in study_of(name, settings).jobs]
    assert {job.model.name for job in jobs if job.training.paired} == paired
    assert {job.training.bands for job in jobs} == {1}


@pytest.mark.parametrize("settings", [QUICK, PAPER], ids=lambda settings: settings.budget)
def test_on_index_lookup_some_keep_their_rate_and_their_gradients(settings: Settings) -> None:
    jobs = [job for name in ("s-fig2", "s-fig3", "s-fig4") for job in study_of(name, settings).jobs]
    found = {
        (job.task.name, job.model.name)
        for job in jobs
        if job.training.clip == 0 and {member.schedule for member in job.members} == {"wsd"}
    }
    assert found == {
        ("index-lookup", name) for name in ("dss", "linear-transformer", "lstm", "mamba", "retnet")
    }
    rest = [job for job in jobs if (job.task.name, job.model.name) not in found]
    assert {(job.training.clip, member.schedule) for job in rest for member in job.members} == {(1, "cosine")}
    mambas = [job for job in jobs if job not in rest and job.model.name == "mamba"]
    others = [job for job in jobs if job not in mambas]
    assert {member.warmup for job in others for member in job.members} == {500 if settings is QUICK else 1000}
    late = {job.training.steps: {member.warmup for member in job.members} for job in mambas}
    assert late == (
        {19_000: {4_750}, 60_000: {8_000}, 90_000: {8_000}} if settings is QUICK else {250_000: {8_000}}
    )


def test_lengths_come_in_one_of_three_ways() -> None:
    with pytest.raises(InvalidInput, match="Lengths come all, in bands or in pairs; got lengths='some'"):
        Settings(lengths="some")  # type: ignore[arg-type]
