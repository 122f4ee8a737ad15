# SPDX-License-Identifier: MIT
"""tombola-trainer beside a real sampler: what it prints, saves, goes on from and refuses."""

import csv
import fcntl
import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

import pytest

from conftest import PATIENCE_S, TSAN, free_port, from_pypi, run, run_fails, wait_for
from test_http_access import make_certificate

STEPS = 300 if TSAN else 1500  # enough that something can happen in the middle
NUMBERS = {"I64": "q", "F32": "f"}


def csv_uri(path):
    return f"csv:{path}?label=0&header=no"


def read_checkpoint(path):
    """(metadata, {name: (shape, values)}), read by hand and strictly."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    tensors, end = {}, 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = tensor["data_offsets"]
        assert begin == end, "the tensors cover the data without holes"
        end = stop
        kind = NUMBERS[tensor["dtype"]]
        values = struct.unpack(f"<{(stop - begin) // struct.calcsize(kind)}{kind}", data[8 + length + begin : 8 + length + stop])
        tensors[name] = (tensor["shape"], values)
    assert 8 + length + end == len(data)
    return metadata, tensors


def checkpoints(logdir):
    """Steps of the files there are, ascending."""
    return sorted(int(re.fullmatch(r"model\.ckpt-(\d+)\.safetensors", path.name)[1])
                  for path in logdir.glob("model.ckpt-*.safetensors"))


def newest(logdir):
    """The file that `checkpoint` names."""
    found = re.match(r'model_checkpoint_path: "(.*)"\n', (logdir / "checkpoint").read_text())
    return logdir / found[1]


def options(served, store, logdir, **more):
    chosen = {"model": "mlp", "hidden_units": 16, "seed": 3, "batch_size": 50, "train_steps": 120, **more}
    words = ["train", "--sampler", getattr(served, "url", served), "--store", store, "--logdir", logdir]
    for name, value in chosen.items():
        if value is not None:
            words += [f"--{name}", value]
    return words


def train(served, store, logdir, status=0, env=None, **more):
    return run("trainer", *options(served, store, logdir, **more), status=status, env=env)


def train_fails(served, store, logdir, says, status=2, env=None, **more):
    return run_fails("trainer", *options(served, store, logdir, **more), says=says, status=status, env=env)


def evaluate(store, logdir):
    """What the last line says."""
    lines = run("trainer", "evaluate", "--store", store, "--logdir", logdir).stdout.splitlines()
    name, value = lines[-1].split(": ")
    assert name in ("accuracy", "mean squared error")
    return float(value)


@pytest.fixture
def store(demo):
    return csv_uri(demo / "mnist_train.csv")


@pytest.fixture
def test_store(demo):
    return csv_uri(demo / "mnist_test.csv")


@pytest.fixture
def served(sampler, store):
    """A sampler of the demo data with seed 7."""
    return sampler("--store", store, "--seed", 7)


# ---- the whole way --------------------------------------------------------------------------------


@pytest.mark.threads
def test_the_whole_way_from_rows_to_an_accuracy(served, store, test_store, tmp_path):
    logdir = tmp_path / "new" / "run"
    done = train(served, store, logdir, test_store=test_store, hidden_units=100, train_steps=400, batch_size=100)
    accuracy = evaluate(test_store, logdir)
    assert accuracy > 0.75
    lines = done.stdout.splitlines()
    assert lines[0] == "Worker 0: Initializing session..."
    assert lines[1] == "Worker 0: Session initialization complete."
    assert re.fullmatch(r"Training begins @ \d+\.\d{6}", lines[2])
    steps = [line for line in lines if "training step" in line]
    assert len(steps) == 400
    for number, line in enumerate(steps, 1):
        assert re.fullmatch(rf"\d+\.\d{{6}}: Worker 0: training step {number} done \(global step: {number}\)", line)
    assert sum(line.startswith("acc: ") for line in lines) == 5
    assert sum(line.startswith("cross entropy = ") for line in lines) == 5
    assert lines.index(steps[99]) + 1 == next(i for i, line in enumerate(lines) if line.startswith("acc: "))
    ends = next(i for i, line in enumerate(lines) if line.startswith("Training ends @ "))
    assert re.fullmatch(r"Training elapsed time: \d+\.\d{6} s", lines[ends + 1])
    assert lines[ends + 2] == f"acc: {accuracy:g}"
    assert lines[ends + 3].startswith("cross entropy = ")
    assert lines[-2:] == ["done.", f"accuracy: {accuracy:f}"]
    assert re.search(r"400 steps in .* steps/s, .* rows/s, waited for data .* %", done.stderr)
    assert checkpoints(logdir) == [0, 400]
    assert newest(logdir).name == "model.ckpt-400.safetensors"
    assert not list(logdir.glob("*.tmp.*"))


def test_a_checkpoint_holds_parameters_slots_step_and_position(served, store, tmp_path):
    train(served, store, tmp_path / "run", train_steps=30, save_secs=0)
    metadata, tensors = read_checkpoint(newest(tmp_path / "run"))
    assert {name: shape for name, (shape, _) in tensors.items()} == {
        "hid_w": [784, 16], "hid_b": [16], "sm_w": [16, 10], "sm_b": [10], "global_step": [],
        "hid_w/Adagrad": [784, 16], "hid_b/Adagrad": [16], "sm_w/Adagrad": [16, 10], "sm_b/Adagrad": [10]}
    assert tensors["global_step"][1] == (30,)
    assert all(value >= 0.0999 for value in tensors["hid_w/Adagrad"][1])
    position = json.loads(metadata["sampler"])
    stream = served.get("/streams/default").json
    for key in ("digest", "design", "seed", "replacement", "tail"):
        assert position[key] == stream[key]
    assert (position["next_index"], position["batch_size"]) == (30, 50)
    assert metadata["classes"] == "[0,1,2,3,4,5,6,7,8,9]"
    assert (metadata["model"], metadata["hidden_units"], metadata["optimizer"]) == ("mlp", "16", "adagrad")
    assert stream["position"] == 0, "a lone trainer does not move the stream"
    first = read_checkpoint(tmp_path / "run" / "model.ckpt-0.safetensors")[1]
    assert set(first["sm_b"][1]) == {0.0} and set(first["sm_b/Adagrad"][1]) == {struct.unpack("f", struct.pack("f", 0.1))[0]}


def test_the_real_reader_reads_it(served, store, tmp_path):
    reader = from_pypi("safetensors")
    train(served, store, tmp_path / "run", train_steps=5)
    path = newest(tmp_path / "run")
    script = """import json, sys
from safetensors.numpy import load_file
print(json.dumps({name: [list(one.shape), one.reshape(-1).tolist()] for name, one in load_file(sys.argv[1]).items()}))"""
    done = subprocess.run([reader / "bin/python", "-c", script, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    _, ours = read_checkpoint(path)
    assert json.loads(done.stdout) == {name: [shape, list(values)] for name, (shape, values) in ours.items()}
    assert ours


def test_the_sampler_lists_a_trainer_as_a_reader(served, store, tmp_path):
    """It leases nothing, and says who it is all the same; threads of one trainer are one reader."""
    train(served, store, tmp_path / "run")
    [one] = served.get("/streams/default/readers").json["readers"]
    host = re.sub("[^A-Za-z0-9._-]", "-", socket.gethostname())
    assert re.fullmatch(rf"{re.escape(host)}-\d+", one["worker"])
    assert one["ids"] >= 120 * 50


def test_the_same_seed_gives_the_same_bytes_from_every_store(served, store, demo_database, tmp_path):
    for name, uri, more in (("a", store, {}), ("b", store, {"cache_bytes": 0}), ("c", demo_database, {})):
        train(served, uri, tmp_path / name, **more)
    expected = newest(tmp_path / "a").read_bytes()
    assert newest(tmp_path / "b").read_bytes() == expected
    assert newest(tmp_path / "c").read_bytes() == expected
    train(served, store, tmp_path / "d", seed=4)
    assert newest(tmp_path / "d").read_bytes() != expected


def test_another_seed_than_that_of_the_first_start_is_noticed(served, store, tmp_path):
    assert "no effect" not in train(served, store, tmp_path, train_steps=5).stderr
    assert "no effect" not in train(served, store, tmp_path, train_steps=6).stderr
    assert "no effect" not in train(served, store, tmp_path, train_steps=7, seed=None).stderr
    assert "--seed 4 has no effect: this training began with --seed 3" in train(served, store, tmp_path, train_steps=8, seed=4).stderr


@pytest.mark.parametrize("model", ["softmax", "mlp"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_models_and_optimizers_learn(served, store, test_store, tmp_path, model, optimizer):
    rate = {"sgd": 0.01, "momentum": 0.002, "adam": 0.003}[optimizer]
    train(served, store, tmp_path / "run", model=model, optimizer=optimizer, learning_rate=rate, loss="sum",
          hidden_units="24,12" if model == "mlp" else None, train_steps=300)
    assert evaluate(test_store, tmp_path / "run") > 0.45


def test_steps_are_printed_as_often_as_asked(served, store, tmp_path):
    def numbers(done):
        return [int(found) for found in re.findall(r"global step: (\d+)", done.stdout)]

    assert numbers(train(served, store, tmp_path / "a", print_every=50)) == [50, 100]
    assert numbers(train(served, store, tmp_path / "b", print_every=0)) == []


# ---- interruptions ----------------------------------------------------------------------------------


@pytest.fixture
def straight(served, store, tmp_path):
    """The bytes of the last checkpoint of a training of STEPS without a break."""
    train(served, store, tmp_path / "straight", train_steps=STEPS)
    return newest(tmp_path / "straight").read_bytes()


def interrupt(start, served, store, logdir, number, **more):
    """Starts a training without an end, sends the signal once some steps are done, and returns the program."""
    trainer = start("trainer", *options(served, store, logdir, train_steps=10**9, **more))
    trainer.wait_for_line("training step")
    trainer.terminate(number)
    return trainer


@pytest.mark.threads
@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_saves_and_training_goes_on_bit_for_bit(start, served, store, tmp_path, number, status):
    logdir = tmp_path / "run"
    for _ in range(2):
        trainer = interrupt(start, served, store, logdir, number)
        assert trainer.wait() == status
        assert "start again with the same --logdir" in trainer.stderr
    steps = checkpoints(logdir)[-1]
    assert steps > 0
    before = newest(logdir).name
    done = train(served, store, logdir, train_steps=steps + 100)
    assert f"going on from {logdir}/{before}" in done.stderr
    train(served, store, tmp_path / "straight", train_steps=steps + 100)
    assert newest(logdir).read_bytes() == newest(tmp_path / "straight").read_bytes()


def test_after_kill_9_training_goes_on_bit_for_bit(start, served, store, straight, tmp_path):
    logdir = tmp_path / "run"
    for _ in range(4):
        trainer = start("trainer", *options(served, store, logdir, train_steps=STEPS, save_secs=0.01))
        for _ in range(60):
            trainer.read_line()
        trainer.kill()
    trainer = start("trainer", *options(served, store, logdir, train_steps=STEPS, save_secs=0.01))
    while len(checkpoints(logdir)) < 2 and trainer.read_line():
        pass
    trainer.kill()
    assert len(checkpoints(logdir)) > 1
    train(served, store, logdir, train_steps=STEPS)
    assert newest(logdir).read_bytes() == straight
    listed = re.findall(r'^all_model_checkpoint_paths: "(.*)"', (logdir / "checkpoint").read_text(), re.M)
    assert len(listed) <= 5 and all((logdir / name).exists() for name in listed)
    assert not list(logdir.glob("*.tmp.*"))


def test_five_checkpoints_are_kept(start, served, store, tmp_path):
    trainer = start("trainer", *options(served, store, tmp_path / "run", train_steps=10**9, save_secs=0.001, print_every=0))
    wait_for(lambda: trainer.stderr.count(" saved ") > 6, "it does not save")
    trainer.stop()
    steps = checkpoints(tmp_path / "run")
    assert 5 <= len(steps) <= 6
    train(served, store, tmp_path / "run", train_steps=steps[-1])  # what a slow disk kept it from removing goes now
    steps = checkpoints(tmp_path / "run")
    assert len(steps) == 5
    listed = re.findall(r'^all_model_checkpoint_paths: "model\.ckpt-(\d+)', (tmp_path / "run" / "checkpoint").read_text(), re.M)
    assert [int(step) for step in listed] == steps


def test_a_removal_that_kill_9_cut_off_is_finished(served, store, tmp_path):
    logdir = tmp_path / "run"
    for steps in range(10, 60, 10):
        train(served, store, logdir, train_steps=steps)
    assert checkpoints(logdir) == [10, 20, 30, 40, 50]
    (logdir / "model.ckpt-0.safetensors").write_bytes((logdir / "model.ckpt-10.safetensors").read_bytes())
    state = (logdir / "checkpoint").read_text()
    name = 'all_model_checkpoint_paths: "model.ckpt-%d.safetensors"\n'
    (logdir / "checkpoint").write_text(state.replace(name % 10, name % 0 + name % 10))  # as between naming 50 and removing 0
    train(served, store, logdir, train_steps=50)  # nothing left to train
    assert checkpoints(logdir) == [10, 20, 30, 40, 50]
    assert (logdir / "checkpoint").read_text() == state


def test_more_steps_go_on_and_enough_steps_are_enough(served, store, tmp_path):
    train(served, store, tmp_path / "two", train_steps=60)
    train(served, store, tmp_path / "two", train_steps=120)
    train(served, store, tmp_path / "one", train_steps=120)
    expected = newest(tmp_path / "one").read_bytes()
    assert newest(tmp_path / "two").read_bytes() == expected
    for steps in (120, 60):
        done = train("http://127.0.0.1:1", store, tmp_path / "two", train_steps=steps)  # needs no sampler
        assert "nothing is left to train" in done.stderr
    assert newest(tmp_path / "two").read_bytes() == expected


@pytest.mark.parametrize("change, says", [
    ({"batch_size": 51}, "--batch-size 51"), ({"device": "tpu"}, "tpu"), ({"blas": "mkl"}, "mkl"),
    ({"feature_scale": 2}, "--feature-scale 2"), ({"test_store": "none.csv"}, "none.csv"),
    ({"sampler": "nonsense://x"}, "nonsense"), ({"sampler": ""}, "not the URL"), ({"store": "none.db"}, "none.db"),
    ({"store": "rows.dat"}, "which kind of store"), ({"store": "csv:none-*.csv"}, "none-*.csv"),
])
def test_options_are_checked_when_nothing_is_left_too(store, trained, change, says):
    served, where = change.pop("sampler", "http://127.0.0.1:1"), change.pop("store", store)
    train_fails(served, where, trained, says, train_steps=40, **change)


def test_hidden_units_without_hidden_layers_are_a_warning(served, store, tmp_path):
    """The classic programs are called with one fixed command line."""
    done = train(served, store, tmp_path / "run", model="softmax", hidden_units=100, train_steps=5)
    assert "warning --hidden-units has no effect: --model softmax has no hidden layers" in done.stderr
    assert checkpoints(tmp_path / "run") == [0, 5]


def test_staleness_in_one_process_is_a_warning(served, store, tmp_path):
    assert "warning --staleness has no effect" in train(served, store, tmp_path, train_steps=5, staleness=2).stderr


def test_a_precision_of_gpus_changes_nothing_on_a_cpu(served, store, tmp_path):
    """The processes of a cluster share one command line, and not all of them may have a GPU."""
    for precision in ("f32", "tf32", "bf16"):
        done = train(served, store, tmp_path / precision, device="cpu", precision=precision, seed=3, train_steps=5)
        warned = f"warning --precision {precision} has no effect: the CPU computes in f32" in done.stderr
        assert warned == (precision != "f32")
    first, *others = ((tmp_path / p / "model.ckpt-5.safetensors").read_bytes() for p in ("f32", "tf32", "bf16"))
    assert others == [first, first]


@pytest.mark.threads
def test_training_ends_where_the_stream_ends(sampler, store, tmp_path):
    served = sampler("--store", store, "--seed", 7, "--epochs", 2)
    units = served.get("/streams/default").json["units"]
    batches = 2 * -(-units // 70)  # tail keep: the last batch of each epoch is short
    for _ in range(2):
        done = train(served, store, tmp_path / "run", batch_size=70, train_steps=100000)
        assert f"the stream ended after {batches} of 100000 steps" in done.stderr
        assert re.search(r"^Training ends @ \d", done.stdout, re.M)
        assert checkpoints(tmp_path / "run") == [0, batches]


def test_a_second_trainer_is_refused(start, served, store, tmp_path):
    first = start("trainer", *options(served, store, tmp_path / "run", train_steps=10**9))
    first.read_line()
    first.wait_for_line("training step")
    train_fails(served, store, tmp_path / "run", ["in use by another trainer", f"process {first.process.pid}"])
    run("trainer", "evaluate", "--store", store, "--logdir", tmp_path / "run")
    first.stop()


TAKEN = "process 7 on another\nmark 0123456789abcdef\n"  # trainer.lock, by whoever got the lock that a machine had lost


def test_a_trainer_ends_whose_logdir_was_taken_over(start, served, store, tmp_path):
    first = start("trainer", *options(served, store, tmp_path / "run", train_steps=10**9, save_secs=0.1, print_every=0))
    first.wait_for_log("saved .*ckpt-[1-9]")
    (tmp_path / "run" / "trainer.lock").write_text(TAKEN)
    assert first.wait() == 2
    assert "was taken over by another trainer (process 7 on another)" in first.stderr


def test_lines_reach_a_pipe_while_training_waits(start, sampler, store, tmp_path):
    served = sampler("--store", store, "--seed", 7)
    trainer = start("trainer", *options(served, store, tmp_path / "run", train_steps=10**9, print_every=1000, patience=600))
    trainer.wait_for_line("training step")
    served.signal(signal.SIGSTOP)
    try:
        trainer.wait_for_log(r"wait for data (9\d\.\d|100\.0) %")
        trainer.stop()
    finally:
        served.signal(signal.SIGCONT)


# ---- a sampler that is not there ---------------------------------------------------------------------


def test_a_sampler_that_is_not_there_is_waited_for(sampler, start, store, tmp_path):
    port = free_port()
    trainer = start("trainer", *options(f"http://127.0.0.1:{port}", store, tmp_path / "run"))
    trainer.wait_for_log(rf"127\.0\.0\.1:{port}")
    sampler("--store", store, "--seed", 7, listen=f"127.0.0.1:{port}")
    assert trainer.wait() == 0


def test_a_sampler_that_never_comes_ends_the_training(store, tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    train_fails(url, store, tmp_path / "run", [url], status=1, patience=0.3)
    assert not (tmp_path / "run").exists()


@pytest.mark.threads
def test_a_sampler_that_dies_and_comes_back_changes_nothing(sampler, start, store, straight, tmp_path):
    served = sampler("--store", store, "--seed", 7, listen=f"127.0.0.1:{free_port()}")
    trainer = start("trainer", *options(served, store, tmp_path / "run", train_steps=STEPS))
    trainer.wait_for_line("training step")
    served.kill()
    wait_for(lambda: "trying again" in trainer.stderr or trainer.process.poll() is not None, "it does not miss the sampler")
    sampler("--store", store, "--seed", 7, listen=f"127.0.0.1:{served.port}")
    assert trainer.wait() == 0
    assert newest(tmp_path / "run").read_bytes() == straight


def test_a_sampler_that_stays_away_leaves_a_checkpoint(sampler, start, store, straight, tmp_path):
    logdir = tmp_path / "run"
    served = sampler("--store", store, "--seed", 7)
    trainer = start("trainer", *options(served, store, logdir, train_steps=10**9, patience=5))
    trainer.wait_for_line("training step")
    served.kill()
    assert trainer.wait() == 1
    assert f"127.0.0.1:{served.port}" in trainer.stderr.splitlines()[-1]
    step = checkpoints(logdir)[-1]
    assert step > 0
    back = sampler("--store", store, "--seed", 7)  # on another port: the order counts, not the place
    train(back, store, logdir, train_steps=step + 10)
    train(back, store, tmp_path / "other", train_steps=step + 10)
    assert newest(logdir).read_bytes() == newest(tmp_path / "other").read_bytes()


def test_a_sampler_that_comes_back_with_another_seed_is_noticed(sampler, start, store, tmp_path):
    served = sampler("--store", store, "--seed", 7, listen=f"127.0.0.1:{free_port()}")
    trainer = start("trainer", *options(served, store, tmp_path / "run", train_steps=10**9, save_secs=0.5))
    trainer.wait_for_line("training step")
    served.kill()
    sampler("--store", store, "--seed", 8, listen=f"127.0.0.1:{served.port}")
    assert trainer.wait() == 2
    assert "seed is 7, the sampler's is 8" in trainer.stderr
    assert re.search(r"step [1-9]\d* is saved", trainer.stderr)


def test_a_sampler_that_comes_back_with_another_rate_is_noticed(sampler, start, store, tmp_path):
    """Which only the order's name tells: frame, design and seed are the same."""
    words = ["--store", store, "--seed", 7, "--design", "bernoulli", "--rate"]
    served = sampler(*words, 0.5, listen=f"127.0.0.1:{free_port()}")
    trainer = start("trainer", *options(served, store, tmp_path / "run", train_steps=10**9, save_secs=0.5))
    trainer.wait_for_line("training step")
    served.kill()
    other = sampler(*words, 0.1, listen=f"127.0.0.1:{served.port}")
    assert trainer.wait() == 2
    assert "belongs to another order" in trainer.stderr and "the design's own fields" in trainer.stderr
    train_fails(other, store, tmp_path / "run", ["belongs to another order", "the design's own fields"], train_steps=10**9)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_another_seed_is_noticed_long_before_the_next_save(sampler, start, demo, tmp_path, scheme):
    """And costs nothing: what was trained until then is of the old order, and is gone on from."""
    secure, trusted = [], None
    if scheme == "https":
        trusted, key = make_certificate(tmp_path, "one")
        secure = ["--tls-cert", trusted, "--tls-key", key]
    lines = (demo / "mnist_train.csv").read_text().splitlines() * 10
    (tmp_path / "many.csv").write_text("\n".join(lines) + "\n")
    uri = csv_uri(tmp_path / "many.csv")
    served = sampler("--store", uri, "--seed", 7, *secure, listen=f"127.0.0.1:{free_port()}")
    logdir = tmp_path / "run"
    # Tests make it so slow that the feed, which sees it too, asks for no batch in the first seconds.
    trainer = start("trainer", *options(served, uri, logdir, train_steps=10**9, save_secs=0, batch_size=5, hidden_units=1000,
                                        test_store=uri, test_every=1), env={"TOMBOLA_CA": str(trusted or "")})
    trainer.wait_for_line("training step")
    served.kill()
    sampler("--store", uri, "--seed", 8, *secure, listen=f"127.0.0.1:{served.port}")
    assert trainer.wait() == 2
    assert "the sampler changed while it was trained from: " in trainer.stderr
    assert "seed is 7, the sampler's is 8" in trainer.stderr
    steps = checkpoints(logdir)
    assert len(steps) == 2 and steps[0] == 0 and steps[1] > 0
    assert f"step {steps[1]} is saved ({newest(logdir)})" in trainer.stderr
    back = sampler("--store", uri, "--seed", 7)
    more = {"train_steps": steps[1] + 2, "batch_size": 5, "hidden_units": 1000}
    train(back, uri, logdir, **more)
    train(back, uri, tmp_path / "straight", **more)
    assert newest(logdir).read_bytes() == newest(tmp_path / "straight").read_bytes()


# ---- states that belong to something else --------------------------------------------------------------


@pytest.fixture
def trained(served, store, tmp_path):
    """A logdir with the steps 0 and 40."""
    train(served, store, tmp_path / "trained", train_steps=40)
    return tmp_path / "trained"


@pytest.mark.parametrize("change, says", [
    ({"hidden_units": 17}, ["hidden_units is 16", "17"]),
    ({"model": "softmax", "hidden_units": None, "loss": "sum"}, ["model is mlp", "softmax"]),
    ({"optimizer": "sgd"}, ["optimizer is adagrad", "sgd"]),
    ({"loss": "mean"}, ["loss is clipped_sum", "mean"]),
    ({"batch_size": 51}, ["batches of 50 rows", "--batch-size 51"]),
    ({"feature_scale": 1}, ["features times 0.00392157", "--feature-scale 1"]),
])
def test_another_model_does_not_continue(served, store, trained, change, says):
    before = newest(trained).read_bytes()
    train_fails(served, store, trained, ["model.ckpt-40.safetensors", *says], **change)
    assert newest(trained).read_bytes() == before


@pytest.mark.parametrize("change, says", [
    (["--seed", 8], ["seed is 7, the sampler's is 8", "with --seed 7, or with the --state that it had", "another --logdir"]),
    (["--seed", 7, "--design", "srs"], ["design is proportional, the sampler's is srs", "with --design proportional,"]),
    (["--seed", 7, "--replacement"], ["replacement is no, the sampler's is yes", "without --replacement,"]),
    (["--seed", 7, "--tail", "drop"], ["tail is keep, the sampler's is drop", "with --tail keep,"]),
    (["--seed", 7, "--rows", "0:500"], ["another frame"]),
])
def test_another_order_is_not_continued(sampler, store, trained, change, says):
    other = sampler("--store", store, *change)
    train_fails(other, store, trained, ["model.ckpt-40.safetensors", *says])


def test_other_shares_are_another_order(sampler, store, tmp_path):
    """Which only the order's name tells: frame, design and seed are the same."""
    quota = ["--store", store, "--seed", 7, "--design", "quota", "--shares"]
    train(sampler(*quota, '{"0":1,"1":1}'), store, tmp_path / "quota", train_steps=40)
    train_fails(sampler(*quota, '{"0":1,"1":2}'), store, tmp_path / "quota", ["belongs to another order", "the design's own fields"])


def test_a_batch_that_the_end_cut_short_is_not_continued(sampler, store, tmp_path):
    """With tail span and more epochs it has more rows, which nobody would train."""
    served = ["--store", store, "--seed", 7, "--tail", "span", "--epochs"]
    one = sampler(*served, 1)
    train(one, store, tmp_path / "run", batch_size=7, train_steps=10**9)
    says = ["was trained to the end of 1 epoch, whose last batch is short", "--epochs 1"]
    train_fails(sampler(*served, 2), store, tmp_path / "run", says, batch_size=7, train_steps=10**9)
    train(one, store, tmp_path / "run", batch_size=7, train_steps=10**9)


def test_another_learning_rate_continues(served, store, trained):
    done = train(served, store, trained, learning_rate=0.001, seed=99)
    assert "learning rate 0.001 from now on (0.01 before)" in done.stderr
    assert checkpoints(trained)[-1] == 120
    again = train(served, store, trained, seed=99)  # with nothing left to train, too
    for one in (done, again):
        assert one.stderr.count("--seed 99") == one.stderr.count("--seed 99 has no effect: this training began with --seed 3") == 1
    assert "no effect" not in train(served, store, trained, seed=3).stderr + train(served, store, trained, seed=None).stderr


def test_a_damaged_checkpoint_is_named_with_the_way_back(served, store, trained):
    train(served, store, trained, train_steps=60)
    damaged = newest(trained)
    whole = damaged.read_bytes()
    for broken in (whole[:-1], whole[: len(whole) // 2], b"", whole[:-1] + bytes([whole[-1] ^ 1]), b"label,p0\n1,2\n" * 99):
        damaged.write_bytes(broken)
        says = [damaged.name, "model.ckpt-40.safetensors is whole: to go on from its step 40, remove"]
        train_fails(served, store, trained, says)
        run_fails("trainer", "evaluate", "--store", store, "--logdir", trained, says=says)
    damaged.unlink()
    train(served, store, trained, train_steps=60)
    assert newest(trained).read_bytes() == whole


def test_a_foreign_checkpoint_is_refused(served, store, trained):
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    newest(trained).write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    train_fails(served, store, trained, ["model.ckpt-40.safetensors", "not a file of this program"])
    (trained / "checkpoint").write_text("rubbish\n")
    train_fails(served, store, trained, ["checkpoint, line 1"])


# ---- disks ------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(path):
    """Makes a file of all the room that is left, or a longer one."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        with pytest.raises(OSError, match="No space"):
            while True:
                os.write(file, bytes(4096))
    finally:
        os.close(file)


def test_a_full_disk_loses_nothing_that_was_saved(small_disk, start, served, store, straight):
    logdir = small_disk / "run"
    trainer = start("trainer", *options(served, store, logdir, train_steps=10**9))
    trainer.wait_for_line("training step")
    filler = small_disk / "filler"
    fill(filler)
    trainer.stop(status=1)
    assert re.search(r"step \d+ was not saved, training can go on from step 0 \(.*model\.ckpt-0\.safetensors\): .*No space left", trainer.stderr)
    assert checkpoints(logdir) == [0] and not list(logdir.glob("*.tmp.*"))
    filler.unlink()
    train(served, store, logdir, train_steps=STEPS)
    assert newest(logdir).read_bytes() == straight


@pytest.mark.threads
def test_training_goes_on_while_a_save_fails_and_is_tried_again(small_disk, start, served, store):
    logdir = small_disk / "run"
    trainer = start("trainer", *options(served, store, logdir, train_steps=10**9, save_secs=0.2, print_every=1000))
    trainer.wait_for_log("saved")

    def is_refused():
        """A checkpoint that was being saved, behind which the oldest goes, leaves room for the next."""
        fill(small_disk / "filler")
        return "No space left on device; it is tried again" in trainer.stderr

    wait_for(is_refused, "the disk is never full")
    saved = checkpoints(logdir)[-1]
    (small_disk / "filler").unlink()
    trainer.wait_for_log(r"(?s)it is tried again.*saved ")
    trainer.stop(status=143)
    assert checkpoints(logdir)[-1] > saved


def test_a_disk_that_is_full_from_the_start_is_told(small_disk, served, store):
    fill(small_disk / "filler")
    train_fails(served, store, small_disk / "run", ["No space left"], status=1)


def test_a_logdir_that_cannot_be_is_named(served, store, tmp_path):
    (tmp_path / "file").write_text("")
    done = train(served, store, tmp_path / "file" / "run", status=None)
    assert done.returncode in (1, 2) and str(tmp_path / "file") in done.stderr


# ---- evaluate and predict ------------------------------------------------------------------------------


def predictions(store, logdir, *more):
    done = run("trainer", "predict", "--store", store, "--logdir", logdir, *more)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_predictions_agree_with_the_accuracy(trained, test_store):
    rows = predictions(test_store, trained)
    assert list(rows[0]) == ["id", "label", "predicted", *[f"p{i}" for i in range(10)]]
    assert [int(row["id"]) for row in rows] == list(range(len(rows)))
    for row in rows:
        shares = [float(row[f"p{i}"]) for i in range(10)]
        assert abs(sum(shares) - 1) < 1e-5
        assert int(row["predicted"]) == shares.index(max(shares))
    correct = sum(row["label"] == row["predicted"] for row in rows) / len(rows)
    assert evaluate(test_store, trained) == pytest.approx(correct, abs=1e-6)


def test_a_named_checkpoint_is_taken(trained, test_store):
    lines = [run("trainer", "evaluate", "--store", test_store, "--checkpoint", trained / f"model.ckpt-{step}.safetensors").stdout
             for step in (0, 40)]
    assert lines[0] != lines[1]
    assert lines[1] == run("trainer", "evaluate", "--store", test_store, "--logdir", trained).stdout


def test_features_stored_as_floats_are_scaled_alike(trained, demo, tmp_path):
    lines = (demo / "mnist_test.csv").read_text().splitlines()
    odd = lines[0].split(",")
    odd[1] = "0.5"
    (tmp_path / "floats.csv").write_text("\n".join([*lines[:50], ",".join(odd)]) + "\n")  # f32: one value is no byte
    (tmp_path / "bytes.csv").write_text("\n".join(lines[:50]) + "\n")
    floats = predictions(csv_uri(tmp_path / "floats.csv"), trained)
    assert floats[:50] == predictions(csv_uri(tmp_path / "bytes.csv"), trained)


def test_floats_train_as_bytes_do(sampler, demo, tmp_path):
    lines = (demo / "mnist_train.csv").read_text().splitlines()[:200]
    (tmp_path / "bytes.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "floats.csv").write_text("\n".join([*lines, "0,0.5" + ",0" * 783]) + "\n")
    served = sampler("--store", csv_uri(tmp_path / "bytes.csv"), "--seed", 7)
    train(served, csv_uri(tmp_path / "bytes.csv"), tmp_path / "a")
    train(served, csv_uri(tmp_path / "floats.csv"), tmp_path / "b", feature_scale=repr(1 / 255))
    train(served, csv_uri(tmp_path / "floats.csv"), tmp_path / "c")
    assert newest(tmp_path / "a").read_bytes() == newest(tmp_path / "b").read_bytes()
    assert newest(tmp_path / "a").read_bytes() != newest(tmp_path / "c").read_bytes()


def test_rows_without_labels_are_predicted(trained, demo, tmp_path):
    lines = (demo / "mnist_test.csv").read_text().splitlines()[:20]
    (tmp_path / "bare.csv").write_text("".join(line.split(",", 1)[1] + "\n" for line in lines))
    uri = f"csv:{tmp_path}/bare.csv?header=no"
    done = run("trainer", "predict", "--store", uri, "--logdir", trained, status=None)
    if done.returncode == 0:  # a store may have no label column
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        assert len(rows) == 20 and {row["label"] for row in rows} == {""}
    else:
        assert "label" in done.stderr


def test_features_beyond_the_model_are_told(sampler, tmp_path):
    """Sums that overflow: JSON has no NaN, and a prediction of one is no prediction."""
    rows = tmp_path / "rows.csv"
    rows.write_text("label,a,b\n" + "".join(f"{i % 2},{i % 2}.5,{-(i % 2)}.5\n" for i in range(20)))
    train(sampler("--store", f"csv:{rows}"), f"csv:{rows}", tmp_path / "run")
    rows.write_text("label,a,b\n0,3e38,-3e38\n1,3e38,3e38\n0,-3e38,-3e38\n1,1.5,-1.5\n")
    scored = run("trainer", "evaluate", "--store", f"csv:{rows}", "--logdir", tmp_path / "run", "--format", "json").stdout
    result = json.loads(scored, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert result["rows"] == 4 and result["mean_cross_entropy"] is None
    done = run("trainer", "predict", "--store", f"csv:{rows}", "--logdir", tmp_path / "run")
    bad = sum("nan" in line or "inf" in line for line in done.stdout.splitlines())
    assert "-nan" not in done.stdout + run("trainer", "evaluate", "--store", f"csv:{rows}", "--logdir", tmp_path / "run").stdout
    assert 0 < bad < 4 and re.search(rf"{bad} rows? ha(s|ve) a prediction that is not finite", done.stderr), done.stderr


def test_predictions_on_a_full_disk(trained, test_store):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([run.__globals__["program"]("trainer"), "predict", "--store", test_store, "--logdir", str(trained)],
                              stdout=full, stderr=subprocess.PIPE, check=False, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert b"cannot write to standard output" in done.stderr


def test_a_reader_of_predictions_that_goes(trained, test_store, start):
    predict = start("trainer", "predict", "--store", test_store, "--logdir", trained)
    assert predict.read_line().startswith("id,label,")
    predict.process.stdout.close()
    assert predict.process.wait(PATIENCE_S) == 0  # as any other program in front of head
    assert "predict:" not in predict.stderr


def test_sigterm_while_nobody_reads_predictions(trained, store, start):
    predict = start("trainer", "predict", "--store", store, "--logdir", trained)
    predict.read_line()  # and nothing more: the pipe is full soon
    time.sleep(0.5)
    predict.terminate()
    assert predict.process.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_sigterm_while_nobody_reads_the_steps(served, store, start, tmp_path):
    """A terminal that was stopped with Ctrl-S, a log that nobody collects."""
    training = start("trainer", "train", "--sampler", served.url, "--store", store, "--logdir", tmp_path / "run", "--train-steps", 10**9,
                     "--hidden_units", 1, "--device", "cpu")
    waiting = bytearray(4)

    def unread():
        fcntl.ioctl(training.process.stdout, termios.FIONREAD, waiting)
        return int.from_bytes(waiting, sys.byteorder)

    def is_full():
        """Its 16 pages may hold less than 64 KiB: a flush may leave the last one in part."""
        before = unread()
        time.sleep(0.5)
        return unread() == before > 32768

    wait_for(is_full, "there is room for more")
    training.terminate()
    assert training.process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert "start again with the same --logdir" in training.stderr


# ---- other data than digits ------------------------------------------------------------------------------


def write_line(path, rows, integers=False):
    """y = 2 x + 10, as the first cluster's client trained it."""
    with open(path, "w", encoding="ascii") as out:
        out.write("x,y\n")
        for i in range(rows):
            x = i if integers else i / rows
            out.write(f"{x},{2 * x + 10}\n")
    return f"csv:{path}?label=y"


def test_a_line_is_found(sampler, tmp_path):
    uri = write_line(tmp_path / "line.csv", 1000)
    served = sampler("--store", uri, "--design", "srs", "--seed", 1)
    done = train(served, uri, tmp_path / "run", model="linear", hidden_units=None, optimizer="sgd", learning_rate=0.3,
                 batch_size=50, train_steps=2000, test_store=uri)
    metadata, tensors = read_checkpoint(newest(tmp_path / "run"))
    assert tensors["w"][1][0] == pytest.approx(2, abs=0.01)
    assert tensors["b"][1][0] == pytest.approx(10, abs=0.01)
    assert (metadata["classes"], metadata["feature_scale"]) == ("[]", "1")
    assert evaluate(uri, tmp_path / "run") < 1e-4
    assert "mean squared error = " in done.stdout and "acc:" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("mean squared error: ")
    rows = predictions(uri, tmp_path / "run")
    assert list(rows[0]) == ["id", "label", "predicted"]
    assert all(float(row["predicted"]) == pytest.approx(float(row["label"]), abs=0.02) for row in rows)


def test_bytes_can_be_taken_as_they_are(sampler, tmp_path):
    uri = write_line(tmp_path / "line.csv", 10, integers=True)
    served = sampler("--store", uri, "--design", "srs", "--seed", 1)
    train(served, uri, tmp_path / "run", model="linear", hidden_units=None, optimizer="sgd", learning_rate=0.02,
          batch_size=10, train_steps=3000, feature_scale=1)
    tensors = read_checkpoint(newest(tmp_path / "run"))[1]
    assert tensors["w"][1][0] == pytest.approx(2, abs=0.02)
    assert tensors["b"][1][0] == pytest.approx(10, abs=0.1)


def write_animals(path, labels=("cat", "dog"), rows=200):
    with open(path, "w", encoding="utf-8") as out:
        out.write("kind,a,b\n")
        for i in range(rows):
            which = i % len(labels)
            out.write(f"{labels[which]},{which + (i % 7) / 100},{1 - which + (i % 5) / 100}\n")
    return f"csv:{path}?label=kind"


def test_labels_may_be_texts(sampler, tmp_path):
    uri = write_animals(tmp_path / "animals.csv")
    served = sampler("--store", uri, "--seed", 1)
    train(served, uri, tmp_path / "run", model="softmax", hidden_units=None, learning_rate=0.5, batch_size=20)
    assert read_checkpoint(newest(tmp_path / "run"))[0]["classes"] == '["cat","dog"]'
    assert evaluate(uri, tmp_path / "run") == 1
    rows = predictions(uri, tmp_path / "run")
    assert {row["predicted"] for row in rows} == {"cat", "dog"}
    assert all(row["label"] == row["predicted"] for row in rows)
    other = write_animals(tmp_path / "more.csv", ("cat", "dog", "eel"))
    run_fails("trainer", "evaluate", "--store", other, "--logdir", tmp_path / "run", says=["id 2", "eel", "cat", "dog"])
    assert {row["label"] for row in predictions(other, tmp_path / "run")} == {"cat", "dog", "eel"}


@pytest.mark.parametrize("model, hidden", [("softmax", None), ("mlp", 8)])
@pytest.mark.parametrize("labels", [("1.0", "2.0"), ("007", "8"), ("1e0", "-2.5")])
def test_labels_may_be_numbers_written_in_any_way(sampler, tmp_path, labels, model, hidden):
    table = write_animals(tmp_path / "numbers.csv", labels)
    database = f"sqlite:{tmp_path}/numbers.db?table=samples"
    run("loader", "import", table, database)
    for name, uri in (("csv", table), ("sqlite", database)):
        logdir = tmp_path / name
        served = sampler("--store", uri, "--seed", 1)
        texts = [str(entry["label"]) for entry in served.get("/labels").json["labels"]]
        train(served, uri, logdir, model=model, hidden_units=hidden, learning_rate=0.5, batch_size=20)
        for other in (table, database):  # whatever a store writes, the value counts
            assert evaluate(other, logdir) == 1
            rows = predictions(other, logdir)
            assert {row["predicted"] for row in rows} == set(texts)
            assert all(row["label"] == row["predicted"] for row in rows)
    assert sorted(texts) == sorted(set(texts)) and len(texts) == 2


def test_integer_classes_meet_a_store_of_reals(sampler, tmp_path):
    integers, reals = write_animals(tmp_path / "a.csv", (0, 1)), write_animals(tmp_path / "b.csv", ("0.0", "1.0"))
    served = sampler("--store", integers, "--seed", 1)
    train(served, reals, tmp_path / "run", model="softmax", hidden_units=None, learning_rate=0.5, batch_size=20)
    assert evaluate(integers, tmp_path / "run") == evaluate(reals, tmp_path / "run") == 1
    assert {row["label"] for row in predictions(reals, tmp_path / "run")} == {"0", "1"}


def test_one_number_written_two_ways_is_refused(sampler, tmp_path):
    uri = write_animals(tmp_path / "numbers.csv", ("7", "7.0"))
    served = sampler("--store", uri, "--seed", 1)
    train_fails(served, uri, tmp_path / "run", ["'7' and '7.0' are the same number", "numbers.csv"], model="softmax", hidden_units=None)


# ---- bad input --------------------------------------------------------------------------------------------


@pytest.mark.threads
def test_a_diverged_training_keeps_what_was_good(sampler, tmp_path):
    uri = write_line(tmp_path / "line.csv", 200)
    served = sampler("--store", uri, "--design", "srs", "--seed", 1)
    more = {"model": "linear", "hidden_units": None, "optimizer": "sgd", "batch_size": 20}
    train(served, uri, tmp_path / "run", learning_rate=0.1, train_steps=50, **more)
    done = train_fails(served, uri, tmp_path / "run", ["diverged", "--learning-rate"], learning_rate=1e9, train_steps=200, **more)
    step, index, url = re.search(r"loss of step (\d+) is (?:inf|nan), on batch (\d+) \((http\S+) shows its rows\)", done.stderr).groups()
    assert int(index) == int(step) - 1
    assert len(json.loads(served.get(url.removeprefix(served.url)).text)["ids"]) == 20
    assert re.search(rf"step {step}: loss (?:inf|nan)", done.stderr)
    assert newest(tmp_path / "run").name == "model.ckpt-50.safetensors"
    train(served, uri, tmp_path / "run", learning_rate=0.1, train_steps=200, **more)


def test_stores_that_do_not_fit_are_refused(sampler, served, store, trained, tmp_path):
    other = write_animals(tmp_path / "animals.csv")
    train_fails(served, other, tmp_path / "a", ["animals.csv"])
    train_fails(served, other, trained, ["animals.csv", "2 features", "takes 784"])
    train_fails(served, store, tmp_path / "b", ["animals.csv", "2 features", "784"], test_store=other)
    run_fails("trainer", "evaluate", "--store", other, "--logdir", trained, says=["animals.csv", "2 features", "784"])
    run_fails("trainer", "predict", "--store", other, "--logdir", trained, says=["animals.csv", "2 features", "784"])
    (tmp_path / "plain.csv").write_text((tmp_path / "animals.csv").read_text().replace("cat", "1").replace("dog", "2"))
    sampled = sampler("--store", other, "--seed", 1)
    train(sampled, other, tmp_path / "two", model="softmax", hidden_units=None, batch_size=20, train_steps=5)
    assert len(predictions(f"csv:{tmp_path}/plain.csv", tmp_path / "two")) == 200  # the label is a column among others
    bare = (tmp_path / "plain.csv").read_text().split("\n", 1)[1]
    (tmp_path / "bare.csv").write_text(bare)
    run_fails("trainer", "predict", "--store", f"csv:{tmp_path}/bare.csv?header=no", "--logdir", tmp_path / "two",
              says=["bare.csv?header=no has 3 features", "takes 2; if one of its columns is the label, the URI lacks label=COLUMN"])
    run_fails("trainer", "evaluate", "--store", f"csv:{tmp_path}/plain.csv", "--logdir", tmp_path / "two", says=["?label=COLUMN"])
    train_fails(sampled, other, tmp_path / "three", ["plain.csv", "?label=COLUMN"], test_store=f"csv:{tmp_path}/plain.csv")
    train_fails(served, "range:2000?labels=10", tmp_path / "c", ["no feature columns"])


def test_labels_that_do_not_fit_are_refused(sampler, demo, tmp_path):
    uri = write_animals(tmp_path / "animals.csv")
    served = sampler("--store", uri, "--seed", 1)
    train_fails(served, uri, tmp_path / "a", ["kind", "'cat'", "needs numbers"], model="linear", hidden_units=None)
    line = write_line(tmp_path / "line.csv", 50)
    served = sampler("--store", line, "--design", "srs", "--seed", 1)
    done = train(served, line, tmp_path / "b", model="softmax", hidden_units=None, batch_size=10, train_steps=5)
    assert "holds real numbers such as" in done.stderr and "--model linear" in done.stderr
    one = write_animals(tmp_path / "one.csv", ("cat",))
    served = sampler("--store", one, "--seed", 1)
    train_fails(served, one, tmp_path / "c", ["a single label, 'cat'"])


def test_a_store_whose_labels_the_sampler_does_not_know_ends_training(sampler, tmp_path):
    two = write_animals(tmp_path / "two.csv")
    three = write_animals(tmp_path / "three.csv", ("cat", "dog", "eel"))
    served = sampler("--store", two, "--seed", 1)
    train_fails(served, three, tmp_path / "run", ["three.csv", "eel", "the sampler says"], model="softmax",
                hidden_units=None, batch_size=20)


@pytest.mark.parametrize("how", ["csv", "sqlite", "rows", "cached"])
def test_a_store_that_is_not_the_frames_is_noticed(sampler, tmp_path, how):
    """The same ids, other labels: ids alone would not tell."""
    rows = [(i % 3, i % 7, 255 - i % 11) for i in range(600)]
    for name, odd in (("one", None), ("other", 417)):
        with open(tmp_path / f"{name}.csv", "w") as out:
            out.writelines(f"{(label + (i == odd)) % 3},{a},{b}\n" for i, (label, a, b) in enumerate(rows))
    url = sampler("--store", csv_uri(tmp_path / "one.csv"), "--seed", 1).url
    other = csv_uri(tmp_path / "other.csv")
    if how in ("sqlite", "rows"):
        made = f"{how}:{tmp_path}/other.made"
        run("loader", "import", other, made)
        other = made
    more = {"cache_bytes": 0} if how != "cached" else {}
    train(url, csv_uri(tmp_path / "one.csv"), tmp_path / "right", train_steps=30, **more)
    train_fails(url, other, tmp_path / "wrong", train_steps=30, says=["id 417", '"0"', '"1"', "other", "frame"], **more)


def test_a_known_bad_row_is_told_before_the_first_step(sampler, tmp_path):
    with open(tmp_path / "bad.csv", "w") as out:
        out.writelines(f"{i % 3},{i % 7},{'x' if i == 590 else i % 5}\n" for i in range(600))
    bad = csv_uri(tmp_path / "bad.csv")
    served = sampler("--store", bad, "--seed", 1, "--design", "sequential")
    done = train_fails(served, bad, tmp_path / "all", batch_size=10, train_steps=5, says=["line 591", "column 2"])
    assert "Step" not in done.stdout and "step" not in done.stdout
    few = sampler("--store", bad, "--seed", 1, "--design", "sequential", "--rows", "0:500")
    train(few, bad, tmp_path / "few", batch_size=10, train_steps=5)  # no batch will hold that row


@pytest.mark.threads
def test_bad_rows_end_training_or_are_passed_over(sampler, tmp_path):
    good = write_animals(tmp_path / "good.csv", (1, 2))
    served = sampler("--store", good, "--seed", 1)
    lines = (tmp_path / "good.csv").read_text().splitlines()
    lines[8] = "2,oops,0"
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    bad = f"csv:{tmp_path}/bad.csv?label=kind"
    more = {"model": "softmax", "hidden_units": None, "batch_size": 20, "train_steps": 30}
    for cache in (0, 1 << 20):
        more["cache_bytes"] = cache
        train_fails(served, bad, tmp_path / f"fail{cache}", ["bad.csv", "9", "oops"], **more)
        for what, says in (("skip", "left out"), ("replace", "replaced by zeros")):
            done = train(served, bad, tmp_path / f"{what}{cache}", bad_rows=what, **more)
            assert re.search(rf"\b3 bad rows were {says}", done.stderr)  # once in each of three epochs
            assert evaluate(good, tmp_path / f"{what}{cache}") > 0.9


@pytest.mark.parametrize("content, says", [
    (None, "missing.csv"),
    ("", "missing.csv"),
    ("kind,a,b\n", "missing.csv"),
    ("kind,a,b\ncat,1,2\ndog,1\n", "3"),
    ("kind,a,b\ncat,1,2\ndog,1,two\n", "3"),
    ("kind,a,b\ncat,1,2\ndog,1,nan\n", "3"),
])
def test_bad_files_are_named(served, tmp_path, content, says):
    path = tmp_path / "missing.csv"
    if content is not None:
        path.write_text(content)
    train_fails(served, f"csv:{path}?label=kind", tmp_path / "run", ["missing.csv", says])
    assert checkpoints(tmp_path / "run") == []


@pytest.mark.parametrize("words, says", [
    (["--modle", "mlp"], "did you mean"),
    (["--model", "forest"], "linear, softmax, mlp"),
    (["--hidden-units", "100,,5"], "100,,5"),
    (["--hidden-units", "0"], "0"),
    (["--batch-size", "0"], "batch-size"),
    (["--batch-size", "1e3"], "batch-size"),
    (["--train-steps", "-1"], "train-steps"),
    (["--learning-rate", "0"], "learning"),
    (["--learning-rate", "nan"], "learning"),
    (["--learning-rate", "1e-300"], "--learning-rate is 1e-300; it must be from 1.2e-38 to 3e+38: it is computed with as a 32-bit float"),
    (["--learning-rate", "1e300"], "--learning-rate is 1e+300; it must be from 1.2e-38 to 3e+38"),
    (["--learning-rate", "1e-40"], "--learning-rate is 1e-40; it must be from 1.2e-38 to 3e+38"),  # a denormal float
    (["--l2", "1e-40"], "--l2 is 1e-40; it must be 0 or from 1.2e-38"),
    (["--learning-rate-schedule", "exponential", "--decay-rate", "1e-40"], "--decay-rate is 1e-40; it must be from 1.2e-38"),
    (["--clip-norm", "1e-300"], "--clip-norm is 1e-300; it must be 0 or from 1.2e-38 to 3e+38"),
    (["--seed", "-1"], "seed"),
    (["--device", "tpu"], "tpu"),
    (["--blas", "mkl"], "mkl"),
    (["--threads", "0"], "threads"),
    (["--sampler", "nonsense://x"], "nonsense"),
    (["--ps-hosts", "a:1"], "Must specify an explicit `job_name`"),
    (["--task-index", "-1"], "task-index"),
])
def test_bad_options_are_refused(served, store, tmp_path, words, says):
    base = ["train", "--store", store, "--logdir", tmp_path / "run"]
    if "--sampler" not in words:
        base += ["--sampler", served.url]
    run_fails("trainer", *base, *words, says=says)


def test_required_options_are_named(tmp_path):
    run_fails("trainer", "train", says="--sampler")
    run_fails("trainer", "evaluate", "--logdir", tmp_path, says="--store")
    run_fails("trainer", "evaluate", "--store", "x.csv", says="--logdir")
    run_fails("trainer", "predict", "--store", "x.csv", "--logdir", tmp_path / "none", says=str(tmp_path / "none"), status=None)
    (tmp_path / "empty").mkdir()
    run_fails("trainer", "evaluate", "--store", "x.csv", "--logdir", tmp_path / "empty", says="no checkpoint yet", status=None)


def test_options_come_from_environment_and_config_too(served, store, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"train_steps": 7, "print_every": 1}))
    done = run("trainer", "train", "--sampler", served.url, "--store", store, "--config", tmp_path / "config.json",
               env={"TOMBOLA_LOGDIR": str(tmp_path / "run"), "TOMBOLA_HIDDEN_UNITS": "4", "TOMBOLA_TRAIN_STEPS": "9"})
    assert "global step: 9)" in done.stdout and "global step: 10)" not in done.stdout
    assert re.search(r"parameters start from --seed \d+", done.stderr)


def test_help_and_version_say_what_there_is():
    for command in ("train", "evaluate", "predict"):
        assert "--logdir" in run("trainer", command, "--help").stdout
    text = run("trainer", "--version").stdout
    assert "tombola-trainer" in text and len(text.splitlines()) >= 2


# ---- the real digits ----------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_classic_training_reaches_its_accuracy_twice_the_same(sampler, mnist, tmp_path):
    uri = csv_uri(mnist / "mnist_train.csv")
    served = sampler("--store", uri, "--rows", "0:20000", "--seed", 1)
    for name in ("a", "b"):
        train(served, uri, tmp_path / name, hidden_units=100, batch_size=100, train_steps=10000, loss="sum",
              learning_rate=0.01, seed=1, print_every=100)
    assert newest(tmp_path / "a").read_bytes() == newest(tmp_path / "b").read_bytes()
    assert evaluate(csv_uri(mnist / "mnist_test.csv"), tmp_path / "a") >= 0.96
