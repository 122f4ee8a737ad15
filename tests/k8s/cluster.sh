# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What tests/k8s/run and tests/k8s/walk share: checks, the cluster's commands, and a training that is disturbed.
# Who includes it sets tree and folder, and token and client_image before their first use; KUBECTL and DOCKER are commands.
# Functions are called through check "$@", which shellcheck cannot see.
# shellcheck disable=SC2317,SC2154

passed=0 failed=0
# check NAME COMMAND...: one line, with what the command said when it failed.
check() {
    local name=$1 said
    shift
    if said=$("$@" 2>&1); then
        passed=$((passed + 1))
        echo "ok     $name${said:+: $(tail -n 1 <<<"$said")}"
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        # shellcheck disable=SC2001
        sed 's/^/       | /' <<<"$said"
        return 1
    fi
}

finish() {
    echo "$passed passed, $failed failed, 0 skipped"
    [[ $failed == 0 ]]
    exit
}

# shellcheck disable=SC2086
kubectl() { command $KUBECTL "$@"; }
# shellcheck disable=SC2086
docker() { command $DOCKER "$@"; }
# shellcheck disable=SC2086
render() { ${KUSTOMIZE:-kubectl kustomize} "$1"; }
k() { kubectl -n tombola "$@"; }

# A pod that reaches the Services and the volume, with what the settings say now.
start_client() {
    kubectl apply -f - <<EOF && k wait --for=condition=ready pod/client --timeout=120s
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: tombola}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 10001, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: client
      image: $client_image
      imagePullPolicy: Never
      command: [sleep, "3600"]
      envFrom: [{configMapRef: {name: settings}}]
      volumeMounts: [{name: datanfs, mountPath: /datanfs}]
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
  volumes: [{name: datanfs, persistentVolumeClaim: {claimName: datanfs}}]
EOF
}

# curl through the Service, from another pod.
service() { k exec client -- curl -fsS --max-time 10 -H "Authorization: Bearer $token" "http://sampler$1"; }
field() { grep -o "\"$1\":[0-9]*" | head -n 1 | cut -d : -f 2; }

# is_batch_of_100 JSON: 100 different ids.
is_batch_of_100() {
    local ids=${1#*\"ids\":[}
    echo "${1:0:120}..."
    [[ $(field size <<<"$1") == 100 && $(tr ',' '\n' <<<"${ids%%]*}" | sort -u | wc -l) == 100 ]]
}

# What an HTTP request METHOD PATH without a token, and with TOKEN, is answered.
status_of() {
    k exec client -- curl -sS --retry 5 --retry-connrefused -o /dev/null -w '%{http_code}' --max-time 60 -X "$1" ${3:+-H "Authorization: Bearer $3"} "http://sampler$2"
}

sampler_pod() { k get pod -l app.kubernetes.io/name=sampler --field-selector=status.phase=Running -o 'jsonpath={.items[0].metadata.name}'; }

pods_of() { k get pods -l "app.kubernetes.io/name=$1" --field-selector=status.phase=Running -o 'jsonpath={.items[*].metadata.name}'; }
status_number() { k exec client -- curl -fsS --max-time 10 -H "Authorization: Bearer $token" http://ps-0.ps:2222/status 2>/dev/null | field "$1"; }

# Two checkpoints are saved from now on: all of the second is of later than now.
goes_on() {
    local first last i
    for _ in 1 2; do
        first=''
        for ((i = 0; i < 600; i++)); do
            last=$(status_number saved_step)
            [[ -n $first ]] || first=$last
            [[ -n $last && -n $first && $last != "$first" ]] && break
            sleep 0.5
        done
        [[ -n $last && $last != "$first" ]] || { k get pods && k logs ps-0 --tail=20 && return 1; }
    done
    echo "step $last, workers: $(pods_of worker | wc -w)"
}

# become COUNT: that many workers run, within two minutes.
become() {
    local i
    for ((i = 0; i < 240; i++)); do
        [[ $(pods_of worker | wc -w) == "$1" ]] && break
        sleep 0.5
    done
    [[ $(pods_of worker | wc -w) == "$1" ]] || { k get pods && return 1; }
}

# workers COUNT: that many train, and the training goes on.
workers() { k patch job worker -p "{\"spec\":{\"parallelism\":$1}}" && become "$1" && goes_on; }

# killed NAME: the container of one of its pods gets SIGKILL, from outside.
killed() {
    local id
    id=$(docker ps -q --filter "label=io.kubernetes.container.name=$1" --filter 'label=io.kubernetes.pod.namespace=tombola' | head -n 1)
    [[ -n $id ]] && docker kill --signal KILL "$id" && goes_on
}

deleted() { k delete pod "$1" --wait=true && goes_on; }

# The training ends some steps on: without workers it stands still, and everybody starts again with that end.
ends() {
    local i pods last
    k patch job worker -p '{"spec":{"parallelism":0}}' && become 0 || return 1
    last=$(($(status_number global_step) + 500))
    k patch configmap settings -p "{\"data\":{\"TOMBOLA_TRAIN_STEPS\":\"$last\"}}" &&
        k delete pod --wait=true -l 'app.kubernetes.io/name in (ps, evaluator)' &&
        k patch job worker -p '{"spec":{"parallelism":2}}' || return 1
    k wait --for=condition=complete job/worker --timeout=400s || { k get pods && k describe job worker && return 1; }
    k wait --for=condition=complete job/evaluator --timeout=100s || { k get pods && return 1; }
    # They leave a moment after the others.
    for ((i = 0; i < 120; i++)); do
        pods=$(k get pods ps-0 ps-1 -o 'jsonpath={range .items[*]}{.status.containerStatuses[0].state.terminated.exitCode}{.status.containerStatuses[0].lastState.terminated.exitCode} {end}')
        [[ $pods =~ ^[0-9]+\ [0-9]+\ $ ]] && break
        sleep 0.5
    done
    echo "$last steps; exit status of the servers: $pods"
    [[ $pods =~ ^0+\ 0+\ $ ]]
}

# each_batch_once NAME: the model there has the sums of one process that trains the same batches: each was applied once.
each_batch_once() {
    local copy last status=0
    last=$(k get configmap settings -o 'jsonpath={.data.TOMBOLA_TRAIN_STEPS}')
    k exec client -- env TOMBOLA_PS_HOSTS= "TOMBOLA_TOKEN=$token" "TOMBOLA_TRAIN_STEPS=$last" "TOMBOLA_LOGDIR=/datanfs/$1-alone" \
        tombola-trainer train --log-level warning || return 1
    copy=$(mktemp -d "$folder/XXXXXX") || return 1
    k exec client -- tar -C /datanfs -cf - "$1" "$1-alone" | tar -C "$copy" -xf - && mv "$copy/$1-alone" "$copy/alone" &&
        (cd "$tree/tests/service" && /usr/bin/python3 -c '
import pathlib, sys
import cluster_cases
folder = pathlib.Path(sys.argv[1])
cluster_cases.check_each_batch_once(folder / sys.argv[3], None, None, folder, int(sys.argv[2]))
print("the sums of", sys.argv[2], "batches are right")' "$copy" "$last" "$1") || status=1
    rm -rf "$copy"
    return "$status"
}
