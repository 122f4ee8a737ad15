# SPDX-License-Identifier: MIT
"""How the sampler starts, refuses to start, and stops."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from conftest import PATIENCE_S, SANITIZED, Program, environment, free_port, program, run, run_fails

STORE = ("--store", "range:1000?labels=10")
ANY = ("--listen", "127.0.0.1:0")


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, says", [
    ((), "--store"),
    (("--store", "range:10", "--frame", "x.frame"), "one of --store"),
    ((*STORE, "--sede", "1"), "seed"),
    ((*STORE, "--seed", "-1"), "seed"),
    ((*STORE, "--seed", "9223372036854775808"), "seed"),
    ((*STORE, "--seed", "1", "--seed", "2"), "seed"),
    ((*STORE, "--epochs", "-1"), "epochs"),
    ((*STORE, "--epochs", "4611686018427387902"), "epochs"),
    ((*STORE, "--tail", "cut"), "keep"),
    ((*STORE, "--design", "fair"), "proportional"),
    ((*STORE, "--max-size", "0"), "max"),
    ((*STORE, "--rows", "5:5"), "A:B"),
    ((*STORE, "--rows", "-1:5"), "A:B"),
    ((*STORE, "--rows", "5"), "A:B"),
    ((*STORE, "--rows", "0:1001"), "1000"),
    ((*STORE, "--listen", "127.0.0.1"), "listen"),
    ((*STORE, "--listen", "127.0.0.1:65536"), "listen"),
    ((*STORE, "--listen", "no..host:80"), "no..host:80: cannot find the address"),
    ((*STORE, "--listen", "192.0.2.1:0", "--allow-anonymous"), "192.0.2.1"),
    ((*STORE, "--listen", "0.0.0.0:0"), "--allow-anonymous"),
    ((*STORE, "--listen", "[::]:0"), "--token-file"),
    ((*STORE, "--lease", "0"), "lease"),
    ((*STORE, "extra"), "extra"),
    (("--store", "range:0"), 'range:"0"'),
    (("--store", "range:x"), 'range:"x"'),
    (("--store", "csv:/nowhere/x.csv"), "/nowhere/x.csv"),
    (("--store", "/nowhere/x.db"), "/nowhere/x.db"),
    (("--store", "ftp:x"), "ftp"),
    (("--frame", "/nowhere/x.frame"), "/nowhere/x.frame"),
])
def test_bad_usage_exits_2_with_a_message(arguments, says):
    listen = () if "--listen" in arguments else ANY
    done = run_fails("sampler", "serve", *listen, *arguments, says=says)
    assert done.stdout == ""


@pytest.mark.parametrize("content, says", [
    ("", ""), ("x,label\n", ""), ("x,label\n1,2\n1\n", "3"), ("x,label\n1,2\n1,2,3\n", "3"),
    ("x,label\n1,2\n1,3\n\n4\n", "5"), ("id,label\n7,1\n8,1\n7,2\n", "7"), ("id,label\n-1,1\n", "-1"),
    ("id,label\nabc,1\n", "abc"), ("id,label\n9223372036854775808,1\n", "9223372036854775808"),
])
def test_bad_stores_exit_2_and_name_the_place(tmp_path, content, says):
    path = tmp_path / "train.csv"
    path.write_text(content)
    uri = f"csv:{path}?id=id" if content.startswith("id") else f"csv:{path}"
    done = run_fails("sampler", "serve", *ANY, "--store", uri, "--state", tmp_path / "state", says=["train.csv", says])
    assert done.stdout == ""
    assert not (tmp_path / "state/position").exists()


def test_frames_that_are_not_whole(tmp_path, sampler):
    frame = tmp_path / "x.frame"
    run("sampler", "build", *STORE, "--out", frame)
    whole = frame.read_bytes()
    assert sampler("--frame", frame, "--seed", 1).batch("size=1000") == sampler(*STORE, "--seed", 1).batch("size=1000")
    for content in (b"", b"hello", whole[: len(whole) // 2], whole[:-1], b"X" + whole[1:], whole + b"x"):
        frame.write_bytes(content)
        run_fails("sampler", "serve", *ANY, "--frame", frame, says="x.frame")


def test_a_port_in_use_exits_1(sampler):
    server = sampler(*STORE)
    done = run_fails("sampler", "serve", *STORE, "--listen", f"127.0.0.1:{server.port}", status=1, says=["in use", str(server.port)])
    assert done.stdout == ""


def test_a_port_that_needs_root():
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text(encoding="ascii")) <= 1:
        pytest.skip("everybody may listen on port 1 here")
    without = ["setpriv", "--bounding-set=-net_bind_service"] if os.geteuid() == 0 else []
    words = [*without, program("sampler"), "serve", *map(str, STORE), "--listen", "127.0.0.1:1"]
    refused = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=PATIENCE_S, check=False)
    assert refused.returncode == 1 and refused.stdout == ""
    assert "127.0.0.1:1: Permission denied" in refused.stderr


# ---- starting -----------------------------------------------------------------------------------


def test_one_line_on_standard_output(start):
    program = start("sampler", "serve", *STORE, *ANY)
    line = program.read_line()
    assert re.fullmatch(r"listening on http://127\.0\.0\.1:[1-9]\d*\n", line)
    program.terminate()
    rest, _ = program.process.communicate(timeout=PATIENCE_S)
    assert rest == b""
    assert program.process.returncode == 0


def test_the_seed_that_was_drawn_repeats_the_order(sampler):
    first = sampler(*STORE)
    seed = int(first.wait_for_log(r"seed (\d+) was drawn").group(1))
    assert first.get("/streams/default").json["seed"] == seed
    second = sampler(*STORE)
    assert second.get("/streams/default").json["seed"] != seed
    again = sampler(*STORE, "--seed", seed)
    assert again.batch("size=1000") == first.batch("size=1000") != second.batch("size=1000")


def test_options_from_environment_and_config(sampler, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"seed": 5, "tail": "span", "epochs": 2}))
    server = sampler("--config", tmp_path / "config.json", "--epochs", 3,
                     env={"TOMBOLA_STORE": "range:77", "TOMBOLA_SEED": "6"})
    stream = server.get("/streams/default").json
    assert (stream["units"], stream["seed"], stream["tail"], stream["epochs"]) == (77, 6, "span", 3)


@pytest.mark.parametrize("host, shown", [("localhost", "localhost"), ("0.0.0.0", "0.0.0.0"), ("[::1]", "[::1]")])
def test_other_addresses(sampler, host, shown):
    if host == "[::1]":
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    server = sampler(*STORE, "--allow-anonymous", listen=f"{host}:0")
    assert server.url.startswith(f"http://{shown}:")
    server.host = "::1" if host == "[::1]" else "127.0.0.1"
    assert server.batch("size=3")["size"] == 3


@pytest.mark.threads
def test_not_ready_until_it_can_draw(tmp_path):
    """While the frame is built /healthz is 200 and everything else 503; never anything else."""
    path = tmp_path / "train.csv"
    with open(path, "w", encoding="ascii") as out:
        out.write("x,label\n")
        out.writelines(f"{row},{row % 10}\n" for row in range(300000))
    port = free_port()
    program = Program("sampler", "serve", "--store", f"csv:{path}", "--listen", f"127.0.0.1:{port}", folder=tmp_path)
    seen = set()
    deadline = time.monotonic() + PATIENCE_S
    try:
        while ("/readyz", 200) not in seen:
            assert time.monotonic() < deadline and program.process.poll() is None, program.stderr
            for target in ("/healthz", "/readyz", "/batch?size=1&index=0", "/labels"):
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
                    connection.request("GET", target)
                    answer = connection.getresponse()
                    body = answer.read()
                    seen.add((target, answer.status))
                    if answer.status == 503:
                        assert answer.getheader("Retry-After") == "1"
                        assert answer.getheader("Content-Type") == "application/problem+json"
                        assert target == "/readyz" or b"its frame is not there yet" in body
                except ConnectionRefusedError:
                    pass  # it does not listen yet
                finally:
                    connection.close()
        assert {status for target, status in seen if target == "/healthz"} == {200}
        assert {status for target, status in seen} <= {200, 503}
    finally:
        program.finish()


# ---- stopping -----------------------------------------------------------------------------------


@pytest.mark.threads
def test_a_signal_while_it_starts(start, tmp_path):
    path = tmp_path / "train.csv"
    with open(path, "w", encoding="ascii") as out:
        out.write("x,label\n")
        out.writelines(f"{row},{row % 10}\n" for row in range(500000))
    for pause in (0.0, 0.02, 0.05, 0.1):
        program = start("sampler", "serve", "--store", f"csv:{path}", *ANY, "--log-level", "debug")
        time.sleep(pause)
        program.stop()


@pytest.mark.threads
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(sampler, number):
    server = sampler(*STORE)
    server.batch("size=3")
    server.stop(number)


def draw_status(server):
    """The status of a draw on a connection of its own."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
    connection.request("GET", "/batch?size=1")
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.threads
def test_signals_are_the_main_thread_s(sampler, tmp_path):
    """ThreadSanitizer defers a handler until its thread calls something: of one that waits for ever, the signal is lost."""
    server = sampler("--store", "range:100?labels=4", "--state", tmp_path / "state", "--seed", 1)
    server.batch("size=10&worker=w0&seq=0"), server.get("/live.json")
    pid, names = server.process.pid, []
    for task in os.listdir(f"/proc/{pid}/task"):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/task/{task}/status").read_text().splitlines() if ":\t" in line)
        blocked = int(status["SigBlk"], 16)
        signals = [number for number in (signal.SIGTERM, signal.SIGINT) if not blocked >> (number - 1) & 1]
        assert bool(signals) == (int(task) == pid), f"the thread {status['Name']} gets {signals}"
        names.append(status["Name"].strip())
    assert {"journal", "live page", "labels", "thread pool", "housekeeper", "http", "accept"} <= set(names)


def test_draining(sampler):
    """What was asked is answered to its last byte; probes hear 503; soon nobody draws any more."""
    server = sampler("--store", "range:2000000?labels=10")
    slow = socket.create_connection((server.host, server.port))
    kept = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
    kept.request("GET", "/readyz")
    assert kept.getresponse().read() == b"ok\n"
    slow.sendall(b"GET /batch?size=1000000 HTTP/1.1\r\nHost: x\r\n\r\n")
    head = slow.recv(1000)  # the answer has begun, and does not fit into the sockets
    assert head.startswith(b"HTTP/1.1 200")
    server.terminate()
    server.wait_for_log("stopping")
    deadline = time.monotonic() + PATIENCE_S
    while draw_status(server) != 503:
        assert time.monotonic() < deadline
    kept.request("GET", "/readyz")
    answer = kept.getresponse()
    assert answer.status == 503 and answer.getheader("Connection") == "close"
    answer.read()
    while got := slow.recv(1 << 20):
        head += got
    slow.close()
    body = head.split(b"\r\n\r\n", 1)[1]
    assert len(set(json.loads(body)["ids"])) == 1000000
    assert server.wait() == 0


@pytest.mark.threads
def test_idle_connections_do_not_hold_it(sampler):
    server = sampler(*STORE)
    idle = [socket.create_connection((server.host, server.port)) for _ in range(20)]
    for connection in idle[:10]:
        connection.sendall(b"GET /batch HTTP/1.1\r\n")
    server.batch("size=3")
    server.stop()
    for connection in idle:
        connection.close()


@pytest.mark.threads
def test_after_sigterm_it_answers_on_and_says_that_it_is_not_ready(sampler):
    server = sampler("--store", "range:100", "--drain", 600)
    server.terminate()
    server.wait_for_log("stopping")
    answer = server.get("/readyz")
    assert answer.status == 503 and answer.headers["connection"] == "close"
    assert server.batch("size=1")["first"] == 0
    server.stop()  # a second signal: at once


@pytest.mark.plain
@pytest.mark.skipif(SANITIZED, reason="a sanitizer opens files of its own")
def test_short_of_descriptors_it_says_which_step_failed(tmp_path):
    """One descriptor more each time: each step of the start fails once, until there are enough. The limit itself is no lower
    than what is needed; the others are open."""
    said = ""
    for free in range(1, 200):
        use_up = 'for ((i = 3; i < $0; i++)); do eval "exec $i</dev/null"; done; exec "$@"'
        one = Program("sampler", "serve", *STORE, *ANY, folder=tmp_path,
                      prefix=("prlimit", "--nofile=256", "bash", "-c", use_up, 256 - free))
        if one.read_line().startswith("listening on"):
            break
        assert one.wait() == 1, one.stderr
        said += one.stderr
        one.finish()
    one.stop()
    for step in ("cannot start the HTTP server", "cannot wait for requests", "cannot start to accept connections"):
        assert step in said, said
