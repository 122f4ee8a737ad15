# SPDX-License-Identifier: MIT
"""What a worker says of itself over HTTP, with --status-listen: how far it is, and how long it waited for data."""

import json
import re
import signal
import socket

import pytest

from cluster_cases import ADDITIVE, Cluster, paced  # noqa: F401, fixture
from conftest import PATIENCE_S, free_port, wait_for
from test_cluster_http import figures, get, status, write_token
from test_http_access import make_certificate
from test_trainer import options, served, store, train_fails  # noqa: F401, fixtures

FREE = {"status_listen": "127.0.0.1:0"}


def address(worker):
    return worker.wait_for_log(r"status on https?://([\d.]+:\d+)")[1]


@pytest.fixture
def alone(start, store, tmp_path):  # noqa: F811
    """alone(sampler, option=value, ...) -> a trainer that trains for long."""
    return lambda server, **chosen: start("trainer", *options(server, store, tmp_path / "run", **{
        "train_steps": 10**9, "print_every": 0, "patience": PATIENCE_S, **FREE, **chosen}))


@pytest.mark.threads
def test_a_trainer_says_how_long_it_waited(alone, paced):  # noqa: F811
    one = alone(paced)
    where = address(one)
    assert wait_for(lambda: get(where, "/healthz"), "no HTTP") == (200, "ok\n")
    wait_for(lambda: get(where, "/readyz") == (200, "ok\n"), "it never trains")
    wait_for(lambda: status(where)["steps"] > 10, "it makes no steps")
    found = status(where)
    assert (found["role"], found["index"], found["phase"], found["train_steps"]) == ("worker", 0, "training", 10**9)
    assert found["rows"] >= 50 * found["steps"] and found["global_step"] >= found["steps"] > 10
    assert found["loss"] > 0 and found["paused_seconds"] > 0
    paced.signal(signal.SIGSTOP)
    wait_for(lambda: status(where)["waiting_seconds"] > 0.5, "it does not wait for a sampler that stands")

    def stands():
        """Its step, where it made none while it waited: it may have some batches yet."""
        first = figures(where)
        assert first["tombola_worker_waited_seconds_total"] >= 0.5
        wait_for(lambda: figures(where)["tombola_worker_waited_seconds_total"] > first["tombola_worker_waited_seconds_total"] + 0.5,
                 "what it waits for now does not count before it has come")
        return first["tombola_worker_steps_total"] if figures(where)["tombola_worker_steps_total"] == first["tombola_worker_steps_total"] else None

    step = wait_for(stands, "it goes on without a sampler")
    paced.signal(signal.SIGCONT)
    wait_for(lambda: figures(where)["tombola_worker_steps_total"] > step, "it does not go on")
    later = [figures(where)["tombola_worker_waited_seconds_total"] for _ in range(100)]
    assert later == sorted(later), "a counter fell"


def test_every_family_has_its_help(alone, served):  # noqa: F811
    where = address(alone(served))
    wait_for(lambda: "tombola_worker_loss" in figures(where), "no loss is known")
    found, text = figures(where), get(where, "/metrics")[1]
    assert found["tombola_worker_train_steps"] == 10**9 and found["tombola_worker_global_step"] > 0
    for name in set(re.findall(r"^(tombola_worker_\w+?)(?:_bucket|_sum|_count)?[{ ]", text, re.MULTILINE)):
        assert f"# HELP {name} " in text or f"# HELP {name}_" in text, name


def test_alone_it_lives_while_the_sampler_is_not_there(alone):
    """A probe would end it else, however patient it is. It has printed nothing yet."""
    one = alone(f"http://127.0.0.1:{free_port()}")
    one.wait_for_log("trying again")
    where = address(one)
    assert get(where, "/healthz") == (200, "ok\n") and get(where, "/readyz")[0] == 503
    assert status(where)["phase"] == "starting"
    one.stop(status=143)


def test_before_it_trains_it_lives_and_is_not_ready(start, store, tmp_path, served):  # noqa: F811
    """Its parameter server is not there yet."""
    trained = Cluster(start, served, store, tmp_path / "run", servers=1, workers=1, **ADDITIVE)
    where = address(trained.start_worker(0, **FREE))
    assert get(where, "/healthz") == (200, "ok\n")
    code, problem = get(where, "/readyz")
    assert code == 503 and "training has not begun" in json.loads(problem)["detail"]
    found = status(where)
    assert found["phase"] == "starting" and "global_step" not in found and "loss" not in found
    assert "tombola_worker_global_step" not in figures(where)


@pytest.mark.threads
def test_each_worker_of_a_cluster_has_its_own_figures(start, served, store, tmp_path):  # noqa: F811
    """Who may ask is said by the servers' file; a ps says that the option is not for it."""
    tokens = write_token(tmp_path / "tokens.json", "first")
    trained = Cluster(start, served, store, tmp_path / "run", servers=1, train_steps=10**9, token_file=tokens, **ADDITIVE)
    trained.start_server(0, **FREE).wait_for_log("--status-listen is for workers")
    where = [address(trained.start_worker(index, **FREE)) for index in range(2)]
    for path, code in (("/status", 401), ("/metrics", 401), ("/healthz", 200)):
        assert [get(one, path)[0] for one in where] == [code, code]
    wait_for(lambda: all(json.loads(get(one, "/status", "first")[1])["steps"] > 20 for one in where), "one does not train")
    write_token(tokens, "second")
    trained.workers[1].process.send_signal(signal.SIGHUP)
    wait_for(lambda: get(where[1], "/status", "second")[0] == 200, "the new token is not taken")
    assert get(where[0], "/status", "second")[0] == 401
    said = [json.loads(get(one, "/status", token)[1]) for one, token in zip(where, ("first", "second"))]
    assert [(one["role"], one["index"]) for one in said] == [("worker", 0), ("worker", 1)]


def test_https(alone, served, tmp_path):  # noqa: F811
    certificate, key = make_certificate(tmp_path, "worker")
    one = alone(served, tls_cert=certificate, tls_key=key)
    assert "status on https://" in one.wait_for_log("status on .*")[0]
    assert get(address(one), "/healthz", certificate=certificate) == (200, "ok\n")


def test_the_status_ends_with_the_training(alone, served):  # noqa: F811
    one = alone(served, train_steps=50)
    where = address(one)
    assert one.wait() == 0
    assert get(where, "/healthz") is None


@pytest.mark.parametrize("given, says", [
    ("localhost", '--status-listen is "localhost"'), ("127.0.0.1:70000", "70000"), ("192.0.2.1:0", "--status-listen 192.0.2.1:0")])
def test_no_address(served, store, tmp_path, given, says):  # noqa: F811
    train_fails(served, store, tmp_path / "run", says, status_listen=given)


def test_an_address_that_somebody_has(served, store, tmp_path):  # noqa: F811
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = f"127.0.0.1:{taken.getsockname()[1]}"
        train_fails(served, store, tmp_path / "run", [f"--status-listen {given}", "in use"], status=1, status_listen=given)


def test_a_chief_that_is_a_server_too_answers_with_tokens_on_one_port(start, served, store, tmp_path):  # noqa: F811
    tokens = write_token(tmp_path / "tokens.json", "first")
    trained = Cluster(start, served, store, tmp_path / "run", servers=0, train_steps=10**9, **ADDITIVE)
    refused = trained.start_worker(0, token_file=tokens, **FREE)
    assert refused.wait() == 2 and "leave --status-listen out" in refused.stderr
    open_to_all = trained.start_worker(0, **FREE)
    wait_for(lambda where=address(open_to_all): figures(where).get("tombola_worker_steps_total"), "it does not train")
    wait_for(lambda: status(trained.hosts[0])["pushes"] > 0, "its server says nothing of the steps")
