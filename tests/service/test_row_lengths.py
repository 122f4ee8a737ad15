# SPDX-License-Identifier: MIT
"""Rows that differ in length, from a CSV file to what pull writes of them, whatever store they come from."""

import contextlib
import gzip
import io
import json
import random
import sqlite3
import struct

import numpy
import pytest

from conftest import SEED, run, run_fails
from test_loader_pull import pull_bytes

ROWS = 400


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """{id: (label, values)} and the file that holds them, in no order."""
    dice = random.Random(SEED)
    folder = tmp_path_factory.mktemp("tokens")
    rows = {i: (dice.choice("abc"), [dice.randrange(256) for _ in range(dice.choice([0, 1, 2, 5, 9, 40]))])
            for i in dice.sample(range(10**6), ROWS)}
    (folder / "tokens.csv").write_text("id,label\n" + "".join(
        ",".join(map(str, [i, label, *values])) + "\n" for i, (label, values) in rows.items()))
    return folder, rows


@pytest.fixture(scope="module")
def stores(tokens):
    folder, rows = tokens
    source = f"csv:{folder}/tokens.csv?longest=any"
    text = (folder / "tokens.csv").read_text().splitlines(keepends=True)
    (folder / "part-0.csv").write_text("".join(text[:150]))
    (folder / "part-1.csv").write_text(text[0] + "".join(text[150:]))
    run("loader", "import", source, f"rows:{folder}/tokens.rows")
    run("loader", "import", f"rows:{folder}/tokens.rows", f"sqlite:{folder}/tokens.db")
    return {"csv": source, "rows": f"rows:{folder}/tokens.rows", "sqlite": f"sqlite:{folder}/tokens.db",
            "parts": f"csv:{folder}/part-*.csv?longest=any"}


def parse(text):
    """{id: (label, values)} of pull's CSV, whose header ends at the label."""
    lines = [line.split(",") for line in text.decode().splitlines()]
    assert lines[0] == ["id", "label"]
    return {int(line[0]): (line[1], [int(value) for value in line[2:]]) for line in lines[1:]}


def test_the_same_rows_from_every_store(stores, tokens, sampler, tmp_path):
    folder, rows = tokens
    one = sampler("--store", stores["csv"], "--seed", "3", "--epochs", "1")
    digests, pulled = set(), set()
    for name, uri in stores.items():
        facts = json.loads(run("loader", "info", "--json", "--verify", uri).stdout)
        digests.add(facts["digest"])
        assert facts["longest"] == facts["features"] == 40 and facts["limit"] is None and facts["columns"] == []
        assert facts["elements"] == sum(len(values) for _, values in rows.values())
        for more in ([], ["--fetchers", 3], ["--cache-bytes", 10**6], ["--cache", tmp_path / name], ["--cache", tmp_path / name]):
            pulled.add(pull_bytes("--sampler", one.url, "--store", uri, "--index", 0, "--size", 32, *more))
    assert len(digests) == 1 and len(pulled) == 1
    assert parse(pulled.pop()) == rows
    assert "a row, 40 in the longest" in run("loader", "info", stores["rows"]).stdout


def test_token_ids_are_integers(tmp_path, sampler):
    """Of 32 bits, exactly, from every store; without element=i32 they are floats, which are exact up to 2^24."""
    dice = random.Random(SEED)
    rows = {i: ("ab"[i % 2], [dice.randrange(-(2**31), 2**31) for _ in range(dice.choice([0, 1, 3, 30]))]) for i in range(300)}
    rows[0] = ("a", [2**31 - 1, -(2**31), 2**24 + 1, 0, -1] * 7)
    text = "id,label\n" + "".join(",".join(map(str, [i, label, *values])) + "\n" for i, (label, values) in rows.items())
    (tmp_path / "tokens.csv").write_text(text)
    with gzip.open(tmp_path / "tokens.csv.gz", "wt") as file:
        file.write(text)
    with contextlib.closing(sqlite3.connect(tmp_path / "own.db")) as database, database:
        database.execute("create table own (id integer primary key, label text, x blob)")
        database.executemany("insert into own values (?, ?, ?)", [(i, label, struct.pack(f"<{len(values)}i", *values)) for i, (label, values) in rows.items()])
    asks = "?longest=any&element=i32"
    stores = [f"csv:{tmp_path}/tokens.csv{asks}", f"csv:{tmp_path}/tokens.csv.gz{asks}", f"sqlite:{tmp_path}/own.db{asks}"]
    for source, made in ((stores[0], "rows:{}/x.rows"), (stores[2], "rows:{}/y.rows"), ("rows:{}/x.rows", "sqlite:{}/x.db")):
        stores.append(made.format(tmp_path))
        run("loader", "import", source.format(tmp_path), stores[-1])
    one = sampler("--store", stores[0], "--seed", 3, "--epochs", 1)
    digests, pulled = set(), set()
    for number, uri in enumerate(stores):
        facts = json.loads(run("loader", "info", "--json", "--verify", uri).stdout)
        assert (facts["element"], facts["longest"]) == ("i32", 35)
        digests.add(facts["digest"])
        for more in ([], ["--cache-bytes", 0, "--fetchers", 3], ["--cache", tmp_path / f"cache{number}"], ["--cache", tmp_path / f"cache{number}"]):
            pulled.add(pull_bytes("--sampler", one.url, "--store", uri, "--index", 0, "--size", 32, *more))
    assert len(digests) == len(pulled) == 1 and parse(pulled.pop()) == rows
    arguments = ["--sampler", one.url, "--store", stores[3], "--index", 0, "--format"]
    array = numpy.load(io.BytesIO(pull_bytes(*arguments, "npy")))
    assert array["x"].dtype == numpy.int32
    assert all(row["x"][: row["length"]].tolist() == rows[int(row["id"])][1] and not row["x"][row["length"] :].any() for row in array)
    raw = pull_bytes(*arguments, "raw", "--batches", 1, "--size", 1)
    number, _, length = struct.unpack_from("<qdq", raw)
    assert list(struct.unpack_from(f"<{length}i", raw, 24)) == rows[number][1]
    (tmp_path / "again.csv").write_bytes(pull_bytes(*arguments, "csv"))
    assert json.loads(run("loader", "info", "--json", "--verify", f"csv:{tmp_path}/again.csv{asks}").stdout)["digest"] in digests
    assert "of i32 a row, 35 in the longest" in run("loader", "info", stores[3]).stdout
    floats = parse(pull_bytes("--sampler", one.url, "--store", f"csv:{tmp_path}/tokens.csv?longest=any", "--index", 0, "--size", 32))
    assert floats[0][1][2] == 2**24


@pytest.mark.parametrize("value", ["2147483648", "-2147483649", "1.5", "x", "nan"])
def test_what_is_no_integer_is_named(tmp_path, value):
    (tmp_path / "tokens.csv").write_text(f"label\na,1,2\nb,3,{value},4\n")
    for command in (["info"], ["import"]):
        run_fails("loader", *command, f"csv:{tmp_path}/tokens.csv?longest=any&element=i32", *([tmp_path / "x.rows"] if command == ["import"] else []),
                  status=2, says=["tokens.csv, line 3", f'field 3 is "{value}"; an integer from -2147483648 to 2147483647 (element=i32) belongs there\n'])
    run_fails("loader", "info", f"csv:{tmp_path}/tokens.csv?longest=any&element=f32", status=2, says="of numbers element=i32 alone is possible")
    assert not (tmp_path / "x.rows").exists()


@pytest.mark.parametrize("values, query, tells", [
    ("300,16777217", "", True), ("-16777217,2147483648", "", True), ("16777215,300", "", False), ("16777217,0.5", "", False),
    ("16777217,3e9", "", False), ("300,16777217", "?element=i32", False), ("1,2", "", False)])
def test_integers_that_floats_round_are_told(sampler, tmp_path, values, query, tells):
    (tmp_path / "x.csv").write_text(f"label,a,b\nx,{values}\n")
    url = sampler("--store", f"csv:{tmp_path}/x.csv", "--epochs", 0).url
    said = [run("loader", "info", f"csv:{tmp_path}/x.csv{query}").stdout, run("loader", "info", "--verify", f"csv:{tmp_path}/x.csv{query}").stdout,
            run("loader", "import", f"csv:{tmp_path}/x.csv{query}", tmp_path / "x.rows").stderr,
            *(run("loader", "pull", "--sampler", url, "--store", f"csv:{tmp_path}/x.csv{query}", "--size", 1, "--batches", batches,
                  "--fetchers", fetchers).stderr for batches, fetchers in ((1, 1), (500, 1), (500, 3)))]
    text = "whole numbers of 2^24 and more, which 32-bit floats round; element=i32"
    assert [text in one for one in said] == [tells] * 6 and [one.count(text) for one in said[3:]] == [tells] * 3, said


def test_what_pull_writes_is_read_again(stores, tokens, sampler, tmp_path):
    rows = tokens[1]
    one = sampler("--store", stores["rows"], "--seed", "4", "--epochs", "1")
    arguments = ["--sampler", one.url, "--store", stores["rows"], "--index", 0, "--format"]
    (tmp_path / "again.csv").write_bytes(pull_bytes(*arguments, "csv"))
    again = json.loads(run("loader", "info", "--json", "--verify", f"csv:{tmp_path}/again.csv?longest=any").stdout)
    assert again["digest"] == json.loads(run("loader", "info", "--json", stores["rows"]).stdout)["digest"]
    array = numpy.load(io.BytesIO(pull_bytes(*arguments, "npy")))
    for row in array:
        values = rows[int(row["id"])][1]
        assert row["length"] == len(values) and row["x"].tolist() == values + [0] * (40 - len(values))
    raw, at, seen = pull_bytes(*arguments, "raw"), 0, 0
    while at < len(raw):
        number, _, length = struct.unpack_from("<qdq", raw, at)
        assert list(raw[at + 24 : at + 24 + length]) == rows[number][1]
        at, seen = at + 24 + length, seen + 1
    assert seen == ROWS


def test_buckets(stores, tokens, sampler):
    rows = tokens[1]
    one = sampler("--store", stores["csv"], "--seed", "5", "--epochs", "1")
    orders = {}
    for window in (0, 4, 13):
        arguments = ["--sampler", one.url, "--index", 0, "--size", 16, "--bucket-window", window]
        pulled = {pull_bytes(*arguments, "--store", uri) for uri in stores.values()}
        assert len(pulled) == 1, "the same batches from every store"
        orders[window] = list(parse(pulled.pop()).items())
        assert dict(orders[window]) == rows

    def zeros(order):
        lengths = [len(values) for _, (_, values) in order]
        return sum(max(lengths[i : i + 16]) * len(lengths[i : i + 16]) - sum(lengths[i : i + 16]) for i in range(0, ROWS, 16))

    assert zeros(orders[13]) < zeros(orders[4]) < zeros(orders[0])
    run_fails("loader", "pull", "--sampler", one.url, "--store", stores["csv"], "--bucket-window", 4, says="by index")


def test_frames_do_not_depend_on_the_store(stores, tmp_path):
    frames = {name: run("sampler", "build", "--store", stores[name], "--out", tmp_path / name).stdout for name in ("csv", "rows")}
    assert (tmp_path / "csv").read_bytes() == (tmp_path / "rows").read_bytes(), frames


def test_what_takes_rows_of_one_length_says_so(stores, tokens, sampler, tmp_path):
    one = sampler("--store", stores["csv"])
    run_fails("trainer", "train", "--sampler", one.url, "--store", stores["csv"], "--logdir", tmp_path / "log",
              status=2, says="has rows that differ in length, and the models here take rows of one length")
    (tmp_path / "columns.csv").write_text("id,label,a\n1,x,300\n2,y,70000\n")
    integers = f"csv:{tmp_path}/columns.csv?element=i32"
    run_fails("trainer", "train", "--sampler", sampler("--store", integers).url, "--store", integers, "--logdir", tmp_path / "log",
              status=2, says="has features that are 32-bit integers, and the models here take bytes or floats")
    run_fails("loader", "info", stores["csv"].replace("any", "39"), status=2, says="the row has 40 features, and longest=39 allows 39")
    run_fails("loader", "info", f"csv:{tokens[0]}/tokens.csv", status=2, says="longest=any in the URI takes rows of different lengths")


def test_a_limit_in_the_uri_holds_in_every_store(stores, tokens, sampler):
    """The same batches, of that width; a longer row is refused in the same words."""
    one = sampler("--store", stores["csv"], "--seed", "9", "--epochs", "1")
    uris = [stores["csv"].partition("?")[0], stores["rows"], stores["sqlite"]]
    for limit, width in (("any", 40), ("40", 40), ("64", 64)):
        pulled = {pull_bytes("--sampler", one.url, "--store", f"{uri}?longest={limit}", "--index", 0, "--size", 32, "--format", "npy")
                  for uri in uris}
        assert len(pulled) == 1 and numpy.load(io.BytesIO(pulled.pop()))["x"].shape == (ROWS, width)
    for uri in uris:
        run_fails("loader", "info", f"{uri}?longest=39", status=2, says=[
            "the row has 40 features, and longest=39 allows 39; longest=40 or longest=any would take it"])
        run_fails("loader", "info", f"{uri}?longest=none", status=2, says='longest is "none", must be any, or the length')


@pytest.mark.parametrize("element, wanted", [("u8", "a BLOB of bytes"), ("f32", "a BLOB of 32-bit floats"), ("i32", "a BLOB of 32-bit integers")])
def test_a_value_that_is_no_blob_is_told_what_belongs_there(tmp_path, element, wanted):
    with contextlib.closing(sqlite3.connect(tmp_path / "rows.sqlite")) as database, database:
        database.execute("create table samples (id integer primary key, label text, features blob)")
        database.executemany("insert into samples values (?, 'a', ?)", [(1, bytes(8)), (2, "text"), (3, bytes(12))])
    run_fails("loader", "info", f"sqlite:{tmp_path}/rows.sqlite?longest=any&element={element}", status=2, says=wanted)
