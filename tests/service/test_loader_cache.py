# SPDX-License-Identifier: MIT
"""Rows kept in a folder: several programs at once, programs that are killed, folders that are of no use."""

import fcntl
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import time

import pytest

from conftest import PATIENCE_S, SEED, check_alive_to_the_end, environment, program, run, run_fails


class Pulls:
    """Pulls of the same batches by number, which all give the same bytes."""

    def __init__(self, url, store, folder):
        self.words = [program("loader"), "pull", "--sampler", url, "--store", store, "--size", "30", "--format", "raw", "--index", "0"]
        self.folder = folder

    def begin(self, batches, folder="", changes=None):
        words = [*self.words, "--batches", str(batches), *(["--cache", str(folder)] if folder else [])]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(changes))

    def end(self, pull):
        try:
            out, stderr = pull.communicate(timeout=PATIENCE_S)
        finally:
            pull.kill()
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


def test_a_link_in_the_folder_is_replaced_and_not_followed(pulls, tmp_path):
    """Several users may share a folder, and names of caches can be guessed."""
    wanted, _ = pulls.rows(300)
    pulls.make(300, wanted)
    path, other = pulls.folder / pulls.caches()[0], tmp_path / "other"
    other.write_text("theirs")
    path.unlink()
    path.symlink_to(other)
    deadline = time.monotonic() + PATIENCE_S
    while path.is_symlink():
        assert time.monotonic() < deadline
        assert pulls.rows(300, pulls.folder)[0] == wanted
        assert other.read_bytes() == b"theirs"


@pytest.mark.parametrize("how", ["a folder in its place", "no folder"])
def test_a_lock_that_cannot_be_taken(pulls, how):
    """Nothing is kept, and the program ends: also one that waits for another's cache when the folder is removed."""
    wanted, _ = pulls.rows(300)
    pulls.make(300, wanted)
    path = pulls.folder / pulls.caches()[0]
    lock = path.with_suffix(".lock")
    path.unlink()
    if how == "no folder":
        with open(lock, "w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            pull = pulls.begin(300, pulls.folder)
            assert b"is being made by another program" in pull.stderr.readline()
            shutil.rmtree(pulls.folder)
            select.select([pull.stderr], [], [], PATIENCE_S)  # it cannot end: its output is not read yet
    else:
        lock.mkdir()
        pull = pulls.begin(300, pulls.folder)
    out, stderr = pulls.end(pull)
    assert out == wanted
    assert stderr.count("warning") == 1 and str(lock) in stderr and "rows come from" in stderr
    assert not pulls.caches()


@pytest.mark.parametrize("where", ["/proc/kept", "/dev/null"])
def test_a_folder_of_no_use(where, pulls):
    wanted, _ = pulls.rows(20)
    out, stderr = pulls.rows(20, where)
    assert out == wanted
    assert stderr.count("warning") == 1 and where in stderr


# ---- the list


def rows_of(value):
    return "a,label\n" + f"{value},0\n3,1\n" * 50


class Kept:
    """Small tables, and the caches of them in one folder."""

    def __init__(self, url, folder):
        self.url, self.stores, self.folder = url, folder, folder / "kept"

    def make(self, name, value=7):
        """A cache of a table; its key."""
        path = self.stores / name
        path.write_text(rows_of(value))
        return self.make_of(f"csv:{path}")

    def make_of(self, *uris):
        before = set(self.listed()) if self.folder.exists() else set()
        words = ("--sampler", self.url, "--store", "\n".join(uris), "--index", 0, "--batches", 1, "--cache", self.folder)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            run("loader", "pull", *words)
            if new := set(self.listed()) - before:
                return new.pop()
            assert time.monotonic() < deadline

    def listed(self, *words):
        found = json.loads(run("loader", "cache", "--cache", self.folder, "--json", *words).stdout)
        assert found["folder"] == str(self.folder) and found["bytes"] == sum(one["bytes"] for one in found["caches"])
        return {one["key"]: one for one in found["caches"]}


@pytest.fixture
def kept(sampler, tmp_path):
    return Kept(sampler("--store", "range:100?labels=2", "--seed", 4).url, tmp_path)


def test_what_a_list_says_of_each_cache(kept, tmp_path):
    names = ["current.csv", "changed.csv", "replaced.csv", "gone.csv", "damaged.csv"]
    keys = dict(zip(names, map(kept.make, names)))
    one = kept.listed()[keys["current.csv"]]
    assert (one["rows"], one["features"], one["store"], one["open"]) == (100, 1, f"csv:{tmp_path}/current.csv", False)
    assert one["bytes"] == os.path.getsize(one["path"]) and one["used"] >= "2026"
    assert {one["state"] for one in kept.listed().values()} == {"current"}
    (tmp_path / "changed.csv").write_text(rows_of(8))
    (tmp_path / "new.csv").write_text(rows_of(7))
    (tmp_path / "new.csv").rename(tmp_path / "replaced.csv")
    (tmp_path / "gone.csv").unlink()
    with open(kept.listed()[keys["damaged.csv"]]["path"], "r+b") as file:
        file.seek(100)
        file.write(b"damage")
    left, locked = (kept.folder / f"{digit * 32}.rows.tmp.1.1" for digit in "ef")
    left.write_bytes(b"half")
    locked.write_bytes(b"h")
    (kept.folder / "not ours").write_text("")
    with open(locked, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = kept.listed()
    assert {name: found[key]["state"] for name, key in keys.items()} == {
        "current.csv": "current", "changed.csv": "stale", "replaced.csv": "stale", "gone.csv": "stale", "damaged.csv": "damaged"}
    assert (found["e" * 32]["state"], found["f" * 32]["state"], len(found)) == ("left over", "being made", 7)
    shown = run("loader", "cache", "--cache", kept.folder).stdout
    assert re.search(rf"^{keys['current.csv'][:12]} +current +100 .* no +csv:{tmp_path}/current.csv$", shown, re.MULTILINE), shown
    assert "7 caches, " in shown
    assert list(kept.listed("--remove", "stale")) == [keys["current.csv"]]
    assert (kept.folder / "not ours").exists()


def test_a_store_of_several_files(kept, tmp_path):
    """By several URIs, or by a pattern: also then its cache is judged by the files it was made of."""
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text("a,label\n" + "7,0\n3,1\n" * 25)
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "1.csv").write_text(rows_of(7))
    several, pattern = [f"csv:{tmp_path}/1.csv", f"csv:{tmp_path}/2.csv"], f"csv:{tmp_path}/only/*.csv"
    keys = [kept.make_of(*several), kept.make_of(pattern)]
    found = kept.listed("--remove", "stale")
    assert [(found[key]["state"], found[key]["store"]) for key in keys] == [("current", "\n".join(several)), ("current", pattern)]
    assert f" {several[0]} {several[1]}\n" in run("loader", "cache", "--cache", kept.folder).stdout
    (tmp_path / "2.csv").write_text(rows_of(8))
    assert list(kept.listed("--remove", "stale")) == keys[1:]


def test_a_store_by_a_path_from_here(kept, tmp_path, monkeypatch):
    """It is another one for a program that runs elsewhere: not to be removed as stale."""
    monkeypatch.chdir(tmp_path)
    kept.stores = type(tmp_path)(".")
    kept.make("here.csv")
    assert [one["state"] for one in kept.listed().values()] == ["current"]
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    assert [one["state"] for one in kept.listed("--remove", "stale").values()] == ["unknown"]


def test_caches_are_removed_by_name_and_to_a_limit(kept, pulls, tmp_path):
    keys = [kept.make(f"{number}.csv", number) for number in range(4)]
    run_fails("loader", "cache", "--cache", kept.folder, "--remove", "0123abcd", says="no cache of ")
    for word in ("abc", "ABCD", "../x", keys[0] + ".lock"):
        run_fails("loader", "cache", "--cache", kept.folder, "--remove", word, says=["--remove", "4 digits"])
    run_fails("loader", "cache", "--cache", tmp_path / "nowhere", says="nowhere")
    run_fails("loader", "cache", "--cache", tmp_path / "0.csv", says="is not a folder")
    assert set(kept.listed("--remove", keys[0][:12], "--remove", keys[1] + ".rows")) == set(keys[2:])
    size = kept.listed()[keys[2]]["bytes"]
    os.utime(kept.listed()[keys[2]]["path"], (time.time() + 60, time.time()))
    assert list(kept.listed("--prune", 2 * size)) == [keys[2], keys[3]]
    assert list(kept.listed("--prune", size)) == [keys[2]]
    pulls.folder = kept.folder
    pulls.make(300, pulls.rows(300)[0])
    holder = pulls.begin(3000, kept.folder)
    holder.stdout.read(1)
    mine = next(key for key in kept.listed() if key != keys[2])
    assert kept.listed()[mine]["open"]
    run_fails("loader", "cache", "--cache", kept.folder, "--remove", mine, says="is in use by a program")
    run_fails("loader", "cache", "--cache", kept.folder, "--prune", 1, says="still holds ", status=1)
    assert list(kept.listed("--remove", "all")) == [mine]
    holder.kill()
    holder.communicate(timeout=PATIENCE_S)
    assert kept.listed("--remove", "all") == {}
