# SPDX-License-Identifier: MIT
"""A stream of the HTTP interface in some lines of Python: what the next answer may be, and what it may not.

The model knows nothing of how the sampler is built. It learns the order once, unit by unit, from
`index=`, checks that the order keeps its design's law, and from then on every answer must be what
the model computes. Where the interface leaves a choice (which of two expired batches comes first),
every choice that it allows is taken.
"""

import math
import time
from collections import Counter

MARGIN_S = 0.6  # a lease this near its end may be either; then nothing is asked of it


class Unit:
    """One step of the order: positions [first, end) hold this unit and those passed over."""

    def __init__(self, first, end, id, label):
        self.first, self.end, self.id, self.label = first, end, id, label


class Batch:
    """Positions [first, end) and the units in them; leased `attempt` times so far."""

    def __init__(self, first, end, units, attempt=0):
        self.first, self.end, self.units, self.attempt = first, end, units, attempt

    def __repr__(self):
        return f"[{self.first}, {self.end}) leased {self.attempt} times"


class Lease:
    """A batch in a worker's hands: asked as `size`, surely leased before `safe`, surely out after `over`."""

    def __init__(self, batch, asked, lease_s, sent, got):
        self.batch, self.asked = batch, asked
        self.renew(lease_s, sent, got)

    def renew(self, lease_s, sent, got):
        self.safe, self.over = sent + lease_s, got + lease_s

    def state(self, now):
        if now < self.safe - MARGIN_S:
            return "leased"
        return "expired" if now > self.over + MARGIN_S / 2 else "either"


ACKED, LOST = "acked", "lost"


class StreamModel:
    """One stream. `fetch(index, size)` answers GET /batch?index=, or None for 204."""

    def __init__(self, definition, facts, fetch):
        self.definition, self.facts, self.fetch = definition, facts, fetch
        self.name, self.design = definition["name"], facts["design"]
        self.lease_s = definition["lease_s"]
        self.tail, self.epochs = facts["tail"], facts["epochs"]
        self.M = facts["epoch_draws"]
        self.position = facts["position"]
        self.units, self.order_ended, self.has_spans = [], False, None
        self.pairs = {}      # (worker, seq) -> Lease, ACKED or LOST
        self.returned = []   # batches to be redelivered, out of everybody's hands
        self.holes = []      # [first, end) that a restored token left undone
        self.passed = [(0, self.position)] if self.position else []  # never drawn, and not to come
        self.acked = facts["acked"]
        self.redelivered = facts["redelivered"]
        self.counts_known = True
        self.paused = False

    # ---- the order ------------------------------------------------------------------------------

    @property
    def end(self):
        return self.epochs * self.M if self.epochs else None

    @property
    def passes_over(self):
        """Do batches hold fewer units than positions? Such designs always say so."""
        if self.has_spans is None:
            self.has_spans = self.design == "bernoulli"
            first = self.fetch(0, 1) if self.design in ("bernoulli", "cluster") else None
            if first:  # a bernoulli stream may choose no unit at all
                assert self.design != "bernoulli" or "span" in first
                self.has_spans = "span" in first
        return self.has_spans

    def learn(self):
        """The next units of the order; an epoch at a time where positions and units are the same."""
        if self.order_ended:
            return
        behind = self.units[-1].end if self.units else 0
        if self.passes_over:
            answer = self.fetch(len(self.units), 1)
        else:
            answer = self.fetch(behind // self.M, self.M) if self.design != "pxk" else \
                self.fetch(behind // self.batch_size, self.batch_size)
        if answer is None:
            self.order_ended = True
            assert self.end is not None, "204, but the stream has no end"
            assert behind == self.end or self.passes_over
            return
        assert answer["first"] == behind, "the order has a gap or an overlap"
        span = answer.get("span", answer["size"])
        for offset, (id, label) in enumerate(zip(answer["ids"], answer["labels"])):
            first = behind + offset
            self.units.append(Unit(first, behind + span if self.passes_over else first + 1, id, label))

    @property
    def batch_size(self):
        """Of a design with a size of its own, else None."""
        fields = self.definition
        return fields["p"] * fields["k"] if self.design == "pxk" else None

    def units_from(self, position):
        """Index of the first unit at or behind `position`, learning as far as needed."""
        while not self.order_ended and (not self.units or self.units[-1].end <= position):
            self.learn()
        low, high = 0, len(self.units)
        while low < high:
            middle = (low + high) // 2
            if self.units[middle].first < position:
                low = middle + 1
            else:
                high = middle
        return low

    def take(self, first, count, same_epoch):
        """Up to `count` units from `first` on, as a Batch; None behind the end."""
        index = self.units_from(first)
        taken = []
        while len(taken) < count:
            while not self.order_ended and index >= len(self.units):
                self.learn()
            if index >= len(self.units):
                break
            unit = self.units[index]
            if taken and same_epoch and (unit.end - 1) // self.M != (taken[0].end - 1) // self.M:
                break
            taken.append(unit)
            index += 1
        return Batch(first, taken[-1].end, taken) if taken else None

    def next_new(self, position, size):
        """The batch that a walk at `position` gets; None at the end."""
        if self.tail == "drop" and position % self.M + size > self.M:
            position = (position // self.M + 1) * self.M
        if self.end is not None and position >= self.end:
            return None
        return self.take(position, size, self.tail != "span")

    def at_index(self, index, size):
        """Batch number `index` of a walk from 0."""
        position, batch = 0, None
        for _ in range(index + 1):
            batch = self.next_new(position, size)
            if batch is None:
                return None
            position = batch.end
        return batch

    # ---- leases ---------------------------------------------------------------------------------

    def settle(self):
        """Waits until no lease is so near its end that nobody can say what it is."""
        while True:
            now = time.monotonic()
            near = [lease for lease in self.leases() if lease.state(now) == "either"]
            if not near:
                return
            time.sleep(max(0.01, max(lease.over for lease in near) + MARGIN_S / 2 + 0.01 - now))

    def leases(self, state=None):
        now = time.monotonic()
        return [lease for lease in self.pairs.values()
                if isinstance(lease, Lease) and (state is None or lease.state(now) == state)]

    def restarted(self, sent, got):
        """A restart gives what is leased a whole lease again; what had expired may have one, too."""
        for lease in self.leases():
            was_out = lease.state(sent) != "leased"
            lease.renew(self.lease_s, sent, got)
            if was_out:
                lease.safe = -math.inf

    def has_ended(self, acked=()):
        """Nothing is left to draw, and nothing is leased but these pairs: paused or not."""
        leased = any(isinstance(lease, Lease) and pair not in acked for pair, lease in self.pairs.items())
        return self.end is not None and self.position >= self.end and not (leased or self.returned or self.holes)

    def expect_draw(self, size):
        """(status, batches that may come). The batches are Batch objects; holes give a rule instead."""
        if self.paused:
            return (204 if self.has_ended() else 409), []
        back = self.returned + [lease.batch for lease in self.leases() if lease.state(time.monotonic()) == "expired"]
        if back or self.holes:
            return 200, back
        new = self.next_new(self.position, size)
        if new is not None:
            return 200, [new]
        return (503 if self.leases() else 204), []

    def from_hole(self, answer):
        """The batch of `answer` when it lies in what a restored token left undone."""
        first, end = answer["first"], answer["first"] + answer.get("span", answer["size"])
        for number, (begin, stop) in enumerate(self.holes):
            if begin <= first and end <= stop:
                self.holes[number : number + 1] = [part for part in ((begin, first), (end, stop)) if part[0] < part[1]]
                batch = self.take(first, answer["size"], False)
                assert batch.end == end, "not the units that the order has there"
                return batch
        return None

    def handed_out(self, answer, size):
        """Which of the batches that may come this is; the stream moves on. It must be one of them."""
        status, choices = self.expect_draw(size)
        assert status == 200, f"a batch came, but {status} was due: {answer}"
        first, count = answer["first"], answer["size"]
        for batch in choices:
            if batch.first == first and len(batch.units) == count:
                break
        else:
            batch = self.from_hole(answer)
            assert batch is not None, f"{first}+{count} came; due was one of {choices} or of {self.holes}"
            assert count <= size, "more came than was asked for"
            return batch
        if batch in self.returned:
            self.returned.remove(batch)
        elif batch.attempt > 0:
            for pair, lease in list(self.pairs.items()):
                if isinstance(lease, Lease) and lease.batch is batch:
                    self.pairs[pair] = LOST
        else:
            self.move_to(batch.end, batch.first)
        if batch.attempt > 0:
            self.redelivered += 1
        return batch

    def check_units(self, answer, batch):
        assert answer["ids"] == [unit.id for unit in batch.units]
        assert answer["labels"] == [unit.label for unit in batch.units]
        assert answer["size"] == len(batch.units)
        assert answer["epoch"] == answer["first"] // self.M
        assert answer["stream"] == self.name
        if self.passes_over:
            assert answer["span"] == batch.end - batch.first

    def lease(self, pair, batch, asked, sent, got):
        batch.attempt += 1
        self.pairs[pair] = Lease(batch, asked, self.lease_s, sent, got)

    def may_ack(self, pair):
        """Would an ack of it be 200?"""
        held = self.pairs.get(pair)
        return held == ACKED or isinstance(held, Lease)

    def ack(self, pair):
        if isinstance(self.pairs.get(pair), Lease):
            self.acked += 1
        self.pairs[pair] = ACKED

    def release(self, worker):
        """What a goodbye gives back; and how many of those had not expired."""
        freed = [pair for pair, lease in self.pairs.items() if pair[0] == worker and isinstance(lease, Lease)]
        live = sum(self.pairs[pair].state(time.monotonic()) == "leased" for pair in freed)
        for pair in freed:
            self.returned.append(self.pairs[pair].batch)
            self.pairs[pair] = LOST
        return len(freed), live

    # ---- moving about ---------------------------------------------------------------------------

    def withdraw_all(self):
        for pair, lease in list(self.pairs.items()):
            if isinstance(lease, Lease):
                self.pairs[pair] = LOST
        self.returned, self.holes = [], []

    def move_to(self, position, first):
        """What lies before `first` is skipped."""
        if first > self.position:
            self.passed = merged(self.passed + [(self.position, first)])
        self.position = position

    def seek(self, position):
        undone = self.passed + self.snapshot()["holes"]
        if position > self.position:
            undone.append((self.position, position))
        self.passed = merged([(first, min(end, position)) for first, end in undone if first < position])
        self.withdraw_all()
        self.position = position

    def snapshot(self):
        """What a checkpoint says: the position, and what before it is not done."""
        undone = [(batch.first, batch.end) for batch in self.returned]
        undone += [(lease.batch.first, lease.batch.end) for lease in self.leases()]
        return {"position": self.position, "holes": merged(undone + self.holes), "kin": self.kin()}

    def kin(self):
        """What a token binds."""
        names = ("digest", "design", "replacement", "seed")
        own = {key: value for key, value in self.definition.items() if key in
               ("shares", "deviations", "column", "p", "k", "size", "groups", "rate")}
        return {**{name: self.facts[name] for name in names}, "fields": own,
                "rows": self.definition.get("rows"), "split": self.definition.get("split")}

    def restore(self, snapshot):
        self.pairs, self.returned = {}, []
        self.position, self.holes, self.passed = snapshot["position"], list(snapshot["holes"]), []
        self.counts_known = False

    # ---- what it tells of itself ----------------------------------------------------------------

    def check_status(self, status):
        for name in ("name", "frame", "digest", "design", "replacement", "seed", "generation", "units", "epochs", "tail",
                     "epoch_draws"):
            assert status[name] == self.facts[name], f"{name}: {status[name]}, was {self.facts[name]}"
        at_end = self.end is not None and status["position"] == self.end
        if at_end and self.tail == "drop" and self.end - self.position < self.M:
            self.move_to(self.end, self.end)  # a draw that found too little left may have skipped it
        if at_end and self.order_ended and not self.units:
            self.move_to(self.end, self.end)  # and one of a bernoulli stream that chose no unit passed over all
        assert status["position"] == self.position
        assert status["epoch"] == self.position // self.M
        live, known = len(self.leases("leased")), len(self.leases())
        assert live <= status["leased"] <= known + len(self.returned) + len(self.holes)
        if self.counts_known:
            assert status["acked"] == self.acked
            assert status["redelivered"] == self.redelivered
        assert status["state"] == ("ended" if self.has_ended() else "paused" if self.paused else "running")

    def drawn_counts(self):
        """Units of each label handed out in this epoch; at the end of the stream, in its last one."""
        epoch = self.position // self.M - (self.position == self.end)
        begin = epoch * self.M
        self.units_from(self.position)
        open_spans = self.holes + self.passed
        return Counter(unit.label for unit in self.units if begin < unit.end <= self.position
                       and not within(open_spans, unit.end - 1))


def within(spans, position):
    return any(first <= position < end for first, end in spans)


def merged(spans):
    """Spans in ascending order, those that touch as one."""
    result = []
    for first, end in sorted(spans):
        if result and result[-1][1] == first:
            result[-1] = (result[-1][0], end)
        else:
            result.append((first, end))
    return result
