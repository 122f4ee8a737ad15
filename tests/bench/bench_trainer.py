"""Training steps a second: the real thing, sampler and loader included, beside plain PyTorch with
the data already in memory; the classic job (784-100-10, batch 100, Adagrad 0.01, summed loss).

TOMBOLA_BENCH_DATA=DIR takes DIR/mnist_train.csv instead of the demo data.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from bench import BUILD, CACHE, LOADER, PEER_PYTHON, TRAINER, demo_data, folder, sampler, table

STEPS = 5000
ROWS = 20000

PEER = r"""
import json, sys, time
import numpy, torch
path, rows, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, encoding="ascii") as lines:
    text = ",".join(next(lines).strip() for _ in range(rows))
data = numpy.fromstring(text, dtype=numpy.float32, sep=",").reshape(rows, 785)
x, y = torch.tensor(data[:, 1:]) / 255, torch.tensor(data[:, 0]).long()
def measure(threads, **how):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    loss = torch.nn.CrossEntropyLoss(reduction="sum")
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01, initial_accumulator_value=0.1, **how)
    best = 0
    for _ in range(3):
        order = torch.randperm(rows)
        start = time.perf_counter()
        for step in range(steps):
            first = step * 100 % rows
            batch = order[first:first + 100]
            optimizer.zero_grad()
            loss(model(x[batch]), y[batch]).backward()
            optimizer.step()
        best = max(best, steps / (time.perf_counter() - start))
    return best
found = []
for threads in (1, 2):
    for name, how in (("foreach", {"foreach": True}), ("fused", {"fused": True}), ("plain", {})):
        try:
            found.append((threads, name, measure(threads, **how)))
        except (TypeError, RuntimeError):
            pass
json.dump({"version": torch.__version__, "rates": found}, sys.stdout)
"""


def data():
    """(train.csv, train.db): the demo data, or those that TOMBOLA_BENCH_DATA names."""
    where = os.environ.get("TOMBOLA_BENCH_DATA")
    if not where:
        return demo_data()
    csv, database = Path(where) / "mnist_train.csv", CACHE / "named-train.db"
    CACHE.mkdir(parents=True, exist_ok=True)
    database.unlink(missing_ok=True)
    subprocess.run([LOADER, "import", f"csv:{csv}?label=0&header=no", f"sqlite:{database}"],
                   check=True, stdout=subprocess.DEVNULL)
    return csv, database


def ours(url, store):
    """(steps/s, share of the time that the training waited for data in %), the better of two."""
    best = (0.0, None)
    for _ in range(2):
        with folder() as logdir:
            done = subprocess.run(
                [TRAINER, "train", "--sampler", url, "--store", store, "--logdir", logdir / "run",
                 "--model", "mlp", "--hidden_units", "100", "--optimizer", "adagrad",
                 "--learning_rate", "0.01", "--batch_size", "100", "--train_steps", str(STEPS),
                 "--seed", "1", "--save_secs", "0", "--print_every", "1000"],
                capture_output=True, text=True, check=False)
        found = re.search(r"([\d.]+) steps/s,.* waited for data ([\d.]+) %", done.stderr)
        if done.returncode or not found:
            sys.exit(f"the training did not end well:\n{done.stderr[-2000:]}")
        best = max(best, (float(found[1]), float(found[2])))
    return best


def main():
    csv, database = data()
    lines = []
    uri = f"csv:{csv}?label=0&header=no"
    with sampler("--store", uri, "--seed", "1", "--rows", f"0:{ROWS}") as url:
        for name, store in (("SQLite", f"sqlite:{database}"), ("CSV", uri)):
            rate, waited = ours(url, store)
            lines.append([f"tombola-trainer, sampler and loader included, {name}, 1 thread", rate,
                          rate * 100, 1e6 / rate, waited])
    best = None
    if PEER_PYTHON:
        peer = json.loads(subprocess.run([PEER_PYTHON, "-c", PEER, str(csv), str(ROWS), "1000"],
                                         check=True, stdout=subprocess.PIPE, text=True).stdout)
        for threads, name, rate in peer["rates"]:
            lines.append([f"PyTorch {peer['version']}, data in memory, {name}, {threads} thread"
                          f"{'s' * (threads > 1)}", rate, rate * 100, 1e6 / rate, None])
        best = max(rate for threads, _, rate in peer["rates"] if threads == 1)
    for line in lines:
        line.append(line[1] / best if best else None)
    table("Training 784-100-10, batch 100, Adagrad",
          ["who", "steps/s", "rows/s", "us a step", "waited %", "ratio"], lines,
          ["ratio: beside PyTorch's best with one thread"])
    subprocess.run(["make", "-s", "-C", BUILD, "tests/bench/bench_blas"], check=True)
    print("\n## Matrix products of one step")
    sys.stdout.flush()
    subprocess.run([BUILD / "tests/bench/bench_blas"], check=True)


main()
