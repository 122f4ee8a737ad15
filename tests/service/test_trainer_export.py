# SPDX-License-Identifier: MIT
"""An exported model is one that onnx finds right, and that onnxruntime runs to the outputs that `predict` has."""

import csv
import io
import json
import resource
import subprocess

import pytest

from conftest import PATIENCE_S, environment, from_pypi, program, run, run_fails
from test_trainer import newest, options, read_checkpoint, served, store, test_store, train  # noqa: F401, fixtures

pytestmark = pytest.mark.plain

# FILE, with a CSV of integers on standard input whose first column is the label: prints what it finds as JSON.
READER = r"""
import json, sys
import numpy, onnx, onnxruntime
model = onnx.load(sys.argv[1])
onnx.checker.check_model(model, full_check=True)
rows = numpy.loadtxt(sys.stdin, delimiter=",", dtype=numpy.float32)[:, 1:]
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
outputs = session.run(None, {"features": rows})
print(json.dumps({
    "inputs": [(one.name, one.type, one.shape) for one in session.get_inputs()],
    "outputs": [(one.name, one.type, one.shape) for one in session.get_outputs()],
    "values": [values.astype(float).tolist() for values in outputs],
    "operators": [(one.domain, one.version) for one in model.opset_import], "ir": model.ir_version,
    "version": model.model_version, "metadata": {one.key: one.value for one in model.metadata_props}}))
"""

MODELS = {
    "linear": {"model": "linear", "hidden_units": None, "learning_rate": 0.001},
    "softmax": {"model": "softmax", "hidden_units": None},
    "softmax, sum": {"model": "softmax", "hidden_units": None, "loss": "sum"},
    "mlp": {"model": "mlp", "hidden_units": "16"},
    "mlp of three": {"model": "mlp", "hidden_units": "24,16,12", "loss": "mean"},
}


def export(logdir, out, **more):
    words = [word for name, value in more.items() for word in (f"--{name}", value)]
    return run("trainer", "export", "--logdir", logdir, "--out", out, *words)


def run_onnx(path, uri):
    with open(uri.removeprefix("csv:").partition("?")[0], encoding="ascii") as rows:
        done = subprocess.run([from_pypi("onnx") / "bin/python", "-c", READER, path], stdin=rows, stdout=subprocess.PIPE,
                              text=True, check=True, timeout=PATIENCE_S)
    return json.loads(done.stdout)


def predictions(uri, logdir):
    text = run("trainer", "predict", "--store", uri, "--logdir", logdir).stdout
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("normalized", [False, True], ids=["as they are", "normalized"])
@pytest.mark.parametrize("kind", MODELS)
def test_onnxruntime_gives_what_predict_gives(served, store, test_store, tmp_path, kind, normalized):  # noqa: F811
    logdir, out = tmp_path / "run", tmp_path / "model.onnx"
    flags = ["--normalize"] if normalized else []
    run("trainer", *options(served, store, logdir, **MODELS[kind]), *flags)
    export(logdir, out)
    got, right = run_onnx(out, test_store), predictions(test_store, logdir)
    assert (got["operators"], got["ir"], got["version"]) == ([["", 13]], 7, 120)
    assert got["inputs"] == [["features", "tensor(float)", ["rows", 784]]]
    if kind == "linear":
        assert got["outputs"] == [["prediction", "tensor(float)", ["rows", 1]]]
        assert got["values"][0] == [[pytest.approx(float(row["predicted"]), rel=1e-6, abs=3e-6)] for row in right]
        return
    assert got["outputs"] == [["probabilities", "tensor(float)", ["rows", 10]], ["class", "tensor(int64)", ["rows"]]]
    probabilities, classes = got["values"]
    assert len(probabilities) == len(right)
    for row, given in zip(right, probabilities):
        assert given == pytest.approx([float(row[f"p{digit}"]) for digit in range(10)], rel=1e-6, abs=1e-6)
    assert [str(int(number)) for number in classes] == [row["predicted"] for row in right]
    assert json.loads(got["metadata"]["classes"]) == list(range(10))


def test_the_metadata_are_the_checkpoints(served, store, test_store, tmp_path):  # noqa: F811
    train(served, store, tmp_path / "run")
    export(tmp_path / "run", tmp_path / "model.onnx")
    metadata, _ = read_checkpoint(newest(tmp_path / "run"))
    del metadata["xxh3_128"]  # of that file
    assert run_onnx(tmp_path / "model.onnx", test_store)["metadata"] == metadata


def test_the_same_checkpoint_gives_the_same_file(served, store, tmp_path):  # noqa: F811
    train(served, store, tmp_path / "run")
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    export(tmp_path / "run", first)
    second.write_bytes(b"what was there")
    done = run("trainer", "export", "--checkpoint", newest(tmp_path / "run"), "--out", second)
    assert f"is {second}" in done.stderr
    assert first.read_bytes() == second.read_bytes()
    assert {path.name for path in tmp_path.glob("*onnx*")} == {"first.onnx", "second.onnx"}


def test_what_cannot_be_exported(served, store, tmp_path):  # noqa: F811
    train(served, store, tmp_path / "run", train_steps=1)
    run_fails("trainer", "export", "--out", tmp_path / "a.onnx", says="neither --logdir nor --checkpoint", status=2)
    run_fails("trainer", "export", "--logdir", tmp_path / "run", "--out", tmp_path / "none" / "a.onnx", says="none/a.onnx",
              status=None)
    run_fails("trainer", "export", "--logdir", tmp_path / "run", "--out", "-", cwd=tmp_path, says=['--out is "-"', "standard output"])
    assert not (tmp_path / "-").exists()
    (tmp_path / "folder").mkdir()
    run_fails("trainer", "export", "--logdir", tmp_path / "run", "--out", tmp_path / "folder", says="folder", status=2)
    run_fails("trainer", "export", "--logdir", tmp_path / "folder", "--out", tmp_path / "a.onnx", says="no checkpoint yet",
              status=None)
    assert not list(tmp_path.glob("*.onnx*"))
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    assert {"checkpoint", "events.jsonl", "model.ckpt-1.safetensors"} < {path.name for path in before}
    for path in before:
        run_fails("trainer", "export", "--logdir", tmp_path / "run", "--out", path, says="a training writes files with such a name",
                  status=2)
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == before


def test_a_disk_that_is_full(served, store, tmp_path):  # noqa: F811
    train(served, store, tmp_path / "run", train_steps=1)
    done = subprocess.run(
        [program("trainer"), "export", "--logdir", tmp_path / "run", "--out", tmp_path / "a.onnx"], capture_output=True, text=True,
        timeout=PATIENCE_S, check=False, env=environment(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert done.returncode == 1, done.stderr
    assert f"{tmp_path}/a.onnx" in done.stderr and ("limit of file size" in done.stderr or "File too large" in done.stderr), done.stderr
    assert not list(tmp_path.glob("*.onnx*"))
