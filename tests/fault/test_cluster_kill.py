# SPDX-License-Identifier: MIT
"""Workers, parameter servers and the sampler, killed and stopped at random: every batch counts once in the model that is left."""

import random
import signal
import time

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once
from service import LONG, PATIENCE_S, SEED, free_port, wait_for
from test_trainer import newest, read_checkpoint, store  # noqa: F401, fixtures

EVENTS = 60 if LONG else 12
REST = 300  # steps that are learnt when all of them have happened
CALM_S = 0.25  # between them, at most: meanwhile a cluster takes all processors, and what it learns is learnt once more alone
OFTEN = (3, 3, 1)  # how often each of three lengths of a pause


class Restarted:
    """A sampler that may be killed: what comes back has its state, or none at all, and the same address."""

    def __init__(self, sampler, store, folder, chance):  # noqa: F811
        self.sampler, self.chance, self.words = sampler, chance, ("--store", store, "--seed", 7)
        self.state, self.listen = ("--state", folder / "state"), f"127.0.0.1:{free_port()}"
        self.now = sampler(*self.words, *self.state, listen=self.listen)
        self.url = self.now.url

    def kill(self):
        kill(self.now)
        time.sleep(self.chance.choice((0, 0, 0.5, 2)))
        self.now = self.sampler(*self.words, *self.chance.choice((self.state, ())), listen=self.listen)


@pytest.fixture
def mortal(sampler, store, tmp_path):  # noqa: F811
    """mortal(chance) -> Restarted."""
    return lambda chance: Restarted(sampler, store, tmp_path, chance)


def kill(one):
    assert one.process.poll() is None, f"it ended by itself, {one.process.returncode}\n{one.stderr[-4000:]}"
    one.kill()


class Disturbed(Cluster):
    """One that is disturbed: what is killed comes back at once, or a moment later. Without servers the chief, worker 0, has them."""

    def __init__(self, start, served, *arguments, chance, **more):  # noqa: F811
        super().__init__(start, served, *arguments, **more)
        self.sampler, self.chance = served, chance

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
        time.sleep(self.chance.choices((0.05, 0.3, 1.5), OFTEN)[0])
        one.process.send_signal(signal.SIGCONT)

    def disturb(self):
        chance, servers = self.chance, range(len(self.ps))
        kills = [lambda: self.kill_worker(chance.randrange(len(self.workers))), self.sampler.kill]
        pauses = [lambda: self.pause(chance.choice(self.workers)), lambda: self.pause(self.sampler.now)]
        if servers:
            kills += [lambda: self.kill_server(chance.choice(servers)), lambda: (self.kill_server(0), self.kill_server(1))]
            pauses += [lambda: self.pause(chance.choice(self.ps))]
        weights = {2: (5, 2), 4: (7, 2, 5, 1)}[len(kills)], {2: (4, 1), 3: (4, 1, 4)}[len(pauses)]
        which = chance.random() < 0.6
        chance.choices(kills if which else pauses, weights[0] if which else weights[1])[0]()


def disturb_to_the_end(trained, chance):
    """However fast it trains: the last step is set when all of it has happened. Returns that step."""
    trained.start_all()
    wait_for((trained.logdir / "checkpoint").exists, "no checkpoint")
    for _ in range(EVENTS):
        time.sleep(chance.uniform(0, CALM_S))
        trained.disturb()
    return trained.end_soon(REST)


def trained_by(start, served, store, tmp_path, chance, servers, **chosen):  # noqa: F811
    return Disturbed(start, served, store, tmp_path / "run", chance=chance, servers=servers, workers=3, train_steps=10**9, save_secs=0.3,
                     patience=PATIENCE_S, **chosen)


@pytest.mark.heavy
@pytest.mark.parametrize("servers", [2, 0])
def test_random_kills_and_stops_lose_and_repeat_nothing(start, mortal, store, tmp_path, servers):  # noqa: F811
    chance = random.Random(SEED + servers)
    served = mortal(chance)  # noqa: F811
    last = disturb_to_the_end(trained_by(start, served, store, tmp_path, chance, servers, **ADDITIVE), chance)
    check_each_batch_once(tmp_path / "run", served, store, tmp_path, last)


@pytest.mark.heavy
@pytest.mark.parametrize("servers", [3, 0])
def test_in_step_they_change_no_bit(start, mortal, store, tmp_path, servers):  # noqa: F811
    chance = random.Random(SEED + 1 + servers)
    served = mortal(chance)  # noqa: F811
    in_step = {"sync": True, "replicas_to_aggregate": 2, "batch_size": 20, "hidden_units": 8}
    last = disturb_to_the_end(trained_by(start, served, store, tmp_path, chance, servers, **in_step), chance)
    calm = Cluster(start, served, store, tmp_path / "calm", servers=1, train_steps=last, **in_step).start_all().wait()
    assert read_checkpoint(newest(tmp_path / "run"))[1] == read_checkpoint(newest(calm.logdir))[1]


@pytest.mark.parametrize("state", [True, False])
def test_a_sampler_that_is_away_is_named_and_may_be_another(start, mortal, store, tmp_path, state):  # noqa: F811
    """Who comes back knows where it was, or knows nothing: batches are numbers."""
    served = mortal(random.Random(SEED))  # noqa: F811
    trained = Cluster(start, served, store, tmp_path / "run", train_steps=10**9, save_secs=0.2, **ADDITIVE).start_all()
    for worker in trained.workers:
        worker.wait_for_log(r"step [1-9]\d* of")
    served.now.kill()
    for worker in trained.workers:
        worker.wait_for_log("waiting for the sampler")
    served.now = served.sampler(*served.words, *(served.state if state else ()), listen=served.listen)
    saved = trained.saved_step()
    wait_for(lambda: trained.saved_step() > saved + 100, "it does not go on")
    for one in [*trained.workers, *reversed(trained.ps)]:
        one.stop(status=143)
    last = trained.end_of_learnt() + 100
    trained.end_at(last)
    trained.start_all().wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, last)
