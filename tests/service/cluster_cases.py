# SPDX-License-Identifier: MIT
"""A training with parameter servers, for the tests that start one; and what says that each batch was learnt from once."""

import json
import math
from pathlib import Path

import pytest

from conftest import PATIENCE_S, free_port, preloaded, wait_for
from test_trainer import checkpoints, newest, options, read_checkpoint, train

# A model whose gradients do not depend on what was learnt before: logits stay so small that every class keeps the same
# probability to the last bit. Adagrad's slots are then sums over batches, of squares that each batch alone decides, in
# whatever order they come: a batch that is missing or counts twice shows in them.
ADDITIVE = {"model": "softmax", "hidden_units": None, "optimizer": "adagrad", "learning_rate": "1e-30", "batch_size": 20}


ANSWER_MS = 20  # then a cluster, which asks for 32 batches at a time, needs a tenth of the processors


@pytest.fixture
def paced(sampler, store, library):
    """A sampler of the demo data with seed 7 that answers slowly: where a cluster trains while something else is waited for, it
    need not take all processors. `again(ms)`: a slower one of the same order; `prompt()`: one for who need not wait."""
    slow = preloaded(library(Path(__file__).resolve().with_name("slow_answers.c")))

    def serve(answer_ms):
        return sampler("--store", store, "--seed", 7, env=slow | {"SLOW_ANSWERS_MS": str(answer_ms)})

    served = serve(ANSWER_MS)
    served.again = serve
    served.prompt = lambda: sampler("--store", store, "--seed", 7)
    return served


class Cluster:
    """Parameter servers and workers on free ports of this machine; `start` as the fixture of that name.

    Every other worker uses TCP alone, the rest memory that they share with the servers."""

    def __init__(self, start, served, store, logdir, servers=2, workers=2, **chosen):
        self.start, self.logdir, self.env = start, logdir, None
        flags = [f"--{name}" for name, value in chosen.items() if value is True]
        chosen = {name: value for name, value in chosen.items() if value is not True}
        self.words = [*options(served, store, logdir, **{"patience": PATIENCE_S, "print_every": 0, **chosen}), *flags]
        hosts = [f"localhost:{free_port()}" for _ in range(servers + workers)]
        self.servers, self.hosts = hosts[:servers], hosts[servers:]
        self.ps, self.workers = [None] * servers, []

    def task(self, job, index, listed=True, prefix=(), env=None, **more):
        """`listed`: it knows the list of workers, and is in it."""
        words = [*self.words, "--job_name", job, "--task_index", index]
        if index % 2 and "--ps_transport" not in words:
            words += ["--ps_transport", "tcp"]
        if listed:
            words += ["--worker_hosts", ",".join(self.hosts)]
        if self.servers:
            words += ["--ps_hosts", ",".join(self.servers)]
        for name, value in more.items():
            if f"--{name}" in words:
                at = words.index(f"--{name}")
                words = [*words[:at], *words[at + 2:]]
            words += [f"--{name}"] if value is True else [f"--{name}", value]
        return self.start("trainer", *words, prefix=prefix, env=env or self.env)

    def start_server(self, index, **more):
        self.ps[index] = self.task("ps", index, **more)
        return self.ps[index]

    def start_worker(self, index, **more):
        self.workers.append(self.task("worker", index, **more))
        return self.workers[-1]

    def start_all(self):
        for index in range(len(self.servers)):
            self.start_server(index)
        for index in range(len(self.hosts)):
            self.start_worker(index)
        return self

    def end_at(self, last):
        """The last step, of those that are started from now on; those of before are forgotten."""
        at = self.words.index("--train_steps")
        self.words[at + 1] = last
        self.workers = []

    def saved_step(self):
        """Of the newest checkpoint; -1: there is none."""
        return max(checkpoints(self.logdir), default=-1) if self.logdir.exists() else -1

    def go_on(self):
        """There are two cuts after the one of now: all of the second is of later than now."""
        for _ in range(2):
            step = self.saved_step()
            wait_for(lambda before=step: self.saved_step() > before, f"it does not go on after step {step}")

    def end_of_learnt(self):
        """The step behind all batches that the newest checkpoint has learnt from: where each is a step, some before the last one
        may be missing."""
        metadata, tensors = read_checkpoint(newest(self.logdir))
        return tensors["global_step"][1][0] if "--sync" in self.words else json.loads(metadata["sampler"])["next_index"]

    def end_soon(self, steps):
        """However fast it trains, it ends so many steps behind all that it has learnt from: all are killed, and started
        again."""
        for one in [*self.ps, *self.workers]:
            assert one.process.poll() is None, f"it ended by itself, {one.process.returncode}\n{one.stderr[-4000:]}"
            one.kill()
        last = self.end_of_learnt() + steps
        self.end_at(last)
        self.start_all().wait()
        return last

    def wait(self):
        """Until all that were not killed have ended, with 0."""
        for one in [*self.ps, *self.workers]:
            if not one.sent:
                status = one.wait()
                assert status == 0, f"{status}: {one.process.args}\n{one.stderr[-4000:]}"
        return self


def sums(logdir):
    """(global step, Adagrad's slots) of the newest checkpoint of an ADDITIVE training."""
    _, tensors = read_checkpoint(newest(logdir))
    return tensors["global_step"][1][0], tensors["sm_w/Adagrad"][1] + tensors["sm_b/Adagrad"][1]


def check_each_batch_once(logdir, served, store, tmp_path, steps, **chosen):
    """The newest checkpoint has learnt from batches 0 to steps - 1, from each once. `chosen`: else than in ADDITIVE."""
    alone = tmp_path / "alone"
    if not alone.exists():
        prompt = served.prompt() if hasattr(served, "prompt") else served
        train(prompt, store, alone, train_steps=steps, print_every=0, **{**ADDITIVE, **chosen})
    step, found = sums(logdir)
    assert step == steps
    expected = sums(alone)[1]
    smallest = min(value - 0.1 for value in expected if value - 0.1 > 1e-3)
    assert smallest / steps > 0 and len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert math.isclose(ours, theirs, rel_tol=2e-5), f"{ours} is not {theirs}: a batch is missing, or counted twice"
