# SPDX-License-Identifier: MIT
"""What GET /labels and GET /where say of what was drawn: the truth after a seek, a restore, a tail, an end, a restart;
and an answer at once where labels can only be counted."""

import json
import time
from collections import Counter

import pytest

from conftest import TSAN

PATIENCE_S = 120


@pytest.fixture
def server(sampler):
    return sampler("--store", "range:1000?labels=10", "--seed", 1)


def post(server, path, body=None):
    answer = server.request("POST", path, body=json.dumps(body or {}).encode(), headers={"Content-Type": "application/json"})
    assert answer.status in (200, 201), answer.text
    return answer.json


def labels_of(server, stream="default"):
    answer = server.get(f"/labels?stream={stream}")
    assert answer.status == 200, answer.text
    return answer.json


def drawn_of(server, stream="default"):
    answer = labels_of(server, stream)
    assert answer["uncounted"] == 0
    return {label["label"]: label["drawn"] for label in answer["labels"] if label["drawn"]}


@pytest.mark.threads
def test_labels_that_must_be_counted_are_told_at_once(sampler):
    size = 100000 if TSAN else 1000000
    server = sampler("--store", f"range:{400 * size}?labels=10", "--seed", 1)
    post(server, "/streams", {"name": "plain", "design": "srs", "seed": 1})
    begin = labels_of(server, "plain")
    assert begin["uncounted"] == 0 and [label["drawn"] for label in begin["labels"]] == [0] * 10
    for _ in range(30):
        assert server.request("GET", f"/batch?stream=plain&size={size}&format=binary").status == 200
    answer = labels_of(server, "plain")
    left = [answer["uncounted"]]
    deadline = time.monotonic() + PATIENCE_S
    while answer["uncounted"] > 0 and time.monotonic() < deadline:
        assert all(label["drawn"] is None and label["units"] == 40 * size for label in answer["labels"])
        assert server.batch("size=3")["size"] == 3
        time.sleep(0.1)
        answer = labels_of(server, "plain")
        left.append(answer["uncounted"])
    assert left == sorted(left, reverse=True) and left[-1] == 0, left
    assert sum(label["drawn"] for label in answer["labels"]) == 30 * size


@pytest.mark.threads
def test_a_stop_while_labels_are_counted(sampler):
    server = sampler("--store", "range:1000000000?labels=10", "--design", "srs", "--seed", 1)
    for _ in range(20):
        assert server.request("GET", "/batch?size=1000000&format=binary").status == 200
    assert labels_of(server)["epoch"] == 0
    server.stop()


def test_an_ended_stream_tells_its_last_epoch(sampler):
    server = sampler("--store", "range:1000?labels=4", "--epochs", 2)
    server.batch("size=1000")
    server.batch("size=1000")
    assert server.request("GET", "/batch").status == 204
    answer = labels_of(server)
    assert answer["epoch"] == 1 and drawn_of(server) == {0: 250, 1: 250, 2: 250, 3: 250}
    deadline = time.monotonic() + PATIENCE_S
    seen = None
    while not seen and time.monotonic() < deadline:
        seen = server.get("/live.json").json["chosen"]["labels"]
        time.sleep(0.05)
    assert (seen["epoch"], seen["drawn"], [row[2] for row in seen["rows"]]) == (1, 1000, [250] * 4)


@pytest.mark.parametrize("design", ["proportional", "srs"])
def test_a_seek_draws_nothing(sampler, tmp_path, design):
    state = ("--state", tmp_path / "state")
    options = ("--store", "range:1000?labels=4", "--design", design, "--seed", 1, *state)
    server = sampler(*options)
    order = server.get("/batch?size=1000&index=0").json["ids"]
    post(server, "/streams/default/seek", {"position": 500})
    assert drawn_of(server) == {}
    place = server.get(f"/where?id={order[499]}").json
    assert (place["state"], place["passed"], place["position"]) == ("ahead", True, 499)
    place = server.get(f"/where?id={order[500]}").json
    assert place["state"] == "ahead" and "passed" not in place
    batch = server.batch("size=100")
    leased = server.batch("size=50&worker=w&seq=0")
    assert drawn_of(server) == Counter(batch["labels"] + leased["labels"])
    post(server, "/streams/default/seek", {"position": 900})  # what is leased is withdrawn
    assert drawn_of(server) == Counter(batch["labels"])
    server.stop()
    server = sampler(*options)
    assert drawn_of(server) == Counter(batch["labels"])
    assert server.get(f"/where?id={batch['ids'][0]}").json["state"] == "done"
    assert server.get(f"/where?id={leased['ids'][0]}").json["passed"] is True
    post(server, "/streams/default/seek", {"position": 620})
    assert drawn_of(server) == Counter(batch["labels"])
    place = server.get(f"/where?id={leased['ids'][30]}").json
    assert place["state"] == "ahead" and "passed" not in place


def test_a_stream_created_at_a_position(server):
    post(server, "/streams", {"name": "late", "position": 300, "seed": 1})
    assert drawn_of(server, "late") == {}
    batch = server.batch("stream=late&size=10")
    assert drawn_of(server, "late") == Counter(batch["labels"])


def test_what_a_restore_leaves_to_be_drawn(server):
    first = server.batch("size=20")
    leased = server.batch("size=30&worker=w&seq=0")
    last = server.batch("size=10")
    token = post(server, "/streams/default/checkpoint")["token"]
    assert drawn_of(server) == Counter(first["labels"] + leased["labels"] + last["labels"])
    post(server, "/streams/default/restore", {"token": token})
    assert drawn_of(server) == Counter(first["labels"] + last["labels"])
    again = server.batch("size=30")
    assert again["ids"] == leased["ids"]
    assert drawn_of(server) == Counter(first["labels"] + leased["labels"] + last["labels"])


def test_what_a_tail_drops(server):
    post(server, "/streams", {"name": "dropped", "tail": "drop", "epochs": 1, "seed": 1})
    order = server.get("/batch?stream=dropped&size=900&index=0").json
    server.batch("stream=dropped&size=900")
    assert server.request("GET", "/batch?stream=dropped&size=300").status == 204
    assert drawn_of(server, "dropped") == Counter(order["labels"])
    absent = next(id for id in range(1000) if id not in set(order["ids"]))
    place = server.get(f"/where?stream=dropped&id={absent}").json
    assert (place["state"], place["passed"]) == ("ahead", True)


@pytest.mark.parametrize("fields", [
    {"design": "quota", "shares": {"0": 0.5, "1": 0.5}}, {"design": "neyman", "deviations": {"0": 1, "1": 2}},
    {"design": "quota", "shares": {"0": 0.5, "1": 0.5}, "replacement": True}])
def test_a_unit_that_never_comes(sampler, fields):
    server = sampler("--store", "range:300?labels=3")
    if fields["design"] == "neyman":
        fields = {**fields, "deviations": {**fields["deviations"], "2": 0}}
    elif "shares" in fields:
        fields = {**fields, "shares": {**fields["shares"], "2": 0}}
    post(server, "/streams", {"name": "some", "seed": 1, **fields})
    assert server.get("/where?stream=some&id=0").status == 200
    absent = server.get("/where?stream=some&id=2")
    assert absent.status == 404 and "not among those" in absent.json["detail"]
