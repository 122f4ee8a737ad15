# SPDX-License-Identifier: MIT
"""What many do at the same moment, and a stream that moves from one server to another."""

import json
import threading
import time

import pytest

from conftest import wait_for
from sampler_cases import LONG_LEASE_S, Caller

pytestmark = pytest.mark.threads


def test_a_bernoulli_batch_always_has_its_span(sampler):
    for rate in (1, 0.5):
        server = sampler("--store", "range:50", "--design", "bernoulli", "--rate", rate, "--epochs", 1)
        assert server.batch("size=50")["span"] == 50
        assert server.get("/batch?size=50&index=0&format=csv").headers["tombola-span"] == "50"


def test_a_token_moves_a_stream_to_another_server(sampler):
    """Promise 7 with 1,000 leases: what is done there and what is drawn here is each unit once."""
    options = ("--store", "range:20000?labels=10", "--epochs", 1)
    here = sampler(*options, "--seed", 5, "--lease", LONG_LEASE_S)
    done, call = [], Caller(here)
    leased = [call("GET", f"/batch?size=7&worker=w{seq % 10}&seq={seq}").json for seq in range(2000)]
    for seq in range(0, 2000, 2):
        assert call("POST", "/ack", {"worker": f"w{seq % 10}", "seqs": [seq]}).status == 200
        done += leased[seq]["ids"]
    done += call("GET", "/batch?size=13").json["ids"]
    token = call("POST", "/streams/default/checkpoint").json["token"]
    call("GET", "/batch?size=100")  # after the checkpoint: not in it
    call.close()
    assert len(token) <= 64 << 10
    there = sampler(*options, "--seed", 5, "--tail", "span", "--lease", 5)
    other = sampler(*options, "--seed", 6)
    refused = other.request("POST", "/streams/default/restore", body=json.dumps({"token": token}))
    assert refused.status == 409 and "seed" in refused.json["detail"]
    answer = there.request("POST", "/streams/default/restore", body=json.dumps({"token": token}))
    assert answer.status == 200 and answer.json["position"] == 2000 * 7 + 13
    call = Caller(there)
    while (answer := call("GET", "/batch?size=50")).status == 200:
        done += answer.json["ids"]
    call.close()
    assert answer.status == 204
    assert sorted(done) == list(range(20000))


def together(count, work):
    """work(number) in `count` threads at once; their results."""
    results, problems, barrier = [None] * count, [], threading.Barrier(count)

    def run_one(number):
        try:
            barrier.wait()
            results[number] = work(number)
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(repr(problem))

    threads = [threading.Thread(target=run_one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[:3]
    return results


@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_one_pair_asked_by_many_at_once_is_one_batch(sampler, tmp_path, durability):
    """A client that gives up waiting and asks again races with its first request."""
    server = sampler("--store", "range:100000", "--seed", 1, "--lease", 600, "--state", tmp_path / "state", "--durability", durability)
    for seq in range(20):
        bodies = together(8, lambda _: server.batch(f"size=3&worker=w&seq={seq}"))  # pylint: disable=cell-var-from-loop
        assert len({body["first"] for body in bodies}) == 1 and {body["attempt"] for body in bodies} == {1}
    status = server.get("/streams/default").json
    assert (status["position"], status["leased"], status["redelivered"]) == (60, 20, 0)
    ack = json.dumps({"worker": "w", "seqs": list(range(20))})
    assert {answer.status for answer in together(8, lambda _: server.request("POST", "/ack", body=ack))} == {200}
    assert server.get("/streams/default").json["acked"] == 20


def test_one_expired_batch_goes_to_one_of_many(sampler, tmp_path):
    for lease_s in (1, 4, 16, 64):
        server = sampler("--store", "range:100000", "--seed", 1, "--lease", lease_s, "--state", tmp_path / f"state{lease_s}")
        first = server.batch("size=3&worker=w&seq=0")["first"]
        peek = ("HEAD", "/batch?size=2&format=csv")
        wait_for(lambda: server.request(*peek).headers["tombola-first"] == str(first), "no lease ran out")  # pylint: disable=cell-var-from-loop
        began = time.monotonic()
        bodies = together(12, lambda number: server.batch(f"size=2&worker=x{number}&seq=0"))  # pylint: disable=cell-var-from-loop
        if time.monotonic() < began + lease_s:
            break  # else the first of these ran out, too
    assert len({body["first"] for body in bodies}) == 12
    assert [(body["attempt"], body["size"]) for body in bodies if body["first"] == first] == [(2, 3)]
    assert server.request("POST", "/ack", body=json.dumps({"worker": "w", "seqs": [0]})).status == 409


def test_streams_made_and_deleted_while_others_draw_from_them(sampler, tmp_path):
    """A stream that is gone answers 404, never with another one's batches; its name starts over."""
    server = sampler("--store", "range:5000", "--seed", 1, "--state", tmp_path / "state")
    over, seen, statuses = threading.Event(), [], set()

    def pull(number):
        seq = 0
        while not over.is_set():
            answer = server.get(f"/batch?stream=s&size=4&worker=w{number}&seq={seq}" if number % 2 else "/batch?stream=s&size=4")
            statuses.add(answer.status)
            if answer.status == 200:
                seen.append(answer.json)
            seq += 1

    pullers = [threading.Thread(target=pull, args=(number,)) for number in range(6)]
    for thread in pullers:
        thread.start()
    generations = []
    for round_ in range(25):
        made = server.request("POST", "/streams", body=json.dumps({"name": "s", "seed": round_, "epochs": 0}))
        assert made.status == 201, made.text
        generations.append(made.json["generation"])
        time.sleep(0.01)
        wait_for(lambda: seen, "nobody draws")
        assert server.request("DELETE", "/streams/s").status == 204
    over.set()
    for thread in pullers:
        thread.join()
    assert statuses <= {200, 404, 503}, statuses
    assert generations == sorted(set(generations)) and seen
    server.kill()
    server = sampler("--store", "range:5000", "--seed", 1, "--state", tmp_path / "state")
    assert server.get("/streams/s").status == 404
    made = server.request("POST", "/streams", body=json.dumps({"name": "s"})).json
    assert made["generation"] > generations[-1] and made["position"] == 0
