# SPDX-License-Identifier: MIT
"""deploy/compose.yaml: names that lead somewhere, options that the programs know, containers without rights."""

import re
import shutil
import subprocess

import pytest
import yaml

from conftest import PATIENCE_S, ROOT, environment, program

pytestmark = pytest.mark.plain

FILE = ROOT / "deploy" / "compose.yaml"
SERVICES = yaml.safe_load(FILE.read_text())["services"]


def test_hosts_are_services():
    for name, service in SERVICES.items():
        settings = service.get("environment", {})
        hosts = [*re.findall(r"//([\w-]+):", " ".join(settings.values())),
                 *(host.split(":")[0] for host in settings.get("TOMBOLA_PS_HOSTS", "").split(",") if host), *service.get("depends_on", {})]
        assert set(hosts) <= set(SERVICES), name
    servers = SERVICES["worker"]["environment"]["TOMBOLA_PS_HOSTS"].split(",")
    assert [SERVICES[host.split(":")[0]]["command"][1:] for host in servers] == [
        ["--job_name=ps", f"--task_index={index}"] for index in range(len(servers))]


def test_containers_have_no_rights():
    for name, service in SERVICES.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["user"] == "10001:10001", name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), "it lets everybody in"


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if "entrypoint" not in service])
def test_options_are_known(name):
    service = SERVICES[name]
    done = subprocess.run([program(service["image"].removeprefix("tombola-")), *service["command"], "--no-such-option"], capture_output=True,
                          env=environment(service.get("environment")), text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2 and "no-such-option" in done.stderr, done.stderr


def test_compose_takes_it():
    if not shutil.which("docker-compose"):
        pytest.skip("docker-compose is not installed")
    done = subprocess.run(["docker-compose", "-f", FILE, "config", "--services"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0 and set(done.stdout.split()) == set(SERVICES), done.stderr
