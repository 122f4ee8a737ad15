# SPDX-License-Identifier: MIT
"""Promise 5 at every step of writing the journal anew.

The journal gets long by streams with large definitions that come and go, while a client draws, with
leases and without, and acks. strace kills the sampler when it is about to make a chosen call of the
system on a file of the state folder; then it is started again, and everything that was answered must
hold.
"""

import http.client
import json
import os
import random
import re

import pytest

from service import LONG, SEED, wait_for
from failing_disk import traced
from test_sampler_disk import Client, check_pairs

# Long labels make a large definition that takes little time to read: many short ones take minutes.
LABELS = [f"{number:03}{'x' * 1000}" for number in range(220)] + ["most"]
UNITS = 40000
OPTIONS = ("--design", "srs", "--seed", 3, "--lease", 3000)
LARGE = json.dumps({"name": "large", "design": "quota", "shares": dict.fromkeys(LABELS, 1)})

NEW, OLD, FOLDER = "journal.new.MARK", "journal", ""
STEPS = [
    (NEW, "pwrite64", 1),         # what is written of the book
    (NEW, "sync_file_range", 1),
    (NEW, "pwrite64", 2),
    (NEW, "fallocate", 1),        # the room for what comes
    (NEW, "fdatasync", 1),        # settled
    (NEW, "fdatasync", 2),        # what came since
    (NEW, "rename", 1),
    (FOLDER, "fsync", 1),         # it has its name; does the folder know?
    (OLD, "ftruncate", 1),        # the old one goes, a piece at a time
]


def killing(server, strace, tmp_path, name, call, count):
    """strace kills the server at that call. A descriptor is known by the name that its file has or had."""
    mark = re.search(r"mark (\w+)", (tmp_path / "state/lock").read_text())[1]
    path = tmp_path / "state" / name.replace("MARK", mark) if name else tmp_path / "state"
    return traced(server, strace, tmp_path / "trace", "-P", str(path), "-e", f"trace={call},openat",
                  "-e", f"inject={call}:signal=KILL:when={count}")


class Load:
    """A client that draws and acks beside streams that come and go, until it is to stop or the server is gone."""

    def __init__(self, server):
        self.server, self.client = server, Client(server)
        self.acked, self.drawn_in_flight, self.acking = set(), 0, None

    def draw(self):
        for number in range(20):
            seq = self.client.seq
            lease = number % 3 != 0
            ack = seq - 7 if lease and seq >= 7 and seq % 2 else None
            self.drawn_in_flight, self.acking = 0 if lease else 1, ack
            status, _ = self.client.draw(lease=lease, ack=ack)
            assert status == 200
            self.drawn_in_flight, self.acking = 0, None
            if ack is not None:
                self.acked.add(ack)

    def forget_acked(self):
        """Pairs that have no batch any more, or may have none: the server was killed before it told."""
        for seq in self.acked | {self.acking}:
            self.client.leased.pop((self.client.name, seq), None)

    def lengthen(self):
        """220 KB more."""
        assert self.server.request("POST", "/streams", body=LARGE).status in (201, 409)  # a kill may have left it
        assert self.server.request("DELETE", "/streams/large").status == 204

    def run(self, until):
        """False: the server was killed."""
        try:
            for _ in range(400):
                self.draw()
                self.lengthen()
                if until():
                    return True
        except (OSError, http.client.HTTPException):
            return False
        raise AssertionError("the journal was never compacted")


def rewrites(server):
    for line in server.get("/metrics").text.splitlines():
        if line.startswith("tombola_sampler_journal_rewrites_total "):
            return float(line.split()[1])
    raise AssertionError("no counter of rewrites")


def check(server, load, position):
    """What was answered comes never again, to nobody else, and is still who had it."""
    assert server.get("/streams/default").json["position"] >= position
    streams = [one["name"] for one in server.get("/streams").json["streams"]]
    assert streams in (["default"], ["default", "large"])
    client = load.client
    load.forget_acked()
    for seq in load.acked:
        assert server.get(f"/batch?size=5&worker={client.name}&seq={seq}").status == 409
    check_pairs(server, client, random.Random(SEED))
    client.move(server)
    for _ in range(20):
        assert client.draw(lease=False)[0] == 200  # asserts itself that nothing is answered twice
    ends = sorted((first, first + len(ids)) for first, ids in client.answered.items())
    missing = sum(begin - end for (_, end), (begin, _) in zip([(0, 0)] + ends, ends))
    assert missing <= 5 * (1 + load.drawn_in_flight), f"{missing} positions are nobody's"  # one answer may have been on its way
    assert all(begin >= end for (_, end), (begin, _) in zip(ends, ends[1:])), "two batches overlap"


# Each takes five seconds of a processor: a third of them a day.
CASES = [(*step, durability) for number, step in enumerate(STEPS) for half, durability in enumerate(("fsync", "process"))
         if LONG or (number + half + SEED) % 3 == 0]


@pytest.mark.heavy
@pytest.mark.parametrize("name, call, count, durability", CASES,
                         ids=[f"{name or 'folder'}-{call}-{count}-{durability}" for name, call, count, durability in CASES])
def test_a_kill_at_each_step(sampler, strace, tmp_path, name, call, count, durability):
    store = tmp_path / "store.csv"
    store.write_text("label,a\n" + "".join(f"{LABELS[min(row, len(LABELS) - 1)]},{row}\n" for row in range(UNITS)))
    options = ("--store", store, *OPTIONS, "--state", tmp_path / "state", "--durability", durability)
    sampler(*options).kill()  # the one that is to be killed takes over what there is
    server = sampler(*options)
    before = os.stat(tmp_path / "state" / "journal").st_ino
    load = Load(server)
    with killing(server, strace, tmp_path, name, call, count):
        assert not load.run(lambda: rewrites(server) >= 3), f"{call} {count} of {name or 'the folder'} never came"
    position = max((first + len(ids) for first, ids in load.client.answered.items()), default=0)
    wait_for(lambda: server.process.poll() is not None, "it was not killed")
    server.kill()
    renamed = os.stat(tmp_path / "state" / "journal").st_ino != before
    assert renamed == (name != NEW), "it was killed elsewhere"
    server = sampler(*options)
    check(server, load, position)
    again = Load(server)
    again.client = load.client
    assert again.run(lambda: rewrites(server) >= 2), "and it is compacted after all"
    position = server.get("/streams/default").json["position"]
    server.kill()
    server = sampler(*options)
    assert server.get("/streams/default").json["position"] == position
    again.forget_acked()
    check_pairs(server, again.client, random.Random(SEED + 1), sample=10)
