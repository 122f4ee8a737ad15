# SPDX-License-Identifier: MIT
"""Random walks through the HTTP interface, judged step by step by the model of sampler_model.py.

Hypothesis chooses what is asked: streams of every design, draws with and without a worker, acks of
all kinds, releases, seeks, checkpoints, restarts. A failure prints the shortest walk it found.
"""

import base64
import signal
import sys
import time
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, seed, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from conftest import LONG, SANITIZED, SEED, Sampler
from design_laws import check_epoch
from sampler_cases import (BAD_DEFINITIONS, BAD_QUERIES, BASE_FIELDS, LEASE_FIELDS, LONG_LEASE_S, SHORT_LEASE_S, WORKERS, Caller,
                           definitions, make_rows, write_store)
from sampler_model import ACKED, LOST, Lease, StreamModel, within

pytestmark = pytest.mark.threads


class Machine(RuleBasedStateMachine):
    """One server, its streams, and a model of each."""

    folder = None  # set by the test

    def __init__(self):
        super().__init__()
        self.server = self.call = None
        self.models, self.generations, self.tokens, self.sleeps = {}, {}, [], 0

    # ---- starting and stopping ------------------------------------------------------------------

    @initialize(texts=st.booleans(), durability=st.sampled_from(("fsync", "process", "none")), epochs=st.sampled_from((0, 1, 2)))
    def start(self, texts, durability, epochs):
        here = self.folder / str(time.monotonic_ns())
        here.mkdir()
        self.rows, self.durability = make_rows(texts), durability
        self.labels = sorted({row.label for row in self.rows}, key=lambda label: label.encode() if texts else label)
        self.options = ("--store", write_store(here, self.rows), "--state", here / "state", "--durability", durability,
                        "--seed", 7, "--epochs", epochs, "--lease", LONG_LEASE_S)
        self.open_server()
        self.adopt({"name": "default", "lease_s": LONG_LEASE_S}, self.status("default"))

    def open_server(self):
        self.server = Sampler(*self.options, folder=self.folder)
        self.call = Caller(self.server)

    def stop_server(self, how):
        self.call.close()
        if how == signal.SIGKILL:
            self.server.kill()
        else:
            self.server.stop(how)
        self.server.finish()

    def teardown(self):
        if self.server is None:
            return
        try:
            if sys.exc_info()[0] is None:
                self.sweep()
        finally:
            self.call.close()
            self.server.finish()

    def sweep(self):
        """At the end, after one more restart: every pair is what it was, and what is due comes."""
        for model in self.models.values():
            if model.paused:
                assert self.call("POST", f"/streams/{model.name}/resume").status == 200
                model.paused = False
        self.restart(True)
        for model in self.models.values():
            model.settle()
            for pair in sorted(model.pairs):
                self.sweep_pair(model, pair)
            for _ in range(20):
                size = model.batch_size or min(5, model.M)
                answer, sent, got = self.pull(model, size)
                if answer.status != 200:
                    self.problem(answer, model.expect_draw(size)[0])
                    break
                self.took(model, answer, size, None, sent, got)
            model.check_status(self.status(model.name))

    def sweep_pair(self, model, pair):
        held = model.pairs[pair]
        if held in (ACKED, LOST):
            self.problem(self.pull(model, model.batch_size or 1, pair)[0], 409)
            answer = self.post_ack(model, pair[0], [pair[1]])
            assert answer.status == (200 if held == ACKED else 409), f"{pair} was {held}: {answer.text}"
        elif held.state(time.monotonic()) == "leased":
            body = self.pull(model, held.asked, pair)[0].json
            model.check_units(body, held.batch)
            self.check_lease(model, body, pair, held.batch)

    @rule(kill=st.booleans())
    def restart(self, kill):
        for model in self.models.values():
            model.settle()
        sent = time.monotonic()
        self.stop_server(signal.SIGKILL if kill and self.durability != "none" else signal.SIGTERM)
        self.open_server()
        for model in self.models.values():
            model.restarted(sent, time.monotonic())
        names = [status["name"] for status in self.call("GET", "/streams").json["streams"]]
        assert sorted(names) == sorted(self.models)
        for model in self.models.values():
            model.check_status(self.status(model.name))

    # ---- helpers --------------------------------------------------------------------------------

    def status(self, name):
        answer = self.call("GET", f"/streams/{name}")
        assert answer.status == 200, answer.text
        return answer.json

    def adopt(self, definition, facts):
        """A model for a stream that is there now."""
        name = definition["name"]

        def fetch(index, size):
            answer = self.call("GET", f"/batch?stream={name}&size={size}&index={index}")
            assert answer.status in (200, 204), answer.text
            return answer.json if answer.status == 200 else None

        self.models[name] = StreamModel(definition, facts, fetch)

    def pick(self, data):
        model = self.models[data.draw(st.sampled_from(sorted(self.models)), label="stream")]
        model.settle()
        return model

    def size(self, data, model):
        return model.batch_size or data.draw(st.integers(1, min(12, model.M) if model.tail == "drop" else 12), label="size")

    def problem(self, answer, status):
        assert answer.status == status, f"{answer.status}, not {status}: {answer.text}"
        if status == 204:
            assert answer.body == b""
            return
        body = answer.json
        assert answer.headers["content-type"] == "application/problem+json"
        assert body["status"] == status and body["title"] and body["type"] and body["detail"]
        if status == 503:
            assert int(answer.headers["retry-after"]) >= 0

    def pull(self, model, size, pair=None, acks=(), batches=None):
        query = {"stream": model.name, "size": size, **({"batches": batches} if batches else {})}
        if pair:
            query.update(worker=pair[0], seq=pair[1])
        if acks:
            query["ack"] = ",".join(map(str, acks))
        sent = time.monotonic()
        answer = self.call("GET", f"/batch?{urlencode(query)}")
        return answer, sent, time.monotonic()

    def took(self, model, answer, size, pair, sent, got):
        """A draw was answered: it must be what was due."""
        assert answer.headers["cache-control"] == "no-store"
        self.took_batch(model, answer.json, size, pair, sent, got)

    def took_batch(self, model, body, size, pair, sent, got):
        batch = model.handed_out(body, size)
        model.check_units(body, batch)
        if pair is None:
            model.acked += 1
            assert set(body) - {"attempt", "redelivered", "span"} == BASE_FIELDS
            if batch.attempt > 0:
                assert body.get("redelivered", True) and body.get("attempt", batch.attempt + 1) == batch.attempt + 1
            else:
                assert not body.get("redelivered")
            return
        from_hole = batch.attempt == 0 and batch.end <= model.position and body["attempt"] > 1
        if from_hole:
            batch.attempt = body["attempt"] - 1  # it is left open what a restored token counts
        model.lease(pair, batch, size, sent, got)
        self.check_lease(model, body, pair, batch)

    def check_lease(self, model, body, pair, batch):
        assert set(body) - {"redelivered", "span"} == BASE_FIELDS | LEASE_FIELDS
        assert (body["worker"], body["seq"], body["attempt"]) == (*pair, batch.attempt)
        assert 0 <= body["expires_ms"] <= model.lease_s * 1000
        assert body.get("redelivered", False) == (batch.attempt > 1)

    # ---- draws ----------------------------------------------------------------------------------

    @rule(data=st.data(), times=st.integers(1, 4))
    def draw(self, data, times):
        model = self.pick(data)
        size = self.size(data, model)
        for _ in range(times):
            answer, sent, got = self.pull(model, size)
            if answer.status != 200:
                self.problem(answer, model.expect_draw(size)[0])
                return
            self.took(model, answer, size, None, sent, got)

    @rule(data=st.data(), worker=st.sampled_from(WORKERS), times=st.integers(2, 8), at_once=st.integers(0, 8))
    def draw_many_leased(self, data, worker, times, at_once):
        """Several in flight, the first of them out of one answer; now and then up to the end of the stream."""
        model = self.pick(data)
        size = self.size(data, model)
        seq = 1 + max((seq for name, seq in model.pairs if name == worker), default=-1)
        first = seq
        if at_once:
            model.settle()
            answer, sent, got = self.pull(model, size, (worker, seq), batches=at_once)
            if answer.status != 200:
                self.problem(answer, model.expect_draw(size)[0])
                return
            assert 1 <= len(answer.json["batches"]) <= at_once
            for body in answer.json["batches"]:
                self.took_batch(model, body, size, (worker, seq), sent, got)
                seq += 1
        for pair in ((worker, number) for number in range(seq, first + times)):
            model.settle()
            answer, sent, got = self.pull(model, size, pair)
            if answer.status != 200:
                self.problem(answer, model.expect_draw(size)[0])
                return
            self.took(model, answer, size, pair, sent, got)

    @rule(data=st.data(), worker=st.sampled_from(WORKERS), skip=st.integers(0, 2))
    def draw_leased(self, data, worker, skip):
        """A new batch, with acks of the worker's own, old or nobody's batches."""
        model = self.pick(data)
        mine = sorted(seq for name, seq in model.pairs if name == worker)
        seq = (mine[-1] + 1 if mine else 0) + skip
        acks = data.draw(st.lists(st.sampled_from(mine + [seq + 5]), max_size=3, unique=True), label="acks") if mine else []
        acks = [ack for ack in acks if model.may_ack((worker, ack))] if skip else acks
        size = self.size(data, model)
        good = all(model.may_ack((worker, ack)) for ack in acks)
        answer, sent, got = self.pull(model, size, (worker, seq), acks)
        if not good:
            self.problem(answer, 409)
            return
        if model.paused and acks and not model.has_ended([(worker, ack) for ack in acks]):
            self.problem(answer, 409)
            assert self.post_ack(model, worker, acks).status == 200
            for ack in acks:
                model.ack((worker, ack))
            return
        for ack in acks:
            model.ack((worker, ack))
        if answer.status == 200:
            self.took(model, answer, size, (worker, seq), sent, got)
        else:
            self.problem(answer, model.expect_draw(size)[0])

    @rule(data=st.data(), other_size=st.booleans())
    def ask_again(self, data, other_size):
        model = self.pick(data)
        if not model.pairs:
            return
        pair = data.draw(st.sampled_from(sorted(model.pairs)), label="pair")
        held = model.pairs[pair]
        if held in (ACKED, LOST):
            size = model.batch_size or (min(5, model.M) if model.tail == "drop" else 5)
            answer, _, _ = self.pull(model, size, pair)
            self.problem(answer, 409)
            return
        state = held.state(time.monotonic())
        if other_size and not model.batch_size:
            size = max(held.asked, len(held.batch.units)) + 1
            if model.tail == "drop" and size > model.M:
                return
            if state == "leased":
                self.problem(self.pull(model, size, pair)[0], 409)
            return
        answer, sent, got = self.pull(model, held.asked, pair)
        if answer.status != 200:
            assert state == "expired", f"{answer.status} {answer.text}"  # paused or not
            self.problem(answer, 409)
            return
        body = answer.json
        model.check_units(body, held.batch)
        assert body["first"] == held.batch.first
        if state == "expired":  # it is redelivered, to the one who pulls next
            model.redelivered += 1
            held.batch.attempt += 1
            held.renew(model.lease_s, sent, got)
        self.check_lease(model, body, pair, held.batch)

    @rule(data=st.data(), what=st.sampled_from(("index", "index", "head", "where", "labels", "query", "definition", "token")))
    def look(self, data, what):
        """What changes nothing, whatever comes of it."""
        if what == "definition":
            self.bad_definition(data.draw(st.sampled_from(BAD_DEFINITIONS), label="definition"))
        elif what == "token":
            self.damaged_token(data)
        else:
            {"index": self.index, "head": self.head, "where": self.where, "labels": self.labels_drawn,
             "query": self.bad_query}[what](data, self.pick(data))

    def index(self, data, model):
        """The batch that a walk from 0 has there, whatever was drawn."""
        index, sort = data.draw(st.integers(0, 12), label="index"), data.draw(st.booleans(), label="sort")
        size = self.size(data, model)
        wanted = model.at_index(index, size)
        answer = self.call("GET", f"/batch?stream={model.name}&size={size}&index={index}&sort={int(sort)}")
        if wanted is None:
            self.problem(answer, 204)
            return
        body = answer.json
        pairs = [(unit.id, unit.label) for unit in wanted.units]
        if sort:
            pairs.sort(key=lambda pair: pair[0])
        assert list(zip(body["ids"], body["labels"])) == pairs or sort and sorted(
            zip(body["ids"], body["labels"])) == sorted(pairs) and body["ids"] == sorted(body["ids"])
        assert (body["first"], body["size"]) == (wanted.first, len(pairs))
        assert set(body) - {"span"} == BASE_FIELDS

    def head(self, data, model):
        size = self.size(data, model)
        answer = self.call("HEAD", f"/batch?stream={model.name}&size={size}")
        assert answer.body == b"" and answer.status == model.expect_draw(size)[0]

    # ---- leases ---------------------------------------------------------------------------------

    def post_ack(self, model, worker, seqs, path="/ack"):
        return self.call("POST", path, {"stream": model.name, "worker": worker, "seqs": seqs})

    def pick_holder(self, data, worker):
        """A stream, and a worker that has leases of it where there is one."""
        holding = sorted({(model.name, pair[0]) for model in self.models.values()
                          for pair, lease in model.pairs.items() if isinstance(lease, Lease)})
        if not holding or data.draw(st.integers(0, 4), label="any") == 0:
            return self.pick(data), worker
        name, worker = data.draw(st.sampled_from(holding), label="holder")
        self.models[name].settle()
        return self.models[name], worker

    def some_seqs(self, data, model, worker):
        """Some that it holds; now and then others, too."""
        mine = sorted(seq for name, seq in model.pairs if name == worker)
        held = [seq for seq in mine if isinstance(model.pairs[worker, seq], Lease)]
        if not held or data.draw(st.integers(0, 3), label="others") == 0:
            held = mine + [10**15]
        return data.draw(st.lists(st.sampled_from(held), min_size=1, max_size=4, unique=True), label="seqs")

    @rule(data=st.data(), worker=st.sampled_from(WORKERS[:2]))
    def ack(self, data, worker):
        model, worker = self.pick_holder(data, worker)
        seqs = self.some_seqs(data, model, worker)
        answer = self.post_ack(model, worker, seqs)
        if not all(model.may_ack((worker, seq)) for seq in seqs):
            self.problem(answer, 409)
            return
        assert answer.status == 200 and answer.json == {"acked": seqs}, answer.text
        for seq in seqs:
            model.ack((worker, seq))

    @rule(data=st.data(), worker=st.sampled_from(WORKERS[:2]))
    def extend(self, data, worker):
        model, worker = self.pick_holder(data, worker)
        seqs = self.some_seqs(data, model, worker)
        held = [model.pairs.get((worker, seq)) for seq in seqs]
        sent = time.monotonic()
        answer = self.post_ack(model, worker, seqs, "/extend")
        got = time.monotonic()
        if all(isinstance(lease, Lease) for lease in held):
            live = all(lease.state(sent) == "leased" for lease in held)
            if answer.status == 200:
                assert answer.json == {"expires_ms": model.lease_s * 1000}
                for lease in held:
                    lease.renew(model.lease_s, sent, got)
                return
            assert not live, answer.text
        elif all(lease == ACKED or isinstance(lease, Lease) for lease in held) and answer.status == 200:
            for lease in held:
                if isinstance(lease, Lease):
                    lease.renew(model.lease_s, sent, got)
            return
        self.problem(answer, 409)

    @rule(data=st.data(), worker=st.sampled_from(WORKERS))
    def release(self, data, worker):
        model = self.pick(data)
        answer = self.call("POST", "/release", {"stream": model.name, "worker": worker})
        assert answer.status == 200, answer.text
        known, live = model.release(worker)
        assert live <= answer.json["released"] <= known

    @precondition(lambda self: self.sleeps < (6 if LONG else 2) and
                  any(model.lease_s == SHORT_LEASE_S and model.leases("leased") for model in self.models.values()))
    @rule()
    def wait_until_short_leases_run_out(self):
        self.sleeps += 1
        for model in self.models.values():
            if model.lease_s == SHORT_LEASE_S:
                while model.leases("leased"):
                    time.sleep(0.05)
            model.settle()

    # ---- streams --------------------------------------------------------------------------------

    @precondition(lambda self: len(self.models) < 5)
    @rule(data=st.data(), name=st.sampled_from(("eval", "a.b_c-D", "x" * 64)))
    def create(self, data, name):
        body = {"name": name, **data.draw(definitions(self.labels), label="definition")}
        answer = self.call("POST", "/streams", body)
        if name in self.models:
            self.problem(answer, 409)
            return
        assert answer.status == 201, f"{body}: {answer.status} {answer.text}"
        assert answer.headers["location"].endswith(f"/streams/{name}")
        facts = answer.json
        for field in ("name", "design", "replacement", "seed", "epochs", "tail"):
            assert facts[field] == body[field]
        assert (facts["position"], facts["leased"], facts["acked"], facts["redelivered"], facts["state"]) == (0, 0, 0, 0, "running")
        assert facts["generation"] > self.generations.get(name, 0)
        self.generations[name] = facts["generation"]
        assert self.status(name) == facts
        self.adopt(body, facts)
        self.check_law(self.models[name])

    def check_law(self, model):
        """The first two epochs keep the law of the design."""
        rows, body = self.rows, model.definition
        if "rows" in body:
            begin, end = map(int, body["rows"].split(":"))
            rows = rows[begin:end]
        assert model.facts["units"] == len(rows)
        model.units_from(2 * model.M)
        for epoch in range(min(model.epochs or 2, 2)):
            ids = [unit.id for unit in model.units if (unit.end - 1) // model.M == epoch]
            check_epoch(model.design, body, body["replacement"], rows, ids, model.M, model.facts.get("balance_error"))

    @rule(data=st.data())
    def delete(self, data):
        model = self.pick(data)
        answer = self.call("DELETE", f"/streams/{model.name}")
        if model.name == "default":
            self.problem(answer, 409)
            return
        assert answer.status == 204, answer.text
        del self.models[model.name]
        for target in (f"/streams/{model.name}", f"/batch?stream={model.name}", f"/labels?stream={model.name}"):
            self.problem(self.call("GET", target), 404)

    @rule(data=st.data(), pause=st.sampled_from((False, False, True)))
    def pause_or_resume(self, data, pause):
        model = self.pick(data)
        answer = self.call("POST", f"/streams/{model.name}/{'pause' if pause else 'resume'}")
        assert answer.status == 200, answer.text
        model.paused = pause
        model.check_status(answer.json)

    @rule(data=st.data())
    def seek(self, data):
        model = self.pick(data)
        limit = model.end if model.end is not None else 3 * model.M
        position = data.draw(st.integers(0, limit), label="position")
        if model.batch_size:
            position -= position % model.batch_size
        if model.passes_over and position not in (0, model.end):
            index = model.units_from(position)
            position = model.units[min(index, len(model.units) - 1)].first if model.units else 0
        answer = self.call("POST", f"/streams/{model.name}/seek", {"position": position})
        assert answer.status == 200, answer.text
        model.seek(position)
        model.acked, model.redelivered = answer.json["acked"], answer.json["redelivered"]
        assert answer.json["leased"] == 0
        model.check_status(answer.json)
        if model.end is not None:
            self.problem(self.call("POST", f"/streams/{model.name}/seek", {"position": model.end + 1}), 400)

    @rule(data=st.data())
    def checkpoint(self, data):
        model = self.pick(data)
        answer = self.call("POST", f"/streams/{model.name}/checkpoint")
        assert answer.status == 200 and set(answer.json) == {"token"}, answer.text
        self.tokens.append((answer.json["token"], model.snapshot()))

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def restore(self, data):
        """Into any stream: it must be one of the same order, of whatever name, tail, epochs."""
        model = self.pick(data)
        kin = [number for number, (_, snapshot) in enumerate(self.tokens) if snapshot["kin"] == model.kin()]
        token, snapshot = self.tokens[data.draw(st.sampled_from(kin or range(len(self.tokens))), label="token")]
        answer = self.call("POST", f"/streams/{model.name}/restore", {"token": token})
        if not kin:
            self.problem(answer, 409)
            return
        if model.end is not None and snapshot["position"] > model.end:
            assert answer.status in (400, 409), answer.text
            return
        assert answer.status == 200, answer.text
        assert answer.json["leased"] == 0
        model.restore(snapshot)
        model.check_status(answer.json)

    def damaged_token(self, data):
        """A token with a bit changed, cut or longer is 400 and changes nothing."""
        if not self.tokens:
            return
        token = data.draw(st.sampled_from(self.tokens), label="token")[0]
        raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        bit = data.draw(st.integers(0, 8 * len(raw) - 1), label="bit")
        raw[bit // 8] ^= 1 << bit % 8
        changed = base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
        model = self.pick(data)
        for damaged in (changed, token[:-5], token[: len(token) // 2], token + "AAAA", "", "!", "A" * 70000):
            self.problem(self.call("POST", f"/streams/{model.name}/restore", {"token": damaged}), 400)

    # ---- what is asked of it --------------------------------------------------------------------

    def where(self, data, model):
        """Units that an epoch holds once: the inverse of the order, and what became of the batch."""
        model.units_from(model.position + 1)
        if not model.units or model.design in ("equal", "quota", "neyman", "pxk") or model.facts["replacement"]:
            return
        unit = data.draw(st.sampled_from(model.units), label="unit")
        epoch = (unit.end - 1) // model.M
        answer = self.call("GET", f"/where?id={unit.id}&stream={quote(model.name)}&epoch={epoch}")
        assert answer.status == 200, answer.text
        place = answer.json
        assert (place["id"], place["label"], place["epoch"]) == (unit.id, unit.label, epoch)
        assert unit.first <= place["position"] < unit.end
        if not model.passes_over:
            assert place["position"] == unit.first
        self.check_place(model, place, unit)

    def check_place(self, model, place, unit):
        held = [(pair, lease) for pair, lease in model.pairs.items() if isinstance(lease, Lease)
                and lease.batch.first <= unit.first < lease.batch.end]
        if held:
            (worker, seq), lease = held[0]
            assert (place["state"], place["worker"], place["seq"], place["attempt"]) == ("leased", worker, seq, lease.batch.attempt)
        elif any(batch.first <= unit.first < batch.end for batch in model.returned) or \
                any(first <= unit.first < end for first, end in model.holes):
            assert place["state"] in ("ahead", "leased") and "passed" not in place
        elif within(model.passed, place["position"]):
            assert (place["state"], place["passed"]) == ("ahead", True)
        elif unit.first >= model.position:
            assert place["state"] == "ahead" and "passed" not in place
        else:
            assert place["state"] == "done"

    def labels_drawn(self, _, model):
        answer = self.call("GET", f"/labels?stream={quote(model.name)}")
        assert answer.status == 200, answer.text
        labels = answer.json["labels"]
        assert [label["label"] for label in labels] == [
            name for name in self.labels if name in {row.label for row in self.rows}] or "rows" in model.definition
        wanted = model.drawn_counts()
        assert {label["label"]: label["drawn"] for label in labels if label["drawn"]} == dict(wanted)
        assert sum(label["units"] for label in labels) == model.facts["units"]

    def bad_query(self, data, model):
        query = data.draw(st.sampled_from(BAD_QUERIES), label="query")
        self.problem(self.call("GET", f"/batch?stream={model.name}&{query}"), 400)

    def bad_definition(self, body):
        self.problem(self.call("POST", "/streams", body), 400)
        self.problem(self.call("GET", "/streams/n"), 404)

    @invariant()
    def nothing_else_moved(self):
        if self.server is not None:
            for model in self.models.values():
                model.settle()
                model.check_status(self.status(model.name))


@pytest.mark.heavy
def test_random_walks_agree_with_the_model(tmp_path):
    Machine.folder = tmp_path
    examples = 500 if LONG else 40
    run_state_machine_as_test(seed(SEED)(Machine), settings=settings(
        max_examples=examples, stateful_step_count=80 if LONG else 60, deadline=None, database=None, print_blob=True,
        suppress_health_check=list(HealthCheck)))


def test_a_short_random_walk(tmp_path):
    """The same for sanitizer runs."""
    Machine.folder = tmp_path
    run_state_machine_as_test(seed(SEED)(Machine), settings=settings(
        max_examples=5 if SANITIZED else 2, stateful_step_count=25, deadline=None, database=None,
        suppress_health_check=list(HealthCheck)))
