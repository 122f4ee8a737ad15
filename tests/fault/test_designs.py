# SPDX-License-Identifier: MIT
"""Each design over HTTP on real data, judged by statistics: what is drawn, and the weights it comes with.

All seeds are fixed, so a result never changes from run to run. The data are MNIST's labels and ink
(../shared/data beside the source tree) or, without it, the demo data.
"""

import gzip
import json
from urllib.parse import quote

import numpy as np
import pytest

from design_laws import Row, check_epoch, label_shares
from service import LONG, ROOT

UNITS = 6000


class Data:
    """labels, ink (a real column), weights and groups of UNITS units, and the store they lie in."""

    def __init__(self, folder, labels, ink, ids):
        N = len(labels)
        self.ids, self.labels, self.ink = np.asarray(ids), np.asarray(labels), np.asarray(ink, dtype=float)
        self.weights = np.round(1 + self.ink / 8)
        self.weights[:: N // 7] *= 60  # some that a sample takes for certain
        dice = np.random.default_rng(1)
        self.groups = np.repeat(np.arange(N), dice.integers(1, 40, N))[:N]  # writers of 1 to 39 digits
        self.place = {id: number for number, id in enumerate(self.ids.tolist())}
        self.path = folder / f"units{N}.csv"
        with open(self.path, "w", encoding="ascii") as out:
            out.write("id,label,weight,group,ink\n")
            for row in zip(self.ids, self.labels, self.weights, self.groups, self.ink):
                out.write("%d,%d,%g,g%d,%.17g\n" % row)
        self.uri = f"csv:{self.path}?id=id&weight=weight&group=group"
        self.rows = [Row(int(id), int(label), float(weight), int(group))
                     for id, label, weight, group in zip(self.ids, self.labels, self.weights, self.groups)]

    def places(self, ids):
        return np.fromiter((self.place[id] for id in ids), dtype=np.int64, count=len(ids))


def real_columns(demo):
    """(labels, ink): of MNIST, else of the demo data."""
    source = ROOT.parent / "shared" / "data" / "mnist"
    if source.is_dir():
        labels = np.frombuffer(gzip.decompress((source / "train-labels-idx1-ubyte.gz").read_bytes())[8:], dtype=np.uint8)
        images = np.frombuffer(gzip.decompress((source / "train-images-idx3-ubyte.gz").read_bytes())[16:], dtype=np.uint8)
        return labels[:UNITS].astype(int), images.reshape(-1, 784)[:UNITS].sum(axis=1) / 255
    table = np.loadtxt(demo / "mnist_train.csv", delimiter=",")
    return table[:, 0].astype(int), table[:, 1:].sum(axis=1) / 255


@pytest.fixture(scope="module")
def data(demo, tmp_path_factory):
    labels, ink = real_columns(demo)
    return Data(tmp_path_factory.mktemp("designs"), labels, ink, 7 * np.arange(len(labels)) + 3)


class Streams:
    """Streams of one server, by what they are made of."""

    def __init__(self, server):
        self.server, self.made = server, 0

    def make(self, **body):
        self.made += 1
        body = {"name": f"s{self.made}", **body}
        answer = self.server.request("POST", "/streams", body=json.dumps(body))
        assert answer.status == 201, f"{body}: {answer.text}"
        return answer.json

    def epoch(self, stream, epoch, more=""):
        """One epoch at once, from index=; pxk batch by batch."""
        body = self.server.batch(f"stream={stream['name']}&size={stream['epoch_draws']}&index={epoch}{more}")
        assert body["epoch"] == epoch and body["first"] == epoch * stream["epoch_draws"]
        return body


@pytest.fixture
def streams(sampler, data):
    return Streams(sampler("--store", data.uri, "--seed", 1))


def expected(design, body, data):
    """Each unit's expected count in an epoch, computed from the design's definition."""
    N = len(data.labels)
    if design == "weighted" and body.get("replacement"):
        return N * data.weights / data.weights.sum()
    if design == "weighted":
        return certain_and_rest(data.weights, body["size"])
    if design == "systematic":
        return np.full(N, body["size"] / N)
    if design == "cluster":
        return np.full(N, body["groups"] / len(np.unique(data.groups)))
    if design == "bernoulli":
        return np.full(N, body["rate"])
    return np.ones(N)


def certain_and_rest(weights, n):
    """PPS without replacement: units with n w >= W are taken for certain, the rest is scaled anew."""
    probability, certain = np.zeros(len(weights)), np.zeros(len(weights), dtype=bool)
    while True:
        left = n - certain.sum()
        probability[:] = np.where(certain, 1, left * weights / weights[~certain].sum())
        more = ~certain & (probability >= 1)
        if not more.any():
            return probability
        certain |= more


SAMPLES = [
    ("weighted", {"size": 400}, 0.8), ("weighted", {"replacement": True}, 0.15), ("systematic", {"size": 500}, 1.5),
    ("systematic", {"size": 433}, 0.8), ("cluster", {"groups": 60}, 0.8), ("bernoulli", {"rate": 0.1}, 0.15),
    ("srs", {"replacement": True}, 0.15), ("proportional", {"replacement": True}, 0.15)]


@pytest.mark.parametrize("design, fields, slack", SAMPLES)
def test_units_come_as_often_as_their_probability_and_totals_are_unbiased(streams, data, design, fields, slack):
    """Inclusion frequencies over seeds and epochs; Horvitz-Thompson totals of a real column."""
    N, seeds = len(data.labels), 40 if LONG else 8
    small = "replacement" not in fields
    epochs = 40 if small else 6
    counts, totals, wanted = np.zeros(N), [], expected(design, fields, data)
    for seed in range(seeds):
        stream = streams.make(design=design, seed=seed, **fields)
        for epoch in range(epochs):
            body = streams.epoch(stream, epoch, "&weights=1")
            places, given = data.places(body["ids"]), np.array(body["probabilities"])
            np.testing.assert_allclose(given, wanted[places], rtol=1e-12)
            np.testing.assert_allclose(np.array(body["weights"]) * given, 1, rtol=1e-15)
            assert body["labels"] == data.labels[places].tolist()
            np.add.at(counts, places, 1)
            totals.append((data.ink[places] * body["weights"]).sum())
    R = seeds * epochs
    check_frequencies(counts, R, wanted, not small, slack)
    check_unbiased(np.array(totals), data.ink.sum())


def check_frequencies(counts, R, p, repeats, slack):
    """Counts of R epochs: no unit beyond 5.5 standard deviations, and the spread that chance has."""
    certain = (p >= 1) & (not repeats)
    assert (counts[certain] == R).all()
    p, counts = p[~certain], counts[~certain]
    z = (counts - R * p) / np.sqrt(R * p * (1 if repeats else 1 - p))
    tall = R * p > 4  # where a normal distribution is near enough
    assert abs(z[tall]).max() < 5.5
    assert abs((z**2).mean() - 1) < slack
    assert abs(z.mean()) < 0.5


def check_unbiased(totals, true):
    error = totals.std(ddof=1) / np.sqrt(len(totals))
    assert abs(totals.mean() - true) < max(4 * error, 1e-9 * true), \
        f"{totals.mean()} over {len(totals)} epochs, {true} is true, standard error {error}"


def strata(data):
    labels = [str(label) for label in np.unique(data.labels)]
    shares = np.arange(1, len(labels) + 1) / sum(range(1, len(labels) + 1))
    return [
        ("equal", {}), ("quota", {"shares": dict(zip(labels, shares.tolist()))}),
        ("neyman", {"deviations": {label: 1 + int(label) % 3 for label in labels}}), ("proportional", {})]


@pytest.mark.parametrize("number", range(4))
def test_labels_keep_their_shares_at_every_prefix_and_weights_are_unbiased(streams, data, number):
    design, fields = strata(data)[number]
    values, codes = np.unique(data.labels, return_inverse=True)
    shares = label_shares(design, fields, data.rows)
    wanted = np.array([shares[int(label)] for label in values])
    units = np.bincount(codes)
    totals = []
    for seed in range(20 if LONG else 4):
        stream, walked = streams.make(design=design, seed=seed, **fields), np.zeros(len(data.labels))
        M = stream["epoch_draws"]
        for epoch in range(3):
            body = streams.epoch(stream, epoch, "&weights=1")
            places = data.places(body["ids"])
            drawn = (codes[places][:, None] == np.arange(len(values))).cumsum(axis=0)
            assert abs(drawn - np.arange(1, M + 1)[:, None] * wanted).max() <= stream["balance_error"] <= 2.6
            np.testing.assert_allclose(body["probabilities"], (drawn[-1] / units)[codes[places]], rtol=2 / M + 1e-9)
            np.add.at(walked, places, 1)
            totals.append((data.ink[places] * body["weights"]).sum())
            assert drawn[-1].min() >= units[drawn[-1] > 0].min()
        for label in range(len(values)):
            mine = walked[codes == label]
            assert mine.max() - mine.min() <= 1, "a unit came again before the others of its label"
    check_unbiased(np.array(totals), data.ink.sum())


def test_neyman_takes_deviations_of_a_column(streams, data):
    by_column = streams.make(design="neyman", column="ink", seed=3)
    ids = streams.epoch(by_column, 0)["ids"]
    labels = data.labels[data.places(ids)]
    values, units = np.unique(data.labels, return_counts=True)
    shares = units * np.array([data.ink[data.labels == label].std() for label in values])
    drawn = np.array([(labels == label).sum() for label in values])
    assert abs(drawn - len(ids) * shares / shares.sum()).max() <= 2 + 1e-3 * len(ids)


@pytest.mark.parametrize("tail", ["keep"])
def test_a_simple_random_batch_has_the_labels_of_chance(streams, data, tail):
    """Chi-square of batches in each tenth of the epoch; neighbouring seeds know nothing of each other."""
    values, codes = np.unique(data.labels, return_inverse=True)
    N, L, B, seeds = len(codes), len(values), 50, 60 if LONG else 12
    share = np.bincount(codes) / N
    orders = []
    squares = []
    for seed in range(seeds):
        body = streams.epoch(streams.make(design="srs", seed=seed, tail=tail), 0)
        places = data.places(body["ids"])
        orders.append(places)
        table = np.array([np.bincount(codes[batch], minlength=L) for batch in np.split(places, N // B)])
        squares.append((((table - B * share) ** 2) / (B * share)).sum(axis=1))
    squares = np.array(squares)
    ideal = (L - 1) * (N - B) / (N - 1)
    for tenth in np.array_split(squares, 10, axis=1):
        error = tenth.std(ddof=1) / np.sqrt(tenth.size)
        assert abs(tenth.mean() - ideal) < 3.5 * error, f"{tenth.mean()} where {ideal} is ideal"
    same = [(one == two).sum() for one, two in zip(orders, orders[1:])]
    assert max(same) <= 9 and np.mean(same) < 1 + 4 / np.sqrt(len(same))
    ranks = [np.corrcoef(np.argsort(one), np.argsort(two))[0, 1] for one, two in zip(orders, orders[1:])]
    assert max(map(abs, ranks)) < 4.5 / np.sqrt(N)


EVERY = [
    ("srs", {}), ("srs", {"replacement": True}), ("sequential", {}), ("proportional", {}), ("proportional", {"replacement": True}),
    ("equal", {}), ("equal", {"replacement": True}), ("quota", {}), ("neyman", {}), ("pxk", {"p": 4, "k": 5}),
    ("pxk", {"p": 10, "k": 3}), ("weighted", {"size": 300}), ("weighted", {"replacement": True}), ("systematic", {"size": 377}),
    ("cluster", {}), ("cluster", {"groups": 20}), ("bernoulli", {"rate": 0.3}), ("bernoulli", {"rate": 0.01})]


def complete(design, fields, data):
    return {**dict(strata(data)).get(design, {}), **fields}


@pytest.fixture(scope="module")
def small(data, tmp_path_factory):
    """The first 700 units, in a store of their own."""
    return Data(tmp_path_factory.mktemp("small"), data.labels[:700], data.ink[:700], data.ids[:700])


def walk(server, name, size):
    """Draws to the end."""
    batches = []
    while (answer := server.get(f"/batch?stream={name}{size}")).status == 200:
        batches.append(answer.json)
    assert answer.status == 204
    return batches


@pytest.mark.parametrize("design, fields", EVERY)
def test_index_is_the_walk_and_where_its_inverse(sampler, small, design, fields):
    streams = Streams(sampler("--store", small.uri))
    fields = complete(design, fields, small)
    twins = [streams.make(design=design, seed=11, epochs=2, **fields) for _ in range(2)]
    M, server = twins[0]["epoch_draws"], streams.server
    size = "" if design == "pxk" else "&size=60"
    batches = walk(server, twins[0]["name"], size)
    leaves_out = design == "bernoulli" or (design == "cluster" and "groups" in fields)
    position = 0
    for index, batch in enumerate(batches):
        pure = server.batch(f"stream={twins[1]['name']}{size}&index={index}")
        assert {**pure, "stream": ""} == {**batch, "stream": ""}
        assert batch["first"] == position
        assert ("span" in batch) == leaves_out, "where an epoch skips positions, each batch says how many it covers, and none elsewhere"
        position += batch.get("span", batch["size"])
    assert position == 2 * M, "spans of an epoch add up to M"
    assert server.get(f"/batch?stream={twins[1]['name']}{size}&index={len(batches)}").status == 204
    for epoch in (0, 1):
        ids = [id for batch in batches for id in batch["ids"] if batch["epoch"] == epoch]
        check_epoch(design, fields, fields.get("replacement", False), small.rows, ids, M, twins[0].get("balance_error"))
    repeats = fields.get("replacement", False) or design in ("equal", "quota", "neyman", "pxk")
    check_where(server, twins[0]["name"], batches, small, repeats)


def check_where(server, name, batches, data, repeats):
    """Every third unit: of the first epoch, or not in it. `repeats`: a unit may come several times, or not at all by chance."""
    held = {}
    for batch in batches:
        if batch["epoch"] == 0:
            end = batch["first"] + batch.get("span", batch["size"])
            for offset, id in enumerate(batch["ids"]):
                exact = batch["first"] + offset if "span" not in batch or batch["span"] == batch["size"] else None
                held.setdefault(id, []).append((exact, batch["first"], end))
    for id in data.ids[:: 3].tolist():
        answer = server.get(f"/where?id={id}&stream={quote(name)}&epoch=0")
        if id not in held:
            if repeats:
                assert (answer.status, answer.json["positions"], answer.json["draws"], answer.json["state"]) == (200, [], 0, "done")
            else:
                assert answer.status == 404 and "not among those of epoch 0" in answer.json["detail"]
            continue
        place = answer.json
        assert ("positions" in place) == repeats
        found = place["positions"] if repeats else [place["position"]]
        assert len(found) == len(held[id]), f"{place}, {held[id]}"
        for position, (exact, first, end) in zip(sorted(found), held[id]):
            assert position == exact if exact is not None else first <= position < end
        assert (place["id"], place["label"], place["epoch"], place["state"]) == (id, int(data.labels[data.place[id]]), 0, "done")


def test_splits_are_disjoint_stable_and_never_tear_a_group(sampler, data, small):
    """A unit keeps its side when the frame grows, whatever the seed."""
    sides = {}
    for store, seed in ((data, 1), (small, 99)):
        streams = Streams(sampler("--store", store.uri, "--splits", "0.8,0.1,0.1", "--seed", seed))
        ids = {split: streams.epoch(streams.make(design="srs", split=split, seed=seed), 0)["ids"]
               for split in ("train", "validation", "test")}
        together = sorted(id for part in ids.values() for id in part)
        assert together == sorted(store.ids.tolist())
        sides[store] = {id: split for split, part in ids.items() for id in part}
    assert all(sides[data][id] == side for id, side in sides[small].items())
    for store in (data, small):
        of_group = {}
        for id, side in sides[store].items():
            assert of_group.setdefault(store.groups[store.place[id]], side) == side, "a group on two sides"
    shares = [list(sides[data].values()).count(side) / len(sides[data]) for side in ("train", "validation", "test")]
    assert abs(np.array(shares) - (0.8, 0.1, 0.1)).max() < 0.08, shares


def test_splits_without_groups_have_their_share_of_each_label(sampler, data):
    uri = f"csv:{data.path}?id=id"
    streams = Streams(sampler("--store", uri, "--splits", "0.6,0.3,0.1"))
    for split, share in (("train", 0.6), ("validation", 0.3), ("test", 0.1)):
        stream = streams.make(design="proportional", split=split)
        body = streams.epoch(stream, 0)
        labels = data.labels[data.places(body["ids"])]
        for label in np.unique(data.labels):
            units = (data.labels == label).sum()
            assert abs((labels == label).sum() - share * units) < 4.5 * np.sqrt(units * share * (1 - share))
