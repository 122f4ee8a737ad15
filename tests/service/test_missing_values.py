# SPDX-License-Identifier: MIT
"""Missing values and text categories: the same rows from every store, and a model that makes the same of other tables."""

import csv
import gzip
import json
import random
import sqlite3

import pytest

from conftest import SEED, run, run_fails
from postgres_server import built_with_libpq, server  # noqa: F401, fixtures

ASKED = "missing=mean&onehot=*"
GAPS = ("", "NA", "NaN", "null")


def table(seed, rows, colors):
    """(id, age, color, y, size), with gaps; y follows from age and color."""
    dice = random.Random(seed)
    made = []
    for i in range(rows):
        age, color, size = dice.randrange(80), dice.choice(colors), dice.randrange(300) / 4
        y = "yes" if (color == "red") == (age > 40) else "no"
        made.append([i, dice.choice(GAPS) if dice.random() < 0.1 else age, "" if dice.random() < 0.05 else color, y,
                     "" if dice.random() < 0.1 else size])
    return made


def write_csv(path, rows, columns=("id", "age", "color", "y", "size")):
    at = [("id", "age", "color", "y", "size").index(column) if column != "more" else None for column in columns]
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows([["zzz" if i is None else row[i] for i in at] for row in rows])
    return path


def typed(rows):
    """As a database has them: numbers, texts and NULL."""
    return [(i, None if age in GAPS else float(age), color or None, y, None if size == "" else size) for i, age, color, y, size in rows]


def write_sqlite(path, rows):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, age REAL, color TEXT, y TEXT, size REAL)")
        database.executemany("INSERT INTO t VALUES(?, ?, ?, ?, ?)", typed(rows))
    database.close()


def write_postgres(server, name, rows):  # noqa: F811
    server.sql(f"DROP TABLE IF EXISTS {name}",
               f"CREATE TABLE {name}(id bigint PRIMARY KEY, age real, color text, y text, size double precision)")
    shown = ("\t".join("\\N" if value is None else str(value) for value in row) for row in typed(rows))
    server.sql(f"COPY {name} FROM STDIN", stdin="\n".join(shown) + "\n")


def digest(uri):
    lines = run("loader", "info", "--verify", uri).stdout.splitlines()
    return next(line.split()[1].strip(",") for line in lines if line.startswith("digest"))


@pytest.fixture
def trained(tmp_path, sampler):
    """A logdir, and what trained it."""
    source = f"csv:{write_csv(tmp_path / 'train.csv', table(SEED, 600, ('red', 'blue', 'green')))}?label=y&{ASKED}"
    train(sampler, source, tmp_path / "run", 400)
    return source, tmp_path / "run"


def train(sampler, source, logdir, steps, *more):
    url = sampler("--store", source, "--seed", 1).url
    return run("trainer", "train", "--sampler", url, "--store", source, "--logdir", logdir, "--model", "mlp", "--hidden-units", 16,
               "--optimizer", "adam", "--normalize", "--seed", 1, "--train-steps", steps, *more)


def predictions(store, logdir):
    return sorted(run("trainer", "predict", "--store", store, "--logdir", logdir).stdout.splitlines())


@pytest.mark.parametrize("asked", [ASKED, "missing=median&onehot=color", "missing=zero&onehot=*", "missing=-3.5&onehot=color,age"])
def test_the_same_rows_in_every_store(server, tmp_path, asked):  # noqa: F811
    rows = table(SEED, 400, ("red", "grün", "a,b", 'q"'))
    if "age" in asked:
        rows = [[i, age if age in GAPS else f"{age}", *more] for i, age, *more in rows]
    path = write_csv(tmp_path / "t.csv", rows)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    write_sqlite(tmp_path / "t.db", rows)
    (tmp_path / "parts").mkdir()
    for part, (begin, end) in enumerate(((0, 50), (50, 51), (51, 400))):
        write_csv(tmp_path / "parts" / f"{part}.csv", rows[begin:end])
    write_postgres(server, "gaps", rows)
    right = digest(f"csv:{path}?label=y&{asked}")
    assert digest(f"csv:{path}.gz?label=y&{asked}") == right
    assert digest(f"csv:{tmp_path}/parts?label=y&{asked}") == right
    assert digest(f"sqlite:{tmp_path}/t.db?label=y&{asked}") == right
    table_uri = server.uri("gaps", f"&label=y&{asked}")
    assert digest(table_uri) == right
    random.Random(1).shuffle(rows)
    assert digest(f"csv:{write_csv(tmp_path / 'shuffled.csv', rows)}?label=y&{asked}") == right
    server.sql("DROP TABLE IF EXISTS made")
    for made in (f"sqlite:{tmp_path}/made.db", f"rows:{tmp_path}/made.rows", server.uri("made")):
        run("loader", "import", table_uri, made)
        assert digest(made) == right
        assert any(name.startswith("color=") for name in json.loads(run("loader", "info", made, "--json").stdout)["columns"])


def test_words_of_missing_values_without_missing(tmp_path):
    """They are categories like others, but no reason to make one of a column of numbers; nothing is none."""
    (tmp_path / "t.csv").write_text("id,y,c,n\n0,a,red,1\n1,b,N/A,2\n2,a,NA,3\n")
    uri = f"csv:{tmp_path}/t.csv?label=y&onehot=*"
    found = json.loads(run("loader", "info", uri, "--json").stdout)
    assert (found["columns"], found["bad_rows"]) == (["c=N/A", "c=NA", "c=red", "n"], 0)
    for row, says in (("3,b,,4", 'column "c" is empty'), ("3,b,red,NA", 'column "n" is "NA"')):
        (tmp_path / "t.csv").write_text(f"id,y,c,n\n0,a,red,1\n1,b,N/A,2\n{row}\n")
        run_fails("loader", "info", uri, says=["line 4", says])


def test_as_many_columns_as_a_recipe_may_have(tmp_path):
    """With columns between them that are no features."""
    names = [f"c{i}" for i in range(100000)]
    wide = tmp_path / "wide.csv"
    wide.write_text("\n".join(",".join(["7", *line[:50000], "x", *line[50000:]]) for line in (
        names, ["1"] * 100000, [""] * 99999 + ["4"])).replace("7,c0,", "id,c0,", 1).replace("c49999,x,", "c49999,y,", 1).replace(
            "\n7,,", "\n8,,", 1) + "\n")
    facts = json.loads(run("loader", "info", "--json", f"csv:{wide}?label=y&missing=mean").stdout)
    assert (facts["features"], facts["rows"], facts["bad_rows"]) == (100000, 2, 0)
    assert facts["columns"] == names


def test_a_model_predicts_other_tables(server, trained, tmp_path):  # noqa: F811
    """Columns in another order and among others, gaps, a color that training did not see; without a word in the URI."""
    rows = table(SEED + 1, 200, ("red", "blue", "green", "mauve"))
    path = write_csv(tmp_path / "test.csv", rows, ("size", "y", "more", "color", "id", "age"))
    write_sqlite(tmp_path / "test.db", rows)
    write_postgres(server, "test", rows)
    right = predictions(f"csv:{path}?label=y", trained[1])
    assert len(right) == 201
    assert predictions(f"sqlite:{tmp_path}/test.db?label=y", trained[1]) == right
    assert predictions(server.uri("test", "&label=y"), trained[1]) == right
    assert predictions(f"csv:{path}?label=y&{ASKED}", trained[1]) == right
    done = run("trainer", "evaluate", "--store", f"csv:{path}?label=y", "--logdir", trained[1])
    unseen = sum(row[2] == "mauve" for row in rows)
    assert f'{unseen} texts are of no category that training saw, such as "mauve" in column "color"' in done.stderr
    assert float(done.stdout.splitlines()[-1].split()[-1]) > 0.7
    (tmp_path / "parts").mkdir()
    mauve = sorted(rows, key=lambda row: row[2] != "mauve")  # a file is read again when its labels prove to be texts
    for part in (mauve[:1], mauve[1:]):
        write_csv(tmp_path / "parts" / f"{len(part)}.csv", part)
    done = run("trainer", "evaluate", "--store", f"csv:{tmp_path}/parts?label=y", "--logdir", trained[1])
    assert f"{unseen} texts are of no category" in done.stderr
    run_fails("trainer", "evaluate", "--store", f"csv:{path}?label=y&unseen=bad", "--logdir", trained[1], status=2,
              says=["test.csv, line ", 'column "color" is "mauve"', '"blue", "green", "red"'])
    run_fails("trainer", "evaluate", "--store", f"csv:{path}?label=y&missing=zero", "--logdir", trained[1], status=2,
              says=["the URI has missing=0", "missing=mean&onehot=*"])
    write_csv(tmp_path / "less.csv", rows, ("id", "y", "color", "age"))
    run_fails("trainer", "evaluate", "--store", f"csv:{tmp_path}/less.csv?label=y", "--logdir", trained[1], status=2,
              says='there is no column of features "size"')
    done = run("trainer", "export", "--logdir", trained[1], "--out", tmp_path / "model.onnx")
    assert "its input is what missing=mean&onehot=* of the store's URI makes of a row" in done.stderr
    assert b"feature_recipe" in (tmp_path / "model.onnx").read_bytes()


def test_going_on(trained, tmp_path, sampler):
    """With the same, or without a word; not with anything else, nor with what another import made."""
    source, logdir = trained
    train(sampler, source, logdir, 420)
    train(sampler, source.replace(f"&{ASKED}", ""), logdir, 440)
    url = sampler("--store", source, "--seed", 1).url
    begin = ("trainer", "train", "--sampler", url, "--logdir", logdir, "--model", "mlp", "--hidden-units", 16, "--optimizer", "adam",
             "--normalize", "--train-steps", 460, "--store")
    run_fails(*begin, source.replace("mean", "median"), status=2, says=["missing=median&onehot=*", "missing=mean&onehot=*"])
    run("loader", "import", source, f"rows:{tmp_path}/same.rows")
    run(*begin, f"rows:{tmp_path}/same.rows")
    other = write_csv(tmp_path / "other.csv", table(SEED + 5, 600, ("red", "blue", "green")))
    run("loader", "import", f"csv:{other}?label=y&{ASKED}", f"sqlite:{tmp_path}/other.db")
    run_fails("trainer", "evaluate", "--store", f"sqlite:{tmp_path}/other.db", "--logdir", logdir, status=2,
              says="and came to other values")
    plain = write_csv(tmp_path / "plain.csv", [[i, i, "", "yes" if i % 2 else "no", i] for i in range(50)], ("id", "age", "y", "size"))
    url = sampler("--store", f"csv:{plain}?label=y", "--seed", 1).url
    run("trainer", "train", "--sampler", url, "--store", f"csv:{plain}?label=y", "--logdir", tmp_path / "plain", "--train-steps", 5)
    run_fails("trainer", "train", "--sampler", url, "--store", f"csv:{plain}?label=y&missing=mean", "--logdir", tmp_path / "plain",
              "--train-steps", 9, status=2, says="neither missing= nor onehot=")


def test_imported_rows_train_a_model_of_the_table(trained, tmp_path, sampler):
    """As `tombola run` does: import, train, test on a table as it is."""
    run("loader", "import", trained[0], f"sqlite:{tmp_path}/made.db")
    train(sampler, f"sqlite:{tmp_path}/made.db", tmp_path / "imported", 400, "--test-store", trained[0])
    path = write_csv(tmp_path / "test.csv", table(SEED + 2, 100, ("red", "blue", "green")))
    assert predictions(f"csv:{path}?label=y", tmp_path / "imported") == predictions(f"csv:{path}?label=y", trained[1])


ODD = ["id", "y", "width, cm", '"a"', "per cent % & #?=", "a blank", "kind, of", "left out, too"]


def test_names_that_need_quotes(server, tmp_path):  # noqa: F811
    """In a list, names are quoted as in CSV; a single name is not; escapes are those of any URI."""
    rows = [[i, "yes" if i % 2 else "no", i, i % 5, i % 7, i % 11, "ab"[i % 3 == 0], "x"] for i in range(40)]
    with open(tmp_path / "odd.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([ODD, *rows])
    columns = ", ".join('"' + name.replace('"', '""') + '" ' + kind
                        for name, kind in zip(ODD, ("int", "text", "int", "int", "int", "int", "text", "text"), strict=True))
    with sqlite3.connect(tmp_path / "odd.db") as database:
        database.execute(f"CREATE TABLE odd({columns})")
        database.executemany("INSERT INTO odd VALUES(?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.close()
    server.sql(f"CREATE TABLE odd({columns})", "COPY odd FROM STDIN (FORMAT csv, HEADER)", stdin=(tmp_path / "odd.csv").read_text())
    stores = [f"csv:{tmp_path}/odd.csv?", f"sqlite:{tmp_path}/odd.db?", server.uri("odd") + "&"]
    lists = 'label=y&features="width, cm","""a""",per cent %25 %26 #?=,a blank,"kind, of"'
    chosen = [store + lists + '&onehot="kind, of"' for store in stores]
    assert len({digest(uri) for uri in chosen}) == 1
    assert all("5 of f32" not in info and "6 of f32" in info for info in (run("loader", "info", uri).stdout for uri in chosen))
    one = [f'{store}label=width, cm&features="""a"""' for store in stores]
    assert len({digest(uri) for uri in one}) == 1
    for store in stores:
        run_fails("loader", "info", f"{store}label=y&features=width, cm", status=2,
                  says=["features=\"width\" names no column", 'one with a comma is written in quotes: "a,b",c'])
        run_fails("loader", "info", f'{store}label=y&onehot=kind, of&features="kind, of"', status=2, says=["onehot=\"kind\"", '"a,b",c'])
        for broken in ('"width, cm', '"width, cm"x', '"'):
            run_fails("loader", "info", f"{store}label=y&features={broken}", status=2, says="a name in quotes must end with a quote")
