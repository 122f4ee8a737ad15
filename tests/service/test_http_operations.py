# SPDX-License-Identifier: MIT
"""Metrics, logs, systemd's words, /openapi.json."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import LONG, PATIENCE_S, SEED, from_pypi, raw_exchange, run, wait_for

STORE = ("--store", "range:1000?labels=10", "--seed", 1)


# ---- /metrics -----------------------------------------------------------------------------------

SAMPLE = re.compile(r'([a-z_:][a-z0-9_:]*)(\{([a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? (-?[0-9.e+-]+|\+Inf|NaN)$')


def read_metrics(text):
    """{sample with its labels: value}; fails on whatever Prometheus' text format does not allow."""
    assert text.endswith("\n")
    types, samples, family = {}, {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in types
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and kind in ("counter", "gauge", "histogram")
            assert kind != "counter" or name.endswith("_total")
            types[name] = kind
        else:
            found = SAMPLE.match(line)
            assert found, line
            suffix = found.group(1).removeprefix(family)
            assert suffix in (("_bucket", "_sum", "_count") if types[family] == "histogram" else ("",)), line
            key = found.group(1) + (found.group(2) or "")
            assert key not in samples, line
            samples[key] = float(found.group(4))
    for key, value in samples.items():
        if types.get(key.split("{")[0]) == "counter":
            assert value >= 0
    return samples


@pytest.mark.threads
def test_metrics_tell_what_happened(sampler, tmp_path):
    server = sampler(*STORE, "--state", tmp_path / "state", "--lease", 3600)
    server.batch("size=10")
    server.batch("size=10&worker=w0&seq=0")
    server.batch("size=10&worker=w0&seq=1")
    server.request("POST", "/ack", body=b'{"worker":"w0","seqs":[0]}')
    server.request("POST", "/release", body=b'{"worker":"w0"}')
    assert server.batch("size=10&worker=w1&seq=0")["redelivered"] is True
    assert server.request("POST", "/streams", body=b'{"name":"a.b_c-9"}').status == 201
    metrics = read_metrics(server.get("/metrics").text)
    assert metrics['tombola_sampler_batches_total{stream="default"}'] == 4
    assert metrics['tombola_sampler_acked_batches_total{stream="default"}'] == 2
    assert metrics['tombola_sampler_redelivered_batches_total{stream="default"}'] == 1
    assert metrics['tombola_sampler_leased_batches{stream="default"}'] == 1
    assert metrics['tombola_sampler_workers{stream="default"}'] == 2
    assert metrics['tombola_sampler_position{stream="a.b_c-9"}'] == 0
    assert metrics['tombola_sampler_requests_total{path="/ack",stream="default",status="200"}'] == 1
    assert metrics['tombola_sampler_requests_total{path="/streams",stream="a.b_c-9",status="201"}'] == 1
    assert metrics['tombola_sampler_ids_total{stream="default"}'] == 40
    assert metrics['tombola_sampler_ids_total{stream="a.b_c-9"}'] == 0
    assert metrics["tombola_sampler_commits_total"] >= 4
    assert metrics["tombola_sampler_commit_seconds_count"] == metrics["tombola_sampler_commits_total"]
    assert metrics["tombola_sampler_connections"] >= 1
    assert any(key.startswith("tombola_sampler_build_info{version=") for key in metrics)


def test_metrics_tell_streams_apart(sampler):
    """Every request is in one sample of each family; those of a stream carry its name, and go with it."""
    server = sampler(*STORE)
    for name in ("a", "b"):
        assert server.request("POST", "/streams", body=json.dumps({"name": name}).encode()).status == 201
    sizes = {"default": [3], "a": [10, 20], "b": [7, 7, 7, 7]}
    bytes_of = {name: sum(len(server.get(f"/batch?stream={name}&size={size}").body) for size in each)
                for name, each in sizes.items()}
    server.get("/batch?stream=none")
    server.get("/batch?size=0")
    server.get("/batch?stream=a&size=5&index=0")

    def are_timed():  # noted when the answer has left
        now = read_metrics(server.get("/metrics").text)
        return all(now.get(f'tombola_sampler_request_seconds_count{{path="/batch",stream="{name}"}}', 0) >= len(each)
                   for name, each in {**sizes, "a": [10, 20, 5]}.items())

    wait_for(are_timed, "the answers' times in /metrics")
    metrics = read_metrics(server.get("/metrics").text)
    for name, each in sizes.items():
        extra = 1 if name == "a" else 0
        assert metrics[f'tombola_sampler_ids_total{{stream="{name}"}}'] == sum(each) + 5 * extra
        assert metrics[f'tombola_sampler_requests_total{{path="/batch",stream="{name}",status="200"}}'] == len(each) + extra
        assert metrics[f'tombola_sampler_body_bytes_total{{stream="{name}"}}'] >= bytes_of[name]
        labels = f'path="/batch",stream="{name}"'
        assert metrics[f"tombola_sampler_request_seconds_count{{{labels}}}"] == len(each) + extra
        assert metrics[f"tombola_sampler_request_seconds_sum{{{labels}}}"] > 0
        buckets = [value for key, value in metrics.items()
                   if key.startswith(f"tombola_sampler_request_seconds_bucket{{{labels},")]
        assert len(buckets) == 20 and buckets == sorted(buckets) and buckets[-1] == len(each) + extra
    assert metrics['tombola_sampler_requests_total{path="/batch",status="404"}'] == 1
    assert metrics['tombola_sampler_requests_total{path="/batch",status="400"}'] == 1
    assert sum(value for key, value in metrics.items() if key.startswith("tombola_sampler_ids_total")) == 3 + 30 + 28 + 5
    assert server.request("DELETE", "/streams/a").status == 204
    assert not [key for key in read_metrics(server.get("/metrics").text) if 'stream="a"' in key]
    server.request("POST", "/streams", body=b'{"name":"a"}')
    assert read_metrics(server.get("/metrics").text)['tombola_sampler_ids_total{stream="a"}'] == 0


@pytest.mark.heavy
def test_metrics_of_many_streams(sampler):
    """As many as --max-streams allows, however long their names."""
    count = 5000
    server = sampler("--store", "range:100", "--max-streams", count + 1, "--log-level", "warning")
    for begin in range(0, count, 100):
        requests = []
        for name in (f"{number:064}" for number in range(begin, begin + 100)):
            body = f'{{"name":"{name}","design":"srs"}}'
            requests.append(f"POST /streams HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}")
            requests += [f"GET {path}stream={name} HTTP/1.1\r\nHost: a\r\n\r\n"
                         for path in ("/batch?size=1&worker=w&seq=0&", "/where?id=1&", "/labels?")]
            requests.append(f"GET /streams/{name} HTTP/1.1\r\nHost: a\r\n\r\n")
        answers = raw_exchange(server, "".join(requests).encode())
        assert answers.count(b"HTTP/1.1 20") == len(requests)
    answer = server.get("/metrics")
    assert answer.status == 200, answer.text
    assert len(answer.body) > 1 << 26
    assert answer.text.count("\ntombola_sampler_position{") == count + 1


def test_promtool_agrees(sampler):
    assert shutil.which("promtool"), "promtool is not installed (deploy/install test: it comes with prometheus)"
    server = sampler(*STORE)
    server.batch("size=10")
    checked = subprocess.run(["promtool", "check", "metrics"], input=server.get("/metrics").body, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


# ---- logs ---------------------------------------------------------------------------------------


def test_json_logs(sampler, tmp_path):
    server = sampler(*STORE, "--log-format", "json", "--log-level", "debug")
    server.get("/nowhere")
    server.stop()
    lines = server.stderr.splitlines()
    assert lines
    for line in lines:
        entry = json.loads(line)
        assert {"ts", "level", "pid", "msg"} <= set(entry)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["ts"])
        assert entry["level"] in ("debug", "info", "warning", "error")
        assert entry["pid"] == server.process.pid
    assert any("stopping" in json.loads(line)["msg"] for line in lines)


@pytest.mark.parametrize("name, arguments", [
    ("sampler", ("serve", "--store", "csv:none%0A\x01\"é.csv")), ("loader", ("info", "csv:none\"\\.csv")),
    ("trainer", ("evaluate", "--store", "csv:none.csv", "--logdir", "none"))])
def test_failures_in_json(name, arguments):
    failed = run(name, *arguments, "--log-format=json", status=None)
    assert failed.returncode != 0
    last = json.loads(failed.stderr.splitlines()[-1])
    assert last["level"] == "error" and last["program"] == f"tombola-{name}" and last["command"] == arguments[0]
    assert "none" in last["msg"]


# ---- systemd ------------------------------------------------------------------------------------


@pytest.mark.threads
@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears(sampler, tmp_path, abstract):
    name = f"@tombola-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ears:
        ears.bind("\0" + name[1:] if abstract else name)
        ears.settimeout(PATIENCE_S)
        server = sampler(*STORE, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"})

        def wait_for(word):
            while True:
                heard = ears.recv(1000).decode().splitlines()
                if word in heard:
                    return heard

        wait_for("READY=1")
        wait_for("WATCHDOG=1")
        wait_for("WATCHDOG=1")
        server.signal(signal.SIGHUP)
        assert any(line.startswith("MONOTONIC_USEC=") for line in wait_for("RELOADING=1"))
        wait_for("READY=1")
        server.terminate()
        wait_for("STOPPING=1")
        assert server.wait() == 0


def test_systemd_hears_of_no_reload_while_it_stops(sampler, tmp_path):
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ears:
        ears.bind(name)
        server = sampler(*STORE, "--drain", 600, env={"NOTIFY_SOCKET": name})
        server.terminate()
        server.wait_for_log("stopping")
        server.signal(signal.SIGHUP)
        server.wait_for_log("SIGHUP: there is no --token-file")
        server.stop()
        ears.setblocking(False)
        assert [ears.recv(1000), ears.recv(1000)] == [b"READY=1", b"STOPPING=1"]
        with pytest.raises(BlockingIOError):
            ears.recv(1000)


def test_systemd_hears_all_of_it_when_it_has_time_again(sampler, tmp_path):
    """Its queue is full of what others say."""
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ears, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        ears.bind(name)
        ears.settimeout(PATIENCE_S)
        server = sampler(*STORE, env={"NOTIFY_SOCKET": name})
        assert ears.recv(1000) == b"READY=1"
        other.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                other.sendto(b"STATUS=busy", name)
        server.signal(signal.SIGHUP)
        with contextlib.suppress(AssertionError):
            server.wait_for_log("SIGHUP: there is no --token-file", timeout=0.5)  # who loses its word goes on at once
        heard = [b"STATUS=busy"]
        while b"READY=1" not in heard:  # it has read all again
            heard.append(ears.recv(1000))
        assert any(words.startswith(b"RELOADING=1\n") for words in heard), heard


def test_a_socket_that_nobody_reads_does_no_harm(sampler, tmp_path):
    for name in (str(tmp_path / "none"), "relative", "@", "/" + "x" * 200):
        assert sampler(*STORE, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "x"}).get("/readyz").status == 200


# ---- /openapi.json ------------------------------------------------------------------------------


def test_openapi_names_every_path_and_method(sampler):
    server = sampler(*STORE, "--max-size", 77)
    document = server.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert document["paths"]["/batch"]["get"]["parameters"][0]["schema"]["maximum"] == 77
    for path, item in document["paths"].items():
        allow = server.request("OPTIONS", path.replace("{name}", "default")).headers["allow"].split(", ")
        methods = {method.upper() for method in item if method in ("get", "post", "delete", "put")}
        assert methods == set(allow) - {"HEAD", "OPTIONS"}, path
    text = json.dumps(document)
    for reference in set(re.findall(r'"#/components/(\w+)/(\w+)"', text)):
        assert reference[1] in document["components"][reference[0]], reference


def test_openapi_is_as_wide_as_the_server(sampler):
    server = sampler(*STORE)
    document = server.get("/openapi.json").json
    parameters = {one["name"]: one for one in document["paths"]["/batch"]["get"]["parameters"]}
    ack, seq = parameters["ack"], parameters["seq"]["schema"]
    assert (ack["style"], ack["explode"]) == ("form", False)  # 1,2,3
    most = ack["schema"]["items"]["maximum"]
    assert most == seq["maximum"] == 2**63 - 2
    count = ack["schema"]["maxItems"]

    def status(seqs, number=1):
        return server.get(f"/batch?size=1&worker=w&seq={number}&ack={','.join(map(str, seqs))}").status

    assert server.batch(f"size=1&worker=w&seq={most}")["seq"] == most
    assert status([most]) == 200 and status([most + 1], 2) == 400
    assert status([1] * count, 3) == 200 and status([1], 2**63 - 1) == 400
    assert status([0] * count, 4) == 409 and status([0] * (count + 1), 5) == 400
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method in ("get", "post", "delete"):
                assert {"400", "401", "403", "413", "414", "417", "431", "503", "505"} <= set(operation["responses"]), path
                assert ("415" in operation["responses"]) == (method == "post"), path
    with socket.create_connection((server.host, server.port), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET /batch HTTP/3.0\r\nHost: x\r\n\r\n")
        assert b" 505 " in connection.recv(100)


def test_openapi_names_every_field_of_a_stream(sampler):
    server = sampler(*STORE, "--splits", "0.8,0.1,0.1")
    schemas = server.get("/openapi.json").json["components"]["schemas"]
    known, asked = set(schemas["Stream"]["properties"]), set(schemas["NewStream"]["properties"])
    assert asked <= known
    for number, fields in enumerate((
            {"lease_s": 5, "rows": "0:100"}, {"split": "test"}, {"design": "quota", "shares": {"0": 1, "1": 2}},
            {"design": "neyman", "deviations": {str(label): 1 + label for label in range(10)}}, {"design": "pxk", "p": 2, "k": 3},
            {"design": "systematic", "size": 7}, {"design": "bernoulli", "rate": 0.5})):
        shown = server.request("POST", "/streams", body=json.dumps({"name": f"s{number}", **fields}).encode())
        assert shown.status == 201, shown.text
        assert set(fields) <= set(shown.json) <= known, set(shown.json) - known


def test_openapi_allows_each_position_of_a_stream_without_end(sampler):
    server = sampler(*STORE)
    schemas = server.get("/openapi.json").json
    seek = schemas["paths"]["/streams/{name}/seek"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    create = schemas["paths"]["/streams"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    create = schemas["components"]["schemas"][create["$ref"].rsplit("/", 1)[1]] if "$ref" in create else create
    most = seek["position"]["maximum"]
    assert most == create["properties"]["position"]["maximum"]
    for position, seeks, creates in ((most, 200, 201), (most + 1, 400, 400)):
        body = json.dumps({"position": position}).encode()
        assert server.request("POST", "/streams/default/seek", body=body).status == seeks
        body = json.dumps({"name": str(position), "position": position}).encode()
        assert server.request("POST", "/streams", body=body).status == creates
    assert server.get("/streams/default").json["state"] == "ended"


# What is too long is refused for that, whatever else is wrong with it: 413, 414, 431 besides the statuses that are expected.
SCHEMATHESIS = """[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "413", "414", "415", "422", "428", "429", "431", "5xx"]
"""


# libmicrohttpd answers a request line or a header above 12 KiB by itself, in HTML without a type: test_http_hostile.py.
SCHEMATHESIS_HOOKS = """import schemathesis

@schemathesis.hook
def filter_failure(context, failure, case, response):
    return response.status_code not in (414, 431) or b"too big for the memory constraints of this webserver" not in response.content
"""


# A schema cannot say which fields go together: worker with seq, a design with its own, a token with
# its checksum. What it allows there may still be a 400.
@pytest.mark.heavy
@pytest.mark.parametrize("checks", [
    ("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
    ("--checks", "positive_data_acceptance", "--exclude-operation-id", "draw", "--exclude-operation-id", "createStream",
     "--exclude-operation-id", "restoreStream")])
def test_schemathesis_finds_nothing(sampler, tmp_path, checks):
    program = from_pypi("schemathesis") / "bin/schemathesis"
    server = sampler(*STORE, "--max-size", 1000, "--max-streams", 10000)
    (tmp_path / "schemathesis.toml").write_text(SCHEMATHESIS)
    (tmp_path / "hooks.py").write_text(SCHEMATHESIS_HOOKS)
    done = subprocess.run(
        [program, "run", f"{server.url}/openapi.json", *checks, "--max-examples", "150" if LONG else "10", "--seed", str(SEED)],
        env={**os.environ, "SCHEMATHESIS_HOOKS": str(tmp_path / "hooks.py")}, capture_output=True, text=True, cwd=tmp_path,
        timeout=3600, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert server.get("/readyz").status == 200
