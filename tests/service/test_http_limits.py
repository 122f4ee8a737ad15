# SPDX-License-Identifier: MIT
"""What one client can cost: batches that a design fixes, answers that nobody reads, workers without
end; and how a program tells one 409 from another."""

import contextlib
import http.client
import json
import re
import resource
import select
import socket
import time

import pytest

from conftest import PATIENCE_S, run_fails, wait_for

LARGE = "range:1000000000?labels=2"


def post(server, target, body=None):
    data = json.dumps(body) if body is not None else None
    return server.request("POST", target, data, {"Content-Type": "application/json"})


def problem(answer, status, kind):
    """It must be that problem; gives its detail."""
    assert answer.status == status, f"{answer.status} {answer.text}"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["type"] == (f"/problems/{kind}" if kind else "about:blank"), answer.text
    assert answer.json["status"] == status
    return answer.json["detail"]


def metric(server, name):
    return int(re.search(rf"^{name} (\d+)$", server.get("/metrics").text, re.M).group(1))


# ---- batches that a design fixes ------------------------------------------------------------------


def test_a_design_with_batches_above_the_limit_is_refused(sampler):
    server = sampler("--store", LARGE, "--seed", 1)
    body = {"name": "k", "design": "pxk", "p": 2, "k": 50000000}
    detail = problem(post(server, "/streams", body), 400, None)
    assert "100000000" in detail and "1000000" in detail and "--max-size" in detail
    assert server.get("/streams/k").status == 404
    assert post(server, "/streams", {**body, "k": 500000}).status == 201
    assert len(server.batch("stream=k&format=json")["ids"]) == 1000000
    assert problem(post(server, "/streams", {**body, "name": "l", "k": 500001}), 400, None)


def test_the_limit_is_the_servers_own(sampler):
    server = sampler("--store", LARGE, "--max-size", 100)
    assert "100 units" in problem(post(server, "/streams", {"name": "k", "design": "pxk", "p": 2, "k": 51}), 400, None)
    assert post(server, "/streams", {"name": "k", "design": "pxk", "p": 2, "k": 50}).status == 201


def test_options_with_batches_above_the_limit_are_refused():
    run_fails("sampler", "serve", "--store", LARGE, "--design", "pxk", "--p", 2, "--k", 51, "--max-size", 100,
              "--listen", "127.0.0.1:0", says=["p * k is 102", "--max-size", "100"])


def test_a_stream_of_a_start_with_a_higher_limit_is_refused_where_it_is_drawn(sampler, tmp_path):
    options = ("--store", "range:1000?labels=2", "--state", tmp_path / "state", "--seed", 1)
    server = sampler(*options)
    assert post(server, "/streams", {"name": "k", "design": "pxk", "p": 2, "k": 100}).status == 201
    first = server.batch("stream=k")
    held = server.batch("stream=k&worker=w&seq=0")
    token = post(server, "/streams/k/checkpoint").json["token"]
    server.finish()
    server = sampler(*options, "--max-size", 100)
    assert len(server.batch()["ids"]) == 100
    for query in ("", "&worker=w&seq=0", "&worker=w&seq=1", "&index=0", "&format=binary"):
        detail = problem(server.get(f"/batch?stream=k{query}"), 409, "batch-too-large")
        assert "p * k is 200" in detail and "--max-size" in detail
    assert server.request("HEAD", "/batch?stream=k").status == 409
    assert post(server, "/streams/k/restore", {"token": token}).status == 200
    problem(server.get("/batch?stream=k"), 409, "batch-too-large")
    server.finish()
    server = sampler(*options)
    assert server.batch("stream=k")["ids"] == held["ids"] != first["ids"]


# ---- answers that nobody reads --------------------------------------------------------------------


def ask_and_read_nothing(server, query):
    client = socket.create_connection((server.host, server.port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(f"GET /batch?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return client


def read_status(client):
    client.settimeout(60)
    line = b""
    while b"\r\n" not in line:
        got = client.recv(64)
        if not got:
            return 0
        line += got
    return int(line.split()[1])


@pytest.mark.threads
def test_answers_that_are_not_read_have_a_limit_together(sampler):
    server = sampler("--store", LARGE, "--seed", 1, "--max-answer-memory", "40M")
    clients = [ask_and_read_nothing(server, f"size=1000000&index={i}&format=binary") for i in range(12)]
    statuses = [read_status(client) for client in clients]
    assert statuses.count(200) >= 3, statuses  # 12 MB each
    assert statuses.count(503) >= 9, statuses
    assert metric(server, "tombola_sampler_answers_refused_total") == statuses.count(503)
    assert 30 << 20 < metric(server, "tombola_sampler_answer_memory_bytes") <= 40 << 20
    assert metric(server, "tombola_sampler_answer_memory_limit_bytes") == 40 << 20

    before = server.get("/streams/default").json
    refused = server.get("/batch?size=1000000&worker=w&seq=0")  # nothing is drawn for it
    assert "--max-answer-memory" in problem(refused, 503, None)
    assert int(refused.headers["retry-after"]) >= 1
    assert problem(server.get("/batch?size=1000000"), 503, None)
    assert server.get("/streams/default").json == before
    assert server.batch()["first"] == 0  # small ones go on

    for client in clients:
        client.close()
    wait_for(lambda: metric(server, "tombola_sampler_answer_memory_bytes") == 0, "the answers' memory was not let go of")
    assert server.batch("size=1000000&worker=w&seq=0")["first"] == 100
    wait_for(lambda: metric(server, "tombola_sampler_answer_memory_bytes") == 0, "the answers' memory was not let go of")


@pytest.mark.parametrize("form", ["json", "csv", "binary"])
def test_one_answer_alone_is_never_refused(sampler, form):
    server = sampler("--store", LARGE, "--max-answer-memory", "1M")
    for _ in range(3):
        assert server.get(f"/batch?size=1000000&format={form}").status == 200
        # who has read it all may ask again before the server has let go of it
        wait_for(lambda: metric(server, "tombola_sampler_answer_memory_bytes") == 0, "the answers' memory was not let go of")
    assert metric(server, "tombola_sampler_answers_refused_total") == 0


def test_other_large_answers_count_too(sampler):
    server = sampler("--store", "range:3000000?labels=100000", "--max-answer-memory", "1M")
    client = ask_and_read_nothing(server, "size=1000000&index=0&format=binary")
    assert read_status(client) == 200
    assert "--max-answer-memory" in problem(server.get("/labels"), 503, None)
    client.close()
    wait_for(lambda: metric(server, "tombola_sampler_answer_memory_bytes") == 0, "the answers' memory was not let go of")
    assert len(server.get("/labels").json["labels"]) == 100000
    wait_for(lambda: metric(server, "tombola_sampler_answer_memory_bytes") == 0, "the answers' memory was not let go of")


def test_the_limit_has_a_form():
    for wrong in ("0", "1023K", "-1", "1X", "M", "99999999999999999999"):
        for option in ("--max-answer-memory", "--max-body-memory"):
            run_fails("sampler", "serve", "--store", LARGE, f"{option}={wrong}", says=[option, "at least 1M"])


# ---- bodies that come slowly ----------------------------------------------------------------------


def send_body(server, sent, size=1000000):
    client = socket.create_connection((server.host, server.port), timeout=PATIENCE_S)
    client.sendall(f"POST /ack HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + b" " * sent)
    return client


@pytest.mark.threads
def test_bodies_have_a_limit_together(sampler):
    server = sampler("--store", LARGE, "--seed", 1, "--max-body-memory", "4M")
    held, refused = "tombola_sampler_body_memory_bytes", "tombola_sampler_bodies_refused_total"
    assert metric(server, "tombola_sampler_body_memory_limit_bytes") == 4 << 20
    clients = []
    for kept in (1, 2, 3):
        clients.append(send_body(server, 999999))
        wait_for(lambda: metric(server, held) == kept * (1 << 20), "a body was not kept")
    clients += [send_body(server, 999999) for _ in range(9)]
    wait_for(lambda: metric(server, refused) >= 8, "no body was refused")
    assert metric(server, held) <= 4 << 20
    assert post(server, "/ack", {"worker": "w", "seqs": []}).status == 200  # small ones go on
    for client in clients:
        client.sendall(b" ")
    statuses = [read_status(client) for client in clients]
    assert statuses[:3] == [400] * 3, statuses  # it is no JSON
    assert statuses.count(503) == metric(server, refused) >= 8, statuses
    wait_for(lambda: metric(server, held) == 0, "the bodies' memory was not let go of")
    for client in clients:
        client.close()


@pytest.mark.threads
def test_a_body_that_finds_no_memory_hears_503(sampler):
    server = sampler("--store", LARGE, "--max-body-memory", "1M")
    held = "tombola_sampler_body_memory_bytes"
    with send_body(server, 700000):
        wait_for(lambda: metric(server, held) > 1 << 19, "a body was not kept")
        for length in ({}, {"Transfer-Encoding": "chunked"}):  # the connection goes on after it
            connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
            body = iter([b" " * 8192] * 100) if length else b" " * 819200
            connection.request("POST", "/ack", body=body, headers=length, encode_chunked=bool(length))
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("Retry-After")) == (503, "1")
            assert "--max-body-memory" in json.loads(answer.read())["detail"]
            connection.request("POST", "/ack", body=b'{"worker":"w","seqs":[]}')
            assert connection.getresponse().status == 200
            connection.close()
    wait_for(lambda: metric(server, held) == 0, "the memory of a body was kept whose client had gone")
    answer = server.request("POST", "/ack", body=b'{"worker":"w","seqs":[]}'.ljust(1 << 20))  # one alone always fits
    assert answer.status == 200, answer.text


# ---- connections ----------------------------------------------------------------------------------

ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def connect(server, source="127.0.0.1"):
    return socket.create_connection((server.host, server.port), timeout=30, source_address=(source, 0))


def hears(client):
    client.sendall(ASK)
    answer = b""
    while not answer.endswith((b"\r\n\r\nok\n", b"}\n")):
        answer += (got := client.recv(4096))
        assert got, answer
    return int(answer.split()[1])


@pytest.mark.threads
def test_an_address_has_no_more_connections_than_it_may(sampler):
    server = sampler("--store", LARGE, "--max-connections-per-address", 3)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(server)) for _ in range(3)]
        assert [hears(client) for client in held] == [200] * 3
        with connect(server) as fourth:
            answer = exchange_all(fourth)
        assert answer.startswith(b"HTTP/1.1 503 ") and b"--max-connections-per-address" in answer, answer
        assert b"Retry-After: 1" in answer and b"Connection: close" in answer, answer
        with connect(server, "127.0.0.2") as other:
            assert hears(other) == 200

        silent = [stack.enter_context(connect(server)) for _ in range(100)]
        wait_for(lambda: sum(is_closed(client) for client in silent) == 100 - 64, "they were not closed")
        wait_for(lambda: b"\ntombola_sampler_connections 68\n" in metrics_for(server, "127.0.0.2"), "they are still counted")
        assert [hears(client) for client in held] == [200] * 3

        for client in silent + held[:1]:
            client.close()
        wait_for(lambda: is_served(server), "the address did not get its connection back")


def is_served(server):
    try:
        with connect(server) as client:
            return exchange_all(client).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False  # closed: those that are gone are still counted


def metrics_for(server, source):
    with connect(server, source) as client:
        return exchange_all(client, "/metrics")


def exchange_all(client, target="/healthz"):
    client.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    return b"".join(iter(lambda: client.recv(65536), b""))


def is_closed(client):
    """By the server, and nothing was said."""
    return select.select([client], [], [], 0)[0] != [] and client.recv(1) == b""


@pytest.mark.threads
def test_idle_connections_keep_nobody_out(sampler):
    """Each takes the place of another one. By itself an idle one stays for 120 s."""
    server = sampler("--store", LARGE, "--max-connections", 1, "--header-timeout", 3600)
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.ExitStack() as stack:
        for _ in range(80):  # more than the 64 that may hear 503
            stack.enter_context(connect(server))
        for _ in range(4):
            while hears(client := stack.enter_context(connect(server))) != 200:
                assert time.monotonic() < deadline, "idle connections are not closed"
                client.close()
                time.sleep(0.1)


@pytest.mark.heavy
def test_ten_thousand_workers_have_a_connection_each(sampler):
    """From one address, with what the server allows by itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 17000:
        pytest.skip("fewer than 17,000 open files")
    server = sampler("--store", LARGE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(connect(server)) for _ in range(10000)]
            for client in clients:
                client.sendall(ASK)
            assert [read_status(client) for client in clients] == [200] * 10000
            assert metric(server, "tombola_sampler_connections") >= 10000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("files, wanted, served", [("600:600", 1000, 408), ("600:2000", 1000, 1000)])
def test_connections_need_open_files(sampler, files, wanted, served):
    """The soft limit is raised; where the hard one does not do, the server says so and serves fewer."""
    server = sampler("--store", LARGE, "--max-connections", wanted, prefix=("prlimit", f"--nofile={files}"))
    assert metric(server, "tombola_sampler_connections_limit") == served
    assert ("the limit of open files (600) allows 408 connections, not 1000; raise it" in server.stderr) == (served < wanted)


@pytest.mark.parametrize("files, options, needed", [(64, (), 208), (207, (), 208), (192, ("--max-connections", 1), 193)])
def test_too_few_open_files_are_an_error(start, files, options, needed):
    server = start("sampler", "serve", "--store", LARGE, "--listen", "127.0.0.1:0", *options,
                   prefix=("prlimit", f"--nofile={files}:{files}"))
    assert server.wait() == 1
    assert f"the limit of open files is {files}, and the server needs at least {needed}: raise it (ulimit -Hn" in server.stderr


def test_more_memory_than_there_is_is_told(sampler):
    server = sampler("--store", LARGE, "--max-answer-memory", "8000000T")
    assert re.search("allow [0-9]+ MiB, and this machine or container has [0-9]+ MiB: clients can have the server killed", server.stderr)
    assert "container has" not in sampler("--store", LARGE, "--max-answer-memory", "1M", "--max-body-memory", "1M").stderr


def test_connections_leave_open_files_for_the_state(sampler, tmp_path):
    server = sampler("--store", LARGE, "--state", tmp_path / "state", prefix=("prlimit", "--nofile=256:256"))
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(connect(server))
        for _ in range(300):
            stack.enter_context(connect(server))
        with contextlib.suppress(ConnectionError):  # on a slow machine it has been idle for too long
            first.sendall(b"GET /batch?size=1 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert first.recv(4096)[:13] in (b"HTTP/1.1 200 ", b"")
    assert "the limit of open files (256) allows 64 connections" in server.stderr
    assert "Too many open files" not in server.stderr


# ---- workers without end --------------------------------------------------------------------------


class Line:
    """One connection that asks again and again."""

    def __init__(self, server):
        self.file = socket.create_connection((server.host, server.port)).makefile("rwb")

    def send(self, target):
        self.file.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    def read(self):
        status, length = int(self.file.readline().split()[1]), 0
        while (line := self.file.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, self.file.read(length)


@pytest.mark.heavy
def test_a_stream_forgets_the_longest_idle_worker(sampler, tmp_path):
    options = ("--store", LARGE, "--state", tmp_path / "state", "--durability", "process", "--seed", 1, "--lease", 600)
    server = sampler(*options)
    kept = server.batch("size=3&worker=holder&seq=0")
    early = server.batch("size=1&worker=early&seq=4")
    assert post(server, "/ack", {"worker": "early", "seqs": [4]}).status == 200
    line = Line(server)
    for start in range(0, 100000, 500):
        for i in range(start, start + 500):
            line.send(f"/batch?size=1&worker=w{i}&seq=0")
            line.send(f"/batch?size=1&worker=w{i}&seq=1&ack=0")
        line.file.flush()
        for i in range(1000):
            status, body = line.read()
            if start < 99000:
                assert status == 200, body
    # All but 'early' have batches: it was forgotten, and the last ones found no room.
    answer = server.get("/batch?size=1&worker=late&seq=0")
    assert "batches" in problem(answer, 503, None)
    assert post(server, "/release", {"worker": "w7"}).status == 200
    assert server.get("/batch?size=1&worker=late&seq=0").status == 200
    for again in range(2):
        detail = problem(server.get("/batch?size=1&worker=early&seq=4"), 409, "worker-forgotten")
        assert "early" in detail and "below 5" in detail
        problem(post(server, "/ack", {"worker": "early", "seqs": [4]}), 409, "worker-forgotten")
        problem(server.get("/batch?size=1&worker=w7&seq=1"), 409, "worker-forgotten")
        assert server.batch("size=3&worker=holder&seq=0")["ids"] == kept["ids"]
        place = server.get(f"/where?id={early['ids'][0]}").json
        assert (place["state"], place.get("worker")) == ("done", None)
        if again == 0:
            server.kill()
            server = sampler(*options)
    assert post(server, "/release", {"worker": "w9"}).status == 200
    assert server.batch("size=1&worker=early&seq=5")["seq"] == 5


# ---- which 409 ------------------------------------------------------------------------------------


def test_each_conflict_has_a_type(sampler):
    server = sampler("--store", "range:1000?labels=2", "--seed", 1, "--lease", 600)
    server.batch("size=10&worker=a&seq=0")
    server.batch("size=10&worker=a&seq=1")
    problem(server.get("/batch?size=11&worker=a&seq=0"), 409, "other-size")
    assert post(server, "/ack", {"worker": "a", "seqs": [0]}).status == 200
    problem(server.get("/batch?size=10&worker=a&seq=0"), 409, "pair-acked")
    assert post(server, "/release", {"worker": "a"}).status == 200
    problem(server.get("/batch?size=10&worker=a&seq=1"), 409, "pair-lost")
    problem(post(server, "/ack", {"worker": "a", "seqs": [1]}), 409, "late-ack")
    problem(server.get("/batch?size=10&worker=a&seq=2&ack=1"), 409, "late-ack")
    problem(post(server, "/extend", {"worker": "a", "seqs": [1]}), 409, "late-ack")
    problem(post(server, "/ack", {"worker": "a", "seqs": [9]}), 409, "never-lent")
    problem(post(server, "/ack", {"worker": "nobody", "seqs": [0]}), 409, "never-lent")
    assert post(server, "/streams", {"name": "b", "seed": 2}).status == 201
    problem(post(server, "/streams", {"name": "b"}), 409, "name-in-use")
    problem(server.request("DELETE", "/streams/default"), 409, "default-stream")
    token = post(server, "/streams/b/checkpoint").json["token"]
    problem(post(server, "/streams/default/restore", {"token": token}), 409, "other-order")
    assert post(server, "/streams/b/pause").status == 200
    problem(server.get("/batch?stream=b"), 409, "paused")
    problem(server.get("/batch?size=0"), 400, None)
    problem(server.get("/nowhere"), 404, None)


def test_too_many_streams_have_a_type(sampler):
    server = sampler("--store", "range:1000?labels=2", "--max-streams", 1)
    problem(post(server, "/streams", {"name": "b"}), 409, "too-many-streams")


def test_a_held_pair_is_answered_while_the_stream_is_paused(sampler):
    server = sampler("--store", "range:1000?labels=2", "--seed", 1, "--lease", 1)
    held = server.batch("size=10&worker=a&seq=0")
    server.batch("size=10&worker=a&seq=1")
    assert post(server, "/ack", {"worker": "a", "seqs": [1]}).status == 200
    assert post(server, "/streams/default/pause").status == 200
    before = server.get("/streams/default").json
    for query in ("size=10", "size=10&worker=a&seq=2", "size=10&worker=b&seq=0"):
        problem(server.get(f"/batch?{query}"), 409, "paused")
        assert server.request("HEAD", f"/batch?{query}").status == 409
    problem(server.get("/batch?size=11&worker=a&seq=0"), 409, "other-size")
    problem(server.get("/batch?size=10&worker=a&seq=1"), 409, "pair-acked")
    attempts = set()
    deadline = time.monotonic() + PATIENCE_S
    while 2 not in attempts:  # its lease runs out, and it is still its own
        assert time.monotonic() < deadline
        again = server.batch("size=10&worker=a&seq=0")
        assert (again["ids"], again["first"]) == (held["ids"], held["first"])
        attempts.add(again["attempt"])
    assert server.get("/streams/default").json["position"] == before["position"]
    problem(server.get("/batch?size=10"), 409, "paused")
    assert post(server, "/ack", {"worker": "a", "seqs": [0]}).status == 200
    assert post(server, "/streams/default/resume").status == 200
    assert server.batch("size=10")["first"] == 20


def test_openapi_lists_the_types(sampler):
    text = sampler("--store", "range:1000?labels=2").get("/openapi.json").json
    types = text["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
    assert {"about:blank", "/problems/all-lent", "/problems/paused", "/problems/pair-acked", "/problems/pair-lost", "/problems/late-ack",
            "/problems/never-lent", "/problems/other-size", "/problems/other-order", "/problems/name-in-use",
            "/problems/too-many-streams", "/problems/default-stream", "/problems/batch-too-large",
            "/problems/worker-forgotten"} == set(types)
