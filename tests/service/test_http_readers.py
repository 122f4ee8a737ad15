# SPDX-License-Identifier: MIT
"""Who reads by index: GET /streams/NAME/readers, and what a name beside index= changes nothing of."""

import http.client
import threading
import time

import pytest

from conftest import PATIENCE_S

STORE = ("--store", "range:1000000?labels=10", "--seed", 1)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from conftest import Sampler
    one = Sampler(*STORE, "--max-connections", 100, folder=tmp_path_factory.mktemp("readers"))
    yield one
    one.finish()


@pytest.fixture
def stream(server, request):
    """A stream of the test's own."""
    name = request.node.originalname[:64]
    answer = server.request("POST", "/streams", body=f'{{"name":"{name}","seed":1}}', headers={"Content-Type": "application/json"})
    assert answer.status == 201, answer.text
    yield name
    server.request("DELETE", f"/streams/{name}")


def readers(server, stream):
    answer = server.get(f"/streams/{stream}/readers")
    assert answer.status == 200, answer.text
    return answer.json["readers"]


def read(server, stream, targets):
    """GET /batch with each query, on one connection."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
    for query in targets:
        connection.request("GET", f"/batch?stream={stream}&{query}")
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
    connection.close()


def test_a_reader_is_listed_with_what_it_read(server, stream):
    assert readers(server, stream) == []
    began = time.monotonic()
    read(server, stream, ["size=50&index=4&worker=w0", "size=50&index=9&worker=w0", "size=30&index=2&worker=w1&format=binary"])
    listed = readers(server, stream)
    took_ms = 1000 * (time.monotonic() - began)
    assert [set(one) for one in listed] == 2 * [{"worker", "batches", "ids", "ids_per_s", "newest", "seen_ms"}]
    assert [one["worker"] for one in listed] == ["w1", "w0"], "the last seen first"
    assert (listed[1]["batches"], listed[1]["ids"], listed[1]["newest"]) == (2, 100, 9)
    assert (listed[0]["batches"], listed[0]["ids"], listed[0]["newest"]) == (1, 30, 2)
    assert all(0 <= one["seen_ms"] <= took_ms for one in listed)
    assert all(0 < one["ids_per_s"] <= one["ids"] for one in listed), "a rate is of a second at least"
    time.sleep(0.3)
    assert all(one["seen_ms"] >= 300 for one in readers(server, stream))


def test_the_rate_is_what_was_read_in_the_last_seconds(server, stream):
    """A bound on both sides from the clock around it, whatever the machine's pace."""
    began = time.monotonic()
    for index in range(30):
        read(server, stream, [f"size=1000&index={index}&worker=w"])
        time.sleep(0.05)
    [one] = readers(server, stream)
    took = time.monotonic() - began
    assert one["ids"] == 30000
    if took < 7:  # nothing has left the window
        assert 30000 / took - 1 <= one["ids_per_s"] <= 30000 / 1.4, "29 pauses of 50 ms were in it"


def test_a_name_changes_nothing_of_the_answer(server, stream):
    for form in ("json", "csv", "binary"):
        plain, named = (server.get(f"/batch?stream={stream}&size=20&index=3&format={form}{name}") for name in ("", "&worker=w"))
        assert plain.status == named.status == 200 and plain.body == named.body
        differing = {key for key in {*plain.headers, *named.headers} if plain.headers.get(key) != named.headers.get(key)}
        assert differing <= {"date"}
    shown = server.get(f"/streams/{stream}").json
    assert (shown["position"], shown["leased"], shown["acked"]) == (0, 0, 0)
    assert f'tombola_sampler_workers{{stream="{stream}"}} 0\n' in server.get("/metrics").text
    assert f'tombola_sampler_readers{{stream="{stream}"}} 1\n' in server.get("/metrics").text


@pytest.mark.parametrize("query, text", [
    ("index=0&worker=w&seq=0", "seq"), ("index=0&worker=w&ack=0", "ack"), ("index=0&worker=w&seq=0&ack=0", "seq"),
    ("index=0&worker=", "worker"), ("index=0&worker=a%20b", "worker"), (f"index=0&worker={'a' * 129}", "worker"),
    ("index=0&worker=w&worker=v", "worker"), ("index=0&worker=%ff", "worker"), ("index=0&worker=%zz", "worker"),
    ("index=%zz&worker=w", "index"), ("worker=w", "belong together"),
])
def test_what_names_no_reader_is_refused_and_not_listed(server, stream, query, text):
    answer = server.get(f"/batch?stream={stream}&{query}")
    assert answer.status == 400 and text in answer.json["detail"], answer.text
    assert readers(server, stream) == []


def test_what_carries_no_batch_is_not_counted(server, stream):
    server.request("HEAD", f"/batch?stream={stream}&index=0&worker=head")
    server.get(f"/batch?stream={stream}&index=0&worker=foreign", headers={"Sec-Fetch-Site": "cross-site"})
    ended = server.request("POST", "/streams", body='{"name":"short","epochs":1}', headers={"Content-Type": "application/json"})
    assert ended.status == 201
    assert server.get("/batch?stream=short&size=1000&index=1000&worker=late").status == 204
    assert readers(server, stream) == [] and readers(server, "short") == []


def test_every_character_of_a_name(server, stream):
    names = [ALPHABET, *ALPHABET, "a" * 128]
    read(server, stream, [f"size=1&index=0&worker={name}" for name in names])
    assert {one["worker"] for one in readers(server, stream)} == set(names)


def test_the_last_ten_thousand_are_listed(server, stream):
    read(server, stream, [f"size=1&index={number}&worker=worker-{number}" for number in range(10001)])
    listed = readers(server, stream)
    assert [one["newest"] for one in listed] == list(range(10000, 0, -1))
    assert f'tombola_sampler_readers{{stream="{stream}"}} 10000\n' in server.get("/metrics").text


def test_many_connections_count_exactly(server, stream):
    def work(number):
        read(server, stream, [f"size=10&index={index}&worker=w{index % 5}" for index in range(number, 1000, 20)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert {one["worker"]: (one["batches"], one["ids"]) for one in readers(server, stream)} == {f"w{k}": (200, 2000) for k in range(5)}


def test_an_order_that_skips_positions_knows_its_readers(server):
    """Its batches are found in a thread pool."""
    made = server.request("POST", "/streams", body='{"name":"some","design":"bernoulli","rate":0.5}', headers={"Content-Type": "application/json"})
    assert made.status == 201, made.text
    read(server, "some", ["size=10&index=7&worker=w"])
    [one] = readers(server, "some")
    assert (one["worker"], one["ids"], one["newest"]) == ("w", 10, 7)


def test_readers_go_with_their_stream(server, stream):
    read(server, stream, ["size=1&index=0&worker=w"])
    assert server.request("DELETE", f"/streams/{stream}").status == 204
    assert server.get(f"/streams/{stream}/readers").status == 404
    assert server.request("POST", "/streams", body=f'{{"name":"{stream}"}}', headers={"Content-Type": "application/json"}).status == 201
    assert readers(server, stream) == []


def test_the_path_reads_only(server, stream):
    assert server.get(f"/streams/{stream}/readers?x=1").status == 400
    assert server.get("/streams/none/readers").status == 404
    answer = server.request("POST", f"/streams/{stream}/readers")
    assert answer.status == 405 and "GET" in answer.headers["allow"]
    head = server.request("HEAD", f"/streams/{stream}/readers")
    assert head.status == 200 and head.body == b""
