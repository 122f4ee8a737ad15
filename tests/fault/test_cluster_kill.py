# SPDX-License-Identifier: MIT
"""Workers and parameter servers that are killed and stopped at random: every batch counts once in the model that is left."""

import random
import signal
import time

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once
from service import LONG, PATIENCE_S, SEED, wait_for
from test_trainer import checkpoints, newest, read_checkpoint, served, store  # noqa: F401, fixtures

EVENTS = 200 if LONG else 12
REST = 300  # steps that are learnt when all of them have happened


def kill(one):
    assert one.process.poll() is None, f"it ended by itself, {one.process.returncode}\n{one.stderr[-4000:]}"
    one.kill()


class Disturbed(Cluster):
    """One that is disturbed: what is killed comes back at once, or a moment later."""

    def __init__(self, *arguments, chance, **more):
        super().__init__(*arguments, **more)
        self.chance = chance

    def kill_server(self, index):
        kill(self.ps[index])
        time.sleep(self.chance.choice((0, 0, 0.7)))
        self.start_server(index)

    def kill_worker(self, index):
        kill(self.workers[index])
        time.sleep(self.chance.choice((0, 0.3)))
        self.workers[index] = self.task("worker", index)

    def pause(self, one):
        one.process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.choice((0.05, 0.3, 1.5)))
        one.process.send_signal(signal.SIGCONT)

    def disturb(self):
        servers, workers = range(len(self.ps)), range(len(self.workers))
        happens = self.chance.random()
        if happens < 0.25:
            self.kill_server(self.chance.choice(servers))
        elif happens < 0.6:
            self.kill_worker(self.chance.choice(workers))
        elif happens < 0.8:
            self.pause(self.ps[self.chance.choice(servers)])
        elif happens < 0.97:
            self.pause(self.workers[self.chance.choice(workers)])
        else:
            self.kill_server(0), self.kill_server(1)

    def kill_all(self):
        for one in [*self.ps, *self.workers]:
            kill(one)


def disturb_to_the_end(trained, chance):
    """However fast it trains: the last step is set when all of it has happened. Returns that step."""
    trained.start_all()
    wait_for(lambda: trained.logdir.exists() and checkpoints(trained.logdir), "no checkpoint")
    for _ in range(EVENTS):
        time.sleep(chance.uniform(0, 0.5))
        trained.disturb()
    trained.kill_all()
    _, tensors = read_checkpoint(newest(trained.logdir))
    last = tensors["global_step"][1][0] + REST
    trained.end_at(last)
    trained.start_all().wait()
    return last


@pytest.mark.heavy
def test_random_kills_and_stops_lose_and_repeat_nothing(start, served, store, tmp_path):  # noqa: F811
    chance = random.Random(SEED)
    trained = Disturbed(start, served, store, tmp_path / "run", chance=chance, workers=3, train_steps=10**9, save_secs=0.3,
                        **{**ADDITIVE, "patience": PATIENCE_S})
    last = disturb_to_the_end(trained, chance)
    check_each_batch_once(trained.logdir, served, store, tmp_path, last)


@pytest.mark.heavy
def test_in_step_they_change_no_bit(start, served, store, tmp_path):  # noqa: F811
    chance = random.Random(SEED + 1)
    options = {"sync": True, "replicas_to_aggregate": 2, "batch_size": 20, "hidden_units": 8, "save_secs": 0.3, "patience": PATIENCE_S}
    trained = Disturbed(start, served, store, tmp_path / "run", chance=chance, workers=3, train_steps=10**9, **options)
    last = disturb_to_the_end(trained, chance)
    calm = Cluster(start, served, store, tmp_path / "calm", servers=1, train_steps=last, **options).start_all().wait()
    assert read_checkpoint(newest(trained.logdir))[1] == read_checkpoint(newest(calm.logdir))[1]
