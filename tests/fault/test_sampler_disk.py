# SPDX-License-Identifier: MIT
"""Promise 5 when the disk is full, fails, or gives back other bytes than were written."""

import http.client
import json
import os
import random
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from failing_disk import failing, traced
from service import LONG, PATIENCE_S, SEED, program, environment, preloaded, run_fails, wait_for

UNITS = 100000
STORE = ("--store", f"range:{UNITS}?labels=10", "--seed", 3, "--lease", 3000)


class Client:
    """Draws over one connection, and keeps what was answered: {first: ids}, {(worker, seq): first}."""

    def __init__(self, server, name="w"):
        self.name, self.seq, self.answered, self.leased, self.statuses = name, 0, {}, {}, {}
        self.acked, self.maybe_acked = set(), set()  # seqs
        self.move(server)

    def move(self, server):
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)

    def draw(self, size=5, lease=True, ack=None):
        query = f"/batch?size={size}" + (f"&worker={self.name}&seq={self.seq}" if lease else "")
        query += f"&ack={ack}" if ack is not None else ""
        self.connection.request("GET", query)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.getheader("Connection") == "close":
            self.connection.close()
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        value = json.loads(body) if body else None
        if answer.status == 200:
            assert value["first"] not in self.answered, f"{value['first']} was answered twice"
            self.answered[value["first"]] = value["ids"]
            if lease:
                self.leased[self.name, self.seq] = value["first"]
                self.seq += 1
        if ack is not None:
            (self.acked if answer.status == 200 else self.maybe_acked).add(ack)
        return answer.status, value


def check_no_gap(answered, end):
    """Every draw got an answer: what is answered lies side by side up to `end`."""
    position = 0
    for first, ids in sorted(answered.items()):
        assert first == position, f"positions {position} to {first} are lost, or {first} came twice"
        position = first + len(ids)
    assert position == end


def check_pairs(server, client, dice, sample=50):
    """(worker, seq) still answers the same batch."""
    for (worker, seq), first in dice.sample(sorted(client.leased.items()), min(sample, len(client.leased))):
        body = server.batch(f"size=5&worker={worker}&seq={seq}")
        assert (body["first"], body["ids"], body["attempt"]) == (first, client.answered[first], 1)


def fill(folder):
    """A file that takes all that is left; removing it makes room again."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as out:
        for step in (1 << 16, 1 << 12, 1 << 8):
            try:
                while True:
                    out.write(b"x" * step)
            except OSError:
                pass
        try:
            os.fsync(out.fileno())
        except OSError:
            pass
    return ballast


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_a_full_disk_refuses_and_goes_on_when_there_is_room(sampler, mounted, kind, durability):
    disk = mounted(kind, 16 << 20)
    options = (*STORE, "--state", disk / "state", "--durability", durability)
    server = sampler(*options)
    client = Client(server)
    for _ in range(50):
        client.draw()
    for _ in range(2):
        ballast = fill(disk)
        deadline = time.monotonic() + PATIENCE_S
        while client.draw()[0] == 200:
            assert time.monotonic() < deadline, f"it never used up its room: {client.statuses}"
        position = server.get("/streams/default").json["position"]
        for _ in range(5):
            status, problem = client.draw()
            assert status == 507 and problem["status"] == 507 and problem["detail"]
        assert server.get("/streams/default").json["position"] == position == max(client.answered) + 5
        assert server.batch("size=10&index=0")["first"] == 0, "index= needs no state"
        assert server.get("/healthz").status == 200
        ballast.unlink()
        wait_for(lambda: client.draw()[0] == 200, "it never went on")
        for _ in range(20):
            assert client.draw()[0] == 200
    position = server.get("/streams/default").json["position"]
    check_no_gap(client.answered, position)
    server.kill()
    server = sampler(*options)
    assert server.get("/streams/default").json["position"] == position
    check_pairs(server, client, random.Random(SEED))
    client.move(server)
    client.draw()
    check_no_gap(client.answered, position + 5)
    server.stop()  # on the small disk nothing may be open when it goes


def test_a_kill_while_the_disk_is_full_and_a_start_on_a_full_disk(sampler, mounted):
    disk = mounted("tmpfs", 16 << 20)
    options = (*STORE, "--state", disk / "state")
    server = sampler(*options)
    client = Client(server)
    client.draw()
    ballast = fill(disk)
    deadline = time.monotonic() + PATIENCE_S
    while client.draw()[0] == 200:
        assert time.monotonic() < deadline
    position = server.get("/streams/default").json["position"]
    server.kill()
    done = subprocess.Popen([program("sampler"), "serve", *map(str, options), "--listen", "127.0.0.1:0"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    line = done.stdout.readline()
    if line:  # it may start: then it answers what needs no room, and nothing that was answered
        port = int(line.rsplit(":", 1)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/streams/default")
        assert json.loads(connection.getresponse().read())["position"] == position
        done.kill()
        done.communicate()
    else:
        assert done.wait(PATIENCE_S) == 1, "a full disk is exit 1"
        assert "o space" in done.stderr.read()
    ballast.unlink()
    server = sampler(*options)
    assert server.get("/streams/default").json["position"] == position
    check_pairs(server, client, random.Random(SEED + 1))
    server.stop()


def test_a_stop_on_a_full_disk_that_it_was_started_on(sampler, mounted):
    """Nothing is lost by an end that cannot be in order: it says so, and the journal of before is there."""
    disk = mounted("tmpfs", 16 << 20)
    options = (*STORE, "--state", disk / "state")
    server = sampler(*options)
    client = Client(server)
    for number in range(20):
        assert client.draw(lease=number % 2 == 0)[0] == 200
    position = server.get("/streams/default").json["position"]
    server.kill()
    ballast = fill(disk)
    server = sampler(*options)
    client.move(server)
    assert [client.draw()[0], client.draw(lease=False)[0]] == [507, 507]
    server.stop(status=1)
    assert "o space" in server.stderr.splitlines()[-1], server.stderr
    ballast.unlink()
    server = sampler(*options)
    assert server.get("/streams/default").json["position"] == position
    check_pairs(server, client, random.Random(SEED))
    client.move(server)
    assert client.draw(lease=False)[0] == 200
    check_no_gap(client.answered, position + 5)
    server.stop()


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_heard_an_error_was_never_asked(sampler, strace, tmp_path, end):
    """The disk fails and stays so until the server is gone: the next one answers what was refused. Meanwhile nobody waits."""
    options = (*STORE, "--state", tmp_path / "state")
    server = sampler(*options)
    client = Client(server)
    for number in range(10):
        assert client.draw(lease=number % 2 == 0)[0] == 200
    position = server.get("/streams/default").json["position"]
    with failing(server, strace, tmp_path / "trace", "fdatasync,fsync:error=EIO:when=1+"):
        statuses = [client.draw(lease=False)[0] for _ in range(3)]
        for method, path in (("GET", "/batch?size=5&worker=w&seq=0"), ("POST", "/streams/default/checkpoint"),
                             ("POST", "/streams/default/resume"), ("POST", "/streams/default/pause")):
            statuses.append(server.request(method, path).status)
        assert set(statuses) <= {503, 507}, statuses
        if end == "kill":
            server.kill()
        else:
            server.stop(status=1)
    server = sampler(*options)
    assert server.get("/streams/default").json["position"] == position
    client.move(server)
    for _ in range(5):
        assert client.draw(lease=False)[0] == 200
    check_no_gap(client.answered, position + 25)
    check_pairs(server, client, random.Random(SEED))


@pytest.mark.parametrize("durability, syncs", [("fsync", 1), ("process", 2), ("none", 2)])
def test_an_end_synchronizes_no_more_than_it_must(sampler, strace, tmp_path, durability, syncs):
    """A slow disk takes seconds for each, and a supervisor does not wait for ever."""
    options = (*STORE, "--state", tmp_path / "state", "--durability", durability)
    no_leaks = f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"  # LeakSanitizer does not work where strace is attached
    server = sampler(*options, env={"ASAN_OPTIONS": no_leaks})
    for size in range(1, 50):
        server.batch(f"size={size}")
    position = server.get("/streams/default").json["position"]
    with traced(server, strace, tmp_path / "trace", "-e", "trace=fdatasync,fsync,sync_file_range"):
        server.stop()
    done = [line for line in (tmp_path / "trace").read_text().splitlines() if "sync" in line and "resumed" not in line]
    assert len(done) == syncs, done
    assert sampler(*options).get("/streams/default").json["position"] == position


@pytest.mark.parametrize("end", ["kill", "stop", "go on"])
@pytest.mark.parametrize("change", ["seek", "restore"])
@pytest.mark.parametrize("durability, calls", [("fsync", "fdatasync,fsync"), ("process", "pwrite64")])
def test_a_seek_that_heard_an_error_was_never_asked(sampler, strace, library, tmp_path, change, end, durability, calls):
    """The 503 leaves when it is undone; the same request succeeds as soon as the disk works. `process`: on NFS, where a
    draw is written, too, but not synced."""
    options = (*STORE, "--state", tmp_path / "state", "--durability", durability)
    nfs = preloaded(library(Path(__file__).resolve().with_name("remote_cache.c"))) if durability == "process" else None
    server = sampler(*options, env=nfs)
    client = Client(server)
    for number in range(10):
        assert client.draw(lease=number % 2 == 0)[0] == 200
    token = server.request("POST", "/streams/default/checkpoint").json["token"]
    assert client.draw(ack=0)[0] == 200
    body = json.dumps({"position": 50000} if change == "seek" else {"token": token})
    wanted = server.get("/streams/default").json
    told = {name: wanted[name] for name in ("position", "leased", "acked", "redelivered", "state")}

    def check():
        now = server.get("/streams/default").json
        assert {name: now[name] for name in told} == told
        check_pairs(server, client, random.Random(SEED))

    del client.leased["w", 0]
    with failing(server, strace, tmp_path / "trace", f"{calls}:error=EIO:when=1+"):
        assert server.request("POST", f"/streams/default/{change}", body=body).status == 503
        now = server.get("/streams/default").json
        assert {name: now[name] for name in told} == told
        if end == "kill":
            server.kill()
        elif end == "stop":
            server.stop(status=1)
    if end == "go on":
        wait_for(lambda: server.request("POST", "/streams/default/resume").status == 200, "it never went on")
        check()
        server.kill()
    server = sampler(*options, env=nfs)
    check()
    client.move(server)
    assert server.request("POST", f"/streams/default/{change}", body=body).status == 200
    position = wanted["position"] - 5
    assert server.get("/streams/default").json["position"] == (50000 if change == "seek" else position)
    server.stop()


@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_a_disk_that_fails_now_and_then_repeats_and_skips_nothing(sampler, strace, tmp_path, durability):
    """EIO of every fifth fdatasync, and of writes to the state, by strace."""
    options = (*STORE, "--state", tmp_path / "state", "--durability", durability)
    server = sampler(*options)
    clients = [Client(server, f"w{number}") for number in range(6)]
    with failing(server, strace, tmp_path / "trace", "fdatasync,fsync:error=EIO:when=3+5", "pwrite64,pwritev:error=EIO:when=20+31"):
        def refused():
            return any(503 in client.statuses for client in clients)

        def pull(client):
            began = time.monotonic()
            until, latest = began + (20 if LONG else 2.5), began + PATIENCE_S
            while time.monotonic() < until or (durability == "fsync" and not refused() and time.monotonic() < latest):
                lease = client.name != "w0"
                status, _ = client.draw(lease=lease, ack=client.seq - 3 if lease and client.seq % 3 == 0 and client.seq else None)
                if status != 200:
                    time.sleep(0.01)

        threads = [threading.Thread(target=pull, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    statuses = {status for client in clients for status in client.statuses}
    assert statuses <= {200, 503}, statuses
    if durability == "fsync":
        assert 503 in statuses and "INJECTED" in (tmp_path / "trace").read_text()
    for client in clients:  # what a pair heard an error of is still its own
        wait_for(lambda: client.draw(lease=client.name != "w0")[0] == 200, "it never went on")
    answered = {}
    for client in clients:
        assert not answered.keys() & client.answered.keys(), "answered twice"
        answered.update(client.answered)
    position = server.get("/streams/default").json["position"]
    check_no_gap(answered, position)
    server.kill()
    server = sampler(*options)
    assert server.get("/streams/default").json["position"] == position
    for client in clients[1:]:
        check_leased_batches(server, client)


def check_leased_batches(server, client):
    """What was acked stays acked; all else that was leased comes again, once it is given back."""
    due = {first for (_, seq), first in client.leased.items() if seq not in client.acked | client.maybe_acked}
    never = {first for (_, seq), first in client.leased.items() if seq in client.acked}
    released = server.request("POST", "/release", body=json.dumps({"worker": client.name})).json["released"]
    assert len(due) <= released <= len(client.leased) - len(never)
    again = {}
    for _ in range(released):
        body = server.batch("size=5")
        assert body["first"] not in again
        again[body["first"]] = body["ids"]
    assert due <= again.keys() and not never & again.keys()
    assert all(ids == client.answered[first] for first, ids in again.items())


# ---- damage -------------------------------------------------------------------------------------


def make_state(sampler, folder, durability, orderly):
    """A state with two streams, leases, acks; what it must go on with."""
    options = (*STORE, "--state", folder, "--durability", durability)
    server = sampler(*options)
    assert server.request("POST", "/streams", body=json.dumps({"name": "eval", "design": "srs", "seed": 4})).status == 201
    client = Client(server)
    for number in range(60):
        client.draw(lease=number % 2 == 0)
        if number % 10 == 0:
            server.batch("stream=eval&size=11")
    body = json.dumps({"worker": "w", "seqs": [0, 1, 5]})
    assert server.request("POST", "/ack", body=body).status == 200
    client.draw()
    wanted = {name: server.get(f"/streams/{name}").json for name in ("default", "eval")}
    if orderly:
        server.stop()
    else:
        server.kill()
    return options, wanted


class Outcome:
    """What a start with a damaged state does: refuses it, or goes on from somewhere."""

    def __init__(self, options, folder, log):
        words = [str(folder) if word == options[options.index("--state") + 1] else str(word) for word in options]
        with open(log, "wb") as errors:
            process = subprocess.Popen([program("sampler"), "serve", "--listen", "127.0.0.1:0", *words],
                                       stdout=subprocess.PIPE, stderr=errors, env=environment())
        line = process.stdout.readline().decode()
        self.streams = None
        if line:
            connection = http.client.HTTPConnection("127.0.0.1", int(line.rsplit(":", 1)[1]), timeout=PATIENCE_S)
            connection.request("GET", "/streams")
            self.streams = {one["name"]: one for one in json.loads(connection.getresponse().read())["streams"]}
            process.kill()
        process.communicate(timeout=PATIENCE_S)
        self.status, self.log = process.returncode, log.read_text(errors="replace")

    def refused(self, folder):
        return self.streams is None and self.status == 2 and str(folder) in self.log


def last_frame(journal):
    """Where it begins; damage from there on looks like an entry that was being written."""
    at = last = 8192
    while length := int.from_bytes(journal[at + 8 : at + 12], "little") & 0x7fffffff:
        last, at = at, at + 16 + (length + 7 & ~7)
    return last


@pytest.mark.parametrize("durability, orderly", [("fsync", False), ("process", False), ("fsync", True), ("none", True)])
def test_damage_is_refused_and_nothing_answered_comes_again(sampler, tmp_path, durability, orderly):
    options, wanted = make_state(sampler, tmp_path / "state", durability, orderly)
    dice = random.Random(SEED)
    whole = {path.name: path.read_bytes() for path in sorted((tmp_path / "state").iterdir()) if path.name != "lock"}
    assert whole
    used = {name: len(data.rstrip(b"\0")) for name, data in whole.items()}
    for number in range(400 if LONG else 30):
        name = dice.choice([name for name in whole if used[name]])
        data = bytearray(whole[name])
        how = dice.choice(("flip", "flip", "cut", "zeros"))
        at = dice.randrange(used[name])
        if how == "flip":
            data[at] ^= 1 << dice.randrange(8)
        elif how == "cut":
            del data[at:]
        elif how == "zeros":
            data[at : at + 512] = bytes(len(data[at : at + 512]))
        folder = tmp_path / f"damaged{number}"
        shutil.copytree(tmp_path / "state", folder)
        (folder / name).write_bytes(data)
        outcome = Outcome(options, folder, tmp_path / f"log{number}")
        what = f"seed {SEED}: {how} at {at} of {used[name]} of {name} ({durability}, orderly={orderly}): {outcome.log[-1500:]}"
        cut_short = not orderly and at + (512 if how == "zeros" else 1) > last_frame(whole["journal"])
        if outcome.streams is None:
            assert outcome.refused(folder), what
        elif outcome.streams != wanted:
            assert cut_short, f"went back to {outcome.streams}\n{what}"
        shutil.rmtree(folder)


def test_another_frame_and_a_second_server_are_refused_by_name(sampler, tmp_path):
    options, _ = make_state(sampler, tmp_path / "state", "fsync", False)
    state = ("--state", tmp_path / "state", "--listen", "127.0.0.1:0")
    for change, says in (((f"range:{UNITS + 1}?labels=10",), str(UNITS + 1)), ((f"range:{UNITS}?labels=9",), "frame"),
                         ((f"range:{UNITS}?labels=10", "--seed", 8), "seed"),
                         ((f"range:{UNITS}?labels=10", "--design", "srs"), "design"),
                         ((f"range:{UNITS}?labels=10", "--design", "bernoulli", "--rate", 0.5), "design"),
                         ((f"range:{UNITS}?labels=10", "--rows", "5:50"), "45")):
        run_fails("sampler", "serve", "--store", *change, *state, says=says)
    server = sampler(*options)
    run_fails("sampler", "serve", *STORE, *state, says=["in use", str(server.process.pid)])
