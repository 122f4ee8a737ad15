# SPDX-License-Identifier: MIT
"""The evaluator of a cluster scores the checkpoints of a training that goes on beside it, and ends with it."""

import json
import math
import shutil
import signal
from pathlib import Path

import pytest

from cluster_cases import ADDITIVE, Cluster
from conftest import PATIENCE_S, free_port, run, run_fails, wait_for
from test_events import read_events
from test_trainer import checkpoints, newest, options, read_checkpoint, served, store, test_store, train  # noqa: F401, fixtures

STEPS = 400


def evaluator(start, served, store, logdir, **more):  # noqa: F811
    return start("trainer", *options(served, store, logdir, job_name="evaluator", **{"train_steps": STEPS, **more}))


def scored(one):
    """Its lines, when it has ended."""
    output, _ = one.process.communicate(timeout=PATIENCE_S)
    assert one.process.returncode == 0, one.stderr[-4000:]
    return [json.loads(line) for line in output.decode().splitlines()]


@pytest.mark.plain
def test_checkpoints_are_scored_as_they_come(start, served, store, test_store, tmp_path):  # noqa: F811
    logdir = tmp_path / "run"
    watching = evaluator(start, served, store, logdir, test_store=test_store)
    watching.wait_for_log("waiting for a checkpoint in")
    train(served, store, logdir, train_steps=100)
    watching.wait_for_log("step 100: loss")
    train(served, store, logdir, train_steps=STEPS)
    lines = scored(watching)
    steps = [line["step"] for line in lines]
    assert steps == sorted(set(steps)) and steps[-1] == STEPS and 100 in steps
    assert watching.stderr.count("computing on") == 1, "one engine for all of them"
    right = json.loads(run("trainer", "evaluate", "--store", test_store, "--logdir", logdir, "--format", "json").stdout)
    assert lines[-1] == {"step": STEPS, **right}
    scalars = read_events(logdir / "eval")["scalars"]
    assert [step for step, _, _ in scalars["test_loss"]] == steps
    assert [value for _, value, _ in scalars["test_accuracy"]] == pytest.approx([line["accuracy"] for line in lines])


def test_the_evaluator_of_a_cluster(start, served, store, test_store, tmp_path):  # noqa: F811
    """With the same options as every other process, and one more for a step that was scored before."""
    cluster = Cluster(start, served, store, tmp_path / "run", servers=1, workers=2, train_steps=STEPS, test_store=test_store,
                      save_secs=0.2)
    watching = cluster.task("evaluator", 0)
    cluster.start_all().wait()
    assert scored(watching)[-1]["step"] == STEPS
    assert [line["step"] for line in scored(cluster.task("evaluator", 0))] == [STEPS], "what is over is scored at once"


@pytest.mark.plain
def test_an_evaluator_that_waits_for_steps_nobody_makes_says_so(start, served, store, test_store, tmp_path):  # noqa: F811
    """Once; a training that goes on from there after all is scored to the end."""
    logdir = tmp_path / "run"
    watching = evaluator(start, served, store, logdir, test_store=test_store, save_secs=0.2)
    train(served, store, logdir, train_steps=100)
    watching.wait_for_log(f"still waiting for step {STEPS} \\(--train-steps\\): no checkpoint came after step 100;")
    assert watching.process.poll() is None
    train(served, store, logdir, train_steps=STEPS)
    assert scored(watching)[-1]["step"] == STEPS


@pytest.mark.parametrize("listed", [True, False])
def test_the_evaluator_of_a_tf_config(start, served, store, test_store, tmp_path, listed):  # noqa: F811
    """TFJob lists it in `cluster`, RunConfig does not; every other process sees the same list."""
    cluster = {job: [f"localhost:{free_port()}"] for job in ("chief", "ps", "worker", "evaluator")}
    if not listed:
        del cluster["evaluator"]
    words = options(served, store, tmp_path / "run", test_store=test_store, train_steps=STEPS, save_secs=0.2, print_every=0)
    tasks = [{"cluster": cluster, "task": {"type": job, "index": 0}, "environment": "cloud"} for job in ("evaluator", "chief", "ps", "worker")]
    started = [start("trainer", *words, env={"TF_CONFIG": json.dumps(task)}) for task in tasks]
    lines = scored(started[0])
    assert lines[-1]["step"] == STEPS and [one.wait() for one in started[1:]] == [0, 0, 0]
    run_fails("trainer", *words, env={"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 1}})},
              says="there can only be one `evaluator` task")


@pytest.mark.parametrize("patience", [PATIENCE_S, 0])
def test_a_test_store_that_is_away_is_waited_for(start, served, store, test_store, tmp_path, patience):  # noqa: F811
    logdir, rows, away = tmp_path / "run", tmp_path / "test.csv", tmp_path / "away.csv"
    rows.write_bytes(Path(test_store.removeprefix("csv:").partition("?")[0]).read_bytes())
    train(served, store, logdir, train_steps=100)
    watching = evaluator(start, served, store, logdir, test_store=f"csv:{rows}?label=0&header=no", patience=patience)
    watching.wait_for_log("step 100: loss")
    rows.rename(away)
    train(served, store, logdir, train_steps=STEPS)
    if patience == 0:
        assert watching.wait() == 2 and watching.stderr.splitlines()[-1].endswith("No such file or directory"), watching.stderr
        return
    watching.wait_for_log("no checkpoint is scored: cannot open .*test.csv: No such file or directory; it is tried again")
    away.rename(rows)
    assert [line["step"] for line in scored(watching)][-1] == STEPS


def test_an_evaluator_may_be_stopped(start, served, store, test_store, tmp_path):  # noqa: F811
    watching = evaluator(start, served, store, tmp_path / "run", test_store=test_store)
    watching.wait_for_log("waiting for a checkpoint in")
    watching.stop(signal.SIGTERM, status=143)
    assert "the training goes on" in watching.stderr and not (tmp_path / "run").exists()


def test_checkpoints_that_were_deleted_are_named(start, served, store, test_store, tmp_path):  # noqa: F811
    """Where only the file `checkpoint` is left, nothing would be scored, without a word."""
    logdir = tmp_path / "run"
    train(served, store, logdir, train_steps=100)
    for path in logdir.glob("*.safetensors"):
        path.rename(tmp_path / path.name)
    watching = evaluator(start, served, store, logdir, test_store=test_store)
    watching.wait_for_log("no checkpoint is scored until there is one: .*checkpoint")
    for path in tmp_path.glob("*.safetensors"):
        path.rename(logdir / path.name)
    train(served, store, logdir, train_steps=STEPS)
    assert scored(watching)[-1]["step"] == STEPS and watching.stderr.count("until there is one") == 1


def test_what_an_evaluator_needs(served, store, tmp_path):  # noqa: F811
    words = options(served, store, tmp_path / "run", job_name="evaluator")
    run_fails("trainer", *words, says="scores checkpoints on --test-store", status=2)
    run_fails("trainer", *words, "--test_store", "csv:none.csv?label=0", says="none.csv", status=2)  # not when it scores


def test_a_checkpoint_is_scored_once(start, served, store, test_store, tmp_path):  # noqa: F811
    """Also where it is saved again under the eyes of the evaluator."""
    logdir = tmp_path / "run"
    train(served, store, logdir, train_steps=100)
    watching = evaluator(start, served, store, logdir, test_store=test_store)
    watching.wait_for_log("step 100: loss")
    text = (logdir / "checkpoint").read_text()
    (logdir / "aside").write_text(text)
    (logdir / "aside").rename(logdir / "checkpoint")
    wait_for(lambda: watching.stderr.count("model of ") == 2, "a second look")
    train(served, store, logdir, train_steps=STEPS)
    steps = [line["step"] for line in scored(watching)]
    assert steps == sorted(set(steps)) and steps[0] == 100 and steps[-1] == checkpoints(logdir)[-1]
    assert newest(logdir).name == f"model.ckpt-{STEPS}.safetensors"


# ---- a cluster's best model, and its early end -------------------------------------------------


def best_of(logdir):
    return logdir / "model.best.safetensors"


def test_the_best_checkpoint_of_a_cluster_is_kept(start, served, store, test_store, tmp_path):  # noqa: F811
    """A learning rate that is too high makes later ones worse. An evaluator that comes back goes on from what is kept."""
    cluster = Cluster(start, served, store, tmp_path / "run", servers=2, workers=2, train_steps=3000, test_store=test_store,
                      save_secs=0.1, learning_rate=0.3)
    watching = cluster.task("evaluator", 0)
    cluster.start_all().wait()
    lines = scored(watching)
    best = min(lines, key=lambda line: line["mean_cross_entropy"])
    kept = json.loads(run("trainer", "evaluate", "--store", test_store, "--logdir", tmp_path / "run", "--best", "--format", "json").stdout)
    assert {"step": best["step"], **kept} == best
    before = best_of(tmp_path / "run").read_bytes()
    assert scored(cluster.task("evaluator", 0))[-1]["step"] == lines[-1]["step"] and best_of(tmp_path / "run").read_bytes() == before
    assert not [one for one in (tmp_path / "run").iterdir() if ".tmp." in one.name]


def test_a_logdir_that_begins_again_has_its_own_best(start, served, store, test_store, tmp_path):  # noqa: F811
    """Emptied for another training, while the evaluator of the one before, which was better, goes on."""
    logdir = tmp_path / "run"
    watching = Cluster(start, served, store, logdir, servers=1, workers=1, train_steps=STEPS, test_store=test_store).task("evaluator", 0)
    train(served, store, logdir, train_steps=100)
    watching.wait_for_log("step 100: loss")
    wait_for(best_of(logdir).exists, "no best model")
    events = logdir / "eval" / "events.jsonl"
    wait_for(lambda: '"step":100' in events.read_text(), "the events of step 100 are not written")
    shutil.rmtree(logdir)
    train(served, store, logdir, train_steps=50, learning_rate=1e-6)
    watching.wait_for_log(f"{logdir} begins again")
    watching.wait_for_log("step 50: loss")
    train(served, store, logdir, train_steps=STEPS, learning_rate=1e-6)
    lines = scored(watching)
    lines = lines[[line["step"] for line in lines].index(100) + 1:]
    best = min(lines, key=lambda line: line["mean_cross_entropy"])
    assert read_checkpoint(best_of(logdir))[1]["global_step"][1][0] == best["step"]
    assert [step for step, _, _ in read_events(logdir / "eval")["scalars"]["test_loss"]] == [line["step"] for line in lines]


def worse_in_a_row(losses):
    """How many that were no better than the best before them followed each other, at most."""
    best, now, most = math.inf, 0, 0
    for loss in losses:
        now = 0 if loss < best else now + 1
        best, most = min(best, loss), max(most, now)
    return most


@pytest.mark.threads
@pytest.mark.parametrize("chosen", [{"servers": 2}, {"servers": 1, "sync": True}, {"servers": 0}, {"servers": 2, "sync": True}],
                         ids=["asynchronous", "in step", "no ps", "two in step"])
def test_an_evaluator_ends_a_training_that_gets_no_better(start, served, store, test_store, tmp_path, chosen):  # noqa: F811
    """Everybody exits 0, no batch is missing below the last, and the best model stays. Only the evaluator tests."""
    cluster = Cluster(start, served, store, tmp_path / "run", workers=2, train_steps=10**9, save_secs=0.1, learning_rate=0.3,
                      early_stopping=2, **chosen)
    watching = cluster.task("evaluator", 0, test_store=test_store)
    cluster.start_all()
    lines = scored(watching)
    cluster.wait()
    best = min(lines, key=lambda line: line["mean_cross_entropy"])
    assert worse_in_a_row([line["mean_cross_entropy"] for line in lines]) >= 2, "the last ones may be better again, until it is over"
    assert "stopped early: no lower test loss in 2 checkpoints" in watching.stderr
    assert f"the test loss was lowest at step {best['step']}" in watching.stderr
    facts, tensors = read_checkpoint(newest(tmp_path / "run"))
    step = tensors["global_step"][1][0]
    position = json.loads(facts["sampler"])
    assert lines[-1]["step"] == step < 10**9 and position["ended"]
    assert position["next_index"] == step * (2 if chosen.get("sync") else 1) and "holes" not in position
    assert best_of(tmp_path / "run").exists()


@pytest.mark.plain
@pytest.mark.parametrize("servers", [0, 2])
def test_what_was_stopped_early_is_not_trained_on_by_who_starts_again(start, served, store, test_store, tmp_path, servers):  # noqa: F811
    """As a platform does that restarts all, or one alone."""
    logdir = tmp_path / "run"
    cluster = Cluster(start, served, store, logdir, servers=servers, workers=2, train_steps=10**9, test_store=test_store, save_secs=0.1,
                      test_every=0, learning_rate=0.3, early_stopping=2)
    watching = cluster.task("evaluator", 0)
    cluster.start_all()
    scored(watching)
    cluster.wait()
    before = newest(logdir).read_bytes()
    late = cluster.start_worker(1, patience=0)
    assert late.wait() == 0, late.stderr
    assert "the training is over" in late.stderr
    for one in range(servers):
        alone = cluster.start_server(one)
        assert alone.wait() == 0, alone.stderr
    cluster.start_all().wait()
    assert newest(logdir).read_bytes() == before


@pytest.mark.plain
def test_what_was_stopped_early_stays_so_whatever_epochs_it_began_with(start, sampler, store, test_store, tmp_path):  # noqa: F811
    """It came to the end of one epoch first, and then was given more."""
    logdir = tmp_path / "run"
    short = sampler("--store", store, "--seed", 7, "--epochs", 1)
    train(short, store, logdir, learning_rate=0.3, train_steps=10**9)
    assert says_ended(logdir)
    end = checkpoints(logdir)[-1]
    endless = sampler("--store", store, "--seed", 7)
    cluster = Cluster(start, endless, store, logdir, servers=1, workers=1, train_steps=10**9, test_store=test_store, save_secs=0.1,
                      test_every=0, learning_rate=0.3, early_stopping=2)
    cluster.start_server(0).wait_for_log("going on from there")
    cluster.start_worker(0).wait_for_log(r"step [1-9]\d* of")
    scored(cluster.task("evaluator", 0))
    cluster.wait()
    assert checkpoints(logdir)[-1] > end
    before = newest(logdir).read_bytes()
    alone = cluster.start_server(0)
    alone.wait_for_log("where --early-stopping ended training: nothing is left to train")
    assert alone.wait() == 0, alone.stderr
    assert newest(logdir).read_bytes() == before


@pytest.mark.plain
def test_an_evaluator_that_comes_back_does_not_count_the_best_as_worse(start, served, store, test_store, tmp_path):  # noqa: F811
    """Nothing is learnt, so that every later checkpoint is no better; it asks for the end in vain, as there is no server."""
    cluster = Cluster(start, served, store, tmp_path / "run", test_store=test_store, train_steps=10**9,
                      early_stopping=2, **ADDITIVE)

    def train_to(step):
        train(served, store, tmp_path / "run", train_steps=step, **ADDITIVE)

    train_to(100)
    for last in (False, True):
        watching = cluster.task("evaluator", 0, log_level="debug")
        watching.wait_for_log("step 100: loss")
        wait_for(best_of(tmp_path / "run").exists, "the best model is not kept")
        if not last:
            watching.kill()
    for step in (150, 200):
        train_to(step)
        watching.wait_for_log(f"step {step}: loss")
    watching.wait_for_log("Connection refused")
    assert watching.stderr.index("step 200: loss") < watching.stderr.index("Connection refused")
    watching.kill()


def test_a_training_without_a_chance_to_be_stopped_goes_on(start, served, store, test_store, tmp_path):  # noqa: F811
    """The server is away when the evaluator wants the end: it asks again."""
    cluster = Cluster(start, served, store, tmp_path / "run", servers=1, workers=1, train_steps=10**9, test_store=test_store,
                      save_secs=0.1, test_every=0, learning_rate=0.3, early_stopping=1)
    cluster.start_all()
    wait_for(lambda: len(checkpoints(tmp_path / "run")) > 2, "no checkpoints")
    cluster.ps[0].kill()
    watching = cluster.task("evaluator", 0, log_level="debug")
    watching.wait_for_log("loss")
    cluster.start_server(0)
    assert scored(watching)
    cluster.wait()


def says_ended(logdir):
    return json.loads(read_checkpoint(newest(logdir))[0]["sampler"]).get("ended", False)


@pytest.mark.plain
def test_the_end_of_the_stream_ends_an_evaluator(start, sampler, store, test_store, tmp_path):  # noqa: F811
    """Also where the state of the last batch was saved before it was known to be the last."""
    served, logdir = sampler("--store", store, "--epochs", 1), tmp_path / "run"  # noqa: F811
    rows = served.get("/streams/default").json["units"]
    last = -(-rows // 50)
    train(served, store, logdir, train_steps=last)
    assert not says_ended(logdir)
    watching = evaluator(start, served, store, logdir, test_store=test_store, train_steps=10**9)
    watching.wait_for_log(f"step {last}: loss")
    done = train(served, store, logdir, train_steps=10**9)
    assert f"the stream ended after {last} of" in done.stderr
    assert [line["step"] for line in scored(watching)] == [last]
    assert says_ended(logdir)
    before = newest(logdir).read_bytes(), (logdir / "checkpoint").stat().st_ino
    assert "saved" not in train(served, store, logdir, train_steps=10**9).stderr
    assert (newest(logdir).read_bytes(), (logdir / "checkpoint").stat().st_ino) == before


@pytest.mark.plain
def test_early_stopping_of_one_process_ends_an_evaluator(start, served, store, test_store, tmp_path):  # noqa: F811
    watching = evaluator(start, served, store, tmp_path / "run", test_store=test_store, train_steps=10**9)
    train(served, store, tmp_path / "run", test_store=test_store, test_every=20, early_stopping=1, learning_rate=0.3, train_steps=10**9)
    scored(watching)
    assert says_ended(tmp_path / "run")


@pytest.mark.plain
def test_a_training_that_was_stopped_early_goes_on_whoever_starts_first(start, served, store, test_store, tmp_path):  # noqa: F811
    logdir = tmp_path / "run"
    train(served, store, logdir, test_store=test_store, test_every=20, early_stopping=1, learning_rate=0.3, train_steps=10**9)
    assert says_ended(logdir)
    more = checkpoints(logdir)[-1] + 20
    cluster = Cluster(start, served, store, logdir, servers=2, workers=1, train_steps=more, learning_rate=0.3)
    early = [cluster.start_worker(0), cluster.start_server(1)]
    for one in early:
        one.wait_for_log("waiting for parameter server 0")
    cluster.start_server(0)
    cluster.wait()
    assert checkpoints(logdir)[-1] == more


@pytest.mark.plain
@pytest.mark.parametrize("servers", [0, 2])
def test_the_end_of_the_stream_ends_an_evaluator_of_a_cluster(start, sampler, store, test_store, tmp_path, servers):  # noqa: F811
    served, logdir = sampler("--store", store, "--epochs", 1), tmp_path / "run"  # noqa: F811
    rows = served.get("/streams/default").json["units"]
    last = -(-rows // 50)
    Cluster(start, served, store, logdir, servers=servers, workers=2, train_steps=last, batch_size=50).start_all().wait()
    assert not says_ended(logdir)
    cluster = Cluster(start, served, store, logdir, servers=servers, workers=2, train_steps=10**9, batch_size=50, test_store=test_store, test_every=0)
    watching = cluster.task("evaluator", 0)
    watching.wait_for_log(f"step {last}: loss")
    cluster.start_all().wait()
    assert [line["step"] for line in scored(watching)] == [last]
    assert says_ended(logdir)
