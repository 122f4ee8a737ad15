"""Promise 5: a draw that was answered is never forgotten, whatever happens to the sampler."""

import http.client
import json
import random
import resource
import signal
import socket
import threading
import time

import pytest

from conftest import PATIENCE_S, run, run_fails

STORE = ("--store", "range:1000?labels=10")


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


class Pullers:
    """Threads that draw until the sampler is gone or the stream ends; they keep what was answered."""

    def __init__(self, server, sizes):
        self.batches, self.statuses, self.lock = [], set(), threading.Lock()
        self.threads = [threading.Thread(target=self.pull, args=(server, size)) for size in sizes]
        for thread in self.threads:
            thread.start()

    def pull(self, server, size):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
        try:
            while True:
                connection.request("GET", f"/batch?size={size}")
                answer = connection.getresponse()
                body = answer.read()
                with self.lock:
                    self.statuses.add(answer.status)
                    if answer.status == 200:
                        self.batches.append(json.loads(body))
                if answer.status == 204:
                    return
        except (OSError, http.client.HTTPException):
            pass  # the sampler is gone; what was on its way is lost
        finally:
            connection.close()

    def join(self):
        for thread in self.threads:
            thread.join()


def spans(batches):
    return sorted((batch["first"], batch["size"]) for batch in batches)


def gaps(batches, end):
    """[(first, size)] of what no batch holds below `end`; an overlap fails."""
    found, position = [], 0
    for first, size in spans(batches):
        assert first >= position, f"position {first} was answered twice"
        if first > position:
            found.append((position, first - position))
        position = first + size
    assert position <= end
    return found + ([(position, end - position)] if position < end else [])


@pytest.mark.parametrize("durability", ["fsync", "process", "none"])
def test_a_restart_goes_on_exactly(sampler, tmp_path, durability):
    options = (*STORE, "--state", tmp_path / "a/state", "--durability", durability)
    first = 0
    seed = None
    for size in (1, 100, 33, 866, 10):
        server = sampler(*options)
        stream = server.get("/streams/default").json
        assert stream["position"] == first
        seed = seed or stream["seed"]
        assert stream["seed"] == seed, "the kept seed must go on"
        batch = server.batch(f"size={size}")
        assert (batch["first"], batch["size"]) == (first, size)
        first += size
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert sampler(*options, "--seed", seed).batch("size=5")["first"] == first


@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_kill_9_under_load_repeats_and_skips_nothing(sampler, tmp_path, durability):
    options = ("--store", "range:100000?labels=10", "--seed", 1, "--state", tmp_path / "state", "--durability", durability)
    sizes = [1 + 7 * client for client in range(16)]
    answered, allowed = [], 0
    for kill in range(6):
        server = sampler(*options)
        pullers = Pullers(server, sizes)
        wait_for(lambda: len(pullers.batches) > 3, "nothing was answered")  # pylint: disable=cell-var-from-loop
        time.sleep(random.Random(kill).random() * 0.2)
        server.kill()
        pullers.join()
        assert pullers.statuses == {200}
        answered += pullers.batches
        allowed += sum(sizes)  # each client had one batch under way
    server = sampler(*options)
    end = server.get("/streams/default").json["position"]
    missing = gaps(answered, end)  # overlaps fail here
    assert all(size in sizes or size <= sum(sizes) for _, size in missing)
    assert sum(size for _, size in missing) <= allowed
    assert server.batch("size=1")["first"] == end
    server.kill()


@pytest.mark.parametrize("durability", ["fsync", "process", "none"])
def test_sigterm_under_load_loses_nothing(sampler, tmp_path, durability):
    options = ("--store", "range:100000?labels=10", "--seed", 1, "--state", tmp_path / "state", "--durability", durability)
    answered = []
    for _ in range(3):
        server = sampler(*options)
        pullers = Pullers(server, [10] * 32)
        wait_for(lambda: len(pullers.batches) > 50, "nothing was answered")  # pylint: disable=cell-var-from-loop
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        pullers.join()
        assert pullers.statuses <= {200, 503}
        answered += pullers.batches
    end = sampler(*options).get("/streams/default").json["position"]
    assert gaps(answered, end) == []


def test_a_restart_in_the_middle_keeps_every_unit_once(sampler, tmp_path):
    options = ("--store", "range:5000?labels=10", "--epochs", 2, "--state", tmp_path / "state", "--seed", 4)
    answered = []
    while True:
        server = sampler(*options)
        pullers = Pullers(server, [37] * 8)
        wait_for(lambda: len(pullers.batches) > 40 or 204 in pullers.statuses, "no answer")  # pylint: disable=cell-var-from-loop
        server.signal(signal.SIGTERM)
        server.wait()
        pullers.join()
        answered += pullers.batches
        if 204 in pullers.statuses:
            break
    assert gaps(answered, 10000) == []
    for epoch in (0, 1):
        ids = [id for batch in answered if batch["epoch"] == epoch for id in batch["ids"]]
        assert sorted(ids) == list(range(5000))
    assert sampler(*options).get("/batch").status == 204


def test_a_store_and_the_frame_built_from_it_are_the_same_order(sampler, tmp_path):
    run("sampler", "build", *STORE, "--out", tmp_path / "x.frame")
    server = sampler(*STORE, "--state", tmp_path / "state")
    server.batch("size=40")
    server.kill()
    assert sampler("--frame", tmp_path / "x.frame", "--state", tmp_path / "state").batch("size=5")["first"] == 40


def test_clients_that_leave_while_the_disk_works(sampler, tmp_path):
    server = sampler("--store", "range:100000", "--state", tmp_path / "state")
    for _ in range(300):
        with socket.create_connection((server.host, server.port)) as connection:
            connection.sendall(b"GET /batch?size=7 HTTP/1.1\r\nHost: x\r\n\r\n")
    last = server.batch("size=7")
    assert last["first"] % 7 == 0 and last["first"] <= 300 * 7
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    after = sampler("--store", "range:100000", "--state", tmp_path / "state").batch("size=7")
    assert after["first"] >= last["first"] + 7


def test_a_second_server_is_refused(sampler, tmp_path):
    server = sampler(*STORE, "--state", tmp_path / "state")
    run_fails("sampler", "serve", *STORE, "--listen", "127.0.0.1:0", "--state", tmp_path / "state",
              says=["in use", str(server.process.pid)])
    assert server.batch("size=3")["first"] == 0
    server.kill()
    assert sampler(*STORE, "--state", tmp_path / "state").batch("size=3")["first"] == 3


@pytest.mark.parametrize("change, says", [
    (("--store", "range:1001?labels=10"), "of 1001 here"),
    (("--store", "range:1000?labels=5"), "frame"),
    (("--store", "range:1000?labels=10", "--rows", "0:999"), "of 999 here"),
    ((*STORE, "--seed", 2), "seed 1 there, 2 here"),
    ((*STORE, "--design", "srs"), "design proportional there, srs here"),
    ((*STORE, "--replacement"), "without replacement there, with here"),
])
def test_another_order_is_refused_by_name(sampler, tmp_path, change, says):
    state = ("--state", tmp_path / "state")
    server = sampler(*STORE, *state, "--seed", 1)
    server.batch("size=7")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    before = (tmp_path / "state/position").read_bytes()
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *change, *state, says=says)
    assert (tmp_path / "state/position").read_bytes() == before
    again = sampler(*STORE, *state, "--tail", "span", "--epochs", 3)  # these two may change
    assert again.batch("size=7")["first"] == 7


def test_damaged_records(sampler, tmp_path):
    state = tmp_path / "state"
    options = (*STORE, "--state", state, "--seed", 1)
    server = sampler(*options)
    for _ in range(4):
        server.batch("size=10")
    server.kill()
    whole = (state / "position").read_bytes()
    assert len(whole) == 8192
    seen = set()
    for slot in (0, 1):
        damaged = bytearray(whole)
        damaged[slot * 4096 + 100] ^= 1
        (state / "position").write_bytes(damaged)
        server = sampler(*options)
        seen.add(server.get("/streams/default").json["position"])
        server.kill()
    assert seen == {30, 40}, "each slot holds one of the last two records"
    for content in (b"", b"x" * 8192, whole[:100], bytes(8192), b"TMBLPOS1" + bytes(9000)):
        (state / "position").write_bytes(content)
        run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *options, says=["position", "damaged"])
        assert (state / "position").read_bytes() == content


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("x")
    run_fails("sampler", "serve", *STORE, "--listen", "127.0.0.1:0", "--state", tmp_path / "file", says="file", status=None)
    run_fails("sampler", "serve", *STORE, "--listen", "127.0.0.1:0", "--state", "/proc/nothing/here", says="/proc/nothing", status=None)
    run_fails("sampler", "serve", *STORE, "--durability", "none", says="--state")


def limit_files(server, bytes_):
    """A limit of 0 bytes refuses every write, as a full disk does."""
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard if bytes_ is None else bytes_, hard))


@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_a_full_disk_refuses_draws_and_loses_nothing(sampler, tmp_path, durability):
    server = sampler(*STORE, "--state", tmp_path / "state", "--durability", durability, "--epochs", 1)
    assert server.batch("size=10")["first"] == 0
    limit_files(server, 0)
    for _ in range(5):
        answer = server.get("/batch?size=10")
        assert answer.status == 507
        assert answer.headers["content-type"] == "application/problem+json"
        assert str(tmp_path / "state/position") in answer.json["detail"]
    assert server.get("/readyz").status == 503
    assert server.get("/healthz").status == 200
    assert server.batch("size=10&index=0")["first"] == 0, "index= needs no state"
    assert server.get("/streams/default").json["position"] == 10
    limit_files(server, None)
    wait_for(lambda: server.get("/batch?size=10").status == 200, "it never went on")
    assert server.get("/readyz").status == 200
    assert server.batch("size=10")["first"] == 20
    server.kill()
    assert sampler(*STORE, "--state", tmp_path / "state", "--epochs", 1).batch("size=10")["first"] == 30


def test_a_disk_that_is_full_now_and_then_under_load(sampler, tmp_path):
    server = sampler("--store", "range:30000", "--state", tmp_path / "state", "--epochs", 1)
    pullers = Pullers(server, [10, 20, 30] * 8)
    while any(thread.is_alive() for thread in pullers.threads):
        limit_files(server, 0)
        time.sleep(0.02)
        limit_files(server, None)
        time.sleep(0.3)
    pullers.join()
    assert pullers.statuses <= {200, 204, 507}
    assert gaps(pullers.batches, 30000) == []
