# SPDX-License-Identifier: MIT
"""tombola-loader import into a table of a PostgreSQL server: the same rows as in every other store, all of them or none."""

import json
import random
import signal
import subprocess
import time

import pytest

from conftest import PATIENCE_S, SANITIZED, SEED, Program, environment, peak_kib, program, run, run_fails, wait_for
from postgres_server import built_with_libpq, server  # noqa: F401, fixtures


def digest(uri):
    lines = run("loader", "info", "--verify", uri).stdout.splitlines()
    return next(line.split()[1].strip(",") for line in lines if line.startswith("digest"))


def info(uri):
    return json.loads(run("loader", "info", "--json", uri).stdout)


def tables(server):
    """Every one of them, also what an import may have left."""
    return server.sql("COPY (SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1) TO STDOUT").split()


@pytest.fixture
def source(tmp_path):
    """source(columns, row, rows) -> the path of a CSV file with so many rows that row(dice) makes."""
    def make(header, row, rows=3000):
        dice = random.Random(SEED)
        path = tmp_path / f"source{time.monotonic_ns()}.csv"
        ids = dice.sample(range(2**63 - 1), rows)
        path.write_text(header + "\n" + "".join(f"{i},{row(dice)}\n" for i in ids))
        return path
    return make


@pytest.mark.parametrize("header, row, more", [
    ("id,label,a,b", lambda dice: f"{dice.randrange(-5, 5)},{dice.randrange(256)},{dice.randrange(256)}", ""),
    ("id,label,x", lambda dice: f"{dice.choice(['tall', 'Ünal', 'a,b'.replace(',', ';'), '01'])},{dice.gauss(0, 1e9)}", ""),
    ("id,label,w,g,x,y z", lambda dice: f"{dice.random() * 9:.3f},{dice.random()},g{dice.randrange(9)},{dice.random()},7", "?weight=w&group=g"),
    ("id,label", lambda dice: f"{dice.randrange(2**63)}", ""),
    ("id,x", lambda dice: f"{dice.random()}", ""),
    ("id,label,a,b", lambda dice: f"x,{dice.randrange(-2**31, 2**31)},{2**24 + 1}", "?element=i32"),
    ("id,label," + ",".join(f"p{i}" for i in range(3000)), lambda dice: f"1,{','.join(str(dice.random())[:6] for _ in range(3000))}", ""),
], ids=["bytes", "texts", "all", "no features", "no labels", "integers", "more than PostgreSQL has columns"])
def test_the_same_rows(server, source, sampler, tmp_path, header, row, more):
    """Read back, verified by their digest, fetched, and as a frame."""
    server.sql("DROP TABLE IF EXISTS samples")
    path = source(header, row, 400)
    uri = f"csv:{path}{more}"
    run("loader", "import", uri, f"sqlite:{tmp_path}/rows.db")
    run("loader", "import", f"sqlite:{tmp_path}/rows.db", f"rows:{tmp_path}/rows.rows")
    said = run("loader", "import", f"rows:{tmp_path}/rows.rows", server.uri("samples"))
    assert "right" not in said.stdout + said.stderr
    assert digest(uri) == digest(server.uri("samples")) == said.stdout.split()[-1]
    csv, table = info(uri), info(server.uri("samples"))
    same = ["rows", "features", "element", "columns", "label_kind", "labels"]
    assert [csv.get(key) for key in same] == [table.get(key) for key in same]
    built = [run("sampler", "build", "--store", one, "--out", tmp_path / name).stdout.split()[-1]
             for name, one in (("a", f"sqlite:{tmp_path}/rows.db"), ("b", server.uri("samples")))]
    assert built[0] == built[1]
    pulled = []
    for one in (uri, server.uri("samples")):
        url = sampler("--store", uri, "--seed", "1").url
        pulled.append(run("loader", "pull", "--sampler", url, "--store", one, "--size", 64, "--batches", 5).stdout)
    assert len(pulled[0].splitlines()) == 321 and pulled[0] == pulled[1]


def test_what_is_there_stays(server, source):
    path = source("id,label,x", lambda dice: "1,2")
    server.sql("DROP TABLE IF EXISTS samples", "CREATE TABLE samples(diary text)", "INSERT INTO samples VALUES ('dear')")
    run_fails("loader", "import", path, server.uri("samples"), says=['has a table public."samples"', "--force"])
    assert server.sql("COPY samples TO STDOUT") == "dear\n"
    run("loader", "import", path, server.uri("samples"), "--force")
    assert info(server.uri("samples"))["rows"] == 3000
    server.sql('CREATE SCHEMA "My Data"')
    run("loader", "import", path, server.uri('My%20Data.the%20"rows"'))
    assert info(server.uri('My%20Data.the%20"rows"'))["rows"] == 3000
    for comment, says in (("{\"tombola\":9}", "later version"), ("{\"tombola\":1,", "expected"), ("{\"tombola\":1,\"element\":\"f64\",\"features\":[]}", "not one of u8, f32 and i32")):
        server.sql(f"COMMENT ON TABLE samples IS '{comment}'")
        run_fails("loader", "info", server.uri("samples"), says=["table public.samples", "comment that import wrote", says])
    server.sql("COMMENT ON TABLE samples IS 'mine'")
    assert info(server.uri("samples", "&features=features"))["element"] == "u8"
    run_fails("loader", "import", path, server.uri("nowhere.rows"), says='schema "nowhere" does not exist')


def test_a_name_that_is_too_long_is_not_cut_off(server, source):
    """The rest of it may be another table's name, which --force would replace."""
    path, name = source("id,x", lambda dice: "7", 3), "n" * 63
    run("loader", "import", f"csv:{path}", server.uri(name))
    before = digest(server.uri(name))
    other = source("id,x", lambda dice: "8", 3)
    for words in ((), ("--force",)):
        run_fails("loader", "import", *words, f"csv:{other}", server.uri(name + "n"), says="has 64 bytes; PostgreSQL takes at most 63")
    assert digest(server.uri(name)) == before


def test_a_table_is_not_imported_over_itself(server, source):
    """Nor with --force, nor where another schema's name is left out or the server's is spelled differently."""
    server.sql("DROP TABLE IF EXISTS samples, copy, more", "CREATE TABLE samples AS SELECT g AS id, g % 2 AS label, 0.5 AS x, 'dear' AS note FROM generate_series(1, 9) g")
    own = server.uri("samples", "&features=x")
    for name in ("samples", "public.samples"):
        run_fails("loader", "import", own, server.uri(name), "--force", says='table public.samples is what is imported from')
        run_fails("loader", "import", own, server.uri(name).replace("127.0.0.1", "localhost"), "--force", says='table public.samples is what is imported from')
    server.sql("CREATE TABLE more AS SELECT id + 9 AS id, label, x, note FROM samples")
    both = own + "\n" + server.uri("more", "&features=x")
    for name in ("samples", "more"):
        run_fails("loader", "import", both, server.uri(name), "--force", says=f"table public.{name} is what is imported from")
    run("loader", "import", own, server.uri("copy"))
    run("loader", "import", both, server.uri("copy"), "--force")
    assert info(server.uri("copy"))["rows"] == 18
    run("loader", "import", own, server.uri("copy"), "--force")
    assert server.sql("COPY (SELECT DISTINCT note FROM samples) TO STDOUT") == "dear\n" and info(server.uri("copy"))["rows"] == 9


@pytest.mark.parametrize("more", [[], ["--force"]])
def test_a_view_is_not_replaced(server, source, more):
    """Which the server would refuse at the end."""
    server.sql("DROP TABLE IF EXISTS behind CASCADE", "CREATE TABLE behind (id int)", "CREATE VIEW seen AS SELECT id FROM behind")
    run_fails("loader", "import", source("id,label,x", lambda dice: "1,2", 10), server.uri("seen"), *more, says="public.seen is a view")
    server.sql("DROP TABLE behind CASCADE")


@pytest.mark.parametrize("header, row", [("id,label,x", "1,2"), ("id,label", "1")], ids=["features", "no features"])
def test_verify_tells_that_rows_were_changed(server, source, header, row):
    server.sql("DROP TABLE IF EXISTS samples")
    run("loader", "import", source(header, lambda dice: row, 10), server.uri("samples"))
    old = digest(server.uri("samples"))
    server.sql("UPDATE samples SET label = 2 WHERE id = (SELECT min(id) FROM samples)")
    assert info(server.uri("samples"))["digest"] is None
    run_fails("loader", "info", "--verify", server.uri("samples"), says=["was written to since it was imported", f"import noted {old}"])
    assert digest(server.uri("samples", "&label=")) != old


def test_nothing_is_left_of_what_fails(server, source, tmp_path):
    server.sql("DROP TABLE IF EXISTS samples", "CREATE TABLE before AS SELECT 1 AS id", "DROP TABLE before")
    before = tables(server)
    bad = tmp_path / "bad.csv"
    bad.write_text("id,label,x\n" + "".join(f"{i},1,{i}\n" for i in range(200000)) + "3,1,2\n")
    run_fails("loader", "import", bad, server.uri("samples"), says="bad.csv")
    server.sql("CREATE TABLE twice AS SELECT g % 1000 AS id, g % 2 AS label FROM generate_series(0, 1000) g")
    run_fails("loader", "import", server.uri("twice"), server.uri("samples"), says="twice")
    server.sql("DROP TABLE twice")
    assert tables(server) == before
    path = source("id,label,x", lambda dice: "1,2")
    run_fails("loader", "import", path, server.uri("samples", password="wrong"), status=1, says="password authentication failed")
    run_fails("loader", "import", path, server.uri("samples", "&lable=x"), says="lable")


@pytest.mark.parametrize("end", ["a signal", "kill -9", "the server goes"])
def test_an_import_that_ends_early_leaves_nothing(server, end, tmp_path):
    server.sql("DROP TABLE IF EXISTS samples", "DROP TABLE IF EXISTS source",
               "CREATE TABLE source AS SELECT g AS id, g % 10 AS label, g % 256 AS x FROM generate_series(0, 1000000) g",
               "ALTER TABLE source ADD PRIMARY KEY (id)")
    before = tables(server)
    status = {"a signal": 128 + signal.SIGTERM, "kill -9": -signal.SIGKILL, "the server goes": 1}[end]

    def copies():
        return "COPY" in server.sql("COPY (SELECT query FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY public.tombola_import%')"
                                    " TO STDOUT")

    def ends_early():
        importing = Program("loader", "import", server.uri("source"), server.uri("samples"), folder=tmp_path)
        wait_for(lambda: copies() or importing.process.poll() is not None, "it copies nothing")
        if end == "a signal":
            importing.signal(signal.SIGTERM)
        elif end == "kill -9":
            importing.kill()
        else:
            server.stop()
            server.start()
        got = importing.wait()
        importing.finish()
        assert got in (0, status), importing.stderr
        if got == 0:  # who is late tries again
            server.sql("DROP TABLE samples")
        return got

    wait_for(ends_early, "each import was through too soon")
    wait_for(lambda: tables(server) == before, "something is left")  # the server notices when its session is gone


def test_rows_that_are_refused_end_the_import_at_once(server):
    """Not after hours, when all have been sent: here the rest of the source never comes."""
    server.sql("DROP TABLE IF EXISTS samples, source CASCADE",
               "CREATE TABLE source AS SELECT g AS id, decode(repeat('ab', 1000), 'hex') AS x FROM generate_series(0, 20000) g",
               "ALTER TABLE source ADD PRIMARY KEY (id)",
               "CREATE VIEW stuck AS SELECT id, x, CASE WHEN id = 20000 AND EXISTS (SELECT FROM pg_stat_activity WHERE"
               " query LIKE 'COPY public.tombola_import%') THEN pg_sleep(600)::text ELSE 'a' END AS label FROM source ORDER BY id",
               "CREATE FUNCTION add_check() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE"
               " (SELECT format('ALTER TABLE %s ADD CONSTRAINT few CHECK (id < 100)', object_identity) FROM pg_event_trigger_ddl_commands()); END $$",
               "CREATE EVENT TRIGGER few ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION add_check()")
    failed = run("loader", "import", server.uri("stuck"), server.uri("samples"), status=None)
    server.sql("DROP EVENT TRIGGER few", "DROP FUNCTION add_check")
    assert failed.returncode == 2 and 'violates check constraint "few"' in failed.stderr
    server.sql("DROP TABLE source CASCADE")


def test_another_machine_may_have_the_same_process_number(server, source):
    """Containers do: a table that is being made there is no obstacle."""
    server.sql("DROP TABLE IF EXISTS samples")
    before = tables(server)
    words = [program("loader"), "import", str(source("id,label,x", lambda dice: "1,2")), server.uri("samples")]
    importing = subprocess.Popen(["sh", "-c", 'echo $$; read go; exec "$@"', "sh", *words], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
    number = int(importing.stdout.readline())
    server.sql(f"CREATE TABLE tombola_import_{number} (id int)")
    said = importing.communicate("go\n", timeout=PATIENCE_S)[0]
    server.sql(f"DROP TABLE tombola_import_{number}")
    assert importing.returncode == 0, said
    assert tables(server) == sorted([*before, "samples"])


@pytest.mark.plain
def test_memory_does_not_grow_with_the_table(server, tmp_path):
    """20 times the rows take no more; COPY in both directions goes through as it comes."""
    if SANITIZED:
        pytest.skip("the sanitizer's memory is counted too")
    server.sql("DROP TABLE IF EXISTS source", "CREATE TABLE source AS SELECT g AS id, g % 10 AS label, decode(repeat('ab', 1000), 'hex') AS x"
               " FROM generate_series(0, 200000) g", "ALTER TABLE source ADD PRIMARY KEY (id)",
               "CREATE VIEW few AS SELECT * FROM source WHERE id < 10000")
    peaks = [peak_kib("loader", "import", server.uri(table), server.uri("copied"), "--force") for table in ("few", "source")]
    assert peaks[1] < peaks[0] + 20000, peaks  # the table is 200 MB
