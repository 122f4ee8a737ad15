# SPDX-License-Identifier: MIT
"""The alerts and the dashboard of deploy/k8s/overlays/monitoring, by Prometheus' own rules; test_alerts.py in tests/fault
has the real faults."""

import json
import subprocess

import pytest
import yaml

import monitoring
from conftest import PATIENCE_S, from_pypi

pytestmark = pytest.mark.plain

MINUTES = 60

# name -> what the series look like while nothing is wrong, in promtool's words: a sample each minute.
HEALTHY = {
    "tombola_sampler_ready": "1x60",
    'tombola_sampler_state_failing{stream="default"}': "0x60",
    'tombola_sampler_commit_seconds_bucket{le="0.25"}': "0+600x60",
    'tombola_sampler_commit_seconds_bucket{le="1"}': "0+602x60",
    'tombola_sampler_commit_seconds_bucket{le="+Inf"}': "0+602x60",
    'tombola_sampler_request_seconds_bucket{path="/batch",le="0.5"}': "0+600x60",
    'tombola_sampler_request_seconds_bucket{path="/batch",le="1"}': "0+602x60",
    'tombola_sampler_request_seconds_bucket{path="/batch",le="+Inf"}': "0+602x60",
    'tombola_sampler_requests_total{path="/batch",stream="default",status="200"}': "0+600x60",
    'tombola_sampler_requests_total{path="/batch",stream="default",status="503"}': "0+500x60",
    'tombola_sampler_redelivered_batches_total{stream="default"}': "0+5x60",
    'tombola_ps_global_step{pod="ps-0"}': "0+1000x60",
    'tombola_ps_train_steps{pod="ps-0"}': "1000000x60",
    'tombola_ps_saved_step{pod="ps-0"}': "0+1000x60",
    'tombola_ps_workers{pod="ps-0"}': "2x60",
    'tombola_ps_pushes_total{pod="ps-0"}': "0+1000x60",
    'tombola_ps_late_pushes_total{pod="ps-0"}': "0+90x60",
    'tombola_worker_waited_seconds_total{pod="worker-0"}': "0+29x60",
}
# alert -> the series of its fault, how many minutes it has to last.
FAULTS = {
    "TombolaSamplerNotReady": ({"tombola_sampler_ready": "0x60"}, 2),
    "TombolaStateFailing": ({'tombola_sampler_state_failing{stream="default"}': "1x60"}, 0),
    "TombolaCommitsSlow": ({'tombola_sampler_commit_seconds_bucket{le="0.25"}': "0+550x60"}, 11),
    "TombolaDrawsSlow": ({'tombola_sampler_request_seconds_bucket{path="/batch",le="0.5"}': "0+550x60"}, 11),
    "TombolaPullersWait": ({'tombola_sampler_requests_total{path="/batch",stream="default",status="503"}': "0+700x60"}, 11),
    "TombolaLeasesExpire": ({'tombola_sampler_redelivered_batches_total{stream="default"}': "0+7x60"}, 19),
    "TombolaTrainingStands": ({'tombola_ps_global_step{pod="ps-0"}': "1000x60", 'tombola_ps_saved_step{pod="ps-0"}': "1000x60"}, 5),
    "TombolaNoWorkers": ({'tombola_ps_workers{pod="ps-0"}': "0x60"}, 10),
    "TombolaGradientsStale": ({'tombola_ps_late_pushes_total{pod="ps-0"}': "0+110x60"}, 11),
    "TombolaWorkersWaitForData": ({'tombola_worker_waited_seconds_total{pod="worker-0"}': "0+31x60"}, 15),
    "TombolaNoCheckpoint": ({'tombola_ps_saved_step{pod="ps-0"}': "0x60"}, 16),
}


def judge(tmp_path, series, expected):
    """promtool's word on rules and series; `expected`: (minute, names of the alerts that fire then)."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(monitoring.rules()))
    fires = [{"eval_time": f"{minute}m", "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
              "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]} for minute, names in expected]
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({
        "rule_files": ["rules.yaml"], "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": [{"series": name, "values": value} for name, value in series.items() if value],
                   "promql_expr_test": fires}]}))
    done = subprocess.run(["promtool", "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_fires_while_nothing_is_wrong(tmp_path):
    judge(tmp_path, HEALTHY, [(minute, ()) for minute in (0, 1, 15, 40, MINUTES)])


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_lasts_fires_its_alert(name, tmp_path):
    changes, minutes = FAULTS[name]
    assert changes.keys() <= HEALTHY.keys()
    early = [(minutes - 1, ())] if minutes else []
    judge(tmp_path, HEALTHY | changes, [*early, (minutes, (name,)), (MINUTES, (name,))])


def test_a_sampler_that_is_gone(tmp_path):
    judge(tmp_path, {name: "" if "sampler" in name else value for name, value in HEALTHY.items()}, [(1, ()), (2, ("TombolaSamplerNotReady",))])


def test_a_training_that_is_through_is_no_fault(tmp_path):
    """Its workers are gone, and no step comes any more."""
    judge(tmp_path, HEALTHY | {'tombola_ps_global_step{pod="ps-0"}': "1000000x60", 'tombola_ps_saved_step{pod="ps-0"}': "1000000x60",
                               'tombola_ps_pushes_total{pod="ps-0"}': "0x60", 'tombola_ps_late_pushes_total{pod="ps-0"}': "0x60",
                               'tombola_ps_workers{pod="ps-0"}': "0x60"}, [(minute, ()) for minute in (1, 30, MINUTES)])


def test_every_alert_has_a_fault_and_a_text():
    alerts = [rule for group in monitoring.rules()["groups"] for rule in group["rules"]]
    assert {one["alert"] for one in alerts} == set(FAULTS)
    for one in alerts:
        assert one["labels"]["severity"] in ("warning", "critical"), one["alert"]
        assert one["annotations"]["summary"].endswith("."), one["alert"]


# ---- the dashboard ------------------------------------------------------------------------------

def test_the_dashboard_is_one():
    """Grafana draws panels of the same id as one, and those at the same place over each other."""
    panels = monitoring.dashboard()["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    taken = set()
    for one in panels:
        place = one["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and all(x < 24 for x, _ in cells), one["title"]
        taken |= cells
    for one in [one for one in panels if one["type"] != "row"]:
        assert one["description"] and one["datasource"]["uid"] == "${datasource}" and one["fieldConfig"]["defaults"]["unit"], one["title"]
        assert len({target["refId"] for target in one["targets"]}) == len(one["targets"]), one["title"]


def test_the_dashboard_is_in_its_config_map():
    folder = monitoring.FOLDER
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert kustomization["configMapGenerator"][0]["files"] == ["dashboard.json"]
    assert json.loads((folder / "dashboard.json").read_text())["title"] == "Tombola"


# Reads a dashboard into Grafana's types and writes it out of them: what they do not know is lost.
THROUGH_GRAFANAS_TYPES = """
import json, sys
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard
plugins.register_default_plugins()
print(encoder.JSONEncoder().encode(dashboard.Dashboard.from_json(json.load(sys.stdin))))
"""


def lost(ours, theirs, place=""):
    """Places of what `theirs` lacks of `ours`, or has otherwise."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [one for name in ours for one in (lost(ours[name], theirs[name], f"{place}/{name}") if name in theirs else [f"{place}/{name}"])]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [one for number, pair in enumerate(zip(ours, theirs)) for one in lost(*pair, f"{place}/{number}")]
    return [] if ours == theirs else [place]


def test_grafana_knows_every_field():
    python = from_pypi("grafana-foundation-sdk") / "bin" / "python"

    def through(text):
        done = subprocess.run([python, "-c", THROUGH_GRAFANAS_TYPES], input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return lost(json.loads(text), json.loads(done.stdout))

    text = json.dumps(monitoring.dashboard())
    assert not through(text)
    misspelt = through(text.replace("gridPos", "gridpos", 1).replace("legendFormat", "legendformat", 1))
    assert len(misspelt) == 2 and misspelt[0].endswith("gridpos") and misspelt[1].endswith("legendformat"), misspelt
