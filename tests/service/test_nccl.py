# SPDX-License-Identifier: MIT
"""--exchange nccl: workers whose GPUs add up their gradients by themselves, on emulated GPUs and an emulated NCCL (tests/cuda)."""

import json
import random
import re
import signal
import time

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once, paced  # noqa: F401, fixture
from conftest import BUILD, SEED, wait_for
from test_trainer import newest, read_checkpoint, served, store, test_store, train  # noqa: F401, fixtures

N, ROWS = 2, 20
MODEL = {"model": "mlp", "hidden_units": 16, "batch_size": ROWS}


def is_emulated():
    found = re.search(r"^NVCC = (.*)$", (BUILD / "Makefile").read_text(), re.MULTILINE)
    return bool(found and found[1]) and "emulated" in open(found[1], encoding="utf-8", errors="replace").read()


@pytest.fixture(autouse=True, scope="module")
def needs_emulation():
    if not is_emulated():
        pytest.skip("no emulated NCCL, or a real one")


def state(logdir):
    return read_checkpoint(newest(logdir))[1]


def position(logdir):
    return json.loads(read_checkpoint(newest(logdir))[0]["sampler"])


class Group(Cluster):
    """A cluster whose worker i trains on GPU i % 2 of two emulated ones; of more than two, each process has a machine's GPU of its own."""

    def task(self, job, index, **more):
        if job == "worker":
            more = {"device": f"cuda:{index % 2}", **more}
        return super().task(job, index, **more)


@pytest.fixture
def grouped(start, served, store, tmp_path):  # noqa: F811
    """grouped("name", ...) -> Group of one server and steps of N batches, not started; its logdir has that name."""

    def make(name, sampled=None, **chosen):
        options = {"servers": 1, "workers": N, "sync": True, "exchange": "nccl", "replicas_to_aggregate": N, **MODEL, **chosen}
        made = Group(start, sampled or served, store, tmp_path / name, **options)
        made.env = {"TMPDIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0,1"}  # the part asan hides them
        return made

    return make


def of_one_group(grouped, name, **chosen):
    """A training that both workers made together from its first step to its last: who is late for 5 s is left out for a while,
    and then another one is made."""
    made = []

    def is_of_one_group():
        made.append(grouped(f"{name}{len(made)}", **chosen).start_all().wait())
        begun = [re.findall("rank . of (.) GPUs that train together, from step (.*) on", worker.stderr) for worker in made[-1].workers]
        return begun == [[("2", "0")]] * N

    wait_for(is_of_one_group, "one of them is always late")
    return made[-1]


@pytest.mark.parametrize("servers", [0, 1])
def test_two_gpus_learn_what_servers_would(grouped, start, served, store, tmp_path, servers):  # noqa: F811
    trained = of_one_group(grouped, "together", servers=servers, train_steps=40)
    plain = Cluster(start, served, store, tmp_path / "servers",
                    **{"servers": 1, "workers": N, "sync": True, "replicas_to_aggregate": N, **MODEL, "train_steps": 40, "device": "cpu"})
    plain.start_all().wait()
    ours, theirs = state(trained.logdir), state(plain.logdir)
    assert ours["global_step"] == theirs["global_step"]
    assert position(trained.logdir) == position(plain.logdir)
    for name, (_, values) in theirs.items():
        assert ours[name][1] == pytest.approx(values, rel=1e-3, abs=1e-5), name


def test_the_same_gpus_give_the_same_bits(grouped):
    first, second = (of_one_group(grouped, name, train_steps=30) for name in ("first", "second"))
    assert state(first.logdir) == state(second.logdir)


# ---- who comes, goes, dies, stops ---------------------------------------------------------------------------

STEPS = 100000  # more than a test waits for


@pytest.fixture
def endless(grouped, paced):  # noqa: F811
    """A started training of an ADDITIVE model whose end the test decides; both workers train together."""
    trained = grouped("run", sampled=paced, save_secs=0.3, **{**ADDITIVE, "train_steps": STEPS}).start_all()
    for worker in trained.workers:
        worker.wait_for_log("rank [01] of 2 GPUs")
    return trained


def check_once(trained, paced, store, tmp_path, steps):  # noqa: F811
    """A step's gradient is that of one batch of as many rows as its N batches have."""
    check_each_batch_once(trained.logdir, paced, store, tmp_path, steps, batch_size=N * ADDITIVE["batch_size"], device="cpu")
    assert position(trained.logdir)["next_index"] == steps * N and "holes" not in position(trained.logdir)


@pytest.mark.parametrize("index", [0, 1])
def test_a_killed_worker_costs_no_batch(endless, paced, store, tmp_path, index):  # noqa: F811
    endless.go_on()
    endless.workers.pop(index).kill()
    other = endless.workers[0]
    other.wait_for_log("rank 0 of 1 GPUs")
    endless.go_on()
    endless.start_worker(index)
    other.wait_for_log("rank [01] of 2 GPUs that train together, from step [1-9]")
    endless.go_on()
    steps = endless.end_soon(20)
    check_once(endless, paced, store, tmp_path, steps)


def test_a_stopped_worker_is_left_out_and_comes_back(endless, paced, store, tmp_path):  # noqa: F811
    endless.go_on()
    endless.workers[1].process.send_signal(signal.SIGSTOP)
    endless.ps[0].wait_for_log("has been silent for 5 s")
    endless.workers[0].wait_for_log("rank 0 of 1 GPUs")
    endless.go_on()
    endless.workers[1].process.send_signal(signal.SIGCONT)
    endless.workers[0].wait_for_log("rank 0 of 2 GPUs that train together, from step [1-9]")
    endless.go_on()
    steps = endless.end_soon(20)
    check_once(endless, paced, store, tmp_path, steps)


def test_a_worker_that_comes_late_takes_part(grouped, paced, store, tmp_path):  # noqa: F811
    trained = grouped("run", sampled=paced, save_secs=0.3, **{**ADDITIVE, "train_steps": STEPS})
    trained.start_server(0)
    trained.start_worker(0).wait_for_log("rank 0 of 1 GPUs")
    trained.go_on()
    trained.start_worker(1).wait_for_log("rank 1 of 2 GPUs that train together, from step [1-9]")
    trained.workers[0].wait_for_log("rank 0 of 2 GPUs")
    trained.go_on()
    steps = trained.end_soon(20)
    check_once(trained, paced, store, tmp_path, steps)


def test_a_worker_more_than_a_step_has_batches_is_spare(grouped, paced, store, tmp_path):  # noqa: F811
    trained = grouped("run", sampled=paced, save_secs=0.3, workers=3, **{**ADDITIVE, "train_steps": STEPS})
    trained.start_server(0)
    for worker in [trained.start_worker(0), trained.start_worker(1)]:
        worker.wait_for_log("rank [01] of 2 GPUs")
    trained.start_worker(2, device="cuda:0").wait_for_log("gradients are exchanged by NCCL")
    trained.go_on()
    trained.workers.pop(0).kill()
    trained.workers[1].wait_for_log("rank 1 of 2 GPUs that train together, from step [1-9]")
    trained.hosts.pop()
    steps = trained.end_soon(20)
    check_once(trained, paced, store, tmp_path, steps)


def test_a_server_that_is_killed_goes_back_to_the_last_cut(endless, paced, store, tmp_path):  # noqa: F811
    endless.go_on()
    endless.ps[0].kill()
    endless.workers[0].wait_for_log("waiting for parameter server 0")
    endless.start_server(0).wait_for_log("2 GPUs train together")
    endless.go_on()
    steps = endless.end_soon(20)
    check_once(endless, paced, store, tmp_path, steps)


@pytest.mark.parametrize("stopped", ["worker", "all"])
def test_sigterm_loses_no_step(endless, paced, store, tmp_path, stopped):  # noqa: F811
    endless.go_on()
    ended = endless.workers[:1] if stopped == "worker" else [*endless.workers, endless.ps[0]]
    for one in ended:
        one.terminate()
    for one in ended:
        assert one.wait() == 143, one.stderr
    if stopped == "worker":
        endless.workers.pop(0)
        endless.workers[0].wait_for_log("rank 0 of 1 GPUs")
        endless.go_on()
    steps = endless.saved_step() + 10
    for one in [*endless.workers, endless.ps[0]]:
        one.kill()
    endless.end_at(steps)
    endless.start_all().wait()
    check_once(endless, paced, store, tmp_path, steps)


def test_random_kills_lose_and_repeat_nothing(endless, paced, store, tmp_path):  # noqa: F811
    """Workers above all, at any moment of a group's life: while it connects, shares its values, adds up, updates."""
    chance = random.Random(SEED)
    for _ in range(12):
        time.sleep(chance.choice([0, 0.05, 0.3, 1]))
        if chance.random() < 0.15:
            endless.ps[0].kill()
            endless.start_server(0)
        else:
            index = chance.randrange(N)
            endless.workers[index].kill()
            endless.workers[index] = endless.task("worker", index)
    endless.go_on()
    steps = endless.end_soon(20)
    check_once(endless, paced, store, tmp_path, steps)


def test_an_evaluator_ends_the_training(grouped, test_store):  # noqa: F811
    """Of a model that gets no better: all exit 0, with the step at which they heard of it."""
    trained = grouped("run", save_secs=0.1, test_every=0, test_store=test_store, early_stopping=2,
                      **{**ADDITIVE, "train_steps": 10**9})
    watching = trained.task("evaluator", 0)
    trained.start_all().wait()
    assert watching.wait() == 0, watching.stderr
    assert "stopped early" in watching.stderr
    step = state(trained.logdir)["global_step"][1][0]
    assert 0 < step < 10**9 and position(trained.logdir)["ended"]
    assert position(trained.logdir)["next_index"] == step * N


@pytest.mark.parametrize("first", ["gpus", "alone"])
def test_either_goes_on_from_the_others_checkpoint(grouped, paced, store, tmp_path, first):  # noqa: F811
    """Two GPUs and one process on the CPU, in either order. What each learns from one batch follows from the batch alone, so that
    sums over steps of both kinds are those of the same steps made by servers and one process."""
    chosen = {**ADDITIVE, "print_every": 0}
    logdirs = []
    for exchange in ("nccl", "servers"):
        logdir, options = tmp_path / exchange, {"exchange": exchange, "device": "cpu"} if exchange == "servers" else {}
        steps = (20, 50) if first == "gpus" else (30, 50)
        for last, together in zip(steps, (first == "gpus", first != "gpus")):
            if together:
                grouped(exchange, sampled=paced, **{**chosen, **options, "train_steps": last}).start_all().wait()
            else:
                train(paced, store, logdir, **{**chosen, "device": "cpu", "train_steps": last})
        assert position(logdir)["next_index"] == (20 * N + 30 if first == "gpus" else 30 + 20 * N)
        logdirs.append(state(logdir))
    ours, theirs = logdirs
    assert ours["global_step"] == theirs["global_step"]
    for name, (_, values) in theirs.items():
        assert ours[name][1] == pytest.approx(values, rel=1e-4, abs=1e-7), name


def test_the_stream_ends_within_a_step(grouped, sampler, store):
    """2000 rows are 67 batches of 30, of which the last step has one."""
    once = sampler("--store", store, "--seed", 7, "--epochs", 1)
    trained = grouped("run", sampled=once, batch_size=30, train_steps=1000).start_all().wait()
    assert state(trained.logdir)["global_step"][1] == (34,)
    assert position(trained.logdir)["next_index"] == 67


# ---- what is refused ----------------------------------------------------------------------------------------


def test_two_workers_on_one_gpu_are_told(grouped):
    trained = grouped("run", servers=0)
    workers = [trained.start_worker(index, device="cuda:0") for index in range(2)]
    for worker in workers:
        assert worker.wait() == 2, worker.stderr
        assert "each worker needs a GPU of its own" in worker.stderr and "Duplicate GPU" in worker.stderr


def test_a_worker_without_nccl_is_told(grouped, tmp_path):
    """There is a file of that name, which is not NCCL."""
    toolkit = re.search(r"^NVCC = (.*)/bin/nvcc$", (BUILD / "Makefile").read_text(), re.MULTILINE)[1]
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("libcublas.so.13", "libnccl.so.2"):
        (libraries / name).symlink_to(f"{toolkit}/lib64/libcublas.so.13")
    trained = grouped("run", servers=0)
    trained.env["LD_LIBRARY_PATH"] = str(libraries)
    worker = trained.start_worker(0)
    assert worker.wait() == 1, worker.stderr
    assert "NCCL (libnccl.so.2): NCCL has no function ncclGetVersion" in worker.stderr


@pytest.mark.parametrize("chosen, says", [
    ({"sync": None}, "--exchange nccl is for synchronous training: give --sync too"),
    ({"servers": 2}, "--exchange nccl takes one parameter server, which counts batches and saves, or none, not 2"),
    ({"device": "cpu"}, "--exchange nccl is for GPUs, and --device is cpu"),
])
def test_options_that_contradict_it_are_told(grouped, chosen, says):
    options = {key: value for key, value in {"sync": True, "replicas_to_aggregate": N, **chosen}.items() if value is not None}
    trained = grouped("run", **{"servers": 0, **options}) if "sync" in options else None
    if trained is None:
        trained = grouped("run", servers=0)
        trained.words = [word for word in trained.words if word != "--sync"]
        at = trained.words.index("--replicas_to_aggregate")
        del trained.words[at:at + 2]
    worker = trained.start_worker(0, **({"device": "cpu"} if chosen.get("device") else {}))
    assert worker.wait() == 2, worker.stderr
    assert says in worker.stderr


def test_a_worker_with_another_exchange_is_told(grouped):
    trained = grouped("run")
    trained.start_server(0)
    worker = trained.start_worker(0, exchange="servers")
    assert worker.wait() == 2, worker.stderr
    assert "its --exchange is servers, this server's nccl" in worker.stderr
