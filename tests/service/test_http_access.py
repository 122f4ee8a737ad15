# SPDX-License-Identifier: MIT
"""Who is let in: tokens and their scopes, TLS, and both read again on SIGHUP."""

import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from conftest import PATIENCE_S, SANITIZED, environment, free_port, program, raw_exchange, run, run_fails, wait_for

STORE = ("--store", "range:1000?labels=10", "--seed", 1)
TOKENS = {"ops": (["read", "draw", "admin"], ["*"]), "reader": (["read"], ["*"]), "trainer": (["draw"], ["default"]),
          "keeper": (["admin"], ["eval"])}


CHANGES = (("POST", "/streams", b'{"name":"eval"}'), ("DELETE", "/streams/default", None),
           *(("POST", f"/streams/default/{what}", b"{}") for what in ("pause", "resume", "seek", "checkpoint", "restore")))


def token_file(path, tokens=None):
    entries = [{"name": name, "sha256": hashlib.sha256(f"secret-{name}".encode()).hexdigest(), "scopes": scopes, "streams": streams}
               for name, (scopes, streams) in (tokens or TOKENS).items()]
    path.write_text(json.dumps({"tokens": entries}))
    path.chmod(0o600)
    return path


@pytest.fixture
def server(sampler, tmp_path):
    return sampler(*STORE, "--token-file", token_file(tmp_path / "tokens.json"))


def ask(server, who, method, target, body=None):
    headers = {"Authorization": f"Bearer secret-{who}"} if who else {}
    return server.request(method, target, body=body, headers=headers)


def test_no_token_and_unknown_tokens(server):
    for target in ("/batch", "/labels", "/frames", "/streams", "/streams/default", "/where?id=1", "/metrics", "/openapi.json",
                   "/", "/nowhere", "/live.json"):
        for headers in ({}, {"Authorization": "Bearer nobody"}, {"Authorization": "Basic secret-ops"},
                        {"Authorization": "secret-ops"}, {"Authorization": "Bearer"}):
            answer = server.request("GET", target, headers=headers)
            assert answer.status == 401, target
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"
    for target in ("/ack", "/streams", "/streams/default/pause"):
        assert server.request("POST", target, body=b"{}").status == 401
    assert server.request("DELETE", "/streams/default").status == 401
    for target in ("/healthz", "/readyz"):
        assert server.get(target).status == 200
    assert ask(server, "ops", "GET", "/streams/default").json["position"] == 0


def test_scopes(server):
    reads = ("/labels", "/frames", "/streams", "/streams/default", "/where?id=1", "/metrics", "/openapi.json", "/",
             "/batch?index=0")
    for target in reads:
        assert ask(server, "reader", "GET", target).status == 200, target
        assert ask(server, "keeper", "GET", target).status == 403, target
    for target in reads[:-1]:
        assert ask(server, "trainer", "GET", target).status == 403, target
    assert ask(server, "reader", "HEAD", "/batch?index=0").status == 200
    assert ask(server, "reader", "HEAD", "/batch").status == 403
    assert ask(server, "trainer", "HEAD", "/batch").status == 200
    assert ask(server, "reader", "GET", "/batch").status == 403
    assert ask(server, "trainer", "GET", "/batch?worker=w&seq=0").status == 200
    lease = b'{"worker":"w","seqs":[0]}'
    for target in ("/extend", "/ack"):
        assert ask(server, "reader", "POST", target, lease).status == 403
        assert ask(server, "keeper", "POST", target, lease).status == 403
        assert ask(server, "trainer", "POST", target, lease).status == 200
    assert ask(server, "trainer", "POST", "/release", b'{"worker":"w"}').status == 200
    assert ask(server, "trainer", "POST", "/streams/default/pause").status == 403
    assert ask(server, "ops", "POST", "/streams/default/pause").status == 200
    for target in ("/streams", "/ack", "/extend", "/release", "/streams/default/seek"):
        assert ask(server, "reader", "POST", target, b"no JSON").status == 403, target  # whatever the body says
    refused = ask(server, "reader", "GET", "/batch")
    assert "reader" in refused.json["detail"] and "draw" in refused.json["detail"]


def test_tokens_are_for_their_streams(server):
    assert ask(server, "keeper", "POST", "/streams", b'{"name":"other"}').status == 403
    assert ask(server, "keeper", "POST", "/streams", b'{"name":"eval"}').status == 201
    assert ask(server, "keeper", "POST", "/streams/eval/pause").status == 200
    assert ask(server, "keeper", "POST", "/streams/default/pause").status == 403
    assert ask(server, "keeper", "DELETE", "/streams/default").status == 403
    assert ask(server, "trainer", "GET", "/batch?stream=eval").status == 403
    assert ask(server, "trainer", "POST", "/ack", b'{"stream":"eval","worker":"w","seqs":[]}').status == 403
    assert ask(server, "keeper", "DELETE", "/streams/eval").status == 204


@pytest.mark.parametrize("change, says", [
    (lambda text: "", "token-file"), (lambda text: "[]", "object"), (lambda text: text.replace('"read"', '"write"'), "write"),
    (lambda text: text.replace("sha256", "sha512"), "sha512"), (lambda text: text.replace("trainer", "ops"), '"ops"')])
def test_a_bad_file_refuses_the_start_and_leaves_the_old_one(sampler, tmp_path, change, says):
    path = token_file(tmp_path / "tokens.json")
    server = sampler(*STORE, "--token-file", path)
    path.write_text(change(path.read_text()))
    run_fails("sampler", "serve", *STORE, "--listen", "127.0.0.1:0", "--token-file", path, says=says)
    server.signal(signal.SIGHUP)
    server.wait_for_log("the old tokens stay in use")
    assert ask(server, "ops", "GET", "/streams").status == 200
    assert ask(server, None, "GET", "/streams").status == 401


@pytest.mark.threads
def test_sighup_reads_the_tokens_again(server, tmp_path):
    token_file(tmp_path / "tokens.json", {"new": (["read"], ["*"])})
    server.signal(signal.SIGHUP)
    server.wait_for_log("tokens=1 before=4")
    assert ask(server, "new", "GET", "/streams").status == 200
    assert ask(server, "ops", "GET", "/streams").status == 401


def test_everybody_may_read_the_file(sampler, tmp_path):
    path = token_file(tmp_path / "tokens.json")
    path.chmod(0o644)
    sampler(*STORE, "--token-file", path).wait_for_log("everybody may read it")


@pytest.mark.threads
def test_sighup_without_anything_to_read(sampler):
    server = sampler(*STORE)
    server.signal(signal.SIGHUP)
    server.wait_for_log("SIGHUP: there is no --token-file")
    assert server.batch("size=1")["first"] == 0
    assert "read again what" not in server.stderr and "certificate read" not in server.stderr


# ---- TLS ----------------------------------------------------------------------------------------


def make_certificate(folder, name, *more, names="IP:127.0.0.1", kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-keyout", key, "-out", cert,
         "-days", "30", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}", *more],
        capture_output=True, check=False)
    assert made.returncode == 0, f"openssl cannot make a certificate: {made.stderr.decode()[-200:]}"
    return cert, key


def tls_get(server, target, cert, **limits):
    context = ssl.create_default_context(cafile=cert)
    for name, value in limits.items():
        setattr(context, name, value)
    address = f"https://127.0.0.1:{server.port}{target}"
    try:
        with urllib.request.urlopen(address, context=context, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def processor_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def threads_asleep(pid):
    """Whether each HTTP thread sleeps: one that is always at work never does."""
    texts = [(task / "stat").read_text(encoding="ascii") for task in Path(f"/proc/{pid}/task").iterdir()]
    return {text.split()[0]: ") S " in text for text in texts if "(http)" in text}


def client_hello():
    """What a client sends first."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(received, sent, server_hostname="localhost").do_handshake()
    return sent.read()


@pytest.mark.parametrize("part", [0, 3, 100, 1000000])
def test_a_handshake_that_waits_costs_nothing(sampler, tmp_path, part):
    """Whoever connects and says nothing, or half of it, kept an HTTP thread at work for as long as it liked."""
    cert, key = make_certificate(tmp_path, "one")
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(client_hello()[:part])
        before, began = processor_s(server.process.pid), time.monotonic()
        time.sleep(1.5)
        used_s = processor_s(server.process.pid) - before
        assert used_s < 0.25 * (time.monotonic() - began)
        large = json.loads(tls_get(server, "/batch?size=50000&index=0", cert)[1])
        assert len(large["ids"]) == 1000, "others are served meanwhile"


def test_handshakes_that_wait_cost_nothing_beside_responses_that_do(sampler, tmp_path):
    """A response that its client does not read kept the thread of a waiting handshake at work, as if it were on its way."""
    cert, key = make_certificate(tmp_path, "one")
    server = sampler("--store", "range:500000", "--tls-cert", cert, "--tls-key", key, "--header-timeout", 3600)
    threads = min(16, max(2, len(os.sched_getaffinity(0))))  # of the server: connections go to each in turn
    context = ssl.create_default_context(cafile=cert)
    with contextlib.ExitStack() as stack:
        for _ in range(threads):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader = stack.enter_context(context.wrap_socket(reader, server_hostname="127.0.0.1"))
            reader.sendall(b"GET /batch?index=0&size=500000 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert reader.recv(4) == b"HTTP"
        for part in (0, 100):
            for _ in range(threads):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                client.sendall(client_hello()[:part])
        time.sleep(1)  # until the kernel has taken what it can of each response
        assert (awake := set(threads_asleep(server.process.pid)))
        for _ in range(300):
            awake -= {thread for thread, asleep in threads_asleep(server.process.pid).items() if asleep}
            time.sleep(0.01)
        assert not awake


@pytest.mark.parametrize("damage", [0, 0x55])
def test_a_handshake_that_was_reset_leaves_nothing(sampler, tmp_path, damage):
    """Also where libmicrohttpd reads what came before the reset, and would wait for more."""
    cert, key = make_certificate(tmp_path, "one")
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key, "--header-timeout", 3600)
    opened = lambda: len(os.listdir(f"/proc/{server.process.pid}/fd"))  # noqa: E731
    before, hello = opened(), client_hello()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(hello[:5] + bytes(byte ^ damage for byte in hello[5:]))
    assert tls_get(server, "/healthz", cert)[0] == 200
    wait_for(lambda: opened() <= before, "a connection stays open")


def test_tls(sampler, tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key)
    assert server.url.startswith("https://")
    assert json.loads(tls_get(server, "/batch?size=7", cert)[1])["size"] == 7
    large = json.loads(tls_get(server, "/batch?size=50000&index=0", cert)[1])
    assert len(large["ids"]) == 1000
    assert tls_get(server, "/nowhere", cert)[0] == 404
    assert tls_get(server, "/healthz", cert, maximum_version=ssl.TLSVersion.TLSv1_2)[0] == 200
    with pytest.raises((urllib.error.URLError, ssl.SSLError)):
        tls_get(server, "/healthz", make_certificate(tmp_path, "stranger")[0])


@pytest.mark.parametrize("kind, cipher, good", [
    ("rsa:2048", "AES128-GCM-SHA256", False), ("rsa:2048", "AES256-SHA", False), ("rsa:2048", "ECDHE-RSA-AES128-SHA", False),
    ("rsa:2048", "ECDHE-RSA-AES128-GCM-SHA256", True), ("ec", "ECDHE-ECDSA-AES128-SHA", False),
    ("ec", "ECDHE-ECDSA-AES128-GCM-SHA256", True)])
def test_no_cipher_without_forward_secrecy_or_with_sha1(sampler, tmp_path, kind, cipher, good):
    cert, key = make_certificate(tmp_path, "one", kind=[kind]) if kind != "ec" else make_certificate(tmp_path, "one")
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key)
    context = ssl.create_default_context(cafile=cert)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{cipher}:@SECLEVEL=0")
    with contextlib.nullcontext() if good else pytest.raises(OSError), \
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client, \
            context.wrap_socket(client, server_hostname="127.0.0.1") as secret:
        assert secret.cipher()[0] == cipher


@pytest.mark.threads
def test_a_new_certificate_without_dropping_connections(sampler, tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    old, new = (cert.read_bytes(), key.read_bytes()), make_certificate(tmp_path, "two")
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key)
    first = tmp_path / "first.crt"
    first.write_bytes(old[0])
    import http.client
    held = http.client.HTTPSConnection("127.0.0.1", server.port, context=ssl.create_default_context(cafile=first), timeout=PATIENCE_S)
    held.request("GET", "/healthz")
    assert held.getresponse().read() == b"ok\n"
    cert.write_bytes(new[0].read_bytes())
    server.signal(signal.SIGHUP)  # the key is still the old one
    server.wait_for_log("is not the key of")
    assert tls_get(server, "/healthz", first)[0] == 200
    key.write_bytes(new[1].read_bytes())
    server.signal(signal.SIGHUP)
    server.wait_for_log("CN=two")
    assert tls_get(server, "/healthz", cert)[0] == 200
    with pytest.raises(urllib.error.URLError):
        tls_get(server, "/healthz", first)
    held.request("GET", "/batch?size=1")
    assert held.getresponse().status == 200
    held.close()


@pytest.mark.threads
def test_tokens_and_certificate_are_read_again_each_by_itself(sampler, tmp_path):
    tokens, (cert, key), new = token_file(tmp_path / "tokens.json"), make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two")
    good = tokens.read_bytes()
    server = sampler(*STORE, "--token-file", tokens, "--tls-cert", cert, "--tls-key", key)
    tokens.write_bytes(b"[]")
    cert.write_bytes(new[0].read_bytes())
    key.write_bytes(new[1].read_bytes())
    run_fails("sampler", "serve", *STORE, "--listen", "127.0.0.1:0", "--token-file", tokens, "--tls-cert", tmp_path / "none",
              "--tls-key", key, says=str(tokens))
    server.signal(signal.SIGHUP)
    server.wait_for_log("the old tokens stay in use")
    server.wait_for_log("CN=two")
    tokens.write_bytes(good.replace(b"ops", b"boss"))
    cert.write_bytes(b"no certificate")
    server.signal(signal.SIGHUP)
    server.wait_for_log("the old certificate stays in use")
    server.wait_for_log("tokens read again")


def test_bad_certificates_refuse_the_start(tmp_path):
    one, two = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two")
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate")
    start = ("sampler", "serve", *STORE, "--listen", "127.0.0.1:0")
    run_fails(*start, "--tls-cert", one[0], says="--tls-key")
    run_fails(*start, "--tls-key", one[1], says="--tls-cert")
    run_fails(*start, "--tls-cert", one[0], "--tls-key", two[1], says="is not the key of")
    run_fails(*start, "--tls-cert", junk, "--tls-key", one[1], says=[str(junk), "certificates in PEM"])
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "pkey", "-in", one[1], "-aes256", "-passout", "pass:word", "-out", locked], check=True, timeout=PATIENCE_S)
    for key in (junk, one[0], locked):
        run_fails(*start, "--tls-cert", one[0], "--tls-key", key, says=[str(key), "private key without a passphrase in PEM"])
    run_fails(*start, "--tls-cert", tmp_path / "none", "--tls-key", one[1], says="none", status=None)
    cert, key = make_certificate(tmp_path, "encrypts", "-addext", "keyUsage=keyEncipherment", kind=["rsa:2048"])
    run_fails(*start, "--tls-cert", cert, "--tls-key", key, says=[str(cert), "no digitalSignature"])
    old = subprocess.run(
        ["openssl", "req", "-x509", "-key", one[1], "-out", tmp_path / "old.crt", "-days", "-1", "-subj", "/CN=old"],
        capture_output=True, check=False)
    if old.returncode == 0:
        run_fails(*start, "--tls-cert", tmp_path / "old.crt", "--tls-key", one[1], says="expired on")


def test_beyond_this_machine_only_with_tokens_or_on_purpose(sampler, tmp_path):
    run_fails("sampler", "serve", *STORE, "--listen", "0.0.0.0:0", says=["--token-file", "--allow-anonymous"])
    assert sampler(*STORE, "--allow-anonymous", listen="0.0.0.0:0").get("/healthz").status == 200
    guarded = sampler(*STORE, "--token-file", token_file(tmp_path / "tokens.json"), listen="0.0.0.0:0")
    assert guarded.get("/batch").status == 401


def test_anonymous_reads_and_draws_and_changes_nothing(sampler):
    """Wherever it listens: the option is a promise, not a wish for this machine's own address."""
    server = sampler(*STORE, "--allow-anonymous")
    for target in ("/", "/labels", "/frames", "/streams/default", "/metrics", "/live.json", "/batch?index=0", "/batch?worker=w&seq=0"):
        assert server.get(target).status == 200, target
    assert server.request("POST", "/ack", body=b'{"worker":"w","seqs":[0]}').status == 200
    assert server.get("/live.json").json["server"]["guarded"] is False
    before = server.get("/streams").json
    for method, target, body in CHANGES:
        for headers in ({}, {"Authorization": "Bearer secret-ops"}):
            answer = server.request(method, target, body=body, headers=headers)
            assert answer.status == 403, (method, target)
            assert '"admin"' in answer.json["detail"] and "--token-file" in answer.json["detail"]
    assert server.get("/streams").json == before


def test_anonymous_beside_tokens(sampler, tmp_path):
    """Who shows a token has what it gives; an unknown one is no request without a token."""
    server = sampler(*STORE, "--allow-anonymous", "--token-file", token_file(tmp_path / "tokens.json"))
    assert server.get("/batch").status == 200
    assert server.get("/streams/default").status == 200
    assert ask(server, "nobody", "GET", "/batch").status == 401
    assert ask(server, "trainer", "GET", "/streams/default").status == 403, "a token of scope draw does not read"
    for method, target, body in CHANGES:
        assert server.request(method, target, body=body).status == 401, (method, target)
    assert ask(server, "keeper", "POST", "/streams/default/pause").status == 403
    assert ask(server, "ops", "POST", "/streams/default/pause").status == 200


@pytest.mark.threads
def test_a_loader_pulls_with_token_and_tls(sampler, tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key, "--token-file", token_file(tmp_path / "tokens.json"))
    pull = ("loader", "pull", "--sampler", server.url, "--store", "range:1000?labels=10", "--size", 10, "--batches", 2)
    done = run(*pull, env={"TOMBOLA_TOKEN": "secret-ops", "TOMBOLA_CA": str(cert)})
    assert len(done.stdout.splitlines()) >= 20
    run_fails(*pull, env={"TOMBOLA_TOKEN": "secret-ops"}, says="certificate", status=1)
    run_fails(*pull, env={"TOMBOLA_TOKEN": "secret-nobody", "TOMBOLA_CA": str(cert)}, says="token", status=None)
    run_fails(*pull, env={"TOMBOLA_CA": str(tmp_path / "none")}, says="must name a PEM file of certificate authorities", status=1)


def pull_from(url):
    return ("pull", "--sampler", url, "--store", "range:1000?labels=10", "--size", 10)


def test_no_authorities_but_those_given(sampler, tmp_path):
    """TOMBOLA_CA replaces the system's, those in its folder, too."""
    if os.geteuid() != 0:
        pytest.skip("only root has mounts of its own")
    (cert, key), stranger = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two")[0]
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key)
    system = tmp_path / "system"
    system.mkdir()
    (system / "ca-certificates.crt").write_bytes(stranger.read_bytes())
    (system / "one.pem").write_bytes(cert.read_bytes())
    subprocess.run(["openssl", "rehash", system], check=True, capture_output=True, timeout=PATIENCE_S)

    def pull(**env):
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", 'mount --bind "$1" /etc/ssl/certs && shift && exec "$@"', "sh", system, program("loader"),
             *map(str, pull_from(server.url)), "--batches", "1"],
            env=environment(env), capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    trusting, strict = pull(), pull(TOMBOLA_CA=str(stranger))
    assert trusting.returncode == 0, trusting.stderr
    assert strict.returncode == 1 and "certificate" in strict.stderr, strict.stderr


def test_a_certificate_of_another_name(sampler, tmp_path):
    cert, key = make_certificate(tmp_path, "other", names="DNS:other.test")
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key)
    run_fails("loader", *pull_from(server.url), env={"TOMBOLA_CA": str(cert)}, status=1, says="name the host of the URL")


def test_a_gateway_is_not_asked_for_http_2(start, tmp_path):
    """There a lost connection has errors of its own, which end a feed ("Error in the HTTP2 framing layer")."""
    cert, key = make_certificate(tmp_path, "one")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        start("loader", *pull_from(f"https://127.0.0.1:{listener.getsockname()[1]}"), env={"TOMBOLA_CA": str(cert)})
        connection = listener.accept()[0]
        connection.settimeout(PATIENCE_S)
        with context.wrap_socket(connection, server_side=True) as tls:
            assert tls.selected_alpn_protocol() == "http/1.1"


def test_http_where_https_is_served(sampler, tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    server = sampler(*STORE, "--tls-cert", cert, "--tls-key", key)
    run_fails("loader", *pull_from(f"http://127.0.0.1:{server.port}"), "--patience", 0.5, status=1,
              says="if the server uses TLS, use https://")


@pytest.mark.threads
def test_a_client_outlasts_a_change_of_authorities(sampler, start, tmp_path):
    """The server's new certificate comes before the clients' new file of authorities; a first connection does not wait for that."""
    one, two, trusted = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two"), tmp_path / "trusted.pem"
    trusted.write_bytes(one[0].read_bytes())
    port, state = free_port(), ("--state", tmp_path / "state")
    server = sampler(*STORE, *state, "--tls-cert", one[0], "--tls-key", one[1], listen=f"127.0.0.1:{port}")
    client = start("loader", *pull_from(server.url), env={"TOMBOLA_CA": str(trusted)}, prefix=("sh", "-c", 'exec "$@" >/dev/null', "sh"))
    wait_for(lambda: json.loads(tls_get(server, "/streams/default", one[0])[1])["position"] > 1000, "nothing is pulled")
    server.stop()
    client.wait_for_log("trying again")
    sampler(*STORE, *state, "--tls-cert", two[0], "--tls-key", two[1], listen=f"127.0.0.1:{port}")
    run_fails("loader", *pull_from(server.url), env={"TOMBOLA_CA": str(trusted)}, status=1, says="signed by an authority")
    time.sleep(3)  # longer than it pauses between two tries
    trusted.write_bytes(two[0].read_bytes())
    client.wait_for_log("answered after")


# ---- before anything of a body is kept ------------------------------------------------------------


def private_bytes(server):
    text = Path(f"/proc/{server.process.pid}/smaps_rollup").read_text(encoding="ascii")
    return sum(int(kilobytes) << 10 for kilobytes in re.findall(r"^Private_\w+:\s+(\d+)", text, re.M))


def head_of(method, target, length, *lines):
    return "\r\n".join((f"{method} {target} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines, "", "")).encode()


def begin(server, data):
    client = socket.create_connection((server.host, server.port), timeout=PATIENCE_S)
    client.sendall(data)
    return client


def has_read_all(server, clients):
    """Has the program taken what these have sent? The kernel's table says what waits for it."""
    own = {client.getsockname()[1] for client in clients}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    queues = {int(row[2][-4:], 16): row[4] for row in rows if int(row[1][-4:], 16) == server.port}
    sent = {int(row[1][-4:], 16): row[4] for row in rows if int(row[2][-4:], 16) == server.port}
    return all(queues.get(port, "").endswith(":00000000") and sent.get(port, "").startswith("00000000:") for port in own)


@pytest.mark.plain
def test_bodies_of_strangers_are_not_kept(server):
    """Nobody's body, nor one that a token may not send, nor one for a path or with a method that takes none."""
    if SANITIZED:
        pytest.skip("a sanitizer has its own idea of memory")
    reader, ops = ("Authorization: Bearer secret-reader", "Authorization: Bearer secret-ops")
    kinds = [(401, "POST", "/ack"), (401, "POST", "/ack", "Authorization: Bearer nobody"), (403, "POST", "/ack", reader),
             (403, "POST", "/streams", reader), (404, "POST", "/nowhere", ops), (405, "POST", "/batch", ops),
             (401, "DELETE", "/streams/default"), (403, "POST", "/ack", ops, "Sec-Fetch-Site: cross-site")]
    asked = [kind for kind in kinds for _ in range(400 // len(kinds))]
    size = 1 << 20
    before = private_bytes(server)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(begin(server, head_of(kind[1], kind[2], size, *kind[3:]) + b" " * (size - 1)))
                   for kind in asked]
        wait_for(lambda: has_read_all(server, clients), "a body was not read")
        grown = private_bytes(server) - before
        assert grown < 20 << 20, f"{grown >> 20} MiB for {len(clients)} bodies"
        for client, kind in zip(clients, asked):
            client.sendall(b" " + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")  # the connection goes on behind the body
            answer = b""
            while not answer.endswith(b"\r\n\r\nok\n"):
                answer += (got := client.recv(65536))
                assert got, answer
            assert answer.startswith(b"HTTP/1.1 %d " % kind[0]), (kind, answer)


@pytest.mark.parametrize("status, method, target, line", [
    (401, "POST", "/ack", "X: y"), (401, "DELETE", "/streams/default", "X: y"), (401, "GET", "/batch", "X: y"),
    (403, "POST", "/streams", "Authorization: Bearer secret-reader"), (404, "POST", "/nowhere", "Authorization: Bearer secret-ops"),
    (405, "POST", "/batch", "Authorization: Bearer secret-ops")])
def test_no_100_for_what_is_refused(server, status, method, target, line):
    """And what would have been the body is not taken for a request."""
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = raw_exchange(server, head_of(method, target, len(request), "Expect: 100-continue", line) + 2 * request, shut=False)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert answer.count(b"HTTP/1.1") == 1 and b"Connection: close" in answer, answer


def test_100_for_what_is_taken(server):
    body = b'{"worker":"w","seqs":[]}'
    with begin(server, head_of("POST", "/ack", len(body), "Expect: 100-continue", "Authorization: Bearer secret-ops",
                               "Connection: close")) as client:
        assert client.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
    with begin(server, head_of("POST", "/ack", len(body), "Authorization: Bearer secret-ops")) as client:
        client.sendall(body)
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_token_withdrawn_while_a_body_comes_opens_nothing(server, tmp_path):
    body = b'{"worker":"w","seqs":[]}'

    def read_again(tokens=None):
        token_file(tmp_path / "tokens.json", tokens)
        before = server.stderr.count("tokens read again")
        server.signal(signal.SIGHUP)
        wait_for(lambda: server.stderr.count("tokens read again") > before, "the tokens are not read")

    def status_of_who_was_too_early():
        with begin(server, head_of("POST", "/ack", len(body), "Authorization: Bearer secret-ops") + body[:-1]) as taken, \
                begin(server, head_of("POST", "/streams/default/pause", 2, "Authorization: Bearer secret-late") + b"{") as refused:
            wait_for(lambda: has_read_all(server, [taken, refused]), "a body was not read")
            read_again({"late": (["admin"], ["*"])})
            taken.sendall(body[-1:])
            assert taken.recv(4096).startswith(b"HTTP/1.1 401 ")
            refused.sendall(b"}")
            return int(refused.recv(4096).split()[1])

    deadline = time.monotonic() + PATIENCE_S
    # The header was refused; but a server that has read it may not have looked at it yet, and do so with the new tokens.
    while (status := status_of_who_was_too_early()) != 401:
        assert status == 200 and time.monotonic() < deadline, status
        read_again()
