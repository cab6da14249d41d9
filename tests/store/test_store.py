"""Rows, files and claims."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from separatrix.errors import InvalidFile, InvalidInput, UnknownName
from separatrix.store import Point, Result, Run, Store, default_place, key_of, wilson
from separatrix.store.aside import set_aside
from separatrix.store.claims import is_claimed
from separatrix.store.cleaning import clean
from tests.store.examples import CURVE, RIGHT, config, finished


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def test_a_key_is_the_hash_of_the_canonical_config() -> None:
    text = json.dumps(config(), sort_keys=True, separators=(",", ":"))
    assert key_of(config()) == hashlib.sha256(text.encode()).hexdigest()
    assert key_of(dict(reversed(config().items()))) == key_of(config())
    assert key_of(config(1)) != key_of(config())


def test_a_run_begins_and_ends(store: Store) -> None:
    begun = store.begin(config(), provenance={"torch": "2.13"})
    assert (begun.key, begun.status, begun.steps, begun.accuracy) == (key_of(config()), "running", 0, None)
    assert (begun.task, begun.model, begun.n, begun.finished) == ("index-lookup", "transformer", 20, False)
    assert begun.provenance == {"torch": "2.13"}
    assert begun.config == config()
    ended = store.finish(begun.key, RIGHT)
    assert ended.finished
    assert (ended.steps, ended.solved_at, ended.correct, ended.examples) == (1000, 400, 990, 1000)
    assert (ended.accuracy, ended.label_accuracy, ended.loss, ended.seconds) == (0.99, 0.995, 0.01, 2.5)
    assert (ended.low, ended.high) == wilson(990, 1000)
    assert ended.provenance == RIGHT.provenance
    assert ended.created == begun.created
    assert Store(store.path).run(ended.key) == ended
    assert Run.from_json(json.loads(json.dumps(ended.to_json()))) == ended


def test_what_has_finished_is_not_begun_again(store: Store) -> None:
    done = finished(store)
    assert store.begin(config()) == done
    for status in ("stopped", "retired", "dropped"):
        result = Result(status=status, steps=3)
        store.finish(done.key, result)
        assert store.begin(config()).status == ("running" if status == "stopped" else status)


def test_numbers_that_are_none_are_left_out(store: Store) -> None:
    key = store.begin(config()).key
    run = store.finish(key, Result(status="retired", steps=7, loss=float("nan"), correct=0, examples=0))
    assert (run.loss, run.accuracy, run.low, run.high) == (None, None, None, None)


def test_how_far_a_run_has_come_is_noted_while_it_goes_on(store: Store) -> None:
    going, done = store.begin(config(0)), finished(store, 1)
    store.reached({going.key: 300, done.key: 7})
    assert (store.run(going.key).steps, store.run(going.key).status) == (300, "running")
    assert store.run(done.key) == done
    assert store.begin(config(0)).steps == 300


def test_a_run_that_is_opened_again_has_no_result(store: Store) -> None:
    done = finished(store)
    again = store.reopen(done.key)
    assert (again.key, again.config, again.created) == (done.key, done.config, done.created)
    assert (again.status, again.steps, again.seconds, again.solved_at) == ("running", 0, 0.0, None)
    assert (again.accuracy, again.correct, again.examples, again.low, again.high) == (None,) * 5
    assert (again.loss, again.label_accuracy) == (None, None)
    assert store.finish(done.key, RIGHT).accuracy == 0.99
    with pytest.raises(UnknownName):
        store.reopen("f" * 64)


def test_a_run_is_set_aside_with_all_it_left(store: Store) -> None:
    done, other = finished(store), finished(store, 1)
    path = store.write_weights(done.key, {"a": torch.ones(3)})
    before = path.read_bytes(), (store.path / "curves" / f"{done.key}.parquet").read_bytes()
    folder = set_aside(store, done)
    assert folder == store.path / "aside" / done.key
    assert sorted(each.name for each in folder.iterdir()) == [
        "curves.parquet",
        "run.json",
        "weights.safetensors",
    ]
    assert (folder / "weights.safetensors").read_bytes() == before[0]
    assert (folder / "curves.parquet").read_bytes() == before[1]
    assert Run.from_json(json.loads((folder / "run.json").read_text())) == done
    assert store.run(done.key).status == "running"
    assert not path.exists()
    assert store.run(other.key) == other
    assert set_aside(store, finished(store)).name == f"{done.key}-2"
    assert clean(store).removed == (), "nor does tidying up remove it"
    (store.path / "elsewhere").mkdir()
    (store.path / "aside").rename(store.path / "elsewhere" / "aside")
    (store.path / "aside").write_text("in the way")
    again = finished(store)
    with pytest.raises(
        InvalidFile, match=f"The files of the run {done.short} cannot be set aside in '.*aside'"
    ):
        set_aside(store, again)
    assert store.run(again.key) == again


def test_runs_that_nobody_trains_were_cut_off(store: Store) -> None:
    both, one = "a" * 64, "b" * 64
    first, second = store.begin_all([config(0), config(1)], population=both)
    store.begin(config(0), population=one)
    store.begin(config(2))  # of no population, so that nobody can tell
    assert store.cut_off() == {first.key, second.key}
    with store.claim(one):
        assert store.cut_off() == {second.key}
    with store.claim(both):
        assert store.cut_off() == frozenset()
    store.finish(second.key, RIGHT)
    assert store.cut_off() == {first.key}
    store.folder_of(both).mkdir(exist_ok=True)
    (store.folder_of(both) / "claim.lock").unlink()
    (store.folder_of(both) / "claim.lock").mkdir()
    assert store.cut_off() == frozenset(), "nobody can tell"


def test_looking_at_a_claim_does_not_take_it(store: Store) -> None:
    """Who looks holds the lock for a moment; who comes to train waits for that."""
    folder = store.folder_of("c" * 64)
    folder.mkdir(parents=True)
    with (folder / "claim.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        threading.Timer(0.03, lambda: fcntl.flock(file, fcntl.LOCK_UN)).start()
        with store.claim("c" * 64):
            assert is_claimed(folder)


def test_several_begin_together_or_not_at_all(store: Store) -> None:
    with pytest.raises(InvalidInput, match="'member' is missing"):
        store.begin_all([config(0), {**config(1), "member": None}])
    assert store.runs() == ()
    begun = store.begin_all([config(seed) for seed in range(3)], population="a" * 64)
    assert store.runs() == begun == store.members("a" * 64)
    assert store.members("b" * 64) == ()


def test_runs_are_found_by_what_they_are(store: Store) -> None:
    first, second = store.begin(config(0)), store.begin(config(1, model="lstm"))
    third = store.begin(config(0, task="dyck", n=8))
    first = store.finish(first.key, RIGHT)
    assert store.runs() == (first, second, third)
    assert store.runs(task="index-lookup") == (first, second)
    assert store.runs(model="transformer") == (first, third)
    assert store.runs(status="running") == (second, third)
    assert store.runs(n=8) == store.runs(task="dyck", model="transformer", n=8) == (third,)
    assert store.runs(task="dyck", status="done") == ()
    assert store.all_keys() == {first.key, second.key, third.key}


def test_any_unambiguous_beginning_of_a_key_will_do(store: Store) -> None:
    runs = store.begin_all([config(seed) for seed in range(40)])
    for run in runs:
        assert store.run(run.key) == store.run(run.short) == run
    first = runs[0].key[0]
    same = sorted(run.key for run in runs if run.key[0] == first)
    assert len(same) > 1
    with pytest.raises(InvalidInput) as refusal:
        store.run(first)
    shown = ", ".join(key[:12] for key in same[:4])
    more = f" and {len(same) - 4} more" if len(same) > 4 else ""
    assert str(refusal.value) == (
        f"'{first}' begins the keys of {len(same)} runs: {shown}{more}. Give more characters."
    )


def test_keys_that_name_nothing(store: Store) -> None:
    with pytest.raises(
        UnknownName, match=r"There is no run 'abc' in '.*'; `separatrix runs list` lists them"
    ):
        store.run("abc")
    for word in ("", "xyz", "ABC", "a" * 65, "%", "a\n"):
        with pytest.raises(InvalidInput, match="A key is made of"):
            store.run(word)
    for key in ("f" * 64, "../../etc"):
        with pytest.raises((UnknownName, InvalidInput)):
            store.finish(key, RIGHT)
        with pytest.raises((UnknownName, InvalidInput)):
            store.write_curve(key, CURVE)
        with pytest.raises((UnknownName, InvalidInput)):
            store.write_weights(key, {})
    assert sorted(path.name for path in store.path.iterdir()) == ["runs.sqlite"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": None}, "'task' is missing"),
        ({"training": 3}, "'training' is missing"),
        ({"model": {"name": "x"}}, "A run's model has a name and params; got name."),
        ({"task": {"name": 3, "params": {}}}, "A run's task has a name and params"),
        ({"member": {"lr": float("nan")}}, "numbers in a value are finite"),
        ({"member": {"lr": {1, 2}}}, "a value is made of JSON types; got set"),
    ],
)
def test_configs_that_are_none(store: Store, change: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        store.begin({**config(), **change})


def test_results_that_are_none() -> None:
    for change in (
        {"status": "running"},
        {"steps": -1},
        {"correct": 1001},
        {"correct": None},
        {"seconds": -1.0},
    ):
        with pytest.raises(InvalidInput):
            replace(RIGHT, **change)


def test_curves_come_back(store: Store) -> None:
    key = store.begin(config()).key
    assert store.curve(key) == ()
    store.write_curve(key, CURVE)
    assert store.curve(key) == CURVE
    assert CURVE[0].accuracy == 0.1
    assert CURVE[1].accuracy is None
    nothing = Point(step=3, loss=float("inf"))
    store.write_curve(key, [nothing])
    assert store.curve(key) == (nothing,)
    assert nothing.loss is None
    with pytest.raises(InvalidInput, match="in the order of their steps"):
        store.write_curve(key, [CURVE[1], CURVE[0]])
    with pytest.raises(InvalidInput, match="A point needs step as a whole number"):
        Point(step=-1)


@pytest.mark.slow
def test_the_same_curve_is_the_same_bytes(tmp_path: Path) -> None:
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    key = one.begin(config()).key
    two.begin(config())
    one.write_curve(key, CURVE)
    two.write_curve(key, CURVE[:1])
    script = (
        "import sys; from separatrix.store import Store; from tests.store.examples import CURVE;"
        f"Store(sys.argv[1]).write_curve({key!r}, CURVE)"
    )
    subprocess.run([sys.executable, "-c", script, str(two.path)], check=True)
    files = [store.path / "curves" / f"{key}.parquet" for store in (one, two)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert [path.name for path in files[0].parent.iterdir()] == [files[0].name]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 100, None])
def test_a_damaged_curve_is_a_sentence(store: Store, content: bytes | None) -> None:
    key = finished(store).key
    path = store.path / "curves" / f"{key}.parquet"
    path.write_bytes(path.read_bytes()[:-20] if content is None else content)
    with pytest.raises(InvalidFile, match="is damaged or no curve"):
        store.curve(key)


def test_a_strangers_table_is_no_curve(store: Store) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    key = finished(store).key
    path = store.path / "curves" / f"{key}.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.table({"step": ["one"]}), path)
    with pytest.raises(InvalidFile, match="is no curve of this package"):
        store.curve(key)
    negative = table.set_column(0, table.schema.field(0), [[-1] * len(table)])
    pq.write_table(negative, path, store_schema=False)
    with pytest.raises(
        InvalidFile, match="is no curve of this package: A point needs step as a whole number"
    ):
        store.curve(key)


def test_weights_come_back(store: Store) -> None:
    key = finished(store).key
    tensors = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor([1, 2]), "c": torch.ones(3).bfloat16()}
    path = store.write_weights(key, tensors, {"note": "ä", "steps": 3})
    found = store.weights(key[:12])
    assert found.meta == {"note": "ä", "steps": 3}
    assert all(found.tensors[name].equal(tensor) for name, tensor in tensors.items())
    assert found.tensors["c"].dtype == torch.bfloat16
    with safe_open(path, framework="pt") as file:
        assert sorted(file.keys()) == ["a", "b", "c"]
        assert file.get_tensor("b").equal(tensors["b"])
        assert file.metadata()["owner"] == key
    before = path.read_bytes()
    store.write_weights(key, dict(reversed(tensors.items())), {"steps": 3, "note": "ä"})
    assert path.read_bytes() == before


def test_weights_that_are_not_there_or_not_these(store: Store) -> None:
    first, second = finished(store, 0), finished(store, 1)
    with pytest.raises(InvalidInput, match=f"The run {first.short} has no weights in .*; it is done"):
        store.weights(first.key)
    path = store.write_weights(first.key, {"a": torch.ones(3)})
    path.rename(path.with_name(f"{second.key}.safetensors"))
    with pytest.raises(InvalidFile, match=f"holds the weights of another run, {first.short}"):
        store.weights(second.key)


@pytest.mark.slow
def test_one_process_trains_a_population(store: Store) -> None:
    population = "c" * 64
    with store.claim(population) as checkpoints:
        assert checkpoints.folder == store.path / "checkpoints" / population
        script = (
            "import sys; from separatrix.store import Store\n"
            f"try:\n    Store(sys.argv[1]).claim({population!r}).__enter__()\n"
            "except ValueError as error:\n    print(error)"
        )
        ran = subprocess.run(
            [sys.executable, "-c", script, str(store.path)], capture_output=True, text=True, check=True
        )
        assert ran.stdout == (
            f"This population (cccccccccccc) is being trained by process {os.getpid()}; wait for it or stop "
            f"it, or name another store than '{store.path}'.\n"
        )
        with store.claim("d" * 64):
            pass
    with store.claim(population):
        pass


def test_a_claim_clears_away_what_a_killed_process_left(store: Store) -> None:
    with store.claim("c" * 64) as checkpoints:
        part = checkpoints.folder / ".0123456789abcdef.part"
        part.write_bytes(b"half")
    with store.claim("c" * 64):
        assert not part.exists()


def test_places_that_are_no_stores(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidFile, match=r"'.*file' is a file; a store is a folder"):
        Store(tmp_path / "file")
    with pytest.raises(InvalidFile, match="There can be no store in"):
        Store(tmp_path / "file" / "in")
    with pytest.raises(InvalidFile, match="There can be no store in"):
        Store("nul\0")
    for empty in ("", " "):
        with pytest.raises(InvalidInput, match="A store is in a folder"):
            Store(empty)
    with pytest.raises(InvalidFile, match=r"There is no store in '.*none'; `separatrix train` makes one"):
        Store(tmp_path / "none", must_exist=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_usual_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    assert default_place() == Path("runs")
    monkeypatch.setenv("SEPARATRIX_STORE", "/somewhere/else")
    assert default_place() == Path("/somewhere/else")


def test_rows_need_no_torch_and_no_pyarrow(store: Store) -> None:
    script = (
        "import sys; from separatrix.store import Store; from separatrix.store.cleaning import clean\n"
        "store = Store(sys.argv[1]); store.runs(); clean(store)\n"
        "print({'torch', 'pyarrow'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(store.path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "set()\n"


def test_a_run_says_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from separatrix.store.provenance import _commit, _sources, provenance

    monkeypatch.setenv("SEPARATRIX_COMMIT", "ab" * 20)
    said = provenance(torch.device("cpu"), precision="float32", deterministic=True)
    assert said["commit"] == "ab" * 20
    monkeypatch.setenv("SEPARATRIX_COMMIT", "the newest")
    said = provenance(torch.device("cpu"), precision="float32", deterministic=True)
    assert said["commit"] != "the newest"
    assert _sources(tmp_path) == hashlib.sha256().hexdigest()
    for number, text in enumerate(("one", "two", "one")):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "code.py").write_text(text)
    assert _sources(tmp_path / "0") == _sources(tmp_path / "2") != _sources(tmp_path / "1")
    assert re.fullmatch("[0-9a-f]{64}", str(said["sources"]))
    assert said["torch"] == torch.__version__
    assert str(said["device"]).startswith("cpu")
    assert (said["precision"], said["deterministic"]) == ("float32", True)
    json.dumps(said, allow_nan=False)
    commit, git = "0123456789" * 4, tmp_path / ".git"
    assert _commit(tmp_path) is None
    (git / "refs").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/main\n")
    assert _commit(tmp_path) is None
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{commit} refs/main\n")
    assert _commit(tmp_path) == commit
    (git / "refs" / "main").write_text(f"{commit[::-1]}\n")
    assert _commit(tmp_path) == commit[::-1]
    (git / "HEAD").write_text(f"{commit}\n")
    assert _commit(tmp_path) == commit
