# SPDX-License-Identifier: MIT
"""How long a draw takes while another client asks for something heavy, again and again.

One client draws from `default` (or the newest of many streams) every two milliseconds; another one sends the heavy
request in a loop. What both get on a machine with few processors is also the scheduler's doing, so the last columns
are those that the promise is about: the longest time that a thread held the streams' mutex meanwhile, in processor
time, and in which function (lock_holds.c, preloaded in a run of its own).
"""
import contextlib
import functools
import json
import multiprocessing
import os
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path

import bench
from bench import Sampler

HERE = Path(__file__).resolve().parent
SECONDS = bench.choose(4, 0.1)
PACE_S = 0.002
STREAMS = bench.choose(10000, 100)
WORKERS = bench.choose(100000, 1000)
COLLIDING = bench.choose(15000, 100)
LEASES = bench.choose(100000, 1000)
ACKED = bench.choose(500000, 1000)
UNITS = bench.choose(10**8, 10**5)
AT_ONCE = 512  # requests on the way while a scenario is prepared


# ---- HTTP, as bytes -----------------------------------------------------------------------------


def request(method, target, body=None):
    text = "" if body is None else body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode("ascii")


class Client:
    """A connection that is kept, and read as far as the responses say."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), bench.PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def receive(self):
        """Status and body."""
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            self.more()
        head = self.rest[:end].lower()
        at = head.find(b"content-length: ")
        whole = end + 4 + (int(head[at + 16:].split(b"\r\n", 1)[0]) if at >= 0 else 0)
        while len(self.rest) < whole:
            self.more()
        body, self.rest = self.rest[end + 4:whole], self.rest[whole:]
        return int(head[9:12]), body

    def more(self):
        got = self.socket.recv(1 << 20)
        if not got:
            raise ConnectionError("the sampler closed the connection")
        self.rest += got

    def ask(self, *words):
        """The body of a response of 2xx."""
        self.socket.sendall(request(*words))
        status, body = self.receive()
        assert status < 300, (words[:2], status, body[:300])
        return body

    def many(self, requests):
        """All of them are answered, AT_ONCE on the way; what they say does not matter."""
        requests = iter(requests)
        while chunk := [one for _, one in zip(range(AT_ONCE), requests)]:
            self.socket.sendall(b"".join(chunk))
            for _ in chunk:
                self.receive()


# ---- both clients -------------------------------------------------------------------------------


def asking(port, prepare, heavy, ready, go, stop):
    """The heavy client, a process of its own: prepares, then asks until `stop`."""
    client = Client(port)
    facts = prepare(client)
    ready.set()
    go.wait()
    while not stop.is_set():
        heavy(client, facts)


def probe(port, target):
    """Milliseconds that draws took, one every PACE_S."""
    client, draw, took = Client(port), request("GET", target), []
    at = begin = time.perf_counter()
    while at < begin + SECONDS:
        time.sleep(max(0.0, at - time.perf_counter()))
        sent = time.perf_counter()
        client.socket.sendall(draw)
        client.receive()
        took.append(1e3 * (time.perf_counter() - sent))
        at = max(at + PACE_S, time.perf_counter())
    return sorted(took)


def quantiles(took):
    return [statistics.median(took), took[int(len(took) * 0.99)], took[int(len(took) * 0.999)], took[-1]]


class Scenario:
    """What a heavy client prepares and does; options of the sampler; from which stream is drawn."""

    def __init__(self, name, prepare, heavy, *options, stream="default"):
        self.name, self.prepare, self.heavy, self.options, self.stream = name, prepare, heavy, options, stream

    def run(self, folder, preloaded=None):
        """Draws alone, and beside the heavy client; what was preloaded forgets what was before that."""
        with contextlib.ExitStack() as ends:
            options = [option.format(folder=folder) for option in self.options]
            if not {"--store", "--frame"} & set(options):
                options += ["--store", "range:60000?labels=10"]
            server = ends.enter_context(Sampler("--seed", "1", "--max-streams", STREAMS + 10, *options,
                                                environment=preloaded))
            port = int(server.url.rpartition(":")[2])
            events = [multiprocessing.Event() for _ in range(3)]
            ready, go, stop = events
            other = multiprocessing.Process(target=asking, args=(port, self.prepare, self.heavy, *events), daemon=True)
            other.start()
            ends.callback(other.kill)
            while not ready.wait(1):
                assert other.is_alive(), f"{self.name}: the heavy client ended"
            target = f"/batch?size=100&stream={self.stream}"
            alone = probe(port, target)
            if preloaded:
                os.kill(server.pid, signal.SIGUSR1)
            go.set()
            beside = probe(port, target)
            assert other.is_alive(), f"{self.name}: the heavy client ended"
            stop.set()
            other.join(bench.PATIENCE_S)
        return quantiles(alone), quantiles(beside)


# ---- how long the streams' mutex was held -------------------------------------------------------


def functions():
    """(offset, name) of the sampler's functions, ascending."""
    text = subprocess.run(["nm", "--defined-only", bench.SAMPLER], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in text.splitlines())
    return sorted((int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[1] in "tT")


def named(symbols, offset):
    return [name for at, name in symbols if at < offset][-1]


def longest_hold(file):
    """Microseconds of processor time, and the function: of the mutex that a draw takes."""
    if not file.exists():
        return [None, "the server did not end by itself"]
    symbols = functions()
    rows = [[int(word, 10 if i > 1 else 16) for i, word in enumerate(line.split())]
            for line in file.read_text(encoding="ascii").splitlines()]
    rows = [(named(symbols, offset), mutex, cpu_ns) for offset, mutex, _, cpu_ns, _ in rows]
    streams = {mutex for name, mutex, _ in rows if name.startswith("stream_draw")}
    cpu_ns, name = max(((cpu_ns, name.split(".")[0]) for name, mutex, cpu_ns in rows if mutex in streams),
                       default=(0, ""))
    return [cpu_ns / 1e3, name]


def compiled(folder, name, *options):
    program = folder / name.partition(".")[0]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", program, HERE / name, *options], check=True)
    return program


# ---- what is heavy ------------------------------------------------------------------------------


def nothing(_):
    return None


def lease(worker, seq, stream="default"):
    return request("GET", f"/batch?size=1&worker={worker}&seq={seq}&stream={stream}")


def again(*words):
    """The same request, whatever was prepared."""
    return lambda client, _: client.ask(*words)


def many_streams(client):
    for i in range(STREAMS):
        client.ask("POST", "/streams", {"name": f"s{i}"})


def many_workers(client):
    client.many(lease(f"w{i}", 0) for i in range(WORKERS))


def many_leases(client, stream="default"):
    client.many(lease("w", seq, stream) for seq in range(LEASES))


def colliding_workers(names, client):
    client.many(lease(name, 0) for name in names)
    return names


def draw_again(client, names):
    client.many(lease(name, 0) for name in names[-1000:])


def acks(count, distinct):
    """A body below 1 MiB: some seqs, then one of them again and again."""
    seqs = [*range(min(count, distinct)), *[0] * (count - distinct)]
    return {"worker": "w", "seqs": seqs}


def ack_and_lease(client, facts):
    """All that are leased, the first time; then those that are new."""
    first = facts.setdefault("next", 0)
    client.ask("POST", "/ack", {"worker": "w", "seqs": list(range(first, first + LEASES))})
    facts["next"] = first + LEASES
    client.many(lease("w", seq) for seq in range(first + LEASES, first + 2 * LEASES))


def leases_to_ack(client):
    many_leases(client)
    return {}


def release_and_lease(client, facts):
    client.ask("POST", "/release", {"worker": "w"})
    facts["next"] = first = facts.get("next", LEASES)
    client.many(lease("w", seq) for seq in range(first, first + LEASES))
    facts["next"] += LEASES


def repeating_stream(client):
    client.ask("POST", "/streams", {"name": "other", "design": "srs", "replacement": True, "position": UNITS - 1})


def split_stream(client, facts):
    client.ask("POST", "/streams", {"name": "split", "split": "train"})
    client.ask("DELETE", "/streams/split")


def open_token(client):
    """A checkpoint with as many gaps as a token may have, in another stream."""
    client.ask("POST", "/streams", {"name": "other"})
    many_leases(client, "other")
    client.ask("POST", "/ack", {"stream": "other", "worker": "w", "seqs": list(range(0, LEASES, 2))})
    return json.loads(client.ask("POST", "/streams/other/checkpoint"))["token"]


def restore(client, token):
    client.ask("POST", "/streams/other/restore", {"token": token})
    client.many(lease("w", seq, "other") for seq in range(1000))


def seek(client, facts):
    client.many(lease("w", seq, "other") for seq in range(facts["next"], facts["next"] + LEASES))
    facts["next"] += LEASES
    client.ask("POST", "/streams/other/seek", {"position": 0})


def other_stream(client):
    client.ask("POST", "/streams", {"name": "other"})
    return {"next": 0}


def delete_leased(client, _):
    client.ask("POST", "/streams", {"name": "gone"})
    client.many(lease(f"w{i % (LEASES // 10)}", i, "gone") for i in range(LEASES))
    client.ask("DELETE", "/streams/gone")


def expiring(client, facts):
    """All at one moment, more than a second after the last one was leased; then they are drawn."""
    client.many(lease("w", seq, "other") for seq in range(facts["next"], facts["next"] + LEASES))
    facts["next"] += LEASES
    time.sleep(1.2)
    client.many(request("GET", "/batch?size=1&stream=other") for _ in range(LEASES // 10))


def short_leases(client):
    client.ask("POST", "/streams", {"name": "other", "lease_s": 1})
    return {"next": 0}


def busy(client, _):
    client.many(request("GET", "/batch?size=1") for _ in range(20000))


def scenarios(names):
    where = "/where?id=5&stream=other&epoch=0"
    return [
        Scenario("nothing", nothing, lambda *_: time.sleep(0.1)),
        Scenario(f"GET /streams, {STREAMS:,} streams", many_streams, again("GET", "/streams"),
                 stream=f"s{STREAMS - 1}"),
        Scenario(f"draws by {COLLIDING:,} workers, names chosen", functools.partial(colliding_workers, names),
                 draw_again),
        Scenario(f"GET /live.json, {WORKERS:,} workers", many_workers, again("GET", "/live.json")),
        Scenario(f"GET /metrics, {STREAMS:,} streams", many_streams, again("GET", "/metrics")),
        Scenario(f"POST /ack of {ACKED:,}, acked already", many_leases,
                 again("POST", "/ack", acks(ACKED, min(LEASES, ACKED // 50)))),
        Scenario(f"POST /ack of {LEASES:,} leases", leases_to_ack, ack_and_lease),
        Scenario(f"POST /release of {LEASES:,} leases", leases_to_ack, release_and_lease),
        Scenario(f"{LEASES:,} leases expire at once", short_leases, expiring),
        Scenario(f"GET /where, {UNITS:,} units with replacement", repeating_stream, again("GET", where),
                 "--store", f"range:{UNITS}?labels=10"),
        Scenario(f"POST /streams, a split of {UNITS:,}", nothing, split_stream,
                 "--store", f"range:{UNITS}?labels=10", "--splits", "0.8,0.1,0.1"),
        Scenario(f"POST checkpoint, {LEASES:,} leases", lambda client: many_leases(client),
                 again("POST", "/streams/default/checkpoint")),
        Scenario(f"POST restore, {LEASES // 2:,} gaps", open_token, restore),
        Scenario(f"POST seek, {LEASES:,} leases", other_stream, seek),
        Scenario(f"DELETE, {LEASES:,} leases", nothing, delete_leased),
        Scenario(f"compaction, {WORKERS:,} workers", many_workers, busy, "--state", "{folder}/state", "--durability",
                 "process"),
    ]


def measure():
    only = os.environ.get("TOMBOLA_DELAY", "")  # of a scenario's name
    lines = []
    with bench.folder() as folder:
        library = compiled(folder, "lock_holds.c", "-shared", "-fPIC")
        names = subprocess.run([compiled(folder, "colliding_names.c", "-lxxhash"), str(COLLIDING)], capture_output=True,
                               text=True, check=True).stdout.split()
        for number, scenario in enumerate(one for one in scenarios(names) if only in one.name):
            (folder / f"{number}").mkdir()
            alone, beside = scenario.run(folder / f"{number}")
            held = folder / f"{number}" / "holds"
            (folder / f"{number}-held").mkdir()
            scenario.run(folder / f"{number}-held", {"LD_PRELOAD": library, "LOCK_HOLDS": held})
            lines.append([scenario.name, *alone, *beside, *longest_hold(held)])
    bench.table(f"A draw of 100 ids every {1e3 * PACE_S:g} ms, alone and beside another client", [
        "the other client", *[f"{name} ms" for name in ("p50", "p99", "p99.9", "max")],
        *[f"beside {name}" for name in ("p50", "p99", "p99.9", "max")], "longest hold us", "in"], lines, [
            "longest hold: of the streams' mutex, processor time of the thread that held it."])


if __name__ == "__main__":
    bench.main(measure, alone=True)
