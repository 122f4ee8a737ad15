# SPDX-License-Identifier: MIT
"""`deploy/nfs`: what it exports and mounts, and what it refuses. What its options are worth: tests/fault/test_nfs_clients.py."""

import os
import shlex
import subprocess

import pytest

from conftest import PATIENCE_S, ROOT

pytestmark = pytest.mark.plain

SCRIPT = ROOT / "deploy" / "nfs"


@pytest.fixture
def nfs(tmp_path):
    """nfs(word, ...) -> what it did, as root of a machine whose commands only say that they were called."""
    fake = tmp_path / "bin"
    fake.mkdir()
    for name, does in (("id", "echo 0"), ("hostname", "echo node7"), ("mountpoint", "exit 1"), ("mount", ""), ("chown", ""), ("exportfs", ""),
                       ("setpriv", ""), ("apt-get", "exit 1"), ("dpkg-query", r"printf 'installed\tnfs-common,\ninstalled\tnfs-kernel-server,\n'")):
        (fake / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/called\n{does}\n')
        (fake / name).chmod(0o755)

    def call(*words, status=0, **more):
        env = {"PATH": f"{fake}:{os.environ['PATH']}", "HOME": str(tmp_path), "EXPORTS": str(tmp_path / "exports"), "MOUNTS": str(tmp_path / "mounts"), **more}
        done = subprocess.run([SCRIPT, *map(str, words)], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        done.called = (tmp_path / "called").read_text().splitlines() if (tmp_path / "called").exists() else []
        return done

    call.bin = fake
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    return call


def test_an_export_is_for_its_clients_and_for_our_user(nfs, tmp_path):
    folder = tmp_path / "data"
    done = nfs("export", folder, "10.0.0.0/8", "node[1-4].example.com")
    options = "(rw,sync,no_subtree_check,root_squash)"
    assert (tmp_path / "exports").read_text() == f"{folder} 10.0.0.0/8{options} node[1-4].example.com{options}\n"
    assert folder.is_dir() and done.called[-3:-1] == [f"chown 10001:10001 {folder}", "exportfs -ra"]
    assert f"server: node7, path: {folder}" in done.stdout


@pytest.mark.parametrize("client", ["10.1.2.3", "10.0.0.0/0", "10.0.0.0/255.0.0.0", "fd00::/8", "::1", "fe80::1:2.3.4.5/128", "node7", "*",
                                    "*.example.com", "@trusted", "10-0-0-1.example.com"])
def test_who_may_be_a_client(nfs, client):
    assert f" {client}(rw," in nfs("export", "--dry-run", "/data", client).stdout


def test_an_export_replaces_its_own_line_alone(nfs, tmp_path):
    nfs("export", tmp_path / "data", "a")
    nfs("export", tmp_path / "data2", "b")
    nfs("export", f"{tmp_path}/data/", "c")
    lines = (tmp_path / "exports").read_text().splitlines()
    assert [line.partition("(")[0] for line in lines] == [f"{tmp_path}/data2 b", f"{tmp_path}/data c"]


@pytest.mark.parametrize("fails", ["read", "write"])
def test_a_disk_that_fails_costs_no_export(nfs, tmp_path, fails):
    """Neither that of others, whose lines are read and written again; the same command does it once the disk works."""
    nfs("export", tmp_path / "data", "a")
    nfs("export", tmp_path / "data2", "b")
    before = (tmp_path / "exports").read_text()
    if fails == "read":
        (nfs.bin / "awk").write_text("#!/bin/sh\nhead -n 1 $4\nexit 2\n")
        (nfs.bin / "awk").chmod(0o755)
    else:
        (tmp_path / "exports.new").symlink_to("/dev/full")
    done = nfs("export", tmp_path / "data2", "c", status=1)
    assert f"cannot {fails} {tmp_path}/exports" in done.stderr and done.called[-1].startswith("chown ")
    assert (tmp_path / "exports").read_text() == before and not (tmp_path / "exports.new").is_symlink()
    (nfs.bin / "awk").unlink(missing_ok=True)
    nfs("export", tmp_path / "data2", "c")
    assert (tmp_path / "exports").read_text() == before.replace(" b(", " c(")


def test_a_mount_is_hard_and_tried(nfs, tmp_path):
    done = nfs("mount", "server:/data/nfs", tmp_path / "datanfs")
    mount, = [line for line in done.called if line.startswith("mount ")]
    assert mount.startswith("mount -t nfs -o hard,nfsvers=4.2,") and mount.endswith(f" server:/data/nfs {tmp_path}/datanfs")
    assert "soft" not in mount and "nocto" not in mount and "actimeo" not in mount, "a checkpoint of another machine would not be seen"
    assert done.called[-1].startswith("setpriv --reuid 10001 --regid 10001 --clear-groups ")
    assert done.called[-1].endswith(f"tombola-loader check {tmp_path}/datanfs")


@pytest.mark.parametrize("name, status", [("mount", 32), ("setpriv", 2)])
def test_what_a_command_ends_with_is_not_what_the_script_ends_with(nfs, tmp_path, name, status):
    """2 would be bad usage; mount has numbers of its own."""
    (nfs.bin / name).write_text(f"#!/bin/sh\necho no >&2\nexit {status}\n")
    assert nfs("mount", "server:/data/nfs", tmp_path / "datanfs", status=1).stderr == "no\n"


def test_a_line_of_fstab_has_no_blank_in_its_paths(nfs, tmp_path):
    done = nfs("mount", "--dry-run", "server:/data/my rows", tmp_path / "my rows")
    assert f"server:/data/my\\040rows {tmp_path}/my\\040rows nfs " in done.stdout


def test_commands_that_are_printed_can_be_pasted(nfs):
    done = nfs("mount", "--dry-run", "server:/data/my rows", "/my 'rows'")
    mount, = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("mount ")]
    assert mount[-2:] == ["server:/data/my rows", "/my 'rows'"]
    assert "mount -t nfs -o hard,nfsvers=4.2," in done.stdout, "what needs no quotes has none"


def test_rows_alone_are_mounted_for_reading(nfs, tmp_path):
    done = nfs("mount", "--read-only", "server:/data/nfs", tmp_path / "rows")
    mount, = [line for line in done.called if line.startswith("mount ")]
    assert "-o ro,hard," in mount and ",nocto,actimeo=3600 " in mount
    assert not [line for line in done.called if line.startswith("setpriv")], "who may only read cannot be tried"


def test_a_dry_run_does_nothing(nfs, tmp_path):
    done = nfs("export", "--dry-run", tmp_path / "data", "10.0.0.0/8")
    assert "exportfs -ra" in done.stdout and not [line for line in done.called if line.split()[0] in ("exportfs", "chown")]
    assert not (tmp_path / "data").exists() and not (tmp_path / "exports").exists()
    assert nfs("--dry-run", "export", tmp_path / "data", "10.0.0.0/8").stdout == done.stdout, "options stand where they like"
    done = nfs("mount", "--dry-run", "server:/data/nfs", tmp_path / "datanfs")
    assert "mount -t nfs " in done.stdout and not [line for line in done.called if line.startswith("mount ")]


def test_a_client_without_a_name_of_its_own_is_refused(nfs, tmp_path):
    (nfs.bin / "hostname").write_text("#!/bin/sh\necho localhost\n")
    done = nfs("mount", "server:/data", tmp_path / "datanfs", status=1)
    assert "host name is localhost" in done.stderr and not [line for line in done.called if line.startswith("mount ")]


def test_what_is_mounted_already_stays(nfs, tmp_path):
    (tmp_path / "mounts").write_text(f"other:/data {tmp_path}/datanfs nfs4 rw 0 0\n")
    done = nfs("mount", "server:/data", tmp_path / "datanfs", status=1)
    assert "is mounted already, from other:/data" in done.stderr and not [line for line in done.called if line.startswith("mount ")]


def test_a_mount_whose_check_failed_is_checked_again(nfs, tmp_path):
    """By the same command; and nobody looks at the folder, which hangs while its server is away."""
    (tmp_path / "mounts").write_text(f"server:/my\\040rows {tmp_path}/my\\040rows nfs4 rw 0 0\n")
    done = nfs("mount", "server:/my rows", tmp_path / "my rows")
    assert "is mounted at" in done.stdout and done.called[-1].endswith(f"tombola-loader check {tmp_path}/my rows")
    assert not [line for line in done.called if line.startswith(("mount ", "mountpoint "))] and not (tmp_path / "my rows").exists()


@pytest.mark.parametrize("words, says", [
    (["exprt"], "there is export and mount, no 'exprt'"),
    (["export", "/data"], "export takes DIR and a CLIENT"),
    (["export", "--read-only", "/data", "a"], "export takes DIR"),
    (["export", "data", "a"], "DIR is a path from the root"),
    (["export", "/da ta", "a"], "DIR is a path from the root"),
    (["export", "/", "a"], "DIR is a path from the root"),
    (["export", "/data/..", "a"], "DIR is a path from the root"),
    (["export", "/data//nfs", "a"], "DIR is a path from the root"),
    (["export", "/data", "a(rw)"], "'a(rw)' is not the address"),
    (["export", "/data", "a\nb"], "is not the address"),
    (["export", "/data", "/99"], "'/99' is not the address"),
    (["export", "/data", "10.0.0.0/33"], "'10.0.0.0/33' is not the address"),
    (["export", "/data", "10.0.0.0/"], "'10.0.0.0/' is not the address"),
    (["export", "/data", "10.0.0.256"], "'10.0.0.256' is not the address"),
    (["export", "/data", "fd00::/129"], "'fd00::/129' is not the address"),
    (["export", "/data", "node/24"], "'node/24' is not the address"),
    ([], "which command? There is export and mount"),
    (["--dry-run"], "which command? There is export and mount"),
    (["mount", "server:/data"], "mount takes SERVER:PATH and DIR"),
    (["mount", "server", "/datanfs"], "the export is SERVER:/PATH, not 'server'"),
    (["mount", "server:/data", "datanfs"], "DIR is a path from the root"),
    (["mount", "server:/data", "/"], "DIR is a path from the root"),
    (["mount", "server:/data", "/a\nb"], "a control character"),
    (["mount", "server:/da\tta", "/datanfs"], "a control character"),
    (["mount", "server:/data", "/a\\"], "a backslash"),
    (["mount", "--soft", "server:/data", "/datanfs"], "unknown option --soft")])
def test_bad_words_are_refused_before_anything_is_done(nfs, words, says):
    done = nfs(*words, status=2)
    assert says in done.stderr and "--help" in done.stderr
    assert not [line for line in done.called if line.split()[0] != "id"]


def test_others_than_root_are_refused(nfs):
    (nfs.bin / "id").write_text("#!/bin/sh\necho 1000\n")
    assert "needs root" in nfs("export", "/data", "a", status=1).stderr
