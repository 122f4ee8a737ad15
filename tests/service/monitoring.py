# SPDX-License-Identifier: MIT
"""What deploy/k8s/overlays/monitoring says, for tests, and a Prometheus of their own that believes it."""

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "k8s" / "overlays" / "monitoring"
INTERVAL_S = 0.5


def rules():
    """The groups of the PrometheusRule, as Prometheus itself reads them."""
    return {"groups": yaml.safe_load((FOLDER / "alerts.yaml").read_text())["spec"]["groups"]}


def hasty(document):
    """The same rules with seconds in the place of minutes, and a tenth of the patience."""
    text = yaml.safe_dump(document, width=10**6)
    text = re.sub(r"\[\d+m\]", "[3s]", text)
    return re.sub(r"for: \d+m", "for: 1s", text)


def dashboard():
    return json.loads((FOLDER / "dashboard.json").read_text())


def expressions():
    """Of all panels, over the last seconds."""
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    return [one.replace("$__rate_interval", "3s") for one in found]


def ask(url, path, **query):
    """Data that the Prometheus at `url` answers with."""
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
        return json.loads(answer.read())["data"]


class Prometheus:
    """Debian's, on a free port of this machine; `targets`: job -> host:port. Asks them with the token in `token_file`."""

    def __init__(self, folder, targets, token_file):
        folder.mkdir()
        (folder / "rules.yaml").write_text(hasty(rules()))
        (folder / "prometheus.yaml").write_text(yaml.safe_dump({
            "global": {"scrape_interval": f"{int(INTERVAL_S * 1000)}ms", "scrape_timeout": f"{int(INTERVAL_S * 1000)}ms",
                       "evaluation_interval": f"{int(INTERVAL_S * 1000)}ms"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": job, "authorization": {"credentials_file": str(token_file)},
                                "static_configs": [{"targets": [address], "labels": {"pod": f"{job}-0"}}]} for job, address in targets.items()]}))
        self.log = folder / "log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
                                             "--web.listen-address=127.0.0.1:0"], stderr=log, stdout=log)

    def url(self):
        """Empty until it listens."""
        found = re.search(r'Listening on"? address=(?:\[::\]|[\d.]+):(\d+)', self.log.read_text())
        return f"http://127.0.0.1:{found[1]}" if found else ""

    def is_ready(self):
        """It answers questions: a little later than it listens."""
        try:
            return self.url() and urllib.request.urlopen(f"{self.url()}/-/ready", timeout=60).close() is None
        except urllib.error.HTTPError:
            return False

    def ask(self, path, **query):
        return ask(self.url(), path, **query)

    def query(self, expression):
        """Its samples now."""
        return self.ask("query", query=expression)["result"]

    def firing(self):
        """Names of alerts."""
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log.read_text()[-4000:]
