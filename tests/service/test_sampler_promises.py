# SPDX-License-Identifier: MIT
"""Promises 1 and 2 of the design, kept under many clients at once: one order, every unit once."""

import http.client
import json
import threading

import pytest

from conftest import PATIENCE_S, SANITIZED

UNITS = 20011  # no batch size divides it


def pull_all(server, queries):
    """One thread with a connection of its own for each query; every batch that was answered until 204."""
    batches, problems = [], []

    def pull(query):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
        mine = []
        try:
            while True:
                connection.request("GET", f"/batch?{query}")
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    break
                mine.append(json.loads(body))
            if answer.status != 204:
                problems.append(f"{answer.status} {body[:300]}")
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(repr(problem))
        finally:
            connection.close()
            batches.extend(mine)

    threads = [threading.Thread(target=pull, args=(query,)) for query in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[:3]
    return batches


def order_of(batches):
    """{position: (id, label)} of batches; a position that comes twice fails."""
    order = {}
    for batch in batches:
        assert batch["size"] == len(batch["ids"]) == len(batch["labels"])
        for offset, unit in enumerate(zip(batch["ids"], batch["labels"])):
            position = batch["first"] + offset
            assert position not in order, f"position {position} was given twice"
            order[position] = unit
    return order


def check_epochs(order, units, epochs, may_miss=0):
    """Every unit once an epoch; with tail=drop up to `may_miss` at the end of each may be missing."""
    for epoch in range(epochs):
        ids = [order[p][0] for p in range(epoch * units, (epoch + 1) * units) if p in order]
        assert len(ids) == len(set(ids)), f"a unit came twice in epoch {epoch}"
        assert units - may_miss <= len(ids) <= units
        if may_miss == 0:
            assert sorted(ids) == list(range(units))
    assert all(0 <= position < units * epochs for position in order)


@pytest.mark.threads
@pytest.mark.parametrize("durability", [None, "fsync", "process"])
@pytest.mark.parametrize("tail", ["keep", "drop", "span"])
def test_128_clients_get_every_unit_exactly_once_an_epoch(sampler, tmp_path, tail, durability):
    state = ("--state", tmp_path / "state", "--durability", durability) if durability else ()
    server = sampler("--store", f"range:{UNITS}?labels=7", "--epochs", 3, "--tail", tail, "--seed", 11, *state)
    sizes = (1, 7, 50, 64, 100, 333, 1000, 4096)
    batches = pull_all(server, [f"size={sizes[client % len(sizes)]}" for client in range(128)])
    order = order_of(batches)
    check_epochs(order, UNITS, 3, may_miss=max(sizes) - 1 if tail == "drop" else 0)
    assert all(label == id % 7 for id, label in order.values())
    assert all(batch["epoch"] == batch["first"] // UNITS for batch in batches)
    stream = server.get("/streams/default").json
    assert (stream["position"], stream["state"], stream["acked"]) == (3 * UNITS, "ended", len(batches))


@pytest.mark.threads
@pytest.mark.parametrize("design, replacement", [
    ("proportional", ()), ("srs", ()), ("sequential", ()), ("proportional", ("--replacement",)), ("srs", ("--replacement",))])
def test_the_order_is_the_same_for_any_workers_and_sizes(sampler, design, replacement):
    options = ("--store", "range:5003?labels=4", "--design", design, "--seed", 42, "--epochs", 2, *replacement)
    orders = []
    for workers, sizes in ((1, (100,)), (7, (1, 2, 3, 50, 64)), (64, (17, 4999, 5))):
        server = sampler(*options)
        orders.append(order_of(pull_all(server, [f"size={sizes[w % len(sizes)]}" for w in range(workers)])))
    assert orders[0] == orders[1] == orders[2]
    other = sampler("--store", "range:5003?labels=4", "--design", design, "--seed", 43, "--epochs", 2, *replacement)
    if design != "sequential":
        assert order_of(pull_all(other, ["size=5003"])) != orders[0]


@pytest.mark.parametrize("tail", ["keep", "drop", "span"])
def test_index_gives_what_draws_give(sampler, tail):
    options = ("--store", "range:1009?labels=3", "--seed", 9, "--epochs", 3, "--tail", tail)
    reader = sampler(*options)
    for size in (1, 10, 100, 1008, 1009, *((1010, 5000) if tail != "drop" else ())):
        drawer = sampler(*options)
        drawn = []
        while (answer := drawer.get(f"/batch?size={size}")).status == 200:
            drawn.append(answer.json)
        assert answer.status == 204
        step = 50 if size == 1 else 1
        for index in range(0, len(drawn), step):
            assert reader.batch(f"size={size}&index={index}") == drawn[index]
            assert drawer.batch(f"size={size}&index={index}") == drawn[index]
        for beyond in (len(drawn), len(drawn) + 1, 10**12, 2**63 - 1):
            answer = reader.get(f"/batch?size={size}&index={beyond}")
            assert (answer.status, answer.body) == (204, b"")
    assert reader.get("/streams/default").json["position"] == 0


def test_drop_refuses_batches_that_can_never_be(sampler):
    server = sampler("--store", "range:50", "--tail", "drop")
    for query in ("", "size=51", "size=51&index=0"):
        answer = server.get(f"/batch?{query}")
        assert answer.status == 400 and "tail=drop" in answer.json["detail"]
    assert server.batch("size=50")["size"] == 50


def test_without_an_end_epochs_follow_each_other(sampler):
    server = sampler("--store", "range:100?labels=2", "--seed", 3)
    epochs = [server.batch("size=100") for _ in range(5)]
    assert [batch["epoch"] for batch in epochs] == list(range(5))
    assert all(sorted(batch["ids"]) == list(range(100)) for batch in epochs)
    assert len({tuple(batch["ids"]) for batch in epochs}) == 5
    assert server.batch(f"size=100&index={10**9}")["epoch"] == 10**9


def test_rows_are_a_frame_of_their_own(sampler):
    options = ("--store", "range:1000?labels=10", "--seed", 1, "--epochs", 1)
    part = sampler(*options, "--rows", "200:300")
    whole = sampler(*options)
    batch = part.batch("size=1000")
    assert sorted(batch["ids"]) == list(range(200, 300))
    of_part, of_whole = part.get("/streams/default").json, whole.get("/streams/default").json
    assert of_part["units"] == 100 and of_part["digest"] != of_whole["digest"]
    assert part.get("/frames").json == whole.get("/frames").json, "rows are the stream's, not the frame's"
    assert sampler(*options, "--rows", "0:1000").get("/streams/default").json["digest"] == of_whole["digest"]


@pytest.mark.heavy
def test_a_billion_units_start_at_once_in_little_memory(sampler):
    server = sampler("--store", "range:1000000000?labels=10", "--seed", 1)
    batch = server.batch("size=100")
    assert len(set(batch["ids"])) == 100
    assert all(label == id % 10 for id, label in zip(batch["ids"], batch["labels"]))
    assert server.batch("size=100&index=9999999")["first"] == 999999900
    assert server.get("/labels").status == 200
    if SANITIZED:
        return  # their shadow memory is private, too
    with open(f"/proc/{server.process.pid}/smaps_rollup", encoding="ascii") as rollup:
        private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    assert private < 64 * 1024, f"{private} kB of private memory"
