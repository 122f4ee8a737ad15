# SPDX-License-Identifier: MIT
"""`deploy/tombola run` and `deploy/local`: from a table to a model, by one process and by many; what ends them, and what fails."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, environment, wait_for
from test_trainer import checkpoints

pytestmark = pytest.mark.heavy

SCRIPT = ROOT / "deploy" / "tombola"
QUICK = ["--", "--model", "softmax", "--normalize", "--learning-rate", "0.3"]


@pytest.fixture
def table(tmp_path):
    """Three kinds of flowers that two measurements tell apart."""
    chance = random.Random(7)
    rows = [f"{chance.gauss(2 * (i % 3), 0.3):.3f},{chance.gauss(5 - i % 3, 0.3):.3f},{('setosa', 'versicolor', 'virginica')[i % 3]}"
            for i in range(300)]
    (tmp_path / "flowers.csv").write_text("\n".join(["length,width,species", *rows]) + "\n")
    return tmp_path / "flowers.csv"


def started(folder, *words):
    return subprocess.Popen([SCRIPT, "run", *map(str, words)], cwd=folder, env=environment({"TOMBOLA_BUILD": str(BUILD)}), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)


def run(folder, *words, status=0):
    one = started(folder, *words)
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == status, out + err
    nobody_is_left(one.pid)
    return out, err


def nobody_is_left(session):
    def members():
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(stat.parent.name)
        return found
    wait_for(lambda: not members(), "processes are left")


def accuracy(out):
    return float(re.search(r"evaluate .* accuracy: (\S+)", out)[1])


@pytest.mark.parametrize("words", [[], ["--workers", 2], ["--workers", 2, "--ps", 2]], ids=["alone", "workers", "servers"])
def test_from_a_table_to_a_model(table, words):
    out, _ = run(table.parent, table.name, "--label", "species", "--steps", 200, *words, *QUICK)
    assert accuracy(out) > 0.9
    model = re.search(r"model: (\S+)", out)[1]
    assert (table.parent / model).name == "model.ckpt-200.safetensors" and (table.parent / model).stat().st_size > 0
    rows = int(re.search(r"rows: (\d+)", (table.parent / "flowers.tombola/evaluate.log").read_text())[1])
    assert 0 < rows < 100  # the tenth that was not trained on


def test_it_goes_on_where_it_was_and_fresh_does_not(table):
    run(table.parent, table.name, "--label", "species", "--steps", 50, *QUICK)
    again, _ = run(table.parent, table.name, "--label", "species", "--steps", 100, *QUICK)
    log = (table.parent / "flowers.tombola/worker-0.log").read_text()
    assert "is there" in again and "going on from" in log and "model.ckpt-100" in again
    run(table.parent, table.name, "--label", "species", "--steps", 50, "--fresh", *QUICK)
    assert "going on from" not in (table.parent / "flowers.tombola/worker-0.log").read_text()


def test_other_rows_for_the_test(table):
    other = table.parent / "other.csv"
    other.write_text("".join(table.read_text().splitlines(keepends=True)[:31]))
    run(table.parent, table.name, "--label", "species", "--steps", 50, "--test", other, "--work", "here", *QUICK)
    assert "rows: 30\n" in (table.parent / "here/evaluate.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything_and_nothing_is_lost(table, number):
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, "--workers", 2, "--ps", 1, *QUICK)
    url = next(found[1] for line in one.stdout if (found := re.search(r"curl (\S+)", line)))

    def trained():
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["global_step"]

    step = wait_for(trained, "it never trains")
    os.kill(one.pid, number)
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 128 + number, out + err
    assert "stopping what was started" in err
    nobody_is_left(one.pid)
    assert max(checkpoints(table.parent / "flowers.tombola/model")) >= step


def test_processes_end_with_a_script_that_is_killed(table):
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, "--workers", 2, *QUICK)
    log = table.parent / "flowers.tombola/worker-1.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    one.kill()
    one.communicate(timeout=PATIENCE_S)
    nobody_is_left(one.pid)


def test_a_worker_that_is_killed_is_told_and_missed_by_nobody(table):
    one = started(table.parent, table.name, "--label", "species", "--steps", 30000, "--workers", 2, "--ps", 1, *QUICK)
    log = table.parent / "flowers.tombola/worker-1.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    children = Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()
    words = {child: Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in children}
    victim, = [int(child) for child, said in words.items() if said[-3:-1] == [b"--task-index", b"1"] and b"worker" in said]
    os.kill(victim, signal.SIGKILL)
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 0, out + err
    assert "worker-1 ended with exit status 137" in out and "model.ckpt-30000" in out


def test_two_at_once_in_one_folder(table):
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, *QUICK)
    wait_for((table.parent / "flowers.tombola/sampler.log").exists, "it never serves")
    assert "another tombola is at work" in run(table.parent, table.name, "--label", "species", status=1)[1]
    one.terminate()
    one.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("words, status, says", [
    ([], 2, "which table"), (["nowhere.csv"], 2, "no readable file nowhere.csv"), (["flowers.csv", "flowers.csv"], 2, "one table"),
    (["flowers.csv", "--workers", "0"], 2, "--workers"), (["flowers.csv", "--ps", "-1"], 2, "--ps"), (["flowers.csv", "--label"], 2, "--label"),
    (["flowers.csv", "--bogus"], 2, "--bogus"), (["range:1000?labels=10"], 2, "--work"),
    (["flowers.csv", "--label", "kind"], 1, "kind"), (["flowers.csv", "--label", "species", "--", "--model", "forest"], 1, "forest")])
def test_what_fails_says_why(table, words, status, says):
    _, err = run(table.parent, *words, status=status)
    assert says in err


def test_local(tmp_path):
    """deploy/local is `run` on digits that it draws."""
    fake = tmp_path / "build"
    for name in ("sampler", "loader", "trainer"):
        (fake / name).mkdir(parents=True)
        (fake / name / f"tombola-{name}").symlink_to(BUILD / name / f"tombola-{name}")
    done = subprocess.run([ROOT / "deploy" / "local", "--workers", "2", "--ps", "2", "--steps", "300"], capture_output=True, text=True,
                          env=environment({"TOMBOLA_BUILD": str(fake)}), timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert accuracy(done.stdout) > 0.5
    assert {one.name for one in (fake / "local").glob("*.log")} >= {"sampler.log", "ps-0.log", "ps-1.log", "worker-0.log", "worker-1.log"}
