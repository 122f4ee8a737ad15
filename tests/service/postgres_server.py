# SPDX-License-Identifier: MIT
"""A PostgreSQL server that tests start themselves, and the fixtures around it."""

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import PATIENCE_S, free_port, run


class Server:
    """A PostgreSQL server on a free port of 127.0.0.1 (with a password) and a socket in its folder (without)."""

    def __init__(self, programs, folder):
        self.programs = programs
        self.folder = folder
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        (folder / "password").write_text("right one\n")
        self.call("initdb", "-D", folder / "data", "-U", "tombola", "--auth-local=trust", "--auth-host=scram-sha-256",
                  f"--pwfile={folder}/password", "--no-sync", "--encoding=UTF8", "--locale=C")
        for last in (False, False, False, True):  # the port may be taken between the two
            self.port = free_port()
            if self.start(check=last):
                break

    def call(self, program, *arguments, check=True):
        user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        done = subprocess.run([f"{self.programs}/{program}", *map(str, arguments)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=PATIENCE_S, cwd="/", check=False, **user)
        assert done.returncode == 0 or not check, done.stderr.decode() + self.log_tail()
        return done.returncode == 0

    def log_tail(self):
        log = self.folder / "log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    def start(self, check=True):
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -c unix_socket_directories={self.folder} -c fsync=off"
        return self.call("pg_ctl", "-D", self.folder / "data", "-w", "-o", options, "-l", self.folder / "log", "start",
                         check=check)

    def stop(self):
        self.call("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop", check=False)

    def sql(self, *statements, stdin=None):
        done = subprocess.run(["psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-p", str(self.port),
                               "-U", "tombola", "postgres", *[part for one in statements for part in ("-c", one)]],
                              input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def uri(self, table, more="", password="right%20one"):
        return f"postgresql://tombola:{password}@127.0.0.1:{self.port}/postgres?table={table}{more}"


@pytest.fixture(scope="module")
def server():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    programs = found[-1] if found else os.path.dirname(shutil.which("initdb") or "")
    assert programs and shutil.which("psql"), "PostgreSQL is not installed (deploy/install test)"
    folder = Path(tempfile.mkdtemp(prefix="tombola-postgres-"))  # pytest's own folders are for one user only
    try:
        one = Server(programs, folder)
        yield one
        one.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def built_with_libpq(build):
    if "no PostgreSQL store" in run("loader", "info", "postgresql://127.0.0.1:1/x", status=None).stderr:
        pytest.skip("built without libpq")
