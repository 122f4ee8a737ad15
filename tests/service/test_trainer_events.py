# SPDX-License-Identifier: MIT
"""What a training writes for TensorBoard and scripts: read by TensorBoard's own reader, after kills and beside disks that
fail or hang."""

import json
import os
import re
import time

import pytest

from cluster_cases import Cluster
from conftest import wait_for
from test_events import read_events
from test_trainer import (  # noqa: F401, fixtures
    checkpoints, newest, options, read_checkpoint, served, store, test_store, train, train_fails,
)

STEPS = 300
EACH_STEP = "0.000001"  # seconds between two summaries
TAGS = {"loss", "accuracy", "rows_per_s", "steps_per_s", "wait_for_data", "learning_rate"}


def event_files(folder):
    return sorted(folder.glob("events.out.tfevents.*"))


def read_lines(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def steps_of(scalars):
    return [step for step, _, _ in scalars]


def check_histograms(histograms, checkpoint, step):
    """Those of `step` are of the tensors that the checkpoint has."""
    _, tensors = read_checkpoint(checkpoint)
    parameters = {name: values for name, (_, values) in tensors.items() if "/" not in name and name != "global_step"}
    assert set(histograms) == set(parameters)
    for name, values in parameters.items():
        ((_, counted),) = (item for item in histograms[name] if item[0] == step)
        assert (counted["min"], counted["max"], counted["num"]) == (min(values), max(values), len(values))


def test_tensorboard_shows_a_training(served, store, test_store, tmp_path):  # noqa: F811
    done = train(served, store, tmp_path, train_steps=STEPS, test_store=test_store, test_every=100, summary_secs=EACH_STEP)
    seen = read_events(tmp_path)
    scalars = seen["scalars"]
    assert set(scalars) == TAGS | {"test_loss", "test_accuracy"}
    for tag in TAGS:
        assert steps_of(scalars[tag]) == list(range(1, STEPS + 1)), tag
    assert steps_of(scalars["test_loss"]) == steps_of(scalars["test_accuracy"]) == [100, 200, 300]
    losses = [value for _, value, _ in scalars["loss"]]
    assert losses[0] == pytest.approx(2.3, abs=0.7) and losses[-1] < losses[0] / 2, "of a row; it learns"
    assert all(value * 50 == pytest.approx(round(value * 50)) for _, value, _ in scalars["accuracy"]), "of 50 rows"
    assert all(value == pytest.approx(0.01) for _, value, _ in scalars["learning_rate"])
    assert all(value > 0 for _, value, _ in scalars["rows_per_s"])
    assert all(0 <= value <= 1 for _, value, _ in scalars["wait_for_data"])
    last = re.search(r"^accuracy: (.*)$", done.stdout, re.MULTILINE)
    assert scalars["test_accuracy"][-1][1] == pytest.approx(float(last[1]), abs=1e-6)
    totals = [float(value) for value in re.findall(r"^cross entropy = (.*)$", done.stdout, re.MULTILINE)]
    rows = sum(1 for _ in open(test_store.removeprefix("csv:").partition("?")[0], encoding="ascii"))
    assert [value for _, value, _ in scalars["test_loss"]] == pytest.approx([total / rows for total in totals[:3]], rel=1e-4)
    assert [(step, path) for step, status, path in seen["sessions"] if status == 3] == \
        [(step, str(tmp_path / f"model.ckpt-{step}.safetensors")) for step in (0, STEPS)]
    for step in (0, STEPS):
        check_histograms(seen["histograms"], tmp_path / f"model.ckpt-{step}.safetensors", step)


def test_summaries_come_by_time(served, store, tmp_path):  # noqa: F811
    train(served, store, tmp_path, train_steps=STEPS, summary_secs=1e9)
    (line,) = (line for line in read_lines(tmp_path) if "loss" in line)
    assert line["step"] == STEPS, "what the end shows"


def test_there_may_be_no_summaries(served, store, tmp_path):  # noqa: F811
    """And the checkpoint has the same bytes."""
    with_them, without = tmp_path / "with", tmp_path / "without"
    train(served, store, with_them, summary_secs=EACH_STEP)
    train(served, store, without, summary_secs=0)
    assert not event_files(without) and not (without / "events.jsonl").exists()
    assert newest(with_them).read_bytes() == newest(without).read_bytes()


def test_what_trains_nothing_leaves_no_event_file(served, store, tmp_path):  # noqa: F811
    train_fails(served, store, tmp_path, says="none.csv", test_store="csv:none.csv?label=0")
    assert not event_files(tmp_path)
    train(served, store, tmp_path, train_steps=1)
    before = event_files(tmp_path)
    assert len(before) == 1
    train(served, store, tmp_path, train_steps=1)  # nothing is left to train
    assert event_files(tmp_path) == before


def test_no_step_is_there_twice_after_a_kill(start, served, store, tmp_path):  # noqa: F811
    """The killed run had come further than the checkpoint from which it began, and the next one does too."""
    train(served, store, tmp_path, train_steps=100, summary_secs=EACH_STEP)
    killed = start("trainer", *options(served, store, tmp_path, train_steps=10**9, summary_secs=0.01, save_secs=0,
                                     print_every=0))
    wait_for(lambda: (tmp_path / "events.jsonl").read_text().count('"loss"') > 150, "events of the run that will be killed")
    killed.kill()
    assert checkpoints(tmp_path) == [0, 100] and len(event_files(tmp_path)) == 2
    train(served, store, tmp_path, train_steps=150, summary_secs=EACH_STEP)
    assert len(event_files(tmp_path)) == 3
    seen = read_events(tmp_path)
    for tag in TAGS:
        assert steps_of(seen["scalars"][tag]) == list(range(1, 151)), tag
    assert [step for step, status, _ in seen["sessions"] if status == 1] == [0, 101, 101]


def test_a_start_whose_clock_was_set_back_comes_after_the_others(served, store, tmp_path):  # noqa: F811
    """TensorBoard reads files in the order of their names, which begin with a time."""
    train(served, store, tmp_path, train_steps=100, summary_secs=EACH_STEP)
    (first,) = event_files(tmp_path)
    ahead = int(time.time()) + 86400  # the clock of the first start
    first.rename(first.with_name(f"events.out.tfevents.{ahead}.other.1"))
    (tmp_path / "events.out.tfevents.notes").touch()
    train(served, store, tmp_path, train_steps=150, summary_secs=EACH_STEP)
    assert any(file.name.startswith(f"events.out.tfevents.{ahead + 1}.") for file in event_files(tmp_path))
    (tmp_path / "events.out.tfevents.notes").unlink()
    assert steps_of(read_events(tmp_path)["scalars"]["loss"]) == list(range(1, 151))


@pytest.mark.parametrize("disk", ["full", "hangs", "is a folder"])
def test_a_disk_neither_ends_nor_changes_a_training(served, store, tmp_path, disk):  # noqa: F811
    """As far as events go: what they are written to fails or blocks."""
    train(served, store, tmp_path / "good", train_steps=STEPS)
    bad = tmp_path / "bad"
    bad.mkdir()
    if disk == "full":
        (bad / "events.jsonl").symlink_to("/dev/full")
    elif disk == "hangs":
        os.mkfifo(bad / "events.jsonl")  # which nobody reads
    else:
        (bad / "events.jsonl").mkdir()
    done = train(served, store, bad, train_steps=STEPS, summary_secs=EACH_STEP)
    says = {"full": "No space left on device; events are left out", "hangs": "the last events were not written",
            "is a folder": "there are no events for TensorBoard until this changes"}[disk]
    assert done.stderr.count(says) == 1
    assert newest(bad).read_bytes() == newest(tmp_path / "good").read_bytes()


def meets_others(lines):
    """Has it applied a gradient to values that another worker has changed meanwhile?"""
    return lines.exists() and re.search(r'"staleness": *[1-9]', lines.read_text())


def test_each_worker_of_a_cluster_is_a_run(start, served, store, tmp_path):  # noqa: F811
    """It goes on until both have met the other's steps, however late one of them came; then the chief ends it alone."""
    logdir = tmp_path / "run"
    folders = (logdir, logdir / "worker-1")
    cluster = Cluster(start, served, store, logdir, servers=1, workers=2, train_steps=10**9, summary_secs=0.02, save_secs=1).start_all()
    wait_for(lambda: all(meets_others(folder / "events.jsonl") for folder in folders), "they do not both train")
    for one in [*cluster.workers, *cluster.ps]:
        one.kill()
    last = cluster.saved_step() + 100
    cluster.end_at(last)
    cluster.start_server(0), cluster.start_worker(0)
    cluster.wait()
    runs = {folder: read_events(folder) for folder in folders}
    for folder, seen in runs.items():
        assert set(seen["scalars"]) == TAGS | {"staleness"}, folder
        assert steps_of(seen["scalars"]["loss"]) == sorted(set(steps_of(seen["scalars"]["loss"]))), folder
        assert all(0 <= value <= step for step, value, _ in seen["scalars"]["staleness"])
    assert not runs[logdir / "worker-1"]["histograms"]
    check_histograms(runs[logdir]["histograms"], newest(logdir), last)


def test_synchronous_gradients_are_never_old(start, served, store, tmp_path):  # noqa: F811
    """It goes on until the chief has written some: a training that ends by itself may end before the chief is there."""
    cluster = Cluster(start, served, store, tmp_path, servers=1, workers=2, train_steps=10**9, summary_secs=EACH_STEP, sync=True)
    cluster.start_all()
    lines = tmp_path / "events.jsonl"
    wait_for(lambda: lines.exists() and '"loss"' in lines.read_text(), "the chief writes no loss")
    for one in [*cluster.workers, *cluster.ps]:
        one.stop()
    assert not any("staleness" in line for line in read_lines(tmp_path))
