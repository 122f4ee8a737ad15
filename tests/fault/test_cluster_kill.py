# SPDX-License-Identifier: MIT
"""Workers and parameter servers that are killed and stopped at random: every batch counts once in the model that is left."""

import random
import signal
import time

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once
from service import LONG, PATIENCE_S, SANITIZED, SEED
from test_trainer import newest, read_checkpoint, served, store  # noqa: F401, fixtures

EVENTS = 200 if LONG else 12
STEPS = EVENTS * (100 if SANITIZED else 1200)  # what is learnt while all of them happen, and a rest

class Disturbed(Cluster):
    """One that is disturbed: what is killed comes back at once, or a moment later."""

    def __init__(self, *arguments, chance, **more):
        super().__init__(*arguments, **more)
        self.chance, self.gone = chance, []

    def kill_server(self, index):
        self.ps[index].kill()
        time.sleep(self.chance.choice((0, 0, 0.7)))
        self.start_server(index)

    def kill_worker(self, index):
        worker = self.workers[index]
        worker.kill()
        self.gone.append(worker)
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

    def is_over(self):
        return any(one.process.poll() is not None for one in self.ps)

    def wait_to_the_end(self):
        for one in [*self.ps, *self.workers]:
            status = one.wait()
            assert status == 0, f"{status}\n{one.stderr[-4000:]}"


def disturb_to_the_end(trained, chance):
    trained.start_all()
    done = 0
    while done < EVENTS and not trained.is_over():
        time.sleep(chance.uniform(0, 0.5))
        trained.disturb()
        done += 1
    print(f"{done} kills and stops")
    assert done >= EVENTS // 2, "the training was over too soon for this test to mean anything"
    trained.wait_to_the_end()


@pytest.mark.heavy
def test_random_kills_and_stops_lose_and_repeat_nothing(start, served, store, tmp_path):  # noqa: F811
    chance = random.Random(SEED)
    trained = Disturbed(start, served, store, tmp_path / "run", chance=chance, workers=3, train_steps=STEPS, save_secs=0.3,
                        **{**ADDITIVE, "patience": PATIENCE_S})
    disturb_to_the_end(trained, chance)
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


@pytest.mark.heavy
def test_in_step_they_change_no_bit(start, served, store, tmp_path):  # noqa: F811
    chance = random.Random(SEED + 1)
    options = {"sync": True, "replicas_to_aggregate": 2, "batch_size": 20, "hidden_units": 8, "train_steps": STEPS // 6,
               "save_secs": 0.3, "patience": PATIENCE_S}
    calm = Cluster(start, served, store, tmp_path / "calm", servers=1, **options).start_all().wait()
    trained = Disturbed(start, served, store, tmp_path / "run", chance=chance, workers=3, **options)
    disturb_to_the_end(trained, chance)
    assert read_checkpoint(newest(trained.logdir))[1] == read_checkpoint(newest(calm.logdir))[1]
