# SPDX-License-Identifier: MIT
"""What a stream is when POST /streams says no more than its name, and options that take several values."""

import concurrent.futures
import contextlib
import json
import os
import sqlite3

import pytest

from conftest import TSAN, run, run_fails, wait_for

NAMED = ("--store", "train=range:100?labels=2", "--store", "test=range:50", "--seed", 1)


def create(server, **fields):
    answer = server.request("POST", "/streams", body=json.dumps(fields).encode())
    assert answer.status == 201, answer.text
    return answer.json


def test_only_the_name_is_needed(sampler):
    server = sampler(*NAMED)
    stream = create(server, name="n")
    assert stream["frame"] == server.get("/streams/default").json["frame"] == "train"
    assert stream["units"] == 100 and stream["design"] == "proportional"
    assert server.batch("stream=n&size=100")["size"] == 100


@pytest.mark.parametrize("stores, designs", [
    (("a=range:100?labels=2", "b=range:50"), {"a": "proportional", "b": "srs"}),
    (("b=range:50", "a=range:100?labels=2"), {"a": "proportional", "b": "srs"}),
    (("b=range:50", "default=range:100?labels=2"), {"default": "proportional", "b": "srs"})])
def test_the_design_follows_the_frame(sampler, stores, designs):
    server = sampler(*(word for store in stores for word in ("--store", store)), "--seed", 1)
    for frame, design in designs.items():
        assert create(server, name=f"on-{frame}", frame=frame)["design"] == design
    default = server.get("/streams/default").json
    assert default["design"] == designs[default["frame"]]


def test_a_design_that_was_asked_for_holds_everywhere(sampler):
    server = sampler(*NAMED, "--design", "sequential")
    assert [create(server, name=frame, frame=frame)["design"] for frame in ("train", "test")] == ["sequential"] * 2
    assert create(server, name="other", frame="test", design="srs")["design"] == "srs"


def test_fields_of_the_server_hold_where_the_design_has_them(sampler, tmp_path):
    (tmp_path / "rows.csv").write_text("label,weight\n" + "a,1\nb,2\n" * 20)
    store = f"csv:{tmp_path}/rows.csv?weight=weight"
    server = sampler("--store", store, "--seed", 1, "--design", "weighted", "--size", 7)
    assert create(server, name="n")["size"] == 7
    stream = create(server, name="with", replacement=True)
    assert (stream["design"], stream["replacement"], stream["epoch_draws"]) == ("weighted", True, 40) and "size" not in stream
    server = sampler("--store", store, "--seed", 1, "--design", "quota", "--shares", '{"a":0.25,"b":0.75}')
    assert create(server, name="with", replacement=True)["shares"] == {"a": 0.25, "b": 0.75}


@pytest.mark.parametrize("options, fields", [
    (("quota", "--shares", '{"a":0.25,"b":0.75}'), {"shares": {"a": 0.25, "b": 0.75}}),
    (("neyman", "--deviations", '{"a":1,"b":3}'), {"deviations": {"a": 1, "b": 3}}),
    (("neyman", "--column", "x"), {"column": "x"}),
    (("neyman", "--column", "weight"), {"column": "weight"}),
    (("pxk", "--p", "2", "--k", "3"), {"p": 2, "k": 3}),
    (("systematic", "--size", "7"), {"size": 7}),
    (("cluster", "--groups", "2"), {"groups": 2}),
    (("bernoulli", "--rate", "0.5"), {"rate": 0.5})])
def test_each_design_has_its_options(sampler, tmp_path, options, fields):
    rows = [f"{i},{'ab'[i % 2]},{i % 7},g{i % 5},{1 + i % 3}\n" for i in range(40)]
    (tmp_path / "rows.csv").write_text("id,label,x,group,weight\n" + "".join(rows))
    server = sampler("--store", f"csv:{tmp_path}/rows.csv?group=group&weight=weight", "--seed", 1, "--design", *options)
    stream = server.get("/streams/default").json
    assert stream["design"] == options[0]
    assert {name: stream.get(name) for name in fields} == fields


def texts_aside(folder):
    """Stores of the same rows, in which all but income, weight and the keys are texts; two are made by import."""
    rows = [(i * 3, "ab"[i % 2], f"city {i}", [0.5, 1000][i % 2] * (i % 7), 1 + i % 5) for i in range(40)]
    for name, part in (("whole", rows), ("part-0", rows[:9]), ("part-1", rows[9:])):
        lines = [",".join(map(str, row)) for row in part]
        (folder / f"{name}.csv").write_text("\n".join(["key,kind,city,income,weight", *lines, ""]))
    with contextlib.closing(sqlite3.connect(folder / "whole.db")) as database, database:
        database.execute("CREATE TABLE t (key INTEGER PRIMARY KEY, kind TEXT, city TEXT, income REAL, weight REAL)")
        database.executemany("INSERT INTO t VALUES (?,?,?,?,?)", rows)
    run("loader", "import", f"csv:{folder}/whole.csv?id=key&label=kind&weight=weight&features=income", f"sqlite:{folder}/ours.db")
    run("loader", "import", f"sqlite:{folder}/ours.db", f"rows:{folder}/ours.rows")
    own = "?id=key&label=kind&weight=weight"
    return [f"csv:{folder}/whole.csv{own}", f"csv:{folder}/part-*.csv{own}", f"sqlite:{folder}/whole.db{own}",
            f"sqlite:{folder}/ours.db", f"rows:{folder}/ours.rows"]


@pytest.mark.parametrize("column", ["income", "weight"])
def test_the_column_is_read_alone(sampler, tmp_path, column):
    """Texts beside it, or beside the weight, do not matter; what the URI says of the keys holds."""
    found = []
    for store in texts_aside(tmp_path):
        server = sampler("--store", store, "--seed", 1, "--design", "neyman", "--column", column)
        found.append(server.get("/streams/default").json["deviations"])
    assert sorted(found[0]) == ["a", "b"] and min(found[0].values()) > 0
    assert found == found[:1] * len(found)


@pytest.mark.parametrize("column, says", [("city", "city"), ("towns", "neither a feature nor the weight")])
def test_a_column_that_cannot_be_measured(tmp_path, column, says):
    for store in texts_aside(tmp_path)[:3]:
        run_fails("sampler", "serve", "--listen", "127.0.0.1:0", "--store", store, "--design", "neyman", "--column", column,
                  says=says, status=None)


# ---- options that take several values -----------------------------------------------------------

def test_config_with_several_stores_and_shares(sampler, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"store": ["a=range:10?labels=2", "b=range:5"], "seed": 3, "design": "quota",
                                  "shares": {"0": 0.75, "1": 0.25}}))
    server = sampler("--config", config)
    assert [frame["name"] for frame in server.get("/frames").json["frames"]] == ["a", "b"]
    labels = server.batch("size=8")["labels"]
    assert labels.count(0) == 6 and labels.count(1) == 2


def test_stores_from_the_environment_stand_one_a_line(sampler):
    server = sampler("--seed", 1, env={**os.environ, "TOMBOLA_STORE": "a=range:10\nb=range:5\n"})
    assert [frame["name"] for frame in server.get("/frames").json["frames"]] == ["a", "b"]


@pytest.mark.parametrize("name, command, text, says", [
    ("sampler", "serve", {"store": [1]}, "texts of one line each"), ("sampler", "serve", {"store": {}}, "an array of texts"),
    ("sampler", "serve", {"store": "range:5", "shares": [1]}, "must be an object"),
    ("sampler", "serve", {"seed": ["1"]}, "not an array"), ("sampler", "build", {"store": []}, "empty array"),
    ("loader", "pull", {"sampler": ["x"]}, "not an array"), ("trainer", "train", {"sampler": {}}, "not an object")])
def test_config_values_of_a_wrong_kind(tmp_path, name, command, text, says):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(text))
    run_fails(name, command, "--config", config, says=[says, str(config)])


# ---- splits -------------------------------------------------------------------------------------

def warnings_of(server):
    return [json.loads(line) for line in server.stderr.splitlines() if "side of the split" in line]


def test_labels_that_miss_a_side_are_named_at_the_start(sampler, tmp_path):
    """Which units are where is asked of the streams themselves, and must be what the warning says."""
    store = tmp_path / "few.csv"
    store.write_text("id,label\n" + "".join(f"{i},l{i // 10:02}\n" for i in range(300)))
    server = sampler("--store", f"few=csv:{store}?label=label&id=id", "--splits", "0.8,0.1,0.1", "--log-format", "json", "--seed", 1)
    shown = {one["side"]: one for one in warnings_of(server)}
    labels = {f"l{i:02}" for i in range(30)}
    for side in ("train", "validation", "test"):
        create(server, name=side, split=side)
        there = {one["label"] for one in server.get(f"/labels?stream={side}").json["labels"] if one["units"] > 0}
        missing = sorted(labels - there)
        if missing:
            assert shown[side]["labels"] == len(missing) and shown[side]["first"] == missing[0], side
            assert shown[side]["frame"] == "few" and shown[side]["units"] == 10 and shown[side]["level"] == "warning"
        else:
            assert side not in shown
    assert "test" in shown  # ten units miss a tenth with a chance of 35 %


def test_no_warning_where_every_label_is_everywhere(sampler):
    server = sampler("--store", "range:100000?labels=10", "--splits", "0.8,0.2,0", "--log-format", "json")
    assert not warnings_of(server)


@pytest.mark.threads
def test_who_makes_it_again_waits_and_who_asks_for_it_comes_again(sampler):
    """A name in the making: POST of it waits and is 409, anything else is 503, and nothing is 404."""
    units = 6000000 if TSAN else 60000000  # long enough to make that all four ask meanwhile
    server = sampler("--store", f"range:{units}?labels=10", "--splits", "0.8,0.1,0.1", "--seed", 1)
    body = json.dumps({"name": "side", "split": "train"}).encode()

    def made():
        """The answers to four who make it, if it was not there yet for five who asked for it: who is late tries again."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.request, "POST", "/streams", body=body) for _ in range(4)]
            wait_for(lambda: server.get("/streams/side").status != 404, "nobody makes it")
            early = [server.request(*ask) for ask in (("GET", "/batch?stream=side"), ("GET", "/streams/side"), ("POST", "/streams/side/pause"),
                                                      ("GET", "/where?id=1&stream=side"), ("DELETE", "/streams/side"))]
        for answer in early:
            assert answer.status in (200, 204, 409) or answer.status == 503 and "retry-after" in answer.headers, answer.text
        if all(answer.status == 503 and "is being made" in answer.json["detail"] for answer in early):
            return [each.result() for each in asked]
        server.request("DELETE", "/streams/side")
        return None

    answers = wait_for(made, "it was made too soon for this test")
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    assert all("already" in answer.json["detail"] for answer in answers if answer.status == 409)
    assert "already" in server.request("POST", "/streams", body=body).json["detail"]
    assert server.request("DELETE", "/streams/side").status == 204
    assert server.request("POST", "/streams", body=json.dumps({"name": "side", "design": "none"}).encode()).status == 400
    assert create(server, name="side")["generation"] == 2


def test_numbers_are_told_as_they_were_written(sampler, tmp_path):
    """1.1 is 1.1 and not 1.1000000000000001, wherever a message or a table says it."""
    server = sampler(*NAMED)
    for fields, text in (({"design": "bernoulli", "rate": 1.1}, "rate is 1.1;"), ({"lease_s": -0.3}, '"lease_s" is -0.3, must be from 0.001 to 31536000'),
                         ({"epochs": 1.2}, '"epochs" is 1.2,')):
        refused = server.request("POST", "/streams", body=json.dumps({"name": "x", **fields}).encode())
        assert refused.status == 400 and text in refused.json["detail"], refused.text
    assert "e+0" not in run("sampler", "serve", "--help").stdout
    run_fails("sampler", "serve", "--store", "range:9", "--lease", "0.0003", says="from 0.001 to 31536000")
    store = tmp_path / "w.csv"
    store.write_text("id,label,w\n0,a,0.032\n1,b,2.989\n")
    run("sampler", "build", "--store", f"csv:{store}?weight=w", "--out", tmp_path / "frame")
    assert "weights  0.032 to 2.989, sum 3.021" in run("sampler", "info", tmp_path / "frame").stdout
    assert json.loads(run("sampler", "info", "--json", tmp_path / "frame").stdout)["weight_summary"]["largest"] == 2.989


def test_neyman_takes_every_number_of_the_store(sampler, tmp_path):
    """A feature and the weight are columns alike: the same numbers give the same shares."""
    rows = [(i, "ab"[i % 2], i * i % 7 if i % 2 else i * i % 50) for i in range(40)]
    store = tmp_path / "n.csv"
    store.write_text("id,label,x,w\n" + "".join(f"{i},{label},{x},{x}\n" for i, label, x in rows))
    server = sampler("--store", f"csv:{store}?weight=w", "--seed", 1)
    for column in ("x", "w"):
        create(server, name=column, design="neyman", column=column, seed=1)
    wanted = {name: [row["wanted"] for row in server.get(f"/labels?stream={name}").json["labels"]] for name in "xw"}
    assert wanted["x"] == wanted["w"] and wanted["x"][0] > 2 * wanted["x"][1]
    refused = server.request("POST", "/streams", body=b'{"name":"no","design":"neyman","column":"z"}')
    assert refused.status == 400 and '"z" is neither a feature nor the weight' in refused.json["detail"], refused.text


def test_options_of_a_state_need_one():
    run_fails("sampler", "serve", "--store", "range:9", "--accept-loss", "5", says=["--accept-loss 5", "--state DIR"])
    run_fails("sampler", "serve", "--store", "range:9", "--durability", "process", says=["--durability process", "--state DIR"])
