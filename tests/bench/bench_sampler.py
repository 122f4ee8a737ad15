#!/usr/bin/python3
"""GET /batch?size=100: requests a second beside nginx (the same bytes from a file) and Redis LPOP."""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import bench

SIZE = 100
SECONDS = 3
ROUNDS = 3
CONNECTIONS = (16, 64)
REDIS_DRAWS = 30000

NGINX = """{user}daemon off; worker_processes {workers}; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
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


def redis_draws(folder, connections):
    """LPOP ids 100, requests a second."""
    with redis(folder / f"redis-{connections}") as port:
        fill_list(port, REDIS_DRAWS * SIZE)
        text = subprocess.run(
            ["redis-benchmark", "-p", str(port), "-c", str(connections), "-n", str(REDIS_DRAWS), "--csv",
             "LPOP", "ids", str(SIZE)], check=True, capture_output=True, text=True).stdout
    return float(text.splitlines()[-1].split('","')[1])


def best_of(urls, connections):
    """{name: (rate, p50, p99)}: the best of some rounds, all names in turn in each."""
    best = {}
    for _ in range(ROUNDS):
        for name, url in urls.items():
            got = bench.wrk(url, connections, SECONDS)
            if name not in best or got[0] > best[name][0]:
                best[name] = got
    return best


def kinds(folder):
    """name -> options of the sampler: the frame and what a draw costs with it."""
    range_store = ("--store", "range:60000?labels=10", "--seed", "1")
    return {
        "Tombola, 60,000 units, 10 labels": range_store,
        "Tombola, 10^9 units, 10 labels": ("--store", "range:1000000000?labels=10", "--seed", "1"),
        "Tombola, srs": (*range_store, "--design", "srs"),
        "Tombola, --state, process": (*range_store, "--state", str(folder / "process"), "--durability", "process"),
        "Tombola, --state, fsync": (*range_store, "--state", str(folder / "fsync")),
    }


def main():
    rows = []
    with bench.folder() as folder, contextlib.ExitStack() as servers:
        urls = {}
        for name, options in kinds(folder).items():
            urls[name] = servers.enter_context(bench.sampler(*options)) + f"/batch?size={SIZE}"
        first = next(iter(urls.values()))
        with urllib.request.urlopen(first + "&index=3") as answer:
            body = answer.read()
        urls["nginx, the same bytes from a file"] = servers.enter_context(nginx(folder / "nginx", body))
        for connections in CONNECTIONS:
            best = best_of(urls, connections)
            peer = best["nginx, the same bytes from a file"][0]
            for name, (rate, p50, p99) in best.items():
                rows.append([name, connections, rate, p50, p99, rate / peer])
            if shutil.which("redis-benchmark"):
                rate = redis_draws(folder, connections)
                rows.append(["Redis, LPOP ids 100", connections, rate, None, None, rate / peer])
    bench.table(f"GET /batch?size={SIZE}, {len(body)} bytes",
                ["server", "connections", "requests/s", "p50 ms", "p99 ms", "of nginx"], rows,
                [f"wrk, one thread, {SECONDS} s, the best of {ROUNDS} rounds taken in turn; redis-benchmark for Redis."])


if __name__ == "__main__":
    main()
