# SPDX-License-Identifier: MIT
"""Synchronous training by examples of SyncReplicasOptimizer's: what is as there, and what is not, on purpose.

As there: a step is the mean of N gradients, however many workers compute them, and the global step counts updates.
Not as there: no gradient is dropped as stale, no step has more than N, a step needs neither a chief nor the worker that a
token was given to.
"""

import json
import os
import random
import re
import signal

import pytest

from cluster_cases import Cluster
from conftest import TSAN, wait_for
from test_trainer import newest, read_checkpoint, served, store, train  # noqa: F401, fixtures

N, ROWS = 3, 20
MODEL = {"model": "mlp", "hidden_units": 16, "batch_size": ROWS}


def state(logdir):
    return read_checkpoint(newest(logdir))[1]


def position(logdir):
    return json.loads(read_checkpoint(newest(logdir))[0]["sampler"])


@pytest.fixture
def in_step(start, served, store, tmp_path):  # noqa: F811
    """in_step("name", workers=..., ...) -> Cluster of one server and steps of N batches, not started; its logdir has that name."""

    def make(name, **chosen):
        return Cluster(start, served, store, tmp_path / name,
                       **{"servers": 1, "workers": N, "sync": True, "replicas_to_aggregate": N, **MODEL, **chosen})

    return make


# ---- as there -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss, share", [("mean", 1), ("sum", N)])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad"])
def test_a_step_is_the_mean_of_its_gradients(in_step, served, store, tmp_path, loss, share, optimizer):  # noqa: F811
    """One process with batches of N times the rows learns the same; of a loss that is a sum the mean of N is an Nth.

    Adagrad's updates do not depend on such a factor but for what its slots begin with, which gets it squared."""
    rate, slots = 0.002, {}
    if optimizer == "adagrad":
        slots = {"initial_accumulator": 0.1 * share * share}
    options = {"optimizer": optimizer, "loss": loss, "train_steps": 12}
    trained = in_step("together", learning_rate=rate, **options).start_all().wait()
    alone_rate = rate if optimizer == "adagrad" else rate / share
    train(served, store, tmp_path / "alone", learning_rate=alone_rate, print_every=0, **{**MODEL, **options, **slots, "batch_size": N * ROWS})
    ours, theirs = state(trained.logdir), state(tmp_path / "alone")
    assert ours["global_step"] == theirs["global_step"]
    for name in ("hid_w", "hid_b", "sm_w", "sm_b"):
        assert ours[name][1] == pytest.approx(theirs[name][1], rel=1e-4, abs=1e-6), name
    assert position(trained.logdir)["next_index"] * ROWS == position(tmp_path / "alone")["next_index"] * N * ROWS


def test_global_steps_are_updates_and_not_batches(in_step):
    trained = in_step("run", train_steps=50).start_all().wait()
    assert state(trained.logdir)["global_step"][1] == (50,)
    assert position(trained.logdir)["next_index"] == 50 * N and "holes" not in position(trained.logdir)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_may_be_fewer_or_more_than_gradients(in_step, workers):
    """Fewer make several batches a step; more are spare. No gradient is dropped, and none is one too many."""
    expected = state(in_step("expected", train_steps=50).start_all().wait().logdir)
    trained = in_step("run", workers=workers, train_steps=50).start_all().wait()
    assert state(trained.logdir) == expected


# ---- not as there -------------------------------------------------------------------------------------------


def check_goes_on_without(trained, index, how):
    """Every worker is needed for a step, none is spare, and this one is gone in the middle."""
    trained.start_all()
    wait_for(lambda: trained.saved_step() > 0, "no checkpoint")
    trained.workers[index].signal(how)
    for one in [*trained.ps, *(worker for at, worker in enumerate(trained.workers) if at != index)]:
        assert one.wait() == 0, one.stderr
    if how == signal.SIGSTOP:
        trained.workers[index].process.send_signal(signal.SIGCONT)
        assert trained.workers[index].wait() == 0, trained.workers[index].stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("index", [0, 1])
def test_a_step_needs_no_chief_and_no_single_worker(in_step, index, how):
    """There, without the chief no step is made, and a worker that dies with its token is waited for without end."""
    steps = {"train_steps": 600, "save_secs": 0.05}
    expected = state(in_step("expected", **steps).start_all().wait().logdir)
    trained = in_step("run", **steps)
    check_goes_on_without(trained, index, how)
    assert state(trained.logdir) == expected


def test_a_worker_that_comes_late_takes_part_at_once(in_step):
    """There, who comes late finds no token until the step is through, or drops what it computed."""
    trained = in_step("run", workers=1, train_steps=10**9, save_secs=0.05)
    trained.start_server(0), trained.start_worker(0)
    trained.go_on()
    late = [trained.start_worker(index, listed=False) for index in (5, 6)]
    for one in late:
        one.wait_for_log(r"step [1-9]\d* of")
    trained.end_soon(50)
    expected = in_step("expected", train_steps=state(trained.logdir)["global_step"][1][0]).start_all().wait()
    assert state(trained.logdir) == state(expected.logdir)


# ---- threads -------------------------------------------------------------------------------------------------

WIDE = {"model": "mlp", "hidden_units": "100,30", "batch_size": 100, "train_steps": 10 if TSAN else 40, "print_every": 0}
THREADS = (1, 2, 3, 5)


@pytest.mark.threads
@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_threads_change_no_bit(served, store, tmp_path, optimizer):  # noqa: F811
    """Also where they do not divide anything, and are more than there are processors."""
    found = set()
    for threads in THREADS:
        done = train(served, store, tmp_path / str(threads), threads=threads, optimizer=optimizer, learning_rate=0.001, **WIDE)
        used = int(re.search(r"computing on .*, (\d+) threads?$", done.stderr, re.MULTILINE)[1])
        assert min(threads, 2, len(os.sched_getaffinity(0))) <= used <= threads
        found.add(newest(tmp_path / str(threads)).read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize("blas", ["onednn", "openblas", "openblas:Prescott", "plain"])
def test_threads_change_no_bit_of_dense_products(sampler, tmp_path, blas):  # noqa: F811
    """No value is zero, so that the library computes all of it."""
    table = tmp_path / "dense.csv"
    dice = random.Random(1)
    table.write_text("".join(f"{row % 10}," + ",".join(str(1 + byte % 255) for byte in dice.randbytes(400)) + "\n" for row in range(500)))
    store = f"csv:{table}?label=0&header=no"  # noqa: F811
    served = sampler("--store", store, "--seed", 5)  # noqa: F811
    found, wide = set(), {**WIDE, "hidden_units": "400,130"}
    if blas == "plain":  # slow: no more than what is still computed in two parts
        wide.update(hidden_units="176,30", train_steps=5)
    for threads in THREADS:
        train(served, store, tmp_path / str(threads), threads=threads, blas=blas, **wide)
        found.add(newest(tmp_path / str(threads)).read_bytes())
    assert len(found) == 1


def test_workers_may_have_different_numbers_of_threads(in_step):
    expected = state(in_step("expected", **WIDE).start_all().wait().logdir)
    trained = in_step("run", workers=len(THREADS), **WIDE)
    trained.start_server(0, threads=3)
    for index, threads in enumerate(THREADS):
        trained.start_worker(index, threads=threads)
    trained.wait()
    assert state(trained.logdir) == expected
