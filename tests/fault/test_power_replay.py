# SPDX-License-Identifier: MIT
"""No promise is broken by a power cut, wherever it comes: every program under the recorder, its disk replayed.

The systematic cuts keep nothing that was not synced, everything, or all but one change, or one change alone; the others keep
what dice say. Then each sync that the programs make is taken out of the log, one by one, and the replay must notice.
"""

import errno
import http.client
import json
import os
import random
import re
import signal
import threading
from functools import partial
from itertools import chain, cycle, islice

import pytest

from power_case import RECORDER, Recording
from power_disk import CREATE, ENDED, FOLDER, RENAME, SECTOR, SIZE, SYNC_BEGIN, SYNC_END, UNLINK, WRITE
from power_disk import Choice, Dice, Disk, Event, Keys, materialise, read_log
from service import LONG, PATIENCE_S, SANITIZED, SEED, Sampler, run, wait_for
from test_sampler_rewrite import rewrites

MOST = (40 if SANITIZED else None) if LONG else 12  # disks judged by chance, beside those where nothing was kept
UNITS = 20000
PORTS = islice(cycle(range(10000, 32000)), os.getpid() * 97 % 22000, None)  # below those that Linux chooses from
PLAIN_ENTRY = 24  # bytes of a draw without a worker in the journal
STATE, LOGDIR = "new/state", "new/logs"  # below a folder that is on the disk for sure
NOT_MISSED = {  # places of syncs that may go without a loss, and why they are there
    "write_lock < lock_folder < state_open": "for another machine that lost the lock: it sees who has the folder, and no machine is "
    "cut here but this one",
    "write_holder < take < logdir_lock_take": "the same, of a logdir",
    "sync_folder < file_writer_publish < write_file": "a model's; its folder is synced again after the file that names it",
    "journal_file_sync < sync_file < close_file": "the watermark names what is on the disk for sure, so it "
    "is written after that; without it, a cut between the two makes the next start refuse a journal, as `process` allows it to",
    "journal_file_sync < close_file < journal_finish": "the watermark of an orderly end: damage that comes later is known as such",
    "journal_file_sync < complete_file < journal_rewrite_step": "half of what is to be synced before the switch; commits go on in between",
}


@pytest.fixture
def recorder(library):
    return library(RECORDER)


# ---- the sampler's state ------------------------------------------------------------------------


def connect(server):
    """From a port that no other connection of a recording has or had: the system gives none of these to anybody."""
    for port in PORTS:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S, source_address=("", port))
        try:
            connection.connect()
            return connection
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                raise


class Caller(threading.Thread):
    """One client with one connection; its n-th request got the n-th answer that went to its port."""

    def __init__(self, server, requests, until=None):
        """`until`: an event that ends them; till then they come slowly."""
        super().__init__()
        self.until = until
        self.requests, self.asked, self.port = requests, [], None
        try:
            self.connection = connect(server)
            self.port = self.connection.sock.getsockname()[1]
        except ConnectionError:
            self.requests = []  # the sampler was killed, before or while it took the connection

    def run(self):
        try:
            for method, target, body in self.requests:
                if self.until and self.until.wait(0.003):
                    break
                self.asked.append((method, target, body))
                self.connection.request(method, target, body=None if body is None else json.dumps(body))
                self.connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass  # the sampler was killed
        if self.port:
            self.connection.close()


def leased_requests(worker, count, dice):
    """Draws of one worker, of which it acks most."""
    for seq in range(count):
        yield "GET", f"/batch?size={dice.randint(1, 9)}&worker={worker}&seq={seq}", None
        if seq % 3:
            yield "POST", "/ack", {"stream": "default", "worker": worker, "seqs": [seq]}


def plain_requests(count, dice):
    for _ in range(count):
        yield "GET", f"/batch?size={dice.randint(1, 9)}", None


def stream_requests(prefix, count):
    """Streams come and go; each request names the one that it is about."""
    for number in range(count):
        name = f"{prefix}{number}"
        yield "POST", "/streams", {"name": name, "seed": number}
        yield "POST", f"/streams/{name}/seek", {"position": 100 + number}
        yield "POST", f"/streams/{name}/pause", None
        if number % 2:
            yield "DELETE", f"/streams/{name}", None


class Promises:
    """What the sampler had answered at each position of a recording, request by request."""

    def __init__(self, recording, callers):
        asked = {}
        for caller in callers:
            asked[caller.port] = chain(asked.get(caller.port, ()), caller.asked)
        self.heard = [(position, *next(asked[port]), status, json.loads(body) if body else None)
                      for position, port, status, body in recording.answers() if port in asked]
        assert self.heard and all(status in (200, 201, 204) for *_, status, _ in self.heard)
        # A sampler that was killed may have done what it never answered.
        unanswered = [request for rest in asked.values() for request in rest]
        self.unknown = {body["name"] if target == "/streams" else target.split("/")[2]
                        for _, target, body in unanswered if target.startswith("/streams")}

    def until(self, position):
        """(batches {first: size}, leases {(worker, seq): batch}, acked pairs, streams [(name, what it was answered)])."""
        batches, leases, acked, streams = {}, {}, set(), []
        for heard, method, target, asked, _, body in self.heard:
            if heard > position:
                break
            if target.startswith("/batch"):
                batches[body["first"]] = body["size"]
                if "worker" in body:
                    leases[body["worker"], body["seq"]] = body
            elif target == "/ack":
                acked |= {(asked["worker"], seq) for seq in asked["seqs"]}
            else:
                streams.append((target.split("/")[2] if method == "DELETE" else body["name"], None if method == "DELETE" else body))
        return batches, leases, acked, streams

    def streams_at(self, position):
        """{name: (its answer, the one after that)}: of the request on its way either may hold."""
        answers = self.until(float("inf"))[3]
        heard = len(self.until(position)[3])
        return dict(answers[:heard]), dict(answers[: heard + 1])


def same_stream(found, answered):
    """Whether GET /streams/NAME (None: 404) is what a change of the stream had answered."""
    if found is None or answered is None:
        return found is answered
    return all(found[field] == answered[field] for field in ("digest", "design", "seed", "generation", "position", "state"))


class Judge:
    """Starts the sampler on what a cut left, and asks for what had been answered."""

    def __init__(self, promises, options, folder):
        self.promises, self.options, self.folder = promises, options, folder

    def __call__(self, disk, position):
        server = Sampler(*self.options, "--state", disk / STATE, folder=self.folder)
        try:
            self.judge(server, *self.promises.until(position)[:3], *self.promises.streams_at(position))
        finally:
            server.kill()
            server.process.stdout.close()

    def starts(self, disk):
        """With --accept-loss where it asks for that."""
        state = ("--state", disk / STATE)
        try:
            Sampler(*self.options, *state, folder=self.folder).kill()
        except AssertionError as refusal:
            byte = re.search(r"start once with --accept-loss (\d+)", str(refusal))
            assert byte, refusal
            Sampler(*self.options, *state, "--accept-loss", byte[1], folder=self.folder).kill()

    def judge(self, server, batches, leases, acked, before, after):
        dice = random.Random(len(batches))
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_S)

        def get(target):
            connection.request("GET", target)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if body else None

        end = max((first + size for first, size in batches.items()), default=0)
        reached = get("/streams/default")[1]["position"]
        assert reached >= end, f"position {reached} after a batch up to {end} was answered"
        open_leases = sorted(leases.keys() - acked)
        for worker, seq in {*open_leases[-4:], *dice.sample(open_leases, min(4, len(open_leases)))}:
            asked = leases[worker, seq]
            status, body = get(f"/batch?size={asked['size']}&worker={worker}&seq={seq}")
            # its ack may have been on the way
            assert status == 409 or (body["first"], body["ids"], body["attempt"]) == (asked["first"], asked["ids"], 1), \
                f"{worker}'s batch {seq} is another one: {status} {body}"
        for worker, seq in {*sorted(acked)[-4:], *dice.sample(sorted(acked), min(4, len(acked)))}:
            size = leases[worker, seq]["size"]
            assert get(f"/batch?size={size}&worker={worker}&seq={seq}")[0] == 409, f"{worker}'s ack of {seq} is lost"
        for name in (before.keys() | after.keys()) - self.promises.unknown:
            status, body = get(f"/streams/{name}")
            body = body if status == 200 else None
            assert same_stream(body, before.get(name)) or same_stream(body, after.get(name)), \
                f"stream {name} is {status} {body}, not as answered: {before.get(name)}"
        answered = {at for first, size in batches.items() for at in range(first, first + size)}
        for _ in range(3):
            _, body = get("/batch?size=7")
            assert answered.isdisjoint(range(body["first"], body["first"] + body["size"])), f"{body['first']} was answered twice"


OPTIONS = ("--store", f"range:{UNITS}?labels=5", "--seed", 3, "--lease", 3000)


def use(server, leases=15, draws=20, streams=4, name="a"):
    """Four clients at once; those who asked."""
    dice = random.Random(SEED)
    callers = [Caller(server, leased_requests(f"{name}{number}", leases, random.Random(dice.random()))) for number in range(2)]
    callers += [Caller(server, plain_requests(draws, dice)), Caller(server, stream_requests(name, streams))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return callers


def stop_at_rest(server):
    """kill -9 when the log has all answers, since one more came after them."""
    assert server.get("/streams/default").status == 200
    server.kill()


def record_state(recorder, tmp_path, durability="fsync", end="kill"):
    """A sampler that makes its state folder, is used, and is killed or stopped."""
    recording = begin(recorder, tmp_path)
    options = (*OPTIONS, "--durability", durability)
    server = Sampler(*options, "--state", recording.folder / STATE, folder=tmp_path, env=recording.environment())
    callers = use(server)
    stop_at_rest(server) if end == "kill" else server.finish()
    recording.finish("sampler")
    return recording, Judge(Promises(recording, callers), options, tmp_path)


def begin(recorder, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir(exist_ok=True)
    return Recording(recorder, folder, tmp_path / "log")


def check(recording, judge, tmp_path, most=MOST):
    judged, broken = recording.find_broken(judge, tmp_path, most=most)
    print(f"{len(recording.events)} events, {judged} disks judged")
    assert judged and not broken, "\n".join(broken)


def miss_each_sync(recording, judge, tmp_path, found, of=""):
    """Takes out each place of a sync that has not been missed yet, and puts {place: was it missed} into `found`. `of`: places that
    have this in them. Not under a sanitizer, whose programs have other stacks: what a place is called there is in no list."""
    for site in () if SANITIZED else recording.syncs():
        name = re.sub(r":\d+", "", site)
        if re.search(of, name) and not found.get(name):
            judged, problem = recording.misses(judge, tmp_path, site, most=MOST)
            print(f"without {site}: {problem or f'{judged} disks, nothing'}")
            found[name] = bool(problem)


def are_missed(found):
    """A sync that nobody misses is either not needed, or not tested."""
    return {name for name, missed in found.items() if not missed} <= NOT_MISSED.keys()


def check_each_sync(recording, judge, tmp_path, of=""):
    found = {}
    miss_each_sync(recording, judge, tmp_path, found, of)
    assert are_missed(found), found


def test_what_the_sampler_answered_survives(recorder, tmp_path):
    recording, judge = record_state(recorder, tmp_path)
    check(recording, judge, tmp_path)
    check_each_sync(recording, judge, tmp_path)


@pytest.mark.parametrize("durability", ["process", "none"])
def test_an_orderly_end_is_kept(recorder, tmp_path, durability):
    """Whatever --durability says, and a power cut on the way to it is survived by a start, if need be by one that accepts the loss."""
    recording, judge = record_state(recorder, tmp_path, durability, end="stop")

    def judge_end(disk, position):
        if position == len(recording.events):
            judge(disk, position)
        else:
            judge.starts(disk)

    check(recording, judge_end, tmp_path)
    check_each_sync(recording, judge_end, tmp_path)


def test_what_a_killed_sampler_owed_is_paid(recorder, tmp_path):
    """What it had not synced is for the next one to sync. kill -9 at each change of a start and at some of the first draws, then
    another start, draws, and the cut."""
    found = {}
    for kill_at in range(count_changes(recorder, tmp_path) + 8):
        case = tmp_path / f"kill{kill_at}"
        case.mkdir()
        recording = begin(recorder, case)
        callers = use_until_killed(recording, kill_at)
        server = Sampler(*OPTIONS, "--state", recording.folder / STATE, folder=case, env=recording.environment())
        callers += use(server, leases=2, draws=3, streams=1, name="b")
        stop_at_rest(server)
        recording.finish("sampler")
        judge = Judge(Promises(recording, callers), OPTIONS, case)
        judged, broken = recording.find_broken(judge, case, kinds="nkl" if LONG else "n")
        assert judged and not broken, f"killed at change {kill_at}: " + "\n".join(broken)
        miss_each_sync(recording, judge, case, found)
    assert are_missed(found), found


def draw_once(recording, **more):
    """A sampler, killed or not, and the client that asked it for one batch; None: it was killed before it listened."""
    folder = recording.log.parent
    try:
        server = Sampler(*OPTIONS, "--state", recording.folder / STATE, folder=folder, env=recording.environment(**more))
    except AssertionError:
        return None
    caller = Caller(server, [("GET", "/batch?size=5&worker=w&seq=0", None)])
    caller.start()
    caller.join()
    return server, caller


def test_what_a_start_finds_is_on_the_disk_before_it_is_answered(recorder, tmp_path):
    """kill -9 between a draw's write and its sync. The next sampler has the batch, and gives it to the same worker without a write."""
    for kill_at in range(count_changes(recorder, tmp_path), 100):
        case = tmp_path / f"kill{kill_at}"
        case.mkdir()
        recording = begin(recorder, case)
        killed = draw_once(recording, kill=kill_at)
        if killed and read_log(recording.log)[-1].kind == WRITE:
            break
    assert killed[0].wait() == -signal.SIGKILL
    server, caller = draw_once(recording)
    stop_at_rest(server)
    recording.finish("sampler")
    judge = Judge(Promises(recording, [killed[1], caller]), OPTIONS, case)
    judged, broken = recording.find_broken(judge, case, kinds="n")
    assert judged and not broken, "\n".join(broken)


def use_until_killed(recording, kill_at):
    """Those who asked, if it came so far."""
    folder = recording.log.parent
    try:
        server = Sampler(*OPTIONS, "--state", recording.folder / STATE, folder=folder, env=recording.environment(kill=kill_at))
    except AssertionError:
        return []  # killed before it listened
    callers = use(server, leases=3, draws=5, streams=1)
    while server.process.poll() is None:  # those who ask at once may have few changes in common
        callers += use(server, leases=0, draws=1, streams=0)
    assert server.wait() == -signal.SIGKILL
    return callers


def count_changes(recorder, tmp_path):
    """How many changes a start makes until it answers."""
    folder = tmp_path / "whole"
    folder.mkdir()
    recording = begin(recorder, folder)
    stop_at_rest(Sampler(*OPTIONS, "--state", recording.folder / STATE, folder=folder, env=recording.environment()))
    return len(recording.finish("sampler").changes())


def record_compaction(recorder, folder):
    """Streams with large definitions come and go until the journal is compacted, for the first time after the start's own."""
    folder.mkdir()
    labels, rows = [f"{number:0>1000}" for number in range(900)], folder / "rows.csv"
    rows.write_text("label,a\n" + "".join(f"{label},{number}\n" for number, label in enumerate(labels)))
    options = ("--store", rows, "--design", "srs", "--seed", 3, "--lease", 3000)
    large = json.dumps({"name": "large", "design": "quota", "shares": dict.fromkeys(labels, 1)})
    recording = begin(recorder, folder)
    server = Sampler(*options, "--state", recording.folder / STATE, folder=folder, env=recording.environment(sync_us=10000))
    done = threading.Event()
    callers = [Caller(server, requests(1 << 20, random.Random(SEED)), done)
               for requests in (plain_requests, partial(leased_requests, "w"))]
    for caller in callers:
        caller.start()
    for _ in range(30):  # 0.9 MB each
        assert server.request("POST", "/streams", body=large).status == 201
        assert server.request("DELETE", "/streams/large").status == 204
    wait_for(lambda: rewrites(server) >= 2, "it is not compacted")
    done.set()
    for caller in callers:
        caller.join()
    callers += use(server, leases=3, draws=5, streams=1, name="b")
    stop_at_rest(server)
    recording.finish("sampler")
    return recording, Judge(Promises(recording, callers), options, folder)


def test_a_compaction_loses_nothing(recorder, tmp_path):
    """Each sync is missed in one of some compactions: whether a draw comes between two pieces of one is chance."""
    found = {}
    for number in range(6):
        folder = tmp_path / f"compaction{number}"
        recording, judge = record_compaction(recorder, folder)
        check(recording, judge, folder, most=MOST and MOST // 2)
        miss_each_sync(recording, judge, folder, found, "rewrite_step|switch_over|commit")
        if are_missed(found):
            break
    assert are_missed(found), found


def test_a_second_cut_finds_no_more_than_the_first(recorder, tmp_path):
    """What a start makes of a torn journal is on the disk before anything new: a cut, a start that draws, and another cut."""
    recording, first = record_state(recorder, tmp_path)
    dice = random.Random(SEED)
    for number, position, disk in recording.torn(dice, 40 if LONG else 2):
        case = tmp_path / f"torn{number}"
        case.mkdir()
        materialise(disk, case / "disk")
        again = begin(recorder, case)
        server = Sampler(*OPTIONS, "--state", again.folder / STATE, folder=case, env=again.environment())
        callers = use(server, leases=2, draws=3, streams=1, name="b")
        stop_at_rest(server)
        again.finish("sampler")
        second = Judge(Promises(again, callers), OPTIONS, case)

        def judge(disk, heard):
            first(disk, position)  # pylint: disable=cell-var-from-loop
            second(disk, heard)  # pylint: disable=cell-var-from-loop

        judged, broken = again.find_broken(judge, case, most=MOST)
        assert judged and not broken, f"after the first cut at {position}: " + "\n".join(broken)


class Beheaded(Choice):
    """Everything pending, but the first sector of each write."""

    def __init__(self):
        super().__init__(True)

    def apply(self, change, content):
        change.apply_data(content, SECTOR)


def test_entries_behind_a_torn_one_do_not_come_back(recorder, tmp_path):
    """Many draws are one write, whose first sector is lost. The entries of later draws come to end where whole ones of that write begin."""
    recording = begin(recorder, tmp_path)
    server = Sampler(*OPTIONS, "--state", recording.folder / STATE, folder=tmp_path, env=recording.environment(sync_us=200000))
    callers = [Caller(server, plain_requests(1, random.Random(SEED))) for _ in range(60)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    stop_at_rest(server)
    recording.finish("sampler")
    last = max(index for index, event in enumerate(recording.events) if event.kind == WRITE and len(event.data) > 2 * SECTOR)
    disk = next(disk for position, disk, _ in recording.replay() if position > last)
    torn = tmp_path / "torn"
    materialise(disk.after_cut(Beheaded()), torn)
    expected = None
    for _ in range(2 * SECTOR // PLAIN_ENTRY):
        server = Sampler(*OPTIONS, "--state", torn / STATE, folder=tmp_path)
        position = server.get("/streams/default").json["position"]
        assert expected in (None, position), f"position {position} after the draws up to {expected}"
        batch = server.batch("size=1")
        expected = batch["first"] + batch["size"]
        stop_at_rest(server)


def refused_byte(options, folder):
    """Where the sampler says that the journal is damaged."""
    with pytest.raises(AssertionError) as refusal:
        Sampler(*options, folder=folder)
    return re.search(r"start once with --accept-loss (\d+)", str(refusal.value))[1]


def test_a_damaged_journal_stays_until_it_is_kept(recorder, tmp_path):
    """--accept-loss leaves it under another name, and goes on from what it still had. All disks, since few show it."""
    journal = tmp_path / "disk" / STATE / "journal"
    server = Sampler(*OPTIONS, "--state", journal.parent, folder=tmp_path)
    use(server)
    stop_at_rest(server)
    damaged = bytearray(journal.read_bytes())
    damaged[(8192 + len(damaged.rstrip(b"\0"))) // 2] ^= 1  # behind the header, with entries behind it
    journal.write_bytes(damaged)
    byte = refused_byte((*OPTIONS, "--state", journal.parent), tmp_path)
    recording = begin(recorder, tmp_path)
    options = (*OPTIONS, "--accept-loss", byte)
    server = Sampler(*options, "--state", journal.parent, folder=tmp_path, env=recording.environment())
    callers = use(server, leases=1, draws=2, streams=1, name="b")
    stop_at_rest(server)
    recording.finish("sampler")
    answers = Judge(Promises(recording, callers), options, tmp_path)

    def judge(disk, position):
        kept = [path.read_bytes() for path in (disk / STATE).iterdir() if path.name in ("journal", "journal.damaged")]
        assert damaged in kept, "it is lost"
        answers(disk, position)

    check(recording, judge, tmp_path, most=None)
    check_each_sync(recording, judge, tmp_path, of="keep_damaged|rewrite_whole")


# ---- checkpoints --------------------------------------------------------------------------------


STEPS = range(10, 80, 10)  # of one training after the other: more checkpoints than are kept


def test_a_checkpoint_that_was_announced_is_there(recorder, tmp_path):
    """The next training goes on from it, to the same bytes as without a cut."""
    rows = tmp_path / "rows.csv"
    rows.write_text("label,a,b\n" + "".join(f"{n % 3},{n % 7},{n % 11}\n" for n in range(300)))
    served = Sampler("--store", rows, "--seed", 7, folder=tmp_path)

    def train(logdir, steps, env=None):
        return run("trainer", "train", "--sampler", served.url, "--store", rows, "--logdir", logdir, "--model", "softmax",
                   "--seed", 3, "--batch_size", 20, "--train_steps", steps, env=env, status=None)

    try:
        recording = begin(recorder, tmp_path)
        for steps in STEPS:
            assert train(recording.folder / LOGDIR, steps, recording.environment()).returncode == 0
        recording.finish("trainer")
        last = f"model.ckpt-{STEPS[-1]}.safetensors"
        whole = (recording.folder / LOGDIR / last).read_bytes()
        saved = recording.said(r"saved \S*model\.ckpt-(\d+)\.safetensors")
        assert [int(match[1]) for _, match in saved] == [0, *STEPS]

        def judge(disk, position):
            newest = max((int(match[1]) for heard, match in saved if heard <= position), default=-1)
            if newest >= 0:
                named = re.match(r'model_checkpoint_path: "model\.ckpt-(\d+)\.safetensors"', (disk / LOGDIR / "checkpoint").read_text()) \
                    if (disk / LOGDIR / "checkpoint").exists() else None
                assert named and int(named[1]) >= newest, f"step {newest} was announced; `checkpoint` names {named and named[1]}"
            done = train(disk / LOGDIR, STEPS[-1])
            assert done.returncode == 0, done.stderr
            assert (disk / LOGDIR / last).read_bytes() == whole, "the training went on from elsewhere"
            assert not list((disk / LOGDIR).glob("*.tmp.*")), "what the cut left stays"

        check(recording, judge, tmp_path)
        check_each_sync(recording, judge, tmp_path)
    finally:
        served.finish()


# ---- what is published whole --------------------------------------------------------------------


def write_rows(path, rows):
    path.write_text("label,a\n" + "".join(f"{n % 3},{n}\n" for n in range(rows)))
    return path


def check_published(recorder, tmp_path, name, files, make, shows, folders=("old", "new")):
    """make(folder, source) publishes files in a folder, over older ones; shows() them as they must be, or fails. `folders` are there."""
    folder = tmp_path / "disk"
    for below in folders:
        (folder / below).mkdir(parents=True)
    make(folder / "old", "old", None)
    old = [shows(folder / "old" / file) for file in files]
    recording = begin(recorder, tmp_path)
    for below in ("old", "new"):
        make(recording.folder / below, "new", recording.environment())
    new = [shows(folder / "new" / file) for file in files]
    recording.finish(name)
    ends = [index + 1 for index, event in enumerate(recording.events) if event.kind == ENDED]

    def judge(disk, position):
        for below, end in zip(("old", "new"), ends, strict=True):
            for file, before, after in zip(files, old, new):
                path = disk / below / file
                allowed = [after] if position >= end else [before if below == "old" else None, after]
                assert (shows(path) if path.exists() else None) in allowed, f"{below}/{file} is neither the old nor the new one"
            make(disk / below, "new", None)
            assert [shows(disk / below / file) for file in files] == new
            assert not [path for path in (disk / below).iterdir() if path.name not in files], "what the cut left stays"

    check(recording, judge, tmp_path)
    check_each_sync(recording, judge, tmp_path)


@pytest.mark.parametrize("kind, more", [("sqlite", "?table=samples"), ("rows", "")])
def test_an_import_is_whole(recorder, tmp_path, kind, more):
    sources = {"old": write_rows(tmp_path / "old.csv", 100), "new": write_rows(tmp_path / "new.csv", 3000)}

    def make(folder, source, env):
        run("loader", "import", sources[source], f"{kind}:{folder}/rows.made{more}", env=env)

    check_published(recorder, tmp_path, "loader", ["rows.made"], make,
                    lambda path: run("loader", "info", f"{kind}:{path}{more}").stdout and path.read_bytes())


def test_a_frame_is_whole(recorder, tmp_path):
    sources = {"old": write_rows(tmp_path / "old.csv", 100), "new": write_rows(tmp_path / "new.csv", 3000)}

    def make(folder, source, env):
        run("sampler", "build", "--store", sources[source], "--out", folder / "frame", env=env)

    check_published(recorder, tmp_path, "sampler", ["frame"], make, lambda path: run("sampler", "info", path).stdout and path.read_bytes())


def test_demo_data_is_whole(recorder, tmp_path):
    def make(folder, source, env):
        run("loader", "demo", folder, "--rows", 20 if source == "old" else 60, "--force", env=env)

    check_published(recorder, tmp_path, "loader", ["mnist_train.csv", "mnist_test.csv"], make, lambda path: path.read_bytes(), ["old"])


# ---- row caches ---------------------------------------------------------------------------------


def test_a_row_cache_is_whole_or_not_there(recorder, tmp_path):
    """Rows are right whatever a cut left of it, and no program meets a damaged one; what was announced is there."""
    rows = write_rows(tmp_path / "rows.csv", 300)
    served = Sampler("--store", rows, "--seed", 7, folder=tmp_path)

    def pull(kept, env=None):
        return run("loader", "pull", "--sampler", served.url, "--store", rows, "--index", 0, "--batches", 3, "--cache", kept, env=env)

    def make(kept, env=None):
        """A pull that ends before the cache is there leaves none."""
        wait_for(lambda: pull(kept, env) and list(kept.glob("*.rows")), "no cache")

    try:
        (tmp_path / "disk/kept").mkdir(parents=True)  # a new folder may be gone, too: it is no promise
        recording = begin(recorder, tmp_path)
        make(recording.folder / "kept", recording.environment())
        recording.finish("loader")
        (cache,) = (recording.folder / "kept").iterdir()
        wanted = pull(recording.folder / "kept").stdout
        (said,) = [position for position, _ in recording.said(r"300 rows are kept in")]

        def judge(disk, position):
            kept = disk / "kept"
            was_there = (kept / cache.name).exists()
            assert was_there or position < said, "it was announced, and is gone"
            done = pull(kept)
            assert done.stdout == wanted and "warning" not in done.stderr, done.stderr
            if not was_there:
                make(kept)
                assert [path.name for path in kept.iterdir()] == [cache.name], "what the cut left stays"

        check(recording, judge, tmp_path)
        check_each_sync(recording, judge, tmp_path)
    finally:
        served.finish()


# ---- the replay itself --------------------------------------------------------------------------


def test_keys_of_many_choices_are_those_of_each(tmp_path):
    """Of files and folders that come, change their names, are written and synced by dice."""
    dice, disk, names = random.Random(SEED), Disk(tmp_path).load(), []
    for number in range(1, 120):
        kind = dice.choice((CREATE, FOLDER, WRITE, WRITE, SIZE, RENAME, UNLINK, SYNC_END) if names else (CREATE,))
        path, file = dice.choice(names) if names else (None, None)
        if kind in (CREATE, FOLDER):
            folders = [str(tmp_path), *(path for path, file in names if file < 0)]
            path, file = f"{dice.choice(folders)}/{number}", -number if kind == FOLDER else number
            names.append((path, file))
        elif file < 0 and kind != SYNC_END:
            continue  # folders are only made and synced here
        elif kind in (RENAME, UNLINK):
            names.remove((path, file))
            names += [(f"{path}x", file)] * (kind == RENAME)
        if kind == SYNC_END:
            disk.happen(Event(SYNC_BEGIN, file, 0, number, ["here"], b""))
        disk.happen(Event(kind, file, dice.randrange(3000), number, [path, f"{path}x"], dice.randbytes(dice.randrange(1, 2000))))
        keys, before = Keys(disk), disk.pending()
        for choice in (Choice(False), Choice(True), *(Choice(kept, but) for kept in (False, True) for but in before)):
            assert keys.of(choice) == disk.key_after_cut(choice), f"after {number} changes, {choice}"
        assert keys.of(Dice("a")) == disk.key_after_cut(Dice("a"))
