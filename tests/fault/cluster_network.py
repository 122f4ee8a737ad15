# SPDX-License-Identifier: MIT
"""What lies between the processes of a cluster, and may fail: a proxy before one of them, and hosts with a switch between."""

import os
import selectors
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from service import wait_for


class Proxy:
    """Passes TCP connections on to HOST:PORT, as the network between two machines does, or does not.

    `silent`: nothing passes either way and nobody is told, as behind a switch without power."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target, self.pairs, self.silent = (host, int(port)), [], False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.awake, self.waker = socket.socketpair()
        self.lock, self.ended, self.changed = threading.Lock(), False, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended:
            with selectors.DefaultSelector() as selector:
                selector.register(self.awake, selectors.EVENT_READ, self.wake)
                if not self.silent:
                    selector.register(self.listener, selectors.EVENT_READ, self.accept)
                with self.lock:
                    ways = [] if self.silent else [way for near, far in self.pairs for way in ((near, far), (far, near))]
                    for source, sink in ways:
                        if source.fileno() >= 0 and sink.fileno() >= 0:
                            selector.register(source, selectors.EVENT_READ, lambda a=source, b=sink: self.move(a, b))
                self.changed = False
                while not self.changed:
                    for key, _ in selector.select():
                        key.data()

    def wake(self):
        self.awake.recv(100)
        self.changed = True

    def change(self):
        self.waker.send(b"x")

    def accept(self):
        self.changed = True
        near, _ = self.listener.accept()
        try:
            far = socket.create_connection(self.target, timeout=5)
        except OSError:
            near.close()
            return
        with self.lock:
            self.pairs.append((near, far))

    def move(self, source, sink):
        if source.fileno() < 0 or sink.fileno() < 0:  # of events that came together
            return
        try:
            data = source.recv(1 << 16)
            if data:
                sink.sendall(data)
                return
        except OSError:
            pass
        with self.lock:
            self.pairs = [pair for pair in self.pairs if source not in pair]
        source.close(), sink.close()
        self.changed = True

    def cut(self):
        self.silent = True
        self.change()

    def heal(self):
        self.silent = False
        self.change()

    def lose_callers(self):
        """Who called loses its connections; the target is told nothing, as where a host between them forgets."""
        with self.lock:
            kept, self.pairs = self.pairs, []
        for near, _ in kept:
            near.close()
        self.change()
        return [far for _, far in kept]  # open as long as the caller keeps them

    def close(self):
        self.ended = True
        self.change()
        self.thread.join()
        self.listener.close()
        for near, far in self.pairs:
            near.close(), far.close()


@pytest.fixture
def proxy():
    """proxy("HOST:PORT") -> Proxy."""
    made = []

    def make(target):
        made.append(Proxy(target))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Hosts:
    """Hosts 0 to count - 1 of a network of their own, with IPv4 or IPv6 alone: what runs on one reaches the others by a switch."""

    def __init__(self, count, kind):
        self.kind = kind
        self.keepers = []  # processes that are there so that a network is
        try:
            self.switch = self.make()
            self.enter(self.switch, "ip", "link", "add", "switch", "type", "bridge")
            self.enter(self.switch, "ip", "link", "set", "switch", "up")
            self.nets = [self.make() for _ in range(count)]
            for host in range(count):
                self.plug(host)
        except subprocess.CalledProcessError as problem:
            self.close()
            pytest.skip(f"no networks of their own: {problem.stderr.decode()}")

    def make(self):
        keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])  # ends with its parent's close()
        self.keepers.append(keeper)
        mine = os.readlink("/proc/self/ns/net")
        wait_for(lambda: keeper.poll() is not None or os.readlink(f"/proc/{keeper.pid}/ns/net") != mine, "no network")
        return keeper.pid  # of one that has ended nothing can be entered

    @staticmethod
    def inside(net):
        return ("nsenter", f"--net=/proc/{net}/ns/net")

    def enter(self, net, *words):
        return subprocess.run([*self.inside(net), *map(str, words)], check=True, capture_output=True)

    def plug(self, host):
        net = self.nets[host]
        self.enter(self.switch, "ip", "link", "add", f"port{host}", "type", "veth", "peer", "name", "eth0", "netns", net)
        self.enter(self.switch, "ip", "link", "set", f"port{host}", "master", "switch", "up")
        self.enter(net, "ip", "addr", "add", self.address(host).strip("[]") + "/24", "dev", "eth0", *(["nodad"] if self.kind == "IPv6" else []))
        self.enter(net, "ip", "link", "set", "eth0", "up")
        self.enter(net, "ip", "link", "set", "lo", "up")

    def address(self, host):
        return f"10.99.0.{host + 1}" if self.kind == "IPv4" else f"[fd00:99::{host + 1}]"

    def prefix(self, host):
        """What starts a program there."""
        return self.inside(self.nets[host])

    def cut(self, host):
        """Nothing reaches it, and nothing that it sends arrives: nobody is told."""
        self.enter(self.switch, "ip", "link", "set", f"port{host}", "nomaster")

    def heal(self, host):
        self.enter(self.switch, "ip", "link", "set", f"port{host}", "master", "switch")

    def spoil(self, host, loss, rate):
        """Of what comes to it such a share is lost, and what it sends leaves at `rate` (tc's words), so that it comes late."""
        self.enter(self.nets[host], "iptables", "-A", "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", loss,
                   "-j", "DROP")
        self.enter(self.nets[host], "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "16k", "latency", "500ms")

    def lost(self, host):
        """How many packets were lost since it was spoilt."""
        return int(self.enter(self.nets[host], "iptables", "-L", "INPUT", "-n", "-v", "-x").stdout.decode().splitlines()[2].split()[0])

    def mend(self, host):
        self.enter(self.nets[host], "iptables", "-F", "INPUT")
        self.enter(self.nets[host], "tc", "qdisc", "del", "dev", "eth0", "root")

    def replace(self, host):
        """Another machine takes its place, with the same address: what the first knew of connections is gone. Nothing may run there."""
        self.cut(host)
        self.enter(self.switch, "ip", "link", "del", f"port{host}")
        self.nets[host] = self.make()
        self.plug(host)

    def close(self):
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()


@pytest.fixture
def hosts():
    """hosts(count, kind) -> Hosts."""
    made = []

    def make(count, kind):
        made.append(Hosts(count, kind))
        return made[-1]

    yield make
    for one in made:
        one.close()


def shared_mappings(one):
    """How many memories a process shares with parameter servers or workers."""
    return Path(f"/proc/{one.process.pid}/maps").read_text(encoding="ascii", errors="replace").count("memfd:tombola-exchange")
