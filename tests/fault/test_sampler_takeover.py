# SPDX-License-Identifier: MIT
"""Promise 5 when the lock of the state folder is lost: two samplers serve one folder, and one of them must notice.

The second one's flock() works whatever the first one holds, as on a network file system whose server gave the lock away
when the lease ran out. Clients draw from both meanwhile.
"""

import http.client
import random
import re
import socket
import threading
from pathlib import Path

import pytest

from service import LONG, PATIENCE_S, SEED, preloaded, wait_for
from test_sampler_disk import STORE, Client, check_pairs


def losing_the_lock(strace, trace):
    """What stands before the program's name: nothing keeps it out of a folder."""
    return (strace, "-D", "-f", "-q", "-o", str(trace), "-e", "trace=flock", "-e", "inject=flock:retval=0")


def slow_disk(strace, trace):
    """The disk is long through with a commit before the sampler knows: that is where it is taken over."""
    return (strace, "-D", "-f", "-q", "-o", str(trace), "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_exit=30000")


@pytest.fixture
def remote(library):
    """The environment of a program for which every folder is on NFS, with the cache of that."""
    return preloaded(library(Path(__file__).resolve().with_name("remote_cache.c")))


class Puller(threading.Thread):
    """Draws until its server refuses or is gone, then from the next one, until it is told to end."""

    def __init__(self, name, servers, number):
        super().__init__(daemon=True)
        self.client, self.lease = Client(servers[number], name), name.endswith("l")
        self.servers, self.number, self.ends, self.failure = servers, number, False, None

    def run(self):
        try:
            while self.draw():
                self.number += 1
                wait_for(lambda: self.ends or len(self.servers) > self.number, "no server came after it")
                if self.ends:
                    return
                self.client.move(self.servers[self.number])
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def draw(self):
        """False: it was to end; true: the server did not answer it, or with an error."""
        try:
            while not self.ends:
                status, problem = self.client.draw(lease=self.lease)
                if status != 200:
                    assert status == 503, problem
                    return True
        except (OSError, http.client.HTTPException):
            return True
        return False


def all_draw(pullers, counts):
    """Each has more answers by now."""
    for puller in pullers:
        if puller.failure is not None:
            raise puller.failure
    return all(len(puller.client.answered) > count for puller, count in zip(pullers, counts))


def check_positions(clients, end, refused):
    """No position twice, whoever answered it; of those before the end only `refused` draws may be nobody's."""
    answered = {}
    for client in clients:
        for first, ids in client.answered.items():
            assert first not in answered, f"{first} was answered twice"
            answered[first] = ids
    spans = sorted((first, first + len(ids)) for first, ids in answered.items())
    assert all(begin >= before for (_, before), (begin, _) in zip(spans, spans[1:])), "two batches overlap"
    missing = end - sum(last - first for first, last in spans)
    assert 0 <= missing <= 5 * refused, f"{missing} positions are nobody's"


@pytest.mark.parametrize("disk", ["fast", "slow", "remote"])
def test_who_lost_the_lock_answers_nothing_more(sampler, strace, remote, tmp_path, disk):
    options = (*STORE, "--state", tmp_path / "state")
    env = remote if disk == "remote" else None
    servers = [sampler(*options, prefix=slow_disk(strace, tmp_path / "slow") if disk == "slow" else (), env=env)]
    pullers = []
    for number in range(6 if LONG else 2):
        pullers += [Puller(f"w{number}.{i}{kind}", servers, number) for i in range(4) for kind in "ld"]
        for puller in pullers[-8:]:
            puller.start()
        wait_for(lambda: all_draw(pullers[-8:], [5] * 8), "they never drew")
        servers.append(sampler(*options, prefix=losing_the_lock(strace, tmp_path / f"trace{number}"), env=env))
        assert servers[number].wait() == 1
        assert re.search(rf"stopping at once: .* taken over by another server \(process {servers[-1].process.pid} on "
                         rf"{re.escape(socket.gethostname())}, generation {number + 2}, since \S+, mark \w+\)", servers[number].stderr)
    drawn = [len(puller.client.answered) for puller in pullers]
    wait_for(lambda: all_draw(pullers, drawn), "one of them never went on")
    for puller in pullers:
        puller.ends = True
    for puller in pullers:
        puller.join(PATIENCE_S)
        assert puller.failure is None, puller.failure
    position = servers[-1].get("/streams/default").json["position"]
    check_positions([puller.client for puller in pullers], position, refused=sum(puller.number for puller in pullers))
    for puller in pullers:  # what a pair had from any of them is still its own
        if puller.lease:
            check_pairs(servers[-1], puller.client, random.Random(SEED), sample=5)
    servers[-1].kill()
    assert sampler(*options, env=env).get("/streams/default").json["position"] == position
