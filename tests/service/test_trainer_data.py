# SPDX-License-Identifier: MIT
"""tombola-trainer on tables that are no digits: columns in the thousands, regressions, splits, names of classes."""

import csv
import io
import itertools
import json
import math
import os
import pty
import random
import re
import shlex
import sqlite3
import struct
import subprocess
import time

import pytest

from conftest import PATIENCE_S, environment, program, run, run_fails
from test_trainer import (  # noqa: F401 (the fixtures)
    csv_uri, evaluate, newest, options, predictions, read_checkpoint, served, store, train, train_fails)

CLASSIFIER = {"model": "softmax", "hidden_units": None, "learning_rate": 0.3, "batch_size": 50, "train_steps": 2000}
REGRESSION = {**CLASSIFIER, "model": "linear", "optimizer": "adam", "learning_rate": 0.01}
KINDS = ["setosa", "versicolor", "virginica, wild"]


def write_flowers(path, rows=1500, seed=1):
    """Three kinds that two columns tell apart, one in the thousands and one in thousandths; one column never changes."""
    chance = random.Random(seed)
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["kind", "pressure", "width", "fixed"])
        for _ in range(rows):
            kind = chance.randrange(3)
            out.writerow([KINDS[kind], 50000 + 300 * kind + chance.gauss(0, 100), 0.001 * kind + chance.gauss(0, 0.0004), 7.5])
    return f"csv:{path}?label=kind"


def write_houses(path, rows=2000):
    """price = 1,500 size + 20,000 rooms + 100,000, and noise of 5,000."""
    chance = random.Random(2)
    with open(path, "w", encoding="ascii") as out:
        out.write("size,rooms,price\n")
        for _ in range(rows):
            size, rooms = chance.uniform(30, 200), chance.randint(1, 6)
            out.write(f"{size:.3f},{rooms},{1500 * size + 20000 * rooms + 100000 + chance.gauss(0, 5000):.2f}\n")
    return f"csv:{path}?label=price"


# ---- --normalize ------------------------------------------------------------------------------------


def test_columns_in_the_thousands_train_when_normalized_and_say_so_when_not(sampler, tmp_path):
    uri = write_flowers(tmp_path / "flowers.csv")
    flowers = sampler("--store", uri, "--seed", 1)
    done = train(flowers, uri, tmp_path / "raw", **CLASSIFIER)
    assert re.search(r"warning +the loss of the last 100 steps is .* the model is no better than that; --normalize", done.stderr)
    assert evaluate(uri, tmp_path / "raw") < 0.7
    done = run("trainer", *options(flowers, uri, tmp_path / "run", **CLASSIFIER), "--normalize")
    assert "features are normalized with their mean and deviation over 1500 rows" in done.stderr
    assert "the model is no better than that" not in done.stderr
    assert evaluate(uri, tmp_path / "run") > 0.97
    with open(tmp_path / "flowers.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    _, tensors = read_checkpoint(newest(tmp_path / "run"))
    for at, name in enumerate(["pressure", "width", "fixed"]):
        values = [float(row[name]) for row in rows]
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)) or 1
        assert tensors["feature_mean"][1][at] == pytest.approx(mean, rel=1e-5)
        assert tensors["feature_deviation"][1][at] == pytest.approx(deviation, rel=1e-4)


def test_a_normalized_training_goes_on_bit_for_bit(sampler, tmp_path):
    """With or without the option, since the checkpoint has it; and it cannot be begun in the middle."""
    uri = write_flowers(tmp_path / "flowers.csv")
    flowers = sampler("--store", uri, "--seed", 1)
    words = {"model": "mlp", "hidden_units": 8, "batch_size": 32}
    run("trainer", *options(flowers, uri, tmp_path / "straight", **words, train_steps=300), "--normalize")
    for steps, more in ((100, ["--normalize"]), (200, []), (300, ["--normalize"])):
        run("trainer", *options(flowers, uri, tmp_path / "run", **words, train_steps=steps), *more)
    assert newest(tmp_path / "run").read_bytes() == newest(tmp_path / "straight").read_bytes()
    train(flowers, uri, tmp_path / "raw", **words, train_steps=10)
    for steps in (20, 10):
        run_fails("trainer", *options(flowers, uri, tmp_path / "raw", **words, train_steps=steps), "--normalize",
                  says=["was trained without --normalize", "train with it in another --logdir"])


def test_bytes_are_normalized_too(served, store, tmp_path):
    run("trainer", *options(served, store, tmp_path / "run", train_steps=300, batch_size=100), "--normalize")
    assert evaluate(store, tmp_path / "run") > 0.9


def test_a_feature_that_is_not_finite_makes_no_row(sampler, tmp_path):
    with sqlite3.connect(tmp_path / "bad.db") as database:
        database.execute("CREATE TABLE samples (id INTEGER PRIMARY KEY, label INTEGER, x BLOB)")
        database.executemany("INSERT INTO samples VALUES (?, ?, ?)", [
            (row, row % 2, struct.pack("<2f", row, math.inf if row == 33 else 1)) for row in range(100)])
    uri = f"sqlite:{tmp_path}/bad.db?element=f32"
    words = options(sampler("--store", uri), uri, tmp_path / "run", **{**CLASSIFIER, "train_steps": 20})
    run_fails("trainer", *words, "--normalize", says=["id 33", "a finite number (element 1 is not)"])
    assert "bad rows were left out" in run("trainer", *words, "--normalize", "--bad-rows", "skip").stderr


@pytest.mark.parametrize("optimizer, rate", [("sgd", 0.05), ("adagrad", 0.3), ("adam", 0.01)])
def test_a_regression_of_large_numbers(sampler, tmp_path, optimizer, rate):
    uri = write_houses(tmp_path / "houses.csv")
    houses = sampler("--store", uri, "--design", "srs", "--seed", 1)
    words = {**REGRESSION, "optimizer": optimizer, "learning_rate": rate}
    done = run("trainer", *options(houses, uri, tmp_path / "run", **words, test_store=uri), "--normalize")
    assert "features and the target are normalized" in done.stderr
    lines = run("trainer", "evaluate", "--store", uri, "--logdir", tmp_path / "run").stdout.splitlines()
    assert lines[0] == "rows: 2000"
    assert float(lines[1].removeprefix("R2: ")) > 0.99
    squared = float(lines[2].removeprefix("mean squared error: "))
    assert 4000**2 < squared < 6000**2
    assert float(done.stdout.splitlines()[-1].split(": ")[1]) == pytest.approx(squared, rel=1e-4)
    rows = predictions(uri, tmp_path / "run")
    errors = [(float(row["predicted"]) - float(row["label"])) ** 2 for row in rows]
    assert math.fsum(errors) / len(errors) == pytest.approx(squared, rel=1e-3)


def test_a_regression_that_learns_nothing_says_so(sampler, tmp_path):
    uri = write_houses(tmp_path / "houses.csv")
    houses = sampler("--store", uri, "--design", "srs", "--seed", 1)
    done = train(houses, uri, tmp_path / "run", **{**REGRESSION, "train_steps": 300})
    assert "always answering the targets' mean would have" in done.stderr and "--normalize" in done.stderr


@pytest.mark.parametrize("labels, says", [(["9223372036854775807", "5"], "integers above 2^53 or with zeros in front, such as '9223372036854775807'"),
                                          (["12", "twelve"], "holds texts such as 'twelve'")])
def test_a_regression_says_what_it_takes_for_a_text(sampler, tmp_path, labels, says):
    path = tmp_path / "texts.csv"
    path.write_text("label,a\n" + "".join(f"{labels[i % 2]},{i}\n" for i in range(20)))
    words = options(sampler("--store", f"csv:{path}"), f"csv:{path}", tmp_path / "run", **REGRESSION)
    run_fails("trainer", *words, says=[says, "a regression (linear) needs numbers"])


# ---- what a terminal shows --------------------------------------------------------------------------


def test_a_terminal_gets_lines_that_a_person_can_read(sampler, tmp_path):
    """Ten lines of steps a second at most, and always the last one; a pipe gets them all."""
    uri = write_flowers(tmp_path / "flowers.csv", 600)
    flowers = sampler("--store", uri, "--seed", 1)
    words = [str(word) for word in options(flowers, uri, tmp_path / "run", **CLASSIFIER)]
    ours, theirs = pty.openpty()
    began = time.monotonic()
    with subprocess.Popen([program("trainer"), *words], stdout=theirs, stderr=subprocess.PIPE, env=environment()) as trainer:
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            text += piece
        trainer.stderr.read()
    os.close(ours)
    assert trainer.returncode == 0
    steps = re.findall(rb"global step: (\d+)", text)
    assert steps[-1] == b"2000" and len(steps) <= 10 * (time.monotonic() - began) + 2
    piped = train(flowers, uri, tmp_path / "the boss's", **CLASSIFIER)
    assert piped.stdout.count("global step: ") == 2000
    command = re.search("next: (.*), or predict", piped.stderr)[1]
    assert shlex.split(command)[1:] == ["evaluate", "--store", "TEST-STORE", "--logdir", str(tmp_path / "the boss's")]


# ---- streams ----------------------------------------------------------------------------------------


def test_a_split_is_trained_on_and_another_scored(sampler, tmp_path):
    uri = write_flowers(tmp_path / "flowers.csv")
    flowers = sampler("--store", uri, "--seed", 1, "--splits", "0.8,0.1,0.1")
    for split in ("train", "test"):
        made = flowers.request("POST", "/streams", body=json.dumps({"name": split, "split": split, "seed": 5, "tail": "span"}))
        assert made.status == 201
    units = {split: json.loads(flowers.get(f"/streams/{split}").text)["units"] for split in ("train", "test")}
    done = run("trainer", *options(flowers, uri, tmp_path / "run", **CLASSIFIER), "--stream", "train", "--normalize")
    assert f"over {units['train']} rows" in done.stderr
    assert json.loads(read_checkpoint(newest(tmp_path / "run"))[0]["sampler"])["name"] == "train"
    assert json.loads(flowers.get("/streams/default").text)["position"] == 0

    predicted = {row["id"]: row for row in predictions(uri, tmp_path / "run")}
    scored = run("trainer", "evaluate", "--store", uri, "--logdir", tmp_path / "run", "--sampler", flowers.url, "--stream", "test")
    lines = dict(line.split(": ") for line in scored.stdout.splitlines() if ": " in line)
    assert list(lines) == ["rows", "mean cross entropy", "accuracy"] and int(lines["rows"]) == units["test"]
    drawn = json.loads(flowers.get(f"/batch?stream=test&index=0&size={units['test']}").text)["ids"]
    right = [predicted[str(row)] for row in drawn]
    assert float(lines["accuracy"]) == pytest.approx(sum(row["label"] == row["predicted"] for row in right) / len(right), abs=1e-5)
    entropy = -math.fsum(math.log(float(row[f"p_{row['label']}"])) for row in right) / len(right)
    assert float(lines["mean cross entropy"]) == pytest.approx(entropy, rel=1e-4)
    some = predictions(uri, tmp_path / "run", "--sampler", flowers.url, "--stream", "test")
    assert [row["id"] for row in some] == [str(row) for row in drawn] and some == right
    run_fails("trainer", "evaluate", "--store", uri, "--logdir", tmp_path / "run", "--sampler", flowers.url, "--stream", "none",
              says="none", status=None)


def test_an_epoch_of_a_stream_is_scored_once_and_whole(sampler, tmp_path):
    """Whatever its tail and design: nothing of the next epoch, and also what tail=drop leaves out. Batches of 1000 do not divide it."""
    uri = write_flowers(tmp_path / "flowers.csv")
    flowers = sampler("--store", uri, "--seed", 1)
    train(flowers, uri, tmp_path / "run", **{**CLASSIFIER, "train_steps": 2})
    designs = [{"design": "srs"}, {"design": "srs", "rows": "0:50"}, {"design": "bernoulli", "rate": 0.2},
               {"design": "systematic", "size": 1234}, {"design": "pxk", "p": 2, "k": 30}, {"design": "pxk", "p": 3, "k": 350}]
    for number, fields in enumerate(designs):
        for tail in ("keep", "drop", "span"):
            name = f"{tail}-{number}"
            made = flowers.request("POST", "/streams", body=json.dumps({"name": name, "tail": tail, "seed": 5, **fields}))
            assert made.status == 201, made.text
            if tail == "keep":
                size = fields.get("p", 50) * fields.get("k", 30)  # a pxk batch may be larger than the model's
                batches = (flowers.get(f"/batch?stream={name}&index={index}&size={size}").json for index in itertools.count())
                first = itertools.takewhile(lambda batch: batch["epoch"] == 0, batches)
                whole = [unit for batch in first for unit in batch["ids"]]
            scored = predictions(uri, tmp_path / "run", "--sampler", flowers.url, "--stream", name)
            assert [int(row["id"]) for row in scored] == whole, name


def test_rows_of_every_split_bring_a_warning(sampler, tmp_path):
    """The warning says how a stream of the split is made; it is made so, and training on it brings none."""
    uri = write_flowers(tmp_path / "flowers.csv")
    flowers = sampler("--store", uri, "--seed", 1, "--splits", "0.8,0.1,0.1")
    assert flowers.get("/streams/default").json["splits"] == [0.8, 0.1, 0.1]
    said = train(flowers, uri, tmp_path / "mixed", **CLASSIFIER).stderr
    assert "validation and test rows among them" in said and "--stream NAME" in said
    command = re.search(r"curl \S+ -d '[^']+'", said)[0]
    made = json.loads(subprocess.run(command, shell=True, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout)
    assert made["split"] == "train" and "splits" not in made
    assert "among them" not in run("trainer", *options(flowers, uri, tmp_path / "run", **CLASSIFIER), "--stream", made["name"]).stderr
    for words in ([], ["--splits", "0.8,0.1,0.1", "--split", "train"]):
        other = sampler("--store", uri, "--seed", 1, *words)
        assert "among them" not in train(other, uri, tmp_path / f"run{len(words)}", **CLASSIFIER).stderr


# ---- names ------------------------------------------------------------------------------------------


def test_predictions_name_their_classes(sampler, tmp_path):
    uri = write_flowers(tmp_path / "flowers.csv", 300)
    flowers = sampler("--store", uri, "--seed", 1)
    train(flowers, uri, tmp_path / "run", **{**CLASSIFIER, "train_steps": 5})
    done = run("trainer", "predict", "--store", uri, "--logdir", tmp_path / "run")
    header = next(csv.reader(io.StringIO(done.stdout)))
    assert header == ["id", "label", "predicted", "p_setosa", "p_versicolor", "p_virginica, wild"]


def test_integers_beyond_doubles_are_classes(sampler, tmp_path):
    labels = (2**63 - 1, 2**53, 2**53 + 1)  # the last two are one double
    rows = [f"{i},{i % 3 * 100},{labels[i % 3]}\n" for i in range(60)]
    (tmp_path / "users.csv").write_text("".join(["id,x,label\n", *rows]))
    store = f"csv:{tmp_path}/users.csv"
    train(sampler("--store", store, "--seed", 1), store, tmp_path / "run", **{**CLASSIFIER, "train_steps": 5})
    done = run("trainer", "predict", "--store", store, "--logdir", tmp_path / "run")
    header, *lines = csv.reader(io.StringIO(done.stdout))
    assert header == ["id", "label", "predicted", *(f"p_{label}" for label in sorted(labels))]
    assert [(int(line[0]), int(line[1])) for line in lines] == [(i, labels[i % 3]) for i in range(60)]
    assert {int(line[2]) for line in lines} <= set(labels)


# ---- parameters from elsewhere ----------------------------------------------------------------------


def write_tensors(path, tensors, metadata=None):
    """As the format's own Python package writes them: no digest, and metadata only where it is given."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (shape, values) in tensors.items():
        kind = "q" if name == "global_step" else "f"
        packed = struct.pack(f"<{len(values)}{kind}", *values)
        header[name] = {"dtype": "I64" if kind == "q" else "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.fixture
def learnt(sampler, tmp_path):
    """(a sampler, its store, a logdir of a normalized training)"""
    uri = write_flowers(tmp_path / "flowers.csv", 600)
    flowers = sampler("--store", uri, "--seed", 1)
    run("trainer", *options(flowers, uri, tmp_path / "learnt", **{**CLASSIFIER, "train_steps": 200}), "--normalize")
    return flowers, uri, tmp_path / "learnt"


def test_training_begins_with_a_checkpoints_parameters(learnt, tmp_path):
    """And with how it took its features; its step, slots and place in the order are not taken."""
    flowers, uri, logdir = learnt
    words = {**CLASSIFIER, "train_steps": 1, "optimizer": "adam", "learning_rate": 1e-9, "init_from": newest(logdir)}
    done = train(flowers, uri, tmp_path / "next", **words)
    assert f"parameters start from {newest(logdir)}" in done.stderr
    old, new = read_checkpoint(newest(logdir)), read_checkpoint(tmp_path / "next" / "model.ckpt-0.safetensors")
    for name in ("sm_w", "sm_b", "feature_mean", "feature_deviation"):
        assert new[1][name] == old[1][name]
    assert set(new[1]["sm_w/Adam"][1]) == {0} and new[1]["global_step"][1] == (0,)
    assert json.loads(new[0]["sampler"])["next_index"] == 0
    assert evaluate(uri, tmp_path / "next") == evaluate(uri, logdir)
    again = train(flowers, uri, tmp_path / "next", **{**words, "train_steps": 2})
    assert "is not used: training goes on from" in again.stderr
    train_fails(flowers, uri, tmp_path / "mlp", "has no tensor hid_w", **{**words, "model": "mlp"})
    run_fails("trainer", *options(flowers, uri, tmp_path / "none", **{**words, "init_from": tmp_path / "none.safetensors"}),
              says="none.safetensors", status=None)


def test_parameters_that_python_wrote(learnt, tmp_path):
    flowers, uri, logdir = learnt
    _, tensors = read_checkpoint(newest(logdir))
    bare = tmp_path / "bare.safetensors"
    words = {**CLASSIFIER, "train_steps": 1, "init_from": bare}
    write_tensors(bare, {name: tensors[name] for name in ("sm_w", "sm_b")})
    done = train(flowers, uri, tmp_path / "next", **words)
    assert re.search(r"warning +\S*bare.safetensors has no digest", done.stderr)
    start = read_checkpoint(tmp_path / "next" / "model.ckpt-0.safetensors")[1]
    assert start["sm_w"] == tensors["sm_w"] and "feature_mean" not in start
    write_tensors(bare, {"sm_w": ([3, 2], [0.0] * 6), "sm_b": tensors["sm_b"]})
    train_fails(flowers, uri, tmp_path / "other", "sm_w is not F32 of shape [3, 3]", **words)
    write_tensors(bare, {"sm_w": ([3, 3], [0.0] * 4 + [math.nan] + [0.0] * 4), "sm_b": tensors["sm_b"]})
    train_fails(flowers, uri, tmp_path / "nan", "element 4 of tensor sm_w is NaN, not a finite number", **words)
    run_fails("trainer", "evaluate", "--store", uri, "--checkpoint", bare, says="no metadata that says which model it is")


def test_a_checkpoint_without_its_digest_is_used_with_a_warning(learnt, tmp_path):
    """What a Python program wrote that read one and changed it; a digest that does not fit stays a damage."""
    flowers, uri, logdir = learnt
    metadata, tensors = read_checkpoint(newest(logdir))
    changed, digest = tmp_path / "changed.safetensors", metadata.pop("xxh3_128")
    write_tensors(changed, tensors, metadata)
    for command in ("evaluate", "predict"):
        done = run("trainer", command, "--store", uri, "--checkpoint", changed)
        assert "has no digest" in done.stderr
    accuracy = run("trainer", "evaluate", "--store", uri, "--checkpoint", changed).stdout.splitlines()[-1]
    assert accuracy == f"accuracy: {evaluate(uri, logdir):g}"
    write_tensors(changed, tensors, {**metadata, "xxh3_128": digest})
    run_fails("trainer", "evaluate", "--store", uri, "--checkpoint", changed, says=["damaged", "must leave the metadata entry"])
    write_tensors(newest(logdir), tensors, metadata)  # not to go on from: training trusts what it wrote
    evaluate(uri, logdir)
    train_fails(flowers, uri, logdir, "has no digest", **{**CLASSIFIER, "train_steps": 300})


def test_a_stream_needs_its_sampler(learnt):
    """Else all rows would be scored, those of training too."""
    _, uri, logdir = learnt
    for command in ("evaluate", "predict"):
        run_fails("trainer", command, "--store", uri, "--logdir", logdir, "--stream", "test", says="needs a sampler: give --sampler URL")


def test_numbers_that_are_hardly_classes_are_doubted(sampler, tmp_path):
    path = tmp_path / "houses.csv"
    path.write_text("size,price\n" + "".join(f"{row % 50},{100000 + 7 * row}\n" for row in range(400)))
    uri = f"csv:{path}?label=price"
    done = train(sampler("--store", uri, "--design", "srs"), uri, tmp_path / "run", **{**CLASSIFIER, "train_steps": 3})
    assert "column price holds 400 different numbers in 400 units" in done.stderr and "--model linear" in done.stderr


def test_columns_that_the_model_does_not_take_need_not_be_numbers(learnt, tmp_path):
    flowers, uri, logdir = learnt
    with open(tmp_path / "flowers.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(tmp_path / "notes.csv", "w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, ["note", "width", "Pressure", "fixed", "kind"])
        out.writeheader()
        out.writerows({"note": f"seen by {at}", "Pressure": row.pop("pressure"), **row} for at, row in enumerate(rows))
    notes = f"csv:{tmp_path}/notes.csv?label=kind"
    assert evaluate(notes, logdir) == evaluate(uri, logdir)
    unlabelled = run("trainer", "predict", "--store", f"csv:{tmp_path}/notes.csv", "--logdir", logdir).stdout
    assert unlabelled.splitlines()[5].split(",")[2:] == run(
        "trainer", "predict", "--store", uri, "--logdir", logdir).stdout.splitlines()[5].split(",")[2:]
