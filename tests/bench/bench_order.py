# SPDX-License-Identifier: MIT
"""Ids a second of an order on one thread, with memory, start-up and chi-square, beside its peers.

numpy, torch and mosaicml's py1e shuffle all units before the first batch, keep them, and then copy; grain and we
compute each position. So there are two ratios: of the seconds to the first batch, and of the ids a second of
processor time from then on. `chi2/df` is the mean chi-square of batches of 100 against tenths of the rows, divided by
its degrees of freedom: 1 is chance, more is worse. At 10^9 units those that shuffle take 8 to 24 GB and minutes: only
with TOMBOLA_BENCH_LONG=1.
"""
import os
from pathlib import Path

import bench
from bench import Sample

BATCH = 100
LONG = os.environ.get("TOMBOLA_BENCH_LONG") == "1"
PROGRAM = bench.PROGRAMS / "bench_order"

#: Peer -> its module, how it is shown, up to how many units it takes seconds.
PEERS = {
    "numpy": ("numpy", "numpy permutation, copied", 10**8),
    "torch": ("torch", "torch randperm, copied", 10**8),
    "py1e": ("streaming", "mosaicml py1e, copied", 10**6),
    "grain": ("grain", "grain index_shuffle, an id a call", 10**9),
    "grain slices": ("grain", "grain MapDataset, by slices", 10**9),
}
SIZES = bench.choose((10**6, 10**8, 10**9), (10**6,))

#: What is drawn, the store, the design, its fields. Many labels are what image sets have.
DESIGNS = [
    ("1e6 units", "range:1000000", "srs", ""),
    ("1e6 units, 10 labels", "range:1000000?labels=10", "proportional", ""),
    ("1.3e6 units, 1000 labels", "range:1281167?labels=1000", "proportional", ""),
    ("1e8 units", "range:100000000", "srs", ""),
    ("1e9 units", "range:1000000000", "srs", ""),
    ("1e9 units", "range:1000000000", "sequential", ""),
    ("1e9 units, 10 labels", "range:1000000000?labels=10", "proportional", ""),
    ("1e9 units, 1e6 labels", "range:1000000000?labels=1000000", "proportional", ""),
    ("1e9 units, 10 labels", "range:1000000000?labels=10", "equal", ""),
    ("1e9 units, 10 labels", "range:1000000000?labels=10", "quota",
     '{"shares":{"0":0.5,"4":0.4,"9":0.1}}'),
    ("1e9 units, 10 labels", "range:1000000000?labels=10", "neyman",
     '{"deviations":{"0":0.5,"1":2,"4":0.4,"9":7}}'),
    ("1e9 units, 1000 labels", "range:1000000000?labels=1000", "pxk", '{"p":25,"k":4}'),
    ("1e8 weights", "range:100000000", "weighted", ""),
    ("1e6 of 1e8 weights", "range:100000000", "weighted", '{"size":1000000}'),
    ("1e8 weights", "range:100000000", "alias", ""),
    ("1e8 of 1e9 units", "range:1000000000", "systematic", '{"size":100000000}'),
    ("1e9 units, 1e6 groups", "range:1000000000", "cluster", ""),
    ("1e9 units, half of them", "range:1000000000", "bernoulli", '{"rate":0.5}'),
]


def ours(uri, design, fields="", batch=BATCH):
    """Seconds to the first batch, ids/s, kB, chi2/df if the design draws all alike."""
    text, _ = bench.measured([PROGRAM, uri, design, batch, fields])
    start, rate, kilobytes, *chi = map(float, text.split())
    return start, rate, kilobytes, chi[0] if chi else None


def theirs(name, units):
    python = bench.python_with(PEERS[name][0])
    text, _ = bench.measured([python, Path(__file__).with_name("peer_order.py"), name, units, BATCH,
                              bench.choose(1, 0.05)])
    return tuple(map(float, text.split()))


def compete(units):
    """Lines of two tables, one by seconds to the first batch, one by ids a second."""
    measures = {"Tombola srs, ids and labels": lambda: ours(f"range:{units}", "srs"),
                "Tombola proportional, 10 labels": lambda: ours(f"range:{units}?labels=10", "proportional")}
    for name, (module, shown, most) in PEERS.items():
        if bench.python_with(module) and (units <= most or LONG):
            measures[shown] = lambda name=name: theirs(name, units)
    results = bench.in_turn(measures)
    starts = {name: [Sample(1e3 * start) for start, *_ in rounds] for name, rounds in results.items()}
    rates = {name: [Sample(rate / 1e6, None, (kilobytes / 1024, chi)) for _, rate, kilobytes, chi in rounds]
             for name, rounds in results.items()}
    head = [f"10^{len(str(units)) - 1} units"]
    return bench.rows(starts, head, min), bench.rows(rates, head)


def designs():
    lines = []
    for what, uri, design, fields in DESIGNS[:bench.choose(None, 2)]:
        for batch in (BATCH, 10000):
            start, rate, kilobytes, chi = ours(uri, design, fields, batch)
            by = "alias table (Vose)" if design == "alias" else design
            lines.append([what, by, batch, 1e3 * start, kilobytes / 1024, rate / 1e6, chi])
    return lines


def measure():
    starts, rates = (sum(lines, []) for lines in zip(*map(compete, SIZES)))
    notes = ["numpy, torch and py1e copy ids that they hold in memory; grain's way is through Python.",
             "py1e moves ids within blocks of some 262,144 only: a label-sorted list stays sorted at large."]
    if not LONG:
        notes.append("numpy, torch and py1e at more units: gigabytes and minutes; TOMBOLA_BENCH_LONG=1 runs them.")
    missing = sorted({module for module, *_ in PEERS.values() if not bench.python_with(module)})
    if missing:
        notes.append(f"Not there: {', '.join(missing)}.")
    bench.table(f"One thread, batches of {BATCH}: million ids a second of processor time, once started", [
        "drawn", "by", "million ids/s", "min .. max", "CPU", "private MiB", "chi2/df", "CPU ratio", "ratio"], rates)
    bench.table("From nothing to the first batch, ms", [
        "drawn", "by", "ms", "min .. max", "CPU", "CPU ratio", "ratio"], starts, notes)
    bench.table("Tombola's designs, one thread: million ids a second of processor time, the median of 9 slices", [
        "drawn", "design", "batch", "first batch ms", "private MiB", "million ids/s", "chi2/df"], designs(), [
        "weighted, alias: memory beyond the 8 bytes a weight of the frame. alias is a peer, on the same weights."])


if __name__ == "__main__":
    bench.main(measure)
