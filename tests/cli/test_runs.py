"""`separatrix runs`: what is listed, shown, exported and cleared away."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from separatrix.store import Point, Result, Run, Store
from separatrix.store.bundles import read_bundle
from tests.cli.running import process, refused, run
from tests.store.examples import CURVE, RIGHT, config
from tests.store.test_evidence import make_coverage

POPULATION = "a" * 64
HOSTILE = "\x1b[31m\x07\u202e"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store in the usual place, with a run that is done, one that failed and one that was cut off."""
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    made = Store("runs")
    first, second, third = made.begin_all(
        [
            config(0, n=200),
            config(1, model="lstm"),
            config(2, task="q-sparse-averaging", model="linear-transformer"),
        ],
        population=POPULATION,
    )
    made.reached({third.key: 1500})
    made.finish(first.key, replace(RIGHT, steps=250_000, correct=9_999, examples=10_000))
    made.finish(second.key, Result(status="retired", steps=17))
    made.write_curve(first.key, CURVE)
    return made


def first(store: Store) -> Run:
    return store.runs()[0]


def test_the_list_reads_well_at_eighty_columns(store: Store) -> None:
    ran = run("runs", "list")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "…" not in ran.out
    done, retired, cut = (each.short for each in store.runs())
    assert [" ".join(line.split()) for line in lines] == [
        "key task steps accuracy",
        "status model n lr seed solved at interval",
        f"{done} index-lookup 200 0.001 0 250,000 99.99 %",
        "done transformer-(1,64) 400 99.94–99.99",
        f"{retired} index-lookup 20 0.001 1 17 –",
        "retired lstm-(1,64)",
        f"{cut} q-sparse-averaging 20 0.001 2 1,500 –",
        "cut off linear-transformer-(1,64)",
    ]
    with store.claim(POPULATION):
        assert run("runs", "list").out == ran.out.replace("cut off", "running")


@pytest.mark.slow
def test_what_is_trained_is_running_and_what_is_not_was_cut_off(store: Store) -> None:
    key = store.runs()[2].key

    def said() -> list[object]:
        shown = run("runs", "show", key)
        listed = run("runs", "list", "--json").answer["runs"][2]
        return [
            listed["status"],
            run("runs", "show", key, "--json").answer["status"],
            shown.out.split("  ")[0],
        ]

    assert said() == ["cut off"] * 3
    text = " ".join(run("runs", "show", key).out.split())
    assert "steps 1,500 at the last checkpoint; train the same again to go on" in text
    with store.claim(POPULATION):
        assert said() == ["running"] * 3
        assert "steps 1,500 labels" not in run("runs", "show", key).out
        assert "checkpoint" not in run("runs", "show", key).out
    store.begin(config(2, task="q-sparse-averaging", model="linear-transformer"), population="b" * 64)
    with store.claim("b" * 64):
        assert said() == ["running"] * 3, "another population has it"
    alone = store.begin(config(77))
    assert run("runs", "show", alone.key).out.startswith("running  "), "nobody can tell"
    never = store.begin(config(78), population=POPULATION)
    assert "steps    0, nothing saved" in run("runs", "show", never.key).out


def test_a_model_without_a_shape_has_its_name_alone(store: Store) -> None:
    for seed, params in enumerate(
        ({}, {"layers": 1}, {"layers": 1, "width": "x"}, {"layers": True, "width": 2})
    ):
        made = config(100 + seed)
        made["model"] = {"name": "mine:net", "params": params}
        store.begin(made)
    lines = run("runs", "list", "--model", "mine:net").out.splitlines()
    assert [" ".join(line.split()) for line in lines[3::2]] == ["running mine:net"] * 4


def test_a_model_says_how_it_began_where_that_was_chosen(store: Store) -> None:
    for seed, params in enumerate(
        ({"layers": 1, "width": 8, "initial": "fan-in"}, {"layers": 1, "width": 8})
    ):
        made = config(100 + seed)
        made["model"] = {"name": "llama", "params": params}
        store.begin(made)
    page = run("runs", "list", "--model", "llama").out
    assert (page.count("llama-(1,8)"), page.count("llama-(1,8), fan-in")) == (2, 1)


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        ("", [0, 1, 2]),
        ("--task index-lookup", [0, 1]),
        ("--model lstm", [1]),
        ("--status done", [0]),
        ("--n 20", [1, 2]),
        ("--task index-lookup --n 20 --status running", []),
        ("--status running", []),
        ("--status cut-off", [2]),
    ],
)
@pytest.mark.usefixtures("store")
def test_the_list_can_be_narrowed(options: str, seeds: list[int]) -> None:
    found = run("runs", "list", *options.split(), "--json").answer
    assert found["store"] == "runs"
    assert [each["config"]["member"]["seed"] for each in found["runs"]] == seeds
    shown = run("runs", "list", *options.split()).out
    assert shown.startswith("key    " if seeds else "There are no such runs in 'runs'.\n")


def test_the_json_of_a_list_is_all_there_is(store: Store) -> None:
    found = run("runs", "list", "--json").answer["runs"]
    expected = [json.loads(json.dumps(each.to_fields())) for each in store.runs()]
    assert found == [*expected[:2], {**expected[2], "status": "cut off"}]
    assert found[0]["accuracy"] == 0.9999
    assert 0 < found[0]["low"] < found[0]["accuracy"] < found[0]["high"] < 1


def test_a_run_is_shown_by_the_beginning_of_its_key(store: Store) -> None:
    shown = run("runs", "show", first(store).short)
    assert (shown.code, shown.err) == (0, "")
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    text = " ".join(shown.out.split())
    for words in (
        f"done {first(store).key}",
        "task index-lookup: alphabet=8, n=200",
        "model transformer: layers=1, width=64",
        "member lr=0.001, schedule=constant, seed=0",
        "steps 250,000, solved at 400",
        "accuracy 99.99 % (9,999 of 10,000 right; 95 % interval 99.94–99.99)",
        "labels 99.50 % right",
        "loss 0.01",
        "from commit=null, deterministic=true, threads=1, torch=2",
        "curve of 3 points",
        "accuracy ▂█ 10.00 % → 99.00 %",
        "loss █▂▁ 2.5 → 0.01",
        "500 – 0.3",
        "1,000 99.00 % 0.01",
    ):
        assert words in text, words


def test_a_long_curve_is_shown_in_part(store: Store) -> None:
    key = first(store).key
    store.write_curve(key, [Point(step=step, loss=1.0, correct=step, examples=999) for step in range(1000)])
    lines = run("runs", "show", key).out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    at = next(place for place, line in enumerate(lines) if line.startswith("curve"))
    assert len(lines) - at == 1 + 2 + 1 + 8
    assert [line.split()[0] for line in lines[-8:]] == ["0", "142", "285", "428", "570", "713", "856", "999"]
    bars = lines[at + 1].split()[1]
    assert len(bars) == 48
    assert [*dict.fromkeys(bars)] == [*"▁▂▃▄▅▆▇█"]
    assert set(lines[at + 2].split()[1]) == {"▁"}
    assert len(run("runs", "show", key, "--json").answer["curve"]) == 1000


def test_a_run_without_anything_is_shown_too(store: Store) -> None:
    running = store.runs()[2]
    assert "curve" not in run("runs", "show", running.key).out
    answer = run("runs", "show", running.key, "--json").answer
    assert answer["curve"] == []
    assert answer["status"] == "cut off"
    shown = run("runs", "show", first(store).key, "--json").answer
    assert shown["curve"][0] == json.loads(json.dumps(CURVE[0].to_fields()))
    assert shown["key"] == first(store).key


def test_keys_that_are_wrong(store: Store) -> None:
    assert refused("runs", "show", "zz").startswith("A key is made of up to 64 of the characters 0 to 9")
    assert refused("runs", "show").startswith("runs show needs KEY (the beginning of its key")
    free = next(
        letter for letter in "0123456789abcdef" if not any(k.startswith(letter) for k in store.all_keys())
    )
    assert refused("runs", "show", free) == (
        f"There is no run '{free}' in 'runs'; `separatrix runs list` lists them."
    )
    store.begin_all([config(seed) for seed in range(10, 60)])
    shared = first(store).key[0]
    assert "Give more characters." in refused("runs", "show", shared)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "runs lst",
            "There is no runs command 'lst'. Did you mean list? Known: list, show, export, bundle, gc.",
        ),
        ("runs --json", "There is no option '--json'."),
        ("runs list x", "'x' is one word too many; --help shows what runs list takes."),
        ("runs list --jsn", "There is no option '--jsn'. Did you mean --json"),
        (
            "runs list --status odd",
            "--status is one of running, cut off, done, retired, dropped, stopped; go",
        ),
        ("runs list --n 2.5", "--n needs a whole number; got '2.5'."),
        (
            "runs export --out runs.txt",
            "Runs are written to .csv, .json, .jsonl, .parquet; got the name 'runs.",
        ),
        ("runs export --out no/runs.csv", "there is no folder 'no'; make it first."),
        ("runs list --store other", "There is no store in 'other'; `separatrix train` makes one;"),
        ("runs gc --store runs/runs.sqlite", "'runs/runs.sqlite' is a file; a store is a folder"),
    ],
)
def test_wrong_use_is_one_sentence(store: Store, line: str, words: str) -> None:
    assert words in refused(*line.split())
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["runs"]


def test_where_the_store_is(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = tmp_path / "else"
    store.path.rename(moved)
    assert refused("runs", "list").startswith("There is no store in 'runs'")
    assert len(run("runs", "list", "--json", "--store", "else").answer["runs"]) == 3
    monkeypatch.setenv("SEPARATRIX_STORE", str(moved))
    assert len(run("runs", "list", "--json").answer["runs"]) == 3


def test_damage_is_a_sentence_in_every_command(store: Store) -> None:
    (store.path / "runs.sqlite").write_bytes(b"damaged" * 1000)
    for command in (["list"], ["show", "a"], ["export"], ["bundle", "--out", "b"], ["gc"]):
        assert refused("runs", *command).startswith("'runs/runs.sqlite' is damaged or no store of runs")


def test_export_as_csv(store: Store, tmp_path: Path) -> None:
    ran = run("runs", "export")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [row["key"] for row in rows] == [each.key for each in store.runs()]
    assert rows[0]["accuracy"] == "0.9999"
    assert rows[0]["member.lr"] == "0.001"
    assert rows[2]["task.name"] == "q-sparse-averaging"
    assert rows[2]["accuracy"] == ""
    written = run("runs", "export", "--out", "a.csv")
    assert (written.code, written.out, written.err) == (0, "a.csv\n", "Wrote 3 runs.\n")
    assert (tmp_path / "a.csv").read_text() == ran.out
    one = run("runs", "export", "--status", "done", "--out", "a.csv", "--json")
    assert one.answer["path"] == "a.csv"
    assert len(one.answer["runs"]) == 1
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 2


def test_export_to_other_programs(store: Store, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for name in ("a.json", "a.jsonl", "a.parquet", "A.PARQUET"):
        assert run("runs", "export", "--out", name).code == 0
    records = json.loads((tmp_path / "a.json").read_text())["runs"]
    assert tuple(map(Run.from_json, records)) == store.runs()
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert tuple(Run.from_json(json.loads(line)) for line in lines) == store.runs()
    table = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["key"] for row in table] == [each.key for each in store.runs()]
    assert [row["accuracy"] for row in table] == [0.9999, None, None]
    assert [row["task.params.n"] for row in table] == [200, 20, 20]
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "A.PARQUET").read_bytes()


def test_settings_of_several_kinds_share_a_column(store: Store, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for seed, (clip, extra) in enumerate([(1, "x"), (None, [1, 2]), (2.5, 1 << 64)], 20):
        made = config(seed)
        made["training"] = {"clip": clip, "extra": extra, "huge": seed << 60}
        store.begin(made)
    assert run("runs", "export", "--out", "a.parquet").code == 0
    table = pq.read_table(tmp_path / "a.parquet").to_pydict()
    assert table["training.clip"] == [1.0, 1.0, 1.0, 1.0, None, 2.5]
    assert table["training.extra"] == [None, None, None, '"x"', '"[1, 2]"', str(1 << 64)]
    assert table["training.huge"][3:] == [str(seed << 60) for seed in (20, 21, 22)]
    assert run("runs", "export").code == 0


def test_a_bundle_has_what_has_finished(store: Store, tmp_path: Path) -> None:
    done, retired, _ = store.runs()
    store.write_evidence(retired.key, make_coverage())
    ran = run("runs", "bundle", "--out", "results/mine", "--notes", "by a test")
    assert (ran.code, ran.out) == (0, "results/mine\n")
    assert ran.err == "Bundled 2 runs; 1 run not finished. 'mine' has 2 now.\n"
    found = read_bundle(tmp_path / "results" / "mine")
    assert set(found.runs) == {done, retired}
    assert found.curve(done.key) == CURVE
    assert found.evidence == {retired.key: (make_coverage(),)}
    assert (found.name, found.notes) == ("mine", "by a test")


def test_a_bundle_can_be_narrowed_and_added_to(store: Store, tmp_path: Path) -> None:
    done, retired, _ = store.runs()
    one = run("runs", "bundle", "--out", "b", "--model", "lstm", "--name", "some", "--json")
    assert one.answer == {"path": "b", "name": "some", "bundled": 1, "unfinished": 0, "runs": 1}
    assert one.err == ""
    assert read_bundle(tmp_path / "b").runs == (retired,)
    two = run(
        "runs", "bundle", "--out", "b", "--task", "index-lookup", "--n", "200", "--status", "done", "--json"
    )
    assert two.answer == {"path": "b", "name": "some", "bundled": 1, "unfinished": 0, "runs": 2}
    assert {each.key for each in read_bundle(tmp_path / "b").runs} == {done.key, retired.key}
    before = {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    assert (
        run("runs", "bundle", "--out", "b").err == "Bundled 2 runs; 1 run not finished. 'some' has 2 now.\n"
    )
    assert {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()} == before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "runs bundle",
            "runs bundle needs --out (Folder to write to; what it has is kept.); none was given.",
        ),
        ("runs bundle --out=", "--out needs a path; got ''."),
        ("runs bundle --out b --status cut-off", "There are no such runs that have finished in 'runs'"),
        ("runs bundle --out b --task dyck", "There are no such runs that have finished in 'runs'"),
        ("runs bundle --out b --name a/b", "A bundle's name has up to 100 letters, digits, dots, hyphens"),
        ("runs bundle --out runs/runs.sqlite", "The folder 'runs/runs.sqlite' cannot be made: File exists."),
        ("runs bundle --out /proc/nowhere", "The folder '/proc/nowhere' cannot be made"),
        ("runs bundle --out b --store other", "There is no store in 'other'"),
    ],
)
def test_what_makes_no_bundle_is_one_sentence(store: Store, line: str, words: str) -> None:
    assert words in refused(*line.split())
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["runs"]


def test_a_bundle_of_another_name_or_with_damage_is_left_alone(store: Store, tmp_path: Path) -> None:
    assert run("runs", "bundle", "--out", "b").code == 0
    assert refused("runs", "bundle", "--out", "b", "--name", "c").startswith(
        "The bundle in 'b' is called 'b', not 'c'; name another folder"
    )
    path = tmp_path / "b" / "curves.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    assert "'b/curves.parquet' does not belong to the runs beside it" in refused(
        "runs", "bundle", "--out", "b"
    )
    (store.path / "curves" / f"{first(store).key}.parquet").write_bytes(b"x")
    assert "is damaged or no curve" in refused("runs", "bundle", "--out", "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_gc_says_what_it_does(store: Store) -> None:
    orphan = store.path / "curves" / f"{'e' * 64}.parquet"
    orphan.write_bytes(b"12345")
    expected = f"{orphan}  5 bytes: belongs to no run\n"
    assert run("runs", "gc", "--dry-run").out == f"{expected}Would remove 1 file of 5 bytes.\n"
    assert orphan.exists()
    dry = run("runs", "gc", "--dry-run", "--json").answer
    with store.claim("a" * 64):
        ran = run("runs", "gc", "--json")
        assert ran.err == ""
        assert ran.answer == {**dry, "dry_run": False, "claimed": ["a" * 64]}
        assert "Population aaaaaaaaaaaa is being trained and is left alone.\n" in run("runs", "gc").out
    assert dry["removed"] == [{"path": str(orphan), "bytes": 5, "why": "belongs to no run"}]
    assert not orphan.exists()
    assert run("runs", "gc").out == "Removed 0 files of 0 bytes.\n"


def test_names_from_strangers_are_shown_and_not_obeyed(store: Store) -> None:
    made = config(9, task=f"mine{HOSTILE}", model=f"[bold]{HOSTILE}")
    made[f"more{HOSTILE}"] = {f"a{HOSTILE}": HOSTILE}
    made["member"] = {"lr": HOSTILE, "seed": [1]}
    key = store.begin(made, provenance={"device": HOSTILE}).key
    for argv in (("list",), ("show", key)):
        out = run("runs", *argv).out
        assert all(line.isprintable() for line in out.split("\n")), argv
        assert r"\x1b[31m\x07" in out.replace("\n", "")
    assert run("runs", "list", "--json").answer["runs"][-1]["config"]["task"]["name"] == f"mine{HOSTILE}"


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_help_needs_neither_torch_nor_pyarrow() -> None:
    lines = [["--help"], ["runs"], ["runs", "--help"], ["runs", "list", "--help"], ["runs", "list"]]
    script = (
        f"import sys; from separatrix.cli import main; print([main(line) for line in {lines!r}],"
        "{'torch', 'pyarrow', 'numpy'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[0, 0, 0, 0, 0] set()"


@pytest.mark.usefixtures("store")
def test_help_lists_the_commands_and_their_options() -> None:
    page = run("runs", "--help").out
    places = [page.index(f"│ {command} ") for command in ("list", "show", "export", "bundle", "gc")]
    assert places == sorted(places)
    assert "Usage: separatrix runs show KEY" in run("runs", "show", "--help").out
    for command in ("list", "show", "export", "bundle", "gc"):
        page = run("runs", command, "--help").out
        assert "--json" in page
        assert "--store" in page
        assert "Options" in page
    assert "│ runs " in run("--help").out


def test_it_runs_as_a_program(store: Store) -> None:
    ran = process("runs", "list", cwd=store.path.parent.resolve())
    assert ran.returncode == 0
    assert first(store).short in ran.stdout
    assert ran.stderr == ""


@pytest.mark.usefixtures("store")
def test_a_name_that_nothing_has_is_refused() -> None:
    for command in (["list"], ["export"], ["bundle", "--out", "b"]):
        words = refused("runs", *command, "--task", "index-lokup")
        assert words.startswith("There is no task 'index-lokup'. Did you mean index-lookup? Known: ")
        assert refused("runs", *command, "--model", "nope").startswith("There is no model 'nope'.")
    ran = run("runs", "list", "--task", "dyck", "--model", "mamba")
    assert (ran.code, ran.out) == (0, "There are no such runs in 'runs'.\n")


def test_a_name_that_only_a_stored_run_has_is_none_that_is_refused(store: Store) -> None:
    store.begin(config(3, task="my-own", model="mine:net"))
    (found,) = run("runs", "list", "--task", "my-own", "--model", "mine:net", "--json").answer["runs"]
    assert found["config"]["task"]["name"] == "my-own"
    ran = run("runs", "list", "--task", "my-own", "--n", "7")
    assert (ran.code, ran.out) == (0, "There are no such runs in 'runs'.\n")
