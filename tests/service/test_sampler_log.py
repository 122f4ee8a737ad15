# SPDX-License-Identifier: MIT
"""What the log says of the work, in fields of their own: changes, leases that expire, refusals, reloads."""

import json
import re
import signal
import time
from collections import Counter

import pytest

from conftest import PATIENCE_S
from test_http_access import ask, token_file

STORE = ("--store", "range:1000?labels=10", "--seed", 1)
JSON = ("--log-format", "json")


def entries(server, message=None):
    lines = [json.loads(line) for line in server.stderr.rpartition("\n")[0].splitlines()]  # the last may not be whole yet
    return [line for line in lines if message is None or line["msg"] == message]


def wait_for(server, message, count=1, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while len(entries(server, message)) < count:
        assert time.monotonic() < deadline, f"{message!r} was not logged {count} times\n{server.stderr[-3000:]}"
        time.sleep(0.02)
    return entries(server, message)


def post(server, target, **fields):
    answer = server.request("POST", target, body=json.dumps(fields).encode())
    assert answer.status in (200, 201), answer.text
    return answer.json


def test_changes_are_told_with_who_and_where(sampler, tmp_path):
    server = sampler(*STORE, *JSON, "--state", tmp_path / "state", "--token-file", token_file(tmp_path / "tokens.json"))

    def change(target, text=b"{}", method="POST"):
        answer = ask(server, "ops", method, target, text)
        assert answer.status in (200, 201, 204), answer.text
        return answer

    change("/streams", b'{"name":"eval","design":"srs"}')
    change("/streams/eval/pause")
    change("/streams/eval/resume")
    change("/streams/eval/seek", b'{"position":100}')
    token = change("/streams/eval/checkpoint").json["token"]
    change("/streams/eval/restore", json.dumps({"token": token}).encode())
    change("/streams/eval", None, "DELETE")
    change("/streams", b'{"name":"eval"}')
    messages = [f"stream {what}" for what in ("created", "paused", "resumed", "sought", "checkpointed", "restored", "deleted")]
    changes = [entry for entry in entries(server) if entry["msg"] in messages]
    assert [entry["msg"] for entry in changes] == [*messages, messages[0]]
    for entry in changes:
        assert entry["level"] == "info" and entry["stream"] == "eval" and entry["token"] == "ops"
        assert re.fullmatch(r"127\.0\.0\.1:\d+", entry["peer"])
        assert "secret" not in json.dumps(entry)
    assert [entry["generation"] for entry in changes] == [1] * 7 + [2]
    assert changes[0]["design"] == "srs" and changes[3]["position"] == 100 and changes[7]["design"] == "proportional"


def test_what_failed_is_no_change(sampler):
    server = sampler(*STORE, *JSON)
    assert server.request("DELETE", "/streams/default").status == 409
    assert server.request("DELETE", "/streams/none").status == 404
    assert server.request("POST", "/streams/default/seek", body=b'{"position":-1}').status == 400
    assert server.request("POST", "/streams", body=b'{"name":"default"}').status == 409
    assert server.request("POST", "/streams", body=b'{"name":"x","design":"none"}').status == 400
    assert server.request("POST", "/streams/default/restore", body=b'{"token":"no"}').status == 400
    assert not [entry for entry in entries(server) if "stream" in entry]


def test_text_lines_have_the_same_facts(sampler):
    server = sampler(*STORE)
    post(server, "/streams", name="a.b")
    post(server, "/streams/a.b/pause")
    server.wait_for_log(r"Z info    stream created stream=a\.b generation=1 position=0 peer=127\.0\.0\.1:\d+ design=proportional\n")
    server.wait_for_log(r"Z info    stream paused stream=a\.b generation=1 position=0 peer=127\.0\.0\.1:\d+\n")


@pytest.mark.threads
def test_a_lease_that_expires_and_is_redelivered(sampler):
    server = sampler(*STORE, *JSON, "--lease", 0.1)
    leased = server.batch("size=7&worker=w0&seq=3")
    (expired,) = wait_for(server, "lease expired")  # nobody has to ask for it
    assert expired["level"] == "warning" and expired["stream"] == "default"
    assert (expired["worker"], expired["seq"], expired["attempt"]) == ("w0", 3, 1)
    assert (expired["first"], expired["size"]) == (leased["first"], 7)
    server.batch("size=7&worker=w1&seq=0")
    (again,) = wait_for(server, "batch redelivered")
    assert again["level"] == "info" and again["stream"] == "default" and again["from"] == "w0"
    assert (again["worker"], again["seq"], again["attempt"], again["first"]) == ("w1", 0, 2, leased["first"])


@pytest.mark.threads
def test_a_release_and_who_gets_the_batch(sampler):
    server = sampler(*STORE, *JSON)
    server.batch("size=7&worker=w0&seq=0")
    assert post(server, "/release", worker="w0")["released"] == 1
    assert post(server, "/release", worker="w0")["released"] == 0
    (released,) = entries(server, "leases released")
    assert released["stream"] == "default" and released["worker"] == "w0" and released["level"] == "info"
    server.batch("size=7")
    (again,) = entries(server, "batch redelivered")
    assert again["attempt"] == 2 and not {"worker", "from", "seq"} & set(again)


def test_draws_leave_no_line(sampler):
    server = sampler(*STORE, *JSON)
    before = len(entries(server))
    for seq in range(50):
        server.batch(f"size=3&worker=w&seq={seq}")
        server.batch("size=3")
        post(server, "/ack", worker="w", seqs=[seq])
        server.get("/labels")
    assert len(entries(server)) == before


def minutes_since(began):
    """How many minutes of the log there may have been: lines are counted anew in each."""
    return 1 + int((time.monotonic() - began) / 60)


def test_leases_cannot_fill_the_log(sampler):
    server, began = sampler(*STORE, *JSON, "--lease", 0.001), time.monotonic()
    for seq in range(1200):
        server.batch(f"size=1&worker=w&seq={seq}")
    lines = len([entry for entry in entries(server) if entry["msg"] in ("lease expired", "batch redelivered")])
    assert 500 < lines <= 600 * minutes_since(began)


def test_releases_cannot_fill_the_log_and_hide_no_change(sampler):
    server, began = sampler(*STORE, *JSON), time.monotonic()
    for seq in range(310):
        server.batch(f"size=1&worker=w&seq={seq}")
        assert post(server, "/release", worker="w")["released"] == 1
    lines = len(entries(server, "leases released"))
    assert lines == 300 or 300 < lines and minutes_since(began) > 1
    post(server, "/streams/default/pause")
    assert len(entries(server, "stream paused")) == 1


def test_refusals_are_told_and_bounded(sampler, tmp_path):
    server, began = sampler(*STORE, *JSON, "--token-file", token_file(tmp_path / "tokens.json")), time.monotonic()
    for number in range(300):
        assert ask(server, f"guess-{number}", "GET", "/batch").status == 401
        assert ask(server, "reader", "POST", "/streams/default/pause").status == 403
    refused = entries(server, "request refused")
    written = Counter(entry["status"] for entry in refused)
    assert set(written) == {401, 403} and max(written.values()) <= minutes_since(began)
    for entry in refused:
        assert entry["level"] == "warning" and entry["peer"].startswith("127.0.0.1:") and entry["reason"]
        assert "guess" not in json.dumps(entry) and "secret" not in json.dumps(entry)
    by_status = {entry["status"]: entry for entry in refused}
    assert by_status[401]["path"] == "/batch" and "token" not in by_status[401]
    assert by_status[403]["path"] == "/streams/*/pause" and by_status[403]["token"] == "reader"
    server.stop()
    for entry in entries(server, "more requests were refused"):
        written[entry["status"]] += entry["count"]
    assert written == {401: 300, 403: 300}


@pytest.mark.threads
def test_reloads(sampler, tmp_path):
    path = token_file(tmp_path / "tokens.json")
    server = sampler(*STORE, *JSON, "--token-file", path)
    token_file(path, {"new": (["read"], ["*"])})
    server.signal(signal.SIGHUP)
    (read,) = wait_for(server, "tokens read again")
    assert (read["tokens"], read["before"], read["file"]) == (1, 4, str(path))
    path.write_text("{")
    server.signal(signal.SIGHUP)
    (kept,) = wait_for(server, "the old tokens stay in use")
    assert kept["level"] == "error" and kept["file"] == str(path) and kept["why"]


@pytest.mark.parametrize("level", ["warn", "warning"])
def test_the_level_is_called_what_the_option_calls_it(sampler, level):
    server = sampler(*STORE, *JSON, "--log-level", level, "--lease", 0.05)
    server.batch("size=1&worker=w&seq=0")
    (expired,) = wait_for(server, "lease expired")
    assert expired["level"] == "warning"
    post(server, "/streams", name="quiet")
    assert {entry["level"] for entry in entries(server)} == {"warning"}
