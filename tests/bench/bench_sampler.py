#!/usr/bin/python3
"""GET /batch beside nginx (the same bytes from a file) and Redis LPOP: requests, ids, latency, seconds.

All servers of a table are up at the same time and are measured in turn, round by round; a figure is
the best and the median of the rounds. wrk's own processor time is watched: where it used up its
thread, the server may be faster than the figure, and the table says so.
"""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

import bench

SIZE = 100
SECONDS = 3
ROUNDS = 3
CONNECTIONS = (16, 64)
CROWD = 1000  # connections, for the 99th percentile
REDIS_DRAWS = 30000
RECOVERED_BATCHES = 1000000
BUSY = 0.97  # of a core: then wrk is the limit
NGINX_NAME = "nginx, the same bytes from a file"

NGINX = """{user}daemon off; worker_processes {workers}; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
    access_log off; sendfile on; tcp_nopush on; open_file_cache max=16; keepalive_requests 1000000000;
    default_type application/json;
    client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
    server {{ listen 127.0.0.1:{port}; root {folder}/root; }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port):
    deadline = time.monotonic() + 10
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > deadline:
            sys.exit(f"nothing listens on port {port}")
        time.sleep(0.02)


@contextlib.contextmanager
def nginx(folder, body):
    """nginx with two workers that serves `body` from a file; yields the URL."""
    port = free_port()
    user = "user root; " if os.geteuid() == 0 else ""  # the folder is ours alone
    (folder / "root").mkdir(parents=True)
    (folder / "root" / "batch").write_bytes(body)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, workers=2, user=user))
    process = bench.start(["nginx", "-c", folder / "nginx.conf", "-e", folder / "error.log"])
    wait_for_port(port)
    try:
        yield f"http://127.0.0.1:{port}/batch"
    finally:
        bench.stop(process)


@contextlib.contextmanager
def redis(folder):
    """Redis without persistence; yields the port."""
    port = free_port()
    folder.mkdir()
    process = bench.start(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                           "--dir", folder], stdout=subprocess.DEVNULL)
    wait_for_port(port)
    try:
        yield port
    finally:
        bench.stop(process)


def fill_list(port, ids):
    """RPUSH of `ids` ids, by the protocol's own bulk loader."""
    def command(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    step = 1000
    loader = subprocess.Popen(["redis-cli", "-p", str(port), "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    for first in range(0, ids, step):
        loader.stdin.write(command(b"RPUSH", b"ids", *(b"%d" % id for id in range(first, first + step))))
    loader.stdin.close()
    loader.wait()


def redis_draws(port, connections):
    """LPOP ids 100, requests a second."""
    fill_list(port, REDIS_DRAWS * SIZE)
    text = subprocess.run(
        ["redis-benchmark", "-p", str(port), "-c", str(connections), "-n", str(REDIS_DRAWS), "--csv",
         "LPOP", "ids", str(SIZE)], check=True, capture_output=True, text=True).stdout
    return float(text.splitlines()[-1].split('","')[1])


# Each request leases a batch and acks the one that was leased 16,384 before it, long answered. The
# first ones are not acked: wrk makes a request that it never sends.
LEASES = """
local seq, name = -1, "w" .. os.time() .. "-" .. math.random(1e9)
request = function()
    seq = seq + 1
    local path = "/batch?size={size}&worker=" .. name .. "&seq=" .. seq
    if seq >= 16384 + 64 then path = path .. "&ack=" .. (seq - 16384) end
    return wrk.format("GET", path)
end
"""


class Load:
    """What wrk measured once: rate a second, latencies in ms, its own share of its threads."""

    def __init__(self, url, connections, threads=1, script=None):
        command = ["wrk", "-t", str(threads), "-c", str(connections), "-d", f"{SECONDS}s", "--latency"]
        before = os.times()
        text = subprocess.run([*command, *(["-s", str(script)] if script else []), url],
                              check=True, capture_output=True, text=True).stdout
        after = os.times()
        refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        if refused:
            sys.exit(f"{url}: {refused.group(1)} answers were errors")
        self.rate = float(re.search(r"Requests/sec:\s*([\d.]+)", text).group(1))
        self.p50, self.p99 = (self.latency(text, percent) for percent in ("50", "99"))
        used = after.children_user + after.children_system - before.children_user - before.children_system
        self.busy = used / SECONDS / threads

    @staticmethod
    def latency(text, percent):
        value, unit = re.search(rf"^\s*{percent}%\s+([\d.]+)(us|ms|s)", text, re.M).groups()
        return float(value) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def in_turn(measures):
    """{name: [result of each round]}; every round measures each once."""
    results = {name: [] for name in measures}
    for _ in range(ROUNDS):
        for name, measure in measures.items():
            results[name].append(measure())
    return results


def load_rows(results, connections, scale=1, peer=NGINX_NAME):
    """Rows of a table: best and median rate, latencies of the median round, the ratio to the peer."""
    def best(loads):
        return max(load.rate for load in loads)

    rows = []
    for name, loads in results.items():
        typical = sorted(loads, key=lambda load: load.rate)[len(loads) // 2]
        limit = "wrk" if max(loads, key=lambda load: load.rate).busy > BUSY else ""
        rows.append([name, connections, best(loads) * scale, typical.rate * scale, typical.p50, typical.p99,
                     best(loads) / best(results[peer]), limit])
    return rows


# ---- JSON batches of 100 ------------------------------------------------------------------------


RANGE = ("--store", "range:60000?labels=10", "--seed", "1", "--lease", "600")


def kinds(folder):
    """name -> options of the sampler: the frame and what a draw costs with it."""
    def kept(how):
        return (*RANGE, "--state", str(folder / f"state-{how}"), "--durability", how)

    return {
        "Tombola, no state": RANGE,
        "Tombola, 10^9 units, no state": ("--store", "range:1000000000?labels=10", "--seed", "1"),
        "Tombola, --durability none": kept("none"),
        "Tombola, --durability process": kept("process"),
        "Tombola, --durability fsync": kept("fsync"),
        "Tombola, leases and acks, process": (*kept("process")[:-3], str(folder / "state-leases"), "--durability", "process"),
    }


def json_batches(folder):
    rows = []
    (folder / "leases.lua").write_text(LEASES.replace("{size}", str(SIZE)))
    with contextlib.ExitStack() as servers:
        urls = {name: servers.enter_context(bench.sampler(*options)) + f"/batch?size={SIZE}"
                for name, options in kinds(folder).items()}
        with urllib.request.urlopen(urls["Tombola, no state"] + "&index=3") as answer:
            body = answer.read()
        urls[NGINX_NAME] = servers.enter_context(nginx(folder / "nginx", body))
        port = servers.enter_context(redis(folder / "redis")) if shutil.which("redis-benchmark") else None
        for connections in CONNECTIONS:
            measures = {
                name: lambda name=name, url=url: Load(url, connections, script=folder / "leases.lua" if "leases" in name else None)
                for name, url in urls.items()}
            draws = []
            if port:
                measures["Redis"] = lambda: draws.append(redis_draws(port, connections))
            results = in_turn(measures)
            results.pop("Redis", None)
            rows += load_rows(results, connections)
            if port:
                rows.append(["Redis, LPOP ids 100", connections, max(draws), statistics.median(draws), None, None,
                             max(draws) / max(load.rate for load in results[NGINX_NAME]), ""])
        crowd = [name for name in urls if name in ("Tombola, no state", "Tombola, --durability process", NGINX_NAME)]
        results = in_turn({name: lambda name=name: Load(urls[name], CROWD) for name in crowd})
        rows += load_rows(results, CROWD)
    bench.table(f"GET /batch?size={SIZE}, {len(body)} bytes", [
        "server", "connections", "requests/s, best", "median", "p50 ms", "p99 ms", "of nginx", "limit"], rows,
        [f"wrk, one thread, {SECONDS} s, {ROUNDS} rounds in turn; redis-benchmark for Redis. `of nginx` compares the best rounds.",
         "limit wrk: wrk used up its thread in the best round; the server may do more."])


# ---- formats and sizes --------------------------------------------------------------------------


def formats(folder):
    """Ids a second, JSON and binary, and nginx with the same bytes of the largest."""
    rows = []
    with contextlib.ExitStack() as servers:
        url = servers.enter_context(bench.sampler("--store", "range:100000000?labels=10", "--seed", "1"))
        for size in (100, 1000, 10000, 100000):
            target = f"{url}/batch?size={size}&format="
            with urllib.request.urlopen(f"{target}binary&index=3") as answer:
                body = answer.read()
            name = f"nginx, the same {len(body):,} bytes"
            peer = servers.enter_context(nginx(folder / f"nginx-{size}", body))
            results = in_turn({
                f"JSON, size={size}": lambda target=target: Load(target + "json", 16),
                f"binary, size={size}": lambda target=target: Load(target + "binary", 16),
                name: lambda peer=peer: Load(peer, 16)})
            json_rate = max(load.rate for load in results[f"JSON, size={size}"])
            for row in load_rows(results, 16, size, name):
                rows.append([*row[:4], row[6], row[2] / size / json_rate, row[7]])
    bench.table("Ids a second by format, 10^8 units", [
        "format", "connections", "ids/s, best", "median", "of nginx", "of JSON", "limit"], rows)


# ---- seconds ------------------------------------------------------------------------------------


class Server:
    """A sampler that is killed and started again."""

    def __init__(self, *options):
        begin = time.monotonic()
        self.process = bench.start([bench.SAMPLER, "serve", "--listen", "127.0.0.1:0", *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://([^:]+):(\d+)", line)
        if not found:
            sys.exit(f"the sampler did not start (it printed {line!r})")
        self.url = found.group(0)
        self.connection = http.client.HTTPConnection(found.group(1), int(found.group(2)))
        self.call("GET", f"/batch?size={SIZE}")
        self.seconds = time.monotonic() - begin

    def call(self, method, target, body=None):
        self.connection.request(method, target, body=None if body is None else json.dumps(body))
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            sys.exit(f"{method} {target}: {answer.status} {text[:300]!r}")
        return json.loads(text)

    def kill(self):
        self.connection.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        bench.stop(self.process)


def best_start(*options):
    times = []
    for _ in range(ROUNDS):
        server = Server(*options)
        times.append(server.seconds)
        server.kill()
    return [min(times), statistics.median(times)]


def seek_seconds():
    """POST seek to batch 10^7 of 10^9 units, and the first batch there."""
    server, times = Server("--store", "range:1000000000?labels=10", "--seed", "1"), []
    for number in range(ROUNDS):
        server.call("POST", "/streams/default/seek", {"position": 0})
        begin = time.monotonic()
        server.call("POST", "/streams/default/seek", {"position": (10**7 + number) * SIZE})
        server.call("GET", f"/batch?size={SIZE}")
        times.append(time.monotonic() - begin)
    server.kill()
    return [min(times), statistics.median(times)]


def recovery_seconds(folder, leases):
    """Start to first batch after kill -9 with 10^6 batches behind it."""
    options = (*RANGE, "--state", str(folder / f"recover-{leases}"), "--durability", "process")
    server, script = Server(*options), folder / "leases.lua"
    drawn = 0
    while drawn < RECOVERED_BATCHES:
        drawn += Load(f"{server.url}/batch?size={SIZE}", 64, script=script if leases else None).rate * SECONDS
    kept = sum(file.stat().st_size for file in (folder / f"recover-{leases}").iterdir())
    server.kill()
    return [*best_start(*options), f"{kept / 1e6:.1f} MB of state"]


def seconds(folder):
    rows = [
        ["start to first batch, 60,000 units", *best_start(*RANGE), ""],
        ["start to first batch, 10^9 units", *best_start("--store", "range:1000000000?labels=10", "--seed", "1"), ""],
        ["seek to batch 10^7 of 10^9 units and draw it", *seek_seconds(), ""],
        [f"start after kill -9 with {RECOVERED_BATCHES:,} batches drawn", *recovery_seconds(folder, False)],
        [f"the same, {RECOVERED_BATCHES:,} leased and acked", *recovery_seconds(folder, True)],
    ]
    bench.table("Seconds", ["what", "s, best", "median", ""], rows)


def main():
    with bench.folder() as folder:
        json_batches(folder)
        formats(folder)
        seconds(folder)


if __name__ == "__main__":
    main()
