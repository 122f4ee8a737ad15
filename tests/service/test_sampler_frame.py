# SPDX-License-Identifier: MIT
"""`tombola-sampler build` and `info`: one list is one frame, whatever store it came from; files whole or not at all."""

import ctypes
import json
import os
import re
import struct
import subprocess
import time

import pytest

from conftest import PATIENCE_S, Program, run, run_fails


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def build(store, out):
    run("sampler", "build", "--store", store, "--out", out)
    return facts(out)


def facts(path, *more):
    return json.loads(run("sampler", "info", "--json", *more, path).stdout)


# ---- the same list, the same frame --------------------------------------------------------------


def test_digests_stay_what_they_were(tmp_path):
    """States, tokens and checkpoints hold them."""
    assert build("range:1000?labels=10", tmp_path / "frame")["digest"] == "af92ce96f36e033c087a3bb0befd5ebe"


@pytest.mark.threads
def test_all_kinds_of_store_have_one_digest(tmp_path):
    rows = "".join(f"{i},{i % 7},{i % 3}\n" for i in range(1000))
    csv = write(tmp_path / "list.csv", "id,label,p0\n" + rows)
    run("loader", "import", f"csv:{csv}?id=id", f"sqlite:{tmp_path}/list.db")
    run("loader", "import", f"csv:{csv}?id=id", f"rows:{tmp_path}/list.rows")
    frames = [build(f"csv:{csv}?id=id", tmp_path / "a"), build(f"sqlite:{tmp_path}/list.db", tmp_path / "b"),
              build("range:1000?labels=7", tmp_path / "c"), build(f"rows:{tmp_path}/list.rows", tmp_path / "d")]
    assert len({frame["digest"] for frame in frames}) == 1
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    assert (tmp_path / "c").read_bytes() == (tmp_path / "d").read_bytes()
    assert frames[0]["units"] == 1000
    assert frames[0]["labels"] == [{"label": h, "units": 143 if h < 6 else 142} for h in range(7)]


def test_store_and_frame_file_serve_the_same_batches(tmp_path, sampler, demo):
    store = f"csv:{demo}/mnist_train.csv?label=0&header=no"
    build(store, tmp_path / "train.frame")
    one = sampler("--store", store, "--seed", "3")
    other = sampler("--frame", tmp_path / "train.frame", "--seed", "3")
    for index in (0, 7, 41):
        assert one.get(f"/batch?size=64&index={index}").body == other.get(f"/batch?size=64&index={index}").body
    assert one.get("/labels").json == other.get("/labels").json


def test_texts_weights_and_groups_are_kept(tmp_path):
    csv = write(tmp_path / "list.csv", "id,label,w,g\n7,dog,0.5,north\n3,äpfel,2,south\n900000000000,cat,1,north\n")
    plain = build(f"csv:{csv}?id=id", tmp_path / "plain")
    full = build(f"csv:{csv}?id=id&weight=w&group=g", tmp_path / "full")
    assert [label["label"] for label in plain["labels"]] == ["cat", "dog", "äpfel"]
    assert (plain["weights"], plain["groups"]) == (False, 0)
    assert (full["weights"], full["groups"]) == (True, 2)
    assert full["digest"] != plain["digest"]
    assert full["ids"] == {"smallest": 3, "largest": 900000000000, "consecutive": False}
    text = run("sampler", "info", tmp_path / "full").stdout
    for part in ("units    3", "3 to 900000000000", full["digest"], "äpfel", "groups   2"):
        assert part in text


@pytest.mark.parametrize("ids", [[2**63 - 1], [2**63 - 3, 2**63 - 2, 2**63 - 1]])
def test_ids_that_follow_each_other_may_end_with_the_largest(tmp_path, sampler, ids):
    store = write(tmp_path / "list.csv", "id,label\n" + "".join(f"{one},0\n" for one in ids))
    assert build(f"csv:{store}", tmp_path / "frame")["ids"] == {"smallest": ids[0], "largest": ids[-1], "consecutive": True}
    for words in (("--store", f"csv:{store}"), ("--frame", tmp_path / "frame")):
        server = sampler(*words)
        assert sorted(server.batch("size=3")["ids"]) == ids
        assert server.get(f"/where?id={ids[-1]}").json["id"] == ids[-1]


def test_a_billion_units_cost_nothing(tmp_path):
    frame = build("range:1000000000?labels=10", tmp_path / "billion")
    assert frame["units"] == 10**9 and frame["bytes"] < 10000
    assert [label["units"] for label in frame["labels"]] == [10**8] * 10


def test_many_labels_are_all_shown(tmp_path):
    frame = build("range:250000?labels=200000", tmp_path / "many")
    assert len(frame["labels"]) == 200000
    assert run("sampler", "info", tmp_path / "many").stdout.count("\n") > 200000


# ---- damage -------------------------------------------------------------------------------------


@pytest.fixture
def frame(tmp_path):
    csv = write(tmp_path / "list.csv", "id,label\n" + "".join(f"{i * 31},{i % 5 * 3 % 4}\n" for i in range(300)))
    build(f"csv:{csv}?id=id", tmp_path / "good")
    return (tmp_path / "good").read_bytes()


@pytest.mark.parametrize("change, says", [
    (lambda b: b[: len(b) // 2], "cut off"),
    (lambda b: b[:40], "is not a frame file"),
    (lambda b: b"", "is empty"),
    (lambda b: b + b"\0" * 64, "cut off or damaged"),
    (lambda b: b"id,label\n" + b[9:], "is not a frame file"),
    (lambda b: b[:8] + b"\x09" + b[9:], "version 9"),
    (lambda b: b[:30] + b"\x01" + b[31:], "checksum of its header"),
    (lambda b: b[:1500] + bytes([b[1500] ^ 4]) + b[1501:], "checksum of its section"),
    (lambda b: b[:-1] + b"\x01", "checksum of its section"),
])
def test_damaged_files_are_refused_by_info_and_serve(tmp_path, frame, change, says):
    path = write(tmp_path / "bad", change(frame))
    run_fails("sampler", "info", path, says=[says, str(path)])
    run_fails("sampler", "serve", "--listen", "127.0.0.1:0", "--frame", path, says=[says, str(path)])


def test_verify_reads_it_all(tmp_path, frame):
    assert facts(write(tmp_path / "good", frame), "--verify")["verified"] is True


def test_missing_files_and_wrong_words(tmp_path):
    run_fails("sampler", "info", tmp_path / "none", says="none")
    run_fails("sampler", "info", tmp_path, says="is a folder")
    run_fails("sampler", "info", says="FILE")
    run_fails("sampler", "build", "--store", "range:5", says="--out")
    run_fails("sampler", "build", "--out", tmp_path / "x", says="--store")
    assert os.listdir(tmp_path) == []


# ---- all or nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("text, says", [
    ("id,label\n", "list.csv"),
    ("id,label\n1,a\n2,b\n1,c\n", "1"),
    ("id,label\n1,a\n-5,b\n", "-5"),
    ("id,label\n1,a\nx,b\n", "x"),
    ("id,label\n1,a\n2,\n", "label"),
    ("id,label\n1,a\n2\n", "list.csv"),
])
def test_a_bad_store_leaves_the_old_frame(tmp_path, text, says):
    csv = write(tmp_path / "list.csv", text)
    old = build("range:5", tmp_path / "out")
    run_fails("sampler", "build", "--store", f"csv:{csv}?id=id", "--out", tmp_path / "out", says=says)
    assert facts(tmp_path / "out", "--verify") == {**old, "verified": True}
    assert sorted(os.listdir(tmp_path)) == ["list.csv", "out"]


def test_only_ordinary_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/null"):
        run_fails("sampler", "build", "--store", "range:5", "--out", path, says="is not a regular file")
    run_fails("sampler", "build", "--store", "range:5", "--out", tmp_path / "no" / "folder", says="folder")
    run_fails("sampler", "build", "--store", "range:5", "--out", "-", cwd=tmp_path, says=['--out is "-"', "standard output"])
    assert os.listdir(tmp_path) == ["pipe"]


def test_what_is_no_frame_is_spared(tmp_path):
    csv = write(tmp_path / "list.csv", "id,label\n1,2\n")
    run_fails("sampler", "build", "--store", f"csv:{csv}", "--out", csv, says="is not a frame file")
    assert csv.read_text() == "id,label\n1,2\n"
    write(tmp_path / "empty", "")
    assert build(f"csv:{csv}", tmp_path / "empty")["units"] == 1
    assert build("range:5", tmp_path / "empty")["units"] == 5


@pytest.mark.heavy
def test_sigterm_leaves_nothing(tmp_path):
    csv = tmp_path / "list.csv"
    with open(csv, "w", encoding="ascii") as out:
        out.write("id,label\n")
        out.writelines(f"{i * 7919 % 4000037},{i % 10}\n" for i in range(4000000))
    for pause in (0.02, 0.3):
        building = Program("sampler", "build", "--store", f"csv:{csv}?id=id", "--out", tmp_path / "out", folder=tmp_path)
        time.sleep(pause)
        building.terminate()
        status = building.wait(PATIENCE_S)
        building.finish()
        assert status in (0, 143)
        assert (tmp_path / "out").exists() == (status == 0)
        assert not list(tmp_path.glob("out.tmp*"))
        (tmp_path / "out").unlink(missing_ok=True)


def checksum(data):
    xxhash = ctypes.CDLL("libxxhash.so.0")
    xxhash.XXH3_64bits.restype = ctypes.c_uint64
    return xxhash.XXH3_64bits(bytes(data), ctypes.c_size_t(len(data)))


def test_a_large_file_with_numbers_that_are_no_ids_answers_with_ids(sampler, tmp_path):
    """Above 64 MiB sections are not compared at the start, which the log says; one number with the sign of -1 overflowed a
    response before."""
    units, path = 9_000_000, tmp_path / "large.frame"
    head = bytearray(1088)
    struct.pack_into("<8sIIQQ", head, 0, b"TMBLFRM1", 1, 1, len(head) + 8 * units, units)
    struct.pack_into("<IIQQQQ", head, 64, 1, 8, len(head), units, 0, 0)  # ids, 8 bytes each, checksum 0
    struct.pack_into("<Q", head, 56, checksum(head))
    with open(path, "wb") as out:
        out.write(head)
        out.write(b"\xff" * 8 * 1000)
        out.truncate(len(head) + 8 * units)
    server = sampler("--frame", path, "--design", "sequential")
    server.wait_for_log("is not compared with its checksums")
    assert server.batch("size=1000")["ids"] == [2**63 - 1] * 1000
    assert server.get("/batch?size=1000&format=csv&index=0").text.count(str(2**63 - 1)) == 1000
    run_fails("sampler", "info", "--verify", path, says="section")


# ---- large builds -------------------------------------------------------------------------------


def shuffled(path, rows, labels=10):
    """A list whose ids are in no order: everything has to be sorted."""
    with open(path, "w", encoding="ascii") as out:
        out.write("id,label\n")
        out.writelines(f"{i * 7919 % rows * 3},{i * i % 1009 % labels}\n" for i in range(rows))
    return path


@pytest.mark.threads
def test_memory_changes_nothing_but_the_time(tmp_path):
    csv = shuffled(tmp_path / "list.csv", 300007)
    for number, memory in enumerate(("64M", "3G", "200000K", "100000000")):
        run("sampler", "build", "--store", f"csv:{csv}", "--memory", memory, "--out", tmp_path / f"out{number}")
        assert (tmp_path / f"out{number}").read_bytes() == (tmp_path / "out0").read_bytes()
    facts(tmp_path / "out0", "--verify")
    for memory in ("1M", "0", "-5G", "2X", "G", "1.5G", "99999999999T"):
        run_fails("sampler", "build", "--store", f"csv:{csv}", "--memory", memory, "--out", tmp_path / "x", says=["--memory", "64M"])


def test_kill_9_leaves_the_old_frame_and_the_next_build_clears_up(tmp_path):
    csv = shuffled(tmp_path / "list.csv", 2000003)
    build("range:5", tmp_path / "out")
    left = 0
    for pause in (0.05, 0.15, 0.3, 0.5):
        building = Program("sampler", "build", "--store", f"csv:{csv}", "--out", tmp_path / "out", folder=tmp_path)
        time.sleep(pause)
        building.kill()
        building.finish()
        left = max(left, len(list(tmp_path.glob("out.tmp*"))))
        assert len(list(tmp_path.glob("out.tmp*"))) <= 1
    run("sampler", "build", "--store", f"csv:{csv}", "--out", tmp_path / "out")
    assert not list(tmp_path.glob("out.tmp*"))
    assert facts(tmp_path / "out", "--verify")["units"] == 2000003


def test_two_builds_of_one_name_do_not_meet(tmp_path):
    csv = shuffled(tmp_path / "list.csv", 500009)
    builds = [Program("sampler", "build", "--store", f"csv:{csv}", "--out", tmp_path / "out", folder=tmp_path) for _ in range(4)]
    assert [one.wait() for one in builds] == [0] * 4
    for one in builds:
        one.finish()
    assert facts(tmp_path / "out", "--verify")["units"] == 500009
    assert not list(tmp_path.glob("out.tmp*"))


def test_a_full_disk_leaves_nothing(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("cannot mount a small disk here")
    try:
        csv = shuffled(tmp_path / "list.csv", 1000003)
        run_fails("sampler", "build", "--store", f"csv:{csv}", "--out", disk / "out", status=1, says=["No space left", "out"])
        run_fails("sampler", "build", "--store", f"csv:{csv}", "--memory", "64M", "--out", disk / "out", status=1, says="No space left")
        assert os.listdir(disk) == []
        run("sampler", "build", "--store", "range:1000?labels=3", "--out", disk / "out")
        assert os.listdir(disk) == ["out"]
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.threads
def test_progress_is_a_line_a_second(tmp_path):
    csv = shuffled(tmp_path / "list.csv", 3000017)
    os.mkfifo(tmp_path / "slow.csv")
    run_fails("sampler", "build", "--store", f"csv:{tmp_path}/slow.csv", "--out", tmp_path / "out", says="slow.csv")
    done = run("sampler", "build", "--store", f"csv:{csv}", "--out", tmp_path / "out")
    lines = [line for line in done.stderr.splitlines() if "frame: " in line]
    assert all(re.search(r"rows/s, \d+ % of the bytes, \d+ s left|sorting and writing", line) for line in lines), lines


# ---- several files ------------------------------------------------------------------------------


def test_several_files_are_one_frame(tmp_path):
    rows = [f"{i * 31 % 1000},{i % 7}\n" for i in range(1000)]
    whole = write(tmp_path / "whole.csv", "id,label\n" + "".join(rows))
    parts = tmp_path / "parts"
    parts.mkdir()
    cuts = [0, 1, 400, 1000]
    for number, (begin, end) in enumerate(zip(cuts, cuts[1:])):
        write(parts / f"part-{number}.csv", "id,label\n" + "".join(rows[begin:end]))
    write(parts / "_SUCCESS", "")
    expected = build(f"csv:{whole}", tmp_path / "whole")
    for store in (f"csv:{parts}", f"csv:{parts}/part-*.csv", "\n".join(f"csv:{parts}/part-{i}.csv" for i in range(3))):
        assert build(store, tmp_path / "out") == {**expected, "file": str(tmp_path / "out")}
    repeated = [word for i in range(3) for word in ("--store", f"csv:{parts}/part-{i}.csv")]
    run("sampler", "build", *repeated, "--out", tmp_path / "out")
    assert facts(tmp_path / "out")["digest"] == expected["digest"]
    numbered = build(f"csv:{parts}?id=", tmp_path / "out")
    assert numbered["digest"] == build(f"csv:{whole}?id=", tmp_path / "whole")["digest"]
    assert numbered["ids"] == {"smallest": 0, "largest": 999, "consecutive": True}


def test_files_that_disagree_are_named(tmp_path):
    write(tmp_path / "a.csv", "id,label\n1,2\n")
    write(tmp_path / "b.csv", "id,lable\n2,2\n")
    run_fails("sampler", "build", "--store", f"csv:{tmp_path}/?.csv".replace("?", "%3F"), "--out", tmp_path / "out",
              says=["a.csv", "b.csv", '"label"', '"lable"'])
    write(tmp_path / "b.csv", "id,label\n2,2\n\n1,2\n")
    run_fails("sampler", "build", "--store", f"csv:{tmp_path}/[ab].csv", "--out", tmp_path / "out", says=["a.csv, line 2", "b.csv, line 4"])
    write(tmp_path / "b.csv", "id,label\n2,2\n3\n")
    run_fails("sampler", "build", "--store", f"csv:{tmp_path}/[ab].csv", "--out", tmp_path / "out", says="b.csv, line 3")
    run_fails("sampler", "build", "--store", f"csv:{tmp_path}/c*.csv", "--out", tmp_path / "out", says="c*.csv", status=None)


# ---- weights and groups -------------------------------------------------------------------------


def test_labels_do_nothing_to_the_terminal(tmp_path):
    csv = write(tmp_path / "list.csv", 'label,a\n"x\x1b[2J\x7f\u009by\nz",1\nb,2\n')
    build(f"csv:{csv}", tmp_path / "out")
    assert run("sampler", "info", tmp_path / "out").stdout.endswith("    x?[2J???y z\n")
    labels = json.loads(run("sampler", "info", "--json", tmp_path / "out").stdout)["labels"]
    assert [label["label"] for label in labels] == ["b", "x\x1b[2J\x7f\u009by\nz"]


def test_info_sums_up_weights_and_groups(tmp_path):
    csv = write(tmp_path / "list.csv", "id,label,w,g\n1,a,0.5,x\n2,a,0,y\n3,b,2.5,x\n4,b,1,x\n")
    made = build(f"csv:{csv}?weight=w&group=g", tmp_path / "out")
    assert made["weights"] is True and made["groups"] == 2
    assert made["weight_summary"] == {"smallest": 0, "largest": 2.5, "sum": 4, "zeros": 1}
    assert made["group_summary"] == {"groups": 2, "smallest": 1, "largest": 3}
    text = run("sampler", "info", tmp_path / "out").stdout
    for part in ("0 to 2.5, sum 4, 1 of them 0", "groups   2, of 1 to 3 units"):
        assert part in text
