# SPDX-License-Identifier: MIT
"""What deploy/images gives an engine, which a script stands for here, and the SBOM; tests/images has real ones."""

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest

from conftest import PATIENCE_S, ROOT, environment, wait_for

pytestmark = pytest.mark.plain

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
STAGES = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
IMAGES = [name for name in STAGES if name != "base" and not name.startswith("build")]

ENGINE = """#!/bin/bash
case $1 in
build) printf '%s\\n' "$@" >"$SAID"; ls -A "${@: -1}" >"$SAID.context"; [[ ! -e $SAID.hangs ]] || { echo $$ >"$SAID.pid" && exec sleep 1000; }; [[ ! -e $SAID.fails ]] ;;
*) echo sha256:0123 ;;
esac
"""


class Project:
    """A tree of the test with the deploy folder, committed on a day."""

    def __init__(self, folder):
        self.folder, self.said = folder / "tree", folder / "said"
        (self.folder / "deploy").mkdir(parents=True)
        for name in ("images", "step.sh"):
            shutil.copy(ROOT / "deploy" / name, self.folder / "deploy")
        (self.folder / "configure.ac").write_text("AC_INIT([tombola], [1.2.3])\n")
        (self.folder / ".gitignore").write_text("/secret\n")
        (self.folder / "secret").write_text("x")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "x")
        self.commit = self.git("rev-parse", "HEAD")
        for name in ("docker", "buildah"):
            (folder / name).write_text(ENGINE)
            (folder / name).chmod(0o755)

    def git(self, *words):
        when = {"GIT_COMMITTER_DATE": "2026-01-31T12:00:00Z", "GIT_AUTHOR_DATE": "2026-01-31T12:00:00Z"}
        return subprocess.run(["git", *words], cwd=self.folder, env=environment(when), capture_output=True, text=True, check=True).stdout.strip()

    def command(self, *words, engine="buildah"):
        return {"args": [self.folder / "deploy" / "images", "--engine", self.said.with_name(engine), *words],
                "env": environment({"SAID": str(self.said), "TMPDIR": str(self.said.parent)})}

    def images(self, *words, **more):
        return subprocess.run(**self.command(*words, **more), capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def words(self):
        """What the engine was told, and the files that it was given."""
        return self.said.read_text().splitlines(), self.said.with_name("said.context").read_text().split()


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_an_image_says_what_it_was_made_of(project):
    done = project.images("sampler")
    assert done.returncode == 0 and "tombola-sampler:1.2.3 sha256:0123" in done.stdout, done.stderr
    words, files = project.words()
    label = "--label=org.opencontainers.image."
    assert {f"{label}version=1.2.3", f"{label}revision={project.commit}", f"{label}created=2026-01-31T12:00:00Z"} <= set(words)
    assert words[words.index("--timestamp") + 1] == "1769860800" and "SOURCE_DATE_EPOCH=1769860800" in words
    assert "configure.ac" in files and "secret" not in files and ".git" not in files
    assert not list(project.said.parent.glob("tombola-images*")), "it leaves files"


def test_changes_that_are_in_no_commit_show(project):
    (project.folder / "more.c").write_text("")
    assert project.images("trainer").returncode == 0
    words, files = project.words()
    assert f"--label=org.opencontainers.image.revision={project.commit}+" in words and "more.c" in files


def test_a_mirror_comes_through(project):
    assert project.images("--build-arg", "MIRROR=http://a/debian", "--build-arg", "BASE=b", "--tag", "t", "notebook", engine="docker").returncode == 0
    words, _ = project.words()
    assert {"--build-arg=MIRROR=http://a/debian", "--build-arg=BASE=b"} <= set(words)
    assert words[words.index("--tag") + 1] == "tombola-notebook:t" and "--timestamp" not in words


def test_what_fails_keeps_its_log(project):
    project.said.with_name("said.fails").touch()
    done = project.images("sampler")
    assert done.returncode == 1 and "the image sampler was not built" in done.stderr
    assert len(list(project.said.parent.glob("tombola-images-log.*"))) == 1 and not list(project.said.parent.glob("tombola-images.*"))


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_engine_ends_with_it(project, number, status):
    project.said.with_name("said.hangs").touch()
    with subprocess.Popen(**project.command("sampler")) as running:
        pid = project.said.with_name("said.pid")
        wait_for(lambda: pid.exists() and pid.read_text().strip(), "nothing is built")
        running.send_signal(number)
        assert running.wait(PATIENCE_S) == status
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert not list(project.said.parent.glob("tombola-images*"))


@pytest.mark.parametrize("words, says", [(["base"], "no image 'base'"), (["--tag"], "wants a value"), (["--nothing"], "unknown option"),
                                         (["--engine", "nosuch"], "no command 'nosuch'")])
def test_bad_usage(project, words, says):
    done = project.images(*words)
    assert done.returncode == 2 and says in done.stderr and not project.said.exists()


def test_every_image_can_be_named(project):
    for name in IMAGES:
        assert project.images(name).returncode == 0
    assert len(IMAGES) == 4


@pytest.mark.parametrize("name", IMAGES)
def test_images_have_no_rights_and_a_name(name):
    text = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1 + STAGES.index(name)]
    assert re.findall(r"^USER (.*)", text, flags=re.MULTILINE) == ["10001:10001"]
    assert f"image.title=tombola-{name} " in text and f"finish tombola-{name}\n" in text
    assert re.search(r"^ENTRYPOINT \[", text, flags=re.MULTILINE)


# ---- the SBOM -----------------------------------------------------------------------------------

def sbom(tmp_path, listed, **more):
    """Of a machine with the packages of `listed`, lines of dpkg-query."""
    (tmp_path / "dpkg-query").write_text(f"#!/bin/sh\nprintf '%s' '{listed}'\n")
    (tmp_path / "dpkg-query").chmod(0o755)
    done = subprocess.run([ROOT / "deploy" / "image" / "sbom", "tombola-x", "1.2.3"], capture_output=True, text=True, check=True,
                          env=environment({"PATH": f"{tmp_path}:/usr/bin:/bin", "SOURCE_DATE_EPOCH": "1769860800", **more}))
    return done.stdout


PACKAGES = ("installed\tlibpq5\t15.8-0+deb12u1\tamd64\tpostgresql-15\t15.8-0+deb12u1\tDebian \"PostgreSQL\" <a@b>\n"
            "config-files\told\t1\tall\told\t1\tX <a@b>\n"
            "installed\tlibstdc++6\t2:12.2~rc%\tamd64\tgcc-12\t12.2\tY\\\\Z <a@b>\n")


@pytest.mark.parametrize("status", [200, 503])
def test_a_notebook_is_asked_without_a_proxy(status):
    """docker hands in the proxies of its user's configuration."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            self.send_response(status if self.path == "/api" else 404)
            self.end_headers()

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    words = json.loads(re.search(r"CMD (\[.*8888.*\])$", DOCKERFILE, re.MULTILINE)[1])
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words[-1] = words[-1].replace("8888", str(server.server_port)).replace("timeout=2", f"timeout={PATIENCE_S}")
        done = subprocess.run(words, env=environment({"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}), capture_output=True,
                              timeout=PATIENCE_S, check=False)
        server.shutdown()
    assert (done.returncode == 0) == (status == 200), done.stderr


def test_the_sbom_names_what_is_installed(tmp_path):
    document = json.loads(sbom(tmp_path, PACKAGES))
    assert document["spdxVersion"] == "SPDX-2.3" and document["creationInfo"]["created"] == "2026-01-31T12:00:00Z"
    packages = {one["name"]: one for one in document["packages"]}
    assert set(packages) == {"tombola-x", "tombola", "libpq5", "libstdc++6"}
    assert packages["tombola"]["versionInfo"] == "1.2.3" and packages["tombola"]["licenseDeclared"] == "MIT"
    assert packages["libpq5"]["supplier"] == 'Organization: Debian "PostgreSQL"'
    assert packages["libpq5"]["sourceInfo"] == "built from: postgresql-15 15.8-0+deb12u1"
    url = packages["libstdc++6"]["externalRefs"][0]["referenceLocator"]
    assert re.fullmatch(r"pkg:deb/\w+/libstdc%2B%2B6@2%3A12\.2%7Erc%25\?arch=amd64&distro=[\w.-]+", url)
    ids = [one["SPDXID"] for one in document["packages"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one) for one in ids)
    contained = {one["relatedSpdxElement"] for one in document["relationships"] if one["relationshipType"] == "CONTAINS"}
    assert contained == {one["SPDXID"] for one in document["packages"]} - {"SPDXRef-Image"}


def test_the_sbom_is_the_same_bytes_for_the_same_packages(tmp_path):
    first, again = sbom(tmp_path, PACKAGES), sbom(tmp_path, "".join(reversed(PACKAGES.splitlines(keepends=True))), LANG="C.UTF-8", TZ="Asia/Tokyo")
    assert first == again
    other = json.loads(sbom(tmp_path, PACKAGES.replace("15.8", "15.9")))
    assert other["documentNamespace"] != json.loads(first)["documentNamespace"]
