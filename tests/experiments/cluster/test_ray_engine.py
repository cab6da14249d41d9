"""On a cluster, whatever dies on the way, the store ends as that of a training on one machine."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.experiments.cluster import ray_engine
from separatrix.experiments.cluster.ray_connection import connected
from separatrix.experiments.cluster.ray_engine import RayEngine
from separatrix.models.transformer import Transformer
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.training import Halving, Job, Member, Training, run_job
from separatrix.training.jobs import job_for
from tests.experiments.cluster.clusters import (
    PretendedRay,
    RayError,
    TaskError,
    loopback_cluster,
    loopback_node,
    within,
)

TINY = Training(steps=20, batch=4, eval_every=5, eval_examples=20, test_examples=30, stop="never")


def small_job(n: int, *, training: Training = TINY, members: int = 2) -> Job:
    return job_for(
        task("index-lookup", n=n, alphabet=4),
        Transformer.Config(width=8, heads=2, ffn=8),
        members=[Member(lr=0.003 * (i + 1), seed=n, schedule="cosine", warmup=3) for i in range(members)],
        training=training,
    )


HALVED = small_job(6, training=replace(TINY, halving=Halving(first=8)), members=3)
FIRST = small_job(3, training=replace(TINY, steps=60, stop="first", solved=0.5), members=3)


def facts(store: Store) -> list[tuple[object, ...]]:
    """What the rows say, but for times."""
    return [
        (
            *(run.key, run.config, run.status, run.steps, run.solved_at, run.accuracy, run.low, run.high),
            *(run.correct, run.examples, run.label_accuracy, run.loss, run.provenance["threads"]),
            *sorted(run.provenance),
        )
        for run in sorted(store.runs(), key=lambda run: run.key)
    ]


def contents(store: Store) -> dict[str, bytes]:
    """Weights and curves, by name."""
    return {
        str(path.relative_to(store.path)): path.read_bytes()
        for kind in ("weights", "curves")
        for path in sorted((store.path / kind).iterdir())
    }


def trained_here(jobs: list[Job], place: Path, *, seats: int | None = None) -> Store:
    store = Store(place)
    for job in jobs:
        run_job(job, store=store, device="cpu", seats=seats)
    return store


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As a node's tasks have, so that sums are taken in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> PretendedRay:
    pretended = PretendedRay()

    @contextmanager
    def connect(_: str | None) -> Iterator[PretendedRay]:
        yield pretended

    monkeypatch.setattr(ray_engine, "connected", connect)
    return pretended


def engine(retries: int = 2, seats: int | None = None) -> RayEngine:
    return RayEngine(gpus_per_job=0, checkpoint_seconds=0, retries=retries, seats=seats)


@pytest.mark.slow
def test_the_store_is_that_of_a_local_run(ray: PretendedRay, tmp_path: Path) -> None:
    jobs = [small_job(5), HALVED, FIRST]
    said: list[str] = []
    near, far = trained_here(jobs, tmp_path / "near", seats=2), Store(tmp_path / "far")
    ran = engine(seats=2).run(jobs, far, tell=said.append)
    assert (ran.done, ran.failed, ran.interrupted) == (3, (), False)
    assert facts(far) == facts(near)
    assert contents(far) == contents(near)
    assert {run.status for run in far.runs()} == {"done", "dropped", "stopped"}
    for job in jobs:
        assert [run.key for run in far.members(job.key)] == [run.key for run in near.members(job.key)]
    assert sum("begun" in line for line in said) == sum("done in" in line for line in said) == 3
    assert ray.options["max_retries"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("job", [small_job(5), HALVED, FIRST], ids=["each", "halved", "first"])
@pytest.mark.parametrize("news", [0, 1, 2, 3, 5])
def test_a_lost_job_goes_on_elsewhere(ray: PretendedRay, tmp_path: Path, job: Job, news: int) -> None:
    ray.deaths = {0: news}
    said: list[str] = []
    far = Store(tmp_path / "far")
    ran = engine(seats=2).run([job], far, tell=said.append)
    assert (ran.done, ran.failed) == (1, ())
    assert any("tried again: The node is dead" in line for line in said)
    assert any("Going on from step" in line for line in said) == (news >= 3), said
    near = trained_here([job], tmp_path / "near", seats=2)
    assert facts(far) == facts(near)
    assert contents(far) == contents(near)


@pytest.mark.slow
def test_a_job_that_is_lost_every_time_fails_and_the_others_go_on(ray: PretendedRay, tmp_path: Path) -> None:
    lost, other = small_job(5), small_job(6)
    ray.resources["CPU"] = 1  # so that the first is sent again before the third is begun
    ray.deaths = {0: 0, 2: 0, 3: 0}
    store = Store(tmp_path)
    ran = engine().run([lost, other, small_job(4)], store, tell=lambda _: None)
    assert ran.done == 2
    assert [failure.job for failure in ran.failed] == [lost]
    assert "lost 3 times" in ran.failed[0].reason
    with store.claim(lost.key):  # nobody holds it any more
        pass


def test_what_a_node_refuses_is_a_failure(
    ray: PretendedRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.resources["GPU"] = 1
    ran = RayEngine(gpus_per_job=0.5).run([small_job(5)], Store(tmp_path), tell=lambda _: None)
    assert ran.done == 0
    assert "There is no CUDA device here" in ran.failed[0].reason
    assert ray.options["num_gpus"] == 0.5
    monkeypatch.setattr(ray_engine, "__version__", "0.0.0")
    ran = engine().run([small_job(5)], Store(tmp_path), tell=lambda _: None)
    assert "the job needs 0.0.0" in ran.failed[0].reason


def test_a_job_that_another_process_trains_is_left_to_it(ray: PretendedRay, tmp_path: Path) -> None:
    store = Store(tmp_path)
    taken = small_job(5)
    with store.claim(taken.key):
        ran = engine().run([taken, small_job(4)], store, tell=lambda _: None)
    assert ran.done == 1
    assert "is being trained by" in ran.failed[0].reason


@pytest.mark.slow
def test_ctrl_c_leaves_a_store_that_goes_on(ray: PretendedRay, tmp_path: Path) -> None:
    store, job = Store(tmp_path / "far"), small_job(5)

    def interrupt() -> None:
        if any(store.folder_of(job.key).glob("step-*")):
            signal.raise_signal(signal.SIGINT)
            ray.between = lambda: None

    ray.between = interrupt
    with pytest.raises(KeyboardInterrupt):
        engine().run([job, small_job(6)], store, tell=lambda _: None)
    assert {run.status for run in store.members(job.key)} == {"running"}
    assert all(run.steps >= 5 for run in store.members(job.key))
    assert ray.cancelled == ray.streams
    said: list[str] = []
    ray.streams.clear()
    assert engine().run([job], store, tell=said.append).done == 1
    assert any("Going on from step" in line for line in said)
    near = trained_here([job], tmp_path / "near")
    assert {name: content for name, content in contents(store).items() if name in contents(near)} == contents(
        near
    )


def test_a_task_that_no_node_can_begin_is_a_failure(ray: PretendedRay, tmp_path: Path) -> None:
    ray.deaths, ray.death = {0: 0}, TaskError("Traceback:\n  line 1\nNo module named 'separatrix'")
    ran = engine().run([small_job(5), small_job(4)], Store(tmp_path), tell=lambda _: None)
    assert [failure.reason for failure in ran.failed] == ["No module named 'separatrix'"]
    assert ran.done == 1


def test_a_cluster_that_is_gone(ray: PretendedRay, tmp_path: Path) -> None:
    ray.deaths, ray.death = {0: 3}, RayError("The head is dead. It was at 127.0.0.1.")
    store, job = Store(tmp_path), small_job(5)
    with pytest.raises(InvalidInput, match=r"The cluster is gone: The head is dead\. .* run the same again"):
        engine().run([job], store, tell=lambda _: None)
    with store.claim(job.key) as checkpoints:
        assert checkpoints.load().checkpoint is not None


def test_a_place_that_no_node_has_is_refused(ray: PretendedRay, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"1 GPUs and 1 CPUs, and no node .* more than 0 and 2; .* 0 GPUs"):
        RayEngine().run([small_job(5)], Store(tmp_path), tell=lambda _: None)
    assert not ray.streams


def test_no_jobs_need_no_cluster(tmp_path: Path) -> None:
    assert RayEngine(address="127.0.0.1:1").run([], Store(tmp_path), tell=lambda _: None).done == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gpus_per_job": 2.0}, "a part of one"),
        ({"gpus_per_job": -1.0}, "a part of one"),
        ({"cpus_per_job": 0.0}, "needs CPUs"),
        ({"retries": -1}, "retries=-1"),
        ({"checkpoint_seconds": -1.0}, "every so many seconds"),
    ],
)
def test_settings_that_make_no_sense(given: dict[str, float], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        RayEngine(**given)  # type: ignore[arg-type]


def test_addresses_that_do_not_answer(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = small_job(5)
    for address, words in [
        (f"127.0.0.1:{port}", f"No Ray cluster answers at 127.0.0.1:{port}: Connection refused"),
        ("ray://127.0.0.1:10001", "not come back through Ray's client"),
        ("nowhere", "an address such as 10.0.0.1:6379; got 'nowhere'"),
        ("host:123456", "an address such as"),
    ]:
        with pytest.raises(InvalidInput, match=words.replace(".", r"\.")):
            RayEngine(address=address).run([job], Store(tmp_path), tell=lambda _: None)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(InvalidInput, match=r"pip install 'separatrix\[cluster\]'"), connected(None):
        pass


@pytest.mark.extra
def test_something_else_that_listens_is_no_cluster() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(InvalidInput, match=f"No Ray cluster answers at {address}: "), connected(address):
            pass


@pytest.mark.extra
@pytest.mark.slow
def test_one_of_two_nodes_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = replace(TINY, steps=400, batch=8, eval_every=20, eval_examples=100)
    jobs = [small_job(n, training=training) for n in (8, 7, 6, 5)]
    said: list[str] = []
    store = Store(tmp_path / "far")
    with within(80), loopback_cluster(monkeypatch) as cluster:
        second = cluster.add_node(**loopback_node())
        over = threading.Event()

        def kill() -> None:
            """When both nodes have sent a checkpoint."""
            while len({path.parent for path in store.path.glob("checkpoints/*/step-*")}) < 2:
                if over.wait(0.02):
                    return
            cluster.remove_node(second, allow_graceful=False)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            cluster_engine = RayEngine(address=cluster.address, gpus_per_job=0, checkpoint_seconds=0.2)
            ran = cluster_engine.run(jobs, store, tell=said.append)
        finally:
            over.set()
            killer.join()
    assert (ran.done, ran.failed, ran.interrupted) == (4, (), False), said
    assert any("tried again" in line for line in said), said
    near = trained_here(jobs, tmp_path / "near")
    assert facts(store) == facts(near)
    assert contents(store) == contents(near)
