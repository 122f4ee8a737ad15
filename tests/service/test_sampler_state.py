# SPDX-License-Identifier: MIT
"""Promise 5: a draw that was answered is never forgotten, whatever happens to the sampler."""

import http.client
import json
import random
import re
import resource
import socket
import threading
import time

import pytest

from conftest import PATIENCE_S, SEED, run, run_fails, wait_for

STORE = ("--store", "range:1000?labels=10")


class Pullers:
    """Threads that draw until the sampler is gone or the stream ends; they keep what was answered."""

    def __init__(self, server, sizes):
        self.batches, self.statuses, self.lock = [], set(), threading.Lock()
        self.threads = [threading.Thread(target=self.pull, args=(server, size)) for size in sizes]
        for thread in self.threads:
            thread.start()

    def pull(self, server, size):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)
        try:
            while True:
                connection.request("GET", f"/batch?size={size}")
                answer = connection.getresponse()
                body = answer.read()
                with self.lock:
                    self.statuses.add(answer.status)
                    if answer.status == 200:
                        self.batches.append(json.loads(body))
                if answer.status == 204:
                    return
        except (OSError, http.client.HTTPException):
            pass  # the sampler is gone; what was on its way is lost
        finally:
            connection.close()

    def join(self):
        for thread in self.threads:
            thread.join()


def spans(batches):
    return sorted((batch["first"], batch["size"]) for batch in batches)


def gaps(batches, end, begin=0):
    """[(first, size)] of what no batch holds from `begin` up to `end`; an overlap fails."""
    found, position = [], begin
    for first, size in spans(batches):
        assert first >= position, f"position {first} was answered twice"
        if first > position:
            found.append((position, first - position))
        position = first + size
    assert position <= end
    return found + ([(position, end - position)] if position < end else [])


@pytest.mark.threads
@pytest.mark.parametrize("durability", ["fsync", "process", "none"])
def test_a_restart_goes_on_exactly(sampler, tmp_path, durability):
    options = (*STORE, "--state", tmp_path / "a/state", "--durability", durability)
    first = 0
    seed = None
    for size in (1, 100, 33, 866, 10):
        server = sampler(*options)
        stream = server.get("/streams/default").json
        assert stream["position"] == first
        seed = seed or stream["seed"]
        assert stream["seed"] == seed, "the kept seed must go on"
        assert server.get("/live.json").json["server"]["durability"] == durability
        batch = server.batch(f"size={size}")
        assert (batch["first"], batch["size"]) == (first, size)
        first += size
        server.stop()
    assert sampler(*options, "--seed", seed).batch("size=5")["first"] == first


@pytest.mark.threads
@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_kill_9_under_load_repeats_and_skips_nothing(sampler, tmp_path, durability):
    options = ("--store", "range:100000?labels=10", "--seed", 1, "--state", tmp_path / "state", "--durability", durability)
    sizes = [1 + 7 * client for client in range(16)]
    server, begin = sampler(*options), 0
    for kill in range(6):
        pullers = Pullers(server, sizes)
        wait_for(lambda: len(pullers.batches) > 3, "nothing was answered")  # pylint: disable=cell-var-from-loop
        time.sleep(random.Random(SEED + kill).random() * 0.2)
        server.kill()
        pullers.join()
        assert pullers.statuses <= {200, 503}, "503: the disk has not answered for five seconds"
        server = sampler(*options)
        end = server.get("/streams/default").json["position"]
        missing = gaps(pullers.batches, end, begin)  # overlaps fail here
        assert sum(size for _, size in missing) <= sum(sizes), "each client had one batch under way"
        begin = end
    assert server.batch("size=1")["first"] == end
    server.kill()


@pytest.mark.threads
@pytest.mark.parametrize("durability", ["fsync", "process", "none"])
def test_sigterm_under_load_loses_nothing(sampler, tmp_path, durability):
    options = ("--store", "range:100000?labels=10", "--seed", 1, "--state", tmp_path / "state", "--durability", durability)
    answered = []
    for _ in range(3):
        server = sampler(*options)
        pullers = Pullers(server, [10] * 32)
        wait_for(lambda: len(pullers.batches) > 50, "nothing was answered")  # pylint: disable=cell-var-from-loop
        server.stop()
        pullers.join()
        assert pullers.statuses <= {200, 503}
        answered += pullers.batches
    end = sampler(*options).get("/streams/default").json["position"]
    assert gaps(answered, end) == []


@pytest.mark.threads
def test_a_restart_in_the_middle_keeps_every_unit_once(sampler, tmp_path):
    options = ("--store", "range:5000?labels=10", "--epochs", 2, "--state", tmp_path / "state", "--seed", 4)
    answered = []
    while True:
        server = sampler(*options)
        pullers = Pullers(server, [37] * 8)
        wait_for(lambda: len(pullers.batches) > 40 or 204 in pullers.statuses, "no answer")  # pylint: disable=cell-var-from-loop
        server.stop()
        pullers.join()
        answered += pullers.batches
        if 204 in pullers.statuses:
            break
    assert gaps(answered, 10000) == []
    for epoch in (0, 1):
        ids = [id for batch in answered if batch["epoch"] == epoch for id in batch["ids"]]
        assert sorted(ids) == list(range(5000))
    assert sampler(*options).get("/batch").status == 204


def test_a_store_and_the_frame_built_from_it_are_the_same_order(sampler, tmp_path):
    run("sampler", "build", *STORE, "--out", tmp_path / "x.frame")
    server = sampler(*STORE, "--state", tmp_path / "state")
    server.batch("size=40")
    server.kill()
    assert sampler("--frame", tmp_path / "x.frame", "--state", tmp_path / "state").batch("size=5")["first"] == 40


@pytest.mark.threads
def test_clients_that_leave_while_the_disk_works(sampler, tmp_path):
    server = sampler("--store", "range:100000", "--state", tmp_path / "state")
    for _ in range(300):
        with socket.create_connection((server.host, server.port)) as connection:
            connection.sendall(b"GET /batch?size=7 HTTP/1.1\r\nHost: x\r\n\r\n")
    last = server.batch("size=7")
    assert last["first"] % 7 == 0 and last["first"] <= 300 * 7
    server.stop()
    after = sampler("--store", "range:100000", "--state", tmp_path / "state").batch("size=7")
    assert after["first"] >= last["first"] + 7


def test_a_second_server_is_refused(sampler, tmp_path):
    server = sampler(*STORE, "--state", tmp_path / "state")
    run_fails("sampler", "serve", *STORE, "--listen", "127.0.0.1:0", "--state", tmp_path / "state",
              says=["in use", str(server.process.pid)])
    assert server.batch("size=3")["first"] == 0
    server.kill()
    assert sampler(*STORE, "--state", tmp_path / "state").batch("size=3")["first"] == 3


@pytest.mark.parametrize("change, says", [
    (("--store", "range:1001?labels=10"), "of 1001 here"),
    (("--store", "range:1000?labels=5"), "frame"),
    (("--store", "range:1000?labels=10", "--rows", "0:999"), "of 999 here"),
    ((*STORE, "--seed", 2), "seed 1 there, 2 here"),
    ((*STORE, "--design", "srs"), "design proportional there, srs here"),
    ((*STORE, "--replacement"), "without replacement there, with here"),
])
def test_another_order_is_refused_by_name(sampler, tmp_path, change, says):
    state = ("--state", tmp_path / "state")
    server = sampler(*STORE, *state, "--seed", 1)
    server.batch("size=7")
    server.stop()
    before = (tmp_path / "state/journal").read_bytes()
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *change, *state, says=says)
    assert (tmp_path / "state/journal").read_bytes() == before
    again = sampler(*STORE, *state, "--tail", "span", "--epochs", 3)  # these two may change
    assert again.batch("size=7")["first"] == 7


FRAME = 24  # bytes of a plain draw in the journal, while positions are small
PAGE, HEADER = 4096, 8192  # of the header, whose checksum covers it; with the watermark's, which may be torn


def journal_with_draws(sampler, state, options, draws, orderly=True):
    server = sampler(*options)
    for _ in range(draws):
        server.batch("size=10")
    if orderly:
        server.stop()
    else:
        server.kill()
    journal = bytearray((state / "journal").read_bytes())
    return journal, len(journal.rstrip(b"\0"))


def test_a_torn_tail_is_cut_off(sampler, tmp_path):
    state = tmp_path / "state"
    options = (*STORE, "--state", state, "--seed", 1, "--durability", "process")
    whole, end = journal_with_draws(sampler, state, options, 4, orderly=False)
    for cut in (end - 1, end - 10, end - 20):
        (state / "journal").write_bytes(whole[:cut] + bytes(len(whole) - cut))
        server = sampler(*options)
        assert server.get("/streams/default").json["position"] == 30
        assert server.batch("size=10")["first"] == 30
        server.kill()
        again = sampler(*options)
        assert again.batch("size=10")["first"] == 40
        again.kill()


def test_what_is_missing_after_an_orderly_end_is_refused(sampler, tmp_path):
    state = tmp_path / "state"
    options = (*STORE, "--state", state, "--seed", 1)
    whole, end = journal_with_draws(sampler, state, options, 4)
    for content in (whole[:end - 1] + bytes(len(whole) - end + 1), whole[:end - FRAME] + bytes(len(whole) - end + FRAME)):
        (state / "journal").write_bytes(content)
        run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *options, says=["journal", "closed in order", "--accept-loss"])
    (state / "journal").write_bytes(whole)
    assert sampler(*options).batch("size=10")["first"] == 40


@pytest.mark.parametrize("durability", ["fsync", "process", "none"])
def test_a_journal_that_was_cut_is_refused(sampler, tmp_path, durability):
    state = tmp_path / "state"
    options = (*STORE, "--state", state, "--seed", 1, "--durability", durability)
    whole, end = journal_with_draws(sampler, state, options, 40, orderly=durability == "none")
    for cut in (len(whole) - 1, len(whole) - 4096, end, end - FRAME, end - FRAME - 3, HEADER + 512, HEADER):
        (state / "journal").write_bytes(whole[:cut])
        run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *options,
                  says=["journal", f"{cut} bytes long", f"at least {len(whole)}", "it was cut"])
        assert (state / "journal").read_bytes() == whole[:cut]


def test_a_loss_is_accepted_once_and_by_its_place(sampler, tmp_path):
    state = tmp_path / "state"
    options = (*STORE, "--state", state, "--seed", 1, "--durability", "process")
    whole, end = journal_with_draws(sampler, state, options, 40, orderly=False)
    at = end - 10 * FRAME  # within a draw: nothing but power loss takes this and leaves what is behind
    whole[at - at % 8] ^= 1
    (state / "journal").write_bytes(whole)
    refusal = run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *options,
                        says=["journal", "power loss", "its draws come again"])
    place = re.search(r"--accept-loss (\d+)", refusal.stderr).group(1)
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *options, "--accept-loss", int(place) + 8, says="--accept-loss " + place)
    assert (state / "journal").read_bytes() == whole
    server = sampler(*options, "--accept-loss", place)
    position = server.get("/streams/default").json["position"]
    assert 0 < position < 400 and position % 10 == 0
    assert server.batch("size=10")["first"] == position
    server.kill()
    assert (state / "journal.damaged").read_bytes() == whole
    again = sampler(*options)
    assert again.batch("size=10")["first"] == position + 10


def test_a_second_loss_keeps_the_first_file(sampler, tmp_path):
    state = tmp_path / "state"
    options = (*STORE, "--state", state, "--seed", 1, "--durability", "process")
    kept = {}
    for name in ("journal.damaged", "journal.damaged.2", "journal.damaged.3"):
        whole, end = journal_with_draws(sampler, state, options, 40, orderly=False)
        whole[end - 10 * FRAME] ^= 1
        (state / "journal").write_bytes(whole)
        refusal = run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *options, says=["journal", "--accept-loss"])
        server = sampler(*options, "--accept-loss", re.search(r"--accept-loss (\d+)", refusal.stderr).group(1))
        server.kill()
        assert f"kept as {state}/{name}" in server.stderr
        assert ("journal.damaged of an earlier loss" in server.stderr) == (len(kept) > 0)
        kept[name] = whole
        assert {path.name: path.read_bytes() for path in state.glob("journal.damaged*")} == kept


def test_a_missing_journal_is_told(sampler, tmp_path):
    state = tmp_path / "state"
    options = (*STORE, "--state", state)
    server = sampler(*options)
    server.batch("size=10")
    server.kill()
    assert "no journal" not in server.stderr
    (state / "journal").unlink()
    server = sampler(*options)
    assert "no journal" in server.stderr and str(state) in server.stderr
    assert server.batch("size=10")["first"] == 0


def test_damage_in_the_middle_is_refused(sampler, tmp_path):
    state = tmp_path / "state"
    options = (*STORE, "--state", state, "--seed", 1)
    whole, end = journal_with_draws(sampler, state, options, 40)
    for at in (3, 20, PAGE - 2, HEADER + 1, HEADER + 60, end - 20 * FRAME):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        (state / "journal").write_bytes(damaged)
        run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *options, says=["journal", "damaged"])
        assert (state / "journal").read_bytes() == damaged
    for content in (b"", b"x" * 8192, whole[:100], bytes(8192), b"TMBLJRN2" + bytes(9000), whole[:HEADER]):
        (state / "journal").write_bytes(content)
        run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *options, says=["journal", "damaged"])
        assert (state / "journal").read_bytes() == content


def test_a_position_of_before_the_journal_is_refused(tmp_path):
    """Orders were others then; the position stays for the version that it is of."""
    (tmp_path / "position").write_bytes(b"TMBLPOS1" + bytes(8184))
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *STORE, "--state", tmp_path, says=["position", "before the journal"])
    assert {path.name for path in tmp_path.iterdir()} == {"position"}


@pytest.mark.parametrize("version, says", [(b"1", "an earlier version"), (b"3", "a later version"), (b"?", "not a journal")])
def test_a_journal_of_another_version_is_refused(tmp_path, version, says):
    content = b"TMBLJRN" + version + bytes(9000)
    (tmp_path / "journal").write_bytes(content)
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", *STORE, "--state", tmp_path, says=["journal", says])
    assert (tmp_path / "journal").read_bytes() == content


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("x")
    run_fails("sampler", "serve", *STORE, "--listen", "127.0.0.1:0", "--state", tmp_path / "file", says="file", status=None)
    run_fails("sampler", "serve", *STORE, "--listen", "127.0.0.1:0", "--state", "/proc/nothing/here", says="/proc/nothing", status=None)
    run_fails("sampler", "serve", *STORE, "--durability", "none", says="--state")


def limit_files(server, bytes_):
    """A limit of 0 bytes refuses every write, as a full disk does."""
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard if bytes_ is None else bytes_, hard))


def draw_until_refused(server):
    """Room in the journal is taken ahead: draws go on in it, then every one is refused."""
    drawn = 0
    while (answer := server.get("/batch?size=10")).status == 200:
        assert answer.json["first"] == drawn
        drawn += 10
        assert drawn < 2000000, "the disk is full, and nothing was refused"
    assert answer.status == 507
    return drawn


@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_a_full_disk_refuses_draws_and_loses_nothing(sampler, tmp_path, durability):
    server = sampler(*STORE, "--state", tmp_path / "state", "--durability", durability, "--epochs", 0)
    limit_files(server, 0)
    drawn = draw_until_refused(server)
    for _ in range(5):
        answer = server.get("/batch?size=10")
        assert answer.status == 507
        assert answer.headers["content-type"] == "application/problem+json"
        assert str(tmp_path / "state/journal") in answer.json["detail"]
    assert server.get("/readyz").status == 503
    assert server.get("/healthz").status == 200
    assert server.batch("size=10&index=0")["first"] == 0, "index= needs no state"
    assert server.get("/streams/default").json["position"] == drawn
    limit_files(server, None)
    wait_for(lambda: server.get("/readyz").status == 200, "it never went on")
    assert server.batch("size=10")["first"] == drawn
    assert server.batch("size=10")["first"] == drawn + 10
    server.kill()
    assert sampler(*STORE, "--state", tmp_path / "state", "--epochs", 0).batch("size=10")["first"] == drawn + 20


@pytest.mark.threads
def test_a_disk_that_is_full_now_and_then_under_load(sampler, tmp_path):
    server = sampler("--store", "range:30000", "--state", tmp_path / "state", "--epochs", 1)
    pullers = Pullers(server, [10, 20, 30] * 8)
    while any(thread.is_alive() for thread in pullers.threads):
        limit_files(server, 0)
        time.sleep(0.02)
        limit_files(server, None)
        time.sleep(0.3)
    pullers.join()
    assert pullers.statuses <= {200, 204, 507}
    assert gaps(pullers.batches, 30000) == []

def test_a_stream_whose_frame_is_gone_waits_for_it(sampler, tmp_path):
    frame, away = tmp_path / "b.frame", tmp_path / "away"
    run("sampler", "build", "--store", "range:60?labels=3", "--out", frame)
    first, second = ("--store", "a=range:100?labels=5", "--state", tmp_path / "state"), ("--frame", f"b={frame}")
    server = sampler(*first, *second)
    for name in ("eval", "other"):
        assert server.request("POST", "/streams", body=json.dumps({"name": name, "frame": "b"})).status == 201
    server.batch("size=7&stream=eval")
    leased = server.batch("size=5&stream=eval&worker=w&seq=0")
    server.stop()
    frame.rename(away)
    for words, why in (((*first, *second), str(frame)), (first, "there is no frame \"b\"")):
        server = sampler(*words)
        assert why in server.stderr and "stream eval is not served" in server.stderr
        assert server.batch("size=10")["size"] == 10
        for target in ("/batch?size=7&stream=eval", "/streams/eval", "/labels?stream=eval"):
            answer = server.get(target)
            assert (answer.status, why in answer.json["detail"]) == (503, True), answer.text
        streams = {stream["name"]: stream for stream in server.get("/streams").json["streams"]}
        assert [streams["eval"][field] for field in ("state", "position", "leased")] == ["unavailable", 12, 1]
        assert server.request("POST", "/streams", body='{"name":"eval"}').status == 409
        assert [server.get(path).status for path in ("/metrics", "/live.json", "/live.json?stream=eval")] == 3 * [200]
        server.kill()
    server = sampler(*first)
    assert [server.request("DELETE", "/streams/other").status for _ in range(2)] == [204, 404]
    server.stop()
    away.rename(frame)
    server = sampler(*first, *second)
    assert server.batch("size=5&stream=eval&worker=w&seq=0")["ids"] == leased["ids"]
    assert server.batch("size=7&stream=eval")["first"] == 12
    assert server.get("/streams/other").status == 404


def test_the_frame_of_default_may_not_be_gone(sampler, tmp_path):
    words = ("--store", "b=range:60", "--state", tmp_path / "state")
    sampler("--store", "a=range:100", *words).stop()
    serve = ("sampler", "serve", "--listen", "127.0.0.1:0")
    run_fails(*serve, "--frame", f"a={tmp_path}/gone.frame", *words, says="gone.frame")
    run_fails(*serve, "--store", "a=range:100", "--frame", f"c={tmp_path}/gone.frame", *words, says="gone.frame")


def test_no_frame_is_left(sampler, tmp_path):
    """That of default is not given, and the one that is given has a stream that could wait for it."""
    state = ("--state", tmp_path / "state")
    server = sampler("--store", "a=range:100", "--store", "b=range:60", *state)
    assert server.request("POST", "/streams", body='{"name":"eval","frame":"b"}').status == 201
    server.stop()
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", "--frame", f"b={tmp_path}/gone.frame", *state, says="gone.frame")


@pytest.mark.parametrize("change", ["/batch?size=5", "/batch?size=5&worker=w&seq=1"])
def test_a_mapped_journal_that_is_cut(sampler, tmp_path, change):
    """The store into it fails; that draw is refused, and all is written to a new file."""
    words = (*STORE, "--state", tmp_path / "state", "--durability", "process")
    server = sampler(*words)
    drawn = server.batch("size=5")["ids"] + server.batch("size=5&worker=w&seq=0")["ids"]
    (tmp_path / "state/journal").write_bytes(b"")
    answers = []  # a committer that looks before the draw comes has replaced the file already
    wait_for(lambda: answers.append(server.get(change)) or answers[-1].status == 200, "nothing is drawn")
    assert {answer.status for answer in answers[:-1]} <= {503}
    assert answers[-1].json["first"] == 10
    drawn += answers[-1].json["ids"]
    server.kill()
    server = sampler(*words)
    assert server.batch("size=5&worker=w&seq=0")["ids"] == drawn[5:10]
    drawn += server.batch("size=985")["ids"]
    assert sorted(drawn) == list(range(1000))
