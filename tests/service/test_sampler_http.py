# SPDX-License-Identifier: MIT
"""The sampler's HTTP interface, answer by answer."""

import csv
import io
import json
import re
import socket
import struct

import pytest

from conftest import raw_exchange, refuses_more_itself, wait_for

STORE = "range:1000?labels=10"


@pytest.fixture
def server(sampler):
    return sampler("--store", STORE, "--seed", 1)


def header_value(answer, name):
    return answer.headers.get(name.lower())


def assert_problem(answer, status, *texts):
    """An error as the interface promises it."""
    assert answer.status == status, answer.text
    assert header_value(answer, "Content-Type") == "application/problem+json"
    problem = answer.json
    assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["status"] == status
    for text in texts:
        assert text in problem["detail"], problem["detail"]


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


# ---- GET /batch ---------------------------------------------------------------------------------


def test_a_batch_is_what_the_contract_shows(server):
    answer = server.get("/batch?size=5")
    assert answer.status == 200
    assert header_value(answer, "Content-Type") == "application/json"
    assert header_value(answer, "Cache-Control") == "no-store"
    batch = answer.json
    assert list(batch) == ["stream", "epoch", "first", "size", "ids", "labels"]
    assert (batch["stream"], batch["epoch"], batch["first"], batch["size"]) == ("default", 0, 0, 5)
    assert len(set(batch["ids"])) == 5
    assert batch["labels"] == [id % 10 for id in batch["ids"]]
    assert server.batch("size=7")["first"] == 5
    assert server.batch("")["size"] == 100


@pytest.mark.parametrize("sort", ["", "&sort=1", "&sort=0"])
def test_the_formats_agree(server, sort):
    query = f"/batch?size=300&index=2{sort}"
    answer = server.get(query)
    batch = answer.json
    if sort == "&sort=1":
        assert batch["ids"] == sorted(batch["ids"])
        plain = server.get("/batch?size=300&index=2").json
        assert dict(zip(plain["ids"], plain["labels"])) == dict(zip(batch["ids"], batch["labels"]))
    rows = server.get(query + "&format=csv")
    assert header_value(rows, "Content-Type").startswith("text/csv")
    table = list(csv.reader(io.StringIO(rows.text)))
    assert table[0] == ["id", "label"]
    assert [int(row[0]) for row in table[1:]] == batch["ids"]
    assert [int(row[1]) for row in table[1:]] == batch["labels"]
    binary = server.get(query + "&format=binary")
    assert header_value(binary, "Content-Type") == "application/octet-stream"
    magic, epoch, first, size, flags = struct.unpack_from("<8sqqII", binary.body)
    assert (magic, epoch, first, size, flags) == (b"TMBLBAT1", 0, 600, 300, 0)
    assert len(binary.body) == 32 + 12 * size
    assert list(struct.unpack_from(f"<{size}q", binary.body, 32)) == batch["ids"]
    names = [label["label"] for label in server.get("/labels").json["labels"]]
    codes = struct.unpack_from(f"<{size}I", binary.body, 32 + 8 * size)
    assert [names[code] for code in codes] == batch["labels"]
    for other in (rows, binary):
        facts = [header_value(other, f"Tombola-{name}") for name in ("Stream", "Epoch", "First", "Size")]
        assert facts == ["default", "0", "600", "300"]


def listed(body):
    """The batches of a binary list: (facts, lease, ids, codes)."""
    found, at = [], 0
    while at < len(body):
        magic, epoch, first, size, flags, *lease = struct.unpack_from("<8sqqII3q", body, at)
        assert (magic, flags) == (b"TMBLBAT1", 1)
        ids = struct.unpack_from(f"<{size}q", body, at + 56)
        codes = struct.unpack_from(f"<{size}I", body, at + 56 + 8 * size)
        at += -(-(56 + 12 * size) // 8) * 8
        found.append(((epoch, first, size), lease, list(ids), list(codes)))
    assert at == len(body)
    return found


def test_several_batches_are_those_of_single_requests(sampler):
    """In both formats, sorted or weighted, up to the end of the stream, and again for who asks again."""
    facts = ("--store", "range:1000?labels=10", "--seed", 5, "--epochs", 1)
    many, single = sampler(*facts), sampler(*facts)
    asked, seq = [("batches=3", 3), ("batches=1", 1), ("batches=2&sort=1", 2), ("batches=4&weights=1", 4), ("batches=64", 5)], 0
    for query, count in asked:
        more = query.lstrip("batches=0123456789")
        target = f"/batch?size=70&worker=w&seq={seq}&{query}"
        answer = many.get(target)
        batches = answer.json["batches"]
        assert list(answer.json) == ["batches"] and len(batches) == count
        for number, batch in enumerate(batches, seq):
            alone = single.get(f"/batch?size=70&worker=w&seq={number}{more}").json
            assert 0 <= batch.pop("expires_ms") <= 30000 and alone.pop("expires_ms")
            assert batch == alone
        if "weights" not in query:
            binary = many.get(target + "&format=binary")
            assert header_value(binary, "Content-Type") == "application/octet-stream"
            for number, (batch, (position, lease, ids, codes)) in enumerate(zip(batches, listed(binary.body), strict=True), seq):
                assert position == (batch["epoch"], batch["first"], batch["size"])
                assert lease[:2] == [number, 1] and 0 <= lease[2] <= 30000
                assert (ids, codes) == (batch["ids"], batch["labels"])
        seq += count
    assert many.get(f"/batch?size=70&worker=w&seq={seq}&batches=2").status == 503  # only what is lent is left
    acks = ",".join(map(str, range(seq)))
    assert many.get(f"/batch?size=70&worker=w&seq={seq}&batches=2&ack={acks}").status == 204
    assert many.get("/streams/default").json["acked"] == seq == 15


def test_several_batches_in_one_answer_are_refused(server):
    lease = "/batch?worker=several&seq=0"
    assert_problem(server.get("/batch?batches=2"), 400, "worker and seq")
    assert_problem(server.get(lease + "&batches=65"), 400, "1 to 64")
    assert_problem(server.get(lease + "&batches=2&format=csv"), 400, "csv", "json and binary")
    assert_problem(server.get(lease + "&batches=2", headers={"Accept": "text/csv"}), 400, "csv")
    assert_problem(server.get(lease + "&batches=2&format=binary&weights=1"), 400, "weights=1")
    assert_problem(server.get(lease + "&batches=2&size=500001"), 400, "--max-size")
    head = server.request("HEAD", lease + "&batches=2&size=3")
    assert head.status == 200 and not head.body
    assert server.get(lease + "&batches=2&size=3").json["batches"][0]["attempt"] == 1


@pytest.mark.parametrize("accept, wanted", [
    (None, "application/json"),
    ("*/*", "application/json"),
    ("text/csv", "text/csv; charset=utf-8"),
    ("application/octet-stream", "application/octet-stream"),
    ("text/csv;q=0.1, application/octet-stream;q=0.2", "application/octet-stream"),
    ("text/html,application/xml;q=0.9,*/*;q=0.8", "application/json"),
    ("image/png", "application/json"),
])
def test_accept_chooses_the_format(server, accept, wanted):
    headers = {"Accept": accept} if accept else {}
    assert header_value(server.get("/batch?size=3", headers=headers), "Content-Type") == wanted
    given = server.get("/batch?size=3&format=csv", headers=headers)
    assert header_value(given, "Content-Type").startswith("text/csv")


@pytest.mark.parametrize("lines, wanted", [
    ("Accept: text/html\r\nAccept: text/csv", b"text/csv"), ("Accept: text/csv;q=0.1\r\naccept: application/json", b"application/json"),
    ("Accept: text/plain\r\naccept: text/html", b"text/html"),
])
def test_accept_in_several_lines_is_one_list(server, lines, wanted):
    target = "/" if wanted == b"text/html" else "/batch?size=3"
    answer = raw_exchange(server, f"GET {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\nConnection: close\r\n\r\n".encode())
    assert b"\r\nContent-Type: " + wanted in answer


@pytest.mark.parametrize("query, text", [
    ("size=0", "1 to 1000000"), ("size=-1", "-1"), ("size=1e9", "1e9"), ("size=abc", "abc"),
    ("size=1000001", "1000001"), ("size=", "size"), ("size=%31%00", ""), ("size=99999999999999999999", "size"),
    ("size=5&size=5", "twice"), ("size=5&s%69ze=5", "twice"), ("unknown=1", "unknown"), ("size=%zz", "size"), ("worker=%ff&index=0", "worker"),
    ("index=-1", "index"), ("index=x", "index"), ("sort=2", "sort"), ("format=xml", "binary"),
    ("stream=a%2Fb", "stream"), ("worker=w0", "belong together"), ("seq=0", "belong together"),
    ("ack=1", "ack"), ("worker=w0&seq=0&index=1", "index=1"), ("worker=w0&ack=0&index=1", "ack"), ("worker=w%20&seq=0", "worker"),
    ("worker=w0&seq=0&ack=1,,2", "ack"), ("weights=2", "weights"), ("weights=1&format=binary", "binary"),
])
def test_bad_parameters_are_named_and_draw_nothing(server, query, text):
    answer = server.get(f"/batch?{query}")
    assert_problem(answer, 400, text)
    assert header_value(answer, "Cache-Control") == "no-store"
    assert server.get("/streams/default").json["position"] == 0


@pytest.mark.parametrize("path", ["/streams", "/streams/default", "/streams/default/readers", "/labels", "/where?id=0", "/frames",
                                  "/healthz", "/readyz", "/metrics", "/batch?index=0"])
def test_what_moves_is_not_to_be_cached(server, path):
    """A gateway's cache that hears nothing of that may keep an answer for minutes: a stream would seem not to have ended."""
    answer = server.get(path)
    assert answer.status == 200 and header_value(answer, "Cache-Control") == "no-store"


def test_max_size_is_the_limit(sampler):
    server = sampler("--store", STORE, "--max-size", 50)
    assert server.batch("")["size"] == 50
    assert server.batch("size=50")["size"] == 50
    assert_problem(server.get("/batch?size=51"), 400, "50")


def test_a_batch_of_a_million(sampler):
    server = sampler("--store", "range:1000000?labels=3", "--epochs", 1)
    batch = server.batch("size=1000000")
    assert sorted(batch["ids"]) == list(range(1000000))
    assert server.get("/batch?size=1000000").status == 204


def test_large_ids_are_exact(sampler, tmp_path):
    ids = [0, 2**53 + 1, 2**62 + 3, 2**63 - 1]
    (tmp_path / "ids.csv").write_text("id,label\n" + "".join(f"{id},{id % 7}\n" for id in ids))
    server = sampler("--store", f"csv:{tmp_path}/ids.csv?id=id", "--epochs", 1)
    answer = server.get("/batch")
    assert sorted(json.loads(answer.text, parse_float=str)["ids"]) == ids
    assert answer.json["labels"] == [id % 7 for id in answer.json["ids"]]


def test_text_labels(sampler, tmp_path):
    words = ['a "quoted", one', "cat", "été", "a label that is much longer than the others, with a comma"]
    with open(tmp_path / "words.csv", "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["x", "label"])
        writer.writerows([row, words[row % 4]] for row in range(40))
    server = sampler("--store", f"csv:{tmp_path}/words.csv")
    batch = server.get("/batch?size=40&index=0").json
    assert batch["labels"] == [words[id % 4] for id in batch["ids"]]
    rows = list(csv.reader(io.StringIO(server.get("/batch?size=40&index=0&format=csv").text)))[1:]
    assert [row[1] for row in rows] == batch["labels"]
    labels = server.get("/labels").json["labels"]
    assert [label["label"] for label in labels] == sorted(words, key=lambda word: word.encode())


# ---- the other paths ----------------------------------------------------------------------------


def test_the_stream_frames_and_labels(server):
    server.batch("size=105")
    stream = server.get("/streams/default").json
    frame = server.get("/frames").json["frames"][0]
    assert server.get("/streams").json == {"streams": [stream]}
    assert frame["name"] == "default" and frame["units"] == 1000 and frame["labels"] == 10
    assert stream == {
        "name": "default", "frame": "default", "digest": frame["digest"], "design": "proportional",
        "replacement": False, "seed": 1, "order": stream["order"], "balance_error": stream["balance_error"],
        "generation": 1, "units": 1000, "epochs": 0, "tail": "keep",
        "position": 105, "epoch": 0, "epoch_draws": 1000, "leased": 0, "acked": 1, "redelivered": 0,
        "state": "running"}
    assert re.fullmatch("[0-9a-f]{32}", stream["order"]) and 0.5 < stream["balance_error"] < 2
    labels = server.get("/labels?stream=default").json["labels"]
    assert [label["label"] for label in labels] == list(range(10))
    assert all(label["units"] == 100 and label["share"] == 0.1 for label in labels)
    assert sum(label["drawn"] for label in labels) == 105


@pytest.mark.parametrize("design, replacement", [
    ("proportional", ()), ("srs", ()), ("sequential", ()), ("proportional", ("--replacement",)), ("srs", ("--replacement",))])
def test_drawn_counts_this_epoch(sampler, design, replacement):
    server = sampler("--store", STORE, "--design", design, "--seed", 5, *replacement)
    counts = {}
    for size in (3, 100, 250, 647, 1, 999, 5):
        batch = server.batch(f"size={size}")
        if batch["first"] % 1000 == 0:
            counts = {}
        for label in batch["labels"]:
            counts[label] = counts.get(label, 0) + 1
        if (batch["first"] + batch["size"]) % 1000 == 0:
            counts = {}  # at position k*M the stream is in epoch k
        drawn = {label["label"]: label["drawn"] for label in server.get("/labels").json["labels"]}
        assert {label: count for label, count in drawn.items() if count} == counts


def test_metrics_count_what_was_answered(server):
    for _ in range(3):
        server.batch("size=10")
    server.get("/batch?size=0")
    server.get("/nowhere")
    timed = 'tombola_sampler_request_seconds_count{path="/batch",stream="default"} 3'  # noted when the answer has left
    wait_for(lambda: timed in server.get("/metrics").text.splitlines(), "the answers' times in /metrics")
    answer = server.get("/metrics")
    assert header_value(answer, "Content-Type").startswith("text/plain; version=0.0.4")
    for line in ('tombola_sampler_requests_total{path="/batch",stream="default",status="200"} 3',
                 'tombola_sampler_requests_total{path="/batch",status="400"} 1',
                 'tombola_sampler_requests_total{path="other",status="404"} 1',
                 'tombola_sampler_ids_total{stream="default"} 30',
                 'tombola_sampler_position{stream="default"} 30',
                 'tombola_sampler_units{stream="default"} 1000'):
        assert line in answer.text.splitlines()
    names = [line.split()[2] for line in answer.text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_health_and_readiness_and_the_front_page(server):
    for path in ("/healthz", "/readyz"):
        assert server.get(path).status == 200
    text = server.get("/").text
    assert "/batch" in text and text.endswith("/openapi.json\n")


@pytest.mark.parametrize("path", ["/healthz?x=1", "/labels?size=1", "/frames?a", "/streams?x=1", "/streams/default?x=1",
                                  "/metrics?x=1", "/?x=1", "/labels?stream=default&stream=default"])
def test_other_paths_refuse_parameters_too(server, path):
    assert_problem(server.get(path), 400)


@pytest.mark.parametrize("path", ["/nowhere", "/batch/", "/Batch", "/streams/", "/streams/none", "/streams/a/b", "//batch",
                                  "/labels?stream=none", "/batch?stream=none", "/%00", "/%zz", "/openapi.jso"])
def test_unknown_paths_and_streams(server, path):
    assert_problem(server.get(path), 404)


# ---- methods ------------------------------------------------------------------------------------

GET = "GET, HEAD, OPTIONS"
PATHS = {
    "/": GET, "/batch": GET, "/labels": GET, "/frames": GET, "/where?id=5": GET, "/openapi.json": GET,
    "/streams": "GET, HEAD, POST, OPTIONS", "/streams/default": "GET, HEAD, DELETE, OPTIONS",
    "/healthz": GET, "/readyz": GET, "/metrics": GET}
POSTS = ["/ack", "/extend", "/release", *(f"/streams/default/{verb}" for verb in
                                          ("pause", "resume", "seek", "checkpoint", "restore"))]


@pytest.mark.parametrize("path", POSTS)
def test_methods_of_what_is_posted(server, path):
    options = server.request("OPTIONS", path)
    assert options.status == 204 and header_value(options, "Allow") == "POST, OPTIONS"
    for method in ("GET", "PUT", "DELETE", "PATCH", "BREW"):
        refused = server.request(method, path)
        assert_problem(refused, 405, method)
        assert header_value(refused, "Allow") == "POST, OPTIONS"


@pytest.mark.parametrize("path", PATHS)
def test_methods(server, path):
    allowed = PATHS[path]
    options = server.request("OPTIONS", path)
    assert options.status == 204 and header_value(options, "Allow") == allowed
    for method in {"POST", "PUT", "DELETE", "PATCH", "BREW"} - set(allowed.split(", ")):
        refused = server.request(method, path, body=b"x" * 100 if method == "POST" else None)
        assert_problem(refused, 405, method)
        assert header_value(refused, "Allow") == allowed
    head = server.request("HEAD", path)
    assert head.status == 200 and head.body == b""
    get = server.get(path)
    assert header_value(head, "Content-Type") == header_value(get, "Content-Type")
    if path not in ("/metrics",):  # its numbers move
        assert header_value(head, "Content-Length") == header_value(get, "Content-Length")


def test_head_draws_nothing_and_tells_what_get_would(server):
    for format in ("json", "csv", "binary"):
        target = f"/batch?size=123&format={format}"
        head, get = server.request("HEAD", target), server.get(target)
        for name in set(head.headers) | set(get.headers):
            assert name in ("date", "connection") or head.headers[name] == get.headers[name]
    assert server.get("/streams/default").json["position"] == 3 * 123
    assert server.request("HEAD", "/batch?size=0").status == 400


def test_options_asterisk(server):
    answer = raw_exchange(server, b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status_of(answer) == 204 and b"Allow: GET, HEAD, POST, DELETE, OPTIONS" in answer


# ---- what is odd, large or broken ---------------------------------------------------------------


@pytest.mark.parametrize("head, status, says", [
    (b"GET /healthz HTTP/1.1\r\n", 400, b"no Host"),
    (b"GET /batch HTTP/1.1\r\nX-Host: a\r\nHos: a\r\n", 400, b"no Host"),
    (b"POST /ack HTTP/1.1\r\nContent-Length: 2\r\n", 400, b"no Host"),
    (b"GET /healthz HTTP/1.0\r\n", 200, b""),
    (b"GET /healthz HTTP/1.1\r\nHost:\r\n", 200, b""),
    (b"GET /healthz HTTP/1.1\r\nhOST: a.example:80\r\n", 200, b""),
    (b"GET /healthz HTTP/1.1\r\nHost: [::1]:8080\r\n", 200, b""),
    (b"GET http://a/healthz HTTP/1.1\r\nHost: a\r\n", 200, b""),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nhost: a\r\n", 400, b"more than one Host"),
    (b"GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n", 400, b"more than one Host"),
    (b"GET /healthz HTTP/1.1\r\nHost: a/b\r\n", 400, b"Host must be"),
    (b"GET /healthz HTTP/1.1\r\nHost: a b\r\n", 400, b"Host must be"),
    (b"GET /healthz HTTP/1.1\r\nHost: \xff\r\n", 400, b"Host must be"),
])
def test_there_is_one_host(server, head, status, says):
    answer = raw_exchange(server, head + b"Connection: close\r\n\r\n")
    assert status_of(answer) == status
    if says != b"no Host" or not refuses_more_itself():
        assert says in answer
        assert status != 400 or b"application/problem+json" in answer
    assert server.get("/streams/default").json["position"] == 0, "nothing was drawn"


@pytest.mark.parametrize("target", ["/%62atch?size=4", "/batch?s%69ze=4", "http://host:80/batch?size=4", "/batch?size=%34",
                                    "/batch?&size=4&"])
def test_other_spellings_of_the_same(server, target):
    answer = raw_exchange(server, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert status_of(answer) in (200, 400)
    if target == "/batch?&size=4&":
        return  # empty parameters may be refused
    assert b'"size":4' in answer


def test_http_1_0_and_pipelining(server):
    assert b'"size":3' in raw_exchange(server, b"GET /batch?size=3 HTTP/1.0\r\n\r\n")
    one = b"GET /batch?size=4 HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = raw_exchange(server, one * 5 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert answer.count(b"HTTP/1.1 200") == 6
    assert server.get("/streams/default").json["position"] == 3 + 6 * 4


def test_long_request_targets(server):
    for length in (5900, 6001, 9000, 12500, 20000, 100000, 3000000):
        answer = raw_exchange(server, b"GET /batch?x=" + b"a" * length + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert status_of(answer) == (400 if length == 5900 else 414), length
    assert_problem(server.get("/batch?x=" + "a" * 10000), 414, "6000")
    assert_problem(server.get("/batch?" + "a=1&" * 1000), 400)
    assert server.batch("size=1")["first"] == 0


def test_long_headers(server):
    for length in (100, 8000, 9000, 12500, 100000, 3000000):
        answer = raw_exchange(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: " + b"a" * length + b"\r\n\r\n")
        assert status_of(answer) == (200 if length <= 8000 else 431), length
    many = b"".join(b"X-%d: y\r\n" % number for number in range(20000))
    assert status_of(raw_exchange(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + many + b"\r\n")) == 431
    assert_problem(server.get("/healthz", headers={"X-Long": "a" * 10000}), 431, "8192")


def test_bodies(server):
    assert_problem(server.request("POST", "/batch", body=b"x" * (1 << 20)), 405)
    assert_problem(server.request("POST", "/ack", body=b"x" * ((1 << 20) + 1)), 413, "1048576")
    assert_problem(server.request("POST", "/batch", body=b"x" * ((1 << 20) + 1)), 405)  # of any length
    assert_problem(server.request("POST", "/nowhere", body=b"x" * (2 << 20)), 404)
    assert_problem(server.request("GET", "/healthz", body=b"x" * (2 << 20)), 413)
    assert server.get("/healthz", headers={}).status == 200
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert status_of(raw_exchange(server, head % b"/ack" + 20 * chunk + b"0\r\n\r\n")) == 413
    for count in (2, 20):
        assert status_of(raw_exchange(server, head % b"/batch" + count * chunk + b"0\r\n\r\n")) == 405
    huge = b"POST /batch HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n"
    assert status_of(raw_exchange(server, huge)) == 413
    patient = b"POST /batch HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\nExpect: 100-continue\r\n\r\n"
    assert status_of(raw_exchange(server, patient)) == 413
    odd = b"POST /ack HTTP/%s\r\nHost: x\r\nContent-Length: 2\r\nExpect: %s\r\nConnection: close\r\n\r\n{}"
    for expected in (b"foo", b"100-continue, foo", b""):
        assert status_of(raw_exchange(server, odd % (b"1.1", expected))) == 417
    assert status_of(raw_exchange(server, odd % (b"1.0", b"foo"))) == 400  # what HTTP/1.0 must ignore
    assert status_of(raw_exchange(server, b"GET /batch HTTP/1.1\r\nHost: x\r\nExpect: foo\r\n\r\n")) == 417
    # a GET may carry a body, which means nothing
    answer = raw_exchange(server, b"GET /batch?size=2 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                         b"GET /batch?size=2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.count(b'"size":2') == 2


@pytest.mark.parametrize("data", [
    b"\r\n\r\n", b"GET\r\n\r\n", b"GET /batch\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 5000,
    b"GET /batch HTTP/9.9\r\n\r\n", b"GET /batch HTTP/1.1\r\nno colon\r\n\r\n", b"\xff\xfe GET /batch\r\n\r\n",
    b"GET /batch?\x01\x02=\xff HTTP/1.1\r\nHost: x\r\n\r\n", b"GET " * 3000,
    b"POST /batch HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /batch HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
    b"POST /batch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
])
def test_nonsense_is_survived(server, data):
    with socket.create_connection((server.host, server.port)) as connection:
        connection.sendall(data)
        connection.settimeout(0.5)
        try:
            answer = connection.recv(65536)
        except (socket.timeout, ConnectionResetError):
            answer = b""  # it may wait for the rest, or close
    assert answer == b"" or answer.startswith(b"HTTP/1."), answer[:100]
    assert server.get("/healthz").status == 200
    assert server.get("/streams/default").json["position"] in (0, 100)


def test_a_lost_request_draws_nothing(server):
    for cut in (5, 20, 40):
        request = b"GET /batch?size=100 HTTP/1.1\r\nHost: tombola\r\n\r\n"
        with socket.create_connection((server.host, server.port)) as connection:
            connection.sendall(request[:cut])
    assert server.batch("size=1")["first"] == 0


def test_slow_clients_do_not_keep_others_waiting(server):
    waiting = []
    try:
        for number in range(300):
            connection = socket.create_connection((server.host, server.port))
            connection.sendall(b"GET /batch?size=10 HTTP/1.1\r\nHost: x\r\n" if number % 2 else b"GE")
            waiting.append(connection)
        for draw in range(20):
            assert server.batch("size=10")["first"] == draw * 10
        waiting[1].sendall(b"\r\n")
        assert waiting[1].recv(100).startswith(b"HTTP/1.1 200")
    finally:
        for connection in waiting:
            connection.close()


def test_a_client_that_does_not_read_loses_only_its_own(sampler):
    server = sampler("--store", "range:1000000?labels=2", "--seed", 1)
    with socket.create_connection((server.host, server.port)) as connection:
        connection.sendall(b"GET /batch?size=900000 HTTP/1.1\r\nHost: x\r\n\r\n")
        while server.get("/streams/default").json["position"] == 0:
            pass
        assert server.batch("size=10")["first"] == 900000
    assert server.batch("size=10")["first"] == 900010
