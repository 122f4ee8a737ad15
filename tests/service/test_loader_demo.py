# SPDX-License-Identifier: MIT
"""`tombola-loader demo`: what is in its folder already is kept, or refused, and never half overwritten."""

import os
import signal

import pytest

from conftest import run, run_fails, wait_for

NAMES = ["mnist_test.csv", "mnist_train.csv"]


def demo(folder, *more):
    return run("loader", "demo", folder, "--rows", 3, *more).stdout.splitlines()


def contents(folder):
    return {name: ((folder / name).read_bytes(), (folder / name).stat().st_ino) for name in sorted(os.listdir(folder))}


def test_files_that_are_there_are_kept(tmp_path):
    folder = tmp_path / "new" / "data"
    made = demo(folder)
    assert [line.split(", ")[0] for line in made] == [f"{folder}/mnist_train.csv: 3 rows", f"{folder}/mnist_test.csv: 1 row"]
    assert all(line.endswith(", written") for line in made)
    before = contents(folder)
    assert list(before) == NAMES
    assert all(line.endswith(", was there already") for line in demo(folder))
    assert contents(folder) == before


@pytest.mark.parametrize("change", [lambda text: text[:-2] + b"9\n", lambda text: text + b"\n", lambda text: b""],
                         ids=["a byte", "more", "empty"])
def test_files_that_hold_something_else_stay(tmp_path, change):
    demo(tmp_path)
    whole = contents(tmp_path)
    (tmp_path / "mnist_train.csv").write_bytes(change((tmp_path / "mnist_train.csv").read_bytes()))
    before = contents(tmp_path)
    run_fails("loader", "demo", tmp_path, "--rows", 3, says="mnist_train.csv exists and holds something else", status=2)
    assert contents(tmp_path) == before
    made = demo(tmp_path, "--force")
    assert made[0].endswith(", overwritten") and made[1].endswith(", was there already")
    assert [text for text, _ in contents(tmp_path).values()] == [text for text, _ in whole.values()]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    run_fails("loader", "demo", tmp_path / "file" / "data", says=f"{tmp_path}/file", status=2)


def test_one_that_is_stopped_leaves_nothing(start, tmp_path):
    one = start("loader", "demo", tmp_path / "new" / "data", "--rows", 10**8)
    wait_for(lambda: list(tmp_path.glob("new/data/*")), "it has not begun")
    one.terminate()
    assert one.wait() == 128 + signal.SIGTERM
    assert "stopped before" in one.stderr and "nothing was left" in one.stderr
    assert not (tmp_path / "new").exists()
