# SPDX-License-Identifier: MIT
"""What the trainer computes, against numpy in double: the same batches, the same start, 50 steps.

Each run begins from its own checkpoint of step 0 and gets its batches as the sampler hands them out,
so nothing but the arithmetic is compared: layers, losses, gradients and optimizers.
"""

import csv
import io

import numpy as np
import pytest

from conftest import SEED, run
from test_trainer import csv_uri, read_checkpoint, train


STEPS, BATCH, SCALE = 50, 64, np.float64(np.float32(1) / np.float32(255))


@pytest.fixture
def rows(demo):
    """(labels, pixels scaled) of the training rows, in double."""
    table = np.loadtxt(demo / "mnist_train.csv", delimiter=",")
    return table[:, 0], table[:, 1:] * SCALE


@pytest.fixture
def store(demo):
    return csv_uri(demo / "mnist_train.csv")


@pytest.fixture
def served(sampler, store):
    return sampler("--store", store, "--seed", 11)


def tensors(path):
    """{name: array in double} of a checkpoint, without the step."""
    _, read = read_checkpoint(path)
    return {name: np.array(values, dtype=np.float64).reshape(shape)
            for name, (shape, values) in read.items() if name != "global_step"}


def layer_names(state):
    """[(weights, bias)] in the order in which they are applied."""
    weights = [name for name in state if name.endswith("_w") or name == "w"]
    weights.sort(key=lambda name: (name.startswith("sm"), name))
    return [(name, name[:-1] + "b") for name in weights]


def forward(state, x):
    """The inputs of every layer, and the last one's outputs."""
    names, inputs = layer_names(state), []
    for number, (weights, bias) in enumerate(names):
        inputs.append(x)
        x = x @ state[weights] + state[bias]
        if number + 1 < len(names):
            x = np.maximum(x, 0)
    return inputs, x


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def loss_gradient(loss, outputs, labels):
    """d loss / d outputs."""
    rows = len(labels)
    if loss.startswith("squared"):
        return 2 * (outputs - labels[:, None]) / (rows if loss == "squared_mean" else 1)
    p, picked = softmax(outputs), (np.arange(rows), labels.astype(int))
    gradient = p.copy()
    gradient[picked] -= 1
    if loss == "mean":
        return gradient / rows
    return np.where(p[picked][:, None] >= 1e-10, gradient, 0)


def gradients(state, loss, x, labels):
    names, (inputs, outputs) = layer_names(state), forward(state, x)
    back, found = loss_gradient(loss, outputs, labels), {}
    for (weights, bias), before in zip(reversed(names), reversed(inputs)):
        found[weights], found[bias] = before.T @ back, back.sum(axis=0)
        back = (back @ state[weights].T) * (before > 0)
    return found


def update(optimizer, rate, t, state, found):
    for name, g in found.items():
        if optimizer == "sgd":
            state[name] -= rate * g
        elif optimizer == "momentum":
            state[name + "/Momentum"] = 0.9 * state[name + "/Momentum"] + g
            state[name] -= rate * state[name + "/Momentum"]
        elif optimizer == "adagrad":
            state[name + "/Adagrad"] += g * g
            state[name] -= rate * g / np.sqrt(state[name + "/Adagrad"])
        else:
            state[name + "/Adam"] = 0.9 * state[name + "/Adam"] + 0.1 * g
            state[name + "/Adam_1"] = 0.999 * state[name + "/Adam_1"] + 0.001 * g * g
            corrected = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            state[name] -= corrected * state[name + "/Adam"] / (np.sqrt(state[name + "/Adam_1"]) + 1e-8)


CASES = [
    # model, hidden units, --loss, the loss's meaning, optimizer, learning rate
    ("mlp", "100", None, "clipped_sum", "adagrad", 0.01),
    ("mlp", "32", "mean", "mean", "adam", 0.001),
    ("mlp", "40,20", "sum", "clipped_sum", "momentum", 0.0005),
    ("softmax", None, None, "mean", "adagrad", 0.01),
    ("softmax", None, "sum", "clipped_sum", "sgd", 0.001),
    ("linear", None, None, "squared_mean", "sgd", 0.001),
    ("linear", None, "sum", "squared_sum", "adagrad", 0.01),
]


@pytest.mark.parametrize("model, hidden, loss, meaning, optimizer, rate", CASES)
def test_fifty_steps_agree_with_numpy(served, store, rows, tmp_path, model, hidden, loss, meaning, optimizer, rate):
    logdir = tmp_path / "run"
    train(served, store, logdir, model=model, hidden_units=hidden, loss=loss, optimizer=optimizer,
          learning_rate=rate, batch_size=BATCH, train_steps=STEPS)
    labels, pixels = rows
    state = tensors(logdir / "model.ckpt-0.safetensors")
    reached = tensors(logdir / f"model.ckpt-{STEPS}.safetensors")
    assert state.keys() == reached.keys()
    for step in range(STEPS):
        ids = served.batch(f"size={BATCH}&index={step}")["ids"]
        update(optimizer, rate, step + 1, state, gradients(state, meaning, pixels[ids], labels[ids]))
    for name, expected in state.items():
        worst = np.abs(reached[name] - expected).max()
        assert worst <= 1e-4 * max(1, np.abs(expected).max()), f"{name} is off by {worst}"
        assert np.abs(expected).max() > 0, f"{name} never moved"


def test_the_start_is_the_classic_one(served, store, tmp_path):
    logdir = tmp_path / "run"
    train(served, store, logdir, model="mlp", hidden_units="100", train_steps=1)
    state = tensors(logdir / "model.ckpt-0.safetensors")
    for name, inputs in (("hid_w", 784), ("sm_w", 100)):
        z = state[name] * np.sqrt(inputs)
        assert np.abs(z).max() <= 2.0001
        assert abs(z.mean()) < 4 * 0.88 / np.sqrt(z.size)
        assert abs(z.var() - 0.774) < 4 * 0.8 / np.sqrt(z.size)
        assert len(np.unique(state[name])) > 0.99 * z.size
    assert not state["hid_b"].any() and not state["sm_b"].any()
    for name in ("hid_w", "hid_b", "sm_w", "sm_b"):
        assert (state[name + "/Adagrad"] == np.float32(0.1)).all()


@pytest.mark.parametrize("density", [0.2, 0.8])
def test_bytes_train_as_the_floats_they_stand_for(sampler, tmp_path, density):
    """To the last bit, although the loops read the bytes of the one store and the floats of the other."""
    random = np.random.default_rng(SEED)
    rows = random.integers(1, 256, (300, 40)) * (random.random((300, 40)) < density)
    np.savetxt(tmp_path / "bytes.csv", np.column_stack([np.arange(300) % 3, rows]), delimiter=",", fmt="%d")
    nobody_draws = "0" + ",0.5" * 40 + "\n"
    (tmp_path / "floats.csv").write_text((tmp_path / "bytes.csv").read_text() + nobody_draws)
    served = sampler("--store", csv_uri(tmp_path / "bytes.csv"), "--seed", 1)
    reached = []
    for name in ("bytes", "floats"):
        train(served, csv_uri(tmp_path / f"{name}.csv"), tmp_path / name, train_steps=20, feature_scale=1 / 255)
        reached.append(tensors(tmp_path / name / "model.ckpt-20.safetensors"))
    assert reached[0].keys() == reached[1].keys()
    for name, values in reached[0].items():
        assert np.array_equal(values, reached[1][name]), name


def test_predictions_and_accuracy_agree_with_numpy(served, store, demo, tmp_path):
    logdir = tmp_path / "run"
    train(served, store, logdir, model="mlp", hidden_units="32", train_steps=40)
    state = tensors(logdir / "model.ckpt-40.safetensors")
    table = np.loadtxt(demo / "mnist_test.csv", delimiter=",")
    expected = softmax(forward(state, table[:, 1:] * SCALE)[1])
    test_store = csv_uri(demo / "mnist_test.csv")
    lines = list(csv.DictReader(io.StringIO(
        run("trainer", "predict", "--store", test_store, "--logdir", logdir).stdout)))
    got = np.array([[float(line[f"p{c}"]) for c in range(10)] for line in lines])
    assert np.abs(got - expected).max() < 1e-4
    right = np.mean([line["predicted"] == line["label"] for line in lines])
    last = run("trainer", "evaluate", "--store", test_store, "--logdir", logdir).stdout.splitlines()[-1]
    assert abs(float(last.split(": ")[1]) - right) < 1e-6
    assert abs((expected.argmax(axis=1) == table[:, 0]).mean() - right) < 2.5 / len(table)
