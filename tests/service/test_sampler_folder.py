# SPDX-License-Identifier: MIT
"""The folder of --state belongs to one server: what others put there is neither followed nor overwritten nor outlived."""

import os
import shutil
import stat

import pytest

from conftest import run_fails, wait_for

STORE = ("--store", "range:1000?labels=10", "--seed", 1)
LISTEN = ("serve", "--listen", "127.0.0.1:0")


def content_of(folder):
    """Name -> kind and content (or target) of everything there, without following a link."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        if stat.S_ISREG(facts.st_mode):
            found[path] = path.read_bytes()
        else:
            found[path] = (stat.S_IFMT(facts.st_mode), os.readlink(path) if path.is_symlink() else None)
    return found


def check_refused(state, *says, options=()):
    """Exit 2 with each of `says`, and everything beside the folder is as before, and in it."""
    before = content_of(state.parent)
    run_fails("sampler", *LISTEN, *STORE, *options, "--state", state, says=[str(state), *says])
    assert content_of(state.parent) == before


@pytest.mark.parametrize("content", [b"data", b"\n", b"12 34\n", b"12\nmore", b"-1\n", b"1" * 40, bytes(40), b"\x007\n"])
def test_a_lock_of_somebody_else_stays(tmp_path, content):
    state = tmp_path / "state"
    state.mkdir()
    (state / "lock").write_bytes(content)
    check_refused(state, f"{state}/lock", "process number", "move it away")


@pytest.mark.parametrize("content", [b"", b"77\n", b"77", bytes(5)])
def test_a_lock_of_ours_is_taken(sampler, tmp_path, content):
    state = tmp_path / "state"
    state.mkdir()
    (state / "lock").write_bytes(content)
    server = sampler(*STORE, "--state", state)
    assert (state / "lock").read_text().startswith(f"{server.process.pid} on ")


@pytest.mark.parametrize("name", ["lock", "journal", "journal.new", "journal.new.fedcba9876543210"])
@pytest.mark.parametrize("there", [True, False])
def test_links_are_not_followed(tmp_path, name, there):
    state = tmp_path / "state"
    state.mkdir()
    if there:
        (tmp_path / "target").write_text("77\n" if name == "lock" else "")
    (state / name).symlink_to("../target")
    check_refused(state, f"{state}/{name}", "symbolic link")


@pytest.mark.parametrize("name", ["lock", "journal", "journal.new", "journal.new.fedcba9876543210"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_other_kinds_hold_nobody(tmp_path, name, kind):
    state = tmp_path / "state"
    state.mkdir()
    if kind == "pipe":
        os.mkfifo(state / name)
    elif kind == "folder":
        (state / name).mkdir()
    elif os.geteuid() == 0:
        os.mknod(state / name, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    else:
        pytest.skip("only root makes devices")
    check_refused(state, f"{state}/{name}", f"a {kind}")


@pytest.mark.parametrize("name", ["journal", "journal.new", "journal.new.fedcba9876543210", "position"])
@pytest.mark.parametrize("content", [b"mine", b"# a diary\n" * 20])
def test_files_of_somebody_else_stay(tmp_path, name, content):
    state = tmp_path / "state"
    state.mkdir()
    (state / name).write_bytes(content)
    check_refused(state, f"{state}/{name}")
    check_refused(state, f"{state}/{name}", options=("--durability", "none"))


@pytest.mark.parametrize("durability", ["fsync", "process", "none"])
@pytest.mark.parametrize("left", ["nothing", "a journal", "an older journal", "zeros"])
@pytest.mark.parametrize("name", ["journal.new", "journal.new.9", "journal.new.0123456789abcdef"])
def test_what_a_killed_server_left_goes_and_other_names_of_it_do_not(sampler, tmp_path, name, left, durability):
    content = {"nothing": b"", "a journal": b"TMBLJRN2" + bytes(9000), "an older journal": b"TMBLJRN1" + bytes(5000),
               "zeros": bytes(300_000)}[left]
    state = tmp_path / "state"
    state.mkdir()
    (state / name).write_bytes(content)
    others = ["journal.new.copy", "journal.new.abc"]
    for other in others:
        (state / other).write_text("a file of somebody")
    os.link(state / name, tmp_path / "other")
    server = sampler(*STORE, "--state", state, "--durability", durability)
    assert server.batch("size=10")["first"] == 0
    server.stop()
    assert (tmp_path / "other").read_bytes() == content
    assert sorted(os.listdir(state)) == ["journal", *sorted(others), "lock"]
    assert sampler(*STORE, "--state", state).batch("size=10")["first"] == 10


def test_a_refused_start_leaves_no_folder(sampler, tmp_path):
    state = tmp_path / "a/b/state"
    run_fails("sampler", *LISTEN, "--store", "csv:none.csv", "--state", state, says="none.csv")
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    run_fails("sampler", *LISTEN, "--store", "csv:none.csv", "--state", state, says="none.csv")
    assert content_of(tmp_path) == {tmp_path / "a": (stat.S_IFDIR, None)}
    server = sampler(*STORE, "--state", state)
    server.batch()
    server.kill()
    check_refused(state, "replacement", options=("--replacement",))  # the lock keeps the number of the one before
    run_fails("sampler", *LISTEN, "--store", "csv:none.csv", "--state", state, says="none.csv")
    assert sampler(*STORE, "--state", state).batch("size=10")["first"] == 100


def test_a_database_is_no_folder(tmp_path):
    """Nor is a folder made that has its name, which would keep the streams of one machine only."""
    said = run_fails("sampler", *LISTEN, *STORE, "--state", f"{tmp_path}/postgresql://me:secret@db/data", says="not in a database")
    assert "secret" not in said.stderr and not os.listdir(tmp_path)


# ---- while it serves ----------------------------------------------------------------------------


def remove(state):
    shutil.rmtree(state)


def move_away(state):
    state.rename(state.with_name("away"))


def replace_by_copy(state):
    shutil.copytree(state, state.with_name("copy"))
    state.rename(state.with_name("away"))
    state.with_name("copy").rename(state)


def remove_lock(state):
    (state / "lock").unlink()


def replace_parent(state):
    shutil.rmtree(state.parent)
    state.parent.write_text("a file now")


@pytest.mark.parametrize("durability", ["fsync", "process", "none"])
@pytest.mark.parametrize("change", [remove, move_away, replace_by_copy, remove_lock, replace_parent])
def test_a_folder_that_is_lost_ends_the_server(sampler, tmp_path, change, durability):
    state = tmp_path / "home" / "state"
    server = sampler(*STORE, "--state", state, "--durability", durability)
    assert server.batch("size=10")["first"] == 0
    change(state)
    names = sorted((tmp_path / "home").rglob("*"))
    there = content_of(state) if change is replace_by_copy else {}
    assert server.wait() == 1
    assert f"{state} was removed or replaced" in server.stderr
    assert sorted((tmp_path / "home").rglob("*")) == names
    for path, content in there.items():
        assert path.read_bytes() == content, "it wrote into a folder that is not its own"


def test_a_server_that_lost_its_folder_leaves_the_next_one_alone(sampler, tmp_path):
    state = tmp_path / "state"
    first = sampler(*STORE, "--state", state, "--durability", "none")
    first.batch("size=500")
    shutil.rmtree(state)
    second = sampler(*STORE, "--state", state)
    position = second.batch("size=7")["first"] + 7
    assert first.wait() == 1
    assert second.batch("size=10")["first"] == position
    second.kill()
    assert sampler(*STORE, "--state", state).batch("size=10")["first"] == position + 10


def test_a_signal_right_after_the_loss_is_no_good_end(sampler, tmp_path):
    state = tmp_path / "state"
    server = sampler(*STORE, "--state", state)
    server.batch()
    shutil.rmtree(state)
    server.stop(status=1)
    assert "was removed or replaced" in server.stderr


def test_a_loss_while_it_drains_ends_it(sampler, tmp_path):
    state = tmp_path / "state"
    server = sampler(*STORE, "--state", state, "--durability", "process", "--drain", 600)
    server.terminate()
    server.wait_for_log("stopping")
    server.batch()
    shutil.rmtree(state)
    assert server.wait() == 1
    assert "was removed or replaced" in server.stderr


def remove_journal(journal):
    journal.unlink()


def truncate_journal(journal):
    os.truncate(journal, 0)


def replace_journal(journal):
    journal.with_name("older").write_bytes(journal.read_bytes())
    journal.with_name("older").rename(journal)


@pytest.mark.parametrize("change", [remove_journal, truncate_journal, replace_journal])
def test_a_journal_that_is_lost_is_written_again(sampler, tmp_path, change):
    state = tmp_path / "state"
    server = sampler(*STORE, "--state", state)
    server.batch("size=10")
    leased = server.batch("size=10&worker=w&seq=0")
    change(state / "journal")
    server.wait_for_log("was removed, replaced or truncated")
    wait_for(lambda: server.get("/batch?size=10").status == 200, "it never went on")
    position = server.get("/streams/default").json["position"]
    server.kill()
    server = sampler(*STORE, "--state", state)
    assert server.get("/streams/default").json["position"] == position == 30
    assert server.batch("size=10&worker=w&seq=0")["ids"] == leased["ids"]


@pytest.mark.parametrize("change", [remove_journal, truncate_journal, replace_journal])
def test_a_lost_journal_that_is_written_at_the_end_disturbs_nobody(sampler, tmp_path, change):
    """With --durability none the file is that of the server before."""
    options = (*STORE, "--state", tmp_path / "state", "--durability", "none")
    sampler(*options).stop()
    server = sampler(*options)
    change(tmp_path / "state" / "journal")
    started = os.times().elapsed
    wait_for(lambda: server.batch("size=1") and os.times().elapsed - started > 2.5, "it never drew")
    position = server.get("/streams/default").json["position"]
    server.stop()
    assert sampler(*options).batch("size=1")["first"] == position


def test_other_changes_in_the_folder_disturb_nobody(sampler, tmp_path):
    state = tmp_path / "state"
    server = sampler(*STORE, "--state", state)
    (state / "notes").write_text("a file of somebody")
    os.utime(state)
    (state / "lock").write_text("")
    os.link(state / "journal", state / "journal.copy")
    started = os.times().elapsed
    wait_for(lambda: os.times().elapsed - started > 2.5 and server.batch("size=1"), "it never drew")
    assert server.get("/readyz").status == 200


# ---- other files that a start reads -------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("option", ["--frame", "--config", "--token-file", "--tls-cert", "--tls-key"])
def test_pipes_and_devices_hold_no_start(tmp_path, option, kind):
    path = tmp_path / "file" if kind == "pipe" else "/dev/zero"
    if kind == "pipe":
        os.mkfifo(path)
    options = {"--frame": (), "--tls-cert": (*STORE, "--tls-key", path), "--tls-key": (*STORE, "--tls-cert", path)}.get(option, STORE)
    run_fails("sampler", *LISTEN, *options, option, path, says=f"{path} is not a regular file, but a {kind}")


@pytest.mark.parametrize("source", ["/dev/stdin", "/dev/fd/0"])
def test_a_config_may_come_from_a_shell(tmp_path, source):
    text = '{"store": "range:5", "state": "' + str(tmp_path / "state") + '", "design": "none-such"}'
    run_fails("sampler", *LISTEN, "--config", source, stdin=text, says="none-such")
