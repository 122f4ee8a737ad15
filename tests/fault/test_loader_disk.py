# SPDX-License-Identifier: MIT
"""Row caches on disks that are full: rows come from the store, and the folder is left as it was. Imports on disks that fail."""

import json
import os
import subprocess

import pytest

from service import PATIENCE_S, Sampler, environment, program, run, wait_for

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


@pytest.mark.plain
@pytest.mark.parametrize("file", ["a.db", "a.rows"])
def test_a_folder_that_cannot_be_synced(file, strace, tmp_path):
    """After the rename: the file is there, which the message says; before, the old one stays."""
    def imported(rows, when):
        (tmp_path / "rows.csv").write_text("label,a\n" + "1,2\n" * rows)
        return subprocess.run([strace, "-f", "-q", "-o", "/dev/null", "-e", "trace=fsync", "-e", f"inject=fsync:error=EIO:when={when}",
                               program("loader"), "import", tmp_path / "rows.csv", tmp_path / file],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment())

    def rows():
        return json.loads(run("loader", "info", "--json", tmp_path / file).stdout)["rows"]

    first = imported(3, 2)
    assert first.returncode == 1 and rows() == 3
    assert f"{file} is complete and in its place" in first.stderr and "cannot sync its folder: Input/output error" in first.stderr
    second = imported(4, 1)
    assert second.returncode == 1 and "in its place" not in second.stderr and rows() == 3
    assert sorted(os.listdir(tmp_path)) == [file, "rows.csv"]


@pytest.mark.plain
@pytest.mark.parametrize("call, says", [(None, "no space left on the device"), ("pwrite64", "a write failed"), ("pread64", "a read failed")])
def test_the_temporary_file_of_sqlite_fails(call, says, strace, mounted, tmp_path):
    """Which sorts the keys, on another disk perhaps: no database is malformed."""
    (tmp_path / "rows.csv").write_text("label,a\n" + "".join(f"{n % 9}{'x' * 150},{n % 256}\n" for n in range(150000)))
    (tmp_path / "made").mkdir()

    def imported(*options, **more):
        return subprocess.run([strace, "-f", "-y", "-q", "-o", tmp_path / "trace", "-e", f"trace={call or 'none'}", *options,
                               program("loader"), "import", tmp_path / "rows.csv", tmp_path / "made/a.db"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment(more))

    if call:
        assert imported().returncode == 0
        calls = [line for line in (tmp_path / "trace").read_text().splitlines() if f"{call}(" in line]
        sorting = next(i for i, line in enumerate(calls) if "/etilqs_" in line)
        (tmp_path / "made/a.db").unlink()
        done = imported("-e", f"inject={call}:error=EIO:when={sorting + 20}")
    else:
        done = imported(SQLITE_TMPDIR=str(mounted("tmpfs", 1 << 20)))
    assert done.returncode == 1 and says in done.stderr and "cannot sort its keys" in done.stderr, done.stderr
    assert "SQLITE_TMPDIR" in done.stderr and os.listdir(tmp_path / "made") == []


@pytest.mark.plain
@pytest.mark.parametrize("store", ["", "/part-*.csv"])
def test_a_folder_whose_entries_cannot_all_be_read(store, strace, tmp_path):
    """Those that were not listed are not taken for none."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for n in range(300):
        (folder / f"part-{n}-{'x' * 200}.csv").write_text("label,a\n1,2\n")
    for when in (1, 2, 3):  # the third time there is nothing left
        done = subprocess.run([strace, "-f", "-q", "-o", tmp_path / "trace", "-P", folder, "-e", "trace=getdents64",
                               "-e", f"inject=getdents64:error=EIO:when={when}", program("loader"), "info", f"csv:{folder}{store}"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment())
        assert done.returncode == 1 and "folder" in done.stderr and "Input/output error" in done.stderr, done.stdout + done.stderr
    assert json.loads(run("loader", "info", "--json", f"csv:{folder}{store}").stdout)["rows"] == 300
