# SPDX-License-Identifier: MIT
"""Row caches on disks that are full: rows come from the store, and the folder is left as it was."""

import json
import os

import pytest

from service import Sampler, run, wait_for

ROWS, LIMIT = 20000, 1 << 40  # with a limit nobody asks beforehand whether the disk has room


@pytest.fixture
def pull(tmp_path):
    """pull(folder, *more) -> the run, of all rows; folder None: without a cache."""
    rows = tmp_path / "rows.csv"
    rows.write_text("label," + ",".join(map(str, range(60))) + "\n" + "".join(f"{n % 3},{f'{n % 200},' * 59}7\n" for n in range(ROWS)))
    served = Sampler("--store", rows, "--seed", 7, folder=tmp_path)

    def work(folder, *more):
        kept = ["--cache", folder, *more] if folder else []
        return run("loader", "pull", "--sampler", served.url, "--store", rows, "--index", 0, "--batches", ROWS // 100, *kept)

    yield work
    served.finish()


@pytest.mark.parametrize("kind, size", [("tmpfs", 1 << 20), ("ext4", 2 << 20)])
def test_a_disk_that_gets_full_while_a_cache_is_made(kind, size, pull, mounted):
    folder = mounted(kind, size)
    wanted = pull(None).stdout
    before = sorted(os.listdir(folder))
    warned = []

    def until_warned():
        """A pull may end before the disk is full."""
        done = pull(folder, "--cache-limit", LIMIT)
        assert done.stdout == wanted
        warned.extend(line for line in done.stderr.splitlines() if " warning " in line and f"{folder}/" in line)
        return warned

    wait_for(until_warned, "the disk was never full")
    assert len(warned) == 1 and "No space left on device" in warned[0] and "rows come from " in warned[0]
    assert sorted(os.listdir(folder)) == before, "what could not be finished stays"


def test_a_disk_that_has_no_room_for_it(pull, mounted):
    """It is asked before: nothing is written, and a twentieth stays free."""
    folder = mounted("tmpfs", 1 << 20)
    wanted = pull(None).stdout

    def is_refused():
        """A pull may end before it is asked."""
        done = pull(folder)
        assert done.stdout == wanted and os.listdir(folder) == []
        return "would leave a twentieth of it free" in done.stderr

    wait_for(is_refused, "it was never asked")


def test_a_full_disk_makes_room_by_itself(pull, mounted, tmp_path):
    """Of what nobody uses: another store's cache goes."""
    folder = mounted("tmpfs", 3 << 20)
    wait_for(lambda: pull(folder) and list(folder.glob("*.rows")), "no cache")
    (first,) = folder.glob("*.rows")
    os.utime(tmp_path / "rows.csv")  # another key
    wait_for(lambda: pull(folder) and not first.exists() and list(folder.glob("*.rows")), "no room")
    found = json.loads(run("loader", "cache", "--cache", folder, "--json").stdout)["caches"]
    assert [one["state"] for one in found] == ["current"]
