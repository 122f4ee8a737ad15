# SPDX-License-Identifier: MIT
"""What the objects of a build say of who needs whom. Includes alone do not tell: a table that is declared
`extern` in a low room may be defined in a high one."""

import subprocess
from collections import defaultdict
from functools import lru_cache

from rooms import may_use, room_of, rule

UNDEFINED = {"U", "v", "w"}


def check_built(tree):
    """One line if objects are missing: what they need would not be seen."""
    missing = tree.without_object()
    if missing:
        more = f" nor of {len(missing) - 1} others" if missing[1:] else ""
        yield f"{tree.build} has no object of {missing[0]}{more}, or only older ones: `tests/run layering` builds first"


def symbols_of(objects):
    """Two dicts: symbol -> names of the objects that define it, and that lack it."""
    defined, lacked = defaultdict(set), defaultdict(set)
    names = {str(path): name for name, path in objects.items()}
    command = ["nm", "--extern-only", "--format=posix", "--print-file-name", *names]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    for line in lines if names else []:
        path, _, symbol = line.partition(": ")
        symbol, kind, *_ = symbol.split()
        (lacked if kind in UNDEFINED else defined)[symbol].add(names[path])
    return defined, lacked


@lru_cache
def calls_of(tree):
    """(user, used) -> the symbols of `used` that `user` needs. Programs have main() and some commands each:
    an object needs that of its own program."""
    defined, lacked = symbols_of(tree.objects())
    calls = defaultdict(set)
    for symbol, users in lacked.items():
        for user in users:
            own = {used for used in defined[symbol] if used.split("/")[0] == user.split("/")[0]}
            for used in own or defined[symbol]:
                calls[user, used].add(symbol)
    return calls


def check_calls(tree):
    for (user, used), symbols in sorted(calls_of(tree).items()):
        if not may_use(user, used):
            yield f"{user} needs {', '.join(sorted(symbols))} of {used}: {rule(room_of(user))}"


def reached(start, used_by):
    """All that is used by `start`, directly or not; itself only if it is in a ring."""
    found, left = set(), [start]
    while left:
        new = used_by[left.pop()] - found
        found |= new
        left += new
    return found


def check_rings(tree):
    calls = calls_of(tree)
    used_by = defaultdict(set)
    for user, used in calls:
        used_by[user].add(used)
    reach = {user: reached(user, used_by) for user in list(used_by)}
    rings = {frozenset(used for used in reach[user] if user in reach.get(used, ())) for user in reach}
    for ring in sorted(map(sorted, filter(None, rings))):
        edges = [f"\n  {a} -> {b}: {min(calls[a, b])}" for a in ring for b in ring if (a, b) in calls]
        yield f"{len(ring)} objects need each other: {', '.join(ring)}{''.join(edges)}"
