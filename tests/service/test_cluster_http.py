# SPDX-License-Identifier: MIT
"""What parameter servers say over HTTP, on the port of their data path."""

import hashlib
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once
from conftest import PATIENCE_S, wait_for
from test_http_access import make_certificate
from test_trainer import served, store  # noqa: F401, fixtures

STEPS = 300


@pytest.fixture
def cluster(start, served, store, tmp_path):  # noqa: F811
    return lambda **chosen: Cluster(start, served, store, tmp_path / "run", **{"train_steps": STEPS, **ADDITIVE, **chosen})


def get(address, path, token=None, certificate=None):
    """(status, body), or None while nobody listens. `certificate`: of those who are trusted, for HTTPS."""
    scheme, context = ("https", ssl.create_default_context(cafile=certificate)) if certificate else ("http", None)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{scheme}://{address.replace('localhost', '127.0.0.1')}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return None


def status(address):
    return json.loads(get(address, "/status")[1])


def figures(address):
    lines = get(address, "/metrics")[1].splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}


@pytest.mark.parametrize("method", ["TRACE", "TOMBOLA", "PUT"])
def test_a_method_that_begins_like_a_frame_is_one_of_http(cluster, method):
    trained = cluster(train_steps=10**9)
    trained.start_server(0)
    wait_for(lambda: get(trained.servers[0], "/healthz"), "no HTTP")
    host, port = trained.servers[0].split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(f"{method} /status HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 405 ")


def test_a_server_is_alive_before_it_is_ready(cluster):
    trained = cluster(train_steps=10**9, save_secs=0.5)
    first, second = trained.servers
    trained.start_server(0)
    assert wait_for(lambda: get(first, "/healthz"), "no HTTP") == (200, "ok\n")
    code, problem = get(first, "/readyz")
    assert code == 503 and "waits for other servers" in json.loads(problem)["detail"]
    alone = status(first)
    assert (alone["phase"], alone["worker_count"], alone["workers"], alone["global_step"]) == ("waiting", 0, [], 0)
    assert alone["waits_for"] == "parameter server 1"
    trained.start_server(1)
    wait_for(lambda: status(first)["waits_for"] == "a worker", "nobody is missing")
    trained.start_worker(0)
    trained.start_worker(1)
    for address in trained.servers:
        wait_for(lambda: get(address, "/readyz") == (200, "ok\n"), "it is never ready")
    wait_for(lambda: [one["pushes"] > 0 for one in status(first)["workers"]] == [True, True], "a worker trains nothing")
    wait_for(lambda: status(second)["pushes"] > 20, "nothing is trained")
    both = [status(address) for address in trained.servers]
    assert ["waits_for" in one for one in both] == [False, False]
    assert both[0]["generation"] == both[1]["generation"] != "0" * 16
    assert [one["server"] for one in both] == [0, 1] and both[0]["servers"] == 2
    assert both[0]["train_steps"] == 10**9 and "train_steps" not in both[1]
    assert both[0]["parameters"] + both[1]["parameters"] == 7850
    workers = sorted(both[0]["workers"], key=lambda one: one["name"])
    assert [one["name"].split(" (")[0] for one in workers] == ["worker 0", "worker 1"]
    assert [one["shared_memory"] for one in workers] == [True, False]
    assert sum(one["pushes"] for one in workers) == both[0]["pushes"]
    assert "cut_pause_seconds" not in both[1] and "tombola_ps_cut_pause_seconds" not in figures(second)
    wait_for(lambda: 0 < figures(first).get("tombola_ps_cut_pause_seconds", 0) < PATIENCE_S, "no cut")
    assert 0 < status(first)["cut_pause_seconds"] < PATIENCE_S
    trained.workers[1].kill()
    wait_for(lambda: status(first)["worker_count"] == 1, "a dead worker is still named")


def test_figures_count_what_was_trained(cluster, served, store, tmp_path):  # noqa: F811
    trained = cluster(servers=1, train_steps=10**9)
    trained.start_all()
    address = trained.servers[0]
    wait_for(lambda: get(address, "/readyz") == (200, "ok\n"), "it is never ready")
    wait_for(lambda: figures(address)["tombola_ps_pushes_total"] > 50, "nothing is trained")
    wait_for(lambda: figures(address)["tombola_ps_workers"] == 2, "one of them never comes")
    found = figures(address)
    assert found["tombola_ps_pushes_total"] == found["tombola_ps_global_step"] <= status(address)["pushes"]
    assert found["tombola_ps_parameters"] == 7850
    assert found["tombola_ps_train_steps"] == 10**9 and found["tombola_ps_repeated_pushes_total"] == 0
    assert found['tombola_ps_requests_total{path="/metrics",status="200"}'] >= 1
    text = get(address, "/metrics")[1]
    for name in set(re.findall(r"^(tombola_ps_\w+?)(?:_bucket|_sum|_count)?[{ ]", text, re.MULTILINE)):
        assert f"# HELP {name} " in text or f"# HELP {name}_" in text, name


@pytest.mark.threads
def test_questions_change_nothing(cluster, served, store, tmp_path):  # noqa: F811
    """Hundreds of them, unfinished ones, beginnings of TLS and no HTTP at all, while each batch is learnt from once."""
    trained = cluster(train_steps=10**9, save_secs=0.2, batch_size=100)
    for index in range(2):
        trained.start_server(index)
    address = trained.servers[0]
    host, port = address.split(":")
    wait_for(lambda: get(address, "/healthz"), "no HTTP")
    slow = [socket.create_connection((host, int(port))) for _ in range(50)]
    for number, one in enumerate(slow):
        one.sendall((b"GET /status HT", b"\x16\x03\x01\x02\x00", b"\0" * 100, b"XOMBOLA1", b"G")[number % 5])
    for index in range(2):
        trained.start_worker(index)
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    for number in range(300):
        connection.request(("GET", "HEAD")[number % 2], ("/status", "/metrics", "/readyz")[number % 3])
        assert connection.getresponse().read() is not None
    trained.go_on()
    for one in slow:
        one.close()
    check_each_batch_once(trained.logdir, served, store, tmp_path, trained.end_soon(STEPS), batch_size=100)


def test_gradients_of_old_values_are_computed_again(cluster, served, store, tmp_path):  # noqa: F811
    """And none is lost or counted twice, whichever shard took it at first."""
    trained = cluster(servers=2, workers=3, staleness=0, train_steps=10**9, save_secs=0.2).start_all()
    trained.ps[0].wait_for_log("training goes on")
    for address in trained.servers:
        wait_for(lambda: status(address)["late_pushes"] > 0, "no gradient is of old values")
    trained.go_on()
    check_each_batch_once(trained.logdir, served, store, tmp_path, trained.end_soon(STEPS))


def test_values_that_are_young_enough_are_not_computed_again(cluster):
    """Young enough for a worker that waits for a processor while the other makes thousands of steps."""
    trained = cluster(servers=1, workers=2, staleness=10**8, train_steps=10**9).start_all()
    address = trained.servers[0]
    wait_for(lambda: get(address, "/readyz") == (200, "ok\n"), "it is never ready")
    wait_for(lambda: status(address)["pushes"] > 200 and status(address)["worker_count"] == 2, "nothing is trained")
    assert status(address)["late_pushes"] == 0


def test_staleness_is_of_asynchronous_training(cluster):
    refused = cluster(servers=1, staleness=1, sync=True).start_worker(0)
    assert refused.wait() == 2
    assert "--staleness is for asynchronous training" in refused.stderr


@pytest.mark.parametrize("method, path, code", [
    ("GET", "/nothing", 404), ("POST", "/status", 405), ("DELETE", "/metrics", 405), ("GET", "/status?x=1", 200),
    ("GET", "/" + "x" * 7000, 414)])
def test_what_there_is_not(cluster, method, path, code):
    trained = cluster(servers=1)
    trained.start_server(0)
    host, port = trained.servers[0].split(":")
    wait_for(lambda: get(trained.servers[0], "/healthz"), "no HTTP")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    connection.request(method, path)
    assert connection.getresponse().status == code


def test_the_chief_without_a_server_answers_too(cluster):
    trained = cluster(servers=0, train_steps=10**9).start_all()
    wait_for(lambda: get(trained.hosts[0], "/readyz") == (200, "ok\n"), "the chief's server is never ready")
    assert status(trained.hosts[0])["worker_count"] >= 1
    assert subprocess.run(["curl", "-sf", f"{trained.hosts[0]}/healthz"], capture_output=True, check=False).stdout == b"ok\n"


# ---- who may ask -------------------------------------------------------------------------------


def write_token(path, token, *others):
    """One that may read, as parameter servers want it; `others` are entries as the sampler wants them."""
    own = {"name": "ops", "sha256": hashlib.sha256(token.encode()).hexdigest(), "scopes": ["read"]}
    path.write_text(json.dumps({"tokens": [own, *others]}))
    return path


@pytest.mark.threads
def test_figures_are_for_who_has_a_token(cluster, served, store, tmp_path):  # noqa: F811
    """Probes need none, the training's own processes neither. The sampler's file is one, too."""
    tokens = write_token(tmp_path / "tokens.json", "first")
    trained = cluster(token_file=tokens)
    first = trained.servers[0]
    trained.start_server(0)
    trained.start_server(1)
    wait_for(lambda: get(first, "/healthz"), "no HTTP")
    assert get(first, "/readyz")[0] == 503
    for path in ("/status", "/metrics"):
        assert [get(first, path, token)[0] for token in (None, "second", "first")] == [401, 401, 200]
    draws = {"name": "team", "sha256": hashlib.sha256(b"third").hexdigest(), "scopes": ["draw", "admin"], "streams": ["train"]}
    write_token(tokens, "second", draws)
    trained.ps[0].process.send_signal(signal.SIGHUP)
    wait_for(lambda: get(first, "/status", "second")[0] == 200, "the new token is not taken")
    assert get(first, "/status", "first")[0] == 401
    assert get(first, "/status", "third")[0] == 403
    trained.start_worker(0)
    trained.start_worker(1)
    trained.wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


@pytest.mark.threads
def test_https_beside_the_data_path(cluster, served, store, tmp_path):  # noqa: F811
    certificate, key = make_certificate(tmp_path, "ps")
    trained = cluster(servers=1, tls_cert=certificate, tls_key=key)
    server = trained.servers[0]
    trained.start_server(0)
    wait_for(lambda: get(server, "/healthz", certificate=certificate) == (200, "ok\n"), "no HTTPS")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        plain = http.client.HTTPConnection("127.0.0.1", int(server.split(":")[1]), timeout=PATIENCE_S)
        plain.request("GET", "/healthz")
        plain.getresponse()
    assert json.loads(get(server, "/status", certificate=certificate)[1])["phase"] == "waiting"
    trained.start_worker(0)
    trained.start_worker(1)
    trained.wait()
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)


@pytest.mark.parametrize("given, says", [
    ({"token_file": "/nowhere/tokens.json"}, "/nowhere/tokens.json"), ({"tls_cert": "/nowhere/one.crt"}, "--tls-key FILE belong together"),
    ({"tls_cert": "/nowhere/one.crt", "tls_key": "/nowhere/one.key"}, "/nowhere/one")])
def test_files_that_are_not_there_refuse_the_start(cluster, given, says):
    server = cluster(**given).start_server(0)
    assert server.wait() == 2 and says in server.stderr
