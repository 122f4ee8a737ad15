# SPDX-License-Identifier: MIT
"""Rows kept in a folder: several programs at once, programs that are killed, folders that are of no use."""

import os
import random
import signal
import subprocess
import time

import pytest

from conftest import PATIENCE_S, SEED, check_alive_to_the_end, environment, program


class Pulls:
    """Pulls of the same batches by number, which all give the same bytes."""

    def __init__(self, url, store, folder):
        self.words = [program("loader"), "pull", "--sampler", url, "--store", store, "--size", "30", "--format", "raw", "--index", "0"]
        self.folder = folder

    def begin(self, batches, folder="", changes=None):
        words = [*self.words, "--batches", str(batches), *(["--cache", str(folder)] if folder else [])]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(changes))

    def end(self, pull):
        out, stderr = pull.communicate(timeout=PATIENCE_S)
        check_alive_to_the_end(pull.returncode, stderr.decode(errors="replace"))
        assert pull.returncode == 0, stderr[-4000:]
        return out, stderr.decode()

    def rows(self, batches, *folder, **more):
        return self.end(self.begin(batches, *folder, **more))

    def names(self):
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []

    def caches(self):
        return [name for name in self.names() if name.endswith(".rows")]

    def make(self, batches, wanted):
        """Pulls until there is a cache: one that ends too early leaves none."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.caches():
            assert time.monotonic() < deadline
            assert self.rows(batches, self.folder)[0] == wanted


@pytest.fixture
def pulls(demo, sampler, tmp_path):
    store = f"csv:{demo}/mnist_train.csv?label=0&header=no"
    return Pulls(sampler("--store", store, "--seed", 4).url, store, tmp_path / "kept")


@pytest.mark.threads
def test_programs_share_one_file(pulls):
    wanted, _ = pulls.rows(600)
    running = [pulls.begin(600, pulls.folder) for _ in range(4)]
    for pull in running:
        out, stderr = pulls.end(pull)
        assert out == wanted and "warning" not in stderr
    pulls.make(600, wanted)
    assert len(pulls.names()) == 1
    changes = {"TOMBOLA_CACHE": str(pulls.folder), "TOMBOLA_CACHE_LIMIT": "1000000000"}
    assert pulls.rows(600, changes=changes)[0] == wanted
    assert len(pulls.names()) == 1


def test_a_program_that_is_killed_leaves_nothing_to_believe(pulls):
    """At random moments of making it, beside one that is not killed."""
    dice = random.Random(SEED)
    wanted, _ = pulls.rows(300)
    for turn in range(16):
        if turn % 4 == 0:
            for name in pulls.names():
                os.unlink(pulls.folder / name)
        victim, other = pulls.begin(3000, pulls.folder), pulls.begin(300, pulls.folder)
        time.sleep(dice.random() * 0.4)
        victim.send_signal(signal.SIGKILL)
        victim.communicate(timeout=PATIENCE_S)
        out, stderr = pulls.end(other)
        assert out == wanted and "damaged" not in stderr
        assert pulls.rows(300, pulls.folder)[0] == wanted
    pulls.make(300, wanted)
    assert len(pulls.caches()) == 1


def test_a_cache_that_is_damaged_is_told_of_once(pulls):
    wanted, _ = pulls.rows(300)
    pulls.make(300, wanted)
    path = pulls.folder / pulls.caches()[0]
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(100_000))
    out, stderr = pulls.rows(300, pulls.folder)
    assert out == wanted
    assert stderr.count("warning") == 1 and str(path) in stderr and "is damaged" in stderr
    assert not path.exists()
    pulls.make(300, wanted)
    assert pulls.rows(300, pulls.folder)[0] == wanted


@pytest.mark.parametrize("where", ["/proc/kept", "/dev/null"])
def test_a_folder_of_no_use(where, pulls):
    wanted, _ = pulls.rows(20)
    out, stderr = pulls.rows(20, where)
    assert out == wanted
    assert stderr.count("warning") == 1 and where in stderr
