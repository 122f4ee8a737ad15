# SPDX-License-Identifier: MIT
"""Promise 8 on a disk that does not answer: whoever waits for it hears so, as if never asked, and all goes on afterwards.

hanging_disk.c makes calls of a running sampler hang, before or after they did what they do; remote_cache.c puts its
folder on NFS, where `process` writes with pwrite(), too.
"""

import http.client
import json
import os
import random
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from service import LONG, PATIENCE_S, SEED, free_port, preloaded, run, wait_for
from test_sampler_disk import STORE, Client, check_no_gap, check_pairs

WAYS = [("fsync", "fdatasync"), ("fsync", "fdatasync-after"), ("fsync", "pwrite"), ("fsync", "pwrite-after"),
        ("process", "pwrite"), ("process", "pwrite-after"), ("nfs", "pwrite"), ("nfs", "pwrite-after")]
CASES = [(*way, end) for end in ("kill", "stop", "go on") for way in WAYS]


class Disk:
    """What hangs, or fails, in programs that have `env`."""

    def __init__(self, folder, library):
        self.folder = folder / "calls"
        self.folder.mkdir()
        libraries = [library(Path(__file__).resolve().with_name(f"{name}.c")) for name in ("remote_cache", "hanging_disk")]
        self.env = preloaded(libraries[1]) | {"HANGING_DISK": str(self.folder)}
        # of programs that end while threads of theirs hang
        self.ending = self.env | {"TSAN_OPTIONS": f"{os.environ.get('TSAN_OPTIONS', '')}:report_thread_leaks=0"}
        self.nfs = self.env | {"LD_PRELOAD": ":".join(map(str, libraries))}

    def begin(self, *calls, only=None):
        if only:
            (self.folder / "only").write_text(only)
        for call in ("met", *calls):
            (self.folder / call).touch()

    def wait_until_met(self):
        wait_for(lambda: not (self.folder / "met").exists(), "nothing was written")

    def end(self):
        for path in list(self.folder.iterdir()):
            path.unlink(missing_ok=True)  # a program removes `met` itself


@pytest.fixture
def disk(tmp_path, library):
    made = Disk(tmp_path, library)
    yield made
    made.end()


class Asker(threading.Thread):
    """One request, and when its answer came."""

    def __init__(self, server, method, path, body=None):
        super().__init__(daemon=True)
        self.server, self.words, self.answer = server, (method, path, body), None
        self.start()

    def run(self):
        self.answer = self.server.request(*self.words)

    def status(self):
        self.join(PATIENCE_S)
        assert self.answer is not None, f"{self.words} never had an answer"
        return self.answer.status


def check_refusal(answer):
    assert answer.status == 503 and int(answer.headers["retry-after"]) > 0, answer.text
    assert "the disk has not answered" in answer.json["detail"]


def check_reports(server, told):
    """All that needs no disk is answered."""
    assert server.get("/healthz").status == 200
    ready = server.get("/readyz")
    assert ready.status == 503 and "the disk has not answered" in ready.text
    assert "\ntombola_sampler_ready 0\n" in server.get("/metrics").text
    for path in ("/", "/metrics", "/streams", "/live.json", "/batch?size=10&index=3", "/labels", "/where?id=7&epoch=0"):
        assert server.get(path).status == 200, path
    now = server.get("/streams/default").json
    assert {name: now[name] for name in told} == told


def told_of(server):
    now = server.get("/streams/default").json
    return {name: now[name] for name in ("position", "state", "acked", "redelivered")}


def hang(server, client, disk, calls):
    """Until the first one was refused; what was told of the stream before."""
    told = told_of(server)
    disk.begin(*calls)
    first = server.request("GET", "/batch?size=5")
    while first.status == 200:  # `process` has room that is mapped
        body = first.json
        client.answered[body["first"]] = body["ids"]
        told = told_of(server)
        first = server.request("GET", "/batch?size=5")
    check_refusal(first)
    return told


@pytest.mark.parametrize("durability, call, end", CASES if LONG else CASES[::5])
def test_who_waits_for_a_disk_that_hangs_hears_so(sampler, disk, tmp_path, durability, call, end):
    options = (*STORE, "--state", tmp_path / "state", "--durability", "process" if durability == "nfs" else durability)
    env = disk.nfs if durability == "nfs" else disk.env
    server = sampler(*options, env=env)
    client = Client(server)
    for number in range(10):
        assert client.draw(lease=number % 2 == 0)[0] == 200
    told = hang(server, client, disk, [call])
    check_reports(server, told)
    asked = [Asker(server, method, path, body) for method, path, body in (
        ("GET", "/batch?size=5", None), ("GET", "/batch?size=5&worker=w&seq=0", None), ("GET", "/batch?size=5&worker=new&seq=0", None),
        ("POST", "/streams/default/pause", None), ("POST", "/streams/default/seek", '{"position":0}'),
        ("POST", "/streams/default/checkpoint", None), ("POST", "/streams", '{"name":"other"}'),
        ("POST", "/ack", json.dumps({"worker": "w", "seqs": [0]})), ("POST", "/release", '{"worker":"w"}'))]
    statuses = [one.status() for one in asked]
    assert statuses.count(503) >= 7 and set(statuses) <= {200, 503}, statuses
    assert server.get("/streams/other").status == 404
    check_reports(server, told)
    if end == "kill":
        server.kill()
    elif end == "stop":
        server.stop(status=1)
        assert "the disk has not answered" in server.stderr.splitlines()[-1], server.stderr
    disk.end()
    if end == "go on":
        wait_for(lambda: server.get("/readyz").status == 200, "it never went on")
    else:
        server = sampler(*options, env=env)
        client.move(server)
    assert told_of(server)["position"] == told["position"]
    check_pairs(server, client, random.Random(SEED))
    for _ in range(20):
        assert client.draw(lease=False)[0] == 200
    check_no_gap(client.answered, told["position"] + 100)
    server.stop()
    assert sampler(*options).get("/streams/default").json["position"] == told["position"] + 100


@pytest.mark.parametrize("change", ["seek", "restore", "delete", "create"])
def test_a_change_that_waits_when_it_hangs_is_undone(sampler, disk, tmp_path, change):
    """Of the ones that wait themselves, the answer comes when they are undone."""
    options = (*STORE, "--state", tmp_path / "state")
    server = sampler(*options, env=disk.env)
    client = Client(server)
    for number in range(10):
        assert client.draw(lease=number % 2 == 0)[0] == 200
    token = server.request("POST", "/streams/default/checkpoint").json["token"]
    assert client.draw(lease=False)[0] == 200
    assert server.request("POST", "/streams", body='{"name":"there"}').status == 201
    names = server.get("/streams").json
    told = told_of(server)
    words = {"seek": ("POST", "/streams/default/seek", '{"position":50000}'),
             "restore": ("POST", "/streams/default/restore", json.dumps({"token": token})),
             "delete": ("DELETE", "/streams/there"), "create": ("POST", "/streams", '{"name":"new"}')}[change]
    disk.begin("fdatasync")
    check_refusal(server.request(*words))
    check_reports(server, told)
    assert [one["name"] for one in server.get("/streams").json["streams"]] == [one["name"] for one in names["streams"]]
    server.kill()
    disk.end()
    server = sampler(*options)
    assert told_of(server)["position"] == told["position"]
    assert [one["name"] for one in server.get("/streams").json["streams"]] == [one["name"] for one in names["streams"]]
    check_pairs(server, client, random.Random(SEED))
    assert server.request(*words).status in (200, 201, 204)
    server.stop()


def test_a_name_is_in_use_once_its_stream_is_kept(sampler, disk, tmp_path):
    """Of many that make the same stream, none hears that it is there as long as it may be undone."""
    server = sampler(*STORE, "--state", tmp_path / "state", env=disk.env)
    disk.begin("fdatasync")
    askers = [Asker(server, "POST", "/streams", '{"name":"eval"}')]
    wait_for(lambda: server.get("/streams/eval").status == 200, "it was never made")
    askers += [Asker(server, "POST", "/streams", '{"name":"eval"}') for _ in range(3)]
    assert [asker.status() for asker in askers] == [503] * 4
    assert server.get("/streams/eval").status in (404, 503)
    disk.end()
    wait_for(lambda: server.get("/readyz").status == 200, "it never went on")
    made = [Asker(server, "POST", "/streams", '{"name":"eval"}') for _ in range(4)]
    assert sorted(asker.status() for asker in made) == [201, 409, 409, 409]
    server.stop()


def test_a_refusal_of_many_acks_waits_for_what_it_rests_on(sampler, disk, tmp_path):
    """Here on a draw of the worker's expired batch, which the disk then refuses."""
    server = sampler("--store", "range:10000", "--lease", 3, "--state", tmp_path / "state", env=disk.env)
    seqs = list(range(300))  # more than one piece
    for seq in seqs[::50]:
        assert server.batch(f"size=10&worker=w&seq={seq}&batches=50")["batches"][-1]["first"] == 10 * seq + 490

    def next_is(first):
        return server.request("HEAD", "/batch?size=10&format=csv").headers["tombola-first"] == str(first)

    wait_for(lambda: next_is(0), "no lease ran out")
    disk.begin("fdatasync")
    askers = [Asker(server, "GET", "/batch?size=10")]
    wait_for(lambda: next_is(10), "nothing was drawn")
    acks = ",".join(map(str, seqs[1:]))
    askers += [Asker(server, "POST", "/ack", json.dumps({"worker": "w", "seqs": seqs})),
               Asker(server, "GET", f"/batch?size=10&worker=w&seq={len(seqs)}&ack=0,{acks}"),
               Asker(server, "GET", f"/batch?size=10&worker=w&seq=0&ack={acks}")]
    assert [asker.status() for asker in askers] == [503] * len(askers)
    disk.end()
    wait_for(lambda: server.get("/readyz").status == 200, "it never went on")
    assert server.request("POST", "/ack", body=json.dumps({"worker": "w", "seqs": seqs})).status == 200
    server.stop()


def pull(clients, ends):
    """Each client draws in a thread until `ends`; a server that is gone is no answer."""
    def run(client):
        while not ends.is_set():
            try:
                status, _ = client.draw(lease=client.name != "w0")
            except (OSError, http.client.HTTPException):
                status = None
            if status != 200:
                ends.wait(0.02)

    threads = [threading.Thread(target=run, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.parametrize("durability", ["fsync", "nfs"])
def test_hangs_failures_and_kills_at_random(sampler, disk, tmp_path, durability):
    """Six clients draw meanwhile. What was answered lies side by side, but for what a kill kept from being answered."""
    dice = random.Random(SEED)
    options = ("--store", "range:1000000?labels=10", "--seed", 3, "--lease", 3600, "--state", tmp_path / "state",
               "--durability", "process" if durability == "nfs" else durability)
    env = disk.nfs if durability == "nfs" else disk.env
    calls = ["pwrite", "pwrite-after"] + ["fdatasync", "fdatasync-after", "fdatasync-fails"] * (durability == "fsync")
    server = sampler(*options, env=env)
    clients = [Client(server, f"w{number}") for number in range(6)]
    killed = 0
    for number in range(40 if LONG else 4):
        ends, seen = threading.Event(), sum(len(client.answered) for client in clients)
        threads = pull(clients, ends)
        wait_for(lambda: sum(len(client.answered) for client in clients) > seen + 20, "nobody draws")
        disk.begin(dice.choice(calls))
        if number % 2:  # for long enough
            wait_for(lambda: server.get("/readyz").status == 503, "it never gave up")
        time.sleep(dice.random() * 2)
        if dice.random() < 0.5:
            killed += 1
            server.kill()
        disk.end()
        ends.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        if server.process.poll() is not None:
            server = sampler(*options, env=env)
            for client in clients:
                client.move(server)
    answered = {}
    for client in clients:  # what a pair heard an error of, or nothing, is still its own
        wait_for(lambda: client.draw(lease=client.name != "w0")[0] == 200, "it never went on")
        assert not answered.keys() & client.answered.keys(), "answered twice"
        answered.update(client.answered)
    position = server.get("/streams/default").json["position"]
    missing = position - sum(map(len, answered.values()))
    assert 0 <= missing <= 5 * killed, f"{missing} positions are nobody's after {killed} kills"
    for client in clients[1:]:
        check_pairs(server, client, random.Random(SEED), sample=10)


def test_a_trainer_says_that_its_last_save_hangs(sampler, start, disk, tmp_path):
    """It goes on to wait: a file server that comes back loses nothing."""
    (tmp_path / "rows.csv").write_text("id,label,x\n" + "".join(f"{i},{i % 2},{i % 7}\n" for i in range(1000)))
    server = sampler("--store", tmp_path / "rows.csv")
    trainer = start("trainer", "train", "--sampler", server.url, "--store", tmp_path / "rows.csv", "--logdir", tmp_path / "run", "--device", "cpu",
                    "--train-steps", 10**9, "--print-every", 0, env=disk.env)
    wait_for(lambda: (tmp_path / "run" / "checkpoint").exists() or trainer.process.poll() is not None, "nothing was saved")
    wait_for(lambda: re.search(r"step [1-9]\d* of", trainer.stderr), "no step was done")
    disk.begin("fsync")
    trainer.terminate()
    trainer.wait_for_log(r"step \d+ is not saved after 5 s: the logdir's disk is slow or does not answer")
    assert trainer.process.poll() is None
    disk.end()
    assert trainer.wait() == 143
    assert re.search(r"stopped by SIGTERM after step [1-9]\d*; start again with the same --logdir", trainer.stderr)


def test_a_trainer_tries_its_last_save_again(sampler, start, disk, tmp_path):
    """The disk refuses it once: no step is lost."""
    (tmp_path / "rows.csv").write_text("id,label,x\n" + "".join(f"{i},{i % 2},{i % 7}\n" for i in range(1000)))
    server = sampler("--store", tmp_path / "rows.csv")
    trainer = start("trainer", "train", "--sampler", server.url, "--store", tmp_path / "rows.csv", "--logdir", tmp_path / "run", "--device", "cpu",
                    "--train-steps", 10**9, "--print-every", 0, env=disk.env)
    wait_for(lambda: re.search(r"step [1-9]\d* of", trainer.stderr), "no step was done")
    disk.begin("fsync-fails")
    trainer.terminate()
    trainer.wait_for_log(r"step \d+ was not saved, .*Input/output error; it is tried again")
    disk.end()
    assert trainer.wait() == 143
    last = re.search(r"stopped by SIGTERM after step ([1-9]\d*); start again", trainer.stderr)[1]
    assert (tmp_path / "run" / f"model.ckpt-{last}.safetensors").exists()


# ---- files that programs write, and checkpoints ---------------------------------------------------


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,label,x\n" + "".join(f"{i},{i % 3},{i % 256}\n" for i in range(3000)))
    return path


WRITERS = {
    "out.db": lambda rows, out, server: ["loader", "import", rows, out],
    "out.frame": lambda rows, out, server: ["sampler", "build", "--store", rows, "--out", out],
    "out.onnx": lambda rows, out, server: ["trainer", "export", "--out", out, "--logdir", trained(rows, server)],
}


def trained(rows, server):
    logdir = rows.with_name("trained")
    run("trainer", "train", "--sampler", server.url, "--store", rows, "--logdir", logdir, "--train-steps", 1, "--device", "cpu")
    return logdir


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("call", ["fsync", "fsync-after"])
def test_a_signal_ends_a_program_whose_file_hangs(sampler, start, disk, rows, tmp_path, name, call):
    out = tmp_path / name
    words = WRITERS[name](rows, out, sampler("--store", rows))
    run(*words)
    before = out.read_bytes()
    for there in (True, False):
        disk.begin(call)
        program = start(*words, env=disk.ending)
        disk.wait_until_met()
        program.terminate()
        assert program.wait() == 128 + signal.SIGTERM
        assert "stopped while" in program.stderr and "does not answer" in program.stderr, program.stderr
        assert out.read_bytes() == before if there else not out.exists()
        disk.end()
        if there:
            out.unlink()
    run(*words)
    assert out.read_bytes() == before
    assert not list(tmp_path.glob(f"{name}.*")), "the next one removes what was left"


def goes_on(server, rows, logdir, steps, *more, every=0):
    return ("trainer", "train", "--sampler", server.url, "--store", rows, "--logdir", logdir, "--train-steps", steps, "--device", "cpu",
            "--model", "softmax", "--print-every", every, "--save-secs", 0, *more)


def alone():
    return []


def chief():
    """With the servers' thread, of a cluster whose other worker never comes."""
    return ["--job-name", "worker", "--task-index", 0, "--worker-hosts", f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"]


@pytest.mark.threads
@pytest.mark.parametrize("role", [alone, chief])
def test_a_signal_ends_a_training_whose_disk_hangs(sampler, start, disk, rows, tmp_path, role):
    """Within seconds, and what is whole is named; nothing of it is lost."""
    server, logdir = sampler("--store", rows), tmp_path / "run"
    training = start(*goes_on(server, rows, logdir, 10**9, *role(), every=1000), env=disk.ending)
    training.wait_for_log(r"saved \S*ckpt-0")  # with its folder's entry; a chief's server saves beside the training
    training.wait_for_log(r"step [1-9]\d* of")
    disk.begin("fsync")
    training.terminate()
    assert training.wait() == 128 + signal.SIGTERM
    assert re.search(r"stopped before step \d+ was saved: .* model\.ckpt-0.*\(step 0\) is the newest checkpoint that is whole",
                     training.stderr.replace(str(logdir) + "/", " ")), training.stderr
    disk.end()
    done = run(*goes_on(server, rows, logdir, 10))
    assert "model.ckpt-0.safetensors, step 0" in done.stderr, done.stderr


@pytest.mark.threads
def test_a_signal_ends_a_training_whose_first_save_hangs(sampler, start, disk, rows, tmp_path):
    server, logdir = sampler("--store", rows), tmp_path / "run"
    disk.begin("fsync", only="ckpt")
    training = start(*goes_on(server, rows, logdir, 10**9), env=disk.ending)
    disk.wait_until_met()
    training.terminate()
    assert training.wait() == 128 + signal.SIGTERM
    assert "stopped before step 0 was saved" in training.stderr and "there is no checkpoint in" in training.stderr, training.stderr
    disk.end()
    run(*goes_on(server, rows, logdir, 10))


def test_a_logdir_that_hangs_at_the_start_is_named(sampler, start, disk, rows, tmp_path):
    """Once, and training begins when it is back."""
    server, logdir = sampler("--store", rows), tmp_path / "run"
    disk.begin("fsync")
    training = start(*goes_on(server, rows, logdir, 3), env=disk.env)
    training.wait_for_log("waiting for 5 s now, while the logdir .* does not answer")
    assert training.process.poll() is None
    disk.end()
    assert training.wait() == 0, training.stderr
    assert training.stderr.count("waiting for 5 s now") == 1
    assert (logdir / "model.ckpt-3.safetensors").exists()


@pytest.mark.parametrize("role", [alone, chief])
def test_a_training_that_is_over_waits_for_its_disk(sampler, start, disk, rows, tmp_path, role):
    """It says so, and ends well when the disk is back."""
    server, logdir = sampler("--store", rows), tmp_path / "run"
    disk.begin("fsync-after", only="ckpt")
    training = start(*goes_on(server, rows, logdir, 3, *role()), env=disk.env)
    disk.wait_until_met()
    training.wait_for_log(r"step \d is not saved after \d+ s: the logdir's disk is slow or does not answer")
    disk.end()
    assert training.wait() == 0, training.stderr
    assert (logdir / "model.ckpt-3.safetensors").exists()
