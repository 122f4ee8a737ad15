# SPDX-License-Identifier: MIT
"""Training steps a second: the real thing, sampler and loader included, beside PyTorch and numpy with the data in
memory as floats; the classic job (784-100-10, batch 100, Adagrad 0.01, summed loss).

Once on handwritten digits, four of five of whose values are zero, which our products skip; once on values of which
none is; and with Adam on rows of which most columns are nearly always zero, where moments become denormal. Of the
peers' variants each is tried once, and the two best compete with us, round by round.
TOMBOLA_BENCH_DATA=DIR takes DIR/mnist_train.csv instead of the demo data.
"""
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import bench
from bench import Sample

STEPS = bench.choose(3000, 100)
CHAIN_STEPS = bench.choose(10000, 100)  # the classic job's
SECONDS = bench.choose(1.5, 0.05)
ROWS = bench.choose(20000, 1000)
RATES = {"adagrad": "0.01", "adam": "0.001"}
THREADS = bench.choose(sorted({1, len(bench.CPUS)}), [1])
HOW = bench.choose(("plain", "foreach", "fused", "compile", "compile all"), ("fused",))
HEAD = "rows", "by", "steps/s", "min .. max", "CPU us a step", "waited %", "CPU ratio", "ratio"


def digits():
    where = os.environ.get("TOMBOLA_BENCH_DATA")
    if not where:
        return bench.demo_data(ROWS)
    csv = Path(where) / "mnist_train.csv"
    return csv, bench.imported(csv, bench.CACHE / "named.db")


def dense():
    """Rows without a zero."""
    csv = bench.CACHE / f"dense-{ROWS}.csv"
    if not csv.exists():
        csv.parent.mkdir(parents=True, exist_ok=True)
        dice, values = random.Random(1), [str(1 + number % 255) for number in range(256)]
        with open(csv, "w", encoding="ascii") as out:
            for row in range(ROWS):
                out.write(",".join([str(row % 10), *(values[byte] for byte in dice.randbytes(784))]) + "\n")
    return csv, bench.imported(csv)


def rare():
    """Digits' 784 columns, of which 634 are set in one of 4,000 rows."""
    csv = bench.CACHE / f"rare-{ROWS}.csv"
    if not csv.exists():
        csv.parent.mkdir(parents=True, exist_ok=True)
        dice = random.Random(1)
        with open(csv, "w", encoding="ascii") as out:
            for row in range(ROWS):
                known = 784 if row % 4000 == 0 else 150
                out.write(",".join([str(row % 10), *(str(1 + byte % 255) for byte in dice.randbytes(known)),
                                    *["0"] * (784 - known)]) + "\n")
    return csv, bench.imported(csv)


class Ours:
    """tombola-trainer, start and end not counted; the processor time is all of its own and the sampler's."""

    def __init__(self, sampler, store, threads, optimizer, steps=STEPS):
        self.sampler, self.store, self.threads, self.optimizer, self.steps = sampler, store, threads, optimizer, steps

    def measure(self):
        with bench.folder() as logdir:
            before = bench.cpu_seconds(self.sampler.pid)
            text, (_, spent, _) = bench.measured([
                bench.TRAINER, "train", "--sampler", self.sampler.url, "--store", self.store, "--logdir",
                logdir / "run", "--model", "mlp", "--hidden_units", "100", "--optimizer", self.optimizer, "--learning_rate",
                RATES[self.optimizer], "--batch_size", "100", "--train_steps", self.steps, "--seed", "1", "--save_secs", "0",
                "--print_every", "1000", "--threads", self.threads], stderr=subprocess.STDOUT)
            spent += bench.cpu_seconds(self.sampler.pid) - before
        found = re.search(r"([\d.]+) steps/s,.* waited for data ([\d.]+) %", text)
        if not found:
            sys.exit(f"the training did not end well:\n{text[-2000:]}")
        return Sample(float(found[1]), 1e6 * spent / self.steps, (float(found[2]),))


class Arrays:
    """The same steps over rows that lie in memory as bytes, in the order in which they are taken."""

    def __init__(self, store, threads, optimizer):
        self.question = [store, ROWS, CHAIN_STEPS, optimizer, RATES[optimizer], threads]

    def measure(self):
        text, _ = bench.measured([bench.PROGRAMS / "array_steps", *self.question])
        steps, cpu_us = re.fullmatch(r"(\d+) steps/s, ([\d.]+) us\n", text).groups()
        return Sample(float(steps), float(cpu_us), (None,))


class Theirs:
    def __init__(self, peer, how, threads, csv, optimizer):
        self.peer = peer
        self.question = {"how": how, "threads": threads, "path": csv, "rows": ROWS, "optimizer": optimizer}

    def measure(self, seconds=SECONDS):
        found, spent = self.peer.ask(**self.question, seconds=seconds)
        return Sample(found["rate"], 1e6 * spent / found["steps"], (None,))


def theirs(csv, optimizer):
    """name -> every variant of the peers. numpy takes as many threads as its products' library does."""
    entries = {}
    adagrad = optimizer == "adagrad"
    if python := bench.python_with("torch"):
        peer = bench.Peer(python, "peer_trainer.py")
        entries = {f"PyTorch, {how}, threads {threads}": Theirs(peer, how, threads, csv, optimizer)
                   for threads in THREADS for how in HOW if adagrad or how != "compile all"}
    python = bench.python_with("numpy") if adagrad else None
    if python:
        entries["numpy"] = Theirs(bench.Peer(python, "peer_trainer.py"), "numpy", 1, csv, optimizer)
    return entries


def compete(name, csv, database, optimizer="adagrad"):
    """Lines of four tables: ours and the two best of the peers' variants in turn; what the chain costs; two threads
    beside one; each variant once."""
    tried = theirs(csv, optimizer)
    for entry in tried.values():
        entry.measure(0)  # compiles
    heats = {name: entry.measure(SECONDS / 3) for name, entry in tried.items()}
    finalists = sorted(tried, key=lambda name: -heats[name].value)[:2]
    uri = f"csv:{csv}?label=0&header=no"
    with bench.Sampler("--store", uri, "--seed", "1", "--rows", f"0:{ROWS}") as sampler:
        ours = {f"Tombola, {kind}, threads {threads}": Ours(sampler, store, threads, optimizer)
                for kind, store in (("SQLite", f"sqlite:{database}"), ("CSV", uri)) for threads in THREADS}
        competing = ours | {name: tried[name] for name in finalists}
        lines = bench.rows(bench.in_turn({name: entry.measure for name, entry in competing.items()}), [name])
        chain = bench.rows(bench.in_turn({
            "Tombola, sampler to step": Ours(sampler, f"sqlite:{database}", 1, optimizer, CHAIN_STEPS).measure,
            "arrays in memory": Arrays(f"sqlite:{database}", 1, optimizer).measure}), [name])
    threads = bench.rows(bench.in_turn({
        by: Arrays(f"sqlite:{database}", count, optimizer).measure
        for by, count in (("Tombola, threads 2", 2), ("the same, threads 1", 1))}), [name])
    return lines, chain, threads, [[name, variant, sample.value, sample.cpu_us] for variant, sample in heats.items()]


def measure():
    finals, chains, threads, heats = zip(*(compete(name, *files) for name, files in (
        ("digits", digits()), ("no zeros", dense()), ("rare columns, Adam", (*rare(), "adam")))))
    bench.table("Training 784-100-10, batches of 100, Adagrad but where it says Adam", HEAD, sum(finals, []), [
        f"Ours pulls from the sampler and fetches, theirs have all {ROWS:,} rows in memory as floats; {bench.ROUNDS} "
        "rounds.",
        "Processor time of ours counts the start of the programs as well, and the sampler's."])
    bench.table("What the chain costs", HEAD, sum(chains, []), [
        f"{CHAIN_STEPS:,} steps. Arrays in memory: our own, one thread, without sampler, feed, report and checkpoints."])
    bench.table("Two threads: arrays in memory", HEAD, sum(threads, []))
    bench.table("The peers' variants, each once: the best two compete above",
                ["rows", "by", "steps/s", "CPU us a step"], sum(heats, []))
    if not bench.QUICK:
        print("\n### Matrix products of one step\n")
        sys.stdout.flush()
        subprocess.run([bench.PROGRAMS / "bench_blas"], check=True)


if __name__ == "__main__":
    bench.main(measure)
