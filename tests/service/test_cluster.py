# SPDX-License-Identifier: MIT
"""Workers and parameter servers: they train what one process trains, whoever comes, goes or is killed."""

import json
import re
import resource
import select
import signal
import socket
import time
from pathlib import Path

import pytest
import yaml

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once, paced  # noqa: F401, fixture
from conftest import PATIENCE_S, ROOT, SANITIZED, TSAN, free_port, run, wait_for
from test_cluster_http import status
from test_trainer import TAKEN, checkpoints, csv_uri, evaluate, newest, read_checkpoint, served, store, train  # noqa: F401, fixtures

STEPS = 300


@pytest.fixture
def cluster(start, served, store, tmp_path):
    """cluster(servers=2, workers=2, ...) -> Cluster that trains additively, not started."""
    return lambda **chosen: Cluster(start, served, store, tmp_path / "run",
                                    **{"train_steps": STEPS, "save_secs": 0.2, **ADDITIVE, **chosen})


@pytest.fixture
def lasting(start, paced, store, tmp_path):  # noqa: F811
    """The same for a training that something happens to, which must not be over before."""
    return lambda **chosen: Cluster(start, paced, store, tmp_path / "run", **{"train_steps": 10**9, "save_secs": 0.2, **ADDITIVE, **chosen})


def position(logdir):
    return json.loads(read_checkpoint(newest(logdir))[0]["sampler"])


def saved_step(one):
    """What is the step of the newest checkpoint, if there is one?"""
    try:
        return max(checkpoints(one.logdir), default=-1)
    except FileNotFoundError:
        return -1


def test_a_server_ends_whose_logdir_was_taken_over(lasting):
    trained = lasting(servers=1, workers=1).start_all()
    trained.go_on()
    (trained.logdir / "trainer.lock").write_text(TAKEN)
    assert trained.ps[0].wait() == 2
    assert "was taken over by another trainer (process 7 on another)" in trained.ps[0].stderr
    trained.workers[0].kill()


def test_a_chief_whose_own_server_fails_says_why(lasting):
    """Nobody else would answer it; PATIENCE_S would be over before it said that."""
    first = lasting(servers=0, workers=1).start_all()
    first.go_on()
    second = lasting(servers=0, workers=1).start_worker(0)
    assert second.wait() == 2 and "is in use by another trainer" in second.stderr.splitlines()[-1], second.stderr
    first.go_on()
    (first.logdir / "trainer.lock").write_text(TAKEN)
    assert first.workers[0].wait() == 2
    assert "was taken over by another trainer (process 7 on another)" in first.workers[0].stderr.splitlines()[-1]


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_every_batch_counts_once(cluster, served, store, tmp_path, servers):
    trained = cluster(servers=servers).start_all().wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)
    assert position(trained.logdir)["next_index"] == STEPS and "holes" not in position(trained.logdir)


def test_a_tensor_each_in_turn(cluster, served, store, tmp_path):
    trained = cluster(ps_strategy="round_robin").start_all().wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


def test_one_server_with_many_tensors_in_turn(start, served, store, tmp_path):  # noqa: F811
    """A gradient is a frame of as many parts as the server has tensors."""
    layers = ",".join(["4"] * 16)
    Cluster(start, served, store, tmp_path / "run", servers=1, train_steps=10, hidden_units=layers,
            ps_strategy="round_robin").start_all().wait()


def test_more_servers_than_tensors(cluster, served, store, tmp_path):
    trained = cluster(servers=4, ps_strategy="round_robin").start_all().wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


@pytest.mark.threads  # the chief trains beside its server
def test_shards_larger_than_a_socket_takes_at_once(start, served, store, tmp_path):  # noqa: F811
    """6 MB each: they come when there is room, at the start and for the last checkpoint."""
    steps = 5 if TSAN else 20
    chosen = {"model": "mlp", "hidden_units": 2000, "batch_size": 5}
    first = Cluster(start, served, store, tmp_path / "run", train_steps=steps, **chosen).start_all().wait()
    Cluster(start, served, store, tmp_path / "run", servers=3, train_steps=2 * steps, **chosen).start_all().wait()
    assert checkpoints(first.logdir)[-1] == 2 * steps


def test_workers_without_a_server(cluster, served, store, tmp_path):
    trained = cluster(servers=0).start_all().wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


def shared_mappings(process):
    return sum("memfd:tombola-exchange" in line for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines())


def test_memory_is_shared_on_one_machine_and_goes_with_the_connection(lasting, tmp_path):
    trained = lasting()
    first, second = (trained.start_server(index).process for index in range(2))
    shares = trained.start_worker(0)
    wait_for(lambda: shared_mappings(shares.process) == 2, "it shares no memory with both servers")
    wait_for(lambda: shared_mappings(first) == shared_mappings(second) == 1, "a server does not take the memory")
    alone = trained.start_worker(1)
    wait_for(lambda: (tmp_path / "run").exists() and "step" in alone.stderr, "it does not train")
    assert not shared_mappings(alone.process) and shared_mappings(first) == 1
    shares.kill()
    wait_for(lambda: shared_mappings(first) == shared_mappings(second) == 0, "memory of a dead worker is kept")


def test_it_learns(start, served, store, demo, tmp_path):
    test_store = csv_uri(demo / "mnist_test.csv")
    trained = Cluster(start, served, store, tmp_path / "run", train_steps=600, batch_size=100, hidden_units=100)
    trained.start_all().wait()
    assert evaluate(test_store, trained.logdir) > 0.75


def test_tf_config_is_the_same_as_flags(start, served, store, tmp_path):
    trained = Cluster(start, served, store, tmp_path / "run", train_steps=STEPS, **ADDITIVE)
    described = {"ps": trained.servers, "worker": trained.hosts}
    started = [start("trainer", *trained.words,
                     env={"TF_CONFIG": json.dumps({"cluster": described, "task": {"type": job, "index": index}})})
               for job, index in (("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1))]
    for one in started:
        assert one.wait() == 0, one.stderr
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


def operators_config(spec, everybody, job, index):
    """What Kubeflow's training operator says to a task of a TFJob."""
    shown = everybody
    if spec.get("enableDynamicWorker"):
        own = everybody[job][index]
        shown = {"worker": {}, "ps": [own]} if job == "ps" else {"worker": {str(index): own}, "ps": everybody["ps"]}
    return {"TF_CONFIG": json.dumps({"cluster": shown, "task": {"type": job, "index": index}, "environment": "cloud"})}


def test_the_tfjob_that_is_shipped(start, served, store, tmp_path):
    spec = yaml.safe_load((ROOT / "deploy/k8s/overlays/tfjob/tfjob.yaml").read_text())["spec"]
    replicas = {job.lower(): one["replicas"] for job, one in spec["tfReplicaSpecs"].items()}
    assert replicas.keys() == {"ps", "worker"} and min(replicas.values()) > 1
    trained = Cluster(start, served, store, tmp_path / "run", replicas["ps"], replicas["worker"], train_steps=STEPS, **ADDITIVE)
    everybody = {"ps": trained.servers, "worker": trained.hosts}
    started = [start("trainer", *trained.words, env=operators_config(spec, everybody, job, index))
               for job, count in replicas.items() for index in range(count)]
    for one in started:
        assert one.wait() == 0, one.stderr
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


def test_a_stream_that_ends_before_the_last_step(start, sampler, store, tmp_path):
    served = sampler("--store", store, "--seed", 7, "--epochs", 2)  # 2,000 rows: 200 batches
    trained = Cluster(start, served, store, tmp_path / "run", train_steps=100000, **ADDITIVE)
    trained.start_all().wait()
    reached = position(trained.logdir)
    assert reached["next_index"] == 200 and reached["ended"] and checkpoints(trained.logdir)[-1] == 200
    said = trained.ps[0].stderr
    assert re.search(r"worker [01] \(.*\): its stream ends before batch 200$", said, re.MULTILINE), said
    assert "the stream ended after 200 of 100000 steps" in said
    for worker in trained.workers:
        assert "the training ended after 200 of 100000 steps" in worker.stderr, worker.stderr
    late = trained.start_worker(0)
    assert late.wait() == 0 and "the training is over" in late.stderr


def test_a_server_0_that_comes_alone_after_the_end(start, sampler, store, tmp_path):
    """As after kill -9 when all others have left. The sampler knows whether there is more to train."""
    for epochs in (1, 2):  # of 2,000 rows: 100 batches
        served = sampler("--store", store, "--seed", 7, "--epochs", epochs)
        trained = Cluster(start, served, store, tmp_path / "run", train_steps=100000, **ADDITIVE)
        trained.start_server(0)
        if epochs > 1:
            trained.ps[0].wait_for_log("waiting for parameter server 1")
        trained.start_server(1)
        for index in range(2):
            trained.start_worker(index)
        trained.wait()
        assert position(trained.logdir)["next_index"] == 100 * epochs
        again = trained.start_server(0)
        assert again.wait() == 0
        assert f"the stream ended after {100 * epochs} of 100000 steps" in again.stderr, again.stderr


def test_a_training_that_goes_on_after_its_end_is_not_over(start, sampler, paced, store, tmp_path):  # noqa: F811
    """The sampler has more epochs. Server 0 is killed before it has saved what was learnt since: the others wait for it."""
    steps, chosen = 20 * STEPS, {**ADDITIVE, "save_secs": 0}
    ended = sampler("--store", store, "--seed", 7, "--epochs", 1)
    first = Cluster(start, ended, store, tmp_path / "run", train_steps=steps, **chosen).start_all().wait()
    end = saved_step(first)
    assert position(first.logdir)["ended"]
    trained = Cluster(start, paced, store, first.logdir, train_steps=steps, **chosen).start_all()
    trained.ps[0].wait_for_log(rf"saved .*model\.ckpt-{end}\.")
    assert "ended" not in position(trained.logdir)
    trained.ps[0].kill()
    for one in [trained.ps[1], *trained.workers]:
        one.wait_for_log("waiting for parameter server 0")
    trained.start_server(0)
    trained.wait()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, steps)


@pytest.mark.parametrize("comes", ["later", "first"])
def test_a_worker_whose_stream_ends_earlier_does_not_end_the_training(start, paced, store, tmp_path, comes):  # noqa: F811
    """Its order is the same. If it comes first, another one's longer stream is known before it ends."""
    steps, short = 6000, {"stream": "short"}
    assert paced.request("POST", "/streams", body=json.dumps({"name": "short", "seed": 7, "epochs": 20})).status == 201
    trained = Cluster(start, paced, store, tmp_path / "run", servers=1, train_steps=steps, **ADDITIVE)
    trained.start_server(0)
    first = trained.start_worker(0, **(short if comes == "first" else {}))
    trained.ps[0].wait_for_log("training goes on from step 0")
    wait_for(lambda: status(trained.servers[0])["global_step"] > 0, "it does not train")
    first.process.send_signal(signal.SIGSTOP)  # so that it does not end before the second has begun
    stopped_at = status(trained.servers[0])["global_step"]
    second = trained.start_worker(1, **(short if comes == "later" else {}))
    if comes == "first":
        wait_for(lambda: status(trained.servers[0])["global_step"] > stopped_at, "the second does not train")
    else:
        second.process.wait(PATIENCE_S)
    first.process.send_signal(signal.SIGCONT)
    wrong = first if comes == "first" else second
    trained.workers.remove(wrong)
    assert wrong.wait() == 2 and "its stream ends earlier than that of the workers before it" in wrong.stderr, wrong.stderr
    trained.wait()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, steps)


def test_a_batch_that_the_end_cut_short_is_not_continued(start, sampler, store, tmp_path):  # noqa: F811
    """With tail span and more epochs it has more rows, which nobody would train."""
    served = ["--store", store, "--seed", 7, "--tail", "span", "--epochs"]
    chosen = {**ADDITIVE, "servers": 1, "train_steps": 10**9, "batch_size": 30}
    one = sampler(*served, 1)
    Cluster(start, one, store, tmp_path / "run", **chosen).start_all().wait()
    more = Cluster(start, sampler(*served, 2), store, tmp_path / "run", **chosen).start_all()
    for worker in more.workers:
        assert worker.wait() == 2 and "has reached the end of 1 epoch, whose last batch is short" in worker.stderr, worker.stderr
    more.ps[0].stop()
    Cluster(start, one, store, tmp_path / "run", **chosen).start_all().wait()


def test_a_worker_whose_sampler_is_away_leaves_with_the_others(start, paced, store, tmp_path):  # noqa: F811
    """It would wait for it for ever, and the others take over what it holds."""
    steps = 20 * STEPS
    trained = Cluster(start, paced, store, tmp_path / "run", train_steps=steps, patience=10**9, **ADDITIVE)
    other = paced.again(500)  # so that not all is learnt before it is killed
    for index in range(2):
        trained.start_server(index).wait_for_log("listens")
    alone = trained.start_worker(1, sampler=other.url)
    wait_for(lambda: status(trained.servers[0])["global_step"] > 10, "it does not train")
    other.kill()
    alone.wait_for_log("trying again")
    trained.start_worker(0)
    trained.wait()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, steps)


# ---- one process and many -------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [
    {"optimizer": "adagrad"}, {"optimizer": "momentum"}, {"optimizer": "sgd", "l2": 0.1}, {"optimizer": "adam", "sync": True},
    {"optimizer": "adagrad", "sync": True}], ids=lambda chosen: "-".join(map(str, chosen.values())))
@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_inputs_that_are_nearly_all_zero_are_learnt_from_as_by_one_process(start, sampler, tmp_path, chosen, transport):
    """Most rows of the gradient are zero and do not travel: the same bits."""
    table = tmp_path / "categories.csv"
    rows = ["," .join(str(int(column % 25 == i % 4)) for column in range(400)) for i in range(200)]
    table.write_text("".join(f"{i % 3},{row}\n" for i, row in enumerate(rows)))
    store = f"csv:{table}?label=0&header=no"  # noqa: F811
    served = sampler("--store", store, "--seed", 5)  # noqa: F811
    words = {"hidden_units": 40, "batch_size": 20, "train_steps": 60, "print_every": 0, **chosen}
    trained = Cluster(start, served, store, tmp_path / "run", servers=3, workers=1, ps_transport=transport, **words).start_all().wait()
    words.pop("sync", None)
    train(served, store, tmp_path / "alone", **words)
    assert read_checkpoint(newest(trained.logdir))[1] == read_checkpoint(newest(tmp_path / "alone"))[1]


def test_one_process_goes_on_from_a_cluster_s_checkpoint_and_back(cluster, served, store, tmp_path):
    first = cluster(train_steps=STEPS // 3).start_all().wait()
    train(served, store, first.logdir, train_steps=STEPS // 2, print_every=0, **ADDITIVE)
    cluster(servers=3, workers=1).start_all().wait()
    check_each_batch_once(first.logdir, served, store, tmp_path, STEPS)


def test_other_options_than_the_checkpoint_s_are_refused(cluster):
    cluster(train_steps=20).start_all().wait()
    again = cluster(optimizer="adam")
    server = again.start_server(0)
    assert server.wait() == 2
    assert "optimizer is adagrad, this run's is adam" in server.stderr


def test_servers_say_which_setting_keeps_their_workers_away(cluster):
    """They cannot know whether one that fits will come."""
    cluster(train_steps=20).start_all().wait()
    again = cluster(train_steps=30)
    again.start_server(0)
    wrong = again.task("worker", 0, batch_size=30)
    says = "counts batches of 20 rows, this run has --batch-size 30"
    assert wrong.wait() == 2 and says in wrong.stderr, wrong.stderr
    again.start_server(1)
    again.ps[0].wait_for_log(rf"waiting for a worker; worker 0 \(.*\) takes no part: .* {says}")
    again.start_worker(0)
    again.wait()


def test_workers_with_other_options_are_refused_and_the_others_go_on(cluster, served, store, tmp_path):
    trained = cluster()
    trained.start_server(0), trained.start_server(1)
    other = {"optimizer": "sgd", "ps_strategy": "round_robin", "train_steps": STEPS - 1, "staleness": 3,
             "bad_rows": "skip"}
    for option, value in other.items():
        wrong = trained.task("worker", 1, **{option: value})
        assert wrong.wait() == 2 and option in wrong.stderr.replace("-", "_"), wrong.stderr
        assert wrong.stderr.count("worker 1") == 0, "it need not be told who it is"
    trained.start_worker(0)
    trained.wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


@pytest.mark.parametrize("options, words", [
    ({"seed": 4}, "--seed 4 has no effect: this training began with --seed 3"),
    ({"init_from": "x.safetensors"}, "--init-from x.safetensors is not used: the servers have parameters already")])
def test_what_comes_too_late_for_a_training_is_noticed(cluster, options, words):
    trained = cluster()
    trained.start_server(0).wait_for_log("listens")
    trained.start_worker(0)
    wait_for(lambda: status(trained.servers[0])["parameters"] > 0, "nobody says what is trained")
    trained.start_worker(1, **options).wait_for_log(words)
    trained.start_server(1)
    trained.wait()


@pytest.mark.parametrize("option, value", [("ps_strategy", "round_robin"), ("train_steps", STEPS + 1)])
def test_a_server_with_other_options_is_refused(cluster, option, value):
    trained = cluster()
    trained.start_server(0)
    wrong = trained.start_server(1, **{option: value})
    assert wrong.wait() == 2 and f"its --{option.replace('_', '-')} is {value}, this server's" in wrong.stderr, wrong.stderr
    trained.ps[0].stop(status=143)


@pytest.mark.parametrize("job", ["worker", "ps"])
def test_who_waits_names_a_server_once_and_where_it_is(cluster, job):
    trained = cluster(patience=0)
    one = trained.task(job, 1)
    one.wait_for_log("waiting for parameter server 0")
    if job == "ps":
        one.stop(status=143)
    else:
        assert one.wait() == 1
    waits, = re.findall(r"waiting for (.*)", one.stderr)
    assert waits.count("parameter server 0") == 1 and trained.servers[0].rpartition(":")[2] in waits
    assert waits.endswith(": Connection refused")


def test_a_closed_terminal_ends_a_server_without_tokens(cluster):
    """Its own maintenance waits for SIGHUP only where there is something to read again."""
    trained = cluster()
    one = trained.start_server(1)
    one.wait_for_log("waiting for parameter server 0")
    one.signal(signal.SIGHUP)
    wait_for(lambda: one.process.poll() is not None or "SIGHUP" in one.stderr, "it does not notice")
    assert one.wait() == 129 and "stopped by SIGHUP" in one.stderr, one.stderr


def test_a_server_whose_calls_are_taken_and_closed_says_so(cluster):
    """By a proxy, while server 0 is not there."""
    trained = cluster()
    host, port = trained.servers[0].split(":")
    with socket.create_server((host, int(port))) as proxy:
        one = trained.start_server(1)
        for _ in range(2):
            proxy.accept()[0].close()
        one.wait_for_log(r"waiting for parameter server 0 \(localhost, port \d+\): it closed the connection without an answer")
    one.stop(status=143)
    assert one.stderr.count("waiting for") == 1 and "answers again" not in one.stderr


def test_a_server_waits_for_the_beginning_by_name(cluster):
    """Server 0 may be stopped, or wait itself."""
    trained = cluster()
    host, port = trained.servers[0].split(":")
    with socket.create_server((host, int(port))):
        one = trained.start_server(1)
        one.wait_for_log(r"waiting for parameter server 0 \(localhost, port \d+\) to begin the training")
        assert status(trained.servers[1])["waits_for"] == "parameter server 0"
        one.stop(status=143)


# ---- whoever is killed ----------------------------------------------------------------------------


SLOW = {"batch_size": 100}
SLOW_STEPS = 300 if TSAN else 500 if SANITIZED else 1000


def slow(lasting, **chosen):
    """A training that lasts long enough to be disturbed on most machines; nothing may depend on that."""
    return lasting(**{"train_steps": SLOW_STEPS, **SLOW, **chosen})


def endless(lasting, **chosen):
    """For what has to happen before it ends: go_on_from_saved() ends it."""
    return lasting(**SLOW, **chosen)


def go_on(one, step):
    wait_for(lambda: saved_step(one) > step, f"no checkpoint after step {step}")


def check_slow(one, served, store, tmp_path):
    check_each_batch_once(one.logdir, served, store, tmp_path, SLOW_STEPS, **SLOW)


def test_a_worker_that_is_killed_costs_nothing(lasting, paced, store, tmp_path):
    trained = slow(lasting).start_all()
    go_on(trained, 0)
    trained.workers[0].kill()
    trained.wait()
    check_slow(trained, paced, store, tmp_path)


def test_a_worker_that_comes_late_and_is_not_listed_helps(lasting, paced, store, tmp_path):
    trained = endless(lasting, workers=1).start_all()
    go_on(trained, 0)
    trained.start_worker(7, listed=False).wait_for_log(r"step [1-9]\d* of")
    go_on_from_saved(trained, paced, store, tmp_path, **SLOW)


@pytest.mark.threads
def test_a_worker_that_stops_is_not_waited_for(lasting, paced, store, tmp_path):
    trained = slow(lasting).start_all()
    go_on(trained, 0)
    trained.workers[1].signal(signal.SIGSTOP)
    for one in [*trained.ps, trained.workers[0]]:
        assert one.wait() == 0, one.stderr
    trained.workers[1].process.send_signal(signal.SIGCONT)
    assert trained.workers[1].wait() == 0, trained.workers[1].stderr
    check_slow(trained, paced, store, tmp_path)


def between_cuts_that_are_off(server):
    """What it says before, between and after cuts that it calls off."""
    return re.split(r"cut \d+ abandoned", server.stderr)


def test_a_server_that_stops_is_named_by_all_who_wait_for_it(lasting, paced, store, tmp_path):
    trained = lasting()
    trained.start_server(0, log_level="debug"), trained.start_server(1)
    trained.start_worker(0), trained.start_worker(1)
    go_on(trained, 0)
    trained.ps[1].signal(signal.SIGSTOP)
    before = len(between_cuts_that_are_off(trained.ps[0]))
    wait_for(lambda: len(between_cuts_that_are_off(trained.ps[0])) > before + 2, "no cuts are called off")
    said = between_cuts_that_are_off(trained.ps[0])  # of the first one it may have answered the beginning
    assert "no checkpoint is taken while parameter server 1 does not answer" in "".join(said[:before + 1])
    assert "does not answer" not in said[before + 1], "it is said once"
    for worker in trained.workers:
        worker.wait_for_log(r"waiting for parameter server 1 \(.*\): it is connected, and has not answered")
    step = saved_step(trained)
    trained.ps[1].process.send_signal(signal.SIGCONT)
    go_on(trained, step)
    trained.ps[1].sent.clear()
    go_on_from_saved(trained, paced, store, tmp_path)


@pytest.mark.parametrize("index", [0, 1])
def test_a_server_that_is_killed_comes_back_at_the_last_cut(lasting, paced, store, tmp_path, index):
    trained = endless(lasting).start_all()
    trained.go_on()
    trained.ps[index].kill()
    trained.start_server(index)
    trained.go_on()
    go_on_from_saved(trained, paced, store, tmp_path, **SLOW)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_killed_before_anything_is_saved(cluster, served, store, tmp_path, workers):
    """Workers who said what is trained, or heard it, are asked once more."""
    trained = cluster(workers=workers)
    trained.start_server(0).wait_for_log("listens")
    for index in range(workers):
        trained.start_worker(index)
    wait_for(lambda: status(trained.servers[0])["parameters"] > 0, "nobody says what is trained")
    trained.ps[0].kill()
    trained.start_server(0), trained.start_server(1)
    trained.wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


def test_a_worker_that_cannot_say_what_is_trained_is_not_waited_for(cluster, served, store, tmp_path):
    trained = cluster()
    trained.start_server(0), trained.start_server(1)
    stuck = trained.task("worker", 1, sampler="http://127.0.0.1:1")
    trained.ps[0].wait_for_log(r"waiting for worker 1 \(.*\) to open what it trains from")
    trained.start_worker(0)
    trained.wait()
    assert re.search(r"worker 1 \(.*\) has not described the model for", trained.ps[0].stderr)
    stuck.kill()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


@pytest.mark.parametrize("option, value, says", [
    ("batch_size", 30, "counts batches of 100 rows, this run has --batch-size 30"),
    ("normalize", True, "trains with another --feature-scale or --normalize already"),
])
def test_who_says_late_what_is_trained_is_refused_if_it_is_something_else(lasting, sampler, store, option, value, says):
    trained = lasting(servers=1, **SLOW)
    server, port = trained.start_server(0), free_port()
    late = trained.task("worker", 1, sampler=f"http://127.0.0.1:{port}", **{option: value})
    server.wait_for_log(r"waiting for worker 1 \(.*\) to open what it trains from")
    trained.start_worker(0)
    trained.go_on()
    sampler("--store", store, "--seed", 7, listen=f"127.0.0.1:{port}")
    assert late.wait() == 2 and says in late.stderr, late.stderr
    trained.go_on()


def test_all_at_once(lasting, paced, store, tmp_path):
    trained = slow(lasting).start_all()
    go_on(trained, 0)
    for one in [*trained.ps, *trained.workers]:
        one.kill()
    slow(lasting).start_all().wait()
    check_slow(trained, paced, store, tmp_path)


def go_on_from_saved(trained, served, store, tmp_path, **chosen):
    """All are started again, and what comes out has learnt from each batch once."""
    for one in [*trained.ps, *trained.workers]:
        if one and one.process.poll() is None:
            one.kill()
    last = saved_step(trained) + STEPS
    trained.end_at(last)
    trained.start_all().wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, last, **chosen)


@pytest.mark.parametrize("servers", [2, 0])
def test_who_is_told_to_end_loses_no_step(lasting, paced, store, tmp_path, servers):
    trained = lasting(servers=servers, save_secs=0).start_all()
    trained.workers[1].wait_for_log(r"step \d+ of \d+  loss")
    ended = trained.ps[0] if servers else trained.workers[0]
    ended.stop(status=143)
    step = saved_step(trained)
    assert step > 0
    assert f"stopped by SIGTERM at step {step}; training can go on from step {step}, which is saved" in ended.stderr
    go_on_from_saved(trained, paced, store, tmp_path)


def test_all_are_told_to_end(lasting, paced, store, tmp_path):
    """At once: a worker does not leave its gradient with some of the servers."""
    trained = lasting(save_secs=0).start_all()
    for worker in trained.workers:
        worker.wait_for_log(r"step \d+ of \d+  loss")
    for one in [*trained.ps, *trained.workers]:
        one.signal(signal.SIGTERM)
    for one in [*trained.ps, *trained.workers]:
        assert one.wait() == 143 and "stopped by SIGTERM" in one.stderr, one.stderr
    assert saved_step(trained) > 0 and f"from step {saved_step(trained)}, which is saved" in trained.ps[0].stderr
    go_on_from_saved(trained, paced, store, tmp_path)


def test_a_chief_that_is_told_to_end_when_all_is_over(lasting):
    """It waits for a worker to fetch the last values; a signal then is no failure: the training is complete."""
    trained = slow(lasting, servers=0).start_all()
    go_on(trained, 0)
    trained.workers[1].signal(signal.SIGSTOP)
    trained.workers[0].wait_for_log(rf"saved .*model\.ckpt-{SLOW_STEPS}\.")
    trained.workers[0].stop(status=0)
    trained.workers[1].kill()
    assert saved_step(trained) == SLOW_STEPS


@pytest.mark.parametrize("index", [0, 1])
def test_a_server_that_is_told_to_end_saves_first(lasting, index):
    trained = lasting(save_secs=0).start_all()
    trained.workers[0].wait_for_log(r"step \d+ of")
    wait_for(lambda: checkpoints(trained.logdir) == [0], "the beginning is not saved")
    trained.ps[index].stop(status=143)
    if index == 1:
        wait_for(lambda: saved_step(trained) > 0, "no cut")
        trained.ps[0].stop(status=143)
    assert saved_step(trained) > 0
    for worker in trained.workers:
        worker.stop(status=143)


def test_a_worker_that_comes_after_the_end_says_so(cluster):
    trained = cluster(train_steps=40).start_all().wait()
    late = trained.start_worker(3, listed=False)
    assert late.wait() == 0
    assert "the training is over" in late.stderr


# ---- synchronous ----------------------------------------------------------------------------------

TOGETHER = {"sync": True, "replicas_to_aggregate": 3, "train_steps": 200, "batch_size": 20, "hidden_units": 16, "save_secs": 0.2}


@pytest.fixture
def together(start, served, store, tmp_path):  # noqa: F811
    """together(servers=1, workers=3, ...) -> Cluster that trains in step, not started; each in a folder of its own."""
    made = []

    def make(**chosen):
        made.append(Cluster(start, served, store, tmp_path / f"together{len(made)}", **{"servers": 1, "workers": 3, **TOGETHER, **chosen}))
        return made[-1]

    return make


def state(one):
    """Every tensor of the newest checkpoint, to the last bit."""
    return read_checkpoint(newest(one.logdir))[1]


@pytest.fixture
def expected(together):
    """What an undisturbed training comes to."""
    return state(together().start_all().wait())


@pytest.mark.parametrize("servers, workers", [(2, 3), (3, 2), (1, 1), (2, 5), (0, 2)])
def test_in_step_the_result_is_the_same_to_the_last_bit(together, expected, servers, workers):
    assert expected["global_step"][1] == (200,)
    trained = together(servers=servers, workers=workers).start_all().wait()
    assert state(trained) == expected
    assert position(trained.logdir)["next_index"] == 600


def test_in_step_cuts_without_end_change_no_bit(together, expected):
    """A push that meets a server between two messages of a cut waits for it. Servers that stand still for a moment meet many."""
    trained = together(servers=3, workers=3, save_secs=0.001).start_all()
    wait_for(lambda: saved_step(trained) > 0, "no checkpoint")
    while trained.ps[0].process.poll() is None and saved_step(trained) < TOGETHER["train_steps"] - 20:
        for one in trained.ps[1:]:
            one.process.send_signal(signal.SIGSTOP)
            time.sleep(0.01)
            one.process.send_signal(signal.SIGCONT)
    trained.wait()
    assert state(trained) == expected
    assert trained.ps[0].stderr.count(" saved ") >= 2


def test_in_step_kills_change_no_bit(together, expected):
    for killed in ("worker", "server 0", "server 1"):
        trained = together(servers=2).start_all()
        wait_for(lambda one=trained: saved_step(one) > 0, "no checkpoint")
        if killed == "worker":
            trained.workers[1].kill()
        else:
            index = int(killed[-1])
            trained.ps[index].kill()
            trained.start_server(index)
        trained.wait()
        assert state(trained) == expected, killed


@pytest.mark.threads
def test_in_step_who_stops_is_not_waited_for(together, expected):
    trained = together(servers=2).start_all()
    wait_for(lambda: saved_step(trained) > 0, "no checkpoint")
    trained.workers[1].signal(signal.SIGSTOP)
    for one in [*trained.ps, trained.workers[0], trained.workers[2]]:
        assert one.wait() == 0, one.stderr
    trained.workers[1].process.send_signal(signal.SIGCONT)
    assert trained.workers[1].wait() == 0, trained.workers[1].stderr
    assert state(trained) == expected


def test_in_step_the_last_step_of_a_stream_may_have_fewer_batches(start, sampler, store, tmp_path):  # noqa: F811
    served = sampler("--store", store, "--seed", 7, "--epochs", 1)  # 2,000 rows: 100 batches, 33 steps of three and one
    trained = Cluster(start, served, store, tmp_path / "run", **{**TOGETHER, "train_steps": 1000})
    trained.start_all().wait()
    assert checkpoints(trained.logdir)[-1] == 34 and position(trained.logdir)["next_index"] == 100


def test_asynchronous_and_synchronous_do_not_mix(together):
    trained = together(workers=2)
    trained.start_server(0).wait_for_log("listens")
    wrong = trained.task("worker", 0, replicas_to_aggregate=2)
    assert wrong.wait() == 2 and "--replicas-to-aggregate" in wrong.stderr
    trained.start_worker(0), trained.start_worker(1)
    trained.wait()


# ---- who is wrong ---------------------------------------------------------------------------------


def test_servers_in_another_order_are_noticed(cluster):
    trained = cluster(patience=5)
    trained.servers.reverse()
    first = trained.start_server(0)
    first.wait_for_log("listens")
    trained.servers[0], trained.servers[1] = trained.servers[1], trained.servers[0]
    worker = trained.start_worker(0)  # for it, server 0 is the other one, which is not there
    assert worker.wait() != 0
    first.stop(status=143)


@pytest.mark.parametrize("token", ["", "s3cre", "s3creT", "s3crett"])
def test_without_the_training_s_token_nobody_is_let_in(start, served, store, tmp_path, token):  # noqa: F811
    trained = Cluster(start, served, store, tmp_path / "run", servers=1, train_steps=20, **ADDITIVE)
    server = start("trainer", *trained.words, "--ps_hosts", trained.servers[0], "--job_name", "ps", env={"TOMBOLA_TOKEN": "s3cret"})
    words = [*trained.words, "--ps_hosts", trained.servers[0], "--job_name", "worker", "--task_index", 0]
    wrong = start("trainer", *words, env={"TOMBOLA_TOKEN": token})
    assert wrong.wait() == 2 and "TOMBOLA_TOKEN" in wrong.stderr
    right = start("trainer", *words, env={"TOMBOLA_TOKEN": "s3cret"})
    assert right.wait() == 0 and server.wait() == 0


def test_nonsense_on_the_port_is_refused(cluster):
    trained = cluster(servers=1)
    trained.start_server(0).wait_for_log("listens")
    host, port = trained.servers[0].split(":")
    for sent in (b"GET / HTTP/1.1\r\n\r\n" * 10, b"\0" * 200, b"TOMBOLA1" + b"\xff" * 100):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(sent)
            try:
                assert re.match(b"$|HTTP/1.1 4", connection.recv(1000))
            except ConnectionResetError:
                pass  # it closed before it had read everything
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as mute:
        assert mute.recv(1000) == b""  # who says nothing is not kept
    trained.start_worker(0)
    trained.wait()


def sleeps(one):
    """How often the main thread of a program has slept."""
    with open(f"/proc/{one.process.pid}/status") as status:
        return int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", status.read())[1])


def flood(trained):
    """Connections that say nothing, more than there is room for: until others have said nothing for too long, the server sleeps
    most of the time."""
    host, port = trained.servers[0].split(":")
    idle = [socket.create_connection((host, int(port)), timeout=300) for _ in range(800)]
    trained.ps[0].wait_for_log("connections have to wait: Too many open files")
    before = sleeps(trained.ps[0])
    wait_for(lambda: sleeps(trained.ps[0]) > before + 20, "it does not sleep")
    waiting = select.poll()  # select() ends at 1024 open files, of which others may have many
    for one in idle[500:]:
        waiting.register(one, select.POLLIN)
    assert not waiting.poll(0), "only when none had to wait any more"
    assert idle[0].recv(1) == b""
    return idle


def start_limited(trained):
    """Starts a server that may open 300 files, once it raises the limit that it was given first."""
    server = trained.start_server(0, prefix=("prlimit", "--nofile=200:300"))
    wait_for(lambda: resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (300, 300), "the limit is not raised")
    return server


def test_connections_beyond_the_limit_of_open_files_wait(lasting, paced, store, tmp_path):
    """Workers train and checkpoints are saved meanwhile."""
    trained = endless(lasting, servers=1)
    server = start_limited(trained)
    trained.start_worker(0)
    go_on(trained, 0)
    trained.workers[0].process.send_signal(signal.SIGSTOP)
    idle = flood(trained)
    trained.workers[0].process.send_signal(signal.SIGCONT)
    trained.go_on()
    assert "not saved" not in server.stderr and len(idle) > 300
    trained.workers[0].sent.clear()
    go_on_from_saved(trained, paced, store, tmp_path, **SLOW)


def test_a_server_without_another_open_file_does_not_try_without_end(cluster):
    trained = cluster(servers=1)
    server = start_limited(trained)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (40, 300))
    for one in flood(trained):
        one.close()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (300, 300))
    trained.start_worker(0)
    trained.wait()


def test_a_port_in_use(cluster):
    trained = cluster(servers=1)
    trained.start_server(0).wait_for_log("listens")
    again = trained.task("ps", 0)
    assert again.wait() == 1
    assert f"{trained.servers[0]}: the port is in use by another program; choose another" in again.stderr
    trained.ps[0].stop(status=143)
    assert run("trainer", "--version").returncode == 0
