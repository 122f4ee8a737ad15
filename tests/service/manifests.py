# SPDX-License-Identifier: MIT
"""What must hold of Kubernetes' manifests for a cluster to run them, as far as their text shows it: fields that exist, names
that lead somewhere. A kustomization's documents come as kustomize would send them."""

import copy
import re

import yaml

# The fields that our manifests use and may use, of the API's reference; others are misspelt or want a line here.
METADATA = {"name", "namespace", "labels", "annotations"}
CONTAINER = {"name", "image", "imagePullPolicy", "command", "args", "env", "envFrom", "ports", "resources", "volumeMounts", "securityContext",
             "terminationMessagePolicy", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "workingDir"}
POD = {"containers", "initContainers", "volumes", "restartPolicy", "automountServiceAccountToken", "enableServiceLinks", "securityContext",
       "terminationGracePeriodSeconds", "runtimeClassName", "nodeSelector", "tolerations", "affinity", "imagePullSecrets"}
KINDS = {  # kind -> apiVersion, fields of its spec, those without which it is refused
    "Deployment": ("apps/v1", {"replicas", "strategy", "selector", "template", "minReadySeconds", "progressDeadlineSeconds"}, {"selector", "template"}),
    "Job": ("batch/v1", {"backoffLimit", "template", "completions", "parallelism", "ttlSecondsAfterFinished", "activeDeadlineSeconds",
                         "podFailurePolicy"}, {"template"}),
    "StatefulSet": ("apps/v1", {"replicas", "serviceName", "podManagementPolicy", "selector", "template", "updateStrategy"},
                    {"serviceName", "selector", "template"}),
    "ConfigMap": ("v1", set(), set()),
    "NetworkPolicy": ("networking.k8s.io/v1", {"podSelector", "policyTypes", "ingress", "egress"}, {"podSelector"}),
    "PodDisruptionBudget": ("policy/v1", {"maxUnavailable", "minAvailable", "selector"}, {"selector"}),
    "HorizontalPodAutoscaler": ("autoscaling/v2", {"scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"},
                                {"scaleTargetRef", "maxReplicas", "metrics"}),
    "TFJob": ("kubeflow.org/v1", {"tfReplicaSpecs", "runPolicy", "successPolicy", "enableDynamicWorker"}, {"tfReplicaSpecs"}),
    "PodMonitor": ("monitoring.coreos.com/v1", {"selector", "podMetricsEndpoints"}, {"selector", "podMetricsEndpoints"}),
    "PrometheusRule": ("monitoring.coreos.com/v1", {"groups"}, {"groups"}),
    "Service": ("v1", {"selector", "ports", "type", "clusterIP", "publishNotReadyAddresses"}, {"selector", "ports"}),
    "Namespace": ("v1", set(), set()),
    "PersistentVolume": ("v1", {"capacity", "accessModes", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions", "claimRef", "nfs",
                                "hostPath"}, {"capacity", "accessModes"}),
    "PersistentVolumeClaim": ("v1", {"accessModes", "storageClassName", "volumeName", "resources"}, {"accessModes", "resources"}),
}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
PROBE = {"httpGet", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold", "initialDelaySeconds"}
UNITS = {"": 1, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


# ---- what kustomize makes -----------------------------------------------------------------------

def merged(base, patch):
    """A strategic merge: lists of things with names are merged by name, null removes."""
    if isinstance(base, dict) and isinstance(patch, dict):
        both = {key: merged(base.get(key), value) for key, value in patch.items() if value is not None}
        return {key: value for key, value in {**base, **both}.items() if patch.get(key, value) is not None}
    if isinstance(base, list) and isinstance(patch, list) and all(isinstance(one, dict) and "name" in one for one in base + patch):
        patches = {one["name"]: one for one in patch}
        kept = [merged(one, patches.pop(one["name"], {})) for one in base]
        return list(patches.values()) + kept
    return patch


def rendered(folder):
    """The documents of a kustomization, as `kubectl kustomize` prints them (but for the order of their keys)."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    documents = []
    for path in [folder / name for name in kustomization.get("resources", [])]:
        documents += rendered(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for entry in kustomization.get("configMapGenerator", []):
        options = kustomization["generatorOptions"]
        assert options["disableNameSuffixHash"], f"{folder}: names with a hash are not rendered here"
        documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": entry["name"], "labels": options["labels"]},
                          "data": {name: (folder / name).read_text() for name in entry["files"]}})
    for entry in kustomization.get("patches", []):
        for patch in yaml.safe_load_all(entry["patch"] if "patch" in entry else (folder / entry["path"]).read_text()):
            found = [i for i, one in enumerate(documents) if name_of(one) == name_of(patch)]
            assert len(found) == 1, f"{folder}: there is no {name_of(patch)} to change"
            known = {one["name"] for one in all_containers(documents[found[0]])}
            assert {one["name"] for one in all_containers(patch)} <= known, f"{folder}: it adds a container to {name_of(patch)}"
            if patch.get("$patch") == "delete":
                documents.pop(found[0])
            else:
                documents[found[0]] = merged(documents[found[0]], patch)
    images = list(kustomization.get("images", []))
    for path in kustomization.get("components", []):
        images += yaml.safe_load((folder / path / "kustomization.yaml").read_text())["images"]
    documents = copy.deepcopy(documents)
    for one in [one for document in documents for one in all_containers(document)]:
        one["image"] = next((f"{image['newName']}:{image['newTag']}" for image in images if image["name"] == one["image"].rsplit(":", 1)[0]), one["image"])
    for document in documents:
        if "namespace" in kustomization and document["kind"] not in ("Namespace", "PersistentVolume"):
            document["metadata"]["namespace"] = kustomization["namespace"]
    return documents


def name_of(document):
    return document["kind"], document["metadata"]["name"]


def pod_of(document):
    return document.get("spec", {}).get("template", {}).get("spec", {})


def all_containers(document):
    return pod_of(document).get("initContainers", []) + pod_of(document).get("containers", [])


# ---- what must hold -----------------------------------------------------------------------------

def amount(text):
    number, unit = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text)).groups()
    return float(number) * UNITS[unit]


def only(what, found, allowed, needed=()):
    assert set(found) <= set(allowed), f"{what}: {sorted(set(found) - set(allowed))} is no field of it"
    assert set(needed) <= set(found), f"{what} has no {sorted(set(needed) - set(found))}"


def unique(what, names):
    assert len(set(names)) == len(names), f"{what} has a name twice: {names}"


def check(documents):
    """AssertionError with what is wrong, for documents that are applied together."""
    unique("the manifests", [name_of(one) for one in documents])
    namespaces = {one["metadata"]["name"] for one in documents if one["kind"] == "Namespace"}
    for one in documents:
        what = " ".join(name_of(one))
        version, fields, needed = KINDS[one["kind"]]
        assert one["apiVersion"] == version, f"{what}: apiVersion {one['apiVersion']}"
        only(what, one, {"apiVersion", "kind", "metadata", "data" if one["kind"] == "ConfigMap" else "spec"})
        only(what, one["metadata"], METADATA, {"name"})
        only(what, one.get("spec", {}), fields, needed)
        if one["kind"] not in ("Namespace", "PersistentVolume"):
            assert one["metadata"]["namespace"] in namespaces, f"{what}: there is no namespace {one['metadata']['namespace']}"
        if pod_of(one):
            check_pod(what, one, documents)
    for claim in of_kind(documents, "PersistentVolumeClaim"):
        check_claim(claim, documents)
    for service in of_kind(documents, "Service"):
        check_service(service, documents)
    for settings in [one for one in of_kind(documents, "ConfigMap") if name_of(one)[1] == "settings"]:
        check_settings(settings["data"], documents)
    for autoscaler in of_kind(documents, "HorizontalPodAutoscaler"):
        check_autoscaler(autoscaler, documents)
    for budget in of_kind(documents, "PodDisruptionBudget"):
        wanted = budget["spec"]["selector"]["matchLabels"]
        assert selected(wanted, documents), f"{' '.join(name_of(budget))} is for no pods"


def check_autoscaler(autoscaler, documents):
    """What it scales has no number of its own, and requests what it is measured by."""
    what, spec = " ".join(name_of(autoscaler)), autoscaler["spec"]
    target, = [one for one in documents if one["apiVersion"] == spec["scaleTargetRef"]["apiVersion"] and
               name_of(one) == (spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"])] or [None]
    assert target, f"{what}: there is no {spec['scaleTargetRef']['kind']} {spec['scaleTargetRef']['name']}"
    assert "replicas" not in target["spec"], f"{what}: kubectl apply sets its target back"
    for metric in spec["metrics"]:
        assert all(metric["resource"]["name"] in one["resources"]["requests"] for one in all_containers(target)), f"{what}: nothing to measure by"


def of_kind(documents, kind):
    return [one for one in documents if one["kind"] == kind]


def check_pod(what, document, documents):
    spec, pod = document["spec"], pod_of(document)
    labels = spec["template"]["metadata"]["labels"]
    only(what, pod, POD, {"containers"})
    if document["kind"] == "Job":
        assert pod.get("restartPolicy") in ("Never", "OnFailure"), f"{what}: a Job's pods need a restartPolicy"
    else:
        wanted = spec["selector"]["matchLabels"]
        assert wanted and wanted.items() <= labels.items(), f"{what} selects {wanted}, and makes {labels}"
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", f"{what}: not restricted"
    unique(what, [one["name"] for one in all_containers(document)])
    unique(what, [one["name"] for one in pod.get("volumes", [])])
    claims = {one["metadata"]["name"] for one in of_kind(documents, "PersistentVolumeClaim")}
    for volume in pod.get("volumes", []):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        assert claim is None or claim in claims, f"{what}: there is no claim {claim}"
        only(what, volume, {"name", "persistentVolumeClaim", "emptyDir", "secret"}, {"name"})
        assert "secret" not in volume or pod["securityContext"].get("fsGroup") == 10001, f"{what} cannot read {volume['name']}"
    for one in all_containers(document):
        check_container(f"{what}, {one['name']}", one, pod, documents)


def check_container(what, container, pod, documents):
    only(what, container, CONTAINER, {"image", "resources", "securityContext"})
    security, resources = container["securityContext"], container["resources"]
    assert security["allowPrivilegeEscalation"] is False and security["capabilities"]["drop"] == ["ALL"], f"{what}: not restricted"
    only(what, resources, {"requests", "limits"}, {"requests", "limits"})
    only(what, resources["requests"], {"cpu", "memory"}, {"cpu", "memory"})
    only(what, resources["limits"], {"cpu", "memory", "nvidia.com/gpu"}, {"memory"})
    for key, limit in resources["limits"].items():
        assert amount(resources["requests"].get(key, limit)) <= amount(limit), f"{what} requests more {key} than its limit"
    mounts = container.get("volumeMounts", [])
    unique(what, [one["mountPath"] for one in mounts])
    for mount in mounts:
        only(what, mount, {"name", "mountPath", "readOnly", "subPath"}, {"name", "mountPath"})
        assert mount["name"] in [one["name"] for one in pod.get("volumes", [])], f"{what}: there is no volume {mount['name']}"
    said = " ".join(container.get("command", []) + container.get("args", []))
    for path in re.findall(r"(?<![\w/.])/(?:datanfs|tmp)\b", said):
        assert path in [one["mountPath"] for one in mounts], f"{what} uses {path}, and does not mount it"
    settings = {key for one in of_kind(documents, "ConfigMap") for source in container.get("envFrom", [])
                if source["configMapRef"]["name"] == one["metadata"]["name"] for key in one["data"]}
    names = settings | {one["name"] for one in container.get("env", [])}
    for name in re.findall(r"\$\(([A-Z_]+)\)|\$\{?((?:TOMBOLA_|SOURCE)[A-Z_]*)", said):
        name = name[0] or name[1]
        assert name in names | set(re.findall(r"([A-Z_]+)=", said)), f"{what} uses ${name}, which nothing sets"
    ports = {one["name"] for one in container.get("ports", [])}
    for probe in [container[key] for key in PROBES if key in container]:
        only(what, probe, PROBE, {"httpGet"})
        only(what, probe["httpGet"], {"path", "port"}, {"path", "port"})
        assert probe["httpGet"]["port"] in ports, f"{what}: a probe asks port {probe['httpGet']['port']}, of {ports}"
    listens = re.search(r"--listen=[\d.]+:(\d+)", said)
    assert not listens or int(listens[1]) in [one["containerPort"] for one in container["ports"]], f"{what} listens on another port"
    check_urls(what, said, documents)


def check_urls(what, said, documents):
    services = {one["metadata"]["name"]: [port["port"] for port in one["spec"]["ports"]] for one in of_kind(documents, "Service")}
    for host, port in re.findall(r"http://([a-z][\w.-]*)(?::(\d+))?", said):
        assert int(port or 80) in services.get(host, []), f"{what} asks {host}:{port or 80}, which no service is"


def check_settings(settings, documents):
    """The sampler and the servers that trainers are told of are there."""
    check_urls("the settings", " ".join(settings.values()), documents)
    for name in ("TOMBOLA_STORE", "TOMBOLA_LOGDIR", "SOURCE", "TEST_STORE"):
        assert re.match(r"(\w+:)?/datanfs/\w", settings[name]), f"{name} is not on the volume"
    if "TOMBOLA_PS_HOSTS" not in settings:
        return
    servers, = of_kind(documents, "StatefulSet")
    name, spec = servers["metadata"]["name"], servers["spec"]
    service, = [one["spec"] for one in of_kind(documents, "Service") if one["metadata"]["name"] == spec["serviceName"]]
    assert service.get("clusterIP") == "None" and service.get("publishNotReadyAddresses"), "servers find each other before they are ready"
    assert service["selector"].items() <= spec["template"]["metadata"]["labels"].items()
    port, = service["ports"]
    expected = [f"{name}-{index}.{spec['serviceName']}:{port['port']}" for index in range(spec["replicas"])]
    assert settings["TOMBOLA_PS_HOSTS"].split(",") == expected, f"TOMBOLA_PS_HOSTS is not {expected}"
    assert port["port"] == next(one["containerPort"] for one in all_containers(servers)[-1]["ports"] if one["name"] == port["targetPort"])
    assert spec["podManagementPolicy"] == "Parallel", "servers wait for each other"


def check_claim(claim, documents):
    spec, what = claim["spec"], " ".join(name_of(claim))
    volumes = [one["spec"] for one in of_kind(documents, "PersistentVolume") if one["metadata"]["name"] == spec["volumeName"]]
    assert volumes, f"{what}: there is no volume {spec['volumeName']}"
    volume = volumes[0]
    assert volume["claimRef"] == {key: claim["metadata"][key] for key in ("namespace", "name")}, f"{what}: its volume is for {volume['claimRef']}"
    assert set(spec["accessModes"]) <= set(volume["accessModes"]), f"{what}: {spec['accessModes']} of {volume['accessModes']}"
    assert spec["storageClassName"] == volume["storageClassName"], f"{what}: another storageClassName than its volume"
    assert amount(spec["resources"]["requests"]["storage"]) <= amount(volume["capacity"]["storage"]), f"{what} is larger than its volume"
    assert ("nfs" in volume) + ("hostPath" in volume) == 1, f"{what}: its volume has no source, or two"


def selected(wanted, documents):
    """What makes pods with these labels."""
    return [one for one in documents if pod_of(one) and wanted.items() <= one["spec"]["template"]["metadata"]["labels"].items()]


def check_service(service, documents):
    what, wanted = " ".join(name_of(service)), service["spec"]["selector"]
    found = selected(wanted, documents)
    assert wanted and len(found) == 1, f"{what} selects the pods of {[name_of(one) for one in found]}"
    ports = {port["name"] for one in all_containers(found[0]) for port in one.get("ports", [])}
    for port in service["spec"]["ports"]:
        assert port["targetPort"] in ports, f"{what}: no container has a port {port['targetPort']}"
