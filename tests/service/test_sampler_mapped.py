# SPDX-License-Identifier: MIT
"""A frame file that is served must not change: who writes to it ends the server, a new file under its name does not."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import PATIENCE_S, SANITIZED, Sampler, run, wait_for

pytestmark = pytest.mark.threads

UNITS = 200_000


def build(path, labels, units=UNITS):
    """Ids that lie in the file: consecutive ones would take no room there."""
    store = path.with_suffix(".csv")
    store.write_text("id,label\n" + "".join(f"{(i * 7919) % units * 3},{i % labels}\n" for i in range(units)))
    run("sampler", "build", "--store", f"csv:{store}?id=id", "--out", path)
    return path


@pytest.fixture
def frame(tmp_path):
    return build(tmp_path / "served.frame", 10)


def truncate(path):
    """In a process of its own: it waits as long as the server holds the file."""
    return subprocess.Popen([sys.executable, "-c", "import os, sys; os.truncate(sys.argv[1], 100)", str(path)])


def copy_over(path):
    other = build(path.with_name("other.frame"), 7)
    return subprocess.Popen(["cp", str(other), str(path)])


def append(path):
    return subprocess.Popen(["sh", "-c", 'echo more >>"$1"', "sh", str(path)])


def change_a_byte(path):
    return subprocess.Popen(["dd", "if=/dev/zero", f"of={path}", "bs=1", "count=1", "seek=5000", "conv=notrunc", "status=none"])


@pytest.mark.parametrize("change", [truncate, copy_over, append, change_a_byte])
def test_a_writer_ends_the_server_before_it_writes(sampler, tmp_path, frame, change):
    state = tmp_path / "state"
    options = ("--seed", 1, "--state", state)
    server = sampler("--frame", frame, *options)
    shutil.copy(frame, tmp_path / "copy.frame")
    digest = server.get("/frames").json["frames"][0]["digest"]
    drawn = server.batch("size=1000")
    writer = change(frame)
    try:
        while writer.poll() is None and server.process.poll() is None:
            answer = server.get("/frames")
            assert answer.status == 503 or answer.json["frames"][0]["digest"] == digest
            time.sleep(0.05)
    except OSError:
        pass  # it is gone
    assert server.wait() == 2
    assert writer.wait(PATIENCE_S) == 0
    assert f"{frame} " in server.stderr and "rename it over the old one" in server.stderr
    again = sampler("--frame", tmp_path / "copy.frame", *options)
    assert again.batch("size=10")["first"] == drawn["size"], "the end was not in order"


def without_lease(path):
    """Somebody has the file open for writing: the system grants no lease."""
    return open(path, "r+b")  # pylint: disable=consider-using-with


@pytest.mark.parametrize("text", [b"", b"x"])
def test_without_a_lease_a_change_is_found(sampler, frame, text):
    with without_lease(frame) as file:
        server = sampler("--frame", frame, "--seed", 1)
        server.batch()
        file.seek(0, os.SEEK_END)
        file.write(text or b"\0" * 5000)
        file.flush()
        assert server.wait() == 2
    assert f"{frame} was written to while it was served" in server.stderr


def test_a_change_while_it_drains_is_found(sampler, frame):
    with without_lease(frame) as file:
        server = sampler("--frame", frame, "--seed", 1, "--drain", 600)
        server.terminate()
        server.wait_for_log("stopping")
        server.batch()
        file.seek(0, os.SEEK_END)
        file.write(b"x")
        file.flush()
        assert server.wait() == 2
    assert f"{frame} was written to while it was served" in server.stderr


def test_a_file_that_is_cut_off_is_named(sampler, tmp_path):
    """Faster than the look once a second: pages that are gone.

    The handler of SIGBUS can only end the process, whatever the other threads are at: where the check once a
    second comes in between, the pools' threads may have ended and not be joined yet, which is no leak."""
    path = build(tmp_path / "cut.frame", 10, units=300_000)
    size = path.stat().st_size
    with without_lease(path) as file:
        threads_are_left = {"TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":report_thread_leaks=0"}
        server = sampler("--frame", path, "--seed", 1, env=threads_are_left)
        server.batch()
        file.truncate(4096)
        try:
            for index in range(1000):
                server.get(f"/batch?size=1000&index={index}")
        except OSError:
            pass
        assert server.wait() == 2, f"of {size} bytes"
    assert str(path) in server.stderr and "rename it over the old one" in server.stderr


@pytest.mark.plain
@pytest.mark.skipif(SANITIZED, reason="a sanitizer writes to standard error itself")
def test_a_file_that_is_cut_off_ends_a_server_whose_log_is_not_read(tmp_path):
    path = build(tmp_path / "cut.frame", 10, units=300_000)
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    unread = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        with pytest.raises(BlockingIOError):
            for _ in range(1 << 20):
                os.write(unread, b"x" * 4096)
        with without_lease(path) as file:
            to_fifo = ("sh", "-c", 'exec "$@" 2>"$0"', str(fifo))
            server = Sampler("--frame", path, "--seed", 1, folder=tmp_path, prefix=to_fifo)
            file.truncate(4096)
            try:
                for index in range(1000):
                    server.get(f"/batch?size=1000&index={index}", timeout=10)
            except OSError:
                pass
            try:
                assert server.process.wait(PATIENCE_S) == 2
            finally:
                server.kill()
    finally:
        os.close(unread)


@pytest.mark.plain
@pytest.mark.skipif(SANITIZED, reason="a sanitizer has a handler of its own")
def test_a_bus_error_elsewhere_still_kills(frame, tmp_path):
    server = Sampler("--frame", frame, folder=tmp_path)
    server.signal(signal.SIGBUS)
    assert server.wait() == -signal.SIGBUS
    assert "rename it over" not in server.stderr


def test_a_new_file_under_the_name_disturbs_nobody(sampler, tmp_path, frame):
    server = sampler("--frame", frame, "--seed", 1)
    before = server.batch("size=100&index=3")
    digest = server.get("/frames").json["frames"][0]["digest"]
    run("sampler", "build", "--store", "range:500?labels=5", "--out", frame)
    os.link(frame, tmp_path / "name")
    started = time.monotonic()
    wait_for(lambda: time.monotonic() - started > 2.5, "time stands still")
    assert server.process.poll() is None
    assert server.batch("size=100&index=3") == before
    assert server.get("/frames").json["frames"][0]["digest"] == digest
    frame.unlink()
    assert server.batch("size=100&index=3") == before
    server.stop()
    assert "rename it over" not in server.stderr


def test_readers_and_other_servers_are_welcome(sampler, frame):
    servers = [sampler("--frame", frame, "--seed", 1), sampler("--frame", frame, "--seed", 1)]
    run("sampler", "info", "--verify", frame)
    with open(frame, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert file.read()
    started = time.monotonic()
    wait_for(lambda: time.monotonic() - started > 1.5, "time stands still")
    assert servers[0].batch() == servers[1].batch()
