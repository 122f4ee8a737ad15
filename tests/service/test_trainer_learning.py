# SPDX-License-Identifier: MIT
"""The options that say how a model learns: schedules, decay, clipping, dropout. Fifty steps against numpy in double, with a
Philox of its own; the same bits for one process, workers in step and a run that goes on; and what is refused."""

import json
import signal

import numpy as np
import pytest

from cluster_cases import Cluster
from conftest import run, run_fails
from test_trainer import (  # noqa: F401, fixtures
    checkpoints, newest, options, read_checkpoint, served, store, test_store, train, train_fails,
)
from test_trainer_math import layer_names, loss_gradient, rows, tensors, update  # noqa: F401, fixtures

BATCH, STEPS, RATE = 50, 50, 0.05
# The mask of batch K, layer l: of 64 values, value 16 w + b has word w of block b; block n is (n, l << 16, K), with the
# seed that this was XORed to.
SEED_OF_MASKS = 0x64726F706F757400
EVERYTHING = {"hidden_units": "24,12", "loss": "mean", "optimizer": "momentum", "momentum": 0.8, "learning_rate": RATE,
              "learning_rate_schedule": "cosine", "warmup_steps": 10, "decay_steps": 30, "end_learning_rate": 0.01,
              "clip_norm": 0.5, "weight_decay": 0.02, "dropout": 0.3}


def learns(served, uri, logdir, flags=(), **more):  # noqa: F811
    return run("trainer", *options(served, uri, logdir, print_every=0, **more), *flags)


def philox(counter, seed):
    """[n, 4] of 32 bits in 64 -> the same of random bits."""
    low = np.uint64(0xFFFFFFFF)
    word = [counter[:, i].copy() for i in range(4)]
    keys = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    for _ in range(10):
        products = word[0] * np.uint64(0xD2511F53), word[2] * np.uint64(0xCD9E8D57)
        word = [(products[1] >> np.uint64(32)) ^ word[1] ^ keys[0], products[1] & low,
                (products[0] >> np.uint64(32)) ^ word[3] ^ keys[1], products[0] & low]
        keys = [(keys[0] + np.uint64(0x9E3779B9)) & low, (keys[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(word, axis=1)


def mask(share, seed, batch, layer, shape):
    count = shape[0] * shape[1]
    counter = np.zeros((-(-count // 64) * 16, 4), dtype=np.uint64)
    counter[:, 0] = np.arange(len(counter))
    counter[:, 1], counter[:, 2] = layer << 16, batch
    words = philox(counter, seed ^ SEED_OF_MASKS).reshape(-1, 16, 4).transpose(0, 2, 1).reshape(-1)[:count].reshape(shape)
    return np.where(words < int(np.float32(share) * 2.0**32), 0, 1 / (1 - share))


def gradients(state, meaning, x, labels, masks):
    """Those of the loss, with hidden layer l's outputs times masks[l]."""
    names, inputs = layer_names(state), []
    for number, (weights, bias) in enumerate(names):
        inputs.append(x)
        x = x @ state[weights] + state[bias]
        if number + 1 < len(names):
            x = np.maximum(x, 0) * masks[number]
    back, found = loss_gradient(meaning, x, labels), {}
    for number in reversed(range(len(names))):
        weights, bias = names[number]
        found[weights], found[bias] = inputs[number].T @ back, back.sum(axis=0)
        if number > 0:
            back = (back @ state[weights].T) * (inputs[number] > 0) * masks[number - 1]
    return found


def cosine(step, rate=RATE, warmup=10, decay=30, end=0.01):
    if step < warmup:
        return rate * (step + 1) / warmup
    return end + (rate - end) * (1 + np.cos(np.pi * min(step - warmup, decay) / decay)) / 2


def step_with_everything(state, step, x, labels, l2):
    shapes = [(len(x), width) for width in (24, 12)]
    masks = [mask(0.3, 3, step, layer, shape) for layer, shape in enumerate(shapes)]
    found = gradients(state, "mean", x, labels, masks)
    norm = np.sqrt(sum((g * g).sum() for g in found.values()))
    for name, g in found.items():
        g *= min(1, 0.5 / norm)
        state[name] *= 1 - cosine(step) * 0.02
        g += l2 * state[name]
        slot = 0.8 * state[name + "/Momentum"] + g
        state[name + "/Momentum"] = slot
        state[name] -= cosine(step) * (g + 0.8 * slot)
    return norm


@pytest.mark.parametrize("normalized", [False, True], ids=["as they are", "normalized"])
def test_fifty_steps_with_everything_agree_with_numpy(served, store, rows, tmp_path, normalized):  # noqa: F811
    logdir, l2 = tmp_path / "run", 0.003
    learns(served, store, logdir, ["--nesterov", *["--normalize"] * normalized], train_steps=STEPS, l2=l2, **EVERYTHING)
    labels, pixels = rows
    state, reached = tensors(logdir / "model.ckpt-0.safetensors"), tensors(logdir / f"model.ckpt-{STEPS}.safetensors")
    if normalized:
        pixels = (pixels - state.pop("feature_mean")) / state.pop("feature_deviation")
    norms = []
    for step in range(STEPS):
        ids = served.batch(f"size={BATCH}&index={step}")["ids"]
        norms.append(step_with_everything(state, step, pixels[ids], labels[ids], l2))
    assert max(norms) > 0.6, "the norm is above the limit at some steps"
    for name, expected in state.items():
        worst = np.abs(reached[name] - expected).max()
        assert worst <= 2e-4 * max(1, np.abs(expected).max()), f"{name} is off by {worst}"


@pytest.mark.parametrize("chosen", [{"clip_value": 0.01}, {"optimizer": "adam", "beta1": 0.7, "beta2": 0.95, "epsilon": 0.001},
                                    {"optimizer": "adagrad", "initial_accumulator": 0.5, "dropout": 0.9}], ids=str)
def test_each_option_changes_what_is_learnt_and_a_run_that_goes_on_nothing(served, store, tmp_path, chosen):  # noqa: F811
    ends = {}
    for name, steps, more in (("plain", (60,), {}), ("whole", (60,), chosen), ("in parts", (1, 23, 60), chosen)):
        for last in steps:
            learns(served, store, tmp_path / name, train_steps=last, **{"optimizer": "adam", **more})
        ends[name] = newest(tmp_path / name).read_bytes()
    assert ends["whole"] == ends["in parts"] != ends["plain"]


def test_a_run_with_everything_that_goes_on_comes_to_the_same_bytes(served, store, tmp_path):  # noqa: F811
    for name, steps in (("whole", (60,)), ("in parts", (1, 9, 10, 23, 60))):
        for last in steps:
            learns(served, store, tmp_path / name, train_steps=last, **EVERYTHING)
    assert newest(tmp_path / "whole").read_bytes() == newest(tmp_path / "in parts").read_bytes()
    metadata, _ = read_checkpoint(newest(tmp_path / "whole"))
    assert (metadata["dropout"], metadata["clip_norm"], metadata["learning_rate_schedule"]) == ("0.3", "0.5", "cosine")
    assert not {"l2", "beta1", "nesterov", "decay_rate"} & set(metadata), "what nobody chose is not there"


@pytest.mark.parametrize("batch", [50, 128])
def test_cuda_graphs_change_no_bit(served, store, tmp_path, batch):  # noqa: F811
    """Where there is a GPU: masks, rates and rows are those of each batch. Where there is none, the option is heeded by nobody."""
    ends = []
    for graphs in ("auto", "off"):
        done = learns(served, store, tmp_path / graphs, batch_size=batch, train_steps=40, cuda_graphs=graphs,
                      **{**EVERYTHING, "clip_norm": 0, "clip_value": 0.01})
        assert "no CUDA graph" not in done.stderr
        ends.append(newest(tmp_path / graphs).read_bytes())
    assert ends[0] == ends[1]


def test_rows_that_stay_on_a_gpu_change_no_bit(served, store, tmp_path):  # noqa: F811
    """Where there is a GPU: each row is copied once, and gathered from then on."""
    ends = []
    for resident in ("auto", "off"):
        learns(served, store, tmp_path / resident, batch_size=50, train_steps=150, resident=resident, **EVERYTHING)
        ends.append(newest(tmp_path / resident).read_bytes())
    assert ends[0] == ends[1]


# ---- in a cluster ---------------------------------------------------------------------------------


@pytest.mark.parametrize("servers, workers", [(1, 2), (2, 2), (0, 2)])
def test_in_step_workers_come_to_what_one_process_does(start, served, store, tmp_path, servers, workers):  # noqa: F811
    """A step is one batch: whichever worker computes it, it drops the same units, and servers take the same rate."""
    learns(served, store, tmp_path / "alone", train_steps=80, **EVERYTHING)
    trained = Cluster(start, served, store, tmp_path / "run", servers=servers, workers=workers, sync=True,
                      replicas_to_aggregate=1, train_steps=80, **EVERYTHING)
    trained.start_all().wait()
    assert read_checkpoint(newest(tmp_path / "run"))[1] == read_checkpoint(newest(tmp_path / "alone"))[1]


def test_in_step_three_batches_are_the_same_for_any_workers(start, served, store, tmp_path):  # noqa: F811
    """Each batch is clipped by itself before the mean."""
    ends = []
    for servers, workers in ((1, 1), (2, 4)):
        trained = Cluster(start, served, store, tmp_path / str(workers), servers=servers, workers=workers, sync=True,
                          replicas_to_aggregate=3, train_steps=40, **EVERYTHING)
        trained.start_all().wait()
        ends.append(read_checkpoint(newest(trained.logdir))[1])
    assert ends[0] == ends[1]


def test_workers_without_a_seed_drop_what_the_first_one_s_says(start, served, store, tmp_path):  # noqa: F811
    """It is drawn by whoever says what is trained; the checkpoint has it, and one process comes to the same with it."""
    chosen = {**EVERYTHING, "train_steps": 40}
    trained = Cluster(start, served, store, tmp_path / "run", servers=1, workers=3, sync=True, replicas_to_aggregate=1,
                      seed=None, **chosen)
    trained.start_all().wait()
    metadata, reached = read_checkpoint(newest(trained.logdir))
    learns(served, store, tmp_path / "alone", **{**chosen, "seed": metadata["seed"]})
    assert read_checkpoint(newest(tmp_path / "alone"))[1] == reached


def test_asynchronous_workers_learn_with_everything(start, served, store, tmp_path):  # noqa: F811
    trained = Cluster(start, served, store, tmp_path / "run", servers=2, workers=2, train_steps=200, **EVERYTHING)
    trained.start_all().wait()
    assert checkpoints(trained.logdir)[-1] == 200


@pytest.mark.parametrize("chosen, says", [({"learning_rate": 0.5}, "has the learning_rate 0.05, not 0.5"),
                                          ({"dropout": 0.2}, "has the dropout 0.3, not 0.2"),
                                          ({"decay_steps": 31}, "has the decay_steps 30, not 31")], ids=str)
def test_a_worker_that_learns_otherwise_is_refused(start, served, store, tmp_path, chosen, says):  # noqa: F811
    trained = Cluster(start, served, store, tmp_path / "run", servers=1, workers=2, train_steps=10**9, **EVERYTHING)
    trained.start_server(0).wait_for_log("listens")
    wrong = trained.task("worker", 1, **chosen)  # the first, whose proposal server 0 refuses
    assert wrong.wait() == 2 and "all processes of a training must have the same" in wrong.stderr
    trained.start_worker(0)
    trained.ps[0].wait_for_log("training goes on")
    late = trained.task("worker", 1, **chosen)
    assert late.wait() == 2 and says in late.stderr
    for one in (trained.workers[0], trained.ps[0]):
        one.signal(signal.SIGTERM)
        assert one.wait() == 143


# ---- what is shown, what is refused ---------------------------------------------------------------


def test_events_have_the_rate_of_their_step(served, store, tmp_path):  # noqa: F811
    learns(served, store, tmp_path, train_steps=50, summary_secs="0.000001", **EVERYTHING)
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    rates = {line["step"]: line["learning_rate"] for line in lines if "learning_rate" in line}
    assert sorted(rates) == list(range(1, 51))
    for step, rate in rates.items():
        assert rate == pytest.approx(cosine(step - 1), rel=1e-6)


def test_a_schedule_ends_with_the_training_unless_it_is_told(served, store, tmp_path):  # noqa: F811
    learns(served, store, tmp_path / "run", train_steps=40, learning_rate_schedule="linear", warmup_steps=8)
    assert read_checkpoint(newest(tmp_path / "run"))[0]["decay_steps"] == "32"
    longer = learns(served, store, tmp_path / "run", train_steps=60, learning_rate_schedule="linear", warmup_steps=8,
                    dropout=0.25)
    assert "decay steps 52 from now on (32 before)" in longer.stderr
    assert "dropout 0.25 from now on (0 before)" in longer.stderr


REFUSED = [
    ({"momentum": 0.5}, "--momentum is for --optimizer momentum; this training has --optimizer adagrad"),
    ({"beta1": 0.5, "optimizer": "sgd"}, "--beta1 is for --optimizer adam"),
    ({"beta2": 0.5, "optimizer": "momentum"}, "--beta2 is for --optimizer adam"),
    ({"epsilon": 0.5}, "--epsilon is for --optimizer adam"),
    ({"initial_accumulator": 0.5, "optimizer": "adam"}, "--initial-accumulator is for --optimizer adagrad"),
    ({"initial_accumulator": 0}, "initial accumulator is 0"),
    ({"momentum": 1, "optimizer": "momentum"}, "momentum is 1"),
    ({"decay_steps": 5}, "--decay-steps is for a --learning-rate-schedule that decays"),
    ({"decay_rate": 0.5, "learning_rate_schedule": "cosine"}, "--decay-rate is for --learning-rate-schedule step or exp"),
    ({"decay_rate": 0, "learning_rate_schedule": "exponential"}, "decay rate is 0"),
    ({"end_learning_rate": 0.5, "learning_rate_schedule": "exponential"}, "--end-learning-rate is for"),
    ({"end_learning_rate": -1, "learning_rate_schedule": "linear"}, "end learning rate is -1"),
    ({"learning_rate_schedule": "step"}, "step needs --decay-steps"),
    ({"learning_rate_schedule": "cosine", "warmup_steps": 120}, "leaves none of --train-steps"),
    ({"learning_rate_schedule": "plateau"}, "constant"),
    ({"warmup_steps": -1}, "warmup"),
    ({"weight_decay": -1}, "weight decay is -1"),
    ({"l2": "nan"}, "l2"),
    ({"clip_norm": -1}, "clip norm is -1"),
    ({"clip_norm": 1, "clip_value": 1}, "give one of them"),
    ({"dropout": 1}, "dropout is 1"),
    ({"dropout": -0.1}, "dropout is -0.1"),
    ({"dropout": 0.5, "model": "softmax", "hidden_units": None}, "a softmax model has none"),
    ({"max_grad_norm": 1}, "it is called --clip-norm here"),
    ({"keep_prob": 1}, "1 - keep_prob"),
]


@pytest.mark.parametrize("chosen, says", REFUSED, ids=[str(chosen) for chosen, _ in REFUSED])
def test_what_does_not_fit_is_refused(store, tmp_path, chosen, says):  # noqa: F811
    """Before anybody is asked: there is no sampler."""
    train_fails("http://127.0.0.1:1", store, tmp_path / "run", says, patience=0, **chosen)
    assert not (tmp_path / "run").exists()


def test_nesterov_is_of_momentum(store, tmp_path):  # noqa: F811
    run_fails("trainer", *options("http://127.0.0.1:1", store, tmp_path / "run"), "--nesterov",
              says="--nesterov is for --optimizer momentum")


def test_another_initial_accumulator_is_refused(served, store, tmp_path):  # noqa: F811
    train(served, store, tmp_path / "run", train_steps=20, initial_accumulator=0.5)
    train_fails(served, store, tmp_path / "run", "initial_accumulator is 0.5, this run's is 0.1", train_steps=40)


def test_what_is_exported_drops_nothing(served, store, test_store, tmp_path):  # noqa: F811
    learns(served, store, tmp_path / "run", train_steps=60, **EVERYTHING)
    run("trainer", "export", "--logdir", tmp_path / "run", "--out", tmp_path / "model.onnx")
    assert b"Dropout" not in (tmp_path / "model.onnx").read_bytes()
    predicted = [run("trainer", "predict", "--store", test_store, "--logdir", tmp_path / "run").stdout for _ in range(2)]
    assert predicted[0] == predicted[1]
