# SPDX-License-Identifier: MIT
"""deploy/k8s and the image: nobody is let in without a token, and one `kubectl apply` makes the tokens."""

import re
import stat
import subprocess

import pytest
import yaml

from conftest import PATIENCE_S, ROOT, environment, program

pytestmark = pytest.mark.plain

BASE = ROOT / "deploy" / "k8s" / "base"


def container(file, kind, name):
    """The container of that name in the one resource of that kind."""
    pods = [one["spec"]["template"]["spec"] for one in yaml.safe_load_all((BASE / file).read_text()) if one["kind"] == kind]
    assert len(pods) == 1
    found = [one for one in pods[0].get("initContainers", []) + pods[0]["containers"] if one["name"] == name]
    assert len(found) == 1, f"{file} has no container {name}"
    return found[0]


def run_in(folder, pod, path=None):
    """Runs the container's own command with `folder` in the place of /datanfs."""
    words = [word.replace("/datanfs", str(folder)) for word in pod["command"] + pod["args"]]
    env = environment({"PATH": f"{path}:/usr/bin:/bin"} if path else None)
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def volume(tmp_path):
    """What the sampler's pod finds on its volume when it starts."""
    run_in(tmp_path, container("sampler.yaml", "Deployment", "tokens"))
    return tmp_path


def test_the_tokens_are_what_the_sampler_reads(sampler, volume):
    arguments = container("sampler.yaml", "Deployment", "sampler")["args"]
    options = [word.replace("/datanfs", str(volume)) for word in arguments if word.startswith("--token-file=")]
    server = sampler("--store", "range:100?labels=2", *options)

    def status(method, target, name):
        headers = {"Authorization": f"Bearer {(volume / 'tokens' / name).read_text()}"} if name else {}
        return server.request(method, target, headers=headers).status

    assert status("GET", "/readyz", None) == 200
    assert [status("GET", target, None) for target in ("/batch", "/streams", "/metrics")] == [401, 401, 401]
    assert [status("GET", "/batch?size=1", name) for name in ("train", "admin")] == [200, 200]
    assert [status("GET", "/streams/default", name) for name in ("train", "admin")] == [200, 200]
    assert [status("POST", "/streams/default/pause", name) for name in ("train", "admin")] == [403, 200]
    assert not re.search("may read it|may write it", server.stderr)


def test_the_tokens_are_made_once_and_hidden(volume):
    files = sorted((volume / "tokens").iterdir())
    assert [one.name for one in files] == ["admin", "tokens.json", "train"]
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in files)
    before = {one.name: one.read_text() for one in files}
    assert re.fullmatch(r"[0-9a-f]{64}", before["train"]) and re.fullmatch(r"[0-9a-f]{64}", before["admin"])
    assert before["train"] != before["admin"]
    assert before["train"] not in before["tokens.json"] and before["admin"] not in before["tokens.json"]
    run_in(volume, container("sampler.yaml", "Deployment", "tokens"))
    assert {one.name: one.read_text() for one in sorted((volume / "tokens").iterdir())} == before


def test_the_trainer_sends_its_token(volume, tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "tombola-trainer").write_text('#!/bin/sh\nprintf "%s\\n" "$TOMBOLA_TOKEN" "$@"\n')
    (fake / "tombola-trainer").chmod(0o755)
    pod = container("train.yaml", "Job", "train")
    said = run_in(volume, pod, fake).splitlines()
    assert said[0] == (volume / "tokens" / "train").read_text()
    assert said[1] == "train"
    assert said[2:] == [word.replace("/datanfs", str(volume)) for word in pod["args"][2:]]


def test_nothing_lets_everybody_in(tmp_path):
    """Neither the manifests nor the image, whose environment is the program's options."""
    for path in [*BASE.glob("*.yaml"), ROOT / "deploy" / "Dockerfile"]:
        commands = re.sub(r"^\s*#.*", "", path.read_text(), flags=re.MULTILINE)
        assert not re.search("allow.anonymous", commands, re.IGNORECASE), path
    words = re.findall(r"^ENV (.*)", (ROOT / "deploy" / "Dockerfile").read_text(), flags=re.MULTILINE)
    image = dict(word.split("=", 1) for line in words for word in line.split())
    assert image["TOMBOLA_LISTEN"].startswith("0.0.0.0:")
    refused = subprocess.run([program("sampler"), "serve", "--store", "range:10"], env=environment(image), capture_output=True,
                             text=True, cwd=tmp_path, timeout=PATIENCE_S, check=False)
    assert refused.returncode == 2 and "--token-file" in refused.stderr
    assert "--allow-anonymous" in refused.stderr
