# SPDX-License-Identifier: MIT
"""What `evaluate` says of each class, held against what `predict` says of each row."""

import csv
import io
import json

import pytest

from conftest import run
from test_trainer import served, store, test_store, train  # noqa: F401, fixtures


@pytest.fixture
def trained(served, store, tmp_path):  # noqa: F811
    """So little that some rows are wrong."""
    train(served, store, tmp_path / "run", train_steps=8)
    return tmp_path / "run"


def count(store, logdir):  # noqa: F811
    """{(label, predicted): rows} by predict's CSV."""
    text = run("trainer", "predict", "--store", store, "--logdir", logdir).stdout
    found = {}
    for row in csv.DictReader(io.StringIO(text)):
        pair = row["label"], row["predicted"]
        found[pair] = found.get(pair, 0) + 1
    return found


def figures(pairs, name):
    hits = pairs.get((name, name), 0)
    had = sum(rows for (label, _), rows in pairs.items() if label == name)
    given = sum(rows for (_, predicted), rows in pairs.items() if predicted == name)
    return hits / given if given else 0, hits / had if had else 0, 2 * hits / (had + given) if had + given else 0, had


def test_json_has_every_figure(trained, test_store):  # noqa: F811
    pairs = count(test_store, trained)
    got = json.loads(run("trainer", "evaluate", "--store", test_store, "--logdir", trained, "--format", "json").stdout)
    names = [one["class"] for one in got["classes"]]
    assert names == [str(digit) for digit in range(10)] and 0.2 < got["accuracy"] < 1
    right = {name: figures(pairs, name) for name in names}
    for one in got["classes"]:
        assert (one["precision"], one["recall"], one["f1"], one["support"]) == pytest.approx(right[one["class"]])
    assert got["confusion"] == [[pairs.get((label, predicted), 0) for predicted in names] for label in names]
    macro, weighted = got["averages"]
    assert (macro["average"], weighted["average"]) == ("macro", "weighted")
    for at, key in enumerate(("precision", "recall", "f1")):
        assert macro[key] == pytest.approx(sum(one[at] for one in right.values()) / len(names))
        assert weighted[key] == pytest.approx(sum(one[at] * one[3] for one in right.values()) / got["rows"])
    assert macro["support"] == weighted["support"] == got["rows"] == sum(pairs.values())


def test_text_says_the_same_and_ends_with_the_accuracy(trained, test_store):  # noqa: F811
    pairs = count(test_store, trained)
    lines = run("trainer", "evaluate", "--store", test_store, "--logdir", trained).stdout.splitlines()
    rows = sum(pairs.values())
    assert lines[0] == f"rows: {rows}" and lines[-2].startswith("mean cross entropy: ")
    assert lines[-1] == f"accuracy: {sum(count for (label, given), count in pairs.items() if label == given) / rows:g}"
    assert lines[1].split() == ["class", "precision", "recall", "f1", "support"]
    for digit, line in enumerate(lines[2:12]):
        *shares, had = figures(pairs, str(digit))
        assert line.split() == [str(digit), *(f"{share:.4f}" for share in shares), str(had)]
    assert [line.split()[0] for line in lines[12:14]] == ["macro", "weighted"]
    assert lines[14].split() == ["class", "\\", "given", *map(str, range(10))]
    for digit, line in enumerate(lines[15:25]):
        assert line.split() == [str(digit), *(str(pairs.get((str(digit), str(given)), 0)) for given in range(10))]
    assert len(lines) == 27


def test_a_regression_has_no_classes(served, store, test_store, tmp_path):  # noqa: F811
    train(served, store, tmp_path, model="linear", hidden_units=None, train_steps=20)
    got = json.loads(run("trainer", "evaluate", "--store", test_store, "--logdir", tmp_path, "--format", "json").stdout)
    assert set(got) == {"rows", "mean_squared_error", "r2"}
    lines = run("trainer", "evaluate", "--store", test_store, "--logdir", tmp_path).stdout.splitlines()
    assert lines[-1] == f"mean squared error: {got['mean_squared_error']:g}" and lines[-2] == f"R2: {got['r2']:g}"
