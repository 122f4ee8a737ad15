# SPDX-License-Identifier: MIT
"""libtombola as an outsider sees it: its header, its symbols, its example, another language."""

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, SANITIZED, environment

LIBRARY = BUILD / "loader" / ".libs" / "libtombola.so"
HEADER = ROOT / "loader" / "tombola.h"


@pytest.fixture(scope="module", autouse=True)
def library():
    assert LIBRARY.exists(), f"{LIBRARY} is not there (built with --disable-shared?)"
    return LIBRARY


def compiler(name):
    path = shutil.which(name)
    assert path, f"no {name} on this machine (deploy/install build test)"
    return path


def test_exports_nothing_else(library):
    nm = compiler("nm")
    lines = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in lines.splitlines()}
    names = {name for name in names if not re.match(r"(TOMBOLA_\d+|_init|_fini|__(start|stop)_|__odr_asan)", name)}
    declared = set(re.findall(r"\b(tombola_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)))
    assert names == declared


@pytest.mark.parametrize("command,ending", [
    ("gcc -std=c99 -pedantic -Wall -Wextra -Werror", "c"),
    ("gcc -std=c11 -pedantic -Wall -Wextra -Wc++-compat -Werror", "c"),
    ("g++ -std=c++11 -pedantic -Wall -Wextra -Werror", "cpp"),
])
def test_header_stands_alone(command, ending, tmp_path):
    words = shlex.split(command)
    compiler(words[0])
    source = tmp_path / f"alone.{ending}"
    source.write_text('#include "tombola.h"\nint main(void) { return tombola_version() == 0; }\n')
    subprocess.run([*words, "-I", HEADER.parent, "-c", source, "-o", tmp_path / "alone.o"], check=True, timeout=PATIENCE_S)


@pytest.mark.plain
def test_the_example_of_the_readme(demo, sampler, tmp_path):
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    text = (ROOT / "loader" / "README.md").read_text()
    example = re.search(r"```c\n(.*?)```", text, re.S).group(1)
    source, binary = tmp_path / "example.c", tmp_path / "example"
    source.write_text(example)
    subprocess.run([compiler("gcc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", HEADER.parent, source, "-o", binary,
                    LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"], check=True, timeout=PATIENCE_S)
    store = f"csv:{demo}/mnist_train.csv?label=0&header=no"
    url = sampler("--store", store, "--epochs", 1).url
    done = subprocess.run([binary, url, store], capture_output=True, text=True, env=environment(), timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "2000 rows" in done.stdout
    done = subprocess.run([binary, url, "/nowhere.csv"], capture_output=True, text=True, env=environment(), timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and "/nowhere.csv" in done.stderr


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t), ("sampler_url", ctypes.c_char_p), ("store_uri", ctypes.c_char_p),
        ("batch_rows", ctypes.c_size_t), ("device", ctypes.c_char_p), ("stream", ctypes.c_char_p), ("pull", ctypes.c_int),
        ("bad_rows", ctypes.c_int), ("first_index", ctypes.c_int64), ("batches", ctypes.c_int64), ("expand", ctypes.c_int),
        ("scale", ctypes.c_float), ("slots", ctypes.c_size_t), ("fetchers", ctypes.c_size_t), ("cache_bytes", ctypes.c_size_t),
        ("patience_ms", ctypes.c_int64)]


class Batch(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_size_t), ("ids", ctypes.POINTER(ctypes.c_int64)), ("labels", ctypes.POINTER(ctypes.c_double)),
        ("features", ctypes.POINTER(ctypes.c_uint8)), ("epoch", ctypes.c_int64), ("first", ctypes.c_int64),
        ("index", ctypes.c_int64)]


@pytest.mark.plain
def test_from_another_language(library, demo, demo_database, sampler):
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    tombola = ctypes.CDLL(os.fspath(library))
    tombola.tombola_error_message.restype = ctypes.c_char_p
    one = sampler("--store", demo_database, "--epochs", 1, "--seed", 4)
    options = Options(struct_bytes=ctypes.sizeof(Options), sampler_url=one.url.encode(), store_uri=demo_database.encode(),
                      batch_rows=64, pull=1, cache_bytes=1 << 30)
    feed, batch = ctypes.c_void_p(), ctypes.POINTER(Batch)()
    assert tombola.tombola_feed_open(ctypes.byref(options), ctypes.byref(feed)) == 0, tombola.tombola_error_message()
    ids, index = [], 0
    while tombola.tombola_feed_next(feed, None, ctypes.c_int64(-1), ctypes.byref(batch)) == 0:
        now = batch.contents
        assert now.index == index
        ids += now.ids[: now.rows]
        if index == 3:
            assert ids[-64:] == one.batch("size=64&index=3")["ids"]
        index += 1
        assert tombola.tombola_feed_put(feed, None, batch) == 0
    assert sorted(ids) == list(range(2000))
    tombola.tombola_feed_close(feed)
    few = sampler("--store", "range:2001", "--epochs", 1, "--seed", 4)
    for pull in (0, 1):
        options.sampler_url, options.pull = few.url.encode(), pull
        assert tombola.tombola_feed_open(ctypes.byref(options), ctypes.byref(feed)) == 0
        assert tombola.tombola_feed_next(feed, None, ctypes.c_int64(-1), ctypes.byref(batch)) != 0
        assert b"at least 1 of them have no row" in tombola.tombola_error_message()
        tombola.tombola_feed_close(feed)
    assert few.get("/streams/default").json["position"] == 0
    options.struct_bytes = 5
    assert tombola.tombola_feed_open(ctypes.byref(options), ctypes.byref(feed)) == -1
    assert b"struct_bytes is 5" in tombola.tombola_error_message()


@pytest.mark.plain
def test_what_sqlite_knows_of_it_is_there_after_dlclose(library, demo_database):
    """The library is never unmapped: SQLite's list of VFSs, and threads that were left behind, go on to name its code."""
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    script = """import ctypes, sqlite3, sys, _ctypes
class Options(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("sampler", ctypes.c_char_p), ("store", ctypes.c_char_p), ("more", ctypes.c_char * 200)]
tombola = ctypes.CDLL(sys.argv[1])
feed = ctypes.c_void_p()
options = Options(24, b"http://127.0.0.1:1", sys.argv[2].encode())
assert tombola.tombola_feed_open(ctypes.byref(options), ctypes.byref(feed)) == 0
tombola.tombola_feed_close(feed)
_ctypes.dlclose(tombola._handle)
path = sys.argv[2].removeprefix("sqlite:")
with sqlite3.connect(f"file:{path}?vfs=tombola&mode=ro", uri=True) as database:
    assert database.execute("SELECT count(*) FROM samples").fetchone()[0] > 0
"""
    done = subprocess.run([sys.executable, "-c", script, library, demo_database], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
