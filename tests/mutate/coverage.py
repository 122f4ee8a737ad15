# SPDX-License-Identifier: MIT
"""Which tests run which line, measured once: every unit program, fuzz corpus and single service test apart, on a gcov
build of its own copy of the tree.

The copy stays as it was when it was measured, but for its tests: a test that is new or changed is measured
again. A line of the tree of today counts as the line it was there; a line that was not there is covered by all
tests that run any line of the file. --coverage measures again.
"""

import difflib
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build import Build, copy_tree
from suite import all_tests, is_service, run_program, run_service

LIMIT_S = 900  # of one program or file, in the gcov build
SUMMARY_BYTES = 32  # of a file of counts: when and how often it was written; the counts follow


class Coverage:
    def __init__(self, project, folder):
        self.project, self.folder, self.tree = project, folder, folder / "tree"
        self.build = Build(self.tree, folder / "build", project.flags("--coverage", "-O0"))
        self.noted = folder / "tests.json"
        self.tests = json.loads(self.noted.read_text()) if self.noted.exists() else {}
        self.seconds, self.counts = {}, {}  # name of a program or single service test -> how long, folders of its counts
        self.lines = {}  # file -> line -> names of tests

    @property
    def commit(self):
        return (self.folder / "commit").read_text()

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.tests = {}

    def measure(self, progress, workers):
        """What is not measured yet, was measured of another text, or failed."""
        is_new = not self.tree.exists()
        self.tree.mkdir(parents=True, exist_ok=True)
        copy_tree(self.project.root, self.tree, "" if is_new else "tests/")
        if is_new:
            (self.folder / "commit").write_text(self.project.commit())
        tests = all_tests(self.tree)
        wanted = [test for test in tests if not self.is_measured(test)]
        self.build.make(progress) if wanted or is_new else self.build.read_log((self.build.folder / "make.log").read_text())
        with ThreadPoolExecutor(workers) as pool:
            for number, (test, noted) in enumerate(zip(wanted, pool.map(self.measure_one, wanted)), 1):
                self.tests[test.name] = noted
                self.noted.write_text(json.dumps(self.tests, indent=1))
                progress(f"coverage {number}/{len(wanted)}: {test.name}, {noted['seconds']} s, exit {noted['status']}")
        for name in set(self.tests) - {test.name for test in tests}:
            del self.tests[name]
        for name, noted in self.tests.items():
            for single, one in noted["tests"].items():
                if not one["failed"]:
                    self.seconds[single] = one["seconds"]
                    self.counts[single] = [self.folder / "counts" / name / str(number) for number in one["counts"]]

    def is_measured(self, test):
        noted = self.tests.get(test.name, {})
        return noted.get("status") == 0 and noted["text"] == self.text_of(test)

    def text_of(self, test):
        return hashlib.sha256((self.tree / test.path).read_bytes()).hexdigest()

    def measure_one(self, test):
        counts = self.folder / "counts" / test.name
        shutil.rmtree(counts, ignore_errors=True)
        log = self.folder / "logs" / test.name
        log.parent.mkdir(parents=True, exist_ok=True)
        how = dict(GCOV_PREFIX=counts if test.is_service else counts / "0", GCOV_PREFIX_STRIP=len(self.build.folder.parts) - 1)
        where = (self.tree, self.build.folder, log, LIMIT_S)
        if test.is_service:
            status, seconds, tests = run_service([test.name], *where, **how)
        else:
            status, seconds = run_program(test.name, *where, **how)
            tests = {test.name: {"seconds": round(seconds, 3), "failed": status != 0, "counts": [0]}}
        if status == 5 or any(not one["failed"] for one in tests.values()):
            status = 0  # nothing but heavy tests; or the others of the file count
        return {"text": self.text_of(test), "status": status, "seconds": round(seconds, 2), "tests": tests}

    def broken(self):
        """What fails without a mutation, or was not built, and catches nothing."""
        for name, noted in sorted(self.tests.items()):
            yield from [name] if noted["status"] else [single for single, one in noted["tests"].items() if one["failed"]]

    def seconds_of(self, name):
        return self.seconds[name]

    def lines_of(self, source):
        """line -> names of the tests that run it, in the tree that was measured."""
        if source not in self.lines:
            self.lines[source] = self.read_counts(source) if source in self.build.compiles else {}
        return self.lines[source]

    def read_counts(self, source):
        built = Path(self.build.object_of(source)).with_suffix(".gcda")
        names_of = defaultdict(set)  # counts -> tests; many tests only start what they have in common
        for name, folders in self.counts.items():
            for path in [folder / built for folder in folders if (folder / built).exists()]:
                names_of[path.read_bytes()].add(name)
        merged = {}
        for counts, names in names_of.items():
            merged.setdefault(counts[SUMMARY_BYTES:], (counts, set()))[1].update(names)
        found = defaultdict(set)
        with tempfile.TemporaryDirectory() as folder:
            for number, (counts, _) in enumerate(merged.values()):
                (Path(folder) / f"{number}.gcda").write_bytes(counts)
                (Path(folder) / f"{number}.gcno").symlink_to((self.build.folder / built).with_suffix(".gcno"))
            said = subprocess.run(["gcov", "--json-format", "--stdout", *(f"{number}.gcda" for number in range(len(merged)))],
                                  cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        names_of = [names for _, names in merged.values()]
        for read in map(json.loads, said.splitlines()):
            names = names_of[int(Path(read["data_file"]).stem)]
            for one in read["files"]:
                for line in one["lines"] if one["file"].endswith("/" + source) else []:
                    found[line["line_number"]] |= names if line["count"] else set()
        return found

    def tests_of(self, source, text, first, last):
        """Names of the tests that run one of these lines of today's text, the fastest first; service tests together."""
        covered = self.lines_of(source)
        was = (self.tree / source).read_text().splitlines() if (self.tree / source).exists() else []
        then = {}
        for then_first, now_first, size in difflib.SequenceMatcher(None, was, text.splitlines(), False).get_matching_blocks():
            then.update({now_first + i + 1: then_first + i + 1 for i in range(size)})
        names = set()
        for line in range(first, last + 1):
            if line in then:
                # gcov counts a statement where it begins.
                names.update(covered.get(max((one for one in covered if one <= then[line]), default=0), ()))
            else:
                names.update(name for all in covered.values() for name in all)
        services = sum(self.seconds[name] for name in names if is_service(name))
        return sorted(names, key=lambda name: (services if is_service(name) else self.seconds[name], self.seconds[name]))
