# SPDX-License-Identifier: MIT
"""As many workers as a large job has, on one machine, that come and go."""

import random

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once
from conftest import LONG, PATIENCE_S, SEED
from test_trainer import newest, read_checkpoint, served, store  # noqa: F401, fixtures

WORKERS = 64
ROUNDS = 10 if LONG else 1
HELD = 64  # batches that a worker has at most: all that was not learnt when it was killed is, so many steps later


@pytest.mark.heavy
@pytest.mark.parametrize("sync", [False, True])
def test_sixty_four_workers_that_come_and_go(start, served, store, tmp_path, sync):  # noqa: F811
    """A quarter of them is killed at once and others come, listed or not; all end together, and each batch counts once."""
    chance = random.Random(SEED)
    options = {"sync": True, "replicas_to_aggregate": 16} if sync else {}
    trained = Cluster(start, served, store, tmp_path / "run", workers=WORKERS, train_steps=10**9, save_secs=0.2,
                      **{**ADDITIVE, "patience": PATIENCE_S, **options}).start_all()
    trained.go_on()
    for _ in range(ROUNDS):
        for index in chance.sample(range(WORKERS), WORKERS // 4):
            trained.workers[index].kill()
            trained.workers[index] = trained.task("worker", index + chance.choice((0, WORKERS)), listed=False)
        trained.go_on()
    last = trained.end_soon(150 if sync else 2 * HELD * WORKERS)
    if not sync:
        check_each_batch_once(trained.logdir, served, store, tmp_path, last)
        return
    calm = Cluster(start, served, store, tmp_path / "calm", servers=1, **{**ADDITIVE, **options, "train_steps": last}).start_all().wait()
    assert read_checkpoint(newest(trained.logdir))[1] == read_checkpoint(newest(calm.logdir))[1]
