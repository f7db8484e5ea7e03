#!/bin/bash
# Runs a command in a Slurm cluster of one node, this machine, which exists as long as the command: munged, slurmctld and slurmd with
# files in a folder of their own and with free ports. Needs root and the packages of scripts/setup.sh launchers.
#
#   slurm_node.sh FOLDER CPUS COMMAND...
#
# The exit code is that of the command, or 125 if the cluster does not start; the logs of the daemons are printed then.
set -u
folder=$1 cpus=$2
shift 2
mkdir -p "$folder/state" "$folder/spool"
chmod 755 "$folder"
daemons=()
end() {
  # Stops the daemons in the order in which they depend on one another.
  local daemon
  for daemon in "${daemons[@]}"; do
    kill "$daemon" 2>/dev/null
    wait "$daemon" 2>/dev/null
  done
}
trap end EXIT
fail() {
  echo "slurm_node: $1" >&2
  tail -n 15 "$folder"/*.log >&2
  exit 125
}
free_ports() {
  python3 - <<'PYTHON'
import socket
sockets = [socket.socket() for _ in range(2)]
for one in sockets: one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in sockets])
PYTHON
}
read -r controller_port node_port < <(free_ports)

dd if=/dev/urandom of="$folder/munge.key" bs=128 count=1 2>/dev/null
chmod 400 "$folder/munge.key"
munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" >"$folder/munged.out.log" 2>&1 &
munged=$!

cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$controller_port
SlurmdPort=$node_port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=localhost NodeAddr=127.0.0.1 CPUs=$cpus State=UNKNOWN
PartitionName=test Nodes=localhost Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$folder/slurm.conf
slurmctld -D -f "$SLURM_CONF" >"$folder/slurmctld.out.log" 2>&1 &
slurmctld=$!
slurmd -D -N localhost -f "$SLURM_CONF" >"$folder/slurmd.out.log" 2>&1 &
slurmd=$!
daemons=("$slurmd" "$slurmctld" "$munged")
for ((i = 0; i < 300; ++i)); do
  for daemon in "${daemons[@]}"; do
    kill -0 "$daemon" 2>/dev/null || fail "a daemon has ended"
  done
  [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break
  sleep 0.2
done
[ "$(sinfo -h -o %T 2>/dev/null)" = idle ] || fail "the node is not idle after a minute: $(sinfo -h -o '%T %E' 2>&1)"
"$@"
