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
       "terminationGracePeriodSeconds", "nodeSelector", "tolerations", "affinity", "imagePullSecrets"}
KINDS = {  # kind -> apiVersion, fields of its spec, those without which it is refused
    "Deployment": ("apps/v1", {"replicas", "strategy", "selector", "template", "minReadySeconds", "progressDeadlineSeconds"}, {"selector", "template"}),
    "Job": ("batch/v1", {"backoffLimit", "template", "completions", "parallelism", "ttlSecondsAfterFinished", "activeDeadlineSeconds"}, {"template"}),
    "Service": ("v1", {"selector", "ports", "type", "clusterIP"}, {"selector", "ports"}),
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
        return [merged(one, patches.pop(one["name"], {})) for one in base] + list(patches.values())
    return patch


def rendered(folder):
    """The documents of a kustomization, as `kubectl kustomize` prints them (but for the order of their keys)."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    documents = []
    for path in [folder / name for key in ("resources", "bases") for name in kustomization.get(key, [])]:
        documents += rendered(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for path in [one["path"] for one in kustomization.get("patches", [])] + kustomization.get("patchesStrategicMerge", []):
        for patch in yaml.safe_load_all((folder / path).read_text()):
            found = [i for i, one in enumerate(documents) if name_of(one) == name_of(patch)]
            assert len(found) == 1, f"{folder / path}: there is no {name_of(patch)} to change"
            known = {one["name"] for one in all_containers(documents[found[0]])}
            assert {one["name"] for one in all_containers(patch)} <= known, f"{folder / path}: it adds a container to {name_of(patch)}"
            documents[found[0]] = merged(documents[found[0]], patch)
    images = list(kustomization.get("images", []))
    for path in kustomization.get("components", []):
        images += yaml.safe_load((folder / path / "kustomization.yaml").read_text())["images"]
    documents = copy.deepcopy(documents)
    for one in [one for document in documents for one in all_containers(document)]:
        one["image"] = next((f"{image['newName']}:{image['newTag']}" for image in images if image["name"] == one["image"]), one["image"])
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
        only(what, one, {"apiVersion", "kind", "metadata", "spec"})
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
        only(what, volume, {"name", "persistentVolumeClaim", "emptyDir"}, {"name"})
    for one in all_containers(document):
        check_container(f"{what}, {one['name']}", one, pod, documents)


def check_container(what, container, pod, documents):
    only(what, container, CONTAINER, {"image", "resources", "securityContext"})
    security, resources = container["securityContext"], container["resources"]
    assert security["allowPrivilegeEscalation"] is False and security["capabilities"]["drop"] == ["ALL"], f"{what}: not restricted"
    only(what, resources, {"requests", "limits"}, {"requests", "limits"})
    only(what, resources["requests"], {"cpu", "memory"}, {"cpu", "memory"})
    only(what, resources["limits"], {"cpu", "memory"}, {"memory"})
    for key, limit in resources["limits"].items():
        assert amount(resources["requests"][key]) <= amount(limit), f"{what} requests more {key} than its limit"
    mounts = container.get("volumeMounts", [])
    unique(what, [one["mountPath"] for one in mounts])
    for mount in mounts:
        only(what, mount, {"name", "mountPath", "readOnly", "subPath"}, {"name", "mountPath"})
        assert mount["name"] in [one["name"] for one in pod.get("volumes", [])], f"{what}: there is no volume {mount['name']}"
    said = " ".join(container.get("command", []) + container.get("args", []))
    for path in re.findall(r"(?<![\w/.])/(?:datanfs|tmp)\b", said):
        assert path in [one["mountPath"] for one in mounts], f"{what} uses {path}, and does not mount it"
    ports = {one["name"] for one in container.get("ports", [])}
    for probe in [container[key] for key in PROBES if key in container]:
        only(what, probe, PROBE, {"httpGet"})
        only(what, probe["httpGet"], {"path", "port"}, {"path", "port"})
        assert probe["httpGet"]["port"] in ports, f"{what}: a probe asks port {probe['httpGet']['port']}, of {ports}"
    listens = re.search(r"--listen=[\d.]+:(\d+)", said)
    assert not listens or int(listens[1]) in [one["containerPort"] for one in container["ports"]], f"{what} listens on another port"
    services = {one["metadata"]["name"]: [port["port"] for port in one["spec"]["ports"]] for one in of_kind(documents, "Service")}
    for host, port in re.findall(r"http://([a-z][\w.-]*)(?::(\d+))?", said):
        assert int(port or 80) in services.get(host, []), f"{what} asks {host}:{port or 80}, which no service is"


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


def check_service(service, documents):
    what, wanted = " ".join(name_of(service)), service["spec"]["selector"]
    found = [one for one in of_kind(documents, "Deployment") if wanted.items() <= one["spec"]["template"]["metadata"]["labels"].items()]
    assert wanted and len(found) == 1, f"{what} selects the pods of {[name_of(one) for one in found]}"
    ports = {port["name"] for one in all_containers(found[0]) for port in one.get("ports", [])}
    for port in service["spec"]["ports"]:
        assert port["targetPort"] in ports, f"{what}: no container has a port {port['targetPort']}"
