# SPDX-License-Identifier: MIT
"""deploy/debian agrees with the tree; deploy/package and tests/debian say how they are used."""

import fnmatch
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

pytestmark = pytest.mark.plain

DEBIAN = ROOT / "deploy" / "debian"
# What debhelper-compat and build-essential bring, and what the tarball has ready.
BROUGHT = {"build-essential", "gcc", "libc6-dev", "make", "autoconf", "automake", "libtool", "dpkg-dev", "debhelper", "xz-utils",
           "lintian"}


def control():
    """[{field: value}] of each paragraph."""
    paragraphs = DEBIAN.joinpath("control").read_text().strip().split("\n\n")
    return [dict(re.findall(r"^([\w-]+): *((?:.|\n )*)$", paragraph, re.MULTILINE)) for paragraph in paragraphs]


def listed(name):
    lines = (re.sub("#.*", "", line).strip() for line in (ROOT / "deploy" / "packages" / name).read_text().splitlines())
    return {line for line in lines if line}


def binaries():
    return [paragraph["Package"] for paragraph in control()[1:]]


def installs(name):
    """The lines that say which files a package has."""
    lines = DEBIAN / f"{name}.install"
    return lines.read_text().splitlines() if lines.exists() else []


def test_build_dependencies_are_those_of_the_sets():
    needed = {re.sub(r" .*", "", word.strip()) for word in control()[0]["Build-Depends"].split(",")}
    ours = {name for name in needed if not re.match(r"debhelper-compat|dh-sequence-", name)}
    assert ours == (listed("build") | listed("package")) - BROUGHT


def test_every_package_has_its_files_and_its_word():
    assert set(binaries()) == {"tombola", "tombola-sampler", "tombola-loader", "tombola-trainer", "tombola-trainer-cuda", "libtombola0",
                               "libtombola0-cuda", "libtombola-dev", "python3-tombola"}
    for paragraph in control()[1:]:
        assert paragraph["Description"] and "${misc:Depends}" in paragraph["Depends"]
        if paragraph["Package"] != "python3-tombola":
            assert (DEBIAN / f"{paragraph['Package']}.install").exists()


def test_what_is_installed_is_in_one_package(tmp_path):
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    made = subprocess.run(["make", "-C", BUILD, "install", f"DESTDIR={tmp_path}"], env=plain, capture_output=True,
                          text=True, check=False)
    assert made.returncode == 0, made.stderr
    files = {path.relative_to(tmp_path).as_posix().replace("usr/local/", "usr/", 1) for path in tmp_path.rglob("*")
             if path.is_file() or path.is_symlink()} - {"usr/lib/libtombola.la", "usr/lib/tombola/tombola_parquet.so"}
    for name in (name for name in binaries() if not name.endswith("-cuda")):
        for pattern in (line.split()[0] for line in installs(name)):
            found = fnmatch.filter(files, pattern.replace("usr/lib/*/", "usr/lib/"))
            assert found, f"{name}: {pattern} is not there, or in another package, too"
            files -= set(found)
    assert not files


@pytest.mark.parametrize("name", ["libtombola0", "tombola-trainer"])
def test_what_is_for_gpus_takes_the_place_of_what_is_not(name):
    """It has the same files, satisfies who depends on it, and is built where a toolkit is: deploy/package --with-cuda."""
    assert installs(f"{name}-cuda") == installs(name)
    (fields,) = (paragraph for paragraph in control()[1:] if paragraph["Package"] == f"{name}-cuda")
    assert fields["Provides"] == f"{name} (= ${{binary:Version}})" and fields["Conflicts"] == fields["Replaces"] == name
    assert fields["Build-Profiles"] == "<pkg.tombola.cuda>"


def test_the_symbols_file_has_what_the_library_exports():
    out = subprocess.run(["nm", "-D", "--defined-only", BUILD / "loader" / ".libs" / "libtombola.so.0"],
                         capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in out.splitlines()}
    exported = {name for name in exported if re.match("tombola_|TOMBOLA_", name)} | {"TOMBOLA_0"}  # gold leaves it out
    text = (DEBIAN / "libtombola0.symbols").read_text()
    written = re.findall(r"^ (\w+)@TOMBOLA_0 \d+\.\d+\.\d+$", text, re.MULTILINE)
    assert set(written) == exported and len(written) == len(exported)


def test_the_licence_is_the_trees():
    def words(text):
        return " ".join(re.sub(r"^ \.$", "", text, flags=re.MULTILINE).split())

    licence = (ROOT / "LICENSE").read_text()
    assert words(licence[licence.index("Permission"):]) in words((DEBIAN / "copyright").read_text())


def test_every_test_of_the_installed_packages_is_listed():
    listed_tests = set(re.findall(r"^Tests: (\w+)$", (DEBIAN / "tests" / "control").read_text(), re.MULTILINE))
    scripts = {path.name for path in (DEBIAN / "tests").iterdir() if os.access(path, os.X_OK)}
    assert listed_tests == scripts == {"serve", "train", "library", "python"}


def test_the_library_for_gpus_takes_the_place_of_its_whole_upstream_version(tmp_path):
    """Whatever is in it: an epoch, a hyphen."""
    shutil.copytree(DEBIAN, tmp_path / "debian")
    (tmp_path / "debian/changelog").write_text("tombola (1:2.0-rc1-3) unstable; urgency=medium\n\n  * New.\n\n"
                                               " -- A B <a@example.com>  Thu, 01 Jan 2026 00:00:00 +0000\n")
    made = subprocess.run(["make", "-n", "-f", "debian/rules", "override_dh_makeshlibs", "DEB_BUILD_PROFILES=pkg.tombola.cuda"],
                          cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "-V 'libtombola0 (>= 1:2.0-rc1)'" in made.stdout, made.stdout + made.stderr


@pytest.mark.parametrize("script, words, message", [
    ("deploy/package", ["--nosuch"], "unknown option --nosuch"),
    ("deploy/package", ["--revision", "x y"], "--revision wants a number, such as 1, not 'x y'"),
    ("deploy/package", ["--with-cuda", "/nosuch"], "--with-cuda wants the folder of a toolkit, with bin/nvcc, not '/nosuch'"),
    ("deploy/package", ["/nosuch/tombola-1.2.3.tar.xz"], "there is no tombola-VERSION.tar.xz"),
    ("deploy/package", [""], "one tarball"),
    ("deploy/package", ["tombola-1.2.3.tar.xz", "tombola-1.2.4.tar.xz"], "one tarball, not"),
    ("tests/debian", ["nosuch"], "unknown argument 'nosuch'"),
])
def test_bad_usage_says_what_is_wrong(script, words, message):
    done = subprocess.run([ROOT / script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and message in done.stderr and "--help says how" in done.stderr


def test_help_says_how():
    done = subprocess.run([ROOT / "tests" / "debian", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("usage: tests/debian")
