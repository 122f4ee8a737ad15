# SPDX-License-Identifier: MIT
"""GET /batch beside nginx and Redis: requests a second, processor time a request, latency; and seconds to start.

Servers have a third of the processors, one at least, the client the others, with a thread on each. So it is known
who was the limit: whoever spends more of its processors on a request. Where that is the client, the server could do
more than the figure: there is no ratio then, and the servers' processor time is what compares them. (On a loopback
the sender pays for the receiver's half of TCP; alike for all.) The servers of a table are all up the whole time.
"""
import contextlib
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import time

import bench
from bench import Sample, Sampler

SIZE = 100
SECONDS = 1
CONNECTIONS = bench.choose((16, 64), (16,))
CROWD = bench.choose(1000, 100)
PIPELINED = 16  # requests that a connection sends at once
REDIS_BATCHES = bench.choose(60000, 5000)
RECOVERED_BATCHES = bench.choose(1000000, 10000)
UNITS = 10**9
SLOW = re.compile("10\\^9|fsync|leases|reuseport")  # left out by --quick, whose CI has seconds

SERVER_CPUS = bench.CPUS[:max(1, len(bench.CPUS) // 3)]
CLIENT_CPUS = bench.CPUS[len(SERVER_CPUS):] or bench.CPUS

NGINX = """{user}daemon off; worker_processes {workers}; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
    access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; open_file_cache max=16; keepalive_requests 1000000000;
    open_file_cache_valid 1h; server_tokens off; default_type application/json;
    client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
    server {{ listen 127.0.0.1:{ports[0]}; root {folder}/root; {location} }}
    server {{ listen 127.0.0.1:{ports[1]} reuseport; root {folder}/root; {location} }}
}}
"""

# Each request leases a batch and acks the one that was leased 16,384 before it, long answered. The
# first ones are not acked: wrk makes a request that it never sends.
LEASES = """
local seq, name = -1, "w" .. os.time() .. "-" .. math.random(1e9)
request = function()
    seq = seq + 1
    local path = "/batch?size=%d&worker=" .. name .. "&seq=" .. seq
    if seq >= 16384 + 64 then path = path .. "&ack=" .. (seq - 16384) end
    return wrk.format("GET", path)
end
"""
AT_ONCE = """
init = function()
    local one = wrk.format("GET")
    together = string.rep(one, %d)
end
request = function() return together end
"""


# ---- clients ------------------------------------------------------------------------------------


def loaded(server, command, read):
    """A client's run as a Sample: what `read` finds in its output, and whose processors were the limit."""
    for _ in range(10):  # on a machine that is busy enough, a client may get nothing done in its second
        before = bench.cpu_seconds(server)
        text, (_, client, _) = bench.measured(command, CLIENT_CPUS)
        spent = bench.cpu_seconds(server) - before
        rate, requests, facts = read(text)
        if requests:
            bound = client / len(CLIENT_CPUS) > spent / len(SERVER_CPUS)
            return Sample(rate, 1e6 * spent / requests, (1e6 * client / requests, *facts), bound)
    sys.exit(f"{command[0]} did no request at all")


def wrk(server, url, connections, script=None):
    command = ["wrk", "-t", len(CLIENT_CPUS), "-c", connections, "-d", f"{SECONDS}s", "--latency"]
    return loaded(server, [*command, *(["-s", script] if script else []), url], read_wrk)


def read_wrk(text):
    if refused := re.search(r"Non-2xx or 3xx responses: \d+", text):
        sys.exit(f"wrk: {refused[0]}")
    latency = [float(value) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]
               for value, unit in re.findall(r"^\s*(?:50|99)%\s+([\d.]+)(us|ms|s)", text, re.M)]
    requests = int(re.search(r"(\d+) requests in", text)[1])
    return float(re.search(r"Requests/sec:\s*([\d.]+)", text)[1]), requests, latency


def read_redis_benchmark(text):
    """Of the CSV: its head, and the one command."""
    head, values = (line.strip('"').split('","') for line in text.splitlines()[-2:])
    row = dict(zip(head, values))
    return float(row["rps"]), REDIS_BATCHES, (float(row["p50_latency_ms"]), float(row["p99_latency_ms"]))


# ---- servers ------------------------------------------------------------------------------------


class Nginx:
    """Serves `body` from a file, and `text` from its configuration, on two ports, the second with reuseport."""

    def __init__(self, folder, body, text=None):
        (folder / "root").mkdir(parents=True)
        (folder / "root" / "batch").write_bytes(body)
        location = f"location = /return {{ return 200 '{text}'; }}" if text else ""
        self.ports = (bench.free_port(), bench.free_port())
        (folder / "nginx.conf").write_text(NGINX.format(
            folder=folder, ports=self.ports, workers=len(SERVER_CPUS), location=location,
            user="user root; " if os.geteuid() == 0 else ""))  # the folder is ours alone
        self.pid = bench.start(["nginx", "-c", folder / "nginx.conf", "-e", folder / "error.log"], SERVER_CPUS).pid
        bench.wait_for_port(self.ports[1])

    def urls(self):
        """name -> URL of each way."""
        return {f"nginx, {what}{how}": f"http://127.0.0.1:{port}/{path}"
                for what, path in (("file", "batch"), ("return 200", "return"))
                for port, how in zip(self.ports, ("", ", reuseport"))}


class Redis:
    """A list of ids, or one whose elements are whole batches as text."""

    FILL = "redis.call('DEL', 'ids') for i = 1, ARGV[1] do redis.call('RPUSH', 'ids', unpack(ARGV, 2)) end"

    def __init__(self, folder, *options):
        self.port = bench.free_port()
        folder.mkdir()
        threads = ["--io-threads", len(SERVER_CPUS)] if len(SERVER_CPUS) > 1 else []
        self.pid = bench.start(["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--dir",
                                folder, *threads, *options], SERVER_CPUS, stdout=subprocess.DEVNULL).pid
        bench.wait_for_port(self.port)

    def draws(self, batch, connections, pipelined=1):
        """LPOP of all batches: of a list that has the elements of `batch` again and again."""
        bench.measured(["redis-cli", "-p", self.port, "EVAL", self.FILL, 0, REDIS_BATCHES, *batch])
        count = [len(batch)] if len(batch) > 1 else []
        threads = ["--threads", len(CLIENT_CPUS)] if len(CLIENT_CPUS) > 1 else []
        return loaded(self.pid, ["redis-benchmark", "-p", self.port, "-c", connections, "-n", REDIS_BATCHES, "--csv",
                                 "-P", pipelined, *threads, "LPOP", "ids", *count], read_redis_benchmark)


# ---- JSON batches of 100 ------------------------------------------------------------------------

RANGE = ("--store", "range:60000?labels=10", "--seed", "1", "--lease", "600")
COSTS = ["server CPU us", "client CPU us", "p50 ms", "p99 ms"]


def kinds(folder):
    """name -> options of the sampler: the frame, and what a draw costs with it."""
    def kept(how, where):
        return (*RANGE, "--state", folder / where, "--durability", how)

    return {
        "Tombola, no state": RANGE,
        "Tombola, 10^9 units, no state": ("--store", f"range:{UNITS}?labels=10", "--seed", "1"),
        "Tombola, --durability process": kept("process", "process"),
        "Tombola, --durability fsync": kept("fsync", "fsync"),
        "Tombola, leases and acks, process": kept("process", "leases"),
    }


class Contest:
    """All servers that serve batches of 100, until the end of `servers`."""

    def __init__(self, folder, servers):
        self.folder = folder
        (folder / "leases.lua").write_text(LEASES % SIZE)
        (folder / "at-once.lua").write_text(AT_ONCE % PIPELINED)
        ours = {name: servers.enter_context(Sampler(*options, cpus=SERVER_CPUS))
                for name, options in kinds(folder).items()}
        self.body = ours["Tombola, no state"].call("GET", f"/batch?size={SIZE}&index=3")
        self.text = self.body.decode("ascii").strip()
        nginx = Nginx(folder / "nginx", self.body, self.text)
        self.redis = Redis(folder / "redis")
        self.durable = Redis(folder / "aof", "--appendonly", "yes", "--appendfsync", "always")
        self.targets = {name: (server.pid, f"{server.url}/batch?size={SIZE}") for name, server in ours.items()}
        self.targets |= {name: (nginx.pid, url) for name, url in nginx.urls().items()}

    def measures(self, connections, pipelined):
        """name -> function. A script either leases or sends several requests at once."""
        for name, target in self.targets.items():
            script = "leases.lua" if "leases" in name else "at-once.lua" if pipelined > 1 else None
            if not (bench.QUICK and SLOW.search(name)) and not ("leases" in name and pipelined > 1):
                yield name, functools.partial(wrk, *target, connections, script and self.folder / script)
        ids = json.loads(self.body)["ids"]
        yield "Redis, LPOP ids 100", functools.partial(self.redis.draws, ids, connections, pipelined)
        yield "Redis, LPOP of a batch", functools.partial(self.redis.draws, [self.text], connections, pipelined)
        yield "the same, appendfsync always", functools.partial(self.durable.draws, [self.text], connections, pipelined)

    def compare(self, connections, pipelined=1, notes=()):
        how = f", each with {pipelined} requests on the way" if pipelined > 1 else ""
        results = bench.in_turn(dict(self.measures(connections, pipelined)))
        bench.table(f"GET /batch?size={SIZE}, {len(self.body)} bytes, {connections:,} connections{how}", [
            "server", "requests/s", "min .. max", *COSTS, "CPU ratio", "ratio"], bench.rows(results), notes)


def json_batches(folder):
    with contextlib.ExitStack() as servers:
        contest = Contest(folder, servers)
        for connections in CONNECTIONS:
            contest.compare(connections)
        contest.compare(CONNECTIONS[0], PIPELINED)
        contest.compare(CROWD, notes=[
            f"Client: wrk, for Redis redis-benchmark; {bench.ROUNDS} rounds of {SECONDS} s. Servers have processors "
            f"{SERVER_CPUS}, the client {CLIENT_CPUS}, with a thread or worker process on each.",
            "client-bound: this client, or that of the best peer, spent more of its processors on a request than the "
            "server did of its own. CPU ratio: the least processor time of a peer's server by that of ours.",
            "nginx and Redis, but for appendfsync always, keep nothing durable, and they do not shuffle."])


# ---- formats and sizes --------------------------------------------------------------------------


def formats(folder):
    """Ids a second, JSON and binary, beside nginx with the same bytes from a file."""
    lines = []
    with Sampler("--store", "range:100000000?labels=10", "--seed", "1", cpus=SERVER_CPUS) as server:
        for size, kind in itertools.product(bench.choose((1000, 10000, 100000), (1000,)), ("json", "binary")):
            target = f"/batch?size={size}&format={kind}"
            body = server.call("GET", f"{target}&index=3")
            nginx = Nginx(folder / f"nginx-{size}-{kind}", body)
            results = bench.in_turn({
                "Tombola": functools.partial(wrk, server.pid, server.url + target, 16),
                "nginx, the same bytes": functools.partial(wrk, nginx.pid, nginx.urls()["nginx, file, reuseport"], 16)})
            for batch, by, rate, *rest in bench.rows(results, [f"{kind}, {size:,} ids, {len(body):,} bytes"]):
                lines.append([batch, by, rate * size, rate, *rest])
    bench.table("Batches of many ids, 10^8 units, 16 connections", [
        "batch", "by", "ids/s", "requests/s", "min .. max", *COSTS, "CPU ratio", "ratio"], lines)


# ---- seconds ------------------------------------------------------------------------------------


def start_seconds(*options):
    """From the start of the process to its first batch; it then ends by kill -9."""
    server = Sampler(*options)
    server.call("GET", f"/batch?size={SIZE}")
    seconds = time.monotonic() - server.begin
    kill(server)
    return Sample(seconds)


def kill(server):
    server.connection.close()
    server.process.kill()
    server.process.wait()


def seek_seconds(server):
    """POST seek to batch 10^6 or more, and the first batch there."""
    server.call("POST", "/streams/default/seek", {"position": 0})
    begin = time.monotonic()
    server.call("POST", "/streams/default/seek", {"position": 10**8})
    server.call("GET", f"/batch?size={SIZE}")
    return Sample(time.monotonic() - begin)


def after_batches(folder, leases):
    """Options of a sampler that was killed with RECOVERED_BATCHES behind it, and the bytes that it kept."""
    state = folder / f"recover-{leases}"
    options = (*RANGE, "--state", state, "--durability", "process")
    server, drawn = Sampler(*options), 0
    while drawn < RECOVERED_BATCHES:
        drawn += SECONDS * wrk(server.pid, f"{server.url}/batch?size={SIZE}", 64,
                               folder / "leases.lua" if leases else None).value
    kept = sum(file.stat().st_size for file in state.iterdir())
    kill(server)
    return options, f"{kept / 1e6:.1f}"


def seconds(folder):
    billion = ("--store", f"range:{UNITS}?labels=10", "--seed", "1")
    drawn, drawn_kept = after_batches(folder, False)
    leased, leased_kept = after_batches(folder, True)
    with Sampler(*billion) as server:
        results = bench.in_turn({
            "start to first batch, 60,000 units": lambda: start_seconds(*RANGE),
            "start to first batch, 10^9 units": lambda: start_seconds(*billion),
            "seek to position 10^8 of 10^9 units, and a batch": lambda: seek_seconds(server),
            f"start after kill -9, {RECOVERED_BATCHES:,} batches drawn": lambda: start_seconds(*drawn),
            f"start after kill -9, {RECOVERED_BATCHES:,} leased and acked": lambda: start_seconds(*leased)})
    kept = ["-", "-", "-", drawn_kept, leased_kept]
    bench.table("Tombola: seconds", ["what", "s", "min .. max", "MB of state"], [
        [*row[:3], size] for row, size in zip(bench.rows(results), kept)])


def measure():
    with bench.folder() as folder:
        json_batches(folder)
        formats(folder)
        seconds(folder)


if __name__ == "__main__":
    bench.main(measure)
