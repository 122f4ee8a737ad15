# SPDX-License-Identifier: MIT
"""A CSV of (id, label) into a list ordered by label: our frame file beside DuckDB's ORDER BY and sort(1).

20,000,000 rows, the labels in no order; the ids once ascending and once in no order (which the peers do not mind, and
which we have to sort, to find rows by id and ids that come twice). DuckDB has its types given, need not keep the order
of its input, compresses nothing, and may use all processors and most of the memory; it writes Parquet, CSV and its own
format. sort(1) compares bytes and has as many threads. Our file is fsynced before it has its name; theirs need not be.
TOMBOLA_BENCH_ROWS changes the number of rows.
"""
import os
import random
import subprocess
from pathlib import Path

import bench
from bench import Sample

ROWS = int(float(os.environ.get("TOMBOLA_BENCH_ROWS", bench.choose("2e7", "2e5"))))
LABELS = 1000
THREADS = len(bench.CPUS)
HEAD = ["list", "by", "s", "min .. max", "CPU us a row", "peak MB", "file MB", "CPU ratio", "ratio"]


def write_list(path, shuffled):
    """Ids 0 to ROWS - 1; in no order by a step that has no divisor in common with ROWS."""
    step = 7368787 if shuffled else 1
    labels = [str(number) for number in range(LABELS)]
    dice = random.Random(1)
    with open(path, "w", encoding="ascii", buffering=1 << 20) as out:
        out.write("id,label\n")
        for first in range(0, ROWS, 1 << 16):
            rows = range(first, min(first + (1 << 16), ROWS))
            drawn = dice.choices(labels, k=len(rows))
            out.write("".join([f"{row * step % ROWS},{label}\n" for row, label in zip(rows, drawn)]))


def contestants(source, out):
    """name -> the command that writes `out`."""
    build = [bench.SAMPLER, "build", "--store", f"csv:{source}", "--out", out]
    yield "Tombola", build
    yield "Tombola, --memory 64M", [*build, "--memory", "64M"]
    if python := bench.python_with("duckdb"):
        peer = Path(__file__).with_name("peer_frame.py")
        for kind in ("parquet", "csv", "own format"):
            yield f"DuckDB, {kind}", [python, peer, source, out, kind, THREADS]
    yield "sort(1)", ["env", "LC_ALL=C", "sort", "--field-separator=,", "--key=2,2", f"--parallel={THREADS}",
                      "--buffer-size=50%", f"--output={out}", source]


def measure_once(command, out):
    """A program starts, reads, orders, writes and ends; DuckDB says itself how long it took without its import."""
    out.unlink(missing_ok=True)
    text, (seconds, busy, peak) = bench.measured(command, stderr=subprocess.DEVNULL)
    if text.startswith("seconds "):
        seconds, busy = map(float, text.split()[1:3])
    return Sample(seconds, 1e6 * busy / ROWS, (peak / 1e6, out.stat().st_size / 1e6))


def compete(what, place, shuffled):
    source, out = place / "list.csv", place / "out"
    write_list(source, shuffled)
    measures = {name: lambda command=command: measure_once(command, out) for name, command in contestants(source, out)}
    return bench.rows(bench.in_turn(measures), [what], min)


def measure():
    with bench.folder() as place:
        lines = compete("ids ascend", place, False) + compete("ids in no order", place, True)
    notes = [f"{ROWS:,} rows, {LABELS} labels, {THREADS} threads at most; {bench.ROUNDS} rounds."]
    if not bench.python_with("duckdb"):
        notes.append("DuckDB is not there: no row.")
    bench.table("A CSV of (id, label), ordered by label", HEAD, lines, notes)


if __name__ == "__main__":
    bench.main(measure)
