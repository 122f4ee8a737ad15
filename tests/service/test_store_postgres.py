# SPDX-License-Identifier: MIT
"""The PostgreSQL store against a real server, which the tests start themselves and take away from under the programs."""

import json
import os
import random
import re
import shutil
import signal
import socket
import socketserver
import sqlite3
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from conftest import LONG, PATIENCE_S, SEED, Program, free_port, program, run, run_fails, wait_for
from postgres_server import Server, built_with_libpq, server  # noqa: F401, fixtures

ROWS = 3000


@pytest.fixture(scope="module")
def csv(server, tmp_path_factory):
    """The same rows as a CSV file and as the tables `rows` (a column each) and `packed` (one bytea)."""
    dice = random.Random(SEED)
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    ids = dice.sample(range(10**12), ROWS)
    lines = [f"{i},{dice.choice(['cat', 'dog', 'äpfel', '7'])},{dice.random()},g{i % 7},"
             f"{dice.randrange(256)},{dice.randrange(256)},{dice.randrange(256)}\n" for i in ids]
    path.write_text("id,label,w,grp,a,b,c\n" + "".join(lines))
    server.sql("CREATE TABLE rows (id bigint PRIMARY KEY, label text, w float8, grp varchar(9), a smallint, b int, c real)",
               "COPY rows FROM STDIN (FORMAT csv, HEADER)", stdin=path.read_text())
    server.sql("CREATE TABLE packed AS SELECT id, label, w, grp, decode(lpad(to_hex(a::int), 2, '0') || lpad(to_hex(b), 2, '0')"
               " || lpad(to_hex(c::int), 2, '0'), 'hex') AS features FROM rows", "ALTER TABLE packed ADD PRIMARY KEY (id)")
    return path


KEYS = "weight=w&group=grp"


def digest(uri):
    lines = run("loader", "info", "--verify", uri).stdout.splitlines()
    return next(line.split()[1].strip(",") for line in lines if line.startswith("digest"))


def frame(uri, out):
    return run("sampler", "build", "--store", uri, "--out", out).stdout.split()[-1]


def test_the_same_rows_as_csv_and_sqlite(server, csv, tmp_path):
    run("loader", "import", f"csv:{csv}?{KEYS}", f"sqlite:{tmp_path}/rows.db")
    stores = [f"sqlite:{tmp_path}/rows.db", server.uri("rows", "&" + KEYS), server.uri("packed", "&" + KEYS)]
    assert len({digest(uri) for uri in [f"csv:{csv}?{KEYS}", *stores]}) == 1
    frames = [frame(uri, tmp_path / f"frame{i}") for i, uri in enumerate(stores)]
    assert len(set(frames)) == 1
    assert (tmp_path / "frame0").read_bytes() == (tmp_path / "frame1").read_bytes() == (tmp_path / "frame2").read_bytes()
    text = run("loader", "info", server.uri("rows", "&features=a,c")).stdout
    assert "3000" in text and "2 of u8" in text
    assert "3 of u8" in run("loader", "info", server.uri("packed", "&" + KEYS)).stdout


def test_rows_that_differ_in_length(server, sampler, tmp_path):
    dice = random.Random(SEED)
    rows = {i: [dice.randrange(256) for _ in range(dice.choice([0, 1, 3, 30]))] for i in dice.sample(range(10**9), 500)}
    (tmp_path / "vary.csv").write_text("id,label\n" + "".join(
        ",".join(map(str, [i, "ab"[i % 2], *values])) + "\n" for i, values in rows.items()))
    source = f"csv:{tmp_path}/vary.csv?longest=any"
    run("loader", "import", source, server.uri("vary"))
    server.sql("DROP TABLE IF EXISTS own, columns", "CREATE TABLE columns AS SELECT id, 1 AS a, 2 AS b FROM vary",
               "CREATE TABLE own AS SELECT id, label, features AS x FROM vary", "ALTER TABLE own ADD PRIMARY KEY (id)")
    stores = [source, server.uri("vary"), server.uri("own", "&longest=any")]
    assert len({digest(uri) for uri in stores}) == 1
    one = sampler("--store", source, "--seed", "4", "--epochs", "1")
    for more in ([], ["--bucket-window", "7"]):
        pulled = {run("loader", "pull", "--sampler", one.url, "--store", uri, "--index", "0", "--size", "20", *more).stdout for uri in stores}
        assert len(pulled) == 1
    lines = [line.split(",") for line in pulled.pop().splitlines()[1:]]
    assert {int(line[0]): [int(value) for value in line[2:]] for line in lines} == rows
    run_fails("loader", "info", server.uri("own", "&longest=29"), status=2, says="the row has 30 features, and longest=29 allows 29")
    run_fails("loader", "info", server.uri("columns", "&longest=any"), status=2, says="longest= is for rows whose features are one bytea")
    server.sql("UPDATE own SET x = '\\x0000803f00004040' WHERE id % 3 = 0", "UPDATE own SET x = '\\x0000803f' WHERE id % 3 > 0")
    run_fails("loader", "info", server.uri("own", "&longest=any"), status=2, says="element=f32 or element=u8")
    facts = json.loads(run("loader", "info", "--json", server.uri("own", "&longest=any&element=f32")).stdout)
    assert (facts["longest"], facts["element"]) == (2, "f32")


@pytest.mark.parametrize("column", ["income", "w"])
def test_neyman_reads_its_column_alone(server, sampler, column):
    server.sql("DROP TABLE IF EXISTS people",
               "CREATE TABLE people (id int PRIMARY KEY, kind text, city text, income real, w real)",
               "INSERT INTO people SELECT i, chr(97 + i % 2), 'city', i % 2 + i % 3, i % 3 FROM generate_series(0, 59) i")
    store = server.uri("people", "&label=kind&weight=w")
    stream = sampler("--store", store, "--design", "neyman", "--column", column).get("/streams/default").json
    assert stream["deviations"]["a"] == stream["deviations"]["b"] > 0


@pytest.mark.threads
def test_fetched_rows_are_those_of_the_csv(server, csv, sampler):
    one = sampler("--store", f"csv:{csv}", "--seed", "4")
    wanted = {line.split(",")[0]: line.split(",") for line in csv.read_text().splitlines()[1:]}
    for table in ("rows", "packed"):
        text = run("loader", "pull", "--sampler", one.url, "--store", server.uri(table, "&" + KEYS), "--size", "64", "--batches", "10").stdout
        lines = [line.split(",") for line in text.splitlines()[1:]]
        assert len(lines) == 640
        for line in lines:
            assert [float(value) for value in line[2:]] == [float(value) for value in wanted[line[0]][4:]]


def test_types_of_numbers(server, tmp_path):
    server.sql("CREATE TABLE types (id int PRIMARY KEY, label bool, a numeric, b text, c bool, d real, e varchar)",
               "INSERT INTO types VALUES (3, true, 1.5, '2.5', true, 0.1, '1e3'), (1, false, 7, '8', false, -4, ' 9')")
    text = run("loader", "info", server.uri("types", "&features=a,b,c,d")).stdout
    assert "4 of f32" in text and "true" in text
    run_fails("loader", "import", server.uri("types", "&features=e"), f"sqlite:{tmp_path}/x.db", says=['column "e"', '" 9"', "id 1"])
    server.sql("UPDATE types SET a = NULL, d = 'NaN', e = 'Rome'")
    for column, says in (("a", ["is null", "missing=mean in the URI"]), ("e", ['is "Rome"', "onehot=A,B"]),
                         ("d", ["is NaN; a number belongs there", "missing=mean in the URI"])):
        run_fails("loader", "import", server.uri("types", f"&features={column}"), f"sqlite:{tmp_path}/x.db", says=says)


def test_domains_are_read_as_what_they_are_made_of(server, csv, sampler):
    server.sql("CREATE DOMAIN key AS bigint CHECK (VALUE >= 0)", "CREATE DOMAIN own_key AS key", "CREATE DOMAIN word AS text",
               "CREATE DOMAIN share AS float8", "CREATE DOMAIN byte AS smallint", "CREATE DOMAIN amount AS numeric(9, 2)",
               "CREATE DOMAIN bytes AS bytea",
               "CREATE TABLE domains AS SELECT id::own_key, label::word, w::share, grp::word, a::byte, b::amount, c::share FROM rows",
               "CREATE TABLE packed_domains AS SELECT id::key, label::word, w::share, grp::word, features::bytes FROM packed",
               "ALTER TABLE domains ADD PRIMARY KEY (id)", "ALTER TABLE packed_domains ADD PRIMARY KEY (id)")
    stores = [server.uri(table, "&" + KEYS) for table in ("domains", "packed_domains")]
    assert {digest(uri) for uri in stores} == {digest(f"csv:{csv}?{KEYS}")}
    one = sampler("--store", f"csv:{csv}", "--seed", "4")
    for uri in stores:
        assert len(run("loader", "pull", "--sampler", one.url, "--store", uri, "--size", "9", "--batches", "1").stdout.splitlines()) == 10
    server.sql("CREATE DOMAIN day AS date", "CREATE TABLE days (id int, a day)")
    run_fails("loader", "info", server.uri("days"), says='column "a" is of type day')


def shortest(number):
    if number == int(number) and abs(number) <= 2**53:
        return str(int(number))
    return next(text for digits in (15, 16, 17) if float(text := f"{number:.{digits}g}") == number)


def test_labels_that_are_floats_read_as_in_sqlite(server, tmp_path):
    """Whole numbers are integers, however large; others are as short as they can be."""
    for kind, labels, integers in (("real", [1, 2000000, 16777216, -3], True), ("float8", [1, 1e15, -(2**53)], True),
                                   ("float8", [1, 2e15, 1e-5, -2.5e-300], False), ("real", [0.5, 4000000], False),
                                   ("float8", [2.0**53 + 2, -1e16, 2.0**50 + 0.5], False), ("real", [1234567.5], False)):
        with sqlite3.connect(tmp_path / "floats.db") as database:
            database.execute("DROP TABLE IF EXISTS floats")
            database.execute("CREATE TABLE floats (id INTEGER PRIMARY KEY, label REAL, g REAL, a INTEGER)")
            database.executemany("INSERT INTO floats VALUES (?, ?, ?, 7)", [(i, y, y) for i, y in enumerate(labels)])
        server.sql("DROP TABLE IF EXISTS floats", f"CREATE TABLE floats (id int PRIMARY KEY, label {kind}, g {kind}, a int)",
                   *[f"INSERT INTO floats VALUES ({i}, {y}, {y}, 7)" for i, y in enumerate(labels)])
        (tmp_path / "floats.csv").write_text("id,label,g,a\n" + "".join(
            f"{i},{y},{y},7\n" for i, y in enumerate(map(shortest, labels))))
        stores = [f"csv:{tmp_path}/floats.csv?group=g", f"sqlite:{tmp_path}/floats.db?group=g", server.uri("floats", "&group=g")]
        assert len({digest(uri) for uri in stores}) == 1, labels
        found = json.loads(run("loader", "info", "--json", stores[2]).stdout)["labels"]
        assert all(isinstance(one["label"], int) for one in found) == integers


@pytest.mark.parametrize("column", ["label", "g"])
@pytest.mark.parametrize("kind, value, shown", [("real", "NaN", "nan;"), ("float8", "Infinity", "inf;"), ("numeric", "NaN", '"NaN"')])
def test_labels_and_groups_that_are_no_numbers(server, tmp_path, kind, value, shown, column):
    """A column of numbers with one of these would become one of texts."""
    server.sql("DROP TABLE IF EXISTS odd", f"CREATE TABLE odd (id int PRIMARY KEY, label {kind}, g {kind}, a int)",
               "INSERT INTO odd VALUES (1, 1.5, 1.5, 7), (2, 2, 2, 8)", f"UPDATE odd SET {column} = '{value}' WHERE id = 2")
    says = [f'column "{column}" is {shown}', "id 2", f"a {'label' if column == 'label' else 'group'} belongs there"]
    run_fails("loader", "info", server.uri("odd", "&group=g"), says=says)
    run_fails("sampler", "build", "--store", server.uri("odd", "&group=g"), "--out", tmp_path / "frame", says=says)


@pytest.mark.parametrize("sql, more, says", [
    ("CREATE TABLE t (label text, a int)", "", "id=NAME"),
    ("CREATE TABLE t (id text, a int)", "", ['column "id" is of type text', "bigint"]),
    ("CREATE TABLE t (id varchar(9), a int)", "", 'is of type character varying(9)'),
    ("CREATE TABLE t (id int, a date)", "", ['column "a" is of type date', "numbers"]),
    ('CREATE TABLE t (id int, "Label" int, "LABEL" int)', "", '"Label" and "LABEL"'),
    ("CREATE TABLE t (id int, a int)", "", "no rows"),
    ("CREATE TABLE t (id int, a int); INSERT INTO t VALUES (5, 1), (5, 2)", "", "id 5 comes twice"),
    ("CREATE TABLE t (id int, a int); INSERT INTO t VALUES (-5, 1)", "", ["-5", "from 0"]),
    ("CREATE TABLE t (id int, a int); INSERT INTO t VALUES (NULL, 1)", "", "null"),
    ("CREATE TABLE t (id int, label text, a int); INSERT INTO t VALUES (7, NULL, 1)", "", ["id 7", '"label" is null']),
    ("CREATE TABLE t (id int, w int, a int); INSERT INTO t VALUES (7, -1, 1)", "&weight=w", ["id 7", '"w"', "at least 0"]),
    ("CREATE TABLE t (id int, a int)", "&label=x", "x"),
    ("CREATE TABLE t (id int, a bytea, b int)", "", "bytea"),
    ("CREATE TABLE t (id int, a bytea); INSERT INTO t VALUES (1, '\\x010203')", "&element=f32", "32-bit floats"),
    ("CREATE TABLE t (id int, a bytea); INSERT INTO t VALUES (1, '\\x0000803f000000c0'), (2, '\\x00000000cdcccc3d')", "",
     ['column "a"', "look like 2 32-bit floats, and may be 8 integers from 0 to 255: element=f32 or element=u8"]),
    ("CREATE TABLE t (id int, a int)", "&element=f64", "u8, f32 or i32"),
    ("CREATE TABLE t (id int, a int); INSERT INTO t VALUES (5, 1)", "&element=f32", ["table public.t", "of numbers element=i32 alone"]),
    ("CREATE TABLE t (id int, a bytea); INSERT INTO t VALUES (1, '\\x0a010000ffff0000')", "",
     "look like 2 32-bit integers, and may be 8 integers from 0 to 255: element=i32 or element=u8"),
    ("CREATE TABLE t (id int, a int)", "&tabel=x", "tabel"),
])
def test_tables_that_do_not_do(server, sql, more, says):
    server.sql("DROP TABLE IF EXISTS t", *sql.split("; "))
    run_fails("loader", "info", server.uri("t", more), says=says)


def test_tables_without_rows_are_passed_over(server, tmp_path):
    server.sql("DROP TABLE IF EXISTS part_0, part_1", "CREATE TABLE part_0 (id int PRIMARY KEY, label int, a int)",
               "CREATE TABLE part_1 (LIKE part_0)", "INSERT INTO part_1 VALUES (5, 1, 2), (7, 2, 3)")
    uris = [server.uri("part_0"), server.uri("part_1")]
    assert json.loads(run("loader", "info", "--json", "\n".join(uris)).stdout)["rows"] == 2
    frame("\n".join(uris), tmp_path / "frame")
    assert json.loads(run("sampler", "info", "--json", tmp_path / "frame").stdout)["units"] == 2
    run_fails("loader", "info", f"{uris[0]}\n{server.uri('part_0', '&label=a')}", says="no rows")


@pytest.mark.parametrize("uri, status", [
    ("//me:secret@127.0.0.1:1/x", 1), ("//me:50%secret@127.0.0.1:1/x", 2), ("//me:%00secret@127.0.0.1:1/x", 2), ("//me:secret@[::1/x", 2),
    ("//127.0.0.1:a/secret@127.0.0.1:1/x", 1), ("//127.0.0.1:1/x?user=me&password=secret", 1), ("//127.0.0.1:1/x?password=50%secret", 2)])
def test_no_message_shows_a_password(uri, status):
    done = run("loader", "info", f"postgresql:{uri}", status=status)
    assert "secret" not in done.stdout + done.stderr and ("postgresql://" in done.stderr or "password" in uri), done.stderr


def test_a_list_shows_no_password(server):
    server.sql("DROP TABLE IF EXISTS part_0, part_1", "CREATE TABLE part_0 AS SELECT 1 AS id, 2 AS a",
               "CREATE TABLE part_1 AS SELECT 2 AS id, 3 AS a")
    done = run("loader", "info", "--json", f"{server.uri('part_0')}\n{server.uri('part_1')}")
    assert json.loads(done.stdout)["store"].count("postgresql://tombola@127.0.0.1") == 2
    assert "right" not in done.stdout + done.stderr


def test_names_that_differ_in_case(server):
    server.sql('CREATE TABLE cased ("ID" int PRIMARY KEY, "Label" text, "X" int, made int GENERATED ALWAYS AS ("X" + 1) STORED)',
               """INSERT INTO cased VALUES (1, 'cat', 5), (2, 'dog', 6)""")
    for more in ("", "&id=id&label=LABEL&features=x,MADE"):
        found = json.loads(run("loader", "info", "--json", server.uri("cased", more)).stdout)
        assert (found["id_column"], found["label_column"], found["columns"]) == ("ID", "Label", ["X", "made"])


def test_bad_rows_are_named(server, tmp_path):
    server.sql("CREATE TABLE bad (id int PRIMARY KEY, label int, a text)",
               "INSERT INTO bad VALUES (1, 1, '5'), (2, 1, 'many'), (3, 2, NULL)")
    run_fails("loader", "import", server.uri("bad"), f"sqlite:{tmp_path}/bad.db", says=["id 2", 'column "a"', '"many"'])
    assert frame(server.uri("bad"), tmp_path / "frame")  # features are not looked at
    server.sql("CREATE TABLE short (id int PRIMARY KEY, a bytea)", "INSERT INTO short VALUES (1, '\\x0102'), (2, '\\x01')")
    run_fails("loader", "import", server.uri("short"), f"sqlite:{tmp_path}/bad.db", says=["id 2", "1 byte;", "2 bytes"])


@pytest.mark.parametrize("columns", [
    "now() AS at", "date '2026-11-29' AS day, '{}'::jsonb AS facts", "ARRAY[1.5] AS list, 5 AS a", "'\\x0102'::bytea AS picture, 5 AS a",
    "'\\x0000803f000000c0'::bytea AS floats",
])
def test_frames_need_no_features(server, tmp_path, columns):
    """Of a table that cannot be trained on as it stands, ids and labels are read all the same."""
    server.sql("DROP TABLE IF EXISTS visits, pairs", "CREATE TABLE pairs AS SELECT i AS id, chr(97 + i % 3) AS label FROM generate_series(0, 9) i",
               f"CREATE TABLE visits AS SELECT id, label, {columns} FROM pairs")
    run_fails("loader", "info", server.uri("visits"), status=2, says="table public.visits")
    assert frame(server.uri("visits"), tmp_path / "visits") == frame(server.uri("pairs"), tmp_path / "pairs")


def test_a_frame_needs_leave_for_its_columns_alone(server, tmp_path):
    server.sql("DROP TABLE IF EXISTS private", "CREATE TABLE private (id int PRIMARY KEY, label text, income real)",
               "INSERT INTO private VALUES (1, 'a', 5), (2, 'b', 6)", "DROP ROLE IF EXISTS drawer",
               "CREATE ROLE drawer LOGIN PASSWORD 'right one'", "GRANT SELECT (id, label) ON private TO drawer")
    uri = server.uri("private").replace("tombola:", "drawer:")
    run_fails("loader", "info", uri, says="permission denied")
    assert frame(uri, tmp_path / "drawer") == frame(server.uri("private"), tmp_path / "owner")


def test_labels_under_another_name(server, tmp_path):
    server.sql("CREATE TABLE animals (id int PRIMARY KEY, legs int, class int)", "INSERT INTO animals VALUES (1, 4, 0), (2, 2, 1)")
    says = ["?label=NAME", '"id", "legs", "class"']
    build = ["sampler", "build", "--out", tmp_path / "frame", "--store"]
    for text in (run("loader", "info", server.uri("animals")).stdout, run(*build, server.uri("animals")).stderr):
        assert all(one in text for one in says), text
    for more in ("&label=", "&label=class"):
        assert "NAME" not in run(*build, server.uri("animals", more)).stderr


def test_numbers_out_of_range(server):
    server.sql("CREATE TABLE large (id int PRIMARY KEY, a text)", "INSERT INTO large VALUES (1, '1e400')")
    run_fails("loader", "info", server.uri("large"), says=['"1e400"', "fits 32-bit float"])


@pytest.mark.parametrize("more", ["", "&missing=mean"])
def test_numerics_beyond_a_double_are_bad_rows(server, sampler, tmp_path, more):
    """They do not end the server's answer to a query for others."""
    server.sql("DROP TABLE IF EXISTS wide", "CREATE TABLE wide (id int PRIMARY KEY, label text, a numeric, w numeric DEFAULT 1)",
               "INSERT INTO wide SELECT i, 'x', i + 0.5 FROM generate_series(0, 9) i")
    uri = server.uri("wide", f"&weight=w{more}")
    right = digest(uri)
    server.sql("UPDATE wide SET a = 4.50000 WHERE id = 4")
    assert digest(uri) == right
    server.sql("UPDATE wide SET a = 1e400 WHERE id = 7")
    failed = run_fails("loader", "info", uri, says=["id 7", 'column "a" is "10000', "fits 32-bit float"])
    assert len(failed.stderr) < 500
    one = sampler("--store", uri, "--seed", "1", "--epochs", "1")
    rows = run("loader", "pull", "--sampler", one.url, "--store", server.uri("wide", "&weight=w"), "--bad-rows", "skip").stdout
    assert len(rows.splitlines()) == 1 + 9
    server.sql("UPDATE wide SET a = 0, w = 1e400 WHERE id = 7")
    run_fails("loader", "info", uri, says=["id 7", 'column "w" is "10000'])
    server.sql("UPDATE wide SET a = 'NaN', w = 1 WHERE id = 7")
    if more:
        run("loader", "info", uri)
    else:
        run_fails("loader", "info", uri, says=["id 7", 'column "a" is NaN', "missing=mean"])


def test_servers_and_tables_that_are_not_there(server):
    server.sql("DROP TABLE IF EXISTS a_table", "CREATE TABLE a_table (id int)")
    run_fails("loader", "info", server.uri("nowhere"), says=["nowhere", "there are", '"a_table"'], status=None)
    failed = run("loader", "info", server.uri("rows", password="wrong"), status=1)
    assert "password authentication failed" in failed.stderr
    assert "wrong" not in failed.stderr and "right" not in failed.stderr
    assert re.search(rf"postgresql://tombola@127\.0\.0\.1:{server.port}/postgres[:, ]", failed.stderr)
    assert "Connection refused" in run("loader", "info", f"postgresql://127.0.0.1:{free_port()}/x", status=1).stderr
    missing = run("loader", "info", server.uri("rows").replace("/postgres?", "/other?"), status=1)
    assert '"other" does not exist' in missing.stderr


def test_no_stream_is_set_aside_for_a_server_that_is_away(sampler, tmp_path):
    """It may be starting, too: whoever supervises the sampler tries again."""
    words = ("--store", "a=range:100", "--state", tmp_path / "state")
    one = sampler(*words, "--store", "b=range:60")
    assert one.request("POST", "/streams", body='{"name":"eval","frame":"b"}').status == 201
    one.stop()
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *words, "--store", f"b=postgresql://127.0.0.1:{free_port()}/x?table=rows",
              status=1, says="Connection refused")


@pytest.fixture
def deaf():
    """The port of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one.getsockname()[1]


def takes_connections(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_a_reload_during_the_start_is_not_its_end(start, tmp_path, deaf):
    """systemd would take it for the end, and start what needs a sampler that draws."""
    name, port = str(tmp_path / "notify"), free_port()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ears:
        ears.bind(name)
        one = start("sampler", "serve", "--listen", f"127.0.0.1:{port}", "--store", f"postgresql://127.0.0.1:{deaf}/x?table=rows",
                    env={"NOTIFY_SOCKET": name})
        wait_for(lambda: takes_connections(port), "it never listened")
        one.signal(signal.SIGHUP)
        one.wait_for_log("SIGHUP: there is no --token-file")
        one.stop()
        ears.setblocking(False)
        with pytest.raises(BlockingIOError):
            ears.recv(1000)


def test_hosts_are_tried_one_by_one(server, csv, deaf):
    """Each has a time of its own: one that is silent must not eat the next one's."""
    closed = free_port()
    for hosts, ports in (("127.0.0.1,127.0.0.1", f"{closed},{server.port}"),
                         ("nowhere.invalid,127.0.0.1", server.port),
                         (f"{server.folder}/nowhere,{server.folder}", server.port),
                         ("127.0.0.1,localhost", f"{deaf},{server.port}")):
        uri = f"postgresql://tombola:right%20one@/postgres?table=rows&{KEYS}&host={hosts}&port={ports}&connect_timeout=6"
        assert "rows       3000\n" in run("loader", "info", uri).stdout
    for more in ("read-write", "prefer-standby"):
        assert "rows       3000\n" in run("loader", "info", server.uri("rows", f"&{KEYS}&target_session_attrs={more}")).stdout
    uri = f"postgresql://tombola@127.0.0.1:{deaf},127.0.0.2:{closed},nowhere.invalid:1/postgres?connect_timeout=6"
    run_fails("loader", "info", uri, status=1, says=[
        "127.0.0.1, 127.0.0.1 does not answer within 6 s", "Connection refused", "nowhere.invalid has no address"])
    run_fails("loader", "info", "postgresql:///postgres?host=a,b&port=1,2,3", status=1, says="3 port numbers to 2 hosts")
    uri = f"postgresql://tombola:right%20one@/postgres?table=rows&host={server.folder}&port={server.port}&target_session_attrs=standby"
    run_fails("loader", "info", uri, status=1, says="server is not in hot standby mode")


def test_names_need_no_care(server, tmp_path):
    server.sql('CREATE SCHEMA "My Data"', 'CREATE TABLE "My Data"."the ""rows""" ("the id" int PRIMARY KEY, "la;bel" text, "drop table" int)',
               'INSERT INTO "My Data"."the ""rows""" VALUES (5, \'x\', 9), (6, \'y\', 8)')
    uri = server.uri("My%20Data.the%20%22rows%22", "&id=the%20id&label=la%3Bbel")
    assert "drop table" in run("loader", "info", uri).stdout
    assert frame(uri, tmp_path / "frame")


def test_a_killed_server_ends_a_build_with_nothing_left(server, tmp_path):
    server.sql("CREATE TABLE long AS SELECT g AS id, g % 10 AS label FROM generate_series(0, 3000000) g")

    def ends():
        building = Program("sampler", "build", "--store", server.uri("long"), "--out", tmp_path / "out", folder=tmp_path)
        building.wait_for_log(r"frame: \d+ rows")
        server.stop()
        status = building.wait()
        building.finish()
        server.start()
        if status == 0:  # who is late tries again
            (tmp_path / "out").unlink()
        return status and (status, building.stderr)

    status, said = wait_for(ends, "each build was through too soon")
    assert status == 1 and ("went away" in said or "terminat" in said), said
    assert not [name for name in os.listdir(tmp_path) if name.startswith("out")]
    assert frame(server.uri("long"), tmp_path / "out") == frame("range:3000001?labels=10", tmp_path / "range")


@pytest.mark.threads
def test_a_server_that_restarts_goes_unnoticed(server, csv, sampler, tmp_path):
    one = sampler("--store", f"csv:{csv}", "--seed", "4", "--epochs", "40")
    out = tmp_path / "rows.csv"
    with open(out, "wb") as file:
        pulling = subprocess.Popen([program("loader"), "pull", "--sampler", one.url, "--store", server.uri("rows", "&" + KEYS),
                                    "--size", "50"], stdout=file, stderr=subprocess.PIPE)
        deadline = time.monotonic() + PATIENCE_S
        while out.stat().st_size < 100000 and time.monotonic() < deadline:
            time.sleep(0.005)
        server.stop()
        time.sleep(0.5)
        server.start()
        _, errors = pulling.communicate(timeout=PATIENCE_S)
    assert pulling.returncode == 0, errors.decode()
    ids = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    assert len(ids) == 40 * ROWS
    for epoch in range(40):
        assert len(set(ids[epoch * ROWS:(epoch + 1) * ROWS])) == ROWS


def test_what_a_standby_breaks_off_is_asked_again(server, sampler):
    """Its recovery comes first, with this error, and says nothing of the rows."""
    server.sql("CREATE TABLE calm AS SELECT g AS id, g AS x FROM generate_series(0, 99) g", "CREATE SEQUENCE fetches",
               "CREATE FUNCTION recovers(x int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN"
               " IF current_setting('transaction_read_only') = 'off' AND nextval('fetches') = 50 THEN"
               " RAISE 'canceling statement due to conflict with recovery' USING ERRCODE = '40001'; END IF; RETURN x; END $$",
               "CREATE VIEW standby AS SELECT id, recovers(x) AS x FROM calm")
    one = sampler("--store", "range:100", "--seed", "4", "--epochs", "1")
    pulled = run("loader", "pull", "--sampler", one.url, "--store", server.uri("standby"), "--size", "10")
    assert "conflict with recovery" in pulled.stderr
    assert sorted(pulled.stdout.splitlines()[1:], key=lambda line: int(line.split(",")[0])) == [f"{row},0,{row}" for row in range(100)]


@pytest.mark.threads
def test_a_table_that_goes_ends_the_pull_at_once(server, csv, sampler, tmp_path):
    """Only a server that went away is asked again; one that answers with an error has answered."""
    server.sql("CREATE TABLE leaving AS SELECT * FROM rows", "ALTER TABLE leaving ADD PRIMARY KEY (id)")
    one = sampler("--store", f"csv:{csv}", "--seed", "4")
    errors = tmp_path / "errors"
    with open(errors, "wb") as log, subprocess.Popen(
            [program("loader"), "pull", "--sampler", one.url, "--store", server.uri("leaving", "&" + KEYS), "--size", "50"],
            stdout=subprocess.PIPE, stderr=log) as pulling:
        assert pulling.stdout.read(10000)  # it is on its way, and waits for the reader of the pipe
        server.sql("DROP TABLE leaving")
        pulling.communicate(timeout=PATIENCE_S)
    text = errors.read_text()
    assert pulling.returncode == 2, text
    assert 'leaving" does not exist' in text and "connecting again" not in text, text


@pytest.mark.threads
def test_columns_of_another_type_end_the_pull(server, sampler, tmp_path):
    """Four bytes are four bytes: an integer must not be read as the float that the column held."""
    server.sql("CREATE TABLE turning AS SELECT g AS id, g::real AS x FROM generate_series(0, 999) g",
               "ALTER TABLE turning ADD PRIMARY KEY (id)")
    one = sampler("--store", "range:1000", "--seed", "4")
    errors = tmp_path / "errors"
    with open(errors, "wb") as log, subprocess.Popen(
            [program("loader"), "pull", "--sampler", one.url, "--store", server.uri("turning"), "--size", "50"],
            stdout=subprocess.PIPE, stderr=log) as pulling:
        text = pulling.stdout.read(10000)  # it is on its way, and waits for the reader of the pipe
        server.sql("ALTER TABLE turning ALTER x TYPE int")
        text += pulling.stdout.read()
        pulling.wait(timeout=PATIENCE_S)
    assert pulling.returncode == 2, errors.read_text()
    assert "other types" in errors.read_text()
    rows = [line.split(",") for line in text.decode().splitlines()[1:-1]]
    assert rows and all(row[0] == row[-1] for row in rows)


def pull_on_its_way(url, uri, tmp_path, change):
    """Calls change() when a pull of this store has written some rows; all of them, and what it said when it failed."""
    errors = tmp_path / "errors"
    with open(errors, "wb") as log, subprocess.Popen(
            [program("loader"), "pull", "--sampler", url, "--store", uri, "--size", "50"], stdout=subprocess.PIPE, stderr=log) as pulling:
        text = pulling.stdout.read(10000)  # it is on its way, and waits for the reader of the pipe
        change()
        text += pulling.stdout.read()
        pulling.wait(timeout=PATIENCE_S)
    assert pulling.returncode == 2, errors.read_text()
    return [tuple(map(int, line.split(","))) for line in text.decode().splitlines()[1:-1]], errors.read_text()


def test_another_table_of_that_name_ends_the_pull(server, sampler, tmp_path):
    """Its ids and types are the same: rows of two tables in one epoch would go unnoticed."""
    for name, more in (("taken", 0), ("fresh", 1)):
        server.sql(f"CREATE TABLE {name} AS SELECT g AS id, g + {more} AS x FROM generate_series(0, 9999) g",
                   f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    one = sampler("--store", "range:10000", "--seed", "4", "--epochs", "5")
    rows, said = pull_on_its_way(one.url, server.uri("taken"), tmp_path,
                                 lambda: server.sql("BEGIN; DROP TABLE taken; ALTER TABLE fresh RENAME TO taken; COMMIT"))
    assert "table public.taken has been replaced since it was opened" in said
    assert rows and all(row[0] == row[-1] for row in rows)


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW", "PARTITIONED TABLE"])
def test_other_things_that_hold_rows(server, sampler, kind):
    """Their rows come from tables with other numbers."""
    server.sql("CREATE TABLE base AS SELECT g AS id, g + 1 AS x FROM generate_series(0, 99) g",
               *(["CREATE TABLE held (id int, x int) PARTITION BY RANGE (id)", "CREATE TABLE low PARTITION OF held FOR VALUES FROM (0) TO (50)",
                  "CREATE TABLE high PARTITION OF held FOR VALUES FROM (50) TO (100)", "INSERT INTO held SELECT * FROM base"]
                 if kind == "PARTITIONED TABLE" else [f"CREATE {kind} held AS SELECT * FROM base"]))
    one = sampler("--store", "range:100", "--seed", "4", "--epochs", "2")
    said = run("loader", "pull", "--sampler", one.url, "--store", server.uri("held")).stdout
    server.sql(f"DROP {kind.replace('PARTITIONED ', '')} held", "DROP TABLE base")
    assert sorted(said.splitlines()[1:]) == sorted(f"{row},0,{row + 1}" for row in range(100) for _ in range(2))


def test_another_server_ends_the_pull(server, sampler, tmp_path):
    """Its table may have the same number: the same statements made it."""
    folder = Path(tempfile.mkdtemp(prefix="tombola-postgres-"))
    try:
        other = Server(server.programs, folder)
        for one, more in ((server, 0), (other, 1)):
            one.sql(f"CREATE TABLE moving AS SELECT g AS id, g + {more} AS x FROM generate_series(0, 9999) g",
                    "ALTER TABLE moving ADD PRIMARY KEY (id)")
        sampled = sampler("--store", "range:10000", "--seed", "4", "--epochs", "5")
        uri = f"{server.uri('moving')}&host=127.0.0.1,127.0.0.1&port={server.port},{other.port}"
        rows, said = pull_on_its_way(sampled.url, uri, tmp_path, server.stop)
        other.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        server.start()
    assert "is another server than when it was opened" in said
    assert rows and all(row[0] == row[-1] for row in rows)


def test_a_row_that_comes_twice_ends_the_pull(server, sampler, tmp_path):
    """Inserted after the store was opened: nobody knows which of the two is meant."""
    server.sql("CREATE TABLE doubling AS SELECT g AS id, g % 256 AS x, g % 7 AS y, g % 11 AS z FROM generate_series(0, 9999) g")
    one = sampler("--store", "range:10000", "--seed", "4", "--epochs", "5")
    errors = tmp_path / "errors"
    with open(errors, "wb") as log, subprocess.Popen(
            [program("loader"), "pull", "--sampler", one.url, "--store", server.uri("doubling"), "--size", "50"],
            stdout=subprocess.PIPE, stderr=log) as pulling:
        assert pulling.stdout.read(10000)  # it is on its way, and waits for the reader of the pipe
        server.sql("INSERT INTO doubling SELECT id, 255 - x, y, z FROM doubling")
        pulling.communicate(timeout=PATIENCE_S)
    assert pulling.returncode == 2, errors.read_text()
    assert "comes twice" in errors.read_text()


@pytest.mark.threads
def test_sigterm_while_the_server_is_silent(server, tmp_path):
    server.sql("CREATE OR REPLACE VIEW slow AS SELECT 1 AS id, (SELECT 2 FROM pg_sleep(600)) AS label")
    building = Program("sampler", "build", "--store", server.uri("slow"), "--out", tmp_path / "out", folder=tmp_path)
    time.sleep(0.5)
    start = time.monotonic()
    building.stop()
    assert time.monotonic() - start < PATIENCE_S / 4
    building.finish()
    assert not (tmp_path / "out").exists()


def test_labels_are_the_same_in_every_time_zone(server, tmp_path):
    """Of the session, which may be the role's or PGTZ: frames and loaders may run anywhere."""
    server.sql("CREATE TABLE zoned (id int PRIMARY KEY, label timestamptz, a int)",
               "INSERT INTO zoned VALUES (1, '2020-01-02 00:30+00', 1), (2, '2020-07-02 12:00+00', 2)")
    frames = []
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        done = run("sampler", "build", "--store", server.uri("zoned"), "--out", tmp_path / "frame", env={"PGTZ": zone})
        frames.append(done.stdout.split()[-1])
        assert "2020-01-02 00:30:00+00" in run("loader", "info", server.uri("zoned"), env={"PGTZ": zone}).stdout
    assert len(set(frames)) == 1


def test_timeouts_of_a_role(server, csv, tmp_path):
    """Long work sets its own; what waits for a lock says which setting ended it."""
    server.sql("CREATE VIEW slow_rows AS SELECT rows.* FROM rows, (SELECT pg_sleep(0.5)) AS slept",
               "CREATE FUNCTION rest() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.5); END'",
               "CREATE ROLE hasty LOGIN SUPERUSER PASSWORD 'right one'", "ALTER ROLE hasty SET statement_timeout = 200",
               "ALTER ROLE hasty SET lock_timeout = 200", "ALTER ROLE hasty SET idle_in_transaction_session_timeout = 200")
    slow = server.uri("slow_rows", "&" + KEYS).replace("tombola:", "hasty:")
    assert digest(slow) == digest(server.uri("rows", "&" + KEYS))
    assert f"{ROWS} units" in run("sampler", "build", "--store", slow, "--out", tmp_path / "slow.frame").stdout
    made = server.uri("made").replace("tombola:", "hasty:")
    server.sql("CREATE EVENT TRIGGER resting ON ddl_command_end EXECUTE FUNCTION rest()")
    try:
        run("loader", "import", f"csv:{csv}?{KEYS}", made)
    finally:
        server.sql("DROP EVENT TRIGGER resting")
    holder = subprocess.Popen(["psql", "-q", "-X", "-h", str(server.folder), "-p", str(server.port), "-U", "tombola", "postgres"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        holder.stdin.write("BEGIN; LOCK TABLE made;\n\\echo held\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "held\n"
        run_fails("loader", "import", f"csv:{csv}?{KEYS}", made, "--force", status=1, says=["lock timeout", "options=-c%20lock_timeout%3D0"])
        run_fails("loader", "import", f"csv:{csv}?{KEYS}", made + "&options=-c%20lock_timeout%3D100", "--force", status=1, says="lock timeout")
    finally:
        holder.stdin.close()
        holder.wait(PATIENCE_S)
    run("loader", "import", f"csv:{csv}?{KEYS}", made, "--force")


def test_a_server_may_work_for_more_than_a_minute(server, csv, tmp_path):
    """With --long; its silence is not taken for that of a dead one."""
    server.sql(f"CREATE VIEW sorting AS SELECT rows.* FROM rows, (SELECT pg_sleep({62 if LONG else 1})) AS slept")
    built = run("sampler", "build", "--store", server.uri("sorting", "&" + KEYS), "--out", tmp_path / "sorted.frame", timeout=2 * PATIENCE_S)
    assert f"{ROWS} units" in built.stdout


@pytest.fixture
def stalling(server):
    """The port of a proxy before the server; with --long it stays silent on a connection after a megabyte."""
    ends = threading.Event()

    def hand_on(source, target, most):
        while most > 0 and (piece := source.recv(1 << 16)):
            target.sendall(piece)
            most -= len(piece)
        ends.wait()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(("127.0.0.1", server.port)) as behind:
                for source, target, most in ((self.request, behind, 1 << 40), (behind, self.request, 1 << (20 if LONG else 40))):
                    threading.Thread(target=hand_on, args=(source, target, most), daemon=True).start()
                ends.wait()

    proxy = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    yield proxy.server_address[1]
    ends.set()
    proxy.shutdown()
    proxy.server_close()


def test_a_connection_that_stalls_is_given_up(server, stalling, tmp_path):
    """With --long; the server then waits for its reader, which does not count as work."""
    server.sql("CREATE VIEW thirty_megabytes AS SELECT i AS id, repeat('x', 1000) || i % 7 AS label FROM generate_series(1, 30000) AS i")
    uri = server.uri("thirty_megabytes").replace(f":{server.port}/", f":{stalling}/")
    command = ["sampler", "build", "--store", uri, "--out", tmp_path / "wide.frame"]
    if LONG:
        run_fails(*command, status=1, says="does not answer", timeout=2 * PATIENCE_S)
    else:
        assert "30000 units" in run(*command).stdout
