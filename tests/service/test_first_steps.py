# SPDX-License-Identifier: MIT
"""What a first user trips over: the program says what is wrong, and what is right."""

import gzip
import hashlib
import json
import resource
import subprocess

import pytest

from conftest import PATIENCE_S, environment, program, run, run_fails

CLASSIC = "label=0&header=no"


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def table(folder, name, columns, rows, delimiter=","):
    return write(folder, name, "".join(delimiter.join(map(str, row)) + "\n" for row in [columns, *rows]))


# ---- a label for each unit --------------------------------------------------------------------------

ONE_EACH = "nearly every unit has a label of its own"


@pytest.fixture
def regression(tmp_path):
    return table(tmp_path, "houses.csv", ["label", "rooms"], [(f"{i / 7:.6f}", i % 9) for i in range(1001)])


def test_a_label_for_each_unit_is_told_once(sampler, regression, tmp_path):
    server = sampler("--store", regression)
    server.batch("size=10")
    assert server.stderr.count(ONE_EACH) == 1
    for text in ("1001 units, 1001 labels", "--design srs", "?label=NAME", "proportional"):
        assert text in server.stderr, server.stderr
    assert server.get("/streams/default").json["design"] == "proportional", "the default is a contract"
    frame = tmp_path / "houses.frame"
    assert ONE_EACH in run("sampler", "build", "--store", regression, "--out", frame).stderr
    text = run("sampler", "info", frame).stdout
    assert ONE_EACH.replace("a label", "one") in text and "--design srs" in text
    assert ONE_EACH in sampler("--frame", frame).stderr
    several = sampler("--frame", f"a={frame}", "--store", "b=range:5000?labels=3", "--store", "c=range:2000?labels=1500").stderr
    assert several.count(ONE_EACH) == 2 and "frame a: " in several and "frame c: " in several


def test_labels_that_are_classes_are_not_warned_of(sampler, regression):
    assert ONE_EACH not in sampler("--store", regression, "--design", "srs").stderr
    for store in ("range:1000?labels=1000", "range:5000?labels=2500", "range:5000"):
        assert ONE_EACH not in sampler("--store", store).stderr, store


# ---- where the labels are ---------------------------------------------------------------------------


def test_labels_under_another_name(sampler, tmp_path):
    path = table(tmp_path, "animals.csv", ["legs", "wings", "class"], [(i % 5, i % 3, i % 2) for i in range(12)])
    says = ["?label=NAME", '"legs", "wings", "class"']
    text = run("loader", "info", path).stdout
    for one in says:
        assert one in text
    server = sampler("--store", path)
    build = run("sampler", "build", "--store", path, "--out", tmp_path / "a.frame")
    imported = run("loader", "import", path, tmp_path / "animals.db")
    for stderr in (server.stderr, build.stderr, imported.stderr):
        assert stderr.count("no labels") == 1
        for one in says:
            assert one in stderr
    assert "12 units without labels" in build.stdout and "12 units without labels" in server.stderr


def test_columns_that_have_numbers_for_names(tmp_path):
    path = table(tmp_path, "digits.csv", [5, 0, 255], [(7, 1, 2)])
    assert '&label=NAME in the URI says which column holds them: "0", "1", "2"' in run("loader", "info", f"{path}?header=no").stdout


def test_labels_that_are_not_wanted_or_are_there(sampler, tmp_path):
    path = table(tmp_path, "animals.csv", ["legs", "class"], [(i % 5, i % 2) for i in range(12)])
    ids = table(tmp_path, "ids.csv", ["id"], [(i,) for i in range(12)])
    for uri in (f"{path}?label=", f"{path}?label=class", ids, "range:12"):
        assert "NAME" not in run("loader", "info", uri).stdout, uri
        assert "no labels" not in sampler("--store", uri).stderr, uri


@pytest.mark.parametrize("name, delimiter, shown", [("semicolons", ";", ";"), ("tabs", "\t", "tab"), ("bars", "|", "|")])
def test_other_delimiters(tmp_path, name, delimiter, shown):
    path = table(tmp_path, "export.csv", ["label", "b"], [("cat", "2,5")] * 3, delimiter)
    says = [f"{path}, line 1", name, f"?delimiter={shown}'"]
    run_fails("loader", "info", path, says=says)
    run_fails("sampler", "build", "--store", path, "--out", tmp_path / "f", says=says)
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", "--store", path, says=says)
    path = table(tmp_path, "export.csv", ["label", "b"], [("cat", "25")] * 3, delimiter)
    assert json.loads(run("loader", "info", "--json", f"{path}?delimiter={shown}").stdout)["labels"] == [{"label": "cat", "rows": 3}]


def test_a_delimiter_that_is_told_is_taken(tmp_path):
    path = write(tmp_path, "one.csv", "label;unit\ncat\ndog\n")
    run_fails("loader", "info", path, says="delimiter=, if it is a single column")
    assert json.loads(run("loader", "info", "--json", f"{path}?delimiter=,&label=label;unit").stdout)["rows"] == 2
    path = write(tmp_path, "comma.tsv", "label,x\n1,2\n")
    run_fails("loader", "info", path, says=["commas and no tabs", "delimiter=,"])


def test_letters_that_changed_places(tmp_path):
    path = table(tmp_path, "animals.csv", ["legs", "label"], [(4, 1), (2, 0)])
    run("loader", "import", path, tmp_path / "animals.db")
    for name in ("animals.csv", "animals.db"):
        run_fails("loader", "info", f"{tmp_path / name}?lable=label", says="did you mean label?")


def test_the_command_line_names_the_units(sampler, tmp_path):
    """Whatever else the environment or a config file name them with."""
    frame, config = tmp_path / "f.frame", tmp_path / "config.json"
    run("sampler", "build", "--store", "range:7", "--out", frame)
    config.write_text(json.dumps({"frame": str(frame)}))
    assert "5 units" in sampler("--store", "range:5", env={"TOMBOLA_FRAME": str(frame)}).stderr
    assert "5 units" in sampler("--store", "range:5", "--config", config).stderr
    assert "7 units" in sampler("--frame", frame, env={"TOMBOLA_STORE": "range:5"}).stderr
    assert "7 units" in sampler("--config", config).stderr
    run_fails("sampler", "serve", "--store", "range:5", "--frame", frame, says="give one of")


# ---- words ------------------------------------------------------------------------------------------


def test_one_and_many(sampler, tmp_path):
    for store, says in (("range:2?labels=1", "2 units, 1 label;"), ("range:1", "1 unit without labels;"), ("range:4?labels=2", "4 units, 2 labels;")):
        assert says in sampler("--store", store).stderr
    assert "2 units, 1 label," in run("sampler", "build", "--store", "range:2?labels=1", "--out", tmp_path / "f").stdout


@pytest.mark.parametrize("options, says", [
    (["--design", "propotional"], ['--design "propotional"', "proportional, srs"]),
    (["--design", "cluster", "--replacement"], ["--design cluster", "replacement"]),
    (["--size", "10"], ["/batch?size=10", "weighted", "systematic", "no --design"]),
    (["--size", "10", "--design", "srs"], ["/batch?size=10", "--design is srs"]),
    (["--rate", "0.5", "--design", "pxk", "--p", "1", "--k", "1"], ["--rate is for design bernoulli", "--design is pxk"]),
    (["--batch-size", "10"], ["unknown option", "/batch?size="]),
    (["--port", "80"], ["unknown option", "--listen"]),
])
def test_options_are_judged_before_the_store_is_read(tmp_path, options, says):
    done = run_fails("sampler", "serve", "--store", tmp_path / "missing.csv", *options, says=says)
    assert "missing.csv" not in done.stderr and "seed" not in done.stderr


# ---- numbers that are too large ---------------------------------------------------------------------


def test_numbers_out_of_range(tmp_path):
    path = write(tmp_path, "large.csv", "label,x,w\n1,2,3\n0,1e400,3\n")
    run_fails("loader", "info", path, says=["line 3", '"1e400"', "fits 32-bit float", "3.4e38"])
    path = write(tmp_path, "weights.csv", "label,x,w\n1,2,3\n0,1,1e400\n")
    for command in (["loader", "info", f"{path}?weight=w"], ["sampler", "serve", "--listen", "127.0.0.1:0", "--store", f"{path}?weight=w"]):
        run_fails(*command, says=["line 3", '"1e400"', "at least 0 and at most 1.8e308"])
    config = write(tmp_path, "c.json", '{"lease":1e400}')
    run_fails("sampler", "serve", "--store", "range:9", "--config", config, says=["c.json, line 1", '"1e400" is out of range'])
    run_fails("sampler", "serve", "--store", "range:9", "--lease", "1e400", says=["1e400", "from 0.001 to"])
    run_fails("sampler", "serve", "--store", "range:9?labels=2", "--design", "quota", "--shares", '{"0":1e400}',
              says=["--shares", "out of range"])


@pytest.mark.parametrize("option, least, most", [
    ("rate", 0, 1), ("max-size", 1, 10000000), ("max-streams", 1, 1000000), ("drain", 0, 600), ("header-timeout", 1, 3600),
    ("lease", 0.001, 31536000), ("size", 1, 1 << 61), ("p", 1, 1 << 61), ("k", 1, 1 << 61), ("groups", 1, 1 << 61)])
def test_options_end_where_they_say(option, least, most):
    step = 0.0001 if least == 0.001 else 1
    for beyond in (least - step, most + 1):
        run_fails("sampler", "serve", "--store", "absent.csv", f"--{option}={beyond}", says=[f"--{option}", str(beyond), "from "])


def test_numbers_out_of_range_over_http(sampler):
    server = sampler("--store", "range:90?labels=2")
    for body in ('{"name":"a","lease":1e400}', '{"name":"a","design":"quota","shares":{"0":-1e999}}'):
        answer = server.request("POST", "/streams", body=body)
        assert answer.status == 400 and "out of range" in answer.json["detail"], answer.text


# ---- a demo that does not fit -----------------------------------------------------------------------


def demo_with_little_room(folder):
    limit = 100_000
    done = subprocess.run(
        [program("loader"), "demo", folder], capture_output=True, text=True, env=environment(), timeout=PATIENCE_S,
        check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 1 and "mnist_train.csv" in done.stderr, done.stderr


def test_a_demo_that_fails_leaves_no_folder_of_its_own(tmp_path):
    demo_with_little_room(tmp_path / "new" / "deep")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    demo_with_little_room(tmp_path / "old" / "new/")
    demo_with_little_room(tmp_path / "old")
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert list((tmp_path / "old").iterdir()) == []


# ---- files that are no stores, and columns that are no numbers --------------------------------------


@pytest.mark.parametrize("name, content, query, says", [
    ("x.txt.gz", b"\x1f\x8b\x08", "", "a compressed file is a store only if it is CSV or IDX (csv:PATH, idx:PATH); unpack others (gzip -d)"),
    ("x.json.zst", b"\x28\xb5\x2f\xfd", "", "a compressed file is a store only if it is CSV or IDX (csv:PATH, idx:PATH); unpack others (zstd -d)"),
    ("x.csv.gz", b"\x1f\x8b\x08", "", "ends at byte 3 in the middle of its gzip data; was all of it copied?"),
    ("x.csv", b"\x1f\x8b\x08", "", "ends at byte 3 in the middle of its gzip data; was all of it copied?"),
    ("x.csv.zst", b"\x28\xb5\x2f\xfd", "", "ends at byte 4 in the middle of its zstd data; was all of it copied?"),
    ("x.csv.gz", gzip.compress(gzip.compress(b"label,a\n1,2\n", mtime=0), mtime=0), "", "compressed twice (gzip); unpack it first (gzip -d)"),
    ("x.csv.gz", gzip.compress(b"PAR1", mtime=0), "", "is a Parquet file; parquet:PATH reads such"),
    ("x.csv.gz", gzip.compress(b"", mtime=0), "", "is empty"),
    ("x.zip", b"PK\3\4", "", "files compressed like this are not read; unpack it (unzip)"),
    ("x.csv", b"PK\3\4", "", "unpack it first (unzip)"),
    ("x.csv.bz2", b"BZh9", "", "files compressed like this are not read; unpack it (bzip2 -d)"),
    ("x.csv.xz", b"\xfd7zXZ\0", "", "files compressed like this are not read; unpack it (xz -d)"),
    ("x.csv", b"BZh91AY&SY", "", "unpack it first (bzip2 -d)"),
    ("x.csv", b"\xfd7zXZ\0", "", "unpack it first (xz -d)"),
    ("x.jsonl", b"{}\n", "", "JSON is not read; make it CSV"),
    ("x.xlsx", b"PK\3\4", "", "spreadsheets are not read; save it as CSV"),
    ("x.feather", b"ARROW1", "", "Arrow files are not read; make it CSV"),
    ("x.tfrecord", b"\0", "", "TensorFlow's records are not read"),
    ("x.txt", b"label\ta\n1\t2\n", "", "rows of text are csv:PATH"),
    ("x.csv", b"label;a\n1;2,5\n", "?delimiter=;", "(a decimal comma must be a point)"),
    ("x.csv", b"label;a\n1;2,567890\n", "?delimiter=;", "(a decimal comma must be a point)"),
    ("x.csv", b'label,a\n1,"1,234"\n', "", "thousands are written without commas"),
    ("x.csv", b'label,a\n1,"-12,345,678.9"\n', "", "thousands are written without commas"),
    ("x.csv", b'label,a\n1,"1234,567"\n', "", "(a decimal comma must be a point)"),
    ("x.csv", b"label,gr\xf6\xdfe\n1,2\n", "", "iconv -f ISO-8859-1 -t UTF-8"),
    ("x.csv", b"label,a\nM\xfcller,1\n", "", "iconv -f ISO-8859-1 -t UTF-8"),
    ("x.csv", b"id,label,a\nx1,1,2\n", "", "id= in the URI, without a name, numbers the rows from 0"),
    ("x.csv", b"label,a,city\n1,2,Paris\n", "", "features=A,B,C in the URI names the columns to take"),
])
def test_what_is_no_row_names_the_way_out(tmp_path, name, content, query, says):
    (tmp_path / name).write_bytes(content)
    scheme = "csv:" if query else ""
    run_fails("loader", "info", f"{scheme}{tmp_path}/{name}{query}", says=says, status=None)


def test_parquet_where_the_build_has_none(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    for module, says in [("lost.so", "this build has no Parquet"), ("x.parquet", "Parquet cannot be read")]:
        run_fails("loader", "info", tmp_path / "x.parquet", says=[says, "make the file CSV (DuckDB: COPY"], status=1,
                  env={"TOMBOLA_PARQUET_MODULE": str(tmp_path / module)})


def test_an_empty_cell_names_the_way_out(sampler, tmp_path):
    table(tmp_path, "x.csv", ["id", "label", "a"], [(1, 2, 5), (2, 0, "")])
    uri = f"csv:{tmp_path}/x.csv"
    pull = ["loader", "pull", "--sampler", sampler("--store", uri).url, "--store", uri, "--size", 2, "--batches", 1]
    run_fails(*pull, says=['column "a" is empty', "--bad-rows skip"])
    assert run(*pull, "--bad-rows", "skip").stdout.splitlines()[1:] == ["1,2,5"]
    table(tmp_path, "y.csv", ["id", "label", "a"], [(1, 2, 5), (2, 0, 3)])
    train = ["train", "--sampler", pull[3], "--store", f"csv:{tmp_path}/y.csv", "--logdir", tmp_path / "run", "--model", "softmax"]
    run("trainer", *train, "--train-steps", 1, "--batch-size", 2)
    run_fails("trainer", "evaluate", "--store", uri, "--logdir", tmp_path / "run", says=['column "a" is empty', "--bad-rows skip"])


def test_the_way_out_leads_out(tmp_path):
    table(tmp_path, "x.csv", ["id", "label", "a", "city"], [("x1", 1, 2, "Paris"), ("x2", 0, 3, "Rome")])
    assert "2, integer" in run("loader", "info", f"csv:{tmp_path}/x.csv?id=&features=a").stdout


# ---- a store of fewer rows than there are units -----------------------------------------------------


@pytest.fixture
def few(demo, tmp_path):
    lines = (demo / "mnist_train.csv").read_text().splitlines()
    return f"csv:{write(tmp_path, 'few.csv', chr(10).join(lines[:1900]) + chr(10))}?{CLASSIC}"


def test_pull_tells_of_too_few_rows_before_it_draws(sampler, demo, few):
    server = sampler("--store", f"csv:{demo}/mnist_train.csv?{CLASSIC}", "--epochs", 1)
    pull = ["loader", "pull", "--sampler", server.url, "--store", few]
    done = run_fails(*pull, says=["has 1900 rows", "draws from 2000 units", "at least 100 of them", "--bad-rows"])
    assert done.stdout == "" and done.stderr.count("draws from") == 1
    assert server.get("/streams/default").json["position"] == 0, "nothing was drawn in vain"
    done = run(*pull, "--bad-rows", "skip")
    assert done.stderr.count("draws from 2000 units") == 1
    assert len(done.stdout.splitlines()) == 1 + 1900


def test_pull_with_a_token_that_may_only_draw(sampler, few, tmp_path):
    token = {"name": "worker", "sha256": hashlib.sha256(b"secret").hexdigest(), "scopes": ["draw"], "streams": ["*"]}
    path = write(tmp_path, "tokens.json", json.dumps({"tokens": [token]}))
    server = sampler("--store", few, "--epochs", 1, "--token-file", path)
    done = run("loader", "pull", "--sampler", server.url, "--store", few, env={"TOMBOLA_TOKEN": "secret"})
    assert len(done.stdout.splitlines()) == 1 + 1900
