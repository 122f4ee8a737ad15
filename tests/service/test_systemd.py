# SPDX-License-Identifier: MIT
"""deploy/systemd: the unit, its user and folders, as systemd's own tools read them after `make install`."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

pytestmark = pytest.mark.plain


def tool(name):
    path = shutil.which(name)
    assert path, f"{name} is not there: deploy/install test"
    return path


def run(*words):
    return subprocess.run([tool(words[0]), *words[1:]], capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(name="unit")
def made_unit(tmp_path):
    """The installed unit, with a program that is there."""
    text = (BUILD / "systemd" / "tombola-sampler.service").read_text()
    program = re.search(r"^ExecStart=(/\S+/bin/tombola-sampler) serve$", text, re.MULTILINE)[1]
    unit = tmp_path / "tombola-sampler.service"
    unit.write_text(text.replace(program, str(BUILD / "sampler" / "tombola-sampler")).replace("Documentation=", "#"))
    return unit


def test_systemd_finds_nothing_wrong_with_the_unit(unit):
    done = run("systemd-analyze", "verify", "--recursive-errors=no", unit)
    assert (done.returncode, "tombola" in done.stderr) == (0, False), done.stderr


def test_the_unit_with_tokens_is_as_right(unit):
    tokens = (BUILD / "systemd" / "tokens.conf").read_text()
    tokens = re.sub(r"/\S+/bin/tombola-sampler", str(BUILD / "sampler" / "tombola-sampler"), tokens)
    unit.write_text(unit.read_text() + tokens)
    done = run("systemd-analyze", "verify", "--recursive-errors=no", unit)
    assert (done.returncode, "tombola" in done.stderr) == (0, False), done.stderr


def test_it_is_started_again_until_its_disk_works(unit):
    """A sampler whose state cannot be written ends at once; systemd gives up after five starts in ten seconds, unless told otherwise."""
    text = unit.read_text()
    assert "\nRestart=on-failure\n" in text and "StartLimitIntervalSec=0\n" in text.partition("\n[Service]\n")[0]
    assert re.search(r"^RestartSec=[1-9]", text, re.MULTILINE), "a restart every 100 ms fills the log"


def test_an_intruder_would_find_little_to_do(unit):
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)
    assert done.returncode == 0, done.stdout
    assert float(re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)[1]) < 2


def test_user_and_folders_are_made(tmp_path):
    (tmp_path / "etc").mkdir()
    for command, folder in (("systemd-sysusers", "sysusers.d"), ("systemd-tmpfiles", "tmpfiles.d")):
        create = ["--create"] if command == "systemd-tmpfiles" else []
        done = run(command, *create, f"--root={tmp_path}", ROOT / "deploy" / "systemd" / folder / "tombola.conf")
        assert "Unknown" not in done.stderr and "Invalid" not in done.stderr, done.stderr
    users = (tmp_path / "etc" / "passwd").read_text()
    assert re.search(r"^tombola:.*:/var/lib/tombola:/usr/sbin/nologin$", users, re.MULTILINE)
    if os.geteuid() == 0:  # only root gives folders away
        assert (tmp_path / "var" / "lib" / "tombola").stat().st_mode & 0o777 == 0o750
        assert (tmp_path / "etc" / "tombola").stat().st_mode & 0o777 == 0o700


def test_the_user_of_the_unit_is_the_one_that_is_made(unit):
    user = re.search(r"^User=(\w+)$", unit.read_text(), re.MULTILINE)[1]
    made = (ROOT / "deploy" / "systemd" / "sysusers.d" / "tombola.conf").read_text()
    assert re.search(rf"^u {user} ", made, re.MULTILINE)


def test_the_unit_needs_no_program_that_a_small_system_lacks(unit):
    programs = re.findall(r"^Exec\w+=(\S+)", unit.read_text(), re.MULTILINE)
    assert set(programs) == {str(BUILD / "sampler" / "tombola-sampler"), "/bin/sh"}
