# SPDX-License-Identifier: MIT
"""A worker process that may be killed or stopped at any instant: python3 worker.py NAME STREAM PORTFILE JOURNAL SEED.

Pulls leased batches of random sizes, one or two in flight, or several by one request, acks them (by the next pull, or by a
request), now and then asks again for one it has, forgets one, or leaves orderly. What it is going to
do and what it was told goes to JOURNAL, one JSON line a write, so that kill -9 loses no line.
A worker that starts anew goes on counting from its journal. One whose name begins with `plain`
draws without a lease.
"""

import http.client
import json
import os
import random
import sys
import time


REFUSED = (503, 507)  # nothing is left, nobody is there, or the disk fails: ask again


class Worker:
    def __init__(self, name, stream, port_file, journal, seed):
        self.name, self.stream, self.port_file = name, stream, port_file
        self.dice = random.Random(seed)
        self.seq = 1 + max((line["seq"] for line in read_journal(journal) if "seq" in line), default=-1)
        self.log = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.connection = None
        self.held = []  # (seq, size asked)

    def note(self, what, **facts):
        line = json.dumps({"what": what, "at": time.monotonic(), "worker": self.name, **facts})
        os.write(self.log, b"\n" + line.encode() + b"\n")  # a line cut by kill -9 spoils no other one

    def call(self, method, target, body=None):
        """(status, body); tries until the server is there again."""
        while True:
            try:
                if self.connection is None:
                    with open(self.port_file, encoding="ascii") as file:
                        self.connection = http.client.HTTPConnection("127.0.0.1", int(file.read()), timeout=20)
                self.connection.request(method, target, body=None if body is None else json.dumps(body))
                answer = self.connection.getresponse()
                text = answer.read()
                if answer.getheader("Connection") == "close":
                    self.connection = None
                if answer.status == 503 and not answer.getheader("Retry-After"):
                    self.note("bad", why=f"503 without Retry-After: {text!r}")
                return answer.status, json.loads(text) if text else None
            except (OSError, http.client.HTTPException, ValueError):
                self.connection = None
                self.note("unanswered")
                time.sleep(0.02)

    def pull(self, seq, size, acks, batches=1):
        """One try after the other until this (worker, seq) has a batch; how many came for it and the seqs after it,
        0 at the end."""
        query = f"/batch?stream={self.stream}&size={size}&worker={self.name}&seq={seq}"
        if batches > 1:
            query += f"&batches={batches}"
        while True:
            for ack in acks:
                self.note("acking", seq=ack)
            for number in range(seq, seq + batches):
                self.note("asking", seq=number, size=size)
            status, body = self.call("GET", query + (f"&ack={','.join(map(str, acks))}" if acks else ""))
            if acks and status in (200, 204):
                for ack in acks:
                    self.note("acked", seq=ack)
                acks = []
            if status == 200:
                found = body["batches"] if batches > 1 else [body]
                for number, batch in enumerate(found, seq):
                    self.note("got", seq=number, asked=size, first=batch["first"], ids=batch["ids"], attempt=batch["attempt"],
                              redelivered=batch.get("redelivered", False), epoch=batch["epoch"])
                return len(found)
            if status == 204:
                return 0
            if status == 409 and acks:
                self.note("refused", seqs=acks)  # one of them was redelivered: each by itself
                for ack in acks:
                    self.ack(ack)
                acks = []
                continue
            if status == 409:
                self.note("lost", seq=seq)
                return 1
            if status not in REFUSED:
                self.note("bad", why=f"{status} {body}")
            elif self.held:
                for number, _ in self.held:
                    self.ack(number)
                self.held = []
            time.sleep(0.03)

    def ack(self, seq):
        self.note("acking", seq=seq)
        while True:
            status, body = self.call("POST", "/ack", {"stream": self.stream, "worker": self.name, "seqs": [seq]})
            if status == 200:
                self.note("acked", seq=seq)
                return
            if status == 409:
                self.note("lost", seq=seq)
                return
            if status not in REFUSED:
                self.note("bad", why=f"ack: {status} {body}")
            time.sleep(0.02)

    def run(self):
        (self.run_plain if self.name.startswith("plain") else self.run_leased)()
        self.note("end")

    def run_plain(self):
        """Draws that count as done when answered; one that got no answer is never asked again."""
        while True:
            seq, size = self.seq, self.dice.randint(1, 40)
            self.seq += 1
            self.note("asking", seq=seq, size=size)
            status, body = self.call("GET", f"/batch?stream={self.stream}&size={size}")
            if status == 200:
                self.note("got", seq=seq, asked=size, first=body["first"], ids=body["ids"], epoch=body["epoch"])
            elif status == 204:
                return
            else:
                self.note("none" if status in REFUSED else "bad", seq=seq, why=f"{status} {body}")
            time.sleep(self.dice.random() * 0.01)

    def run_leased(self):
        while True:
            acks = []
            if len(self.held) > self.dice.randrange(3):
                acks = [seq for seq, _ in self.held]
                self.held = []
                if self.dice.random() < 0.5:
                    for seq in acks:
                        self.ack(seq)
                    acks = []
            seq, size = self.seq, self.dice.randint(1, 40)
            came = self.pull(seq, size, acks, self.dice.choice((1, 1, 2, 5)))
            self.seq += came
            if not came:
                break
            if self.dice.random() < 0.1:
                self.pull(seq, size, [])  # the same again
            if self.dice.random() < 0.97:
                self.held += [(number, size) for number in range(seq, self.seq)]  # else it forgets them: they run out
            if self.dice.random() < 0.02:
                self.call("POST", "/release", {"stream": self.stream, "worker": self.name})
                self.held = []
            time.sleep(self.dice.random() * 0.01)
        for seq, _ in self.held:
            self.ack(seq)


def read_journal(path):
    """The lines that are whole."""
    found = []
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    found.append(json.loads(line))
                except ValueError:
                    pass  # blank, or cut by kill -9
    return found


if __name__ == "__main__":
    Worker(*sys.argv[1:5], int(sys.argv[5])).run()
