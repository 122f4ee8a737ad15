"""Ids a second of an order on one thread, with memory and start-up, beside numpy's permutation.

numpy shuffles all units before the first batch and keeps them; we compute each position. The row of
1e9 units for numpy takes 8 GB and minutes: only with TOMBOLA_BENCH_LONG=1.
"""
import os
import subprocess
import sys

from bench import BUILD, PEER_PYTHON, table

BATCH = 100
PROGRAM = BUILD / "tests" / "bench" / "bench_order"

PEER = r"""
import sys, time
units, batch = int(float(sys.argv[1])), int(sys.argv[2])
import numpy
def private():
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
start = time.perf_counter()
order = numpy.random.default_rng(1).permutation(units)
first = order[:batch].copy()
started = time.perf_counter() - start
start = time.perf_counter()
drawn = 0
while time.perf_counter() - start < 1:
    at = drawn % (units - batch + 1)
    order[at:at + batch].copy()
    drawn += batch
print(started, drawn / (time.perf_counter() - start), private(), numpy.__version__)
"""

#: What is shuffled, the store, the design. Many labels are what image sets have.
OURS = [
    ("1e6 units", "range:1000000", "srs"),
    ("1e6 units, 10 labels", "range:1000000?labels=10", "proportional"),
    ("1.3e6 units, 1000 labels", "range:1281167?labels=1000", "proportional"),
    ("1e8 units", "range:100000000", "srs"),
    ("1e9 units", "range:1000000000", "srs"),
    ("1e9 units, 10 labels", "range:1000000000?labels=10", "proportional"),
    ("1e9 units, 1e6 labels", "range:1000000000?labels=1000000", "proportional"),
]


def ours(uri, design, batch):
    words = subprocess.run([PROGRAM, uri, design, str(batch)], check=True, capture_output=True,
                           text=True).stdout.split()
    return float(words[0]), float(words[1]), int(words[2])


def peer(units):
    """(start s, ids/s, kB, version), or None where there is no numpy."""
    for python in filter(None, (PEER_PYTHON, sys.executable, "/usr/bin/python3")):
        found = subprocess.run([python, "-c", PEER, units, str(BATCH)], capture_output=True,
                               text=True, check=False)
        if found.returncode == 0:
            words = found.stdout.split()
            return float(words[0]), float(words[1]), int(words[2]), words[3]
    return None


def main():
    subprocess.run(["make", "-s", "-C", BUILD, "tests/bench/bench_order"], check=True)
    rows = []
    for what, uri, design in OURS:
        for batch in (BATCH, 10000):
            start, rate, kilobytes = ours(uri, design, batch)
            rows.append([what, f"tombola {design}", batch, 1000 * start, kilobytes / 1024,
                         rate / 1e6])
    notes = []
    sizes = ["1e6", "1e8"] + (["1e9"] if os.environ.get("TOMBOLA_BENCH_LONG") == "1" else [])
    for units in sizes:
        found = peer(units)
        if not found:
            notes.append("numpy is not installed here (Debian: python3-numpy): no peer.")
            break
        start, rate, kilobytes, version = found
        rows.append([f"{units} units", f"numpy {version} permutation", BATCH, 1000 * start,
                     kilobytes / 1024, rate / 1e6])
    if "1e9" not in sizes:
        notes.append("numpy at 1e9: not run (8 GB, minutes); TOMBOLA_BENCH_LONG=1 runs it.")
    notes.append("numpy's rate is that of copying ids that it holds in memory already.")
    table("One order, one thread: ids a second",
          ["shuffled", "by", "batch", "first batch ms", "private MiB", "million ids/s"], rows,
          notes)


if __name__ == "__main__":
    main()
