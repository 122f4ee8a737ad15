# SPDX-License-Identifier: MIT
"""The fixtures of the service tests, and what only tests that break things need."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SERVICE = Path(__file__).resolve().parents[1] / "service"
sys.path.insert(0, str(SERVICE))  # design_laws.py, sampler_model.py


def load_service():
    """tests/service/conftest.py under a name of its own: two modules cannot both be `conftest`."""
    if "service" not in sys.modules:
        specification = importlib.util.spec_from_file_location("service", SERVICE / "conftest.py")
        module = importlib.util.module_from_spec(specification)
        sys.modules["service"] = module
        specification.loader.exec_module(module)
    return sys.modules["service"]


for _name, _value in vars(load_service()).items():
    if not _name.startswith("_"):
        globals()[_name] = _value


@pytest.fixture
def strace():
    """The program; skips where it may not trace."""
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"strace may not trace here: {tried.stderr.strip()}")
    return "strace"


@pytest.fixture
def mounted(tmp_path):
    """mounted(kind, bytes) -> a folder on a small file system of its own: "tmpfs" or "ext4"."""
    folders = []

    def mount(kind, size):
        if os.geteuid() != 0:
            pytest.skip("only root may mount a small file system")
        folder = tmp_path / f"disk{len(folders)}"
        folder.mkdir()
        if kind == "tmpfs":
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        else:
            image = tmp_path / f"disk{len(folders)}.img"
            with open(image, "wb") as out:
                out.truncate(size)
            subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", image], check=True, capture_output=True)
            command = ["mount", "-o", "loop", image, folder]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{kind} cannot be mounted here: {done.stderr.strip()}")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", "-l", str(folder)], check=False)
