# SPDX-License-Identifier: MIT
"""`make install`: programs, man pages, completions, and a libtombola that a C program finds through pkg-config."""

import os
import re
import subprocess

import pytest

from conftest import BUILD, SANITIZED

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(SANITIZED, reason="a program without the sanitizer cannot load its library"),
]

CLIENT = """
#include <stdio.h>
#include <tombola.h>
int main(void)
{
    printf("%s\\n", tombola_version());
    return 0;
}
"""


def command(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The folder that stands for /usr/local."""
    destination = tmp_path_factory.mktemp("destination")
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    command("make", "-C", str(BUILD), "install", f"DESTDIR={destination}", env=plain)
    return destination / "usr" / "local"


@pytest.mark.parametrize("name", ["sampler", "loader", "trainer"])
def test_installed_programs_start(prefix, name):
    program = prefix / "bin" / f"tombola-{name}"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}
    assert command(program, "--version", env=environment).startswith(f"tombola-{name} ")
    assert "Commands:" in command(program, "--help", env=environment)


def test_the_installed_script_trains(prefix, tmp_path):
    (tmp_path / "table.csv").write_text("x,kind\n" + "0,a\n1,b\n" * 50)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOMBOLA_")}
    out = command(prefix / "bin" / "tombola", "run", "table.csv", "--label", "kind", "--steps", "100", cwd=tmp_path,
                  env={**environment, "LD_LIBRARY_PATH": str(prefix / "lib")})
    assert re.search(r"accuracy: 1$", out, re.MULTILINE) and "model.ckpt-100.safetensors" in out


@pytest.mark.parametrize("name", ["tombola", "tombola-sampler", "tombola-loader", "tombola-trainer"])
def test_man_pages_and_completions_are_where_they_are_looked_for(prefix, name):
    for place in (f"man/man1/{name}.1", f"bash-completion/completions/{name}", f"zsh/site-functions/_{name}",
                  f"fish/vendor_completions.d/{name}.fish"):
        assert "tombola" in (prefix / "share" / place).read_text()


def test_the_unit_of_systemd_starts_the_installed_program(prefix):
    places = ("lib/systemd/system/tombola-sampler.service", "share/tombola/systemd/tokens.conf")
    for text in ((prefix / place).read_text() for place in places):
        assert "\nExecStart=/usr/local/bin/tombola-sampler serve" in text
    assert (prefix / "lib" / "sysusers.d" / "tombola.conf").exists()
    assert (prefix / "lib" / "tmpfiles.d" / "tombola.conf").exists()


def test_a_c_program_finds_the_library_by_pkg_config(prefix, tmp_path):
    paths = {
        **os.environ,
        "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"),
        "LD_LIBRARY_PATH": str(prefix / "lib"),
    }
    pkg_config = ["pkg-config", f"--define-variable=prefix={prefix}"]
    flags = command(*pkg_config, "--cflags", "--libs", "tombola", env=paths).split()
    version = command(*pkg_config, "--modversion", "tombola", env=paths).strip()
    (tmp_path / "client.c").write_text(CLIENT)
    command("gcc", "-Wall", "-Wextra", "-Werror", "client.c", "-o", "client", *flags, cwd=tmp_path)
    assert command("./client", cwd=tmp_path, env=paths).strip() == version


def test_the_library_exports_only_its_own_names(prefix):
    symbols = command("nm", "-D", "--defined-only", prefix / "lib" / "libtombola.so")
    names = {line.split()[-1].split("@")[0] for line in symbols.splitlines() if line.strip()}
    assert names
    strangers = {name for name in names if not re.match(r"tombola_|TOMBOLA_", name)}
    assert not strangers


def test_no_path_of_the_build_is_installed(prefix):
    for path in [*(prefix / "lib" / "pkgconfig").glob("*.pc"), *(prefix / "include").rglob("*.h")]:
        assert str(BUILD) not in path.read_text()
