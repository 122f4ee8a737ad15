# SPDX-License-Identifier: MIT
"""Each alert of deploy/k8s/overlays/monitoring fires by the fault that it is for, in a real Prometheus that asks a real sampler
and a real parameter server, with seconds in the place of minutes; and the dashboard has something to show. With
TOMBOLA_DASHBOARD=FILE.png it is drawn, to be looked at (deploy/install page)."""

import hashlib
import itertools
import json
import os
import signal
import threading
import time

import pytest

import dashboard_picture
import monitoring
from cluster_cases import ADDITIVE, Cluster
from service import PATIENCE_S, wait_for
from test_hanging_disk import disk  # noqa: F401, fixture
from test_trainer import store  # noqa: F401, fixture

pytestmark = pytest.mark.plain

TOKEN = "of the tests"
PICTURE = os.environ.get("TOMBOLA_DASHBOARD")


class Again(threading.Thread):
    """Does something again and again until stop()."""

    def __init__(self, action):
        super().__init__(daemon=True)
        self.action, self.ends = action, threading.Event()
        self.start()

    def run(self):
        while not self.ends.wait(0.05):
            self.action(self)

    def stop(self):
        self.ends.set()
        self.join(PATIENCE_S)


@pytest.fixture
def token(tmp_path):
    """Files with the token, and with its digest."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "tokens.json").write_text(json.dumps({"tokens": [{
        "name": "all", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "scopes": ["read", "draw", "admin"], "streams": ["*"]}]}))
    for name in ("token", "tokens.json"):
        (tmp_path / name).chmod(0o600)
    return tmp_path / "token", tmp_path / "tokens.json"


def test_each_alert_fires_by_its_fault(start, sampler, store, disk, token, tmp_path):  # noqa: F811
    secret, tokens = token
    server = sampler("--store", store, "--state", tmp_path / "state", "--seed", 1, "--token-file", tokens, env=disk.env)
    small = '{"name":"small","rows":"0:10","epochs":1,"lease_s":1}'
    assert server.request("POST", "/streams", small, headers={"Authorization": f"Bearer {TOKEN}"}).status == 201
    trained = Cluster(start, server, store, tmp_path / "run", servers=1, workers=3, staleness=0, save_secs=0.2, train_steps=10**9, **ADDITIVE)
    trained.env = disk.env | {"TOMBOLA_TOKEN": TOKEN}
    trained.start_server(0, token_file=tokens)
    for index in range(3):
        trained.start_worker(index, status_listen="127.0.0.1:0", token_file=tokens)
    worker = trained.workers[0].wait_for_log(r"status on http://(\S+)")[1]
    address = trained.servers[0].replace("localhost", "127.0.0.1")
    numbers = itertools.count()

    def pull(_):
        for query in (f"stream=small&size=10&worker=w&seq={next(numbers)}", "size=5"):
            server.request("GET", f"/batch?{query}", headers={"Authorization": f"Bearer {TOKEN}"})

    def hang(thread):
        disk.begin("fdatasync")
        thread.ends.wait(0.8)
        disk.end()

    threads = [Again(pull)]
    prometheus = monitoring.Prometheus(tmp_path / "prometheus", {"sampler": server.url.split("//")[1], "ps": address, "worker": worker}, secret)

    began = time.monotonic()

    def fires(*names):
        wait_for(lambda: set(names) <= prometheus.firing(), f"nobody hears of {names}")

    try:
        wait_for(prometheus.is_ready, "Prometheus does not answer")
        for expression in monitoring.expressions():
            wait_for(lambda asked=expression: prometheus.query(asked), f"the dashboard has nothing to show for {expression}")
        fires("TombolaGradientsStale")
        others = {"TombolaSamplerNotReady", "TombolaStateFailing", "TombolaNoWorkers", "TombolaTrainingStands", "TombolaWorkersWaitForData"}
        wait_for(lambda: not prometheus.firing() & others, "it fires without its fault")  # a late machine has some of them for a moment
        disk.begin("fsync", only="/run/")
        fires("TombolaNoCheckpoint")
        disk.end()
        server.signal(signal.SIGSTOP)
        fires("TombolaWorkersWaitForData")
        server.signal(signal.SIGCONT)
        wait_for(lambda: "TombolaWorkersWaitForData" not in prometheus.firing(), "it never ends")
        for one in trained.workers:
            one.signal(signal.SIGSTOP)
        fires("TombolaTrainingStands")
        for one in trained.workers:
            one.kill()
        fires("TombolaNoWorkers", "TombolaLeasesExpire", "TombolaPullersWait")
        disk.begin("fdatasync-fails")
        fires("TombolaStateFailing")
        disk.end()
        wait_for(lambda: "TombolaStateFailing" not in prometheus.firing(), "it never ends")
        threads.append(Again(hang))
        fires("TombolaCommitsSlow", "TombolaDrawsSlow")
        while threads:
            threads.pop().stop()
        server.stop()
        fires("TombolaSamplerNotReady")
        if PICTURE:
            assert all(dashboard_picture.draw(prometheus.url(), PICTURE, time.monotonic() - began, "3s").values())
    finally:
        for thread in threads:
            thread.stop()
        prometheus.stop()
