"""PyTorch's DataLoader on the same rows: one JSON line an epoch. Run by bench_loader.py with the
Python that has torch.

    peer_loader.py sqlite FILE WORKERS     one query a row
    peer_loader.py batched FILE WORKERS    one query a batch (__getitems__, IN)
    peer_loader.py csv FILE WORKERS        seek to the line, read it, parse it
    peer_loader.py ram FILE 0              all rows in a tensor of bytes, no DataLoader
"""
import json
import sqlite3
import sys
import time

import numpy
import torch

BATCH = 100


class Rows(torch.utils.data.Dataset):
    """What the SQLite sets share: a connection a process, opened at the first row."""

    def __init__(self, path):
        self.path = path
        self.connection = None
        self.count = self.connect().execute("SELECT count(*) FROM samples").fetchone()[0]
        self.connection = None  # is not for the workers

    def connect(self):
        if self.connection is None:
            self.connection = sqlite3.connect(f"file:{self.path}?mode=ro&immutable=1", uri=True)
        return self.connection

    def __len__(self):
        return self.count


def row(features, label):
    # A copy: torch wants writable memory.
    return torch.from_numpy(numpy.frombuffer(features, numpy.uint8).copy()).float() / 255, label


class Sqlite(Rows):
    def __getitem__(self, index):
        return row(*self.connect().execute(
            "SELECT features, label FROM samples WHERE id = ?", (index,)).fetchone())


class Batched(Rows):
    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        marks = ",".join("?" * len(indices))
        found = self.connect().execute(
            f"SELECT id, features, label FROM samples WHERE id IN ({marks})", indices)
        by_id = {number: row(features, label) for number, features, label in found}
        return [by_id[index] for index in indices]


class Csv(torch.utils.data.Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None
        self.offsets = [0]
        with open(path, "rb") as file:
            for line in file:
                self.offsets.append(self.offsets[-1] + len(line))
        self.offsets.pop()

    def __len__(self):
        return len(self.offsets)

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(self.path, "rb")
        self.file.seek(self.offsets[index])
        # Ten times as fast as parsing floats, or as split() and int().
        numbers = numpy.fromstring(self.file.readline(), dtype=numpy.uint8, sep=",")
        return torch.from_numpy(numbers[1:]).float() / 255, int(numbers[0])


def ram(path):
    """An epoch's batches, again and again."""
    rows = sqlite3.connect(path).execute("SELECT features, label FROM samples").fetchall()
    features = torch.from_numpy(numpy.stack([numpy.frombuffer(r[0], numpy.uint8) for r in rows]))
    labels = torch.tensor([r[1] for r in rows])
    while True:
        order = torch.randperm(len(labels))
        yield ((features[part].float() / 255, labels[part]) for part in order.split(BATCH))


def epochs(kind, path, workers):
    """Iterables of batches, one an epoch."""
    if kind == "ram":
        yield from ram(path)
    data = {"sqlite": Sqlite, "batched": Batched, "csv": Csv}[kind](path)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=workers,
                                         persistent_workers=workers > 0)
    while True:
        yield loader


def main():
    kind, path, workers, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    started = time.perf_counter()
    source = epochs(kind, path, workers)
    for epoch in range(count):
        total = 0
        for features, labels in next(source):
            assert features.dtype == torch.float32
            total += len(labels)
        seconds = time.perf_counter() - started
        print(json.dumps({"epoch": epoch, "rows": total, "seconds": seconds,
                          "rows_per_s": total / seconds, "torch": torch.__version__}), flush=True)
        started = time.perf_counter()


if __name__ == "__main__":
    main()
