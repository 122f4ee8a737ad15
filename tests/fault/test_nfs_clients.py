# SPDX-License-Identifier: MIT
"""Two clients of one NFS export, as `deploy/nfs` makes it: rows, state, caches and models; the server goes and comes back.

One guest has Linux' NFS server and, in networks and under host names of their own, two of Linux' NFS clients: each with its own
cache of files and attributes, session, lease and locks. Each mounts the export with the options of `deploy/nfs mount`. The server
loses its network and its memory in the middle, and comes back. At the end client 1 is cut off for good, and client 2 takes over.

The guest's clock jumps over what all wait for.
"""

import csv
import random
import re
import subprocess
from pathlib import Path

import pytest

import guest
from cluster_cases import check_each_batch_once
from service import LONG, PATIENCE_S, ROOT, SEED, program
from test_trainer import newest, read_checkpoint

MODULES = ("virtio_pci", "virtio_blk", "veth", "nfsd", "nfsv4")
ROWS, FEATURES, SIZE = 600, 8, 5
STEPS = 600
LEASE_S = 30  # and the server's grace period; by default they are 90 s, which take three times as much to look at
DISK_BYTES = 32 << 20

# What /etc/exports and mountd say by exportfs: (rw,sync,no_subtree_check,root_squash,fsid=0) for both clients.
NETWORK = r"""
mkdir -p /tmp /export /datanfs /etc /run /var/lib/nfs/v4recovery
chmod 1777 /tmp
printf 'root:x:0:0::/:/bin/sh\ntombola:x:10001:10001::/:/bin/sh\n' >/etc/passwd
mount -t tmpfs tmpfs /export
chown 10001:10001 /export
mount -t nfsd nfsd /proc/fs/nfsd
echo 1 >/proc/sys/net/ipv4/ip_forward
echo LEASE >/proc/fs/nfsd/nfsv4leasetime
echo LEASE >/proc/fs/nfsd/nfsv4gracetime
server() {
    echo '-2 -3 +4 -4.0 +4.1 +4.2' >/proc/fs/nfsd/versions
    echo 'tcp 2049' >/proc/fs/nfsd/portlist
    for n in 1 2; do echo "nfsd 10.0.$n.2 2147483647 client" >/proc/net/rpc/auth.unix.ip/channel; done
    echo "client /export 2147483647 $((0x2000 | 0x400 | 0x4)) 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
    echo 'client 1 \x00000000 2147483647 /export' >/proc/net/rpc/nfsd.fh/channel
    echo 4 >/proc/fs/nfsd/threads
}
client() {
    unshare -n -u -m sh -c "hostname client$1; touch /run/$1; exec sleep 1000000" &
    eval pid$1=$!
    until [ -e /run/$1 ]; do sleep 0.1; done
    ip link add veth$1 type veth
    ip link set veth0 netns $!
    ip addr add 10.0.$1.1/24 dev veth$1
    ip link set veth$1 up
    root_on $1 "ip addr add 10.0.$1.2/24 dev veth0; ip link set veth0 up; ip link set lo up; ip route add default via 10.0.$1.1"
}
root_on() { eval on=\$pid$1; nsenter -t $on -n -u -m sh -c "$2"; }
# on CLIENT COMMAND: by our user, in the export.
on() { eval on=\$pid$1; nsenter -t $on -n -u -m su tombola -c "cd /datanfs; $2"; }
die() { echo "FAILED: $1"; tail -n 12 /tmp/*.log; echo GUEST-END; poweroff -n -f; sleep 1000; }
# await CONDITION: it will be so within a quarter of an hour.
await() {
    tries=0
    until eval "$1"; do
        sleep 1
        tries=$((tries + 1))
        [ $tries -lt 300 ] || die "never $1"
    done
}
"""

# SCRIPT's capitals are numbers of ours.
SCRIPT = NETWORK + r"""
SLOWLY='env LD_PRELOAD=/slow_answers.so SLOW_ANSWERS_MS='
TRAIN='tombola-trainer train --sampler http://10.0.1.1:8081 --store sqlite:rows.sqlite --model softmax --optimizer adagrad
    --learning-rate 1e-30 --batch-size 20 --seed 3 --save-secs 1 --print-every 0 --blas plain'
TRAIN=$(echo $TRAIN)
serve() {
    on $1 "exec ${SLOWLY}100 tombola-sampler serve --allow-anonymous --store sqlite:rows.sqlite --epochs 1 --seed 5 --lease 3600 \
        --state state --listen 10.0.$1.2:8080"
}
# pull CLIENT SAMPLER OPTION...: the rows to standard output.
pull() { on $1 "exec tombola-loader pull --sampler http://$2 --store sqlite:rows.sqlite --patience 300 --size SIZE $3"; }
cluster() {
    words="--patience 300 --logdir model --train-steps $3 --ps-hosts $2 --worker-hosts 10.0.$1.2:2300"
    shards=''
    for index in $(seq 0 $(echo "$2" | tr -dc , | wc -c)); do
        on $1 "exec $TRAIN $words --job-name ps --task-index $index" >/tmp/ps$1-$index.log 2>&1 &
        shards="$shards $!"
    done
    on $1 "exec $TRAIN $words --job-name worker" >/tmp/worker$1.log 2>&1 &
    for one in $shards $!; do wait $one || die "the cluster on client $1"; done
}
for n in 1 2; do client $n; done
server
echo Y >/proc/fs/nfsd/v4_end_grace
for n in 1 2; do root_on $n "mount -t nfs -o OPTIONS,addr=10.0.$n.1,clientaddr=10.0.$n.2 10.0.$n.1:/ /datanfs" || die "no mount"; done
root_on 1 "grep ' nfs4 ' /proc/mounts"

# Rows: written by client 1, read by client 2 at once.
on 1 "tombola-loader import 'csv:/rows.csv?label=label' sqlite:rows.sqlite" || die "import"
on 2 "tombola-loader info rows.sqlite" || die "info"
on 2 "tombola-loader check --megabytes 1 --seconds 0 ." || die "check"
serve 1 >/tmp/sampler1.log 2>&1 &
sampler1=$!
${SLOWLY}500 tombola-sampler serve --allow-anonymous --store sqlite:/export/rows.sqlite --seed 5 --listen 10.0.1.1:8081 \
    >/tmp/order.log 2>&1 &
await 'grep -q "listening on" /tmp/sampler1.log'
await 'grep -q "listening on" /tmp/order.log'

# Both train, each a model of its own, and pull, with one cache; and the server goes.
refused() {
    echo "REFUSED $1"
    serve 2
    on 2 "$TRAIN --logdir own1 --train-steps STEPS --patience 1"
    echo "STATUS $?"
}
for n in 1 2; do
    on $n "$TRAIN --patience 300 --logdir own$n --train-steps STEPS" >/tmp/train$n.log 2>&1 &
    eval train$n=$!
done
await '[ -e /export/own1/checkpoint ] && [ -e /export/own2/checkpoint ]'
refused before
for n in 1 2; do
    pull $n 10.0.1.2:8080 "--lease --batches $((ROWS / SIZE / 3)) --cache cache" >/tmp/pulled$n 2>/tmp/pull$n.log &
    eval pull$n=$!
done
await '[ -s /tmp/pulled1 ] && [ -s /tmp/pulled2 ]'
ip link set veth1 down
ip link set veth2 down
echo 0 >/proc/fs/nfsd/threads
for n in 1 2; do echo "PULLED $(wc -l </tmp/pulled$n)"; kill -0 $(eval echo \$train$n) || die "train$n was through"; done
# Who begins now waits for the server, and makes a cache as soon as it is there.
for n in 1 2; do
    pull $n 10.0.1.1:8081 "--index 0 --batches $((ROWS / SIZE)) --cache late" >/tmp/late$n 2>/tmp/late$n.log &
    eval late$n=$!
done
sleep 5
ip link set veth1 up
ip link set veth2 up
server
for one in $pull1 $pull2 $train1 $train2 $late1 $late2; do wait $one || die "one of the six ended with $?"; done
echo "REFUSED after"
serve 2

# A cluster on client 1, which client 2 looks at; then it goes on there, with another number of servers.
cluster 1 10.0.1.2:2222 $((STEPS / 2)) &
await '[ -e /export/model/checkpoint ]'
on 2 "ls model; cat model/checkpoint" >/dev/null
wait $! || die "the cluster on client 1"
echo "EVALUATED"
on 2 "tombola-trainer evaluate --store sqlite:rows.sqlite --logdir model" || die "evaluate"
cluster 2 10.0.2.2:2222,10.0.2.2:2223 STEPS

# Client 1 is cut off, and lives on. What it held is client 2's when its lease is over, and stays so when it is back.
on 1 "exec $TRAIN --patience 1000 --logdir held --train-steps 1000000000" >/tmp/held1.log 2>&1 &
zombie=$!
await '[ -e /export/held/checkpoint ]'
ip link set veth1 down
echo "EVALUATED $(cut -d' ' -f1 /proc/uptime)"
echo "CUT $(cut -d' ' -f1 /proc/uptime)"
on 2 "exec $TRAIN --logdir held --train-steps STEPS --patience 1000" >/tmp/held2.log 2>&1 &
held=$!
take() {
    serve 2 >/tmp/sampler2.log 2>&1 &
    taken=$!
    await 'grep -q "listening on" /tmp/sampler2.log || ! kill -0 $taken 2>/dev/null'
    grep -q "listening on" /tmp/sampler2.log
}
tries=0
until take; do sleep 5; done
wait $held || die "training on client 2"
echo "TAKEN $(cut -d' ' -f1 /proc/uptime)"
pull 2 10.0.2.2:8080 '--lease --cache cache' >/tmp/pulled3 2>/tmp/pull3.log || die "pull"
echo "REST $(cut -d' ' -f1 /proc/uptime)"
ip link set veth1 up
for name in zombie sampler1; do
    await "! kill -0 $(eval echo \$$name) 2>/dev/null"
    wait $(eval echo \$$name)
    echo "BACK $name $?"
done
tar -C / -cf /dev/vda export tmp
"""


def mount_options():
    """Those of `deploy/nfs mount`, as it says them; the kernel has no names for versions."""
    told = subprocess.run([ROOT / "deploy" / "nfs", "mount", "--dry-run", "server:/data", "/datanfs"], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=True).stdout
    return re.search(r"^mount -t nfs -o (\S+) ", told, re.M)[1]


def write_rows(path):
    """A table that each test process makes anew, of the day's seed; its rows as texts."""
    dice = random.Random(SEED)
    rows = [[dice.choice("abc"), *(str(dice.randrange(256)) for _ in range(FEATURES))] for _ in range(ROWS)]
    with open(path, "w", encoding="ascii", newline="") as out:
        csv.writer(out).writerows([["label", *(f"x{number}" for number in range(FEATURES))], *rows])
    return rows


def pulled(folder, *names):
    """Rows that `pull` wrote, by id; each came once."""
    found = {}
    for name in names:
        with open(folder / name, encoding="ascii", newline="") as file:
            for number, *row in list(csv.reader(file))[1:]:
                assert int(number) not in found, f"row {number} came twice"
                found[int(number)] = row
    return found


def said(folder, *names):
    return [(folder / f"{name}.log").read_text() for name in names]


def after(console, word):
    """What the guest said behind a line `word`, up to the next one that begins with a word in capitals."""
    return re.search(rf"^{word}\n(.*?)(?=^[A-Z]{{3,}}\b)", console, re.M | re.S)[1]


def check_rows(folder, rows):
    """Of the stream each row came once, to three who drew, though the sampler's disk was away and its machine was cut off then."""
    expected = dict(enumerate(rows))
    assert pulled(folder, "pulled1", "pulled2", "pulled3") == expected
    assert pulled(folder, "late1") == pulled(folder, "late2") == expected
    assert (folder / "late1").read_bytes() == (folder / "late2").read_bytes()


def check_caches(folder):
    """One made it, the others had it; nothing else is left."""
    makers = [text for text in said(folder / "tmp", "pull1", "pull2", "pull3") if "rows are kept in" in text]
    assert len(makers) == 1, "two made one cache"
    for name in ("cache", "late"):
        kept = [path.name for path in (folder / "export" / name).iterdir()]
        assert len(kept) == 1 and kept[0].endswith(".rows"), kept


def check_models(folder, served, tmp_path):
    """Whole, and each batch is in them once, whoever trained them, before and behind the server's end."""
    store = f"sqlite:{folder}/rows.sqlite"
    assert newest(folder / "own1").read_bytes() == newest(folder / "own2").read_bytes()
    for name in ("own1", "model", "held"):
        check_each_batch_once(folder / name, served, store, tmp_path, STEPS)
        for path in (folder / name).glob("*.safetensors"):
            read_checkpoint(path)


@pytest.mark.heavy
def test_two_clients_of_one_export(tmp_path, library, sampler):
    if not LONG:
        pytest.skip("takes minutes, with --long only")
    if guest.missing():
        pytest.skip(f"no guest can be started: {guest.missing()}")
    machine = guest.Guest(tmp_path, *map(program, ("sampler", "loader", "trainer")), modules=MODULES)
    rows = write_rows(machine.root / "rows.csv")
    slow = library(Path(__file__).resolve().parents[1] / "service" / "slow_answers.c")
    (machine.root / "slow_answers.so").write_bytes(slow.read_bytes())
    disk, folder = tmp_path / "disk", tmp_path / "found"
    with open(disk, "wb") as out:
        out.truncate(DISK_BYTES)
    script = SCRIPT
    for name, value in (("OPTIONS", mount_options()), ("LEASE", LEASE_S), ("STEPS", STEPS), ("SIZE", SIZE), ("ROWS", ROWS)):
        script = script.replace(name, str(value))
    console = machine.boot(script, [disk])
    assert "FAILED" not in console, console[-6000:]
    folder.mkdir()
    subprocess.run(["tar", "-C", folder, "-xf", disk], check=True)

    assert f"rows       {ROWS}" in console, "client 2 sees what client 1 wrote"
    assert not re.search(r"^\w+ +bad", console, re.M), "tombola-loader check"
    for when in ("REFUSED before", "REFUSED after"):
        assert "state folder state is in use by another server" in after(console, when)
    assert re.search(r"own1 is in use by another trainer \(process \d+ on client1\); wait for its end", after(console, "REFUSED before"))
    assert f"step {STEPS // 2}\n" in after(console, "EVALUATED"), "client 2 reads the last checkpoint, not one that it saw before"
    check_rows(folder / "tmp", rows)
    check_caches(folder)
    check_models(folder / "export", sampler("--store", f"sqlite:{folder}/export/rows.sqlite", "--seed", 5), tmp_path)
    # What client 1 is told when it is back.
    assert "BACK zombie 2\n" in console and "held was taken over by another trainer (process" in said(folder / "tmp", "held1")[0]
    assert "BACK sampler1 1\n" in console and "was taken over by another server (process" in said(folder / "tmp", "sampler1")[0]
