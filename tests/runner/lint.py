# SPDX-License-Identifier: MIT
"""Checkers of the text: clang-format, cppcheck, shellcheck, clang-tidy. A file that passed once is not checked
again until something changes that its checker reads: the preprocessed text, the options, the version.
"""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from passed import Passed
from places import JOBS, LOGS, ROOT

FOLDERS = ("common", "loader", "sampler", "trainer", "tests")
OWN_INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
SHELL = re.compile(rb"#!.*\b(ba)?sh\b|.*^# shellcheck shell=", re.DOTALL | re.MULTILINE)
SHELL_FOLDERS = (".ci", "deploy", "tests", "m4/nvcc-compile", "sampler/api/page/embed")
CPPCHECK = ["cppcheck", "--quiet", "--std=c11", "--language=c", "--enable=warning,performance,portability",
            "--inline-suppr", "--error-exitcode=1", "--suppressions-list=tests/lint/cppcheck.supp", "-D_GNU_SOURCE",
            "--library=python", "-I."]
TIDY = ["-std=gnu11", "-D_GNU_SOURCE", "-DHAVE_CONFIG_H", "-I.", "-Ibuild", "-include", "tests/lint/error_facts.h"]
SHOWN = 60  # lines of a failed checker


class Checker:
    """One checker: the files it reads, what its verdict on a file depends on, and its command."""

    def __init__(self, name, files, depends, command, setting, at_once=1, tail=()):
        """`depends`: file -> bytes; `setting`: files that count for every file; `at_once`: files a command;
        `tail`: what stands behind them."""
        self.name, self.files, self.depends, self.at_once = name, files, depends, at_once
        self.command, self.tail = command, tail
        self.passed = Passed(name, version(command[0]), " ".join([*command, *tail]),
                             *((ROOT / file).read_text() for file in setting))

    def check(self, step, chosen):
        """Whether all pass of those files that `chosen` takes."""
        log = LOGS / f"lint-{self.name}.log"
        log.write_bytes(b"")
        files = [file for file in self.files() if chosen(file)]
        with ThreadPoolExecutor(JOBS) as team:
            texts = dict(zip(files, team.map(self.depends, files)))
            new = [file for file in files if not self.passed.has(texts[file])]
            groups = [new[first : first + self.at_once] for first in range(0, len(new), self.at_once)]
            good = all(list(team.map(lambda group: self.check_group(step, group, texts, log), groups)))
        self.passed.forget_old()
        step.say(f"{self.name}: {len(new)} of {len(files)} files" + ("" if good else ", failed"))
        if not good:
            lines = log.read_text(errors="replace").splitlines()
            step.show([line for line in lines if not re.match(r"\d+ warnings? generated", line)][:SHOWN])
        return good

    def check_group(self, step, group, texts, log):
        """One command; what passes is noted at once, so that a run that is stopped has done some work."""
        good = step.compute([*self.command, *group, *self.tail], log=log, cwd=ROOT) == 0
        for file in group if good else []:
            self.passed.add(texts[file])
        return good


def find(*endings, folders=FOLDERS):
    """Files of these folders, relative to the root."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found if path.name.endswith(endings) and path.is_file())


def text_of(file):
    return file.encode() + b"\0" + (ROOT / file).read_bytes()


def closure(file):
    """The file and every header of ours that it reads, directly or not."""
    found, left = [], [file]
    while left:
        name = left.pop()
        if name not in found and (ROOT / name).is_file():
            found.append(name)
            left += [included.decode() for included in OWN_INCLUDE.findall((ROOT / name).read_bytes())]
    return b"".join(map(text_of, sorted(found)))


def preprocessed(file, flags):
    """With comments and definitions: suppressions stand in those, and checks read these."""
    done = subprocess.run(["clang", "-E", "-CC", "-dD", *flags, file], cwd=ROOT, capture_output=True, check=False)
    return done.stdout + str(done.returncode).encode()


def is_shell(file):
    return SHELL.match((ROOT / file).read_bytes()[:4096]) is not None


def shell_files():
    found = [path for folder in SHELL_FOLDERS for path in [ROOT / folder, *(ROOT / folder).rglob("*")]]
    names = sorted(path.relative_to(ROOT).as_posix() for path in found if path.is_file())
    return [name for name in names if is_shell(name)]


def version(tool):
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout


def tidy_flags():
    others = subprocess.run(["pkg-config", "--cflags-only-I", "libpq", "python3"], capture_output=True, text=True, check=False)
    return [*TIDY, "-Iloader", *(flag.replace("-I", "-isystem", 1) for flag in others.stdout.split())]


def product_sources():
    return find(".c", folders=[folder for folder in FOLDERS if folder != "tests"])


def checkers():
    flags = tidy_flags()
    return [
        Checker("clang-format", lambda: find(".c", ".h", "cpu_loops.inc", ".cu"), text_of,
                ["clang-format", "--dry-run", "-Werror"], [".clang-format"], at_once=100),
        Checker("cppcheck", product_sources, closure, CPPCHECK, ["tests/lint/cppcheck.supp"], at_once=20),
        Checker("shellcheck", shell_files, text_of, ["shellcheck"], [".shellcheckrc"], at_once=100),
        # One file a process: several at once confuse its analysis of va_list. error.c defines what the facts
        # redefine.
        Checker("clang-tidy", lambda: [name for name in product_sources() if name != "common/error.c"],
                lambda file: preprocessed(file, flags), ["clang-tidy", "--quiet"], [".clang-tidy"],
                tail=["--", *flags]),
    ]


def check(step, chosen=lambda file: True):
    done = [checker.check(step, chosen) for checker in checkers()]
    step.count(sum(done), done.count(False), 0)
