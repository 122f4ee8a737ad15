# SPDX-License-Identifier: MIT
"""The model with the lowest test loss is kept, whatever is interrupted, and a training that gets no better may end."""

import json
import re
import shutil
import signal

import pytest

from conftest import run, run_fails, wait_for
from test_trainer import (  # noqa: F401, fixtures
    checkpoints, newest, options, read_checkpoint, served, store, test_store, train, train_fails,
)

# Trained on few rows, so that the test loss rises again soon.
OVERFITTED = {"model": "mlp", "hidden_units": 64, "learning_rate": 0.05, "batch_size": 20, "test_every": 10, "train_steps": 600}
BEST = "model.best.safetensors"


@pytest.fixture
def few(sampler, store, tmp_path):  # noqa: F811
    """A sampler of the first 100 rows and their store."""
    path = tmp_path / "few.csv"
    with open(store.removeprefix("csv:").partition("?")[0], encoding="ascii") as rows:
        path.write_text("".join(next(rows) for _ in range(100)))
    uri = f"csv:{path}?label=0&header=no"
    return sampler("--store", uri, "--seed", 7), uri


def losses_of(logdir):
    """[(step, loss)] by the events, without what was trained twice."""
    lines = [json.loads(line) for line in (logdir / "events.jsonl").read_text().splitlines()]
    return sorted({line["step"]: line["test_loss"] for line in lines if "test_loss" in line}.items())


def lowest(tests):
    return min(tests, key=lambda test: (test[1], test[0]))


def evaluate_best(test_store, logdir, *more):  # noqa: F811
    scored = run("trainer", "evaluate", "--store", test_store, "--logdir", logdir, "--format", "json", *more)
    return json.loads(scored.stdout)["mean_cross_entropy"]


def step_of(path):
    return read_checkpoint(path)[1]["global_step"][1][0]


def test_the_lowest_test_loss_is_kept(few, test_store, tmp_path):  # noqa: F811
    logdir = tmp_path / "run"
    done = train(*few, logdir, test_store=test_store, summary_secs="0.000001", **OVERFITTED)
    step, loss = lowest(losses_of(logdir))
    assert 0 < step < 600, "the last is not the best"
    assert step_of(logdir / BEST) == step and checkpoints(logdir) == [0, 600]
    assert f"the test loss was lowest at step {step}," in done.stderr
    assert evaluate_best(test_store, logdir, "--best") == pytest.approx(loss, rel=1e-5)
    assert evaluate_best(test_store, logdir) > loss * 1.01
    for command in ("evaluate", "predict"):
        named = run("trainer", command, "--store", test_store, "--checkpoint", logdir / BEST).stdout
        assert run("trainer", command, "--store", test_store, "--logdir", logdir, "--best").stdout == named
    for more, out in ((["--logdir", logdir, "--best"], "a"), (["--checkpoint", logdir / BEST], "b")):
        run("trainer", "export", *more, "--out", tmp_path / f"{out}.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_training_that_gets_no_better_ends(few, test_store, tmp_path):  # noqa: F811
    logdir, whole = tmp_path / "run", tmp_path / "whole"
    train(*few, whole, test_store=test_store, summary_secs="0.000001", **OVERFITTED)
    best, end = (0, float("inf")), None
    for step, loss in losses_of(whole):
        best = (step, loss) if loss < best[1] else best
        if step - best[0] >= 5 * 10:
            end = step
            break
    assert end and end < 600
    done = train(*few, logdir, test_store=test_store, early_stopping=5, **OVERFITTED)
    assert "stopped early: no lower test loss in 5 tests" in done.stderr
    assert checkpoints(logdir) == [0, end] and step_of(logdir / BEST) == best[0]
    assert re.search(r"^accuracy: ", done.stdout, re.MULTILINE), "it ends as at the last step"
    again = train(*few, logdir, test_store=test_store, early_stopping=5, **OVERFITTED)
    assert checkpoints(logdir) == [0, end] and "stopped early" in again.stderr
    train(*few, logdir, test_store=test_store, **OVERFITTED)  # it may go on all the same
    assert newest(logdir).read_bytes() == newest(whole).read_bytes()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_training_keeps_the_same(start, few, test_store, tmp_path, number):  # noqa: F811
    """And ends at the same step: neither the best nor how long ago it was is forgotten."""
    logdir, whole = tmp_path / "run", tmp_path / "whole"
    chosen = {"test_store": test_store, "early_stopping": 15, "save_secs": 0.02, **OVERFITTED}
    train(*few, whole, **chosen)

    def is_cut():
        """One that begins anew may be through before it is interrupted."""
        shutil.rmtree(logdir, ignore_errors=True)
        cut = 0
        for _ in range(4):
            before = max(checkpoints(logdir), default=-1)
            one = start("trainer", *options(*few, logdir, **chosen))
            wait_for(lambda one=one, before=before: one.process.poll() is not None or max(checkpoints(logdir), default=-1) > before,
                     "a checkpoint or the end")
            if one.process.poll() is None:
                one.signal(number)
                one.wait()
                cut += one.process.returncode != 0
        return cut

    wait_for(is_cut, "it is never interrupted")
    train(*few, logdir, **chosen)
    assert newest(logdir).name == newest(whole).name
    assert newest(logdir).read_bytes() == newest(whole).read_bytes()
    assert (logdir / BEST).read_bytes() == (whole / BEST).read_bytes()


def test_a_training_whose_only_test_was_interrupted_has_a_best(served, store, test_store, tmp_path):  # noqa: F811
    """It comes after the last save: whoever starts again has nothing left to train, but that test."""
    logdir = tmp_path / "run"
    chosen = {"test_store": test_store, "test_every": 0}
    train(served, store, logdir, **chosen)
    before = evaluate_best(test_store, logdir, "--best")
    (logdir / BEST).unlink()
    (tmp_path / "narrow.csv").write_text("0,1\n")
    done = train(served, store, logdir, **{**chosen, "test_store": f"csv:{tmp_path / 'narrow.csv'}?label=0&header=no"})
    assert "there is no best model: " in done.stderr and "narrow.csv" in done.stderr and not (logdir / BEST).exists()
    done = train(served, store, logdir, **chosen)
    assert "nothing is left to train" in done.stderr and "step 120 had not been tested" in done.stderr
    assert evaluate_best(test_store, logdir, "--best") == before
    kept = (logdir / BEST).stat().st_ino
    assert "had not been tested" not in train(served, store, logdir, **chosen).stderr and (logdir / BEST).stat().st_ino == kept


def test_the_best_is_never_rotated_away(few, test_store, tmp_path):  # noqa: F811
    logdir = tmp_path / "run"
    train(*few, logdir, test_store=test_store, **{**OVERFITTED, "train_steps": 300})
    kept = (logdir / BEST).read_bytes()
    for step in range(301, 308):
        train(*few, logdir, test_store=test_store, **{**OVERFITTED, "train_steps": step})
    assert len(checkpoints(logdir)) == 5 and (logdir / BEST).read_bytes() == kept


def test_a_best_model_that_is_damaged_is_refused_with_the_way_out(few, test_store, tmp_path):  # noqa: F811
    logdir = tmp_path / "run"
    chosen = {"test_store": test_store, **OVERFITTED}
    train(*few, logdir, **{**chosen, "train_steps": 20})
    (logdir / BEST).write_bytes((logdir / BEST).read_bytes()[:-1])
    says = "remove that file to go on without it"
    train_fails(*few, logdir, says=says, **{**chosen, "train_steps": 40})
    run_fails("trainer", "evaluate", "--store", test_store, "--logdir", logdir, "--best", says=says)
    (logdir / BEST).unlink()
    train(*few, logdir, **{**chosen, "train_steps": 40})
    assert (logdir / BEST).exists()


def test_what_makes_no_sense(served, store, test_store, tmp_path):  # noqa: F811
    logdir = tmp_path / "run"
    train_fails(served, store, logdir, says="--early-stopping counts tests", early_stopping=3)
    train_fails(served, store, logdir, says="--early-stopping counts tests", early_stopping=3, test_store=test_store,
                test_every=0)
    train(served, store, logdir, train_steps=1)
    assert not (logdir / BEST).exists(), "without tests there is no best"
    words = ["trainer", "evaluate", "--store", test_store]
    run_fails(*words, "--logdir", logdir, "--best", says="holds no model.best.safetensors", status=None)
    run_fails(*words, "--checkpoint", newest(logdir), "--best", says="--best needs a --logdir", status=2)
