"""Ids a second of an order on one thread, with memory, start-up and chi-square, beside its peers.

numpy, torch and mosaicml's py1e shuffle all units before the first batch and keep them; grain and
we compute each position. `chi2/df` is the mean chi-square of batches of 100 against tenths of the
rows, divided by its degrees of freedom: 1 is chance, more is worse. The rows of 1e9 units for those
that shuffle take 8 to 24 GB and minutes: only with TOMBOLA_BENCH_LONG=1.
"""
import os
import subprocess
import sys

from bench import BUILD, CACHE, PEER_PYTHON, table

BATCH = 100
PROGRAM = BUILD / "tests" / "bench" / "bench_order"
VENV = CACHE / "order-peers"

#: A peer defines start(units) and draw(state, first, count); prints start s, ids/s, kB, version, chi.
PEER = r"""
import sys, time, importlib.util, types, pathlib
name, units, batch = sys.argv[1], int(float(sys.argv[2])), int(sys.argv[3])
import numpy
def private():
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
def take(order, first, count):
    return order[first:first + count].copy()
if name == "numpy":
    version, draw = numpy.__version__, take
    def start(units): return numpy.random.default_rng(1).permutation(units)
elif name == "torch":
    import torch
    version = torch.__version__
    def draw(order, first, count): return order[first:first + count].clone().numpy()
    def start(units): return torch.randperm(units, generator=torch.Generator().manual_seed(1))
elif name == "grain":
    from importlib.metadata import version as version_of
    version = version_of("grain")
    # The function alone: the package itself wants what --no-deps left out.
    folder = pathlib.Path(next(p for p in sys.path if (pathlib.Path(p) / "grain").is_dir()))
    spec = importlib.util.spec_from_file_location("index_shuffle_module", next(
        folder.glob("grain/_src/python/experimental/index_shuffle/python/*_module.so")))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    def start(units): return units
    def draw(units, first, count):
        return numpy.array([module.index_shuffle(i, units - 1, 1, 4)
                            for i in range(first, first + count)])
else:
    from importlib.metadata import version as version_of
    version, draw = version_of("mosaicml-streaming"), take
    # The function alone: the package itself wants torch and the clients of every cloud.
    folder = pathlib.Path(next(p for p in sys.path if (pathlib.Path(p) / "streaming").is_dir()))
    for package in ("streaming", "streaming.base", "streaming.base.shuffle"):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(folder / package.replace(".", "/"))]
    from streaming.base.shuffle.py1e import get_shuffle_py1e
    def start(units):
        shards = numpy.full(max(1, units // 50000), 50000, numpy.int64)
        shards[-1] += units - shards.sum()
        return get_shuffle_py1e(shards, 1, 1, 0)
before = time.perf_counter()
state = start(units)
draw(state, 0, batch)
started = time.perf_counter() - before
before, used, drawn = time.perf_counter(), time.process_time(), 0
while time.perf_counter() - before < 1:
    draw(state, drawn % (units - batch + 1), batch)
    drawn += batch
rate = drawn / (time.process_time() - used)
memory = private()
chi, batches = 0, 2000
for i in range(batches):
    rows = draw(state, i * (units // batches - 100), 100)
    counts = numpy.bincount((rows.astype(float) * 10 / units).astype(int), minlength=10)
    chi += ((counts - 10) ** 2 / 10).sum()
print(started, rate, memory, version, chi / batches / 9)
"""

#: What is drawn, the store, the design, its fields. Many labels are what image sets have.
OURS = [
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

#: Peer, the sizes it can do in seconds, those for TOMBOLA_BENCH_LONG.
PEERS = [
    ("numpy", ["1e6", "1e8"], ["1e9"]),
    ("torch", ["1e6", "1e8"], ["1e9"]),
    ("grain", ["1e6", "1e9"], []),
    ("py1e", ["1e6"], ["1e8", "1e9"]),
]
SHOWN = {"numpy": "permutation", "torch": "randperm", "grain": "index_shuffle", "py1e": "(mosaicml)"}


def ours(uri, design, fields, batch):
    words = subprocess.run([PROGRAM, uri, design, str(batch), fields], check=True,
                           capture_output=True, text=True).stdout.split()
    return (float(words[0]), float(words[1]), int(words[2]),
            float(words[3]) if len(words) > 3 else "-")


def install():
    """grain and mosaicml-streaming without what they depend on, into a folder of their own."""
    python = VENV / "bin" / "python"
    if not python.exists():
        print(f"installing grain and mosaicml-streaming from PyPI into {VENV} (once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=False)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "numpy", "grain",
                        "mosaicml-streaming"], check=False)
    return python


def peer(name, units):
    """(start s, ids/s, kB, version, chi), or None where the peer is not installed."""
    for python in filter(None, (VENV / "bin" / "python", PEER_PYTHON, sys.executable,
                                "/usr/bin/python3")):
        if not os.path.exists(python):
            continue
        found = subprocess.run([python, "-c", PEER, name, units, str(BATCH)], capture_output=True,
                               text=True, check=False)
        if found.returncode == 0:
            words = found.stdout.split()
            return float(words[0]), float(words[1]), int(words[2]), words[3], float(words[4])
    return None


def main():
    subprocess.run(["make", "-s", "-C", BUILD, "tests/bench/bench_order"], check=True)
    install()
    rows = []
    for what, uri, design, fields in OURS:
        for batch in (BATCH, 10000):
            start, rate, kilobytes, chi = ours(uri, design, fields, batch)
            by = "alias table (Vose)" if design == "alias" else f"tombola {design}"
            rows.append([what, by, batch, 1000 * start, kilobytes / 1024, rate / 1e6, chi])
    notes = []
    for name, sizes, long_sizes in PEERS:
        if os.environ.get("TOMBOLA_BENCH_LONG") == "1":
            sizes = sizes + long_sizes
        elif long_sizes:
            notes.append(f"{name} at {' and '.join(long_sizes)}: not run (gigabytes, minutes); "
                         "TOMBOLA_BENCH_LONG=1 runs it.")
        for units in sizes:
            found = peer(name, units)
            if not found:
                notes.append(f"{name} is not installed here: no row.")
                break
            start, rate, kilobytes, version, chi = found
            rows.append([f"{units} units", f"{name} {version} {SHOWN[name]}", BATCH, 1000 * start,
                         kilobytes / 1024, rate / 1e6, chi])
    notes.append("numpy's, torch's and py1e's rates are those of copying ids that they hold in "
                 "memory; grain's is through Python, an id a call.")
    notes.append("py1e moves ids within blocks of some 262,144 only: a label-sorted list stays sorted "
                 "at large.")
    notes.append("weighted, alias: memory beyond the 8 bytes a weight of the frame itself.")
    table("One order, one thread: ids a second of CPU time",
          ["drawn", "by", "batch", "first batch ms", "private MiB", "million ids/s", "chi2/df"],
          rows, notes)


if __name__ == "__main__":
    main()
