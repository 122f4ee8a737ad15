# SPDX-License-Identifier: MIT
"""How well the same columns are learnt as they are, scaled and standardised, beside PyTorch: softmax regression of three
kinds by two columns, one in the ten thousands and one in thousandths, three optimizers, 2,000 steps of 50 rows.

The figure is the accuracy on rows that neither has seen. Ours standardises by --normalize, theirs by the mean and
deviation of the training rows.
"""
import random
import subprocess

import bench
from bench import Sample

ROWS, STEPS = bench.choose((6000, 2000), (900, 200))
RATES = {"sgd": 0.1, "adagrad": 0.1, "adam": 0.01}
FORMS = {"raw": (1, 1), "scaled": (1 / 51000, 1 / 0.003), "standardised": (1, 1)}


def write_rows(path, rows, seed, scales):
    chance = random.Random(seed)
    with open(path, "w", encoding="ascii") as out:
        out.write("kind,pressure,width\n")
        for _ in range(rows):
            kind = chance.randrange(3)
            values = 50000 + 300 * kind + chance.gauss(0, 100), 0.001 * kind + chance.gauss(0, 0.0004)
            out.write(",".join([str(kind), *(f"{value * scale:.9g}" for value, scale in zip(values, scales))]) + "\n")
    return path


class Ours:
    def __init__(self, train, test, optimizer, normalize):
        self.train, self.test, self.optimizer, self.normalize = train, test, optimizer, normalize

    def measure(self):
        uri = [f"csv:{path}?label=kind" for path in (self.train, self.test)]
        with bench.folder() as logdir, bench.Sampler("--store", uri[0], "--seed", "1") as sampler:
            words = [bench.TRAINER, "train", "--sampler", sampler.url, "--store", uri[0], "--logdir", logdir / "run", "--model",
                     "softmax", "--optimizer", self.optimizer, "--learning_rate", RATES[self.optimizer], "--batch_size", 50,
                     "--train_steps", STEPS, "--seed", 1, "--print_every", 0, "--save_secs", 0, "--test-store", uri[1],
                     "--test-every", 0, *["--normalize"] * self.normalize]
            text, _ = bench.measured(words, stderr=subprocess.DEVNULL)
        return Sample(float(text.split("accuracy: ")[1]))


class Theirs:
    def __init__(self, peer, train, test, optimizer, normalize):
        self.peer = peer
        self.question = {"train": train, "test": test, "optimizer": optimizer, "rate": RATES[optimizer], "steps": STEPS,
                         "normalize": normalize}

    def measure(self):
        return Sample(self.peer.ask(**self.question)[0]["accuracy"])


def compete(form, folder, peer):
    train = write_rows(folder / f"{form}-train.csv", ROWS, 1, FORMS[form])
    test = write_rows(folder / f"{form}-test.csv", ROWS // 3, 2, FORMS[form])
    lines = []
    for optimizer in RATES:
        contestants = {"Tombola": Ours(train, test, optimizer, form == "standardised")}
        if peer:
            contestants["PyTorch"] = Theirs(peer, train, test, optimizer, form == "standardised")
        results = {name: [entry.measure()] for name, entry in contestants.items()}
        lines += bench.rows(results, [form, optimizer])
    return lines


def measure():
    python = bench.python_with("torch")
    peer = bench.Peer(python, "peer_columns.py") if python else None
    with bench.folder() as folder:
        lines = sum((compete(form, folder, peer) for form in FORMS), [])
    bench.table("Accuracy on unseen rows: columns as they are, scaled, standardised", [
        "columns", "optimizer", "by", "accuracy", "min .. max", "CPU us", "CPU ratio", "ratio"], lines, [
        f"{ROWS:,} rows, {STEPS:,} steps of 50, learning rates {RATES}; one round: both are deterministic.",
        "Where nothing is learnt, ours says so at its end and names --normalize.",
        *([] if peer else ["PyTorch, the only peer here, is not installed: a run without --quick gets it from PyPI."])])


if __name__ == "__main__":
    bench.main(measure, alone=not bench.python_with("torch"))
