"""What the benchmarks share: where things are, servers that end with the benchmark, tables.

A benchmark measures us and the peers on the same work in one run and prints one table; `ratio` is
ours divided by the peer's, so that above 1 means faster. Nothing here asserts a time.
"""
import atexit
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TOMBOLA_BUILD", ROOT / "build")).resolve()
SAMPLER = BUILD / "sampler" / "tombola-sampler"
LOADER = BUILD / "loader" / "tombola-loader"
TRAINER = BUILD / "trainer" / "tombola-trainer"
#: Peers from PyPI and data sets live here; kept between runs.
CACHE = Path(os.environ.get("TOMBOLA_BENCH", ROOT / "build" / "bench")).resolve()
#: The Python that has torch; None where tests/bench/run was not asked for it.
PEER_PYTHON = os.environ.get("TOMBOLA_PEER_PYTHON")

_started = []


def start(command, **options):
    """Starts a server that ends, at the latest, with this benchmark."""
    process = subprocess.Popen([str(word) for word in command], **options)
    _started.append(process)
    return process


def stop(process):
    """SIGTERM, and SIGKILL after five seconds; by its own process id."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process in _started:
        _started.remove(process)


@atexit.register
def _stop_all():
    for process in list(_started):
        stop(process)


@contextlib.contextmanager
def sampler(*options):
    """A sampler on a free port; yields its URL."""
    process = start([SAMPLER, "serve", "--listen", "127.0.0.1:0", *options],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    if not found:
        sys.exit(f"the sampler did not start (it printed {line!r})")
    try:
        yield found.group(0).rstrip("/")
    finally:
        stop(process)


@contextlib.contextmanager
def folder():
    """A temporary folder, removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="tombola-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def wrk(url, connections, seconds=4, threads=1):
    """Requests a second, and the 50th and 99th percentile latency in ms, of GET `url`."""
    text = subprocess.run(
        ["wrk", "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s", "--latency", url],
        check=True, capture_output=True, text=True).stdout
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", text).group(1))
    scale = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    latency = {}
    for percent in ("50", "99"):
        value, unit = re.search(rf"^\s*{percent}%\s+([\d.]+)(us|ms|s)", text, re.M).groups()
        latency[percent] = float(value) * scale[unit]
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if refused:
        sys.exit(f"{url}: {refused.group(1)} answers were errors")
    return rate, latency["50"], latency["99"]


def demo_data(rows=60000):
    """The demo data set: (train.csv, train.db), made once."""
    where = CACHE / f"demo-{rows}"
    csv, database = where / "mnist_train.csv", where / "mnist_train.db"
    if not csv.exists():
        where.mkdir(parents=True, exist_ok=True)
        subprocess.run([LOADER, "demo", where, "--rows", str(rows)], check=True,
                       stdout=subprocess.DEVNULL)
    if not database.exists():
        subprocess.run([LOADER, "import", f"csv:{csv}?label=0&header=no", f"sqlite:{database}"],
                       check=True, stdout=subprocess.DEVNULL)
    return csv, database


def machine():
    """One line: processor, cores, kernel."""
    model = "unknown processor"
    with contextlib.suppress(OSError):
        for line in open("/proc/cpuinfo", encoding="utf-8"):
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Linux {os.uname().release}"


def table(title, head, rows, notes=()):
    """Prints an aligned table (also valid Markdown). Cells are text or numbers."""
    def cell(value):
        if value is None:
            return "-"
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    lines = [[cell(value) for value in row] for row in [head, *rows]]
    width = [max(len(line[i]) for line in lines) for i in range(len(head))]
    print(f"\n## {title}\n{machine()}, {time.strftime('%Y-%m-%d')}\n")
    for number, line in enumerate(lines):
        cells = [line[0].ljust(width[0])] + [c.rjust(w) for c, w in zip(line[1:], width[1:])]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            print("|" + "|".join(["-" * (width[0] + 2)] + ["-" * (w + 1) + ":" for w in width[1:]])
                  + "|")
    for note in notes:
        print(note)
    sys.stdout.flush()
