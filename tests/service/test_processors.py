# SPDX-License-Identifier: MIT
"""Training on processors that this machine does not have, in QEMU's user mode: kernels are chosen by what a processor can
do, whatever it calls itself. QEMU's default calls itself an AMD, whose kernels in OpenBLAS need more than it has."""

import platform
import re
import shutil
import subprocess

import pytest

from conftest import PATIENCE_S, environment, program
from test_trainer import csv_uri, options, served, store, test_store, train  # noqa: F401 (the fixtures)

pytestmark = pytest.mark.plain
CHOICE = {"train_steps": 60, "learning_rate": 0.01, "print_every": 0, "threads": 1, "device": "cpu"}


def accuracy_of(done):
    assert done.returncode == 0, (done.returncode, done.stderr)
    return float(re.search(r"^accuracy: (\S+)$", done.stdout, re.MULTILINE)[1])


@pytest.mark.parametrize("processor, kernels", [("qemu64", "Prescott"), ("core2duo", "Core2"), ("Haswell", "Haswell")])
def test_another_processor(served, store, test_store, tmp_path, processor, kernels):  # noqa: F811
    if platform.machine() != "x86_64" or not shutil.which("qemu-x86_64"):
        pytest.skip("no qemu-x86_64 that runs these programs")
    words = options(served, store, tmp_path / "run", test_store=test_store, **CHOICE)
    done = subprocess.run(["qemu-x86_64", "-cpu", processor, program("trainer"), *map(str, words)], env=environment(), cwd=tmp_path,
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    accuracy = accuracy_of(done)
    assert f"{kernels} kernels" in done.stderr
    here = accuracy_of(train(served, store, tmp_path / "here", test_store=test_store, blas="plain", **CHOICE))
    assert here > 0.5 and accuracy == pytest.approx(here, abs=0.01)
