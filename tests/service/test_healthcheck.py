# SPDX-License-Identifier: MIT
"""`healthcheck` of sampler and trainer: a probe's exit status and its reason, of servers in every state."""

import http.server
import signal
import socket
import threading

import pytest

from cluster_cases import ADDITIVE, Cluster
from conftest import free_port, run, run_fails, wait_for
from test_http_access import STORE, make_certificate, token_file
from test_trainer import served, store  # noqa: F401, fixtures

PATIENT = ("--timeout", 300)  # of a loaded machine


def healthy(name, *arguments, **more):
    done = run(name, "healthcheck", *PATIENT, *arguments, **more)
    assert done.stdout == done.stderr == ""


def test_a_sampler_that_serves(sampler, tmp_path):
    server = sampler(*STORE, "--token-file", token_file(tmp_path / "tokens.json"))
    healthy("sampler", "--listen", f"127.0.0.1:{server.port}")
    healthy("sampler", "--live", "--url", f"http://localhost:{server.port}/")
    healthy("sampler", env={"TOMBOLA_LISTEN": f"127.0.0.1:{server.port}"})  # what `serve` takes it from, too
    healthy("sampler", "--listen", f"127.0.0.1:{server.port}", env={"TOMBOLA_TOKEN": "not\na\ntoken"})  # none is sent


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_who_listens_everywhere_is_asked_over_loopback(sampler, host):
    server = sampler(*STORE, "--allow-anonymous", listen=f"{host}:0")
    healthy("sampler", "--listen", f"{host}:{server.port}")


def test_who_listens_everywhere_of_a_machine_without_ipv6_is_asked_over_ipv4(sampler):
    server = sampler(*STORE, "--allow-anonymous", listen="0.0.0.0:0")  # as if --listen [::] had found no ::1
    healthy("sampler", "--listen", f"[::]:{server.port}")


def test_a_sampler_that_drains_lives_and_is_not_ready(sampler):
    server = sampler(*STORE, "--drain", 600)
    address = f"127.0.0.1:{server.port}"
    server.signal(signal.SIGTERM)
    wait_for(lambda: server.get("/readyz").status == 503, "it does not drain")
    run_fails("sampler", "healthcheck", *PATIENT, "--listen", address, status=1,
              says=[f"http://{address}/readyz: answered 503: the server is stopping"])
    healthy("sampler", "--live", "--listen", address)
    server.signal(signal.SIGTERM)


def test_nobody_there():
    done = run_fails("trainer", "healthcheck", "--listen", f"127.0.0.1:{free_port()}", *PATIENT, status=1, says=["(1 try)", "/readyz"])
    assert "trying again" not in done.stderr


def test_somebody_who_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        run_fails("sampler", "healthcheck", "--timeout", 0.05, "--listen", f"127.0.0.1:{port}", status=1, says="no answer in")


def test_another_kind_of_server():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            run_fails("sampler", "healthcheck", *PATIENT, "--listen", f"127.0.0.1:{other.server_port}", status=1, says="/readyz: answered 404")
        finally:
            other.shutdown()
            thread.join()


def test_https(sampler, tmp_path):
    certificate, key = make_certificate(tmp_path, "cert")
    server = sampler(*STORE, "--tls-cert", certificate, "--tls-key", key)
    url = f"https://127.0.0.1:{server.port}"
    healthy("sampler", "--url", url, env={"TOMBOLA_CA": str(certificate)})
    run_fails("sampler", "healthcheck", *PATIENT, "--url", url, status=1, says="certificate")
    run_fails("sampler", "healthcheck", *PATIENT, "--listen", f"127.0.0.1:{server.port}", status=1, says=["/readyz", "use https://"])


@pytest.mark.parametrize("words, says", [
    (["--listen", "127.0.0.1:0"], "port 0"), (["--listen", "127.0.0.1"], "--listen"), (["--listen", "x:y"], "--listen"),
    (["--url", "sampler"], "sampler"), (["--url", "ftp://sampler"], "ftp"), (["--timeout", "0"], "--timeout")])
def test_bad_usage(words, says):
    for name in ("sampler", "trainer"):
        run_fails(name, "healthcheck", *words, says=says)


def test_a_parameter_server(start, served, store, tmp_path):  # noqa: F811
    """Server 0 of two waits for the other: its process works, and it cannot serve."""
    cluster = Cluster(start, served, store, tmp_path / "run", train_steps=10**9, **ADDITIVE)
    cluster.start_server(0)
    port = cluster.servers[0].split(":")[1]
    wait_for(lambda: run("trainer", "healthcheck", *PATIENT, "--live", "--listen", f"127.0.0.1:{port}", status=None).returncode == 0, "no HTTP")
    run_fails("trainer", "healthcheck", *PATIENT, "--listen", f"127.0.0.1:{port}", status=1, says="answered 503: the parameter server waits")
    cluster.start_server(1)
    cluster.start_worker(0)
    wait_for(lambda: run("trainer", "healthcheck", *PATIENT, "--listen", f"127.0.0.1:{port}", status=None).returncode == 0, "never ready")
