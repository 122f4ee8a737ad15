# SPDX-License-Identifier: MIT
"""tombola.Loader on the rows of bench_loader.py, which asks as it asks the peers (peer_loader.py):

    {"sampler": URL, "store": URI, "seconds": S, and what else tombola.Loader takes}

gives the rows a second of the first epoch, from nothing, and of the later ones, and how many rows that were.
"""
import time

import numpy
import tombola

import questions

BATCH = 100


def walk(loader):
    rows = 0
    for _, labels, features in loader:
        assert features.dtype == numpy.float32  # a Loader would import it; importing is not counted
        rows += len(labels)
    return rows


def answer(sampler, store, seconds, **options):
    begin = time.perf_counter()
    with tombola.Loader(sampler, store, BATCH, dtype="float32", **options) as loader:
        return questions.epoch_rates(lambda: walk(loader), begin, seconds)


if __name__ == "__main__":
    questions.answer_with(answer)
