# SPDX-License-Identifier: MIT
"""Over seeds: where a unit comes, in which order labels come, and how orders of neighbouring seeds differ.

Through HTTP, with fixed seeds: a result never changes from run to run. Bounds are what chance exceeds once in a million runs.
"""

import json

import numpy as np
import pytest

from service import LONG

SEEDS = 6000 if LONG else 1000
CHANCE = 4.75  # standard deviations of a normal distribution that chance exceeds once in a million
pytestmark = pytest.mark.heavy


def chi_square_most(freedom):
    """What a chi-square of so many degrees of freedom exceeds once in a million (Wilson and Hilferty)."""
    return freedom * (1 - 2 / (9 * freedom) + CHANCE * np.sqrt(2 / (9 * freedom))) ** 3


def check_uniform(counts, expected):
    counts, expected = np.asarray(counts, dtype=float), np.asarray(expected, dtype=float)
    assert expected.min() >= 5, "too few for a chi-square"
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < chi_square_most(counts.size - 1), counts.tolist()


class Orders:
    """The order of each seed, as a stream that is gone afterwards."""

    def __init__(self, server):
        self.server = server

    def ask(self, seed, question, **body):
        made = self.server.request("POST", "/streams", body=json.dumps({"name": "one", "seed": seed, **body}))
        assert made.status == 201, made.text
        answer = question(made.json)
        assert self.server.request("DELETE", "/streams/one").status == 204
        return answer

    def epoch(self, seed, epoch=0, **body):
        def question(stream):
            return self.server.batch(f"stream=one&index={epoch}&size={stream['epoch_draws']}")
        return self.ask(seed, question, **body)


RARE = {
    "proportional": {}, "quota": {"shares": {"rare": 0.01, **{str(label): (label + 1) * 0.018 for label in range(10)}}},
    "neyman": {"deviations": {"rare": 4, **{str(label): 1 + label % 3 for label in range(10)}}}}


@pytest.fixture
def rare(sampler, tmp_path):
    """4,000 units, two of which have a label of their own; the others have ten labels, of more and more units."""
    path = tmp_path / "rare.csv"
    sizes = np.repeat(np.arange(10), np.arange(1, 11))
    labels = ["rare" if unit in (17, 3001) else sizes[unit % 55] for unit in range(4000)]
    path.write_text("id,label\n" + "".join(f"{unit},{label}\n" for unit, label in enumerate(labels)))
    return Orders(sampler("--store", f"csv:{path}?id=id", "--seed", 1))


@pytest.mark.parametrize("design", RARE)
def test_a_unit_of_a_rare_label_is_everywhere(rare, design):
    """Whatever its label, a unit's position is uniform over the epoch. Where it comes more than once, so is each of them."""
    counts, times = np.zeros(12), 0
    for seed in range(SEEDS):
        body = rare.epoch(seed, design=design, **RARE[design])
        positions = [position for position, unit in enumerate(body["ids"]) if unit == 17]
        times += len(positions)
        np.add.at(counts, [12 * position // len(body["ids"]) for position in positions], 1)
    assert times >= SEEDS
    check_uniform(counts, np.full(12, times / 12))


@pytest.mark.parametrize("design", ["proportional", "equal"])
def test_no_stride_and_no_turn_sees_a_part_of_the_labels(sampler, design):
    """Ten equal labels: every residue of every stride, which is what a worker gets that takes turns with others."""
    orders = Orders(sampler("--store", "range:1280?labels=10", "--seed", 1))
    seen = np.array([orders.epoch(seed, design=design)["labels"] for seed in range(SEEDS // 3)], dtype=int)
    for stride in (2, 3, 4, 5, 7, 8, 10, 16, 20, 32, 50, 64, 100, 128):
        for residue in {0, 1, stride // 2, stride - 1}:
            counts = np.bincount(seen[:, residue::stride].ravel(), minlength=10)
            assert ((counts - counts.sum() / 10) ** 2 / (counts.sum() / 10)).sum() < chi_square_most(9), (stride, residue, counts.tolist())
    for workers in (2, 3, 5, 16):  # that take turns by batches of 5
        turns = np.arange(1280) // 5 % workers
        for worker in (0, workers - 1):
            counts = np.bincount(seen[:, turns == worker].ravel(), minlength=10)
            assert ((counts - counts.sum() / 10) ** 2 / (counts.sum() / 10)).sum() < chi_square_most(9), (workers, worker, counts.tolist())


@pytest.mark.parametrize("design", ["srs", "proportional", "equal", "sequential"])
def test_neighbouring_seeds_have_nothing_in_common(sampler, design):
    """Positions of seeds s and s + 1, and of epochs e and e + 1 of one seed: no more alike than two shuffles are."""
    units = 1000
    orders = Orders(sampler("--store", f"range:{units}?labels=8", "--seed", 1))
    pairs = SEEDS // 3

    def epochs(seed):
        return [np.array(orders.epoch(seed, epoch, design=design)["ids"]) for epoch in (0, 1)]

    drawn = [epochs(seed) for seed in range(pairs + 1)]
    if design == "sequential":  # knows no seed
        assert all((one == drawn[0][0]).all() for pair in drawn for one in pair)
        return
    for name, both in (("seeds", [(drawn[seed][0], drawn[seed + 1][0]) for seed in range(pairs)]),
                       ("epochs", [tuple(drawn[seed]) for seed in range(pairs)])):
        same = sum(int((one == other).sum()) for one, other in both)
        assert abs(same - pairs) < CHANCE * np.sqrt(pairs) + 1, f"{same} units at one place in {pairs} pairs of {name}"
        correlations = [np.corrcoef(np.argsort(one), np.argsort(other))[0, 1] for one, other in both]
        assert abs(np.mean(correlations)) < CHANCE / np.sqrt(units * pairs), name
        assert abs(np.mean(np.square(correlations)) * units - 1) < CHANCE * np.sqrt(2 / pairs), name


@pytest.mark.parametrize("units", [4096, 6000])
def test_half_of_all_orders_are_odd(sampler, units):
    orders = Orders(sampler("--store", f"range:{units}", "--seed", 1))
    odd = sum(parity(orders.epoch(seed, design="srs")["ids"]) for seed in range(SEEDS))
    assert abs(odd - SEEDS / 2) < CHANCE * np.sqrt(SEEDS) / 2, odd


def parity(order):
    """1: an odd permutation, by its cycles."""
    seen, cycles = bytearray(len(order)), 0
    for start in range(len(order)):
        cycles += not seen[start]
        at = start
        while not seen[at]:
            seen[at] = 1
            at = order[at]
    return (len(order) - cycles) % 2
