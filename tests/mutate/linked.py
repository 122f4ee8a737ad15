# SPDX-License-Identifier: MIT
"""Which tests may run a line, where nothing is measured (--quick): the unit tests that are linked with its file, first
those that say that they cover it or what is named alike, and the service tests that its room's README names.
"""

import json
import os
import re
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
        tests = all_tests(self.build.tree)
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
        """Files of service tests; "test_http_" stands for all that begin so."""
        text = (self.build.tree / room / "README.md").read_text()
        braces = r"\b(test_\w*)\{([\w,]+)\}(\w*)"
        text = re.sub(braces, lambda found: " ".join(found[1] + one + found[3] for one in found[2].split(",")), text)
        named = re.findall(r"\btest_\w+", text)
        begins = tuple(f"service/{name}" if name.endswith("_") else f"service/{name}.py" for name in named)
        return [name for name in self.services if begins and name.startswith(begins)]

    def tests_of(self, source, text, first, last):
        """`source` alone decides; what is near in name comes first, then what is fast. What --tests names comes alone."""
        own, room = source.removesuffix(".c"), os.path.dirname(source)
        near = {name: max((len(os.path.commonprefix([own, one])) for one in covers), default=0) for name, covers in self.covers.items()}
        linked = [name for name in near if name not in self.failed and self.build.programs_with(source, programs_of(name, self.build))]
        linked.sort(key=lambda name: (-near[name], self.seconds.get(name, UNKNOWN_S)))
        of_room = [name for name in linked if near[name] > len(room)]
        if self.wanted:
            return [name for name in [*linked, *self.services] if name.startswith(self.wanted)]
        return of_room + self.named_by(room) + linked[len(of_room):]
