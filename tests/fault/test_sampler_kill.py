# SPDX-License-Identifier: MIT
"""Promises 5 and 6 while the sampler and its workers are killed and stopped at random, and its disk fails.

Real processes: a sampler that keeps its state, workers with leases (worker.py), others without.
At the end of a stream the journals of all workers are judged: acked ids are the frame exactly once
an epoch, nothing comes twice unless it says so, draws without a lease never come twice.

TOMBOLA_SEED repeats the choices of a run (not its timing).
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict

from failing_disk import failing
from service import LONG, PATIENCE_S, ROOT, SANITIZED, SEED, Sampler, environment
from worker import read_journal

UNITS, EPOCHS = 6007, 2
LEASED, PLAIN = 5, 2
ROUNDS = (100 if SANITIZED else 1000) if LONG else 10
ROUNDS_A_LIFE = 20


class Life:
    """One stream from its first batch to its end, with everything that happens to it; with `strace` its disk fails, too."""

    def __init__(self, folder, seed, strace):
        self.folder, self.dice, self.strace = folder, random.Random(seed), strace
        folder.mkdir()
        self.port_file = folder / "port"
        self.lease_s = self.dice.choice((0.2, 1))
        self.options = ("--store", f"range:{UNITS}?labels=7", "--seed", seed, "--epochs", EPOCHS, "--lease", self.lease_s,
                        "--tail", self.dice.choice(("keep", "span")), "--state", folder / "state",
                        "--durability", self.dice.choice(("fsync", "process")))
        self.servers, self.stopped = [], []
        self.start_server()
        made = self.server.request("POST", "/streams", body=json.dumps({"name": "plain", "epochs": EPOCHS, "seed": seed}))
        assert made.status == 201, made.text
        self.workers = {}
        for name in [f"w{number}" for number in range(LEASED)] + [f"plain{number}" for number in range(PLAIN)]:
            self.start_worker(name)

    @property
    def server(self):
        return self.servers[-1]

    def start_server(self):
        self.servers.append(Sampler(*self.options, folder=self.folder))
        aside = self.folder / "port.new"
        aside.write_text(str(self.server.port))
        aside.rename(self.port_file)

    def start_worker(self, name):
        stream = "plain" if name.startswith("plain") else "default"
        self.workers[name] = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/fault/worker.py"), name, stream, str(self.port_file),
             str(self.folder / f"{name}.journal"), str(self.dice.randrange(2**32))],
            env=environment({"PYTHONDONTWRITEBYTECODE": "1"}))

    # ---- what happens ---------------------------------------------------------------------------

    def happen(self):
        events = [self.kill_server] * 4 + [self.kill_worker] * 4 + [self.stop_worker] * 3 + \
            [self.stop_server, self.kill_server_twice, self.end_server] + [self.fail_disk] * 4 * bool(self.strace)
        event = self.dice.choice(events)
        event()
        self.go_on(time.monotonic())

    def kill_server(self):
        self.server.kill()
        time.sleep(self.dice.choice((0, 0, 0.05)))
        self.start_server()

    def kill_server_twice(self):
        """The second time at any moment of its recovery."""
        self.server.kill()
        again = subprocess.Popen([self.server.process.args[0], *map(str, self.server.process.args[1:])],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        time.sleep(self.dice.random() * 0.03)
        again.kill()
        again.wait()
        self.start_server()

    def fail_disk(self):
        """Each sync, or each second or fifth one; the server may be killed before it works again."""
        error, step = self.dice.choice(("EIO", "ENOSPC")), self.dice.choice((1, 1, 2, 5))
        with failing(self.server, self.strace, self.folder / "trace", f"fdatasync,fsync:error={error}:when=1+{step}"):
            time.sleep(self.dice.random() * 0.4)
            if self.dice.random() < 0.5:
                self.server.kill()
        if self.server.process.poll() is not None:
            self.start_server()

    def end_server(self):
        self.server.stop()
        self.start_server()

    def stop_server(self):
        self.server.signal(signal.SIGSTOP)
        time.sleep(self.dice.random() * 0.3)
        self.server.signal(signal.SIGCONT)

    def kill_worker(self):
        name = self.dice.choice(sorted(self.workers))
        if self.workers[name].poll() is None:
            self.workers[name].kill()
            self.workers[name].wait()
            self.start_worker(name)

    def stop_worker(self):
        """Often for longer than its lease; others go on."""
        name = self.dice.choice(sorted(self.workers))
        worker = self.workers[name]
        if worker.poll() is None:
            worker.send_signal(signal.SIGSTOP)
            self.stopped.append((time.monotonic() + self.dice.choice((0.1, 0.5, self.lease_s * 1.5)), worker))

    def go_on(self, now):
        """Wakes those who slept long enough."""
        for when, worker in [entry for entry in self.stopped if entry[0] <= now]:
            worker.send_signal(signal.SIGCONT)
            self.stopped.remove((when, worker))

    def run(self, rounds):
        """Up to `rounds` events while there is work; the number of those that happened."""
        happened = 0
        deadline = time.monotonic() + PATIENCE_S
        while any(worker.poll() is None for worker in self.workers.values()):
            if happened < rounds:
                self.happen()
                happened += 1
            self.go_on(time.monotonic())
            time.sleep(self.dice.random() * 0.08)
            assert time.monotonic() < deadline, f"the streams did not end: {self.server.get('/streams').text}"
        assert all(worker.returncode in (0, -signal.SIGKILL) for worker in self.workers.values())
        return happened

    def finish(self):
        for worker in self.workers.values():
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        problems = []
        for server in self.servers:
            try:
                server.finish()
            except AssertionError as problem:
                problems.append(str(problem))
        assert not problems, "\n".join(problems)

    # ---- the judgement --------------------------------------------------------------------------

    def order(self, stream):
        """[E * M] ids, from index=."""
        return [id for epoch in range(EPOCHS)
                for id in self.server.batch(f"stream={stream}&size={UNITS}&index={epoch}")["ids"]]

    def judge(self):
        lines = [line for path in sorted(self.folder.glob("*.journal")) for line in read_journal(path)]
        bad = [line for line in lines if line["what"] == "bad"]
        assert not bad, bad[:5]
        Leases([line for line in lines if not line["worker"].startswith("plain")], self.order("default")).judge(
            self.server.get("/streams/default").json)
        judge_plain([line for line in lines if line["worker"].startswith("plain")], self.order("plain"),
                    self.server.get("/streams/plain").json)


class Leases:
    """What the journals of all workers with leases say together."""

    def __init__(self, lines, order):
        self.order = order
        self.spans = {}                  # first -> size
        self.pairs = {}                  # (worker, seq) -> first
        self.attempts = defaultdict(dict)  # first -> {attempt: pair}
        self.acked = {}                  # first -> (pair, when)
        self.asked, self.claims, self.deliveries = {}, defaultdict(set), []
        for line in sorted(lines, key=lambda line: line["at"]):
            pair = (line["worker"], line.get("seq"))
            if line["what"] == "asking":
                self.asked[pair] = line["at"]
            elif line["what"] == "got":
                self.got(pair, line)
            elif line["what"] == "acking":
                self.claims[self.pairs.get(pair)].add(pair)
            elif line["what"] == "acked":
                first = self.pairs[pair]
                earlier = self.acked.setdefault(first, (pair, line["at"]))
                assert earlier[0] == pair, f"the batch at {first} was acked by {earlier[0]} and by {pair}"

    def got(self, pair, line):
        first, size = line["first"], len(line["ids"])
        assert line["ids"] == self.order[first : first + size], f"not the order's units at {first}"
        assert line["epoch"] == first // UNITS
        assert self.spans.setdefault(first, size) == size, f"the batch at {first} has two sizes"
        assert self.pairs.setdefault(pair, first) == first, f"{pair} was given two batches"
        assert line["redelivered"] == (line["attempt"] > 1), line
        before = self.attempts[first].setdefault(line["attempt"], pair)
        assert before == pair, f"attempt {line['attempt']} at {first} went to {before} and to {pair}"
        self.deliveries.append((first, pair, self.asked[pair]))

    def judge(self, status):
        position = 0
        for first, size in sorted(self.spans.items()):
            assert first == position, f"positions {position} to {first} are nobody's, or given twice"
            position = first + size
        assert position == len(self.order)
        for first, pair, asked in self.deliveries:
            if first in self.acked and pair != self.acked[first][0]:
                assert asked < self.acked[first][1], f"{pair} was leased {first}, which {self.acked[first]} had acked"
        for first in self.spans:
            assert first in self.acked or self.claims[first], f"the batch at {first} was never acked, but the stream ended"
        done = sorted(id for first in self.spans for id in self.order[first : first + self.spans[first]])
        assert done == sorted(list(range(UNITS)) * EPOCHS)
        assert (status["state"], status["position"], status["leased"]) == ("ended", len(self.order), 0)
        assert status["acked"] == len(self.spans)
        redelivered = sum(len(attempts) - 1 for attempts in self.attempts.values())
        assert status["redelivered"] >= redelivered


def judge_plain(lines, order, status):
    """Never twice; what is missing was drawn by somebody who was killed, or whose server was, before the answer came."""
    answered, lost, open_size = {}, [], {}
    for line in sorted(lines, key=lambda line: line["at"]):
        if line["what"] == "asking":
            if open_size.get(line["worker"]):
                lost.append(open_size[line["worker"]])
            open_size[line["worker"]] = line["size"]
        elif line["what"] == "unanswered":
            lost.append(open_size.get(line["worker"]) or 40)
        elif line["what"] == "got":
            open_size[line["worker"]] = None
            assert line["first"] not in answered, f"{line['first']} was answered twice"
            answered[line["first"]] = line["ids"]
        elif line["what"] in ("none", "end"):
            open_size[line["worker"]] = None
    position, missing = 0, 0
    for first, ids in sorted(answered.items()):
        assert first >= position, f"position {first} was answered twice"
        assert ids == order[first : first + len(ids)]
        missing += first - position
        position = first + len(ids)
    missing += len(order) - position
    assert missing <= sum(lost) + sum(size or 0 for size in open_size.values()), f"{missing} units are nobody's"
    assert (status["state"], status["position"]) == ("ended", len(order))


def live(tmp_path, strace):
    rounds, number = 0, 0
    while rounds < ROUNDS:
        life = Life(tmp_path / f"life{number}", SEED + number, strace)
        try:
            rounds += life.run(min(ROUNDS_A_LIFE, ROUNDS - rounds))
            life.judge()
        except BaseException:
            print(f"life {number}: TOMBOLA_SEED={SEED + number}, {life.options}", file=sys.stderr)
            raise
        finally:
            life.finish()
        number += 1
    print(f"{rounds} rounds in {number} lives, seed {SEED}")


def test_kills_and_stops_lose_nothing_and_repeat_nothing(tmp_path):
    live(tmp_path, None)


def test_neither_do_they_on_a_disk_that_fails(tmp_path, strace):
    """What heard an error was never asked, whoever is killed meanwhile."""
    live(tmp_path, strace)
