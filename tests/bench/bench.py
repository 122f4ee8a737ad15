# SPDX-License-Identifier: MIT
"""What the benchmarks share: rounds, medians and spread, tables, servers and peers that end with the benchmark.

Every contestant of a table is measured once a round, in turn, so that what else the machine does meets all
alike. A figure is the median of the rounds, beside it the least and the most. `ratio` is our median by that of
the best peer, turned so that above 1 means we are faster, with the least and the most of the rounds' own ratios;
`CPU ratio` is the least processor time of a peer by ours. There is no ratio where the client was the limit of
either. A contestant is ours if its name begins with "Tombola"; every other one is a peer. Nothing here asserts a
time.
"""
import contextlib
import functools
import http.client
import json
import os
import re
import shutil
import signal
import socket
import statistics
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
PROGRAMS = BUILD / "tests" / "bench"
#: Data sets live here, kept between runs.
CACHE = Path(os.environ.get("TOMBOLA_BENCH", BUILD / "bench")).resolve()
#: tests/bench/run --quick: does each benchmark still work? Its figures mean nothing.
QUICK = os.environ.get("TOMBOLA_BENCH_QUICK") == "1"

PATIENCE_S = 60
CPUS = sorted(os.sched_getaffinity(0))
_OURS = "Tombola"
_state = {"machine": False, "compared": False}
_running = contextlib.ExitStack()


def choose(full, quick):
    """`full`, or with --quick the other."""
    return quick if QUICK else full


ROUNDS = choose(3, 1)


# ---- rounds, medians, spread --------------------------------------------------------------------


class Sample:
    """What one round measured: a rate or seconds, processor time in us of one unit of work, more cells."""

    def __init__(self, value, cpu_us=None, facts=(), client_bound=False):
        self.value, self.cpu_us, self.facts, self.client_bound = value, cpu_us, facts, client_bound


def in_turn(measures):
    """{name: function} to {name: [its result of each round]}."""
    results = {name: [] for name in measures}
    for _ in range(ROUNDS):
        for name, measure in measures.items():
            results[name].append(measure())
    return results


def median(values):
    """Of those that are there."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def _value(samples):
    return median([sample.value for sample in samples])


def _cpu_us(samples):
    return median([sample.cpu_us for sample in samples])


def _client_bound(samples):
    return sum(sample.client_bound for sample in samples) * 2 > len(samples)


def ratio(ours, peer, best=max):
    """The cell: of the medians, and the least and the most of the rounds; `best` is min where less is better."""
    if _client_bound(ours) or _client_bound(peer):
        return "client-bound"
    above, below = (ours, peer) if best is max else (peer, ours)
    turns = range(max(len(ours), len(peer)))  # what was measured only once meets every round of the other
    rounds = [above[i % len(above)].value / below[i % len(below)].value for i in turns]
    return f"{cell(_value(above) / _value(below))} ({spread(rounds)})"


def rows(results, head=(), best=max):
    """Rows of one group of contestants: head, name, median, spread, processor time, facts, both ratios."""
    peers = {name: samples for name, samples in results.items() if not name.startswith(_OURS)}
    winner = best(peers, key=lambda name: _value(peers[name]), default=None)
    least_cpu_us = min(filter(None, map(_cpu_us, peers.values())), default=None)
    lines = []
    for name, samples in results.items():
        limit = "client-bound" if _client_bound(samples) else ""
        verdicts = ["", f"best peer {limit}".strip() if name == winner else limit]
        if winner and name not in peers:
            cpu_us = _cpu_us(samples)
            verdicts = [least_cpu_us / cpu_us if cpu_us and least_cpu_us else None, ratio(samples, peers[winner], best)]
            _state["compared"] = True
        facts = map(median, zip(*(sample.facts for sample in samples)))
        lines.append([*head, name, _value(samples), spread([sample.value for sample in samples]), _cpu_us(samples),
                      *facts, *verdicts])
    return lines


def spread(values):
    return f"{cell(min(values))} .. {cell(max(values))}"


# ---- tables -------------------------------------------------------------------------------------


def cell(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_markdown(head, lines):
    """An aligned Markdown table. Cells are text or numbers."""
    lines = [[cell(value) for value in line] for line in [head, *lines]]
    width = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for number, line in enumerate(lines):
        cells = [line[0].ljust(width[0])] + [c.rjust(w) for c, w in zip(line[1:], width[1:])]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            print("|" + "|".join(["-" * (width[0] + 2)] + ["-" * (w + 1) + ":" for w in width[1:]]) + "|")


def table(title, head, lines, notes=()):
    """A table with its title and notes, without columns that are empty; before the first one, the machine."""
    full = [i for i in range(len(head)) if any(line[i] not in (None, "") for line in lines)]
    head, *lines = ([line[i] for i in full] for line in (head, *lines))
    if not _state["machine"]:
        print(f"\n{machine()}")
        _state["machine"] = True
    print(f"\n### {title}\n")
    print_markdown(head, lines)
    print("".join(f"\n- {note}" for note in notes))
    sys.stdout.flush()


def machine():
    """One line: processor, cores, memory, kernel, commit, date, and what else it had to do."""
    about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)", about, re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (f"{model[1] if model else 'unknown processor'}, {len(CPUS)} cores, {memory:.0f} GB, "
            f"Linux {os.uname().release}; {commit()}; {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}"
            + ("; --quick: these figures mean nothing" if QUICK else ""))


def commit():
    if not shutil.which("git"):
        return "no commit"
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"commit {found.stdout.strip()}" if found.returncode == 0 else "no commit"


def main(measure, alone=False):
    """Runs a benchmark; SIGTERM ends its servers too. If it compared us with nobody and is not about us `alone`, exit
    status 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _running:
        measure()
    if not alone and not _state["compared"]:
        sys.exit("no peer was there to compare with: the packages of deploy/packages/bench are missing")


# ---- processes ----------------------------------------------------------------------------------


def words(command, cpus=None):
    """A command's words, kept to some processors."""
    pinned = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
    return [*pinned, *map(str, command)]


def start(command, cpus=None, **options):
    """Starts a server that ends, at the latest, with this benchmark."""
    process = subprocess.Popen(words(command, cpus), **options)
    _running.callback(stop, process)
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


def cpu_seconds(pid):
    """Processor time of a process, its children, and those children that it waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(") ")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0.0  # it has ended
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, children))


def measured(command, cpus=None, **options):
    """Runs a program: its output, and (seconds, processor seconds, peak bytes) of it."""
    begin = time.perf_counter()
    process = subprocess.Popen(words(command, cpus), stdout=subprocess.PIPE, text=True, **options)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}\n{text[-2000:]}")
    return text, (time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


class Sampler:
    """A sampler on a free port, for the time of a `with`."""

    def __init__(self, *options, cpus=None, environment=None):
        self.begin = time.monotonic()
        self.process = start([SAMPLER, "serve", "--listen", "127.0.0.1:0", *options], cpus,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline()
        found = re.search(r"http://([^:/]+:\d+)", line)
        if not found:
            sys.exit(f"the sampler did not start (it printed {line!r})")
        self.url, self.pid = found[0], self.process.pid
        self.connection = http.client.HTTPConnection(found[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        stop(self.process)

    def call(self, method, target, body=None):
        """The body of a response of 200."""
        self.connection.request(method, target, body=None if body is None else json.dumps(body))
        response = self.connection.getresponse()
        content = response.read()
        if response.status != 200:
            sys.exit(f"{method} {target}: {response.status} {content[:300]!r}")
        return content


@contextlib.contextmanager
def folder():
    """A temporary folder, removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="tombola-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > deadline:
            sys.exit(f"nothing listens on port {port}")
        time.sleep(0.02)


# ---- peers --------------------------------------------------------------------------------------


@functools.lru_cache
def python_with(module):
    """A Python that has this module: that of the peers from PyPI, else Debian's; None."""
    test = f"import importlib.util as u, sys; sys.exit(not u.find_spec('{module}'))"
    for python in (os.environ.get("TOMBOLA_PEER_PYTHON"), "/usr/bin/python3", sys.executable):
        if python and subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0:
            return python
    return None


class Peer:
    """A program of a peer, or ours, in a Python of its own: it prints a line when its imports are done, which are not measured;
    then each line of JSON that it reads is a question, and it prints an answer."""

    def __init__(self, python, script, **environment):
        self.process = start([python, Path(__file__).with_name(script)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONWARNINGS": "ignore", **environment})
        self.process.stdout.readline()

    def ask(self, **question):
        """The answer, and the processor seconds that it took."""
        before = cpu_seconds(self.process.pid)
        self.process.stdin.write(json.dumps(question, default=str) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the peer ended at {question}")
        return json.loads(line), cpu_seconds(self.process.pid) - before


# ---- data ---------------------------------------------------------------------------------------


def imported(csv, database=None):
    """The SQLite file of a CSV's rows, beside it unless said otherwise; made once."""
    database = database or csv.with_suffix(".db")
    if not database.exists():
        measured([LOADER, "import", f"csv:{csv}?label=0&header=no", f"sqlite:{database}"])
    return database


def demo_data(rows):
    """Handwritten digits, most of whose 784 values are zero: (CSV, SQLite file), made once."""
    csv = CACHE / f"demo-{rows}" / "mnist_train.csv"
    if not csv.exists():
        csv.parent.mkdir(parents=True, exist_ok=True)
        measured([LOADER, "demo", csv.parent, "--rows", rows])
    return csv, imported(csv)
