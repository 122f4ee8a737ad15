# SPDX-License-Identifier: MIT
"""The trainer and pull behind a gateway that answers for a sampler which is away for a while."""

import http.client
import http.server
import itertools
import os
import threading
import time

import pytest

from conftest import PATIENCE_S, run, run_fails, wait_for
from test_trainer import newest, options, served, store, train, train_fails  # noqa: F401 (the fixtures)

pytestmark = pytest.mark.threads

SMALL = {"model": "softmax", "hidden_units": None, "batch_size": 500, "train_steps": 30}


class Gateway(http.server.ThreadingHTTPServer):
    """Hands requests on to the sampler; `fails(number, path)` is a status that it answers itself, or None. `caches(number,
    path)`: whether it repeats its last response to such a path, if there is one; `loses(number, path)`: whether it hangs up
    instead of handing a response back."""

    daemon_threads = True
    closes = False  # each connection after one response
    location = "/"  # of its own answers

    def __init__(self, sampler, fails):
        super().__init__(("127.0.0.1", 0), Handler)
        self.sampler, self.fails, self.numbers, self.failed = sampler, fails, itertools.count(), []
        self.caches, self.cached = lambda number, path: False, {}
        self.loses = lambda number, path: False
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def hand_on(self, body):
        connection = http.client.HTTPConnection(self.server.sampler.host, self.server.sampler.port, timeout=PATIENCE_S)
        connection.request(self.command, self.path, body)
        answer = connection.getresponse()
        headers = {name: value for name, value in answer.getheaders() if name.startswith(("Content-Type", "Tombola-"))}
        response = answer.status, headers, answer.read()
        connection.close()
        return response

    def do_GET(self):
        number = next(self.server.numbers)
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length) if length else None
        status = self.server.fails(number, self.path)
        if status:
            self.server.failed.append(status)
            response = status, {"Content-Type": "text/html", "Location": self.server.location}, b"<html>nobody there</html>"
        elif self.server.caches(number, self.path) and self.path in self.server.cached:
            response = self.server.cached[self.path]
        else:
            response = self.server.cached[self.path] = self.hand_on(sent)
            if self.server.loses(number, self.path):
                self.close_connection = True
                return
        status, headers, body = response
        self.send_response(status)
        if status != 204:
            headers = {**headers, "Content-Length": len(body)}
        for name, value in headers.items():
            self.send_header(name, value)
        if self.server.closes:
            self.send_header("Connection", "close")
        self.end_headers()
        if status != 204:
            self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def gateway():
    started = []

    def start(sampler, fails):
        started.append(Gateway(sampler, fails))
        return started[-1]

    yield start
    for one in started:
        one.shutdown()
        one.server_close()


def test_a_pull_waits_for_a_server_whose_disk_is_full(gateway, served, store):
    between = gateway(served, lambda number, path: 507 if number < 2 else None)
    done = run("loader", "pull", "--sampler", between.url, "--store", store, "--index", 0, "--batches", 1)
    assert between.failed == [507, 507] and "the server has a full disk (it answered 507); trying again" in done.stderr


def every_other():
    statuses = itertools.cycle((502, 504, 408, 503))
    return lambda number, path: next(statuses) if number % 2 == 0 else None


def test_training_waits_for_what_is_behind(gateway, served, store, tmp_path):
    """From the first request on; and it comes to the same bytes."""
    between = gateway(served, every_other())
    done = train(between, store, tmp_path / "between", **SMALL)
    assert {502, 504, 408} <= set(between.failed)
    assert "the server is busy or away (it answered 502); trying again" in done.stderr
    train(served, store, tmp_path / "direct", **SMALL)
    assert newest(tmp_path / "between").read_bytes() == newest(tmp_path / "direct").read_bytes()


def test_pull_waits_for_what_is_behind(gateway, sampler, store):
    between = gateway(sampler("--store", store, "--seed", 7, "--epochs", 1), every_other())
    lines = run("loader", "pull", "--sampler", between.url, "--store", store).stdout.splitlines()
    assert sorted(int(line.split(",")[0]) for line in lines[1:]) == list(range(2000))
    assert {502, 504, 408} <= set(between.failed)


def test_a_connection_for_each_response(gateway, sampler, store):
    """Every response comes over a new connection, perhaps from another sampler: no reason to ask for ever."""
    between = gateway(sampler("--store", store, "--seed", 7, "--epochs", 1), lambda number, path: None)
    between.closes = True
    for words in ([], ["--index", 0]):
        lines = run("loader", "pull", "--sampler", between.url, "--store", store, *words).stdout.splitlines()
        assert sorted(int(line.split(",")[0]) for line in lines[1:]) == list(range(2000))


def test_an_end_that_is_none(gateway, sampler, store):
    """204 is the sampler's word for the end of a stream, and some gateway's for nothing to say."""
    between = gateway(sampler("--store", store, "--epochs", 1, "--max-size", 100),
                      lambda number, path: 204 if "index=7&" in path else None)
    run_fails("loader", "pull", "--sampler", between.url, "--store", store, "--index", 0, status=1,
              says="answered 204 for batch 7: the stream default has not ended there")


@pytest.mark.parametrize("lease", [[], ["--lease"]], ids=["drawn", "leased"])
@pytest.mark.parametrize("once", [True, False])
def test_an_end_of_draws_that_is_none(gateway, sampler, store, lease, once):
    """The stream's description says whether it has ended; once more is asked, since somebody may have set it back."""
    draws = itertools.count()
    between = gateway(sampler("--store", store, "--epochs", 1),
                      lambda number, path: 204 if "/batch" in path and next(draws) in range(3, 4 if once else 99) else None)
    words = ("loader", "pull", "--sampler", between.url, "--store", store, *lease)
    if once:
        lines = run(*words).stdout.splitlines()
        assert sorted(int(line.split(",")[0]) for line in lines[1:]) == list(range(2000))
    else:
        run_fails(*words, status=1, says="answered 204 to a draw: the stream default has not ended")


@pytest.mark.parametrize("lease", [[], ["--lease"]], ids=["drawn", "leased"])
def test_an_end_that_cannot_be_checked(gateway, sampler, store, lease):
    """The token lost its scope `read` in the middle: it may still draw, as one that never had it."""
    reads = itertools.count()
    between = gateway(sampler("--store", store, "--epochs", 1),
                      lambda number, path: 403 if path.startswith("/streams/") and next(reads) > 0 else None)
    lines = run("loader", "pull", "--sampler", between.url, "--store", store, *lease).stdout.splitlines()
    assert sorted(int(line.split(",")[0]) for line in lines[1:]) == list(range(2000))
    assert 1 <= between.failed.count(403) <= 8, "each of four connections asks at its start and at the end"


@pytest.mark.parametrize("described", [False, True])
def test_a_draw_that_a_cache_answers(gateway, sampler, store, described):
    """Its rows were written already: they are not written twice without a word. If the cache also answers how far the stream
    is, that is no proof that the stream went back."""
    between = gateway(sampler("--store", store, "--epochs", 1), lambda number, path: None)
    between.caches = lambda number, path: "/batch" in path and number == 15 or described and path.startswith("/streams/")
    done = run("loader", "pull", "--sampler", between.url, "--store", store, status=1)
    assert "which was drawn before: the stream default did not go back, so something between" in done.stderr
    rows = [line.split(",")[0] for line in done.stdout.splitlines()[1:]]
    assert len(rows) == len(set(rows)) > 0


@pytest.mark.parametrize("statuses", [[], [504]], ids=["hung up", "504"])
def test_a_draw_whose_response_is_lost(gateway, sampler, store, statuses):
    """Its rows are not in the output, which must not end without a word of them. libcurl itself repeats a request on a
    connection that it kept."""
    draws = itertools.count()
    between = gateway(sampler("--store", store, "--epochs", 1), lambda number, path: None)
    between.loses = lambda number, path: "/batch" in path and next(draws) == 7
    if statuses:
        between.loses, lost = lambda number, path: False, between.loses
        between.fails = lambda number, path: statuses[0] if lost(number, path) else None
    done = run("loader", "pull", "--sampler", between.url, "--store", store)
    rows = {line.split(",")[0] for line in done.stdout.splitlines()[1:]}
    assert len(rows) == (2000 if statuses else 1900)
    assert "1 draw got no response from the sampler" in done.stderr
    assert "lost" not in run("loader", "pull", "--sampler", gateway(between.sampler, every_other()).url, "--store", store,
                             "--index", 0).stderr


def test_a_redirect_is_told(gateway, sampler, store):
    """From http:// to https://, say."""
    between = gateway(sampler("--store", store), lambda number, path: 308)
    between.location = "https://elsewhere.example/"
    run_fails("loader", "pull", "--sampler", between.url, "--store", store, status=1,
              says=["answered 308 to GET /streams/default: it leads to https://elsewhere.example/;", "give the URL"])


#: A feed that is closed while its sampler does not answer leaves threads behind, of which ThreadSanitizer complains.
THREADS_ARE_LEFT = {"TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":report_thread_leaks=0"}


def check_no_ack_came(between, store):
    run_fails("loader", "pull", "--sampler", between.url, "--store", store, "--lease", "--batches", 3, "--patience", 0.5, status=1,
              env=THREADS_ARE_LEFT, says="did not ack the last 3 batches that were put back, and will redeliver them")


def slow_acks(number, path):
    if path == "/ack":
        time.sleep(1.5)


def test_what_is_written_is_acked_before_the_end(gateway, sampler, store):
    """Or its rows would come to somebody else again, after exit 0."""
    served = sampler("--store", store, "--epochs", 1)
    run("loader", "pull", "--sampler", gateway(served, slow_acks).url, "--store", store, "--lease", "--batches", 3)
    assert served.get("/streams/default").json["acked"] == 3
    between = gateway(served, lambda number, path: 503 if path == "/ack" else None)
    check_no_ack_came(between, store)


def test_an_ack_that_a_gateway_takes(gateway, sampler, store):
    """200 with a page to sign in, say: the sampler never heard of the ack."""
    served = sampler("--store", store, "--epochs", 1)
    between = gateway(served, lambda number, path: 200 if path == "/ack" else None)
    check_no_ack_came(between, store)
    assert served.get("/streams/default").json["acked"] == 0


def test_an_ack_that_a_cache_answers(gateway, sampler, store):
    """With the sampler's answer to another ack: without a word, the rows would come again once their leases expire."""
    served = sampler("--store", store, "--epochs", 1)
    between = gateway(served, lambda number, path: None)
    between.caches = lambda number, path: path == "/ack"
    between.cached["/ack"] = 200, {"Content-Type": "application/json"}, b'{"acked":[0]}'
    done = run("loader", "pull", "--sampler", between.url, "--store", store, "--lease", status=1)
    assert "was answered with another list" in done.stderr.splitlines()[-1], done.stderr
    assert len(done.stdout.splitlines()) - 1 <= 2000


@pytest.mark.parametrize("status", [403, 500])
def test_acks_that_a_gateway_refuses_end_the_pull(gateway, sampler, store, status):
    """It would wait for its own leases, or get its own batches again when they expire."""
    served = sampler("--store", store, "--epochs", 1, "--lease", 600)
    between = gateway(served, lambda number, path: status if path == "/ack" else None)
    done = run("loader", "pull", "--sampler", between.url, "--store", store, "--lease", status=2 if status == 403 else 1)
    assert f"answered {status} to POST /ack" in done.stderr.splitlines()[-1], done.stderr
    assert len(between.failed) < 10
    assert served.get("/streams/default").json["acked"] == 0


@pytest.mark.parametrize("status", [408, 502, 504])
def test_patience_ends(gateway, served, store, tmp_path, status):
    between = gateway(served, lambda number, path: status)
    says = [f"answered {status}", "nobody there", "patience"]
    for words in (("trainer", *options(between, store, tmp_path / "run", patience=0.5, **SMALL)),
                  ("loader", "pull", "--sampler", between.url, "--store", store, "--patience", 0.5)):
        def is_told(words=words):
            """Unless the last try was not answered in time, on a busy machine."""
            said = run(*words, status=1).stderr
            return all(text in said for text in says)

        wait_for(is_told, f"the status is not told by {words[0]}")


def test_other_statuses_end_at_once(gateway, served, store, tmp_path):
    between = gateway(served, lambda number, path: 500)
    train_fails(between, store, tmp_path / "run", "answered 500", status=1, **SMALL)
    assert len(between.failed) == 1


def test_before_the_first_step_no_loss_is_shown(gateway, served, store, start, tmp_path):
    between = gateway(served, lambda number, path: 503 if path.startswith("/batch") else None)
    trainer = start("trainer", *options(between, store, tmp_path / "run", **SMALL))
    trainer.wait_for_log("step 0 of 30  loss -  0 rows/s")
    between.fails = lambda number, path: None
    assert trainer.wait() == 0
    assert "nan" not in trainer.stderr
