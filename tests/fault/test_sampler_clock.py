# SPDX-License-Identifier: MIT
"""Leases when clocks jump: deadlines follow the monotonic clock, and a restart begins them anew."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from service import PATIENCE_S, preloaded

STORE = ("--store", "range:1000?labels=10", "--seed", 1)


def faketime_library():
    found = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert found, "libfaketime is not installed (deploy/install test)"
    return str(found[0])


def post(server, path, **body):
    return server.request("POST", path, body=json.dumps(body))


def test_the_wall_clock_may_jump(sampler, tmp_path):
    """By ten years and back, while batches are leased and the disk is written."""
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    server = sampler(*STORE, "--lease", 600, "--state", tmp_path / "state", env={
        **preloaded(faketime_library()), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    for number, jump in enumerate(("+3650d", "-3650d", "+0", "+1h", "-1h")):
        first = server.batch(f"size=10&worker=w&seq={number}")["first"]
        clock.write_text(f"{jump}\n")
        again = server.batch(f"size=10&worker=w&seq={number}")
        assert again["first"] == first and again["attempt"] == 1
        assert 0 < again["expires_ms"] <= 600000
        other = server.batch("size=10&worker=x&seq=%d" % number)
        assert other["first"] != first, "a jump is no end of a lease"
        answer = post(server, "/ack", worker="w", seqs=[number])
        assert answer.status == 200
        assert post(server, "/ack", worker="x", seqs=[number]).status == 200
    # Leases still expire, wherever the wall clock stands.
    assert post(server, "/streams", name="short", lease_s=1).status == 201
    first = server.batch("stream=short&size=10&worker=w&seq=100")["first"]
    clock.write_text("-3650d\n")
    deadline = time.monotonic() + PATIENCE_S
    while (got := server.batch(f"stream=short&size=10&worker=y&seq={time.monotonic_ns()}"))["first"] != first:
        assert time.monotonic() < deadline and got["attempt"] == 1
        time.sleep(0.2)
    assert got["attempt"] == 2 and got["redelivered"] is True


def test_no_lease_runs_while_the_sampler_stands_still(sampler):
    """Nobody could renew it; those who hold batches do so as soon as it goes on. Without that they expire."""
    for lease_s in (3, 12, 48):
        server = sampler(*STORE, "--lease", lease_s)
        began = time.monotonic()
        first = server.batch("size=10&worker=w&seq=0")["first"]
        server.signal(signal.SIGSTOP)
        ran_s = time.monotonic() - began
        time.sleep(lease_s + 2)
        began = time.monotonic()
        server.signal(signal.SIGCONT)
        got = server.batch("size=10&worker=x&seq=0")
        extended = post(server, "/extend", worker="w", seqs=[0])
        if ran_s + time.monotonic() - began < lease_s:
            break  # else it may have run out rightly
    assert got["first"] == first + 10, "the lease ran"
    assert extended.status == 200
    deadline = time.monotonic() + PATIENCE_S
    while (got := server.batch(f"size=10&worker=y&seq={time.monotonic_ns()}"))["first"] != first:
        assert time.monotonic() < deadline and got["attempt"] == 1
        time.sleep(0.2)
    assert got["attempt"] == 2
    assert post(server, "/ack", worker="w", seqs=[0]).status == 409


@pytest.mark.parametrize("before, after", [(10**6, 0), (0, 10**6)])
def test_another_boot_has_another_monotonic_clock(sampler, tmp_path, before, after):
    """A restart gives each leased batch a whole lease again, whatever the new clock says."""
    def clocked(offset):
        return ("unshare", "-T", "--fork", "--kill-child", "--monotonic", offset, "--boottime", offset)

    if subprocess.run([*map(str, clocked(5)), "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a time namespace cannot be made here (needs root)")
    def kill(server):
        """--kill-child ends the sampler a moment later, and its lock with the last of its threads."""
        child = os.pidfd_open(int(Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()))
        server.kill()
        assert select.select([child], [], [], PATIENCE_S)[0], "it lives on"
        os.close(child)

    options = (*STORE, "--lease", 60, "--state", tmp_path / "state")
    server = sampler(*options, prefix=clocked(before))
    first = server.batch("size=10&worker=w&seq=0")["first"]
    kill(server)
    server = sampler(*options, prefix=clocked(after))
    assert server.batch("size=10&worker=x&seq=0")["first"] == first + 10, "the lease was not over"
    again = server.batch("size=10&worker=w&seq=0")
    assert (again["first"], again["attempt"]) == (first, 1)
    assert 0 < again["expires_ms"] <= 60000
    assert post(server, "/ack", worker="w", seqs=[0]).status == 200
    kill(server)
