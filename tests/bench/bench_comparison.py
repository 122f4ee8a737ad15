# SPDX-License-Identifier: MIT
"""What a training job gets from PyTorch's DataLoader, tf.data service, a Redis list and Tombola: README.md's table.

Each cell is the outcome of a run. For all four a row is its id, without data behind it. Workers are the
ranks of a training; they take turns pulling batches of 100 (peer_worker.py), so that there is one order
to compare. Where a peer has several ways, it gets its best one; the notes name what was left out:
importing a library, shuffling and formatting ids for Redis. Starting Tombola's server is counted.
tests/bench/run --write puts the first table into README.md.
"""
import contextlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import bench
from peer_worker import BATCH, peak_bytes

UNITS = bench.choose(10**9, 10**7)  # of the first row; of the others:
FEW = 10000
MANY = 64
KILLED_AFTER = 2  # batches done; the third is held
PART = bench.choose(10**7, 10**5)  # of UNITS, for what is measured there and multiplied
BUFFER = 10**6  # of tf.data's shuffle
WORKER = Path(__file__).with_name("peer_worker.py")
TFDATA_SERVER = Path(__file__).with_name("peer_tfdata_server.py")
QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def words_of(system, where, options):
    module = {"redis": None, "tombola": None, "tfdata": "tensorflow", "tfglobal": "tensorflow"}.get(system, "torch")
    python = bench.python_with(module) if module else sys.executable
    return [python, WORKER, system, where, *(f"--{name}={value}" for name, value in options.items())]


def pull(system, where="-", **options):
    """What workers of `system` printed: a dictionary a batch."""
    done = subprocess.run([str(word) for word in words_of(system, where, options)], capture_output=True, text=True,
                          env=QUIET, check=False)
    if done.returncode:
        sys.exit(f"{system}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def pull_and_kill(system, where="-", **options):
    """The same of one worker that is killed with kill -9 while it holds its last batch."""
    process = bench.start([*words_of(system, where, options), f"--batches={KILLED_AFTER}", "--hold"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=QUIET)
    batches = [json.loads(process.stdout.readline()) for _ in range(KILLED_AFTER + 1)]
    kill(process)
    return batches


def kill(process):
    process.kill()
    process.wait()
    bench.stop(process)


def available_bytes():
    return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii")).group(1))


def power(count):
    """1000000 as 1e6."""
    return f"{count:.0e}".replace("e+0", "e")


def ids_of(batches):
    return [number for batch in batches for number in batch["ids"]]


def amount(seconds, size, mark=""):
    """Seconds and bytes as a cell."""
    time_text = f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.0f}"
    return f"{mark}{time_text} s, {mark}" + (f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB")


class System:
    """One column; `notes` say what was seen. Cells of its rows are what the four functions return; `first` is what
    the first of them measured, of a peer that has a global shuffle."""

    first = ()

    def __init__(self, folder):
        self.folder = folder / self.name
        self.folder.mkdir()
        self.notes = []

    def note(self, text):
        self.notes.append(f"{self.title}: {text}.")

    @contextlib.contextmanager
    def serving(self, command, wait):
        """Runs a server until the end of the block; yields a function that kills it and starts it again."""
        self.process = None

        def start():
            if self.process:
                kill(self.process)
            self.process = bench.start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=QUIET)
            wait()

        start()
        try:
            yield start
        finally:
            kill(self.process)

    def first_line(self):
        """Waits for the line that a server prints when it serves."""
        if not self.process.stdout.readline():
            sys.exit(f"{self.title} did not start")

    def compare(self, one, many, resumed, how=""):
        """yes, if 64 workers, and those before and after a restart, drew the one worker's batches in its order."""
        same = []
        for what, drawn in ((f"{MANY} workers", many), ("after a restart", resumed)):
            same.append([batch["ids"] for batch in drawn] == [batch["ids"] for batch in one])
            ids = ids_of(drawn)
            self.note(f"{what}{how}: {'the same batches in the same order' if same[-1] else 'another order'}, "
                      f"{len(ids) - len(set(ids)):,} of {FEW:,} rows twice, {FEW - len(set(ids)):,} never")
        return "yes" if all(same) else "no"

    def count_lost(self, victim, others):
        """What became of the batch that the victim held, and of rows that were its alone to draw."""
        done = set(ids_of(victim[:-1])) | set(ids_of(others))
        held = set(victim[-1]["ids"])
        flagged = held <= {number for batch in others if batch.get("redelivered") for number in batch["ids"]}
        self.note(f"a worker killed while it held {len(held)} rows: {len(held - done):,} of them and "
                  f"{FEW - len(done | held):,} others of {FEW:,} never arrived at another worker"
                  + (", which got them with \"redelivered\":true" if flagged else ""))
        if len(done) < FEW:
            return f"{FEW - len(done):,} lost"
        return "redelivered, flagged" if flagged else "redelivered"


class Dataloader(System):
    name, title, module = "dataloader", "DataLoader", "torch"

    def first_batch(self):
        units = UNITS if available_bytes() > 11 * UNITS else PART
        scale = UNITS / units
        [batch] = pull("permutation", units=units, batches=1)
        [stock] = pull("dataloader", units=PART, batches=1)
        self.note(f"torch.randperm({units:,}) as its batch sampler: {amount(batch['seconds'], batch['bytes'])}. "
                  f"RandomSampler and DistributedSampler turn it into Python ints: {PART:,} took "
                  f"{amount(stock['seconds'], stock['bytes'])}, so {UNITS:,} would take {UNITS // PART} times that")
        self.first = [bench.Sample(batch["seconds"] * scale)]
        return amount(batch["seconds"] * scale, batch["bytes"] * scale, "" if scale == 1 else "~")

    def same_order(self):
        one = pull("dataloader", units=FEW)
        many = pull("dataloader", units=FEW, workers=MANY)
        # There is nothing to go on from: the new process starts its epoch.
        resumed = pull("dataloader", units=FEW, batches=FEW // BATCH // 2) + pull("dataloader", units=FEW)
        return self.compare(one, many, resumed)

    def killed(self):
        victim = pull_and_kill("dataloader", units=FEW, of=4)
        return self.count_lost(victim, pull("dataloader", units=FEW, workers=3, rank=1, of=4))

    def curl(self):
        with self.serving([*words_of("dataloader", "-", {"units": FEW, "batches": 1}), "--hold"], self.first_line):
            ports = listening_ports(self.process.pid)
        self.note(f"ports that its process listens on: {', '.join(map(str, sorted(ports))) or 'none'}")
        return "yes" if ports else "no"


class Tfdata(System):
    name, title, module = "tfdata", "tf.data service", "tensorflow"

    def served(self, folder):
        """A dispatcher and one worker."""
        port, worker_port = bench.free_port(), bench.free_port()
        self.url = f"grpc://127.0.0.1:{port}"
        (self.folder / folder).mkdir()
        return self.serving([bench.python_with("tensorflow"), TFDATA_SERVER, port, worker_port, self.folder / folder],
                            self.first_line)

    def first_batch(self):
        with self.served("first"):
            before = peak_bytes(self.process.pid)
            [batch] = pull("tfdata", self.url, units=UNITS, buffer=BUFFER, batches=1)
            size = peak_bytes(self.process.pid) - before
        with self.served("global"):
            [unexported] = pull("tfglobal", self.url, units=UNITS, batches=1)
        self.note(f"shuffle({BUFFER:,}) took {amount(batch['seconds'], size)}; the first batch is from the first "
                  f"{max(batch['ids']) + 1:,} rows. shuffle({UNITS:,}) would take {UNITS // BUFFER} times that")
        self.note(f"TensorFlow's _global_shuffle, which is not exported and wants random access to its source: "
                  f"{unexported['seconds']:.2f} s, first batch with rows up to {max(unexported['ids']):,}")
        near = max(batch["ids"]) < UNITS // 2
        return f"no: {power(BUFFER)}-row buffer" if near else amount(batch["seconds"], size)

    def same_order(self):
        with self.served("order") as restart:
            one = pull("tfdata", self.url, units=FEW, job="one")
            many = pull("tfdata", self.url, units=FEW, job="many", workers=MANY)
            resumed = pull("tfdata", self.url, units=FEW, job="resumed", batches=FEW // BATCH // 2)
            restart()
            resumed += pull("tfdata", self.url, units=FEW, job="resumed")
        return self.compare(one, many, resumed)

    def killed(self):
        with self.served("killed"):
            victim = pull_and_kill("tfdata", self.url, units=FEW)
            return self.count_lost(victim, pull("tfdata", self.url, units=FEW, workers=3))

    def curl(self):
        with self.served("curl"):
            url = self.url.replace("grpc", "http") + "/batch?size=5"
            found = curled(url) or curled(url, "--http2-prior-knowledge")
        self.note(f"curl of /batch?size=5 over HTTP/1.1 and HTTP/2: {len(found)} ids; the port speaks gRPC with "
                  "TensorFlow's own messages")
        return "yes" if found else "no"


class Redis(System):
    name, title, module = "redis", "Redis list", None

    def served(self, folder, appendonly="no"):
        self.port = bench.free_port()
        (self.folder / folder).mkdir()
        return self.serving(["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder / folder,
                             "--appendonly", appendonly], self.wait)

    def wait(self):
        bench.wait_for_port(self.port)
        while self.cli("PING") != "PONG":  # it is still reading what it kept
            time.sleep(0.05)

    def cli(self, *words, **options):
        return subprocess.run(["redis-cli", "-p", str(self.port), *words], check=True, stdout=subprocess.PIPE,
                              text=True, errors="replace", **options).stdout.strip()

    def fill(self, elements):
        """RPUSH of all, a thousand a command; the seconds that it took, those of writing the commands not counted."""
        commands = self.folder / "commands"
        with open(commands, "wb") as file:
            for first in range(0, len(elements), 1000):
                words = [b"RPUSH", b"ids", *elements[first:first + 1000]]
                file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        with open(commands, "rb") as file:
            begin = time.monotonic()
            self.cli("--pipe", stdin=file)
            return time.monotonic() - begin

    def shuffled(self, count, largest):
        ids = list(range(0, largest, largest // count))
        random.Random(1).shuffle(ids)
        return [b"%d" % number for number in ids]

    def filled(self, folder, elements):
        """Seconds and bytes."""
        with self.served(folder):
            before = peak_bytes(self.process.pid)
            seconds = self.fill(elements)
            begin = time.monotonic()
            self.cli("LPOP", "ids")
            return seconds + time.monotonic() - begin, peak_bytes(self.process.pid) - before

    def first_batch(self):
        ids = self.shuffled(PART, UNITS)
        packed = [struct.pack(f"<{BATCH}i", *map(int, ids[first:first + BATCH])) for first in range(0, PART, BATCH)]
        ways = {"an element an id": self.filled("ids", ids),
                f"an element a batch of {BATCH}, 32 bits an id": self.filled("batches", packed)}
        scale = UNITS // PART
        for way, found in ways.items():
            self.note(f"RPUSH of {PART:,} ids below {UNITS:,}, {way}, shuffled and formatted beforehand: "
                      f"{amount(*found)}")
        seconds, size = min(ways.values())
        self.note(f"the cell is {scale} times the faster; the shuffle itself would come on top, see DataLoader")
        self.first = [bench.Sample(seconds * scale)]
        return amount(seconds * scale, size * scale, "~")

    def resumed(self, folder, appendonly):
        with self.served(folder, appendonly) as restart:
            self.fill(self.shuffled(FEW, FEW))
            resumed = pull("redis", self.port, batches=FEW // BATCH // 2)
            restart()
            return resumed + pull("redis", self.port)

    def same_order(self):
        drawn = []
        for workers in (1, MANY):
            with self.served(f"order-{workers}"):
                self.fill(self.shuffled(FEW, FEW))
                drawn.append(pull("redis", self.port, workers=workers))
        if self.compare(*drawn, self.resumed("default", "no")) == "yes":
            return "yes"
        return "with AOF" if self.compare(*drawn, self.resumed("aof", "yes"), ", appendonly yes") == "yes" else "no"

    def killed(self):
        with self.served("killed"):
            self.fill(self.shuffled(FEW, FEW))
            victim = pull_and_kill("redis", self.port)
            return self.count_lost(victim, pull("redis", self.port, workers=3))

    def curl(self):
        with self.served("curl"):
            self.fill(self.shuffled(FEW, FEW))
            text = curl(f"telnet://127.0.0.1:{self.port}", input="LPOP ids 5\r\nQUIT\r\n")
        ids = re.findall(r"^\d+", text, re.M)
        self.note(f"LPOP ids 5 through `curl telnet://`: {len(ids)} ids")
        return "yes" if len(ids) == 5 else "no"


class Tombola(System):
    name, title, module = "tombola", "Tombola", None

    def served(self, *options):
        port = bench.free_port()
        self.url = f"http://127.0.0.1:{port}"
        return self.serving([bench.SAMPLER, "serve", "--listen", f"127.0.0.1:{port}", *options], self.first_line)

    def few(self, state):
        return ("--store", f"range:{FEW}?labels=10", "--seed", "1", "--epochs", "1", "--lease", "1",
                "--state", self.folder / state)

    def started(self):
        """Seconds and bytes from nothing to the first batch."""
        begin = time.monotonic()
        with self.served("--store", f"range:{UNITS}?labels=10"):
            [batch] = pull("tombola", self.url, batches=1)
            return time.monotonic() - begin, peak_bytes(self.process.pid), max(batch["ids"])

    def first_batch(self):
        seconds, sizes, last = zip(*(self.started() for _ in range(bench.ROUNDS)))
        self.first = [bench.Sample(value) for value in seconds]
        self.note(f"server start to the answer of GET /batch, the median of {bench.ROUNDS}; rows up to {max(last):,}")
        return amount(bench.median(seconds), max(sizes))

    def same_order(self):
        drawn = []
        for workers in (1, MANY):
            with self.served(*self.few(f"order-{workers}")):
                drawn.append(pull("tombola", self.url, workers=workers))
        with self.served(*self.few("resumed")) as restart:
            resumed = pull("tombola", self.url, batches=FEW // BATCH // 2)
            restart()
            resumed += pull("tombola", self.url)
        return self.compare(*drawn, resumed)

    def killed(self):
        with self.served(*self.few("killed")):
            victim = pull_and_kill("tombola", self.url)
            return self.count_lost(victim, pull("tombola", self.url, workers=3))

    def curl(self):
        with self.served("--store", f"range:{FEW}?labels=10"):
            found = curled(f"{self.url}/batch?size=5")
        self.note(f"curl of /batch?size=5: {len(found)} ids")
        return "yes" if len(found) == 5 else "no"


def curl(*words, **options):
    return subprocess.run(["curl", "-s", "-m", "10", *words], stdout=subprocess.PIPE, text=True, errors="replace",
                          check=False, **options).stdout


def curled(*words):
    """The ids of the JSON that curl got; none if that was something else, or nothing."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return json.loads(curl(*words))["ids"]
    return []


def listening_ports(pid):
    """TCP ports that a process listens on."""
    sockets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.update(re.findall(r"socket:\[(\d+)\]", os.readlink(file)))
    lines = [line.split() for name in ("tcp", "tcp6")
             for line in Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii").splitlines()[1:]]
    return {int(words[1].rsplit(":", 1)[1], 16) for words in lines if words[3] == "0A" and words[9] in sockets}


def first_batches(systems):
    """A table of those that shuffle globally. Those that take minutes are measured once."""
    results = {system.title: system.first for system in systems if system.first}
    bench.table(f"From nothing to the first batch of a global shuffle of {power(UNITS)} rows", [
        "by", "s", "min .. max", "CPU", "CPU ratio", "ratio"], bench.rows(results, best=min))


def measure():
    with bench.folder() as folder:
        systems = [kind(folder) for kind in (Dataloader, Tfdata, Redis, Tombola)]
        rows = []
        for what, cell in ((f"global shuffle of {power(UNITS)} rows, first batch", "first_batch"),
                           (f"same order for 1 or {MANY} workers, after a restart", "same_order"),
                           (f"a killed worker's rows, of {FEW:,}", "killed"),
                           ("any language, `curl`", "curl")):
            there = [None if system.module and not bench.python_with(system.module) else getattr(system, cell)()
                     for system in systems]
            rows.append([what, *there])
        notes = [f"{system.title}: not there" for system, found in zip(systems, rows[0][1:]) if found is None]
        notes += [note for system in systems for note in system.notes]
    bench.table("One shuffle for a training job", ["", *(system.title for system in systems)], rows,
                ["Memory is by how much the process that holds the order grew at its peak; for Tombola all it had.",
                 "~: measured with fewer rows and multiplied. Workers, and servers before a restart, end by kill -9.",
                 "Tombola was restarted with --state, Redis with and without appendonly.", *notes])
    first_batches(systems)


if __name__ == "__main__":
    bench.main(measure)
