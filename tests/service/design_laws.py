# SPDX-License-Identifier: MIT
"""What an epoch of each design must be, judged from its units alone."""

from collections import Counter, defaultdict


class Row:
    """A unit of the frame, in frame order."""

    def __init__(self, id, label, weight=1.0, group=None):
        self.id, self.label, self.weight, self.group = id, label, weight, group


def label_shares(design, fields, rows):
    """label -> share of draws that the design wants; None where it wants none."""
    units = Counter(row.label for row in rows)
    if design == "proportional":
        wanted = dict(units)
    elif design in ("equal", "pxk"):
        wanted = {label: 1 for label in units}
    elif design == "quota":
        wanted = {label: fields["shares"].get(str(label), 0) for label in units}
    elif design == "neyman":
        wanted = {label: count * fields["deviations"].get(str(label), 0) for label, count in units.items()}
    else:
        return None
    total = sum(wanted.values())
    return {label: weight / total for label, weight in wanted.items()}


def check_prefixes(labels, shares, bound):
    """Promise 3: at every prefix of t each label's count is within the bound that the stream tells of t times its share."""
    counts = Counter()
    for t, label in enumerate(labels, 1):
        counts[label] += 1
        for name, share in shares.items():
            assert abs(counts[name] - t * share) <= bound + 1e-9, f"label {name}: {counts[name]} of the first {t}, share {share}"


def check_walks(label_ids, sizes):
    """Each label is walked from end to end, and again: {label: its ids in order of draws}."""
    for label, ids in label_ids.items():
        step = sizes[label]
        for begin in range(0, len(ids), step):
            walk = ids[begin : begin + step]
            assert len(set(walk)) == len(walk), f"a unit of label {label} came twice within one walk"


def check_epoch(design, fields, replacement, rows, ids, M, bound=None):
    """One epoch's ids, in order, the number of its positions, and the stream's balance_error if it has one."""
    by_id = {row.id: row for row in rows}
    N = len(rows)
    assert all(id in by_id for id in ids)
    if replacement:
        if design in ("srs", "proportional", "weighted"):
            assert len(ids) == M == N
        if design == "proportional":
            check_prefixes([by_id[id].label for id in ids], label_shares(design, fields, rows), bound)
        return
    checks = {
        "srs": every_unit_once, "sequential": in_frame_order, "proportional": every_unit_once, "equal": repeating,
        "quota": repeating, "neyman": repeating, "pxk": p_by_k, "weighted": a_sample, "systematic": at_intervals,
        "cluster": whole_groups, "bernoulli": a_subset}
    checks[design](design, fields, rows, ids, M, by_id, bound)


def every_unit_once(design, fields, rows, ids, M, by_id, bound):
    assert M == len(rows) and sorted(ids) == sorted(by_id)
    if design == "proportional":
        check_prefixes([by_id[id].label for id in ids], label_shares(design, fields, rows), bound)


def in_frame_order(design, fields, rows, ids, M, by_id, bound):
    assert M == len(rows) and ids == [row.id for row in rows]


def repeating(design, fields, rows, ids, M, by_id, bound):
    sizes = Counter(row.label for row in rows)
    shares = label_shares(design, fields, rows)
    assert len(ids) == M
    if design == "equal":
        assert M == len(sizes) * max(sizes.values())
    labels = [by_id[id].label for id in ids]
    check_prefixes(labels, shares, bound)
    counts = Counter(labels)
    for label, share in shares.items():
        if share > 0:
            assert counts[label] >= sizes[label], f"label {label} was not walked through"
        else:
            assert counts[label] == 0
    assert M <= max(sizes[label] / share for label, share in shares.items() if share > 0) * 1.01 + 2 * len(sizes) + 2


def p_by_k(design, fields, rows, ids, M, by_id, bound):
    p, k = fields["p"], fields["k"]
    sizes = Counter(row.label for row in rows)
    assert len(ids) == M and M % (p * k) == 0
    least = len(sizes) * max(sizes.values())
    assert least <= M < least + max(p * k, len(sizes) * p * k), "M as equal, rounded up to whole batches"
    turns = Counter()
    for begin in range(0, M, p * k):
        batch = ids[begin : begin + p * k]
        assert len(set(batch)) == p * k, "a unit twice in a batch"
        labels = Counter(by_id[id].label for id in batch)
        assert len(labels) == p and set(labels.values()) == {k}
        turns.update(labels.keys())
        taken = [turns[label] for label in sizes]
        assert max(taken) - min(taken) <= 2, "labels take turns evenly"


def a_sample(design, fields, rows, ids, M, by_id, bound):
    assert len(ids) == M == fields["size"] and len(set(ids)) == M
    total = sum(row.weight for row in rows)
    for row in rows:
        if row.weight * M >= total * (1 + 1e-9):
            assert row.id in ids, f"{row.id} is to be taken for certain"
        if row.weight == 0:
            assert row.id not in ids


def at_intervals(design, fields, rows, ids, M, by_id, bound):
    n, N = fields["size"], len(rows)
    place = {row.id: number for number, row in enumerate(rows)}
    taken = [place[id] for id in ids]
    assert len(ids) == M == n and taken == sorted(set(taken))
    for one, two in zip(taken, taken[1:]):
        assert N // n <= two - one <= -(-N // n)


def whole_groups(design, fields, rows, ids, M, by_id, bound):
    members = defaultdict(set)
    for row in rows:
        members[row.group].add(row.id)
    count = fields.get("groups", len(members))
    largest = sorted((len(group) for group in members.values()), reverse=True)[:count]
    assert M == sum(largest)
    runs = []
    for id in ids:
        group = by_id[id].group
        if not runs or runs[-1][0] != group:
            runs.append((group, []))
        runs[-1][1].append(id)
    assert len(runs) == count and len({group for group, _ in runs}) == count, "groups are torn or not as many as asked for"
    for group, found in runs:
        assert len(found) == len(set(found)) and set(found) == members[group], f"group {group} is not whole"


def a_subset(design, fields, rows, ids, M, by_id, bound):
    assert M == len(rows) and len(set(ids)) == len(ids)
