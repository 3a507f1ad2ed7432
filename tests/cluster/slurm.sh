#!/bin/sh
# Runs pipelines/cluster/decode.sbatch on a Slurm cluster of three nodes on this machine.
# Requeues one task in the middle, as a preemption does, takes the node of another one
# down, and compares the frames with those of vaetool.
#
#   slurm.sh SOURCE BUILD
#
# Needs root and Debian's packages (sh tests/deps.sh slurm). Exit status 77: something is missing.
set -u
source=$1 build=$2
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
for program in slurmctld slurmd sbatch munged setpriv; do
    command -v $program >/dev/null ||
        skip "$program is missing (sh tests/deps.sh slurm)"
done
plugins=$(find /usr/lib -path '*slurm*' -name 'proctrack_linuxproc.so' | head -n 1)
[ -n "$plugins" ] || skip "Slurm has no proctrack/linuxproc"
tmp=$(mktemp -d)
chmod 755 "$tmp"
started=
# shellcheck disable=SC2317 # the trap calls it
stop() {
    # shellcheck disable=SC2086 # process ids
    kill $started 2>/dev/null
    for file in "$tmp"/*.pid; do
        # A process that ends removes its file.
        kill -9 "$(cat "$file")"
    done 2>/dev/null
    wait
    rm -rf "$tmp"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "FAILED: $*" >&2
    tail -n 15 "$tmp"/*.log >&2
    exit 1
}

host=$(hostname -s)
# Ports that are free now.
# shellcheck disable=SC2046 # four numbers
set -- $(python3 -c '
import socket
taken = [socket.socket() for _ in range(4)]
for one in taken:
    one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in taken])')
head -c 1024 /dev/urandom >"$tmp/munge.key"
chmod 400 "$tmp/munge.key"
mkdir "$tmp/state" "$tmp/munge"
chmod 711 "$tmp/munge"
munged --force --foreground --key-file "$tmp/munge.key" --socket "$tmp/munge/socket" \
    --pid-file "$tmp/munged.pid" --log-file "$tmp/munged.log" \
    --seed-file "$tmp/munge.seed" >"$tmp/munge-said.log" 2>&1 &
started="$started $!"
cat >"$tmp/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$tmp/munge/socket
CredType=cred/munge
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/spool-%n
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/slurmd-%n.pid
SlurmctldLogFile=$tmp/slurmctld.log
SlurmdLogFile=$tmp/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdTimeout=0
SchedulerParameters=requeue_delay=0
SlurmdParameters=config_overrides
NodeName=n[1-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$2,$3,$4] CPUs=1 RealMemory=2000
PartitionName=all Nodes=n[1-3] Default=YES State=UP MaxTime=INFINITE
END
export SLURM_CONF="$tmp/slurm.conf"
mkdir "$tmp/spool-n1" "$tmp/spool-n2" "$tmp/spool-n3"
slurmctld -D -c -f "$SLURM_CONF" >"$tmp/ctl-said.log" 2>&1 &
started="$started $!"
for n in 1 2 3; do
    slurmd -D -N n$n -f "$SLURM_CONF" >"$tmp/slurmd-said-$n.log" 2>&1 &
    started="$started $!"
done
tries=0
until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 3 ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || {
        sinfo
        fail "the nodes do not come up"
    }
    sleep 0.1
done

mkdir "$tmp/job" "$tmp/bin"
cp -r "$source/pipelines/cluster" "$tmp/cluster"
cp "$build/engine/libvae.so.0" "$tmp/bin"
cp -r "$build/python" "$tmp/python"
cp "$source/pipelines/demo/demo-tiny.safetensors" "$tmp/job/model.safetensors"
PYTHONDONTWRITEBYTECODE=1 python3 - "$source" "$build" "$tmp/job/latents.safetensors" \
    <<'END' || fail "the clip"
import sys
sys.path.insert(0, sys.argv[1] + "/tests/cluster")
import clips
clips.make_clip(sys.argv[3], 120, 8, 12)
END
chown -R 1000:1000 "$tmp/job"
"$build/engine/vaetool" decode --threads 1 --model "$tmp/job/model.safetensors" \
    "$tmp/job/latents.safetensors" "$tmp/right.safetensors" || fail "vaetool"
cd "$tmp/job" || exit 1
export PYTHONPATH="$tmp/python" LD_LIBRARY_PATH="$tmp/bin" SCRIPTS="$tmp/cluster"
export OMP_WAIT_POLICY=passive HOME="$tmp/job" PYTHONDONTWRITEBYTECODE=1
submit() {
    setpriv --reuid 1000 --regid 1000 --clear-groups sbatch --parsable --mem=100M \
        --cpus-per-task=1 --output="$tmp/job/said-%a.log" "$@"
}
job=$(submit --array=0-4 "$tmp/cluster/decode.sbatch" model.safetensors \
    latents.safetensors out.safetensors) || fail "sbatch"
# begun SEGMENT: waits until a task has written something.
begun() {
    tries=0
    until [ -e "out.safetensors.segments/0000$1-of-00005.part" ] ||
        [ -e "out.safetensors.segments/0000$1-of-00005" ] || [ -e out.safetensors ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || fail "segment $1 does not begin"
        sleep 0.05
    done
}
begun 1
scontrol requeue "${job}_1" || echo "the task was done before"
# Slurm kills what runs on a node that is down.
begun 2
node=$(squeue -h -t R -j "${job}_2" -o %N)
if [ -n "$node" ]; then
    scontrol update "NodeName=$node" State=DOWN Reason=test
fi
# Slurm lets a requeued task wait for two minutes, and holds one whose node fails while
# it starts.
tries=0
while [ -n "$(squeue -h -j "$job" 2>/dev/null)" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 3000 ] || {
        squeue
        fail "the job does not end"
    }
    squeue -h -t PD -j "$job" -o '%i/%r' 2>/dev/null | while IFS=/ read -r task reason; do
        case $reason in
        BeginTime) scontrol update "JobId=$task" StartTime=now ;;
        *held*) scontrol release "$task" ;;
        esac
    done
    sleep 0.2
done
cat said-*.log
grep -q 'ended by a signal' said-1.log || echo "the task was not interrupted"
grep -qi 'node failure' said-2.log || echo "no node failed"
cmp "$tmp/right.safetensors" out.safetensors || fail "the frames differ"
[ ! -e out.safetensors.segments ] || fail "segments are left"

echo "# refused"
job=$(submit --array=1-2 "$tmp/cluster/decode.sbatch" model.safetensors \
    latents.safetensors no.safetensors) || fail "sbatch"
while [ -n "$(squeue -h -j "$job" 2>/dev/null)" ]; do sleep 0.2; done
grep -q 'submit it with --array=0-N' said-1.log || fail "an array from 1"
job=$(submit --array=0-0 "$tmp/cluster/decode.sbatch" none.safetensors \
    latents.safetensors no.safetensors) || fail "sbatch"
while [ -n "$(squeue -h -j "$job" 2>/dev/null)" ]; do sleep 0.2; done
grep -q "segments: $(hostname): none.safetensors: " said-0.log || fail "a missing file"
echo ok
