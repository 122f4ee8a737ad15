# SPDX-License-Identifier: MIT
"""tombola-loader import and info: the same rows in every store, and what happens when input, disk or
the user is not as one would wish."""

import bz2
import contextlib
import ctypes
import fcntl
import gzip
import json
import os
import re
import resource
import signal
import sqlite3
import struct
import subprocess

import pytest

from conftest import PATIENCE_S, environment, program, run, run_fails, wait_for

CLASSIC = "label=0&header=no"
FILES = pytest.mark.parametrize("file", ["a.db", "a.rows"])  # what import makes
POWERLESS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []  # root may read everything


def info(uri, *more):
    return json.loads(run("loader", "info", uri, "--json", *more).stdout)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def left_behind(folder, name):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith(name))


# ---- what info says ----------------------------------------------------------------------------------


def test_info_of_csv(tmp_path):
    path = write(tmp_path, "people.csv", "id,label,height,age\n7,tall,1.9,30\n9,small,1.5,41\n11,tall,2,7\n")
    found = info(path)
    assert found["rows"] == 3
    assert found["features"] == 2
    assert found["element"] == "f32"
    assert found["columns"] == ["height", "age"]
    assert found["label_kind"] == "text"
    assert found["labels"] == [{"label": "small", "rows": 1}, {"label": "tall", "rows": 2}]
    assert found["id_column"] == "id" and found["label_column"] == "label"
    text = run("loader", "info", path).stdout
    assert "rows       3\n" in text
    assert "2 of f32" in text
    assert "height, age" in text


def test_info_of_classic_csv(demo):
    found = info(f"csv:{demo}/mnist_train.csv?{CLASSIC}")
    assert found["rows"] == 2000
    assert found["features"] == 784 and found["element"] == "u8"
    assert found["columns"][0] == "1" and found["columns"][-1] == "784"
    assert found["id_column"] is None
    assert found["label_kind"] == "integer"
    assert [one["label"] for one in found["labels"]] == list(range(10))
    assert sum(one["rows"] for one in found["labels"]) == 2000


def test_whole_labels_are_integers_to_their_last_digit(tmp_path):
    path = write(tmp_path, "wide.csv", "label,x\n-9223372036854775808,1\n9223372036854775807,2\n-3,3\n")
    found = info(path)
    assert found["label_kind"] == "integer"
    assert [one["label"] for one in found["labels"]] == [-(2**63), -3, 2**63 - 1]
    found = info(write(tmp_path, "zeros.csv", "label,x\n01,1\n1,2\n"))
    assert found["label_kind"] == "text" and [one["label"] for one in found["labels"]] == ["01", "1"]


def test_names_that_differ_in_case(sampler, tmp_path):
    """The same rows, whatever holds them; the sampler takes them alike."""
    rows = "ID,Label,X\n7,cat,1\n9,dog,2\n"
    path = write(tmp_path, "UPPER.CSV", rows)
    with sqlite3.connect(tmp_path / "UPPER.DB") as database:
        database.execute("CREATE TABLE t(ID INTEGER, Label TEXT, X INTEGER)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", [line.split(",") for line in rows.splitlines()[1:]])
    for uri in (path, tmp_path / "UPPER.DB", f"{path}?id=id&label=LABEL", f"{tmp_path}/UPPER.DB?id=id&label=LABEL"):
        found = info(uri)
        assert (found["id_column"], found["label_column"], found["columns"]) == ("ID", "Label", ["X"])
        batch = sampler("--store", uri, "--seed", 1).batch("size=2")
        assert dict(zip(batch["ids"], batch["labels"])) == {7: "cat", 9: "dog"}
    two = write(tmp_path, "two.csv", "Label,LABEL,x\n1,2,3\n")
    for name, command in (("loader", ["info", two]), ("sampler", ["build", "--out", tmp_path / "f", "--store", two])):
        run_fails(name, *command, says=['"Label" and "LABEL"', "label=NAME"])
    run("loader", "import", path, tmp_path / "NEW.DB")
    assert info(tmp_path / "NEW.DB")["rows"] == 2


@pytest.mark.parametrize("kind", ["rows", "sqlite"])
def test_import_does_not_write_to_standard_output(tmp_path, kind):
    path = write(tmp_path, "a.csv", "label,x\n1,2\n")
    run_fails("loader", "import", path, f"{kind}:-", cwd=tmp_path, says=[f"{kind}:- does not name a file", "standard output", f"({kind}:./-"])
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    run("loader", "import", path, f"{kind}:./-", cwd=tmp_path)
    assert info(f"{kind}:{tmp_path}/-")["rows"] == 1


def test_generated_columns_are_columns(sampler, tmp_path):
    uri = f"sqlite:{tmp_path}/made.db?id=code&label=kind"
    with sqlite3.connect(tmp_path / "made.db") as database:
        database.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, a INT, code INT AS (n * 10), kind TEXT AS ('k' || (a % 2)) STORED, b REAL AS (a / 2.0))")
        database.executemany("INSERT INTO t(n, a) VALUES (?, ?)", [(i, i) for i in range(40)])
    found = info(uri)
    assert found["columns"] == ["n", "a", "b"] and [one["label"] for one in found["labels"]] == ["k0", "k1"]
    server = sampler("--store", uri, "--seed", 1, "--epochs", 1)
    lines = run("loader", "pull", "--sampler", server.url, "--store", uri).stdout.splitlines()
    assert lines[0] == "id,label,n,a,b"
    assert sorted(lines[1:], key=lambda line: int(line.split(",")[0])) == [f"{10 * i},k{i % 2},{i},{i},{i / 2:g}" for i in range(40)]


def test_more_columns_than_a_statement_takes(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "wide.db")) as database:
        most = database.getlimit(sqlite3.SQLITE_LIMIT_COLUMN)
        for name, features in (("fits", most - 4), ("wide", most - 2)):
            columns = [f"c{i}" for i in range(features)]
            database.execute(f"CREATE TABLE {name}(id INTEGER PRIMARY KEY, label INT, {', '.join(columns)})")
            database.execute(f"INSERT INTO {name} VALUES (7, 1, {', '.join('3' for _ in columns)})")
        database.commit()
    assert info(f"sqlite:{tmp_path}/wide.db?table=fits", "--verify")["features"] == most - 4
    wide = f"sqlite:{tmp_path}/wide.db?table=wide"
    run_fails("loader", "info", wide, says=[f"has {most - 2} columns of features, and SQLite reads at most {most - 4} at once"])
    assert info(f"{wide}&features=c0,c{most - 3}", "--verify")["features"] == 2
    run("sampler", "build", "--store", wide, "--out", tmp_path / "wide.frame")


def test_links_to_a_database(tmp_path):
    """As SQLite follows them: what a writer leaves is beside the file, and import writes to the file."""
    real, link = tmp_path / "real" / "rows.db", tmp_path / "links" / "rows.db"
    real.parent.mkdir()
    link.parent.mkdir()
    run("loader", "import", write(tmp_path, "rows.csv", "id,label,x\n4,1,2\n5,0,3\n"), real)
    with contextlib.closing(sqlite3.connect(real)) as database:
        database.execute("CREATE TABLE other(a INT)")
    link.symlink_to("../real/rows.db")
    assert info(link)["rows"] == 2
    (tmp_path / "real" / "rows.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    run_fails("loader", "info", link, says="rows.db-journal exists")
    run_fails("loader", "import", tmp_path / "rows.csv", link, "--force", says="rows.db-journal exists")
    (tmp_path / "real" / "rows.db-journal").unlink()
    run("loader", "import", write(tmp_path, "more.csv", "id,label,x\n4,1,2\n5,0,3\n6,1,1\n"), link, "--force")
    assert link.is_symlink() and info(real)["rows"] == 3
    with contextlib.closing(sqlite3.connect(real)) as database:
        assert database.execute("SELECT name FROM sqlite_master WHERE name = 'other'").fetchall()
    assert [one.name for one in real.parent.iterdir()] == ["rows.db"] and len([*link.parent.iterdir()]) == 1


@FILES
def test_a_link_to_nothing_is_not_replaced(tmp_path, file):
    csv, link = write(tmp_path, "rows.csv", "id,label,x\n4,1,2\n"), tmp_path / file
    link.symlink_to("other/disk")
    for force in ([], ["--force"]):
        run_fails("loader", "import", *force, csv, link, says=f"{file} is a symbolic link to a file that does not exist")
    assert link.is_symlink()
    (tmp_path / "other").mkdir()
    write(tmp_path, "other/disk", "")
    run("loader", "import", csv, link)
    assert link.is_symlink() and info(link)["rows"] == 1


def test_a_file_that_is_given_twice(tmp_path):
    path = write(tmp_path, "p0.csv", "id,label,x\n4,1,2\n")
    (tmp_path / "p1.csv").symlink_to(path)
    run_fails("sampler", "build", "--store", path, "--store", path, "--out", tmp_path / "f", says="p0.csv is given twice")
    run_fails("loader", "info", f"csv:{tmp_path}/p*.csv", says=["p0.csv and ", "p1.csv are the same file"])


def test_the_index_that_pandas_writes(tmp_path):
    path = write(tmp_path, "pandas.csv", ",label,x\n7,a,1\n9,b,2\n")
    done = run("loader", "info", path, "--json")
    assert json.loads(done.stdout)["columns"] == ["0", "x"]
    assert done.stderr.count('column 0 (counted from 0) has no name in the header: it is called "0"') == 1
    assert "id=0 makes it the id" in done.stderr
    done = run("loader", "info", f"csv:{path}?id=0", "--json")
    assert json.loads(done.stdout)["id_column"] == "0" and json.loads(done.stdout)["columns"] == ["x"]
    assert "warn" not in done.stderr


def test_a_table_without_keys_gives_the_same_rows(tmp_path):
    path = tmp_path / "pandas.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE samples(id INTEGER, label INTEGER, x REAL)")
        database.executemany("INSERT INTO samples VALUES (?,?,?)", [(i * 37 % 101, i % 10, i / 4) for i in range(101)])
    run("loader", "import", path, tmp_path / "own.db")
    assert info(path, "--verify")["rows"] == 101
    with sqlite3.connect(tmp_path / "own.db") as database:
        assert database.execute("SELECT id, label FROM samples ORDER BY id").fetchall() == sorted(
            (i * 37 % 101, i % 10) for i in range(101))


def test_frames_need_not_know_what_blobs_hold(tmp_path):
    path = tmp_path / "floats.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE samples(id INTEGER PRIMARY KEY, label, features BLOB)")
        database.executemany("INSERT INTO samples VALUES (?,?,?)", [(i, i % 2, struct.pack("<2f", i / 7, 1.5)) for i in range(20)])
    run_fails("loader", "info", path, status=2, says="element=f32 or element=u8")
    run("sampler", "build", "--store", path, "--out", tmp_path / "frame")


@pytest.mark.parametrize("name", ["rowid", "RowId"])
def test_a_column_called_rowid_is_a_column(name, tmp_path):
    """As for SQLite, which finds it by that name: it is the id then, and no feature."""
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.executescript(f"CREATE TABLE t({name}, label, a); INSERT INTO t VALUES (9, 1, 2), (8, 0, 3);"
                               f"CREATE TABLE u({name}, label, a); INSERT INTO u VALUES (9, 1, 2), (9, 0, 3);"
                               "CREATE TABLE w(id INTEGER PRIMARY KEY, label, a) WITHOUT ROWID; INSERT INTO w VALUES (1, 1, 2)")
    database.close()
    found = info(f"sqlite:{tmp_path}/a.db?table=t&id=rowid")
    assert (found["columns"], found["id_column"]) == (["a"], name)
    run_fails("loader", "info", f"sqlite:{tmp_path}/a.db?table=u&id=rowid", status=2, says="has the id 9 twice")
    for more in ("", "&id="):
        done = run_fails("loader", "info", f"sqlite:{tmp_path}/a.db?table=t{more}", status=2, says="id= must name the column of the ids")
        assert "id=rowid" not in done.stderr, "which is the column"
    run_fails("loader", "info", f"sqlite:{tmp_path}/a.db?table=w&id=rowid", status=2, says="has no row numbers (it is WITHOUT ROWID)")


def test_a_view_is_not_passed_over(tmp_path):
    path = tmp_path / "view.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE raw(id INTEGER PRIMARY KEY, label, x)")
        database.execute("INSERT INTO raw VALUES (1,1,1), (2,2,2), (3,3,3)")
        database.execute("CREATE VIEW samples AS SELECT * FROM raw WHERE x > 1")
    assert info(path)["rows"] == 2
    assert info(f"sqlite:{path}?table=samples")["rows"] == 2
    assert info(f"sqlite:{path}?table=raw")["rows"] == 3


def test_info_of_a_store_without_labels(tmp_path):
    found = info(write(tmp_path, "plain.csv", "a,b\n1,2\n3,4\n"))
    assert found["label_kind"] == "none" and found["labels"] == [] and found["label_column"] is None


def test_info_masks_what_would_act_on_a_terminal(tmp_path):
    csv = write(tmp_path, "list.csv", 'label,a\x1b[2J,b,c,d\n"x\x1b[2J\x7f\u009by",1,2,3,4\nb,2,2,2,2\n')
    shown = run("loader", "info", f"csv:{csv}").stdout
    assert "columns    a?[2J, b, c, d\n" in shown and "  x?[2J???y " in shown
    found = json.loads(run("loader", "info", "--json", f"csv:{csv}").stdout)
    assert found["labels"][1]["label"] == "x\x1b[2J\x7f\u009by"


def test_info_to_a_full_disk_is_a_failure(tmp_path):
    path = write(tmp_path, "plain.csv", "a,b\n1,2\n3,4\n")
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([program("loader"), "info", path], stdout=full, stderr=subprocess.PIPE,
                              env=environment(), timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert b"standard output" in done.stderr


# ---- import keeps every bit --------------------------------------------------------------------------


@FILES
@pytest.mark.threads
def test_import_gives_the_same_rows(demo, tmp_path, file):
    csv = f"csv:{demo}/mnist_train.csv?{CLASSIC}"
    run("loader", "import", csv, tmp_path / file)
    one, other = info(csv, "--verify"), info(tmp_path / file, "--verify")
    assert one["digest"] == other["digest"]
    for key in ("rows", "features", "element", "labels", "columns", "label_kind"):
        assert one[key] == other[key]
    assert left_behind(tmp_path, "a") == [file]


def test_import_of_a_database_gives_the_same_rows(demo_database, tmp_path):
    run("loader", "import", demo_database, f"sqlite:{tmp_path}/copy.db?table=other")
    found = info(tmp_path / "copy.db", "--verify")
    assert found["digest"] == info(demo_database, "--verify")["digest"]
    with sqlite3.connect(tmp_path / "copy.db") as database:
        assert database.execute("SELECT count(*) FROM other").fetchone() == (2000,)


def test_imported_rows_are_what_sqlite_shows(tmp_path):
    csv = write(tmp_path, "w.csv", 'id,label,w,g,a,b\n5,"x, y",0.1,u,1,2\n2,\u00e4,2.5,v,3,255\n')
    run("loader", "import", f"csv:{csv}?weight=w&group=g", tmp_path / "w.db")
    with sqlite3.connect(tmp_path / "w.db") as database:
        rows = database.execute('SELECT id, label, weight, "group", features FROM samples ORDER BY id').fetchall()
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert rows == [(2, "\u00e4", 2.5, "v", b"\x03\xff"), (5, "x, y", 0.1, "u", b"\x01\x02")]
    found = info(tmp_path / "w.db")
    assert found["weight_column"] == "weight" and found["group_column"] == "group"


@FILES
def test_import_of_units_without_features(tmp_path, file):
    run("loader", "import", "range:1000?labels=3", tmp_path / file)
    found = info(tmp_path / file)
    assert found["rows"] == 1000 and found["features"] == 0
    assert [one["rows"] for one in found["labels"]] == [334, 333, 333]


def test_the_real_mnist(mnist, tmp_path):
    csv = f"csv:{mnist}/mnist_train.csv?{CLASSIC}"
    run("loader", "import", csv, tmp_path / "mnist.db")
    found = info(tmp_path / "mnist.db", "--verify")
    assert found["digest"] == info(csv, "--verify")["digest"]
    assert found["rows"] == 60000 and found["features"] == 784 and found["element"] == "u8"
    assert [one["rows"] for one in found["labels"]] == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def test_damage_after_import_is_found(demo_database, tmp_path):
    copy = tmp_path / "copy.db"
    run("loader", "import", demo_database, copy)
    content = bytearray(copy.read_bytes())
    with sqlite3.connect(copy) as database:
        features = database.execute("SELECT features FROM samples WHERE id = 1000").fetchone()[0]
    at = content.find(features)
    assert at > 0
    content[at + 400] ^= 1
    copy.write_bytes(content)
    run_fails("loader", "info", copy, "--verify", says="is damaged: its rows have the digest")


def test_a_row_file_goes_on_to_a_table(demo, tmp_path):
    """And back, with all that it says of itself."""
    csv = write(tmp_path, "w.csv", 'key,kind,w,g,a,b\n500,"x, y",0.1,u,1,2.5\n2,\u00e4,2.5,v,3,-255\n')
    run("loader", "import", f"csv:{csv}?weight=w&group=g&id=key&label=kind", tmp_path / "one.rows")
    run("loader", "import", tmp_path / "one.rows", tmp_path / "two.db")
    run("loader", "import", tmp_path / "two.db", f"rows:{tmp_path}/three")
    found = [info(uri, "--verify") for uri in (tmp_path / "one.rows", tmp_path / "two.db", f"rows:{tmp_path}/three")]
    assert len({one["digest"] for one in found}) == 1 and found[0]["element"] == "f32"
    assert [found[0][f"{what}_column"] for what in ("id", "label", "weight", "group")] == ["key", "kind", "w", "g"]
    assert [one["label"] for one in found[2]["labels"]] == ["x, y", "\u00e4"]


def test_a_row_that_is_damaged_is_named(demo_rows, sampler, tmp_path):
    """Whatever bad rows are to be: it is no row that somebody wrote so."""
    content = bytearray(open(demo_rows[5:], "rb").read())
    (rows_at, row_bytes) = (int.from_bytes(content[at:at + 8], "little") for at in (24, 80))
    first, last = rows_at + 1000 * row_bytes, rows_at + 1001 * row_bytes - 1
    content[first + 500] ^= 1
    damaged = write(tmp_path, "damaged.rows", bytes(content))
    where = f"damaged.rows: row 1000 (id 1000, bytes {first} to {last}) is damaged"
    run_fails("loader", "info", damaged, "--verify", says=where)
    run_fails("loader", "import", damaged, tmp_path / "copy.db", says=where)
    server = sampler("--store", damaged, "--seed", 1, "--epochs", 1)
    run_fails("loader", "pull", "--sampler", server.url, "--store", damaged, says=where)


# ---- bad input ---------------------------------------------------------------------------------------

BAD_CSV = {
    "empty": ("", "is empty"),
    "header only": ("label,a\n", "a header and no rows"),
    "ragged": ("label,a\n1,2\n3\n", "line 3: the row has 1 field, the header has 2"),
    "text for a number": ("label,a\n1,2\n3,four\n", 'line 3: column "a" is "four"; a number belongs there'),
    "empty field": ("label,a\n1,2\n3,\n", 'line 3: column "a" is empty'),
    "too large": ("label,a\n1,1e39\n", "32-bit float"),
    "duplicate id": ("id,label,a\n4,1,2\n4,1,3\n", "lines 2 and 3 both have the id 4"),
    "negative id": ("id,label,a\n-4,1,2\n", "an id from 0 to 9223372036854775807"),
    "id too large": ("id,label,a\n9223372036854775808,1,2\n", "an id from 0 to"),
    "no label": ("label,a\n,2\n", 'column "label" is empty'),
    "open quote": ('label,a\n"1,2\n', "never closed"),
    "stray quote": ('label,a\n1"2,2\n', "quote"),
    "NUL": (b"label,a\nx\0y,2\n", "UTF-8 text without NUL belongs there (NUL bytes"),
    "NUL in a number": (b"label,a\n1,2\n1,\0\0\0\n", "a number belongs there (NUL bytes"),
    "UTF-16 without a mark": ("label,a\n1,2\n".encode("utf-16-le"), "iconv -f UTF-16LE"),
    "no UTF-8": (b"label,a\n\xff,2\n", "UTF-8"),
    "UTF-16": ("label,a\n1,2\n".encode("utf-16"), "UTF-16"),
    "compressed, cut off": (gzip.compress(b"label,a\n1,2\n")[:-1], "in the middle of its gzip data"),
    "compressed, damaged": (gzip.compress(b"label,a\n1,2\n")[:-8] + bytes(8), "incorrect data check"),
    "compressed, and more": (gzip.compress(b"label,a\n1,2\n") + b"1,2\n", "a gzip member ends here, and what follows is not another one"),
    "compressed with bzip2": (bz2.compress(b"label,a\n1,2\n"), "unpack it first (bzip2 -d)"),
    "old Mac": ("label,a\r1,2\r", "carriage return"),
    "same name twice": ("label,a,a\n1,2,3\n", "twice"),
    "no header": ("5,0,1\n7,0,2\n", "header=no"),
}


@pytest.mark.parametrize("kind", BAD_CSV)
def test_bad_csv(kind, tmp_path):
    content, says = BAD_CSV[kind]
    path = write(tmp_path, "bad.csv", content)
    run_fails("loader", "info", path, says=[says, "bad.csv"])
    run_fails("loader", "import", path, tmp_path / "out.db", says=[says, "bad.csv"])
    assert left_behind(tmp_path, "out") == []


BAD_URIS = {
    "missing": ("csv:{}/absent.csv", "absent.csv"),
    "folder for a shell": ("csv:~/absent.csv", "a shell replaces ~ only where a word begins"),
    "empty folder": ("csv:{}/empty", "a folder without files"),
    "pattern without a match": ("csv:{}/absent-*.csv", "no file"),
    "unknown column": ("csv:{}/good.csv?label=kind", 'label="kind" names no column; there are "label", "a"'),
    "unknown parameter": ("csv:{}/good.csv?lable=a", "did you mean label?"),
    "bad boolean": ("csv:{}/good.csv?header=maybe", "yes or no"),
    "unknown ending": ("{}/good.xyz", "which kind of store"),
    "no database": ("sqlite:{}/good.csv", "is not an SQLite 3 file"),
    "no row file": ("rows:{}/good.csv", "good.csv is not a row file"),
    "missing row file": ("rows:{}/absent.rows", "absent.rows"),
    "parameter of a row file": ("rows:{}/good.csv?label=x", 'unknown parameter "label"'),
    "missing database": ("sqlite:{}/absent.db", "absent.db"),
}


@pytest.mark.parametrize("kind", BAD_URIS)
def test_bad_uris(kind, tmp_path):
    uri, says = BAD_URIS[kind]
    (tmp_path / "empty").mkdir()
    write(tmp_path, "good.csv", "label,a\n1,2\n")
    run_fails("loader", "info", uri.format(tmp_path), says=says)
    run_fails("loader", "import", uri.format(tmp_path), tmp_path / "out.db", says=says)
    assert left_behind(tmp_path, "out") == []


def test_bad_databases(demo_database, tmp_path):
    whole = tmp_path / "whole.db"
    run("loader", "import", demo_database, whole)
    content = whole.read_bytes()
    run_fails("loader", "info", write(tmp_path, "cut.db", content[: len(content) // 2]), says="is cut off")
    run_fails("loader", "info", write(tmp_path, "short.db", content[:50]), says="only 50 bytes")
    run_fails("loader", "info", write(tmp_path, "none.db", ""), says="is empty")
    run_fails("loader", "info", f"sqlite:{whole}?table=other", says='no table "other"; it has "samples"')
    run_fails("loader", "info", f"sqlite:{whole}?label=kind", says='label="kind" names no column')
    database = sqlite3.connect(whole)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE more (x)")
    database.commit()
    run_fails("loader", "info", whole, says="whole.db-wal exists: a program is writing to the file")
    database.close()  # cleanly: the log is written back
    assert info(f"sqlite:{whole}?table=samples")["rows"] == info(demo_database)["rows"]


def test_a_database_in_use_is_refused(tmp_path):
    path = tmp_path / "busy.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    database.execute("INSERT INTO t VALUES (1, 2)")
    database.commit()
    database.execute("PRAGMA cache_size=1")
    database.execute("INSERT INTO t SELECT value + 2, value FROM (WITH RECURSIVE n(value) AS (SELECT 0 UNION ALL "
                     "SELECT value + 1 FROM n WHERE value < 20000) SELECT value FROM n)")
    run_fails("loader", "info", path, says="busy.db")
    database.rollback()
    database.close()
    assert info(path)["rows"] == 1


@pytest.mark.parametrize("arguments", [["info"], ["info", "a", "b"], ["import", "a"], ["import"], ["frobnicate"],
                                       ["info", "a.csv", "--josn"], ["import", "a.csv", "b.csv"],
                                       ["import", "a.csv", "sqlite:b?table=tombola"],
                                       ["import", "a.csv", "sqlite:b?tabel=x"], ["import", "a.csv", "rows:b?table=x"]])
def test_bad_usage(arguments, tmp_path):
    write(tmp_path, "a.csv", "label,a\n1,2\n")
    done = run("loader", *arguments, status=2, cwd=tmp_path)
    assert done.stderr.strip() and not done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv"]


@pytest.mark.parametrize("name", ["a.csv", "a.db", "a.rows", "folder", "part-*.csv"])
def test_what_may_not_be_read_is_like_what_is_not_there(name, tmp_path):
    """Status 2."""
    (tmp_path / "folder").mkdir()
    for file in ("a.csv", "part-1.csv", "folder/b.csv"):
        write(tmp_path, file, "label,a\n1,2\n")
    for file in ("a.db", "a.rows"):
        run("loader", "import", tmp_path / "a.csv", tmp_path / file)
    run("sampler", "build", "--store", tmp_path / "a.csv", "--out", tmp_path / "a.frame")
    for file in ("part-1.csv" if "part" in name else name, "a.frame"):
        (tmp_path / file).chmod(0)
    store = f"csv:{tmp_path}/{name}" if "." not in name or "*" in name else f"{tmp_path}/{name}"
    commands = [("loader", "info", store), ("loader", "import", store, f"{tmp_path}/new.rows"), ("sampler", "info", f"{tmp_path}/a.frame"),
                *(("sampler", "serve", "--listen", "127.0.0.1:0", *options)
                  for options in (("--store", store), ("--frame", f"{tmp_path}/a.frame"), ("--config", f"{tmp_path}/a.frame"),
                                  ("--store", "range:9", "--token-file", f"{tmp_path}/a.frame")))]
    for which, *arguments in commands:
        done = subprocess.run([*POWERLESS, program(which), *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                              env=environment())
        assert (done.returncode, done.stdout) == (2, "") and "Permission denied" in done.stderr, done.stderr
        assert f"{tmp_path}/" in done.stderr
    (tmp_path / "folder").chmod(0o700)


@pytest.mark.parametrize("file, more", [("a.db", []), ("a.db", ["--force"]), ("a.rows", [])])
def test_import_replaces_nothing_that_it_may_not_read(file, more, tmp_path):
    """It may hold other tables."""
    path = write(tmp_path, "a.csv", "label,a\n1,2\n")
    run("loader", "import", path, tmp_path / file)
    before = (tmp_path / file).read_bytes()
    (tmp_path / file).chmod(0)
    done = subprocess.run([*POWERLESS, program("loader"), "import", path, tmp_path / file, *more], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, env=environment())
    assert done.returncode == 1 and "Permission denied" in done.stderr and "--force" not in done.stderr, done.stderr
    (tmp_path / file).chmod(0o600)
    assert (tmp_path / file).read_bytes() == before


# ---- all or nothing ----------------------------------------------------------------------------------


@FILES
def test_import_again_replaces_what_it_made(tmp_path, file):
    path = write(tmp_path, "a.csv", "label,a\n1,2\n")
    run("loader", "import", path, tmp_path / file)
    write(tmp_path, "a.csv", "label,a\n1,2\n3,4\n")
    run("loader", "import", path, tmp_path / file)
    assert info(tmp_path / file)["rows"] == 2


def test_import_spares_what_it_did_not_make(tmp_path):
    csv = write(tmp_path, "a.csv", "label,a\n1,2\n")
    diary = write(tmp_path, "diary.db", "dear diary")
    run_fails("loader", "import", csv, diary, says=["diary.db exists", "--force"])
    assert diary.read_text() == "dear diary"
    run("loader", "import", csv, diary, "--force")
    assert info(diary)["rows"] == 1
    with sqlite3.connect(diary) as database:
        database.execute("UPDATE samples SET label = 9")
    run_fails("loader", "import", csv, diary, says="diary.db exists")


def test_import_spares_what_is_no_row_file(tmp_path):
    csv = write(tmp_path, "a.csv", "label,a\n1,2\n")
    diary = write(tmp_path, "diary.rows", "dear diary")
    run_fails("loader", "import", csv, diary, says=["diary.rows exists", "--force"])
    assert diary.read_text() == "dear diary"
    run("loader", "import", csv, diary, "--force")
    assert info(diary)["rows"] == 1
    link = tmp_path / "link.rows"
    link.symlink_to(diary)
    run("loader", "import", write(tmp_path, "b.csv", "label,a\n1,2\n3,4\n"), link)
    assert link.is_symlink() and info(diary)["rows"] == 2


def test_import_spares_what_it_reads(tmp_path):
    """With --force, too, and under another name; a table beside it may come from it."""
    csv = write(tmp_path, "part-1.csv", "label,a,b\n1,2,3\n3,4,5\n")
    write(tmp_path, "part-2.csv", "label,a,b\n5,6,7\n")
    run("loader", "import", csv, tmp_path / "made.rows")
    (tmp_path / "link.csv").symlink_to(csv)
    with contextlib.closing(sqlite3.connect(tmp_path / "own.db")) as database, database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, label TEXT, a REAL, note TEXT)")
        database.execute("INSERT INTO t VALUES (1, 'x', 2.5, 'dear')")
        database.execute("CREATE TABLE more AS SELECT 2 AS id, label, a, note FROM t")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    own = f"sqlite:{tmp_path}/own.db?table=t&features=a"
    both = own + "&id=id\n" + own.replace("table=t", "table=more&id=id")
    for source, destination, says in (
            (csv, f"rows:{csv}", "part-1.csv is what is imported from"),
            (csv, f"rows:{tmp_path}/link.csv", "part-1.csv is what is imported from"),
            (f"csv:{tmp_path}/part-*.csv?label=label", f"sqlite:{tmp_path}/part-2.csv", "part-2.csv is what is imported from"),
            (f"{csv}\n{tmp_path}/part-2.csv", f"rows:{tmp_path}/part-2.csv", "part-2.csv is what is imported from"),
            (tmp_path / "made.rows", tmp_path / "made.rows", "made.rows is what is imported from"),
            (own, f"rows:{tmp_path}/own.db", "own.db, table t is what is imported from"),
            (own, f"sqlite:{tmp_path}/own.db?table=T", "own.db, table t is what is imported from"),
            (both, f"sqlite:{tmp_path}/own.db?table=t", "own.db, table t is what is imported from"),
            (both, f"sqlite:{tmp_path}/own.db?table=more", "own.db, table more is what is imported from"),
            (both, f"rows:{tmp_path}/own.db", "own.db, table t is what is imported from")):
        run_fails("loader", "import", source, destination, "--force", says=says)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    run_fails("loader", "import", tmp_path / "made.rows", tmp_path / "made.rows", says="made.rows is what is imported from")
    run("loader", "import", own, f"sqlite:{tmp_path}/own.db?table=copy", "--force")
    with contextlib.closing(sqlite3.connect(tmp_path / "own.db")) as database:
        assert database.execute("SELECT note FROM t").fetchall() == [("dear",)]
    assert info(f"sqlite:{tmp_path}/own.db?table=copy")["rows"] == 1
    run("loader", "import", both, f"sqlite:{tmp_path}/own.db?table=copy")
    assert info(f"sqlite:{tmp_path}/own.db?table=copy")["rows"] == 2


def test_verify_tells_that_rows_were_changed(tmp_path):
    """Not that somebody wrote beside them, nor where the URI takes other columns than import made."""
    table = f"sqlite:{tmp_path}/a.db?table=samples"
    run("loader", "import", write(tmp_path, "a.csv", "label,a\n1,2\n3,4\n"), tmp_path / "a.db")
    old = digest_of(table)

    def write_to(sql):
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
            database.execute(sql)

    write_to("CREATE TABLE diary (words TEXT)")
    assert digest_of(table) == old and "as imported" in old
    for sql in ("UPDATE samples SET label = 9 WHERE id = 1", "DELETE FROM samples WHERE id = 1",
                "UPDATE samples SET features = x'0102'"):
        write_to(sql)
        assert info(table)["digest"] is None
        for more in ([], ["--json"]):
            run_fails("loader", "info", "--verify", *more, table, says=[
                "a.db?table=samples was written to since it was imported: its rows have the digest", f"import noted {old.split()[1].strip(',')}"])
        assert info(f"{table}&label=", "--verify")["digest"]


def test_verify_compares_each_of_several_files(tmp_path):
    """Also where row numbers run on, and where one's bytes are floats in the whole."""
    for name, rows in (("a", "1,5,2\n2,6,3\n"), ("b", "3,5,0.5\n4,6,3\n")):
        run("loader", "import", write(tmp_path, f"{name}.csv", f"id,label,x\n{rows}"), f"sqlite:{tmp_path}/{name}.db")
        run("loader", "import", f"csv:{tmp_path}/{name}.csv?id=&features=x", f"rows:{tmp_path}/{name}.rows")
    whole = info(f"csv:{tmp_path}/*.csv", "--verify")["digest"]
    assert info(f"sqlite:{tmp_path}/*.db", "--verify")["digest"] == whole
    assert info(f"rows:{tmp_path}/*.rows", "--verify")["digest"] == info(f"csv:{tmp_path}/*.csv?id=&features=x", "--verify")["digest"]
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("UPDATE samples SET label = 9 WHERE id = 1")
    for more in ([], ["--json"]):
        run_fails("loader", "info", "--verify", *more, f"sqlite:{tmp_path}/*.db", says=[
            f"{tmp_path}/a.db was written to since it was imported: its rows have the digest", "import noted"])
    assert info(f"sqlite:{tmp_path}/*.db")["rows"] == 4


def digest_of(uri):
    """As it is computed from the rows, which must be what the import noted."""
    found = run("loader", "info", "--verify", uri).stdout
    return next(line for line in found.splitlines() if line.startswith("digest"))


def test_import_keeps_the_other_tables(tmp_path):
    """Each as fresh, as named, and as it was."""
    path = tmp_path / "all.db"
    people = write(tmp_path, "people.csv", "id,label,w,height,age\n7,tall,2,1.9,30\n9,Ünal/x,1,1.5,41\n")
    pixels = write(tmp_path, "pixels.csv", "label,a,b\n1,2,3\n4,5,6\n0,0,0\n")
    run("loader", "import", f"csv:{people}?weight=w", f"sqlite:{path}?table=people")
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE diary(day INTEGER PRIMARY KEY, words TEXT)")
        database.execute("INSERT INTO diary VALUES (1, 'dear')")
        database.execute("CREATE VIEW tall AS SELECT * FROM people")
    old = digest_of(f"sqlite:{path}?table=people")
    run("loader", "import", people, f"sqlite:{path}?table=People/2")  # beside one that was written to since
    for _ in range(2):
        run("loader", "import", pixels, f"sqlite:{path}?table=pixels")
    for table, rows, columns, element in (("people", 2, ["height", "age"], "f32"), ("PEOPLE/2", 2, ["w", "height", "age"], "f32"),
                                          ("pixels", 3, ["a", "b"], "u8")):
        found = info(f"sqlite:{path}?table={table}")
        assert (found["rows"], found["columns"], found["element"]) == (rows, columns, element)
        assert found.get("digest") or table == "people", found  # as imported: nothing was scanned
    assert [one["label"] for one in info(f"sqlite:{path}?table=People/2")["labels"]] == ["tall", "Ünal/x"]
    assert info(path)["rows"] == 3  # the one that was imported last
    assert digest_of(f"sqlite:{path}?table=people") == old
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT * FROM diary").fetchall() == [(1, "dear")]
        assert database.execute("SELECT count(*) FROM tall").fetchone() == (2,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    run_fails("loader", "import", pixels, f"sqlite:{path}?table=diary", says=["all.db exists", "diary", "--force"])
    run_fails("loader", "import", pixels, f"sqlite:{path}?table=tall", says="--force")
    run("loader", "import", pixels, f"sqlite:{path}?table=tall", "--force")
    assert info(f"sqlite:{path}?table=tall")["rows"] == 3 and info(f"sqlite:{path}?table=pixels")["digest"]
    run("loader", "import", pixels, f"sqlite:{path}?table=pixels_keys")  # not the name of that table's index
    assert info(f"sqlite:{path}?table=pixels")["rows"] == info(f"sqlite:{path}?table=pixels_keys")["rows"] == 3
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM diary").fetchone() == (1,)
        database.execute("PRAGMA journal_mode=WAL")
    run_fails("loader", "import", pixels, f"sqlite:{path}?table=more", "--force", says="WAL")


@pytest.mark.parametrize("name", ["pixels_keys", "something00"], ids=["of an earlier version", "another"])
def test_keys_are_read_with_and_without_their_index(tmp_path, name):
    """Renamed in the file's bytes, so that the file is as it was imported."""
    path = tmp_path / "made.db"
    run("loader", "import", write(tmp_path, "pixels.csv", "label,a,b\n1,2,3\n4,5,6\n0,0,0\n"), f"sqlite:{path}?table=pixels")
    before = info(path)
    path.write_bytes(path.read_bytes().replace(b"pixels/keys", name.encode()))
    assert info(path) == before
    assert before["digest"] in digest_of(path)
    assert "3 units" in run("sampler", "build", "--store", path, "--out", tmp_path / "made.frame").stdout


@pytest.mark.parametrize("names", [("a", "A/keys"), ("a/keys", "a"), ("a", "a/keys", "a/keys2", "a/keys/keys", "a")])
def test_a_table_that_has_an_index_s_name(tmp_path, names):
    path = tmp_path / "made.db"
    source = write(tmp_path, "rows.csv", "label,a,b\n1,2,3\n4,5,6\n0,0,0\n")
    for name in names:
        run("loader", "import", source, f"sqlite:{path}?table={name}")
    digests = {digest_of(f"sqlite:{path}?table={name}") for name in names}
    assert len(digests) == 1
    with sqlite3.connect(path) as database:
        indexed = database.execute("SELECT tbl_name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL").fetchall()
        assert sorted(indexed) == sorted((name,) for name in set(names))
    database.close()
    for name in names:
        assert "3 units" in run("sampler", "build", "--store", f"sqlite:{path}?table={name}", "--out", tmp_path / "made.frame").stdout


def created(folder, act):
    """The names of the files that are made in a folder while act() runs (inotify)."""
    libc = ctypes.CDLL(None)
    with open(libc.inotify_init1(os.O_NONBLOCK), "rb", buffering=0) as events:
        assert libc.inotify_add_watch(events.fileno(), os.fsencode(folder), 0x100) > 0  # IN_CREATE
        act()
        seen = events.read(1 << 16) or b""
    return [os.fsdecode(name) for name in re.findall(rb"[!-~]+[.][!-~]+", seen)]


def test_import_writes_no_journal(tmp_path):
    """A killed one would leave it; nor is there anything that it could save."""
    csv = write(tmp_path, "a.csv", "label,a\n1,2\n")
    for table in ("one", "two"):
        names = created(tmp_path, lambda to=f"sqlite:{tmp_path}/a.db?table={table}": run("loader", "import", csv, to))
        assert [name for name in names if name.startswith("a.db.tmp.")], names
        assert not [name for name in names if name.endswith("-journal")], names


@FILES
def test_import_clears_up_after_those_that_were_killed(tmp_path, file):
    csv = write(tmp_path, "a.csv", "label,a\n1,2\n")
    write(tmp_path, f"{file}.tmp.123.0", "left")
    write(tmp_path, f"{file}.tmp.notes", "mine")
    with open(write(tmp_path, f"{file}.tmp.124.0", "at work"), encoding="ascii") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        run("loader", "import", csv, tmp_path / file)
    assert sorted(os.listdir(tmp_path)) == ["a.csv", file, f"{file}.tmp.124.0", f"{file}.tmp.notes"]
    write(tmp_path, "mnist_train.csv.tmp.9.9", "left")
    run("loader", "demo", tmp_path, "--rows", "10")
    assert left_behind(tmp_path, "mnist_train.csv") == ["mnist_train.csv"]


@FILES
def test_a_failed_import_leaves_the_old_file(tmp_path, file):
    csv = write(tmp_path, "a.csv", "label,a\n1,2\n")
    run("loader", "import", csv, tmp_path / file)
    before = (tmp_path / file).read_bytes()
    write(tmp_path, "a.csv", "label,a\n1,2\n3\n")
    run_fails("loader", "import", csv, tmp_path / file, says="line 3")
    assert (tmp_path / file).read_bytes() == before
    assert left_behind(tmp_path, file) == [file]


@FILES
def test_a_destination_that_cannot_be_made(tmp_path, file):
    csv = write(tmp_path, "a.csv", "label,a\n1,2\n")
    run_fails("loader", "import", csv, tmp_path / "no" / file, says=f"no/{file}")
    run_fails("loader", "import", csv, f"{'rows' if file == 'a.rows' else 'sqlite'}:{tmp_path}", says="is a folder")


def test_a_journal_in_the_way(tmp_path):
    """SQLite would apply it to the new file."""
    csv = write(tmp_path, "a.csv", "label,a\n1,2\n")
    write(tmp_path, "a.db-journal", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
    run_fails("loader", "import", csv, tmp_path / "a.db", "--force", says="a.db-journal exists")
    assert left_behind(tmp_path, "a.db") == ["a.db-journal"]


def test_a_pipe_is_no_store(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    run_fails("loader", "info", tmp_path / "rows.csv", says="is not a regular file")


@FILES
def test_a_limit_of_file_size(demo, tmp_path, file):
    limit = 300_000
    done = subprocess.run(
        [program("loader"), "import", f"csv:{demo}/mnist_train.csv?{CLASSIC}", tmp_path / file],
        capture_output=True, text=True, env=environment(), timeout=PATIENCE_S, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 1, done.stderr
    assert file in done.stderr and ("limit of file size" in done.stderr or "File too large" in done.stderr)
    assert left_behind(tmp_path, "a") == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB; skips where it cannot be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("a small tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@FILES
def test_a_full_disk(demo, small_disk, file):
    source = f"csv:{demo}/mnist_train.csv?{CLASSIC}"
    run_fails("loader", "import", source, small_disk / file, status=1, says=[file, "o space left"])
    assert left_behind(small_disk, "") == []


@pytest.fixture(scope="module")
def large_csv(tmp_path_factory):
    """A file whose import takes long enough to be interrupted."""
    path = tmp_path_factory.mktemp("large") / "large.csv"
    row = ",".join(str(value % 256) for value in range(500))
    with open(path, "w", encoding="ascii") as out:
        out.writelines(f"{number % 10},{row}\n" for number in range(60000))
    return f"csv:{path}?{CLASSIC}"


def meet_import(start, source, folder, least_bytes, meet):
    """meet(the import), once it has written so much: its exit status, and it. It must have met it: who is late tries again."""
    def has_written():
        try:
            return any(one.stat().st_size >= least_bytes for one in folder.glob("out.db.tmp.*"))
        except FileNotFoundError:  # it has another name now
            return True

    def has_met():
        process = start("loader", "import", source, folder / "out.db")
        wait_for(lambda: has_written() or process.process.poll() is not None, "it writes nothing")
        meet(process)
        status = process.wait()
        if status == 0:
            (folder / "out.db").unlink()
        return status and (status, process)

    return wait_for(has_met, "each import was through too soon")


def interrupt_import(start, large_csv, folder, number, least_bytes):
    return meet_import(start, large_csv, folder, least_bytes, lambda process: process.signal(number))


def test_kill_9_leaves_no_file_under_the_name(start, large_csv, tmp_path):
    status, _ = interrupt_import(start, large_csv, tmp_path, signal.SIGKILL, 1)
    assert status == -signal.SIGKILL
    assert not (tmp_path / "out.db").exists()
    run("loader", "import", large_csv, tmp_path / "out.db")
    assert info(tmp_path / "out.db")["rows"] == 60000


@pytest.mark.threads
@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_stopped_import_leaves_nothing(start, large_csv, tmp_path, number, status):
    got, process = interrupt_import(start, large_csv, tmp_path, number, 0)
    assert got == status, process.stderr
    assert "stopped" in process.stderr
    assert left_behind(tmp_path, "out") == []


@pytest.mark.threads
def test_a_file_that_changes_during_import(start, large_csv, tmp_path):
    copy = tmp_path / "copy.csv"
    copy.write_bytes(open(large_csv[4:].split("?")[0], "rb").read())
    whole = copy.stat().st_size

    def change(_):
        with open(copy, "ab") as out:
            out.write(b"1\n")

    def changed(name, command, source, out):
        os.truncate(copy, whole)
        return start(name, command, source, out)

    status, process = meet_import(changed, f"csv:{copy}?{CLASSIC}", tmp_path, 0, change)
    assert status == 2, process.stderr
    assert "has changed since it was opened" in process.stderr
    assert left_behind(tmp_path, "out") == []


@pytest.mark.threads
def test_two_imports_into_one_file_lose_no_table(start, large_csv, tmp_path):
    """Who is later says so, and changes nothing."""
    small, out = write(tmp_path, "small.csv", "label,a\n1,2\n"), f"sqlite:{tmp_path}/out.db"

    def overtake(process):
        process.signal(signal.SIGSTOP)
        run("loader", "import", small, f"{out}?table=small")
        process.signal(signal.SIGCONT)

    status, process = meet_import(start, large_csv, tmp_path, 0, overtake)
    assert status == 2, process.stderr
    assert "another program wrote to it meanwhile" in process.stderr
    assert left_behind(tmp_path, "out") == ["out.db"]
    run("loader", "import", large_csv, out)
    assert info(out)["rows"] == 60000 and info(f"{out}?table=small")["rows"] == 1
