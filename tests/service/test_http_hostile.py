# SPDX-License-Identifier: MIT
"""What is malformed, too large or too slow: an error as the interface promises it, or the end of the connection."""

import contextlib
import json
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import PATIENCE_S, raw_exchange, refuses_more_itself, wait_for

STORE = "range:1000?labels=10"
HOST = b"Host: x\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from conftest import Sampler
    one = Sampler("--store", STORE, "--seed", 1, folder=tmp_path_factory.mktemp("hostile"))
    yield one
    one.finish()


def assert_raw_problem(answer, status, answers=1):
    """The last of so many answers; a header block is no answer's body."""
    head, _, body = answer.rpartition(b"\r\n\r\n")
    assert answer.count(b"\r\n\r\n") == answers, answer[:600]
    last = head[head.rfind(b"HTTP/1.1 "):]
    assert last.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert b"Content-Type: application/problem+json" in last, last
    assert b"Content-Length: %d" % len(body) in last.split(b"\r\n"), last
    problem = json.loads(body)
    assert set(problem) == {"type", "title", "status", "detail"} and problem["status"] == status


def assert_refused(answer, status):
    """The status and the end of the connection: nothing of it was taken for a request."""
    lines = [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert lines and set(line[:13] for line in lines) == {b"HTTP/1.1 %d " % status}, answer[:200]
    assert b"\r\nConnection: close\r\n" in answer, answer[:200]


def short(value):
    return repr(value)[:60]


@pytest.mark.parametrize("status, data", [
    (400, b"GET\r\n\r\n"), (400, b"GARBAGE\r\n\r\n"), (400, b"\x00" * 5000),
    (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), (400, b"GET /heal"),
    (413, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: 999999999999\r\n\r\n"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\nhello"),
    (414, b"GET /batch?x=" + b"a" * 7000 + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (414, b"GET /batch?x=" + b"a" * 8000 + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (414, b"GET /batch?" + b"a&" * 5000 + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (400, b"GET /batch?" + b"a&" * 63 + b"a HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (400, b"GET /batch?" + b"a&" * 64 + b"a HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (400, b"GET /batch?" + b"a=1&" * 1400 + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    (431, b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\nX: " + b"a" * 9000 + b"\r\n\r\n"),
    (404, b"POST /streams/default%2Fpause HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (404, b"GET /%zz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (400, b"GET /labels?stream=%zz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (400, b"GET /labels?stream=%00 HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    (404, b"GET /labels%00 HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
], ids=short)
def test_errors_are_problems(server, status, data):
    answer = raw_exchange(server, data)
    if b"Transfer-Encoding" in data and refuses_more_itself():
        assert_refused(answer, status)
    else:
        assert_raw_problem(answer, status)
    assert server.get("/healthz").status == 200


@pytest.mark.parametrize("status, data", [
    (400, b"GET /healthz\r\n\r\n"), (400, b"GET /healthz HTTP/x\r\n\r\n"), (400, b"\xff\xfe GET /b\r\n\r\n"),
    (505, b"GET / HTTP/9.9\r\n\r\n"), (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    (400, b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n"),
    (413, b"POST /ack HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\n"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: -5\r\n\r\n"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: abc\r\n\r\n"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: -2\r\n\r\nhi"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: 2x\r\n\r\nhi"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: +2\r\n\r\nhi"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: 2, 2\r\n\r\nhi"),
    (400, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length:\r\n\r\nhi"),
    (400, b"GET /batch HTTP/1.1\r\n" + HOST + b"Content-Length: -2\r\n\r\n"),
    (400, b"DELETE /streams/x HTTP/1.1\r\n" + HOST + b"content-LENGTH: -2\r\n\r\n"),
    (413, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999999\r\n\r\nhi"),
    (414, b"GET /batch?x=" + b"a" * 100000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    (400 if refuses_more_itself() else 414, b"G" * 20000 + b" / HTTP/1.1\r\n\r\n"),
    (431, b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 100000 + b"\r\n\r\n"),
    (431, b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 5000 + b"\r\n"),
], ids=short)
def test_what_is_no_request_is_refused(server, status, data):
    """By libmicrohttpd itself, which says it in HTML (after a malformed Content-Length with two headers)."""
    assert_refused(raw_exchange(server, data), status)
    assert server.get("/healthz").status == 200



@pytest.mark.parametrize("status, data", [
    (431, b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 11950 + b"\r\nConnection: close\r\n\r\n"),
    (431, b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 1890 + b"\r\nCookie: a=" + b"b" * 5000 + b"\r\n\r\n"),
    (414, b"GET /" + b"a" * 12000 + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
], ids=short)
def test_a_header_that_leaves_no_room_for_a_response_is_refused(server, status, data):
    assert_refused(raw_exchange(server, data), status)


def test_a_header_that_leaves_no_room_for_a_response_draws_nothing(sampler):
    """libmicrohttpd keeps both in 12 KiB, with 64 bytes for each field: it would close without an answer."""
    server = sampler("--store", STORE)
    heard = 0
    for length in range(20, 120):
        answer = raw_exchange(server, b"GET /batch?size=1 HTTP/1.1\r\n" + HOST + (b"X: " + b"a" * length + b"\r\n") * 80 + b"\r\n")
        assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 431")), length
        heard += answer.startswith(b"HTTP/1.1 200")
    assert 0 < heard < 100
    assert server.get("/streams/default").json["position"] == heard


def test_a_query_of_too_many_parameters_is_counted_once(sampler):
    server = sampler("--store", STORE)
    raw_exchange(server, b"GET /batch?" + b"a&" * 70 + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    assert 'tombola_sampler_requests_total{path="/batch",status="400"} 1\n' in server.get("/metrics").text


def test_the_second_of_two_requests_may_be_malformed(server):
    data = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\nGET / HTTP/x\r\n\r\n"
    first, _, second = raw_exchange(server, data).partition(b"ok\n")
    assert first.startswith(b"HTTP/1.1 200 ")
    assert_refused(second, 400)


@pytest.mark.parametrize("header", [
    HOST + b"Content-Length : 38\r\n", HOST + b"Transfer-Encoding : chunked\r\n", HOST + b"Content-Length\t: 38\r\n",
    HOST + b"X: a\0b\r\n", HOST + b"X: a\0\r\nY: b\r\n", HOST + b"X: a\nContent-Length: 38\r\n", HOST + b"X: a\n",
    HOST + b"X: a\rContent-Length: 38\r\n", HOST + b"X: a\r\rY: b\r\n", b"Host: x\n", b"\0" + HOST, HOST + b": x\r\n",
    HOST + b"X: a\r\n b\0c\r\n",
], ids=short)
def test_lines_that_others_read_otherwise_are_refused(server, header):
    """A proxy that takes them for another header passes two requests on as one, or one as two."""
    before = server.get("/streams/default").json["position"]
    inner = b"GET /batch?size=1 HTTP/1.1\r\n" + HOST + b"\r\n"
    for end in (b"", b"Y: c\r\n"):
        answer = raw_exchange(server, b"POST /ack HTTP/1.1\r\n" + header + end + b"\r\n" + inner)
        assert_refused(answer, 400)
    answer = raw_exchange(server, b"POST /ack HTTP/1.1\n" + HOST + b"\r\n" + inner)
    assert_refused(answer, 400)
    assert server.get("/streams/default").json["position"] == before


@pytest.mark.parametrize("header", [
    HOST + b"X: a  \r\n", HOST + b"X:\r\n", b"X:a\r\n" + HOST, b"Host:\tx\r\n", HOST + b"Cookie: a=b; c=d\r\nCookie: e\r\n",
    HOST + b"X: " + b"y" * 5000 + b"\r\n" + b"Z: z\r\n" * 50,
], ids=short)
def test_lines_as_others_write_them_are_taken(server, header):
    """Also when they come a byte at a time, and two requests in one piece."""
    request = b"GET /healthz HTTP/1.1\r\n" + header + b"\r\n"
    assert raw_exchange(server, 2 * request + request[:-2] + b"Connection: close\r\n\r\n").count(b"ok\n") == 3
    with socket.create_connection((server.host, server.port), timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin in range(0, len(request), 1 + len(request) // 100):
            connection.sendall(request[begin : begin + 1 + len(request) // 100])
            time.sleep(0.001)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("headers", [
    {"Origin": "http://elsewhere"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1"}, {"origin": "https://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://HERE", "Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    {"Host": "site.example:8080"}, {"Host": "site.example"}, {"Host": "a.127.0.0.1.site.example."},
    {"Host": "site.example:80", "Origin": "http://site.example:80", "Sec-Fetch-Site": "same-origin"},
], ids=short)
def test_pages_of_other_sites_change_nothing(server, headers):
    """A page that somebody has open can send requests to a server on the same machine, with or without a form."""
    headers = {name: value.replace("HERE", f"{server.host}:{server.port}") for name, value in headers.items()}
    before = server.get("/streams/default").json
    asked = [("GET", "/batch?size=5", None), ("GET", "/batch?size=5&worker=w&seq=0", None), ("POST", "/streams", '{"name":"x"}'),
             ("POST", "/ack", '{"worker":"w","seqs":[0]}'), ("POST", "/release", '{"worker":"w"}'), ("POST", "/streams/default/pause", None),
             ("POST", "/streams/default/seek", '{"position":7}'), ("DELETE", "/streams/x", None)]
    for method, path, body in asked:
        answer = server.request(method, path, body=body, headers=headers)
        assert answer.status == 403 and "site" in answer.json["detail"], (method, path, answer.text)
    assert server.get("/streams/default").json == before
    assert server.get("/batch?size=5&index=0", headers=headers).status == 200
    assert server.get("/healthz", headers=headers).status == 200


def test_a_page_of_this_server_may_change_it(server):
    for headers in ({"Origin": f"http://{server.host}:{server.port}", "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        for change in ("pause", "resume"):
            assert server.request("POST", f"/streams/default/{change}", headers=headers).status == 200


@pytest.mark.parametrize("host", [
    "localhost:8080", "LOCALHOST", "127.0.0.1:8080", "[::1]:8080", "[::1]", "sampler", "sampler:8080", "a.localhost", "node7.local",
    "host.docker.internal:8080"])
def test_names_that_nobody_else_can_have_may_change_it(server, host):
    assert server.get("/batch?size=1", headers={"Host": host}).status == 200
    assert server.request("POST", "/streams/default/resume", headers={"Host": host}).status == 200


def test_who_lets_everybody_draw_has_any_name(sampler):
    server = sampler("--store", STORE, "--allow-anonymous")
    assert server.get("/batch?size=1", headers={"Host": "sampler.site.example"}).status == 200


@pytest.mark.parametrize("length", [b"-50", b"50x", b"99999999999999999999999"])
def test_a_body_of_unknown_length_is_no_request(server, length):
    before = server.get("/streams/default").json["position"]
    answer = raw_exchange(server, b"POST /ack HTTP/1.1\r\n" + HOST + b"Content-Length: " + length + b"\r\n\r\n"
                          b"GET /batch?size=1 HTTP/1.1\r\n" + HOST + b"\r\n")
    assert_refused(answer, 413 if length.isdigit() else 400)
    assert server.get("/streams/default").json["position"] == before


@pytest.mark.parametrize("line", [
    b"GET /batch\0evil?size=1 HTTP/1.1", b"GET /batch?size=1\0 HTTP/1.1", b"GET /batch?size=1\0&index=0 HTTP/1.1",
    b"GET /batch\0 HTTP/1.1", b"GET /batch\0  HTTP/1.1", b"GET /batch\0HTTP/1.1 HTTP/1.1", b"GET /batch\0HTTP/1.1\0 HTTP/1.1",
    b"GET\0 /batch?size=1 HTTP/1.1", b"GET\0x /batch?size=1 HTTP/1.1", b"GET /batch?size=1 HTTP/1.1\0x",
    b"GET /batch?size=1\0" + b"a" * 7000 + b" HTTP/1.1", b"GET http://x/batch\0?size=1 HTTP/1.1",
    b"GET /batch?size=1\x01 HTTP/1.1", b"GET /batch\x1f?size=1 HTTP/1.1", b"GET /batch?size=1\x7f HTTP/1.1",
    b"GET /batch?size=1\t HTTP/1.1", b"GET /batch?size=1\r HTTP/1.1",
    b"GET /batch?size=1%00 HTTP/1.1", b"GET /batch?size%00=1 HTTP/1.1",
])
def test_control_characters_cut_nothing_off(server, line):
    """What stands behind them is not lost: nobody is answered something else than was asked for."""
    before = server.get("/streams/default").json["position"]
    for earlier in (b"", b"GET /batch?size=1&index=0 HTTP/1.1\r\n" + HOST + b"\r\n"):
        answer = raw_exchange(server, earlier + line + b"\r\n" + HOST + b"Connection: close\r\n\r\n")
        if refuses_more_itself() and earlier and b"\0" in line:
            assert answer.count(b"HTTP/1.1 ") == 1 and b'"ids":' in answer, "closed after the first"
        elif line.endswith(b"HTTP/1.1\0x") or (refuses_more_itself() and b"\r" in line):
            assert_refused(answer[answer.rfind(b"HTTP/1.1 "):], 400)
        else:
            assert_raw_problem(answer, 400, answers=2 if earlier else 1)
    assert server.get("/streams/default").json["position"] == before


@pytest.mark.parametrize("body, text", [
    (b"", "empty"), (b"[]", "must be an object"), (b"null", "null"), (b'"x"', "object"), (b"{}", '"worker"'),
    (b'{"worker":"w","seqs":[0]}x', "the end"), (b'{"worker":"w","seqs":[0]}{}', "the end"),
    (b'{"worker":"w","seqs":[0],"seqs":[1]}', "twice"), (b'{"worker":"w","seqs":[0],"sequence":1}', '"sequence"'),
    (b'{"worker":5,"seqs":[0]}', '"worker" is a number'), (b'{"worker":"w","seqs":0}', '"seqs" is a number'),
    (b'{"worker":"w","seqs":["0"]}', '"seqs" is a text'), (b'{"worker":"w","seqs":[-1]}', '"seqs" is -1'),
    (b'{"worker":"w","seqs":[1.5]}', '"seqs" is 1.5'), (b'{"worker":"w","seqs":[9223372036854775808]}', "9223372036854775808"),
    (b'{"worker":"w"}', '"seqs"'), (b'{"worker":"","seqs":[0]}', '"worker"'), (b'{"worker":"a b","seqs":[0]}', '"worker"'),
    (b'{"worker":"w","seqs":[0],"stream":"a/b"}', '"stream"'), (b'{"worker":"\xff","seqs":[0]}', "UTF-8"),
    (b'{"worker":"w\\u0000","seqs":[0]}', "NUL"), (b"[" * 100000, "nested"), (b'{"worker":"w","seqs":[0]', "ends"),
])
def test_bodies_are_read_strictly(server, body, text):
    answer = server.request("POST", "/ack", body=body, headers={"Content-Type": "application/json"})
    assert answer.status == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert text in answer.json["detail"], answer.json["detail"]


@pytest.mark.parametrize("kind, status", [
    ({}, 409), ({"Content-Type": "application/json"}, 409), ({"Content-Type": "application/json; charset=utf-8"}, 409),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 409),  # what `curl -d` says
    ({"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://elsewhere"}, 403),  # what a page can say
    ({"Content-Encoding": "gzip"}, 415), ({"Content-Encoding": "identity"}, 409),
    ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/json; charset=latin1"}, 415),
])
def test_content_types(server, kind, status):
    answer = server.request("POST", "/ack", body=b'{"worker":"nobody","seqs":[0]}', headers=kind)
    assert answer.status == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_bodies_that_are_too_large(server):
    full = b'{"worker":"w","seqs":[' + b"1," * 600000
    assert server.request("POST", "/ack", body=full[: 1 << 20]).status == 400
    assert server.request("POST", "/ack", body=full[: 1 << 20] + b" ").status == 413
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    head = b"POST /ack HTTP/1.1\r\n" + HOST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert_raw_problem(raw_exchange(server, head + 20 * chunk + b"0\r\n\r\n"), 413)
    body = b'{"worker":"nobody","seqs":[0]}'
    split = b"".join(b"1\r\n" + body[i:i + 1] + b"\r\n" for i in range(len(body)))
    assert_raw_problem(raw_exchange(server, head + split + b"0\r\n\r\n"), 409)


@pytest.mark.threads
def test_pipelined_posts_are_answered_in_order(server):
    one = b'POST /ack HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s'
    bodies = [b'{"worker":"w%d","seqs":[]}' % number for number in range(20)]
    answer = raw_exchange(server, b"".join(one % (len(body), body) for body in bodies) + b"GET /healthz HTTP/1.1\r\n" + HOST +
                 b"Connection: close\r\n\r\n")
    assert answer.count(b'{"acked":[]}') == 20 and answer.endswith(b"ok\n")


# ---- slow clients and many of them --------------------------------------------------------------


def asked(server, target):
    """The answer of a server so impatient that a client on a busy machine has to ask again."""
    def ask():
        with contextlib.suppress(OSError):
            return server.get(target)
    return wait_for(ask, f"no answer to {target}")


def trickle(server, data, limit=PATIENCE_S):
    """Sends a byte now and then: how long until the server has enough of it."""
    start = time.monotonic()
    with socket.create_connection((server.host, server.port)) as connection:
        connection.settimeout(0.2)
        for byte in data:
            try:
                connection.sendall(bytes([byte]))
                if connection.recv(1000) == b"":
                    break
            except socket.timeout:
                pass
            except OSError:
                break
            assert time.monotonic() - start < limit, "it never closed the connection"
        return time.monotonic() - start


@pytest.mark.threads
@pytest.mark.parametrize("data", [
    b"GET /healthz" + b"/healthz" * 1000, b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 7000,
    b"POST /ack HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n" + b" " * 9999])
def test_clients_that_trickle_are_closed(sampler, data):
    """After the time that the option gives, not before it, and not after that of a more patient server."""
    patience = (1, 12)
    servers = [sampler("--store", STORE, "--header-timeout", seconds) for seconds in patience]
    with ThreadPoolExecutor(2) as pool:
        lasted = list(pool.map(lambda server: trickle(server, data), servers))
    assert lasted[0] < lasted[1]
    assert all(time_s > 0.9 * seconds for time_s, seconds in zip(lasted, patience)), lasted
    assert [asked(server, "/healthz").status for server in servers] == [200, 200]


@pytest.mark.threads
def test_a_silent_client_is_closed_and_a_resting_one_is_not(sampler):
    server = sampler("--store", STORE, "--header-timeout", 1)
    ask = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"

    def connect():
        """None: on a busy machine it was silent for too long."""
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            connection = stack.enter_context(socket.create_connection((server.host, server.port), timeout=PATIENCE_S))
            connection.sendall(ask)
            if connection.recv(1000).startswith(b"HTTP/1.1 200"):
                stack.pop_all()
                return connection

    with wait_for(connect, "nobody was answered") as resting:
        with socket.create_connection((server.host, server.port), timeout=PATIENCE_S) as silent:
            assert silent.recv(1000) == b""
        time.sleep(3)
        resting.sendall(ask)
        assert resting.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.threads
def test_a_client_that_does_not_read_is_closed(sampler):
    server = sampler("--store", "range:1000000?labels=2", "--header-timeout", 1)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((server.host, server.port))
        connection.sendall(b"GET /batch?size=900000 HTTP/1.1\r\n" + HOST + b"\r\n")
        deadline = time.monotonic() + PATIENCE_S
        while int(re.search(r"tombola_sampler_connections (\d+)", asked(server, "/metrics").text).group(1)) > 1:
            assert time.monotonic() < deadline, "it is still open"
            time.sleep(0.2)


@pytest.mark.threads
def test_requests_that_come_all_at_once_are_answered(sampler):
    """libmicrohttpd 0.9.75 sleeps on exactly 128 requests: so many for each of up to three threads, one by one."""
    server = sampler("--store", STORE)
    ask, held = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", []
    with contextlib.ExitStack() as stack:
        for count in range(1, 400):
            held.append(stack.enter_context(socket.create_connection((server.host, server.port), timeout=PATIENCE_S)))
            if count % 32 and count not in range(250, 262):
                continue
            for rounds in range(2):
                server.signal(signal.SIGSTOP if rounds else signal.SIGCONT)
                for one in held:
                    one.sendall(ask)
                server.signal(signal.SIGCONT)
                for one in held:
                    assert one.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.threads
def test_connections_beyond_the_limit_hear_503(sampler):
    server = sampler("--store", STORE, "--max-connections", 3)
    held = [socket.create_connection((server.host, server.port), timeout=PATIENCE_S) for _ in range(3)]
    for one in held:
        one.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert one.recv(1000).startswith(b"HTTP/1.1 200")
        one.sendall(b"GET /healthz HTTP/1.1\r\n")  # an idle one would have to give way
    answer = raw_exchange(server, b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", shut=False)
    assert_raw_problem(answer, 503)
    assert b"Retry-After: 1" in answer and b"Connection: close" in answer
    for one in held:
        one.close()
    deadline = time.monotonic() + PATIENCE_S
    while server.get("/healthz").status != 200:
        assert time.monotonic() < deadline
