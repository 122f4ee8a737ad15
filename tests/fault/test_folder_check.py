# SPDX-License-Identifier: MIT
"""`tombola-loader check` on folders that do not do what Tombola relies on; each check alone is test_folder_probe's."""

import os
import signal
import subprocess

import pytest

from service import PATIENCE_S, environment, program
from test_hanging_disk import disk  # noqa: F401, a fixture

QUICK = ["--seconds", "0.02", "--megabytes", "2"]


@pytest.mark.plain
@pytest.mark.parametrize("injection,bad,says", [
    ("fsync:error=EIO", ["rename", "map", "link", "clock", "checkpoint", "write"], "Input/output error"),
    ("flock:retval=0", ["lock"], "two processes hold one lock"),
])
def test_what_fails_is_named(strace, tmp_path, injection, bad, says):
    folder = tmp_path / "folder"
    folder.mkdir()
    calls = injection.split(":")[0]
    done = subprocess.run(
        [strace, "-f", "-q", "-o", tmp_path / "trace", "-e", f"trace={calls}", "-e", f"inject={injection}", program("loader"), "check",
         *QUICK, folder], capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment())
    found = [line.split()[0] for line in done.stdout.splitlines() if line.split()[1:2] == ["bad"]]
    assert says in done.stdout, done.stdout + done.stderr
    assert found == bad, done.stdout
    assert done.returncode == (1 if found else 0), done.stderr
    assert (f"{len(found)} of 14 checks are bad" in done.stderr) == bool(found)
    assert os.listdir(folder) == []


def test_a_folder_that_hangs(start, disk, tmp_path):  # noqa: F811
    """It says where, and a signal ends it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    disk.begin("fdatasync")
    one = start("loader", "check", *QUICK, folder, env=disk.ending)
    disk.wait_until_met()
    one.terminate()
    assert one.wait() == 128 + signal.SIGTERM
    assert "while the check of `journal` hangs in" in one.stderr, one.stderr
    disk.end()
