# SPDX-License-Identifier: MIT
"""tombola-trainer before its first step, and what it says of stores that can hardly be meant."""

import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from conftest import PATIENCE_S, SANITIZED, environment, program, run, run_fails
from test_http_access import make_certificate
from test_trainer import (  # noqa: F401 (the fixtures)
    checkpoints, csv_uri, evaluate, newest, options, read_checkpoint, served, store, train, train_fails)

SOFTMAX = {"model": "softmax", "hidden_units": None, "batch_size": 20}


def write_table(path, columns, rows, label="kind"):
    """`rows`: dicts."""
    with open(path, "w", encoding="utf-8") as out:
        out.write(",".join([label, *columns]) + "\n")
        out.writelines(",".join(str(row[name]) for name in [label, *columns]) + "\n" for row in rows)
    return f"csv:{path}?label={label}"


def random_rows(count, columns, largest, seed=1):
    chance = random.Random(seed)
    rows = [{name: chance.randint(0, largest) for name in columns} for _ in range(count)]
    for row in rows:
        row["kind"] = int(row[columns[0]] > largest // 2)
    return rows


# ---- starts that fail leave nothing behind ---------------------------------------------------------


def test_a_wrong_store_leaves_no_checkpoint(served, store, tmp_path):
    """Or the right one would be refused, having another number of features."""
    rows = random_rows(2000, ["a", "b"], 255)
    train_fails(served, write_table(tmp_path / "wrong.csv", ["a", "b"], rows), tmp_path / "run", "the store is not the one")
    assert checkpoints(tmp_path / "run") == [] and not (tmp_path / "run" / "checkpoint").exists()
    train(served, store, tmp_path / "run", train_steps=5)
    assert checkpoints(tmp_path / "run") == [0, 5]


@pytest.mark.threads
@pytest.mark.parametrize("is_there", [False, True])
def test_a_signal_before_the_first_batch_leaves_no_checkpoint(sampler, store, start, tmp_path, is_there):
    """Nor a logdir that was not there: the sampler is asked before it is made."""
    if is_there:
        (tmp_path / "run").mkdir()
    served = sampler("--store", store, "--seed", 7)
    served.signal(signal.SIGSTOP)
    try:
        trainer = start("trainer", *options(served, store, tmp_path / "run"))
        if is_there:
            trainer.wait_for_log("features are multiplied")
        trainer.stop()
    finally:
        served.signal(signal.SIGCONT)
    assert checkpoints(tmp_path / "run") == [] and (tmp_path / "run").exists() == is_there


def test_a_stream_without_a_batch_is_a_training_of_no_steps(sampler, store, tmp_path):
    served = sampler("--store", store, "--seed", 7, "--epochs", 1)
    train(served, store, tmp_path / "run", batch_size=2000, train_steps=9)
    assert checkpoints(tmp_path / "run") == [0, 1]
    train(served, store, tmp_path / "run", batch_size=2000, train_steps=9)
    assert checkpoints(tmp_path / "run") == [0, 1]


# ---- stores with fewer rows than there are units ----------------------------------------------------


def test_too_few_rows_are_told_at_the_start(served, demo, tmp_path):
    lines = (demo / "mnist_train.csv").read_text().splitlines()
    (tmp_path / "few.csv").write_text("\n".join(lines[:1900]) + "\n")
    few = csv_uri(tmp_path / "few.csv")
    done = train_fails(served, few, tmp_path / "run", ["has 1900 rows", "draws from 2000 units", "at least 100 of them", "--bad-rows"])
    assert "training step" not in done.stdout and checkpoints(tmp_path / "run") == []
    done = train(served, few, tmp_path / "run", bad_rows="skip")
    assert re.search(r"warning .*draws from 2000 units; .* has 1900 rows", done.stderr)


def test_a_store_of_a_sample_may_have_fewer_rows_than_the_frame(sampler, tmp_path):
    """Of an epoch that is a sample, only those who are drawn need a row."""
    rows = [{"id": i, **row} for i, row in enumerate(random_rows(500, ["a", "b"], 255))]
    whole = write_table(tmp_path / "whole.csv", ["id", "a", "b"], rows) + "&id=id"
    served = sampler("--store", whole, "--design", "systematic", "--size", 40, "--seed", 1, "--epochs", 1)
    drawn = served.batch("size=40&index=0")["ids"]
    sample = write_table(tmp_path / "sample.csv", ["id", "a", "b"], [rows[i] for i in drawn]) + "&id=id"
    done = train(served, sample, tmp_path / "run", **SOFTMAX, train_steps=9)
    assert re.search(r"warning .*draws from 500 units; .* has 40 rows", done.stderr)
    assert checkpoints(tmp_path / "run") == [0, 2]


# ---- small integers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("largest, warns", [(1, True), (5, True), (63, True), (64, False), (255, False)])
def test_small_integers_are_doubted(sampler, tmp_path, largest, warns):
    columns = ["a", "b", "c"]
    rows = random_rows(300, columns, largest)
    rows[7]["b"] = largest
    uri = write_table(tmp_path / "table.csv", columns, rows)
    served = sampler("--store", uri, "--seed", 1)
    done = train(served, uri, tmp_path / "run", **SOFTMAX, train_steps=3)
    assert re.search(r"info .*features are multiplied by 1/255 \(--feature-scale\)", done.stderr)
    assert (f"no feature of the first 300 rows is larger than {largest}," in done.stderr) == warns
    info = run("loader", "info", uri).stdout
    assert re.search(rf"^values +up to {largest};", info, re.M) and ("too small here" in info) == warns
    for more in ([], ["--verify"]):
        shown = json.loads(run("loader", "info", "--json", *more, uri).stdout)
        assert (shown["largest_value"], shown["largest_value_rows"]) == (largest, 300)
    done = train(served, uri, tmp_path / "taken", **SOFTMAX, train_steps=3, feature_scale=1)
    assert "is larger than" not in done.stderr and "features are multiplied by 1\n" in done.stderr


def test_only_the_first_rows_are_looked_at(tmp_path):
    rows = random_rows(3000, ["a", "b"], 3)
    rows[2500]["a"] = 200
    uri = write_table(tmp_path / "table.csv", ["a", "b"], rows)
    assert "up to 3 in the first 1000 rows" in run("loader", "info", uri).stdout
    assert re.search(r"^values +up to 200;", run("loader", "info", "--verify", uri).stdout, re.M)


# ---- the names of features ----------------------------------------------------------------------------


@pytest.fixture
def named(sampler, tmp_path):
    """(a sampler, a store with the columns a, b, c, its rows, a logdir that was trained on it)"""
    rows = random_rows(400, ["a", "b", "c"], 200)
    uri = write_table(tmp_path / "named.csv", ["a", "b", "c"], rows)
    served = sampler("--store", uri, "--seed", 1)
    train(served, uri, tmp_path / "run", **SOFTMAX, train_steps=30)
    return served, uri, rows, tmp_path / "run"


def test_columns_are_found_by_name(named, tmp_path):
    """In another order and among others, for every command; as the store that was trained on, bit for bit."""
    served, uri, rows, logdir = named
    for row in rows:
        row["z"] = 7
    other = write_table(tmp_path / "other.csv", ["c", "z", "a", "b"], rows)
    database = f"sqlite:{tmp_path}/other.db"
    run("loader", "import", other, database)
    predicted = run("trainer", "predict", "--store", uri, "--logdir", logdir).stdout
    for store in (other, database):
        done = run("trainer", "predict", "--store", store, "--logdir", logdir)
        assert done.stdout == predicted and "found by name among its" in done.stderr
        assert evaluate(store, logdir) == evaluate(uri, logdir)
    tested = train(served, uri, tmp_path / "straight", test_store=other, **SOFTMAX, train_steps=60).stdout.splitlines()[-1]
    assert tested == f"accuracy: {evaluate(uri, tmp_path / 'straight'):f}"
    train(served, other, logdir, **SOFTMAX, train_steps=60)
    assert newest(logdir).read_bytes() == newest(tmp_path / "straight").read_bytes()


def test_a_column_that_is_missing_is_named(named, tmp_path):
    """Where others changed places, or there are more or fewer."""
    _, _, rows, logdir = named
    for columns in (["c", "a", "z"], ["a", "c"], ["a", "c", "y", "z"]):
        other = write_table(tmp_path / "other.csv", columns, [{"y": 1, "z": 1, **row} for row in rows])
        done = run_fails("trainer", "predict", "--store", other, "--logdir", logdir,
                         says=['has no column "b", which the model of', "of its 3 features"])
        assert done.stdout == ""


def test_other_names_are_a_warning_and_none_are_none(named, tmp_path):
    served, uri, rows, logdir = named
    accuracy = evaluate(uri, logdir)
    renamed = [{"kind": row["kind"], "a": row["a"], "other": row["b"], "c": row["c"]} for row in rows]
    other = write_table(tmp_path / "renamed.csv", ["a", "other", "c"], renamed)
    done = run("trainer", "evaluate", "--store", other, "--logdir", logdir)
    assert f"accuracy: {accuracy:g}" in done.stdout
    assert "whose names differ: feature 1 (from 0) is \"b\" there and \"other\" here" in done.stderr
    (tmp_path / "bare.csv").write_text("\n".join((tmp_path / "named.csv").read_text().splitlines()[1:]) + "\n")
    bare = csv_uri(tmp_path / "bare.csv")
    done = run("trainer", "evaluate", "--store", bare, "--logdir", logdir)
    assert f"accuracy: {accuracy:g}" in done.stdout and "names are" not in done.stderr
    resumed = train(served, other, logdir, **SOFTMAX, train_steps=50)
    assert resumed.stderr.count("whose names differ") == 1
    train(served, bare, logdir, **SOFTMAX, train_steps=60)  # a store without a header does not unname
    train(served, uri, tmp_path / "straight", **SOFTMAX, train_steps=60)
    assert read_checkpoint(newest(logdir))[1] == read_checkpoint(newest(tmp_path / "straight"))[1]
    assert json.loads(read_checkpoint(newest(logdir))[0]["feature_names"])["first"] == ["a", "b", "c"]


def test_numbered_columns_are_found_by_name_too(sampler, tmp_path):
    rows = random_rows(300, ["p0", "p1", "p2"], 200)
    uri = write_table(tmp_path / "ordered.csv", ["p0", "p1", "p2"], rows)
    mixed = write_table(tmp_path / "mixed.csv", ["p2", "p1", "p0"], rows)
    for first, second in ((uri, mixed), (mixed, uri)):
        served = sampler("--store", first, "--seed", 1)
        logdir = tmp_path / f"run{first == uri}"
        train(served, first, logdir, **SOFTMAX, train_steps=5)
        assert evaluate(first, logdir) == evaluate(second, logdir)
    names = json.loads(read_checkpoint(newest(tmp_path / "runTrue"))[0]["feature_names"])
    assert names == {"count": 3, "by_position": True}


def test_very_many_names_cost_little_and_are_compared_all_the_same(sampler, tmp_path):
    columns = [f"a_rather_long_name_of_a_feature_{i}" for i in range(3000)]
    rows = random_rows(40, columns, 255)
    uri = write_table(tmp_path / "wide.csv", columns, rows)
    served = sampler("--store", uri, "--seed", 1)
    train(served, uri, tmp_path / "run", **SOFTMAX, train_steps=2)
    names = read_checkpoint(newest(tmp_path / "run"))[0]["feature_names"]
    assert len(names) < 10000 and json.loads(names)["count"] == 3000
    columns[-1], columns[-2] = columns[-2], columns[-1]
    other = write_table(tmp_path / "other.csv", columns, rows)
    run_fails("trainer", "evaluate", "--store", other, "--logdir", tmp_path / "run", says=["in another order", "too many to be found by name"])


# ---- a model that learns nothing ----------------------------------------------------------------------


def test_a_dead_model_is_told_once(sampler, tmp_path):
    chance = random.Random(1)
    with open(tmp_path / "wide.csv", "w", encoding="ascii") as out:
        out.writelines(f"{i % 2}," + ",".join(map(str, chance.randbytes(4000))) + "\n" for i in range(200))
    uri = csv_uri(tmp_path / "wide.csv")
    served = sampler("--store", uri, "--seed", 1)
    more = {"batch_size": 50, "train_steps": 40, "hidden_units": 20}
    done = train(served, uri, tmp_path / "dead", learning_rate=5, **more)
    assert done.stderr.count("nothing is learned any more") == 1
    assert "--loss mean" in done.stderr and "--learning-rate" in done.stderr
    done = train(served, uri, tmp_path / "alive", learning_rate=0.001, loss="mean", **more)
    assert "nothing is learned" not in done.stderr


def test_a_perfect_model_is_not_told(sampler, tmp_path):
    rows = [{"kind": i % 2, "a": 255 * (i % 2), "b": 255 * (1 - i % 2)} for i in range(100)]
    uri = write_table(tmp_path / "easy.csv", ["a", "b"], rows)
    served = sampler("--store", uri, "--seed", 1)
    done = train(served, uri, tmp_path / "run", model="softmax", hidden_units=None, batch_size=20, optimizer="sgd",
                 learning_rate=100, loss="sum", train_steps=100)
    assert evaluate(uri, tmp_path / "run") == 1
    assert "nothing is learned" not in done.stderr


# ---- what kill -9 leaves --------------------------------------------------------------------------------


def test_checkpoints_that_nothing_names_are_removed_at_the_next_start(served, store, tmp_path):
    logdir = tmp_path / "run"
    for steps in (20, 40, 60):
        train(served, store, logdir, train_steps=steps)
    orphan = newest(logdir).read_bytes()
    for step in (5, 33, 59, 61, 1000):
        (logdir / f"model.ckpt-{step}.safetensors").write_bytes(orphan)
    (logdir / "model.ckpt-7.other").write_text("a person's")
    state = (logdir / "checkpoint").read_text()
    run("trainer", "evaluate", "--store", store, "--logdir", logdir)  # who only looks, removes nothing
    assert (logdir / "model.ckpt-33.safetensors").exists()
    train(served, store, logdir, train_steps=60)
    (logdir / "model.ckpt-7.other").unlink()
    assert checkpoints(logdir) == [0, 20, 40, 60, 61, 1000]
    assert (logdir / "checkpoint").read_text() == state
    (logdir / "model.ckpt-1000.safetensors").unlink()
    train(served, store, logdir, train_steps=100)
    train(served, store, logdir, train_steps=110)
    assert checkpoints(logdir) == [20, 40, 60, 100, 110]


def test_many_kills_leave_five_checkpoints(start, served, store, tmp_path):
    logdir = tmp_path / "run"
    for kill in range(8 if SANITIZED else 20):
        trainer = start("trainer", *options(served, store, logdir, train_steps=10**9, save_secs=0.001))
        trainer.wait_for_line("training step")
        time.sleep(kill % 7 * 0.003)
        trainer.kill()
    step = max(int(path.name[11:-12]) for path in logdir.glob("model.ckpt-*.safetensors")) + 5
    train(served, store, logdir, train_steps=step)
    listed = re.findall(r'^all_model_checkpoint_paths: "model\.ckpt-(\d+)', (logdir / "checkpoint").read_text(), re.M)
    train(served, store, logdir, train_steps=step)
    assert [str(left) for left in checkpoints(logdir)] == listed and len(listed) <= 5


def test_a_pointer_that_is_garbage_is_told_with_the_way_out(served, store, tmp_path):
    logdir = tmp_path / "run"
    train(served, store, logdir, train_steps=10)
    state = (logdir / "checkpoint").read_text()
    for garbage in ("rubbish\n", "", "\0\1\2", 'model_checkpoint_path: "'):
        (logdir / "checkpoint").write_text(garbage)
        says = [f"{logdir}/checkpoint", "remove that file", "model_checkpoint_path", "another --logdir"]
        run_fails("trainer", "evaluate", "--store", store, "--logdir", logdir, says=says)
        train_fails(served, store, logdir, says, train_steps=20)
    (logdir / "checkpoint").unlink()
    train(served, store, logdir, train_steps=20)
    assert checkpoints(logdir) == [0, 10, 20] and state.startswith("model_checkpoint_path")


@pytest.mark.plain  # a sanitizer's frames are larger
def test_a_small_stack_is_enough(served, store, tmp_path):
    """`ulimit -s 64` is also the size of threads, unless they choose another."""
    words = [str(word) for word in options(served, store, tmp_path / "run", train_steps=300)]
    done = subprocess.run(["sh", "-c", 'ulimit -s 64 && exec "$0" "$@"', program("trainer"), *words], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "events.jsonl").read_text().count("histogram") > 0


# ---- bad rows of evaluate and predict ---------------------------------------------------------------------


def test_evaluate_and_predict_pass_bad_rows_over(named, tmp_path):
    served, uri, rows, logdir = named
    bad = [dict(row) for row in rows]
    for place in (0, 1, 17, 399):
        bad[place]["b"] = "oops"
    broken = write_table(tmp_path / "broken.csv", ["a", "b", "c"], bad)
    good = write_table(tmp_path / "good.csv", ["a", "b", "c"], [row for i, row in enumerate(rows) if i not in (0, 1, 17, 399)])
    for command in ("evaluate", "predict"):
        run_fails("trainer", command, "--store", broken, "--logdir", logdir, says=["broken.csv", "oops"])
    skipped = run("trainer", "evaluate", "--store", broken, "--logdir", logdir, "--bad-rows", "skip")
    assert skipped.stdout == run("trainer", "evaluate", "--store", good, "--logdir", logdir).stdout
    assert "4 bad rows were left out" in skipped.stderr
    zeroed = run("trainer", "evaluate", "--store", broken, "--logdir", logdir, "--bad-rows", "replace")
    assert "rows: 400\n" in zeroed.stdout and "4 bad rows were replaced by zeros" in zeroed.stderr
    whole = run("trainer", "predict", "--store", uri, "--logdir", logdir).stdout.splitlines()
    lines = run("trainer", "predict", "--store", broken, "--logdir", logdir, "--bad-rows", "skip").stdout.splitlines()
    assert lines == [line for i, line in enumerate(whole, -1) if i not in (0, 1, 17, 399)]
    lines = run("trainer", "predict", "--store", broken, "--logdir", logdir, "--bad-rows", "replace").stdout.splitlines()
    assert len(lines) == 401 and lines[3:18] == whole[3:18]
    assert [line.split(",")[:2] for line in (lines[1], lines[18])] == [["0", ""], ["17", ""]], "zeros have no label"


def test_a_test_store_s_bad_rows_are_passed_over_too(named, tmp_path):
    """As those of `evaluate`."""
    served, uri, rows, _ = named
    bad = [dict(row) for row in rows]
    for place in (0, 1, 17, 399):
        bad[place]["b"] = "oops"
    broken = write_table(tmp_path / "broken.csv", ["a", "b", "c"], bad)
    run_fails("trainer", *options(served, uri, tmp_path / "fail", **SOFTMAX, test_store=broken), says=["oops", "--bad-rows skip"])
    for what, says in (("skip", "left out"), ("replace", "replaced by zeros")):
        done = train(served, uri, tmp_path / what, **SOFTMAX, train_steps=50, test_store=broken, bad_rows=what)
        assert f"4 bad rows of the test set were {says}" in done.stderr
        scored = run("trainer", "evaluate", "--store", broken, "--logdir", tmp_path / what, "--bad-rows", what, "--best").stdout
        assert float(done.stdout.split("accuracy: ")[-1]) == pytest.approx(float(scored.split("accuracy: ")[-1]), abs=1e-5)
    nothing = write_table(tmp_path / "nothing.csv", ["a", "b", "c"], [{"kind": i % 2, "a": 1, "b": "x", "c": 2} for i in range(9)])
    run_fails("trainer", *options(served, uri, tmp_path / "none", **SOFTMAX, test_store=nothing, bad_rows="skip"),
              says="no rows to test on")


def test_a_good_row_whose_label_is_no_class_is_refused_with_replace_too(sampler, tmp_path):
    """Label 0, that of replaced rows, but its own."""
    rows = random_rows(60, ["a", "b"], 200)
    for row in rows:
        row["kind"] += 1
    uri = write_table(tmp_path / "train.csv", ["a", "b"], rows)
    train(sampler("--store", uri, "--seed", 1), uri, tmp_path / "run", **SOFTMAX, train_steps=5)
    rows[7]["a"], rows[9]["kind"] = "oops", 0
    broken = write_table(tmp_path / "broken.csv", ["a", "b"], rows)
    run_fails("trainer", "evaluate", "--store", broken, "--logdir", tmp_path / "run", "--bad-rows", "replace",
              says="id 9 has label 0, which is not one of the 2 classes")


def test_a_store_of_nothing_but_bad_rows(named, tmp_path):
    logdir = named[3]
    broken = write_table(tmp_path / "broken.csv", ["a", "b", "c"], [{"kind": i % 2, "a": 1, "b": "x", "c": 2} for i in range(9)])
    run_fails("trainer", "evaluate", "--store", broken, "--logdir", logdir, "--bad-rows", "skip", says="no rows to evaluate on")
    done = run("trainer", "predict", "--store", broken, "--logdir", logdir, "--bad-rows", "skip")
    assert len(done.stdout.splitlines()) == 1


# ---- the environment ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trainer", "loader"])
def test_help_tells_the_environment(name):
    shown = run(name, "train" if name == "trainer" else "pull", "--help").stdout
    assert "TOMBOLA_TOKEN" in shown and "TOMBOLA_CA" in shown


def test_tls_is_explained(sampler, store, tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    secure = sampler("--store", store, "--seed", 7, "--tls-cert", cert, "--tls-key", key)
    train_fails(secure.url, store, tmp_path / "run", ["certificate", "an authority in TOMBOLA_CA"], status=1, patience=1)
    train(secure.url, store, tmp_path / "run", train_steps=2, env={"TOMBOLA_CA": str(cert)})
    plain = sampler("--store", store, "--seed", 7)
    train_fails(plain.url.replace("http:", "https:"), store, tmp_path / "run", ["use http://"], status=1,
                env={"TOMBOLA_CA": str(cert)}, patience=1, train_steps=9)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_descriptors_get_no_file(served, store, tmp_path, closed):
    logdir = tmp_path / "run"
    words = [program("trainer"), *map(str, options(served, store, logdir, train_steps=30))]
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *words], capture_output=True, text=True,
                          env=environment(), timeout=PATIENCE_S, check=False)
    assert done.returncode == (1 if ">&-" in closed.replace("2>&-", "") else 0)
    assert checkpoints(logdir) == [0, 30]
    assert re.fullmatch(r"process \d+ on .*\nmark [0-9a-f]{16}\nmachine .* [0-9a-f-]{36}\n", (logdir / "trainer.lock").read_text())
    assert newest(logdir).read_bytes()[8:9] == b"{"


def test_a_sampler_without_descriptors_serves(sampler, store, tmp_path):
    """What it logs goes nowhere, not into the files that it opens."""
    state = tmp_path / "state"
    words = [program("sampler"), "serve", "--listen", "127.0.0.1:0", "--store", store, "--state", str(state)]
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *words], stdout=subprocess.PIPE, env=environment())
    try:
        assert process.stdout.readline().startswith(b"listening on ")
        assert all(b" info " not in path.read_bytes() for path in state.rglob("*") if path.is_file())
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE_S) == (b"", None)
    assert process.returncode == 0
