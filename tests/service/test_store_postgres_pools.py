# SPDX-License-Identifier: MIT
"""The PostgreSQL store, and an import, behind pgbouncer, where many clients share a server's sessions: a statement that one client
prepared is another's next."""

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from conftest import PATIENCE_S, free_port, program, run
from postgres_server import built_with_libpq, server  # noqa: F401, fixtures

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
ROWS = 1000
EPOCHS = 30
PULLS = 3  # of each table, side by side


def version():
    said = subprocess.run([PGBOUNCER, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", said).groups()))


KEEPS_STATEMENTS = PGBOUNCER and version() >= (1, 21)


@pytest.fixture(params=["session", "transaction", "transaction, prepared"])
def pool(request, server, tmp_path):
    """The port of a pgbouncer that shares two sessions of the server in that mode."""
    if not PGBOUNCER:
        pytest.skip("pgbouncer is not installed")
    mode, *prepared = request.param.split(", ")
    if prepared and not KEEPS_STATEMENTS:
        pytest.skip("this pgbouncer keeps no prepared statements")
    port, folder = free_port(), server.folder / f"pool-{time.monotonic_ns()}"
    folder.mkdir()
    size = 2 if mode == "transaction" else 4 * PULLS
    (folder / "ini").write_text(
        f"[databases]\n* = host={server.folder} port={server.port} user=tombola\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = {size}\nmax_client_conn = 100\n"
        + (f"max_prepared_statements = {20 if prepared else 0}\n" if KEEPS_STATEMENTS else ""))
    user = {}
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        user = {"user": "postgres", "group": "postgres"}
    with open(folder / "log", "wb") as log, subprocess.Popen([PGBOUNCER, folder / "ini"], stdout=log, stderr=log, cwd="/", **user) as process:
        deadline = time.monotonic() + PATIENCE_S
        while "process up" not in (folder / "log").read_text():
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.01)
        yield port
        process.terminate()


@pytest.fixture(scope="module")
def tables(server):
    """Two tables with the same ids, labels and columns, whose rows are each other's negatives."""
    for name, sign in (("plus", 1), ("minus", -1)):
        server.sql(f"CREATE TABLE {name} AS SELECT g AS id, g % 3 AS label, {sign} * (g + 1) AS x, {sign} * (g + 0.5::real) AS y"
                   f" FROM generate_series(0, {ROWS - 1}) g", f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    return {"plus": 1, "minus": -1}


def test_each_row_is_of_its_own_table(pool, tables, sampler, tmp_path):
    one = sampler("--store", f"range:{ROWS}?labels=3", "--seed", "4", "--epochs", EPOCHS)
    uri = f"postgresql://tombola@127.0.0.1:{pool}/postgres?table="
    with contextlib.ExitStack() as stack:
        pulls, count = [], 0
        for table in [table for table in tables for _ in range(PULLS)]:
            out, errors = (stack.enter_context(open(tmp_path / f"{table}{len(pulls)}.{kind}", "w+")) for kind in ("csv", "log"))
            pulls.append((tables[table], out, errors, stack.enter_context(subprocess.Popen(
                [program("loader"), "pull", "--sampler", one.url, "--store", uri + table, "--size", "10"],
                stdout=out, stderr=errors))))
        for sign, out, errors, process in pulls:
            status = process.wait(timeout=PATIENCE_S)
            errors.seek(0)
            out.seek(0)
            assert status == 0, errors.read()
            rows = [tuple(map(float, line.split(","))) for line in out.read().splitlines()[1:]]
            assert rows == [(row, row % 3, sign * (row + 1), sign * (row + 0.5)) for row, *_ in rows]
            count += len(rows)
    assert count == EPOCHS * ROWS


def test_a_table_goes_through_whole(pool, tables):
    """A scan and an import are a transaction each, which a pooler leaves in its session."""
    uri = f"postgresql://tombola@127.0.0.1:{pool}/postgres?table="
    said = run("loader", "import", uri + "plus", uri + "copied", "--force").stdout
    assert said.split()[-1] in run("loader", "info", "--verify", uri + "copied").stdout
