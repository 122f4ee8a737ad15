"""A CSV of (id, label) into a list ordered by label: our frame file beside DuckDB's ORDER BY, with peak memory.

20,000,000 rows, the labels in no order; the ids once ascending and once in no order (which DuckDB does not mind, and
which we have to sort, to find rows by id and ids that come twice). DuckDB may use all cores, and writes Parquet, CSV
and its own format; its best time counts. Our file is fsynced before it has its name; DuckDB's need not be.
TOMBOLA_BENCH_ROWS changes the number of rows.
"""
import os
import random
import subprocess
import sys
import time

from bench import CACHE, SAMPLER, folder, table

ROWS = int(float(os.environ.get("TOMBOLA_BENCH_ROWS", "20000000")))
LABELS = 1000
TURNS = int(os.environ.get("TOMBOLA_BENCH_TURNS", "3"))

PEER = r"""
import resource, sys, time
import duckdb
source, target, kind = sys.argv[1:4]
query = f"SELECT * FROM read_csv('{source}') ORDER BY label"
database = duckdb.connect()
database.execute("SET enable_progress_bar = false")
start = time.perf_counter()
if kind == "own":
    database.execute(f"ATTACH '{target}' AS out")
    database.execute(f"CREATE TABLE out.list AS {query}")
    database.execute("DETACH out")
else:
    database.execute(f"COPY ({query}) TO '{target}' (FORMAT {kind})")
seconds = time.perf_counter() - start
usage = resource.getrusage(resource.RUSAGE_SELF)
print(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, duckdb.__version__)
"""


def peer_python():
    """A Python with duckdb from PyPI, in a folder of its own; None where it cannot be had."""
    python = CACHE / "duckdb" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", CACHE / "duckdb"], check=True)
    found = subprocess.run([python, "-c", "import duckdb"], capture_output=True, check=False)
    if found.returncode != 0:
        print(f"installing duckdb from PyPI into {CACHE / 'duckdb'} (once)")
        if subprocess.run([python, "-m", "pip", "install", "--quiet", "duckdb"], check=False).returncode != 0:
            return None
    return python


def write_list(path, shuffled):
    """Ids 0 to ROWS - 1; in no order by a step that has no divisor in common with ROWS."""
    step = 7368787 if shuffled else 1
    labels = [str(number) for number in range(LABELS)]
    dice = random.Random(1)
    with open(path, "w", encoding="ascii", buffering=1 << 20) as out:
        out.write("id,label\n")
        for first in range(0, ROWS, 1 << 16):
            last = min(first + (1 << 16), ROWS)
            drawn = dice.choices(labels, k=last - first)
            out.write("".join([f"{row * step % ROWS},{label}\n" for row, label in zip(range(first, last), drawn)]))


def measured(command):
    """(seconds, CPU seconds, peak bytes) of a program."""
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} failed")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def ours(store, out, memory):
    runs = [measured([SAMPLER, "build", "--store", store, "--out", out, *memory]) for _ in range(TURNS)]
    return min(run[0] for run in runs), min(run[1] for run in runs), max(run[2] for run in runs)


def peer(python, source, target, kind):
    best = None
    for _ in range(TURNS):
        target.unlink(missing_ok=True)
        words = subprocess.run([python, "-c", PEER, source, target, kind], check=True, capture_output=True, text=True).stdout.split()
        run = float(words[0]), float(words[1]), int(words[2]) * 1024, words[3]
        best = min(best, run) if best else run
    return best


def size_of(path):
    return path.stat().st_size / 1e6


def compare(rows, python, place, what, shuffled):
    source = place / "list.csv"
    write_list(source, shuffled)
    peers = []
    for kind in ("parquet", "csv", "own") if python else ():
        target = place / f"out.{kind}"
        seconds, busy, peak, version = peer(python, source, target, kind)
        peers.append(seconds)
        rows.append([what, f"DuckDB {version}, {kind}", seconds, busy, ROWS / seconds / 1e6, peak / 1e6, size_of(target), ""])
        target.unlink()
    for name, memory in (("tombola", []), ("tombola --memory 64M", ["--memory", "64M"])):
        seconds, busy, peak = ours(f"csv:{source}", place / "out.frame", memory)
        ratio = f"{min(peers) / seconds:.2f}" if peers else ""
        rows.append([what, name, seconds, busy, ROWS / seconds / 1e6, peak / 1e6, size_of(place / "out.frame"), ratio])


def main():
    python = peer_python()
    rows = []
    with folder() as place:
        compare(rows, python, place, "ids ascend", shuffled=False)
        compare(rows, python, place, "ids in no order", shuffled=True)
    notes = [f"{ROWS} rows, {LABELS} labels, {os.cpu_count()} CPUs; best of {TURNS}, largest peak of ours.",
             "ratio: DuckDB's best time divided by ours."]
    if not python:
        notes.append("duckdb could not be installed from PyPI: no peer.")
    table("A CSV of (id, label), ordered by label", ["list", "by", "s", "CPU s", "million rows/s", "peak MB", "file MB", "ratio"], rows, notes)


if __name__ == "__main__":
    main()
