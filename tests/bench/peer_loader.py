# SPDX-License-Identifier: MIT
"""PyTorch's DataLoader, tensors and numpy arrays on the rows of bench_loader.py, which asks: one shuffled epoch
and again and again, as float32 batches of 100.

    {"kind": KIND, "path": FILE, "workers": N, "threads": N, "seconds": S}

gives the rows a second of the first epoch, from nothing, and of the later ones, at least S seconds of them, and how
many rows that were in all. Kinds:
    row            a query, or a line by its offset, for each row: __getitem__, collated
    getitems       a query a batch: __getitems__, collated
    batch          a query a batch by a BatchSampler: a batch is made at once, and nothing is collated
    numpy_batch    the same without a DataLoader and without torch
    tensor_u8      all rows in memory as a tensor of bytes, no DataLoader; tensor_f32: as floats already
    tensor_plain   the same bytes by what people write, x[perm[i:i + 100]].float() / 255: each step makes a new tensor
    loaded_u8      the bytes in memory through a DataLoader with a BatchSampler
    numpy_u8       all rows in memory as a numpy array of bytes; numpy_f32: as floats already

Of rows of floats that differ in length (FILE is a folder with all of them in values.npy, and where each ends in
ends.npy), in batches of 32, filled up with zeros to their longest row; with "window", rows are sorted by length within
so many batches. All rows are in memory, and a row is a view:
    pad_row        __getitem__, collated by pad_sequence
    pad_batch      a batch by BatchSampler, made by pad_sequence
    pad_plain      pad_sequence without a DataLoader
    pad_numpy      zeros, and a copy of each row, without torch

Workers of a DataLoader are persistent. pin_memory does nothing without a GPU and is left out.
"""
import sqlite3
import sys
import time

import numpy

import questions

try:
    import torch
    from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
except ImportError:  # then numpy alone is asked for
    Dataset = object

BATCH = 100
PADDED = 32
SCALE = numpy.float32(1 / 255)


class Sqlite(Dataset):
    """A connection a process, opened at the first row."""

    def __init__(self, path):
        self.path, self.connection = path, None
        self.count = self.select("SELECT count(*) FROM samples").fetchone()[0]
        self.connection = None  # is not for the workers

    def select(self, query, values=()):
        if self.connection is None:
            self.connection = sqlite3.connect(f"file:{self.path}?mode=ro&immutable=1", uri=True)
        return self.connection.execute(query, values)

    def __len__(self):
        return self.count

    def bytes_of(self, index):
        features, label = self.select("SELECT features, label FROM samples WHERE id = ?", (index,)).fetchone()
        return numpy.frombuffer(features, numpy.uint8), label

    def stacked(self, indices):
        """Rows in any order: a batch is a set."""
        found = self.select(f"SELECT features, label FROM samples WHERE id IN ({','.join('?' * len(indices))})",
                            indices).fetchall()
        features = numpy.frombuffer(b"".join(row[0] for row in found), numpy.uint8)
        return features.reshape(len(found), -1), [row[1] for row in found]


class Csv(Dataset):
    def __init__(self, path):
        self.path, self.file, self.offsets = path, None, [0]
        with open(path, "rb") as file:
            for line in file:
                self.offsets.append(self.offsets[-1] + len(line))
        self.offsets.pop()

    def __len__(self):
        return len(self.offsets)

    def line(self, index):
        if self.file is None:
            self.file = open(self.path, "rb")
        self.file.seek(self.offsets[index])
        return self.file.readline()

    def bytes_of(self, index):
        # Ten times as fast as parsing floats, or as split() and int().
        numbers = numpy.fromstring(self.line(index), dtype=numpy.uint8, sep=",")
        return numbers[1:], int(numbers[0])

    def stacked(self, indices):
        lines = b",".join(map(self.line, indices))
        numbers = numpy.fromstring(lines, dtype=numpy.uint8, sep=",").reshape(len(indices), -1)
        return numbers[:, 1:], numbers[:, 0].tolist()


def row(features, label):
    return torch.from_numpy(features.copy()).float() / 255, label  # a copy: torch wants writable memory


class ByRow(Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return row(*self.data.bytes_of(index))


class ByItems(ByRow):
    def __getitems__(self, indices):
        return [row(*pair) for pair in zip(*self.data.stacked(indices))]


class ByBatch(ByRow):
    def __getitem__(self, indices):
        features, labels = self.data.stacked(indices)
        return torch.from_numpy(features.copy()).float().mul_(1 / 255), torch.tensor(labels)


class Tensors(Dataset):
    def __init__(self, features, labels):
        self.features, self.labels = features, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, indices):
        indices = torch.tensor(indices)
        return self.features[indices].float().mul_(1 / 255), self.labels[indices]


def all_rows(path):
    """Every row, as bytes; straight into one array."""
    if str(path).endswith(".csv"):
        with open(path, "rb") as file:
            columns = file.readline().count(b",") + 1
            file.seek(0)
            numbers = numpy.fromstring(file.read().replace(b"\n", b","), dtype=numpy.uint8, sep=",")
        numbers = numbers.reshape(-1, columns)
        return numbers[:, 1:].copy(), numbers[:, 0].astype(numpy.int64)
    found = sqlite3.connect(path).execute("SELECT features, label FROM samples").fetchall()
    features = numpy.frombuffer(b"".join(pair[0] for pair in found), numpy.uint8).reshape(len(found), -1)
    return features.copy(), numpy.array([pair[1] for pair in found])


def batched(data, workers):
    """A DataLoader whose data set is asked for whole batches."""
    return DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), BATCH, False),
                      num_workers=workers, persistent_workers=workers > 0)


def collated(data, workers):
    return DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)


def tensors(path, as_floats):
    """A generator function of the batches of an epoch."""
    features, labels = map(torch.from_numpy, all_rows(path))
    features = features.float().mul_(1 / 255) if as_floats else features
    prepared = (lambda rows: rows) if as_floats else (lambda rows: rows.float().mul_(1 / 255))

    def epoch():
        for part in torch.randperm(len(labels)).split(BATCH):
            yield prepared(features.index_select(0, part)), labels.index_select(0, part)
    return epoch


def indexed(path):
    features, labels = map(torch.from_numpy, all_rows(path))

    def epoch():
        perm = torch.randperm(len(labels))
        for i in range(0, len(labels), BATCH):
            yield features[perm[i:i + BATCH]].float() / 255, labels[perm[i:i + BATCH]]
    return epoch


def permuted(units):
    """An epoch's batches of indices."""
    order = numpy.random.default_rng().permutation(units)
    return (order[first:first + BATCH] for first in range(0, units, BATCH))


def arrays(path, as_floats):
    features, labels = all_rows(path)
    features = features * SCALE if as_floats else features
    prepared = (lambda rows: rows) if as_floats else (lambda rows: rows * SCALE)

    def epoch():
        for part in permuted(len(labels)):
            yield prepared(features.take(part, 0)), labels.take(part)
    return epoch


def stacked(data):
    def epoch():
        for part in permuted(len(data)):
            features, labels = data.stacked(part.tolist())
            yield features * SCALE, numpy.array(labels)
    return epoch


# ---- rows that differ in length -----------------------------------------------------------------


class Ragged(Dataset):
    """Rows as views, of a tensor or a numpy array; by a list of indices whole batches."""

    def __init__(self, path, as_tensors):
        self.values, self.ends = numpy.load(f"{path}/values.npy"), numpy.load(f"{path}/ends.npy").tolist()
        self.lengths = numpy.diff(self.ends, prepend=0)
        self.values = torch.from_numpy(self.values) if as_tensors else self.values

    def __len__(self):
        return len(self.ends)

    def row(self, index):
        return self.values[self.ends[index - 1] if index else 0:self.ends[index]]

    def __getitem__(self, indices):
        return padded(list(map(self.row, indices))) if isinstance(indices, list) else self.row(indices)


def padded(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor(list(map(len, rows)))


def padded_by_numpy(rows):
    lengths = list(map(len, rows))
    batch = numpy.zeros((len(rows), max(lengths)), numpy.float32)
    for row, values, length in zip(batch, rows, lengths):
        row[:length] = values
    return batch, numpy.array(lengths)


class Windows:
    """An epoch's batches of indices, shuffled; those of a window sorted by length, in any order."""

    def __init__(self, lengths, window):
        self.lengths, self.window = lengths, window

    def __iter__(self):
        dice = numpy.random.default_rng()
        order = dice.permutation(len(self.lengths))
        for first in range(0, len(order), PADDED * (self.window or len(order))):
            part = order[first:first + PADDED * self.window] if self.window else order
            if self.window:
                part = part[self.lengths[part].argsort(kind="stable")]
            starts = dice.permutation(range(0, len(part), PADDED)) if self.window else range(0, len(part), PADDED)
            yield from (part[start:start + PADDED].tolist() for start in starts)


def ragged(kind, path, workers, window):
    data = Ragged(path, kind != "pad_numpy")
    batches = Windows(data.lengths, window)
    more = {"num_workers": workers, "persistent_workers": workers > 0}
    if kind == "pad_row":
        loader = DataLoader(data, batch_sampler=batches, collate_fn=padded, **more)
    elif kind == "pad_batch":
        loader = DataLoader(data, batch_size=None, sampler=batches, **more)
    else:
        make = padded if kind == "pad_plain" else padded_by_numpy
        return lambda: (make(list(map(data.row, indices))) for indices in batches)
    return lambda: loader


def walk_ragged(epoch, found):
    rows = found["bytes"] = 0
    for batch, lengths in epoch():
        rows += len(lengths)
        found["bytes"] += batch.nbytes
    return rows


def opened(kind, path, workers):
    """A function whose every call is an epoch: an iterable of batches."""
    if kind == "tensor_plain":
        return indexed(path)
    if kind.startswith("tensor"):
        return tensors(path, kind.endswith("f32"))
    if kind in ("numpy_u8", "numpy_f32"):
        return arrays(path, kind.endswith("f32"))
    if kind == "loaded_u8":
        loader = batched(Tensors(*map(torch.from_numpy, all_rows(path))), workers)
    else:
        data = (Csv if path.endswith(".csv") else Sqlite)(path)
        if kind == "numpy_batch":
            return stacked(data)
        loader = {"row": lambda: collated(ByRow(data), workers), "getitems": lambda: collated(ByItems(data), workers),
                  "batch": lambda: batched(ByBatch(data), workers)}[kind]()
    return lambda: loader


def walk(epoch):
    rows = 0
    for features, labels in epoch():
        assert str(features.dtype).endswith("float32")
        rows += len(labels)
    return rows


def answer(kind, path, workers, threads, seconds, window=0):
    if "torch" in sys.modules:
        torch.set_num_threads(threads)
    begin = time.perf_counter()
    if kind.startswith("pad_"):
        epoch, found = ragged(kind, path, workers, window), {}
        rates = questions.epoch_rates(lambda: walk_ragged(epoch, found), begin, seconds)
        return {**rates, **found}
    epoch = opened(kind, path, workers)
    return questions.epoch_rates(lambda: walk(epoch), begin, seconds)


if __name__ == "__main__":
    questions.answer_with(answer)
