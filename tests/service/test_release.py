# SPDX-License-Identifier: MIT
"""deploy/release on a small project of the test: what it refuses, and what it leaves. And the version's one place."""

import hashlib
import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import PATIENCE_S, ROOT, environment, run, wait_for
from marked import marked, new_mark
from test_loader_store import POWERLESS

pytestmark = pytest.mark.plain

CONFIGURE = """AC_INIT([tombola], [1.2.3])
AC_CONFIG_AUX_DIR([build-aux])
AM_INIT_AUTOMAKE([foreign tar-pax no-dist-gzip dist-xz])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"""
CHANGELOG = """# Changelog
Words of its own.

## 1.2.3 - 2026-01-31
Frames are smaller.

### Fixed
* nothing # that matters

## 1.2.2 - 2026-01-01
Older.
"""


class Project:
    """A project of one line, committed, with the tree's deploy/release."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "deploy").mkdir(parents=True)
        for name in ("release", "step.sh"):
            shutil.copy(ROOT / "deploy" / name, folder / "deploy")
        self.write(".gitignore", "/build/\n")
        self.write("configure.ac", CONFIGURE)
        self.write("Makefile.am", "EXTRA_DIST = CHANGELOG.md\n")
        self.write("CHANGELOG.md", CHANGELOG)
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def git(self, *words):
        identity = {f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(["git", *words], cwd=self.folder, env=environment(identity), capture_output=True, text=True,
                              check=True, timeout=PATIENCE_S).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Change it")

    def release(self, *words, status=0):
        names = {"GIT_COMMITTER_NAME": "tester", "GIT_COMMITTER_EMAIL": "tester@localhost"}
        done = subprocess.run([*POWERLESS, self.folder / "deploy" / "release", *words], env=environment(names), capture_output=True,
                              text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == status, done.stdout + done.stderr
        return done


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


def test_a_release_is_a_tag_and_a_tarball_with_its_checksum(project):
    project.release()
    assert project.git("cat-file", "-t", "v1.2.3") == "tag\n"
    text = project.git("tag", "-l", "--format=%(contents)", "v1.2.3")
    assert text.strip() == "Frames are smaller.\n\n### Fixed\n* nothing # that matters"
    tarball = project.folder / "build" / "release" / "tombola-1.2.3.tar.xz"
    digest, name = tarball.with_suffix(".xz.sha256").read_text().split()
    assert (digest, name) == (hashlib.sha256(tarball.read_bytes()).hexdigest(), tarball.name)
    assert project.git("status", "--porcelain") == ""
    assert "v1.2.3 exists" in project.release(status=1).stderr


@pytest.mark.parametrize("name, old, new, says", [
    ("CHANGELOG.md", "2026-01-31", "unreleased", "no date"),
    ("CHANGELOG.md", "## 1.2.3", "## 1.2.4", "make them agree"),
    ("configure.ac", "1.2.3", "1.2", "MAJOR.MINOR.PATCH"),
])
def test_what_does_not_agree_is_not_released(project, name, old, new, says):
    text = (project.folder / name).read_text()
    assert old in text
    project.write(name, text.replace(old, new, 1))
    project.commit()
    assert says in project.release(status=1).stderr
    assert project.git("tag") == ""


def test_uncommitted_changes_are_not_released(project):
    project.write("new.c", "int x;\n")
    assert "git status" in project.release("--check", status=1).stderr


def test_a_failing_distcheck_leaves_no_tag(project):
    project.write("Makefile.am", "EXTRA_DIST = CHANGELOG.md missing\n")
    project.commit()
    assert "make distcheck failed" in project.release(status=1).stderr
    assert project.git("tag") == ""


def test_what_a_failing_distcheck_leaves_is_in_nobodys_way(project):
    """Folders that nobody may write in."""
    project.write("Makefile.am", "EXTRA_DIST = CHANGELOG.md\ncheck-local:\n\tfalse\n")
    project.commit()
    assert "make distcheck failed" in project.release(status=1).stderr
    project.write("Makefile.am", "EXTRA_DIST = CHANGELOG.md\n")
    project.commit()
    project.release()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_what_it_runs_ends_with_it(project, number):
    """Ctrl-C reaches the whole process group of the terminal, a kill only the script."""
    begun, mark = project.folder.parent / "begun", new_mark()
    project.write("Makefile.am", f"EXTRA_DIST = CHANGELOG.md\ndist-hook:\n\ttouch {begun}\n\tsleep 100000\n")
    project.commit()
    one = subprocess.Popen(["env", "--default-signal=HUP,INT", project.folder / "deploy" / "release"], env=environment(mark),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(begun.exists, "it makes no tarball")
        (os.killpg if number == signal.SIGINT else os.kill)(one.pid, number)
        assert one.wait(PATIENCE_S) == 128 + number and not marked(mark)
        assert project.git("tag") == ""
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
        one.wait()


def test_a_check_releases_nothing(project):
    project.release("--check")
    assert project.git("tag") == ""
    for words in (["--fast"], [""], ["--check", "--fast"]):
        assert "--help" in project.release(*words, status=2).stderr
    assert project.git("tag") == ""


def test_the_version_is_configures():
    version = re.search(r"^AC_INIT\(\[tombola\], \[(.+)\]\)$", (ROOT / "configure.ac").read_text(), re.M)[1]
    assert re.search(r"^## (\S+) - ", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version
    for name in ("sampler", "loader", "trainer"):
        assert run(name, "--version").stdout.split("\n")[0] == f"tombola-{name} {version}"
