# SPDX-License-Identifier: MIT
"""Rows a second of a feed beside PyTorch's DataLoader, tensors and numpy, on the same SQLite file and the same CSV.

One epoch is 60,000 rows of 784 bytes, shuffled, as float32 batches of 100. Rows that are fetched each time compete
with rows that are fetched, rows in memory with rows in memory. Of a peer's many variants each is tried once, and the
best competes with us, round by round. "First epoch" counts from nothing: opening the store, the workers, and
reading all rows where they are kept in memory. The files are in the page cache, for both. Beside the best, the line
that people write competes: x[perm[i:i + 100]].float() / 255.

Rows that differ in length are a table of their own: batches of 32, filled up with zeros to their longest row, beside
PyTorch's pad_sequence over views of rows that lie in memory.
"""
import array
import itertools
import json
import os
import random
import subprocess
import sys

import bench
from bench import Sample

ROWS = bench.choose(60000, 2000)
SECONDS = bench.choose(1, 0.1)  # of later epochs
CACHE_BYTES = 1 << 30
STEP_US = 200  # a training step of the MLP 784-100-10 takes about as long
WORKERS = range(bench.choose(len(bench.CPUS) + 1, 2))
KINDS = {
    "numpy_batch": "numpy, a batch at once",
    "row": "DataLoader, __getitem__",
    "getitems": "DataLoader, __getitems__",
    "batch": "DataLoader, a batch by BatchSampler",
    "loaded_u8": "DataLoader, bytes, a batch by BatchSampler",
    "tensor_u8": "torch, bytes, index_select and scale",
    "tensor_f32": "torch, floats, index_select",
    "tensor_plain": "torch, bytes, x[perm[i:i + 100]].float() / 255",
    "numpy_u8": "numpy, bytes, take and scale",
    "numpy_f32": "numpy, floats, take",
    "pad_row": "DataLoader, __getitem__, pad_sequence",
    "pad_batch": "DataLoader, pad_sequence by BatchSampler",
    "pad_plain": "torch, pad_sequence",
    "pad_numpy": "numpy, zeros and copies",
}
CSV_KINDS = ("numpy_u8", "tensor_u8", "tensor_plain")  # kept in memory: reading the file takes seconds, each time
TOKENS = bench.choose(50000, 500)  # rows that differ in length
WINDOWS = (0, 64)
PADDED_HEAD = ["rows", "by", "rows/s", "min .. max", "CPU us a row", "bytes a row", "bytes copied", "CPU ratio", "ratio"]
HEAD = ["rows", "by", "rows/s", "min .. max", "CPU us a row", "CPU ratio", "ratio"]


class Variant:
    """One way of a peer to read a store's rows."""

    def __init__(self, peer, kind, path, workers=0, threads=1, **more):
        self.peer, self.question = peer, {"kind": kind, "path": path, "workers": workers, "threads": threads, **more}
        self.name = KINDS[kind]
        if "DataLoader" in self.name:
            self.name += f", workers {workers}"
        elif "torch" in self.name:
            self.name += f", threads {threads}"

    def measure(self, seconds=SECONDS):
        """Of the first epoch, and of the later ones."""
        found, spent = self.peer.ask(**self.question, seconds=seconds)
        return Sample(found["first"]), Sample(found["later"], 1e6 * spent / found["rows"])


def variants(peer, kinds, path, make=Variant, **more):
    """Processes for a DataLoader, threads for torch alone; numpy has one."""
    for kind in kinds:
        if "DataLoader" in KINDS[kind]:
            yield from (make(peer, kind, path, workers=number, **more) for number in WORKERS)
        else:
            yield from (make(peer, kind, path, threads=number, **more)
                        for number in ({1, len(bench.CPUS)} if "torch" in KINDS[kind] else {1}))


class Feed:
    """Ours: the epochs of loader_epoch, of a sampler whose processor time counts as well."""

    def __init__(self, sampler, uri, *options):
        self.sampler = sampler
        self.command = [bench.PROGRAMS / "loader_epoch", "epoch", "--sampler", sampler.url, "--store", uri, *options]
        self.epochs = 3  # of which a first one

    def measure(self):
        before = bench.cpu_seconds(self.sampler.pid)
        text, (_, spent, _) = bench.measured([*self.command, "--epochs", self.epochs])
        spent += bench.cpu_seconds(self.sampler.pid) - before
        first, *later = map(json.loads, text.splitlines())
        self.bytes = first["bytes"]
        seconds = sum(epoch["seconds"] for epoch in later)
        self.waited = later[-1]["wait_share"]
        self.epochs = 1 + max(2, round(SECONDS * len(later) / seconds))  # the next time
        rows = sum(epoch["rows"] for epoch in (first, *later))
        return Sample(first["rows_per_s"]), Sample(sum(epoch["rows"] for epoch in later) / seconds, 1e6 * spent / rows)


class Bound:
    """What a feed that costs nothing would come to: rows of bytes in memory, in a random order, to floats, no more."""

    def __init__(self, threads):
        self.command = [bench.PROGRAMS / "loader_epoch", "gather", "--rows", ROWS, "--threads", threads]

    def measure(self):
        epochs = [json.loads(line) for line in bench.measured([*self.command, "--epochs", bench.choose(100, 3)])[0].splitlines()]
        wall, cpu = (bench.median([epoch[name] for epoch in epochs]) for name in ("seconds", "cpu_seconds"))
        return None, Sample(ROWS / wall, 1e6 * cpu / ROWS)


class Package:
    """Ours, from Python: a Loader's epochs, of a sampler whose processor time counts as well."""

    def __init__(self, peer, sampler, uri, **options):
        self.peer, self.sampler, self.question = peer, sampler, {"sampler": sampler.url, "store": uri, **options}

    def measure(self):
        before = bench.cpu_seconds(self.sampler.pid)
        found, spent = self.peer.ask(**self.question, seconds=SECONDS)
        spent += bench.cpu_seconds(self.sampler.pid) - before
        return Sample(found["first"]), Sample(found["later"], 1e6 * spent / found["rows"])


def python_package():
    """A program with the package of this tree, built for the Python that has NumPy."""
    folder, python = bench.CACHE / "python", bench.python_with("numpy")
    folder.mkdir(parents=True, exist_ok=True)
    bench.measured([python, "setup.py", "-q", "build", "--build-base", folder / "base", "--build-lib", folder / "lib"],
                   cwd=bench.ROOT / "loader" / "python", env={**os.environ, "TOMBOLA_BUILD": os.fspath(bench.BUILD)},
                   stderr=subprocess.DEVNULL)
    return bench.Peer(python, "loader_epoch.py", PYTHONPATH=os.fspath(folder / "lib"))


def compete(rows, ours, tried):
    """Lines of three tables: first and later epochs of ours, of the peer's two best variants and of what people write,
    measured in turn; and each of its variants, measured once."""
    heats = {variant.name: variant.measure(SECONDS / 4)[1] for variant in tried}
    ranked = sorted(tried, key=lambda variant: -heats[variant.name].value)
    finalists = ranked[:2] + [one for one in ranked[2:] if one.question["kind"] == "tensor_plain"][:1]
    results = bench.in_turn({name: entry.measure for name, entry in
                             [*ours.items(), *((variant.name, variant) for variant in finalists)]})
    first, later = ({name: [pair[i] for pair in pairs] for name, pairs in results.items() if pairs[0][i]} for i in (0, 1))
    return (bench.rows(first, [rows]), bench.rows(later, [rows]),
            [[rows, name, sample.value, sample.cpu_us] for name, sample in heats.items()])


# ---- rows that differ in length -----------------------------------------------------------------


def tokens():
    """Rows of floats whose lengths are log-normal, a few of them long: (folder, bytes of the mean row); made once. It holds
    all values side by side, where each row ends, and a row file."""
    folder = bench.CACHE / f"tokens-{TOKENS}"
    if not (folder / "tokens.rows").exists():
        folder.mkdir(parents=True, exist_ok=True)
        dice = random.Random(1)
        rows = [[dice.randrange(50000) for _ in range(min(3000, max(1, round(dice.lognormvariate(4.6, 0.8)))))]
                for _ in range(TOKENS)]
        (folder / "tokens.csv").write_text("label\n" + "".join(
            f"{i % 10},{','.join(map(str, row))}\n" for i, row in enumerate(rows)), encoding="ascii")
        save(folder / "values.npy", "<f4", array.array("f", itertools.chain.from_iterable(rows)))
        save(folder / "ends.npy", "<i8", array.array("q", itertools.accumulate(map(len, rows))))
        bench.measured([bench.LOADER, "import", f"csv:{folder}/tokens.csv?longest=any", f"rows:{folder}/tokens.rows"])
    return folder, (folder / "values.npy").stat().st_size / TOKENS


def save(path, kind, values):
    """As numpy.save() does, which this Python need not have."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len(values)},), }}".ljust(117) + "\n"
    assert sys.byteorder == "little"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode("ascii") + values.tobytes())


class Padded:
    """A contestant whose batches are filled up with zeros: bytes of a row in its batch, and bytes written for it: `fills`
    times the whole batch, `copies` times the rows themselves."""

    def __init__(self, inner, row_bytes, fills, copies):
        self.inner, self.name = inner, getattr(inner, "name", "")
        self.row_bytes, self.fills, self.copies = row_bytes, fills, copies

    def measure(self, seconds=SECONDS):
        _, later = self.inner.measure() if isinstance(self.inner, Feed) else self.inner.measure(seconds)
        bytes_a_row = self.inner.bytes / TOKENS
        return Sample(later.value, later.cpu_us, (bytes_a_row, self.fills * bytes_a_row + self.copies * self.row_bytes))


class PaddedVariant(Variant):
    """pad_sequence fills a batch with zeros, and copies its rows; a worker's batch goes through shared memory, too."""

    def measure(self, seconds=SECONDS):
        found, spent = self.peer.ask(**self.question, seconds=seconds)
        self.bytes = found["bytes"]
        return Sample(found["first"]), Sample(found["later"], 1e6 * spent / found["rows"])


def padded_lines(peer, folder, row_bytes, window):
    """Of one way to make batches."""
    kinds = ["pad_numpy", *(["pad_row", "pad_batch", "pad_plain"] if bench.python_with("torch") else [])]
    tried = [Padded(one, row_bytes, 1 + (one.question["workers"] > 0), 1)
             for one in variants(peer, kinds, folder, PaddedVariant, window=window)]
    heats = {one.name: one.measure(SECONDS / 4) for one in tried}
    finalists = sorted(tried, key=lambda one: -heats[one.name].value)[:2]
    uri, options = f"rows:{folder}/tokens.rows", ("--size", 32, "--bucket-window", window)
    with bench.Sampler("--store", uri, "--seed", "1") as sampler:
        ours = {"Tombola, row file": Feed(sampler, uri, *options),
                "Tombola, in memory": Feed(sampler, uri, *options, "--cache-bytes", CACHE_BYTES)}
        # where lengths are at hand: the rows, and zeros behind them
        results = bench.in_turn({name: Padded(one, row_bytes, 1, 0).measure for name, one in ours.items()} |
                                {one.name: one.measure for one in finalists})
    return bench.rows(results, [f"sorted within {window} batches" if window else "shuffled"])


def measure_padded(peer):
    folder, row_bytes = tokens()
    lines = [line for window in WINDOWS for line in padded_lines(peer, folder, row_bytes, window)]
    bench.table("Rows that differ in length: rows a second", PADDED_HEAD, lines, [
        f"{TOKENS:,} rows of float32, log-normal lengths, {row_bytes:.0f} bytes in the mean; batches of 32.",
        "Bytes a row: of a batch, zeros included. Bytes copied: written for it, computed: zeros, rows, shared memory."])


def groups(sampler, package, csv, database):
    """What competes with what: the rows, ours by name, the peer's kinds, their file."""
    fetched, kept = ["numpy_batch"], ["numpy_u8", "numpy_f32"]
    if bench.python_with("torch"):
        fetched += ["row", "getitems", "batch"]
        kept += ["loaded_u8", "tensor_u8", "tensor_f32", "tensor_plain"]
    in_memory = ("--cache-bytes", CACHE_BYTES)
    uri, csv_uri = f"sqlite:{database}", f"csv:{csv}?label=0&header=no"
    for rows, fetched_uri, path in (("SQLite, fetched", uri, database), ("CSV, fetched", csv_uri, csv)):
        yield rows, {f"Tombola, fetchers {number}": Feed(sampler, fetched_uri, "--fetchers", number)
                     for number in (1, 2)}, fetched, path
    yield "CSV, kept in memory", {
        "Tombola, bytes": Feed(sampler, csv_uri, *in_memory),
        "Tombola, bytes, Python": Package(package, sampler, csv_uri, pull="index"),
    }, [kind for kind in kept if kind in CSV_KINDS], csv
    yield "SQLite, kept in memory", {
        "Tombola, bytes": Feed(sampler, uri, *in_memory),
        "Tombola, bytes, by draws": Feed(sampler, uri, *in_memory, "--draws-ahead", 4),
        "Tombola, bytes, Python": Package(package, sampler, uri, pull="index"),
        "Tombola, bytes, Python, by lease": Package(package, sampler, uri),
        **{f"Tombola without a feed: rows to floats, threads {number}": Bound(number)
           for number in sorted({1, len(bench.CPUS)})},
    }, kept, database


def measure():
    csv, database = bench.demo_data(ROWS)
    peer = bench.Peer(bench.python_with("torch") or bench.python_with("numpy"), "peer_loader.py")
    package = python_package()
    tables = []
    with bench.Sampler("--store", f"sqlite:{database}", "--seed", "1") as sampler:
        for rows, ours, kinds, path in groups(sampler, package, csv, database):
            tables.append(compete(rows, ours, list(variants(peer, kinds, path))))
        worker = Feed(sampler, f"sqlite:{database}", "--cache-bytes", CACHE_BYTES, "--work-us", STEP_US)
        worker.measure()
    first, later, heats = (list(itertools.chain(*lines)) for lines in zip(*tables))
    notes = [f"{ROWS:,} rows of 784 bytes as float32 batches of 100; {bench.ROUNDS} rounds of {SECONDS} s at least.",
             "Processor time: of all processes, the sampler among them, and all epochs.",
             f"A caller that works {STEP_US} us a batch waits {100 * worker.waited:.1f} % of the time for its next.",
             "Peers read a whole CSV by numpy.fromstring(): quicker than loadtxt(), or DuckDB with so many columns.",
             "Workers of a DataLoader are persistent; pin_memory does nothing without a GPU. Importing is not counted."]
    bench.table("Later epochs, shuffled: rows a second", HEAD, later, notes)
    bench.table("First epoch, from nothing: rows a second", HEAD, first)
    bench.table("The peer's variants, each once: the best two compete above", ["rows", "by", "rows/s", "CPU us a row"],
                heats)
    measure_padded(peer)


if __name__ == "__main__":
    bench.main(measure)
