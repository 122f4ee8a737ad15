# SPDX-License-Identifier: MIT
"""CSV and IDX files that are packed by gzip or zstd: the same rows as what they unpack to, for every program."""

import functools
import gzip
import json
import struct
import subprocess

import pytest

from conftest import TSAN, run, run_fails

CLASSIC = "label=0&header=no"


def info(uri, *more):
    return json.loads(run("loader", "info", uri, "--json", *more).stdout)


def zstd(*words, content):
    return subprocess.run(words, input=content, stdout=subprocess.PIPE, check=True).stdout


def pieces(content, count):
    size = len(content) // count + 1
    return [content[i:i + size] for i in range(0, len(content), size)]


def seekable(content):
    """Frames, and their sizes in one that is skipped (zstd's contrib/seekable_format)."""
    parts = pieces(content, 5)
    frames = [zstd("zstd", "-q", content=part) for part in parts]
    table = b"".join(struct.pack("<II", len(frame), len(part)) for frame, part in zip(frames, parts))
    table += struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(table)) + table


PACKERS = {
    "gzip": (".csv.gz", gzip.compress),
    "gzip, members": (".csv.gz", lambda content: b"".join(map(gzip.compress, pieces(content, 7)))),
    "zstd": (".csv.zst", lambda content: zstd("zstd", "-q", content=content)),
    "zstd, frames": (".csv.zst", lambda content: b"".join(zstd("zstd", "-q", content=part) for part in pieces(content, 7))),
    "zstd, pzstd's": (".csv.zst", lambda content: zstd("pzstd", "-q", "-p", "2", "-c", content=content)),
    "zstd, seekable": (".csv.zst", seekable),
    "gzip, another name": (".txt", gzip.compress),
}


@pytest.fixture(scope="session")
def packed_once(demo):
    """packed_once(packer) -> the demo's rows, packed."""
    return functools.lru_cache(maxsize=None)(lambda packer: PACKERS[packer][1]((demo / "mnist_train.csv").read_bytes()))


@pytest.fixture(params=PACKERS)
def packed(request, demo, packed_once, tmp_path):
    """The plain URI and that of the packed rows."""
    ending, _ = PACKERS[request.param]
    path = tmp_path / f"train{ending}"
    path.write_bytes(packed_once(request.param))
    scheme = "csv:" if ending == ".txt" else ""
    return f"csv:{demo}/mnist_train.csv?{CLASSIC}", f"{scheme}{path}?{CLASSIC}"


def pulled(url, store, *more):
    return run("loader", "pull", "--sampler", url, "--store", store, "--size", 100, *more).stdout


def test_packed_rows_are_those_of_the_text(packed, sampler, tmp_path):
    plain, uri = packed
    one, other = info(plain, "--verify"), info(uri, "--verify")
    for key in ("digest", "rows", "features", "element", "labels", "columns", "label_kind"):
        assert one[key] == other[key]
    frames = []
    for name, store in (("a", plain), ("b", uri)):
        run("sampler", "build", "--store", store, "--out", tmp_path / name)
        frames.append(json.loads(run("sampler", "info", tmp_path / name, "--json").stdout)["digest"])
    assert frames[0] == frames[1]
    run("loader", "import", uri, tmp_path / "copy.db")
    assert info(tmp_path / "copy.db", "--verify")["digest"] == one["digest"]
    servers = [sampler("--store", store, "--seed", 3, "--epochs", 1) for store in (plain, uri)]
    assert pulled(servers[0].url, plain) == pulled(servers[1].url, uri)


@pytest.mark.threads
@pytest.mark.parametrize("cache", [0, 64 << 20])
def test_rows_at_random(packed, sampler, cache):
    """Without a cache of rows each batch unpacks what it needs."""
    plain, uri = packed
    server = sampler("--store", plain, "--seed", 5, "--epochs", 1)
    some = ("--index", 0, "--batches", 5 if TSAN else 20)
    wanted = pulled(server.url, plain, *some)
    assert wanted and pulled(server.url, uri, *some, "--cache-bytes", cache) == wanted


def test_training_from_packed_files(packed, sampler, tmp_path):
    plain, uri = packed
    accuracies = []
    for number, store in enumerate((plain, uri)):
        server = sampler("--store", store, "--seed", 1)
        logdir = tmp_path / f"run{number}"
        run("trainer", "train", "--sampler", server.url, "--store", store, "--logdir", logdir, "--train-steps", 20, "--device", "cpu", "--seed", 1)
        accuracies.append(run("trainer", "evaluate", "--store", store, "--logdir", logdir, "--device", "cpu").stdout.splitlines()[-1])
    assert accuracies[0] == accuracies[1] and accuracies[0].startswith("accuracy")


@pytest.fixture
def distributed(demo, tmp_path):
    """The demo's rows as MNIST is distributed: the path of the images, with the labels beside them."""
    rows = [bytes(map(int, line.split(","))) for line in (demo / "mnist_train.csv").read_text().splitlines()]
    images = struct.pack(">IIII", 0x803, len(rows), 28, 28) + b"".join(row[1:] for row in rows)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">II", 0x801, len(rows)) + bytes(row[0] for row in rows)))
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(images))
    return path


def test_mnist_as_it_is_distributed(distributed, demo, sampler, tmp_path):
    plain = f"csv:{demo}/mnist_train.csv?{CLASSIC}"
    one, other = info(plain, "--verify"), info(distributed, "--verify")
    for key in ("digest", "rows", "features", "element", "labels", "label_kind"):
        assert one[key] == other[key]
    run("loader", "import", distributed, tmp_path / "copy.rows")
    assert info(tmp_path / "copy.rows", "--verify")["digest"] == one["digest"]
    server = sampler("--store", distributed, "--seed", 3, "--epochs", 1)
    some = ("--index", 0, "--batches", 5, "--format", "raw")
    wanted = pulled(server.url, plain, *some)
    assert wanted and pulled(server.url, distributed, *some) == pulled(server.url, distributed, *some, "--cache-bytes", 0) == wanted


def test_idx_that_was_not_copied_whole(distributed):
    content = distributed.read_bytes()
    distributed.write_bytes(content[:-100])
    run_fails("loader", "info", distributed, says=[f"{distributed} ends at byte {len(content) - 100} "])
    distributed.write_bytes(content[:5000] + bytes([content[5000] ^ 255]) + content[5001:])
    run_fails("sampler", "serve", "--store", distributed, says=[f"{distributed}, byte "])


def test_patterns_and_folders_of_packed_files(demo, tmp_path):
    content = (demo / "mnist_train.csv").read_bytes().splitlines(keepends=True)
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "part-0.csv.gz").write_bytes(gzip.compress(b"".join(content[:700])))
    (folder / "part-1.csv").write_bytes(b"".join(content[700:900]))
    (folder / "part-2.csv.zst").write_bytes(zstd("zstd", "-q", content=b"".join(content[900:])))
    digest = info(f"csv:{demo}/mnist_train.csv?{CLASSIC}", "--verify")["digest"]
    assert info(f"csv:{folder}?{CLASSIC}", "--verify")["digest"] == digest
    assert info(f"csv:{folder}/part-*?{CLASSIC}", "--verify")["digest"] == digest
    (folder / "part-1.csv.gz").write_bytes(gzip.compress(b"".join(content[700:900])))
    for path in (folder, f"{folder}/part-*"):
        run_fails("loader", "info", f"csv:{path}?{CLASSIC}", says=["part-1.csv and ", "part-1.csv.gz"])


def test_tabs_in_a_packed_file(tmp_path):
    path = tmp_path / "rows.tsv.gz"
    path.write_bytes(gzip.compress(b"label\ta\n1\t2\n3\t4\n"))
    assert info(path)["columns"] == ["a"] and info(path)["rows"] == 2


def test_a_line_of_a_packed_file_is_named(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"label,a\n" + b"1,2\n" * 200000 + b"1,x\n"))
    run_fails("loader", "import", path, tmp_path / "rows.db", says=["rows.csv.gz, line 200002", '"x"'])


def test_large_windows_are_refused(tmp_path):
    """256 MiB of memory for an empty frame."""
    path = tmp_path / "rows.csv.zst"
    path.write_bytes(bytes.fromhex("28b52ffd 00 90 010000"))
    run_fails("loader", "info", path, says=["rows.csv.zst", "a window of more than 128 MiB"])
