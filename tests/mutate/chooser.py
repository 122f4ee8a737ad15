# SPDX-License-Identifier: MIT
"""Which mutations are tried: the rooms in turn, within a room a file by its size, then one of the kinds it has. Where
lines are given, a file counts by how many of them it has."""

import random
from collections import defaultdict
from fnmatch import fnmatch
from threading import Lock

from mutations import Source


class Chooser:
    """One sequence a room; the same seed draws the same mutations of the same text."""

    def __init__(self, build, rooms, patterns, kinds, seed, lines=None):
        """`lines`: file -> those that may be mutated; None: all."""
        self.build, self.kinds, self.lines, self.lock = build, kinds, lines, Lock()
        self.files = defaultdict(list)  # room -> sources
        self.by_kind = {}  # source -> kind -> mutations that were not drawn yet
        self.sources, self.by_name = {}, {}  # what was parsed; its mutations
        for name in sorted(build.compiles):
            room = name.rpartition("/")[0]
            if room in rooms and (not patterns or any(fnmatch(name, one) or name.startswith(one) for one in patterns)):
                if self.weight(name) > 0:
                    self.files[room].append(name)
        self.rooms = [room for room in rooms if self.files[room]]
        self.random = {room: random.Random(f"{seed} {room}") for room in self.rooms}

    def weight(self, name):
        return (self.build.tree / name).stat().st_size if self.lines is None else len(self.lines.get(name, ()))

    def source(self, name):
        if name not in self.sources:
            self.sources[name] = Source(name, self.build.tree / name, self.build.parse_arguments(name))
            by_kind = defaultdict(list)
            for one in self.sources[name].mutations():
                self.by_name[one.name] = one
                if one.kind in self.kinds and (self.lines is None or one.line in self.lines[name]):
                    by_kind[one.kind].append(one)
            self.by_kind[name] = by_kind
        return self.sources[name]

    def draw(self, room):
        """(mutation, the bytes of its file); None: the room has no more of them."""
        with self.lock:
            chance = self.random[room]
            while self.files[room]:
                files = self.files[room]
                name = chance.choices(files, [self.weight(one) for one in files])[0]
                source, kinds = self.source(name), self.by_kind[name]
                if not kinds:
                    files.remove(name)
                    continue
                kind = chance.choice(sorted(kinds))
                mutation = kinds[kind].pop(chance.randrange(len(kinds[kind])))
                if not kinds[kind]:
                    del kinds[kind]
                return mutation, source.bytes
            return None

    def find(self, name, file):
        """A mutation of an earlier run: (it, bytes), or None where the text is not there any more."""
        if file not in self.build.compiles:
            return None
        with self.lock:
            source = self.source(file)
            return (self.by_name[name], source.bytes) if name in self.by_name else None

    def unreadable(self):
        """Files that libclang did not understand wholly."""
        return {name: source.errors[0] for name, source in self.sources.items() if source.errors}
