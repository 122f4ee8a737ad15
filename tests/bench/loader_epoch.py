# SPDX-License-Identifier: MIT
"""tombola.Loader on the rows of bench_loader.py, which asks as it asks the peers (peer_loader.py):

    {"sampler": URL, "store": URI, "seconds": S, and what else tombola.Loader takes}

gives the rows a second of the first epoch, from nothing, and of the later ones, and how many rows that were.
"""
import json
import sys
import time

import tombola

BATCH = 100


def walk(loader):
    rows = 0
    for _, labels, features in loader:
        assert str(features.dtype).endswith("float32")
        rows += len(labels)
    return rows


def answer(sampler, store, seconds, **options):
    begin = time.perf_counter()
    with tombola.Loader(sampler, store, BATCH, dtype="float32", **options) as loader:
        rows = walk(loader)
        first = rows / (time.perf_counter() - begin)
        begin, later = time.perf_counter(), 0
        while not later or time.perf_counter() - begin < seconds:
            later += walk(loader)
        return {"first": first, "later": later / (time.perf_counter() - begin), "rows": rows + later}


def main():
    print("ready", flush=True)
    for question in sys.stdin:
        print(json.dumps(answer(**json.loads(question))), flush=True)


if __name__ == "__main__":
    main()
