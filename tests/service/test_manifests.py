# SPDX-License-Identifier: MIT
"""deploy/k8s and the image: nobody is let in without a token, and one `kubectl apply` makes the tokens.

Without the training file the pod fails and says so; the commands of the READMEs apply what is there."""

import copy
import re
import shutil
import stat
import subprocess

import pytest
import yaml

import manifests
from conftest import PATIENCE_S, ROOT, environment, from_pypi, program, run_fails

pytestmark = pytest.mark.plain

K8S = ROOT / "deploy" / "k8s"
BASE = K8S / "base"


def test_every_setting_is_an_option_of_a_program():
    """Nobody reads a name that is misspelt, and training goes on with the default."""
    helps = "".join(subprocess.run([program(name), command, "--help"], capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
                    for name, command in (("sampler", "serve"), ("trainer", "train")))
    options = {f"TOMBOLA_{name.upper().replace('-', '_')}" for name in re.findall(r"^  --([a-z0-9-]+)", helps, re.MULTILINE)}
    texts = [re.sub("#.*", "", path.read_text()) for path in K8S.rglob("*.yaml")]
    written = {name for text in texts for name in re.findall(r"\bTOMBOLA_[A-Z0-9_]+", text)}
    variables = {"TOMBOLA_TOKEN", "TOMBOLA_CA"}  # have no option
    assert "TOMBOLA_TRAIN_STEPS" in written and written <= options | variables, written - options - variables


def container(file, kind, name):
    """The container of that name in the one resource of that kind."""
    pods = [one["spec"]["template"]["spec"] for one in yaml.safe_load_all((BASE / file).read_text()) if one["kind"] == kind]
    assert len(pods) == 1
    found = [one for one in pods[0].get("initContainers", []) + pods[0]["containers"] if one["name"] == name]
    assert len(found) == 1, f"{file} has no container {name}"
    return found[0]


def settings(folder, **more):
    """The environment that every pod has, with `folder` in the place of /datanfs."""
    data = yaml.safe_load((BASE / "settings.yaml").read_text())["data"]
    return {key: value.replace("/datanfs", str(folder)) for key, value in data.items()} | more


def try_in(folder, pod, path=None, **more):
    """Runs the container's own command with `folder` in the place of /datanfs."""
    words = [word.replace("/datanfs", str(folder)) for word in pod["command"] + pod["args"]]
    env = environment(settings(folder, **more) | ({"PATH": f"{path}:/usr/bin:/bin"} if path else {}))
    return subprocess.run(words, capture_output=True, text=True, env=env, timeout=PATIENCE_S, check=False)


def run_in(folder, pod, path=None, **more):
    done = try_in(folder, pod, path, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def reached(folder):
    """The documents that a kustomization leads to, and the images that it renames."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    images = {one["name"]: one["newName"] for one in kustomization.get("images", [])}
    patches = [one["path"] for one in kustomization.get("patches", []) if "path" in one]
    names = [name for key in ("resources", "components") for name in kustomization.get(key, [])]
    documents = []
    for path in [folder / name for name in names + patches]:
        if path.is_dir():
            inner, renamed = reached(path)
            documents += inner
            images |= renamed
        else:
            documents += yaml.safe_load_all(path.read_text())
    return documents, images


def containers(documents):
    """Those of the manifests themselves: a patch's have no image."""
    pods = [one["spec"]["template"]["spec"] for one in documents if manifests.pod_of(one)]
    return [one for pod in pods for one in pod.get("initContainers", []) + pod["containers"] if "image" in one]


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
    names = "metrics", "train", "admin"
    assert [status("GET", "/metrics", name) for name in names] == [200, 200, 200]
    assert [status("GET", "/streams/default", name) for name in names] == [200, 200, 200]
    assert [status("GET", "/batch?size=1", name) for name in names] == [403, 200, 200]
    assert [status("POST", "/streams/default/pause", name) for name in names] == [403, 403, 200]
    assert not re.search("may read it|may write it", server.stderr)


def test_the_tokens_are_made_once_and_hidden(volume):
    files = sorted((volume / "tokens").iterdir())
    assert [one.name for one in files] == ["admin", "metrics", "tokens.json", "train"]
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in files)
    before = {one.name: one.read_text() for one in files}
    made = [text for name, text in before.items() if name != "tokens.json"]
    assert all(re.fullmatch(r"[0-9a-f]{64}", text) and text not in before["tokens.json"] for text in made) and len(set(made)) == 3
    run_in(volume, container("sampler.yaml", "Deployment", "tokens"))
    assert {one.name: one.read_text() for one in sorted((volume / "tokens").iterdir())} == before


@pytest.mark.parametrize("file, kind, name, pod, says", [
    ("servers.yaml", "StatefulSet", "ps", "ps-1", ["--job_name=ps", "--task_index=1", "--token_file=/datanfs/tokens/tokens.json"]),
    ("workers.yaml", "Job", "worker", "worker-abcde", ["--job_name=worker", r"--task_index=[1-9]\d*", r"--status_listen=0\.0\.0\.0:2223",
                                                          "--token_file=/datanfs/tokens/tokens.json"]),
    ("evaluator.yaml", "Job", "evaluator", "evaluator-abcde", ["--job_name=evaluator", r"--test_store=\$\(TEST_STORE\)"])])
def test_trainers_send_their_token_and_know_who_they_are(volume, tmp_path, file, kind, name, pod, says):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "tombola-trainer").write_text('#!/bin/sh\nprintf "%s\\n" "$TOMBOLA_TOKEN" "$@"\n')
    (fake / "tombola-trainer").chmod(0o755)
    said = run_in(volume, container(file, kind, name), fake, POD=pod).splitlines()
    assert said[0] == (volume / "tokens" / "train").read_text()
    assert said[1] == "train" and len(said) == 2 + len(says)
    for word, pattern in zip(said[2:], says):
        assert re.fullmatch(pattern.replace("/datanfs", str(volume)), word), word


def test_pods_wait_until_the_sampler_is_ready(sampler, tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "tombola-trainer").symlink_to(program("trainer"))
    (fake / "sleep").write_text("#!/bin/sh\n")
    (fake / "sleep").chmod(0o755)
    server = sampler("--store", "range:100?labels=2")
    for file, kind in (("servers.yaml", "StatefulSet"), ("workers.yaml", "Job"), ("evaluator.yaml", "Job")):
        wait = container(file, kind, "wait-for-sampler")
        run_in(tmp_path, wait, fake, TOMBOLA_SAMPLER=server.url)
        shorter = wait | {"args": [wait["args"][0].replace("seq 600", "seq 3")]}
        done = try_in(tmp_path, shorter, fake, TOMBOLA_SAMPLER="http://127.0.0.1:1")
        assert done.returncode == 1 and done.stderr.count("http://127.0.0.1:1/readyz") == 3


@pytest.mark.parametrize("file, kind", [("servers.yaml", "StatefulSet"), ("workers.yaml", "Job"), ("evaluator.yaml", "Job")])
def test_a_pod_that_waits_ends_when_it_is_deleted(tmp_path, file, kind):
    """The kernel gives a container's first process no signal that it does not catch."""
    fake = tmp_path / "bin"
    fake.mkdir()
    for name, text in (("tombola-trainer", "exit 1"), ("sleep", "kill -TERM $PPID")):
        (fake / name).write_text(f"#!/bin/sh\n{text}\n")
        (fake / name).chmod(0o755)
    done = try_in(tmp_path, container(file, kind, "wait-for-sampler"), fake, TOMBOLA_SAMPLER="http://127.0.0.1:1")
    assert done.returncode == 143, "it did not catch SIGTERM"


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


# ---- data ---------------------------------------------------------------------------------------

@pytest.fixture
def path(tmp_path):
    """A folder for PATH with the loader in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tombola-loader").symlink_to(program("loader"))
    return folder


def test_a_mistyped_file_fails_the_pod(path, tmp_path):
    """It used to draw digits and train on them."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "mnist_trian.csv").write_text("1,0,255\n2,3,4\n")
    done = try_in(volume, container("sampler.yaml", "Deployment", "prepare"), path)
    assert done.returncode != 0 and f"cannot open {volume}/mnist_train.csv" in done.stderr
    assert [one.name for one in volume.iterdir()] == ["mnist_trian.csv"]
    run_in(volume, container("sampler.yaml", "Deployment", "tokens"))
    arguments = container("sampler.yaml", "Deployment", "sampler")["args"]
    words = [word.replace("/datanfs", str(volume)) for word in arguments if not word.startswith("--listen=")]
    run_fails("sampler", *words, "--listen=127.0.0.1:0", says=f"{volume}/samples.sqlite", status=None, env=settings(volume))


def test_the_file_is_imported_once(path, tmp_path):
    prepare = container("sampler.yaml", "Deployment", "prepare")
    (tmp_path / "mnist_train.csv").write_text("1,0,255\n2,3,4\n")
    assert "samples.sqlite" in run_in(tmp_path, prepare, path)
    (tmp_path / "mnist_train.csv").unlink()
    assert run_in(tmp_path, prepare, path) == ""


@pytest.mark.parametrize("store", ["sqlite:{0}/samples.sqlite?table=digits", "rows:{0}/samples.rows"])
def test_a_store_with_options_is_imported_once_too(path, tmp_path, store):
    """A second import would replace rows below the workers that read them."""
    prepare, store = container("sampler.yaml", "Deployment", "prepare"), store.format(tmp_path)
    (tmp_path / "mnist_train.csv").write_text("1,0,255\n2,3,4\n")
    assert "samples." in run_in(tmp_path, prepare, path, TOMBOLA_STORE=store)
    assert run_in(tmp_path, prepare, path, TOMBOLA_STORE=store) == ""


def test_rows_that_are_there_already_are_not_imported(path, tmp_path):
    prepare = container("sampler.yaml", "Deployment", "prepare")
    assert run_in(tmp_path, prepare, path, SOURCE="", TOMBOLA_STORE="postgresql://nowhere.example.com/rows") == ""


def test_one_overlay_alone_makes_demo_data(tmp_path):
    (tmp_path / "tombola-loader").write_text('#!/bin/sh\necho "$1"\n[ "$1" = import ] || : >"$2/mnist_train.csv"\n')
    (tmp_path / "tombola-loader").chmod(0o755)
    patches = yaml.safe_load_all((K8S / "overlays" / "single" / "pods.yaml").read_text())
    patch = next(patches)["spec"]["template"]["spec"]["initContainers"][0]
    prepare = container("sampler.yaml", "Deployment", "prepare") | patch
    assert patch["name"] == "prepare"
    assert [run_in(tmp_path, prepare, tmp_path).split() for _ in range(2)] == [["demo", "import"], ["import"]]
    said = [path for path in sorted(K8S.rglob("*.yaml")) if re.search(r"tombola-loader demo", path.read_text())]
    assert said == [K8S / "overlays" / "single" / "pods.yaml"]


# ---- the walk-through ---------------------------------------------------------------------------

def test_the_commands_apply_what_is_there():
    """Each folder that a README applies is complete, and every image in it comes from a registry."""
    text = "".join((ROOT / "deploy" / name).read_text() for name in ("README.md", "k8s/README.md"))
    folders = set(re.findall(r"kubectl apply -k ([\w/-]+)", text)) - {"deploy/k8s/overlays/single"}  # whose images are the node's
    assert len(folders) == 8
    for folder in folders:
        documents, images = reached(ROOT / folder)
        assert documents, folder
        for one in containers(documents):
            assert "/" in images.get(one["image"], one["image"]), f"{folder}: the image {one['image']} is in no registry"


def test_each_command_of_the_walk_through_is_run_on_a_cluster():
    """By tests/k8s/walk word for word; what other overlays and Secrets are for, by tests/k8s/run."""
    walk, run = ((ROOT / "tests" / "k8s" / name).read_text() for name in ("walk", "run"))
    lines = re.findall(r"^ {4,}(\S.*)", (K8S / "README.md").read_text(), re.M)
    commands = [line.split("   ")[0] for line in lines if "tests/k8s/" not in line]
    assert len(commands) > 20
    for command in commands:
        overlay = re.fullmatch(r"kubectl apply -k deploy/k8s/overlays/(\w+)", command)
        if overlay and overlay[1] == "nccl":
            continue  # several GPUs that share NCCL are on no cluster of the tests; the README says so
        if overlay and overlay[1] != "example":
            assert re.search(rf"\boverlay {overlay[1]} ", run), command
        elif "create secret" in command:
            assert "k create secret generic tokens --from-file" in run, command
        else:
            assert command.replace('"', "") in re.sub(r'[\\"]', "", walk), command


def test_the_last_line_of_a_log_is_what_the_program_said_last(tmp_path):
    """Where README.md reads it. A container's two streams have a pipe each, whose lines may be logged in another order."""
    (tmp_path / "tombola-trainer").write_text("#!/bin/sh\necho first >&2\necho last\n")
    (tmp_path / "tombola-trainer").chmod(0o755)
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "train").write_text("token")
    jobs = re.findall(r"kubectl -n tombola logs job/(\S+) --tail=1", (K8S / "README.md").read_text())
    assert sorted(jobs) == ["evaluate", "evaluator"]
    for job in jobs:
        file = {"evaluate": K8S / "evaluate" / "evaluate.yaml"}.get(job, f"{job}.yaml")
        assert run_in(tmp_path, container(file, "Job", job), tmp_path) == "first\nlast\n", job


def test_a_failed_container_says_why_in_its_status():
    for folder in (BASE, K8S / "evaluate"):
        for one in containers(reached(folder)[0]):
            assert one.get("terminationMessagePolicy") == "FallbackToLogsOnError", one["name"]


# ---- names that lead somewhere ------------------------------------------------------------------

OVERLAYS = ["base", *(f"overlays/{name}" for name in ("autoscale", "example", "gpu", "monitoring", "nccl", "single", "test", "tfjob", "tokens"))]


def applied(overlay="base"):
    """What a cluster has once the overlay, and the evaluation, were applied."""
    evaluate = K8S / overlay / "evaluate"
    beside = manifests.rendered(K8S / "overlays/example") if overlay == "overlays/monitoring" else []
    return beside + manifests.rendered(K8S / overlay) + manifests.rendered(evaluate if evaluate.is_dir() else K8S / "evaluate")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_names_lead_somewhere(overlay):
    manifests.check(applied(overlay))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_images_are_those_that_the_build_makes(overlay):
    """deploy/images TARGET, of the version of today; `base` leaves that to overlays, and `test` has a tag of its own."""
    targets = re.findall(r"^FROM base AS (\S+)$", (ROOT / "deploy/Dockerfile").read_text(), re.M)
    version = re.search(r"^AC_INIT\(\[tombola\], \[(.+)\]\)$", (ROOT / "configure.ac").read_text(), re.M)[1]
    tag = {"base": "", "overlays/test": ":test"}.get(overlay, f":{version}")
    images = set(re.findall(r"image: \S*(tombola-\S+)", yaml.safe_dump_all(manifests.rendered(K8S / overlay))))
    assert images <= {f"tombola-{target}{tag}" for target in targets} and (images or overlay == "overlays/monitoring")


def test_every_manifest_is_checked():
    checked = {K8S / overlay for overlay in OVERLAYS} | {K8S / "evaluate", K8S / "overlays/example/evaluate", K8S / "overlays/example/images"}
    assert {path.parent for path in K8S.rglob("kustomization.yaml")} == checked
    for folder in checked:
        named = re.findall(r"[\w-]+\.(?:yaml|json)", (folder / "kustomization.yaml").read_text())
        assert {path.name for path in folder.glob("*.*")} <= {*named, "kustomization.yaml"}, f"{folder}: a file that nothing applies"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_the_same(overlay):
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    done = subprocess.run(["kubectl", "kustomize", K8S / overlay], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr

    def sorted_by_name(documents):
        return sorted(documents, key=manifests.name_of)

    assert sorted_by_name(yaml.safe_load_all(done.stdout)) == sorted_by_name(manifests.rendered(K8S / overlay))


@pytest.mark.parametrize("version", ["1.31", "1.37"])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_schemas_of_current_versions_know_every_field(overlay, version, tmp_path):
    tool = from_pypi("kubernetes-validate") / "bin" / "kubernetes-validate"
    documents = [one for one in manifests.rendered(K8S / overlay) if "." not in one["apiVersion"].split("/")[0] or ".k8s.io/" in one["apiVersion"]]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents))
    done = subprocess.run([tool, "--strict", "-k", version, tmp_path / "all.yaml"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed for resource ") == len(documents) > 0


def test_workers_that_meet_bad_input_are_not_repeated():
    """The exit statuses of trainer/README.md."""
    job, = [one for one in manifests.rendered(BASE) if manifests.name_of(one) == ("Job", "worker")]
    actions = {status: rule["action"] for rule in job["spec"]["podFailurePolicy"]["rules"] for status in rule.get("onExitCodes", {}).get("values", [])}
    assert actions == {2: "FailJob", 143: "Ignore"}
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_gpus_exchange_gradients():
    """A step has a batch for each worker, and the trainer understands the settings: it is only the CPU that it minds."""
    documents = {manifests.name_of(one): one for one in manifests.rendered(K8S / "overlays/nccl")}
    data = documents["ConfigMap", "settings"]["data"]
    assert int(data["TOMBOLA_REPLICAS_TO_AGGREGATE"]) == documents["Job", "worker"]["spec"]["parallelism"]
    run_fails("trainer", "train", "--job_name=worker", "--task_index=1", "--device=cpu",
              says="--exchange nccl is for GPUs, and --device is cpu", env=data)


# Where in the documents a name, a number or a field stands, and what a slip of the pen makes of it.
DEPLOYMENT, JOB, SERVICE = ("Deployment", "sampler"), ("Job", "worker"), ("Service", "sampler")
SERVERS, SETTINGS, BUDGET = ("StatefulSet", "ps"), ("ConfigMap", "settings"), ("PodDisruptionBudget", "ps")
VOLUME, CLAIM = ("PersistentVolume", "tombola-datanfs"), ("PersistentVolumeClaim", "datanfs")
POD = ("spec", "template", "spec")
SAMPLER = (*POD, "containers", 0)
SLIPS = [
    (DEPLOYMENT, ("apiVersion",), "apps/v1beta1"),
    (DEPLOYMENT, ("spec", "selector", "matchLabels", "app.kubernetes.io/name"), "samples"),
    (DEPLOYMENT, ("spec", "template", "metadata", "labels"), {"app.kubernetes.io/name": "train"}),
    (DEPLOYMENT, ("spec", "replica"), 1),
    (DEPLOYMENT, ("metadata", "namespace"), "tombala"),
    (DEPLOYMENT, (*SAMPLER, "volumeMounts", 0, "name"), "datanfz"),
    (DEPLOYMENT, (*SAMPLER, "volumeMounts", 0, "mountPath"), "/data"),
    (DEPLOYMENT, (*SAMPLER, "volumeMounts", 1, "mountPath"), "/datanfs"),
    (DEPLOYMENT, (*SAMPLER, "readinessProbe", "httpGet", "port"), "https"),
    (DEPLOYMENT, (*SAMPLER, "livenessProbe", "tcpsocket"), {"port": "http"}),
    (DEPLOYMENT, (*SAMPLER, "ports", 0, "containerPort"), 8081),
    (DEPLOYMENT, (*SAMPLER, "ports", 0, "name"), "web"),
    (DEPLOYMENT, (*SAMPLER, "resources", "limits"), {}),
    (DEPLOYMENT, (*SAMPLER, "resources", "requests", "memory"), "2Gi"),
    (DEPLOYMENT, (*SAMPLER, "resource"), {}),
    (DEPLOYMENT, (*SAMPLER, "securityContext", "capabilities", "drop"), []),
    (DEPLOYMENT, (*POD, "securityContext", "runAsNonRoot"), False),
    (DEPLOYMENT, (*POD, "initContainers", 0, "name"), "tokens"),
    (DEPLOYMENT, (*POD, "volumes", 0, "persistentVolumeClaim", "claimName"), "data"),
    (DEPLOYMENT, (*POD, "volumes", 1, "name"), "temp"),
    (JOB, (*POD, "restartPolicy"), "Always"),
    (SETTINGS, ("data", "TOMBOLA_SAMPLER"), "http://samplers"),
    (SETTINGS, ("data", "TOMBOLA_SAMPLER"), "http://sampler:8080"),
    (SETTINGS, ("data", "TOMBOLA_PS_HOSTS"), "ps-0.ps:2222"),
    (SETTINGS, ("data", "TOMBOLA_PS_HOSTS"), "ps-0.ps:2222,ps-1.ps:2223"),
    (SETTINGS, ("data", "TOMBOLA_LOGDIR"), "/model"),
    (SETTINGS, ("data",), {}),
    (SERVERS, ("spec", "replicas"), 3),
    (SERVERS, ("spec", "serviceName"), "sampler"),
    (SERVERS, ("spec", "podManagementPolicy"), "OrderedReady"),
    (SERVERS, (*POD, "containers", 0, "ports", 0, "containerPort"), 2223),
    (BUDGET, ("spec", "selector", "matchLabels", "app.kubernetes.io/name"), "server"),
    (("Job", "evaluator"), (*POD, "containers", 0, "args", 2), "--test_store=$(TEST_STOR)"),
    (JOB, (*POD, "containers", 0, "volumeMounts"), []),
    (SERVICE, ("spec", "selector", "app.kubernetes.io/name"), "train"),
    (SERVICE, ("spec", "selector"), {}),
    (SERVICE, ("spec", "ports", 0, "targetPort"), "htpp"),
    (SERVICE, ("spec", "ports", 0, "port"), 8080),
    (VOLUME, ("metadata", "name"), "tombola"),
    (VOLUME, ("spec", "claimRef", "name"), "data"),
    (VOLUME, ("spec", "claimRef", "namespace"), "default"),
    (VOLUME, ("spec", "capacity", "storage"), "10Gi"),
    (VOLUME, ("spec", "hostPath"), {"path": "/data"}),
    (CLAIM, ("spec", "accessModes"), ["ReadWriteOncePod"]),
    (CLAIM, ("spec", "volumeName"), "tombola-data"),
    (CLAIM, ("spec", "storageClassName"), "standard"),
]


@pytest.mark.parametrize("name, place, slip", SLIPS, ids=[f"{name[0]}-{'-'.join(map(str, place[-3:]))}-{i}" for i, (name, place, _) in enumerate(SLIPS)])
def test_a_slip_is_noticed(name, place, slip):
    documents = copy.deepcopy(applied())
    inner = next(one for one in documents if manifests.name_of(one) == name)
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = slip
    with pytest.raises(AssertionError):
        manifests.check(documents)


@pytest.mark.parametrize("place, slip", [
    (("spec", "scaleTargetRef", "kind"), "Job"), (("spec", "scaleTargetRef", "name"), "workers"), (("spec", "scaleTargetRef", "apiVersion"), "batch/v1"),
    (("spec", "metrics", 0, "resource", "name"), "gpu"), (("spec", "maxReplica"), 4)])
def test_a_slip_of_the_autoscaler_is_noticed(place, slip):
    documents = copy.deepcopy(applied("overlays/autoscale"))
    inner, = manifests.of_kind(documents, "HorizontalPodAutoscaler")
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = slip
    with pytest.raises(AssertionError):
        manifests.check(documents)


def test_what_is_scaled_has_no_number_of_its_own():
    documents = copy.deepcopy(applied("overlays/autoscale"))
    next(one for one in documents if manifests.name_of(one) == ("Deployment", "worker"))["spec"]["replicas"] = 2
    with pytest.raises(AssertionError, match="sets its target back"):
        manifests.check(documents)


def test_own_tokens_are_where_the_pods_look_for_them(tmp_path):
    """With a Secret over it, the sampler's pod makes none, although it cannot write there."""
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "tokens.json").write_text("{}")
    assert run_in(tmp_path, container("sampler.yaml", "Deployment", "tokens")) == ""
    assert [one.name for one in (tmp_path / "tokens").iterdir()] == ["tokens.json"]
    documents = manifests.rendered(K8S / "overlays" / "tokens")
    for one in [one for document in documents for one in manifests.all_containers(document)]:
        if "/datanfs/tokens" in " ".join(one.get("command", []) + one.get("args", [])) and one["name"] != "prepare":
            assert {"name": "tokens", "mountPath": "/datanfs/tokens", "readOnly": True} in one["volumeMounts"], one["name"]


def test_the_folder_of_own_tokens_is_there_before_they_are_mounted(tmp_path):
    """Of user 10001: root of a node, who would make it for the mount, is nobody on an export with root_squash."""
    documents = manifests.rendered(K8S / "overlays" / "tokens")
    pod, = [manifests.pod_of(one) for one in documents if one["kind"] == "Deployment" and one["metadata"]["name"] == "sampler"]
    assert [one["name"] for one in pod["initContainers"]] == ["prepare", "tokens"]
    assert run_in(tmp_path, pod["initContainers"][0], SOURCE="") == ""
    assert [one.name for one in tmp_path.iterdir()] == ["tokens"]


@pytest.mark.parametrize("kind, name", [("Job", "wroker"), ("Deployment", "worker")])
def test_a_patch_of_nothing_is_noticed(kind, name, tmp_path):
    shutil.copytree(K8S, tmp_path / "k8s")
    pods = tmp_path / "k8s" / "overlays" / "test" / "pods.yaml"
    pods.write_text(pods.read_text().replace("kind: Job\nmetadata:\n  name: worker", f"kind: {kind}\nmetadata:\n  name: {name}"))
    with pytest.raises(AssertionError, match="to change"):
        manifests.rendered(pods.parent)
