# SPDX-License-Identifier: MIT
"""Whole programs in which one allocation fails, whichever: a client hears an error or nothing, a command ends with a message,
and what is asked next is served as ever; nothing is lost, done twice or leaked."""

import contextlib
import ctypes
import gzip
import http.client
import itertools
import json
import mmap
import random
import re
import shutil
import time
import urllib.request
from pathlib import Path

import pytest

from service import LONG, PATIENCE_S, SANITIZED, SEED, preloaded, run, wait_for
from postgres_server import server as postgres  # noqa: F401, a fixture

NEVER, FAR = -1, 1 << 40
UNITS = 100000
STORE = ("--store", f"range:{UNITS}?labels=10", "--seed", 3, "--lease", 3000, "--splits", "0.8,0.1,0.1")


class Allocator(ctypes.Structure):
    """The numbers that allocator.c reads and writes: after `left` more allocations one fails."""

    _fields_ = [("left", ctypes.c_int64), ("failed", ctypes.c_int64), ("blocks", ctypes.c_int64)]


@pytest.fixture
def allocator(tmp_path, library):
    """And the environment of a program that has this allocator."""
    numbers = tmp_path / "allocator.numbers"
    numbers.write_bytes(bytes(Allocator(NEVER, 0, 0)))
    with open(numbers, "r+b") as file:
        made = Allocator.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Allocator)))
    made.environment = {**preloaded(library(Path(__file__).resolve().with_name("allocator.c"), "-fno-builtin")),
                        "ALLOCATOR_FILE": str(numbers)}
    if SANITIZED:  # its run time ends a program where it has no memory for a thread
        made.environment["ALLOCATOR_OWN"] = "1"
    return made


class Server:
    """A sampler whose allocator fails in one request after the other."""

    def __init__(self, sampler, allocator):
        self.sampler, self.allocator = sampler, allocator

    def ask(self, method, target, body=None):
        """The answer; None: the connection was closed without one."""
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            return self.sampler.request(method, target, body=body and json.dumps(body))
        return None

    def must(self, method, target, body=None):
        answer = self.ask(method, target, body)
        assert answer is not None and answer.status < 300, f"{method} {target}: {answer and answer.text}"
        return answer.json if answer.body else None

    def failing(self, request):
        """(n, answer) while allocation n of request(n) fails, for each n until there is none that could."""
        for number in itertools.count():
            method, target, *body = request(number)
            before, self.allocator.left = self.allocator.failed, number
            answer = self.ask(method, target, *body)
            self.allocator.left = NEVER
            failed = self.allocator.failed > before
            if answer is not None and answer.status >= 300:
                assert failed and answer.status in (500, 503), f"{target}: allocation {number}: {answer.status} {answer.text}"
                assert answer.json["status"] == answer.status and answer.json["detail"]
            yield number, answer
            if not failed:
                assert (number > 0 or SANITIZED) and answer is not None
                return

    def idle_blocks(self):
        """What is allocated while nobody asks: the same for a while."""
        seen = []
        while len(seen) < 20 or len(set(seen[-20:])) > 1:
            seen.append(self.allocator.blocks)
            time.sleep(0.005)
        return seen[-1]

    def gives_back(self, before):
        """All but what was allocated before."""
        wait_for(lambda: self.allocator.blocks <= before, "what was allocated did not come back")


@pytest.fixture
def server(sampler, allocator, tmp_path):
    return Server(sampler(*STORE, "--state", tmp_path / "state", env=allocator.environment), allocator)


@pytest.mark.parametrize("target", [
    "/batch?index=3&size=2000&format=csv&weights=1&sort=1", "/batch?index=3&size=2000&format=binary",
    "/batch?index=3&size=100&worker=reader", "/labels", "/where?id=5", "/live.json", "/frames", "/streams", "/streams/default",
    "/streams/default/readers", "/metrics", "/openapi.json", "/", "/healthz", "/readyz"])
def test_what_is_read(server, target):
    """It is whole, or there is an error; and all memory comes back."""
    for _ in range(8):  # each thread keeps what it needs once
        right = server.sampler.get(target)
    while b'"labels":null' in right.body:  # they are counted behind
        right = server.sampler.get(target)
    before = server.idle_blocks()
    for number, answer in server.failing(lambda _: ("GET", target)):
        if answer is not None and answer.status == 200:
            assert shape(answer) == shape(right), f"allocation {number} changed the answer"
    server.gives_back(before)


def shape(answer):
    """What of an answer no other request changes."""
    return {re.sub(r"\d+", "0", line) for line in answer.body.decode(errors="replace").splitlines()}


def pull(worker, seq, ack=""):
    return "GET", f"/batch?size=7&worker={worker}&seq={seq}{ack}"


def test_leases(sampler, server, tmp_path):
    """Workers ask until they have a batch, and until it is acked: each comes once, and none is lost."""
    firsts, acked = [], 0

    def take(answer, *request):
        batch = server.must(*request)
        assert batch["attempt"] == 1
        if answer is not None and answer.status == 200:
            assert answer.json["ids"] == batch["ids"]
        firsts.append(batch["first"])

    def change(path, worker):
        """What a request for another batch of this worker's is, which is leased first."""
        def request(number):
            take(None, *pull(worker, number))
            return "POST", path, {"worker": worker, "seqs": [number]}
        return request

    for number, answer in server.failing(lambda number: pull("a", number)):
        take(answer, *pull("a", number))
    take(None, *pull("b", 0))
    for number, answer in server.failing(lambda number: pull("b", number + 1, f"&ack={number}")):
        take(answer, *pull("b", number + 1, f"&ack={number}"))
        acked += 1
    for number, _ in server.failing(change("/ack", "c")):
        assert server.must("POST", "/ack", {"worker": "c", "seqs": [number]}) == {"acked": [number]}
        acked += 1
    for _ in server.failing(change("/extend", "d")):
        pass
    assert sorted(firsts) == list(range(0, 7 * len(firsts), 7))
    status = server.must("GET", "/streams/default")
    assert (status["position"], status["acked"], status["leased"]) == (7 * len(firsts), acked, len(firsts) - acked)
    server.sampler.kill()
    again = sampler(*STORE, "--state", tmp_path / "state").get("/streams/default").json
    assert again == status


def test_draws_without_a_worker(server):
    """Who hears an error drew nothing; a batch whose response was lost is drawn."""
    position = 0
    for _, answer in server.failing(lambda _: ("GET", "/batch?size=5")):
        now = server.must("GET", "/streams/default")["position"]
        if answer is None:
            assert now in (position, position + 5)
        else:
            assert now == position + 5 * (answer.status == 200)
            assert answer.status != 200 or answer.json["first"] == position
        position = now


@pytest.mark.parametrize("fields", [{"design": "quota", "shares": {"1": 1, "3": 2}}, {"rows": "100:20000", "split": "train"}])
def test_streams_are_made_and_deleted(server, fields):
    """Who asks until it is done has it done; and all memory comes back."""
    def make(name):
        return "POST", "/streams", {"name": name, **fields}

    for name in range(8):
        server.must(*make(f"early{name}"))
        server.must("DELETE", f"/streams/early{name}")
    before = server.idle_blocks()
    for made, answer in server.failing(lambda number: make(f"s{number}")):
        again = server.ask(*make(f"s{made}"))
        assert again.status == 201 or again.status == 409 and (answer is None or answer.status in (201, 503)), again.text
        server.must("GET", f"/streams/s{made}")
    for number, answer in server.failing(lambda number: ("DELETE", f"/streams/s{number}")):
        again = server.ask("DELETE", f"/streams/s{number}")
        assert again.status == 204 or again.status == 404 and (answer is None or answer.status in (204, 503)), again.text
    for rest in range(number + 1, made + 1):
        server.must("DELETE", f"/streams/s{rest}")
    server.gives_back(before)


def test_streams_are_changed(server):
    """Who asks until it is done has it done; and all memory comes back."""
    first = server.must(*pull("w", 0))["first"]
    token = server.must("POST", "/streams/default/checkpoint")["token"]
    changes = {"pause": None, "resume": None, "seek": {"position": 70}, "checkpoint": None, "restore": {"token": token}}
    for _ in range(8):
        for path, body in changes.items():
            server.must("POST", f"/streams/default/{path}", body)
    before = server.idle_blocks()
    for path, body in changes.items():
        for _, answer in server.failing(lambda _, path=path, body=body: ("POST", f"/streams/default/{path}", body)):
            right = server.must("POST", f"/streams/default/{path}", body)
            assert answer is None or answer.status != 200 or answer.json == right
    server.gives_back(before)
    assert server.must(*pull("w", 1))["first"] == first, "what was leased when the token was made is drawn again"


def test_connections(sampler, allocator):
    """However many met a lack of memory, as many as ever are served."""
    server = Server(sampler(*STORE, "--max-connections", 8, env=allocator.environment), allocator)
    for _ in range(100):
        for number in range(6):
            allocator.left = number
            server.ask("GET", "/frames")
        allocator.left = NEVER
        server.must("GET", "/frames")


# ---- from the start of a program to its end -------------------------------------------------------------------------


def count(allocator, name, *arguments):
    """How many allocations the run of a program makes."""
    allocator.left = FAR
    run(name, *arguments, env=allocator.environment)
    return FAR - allocator.left


def some(allocator, name, used):
    """Some of a program's allocations, but for those of libraries before it begins."""
    dice = random.Random(f"{SEED} {name}")
    begun = count(allocator, name, "--version")
    return [dice.randrange(begun, used) for _ in range((60 if LONG else 10) if SANITIZED else 400 if LONG else 40)]


def runs(allocator, name, *arguments):
    """The run of a program where no allocation fails, and then runs where one of its allocations, wherever, does: each
    succeeds, or says why it did not."""
    allocator.left = FAR
    yield run(name, *arguments, env=allocator.environment)
    used = FAR - allocator.left
    for number in some(allocator, name, used):
        allocator.left = number
        done = run(name, *arguments, status=None, env=allocator.environment)
        assert done.returncode in (0, 1), f"allocation {number} of {used}: exit {done.returncode} {done.stderr}"
        assert done.returncode == 0 or done.stderr.strip(), f"allocation {number} of {used}: exit 1 without a message"
        yield done


@pytest.fixture(params=["csv", "csv.gz", "sqlite", "rows", "postgresql"])
def store(request, allocator, tmp_path):
    """The URI of a store of few columns, so that most allocations are not of their names."""
    header, rows = "id,label,x,y\n", "".join(f"{id},{id % 7},{id % 3}.5,{id % 11}\n" for id in range(2000))
    (tmp_path / "rows.csv").write_text(header + rows)
    uri = f"csv:{tmp_path}/rows.csv?id=id&label=label"
    if request.param == "csv.gz":
        (tmp_path / "rows.csv.gz").write_bytes(gzip.compress((header + rows).encode()))
        uri = uri.replace(".csv", ".csv.gz")
    if request.param == "sqlite":
        run("loader", "import", uri, f"sqlite:{tmp_path}/rows.db?table=t")
        uri = f"sqlite:{tmp_path}/rows.db?table=t"
    if request.param == "rows":
        run("loader", "import", uri, f"rows:{tmp_path}/rows.rows")
        uri = f"rows:{tmp_path}/rows.rows"
    if request.param == "postgresql":
        if "no PostgreSQL store" in run("loader", "info", "postgresql://127.0.0.1:1/x", status=None).stderr:
            pytest.skip("built without libpq")
        postgres = request.getfixturevalue("postgres")
        postgres.sql("DROP TABLE IF EXISTS t", "CREATE TABLE t (id bigint PRIMARY KEY, label int, x real, y int)",
                     "COPY t FROM STDIN (FORMAT csv)", stdin=rows)
        uri = postgres.uri("t")
        allocator.environment["ALLOCATOR_OWN"] = "1"  # OpenSSL and Kerberos crash
    return uri


def test_a_frame_and_a_database_are_made(allocator, store, tmp_path):
    """Whole, or not at all."""
    right = None
    for made, words in (("frame", ("sampler", "build", "--store", store, "--out", tmp_path / "frame")),
                        ("copy.db", ("loader", "import", store, f"sqlite:{tmp_path}/copy.db?table=t")),
                        ("copy.rows", ("loader", "import", store, f"rows:{tmp_path}/copy.rows"))):
        right = None
        for done in runs(allocator, *words):
            found = list(tmp_path.glob(f"*{made}*"))
            assert found in ([], [tmp_path / made]) and (found or done.returncode != 0)
            right = right or found[0].read_bytes()
            for file in found:
                assert file.read_bytes() == right
                file.unlink()


def test_rows_are_pulled(allocator, sampler, store):
    """Rows of the store, and as many as were asked for, or an error."""
    served = sampler("--store", store, "--seed", 1)
    everything = set(run("loader", "pull", "--sampler", served.url, "--store", store, "--batches", 20).stdout.splitlines())
    for done in runs(allocator, "loader", "pull", "--sampler", served.url, "--store", store, "--batches", 5):
        rows = done.stdout.split("\n")
        assert set(rows[:-1]) <= everything
        assert done.returncode != 0 or len(rows) == 1 + 500 + 1


def test_a_model_is_trained(allocator, sampler, store, tmp_path):
    """Whoever starts a trainer until it is done has the same model as ever. (oneDNN and the emulated GPU abort without memory.)"""
    served = sampler("--store", store, "--seed", 1)
    words = ["train", "--sampler", served.url, "--store", store, "--model", "mlp", "--hidden-units", 8, "--seed", 3, "--device",
             "cpu", "--blas", "plain", "--batch-size", 50, "--train-steps", 40, "--threads", 1, "--logdir", tmp_path / "log"]
    right = None
    for done in runs(allocator, "trainer", *words):
        if done.returncode != 0:
            run("trainer", *words)
        (made,) = (tmp_path / "log").glob("*-40.safetensors")
        right = right or made.read_bytes()
        assert made.read_bytes() == right
        shutil.rmtree(tmp_path / "log")


def test_a_server_starts(allocator, start, store, tmp_path):
    """Or says why not; and it goes on where the one before ended."""
    def serve(number):
        """How many allocations it starts with, and the batch that it gives then; None, None: it did not start."""
        allocator.left = number
        server = start("sampler", "serve", "--listen", "127.0.0.1:0", "--store", store, "--state", tmp_path / "state",
                       env=allocator.environment)
        line = server.read_line()
        used, allocator.left = number - allocator.left, NEVER
        if not line:
            assert server.wait() == 1 and server.stderr.strip(), f"allocation {number}: {server.stderr}"
            return None, None
        with urllib.request.urlopen(f"{line.split()[-1]}/batch?size=7", timeout=PATIENCE_S) as answer:
            batch = json.load(answer)
        server.stop()
        return used, batch["first"]

    serve(FAR)
    used, position = serve(FAR)
    for number in some(allocator, "sampler", used):
        _, first = serve(number)
        assert first in (None, position + 7)
        position = first or position
