# SPDX-License-Identifier: MIT
"""The logdir of a cluster on storage that hangs, fails, is full or vanishes, and comes back: training goes on meanwhile, a
warning says what is the matter, and the next checkpoint is saved."""

import json
import re
import shutil
import signal
import subprocess
import urllib.request

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once, paced  # noqa: F401, fixture
from failing_disk import traced
from service import PATIENCE_S, wait_for
from test_hanging_disk import disk  # noqa: F401, fixture
from test_trainer import checkpoints, read_checkpoint, store, train  # noqa: F401, fixture
from test_training import NO_LEAKS, NO_THREADS

REST = 300


def status(trained):
    """What server 0 says of the training, by HTTP."""
    with urllib.request.urlopen(f"http://{trained.servers[0]}/status", timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def step_of(trained):
    return status(trained)["global_step"]


def check_trains(trained):
    """Whether or not it can be saved."""
    before = step_of(trained)
    wait_for(lambda: step_of(trained) > before + 200, "nobody trains")
    assert all(one.process.poll() is None for one in [*trained.ps, *trained.workers])


def says_since(one, pattern, since):
    """Behind the first `since` characters that it wrote."""
    wait_for(lambda: re.search(pattern, one.stderr[since:]), f"it does not say {pattern!r}\n{one.stderr[-3000:]}")


def check_goes_on(trained):
    """It trains, and who comes now trains along."""
    check_trains(trained)
    trained.workers[1].kill()
    trained.workers[1] = trained.task("worker", 1)
    trained.workers[1].wait_for_log(r"step [1-9]\d* of")


def check_it_goes_on_later(trained, paced, store, tmp_path):
    """Its servers have ended: who starts it again trains each batch once to the end."""
    for one in trained.workers:
        one.kill()
    last = trained.end_of_learnt() + REST
    trained.end_at(last)
    trained.start_all().wait()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, last)


@pytest.fixture
def training(start, paced, store, tmp_path):  # noqa: F811
    """training(env) -> Cluster that has saved some of what it trained."""

    def make(env=None, logdir=tmp_path / "run", servers=2):
        trained = Cluster(start, paced, store, logdir, servers=servers, train_steps=10**9, save_secs=0.2,
                          **{**ADDITIVE, "patience": PATIENCE_S})
        trained.env = env
        trained.start_all().go_on()
        return trained

    return make


@pytest.mark.parametrize("call, says", [("fsync", r"step \d+ is not saved after \d+ s: the logdir's disk is slow or does not answer"),
                                        ("fsync-fails", r"step \d+ was not saved: .*Input/output error; it is tried again")])
def test_a_file_server_that_hangs_or_fails(training, disk, paced, store, tmp_path, call, says):  # noqa: F811
    trained = training(disk.env)
    for _ in range(2):
        said = len(trained.ps[0].stderr)
        disk.begin(call)
        says_since(trained.ps[0], says, said)
        check_goes_on(trained)
        disk.end()
        trained.go_on()
        assert " saved " in trained.ps[0].stderr[said:]
    check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))


def test_a_server_that_is_lost_while_the_disk_hangs(training, disk, paced, store, tmp_path):  # noqa: F811
    """The others wait for the checkpoint to go back to, and say so."""
    trained = training(disk.env)
    disk.begin("fsync")
    trained.ps[0].wait_for_log("is not saved after")
    trained.ps[1].kill()
    trained.start_server(1)
    trained.ps[0].wait_for_log("came without its shard")
    for worker in trained.workers:
        worker.wait_for_log("waiting for parameter server")
    disk.end()
    trained.go_on()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))


def test_a_logdir_that_vanishes_and_comes_back(training, paced, store, tmp_path):  # noqa: F811
    trained = training()
    for folder in (trained.logdir, trained.logdir / "worker-1"):  # a thread of each worker makes them, when it comes to it
        wait_for((folder / "events.jsonl").exists, "a worker writes no events")
    trained.logdir.rename(tmp_path / "elsewhere")
    trained.ps[0].wait_for_log(r"step \d+ was not saved: .*; it is tried again")
    check_trains(trained)
    assert not trained.logdir.exists(), "a second folder would hide that the first is away"
    (tmp_path / "elsewhere").rename(trained.logdir)
    trained.go_on()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))


def bind(disk, place):
    """Mounts `disk` at the folder `place`, too."""
    subprocess.run(["mount", "--bind", disk, place], check=True)


@pytest.mark.parametrize("below", ["nothing", "an earlier training"])
def test_a_logdir_whose_disk_is_unmounted(training, mounted, paced, store, tmp_path, below):  # noqa: F811
    """The folder of before is there, on the disk below: nothing is saved there, where a mount would hide it."""
    disk, place = mounted("tmpfs", 64 << 20), tmp_path / "run"
    place.mkdir()
    if below == "an earlier training":  # which was started before the disk was mounted
        (place / "trainer.lock").write_text("process 7 on elsewhere\nmark 0123456789abcdef\n")
    bind(disk, place)
    try:
        trained = training(logdir=place)
        subprocess.run(["umount", "-l", place], check=True)
        trained.ps[0].wait_for_log(r"step \d+ was not saved: .*is its disk mounted\?; it is tried again")
        check_trains(trained)
        assert not checkpoints(place)
        bind(disk, place)
        trained.go_on()
        check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))
    finally:
        subprocess.run(["umount", "-l", place], check=False)


@pytest.mark.parametrize("leaves", ["nothing", "an empty folder"])
def test_a_server_that_is_lost_while_the_logdir_is_away(training, paced, store, tmp_path, leaves):  # noqa: F811
    """The others wait for the checkpoint to go back to; nothing begins anew, as where a disk is not mounted."""
    trained = training(logdir=tmp_path / 'the "run"')  # which the status names
    trained.ps[1].kill()
    trained.ps[0].wait_for_log("is lost: waiting for it")
    saved = trained.saved_step()
    trained.logdir.rename(tmp_path / "elsewhere")
    if leaves == "an empty folder":
        trained.logdir.mkdir()
    trained.start_server(1)
    trained.ps[0].wait_for_log("came without its shard")
    wait_for(lambda: "a checkpoint in" in status(trained).get("waits_for", "") or trained.saved_step() > saved, "it waits for nothing")
    assert trained.ps[0].stderr.count("no checkpoint to go back to: ") == 1 or trained.saved_step() > saved, trained.ps[0].stderr[-2000:]
    shutil.rmtree(trained.logdir, ignore_errors=True)
    (tmp_path / "elsewhere").rename(trained.logdir)
    trained.go_on()
    begun = [int(step) for step in re.findall(r"training goes on from step (\d+)", trained.ps[0].stderr)]
    assert len(begun) == 2 and begun[1] >= saved > 0
    check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))


def test_server_0_that_is_lost_while_the_logdir_is_away(training, paced, store, tmp_path):  # noqa: F811
    """Started again it finds an empty folder, as where a disk is not mounted, and does not begin anew there."""
    trained = training()
    for worker in trained.workers:
        worker.wait_for_log(r"step [1-9]\d* of")
    trained.go_on()
    trained.ps[0].kill()
    trained.logdir.rename(tmp_path / "elsewhere")
    lost = trained.task("ps", 0)
    assert lost.wait() == 2 and "has no checkpoint, but worker " in lost.stderr, lost.stderr
    assert trained.saved_step() == -1
    shutil.rmtree(trained.logdir)
    (tmp_path / "elsewhere").rename(trained.logdir)
    trained.start_server(0)
    trained.go_on()
    assert "going on from there" in trained.ps[0].stderr
    check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))


def fill(path):
    """A file of all that is left, or a longer one."""
    with open(path, "ab", buffering=0) as filler:
        try:
            while filler.write(b"\0" * 4096):
                pass
        except OSError:
            pass  # it is full


def test_a_full_disk(training, mounted, paced, store, tmp_path):  # noqa: F811
    folder = mounted("tmpfs", 8 << 20)
    trained = training(logdir=folder / "run")
    for _ in range(2):
        said = len(trained.ps[0].stderr)

        def is_refused(since=said):
            """A checkpoint that was being saved, behind which the oldest goes, leaves room for the next."""
            fill(folder / "filler")
            return re.search(r"step \d+ was not saved: .*No space left on device; it is tried again", trained.ps[0].stderr[since:])

        wait_for(is_refused, "the disk is never full")
        check_goes_on(trained)
        (folder / "filler").unlink()
        trained.go_on()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))


@pytest.mark.parametrize("servers", [1, 2])
def test_saves_that_no_thread_starts_for(training, strace, paced, store, tmp_path, servers):  # noqa: F811
    trained = training(NO_LEAKS, servers=servers)
    with traced(trained.ps[0], strace, tmp_path / "trace", *NO_THREADS):
        trained.ps[0].wait_for_log(r"step \d+ was not saved: cannot start the thread .*; it is tried again")
        check_trains(trained)
    trained.go_on()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))


def test_a_last_checkpoint_that_hangs_is_waited_for(training, disk, paced, store, tmp_path):  # noqa: F811
    """Everybody says for what, and ends when it is there."""
    trained = training(disk.env)
    last = trained.end_soon(REST)
    trained.end_at(last + REST)
    (disk.folder / "only").write_text(f"ckpt-{last + REST}")
    disk.begin("fsync")
    trained.start_all()
    trained.ps[0].wait_for_log("is not saved after")
    for worker in trained.workers:
        worker.wait_for_log("waiting for parameter server 0")
    assert all(one.process.poll() is None for one in [*trained.ps, *trained.workers])
    disk.end()
    trained.wait()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, last + REST)


def test_a_signal_ends_servers_whose_disk_hangs(training, disk):  # noqa: F811
    trained = training(disk.env)
    disk.begin("fsync")
    trained.ps[0].wait_for_log("is not saved after")
    for one in [*trained.workers, trained.ps[1], trained.ps[0]]:
        one.terminate(signal.SIGTERM)
    for one in [*trained.workers, trained.ps[1], trained.ps[0]]:
        assert one.wait() == 143, one.stderr
    assert "the logdir's disk" in trained.ps[0].stderr


def test_a_last_save_that_is_slow_is_named(training, disk):  # noqa: F811
    """The checkpoint that is being written when everybody is to end is the one to go on from."""
    trained = training(disk.env)
    disk.begin("fsync")
    trained.ps[0].wait_for_log("is not saved after")
    for one in [*trained.workers, trained.ps[1], trained.ps[0]]:
        one.terminate(signal.SIGTERM)
    trained.ps[0].wait_for_log("waiting for the checkpoint that is being saved")
    assert trained.ps[0].process.poll() is None
    disk.end()
    assert trained.ps[0].wait() == 143, trained.ps[0].stderr
    saved = max(int(path.name.split("-")[1].split(".")[0]) for path in trained.logdir.glob("model.ckpt-*.safetensors"))
    assert f"training can go on from step {saved}, which is saved" in trained.ps[0].stderr, trained.ps[0].stderr


@pytest.mark.parametrize("servers", [1, 2])
def test_a_slow_first_save_costs_no_step(start, disk, paced, store, tmp_path, servers):  # noqa: F811
    """All are to end while it lasts, longer than a last cut may take: the last cut is taken behind it."""
    trained = Cluster(start, paced, store, tmp_path / "run", servers=servers, train_steps=10**9, save_secs=0, **{**ADDITIVE, "patience": PATIENCE_S})
    trained.env = disk.env
    disk.begin("fsync", only="model.ckpt-0")
    trained.start_all().workers[0].wait_for_log(r"step [1-9]\d* of")
    check_trains(trained)
    assert not checkpoints(trained.logdir)
    for one in trained.ps:
        one.terminate(signal.SIGTERM)
    trained.ps[0].wait_for_log("waiting for the checkpoint that is being saved")
    learnt = step_of(trained)
    disk.end()
    for one in trained.ps:
        assert one.wait() == 143, one.stderr
    assert trained.saved_step() >= learnt > 0
    assert f"at step {trained.saved_step()}; training can go on from step {trained.saved_step()}, which is saved" in trained.ps[0].stderr
    check_it_goes_on_later(trained, paced, store, tmp_path)


@pytest.mark.parametrize("first", [0, 1])
def test_a_signal_after_a_save_that_failed_costs_no_step(start, disk, paced, store, tmp_path, first):  # noqa: F811
    """The disk answers again, and who is to end cannot wait for the half minute until the next attempt."""
    trained = Cluster(start, paced, store, tmp_path / "run", train_steps=10**9, save_secs=0, **{**ADDITIVE, "patience": PATIENCE_S})
    trained.env = disk.env
    disk.begin("fsync-fails")
    trained.start_all().ps[0].wait_for_log("step 0 was not saved: .*Input/output error; it is tried again")
    disk.end()
    check_trains(trained)
    learnt = step_of(trained)
    for index in (first, 1 - first):
        trained.ps[index].stop(status=143)
    assert trained.saved_step() >= learnt > 0
    check_it_goes_on_later(trained, paced, store, tmp_path)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_last_save_that_fails_once_costs_no_step(start, disk, paced, store, tmp_path, servers):  # noqa: F811
    """All are to end, and the disk refuses the last checkpoint at first: it is tried again in time."""
    trained = Cluster(start, paced, store, tmp_path / "run", servers=servers, train_steps=10**9, save_secs=0, **{**ADDITIVE, "patience": PATIENCE_S})
    trained.env = disk.env
    trained.start_all().workers[0].wait_for_log(r"step [1-9]\d* of")
    check_trains(trained)
    learnt = step_of(trained)
    disk.begin("fsync-fails")
    for one in trained.ps:
        one.terminate(signal.SIGTERM)
    trained.ps[0].wait_for_log(r"step \d+ was not saved: .*Input/output error; it is tried again")
    disk.end()
    for one in trained.ps:
        assert one.wait() == 143, one.stderr
    assert trained.saved_step() >= learnt > 0
    check_it_goes_on_later(trained, paced, store, tmp_path)


@pytest.mark.parametrize("servers", [1, 2])
def test_the_save_of_the_last_step_fails_once(training, disk, paced, store, tmp_path, servers):  # noqa: F811
    """Nothing is trained any more: it is tried again in time, and everybody ends as usual."""
    trained = training(disk.env, servers=servers)
    last = trained.end_soon(REST) + REST
    trained.end_at(last)
    disk.begin("fsync-fails")
    trained.start_all().ps[0].wait_for_log(rf"step {last} was not saved: .*Input/output error; it is tried again")
    disk.end()
    trained.wait()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, last)


def test_a_last_save_that_fails_names_what_training_goes_on_from(training, disk, paced, store, tmp_path):  # noqa: F811
    trained = training(disk.env)
    last = trained.end_soon(REST)
    trained.end_at(last + REST)
    disk.begin("fsync-fails")
    trained.start_all()
    assert trained.ps[0].wait() == 1, trained.ps[0].stderr
    went_on = re.search(rf"step {last + REST} was not saved, training can go on from step (\d+) \((.*)\): .*Input/output error\n$", trained.ps[0].stderr)
    assert went_on, trained.ps[0].stderr
    assert went_on[2] == f"{trained.logdir}/model.ckpt-{went_on[1]}.safetensors" and int(went_on[1]) == trained.saved_step()
    disk.end()
    trained.start_server(0)
    trained.wait()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, last + REST)


@pytest.mark.parametrize("servers", [1, 2])
def test_the_save_of_an_early_end_is_not_tried_for_ever(start, sampler, disk, store, tmp_path, servers):  # noqa: F811
    """The stream ends before --train-steps: nothing is trained any more, as at the last step."""
    served, logdir = sampler("--store", store, "--epochs", 1), tmp_path / "run"
    last = -(-served.get("/streams/default").json["units"] // ADDITIVE["batch_size"])
    trained = Cluster(start, served, store, logdir, servers=servers, train_steps=last - 40, save_secs=0, **ADDITIVE)
    trained.env = disk.env
    trained.start_all().wait()
    trained.end_at(10**9)
    disk.begin("fsync-fails")
    trained.start_all()
    assert trained.ps[0].wait() == 1, trained.ps[0].stderr
    assert re.search(rf"step {last} was not saved, training can go on from step {last - 40} .*Input/output error\n$", trained.ps[0].stderr)
    disk.end()
    trained.start_server(0)
    trained.wait()
    assert trained.saved_step() == last


# ---- the evaluator ---------------------------------------------------------------------------------


@pytest.fixture
def watched(start, sampler, disk, store, tmp_path):  # noqa: F811
    """An evaluator whose disk may fail, and alone: (it, the path of the best model, train(last step, rate))."""
    served, logdir = sampler("--store", store, "--seed", 7), tmp_path / "run"
    cluster = Cluster(start, served, store, logdir, servers=1, train_steps=300, test_store=store)
    return (cluster.task("evaluator", 0, env=disk.env), logdir / "model.best.safetensors",
            lambda last, rate: train(served, store, logdir, train_steps=last, learning_rate=rate))


def test_a_best_checkpoint_that_was_refused_is_kept_later(watched, disk):  # noqa: F811
    """Nor does a later one take its place that is worse."""
    watching, best, train_to = watched
    disk.begin("fsync-fails")
    train_to(100, 0.01)
    watching.wait_for_log("step 100 has the lowest test loss and was not kept: .*Input/output error; it is tried again")
    train_to(200, 30)
    watching.wait_for_log("step 200: loss")
    disk.end()
    wait_for(best.exists, "it is not kept")
    train_to(300, 30)
    output, _ = watching.process.communicate(timeout=PATIENCE_S)
    assert watching.process.returncode == 0, watching.stderr
    scores = {line["step"]: line["mean_cross_entropy"] for line in map(json.loads, output.splitlines())}
    assert scores[100] < min(scores[200], scores[300])
    assert read_checkpoint(best)[1]["global_step"][1][0] == 100


@pytest.mark.parametrize("end", ["the last step", "a signal"])
def test_a_best_checkpoint_that_is_refused_to_the_end_is_an_error(watched, disk, end):  # noqa: F811
    """`--best` would take another one."""
    watching, best, train_to = watched
    disk.begin("fsync-fails")
    train_to(300 if end == "the last step" else 100, 0.01)
    watching.wait_for_log("was not kept: .*; it is tried again")
    if end == "a signal":
        watching.terminate()
    assert watching.wait() == (143 if end == "a signal" else 1), watching.stderr
    assert re.search(r"error .*was not kept: .*Input/output error|train: step 300 has .* was not kept: .*Input/output error\n$", watching.stderr), watching.stderr
    assert not best.exists()


@pytest.mark.parametrize("end", ["it answers", "a signal"])
def test_a_best_checkpoint_that_hangs_is_named(watched, disk, end):  # noqa: F811
    watching, best, train_to = watched
    disk.begin("fsync")
    train_to(300, 0.01)
    watching.wait_for_log(rf"waiting for \d+ s now, while {best} does not answer")
    if end == "it answers":
        disk.end()
        assert watching.wait() == 0 and best.exists(), watching.stderr
    else:
        watching.terminate()
        assert watching.wait() == 143 and f"stopped while {best} does not answer" in watching.stderr, watching.stderr
