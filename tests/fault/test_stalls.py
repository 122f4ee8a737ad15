# SPDX-License-Identifier: MIT
"""Closing a feed, or ending whatever reads a store by a signal, takes less than a second whatever hangs: servers, name
servers, disks. The times are printed; they are told by naps, so that a machine that is busy elsewhere does not count, and the tests allow more."""

import contextlib
import gzip
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from conftest import PATIENCE_S
from postgres_server import server as postgres  # noqa: F401, a fixture
from service import BUILD, ROOT, SANITIZED, catches, environment, free_port, program, run, wait_for
from stalling_files import StallingFiles

ROWS = 300000
LIMIT_S = 5  # it takes less than one where nothing else runs
NAP_S = 0.01

# Opens a feed of four slots with libtombola and takes two batches, if there are any; at the first line that it reads it
# gives them back, so that others are fetched; at the second it closes.
CLOSER = """
import ctypes, sys, threading, time
sys.path.insert(0, sys.argv[1])
from test_libtombola import Batch, Options
tombola = ctypes.CDLL(sys.argv[2])
tombola.tombola_error_message.restype = ctypes.c_char_p
options = Options(struct_bytes=ctypes.sizeof(Options), sampler_url=sys.argv[3].encode(), store_uri=sys.argv[4].encode(),
                  batch_rows=50, pull=1, slots=4, cache_bytes=ctypes.c_size_t(-1).value)
feed, batches = ctypes.c_void_p(), [ctypes.POINTER(Batch)() for _ in range(2 * int(sys.argv[5]))]
assert tombola.tombola_feed_open(ctypes.byref(options), ctypes.byref(feed)) == 0, tombola.tombola_error_message()
for batch in batches:
    assert tombola.tombola_feed_next(feed, None, ctypes.c_int64(-1), ctypes.byref(batch)) == 0, tombola.tombola_error_message()
print("open", flush=True)
sys.stdin.readline()
for batch in batches:
    assert tombola.tombola_feed_put(feed, None, batch) == 0
print("hangs", flush=True)
sys.stdin.readline()
naps, closed = 0, threading.Thread(target=tombola.tombola_feed_close, args=(feed,), daemon=True)
closed.start()
while closed.is_alive() and naps < 2000:  # one that hangs is told, too
    closed.join(0.01)
    naps += 1
print(naps * 0.01, flush=True)
"""


class Proxy:
    """A port that passes everything on to another one, until it is told otherwise.

    mode "pass"; "swallow": takes what comes and passes nothing on; "handshake": connections end, and new ones meet
    somebody who agrees to TLS and then is silent; "drop": connections end, and so do new ones."""

    def __init__(self, target):
        self.target, self.mode, self.open = target, "pass", []
        self.spared = float("inf")  # so many bytes pass before it swallows
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def turn(self, mode):
        self.mode = mode
        if mode != "swallow":
            for one in self.open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.open.append(client)
                threading.Thread(target=self.pass_on, args=[client], daemon=True).start()

    def pass_on(self, client):
        with contextlib.suppress(OSError):
            if self.mode == "drop":
                client.close()
            elif self.mode == "handshake":
                client.recv(8)
                client.sendall(b"S")
            elif self.mode == "pass":
                with socket.create_connection(("127.0.0.1", self.target)) as server, client:
                    self.open.append(server)
                    ends = {client: server, server: client}
                    while True:
                        for one in select.select(list(ends), [], [])[0]:
                            data = one.recv(65536)
                            self.spared -= len(data)
                            self.mode = "swallow" if self.spared < 0 else self.mode
                            if self.mode == "pass" and data:
                                ends[one].sendall(data)
                            elif not data:
                                return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, which else could wait at whatever gets this descriptor next
        self.thread.join()
        self.listener.close()
        self.turn("drop")


class Stall:
    """What a feed needs, and how to make it hang."""

    def __init__(self, stack, tmp_path, sampler, postgres, rows_as):
        self.stack, self.tmp_path, self.postgres, self.rows_as = stack, tmp_path, postgres, rows_as
        self.url = sampler("--store", f"range:{ROWS}?labels=10", "--seed", "4").url
        self.store = f"range:{ROWS}?labels=10"
        self.first = True  # a batch comes before it hangs
        self.prefix = []
        self.begin = lambda: None
        self.is_met = lambda: True
        self.is_stuck = False  # in a system call that nothing interrupts
        self.end = lambda: None  # a process may not be able to die before

    def proxy(self, port):
        one = Proxy(port)
        self.stack.callback(one.close)
        return one

    # ---- the sampler ----

    def sampler_is_silent(self):
        self.url, self.first = f"http://127.0.0.1:{self.deaf()}", False

    def sampler_stalls_in_tls(self):
        self.url, self.first = f"https://127.0.0.1:{self.deaf()}", False

    def sampler_has_a_deaf_name_server(self):
        self.deaf_names("")
        self.url, self.first = "http://sampler.test:8080", False

    def deaf(self):
        return self.stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]

    def deaf_names(self, hosts):
        """Name servers that never answer, and a file of hosts in their place."""
        if os.geteuid() != 0:
            pytest.skip("only root has mounts of its own")
        deaf = self.stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        address = f"127.{77 + os.getpid() // 62500 % 100}.{os.getpid() // 250 % 250}.{1 + os.getpid() % 250}"  # its own in parallel runs
        deaf.bind((address, 53))
        (self.tmp_path / "resolv.conf").write_text(f"nameserver {address}\n")
        (self.tmp_path / "hosts").write_text(hosts)
        self.prefix = ["unshare", "-m", "sh", "-c",
                       'mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"', "sh",
                       self.tmp_path / "resolv.conf", self.tmp_path / "hosts"]

    # ---- PostgreSQL ----

    def table(self, port, host="127.0.0.1"):
        """Made once; nobody changes it."""
        if "(0 rows)" in self.postgres.sql("SELECT 1 FROM pg_class WHERE relname = 'stalling'"):
            self.postgres.sql(f"CREATE TABLE stalling AS SELECT g AS id, g % 10 AS label, g % 256 AS x FROM generate_series(0, {ROWS - 1}) g",
                              "ALTER TABLE stalling ADD PRIMARY KEY (id)")
        self.store = f"postgresql://tombola:right%20one@{host}:{port}/postgres?table=stalling"

    def postgresql_stops(self):
        self.table(self.postgres.port)
        first = (self.postgres.folder / "data" / "postmaster.pid").read_text().split()[0]
        everybody = lambda: [first, *Path(f"/proc/{first}/task/{first}/children").read_text().split()]  # noqa: E731

        def send(number):
            for one in everybody():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(one), number)
        self.begin = lambda: send(signal.SIGSTOP)
        self.stack.callback(send, signal.SIGCONT)

    def postgresql_is_swallowed(self):
        self.through_proxy("swallow")

    def postgresql_stalls_in_tls(self):
        self.through_proxy("handshake")

    def postgresql_has_a_deaf_name_server(self):
        self.deaf_names("127.0.0.1 rows.test\n")
        proxy = self.through_proxy("drop", "rows.test")

        def begin():
            (self.tmp_path / "hosts").write_text("")
            proxy.turn("drop")
        self.begin = begin

    def a_postgresql_that_stops_later(self):
        """Whose rows are some 30 bytes each on their way."""
        proxy = self.through_proxy("swallow")
        self.good = self.store.replace(str(proxy.port), str(self.postgres.port))
        self.hang_after = lambda passes: setattr(proxy, "spared", int(passes * 20 * ROWS))
        self.is_met = lambda: proxy.mode == "swallow"
        self.release = lambda: proxy.turn("drop")

    def through_proxy(self, mode, host="127.0.0.1"):
        proxy = self.proxy(self.postgres.port)
        self.table(proxy.port, host)
        self.begin = lambda: proxy.turn(mode)
        return proxy

    # ---- files ----

    def files(self, name, mode):
        source, folder = self.rows_as(name), self.tmp_path / "mounted"
        folder.mkdir()
        mounted = StallingFiles(source, folder)
        self.stack.callback(mounted.close)
        self.end = mounted.end
        self.is_stuck = mode == "hang"
        self.store, self.good = str(folder / name), str(source / name)
        self.turn = lambda mode: setattr(mounted, "mode", mode)
        self.hang_after = lambda passes: vars(mounted).update(mode=mode, spared=int(passes * os.path.getsize(source / name)))

        self.begin = lambda: self.turn(mode)
        self.is_met = lambda: mounted.asked > 0

    def csv_fails(self):
        self.files("rows.csv", "fail")

    def csv_hangs(self):
        self.files("rows.csv", "hang")

    def packed_csv_hangs(self):
        """While it is opened; what was unpacked of so short a file is not read again."""
        self.files("rows.csv.gz", "hang")

    def sqlite_fails(self):
        self.files("rows.db", "fail")

    def sqlite_hangs(self):
        self.files("rows.db", "hang")

    def rows_fails(self):
        self.files("a.rows", "fail")

    def rows_hangs(self):
        self.files("a.rows", "hang")


STALLS = [name for name, one in vars(Stall).items() if name.startswith(("sampler_", "postgresql_", "csv_", "sqlite_", "rows_")) and callable(one)]


@contextlib.contextmanager
def ended(process, stall):
    """Neither outlives a test that fails in between."""
    with process:
        try:
            yield process
        finally:
            stall.end()
            process.kill()


@pytest.fixture(scope="session")
def rows_as(tmp_path_factory):
    """rows_as("rows.db") -> the folder with the rows in a file of that name, made once a run. Read only."""
    folder, text = tmp_path_factory.mktemp("rows"), "id,label,x\n" + "".join(f"{i},{i % 10},{i % 256}\n" for i in range(ROWS))
    made = {}

    def make(name):
        if name not in made:
            made[name] = folder / name.replace(".", "-")
            made[name].mkdir()
            if name == "rows.csv":
                (made[name] / name).write_text(text)
            elif name == "rows.csv.gz":
                (made[name] / name).write_bytes(gzip.compress(text.encode(), compresslevel=1))
            else:
                run("loader", "import", make("rows.csv") / "rows.csv", made[name] / name)
        return made[name]

    return make


def surroundings(stall):
    """A leak checker stops all threads before it looks, and waits for one that nothing stops; a thread that is left behind
    is what another one reports."""
    options = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "report_thread_leaks=0"}
    return environment({key: f"{os.environ.get(key, '')}:{value}" for key, value in options.items()} if stall.is_stuck else None)


@pytest.fixture
def stall(request, tmp_path, sampler, rows_as):
    with contextlib.ExitStack() as stack:
        name = request.param
        one = Stall(stack, tmp_path, sampler, request.getfixturevalue("postgres") if "postgresql" in name else None, rows_as)
        if "postgresql" in name and "no PostgreSQL store" in run("loader", "info", "postgresql://127.0.0.1:1/x", status=None).stderr:
            pytest.skip("built without libpq")
        getattr(one, name)()
        yield one


def report(what, name, seconds):
    print(f"{what} while {name.replace('_', ' ')}: {seconds:.2f} s")
    assert seconds < LIMIT_S


def is_over(pid):
    """Has the process ended, but for threads that cannot? Those of FUSE cannot, and have a SIGKILL pending then."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = int(re.search(r"^SigPnd:\s*(\w+)", status, re.MULTILINE).group(1), 16)
    return "State:\tZ" in status or pending >> (signal.SIGKILL - 1) & 1


def wait_for_end(process):
    """How long it took, by naps."""
    naps = 0
    while not is_over(process.pid):
        time.sleep(NAP_S)
        naps += 1
        assert naps * NAP_S < PATIENCE_S, "it goes on"
    return naps * NAP_S


def is_at_rest(pid):
    """Does no thread of it compute, ten times in a row? It has run into what hangs, then, however late it gets a processor."""
    for _ in range(10):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if (thread / "stat").read_text().rsplit(")", 1)[1].split()[0] == "R":
                    return False
        time.sleep(0.03)
    return True


def wait_until_it_hangs(process, stall):
    """Or has ended. It heeds SIGTERM then, which would kill it while its libraries are bound."""
    wait_for(lambda: stall.is_met() or process.poll() is not None, "nothing was read")
    wait_for(lambda: process.poll() is not None or (catches(process.pid, signal.SIGTERM) and is_at_rest(process.pid)), "it never waits")


def close_a_feed(stall, request, first, wait, variables=None):
    """What it says; wait(pid): until nothing of it computes, before files and servers hang."""
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    words = [*stall.prefix, sys.executable, "-c", CLOSER, ROOT / 'tests' / 'service', BUILD / "loader" / ".libs" / "libtombola.so", stall.url, stall.store,
             int(first)]
    with ended(subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=environment(variables), cwd=stall.tmp_path), stall) as closer:
        def expect(line):
            said = closer.stdout.readline()
            assert said == f"{line}\n", (said, closer.stderr.read())

        def send(line):
            closer.stdin.write(f"{line}\n")
            closer.stdin.flush()

        expect("open")
        wait(closer.pid)
        stall.begin()
        send("put")
        expect("hangs")
        wait_for(stall.is_met, "nothing was read")
        time.sleep(1)  # it runs into it
        send("close")
        seconds = float(closer.stdout.readline())
        stall.end()
        _, errors = closer.communicate(timeout=PATIENCE_S)
    report("close", request.node.callspec.id, seconds)
    assert closer.returncode == 0, errors
    return errors


@pytest.mark.plain
@pytest.mark.parametrize("stall", STALLS, indirect=True)
def test_a_feed_closes(stall, request):
    errors = close_a_feed(stall, request, stall.first, lambda pid: None)
    if "hangs" in request.node.callspec.id:
        assert "hangs in the store" in errors, errors


@pytest.mark.plain
@pytest.mark.parametrize("stall", ["csv_hangs"], indirect=True)
def test_a_feed_closes_while_its_cache_is_made(stall, request):
    """Its own threads have nothing to do: all slots are full. The thread that makes the cache waits for three seconds
    before it reads a file from the future."""
    os.utime(stall.good, (time.time() + 86400,) * 2)
    stall.stack.callback(os.utime, stall.good)
    errors = close_a_feed(stall, request, 0, lambda pid: wait_for(lambda: is_at_rest(pid), "it never waits"),
                          {"TOMBOLA_CACHE": str(stall.tmp_path / "kept")})
    assert "that makes" in errors and "hangs" in errors, errors


@pytest.mark.threads
@pytest.mark.parametrize("stall", STALLS, indirect=True)
def test_a_signal_ends_a_pull(stall, request):
    words = [*stall.prefix, program("loader"), "pull", "--sampler", stall.url, "--store", stall.store, "--size", 50]
    log = stall.tmp_path / "log"
    with open(log, "wb") as errors, ended(subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=errors,
                                                           env=surroundings(stall)), stall) as pull:
        if stall.first:
            assert pull.stdout.read(100)
        stall.begin()  # before anybody reads on: it is not through by now
        reader = threading.Thread(target=pull.stdout.read, daemon=True)
        reader.start()
        wait_until_it_hangs(pull, stall)
        pull.send_signal(signal.SIGTERM)
        seconds = wait_for_end(pull)
        stall.end()
        status = pull.wait(timeout=PATIENCE_S)
        reader.join()
    report("SIGTERM", request.node.callspec.id, seconds)
    assert status == 128 + signal.SIGTERM, log.read_text()


@pytest.mark.parametrize("stall", [name for name in STALLS if name.startswith("postgresql_")], indirect=True)
def test_a_signal_ends_the_opening(stall, request):
    """It hangs before anything was read."""
    stall.begin()
    words = [*stall.prefix, program("loader"), "info", stall.store, "--log-level", "debug"]
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as info:
        wait_until_it_hangs(info, stall)
        assert info.poll() is None, info.stderr.read()
        info.send_signal(signal.SIGTERM)
        seconds = wait_for_end(info)
        _, errors = info.communicate(timeout=PATIENCE_S)
    report("SIGTERM at the opening", request.node.callspec.id, seconds)
    assert info.returncode == 128 + signal.SIGTERM and "stopped" in errors, errors


OPENERS = {
    "loader info": lambda stall: ["info", stall.store],
    "loader import": lambda stall: ["import", stall.store, stall.tmp_path / "copy.db"],
    "loader pull": lambda stall: ["pull", "--sampler", stall.url, "--store", stall.store],
    "sampler build": lambda stall: ["build", "--store", stall.store, "--out", stall.tmp_path / "frame"],
    "sampler serve": lambda stall: ["serve", "--listen", "127.0.0.1:0", "--store", stall.store],
    "trainer train": lambda stall: ["train", "--sampler", stall.url, "--store", stall.store, "--logdir", stall.tmp_path / "run"],
    "trainer train a test": lambda stall: ["train", "--sampler", stall.url, "--store", stall.good, "--test-store", stall.store, "--device", "cpu",
                                           "--logdir", stall.tmp_path / "run"],
}


@pytest.mark.parametrize("stall, mode, opener", [
    *[("csv_hangs", "hang", opener) for opener in OPENERS],
    *[("csv_hangs", "dead", opener) for opener in ("loader info", "sampler build")],
    *[("packed_csv_hangs", "hang", opener) for opener in ("loader info", "sampler build", "trainer train")],
    *[("sqlite_hangs", "hang", opener) for opener in ("loader info", "sampler build", "trainer train")],
    *[("rows_hangs", "hang", opener) for opener in ("loader info", "sampler build")]], indirect=["stall"])
def test_a_signal_ends_the_opening_of_files(stall, mode, opener, request):
    """The main thread is in no call that nothing interrupts."""
    stall.turn(mode)
    end_by_signal(stall, [program(opener.split()[0]), *OPENERS[opener](stall)], request, 0 if opener == "sampler serve" else 143)


def end_by_signal(stall, words, request, expected, number=signal.SIGTERM, reads="hangs in the store"):
    """Runs the program until it hangs and ends it. What it waited for is named, or what it `reads` when it is late and does so
    still; a feed has one store."""
    log = stall.tmp_path / "log"
    with open(log, "wb") as errors, ended(subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=errors,
                                                           env=surroundings(stall)), stall) as process:
        wait_until_it_hangs(process, stall)
        assert process.poll() is None, log.read_text()
        process.send_signal(number)
        seconds = wait_for_end(process)
        stall.end()
        status = process.wait(timeout=PATIENCE_S)
    report(number.name, request.node.callspec.id, seconds)
    said = log.read_text()
    assert status == expected and "stopped" in said, (status, said)
    assert stall.store.split("@")[-1].split("?")[0] in said or reads in said, said


def trained(stall):
    """A model of the rows."""
    run("trainer", "train", "--sampler", stall.url, "--store", stall.good, "--logdir", stall.tmp_path / "run", "--train-steps", 1, "--device", "cpu")
    return ["--store", stall.store, "--logdir", stall.tmp_path / "run", "--device", "cpu"]


def imported_there(stall):
    """Rows on their way into a server."""
    stall.postgres.sql("DROP TABLE IF EXISTS copied")
    return ["import", stall.rows_as("rows.csv") / "rows.csv", stall.store.replace("stalling", "copied")]


# What reads the rows once more after the store was opened; the CSV store reads them all to be opened.
READERS = {
    "loader info": lambda stall: ["info", stall.store],
    "loader info, verified": lambda stall: ["info", "--verify", stall.store],
    "loader import": lambda stall: ["import", stall.store, stall.tmp_path / "copy.db"],
    "sampler serve, a column": lambda stall: ["serve", "--listen", "127.0.0.1:0", "--store", stall.store, "--design", "neyman", "--column", "x"],
    "trainer train": lambda stall: ["train", "--sampler", stall.url, "--store", stall.store, "--logdir", stall.tmp_path / "run", "--cache-bytes", 0],
    "trainer train, a test": lambda stall: ["train", "--sampler", stall.url, "--store", stall.good, "--test-store", stall.store, "--device", "cpu",
                                            "--logdir", stall.tmp_path / "run"],
    "trainer evaluate": lambda stall: ["evaluate", *trained(stall)],
    "trainer evaluate, a stream": lambda stall: ["evaluate", *trained(stall), "--sampler", stall.url],
    "trainer predict": lambda stall: ["predict", *trained(stall)],
}


@pytest.mark.threads
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("stall", ["csv_hangs", "sqlite_hangs", "a_postgresql_that_stops_later"], indirect=True)
def test_a_signal_ends_a_read(stall, reader, request):
    """Later than the opening, and in the middle of the rows."""
    words = [program(reader.split(",")[0].split()[0]), *READERS[reader](stall)]
    before = {*stall.tmp_path.iterdir()}
    scans = 0 if stall.store.endswith("db") else "column" in reader  # for a frame
    stall.hang_after(0.3 + scans + stall.store.endswith("csv"))
    number = signal.SIGINT if "predict" in reader else signal.SIGTERM
    end_by_signal(stall, words, request, 0 if "serve" in reader else 128 + number, number)
    left = {one.name for one in {*stall.tmp_path.iterdir()} - before}
    assert left <= {"log", "run"}, left


@pytest.mark.parametrize("stall", ["a_postgresql_that_stops_later"], indirect=True)
def test_a_signal_ends_an_import_into_a_server(stall, request):
    words = [program("loader"), *imported_there(stall)]
    stall.hang_after(0.3)
    end_by_signal(stall, words, request, 143, reads="stopped while reading")
    stall.release()
    wait_for(lambda: stall.postgres.sql("SELECT 1 FROM pg_stat_activity WHERE application_name = 'tombola'").count("1 row") == 0, "it is still there")
    assert "(0 rows)" in stall.postgres.sql("SELECT relname FROM pg_class WHERE relname LIKE 'copied%'")


@pytest.mark.threads
@pytest.mark.parametrize("stall", ["csv_hangs", "sqlite_hangs"], indirect=True)
def test_a_signal_ends_a_server_that_measures_a_column(stall, request, sampler):
    """Whoever asked for the stream hears that it is not there; draws are answered meanwhile."""
    server = sampler("--store", stall.store, "--drain", 2, env=surroundings(stall))
    stall.hang_after(0.3)
    answers, stream = [], '{"name": "n", "design": "neyman", "column": "x"}'
    asking = threading.Thread(target=lambda: answers.append(server.request("POST", "/streams", body=stream)))
    asking.start()
    wait_for(stall.is_met, "nothing was read")
    assert server.request("GET", "/batch?size=1").status == 200
    server.terminate()
    seconds = wait_for_end(server.process)
    stall.end()
    assert server.wait() == 0
    asking.join()
    report("SIGTERM", request.node.callspec.id, seconds)
    assert answers[0].status == 503 and os.path.basename(stall.store) in answers[0].text, answers[0].text


@pytest.mark.threads
def test_a_signal_ends_a_server_whose_tokens_hang(sampler, tmp_path):
    """It was told to read them again, from a file server that is away."""
    source, folder = tmp_path / "source", tmp_path / "mounted"
    for one in (source, folder):
        one.mkdir()
    (source / "tokens.json").write_text(json.dumps({"tokens": [{"name": "all", "sha256": "0" * 64, "scopes": ["read"], "streams": ["*"]}]}))
    mounted = StallingFiles(source, folder)
    try:
        server = sampler("--store", "range:100", "--token-file", folder / "tokens.json", env={"ASAN_OPTIONS": "detect_leaks=0"})
        mounted.mode = "hang"
        server.signal(signal.SIGHUP)
        wait_for(lambda: mounted.asked > 0, "nothing was read")
        server.terminate()
        wait_for(lambda: is_over(server.process.pid), "it goes on")
    finally:
        mounted.close()
    assert server.wait() == 128 + signal.SIGTERM and "what was answered is kept" in server.stderr, server.stderr


def goes_on(stall, logdir, *more):
    return ["train", "--sampler", stall.url, "--store", stall.good, "--logdir", logdir, "--device", "cpu", *more]


# Files of ours that hang.
CHECKPOINT = "model.ckpt-1.safetensors"
OTHERS = {
    "trainer evaluate": lambda stall: ["evaluate", "--store", stall.good, "--logdir", stall.away, "--device", "cpu"],
    "trainer predict": lambda stall: ["predict", "--store", stall.good, "--checkpoint", stall.away / CHECKPOINT, "--device", "cpu"],
    "trainer export": lambda stall: ["export", "--logdir", stall.away, "--out", stall.tmp_path / "model.onnx"],
    "trainer train, going on": lambda stall: goes_on(stall, stall.away),
    "trainer train, from a file": lambda stall: goes_on(stall, stall.tmp_path / "new", "--init-from", stall.away / CHECKPOINT),
    "trainer train, a server": lambda stall: goes_on(stall, stall.away, *task("ps", 1)),
    "trainer train, a chief from a file": lambda stall: goes_on(stall, stall.tmp_path / "new", *task("worker", 0), "--init-from", stall.away / CHECKPOINT),
    "trainer train, an evaluator": lambda stall: goes_on(stall, stall.away, *task("evaluator", 1), "--test-store", stall.good),
    "sampler info": lambda stall: ["info", stall.away / "frame"],
}
MAPPED = ["sampler info"]  # what is mapped cannot be in a file system without a cache


def task(job, servers):
    """One of a cluster with two workers."""
    hosts = [f"127.0.0.1:{free_port()}" for _ in range(2 + servers)]
    return ["--job-name", job, "--task-index", 0, "--worker-hosts", ",".join(hosts[:2]), *(["--ps-hosts", hosts[2]] if servers else [])]


@pytest.mark.threads
@pytest.mark.parametrize("reader, mode", [(reader, mode) for reader in OTHERS for mode in ("hang", "dead") if mode == "dead" or reader not in MAPPED])
@pytest.mark.parametrize("stall", ["csv_hangs"], indirect=True)
def test_a_signal_ends_what_reads_files_of_ours(stall, reader, mode, request):
    """A logdir or a frame on a file server that is away."""
    trained(stall)
    run("sampler", "build", "--store", stall.good, "--out", stall.tmp_path / "run" / "frame")
    stall.away = stall.tmp_path / "away"
    stall.away.mkdir()
    mounted = StallingFiles(stall.tmp_path / "run", stall.away)
    stall.stack.callback(mounted.close)
    stall.end, stall.is_met, mounted.mode = mounted.end, lambda: mounted.asked > 0, mode
    words = [program(reader.split()[0]), *OTHERS[reader](stall)]
    stall.store = "does not answer"
    end_by_signal(stall, words, request, 143)
