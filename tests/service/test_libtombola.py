# SPDX-License-Identifier: MIT
"""libtombola as an outsider sees it: its header, its symbols, its example, another language."""

import concurrent.futures
import ctypes
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, SANITIZED, SEED, environment, free_port, wait_for

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
        ("patience_ms", ctypes.c_int64), ("trust_labels", ctypes.c_int), ("rank", ctypes.c_int64), ("world", ctypes.c_int64),
        ("pad", ctypes.c_int), ("state", ctypes.c_char_p), ("worker", ctypes.c_char_p), ("token", ctypes.c_char_p),
        ("authority", ctypes.c_char_p)]


class Batch(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_size_t), ("ids", ctypes.POINTER(ctypes.c_int64)), ("labels", ctypes.POINTER(ctypes.c_double)),
        ("features", ctypes.POINTER(ctypes.c_uint8)), ("epoch", ctypes.c_int64), ("first", ctypes.c_int64),
        ("index", ctypes.c_int64), ("seq", ctypes.c_int64), ("attempt", ctypes.c_int64)]


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
    for pull in (0, 1, 2):
        options.sampler_url, options.pull = few.url.encode(), pull
        assert tombola.tombola_feed_open(ctypes.byref(options), ctypes.byref(feed)) == 0
        assert tombola.tombola_feed_next(feed, None, ctypes.c_int64(-1), ctypes.byref(batch)) != 0
        assert b"at least 1 of them have no row" in tombola.tombola_error_message()
        tombola.tombola_feed_close(feed)
    assert few.get("/streams/default").json["position"] == 0
    options.struct_bytes = 5
    assert tombola.tombola_feed_open(ctypes.byref(options), ctypes.byref(feed)) == -1
    assert b"struct_bytes is 5" in tombola.tombola_error_message()


class Feed:
    """As a program in another language has it."""

    def __init__(self, library, url, store, **options):
        self.tombola, self.feed = ctypes.CDLL(os.fspath(library)), ctypes.c_void_p()
        self.tombola.tombola_error_message.restype = ctypes.c_char_p
        chosen = Options(struct_bytes=ctypes.sizeof(Options), sampler_url=url.encode(), store_uri=store.encode(), **options)
        self.must(self.tombola.tombola_feed_open(ctypes.byref(chosen), ctypes.byref(self.feed)))

    def must(self, status):
        assert status == 0, self.tombola.tombola_error_message()

    def take(self, timeout_ms=-1):
        """A batch that is out, or None at the end."""
        batch = ctypes.POINTER(Batch)()
        status = self.tombola.tombola_feed_next(self.feed, None, ctypes.c_int64(timeout_ms), ctypes.byref(batch))
        if status == -12:
            return None
        self.must(status)
        return batch

    def put(self, batch):
        self.must(self.tombola.tombola_feed_put(self.feed, None, batch))

    def drop(self, batch):
        self.must(self.tombola.tombola_feed_drop(self.feed, None, batch))

    def settle(self, batch, trained=True):
        self.must(self.tombola.tombola_feed_settle(self.feed, batch, int(trained)))

    def next(self):
        """(number of the batch, its ids), or None at the end."""
        batch = self.take()
        if batch is None:
            return None
        took = batch.contents.index, batch.contents.ids[: batch.contents.rows]
        self.put(batch)
        return took

    def state(self):
        text = ctypes.c_char_p()
        self.must(self.tombola.tombola_feed_state(self.feed, ctypes.byref(text)))
        return text.value

    def close(self):
        self.tombola.tombola_feed_close(self.feed)


@pytest.mark.plain
@pytest.mark.parametrize("design", [("proportional",), ("srs", "--replacement"), ("pxk", "--p", 4, "--k", 4), ("weighted", "--size", 500)],
                         ids=lambda words: words[0])
def test_ranks_divide_a_stream_and_another_number_of_them_goes_on(library, sampler, tmp_path, design):
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    table = tmp_path / "rows.csv"
    table.write_text("label,weight,a\n" + "".join(f"{row % 7},{1 + row % 3},{row % 256}\n" for row in range(1003)))
    store = f"csv:{table}?label=label&weight=weight"
    design, *words = design
    one = sampler("--store", store, "--epochs", 2, "--seed", 4, "--design", design, *words)
    size = 16 if design == "pxk" else 20
    right = []
    while (answer := one.get(f"/batch?size={size}&index={len(right)}")).status == 200:
        right.append(answer.json["ids"])
    taken, state = {}, None
    for world, steps in ((3, 5), (2, 4), (4, 10**6)):
        feeds = [Feed(library, one.url, store, batch_rows=size, pull=1, rank=rank, world=world, state=state) for rank in range(world)]
        for feed in feeds:
            for _ in range(steps):
                if (took := feed.next()) is None:
                    break
                assert took[0] not in taken
                taken[took[0]] = took[1]
        states = {feed.state() for feed in feeds}
        assert len(states) == 1, "each rank has done as many"
        state = states.pop()
        for feed in feeds:
            feed.close()
    whole = 3 * 5 + 2 * 4 + (len(right) - 23) // 4 * 4
    assert taken == dict(enumerate(right[:whole]))
    other = sampler("--store", store, "--epochs", 2, "--seed", 5, "--design", design, *words)
    feed = Feed(library, other.url, store, batch_rows=size, pull=1, state=state)
    with pytest.raises(AssertionError, match="its seed was 4 and is 5 now"):
        feed.next()
    feed.close()


def status_when(served, what):
    """The default stream's state, once it is so."""
    wait_for(lambda: what(served.get("/streams/default").json), f"it is {served.get('/streams/default').json}")
    return served.get("/streams/default").json


@pytest.mark.plain
def test_what_is_lent_counts_when_it_is_put_back(library, demo_database, sampler):
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    served = sampler("--store", demo_database, "--epochs", 1, "--lease", 30)
    one = Feed(library, served.url, demo_database, batch_rows=50, worker=b"one")
    batch = one.take()
    assert (batch.contents.attempt, batch.contents.rows) == (1, 50)
    assert status_when(served, lambda now: now["leased"] > 2)["acked"] == 0
    one.put(batch)
    status_when(served, lambda now: now["acked"] == 1)
    held, dropped = one.take(), one.take()
    one.drop(dropped)
    one.close()  # with one out, that is still lent
    time.sleep(0.2)
    assert served.get("/streams/default").json["acked"] == 1
    ids = held.contents.ids[:50]
    one.put(held)
    assert status_when(served, lambda now: now["leased"] == 0)["acked"] == 2, "the rest was released"
    other, seen = Feed(library, served.url, demo_database, batch_rows=70), []
    while (batch := other.take()) is not None:
        seen += batch.contents.ids[: batch.contents.rows]
        other.put(batch)
    other.close()
    assert len(seen) == 1900 and not set(ids) & set(seen), "also what was released, cut as it was, and what was dropped"
    assert served.get("/streams/default").json["state"] == "ended"


def train_abreast(served, feeds, trained, at):
    """A worker that is not faster than the others while there is anything to draw; counts its batches in `trained`."""
    while (batch := feeds[at].take()) is not None:
        feeds[at].put(batch)
        trained[at] += 1
        wait_for(lambda: trained[at] <= min(trained) + 1 or served.get("/streams/default").json["position"] == 2000, "another one has nothing to do")


@pytest.mark.plain
@pytest.mark.parametrize("workers", (2, 5))
def test_workers_share_a_short_epoch(library, demo_database, sampler, workers):
    """Nobody leases so much ahead that others have nothing to do."""
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    served = sampler("--store", demo_database, "--epochs", 1, "--lease", 30)
    feeds = [Feed(library, served.url, demo_database, batch_rows=50) for _ in range(workers)]
    trained = [0] * workers
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda at: train_abreast(served, feeds, trained, at), range(workers)))
    for feed in feeds:
        feed.close()
    assert sum(trained) == 40 and served.get("/streams/default").json["acked"] == 40
    assert min(trained) >= 40 // workers // 2, f"they trained {trained}"


@pytest.mark.plain
def test_what_is_settled_stays_out(library, demo_database, sampler):
    """Acked or dropped at once, and its memory is the caller's until it is put back: the stream ends meanwhile, and a feed
    that is closed lets go of the rest."""
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    served = sampler("--store", demo_database, "--epochs", 1, "--lease", 30)
    one = Feed(library, served.url, demo_database, batch_rows=100, worker=b"one")
    trained, not_trained = one.take(), one.take()
    ids, features = trained.contents.ids[:100], trained.contents.features[:1000]
    one.settle(trained), one.settle(trained, False)
    one.settle(not_trained, False), one.settle(not_trained)
    status_when(served, lambda now: now["acked"] == 1)
    one.close()  # both are out
    status_when(served, lambda now: now["leased"] == 0)
    other = Feed(library, served.url, demo_database, batch_rows=100)
    seen = []
    while (batch := other.take()) is not None:
        seen += batch.contents.ids[:100]
        last = batch
        other.settle(batch)
        if len(seen) < 1900:
            other.put(batch)
    assert len(seen) == 1900 and not set(ids) & set(seen) and served.get("/streams/default").json["state"] == "ended"
    assert last.contents.ids[:100] == seen[-100:]
    assert (trained.contents.ids[:100], trained.contents.features[:1000]) == (ids, features), "it was not written again"
    one.put(not_trained), one.put(trained), other.put(last)
    other.close()


@pytest.mark.plain
def test_a_state_counts_what_was_settled(library, demo_database, sampler):
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    served = sampler("--store", demo_database, "--epochs", 1, "--seed", 5)
    one = Feed(library, served.url, demo_database, batch_rows=100, pull=1)
    batches = [one.take() for _ in range(4)]
    for at in (0, 1, 3):
        one.settle(batches[at])
    one.settle(batches[2], False)
    state = one.state()
    for batch in batches:
        one.put(batch)  # which says nothing new
    assert one.state() == state
    one.close()
    rest = Feed(library, served.url, demo_database, batch_rows=100, pull=1, state=state)
    assert [rest.next()[0] for _ in range(3)] == [2, 4, 5]
    rest.close()


CONSUMER = """
import os, random, sys
sys.path.insert(0, {here!r})
from test_libtombola import Feed
feed, dice = Feed({library!r}, {url!r}, {store!r}, batch_rows=10, slots=6), random.Random({seed})
held = []
while (batch := feed.take()) is not None or held:
    if batch is not None:
        held.append(batch)
    if batch is None or len(held) == 3 or dice.random() < 0.5:
        batch = held.pop(dice.randrange(len(held)))
        feed.put(batch)
    if dice.random() < {rate}:
        sys.exit() if dice.random() < 0.5 else os._exit(0)
feed.close()
"""


@pytest.mark.plain
def test_whatever_is_killed_each_row_is_acked_once(library, demo_database, sampler, tmp_path):
    """Consumers come and go, are killed, stopped beyond their leases, or exit with batches out; so is the sampler."""
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    dice, port = random.Random(SEED), free_port()
    words = ("--store", demo_database, "--epochs", 3, "--lease", 1, "--state", tmp_path / "state", "--seed", 5)
    served = sampler(*words, listen=f"127.0.0.1:{port}")

    def start(number):
        script = CONSUMER.format(here=os.fspath(ROOT / "tests" / "service"), library=os.fspath(library), url=f"http://127.0.0.1:{port}",
                                 store=demo_database, seed=number, rate=0.002)
        with open(tmp_path / f"err{number}", "wb") as err:
            return subprocess.Popen([sys.executable, "-c", script], stderr=err, env=environment())

    consumers = []
    try:
        for _ in range(40):
            while len(running := [one for one in consumers if one.poll() is None]) < 3:
                consumers.append(start(len(consumers)))
            time.sleep(0.1)
            chosen = dice.choice(running)
            chosen.send_signal(dice.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)))
            if dice.random() < 0.1:
                served.kill()
                served.finish()
                served = sampler(*words, listen=f"127.0.0.1:{port}")
            if served.get("/streams/default").json["state"] == "ended":
                break
    finally:
        for one in consumers:
            one.kill()
            one.wait()
    for number, one in enumerate(consumers):
        assert one.returncode in (0, -signal.SIGKILL), (tmp_path / f"err{number}").read_text()
    last = Feed(library, served.url, demo_database, batch_rows=10)
    while (batch := last.take()) is not None:
        last.put(batch)
    last.close()
    now = served.get("/streams/default").json
    assert now["state"] == "ended" and now["acked"] == 600, now


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
