# SPDX-License-Identifier: MIT
"""Which tests may run a line, where nothing is measured (--quick): the unit tests and fuzz corpora that are linked with
its file, first those that say that they cover it or what is named alike, then those that its room's README names, and
the service tests that are named there.
"""

import json
import os
import re
from pathlib import PurePath
from threading import Lock

from suite import all_tests, is_service, programs_of, run_program

LIMIT_S = 300  # of one program, as it is
UNKNOWN_S = 3  # of a program that did not run yet
SERVICE_S = 20  # of a file of service tests, taken for all of them
COVERS = re.compile(r"Covers ([\w/]+)")


class Linked:
    """In place of Coverage."""

    commit = "no line (--quick)"

    def __init__(self, build, wanted, noted):
        self.build, self.lock, self.wanted, self.noted = build, Lock(), tuple(wanted), noted
        # Of programs without a mutation, once they are wanted; those that failed then.
        self.seconds, self.failed = json.loads(noted.read_text()) if noted.exists() else {}, set()

    def forget(self):
        self.seconds = {}

    def measure(self, progress, workers):
        tests = all_tests(self.build.tree, any(name.startswith("fault/") for name in self.wanted))
        self.covers = {test.name: COVERS.findall((self.build.tree / test.path).read_text()[:1000]) for test in tests if not test.is_service}
        self.services = [test.name for test in tests if test.is_service]

    def broken(self):
        return sorted(self.failed)

    def seconds_of(self, name):
        if is_service(name):
            return SERVICE_S
        with self.lock:
            if name not in self.seconds:
                status, seconds = run_program(name, self.build.tree, self.build.folder, os.devnull, LIMIT_S)
                self.seconds[name] = round(seconds, 2)
                if status not in (0, 77):
                    self.failed.add(name)
                self.noted.write_text(json.dumps(self.seconds, indent=1))
            return self.seconds[name]

    def named_by(self, room):
        """Tests of every sort; "test_http_" stands for all service tests that begin so."""
        text = (self.build.tree / room / "README.md").read_text()
        braces = r"\b(test_\w*)\{([\w,]+)\}(\w*)"
        text = re.sub(braces, lambda found: " ".join(found[1] + one + found[3] for one in found[2].split(",")), text)
        named = set(re.findall(r"\b(?:test|fuzz)_\w+", text))
        begins = tuple(f"service/{name}" for name in named if name.endswith("_"))
        return [name for name in [*self.covers, *self.services] if PurePath(name).stem in named or begins and name.startswith(begins)]

    def tests_of(self, source, text, first, last):
        """`source` alone decides; what is near in name comes first, then what is fast. What --tests names comes alone."""
        own, room = source.removesuffix(".c"), os.path.dirname(source)
        named = self.named_by(room)
        near = {name: max((len(os.path.commonprefix([own, one])) for one in covers), default=0) for name, covers in self.covers.items()}
        linked = [name for name in near if name not in self.failed and self.build.programs_with(source, programs_of(name, self.build))]
        linked.sort(key=lambda name: (-near[name], name not in named, self.seconds.get(name, UNKNOWN_S)))
        of_room = [name for name in linked if near[name] > len(room) or name in named]
        if self.wanted:
            return [name for name in [*linked, *self.services] if name.startswith(self.wanted)]
        return of_room + [name for name in named if is_service(name)] + [name for name in linked if name not in of_room]
