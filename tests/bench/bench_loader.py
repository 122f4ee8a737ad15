"""Rows a second of a feed, beside PyTorch's DataLoader, on the same SQLite file and the same CSV.

One epoch is 60,000 rows of 784 bytes, shuffled, as float32 batches of 100. "First" counts from
nothing: opening the store, the connections, the workers, and reading all rows where there is a
cache. "Later" is the median of the epochs that follow. The files are in the page cache, for both.
"""
import json
import statistics
import subprocess
from pathlib import Path

from bench import BUILD, PEER_PYTHON, demo_data, sampler, table

PROGRAM = BUILD / "tests" / "bench" / "loader_epoch"
PEER = Path(__file__).with_name("peer_loader.py")
CACHE_BYTES = 1 << 30
STEP_US = 200  # a training step of the MLP 784-100-10 takes about as long


def read_epochs(command):
    """(first, median of the later ones) in rows/s, and the last epoch's facts."""
    lines = subprocess.run([str(word) for word in command], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    epochs = [json.loads(line) for line in lines]
    later = [epoch["rows_per_s"] for epoch in epochs[1:]] or [epochs[0]["rows_per_s"]]
    return epochs[0]["rows_per_s"], statistics.median(later), epochs[-1]


def ours(url, uri, *options, epochs=11):
    return read_epochs([PROGRAM, "epoch", "--sampler", url, "--store", uri, "--epochs", epochs,
                        *options])


def peer(kind, path, workers, epochs):
    return read_epochs([PEER_PYTHON, PEER, kind, path, workers, epochs])


def peers(csv, database):
    """{store: [(what, first, later)]}, and torch's version."""
    found, version = {"SQLite": [], "CSV": [], "RAM": []}, None
    for store, kind, path, what in (("SQLite", "sqlite", database, "a query a row"),
                                    ("SQLite", "batched", database, "a query a batch"),
                                    ("CSV", "csv", csv, "by line offsets")):
        for workers in (0, 1, 2, 4):
            first, later, facts = peer(kind, path, workers, 2)
            found[store].append((f"DataLoader, {what}, workers {workers}", first, later))
            version = facts["torch"]
    first, later, _ = peer("ram", database, 0, 4)
    found["RAM"].append(("torch tensor of bytes, x[perm].float() / 255", first, later))
    return found, version


def best(rows, word, column):
    """The fastest of those whose name holds `word`."""
    return max((row[column] for row in rows if word in row[0]), default=None)


def main():
    subprocess.run(["make", "-s", "-C", BUILD, "tests/bench/loader_epoch"], check=True)
    csv, database = demo_data()
    uris = {"SQLite": f"sqlite:{database}", "CSV": f"csv:{csv}?label=0&header=no"}
    found, version = peers(csv, database) if PEER_PYTHON else ({}, None)
    rows, waits = [], []
    with sampler("--store", uris["SQLite"], "--seed", "1") as url:
        for store, uri in uris.items():
            to_beat = [best(found.get(store, []), "a row" if store == "SQLite" else "", column)
                       for column in (1, 2)]
            for what, options in (("tombola, rows in memory", ["--cache-bytes", CACHE_BYTES]),
                                  ("tombola, fetched one by one", []),
                                  ("tombola, fetched by two threads", ["--fetchers", 2])):
                first, later, _ = ours(url, uri, *options)
                rows.append([store, what, first, later]
                            + [mine / theirs if theirs else None
                               for mine, theirs in zip((first, later), to_beat)])
            rows += [[store, *row, None, None] for row in found.get(store, [])]
            _, _, facts = ours(url, uri, "--cache-bytes", CACHE_BYTES, "--work-us", STEP_US)
            waits.append(f"{store}, rows in memory, a caller that computes {STEP_US} us a batch: "
                         f"waits {100 * facts['wait_share']:.2f} % of the time.")
        first, later, _ = ours(url, uris["SQLite"], "--cache-bytes", CACHE_BYTES,
                               "--draws-ahead", 4)
        rows.append(["SQLite", "tombola, rows in memory, by draws", first, later, None, None])
    rows += [["RAM", *row, None, None] for row in found.get("RAM", [])]
    notes = waits + (
        [f"Peer: PyTorch {version}. The ratio is to its best DataLoader with a query a row "
         "(SQLite), by line offsets (CSV)."] if version
        else ["PyTorch was not asked for: no peer (tests/bench/run loader installs it)."])
    table("One shuffled epoch of 60,000 rows as float32 batches of 100: rows a second",
          ["store", "by", "first", "later", "ratio first", "ratio later"], rows, notes)


if __name__ == "__main__":
    main()
