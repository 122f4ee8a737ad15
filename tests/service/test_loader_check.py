# SPDX-License-Identifier: MIT
"""`tombola-loader check`: what it says of folders of this machine. tests/fault has those that fail or hang."""

import json
import os
import resource
import subprocess

import pytest

from conftest import PATIENCE_S, environment, program, run, run_fails

QUICK = ("--seconds", 0.02, "--megabytes", 2)
NAMES = ["mount", "space", "rename", "create", "journal", "map", "link", "lock", "clock", "fsync", "checkpoint", "write", "read", "rows"]


def test_a_folder_that_is_as_it_should_be(tmp_path):
    shown = run("loader", "check", *QUICK, tmp_path).stdout.splitlines()
    assert shown[0].startswith(f"{tmp_path}: ")
    assert [line.split()[0] for line in shown[1:]] == NAMES
    assert {line.split()[1] for line in shown[1:]} <= {"good", "note"}
    found = json.loads(run("loader", "check", "--json", *QUICK, tmp_path).stdout)
    assert found["folder"] == str(tmp_path) and [one["check"] for one in found["checks"]] == NAMES
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout
    assert found["type"].split("/")[0][:3] == kind[:3] and found["options"].startswith(("rw", "ro"))
    values = {name: value for one in found["checks"] for name, value in one.items() if name not in ("check", "verdict", "says")}
    assert set(values) == {"free_gb", "skew_s", "fsync_ms", "checkpoint_ms", "write_mb_per_s", "read_mb_per_s", "reads_per_s"}
    assert values["skew_s"] == 0 and all(value > 0 for name, value in values.items() if name != "skew_s"), values
    assert os.listdir(tmp_path) == [], "it leaves nothing"


def test_memory_is_told(tmp_path):
    """Of /dev/shm, which is memory on every machine, and below a folder whose name needs quoting."""
    if not os.path.ismount("/dev/shm"):
        pytest.skip("no /dev/shm here")
    folder = f"/dev/shm/tombola check \\ {os.getpid()}"
    os.mkdir(folder)
    try:
        found = json.loads(run("loader", "check", "--json", *QUICK, folder).stdout)
    finally:
        os.rmdir(folder)
    assert found["type"] == "tmpfs"
    assert found["checks"][0] == {"check": "mount", "verdict": "note", "says": "memory: what lies here is gone with the machine"}


def test_a_file_that_could_not_be_written_is_not_read(tmp_path):
    """That it is short says nothing of the folder."""
    done = subprocess.run([program("loader"), "check", "--json", *map(str, QUICK), tmp_path], capture_output=True, text=True,
                          env=environment(), timeout=PATIENCE_S, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6)))
    found = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1 and "File too large" in found["write"]["says"], done.stdout
    for name in ("read", "rows"):
        assert (found[name]["verdict"], found[name]["says"]) == ("bad", "not tried: the file to read could not be written")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("words,says,status", [
    (["/nowhere"], "cannot look at /nowhere", 2), (["/proc"], "cannot write in /proc, which stores can be read from", 2),
    (["/tmp/" + 1020 * "x"], "the folder's name has 1025 bytes; 1023 at most are possible", 2), ([], "needs DIR", 2),
    (["--megabytes", "0", "/tmp"], "megabytes", 2), (["/etc/hostname"], "cannot write in /etc/hostname", 2)])
def test_bad_words_are_refused(words, says, status):
    run_fails("loader", "check", *words, says=says, status=status)
