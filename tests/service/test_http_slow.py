# SPDX-License-Identifier: MIT
"""Requests that take long: they are bounded, what they did is remembered, and a stop ends them."""

import json
import re
import socket
import threading
import time

import pytest

from conftest import wait_for

pytestmark = pytest.mark.threads

FAR = 10**9  # positions to count before that batch: hours


def create(server, **fields):
    answer = server.request("POST", "/streams", body=json.dumps(fields).encode(),
                            headers={"Content-Type": "application/json"})
    assert answer.status == 201, answer.text


def try_get(server, target):
    """The status, or None: the server was stopped."""
    try:
        return server.get(target).status
    except OSError:
        return None


def sparse(sampler):
    server = sampler("--store", "range:1000000000?labels=10", "--seed", 1)
    create(server, name="sparse", seed=1, design="bernoulli", rate=0.0001)
    return server


def test_a_count_without_an_end_gives_way(sampler):
    server = sparse(sampler)

    def count():
        answer = server.get(f"/batch?stream=sparse&size=100&index={FAR}")
        assert answer.status == 503 and "retry-after" in answer.headers
        return int(re.search(r"can only be counted: (\d+) ", answer.json["detail"])[1])

    first = count()
    wait_for(lambda: count() > first, "nothing was counted on")
    assert server.batch("size=3")["size"] == 3


def test_a_stop_ends_what_takes_long(sampler):
    server = sparse(sampler)
    statuses = []

    def ask(method, target, body=None):
        try:
            statuses.append(server.request(method, target, body=body).status)
        except OSError:
            statuses.append(None)

    waiting = [threading.Thread(target=ask, args=("GET", f"/batch?stream=sparse&index={FAR + i}")) for i in range(4)]
    waiting.append(threading.Thread(target=ask, args=("POST", "/streams", b'{"name":"late","split":"train"}')))
    for thread in waiting:
        thread.start()
    server.get("/batch?size=1")
    server.stop()
    for thread in waiting:
        thread.join()
    assert set(statuses) <= {400, 503, None}, statuses


@pytest.mark.heavy
def test_a_long_search_holds_up_nothing_but_searches(sampler):
    """Positions with replacement are looked for one by one; creations, far batches and labels do not wait for that."""
    server = sampler("--store", "range:1000000000000?labels=2000", "--design", "srs", "--replacement", "--seed", 1,
                     "--max-streams", 100)
    done = []
    searches = [threading.Thread(target=lambda i=i: done.append(try_get(server, f"/where?id={i}"))) for i in range(4)]
    for thread in searches:
        thread.start()
    create(server, name="meanwhile", rows="0:1000", replacement=False)
    create(server, name="sparse", rows="0:1000000000", seed=1, design="bernoulli", rate=0.5, replacement=False)
    wait_for(lambda: server.get("/batch?stream=sparse&size=10&index=5").status == 200, "its epochs were not counted")
    assert server.get("/labels").status == 200
    assert set(done) <= {503}, "they end long after, or run into their limit"
    server.stop()
    for thread in searches:
        thread.join()
    assert set(done) <= {503, None}, done


ENDLESS = ("--store", "range:1000000000000", "--design", "srs", "--replacement", "--seed", 1)  # hours a search


def test_a_search_ends_when_who_asked_is_gone(sampler):
    server = sampler(*ENDLESS)
    create(server, name="short", rows="0:1000")
    asking = [socket.create_connection((server.host, server.port)) for _ in range(4)]
    for number, connection in enumerate(asking):
        connection.sendall(f"GET /where?id={number} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    time.sleep(0.3)  # all threads search
    for connection in asking:
        connection.close()
    assert server.get("/where?stream=short&id=5").status == 200


def test_a_server_that_stops_at_once_waits_for_no_search(sampler, tmp_path):
    """Its state folder was moved away: no signal came."""
    server = sampler(*ENDLESS, "--state", tmp_path / "state")
    done = []
    searches = [threading.Thread(target=lambda i=i: done.append(try_get(server, f"/where?id={i}"))) for i in range(4)]
    for thread in searches:
        thread.start()
    (tmp_path / "state").rename(tmp_path / "moved")
    wait_for(lambda: try_get(server, "/batch?size=1") != 200, "draws go on")
    assert server.wait() == 1 and "stopping at once" in server.stderr
    for thread in searches:
        thread.join()
    assert set(done) <= {503, None}, done


@pytest.mark.heavy
def test_labels_that_fit_no_answer_are_refused_at_once(sampler):
    server = sampler("--store", "range:16777216?labels=16777216")
    for method in ("GET", "HEAD"):
        refused = server.request(method, "/labels")
        assert refused.status == 400 and "retry-after" not in refused.headers, "waiting does not help"
    assert "--max-answer-memory" in server.get("/labels").json["detail"]
    assert server.batch("size=3")["size"] == 3


def test_many_labels_do_not_hold_up_draws(sampler):
    server = sampler("--store", "range:200000?labels=20000")
    server.batch("size=1000")
    answer = server.get("/labels")
    assert answer.status == 200 and len(answer.json["labels"]) == 20000
    assert sum(label["drawn"] for label in answer.json["labels"]) == 1000
    assert server.request("HEAD", "/labels").status == 200


def test_the_last_seq_ends_nothing(sampler):
    """A worker may skip to the last seq there is; what it used before stays used."""
    server = sampler("--store", "range:1000")
    last = 2**63 - 2
    for seq in (0, 1, last):
        assert server.get(f"/batch?size=5&worker=a&seq={seq}").status == 200
        ack = server.request("POST", "/ack", body=json.dumps({"stream": "default", "worker": "a", "seqs": [seq]}).encode())
        assert ack.status == 200, ack.text
    assert [server.get(f"/batch?size=5&worker=a&seq={seq}").status for seq in (0, 1, last)] == [409] * 3
    assert server.get(f"/batch?size=5&worker=a&seq={last + 1}").status == 400
