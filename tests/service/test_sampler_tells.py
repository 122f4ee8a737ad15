# SPDX-License-Identifier: MIT
"""What the sampler says of itself and of what it refuses: true, and enough to go on."""

import json

import pytest

from conftest import run_fails


def post(server, target, body=None):
    return server.request("POST", target, body=None if body is None else json.dumps(body))


def refused(answer, status, *says):
    assert answer.status == status, answer.text
    detail = answer.json["detail"]
    for text in says:
        assert text in detail, detail
    return detail


def create(server, **fields):
    answer = post(server, "/streams", fields)
    assert answer.status == 201, answer.text
    return answer.json


# ---- HEAD -----------------------------------------------------------------------------------------


def test_head_judges_acks_as_get_and_acks_nothing(sampler):
    server = sampler("--store", "range:30", "--epochs", "1", "--lease", "3000")
    for seq in range(3):
        server.batch(f"size=10&worker=w&seq={seq}")
    before = server.get("/streams/default").json
    for query, status in (("seq=3&ack=x", 400), ("seq=3&ack=-1", 400), ("seq=3&ack=", 400), ("seq=3&ack=9", 409),
                          ("seq=3&ack=0,9", 409), ("seq=0&ack=0", 409), ("seq=2&ack=0,1", 200), ("seq=3&ack=0,1", 503),
                          ("seq=3&ack=0,1,2", 204), ("seq=3", 503)):
        assert server.request("HEAD", f"/batch?size=10&worker=w&{query}").status == status, query
    assert server.get("/streams/default").json == before
    assert server.get("/batch?size=10&worker=w&seq=3&ack=0,1,2").status == 204


def test_head_of_a_late_ack(sampler):
    server = sampler("--store", "range:30", "--lease", "3000")
    server.batch("size=10&worker=late&seq=0")
    assert post(server, "/release", {"worker": "late"}).json["released"] == 1
    assert server.batch("size=10&worker=other&seq=0")["redelivered"]
    head, get = (server.request(method, "/batch?size=10&worker=late&seq=1&ack=0") for method in ("HEAD", "GET"))
    assert head.status == get.status == 409
    assert server.get("/streams/default").json["acked"] == 0


# ---- tokens, places, labels -----------------------------------------------------------------------


def test_all_rows_are_all_rows_in_a_token(sampler):
    server = sampler("--store", "range:100?labels=4", "--splits", "0.8,0.1,0.1")
    for more in ({}, {"split": "train"}):
        create(server, name="all", seed=5, **more)
        create(server, name="named", seed=5, rows="0:100", **more)
        create(server, name="some", seed=5, rows="0:99", **more)
        server.batch("stream=all&size=30")
        token = post(server, "/streams/all/checkpoint").json["token"]
        back = post(server, "/streams/named/restore", {"token": token})
        assert back.status == 200 and back.json["position"] == 30 and back.json["rows"] == "0:100"
        token = post(server, "/streams/named/checkpoint").json["token"]
        assert post(server, "/streams/all/restore", {"token": token}).status == 200
        refused(post(server, "/streams/some/restore", {"token": token}), 409, "another order")
        for name in ("all", "named", "some"):
            assert server.request("DELETE", f"/streams/{name}").status == 204


def test_where_with_replacement_tells_each_epoch(sampler):
    units = 20
    server = sampler("--store", f"range:{units}?labels=2", "--replacement", "--design", "srs", "--seed", "1")
    drawn = [server.batch(f"size={units}")["ids"] for _ in range(2)] + [server.batch("size=9")["ids"]]
    coming = [server.batch(f"size={units}&index={epoch}")["ids"] for epoch in range(4)]
    seen = set()
    for epoch in range(4):
        shown = drawn[epoch] if epoch < 3 else []
        for unit in range(units):
            place = server.get(f"/where?id={unit}&epoch={epoch}").json
            assert place["positions"] == [units * epoch + at for at, id in enumerate(shown) if id == unit]
            assert place["draws"] == coming[epoch].count(unit)
            over = epoch < 2
            assert place["state"] == ("done" if place["positions"] or over else "ahead")
            seen.add((over, bool(place["positions"])))
    assert len(seen) == 4, "an epoch that is over had each unit, or the one under way"


def test_the_last_minute_does_not_lag(sampler):
    server = sampler("--store", "range:1000?labels=4")
    for number in range(1, 20):
        server.batch("size=10")
        assert sum(label["last_minute"] for label in server.get("/labels").json["labels"]) == 10 * number


# ---- what is refused, and what would be right -----------------------------------------------------


def test_an_unknown_field_is_told_with_those_that_exist(sampler):
    server = sampler("--store", "range:100?labels=4")
    common = ("name", "frame", "design", "replacement", "seed", "epochs", "tail", "lease_s", "rows", "split", "position")
    refused(post(server, "/streams", {"name": "x", "epoch": 1}), 400, '"epoch"', *common)
    refused(post(server, "/streams", {"name": "x", "design": "pxk", "p": 2, "k": 2, "q": 1}), 400, '"q"', "p, k", *common)
    for target, fields in (("/ack", ("stream", "worker", "seqs")), ("/extend", ("stream", "worker", "seqs")),
                           ("/release", ("stream", "worker"))):
        refused(post(server, target, {"worker": "w", "seqs": [1], "odd": 1}), 400, *fields)
    refused(post(server, "/streams/default/seek", {"position": 1, "odd": 1}), 400, '"odd"', "position")
    refused(post(server, "/streams/default/restore", {"token": "x", "odd": 1}), 400, '"odd"', "token")
    refused(post(server, "/streams/default/pause", {"odd": 1}), 400, '"odd"', "none")


def test_a_paused_stream_says_how_it_goes_on(sampler):
    server = sampler("--store", "range:100")
    create(server, name="eval.1")
    assert post(server, "/streams/eval.1/pause").status == 200
    detail = refused(server.get("/batch?stream=eval.1"), 409, '"eval.1" is paused', "POST /streams/eval.1/resume")
    assert "NAME" not in detail
    assert post(server, "/streams/eval.1/resume").status == 200
    assert server.batch("stream=eval.1&size=5")["size"] == 5


def test_a_design_without_replacement_on_a_server_with_it(sampler):
    server = sampler("--store", "range:100?labels=4", "--replacement")
    refused(post(server, "/streams", {"name": "x", "design": "sequential"}), 400, "sequential", "--replacement",
            'send "replacement":false')
    assert create(server, name="x", design="sequential", replacement=False)["replacement"] is False
    refused(post(server, "/streams", {"name": "y", "design": "sequential", "replacement": True}), 400, "designs that have it")


@pytest.mark.parametrize("value, says", [
    ("host:99999", ('"host:99999"', 'port is "99999"', "0", "65535")), ("127.0.0.1:", ('port is ""', "65535")),
    ("[::1]:70000", ('port is "70000"', "65535")), ("127.0.0.1:http", ('port is "http"', "65535")),
    ("127.0.0.1", ("HOST:PORT",)), ("::1", ("HOST:PORT",)), (":8080", ("HOST:PORT",))])
def test_where_to_listen(value, says):
    run_fails("sampler", "serve", "--store", "range:10", "--listen", value, says=["--listen", *says])
