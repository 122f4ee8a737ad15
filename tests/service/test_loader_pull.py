# SPDX-License-Identifier: MIT
"""tombola-loader pull: rows of a real sampler's batches on standard output."""

import ast
import collections
import csv
import io
import json
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import numpy
import pytest

from conftest import PATIENCE_S, SANITIZED, SEED, check_alive_to_the_end, environment, free_port, peak_kib, program, run, run_fails, wait_for
from test_http_access import token_file


def pull_bytes(*arguments, stdout=subprocess.PIPE, status=0, **more):
    """Runs pull; standard output as bytes."""
    done = subprocess.run([program("loader"), "pull", *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE,
                          env=environment(), timeout=PATIENCE_S, check=False, **more)
    stderr = done.stderr.decode(errors="replace")
    check_alive_to_the_end(done.returncode, stderr)
    assert done.returncode == status, stderr[-4000:]
    return done.stdout


def parse_csv(data):
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def parse_npy(data):
    """(fields, rows, records) of a structured npy file, without numpy."""
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (length,) = struct.unpack_from("<H", data, 8)
    assert (10 + length) % 64 == 0 and data[9 + length] == ord("\n")
    header = ast.literal_eval(data[10 : 10 + length].decode("ascii"))
    assert header["fortran_order"] is False
    (rows,) = header["shape"]
    return header["descr"], rows, data[10 + length :]


@pytest.fixture(scope="module")
def classic(demo):
    """The demo's training rows: [(label, [pixels])], as texts."""
    with open(demo / "mnist_train.csv", newline="", encoding="ascii") as file:
        return [(row[0], row[1:]) for row in csv.reader(file)]


@pytest.fixture
def stores(demo, demo_database, demo_rows):
    return {"csv": f"csv:{demo}/mnist_train.csv?label=0&header=no", "sqlite": demo_database, "rows": demo_rows}


# ---- formats --------------------------------------------------------------------------------------


@pytest.mark.threads
@pytest.mark.parametrize("kind", ["csv", "sqlite", "rows"])
def test_an_epoch_is_every_row_once(kind, stores, classic, sampler):
    url = sampler("--store", stores[kind], "--seed", 5, "--epochs", 1).url
    rows = parse_csv(pull_bytes("--sampler", url, "--store", stores[kind], "--size", 30))
    assert rows[0][:2] == ["id", "label"] and len(rows[0]) == 786
    assert sorted(int(row[0]) for row in rows[1:]) == list(range(2000))
    for row in rows[1:]:
        label, pixels = classic[int(row[0])]
        assert row[1] == label and row[2:] == pixels


def requests_for_batches(server):
    found = re.findall(r'^tombola_sampler_requests_total{path="/batch",.*status="200"} (\d+)$', server.get("/metrics").text, re.M)
    return sum(map(int, found))


@pytest.mark.parametrize("max_size", [99, 1000000])
def test_leases_come_several_at_once_where_the_sampler_lets_them(max_size, stores, sampler):
    """Up to eight of 50 rows in a request, or one where no answer may hold two."""
    server = sampler("--store", stores["csv"], "--seed", 1, "--epochs", 1, "--max-size", max_size)
    rows = parse_csv(pull_bytes("--sampler", server.url, "--store", stores["csv"], "--size", 50, "--lease"))
    assert sorted(int(row[0]) for row in rows[1:]) == list(range(2000))
    facts = server.get("/streams/default").json
    assert (facts["state"], facts["acked"], facts["redelivered"]) == ("ended", 40, 0)
    asked = requests_for_batches(server)
    assert asked == 40 if max_size < 100 else asked < 40


@pytest.mark.parametrize("form", ["csv", "sqlite", "rows"])
def test_labels_keep_their_zeros(form, sampler, tmp_path):
    """Postcodes are no numbers; the sampler says them so too, and the comparison of labels agrees."""
    labels = ["01234", "12345", "01", "1", "-0"]
    path = tmp_path / "codes.csv"
    path.write_text("label,x\n" + "".join(f"{label},{i}\n" for i, label in enumerate(labels * 4)))
    uri = f"csv:{path}"
    if form != "csv":
        uri = f"{form}:{tmp_path}/codes.made"
        run("loader", "import", f"csv:{path}", uri)
    server = sampler("--store", uri, "--seed", 1, "--epochs", 1)
    rows = parse_csv(pull_bytes("--sampler", server.url, "--store", uri))[1:]
    assert {row[0]: row[1] for row in rows} == {str(i): label for i, label in enumerate(labels * 4)}
    batch = server.batch("size=20&index=0")
    assert {str(i): label for i, label in zip(batch["ids"], batch["labels"])} == {row[0]: row[1] for row in rows}


def test_rows_come_in_the_order_of_the_batches(stores, sampler):
    one = sampler("--store", stores["csv"], "--seed", 9, "--epochs", 1)
    ids = [i for k in range(20) for i in one.batch(f"size=100&index={k}")["ids"]]
    rows = parse_csv(pull_bytes("--sampler", one.url, "--store", stores["sqlite"]))
    assert [int(row[0]) for row in rows[1:]] == ids


def test_draws_exactly_what_was_asked_for(stores, sampler):
    one = sampler("--store", stores["csv"], "--seed", 9)
    rows = parse_csv(pull_bytes("--sampler", one.url, "--store", stores["csv"], "--size", 7, "--batches", 3))
    assert len(rows) == 1 + 21
    assert one.get("/streams/default").json["position"] == 21
    assert one.batch("size=1")["first"] == 21


def test_npy(stores, classic, sampler, tmp_path):
    url = sampler("--store", stores["csv"], "--seed", 3, "--epochs", 1).url
    path = tmp_path / "rows.npy"
    with open(path, "wb") as file:
        pull_bytes("--sampler", url, "--store", stores["sqlite"], "--batches", 5, "--format", "npy", stdout=file)
    fields, rows, records = parse_npy(path.read_bytes())
    assert fields == [("id", "<i8"), ("label", "<i8"), ("x", "|u1", (784,))]
    assert rows == 500 and len(records) == 500 * 800
    for at in range(0, len(records), 800):
        number, label = struct.unpack_from("<qq", records, at)
        assert str(label) == classic[number][0]
        assert list(records[at + 16 : at + 800]) == [int(pixel) for pixel in classic[number][1]]
    array = numpy.load(path)
    assert array.shape == (500,) and array["x"].shape == (500, 784)
    assert array["label"][7] == int(classic[array["id"][7]][0])


def test_npy_through_a_pipe_is_the_same_file(stores, sampler, tmp_path):
    arguments = ("--store", stores["csv"], "--seed", 3, "--epochs", 1)
    path = tmp_path / "rows.npy"
    with open(path, "wb") as file:
        pull_bytes("--sampler", sampler(*arguments).url, "--store", stores["csv"], "--format", "npy", stdout=file)
    piped = pull_bytes("--sampler", sampler(*arguments).url, "--store", stores["csv"], "--format", "npy")
    assert piped == path.read_bytes()
    assert parse_npy(piped)[1] == 2000


def test_raw(stores, classic, sampler):
    url = sampler("--store", stores["csv"], "--seed", 3).url
    data = pull_bytes("--sampler", url, "--store", stores["csv"], "--batches", 2, "--format", "raw")
    assert len(data) == 200 * 800
    for at in range(0, len(data), 800):
        number, label = struct.unpack_from("<qd", data, at)
        assert label == float(classic[number][0])
        assert data[at + 16 : at + 800] == bytes(map(int, classic[number][1]))


def test_texts_and_reals(sampler, tmp_path):
    source = tmp_path / "rows.csv"
    labels = ["plain", "with, comma", 'with "quotes"', "größer €", "🎲"]
    values = ["0.1", "-1e-7", "16777216", "3.4028235e+38", "-0.0"]
    with open(source, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["value", "label", "second, value"])
        for i in range(50):
            out.writerow([values[i % 5], labels[i * 7 % 5], values[(i + 1) % 5]])
    url = sampler("--store", f"csv:{source}", "--seed", 1, "--epochs", 3, "--design", "sequential").url
    rows = parse_csv(pull_bytes("--sampler", url, "--store", f"csv:{source}", "--batches", 1, "--size", 50))
    assert rows[0] == ["id", "label", "value", "second, value"]
    as_float = [struct.pack("<f", float(value)) for value in values]
    for i, row in enumerate(rows[1:]):
        assert row[:2] == [str(i), labels[i * 7 % 5]]
        assert struct.pack("<f", float(row[2])) == as_float[i % 5]
        assert struct.pack("<f", float(row[3])) == as_float[(i + 1) % 5]
    data = pull_bytes("--sampler", url, "--store", f"csv:{source}", "--batches", 1, "--size", 50, "--format", "npy")
    fields, count, records = parse_npy(data)
    assert count == 50 and fields[1:] == [("label", "<U13"), ("x", "<f4", (2,))]
    text = records[8 : 8 + 52].decode("utf-32-le").rstrip("\0")
    assert text == labels[0]


@pytest.mark.parametrize("form", ["csv", "sqlite", "rows"])
@pytest.mark.parametrize("groups", ["texts", "integers"])
def test_weights_and_groups(sampler, tmp_path, form, groups):
    """In each format, from a file whose URI names them and from what import made of it."""
    names = ["b", "größer, €", 'a "q"'] if groups == "texts" else ["-7", "9223372036854775807", "0"]
    source = tmp_path / "rows.csv"
    with open(source, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["id", "w", "label", "g", "x"])
        out.writerows([30 - i, i / 8, i % 3, names[i % 3], i] for i in range(30))
    store = f"csv:{source}?weight=w&group=g"
    if form != "csv":
        run("loader", "import", store, f"{form}:{tmp_path}/made")
        store = f"{form}:{tmp_path}/made"
    url = sampler("--store", store, "--seed", 1, "--epochs", 9).url

    def pull(*arguments):
        return pull_bytes("--sampler", url, "--store", store, "--batches", 1, "--size", 30, *arguments)

    right = {30 - i: [str(i % 3), f"{i / 8:g}", names[i % 3], str(i)] for i in range(30)}
    rows = parse_csv(pull("--weights", "--groups"))
    assert rows[0] == ["id", "label", "weight", "group", "x"]
    assert {int(row[0]): row[1:] for row in rows[1:]} == right
    assert parse_csv(pull("--groups"))[0] == ["id", "label", "group", "x"]
    path = tmp_path / "rows.npy"
    path.write_bytes(pull("--weights", "--groups", "--format", "npy"))
    array = numpy.load(path)
    assert array.dtype.names == ("id", "label", "weight", "group", "x")
    assert {int(row["id"]): [str(row["label"]), f"{row['weight']:g}", str(row["group"]), str(row["x"][0])] for row in array} == right
    codes = sorted(names, key=lambda name: name.encode())
    data = pull("--weights", "--groups", "--format", "raw")
    for number, label, weight, group, x in struct.iter_unpack("<qddqB", data):
        name = codes[group] if groups == "texts" else str(group)
        assert [f"{label:g}", f"{weight:g}", name, str(x)] == right[number]
    assert len(data) == 30 * 33


def test_weights_that_are_not_there(stores, sampler):
    url = sampler("--store", stores["csv"]).url
    run_fails("loader", "pull", "--sampler", url, "--store", stores["csv"], "--weights", status=2,
              says="weight=NAME in the URI says which it is")


@pytest.mark.threads
def test_an_ended_stream_is_a_header(stores, sampler):
    url = sampler("--store", stores["csv"], "--epochs", 1).url
    arguments = ("--sampler", url, "--store", stores["csv"])
    pull_bytes(*arguments, "--size", 2000)
    assert len(parse_csv(pull_bytes(*arguments))) == 1
    assert parse_npy(pull_bytes(*arguments, "--format", "npy"))[1] == 0
    assert pull_bytes(*arguments, "--format", "raw") == b""


# ---- several ----------------------------------------------------------------------------------------


@pytest.mark.threads
def test_three_pulls_share_an_epoch(stores, sampler):
    url = sampler("--store", stores["csv"], "--seed", 2, "--epochs", 1).url
    seen, threads = [], []

    def pull_some():
        rows = parse_csv(pull_bytes("--sampler", url, "--store", stores["sqlite"], "--size", 9))
        seen.append([int(row[0]) for row in rows[1:]])

    for _ in range(3):
        threads.append(threading.Thread(target=pull_some))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3
    assert sorted(i for ids in seen for i in ids) == list(range(2000))


@pytest.mark.threads
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_what_a_pull_leaves_behind_others_get(killed, stores, sampler, tmp_path):
    """Whoever is stopped has written what it acked, and the rest comes to the others at once. Who is killed may have written more."""
    dice = random.Random(SEED)
    lease_s = 1 if killed else 600  # who is stopped gives back; a lease that ends while somebody writes makes rows come twice
    served = sampler("--store", stores["csv"], "--seed", 2, "--epochs", 2, "--lease", lease_s)
    written, number = [], 0
    while served.get("/streams/default").json["state"] != "ended":
        pulls = []
        for _ in range(3):
            number += 1
            out = open(tmp_path / f"rows{number}", "wb+")  # noqa: SIM115, closed below
            pulls.append((subprocess.Popen([program("loader"), "pull", "--sampler", served.url, "--store", stores["sqlite"], "--size", "7",
                                            "--lease"], stdout=out, stderr=subprocess.PIPE, env=environment()), out))
        for pull, _ in pulls[1:]:
            time.sleep(dice.random() * (0.5 if SANITIZED else 0.05))
            pull.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
        if number > 30:
            pulls[0][0].wait(PATIENCE_S)
        elif served.get("/streams/default").json["state"] != "ended":
            pulls[0][0].send_signal(signal.SIGKILL if killed else signal.SIGTERM)
        for pull, out in pulls:
            said = pull.communicate(timeout=PATIENCE_S)[1].decode()
            ends = [signal.SIGKILL] if killed else [signal.SIGTERM]  # by which it ends before it has a handler
            assert pull.returncode in (0, 128 + signal.SIGTERM, -ends[0]), said
            check_alive_to_the_end(pull.returncode, said, ends)
            out.seek(0)
            written += [int(line.split(b",")[0]) for line in out.read().splitlines(keepends=True)[1:] if line.endswith(b"\n")]
            out.close()
    counts = collections.Counter(written)
    assert set(counts) == set(range(2000)) and min(counts.values()) == 2
    assert killed or max(counts.values()) == 2


def test_a_pull_by_number_moves_nothing(stores, sampler):
    served = sampler("--store", stores["csv"], "--seed", 2, "--epochs", 1)
    words = ("--sampler", served.url, "--store", stores["sqlite"], "--size", 30)
    rows = [int(row[0]) for row in parse_csv(pull_bytes(*words, "--index", 3, "--batches", 2, "--cache-bytes", 10**9, "--fetchers", 2))[1:]]
    assert rows == [*served.get("/batch?size=30&index=3").json["ids"], *served.get("/batch?size=30&index=4").json["ids"]]
    assert served.get("/streams/default").json["position"] == 0
    assert len(parse_csv(pull_bytes(*words, "--index", 60))) == 1 + 2000 - 60 * 30


# ---- trouble with the output ------------------------------------------------------------------------


@pytest.mark.threads
def test_closed_standard_output(stores, sampler):
    url = sampler("--store", stores["csv"]).url
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", program("loader"), "pull", "--sampler", url, "--store", stores["sqlite"]],
        stderr=subprocess.PIPE, text=True, env=environment(), timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and "cannot write to standard output" in done.stderr


@pytest.mark.threads
def test_a_reader_that_goes(stores, sampler, start):
    url = sampler("--store", stores["csv"]).url
    pull = start("loader", "pull", "--sampler", url, "--store", stores["csv"])
    assert pull.read_line().startswith("id,label,")
    pull.process.stdout.close()
    assert pull.process.wait(PATIENCE_S) == 0  # as any other program in front of head
    assert "pull:" not in pull.stderr and "warn" not in pull.stderr


def test_a_full_disk(stores, sampler):
    url = sampler("--store", stores["csv"]).url
    with open("/dev/full", "wb") as full:
        pull_bytes("--sampler", url, "--store", stores["csv"], "--batches", 1, stdout=full, status=1)


@pytest.mark.threads
def test_sigterm_while_nobody_reads(stores, sampler, start):
    url = sampler("--store", stores["csv"]).url
    pull = start("loader", "pull", "--sampler", url, "--store", stores["csv"])
    pull.read_line()  # and nothing more: the pipe is full soon
    pull.terminate()
    assert pull.process.wait(PATIENCE_S) == 128 + signal.SIGTERM


# ---- trouble with the sampler -----------------------------------------------------------------------


def test_no_sampler(stores):
    url = f"http://127.0.0.1:{free_port()}"
    run_fails("loader", "pull", "--sampler", url, "--store", stores["csv"], "--patience", 0.2, status=1, says=url)


def test_no_sampler_is_waited_for_once(stores):
    """Not once a connection; and the log says that it waits for the sampler (after ten seconds)."""
    done = run_fails("loader", "pull", "--sampler", f"http://127.0.0.1:{free_port()}", "--store", stores["sqlite"],
                     "--patience", "16", status=1, says=["no answer in 1", ": waiting for the sampler"])
    assert done.stderr.count("trying again for 16 s") == 1
    assert "fetched from the store" not in done.stderr


@pytest.mark.threads
def test_a_sampler_that_comes_late(stores, sampler, start):
    port = free_port()
    pull = start("loader", "pull", "--sampler", f"http://127.0.0.1:{port}", "--store", stores["csv"], "--batches", 2)
    pull.wait_for_log("trying again")
    sampler("--store", stores["csv"], listen=f"127.0.0.1:{port}")
    output, _ = pull.process.communicate(timeout=PATIENCE_S)
    assert pull.process.returncode == 0
    assert len(parse_csv(output)) == 201


@pytest.mark.threads
def test_a_sampler_that_is_killed(stores, sampler, start):
    one = sampler("--store", stores["csv"])
    pull = start("loader", "pull", "--sampler", one.url, "--store", stores["csv"], "--patience", 6)
    wait_for(lambda: one.get("/streams/default").json["position"] >= 1000, "it draws nothing")
    one.kill()
    output, _ = pull.process.communicate(timeout=PATIENCE_S)
    assert pull.process.returncode == 1
    assert one.url in pull.stderr
    lines = output.decode().splitlines()
    assert len(lines) > 100 and len(lines) % 100 == 1  # the header, and whole batches
    assert all(len(line.split(",")) == 786 for line in lines)


@pytest.mark.threads
@pytest.mark.parametrize("lease", [[], ["--lease"]], ids=["drawn", "leased"])
def test_a_sampler_that_comes_back_with_another_order(lease, stores, sampler, start):
    """Its epoch is another one: rows of the two would be mixed without a word."""
    words = ["--store", stores["csv"], "--epochs", 1, "--seed"]
    one = sampler(*words, 1, listen=f"127.0.0.1:{free_port()}")
    pull = start("loader", "pull", "--sampler", one.url, "--store", stores["csv"], "--size", 10, *lease)
    wait_for(lambda: one.get("/streams/default").json["position"] >= 100, "it draws nothing")
    one.kill()
    sampler(*words, 2, listen=f"127.0.0.1:{one.port}")
    pull.process.communicate(timeout=PATIENCE_S)
    assert pull.process.returncode != 0
    assert "its seed was 1 and is 2 now" in pull.stderr


def test_what_is_no_sampler(stores):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nIt works!")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        run_fails("loader", "pull", "--sampler", url, "--store", stores["csv"], "--batches", 1, "--patience", PATIENCE_S,
                  status=1, says=["is not a Tombola sampler", "It works!"])
        thread.join()


def test_an_unknown_stream(stores, sampler):
    url = sampler("--store", stores["csv"]).url
    run_fails("loader", "pull", "--sampler", url, "--store", stores["csv"], "--stream", "other", status=2,
              says=["404", "other"])


def test_a_size_that_the_sampler_refuses(stores, sampler):
    url = sampler("--store", stores["csv"], "--max-size", 50).url
    run_fails("loader", "pull", "--sampler", url, "--store", stores["csv"], status=2, says=["400", "size", "50"])


# ---- bad rows ---------------------------------------------------------------------------------------


@pytest.fixture
def fewer_rows(demo, tmp_path):
    """The demo's first 1990 rows: ten that the sampler knows are missing."""
    with open(demo / "mnist_train.csv", encoding="ascii") as source:
        lines = source.readlines()[:1990]
    (tmp_path / "fewer.csv").write_text("".join(lines), encoding="ascii")
    return f"csv:{tmp_path}/fewer.csv?label=0&header=no"


def test_a_missing_row_fails(fewer_rows, stores, sampler):
    url = sampler("--store", stores["csv"], "--epochs", 1).url
    done = run_fails("loader", "pull", "--sampler", url, "--store", fewer_rows, status=2, says="fewer.csv")
    assert re.search(r"\b199\d\b", done.stderr)  # the id


@pytest.mark.threads
@pytest.mark.parametrize("how,rows", [("skip", 1990), ("replace", 2000)])
def test_missing_rows_are_counted(how, rows, fewer_rows, stores, sampler):
    url = sampler("--store", stores["csv"], "--epochs", 1).url
    done = run("loader", "pull", "--sampler", url, "--store", fewer_rows, "--bad_rows", how)
    lines = parse_csv(done.stdout.encode())[1:]
    assert len(lines) == rows
    assert "10 bad rows" in done.stderr
    for line in lines:
        if int(line[0]) >= 1990:
            assert set(line[1:]) == {"0"}


# ---- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments,says", [
    ([], "--sampler"),
    (["--sampler", "http://127.0.0.1:1"], "--store"),
    (["--sampler", "nonsense", "--store", "STORE"], "nonsense"),
    (["--sampler", "http://127.0.0.1:1", "--store", "/nowhere.csv"], "/nowhere.csv"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--size", "0"], "1"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--size", "1000001"], "1000000"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--size", "abc"], "abc"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--batches", "-1"], "-1"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--format", "xml"], "csv"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--bad_rows", "ignore"], "skip"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--stream", "a/b"], "a/b"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--lease", "--index", "3"], "--lease and --index"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--lease", "--format", "npy"], "csv or raw"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--index", "-1"], "-1"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "extra"], "extra"),
    (["--sampler", "http://127.0.0.1:1", "--store", "STORE", "--unknown", "1"], "unknown"),
])
def test_wrong_options(arguments, says, stores):
    arguments = [stores["csv"] if word == "STORE" else word for word in arguments]
    done = run_fails("loader", "pull", *arguments, status=2, says=says)
    assert done.stdout == ""


def test_what_refuses_each_draw_is_told_once(stores, sampler, tmp_path):
    """Not again as a warning of leases, of which there are none."""
    tokens = token_file(tmp_path / "tokens.json", {"ops": (["read", "draw"], ["*"])})
    for stream, words, says in (("none", (), 'there is no stream "none"'), ("default", ("--token-file", tokens), "a token is needed")):
        served = sampler("--store", stores["csv"], *words)
        done = run_fails("loader", "pull", "--sampler", served.url, "--store", stores["csv"], "--lease", "--stream", stream, says=says)
        assert done.stderr.count(says) == 1 and "leases of worker" not in done.stderr, done.stderr


def test_help_tells_the_formats():
    text = run("loader", "pull", "--help").stdout
    for word in ("csv", "npy", "raw", "little-endian", "--bad-rows", "--patience"):
        assert word in text


@pytest.mark.plain
def test_memory_does_not_grow_with_the_rows(stores, sampler):
    if SANITIZED:
        pytest.skip("a sanitizer has its own idea of memory")
    url = sampler("--store", stores["sqlite"], "--epochs", 0).url
    peaks = [peak_kib("loader", "pull", "--sampler", url, "--store", stores["sqlite"], "--batches", batches, "--format", "raw")
             for batches in (20, 2000)]
    assert peaks[1] < peaks[0] + 8192, peaks


# ---- a stream that changes ------------------------------------------------------------------------

def wait_until_it_rests(progress):
    """A pull whose output nobody reads goes on until its buffers are full."""
    seen = [0]

    def rests():
        time.sleep(0.2)
        seen.append(progress())
        return 0 < seen[-1] == seen[-2]

    wait_for(rests, f"it went on: {seen}")


def batches_read(served, stream="default"):
    return sum(one["batches"] for one in served.get(f"/streams/{stream}/readers").json["readers"])


def test_a_stream_that_is_made_again_is_noticed(sampler, start):
    """Nothing but its answers tells: no connection is lost, and each batch has the place and size that it had."""
    served = sampler("--store", "range:1000000")
    words = {"name": "mine", "design": "srs"}
    assert served.request("POST", "/streams", json.dumps({**words, "seed": 7})).status == 201
    pull = start("loader", "pull", "--sampler", served.url, "--store", "range:1000000", "--stream", "mine",
                 "--index", 0, "--size", 1000, "--batches", 900, "--format", "raw")
    wait_until_it_rests(lambda: batches_read(served, "mine"))
    assert served.request("DELETE", "/streams/mine").status == 204
    assert served.request("POST", "/streams", json.dumps({**words, "seed": 8})).status == 201
    pull.process.stdout.read()
    assert pull.wait() == 2, pull.stderr
    assert "the sampler's stream is another one than it was: its seed was 7 and is 8 now" in pull.stderr


def wait_until_it_drew(served, stream="default"):
    wait_until_it_rests(lambda: served.get(f"/streams/{stream}").json["position"])


def start_pull(start, served, *more):
    return start("loader", "pull", "--sampler", served.url, "--store", "range:1000000", "--size", 1000, "--batches", 900,
                 "--format", "raw", *more)


DRAWS = pytest.mark.parametrize("lease", [[], ["--lease"]], ids=["drawn", "leased"])


@pytest.mark.threads
@DRAWS
def test_draws_from_a_stream_that_is_made_again(lease, sampler, start):
    """Draws, too, name their order: no connection is lost."""
    served = sampler("--store", "range:1000000")
    words = {"name": "mine", "design": "srs"}
    assert served.request("POST", "/streams", json.dumps({**words, "seed": 7})).status == 201
    pull = start_pull(start, served, "--stream", "mine", *lease)
    wait_until_it_drew(served, "mine")
    assert served.request("DELETE", "/streams/mine").status == 204
    assert served.request("POST", "/streams", json.dumps({**words, "seed": 8})).status == 201
    pull.process.stdout.read()
    assert pull.wait() == 2, pull.stderr
    assert "the sampler's stream is another one than it was: its seed was 7 and is 8 now" in pull.stderr


@pytest.mark.threads
@DRAWS
@pytest.mark.parametrize("state", [False, True], ids=["forgets", "keeps"])
def test_a_sampler_that_begins_anew_is_noticed(state, lease, sampler, start, tmp_path):
    """Without --state its order is the same one, from the start: one warning for all connections."""
    words = ["--store", "range:1000000", "--seed", 1, "--epochs", 1, *(["--state", tmp_path / "state"] if state else [])]
    one = sampler(*words, listen=f"127.0.0.1:{free_port()}")
    pull = start_pull(start, one, *lease)
    wait_until_it_drew(one)
    one.kill()
    sampler(*words, listen=f"127.0.0.1:{one.port}")
    pull.process.stdout.read()
    assert pull.wait() == 0, pull.stderr
    assert pull.stderr.count("went back: it draws from position") == (0 if state else 1), pull.stderr
    assert ("the sampler forgot it (without --state" in pull.stderr) == (bool(lease) and not state), pull.stderr
    assert "if it expired" not in pull.stderr


@pytest.mark.threads
@DRAWS
def test_a_stream_that_is_sought_back_is_noticed(lease, sampler, start):
    served = sampler("--store", "range:1000000", "--epochs", 1)
    pull = start_pull(start, served, *lease)
    wait_until_it_drew(served)
    assert served.request("POST", "/streams/default/seek", json.dumps({"position": 3000})).status == 200
    pull.process.stdout.read()
    assert pull.wait() == 0, pull.stderr
    assert pull.stderr.count("went back: it draws from position") == 1, pull.stderr


@pytest.mark.threads
def test_what_others_leave_behind_is_no_step_back(sampler, start):
    """Batches of a worker that went come late, to those who draw plainly too."""
    served = sampler("--store", "range:1000000", "--epochs", 1)
    for seq in range(3):
        assert served.get(f"/batch?size=1000&worker=gone&seq={seq}").status == 200
    pull = start_pull(start, served)
    wait_until_it_drew(served)
    assert served.request("POST", "/release", json.dumps({"stream": "default", "worker": "gone"})).status == 200
    pull.process.stdout.read()
    assert pull.wait() == 0, pull.stderr
    assert "warning" not in pull.stderr


def test_an_end_that_is_of_another_order(sampler, start):
    """The sampler that comes back has fewer rows: 204 is then no end of the stream that was read."""
    one = sampler("--store", "range:1000000", "--seed", 1, listen=f"127.0.0.1:{free_port()}")
    pull = start_pull(start, one, "--index", 0)
    wait_until_it_rests(lambda: batches_read(one))
    one.kill()
    sampler("--store", "range:1000", "--seed", 1, "--epochs", 1, listen=f"127.0.0.1:{one.port}")
    pull.process.stdout.read()
    assert pull.wait() == 2, pull.stderr
    assert "the sampler's stream is another one than it was: its frame digest was" in pull.stderr
