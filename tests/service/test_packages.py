# SPDX-License-Identifier: MIT
"""deploy/install: asks apt for what is missing and for nothing else, and says what to do where it cannot."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import PATIENCE_S, ROOT, environment, wait_for

pytestmark = pytest.mark.plain

INSTALL = ROOT / "deploy" / "install"
PACKAGES = ROOT / "deploy" / "packages"
TOOLS = ("bash", "cat", "dirname", "env", "grep", "mktemp", "paste", "readlink", "rm", "sed", "setsid",
         "sleep", "sort", "tail", "tr", "wc")

# What stands for the machine's package manager: its answers are files of the test.
FAKES = {
    "dpkg-query": 'cat "$FAKE/installed"',
    "dpkg": 'cat "$FAKE/audit" 2>/dev/null; echo "dpkg $*" >>"$FAKE/calls"',
    "apt-cache": 'grep -qx -- "${@: -1}" "$FAKE/known"',
    "apt-get": 'echo "apt-get $*" >>"$FAKE/calls"; [[ " $* " != *" $(cat "$FAKE/fails" 2>/dev/null || echo none) "* ]] '
               '|| { echo "E: Unable to locate package nosuch"; exit 100; }',
    "id": 'cat "$FAKE/uid"',
}


def names(set_name):
    lines = (re.sub("#.*", "", line).strip() for line in (PACKAGES / set_name).read_text().splitlines())
    return [line for line in lines if line]


class Machine:
    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name, body in FAKES.items():
            self.program(name, body)
        self.write("uid", "0\n")
        self.write("installed", "")
        self.write("known", "".join(f"{word}\n" for name in ("build", "run", "test") for line in names(name)
                                    for word in re.findall(r"[\w.+-]+", line)))

    def program(self, name, body):
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def install(self, *arguments, status=0):
        done = subprocess.run(
            [str(INSTALL), *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S,
            env={**environment(), "PATH": str(self.bin), "FAKE": str(self.folder), "TMPDIR": str(self.folder)})
        assert done.returncode == status, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def has(self, *packages):
        self.write("installed", "".join(f"installed\t{package}\n" for package in packages))

    @property
    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def asked(self):
        """The packages of the last `apt-get install`."""
        words = [line for line in self.calls if " install " in line][-1].split()
        return sorted(word for word in words[words.index("install") + 1:] if not word.startswith("-"))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def first(line):
    return line.lstrip("? ").split(" | ")[0]


def test_lists_are_names_and_the_sampler_needs_a_part_of_run():
    for path in PACKAGES.iterdir():
        for line in names(path.name):
            assert re.fullmatch(r"(\? )?[a-z0-9][a-z0-9+.-]+( \| [a-z0-9][a-z0-9+.-]+)*", line), (path, line)
        assert len(set(names(path.name))) == len(names(path.name)), path
    assert set(names("sampler")) < set(names("run"))


@pytest.mark.parametrize("arguments, says", [
    ([], "no set"), (["nosuch"], "'nosuch'"), (["../install"], "'../install'"), (["--bogus", "run"], "--bogus"),
    (["run", "--log"], "--log"),
])
def test_bad_usage(machine, arguments, says):
    assert says in machine.install(*arguments, status=2).stderr
    assert machine.calls == []


def test_help(machine):
    output = machine.install("--help").stdout
    for word in ("build", "run", "test", "--dry-run", "--log"):
        assert word in output


def test_everything_is_installed_on_a_bare_machine(machine):
    machine.install("build", "run")
    assert machine.asked() == sorted({first(line) for line in names("build") + names("run")})
    assert [call for call in machine.calls if call.startswith("apt-get")][0].endswith(" update")
    assert all("--no-install-recommends" in call for call in machine.calls if " install " in call)


def test_only_what_is_missing(machine):
    there = [first(line) for line in names("build") if line != "make"]
    machine.has(*there)
    machine.install("build")
    assert machine.asked() == ["make"]


def test_nothing_missing_asks_neither_apt_nor_root(machine):
    machine.write("uid", "1000\n")
    machine.has(*(first(line) for line in names("run")))
    assert "are there" in machine.install("run").stdout
    assert machine.calls == []


def test_a_provided_name_and_an_alternative_count(machine):
    machine.has("libcurl4t64, libcurl4 (= 8.5.0), libcurl4-any", "libdnnl3", *(
        line for line in names("run") if line != "libcurl4" and not line.startswith("?")), "libopenblas0-pthread")
    machine.install("run")
    assert machine.calls == []


def test_a_package_that_was_removed_is_missing(machine):
    machine.write("installed", "config-files\tmake\n" + "".join(
        f"installed\t{first(line)}\n" for line in names("build") if line != "make"))
    machine.install("build")
    assert machine.asked() == ["make"]


def test_the_alternative_that_apt_knows_is_taken(machine):
    machine.write("known", "libdnnl3\nlibopenblas0-pthread\n")
    machine.has(*(line for line in names("run") if not line.startswith("?")))
    machine.install("run")
    assert machine.asked() == ["libdnnl3", "libopenblas0-pthread"]


def test_optional_ones_that_apt_does_not_know_are_left_out(machine):
    machine.write("known", "")
    machine.has(*(line for line in names("run") if not line.startswith("?")))
    machine.install("run")
    assert not [call for call in machine.calls if " install " in call]


def test_dry_run_names_and_does_nothing(machine):
    machine.has("make")
    missing = machine.install("--dry-run", "build").stdout.split("\n")
    assert "gcc" in missing and "make" not in missing
    assert machine.calls == []


def test_an_interrupted_dpkg_is_finished_first(machine):
    machine.write("audit", "The following packages are only half configured:\n")
    machine.install("build")
    calls = [call for call in machine.calls if call != "dpkg --audit"]
    assert calls[0] == "dpkg --configure -a"


@pytest.mark.parametrize("fails", ["--download-only", "--no-download"])
def test_a_failure_says_what_and_where(machine, fails):
    machine.write("fails", fails)
    stderr = machine.install("build", status=1).stderr
    assert "nosuch" in stderr
    log = re.search(r"the whole log: (\S+)", stderr).group(1)
    assert os.path.getsize(log) > 0


def test_what_the_network_does_not_bring_is_no_unknown_package(machine):
    """Without lists apt knows no package at all; it says itself what it could not fetch, and calls that success."""
    machine.program("apt-get", """[[ " $* " != *" update "* ]] || { echo "W: Failed to fetch http://mirror/InRelease  Connection failed"; exit 0; }
echo "E: Unable to locate package make"; exit 100""")
    stderr = machine.install("build", status=1).stderr
    assert "cannot fetch http://mirror/InRelease: is the network there?" in stderr and "apt knows no package" not in stderr
    machine.program("apt-get", FAKES["apt-get"])
    machine.install("build")


def test_old_lists_will_do_when_the_network_is_away(machine):
    machine.write("fails", "update")
    machine.install("build")
    assert "make" in machine.asked()


def test_another_dpkg_is_waited_for(machine):
    machine.write("audit", "The following packages are only half configured:\n")
    machine.program("dpkg", """cat "$FAKE/audit"
        echo "dpkg $*" >>"$FAKE/calls"
        [[ $1 == --audit || $(grep -c -- --configure "$FAKE/calls") == 3 ]] && exit
        echo "dpkg: error: dpkg frontend lock was locked by another process with pid 1" >&2
        exit 2""")
    assert machine.install("build").stdout.count("waiting for it") == 1
    assert machine.calls.count("dpkg --configure -a") == 3
    assert "make" in machine.asked()


# A holder of a lock as apt's are: by fcntl, until its standard input is closed.
HOLDER = """import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()"""


@pytest.fixture
def real_apt(machine):
    """The machine with its real apt-get: a repository that knows every package of the set `sampler`, and state of its own."""
    root = machine.folder / "apt"
    for name in ("lists/partial", "archives/partial", "dpkg", "repository"):
        (root / name).mkdir(parents=True)
    (root / "dpkg" / "status").write_text("")
    packages = []
    for name in sorted({first(line) for line in names("sampler")}):
        control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: nothing\n"
        folder = root / name
        (folder / "DEBIAN").mkdir(parents=True)
        (folder / "DEBIAN" / "control").write_text(control)
        archive = root / "repository" / f"{name}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", folder, archive], check=True, capture_output=True)
        content = archive.read_bytes()
        packages.append(f"{control}Filename: ./{name}.deb\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n")
    (root / "repository" / "Packages").write_text("\n".join([*packages, ""]))
    (root / "sources").write_text(f"deb [trusted=yes] copy:{root}/repository ./\n")
    machine.write("apt.conf", f"""Dir::State "{root}"; Dir::State::Lists "{root}/lists"; Dir::State::status "{root}/dpkg/status";
        Dir::State::extended_states "{root}/extended"; Dir::Cache "{root}"; Dir::Cache::archives "{root}/archives";
        Dir::Etc::sourcelist "{root}/sources"; Dir::Etc::sourceparts "/dev/null"; Dir::Etc::preferencesparts "/dev/null";
        Dir::Log "{root}"; APT::Sandbox::User "root"; Dir::Bin::dpkg "{machine.bin}/dpkg"; DPkg::Path "{machine.bin}:/usr/bin:/bin";
        DPkg::Pre-Install-Pkgs {{}}; DPkg::Post-Invoke {{}}; APT::Update::Post-Invoke {{}};""")
    for name in ("apt-get", "apt-cache"):
        (machine.bin / name).unlink()
        machine.program(name, f'echo "{name} $*" >>"$FAKE/calls"; APT_CONFIG=$FAKE/apt.conf exec /usr/bin/{name} "$@"')
    return machine


@pytest.mark.parametrize("lock", ["lists/lock", "archives/lock", "dpkg/lock-frontend"])
def test_another_apt_is_waited_for(real_apt, lock):
    """Whichever lock it holds: apt-get itself fails at once where it is that of the lists or of the archives."""
    path = real_apt.folder / "apt" / lock
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"\n"
        with ThreadPoolExecutor(1) as pool:
            installing = pool.submit(real_apt.install, "sampler")
            log = wait_for(lambda: next(iter(real_apt.folder.glob("tombola-install*")), None), "it never began")
            if lock == "dpkg/lock-frontend":  # for this one apt-get waits
                wait_for(lambda: "Waiting for cache lock" in log.read_text(), "it never met the lock")
            else:
                wait_for(lambda: log.read_text().count("Could not get lock") >= 2, "it never met the lock")
            assert not installing.done()
            holder.stdin.close()
            said = installing.result(PATIENCE_S).stdout
    assert ("waiting for it" in said) == (lock != "dpkg/lock-frontend")
    assert real_apt.asked() == sorted({first(line) for line in names("sampler")})
    assert [call for call in real_apt.calls if call.startswith("dpkg ") and "--unpack" in call]


def test_no_log_is_left_after_success(machine):
    machine.install("build")
    assert not list(machine.folder.glob("tombola-install*"))
    machine.install("build", "--log", str(machine.folder / "kept.log"))
    assert (machine.folder / "kept.log").exists()


def test_through_sudo(machine):
    machine.write("uid", "1000\n")
    machine.program("sudo", 'echo "sudo $*" >>"$FAKE/calls"; while [[ ${1:-} == -* ]]; do shift; done; exec "$@"')
    machine.program("true", "exit 0")
    machine.install("build")
    assert "make" in machine.asked()
    assert any(call.startswith("sudo -n env ") and " apt-get " in call for call in machine.calls)


def test_neither_root_nor_sudo(machine):
    machine.write("uid", "1000\n")
    stderr = machine.install("build", status=1).stderr
    assert "apt-get install" in stderr and "libmicrohttpd-dev" in stderr
    assert not [call for call in machine.calls if call.startswith("apt-get")]


def test_no_apt(machine):
    (machine.bin / "apt-get").unlink()
    stderr = machine.install("build", "run", status=1).stderr
    for line in names("build") + names("run"):
        assert first(line) in stderr
    assert "--no-install" in stderr
