# SPDX-License-Identifier: MIT
"""Streams over HTTP: made, shown, changed, deleted; weights, places of units, frames."""

import csv
import io
import math
import re

import pytest

from conftest import wait_for

STORE = ("--store", "range:1000?labels=10", "--seed", 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from conftest import Sampler
    one = Sampler(*STORE, "--store", "other=range:50", "--splits", "0.8,0.1,0.1", "--max-streams", 400,
                  folder=tmp_path_factory.mktemp("streams"))
    yield one
    one.finish()


def post(server, target, body=None):
    import json
    return server.request("POST", target, body=json.dumps(body).encode() if body is not None else None,
                          headers={"Content-Type": "application/json"} if body is not None else {})


def create(server, **fields):
    answer = post(server, "/streams", fields)
    assert answer.status == 201, answer.text
    assert answer.headers["location"] == f"/streams/{fields['name']}"
    assert server.get(answer.headers["location"]).json == answer.json
    return answer.json


def test_a_stream_from_its_name_alone(server):
    made = create(server, name="plain")
    default = server.get("/streams/default").json
    for field in ("frame", "digest", "design", "replacement", "tail", "units", "epochs"):
        assert made[field] == default[field], field
    assert 0 <= made["seed"] < 2**63 and made["generation"] == 1 and made["state"] == "running"
    assert post(server, "/streams", {"name": "plain"}).status == 409
    assert made["name"] in [one["name"] for one in server.get("/streams").json["streams"]]
    assert server.request("DELETE", "/streams/plain").status == 204
    assert server.get("/streams/plain").status == 404 and server.get("/batch?stream=plain").status == 404
    assert create(server, name="plain")["generation"] == 2


def test_order_names_all_that_decides_which_unit_comes_where(server):
    """Streams of equal order answer the same; whatever differs in it, the design's own fields too, has another name."""
    fields = {"design": "quota", "seed": 3, "shares": {"0": 1, "1": 2}}
    alike = [{}, {"epochs": 2}, {"tail": "drop"}, {"lease_s": 5}]
    others = [{"seed": 4}, {"replacement": True}, {"rows": "0:990"}, {"shares": {"0": 1, "1": 3}}, {"shares": {"0": 2, "1": 1}}]
    same = [create(server, name=f"same{number}", **{**fields, **changes}) for number, changes in enumerate(alike)]
    assert len({stream["order"] for stream in same}) == 1
    first, *rest = [server.batch(f"stream={stream['name']}&index=3&size=40")["ids"] for stream in same]
    assert all(ids == first for ids in rest)
    names = [create(server, name=f"other{number}", **{**fields, **changes})["order"] for number, changes in enumerate(others)]
    assert len({same[0]["order"], *names}) == 1 + len(others)
    assert "balance_error" not in create(server, name="by-chance", design="srs")


def test_the_balance_is_a_bound(sampler, tmp_path):
    """Where the first unit of an epoch is one of two in 300, its label is 1 - 2/300 ahead: the figure is rounded, but not below."""
    (tmp_path / "rare.csv").write_text("id,label\n" + "".join(f"{unit},{int(unit < 2)}\n" for unit in range(300)))
    server = sampler("--store", f"csv:{tmp_path}/rare.csv?id=id")
    assert 298 / 300 <= server.get("/streams/default").json["balance_error"] < 298 / 300 + 2e-6


def test_everything_that_a_stream_can_be_told(server):
    made = create(server, name="told", frame="default", design="srs", replacement=False, seed=2**63 - 1, epochs=3, tail="drop",
                  lease_s=1.5, rows="100:600", position=200)
    assert made["seed"] == 2**63 - 1 and made["units"] == 500 and made["epochs"] == 3 and made["tail"] == "drop"
    assert made["position"] == 200 and made["rows"] == "100:600" and made["lease_s"] == 1.5
    batch = server.batch("stream=told&size=300&worker=w&seq=0")
    assert batch["first"] == 200 and batch["expires_ms"] <= 1500
    assert all(100 <= id < 600 for id in batch["ids"])
    assert create(server, name="there", frame="other")["units"] == 50
    sides = [create(server, name=f"side-{side}", split=side, epochs=1) for side in ("train", "validation", "test")]
    assert sum(side["units"] for side in sides) == 1000 and sides[0]["split"] == "train"


@pytest.mark.parametrize("fields, status, text", [
    ({}, 400, '"name"'), ({"name": ""}, 400, '"name"'), ({"name": "a/b"}, 400, '"name"'), ({"name": "a" * 65}, 400, '"name"'),
    ({"name": 5}, 400, '"name" is a number'), ({"name": "x", "frame": "none"}, 404, "none"),
    ({"name": "x", "design": "best"}, 400, "best"), ({"name": "x", "design": 1}, 400, '"design"'),
    ({"name": "x", "seed": -1}, 400, '"seed" is -1'), ({"name": "x", "seed": 2**63}, 400, "9223372036854775808"),
    ({"name": "x", "seed": 1.5}, 400, "1.5"), ({"name": "x", "epochs": -1}, 400, '"epochs"'),
    ({"name": "x", "tail": "cut"}, 400, "cut"), ({"name": "x", "lease_s": 0}, 400, '"lease_s"'),
    ({"name": "x", "lease_s": "5"}, 400, '"lease_s" is a text'), ({"name": "x", "rows": "5:5"}, 400, '"rows"'),
    ({"name": "x", "rows": "9223372036854775807:5"}, 400, '"rows" is'),
    ({"name": "x", "rows": "0:1001"}, 400, "1001"), ({"name": "x", "split": "dev"}, 400, "dev"),
    ({"name": "x", "replacement": 1}, 400, '"replacement"'), ({"name": "x", "position": -1}, 400, '"position"'),
    ({"name": "x", "epochs": 1, "position": 1001}, 400, "1000"), ({"name": "x", "colour": "red"}, 400, "colour"),
    ({"name": "x", "design": "pxk"}, 400, ""), ({"name": "x", "design": "pxk", "p": 11, "k": 1}, 400, "11"),
    ({"name": "x", "design": "srs", "p": 1}, 400, "p"), ({"name": "x", "design": "bernoulli", "rate": 2}, 400, "rate"),
    ({"name": "x", "design": "systematic", "size": 2000}, 400, "2000"), ({"name": "default"}, 409, "default")])
def test_bad_streams_are_refused(server, fields, status, text):
    answer = post(server, "/streams", fields)
    assert answer.status == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert text in answer.json["detail"], answer.json["detail"]
    assert server.get("/streams/x").status == 404


def test_pause_seek_and_what_they_refuse(server):
    create(server, name="moved", epochs=2)
    assert post(server, "/streams/moved/pause").json["state"] == "paused"
    assert post(server, "/streams/moved/pause", {}).status == 200
    assert server.get("/batch?stream=moved").status == 409
    assert server.get("/batch?stream=moved&index=0").status == 200
    assert post(server, "/streams/moved/resume").json["state"] == "running"
    leased = server.batch("stream=moved&size=10&worker=w&seq=0")
    assert post(server, "/streams/moved/seek", {"position": 1990}).json["position"] == 1990
    assert post(server, "/ack", {"stream": "moved", "worker": "w", "seqs": [0]}).status == 409
    assert server.batch("stream=moved&size=100")["size"] == 10
    assert server.get("/batch?stream=moved").status == 204
    assert server.get("/streams/moved").json["state"] == "ended"
    for body in ({"position": 2001}, {"position": -1}, {"position": "5"}, {}, {"position": 1, "x": 1}):
        assert post(server, "/streams/moved/seek", body).status == 400, body
    assert post(server, "/streams/moved/pause", {"x": 1}).status == 400
    assert post(server, "/streams/none/pause").status == 404
    assert leased["attempt"] == 1


def test_checkpoint_and_restore(server):
    create(server, name="saved", seed=7, epochs=1)
    done = server.batch("stream=saved&size=100")["ids"]
    server.batch("stream=saved&size=100&worker=w&seq=0")
    token = post(server, "/streams/saved/checkpoint").json["token"]
    server.batch("stream=saved&size=300")
    assert post(server, "/streams/saved/restore", {"token": token}).status == 200
    while True:
        answer = server.get("/batch?stream=saved&size=64")
        if answer.status == 204:
            break
        done += answer.json["ids"]
    assert sorted(done) == list(range(1000))
    create(server, name="else", seed=8)
    assert "seed" in post(server, "/streams/else/restore", {"token": token}).json["detail"]
    assert post(server, "/streams/else/restore", {"token": token}).status == 409
    for bad in ("", "x", token[:-3], token[:-4] + "AAAA", token + "A"):
        assert post(server, "/streams/saved/restore", {"token": bad}).status == 400, bad


@pytest.mark.parametrize("fields", [
    {"design": "srs"}, {"design": "sequential"}, {"design": "proportional"}, {"design": "equal"},
    {"design": "quota", "shares": {"0": 0.5, "1": 0.25, "2": 0.25}}, {"design": "pxk", "p": 3, "k": 4},
    {"design": "systematic", "size": 77}, {"design": "bernoulli", "rate": 0.3}, {"design": "srs", "replacement": True}])
def test_weights_estimate_the_number_of_units(server, fields):
    name = "weighed-" + fields["design"] + str(fields.get("replacement", ""))
    stream = create(server, name=name, epochs=1, tail="keep", seed=3, **fields)
    size = "" if fields["design"] == "pxk" else "&size=90"
    total, position, shown = 0, 0, None
    while True:
        answer = server.get(f"/batch?stream={name}&weights=1{size}&sort=1")
        if answer.status == 204:
            break
        batch = answer.json
        assert batch["ids"] == sorted(batch["ids"])
        assert len(batch["ids"]) == len(batch["probabilities"]) == len(batch["weights"]) == batch["size"]
        assert all(weight == 1 / probability for probability, weight in zip(batch["probabilities"], batch["weights"]))
        assert batch["first"] == position
        position += batch.get("span", batch["size"])
        assert ("span" in batch) == (fields["design"] == "bernoulli")
        total += math.fsum(batch["weights"])
        shown = shown or batch
    assert position == stream["epoch_draws"]
    if fields["design"] in ("bernoulli", "quota"):
        wanted = 1000 if fields["design"] == "bernoulli" else 300
        assert abs(total - wanted) < 300
    else:
        assert abs(total - 1000) < 1e-6
    again = server.get(f"/batch?stream={name}&weights=1{size}&sort=1&index=0&format=csv")
    rows = list(csv.reader(io.StringIO(again.text)))
    assert rows[0] == ["id", "label", "probabilities", "weights"]
    assert [(int(row[0]), float(row[2]), float(row[3])) for row in rows[1:]] == list(
        zip(shown["ids"], shown["probabilities"], shown["weights"]))
    if fields["design"] == "bernoulli":
        assert int(again.headers["tombola-span"]) == shown["span"]


def test_sizes_that_a_design_cannot_give(server):
    create(server, name="fixed", design="pxk", p=2, k=5)
    assert server.batch("stream=fixed")["size"] == 10
    assert server.batch("stream=fixed&size=10")["size"] == 10
    refused = server.get("/batch?stream=fixed&size=9")
    assert refused.status == 400 and "10" in refused.json["detail"]
    for path, body in (("/streams/fixed/seek", {"position": 15}),
                       ("/streams", {"name": "inside", "design": "pxk", "p": 2, "k": 5, "position": 15})):
        refused = post(server, path, body)
        assert refused.status == 400 and "position is 15" in refused.json["detail"] and "10" in refused.json["detail"]
    assert server.batch("stream=fixed")["first"] == 20, "what was refused moved it"
    assert post(server, "/streams/fixed/seek", {"position": 50}).json["position"] == 50


def test_where_a_unit_is(server):
    create(server, name="places", epochs=2, seed=5)
    leased = server.batch("stream=places&size=10&worker=w&seq=4")
    place = server.get(f"/where?stream=places&id={leased['ids'][3]}").json
    assert place == {"id": leased["ids"][3], "label": leased["labels"][3], "epoch": 0, "position": 3, "state": "leased",
                     "worker": "w", "seq": 4, "attempt": 1}
    post(server, "/ack", {"stream": "places", "worker": "w", "seqs": [4]})
    assert server.get(f"/where?stream=places&id={leased['ids'][3]}").json["state"] == "done"
    later = server.get(f"/where?stream=places&id={leased['ids'][3]}&epoch=1").json
    assert later["state"] == "ahead" and 1000 <= later["position"] < 2000 and "worker" not in later
    index, inside = divmod(later["position"], 10)
    assert server.batch(f"stream=places&size=10&index={index}")["ids"][inside] == leased["ids"][3]
    for query, status in (("id=1000", 404), ("id=-1", 400), ("id=x", 400), ("", 400), ("id=1&epoch=2", 404),
                          ("id=1&epoch=-1", 400), ("id=1&x=2", 400), ("id=1&id=1", 400), ("id=9223372036854775808", 400)):
        assert server.get(f"/where?stream=places&{query}").status == status, query
    create(server, name="repeats", design="srs", replacement=True, seed=1)
    drawn = server.batch("stream=repeats&size=500")["ids"]
    unit = max(drawn, key=drawn.count)
    place = server.get(f"/where?stream=repeats&id={unit}").json
    assert place["positions"] == [at for at, id in enumerate(drawn) if id == unit] and place["state"] == "done"


def test_a_far_batch_of_bernoulli(server):
    create(server, name="far", design="bernoulli", rate=0.01, seed=2)
    answers = []

    def ask():
        answers.append(server.get("/batch?stream=far&index=100000&size=7"))
        return answers[-1].status == 200

    wait_for(ask, "it is never found")  # what was counted within the limit of a request is remembered
    assert answers[-1].json["size"] <= 7 and {answer.status for answer in answers} <= {200, 503}


def test_frames_and_labels_of_streams(server):
    frames = {frame["name"]: frame for frame in server.get("/frames").json["frames"]}
    assert frames["default"]["units"] == 1000 and frames["other"] == {**frames["other"], "units": 50, "labels": 1}
    create(server, name="half", rows="0:500", design="equal")
    server.batch("stream=half&size=40")
    labels = server.get("/labels?stream=half").json["labels"]
    assert [label["units"] for label in labels] == [50] * 10 and [label["drawn"] for label in labels] == [4] * 10
    assert server.get("/labels?stream=none").status == 404


def test_as_many_streams_as_there_may_be(sampler):
    server = sampler(*STORE, "--max-streams", 3)
    assert post(server, "/streams", {"name": "a"}).status == 201
    assert post(server, "/streams", {"name": "b"}).status == 201
    full = post(server, "/streams", {"name": "c"})
    assert full.status == 409 and "--max-streams" in full.json["detail"]
    assert "retry-after" not in full.headers, "waiting does not help"
    assert server.request("DELETE", "/streams/a").status == 204
    assert post(server, "/streams", {"name": "c"}).status == 201


def test_a_rare_design_says_how_far_it_has_looked(sampler):
    server = sampler("--store", "range:1000000000?labels=10", "--design", "bernoulli", "--rate", "1e-8", "--seed", 1)
    looked = []
    for _ in range(2):
        answer = server.get("/batch?size=1000")
        assert answer.status == 503 and answer.headers["retry-after"] == "1"
        looked.append(int(re.search(r"(\d+) positions from 0 on were looked at for a batch of 1000;", answer.json["detail"])[1]))
    assert 8192 < looked[0] < looked[1] < 10**9


@pytest.mark.parametrize("tail", ["keep", "drop", "span"])
def test_a_paused_stream_that_has_ended_says_so(server, tail):
    name = f"ended-{tail}"
    create(server, name=name, epochs=1, tail=tail, rows="0:10")
    assert server.batch(f"stream={name}&size=8&worker=w&seq=0")["size"] == 8
    if tail != "drop":
        assert server.batch(f"stream={name}&size=8")["size"] == 2
    assert post(server, f"/streams/{name}/pause").json["state"] == "paused"
    for method in ("GET", "HEAD"):
        assert server.request(method, f"/batch?stream={name}&size=8").status == 409
    if tail == "drop":  # what is skipped is skipped by a draw
        assert post(server, f"/streams/{name}/resume").status == 200
    else:
        assert server.request("HEAD", f"/batch?stream={name}&size=8&worker=w&seq=1&ack=0").status == 204
    ended = server.get(f"/batch?stream={name}&size=8&worker=w&seq=1&ack=0")
    assert ended.status == 204, ended.text
    assert post(server, f"/streams/{name}/pause").json["state"] == "ended"
    for method in ("GET", "HEAD"):
        assert server.request(method, f"/batch?stream={name}&size=8").status == 204
    assert post(server, f"/streams/{name}/seek", {"position": 0}).json["state"] == "paused"
    assert server.get(f"/batch?stream={name}&size=8").status == 409


@pytest.mark.parametrize("fields, most", [
    ({"design": "bernoulli", "rate": 0.9}, 2), ({"design": "cluster", "groups": 1}, 3), ({"design": "cluster", "groups": 2}, 5),
])
def test_drop_takes_every_size_that_an_epoch_may_hold(sampler, tmp_path, fields, most):
    """Where some epochs hold fewer units than a batch, those are skipped; only a size above M can never be."""
    rows = {"bernoulli": "id,label,group\n0,a,x\n1,a,x\n"}.get(
        fields["design"], "id,label,group\n0,a,x\n1,a,y\n2,a,y\n3,a,z\n4,a,z\n5,a,z\n")
    path = tmp_path / "small.csv"
    path.write_text(rows)
    server = sampler("--store", f"csv:{path}?group=group")
    made = create(server, name="d", tail="drop", seed=1, **fields)
    assert made["epoch_draws"] == most
    for _ in range(20):
        assert server.batch(f"stream=d&size={most}")["size"] == most
    assert server.batch(f"stream=d&size={most}&index=3")["size"] == most
    refused = server.get(f"/batch?stream=d&size={most + 1}")
    assert refused.status == 400 and "tail=drop" in refused.json["detail"]


def test_only_leased_batches_are_left(sampler):
    server = sampler(*STORE, "--epochs", 1, "--lease", 60)
    batch = server.batch("size=1000&worker=w&seq=0")
    waiting = server.get("/batch?size=10")
    assert waiting.status == 503 and waiting.headers["retry-after"] == "1", "an ack or a release may come at any moment"
    assert server.get("/batch?size=10&worker=w&seq=0").status == 409
    assert post(server, "/release", {"worker": "w"}).json == {"released": 1}
    again = server.batch("size=10&worker=v&seq=0")
    assert again["ids"] == batch["ids"] and again["attempt"] == 2 and again["redelivered"] is True
    assert server.get("/batch?size=1000&worker=w&seq=0").status == 409
    assert server.get("/batch?size=10&worker=v&seq=1&ack=0").status == 204


def test_a_refused_pull_acks_nothing(sampler):
    """What heard an error is as if never asked; what has to wait has acked, so that nobody else gets it."""
    server = sampler("--store", "range:3000", "--epochs", 1, "--lease", 3000)
    for seq in range(300):
        server.batch(f"size=1&worker=w&seq={seq}")
    server.batch("size=1&worker=v&seq=0")
    assert post(server, "/ack", {"worker": "w", "seqs": [299]}).status == 200
    assert post(server, "/release", {"worker": "v"}).json == {"released": 1}
    server.batch("size=1&worker=v&seq=1")
    before = server.get("/streams/default").json
    many = ",".join(map(str, range(298)))
    for acks in ("0", "0,1", many):
        for query, kind in ((f"size=2&worker=w&seq=298&ack={acks}", "other-size"),
                            (f"size=1&worker=w&seq=299&ack={acks}", "pair-acked")):
            refused = server.get(f"/batch?{query}")
            assert refused.status == 409 and refused.json["type"] == f"/problems/{kind}", refused.text
            assert server.request("HEAD", f"/batch?{query}").status == 409
    lost = server.get("/batch?size=1&worker=v&seq=0&ack=1")
    assert lost.status == 409 and lost.json["type"] == "/problems/pair-lost"
    assert server.get("/streams/default").json == before
    assert post(server, "/streams/default/pause").status == 200
    assert server.get("/batch?size=1&worker=v&seq=2&ack=1").status == 409
    assert server.get("/streams/default").json["acked"] == before["acked"] + 1
    assert post(server, "/streams/default/resume").status == 200
    assert server.batch(f"size=5000&worker=w&seq=300&ack={many}")["first"] == 301
    assert server.get("/streams/default").json["acked"] == before["acked"] + 1 + 298


def journal_entries(server):
    return int(re.search(r"^tombola_sampler_journal_entries_total (\d+)$", server.get("/metrics").text, re.M)[1])


def test_acks_of_a_pull_are_taken_in_pieces(sampler, tmp_path):
    """Of more than 256: each piece is an entry of the journal. All of them or none, before the draw."""
    server = sampler(*STORE, "--state", tmp_path / "state", "--durability", "process")
    most = 1024
    for seq in range(most):
        server.batch(f"size=1&worker=w&seq={seq}")
    acks = ",".join(str(7 * i % most) for i in range(most))
    wrong = server.get(f"/batch?size=1&worker=w&seq={most}&ack={acks.replace('1016', '99999', 1)}")
    assert wrong.status == 409 and "99999" in wrong.json["detail"]
    assert server.get("/streams/default").json["acked"] == 0
    before = journal_entries(server)
    assert server.batch(f"size=1&worker=w&seq={most}&ack={acks}")["first"] == most
    assert journal_entries(server) == before + most // 256 + 1
    stream = server.get("/streams/default").json
    assert (stream["acked"], stream["leased"]) == (most, 1)
    assert server.batch(f"size=1&worker=w&seq={most + 1}&ack={acks}")["first"] == most + 1, "acked again"
