# SPDX-License-Identifier: MIT
"""An order by a peer, for bench_order.py: draws a first batch, then batches for a while on one thread.

    peer_order.py NAME UNITS BATCH SECONDS

prints seconds to the first batch, ids a second of processor time, private memory in kB, and chi-square of batches of
100 against tenths of the rows by its 9 degrees of freedom. A peer is a function of the number of units that returns
draw(first, count).
"""
import importlib
import sys
import time
import types
from itertools import repeat
from pathlib import Path

import numpy

SEED = 1


def from_numpy(units):
    order = numpy.random.default_rng(SEED).permutation(units)
    return lambda first, count: order[first:first + count].copy()


def from_torch(units):
    import torch
    order = torch.randperm(units, generator=torch.Generator().manual_seed(SEED)).numpy()  # six times as fast to copy
    return lambda first, count: order[first:first + count].copy()


def from_grain(units):
    """Its function, an id a call: faster than what it has for many at once."""
    from grain._src.python.experimental.index_shuffle.python.index_shuffle_module import index_shuffle
    fixed = repeat(units - 1), repeat(SEED), repeat(4)
    return lambda first, count: numpy.fromiter(map(index_shuffle, range(first, first + count), *fixed), numpy.int64,
                                               count)


def from_grain_slices(units):
    """Its data set, a slice of which it reads by _getitems() in its own batches."""
    import grain
    shuffled = grain.MapDataset.range(0, units).shuffle(seed=SEED)
    return lambda first, count: numpy.array(shuffled._getitems(range(first, first + count)))


def from_py1e(units):
    """The function alone: the package itself wants torch and the clients of every cloud."""
    folder = Path(next(path for path in sys.path if (Path(path) / "streaming").is_dir()))
    for package in ("streaming", "streaming.base", "streaming.base.shuffle"):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(folder / package.replace(".", "/"))]
    from streaming.base.shuffle.py1e import get_shuffle_py1e
    shards = numpy.full(max(1, units // 50000), 50000, numpy.int64)
    shards[-1] += units - shards.sum()
    order = get_shuffle_py1e(shards, 1, SEED, 0)
    return lambda first, count: order[first:first + count].copy()


PEERS = {"numpy": from_numpy, "torch": from_torch, "grain": from_grain, "grain slices": from_grain_slices,
         "py1e": from_py1e}
IMPORTED = {"torch": "torch", "grain": "grain", "grain slices": "grain"}


def private_kilobytes():
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def chi_square(draw, units, batches=2000):
    chi = 0
    for i in range(batches):
        tenths = (draw(i * (units // batches - 100), 100).astype(float) * 10 / units).astype(int)
        chi += ((numpy.bincount(tenths, minlength=10) - 10) ** 2 / 10).sum()
    return chi / batches / 9


def main():
    name, units, batch, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    if name in IMPORTED:
        importlib.import_module(IMPORTED[name])  # is not measured
    begin = time.perf_counter()
    draw = PEERS[name](units)
    draw(0, batch)
    started = time.perf_counter() - begin
    begin, drawn = time.process_time(), 0
    while time.process_time() - begin < seconds:
        draw(drawn % (units - batch + 1), batch)
        drawn += batch
    rate = drawn / (time.process_time() - begin)
    print(started, rate, private_kilobytes(), chi_square(draw, units))


if __name__ == "__main__":
    main()
