# SPDX-License-Identifier: MIT
"""Every script of deploy says how it is used, whatever it would do otherwise."""

import os
import subprocess

import pytest

from conftest import PATIENCE_S, ROOT

pytestmark = pytest.mark.plain

SCRIPTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "deploy").rglob("*")
                 if path.is_file() and os.access(path, os.X_OK) and "debian" not in path.parts)


@pytest.mark.parametrize("word", ["-h", "--help"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_help_says_how(script, word):
    done = subprocess.run([ROOT / script, word], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    name = "tombola" if script == "deploy/tombola" else script
    assert done.returncode == 0 and done.stdout.startswith(f"usage: {name} ") and not done.stderr


@pytest.mark.parametrize("words", [[], ["-x"], ["tombola-sampler"], ["--help", "x"]])
def test_the_last_script_of_an_image_takes_no_other_folder_away(tmp_path, words):
    """Where tombola-loader is installed it would remove the deploy folder that it is started from."""
    folder = tmp_path / "deploy" / "image"
    folder.mkdir(parents=True)
    script = folder / "finish"
    script.write_bytes((ROOT / "deploy/image/finish").read_bytes().replace(b"/usr/bin/tombola-loader", b"echo").replace(b"/usr/share/doc", bytes(tmp_path)))
    script.chmod(0o755)
    (folder / "sbom").symlink_to("/bin/true")
    done = subprocess.run([script, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert script.exists() and "usage: deploy/image/finish NAME" in done.stdout + done.stderr
    assert done.returncode == (0 if words[:1] == ["--help"] else 2)
