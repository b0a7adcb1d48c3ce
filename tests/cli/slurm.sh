#!/usr/bin/env bash
# A real Slurm: controller, node and munge of this test's own. Ranks that srun starts have the bits of
# those that mpirun starts, and a job that meets its time limit leaves a checkpoint, is queued again
# and ends with the hashes of an undisturbed run.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
[ -z "${ASAN_OPTIONS:-}" ] || { echo "SKIPPED: Slurm: seen without sanitizers"; exit 99; }
[ "$(id -u)" = 0 ] || { echo "SKIPPED: Slurm: not root"; exit 99; }
for program in munged slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || { echo "no $program: install slurmctld slurmd slurm-client munge"; exit 1; }
done

slurm=$tmp/slurm
export SLURM_CONF=$slurm/slurm.conf
mkdir -p "$slurm"/{state,spool,munge}
chmod 755 "$tmp" "$slurm" "$slurm/munge"
head -c 1024 /dev/urandom >"$slurm/munge.key"
chmod 400 "$slurm/munge.key"
stop_slurm() {
    for daemon in slurmd slurmctld munge; do
        kill "$(cat "$slurm/$daemon.pid" 2>/dev/null)" 2>/dev/null
    done
    sleep 1
    rm -rf "$tmp"
}
trap stop_slurm EXIT
no_slurm() { # WHO does not start
    echo "$1 does not start:"
    tail -n 30 "$slurm"/*.log
    exit 1
}
munged --force --key-file="$slurm/munge.key" --socket="$slurm/munge/socket" --pid-file="$slurm/munge.pid" \
    --log-file="$slurm/munge.log" --seed-file="$slurm/munge.seed" || no_slurm munged
host=$(hostname -s)
port=$((20000 + $$ % 6000)) # below those that connections are given
cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 6000))
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=500 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
END
# No plugin uses control groups, but slurmd looks for them, also where, as in a chroot, there are none.
plugin=disabled
[ "$(slurmd -V | grep -oE '[0-9]+' | head -n 1)" -ge 23 ] || plugin=cgroup/v1
echo "CgroupPlugin=$plugin" >"$slurm/cgroup.conf"
slurmctld || no_slurm slurmctld
slurmd || no_slurm slurmd
idle() { sinfo -h -o %T 2>/dev/null | grep -q idle; }
within idle || no_slurm "the node"

must test "$(nproc)" -ge 2

# srun in mpirun's place: by what the MPI knows
pmi=pmix
[ $launched_by = openmpi ] || pmi=pmi2
accepts "${tiny[@]}" --max-steps 3 --out "$tmp/alone"
if srun --mpi=list 2>&1 | grep -qw $pmi; then
    gives 0 srun --mpi=$pmi --overcommit -n 4 "$DTRAIN_BIN" "${tiny[@]}" --max-steps 3 --out "$tmp/srun"
    equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/srun")"
    must grep -q "4 ranks x 1 thread" "$tmp/stdout"
else
    echo "SKIPPED: Slurm: its packages have no pmix"
fi

# Slurm looks at limits twice a minute and tells of them half a minute early: this job hears of its
# end at the first look. Only then is it known how far the run shall go. It starts again when its
# credentials have expired, after two minutes were it not for cred_expire above.
step_records() { grep -cs '"kind":"step"' "$tmp/run/metrics.jsonl"; }
restarts() { scontrol show job "$job" | sed -nE 's/.*Restarts=([0-9]+).*/\1/p'; }
state() { scontrol show job "$job" | sed -nE 's/.*JobState=([A-Z]+).*/\1/p'; }
run=("${tiny[@]:0:${#tiny[@]}-2}" --config "$tmp/job.yaml") # tiny without its --max-steps
printf 'epochs: 1000000\nmax-steps: 1000000\nsave-every: 0\n' >"$tmp/job.yaml"
sed 's/--ntasks=8/--ntasks=2/; s/--cpus-per-task=4/--cpus-per-task=1/; s/@120/@50/; s/--time=04:00:00/--time=1/' \
    "$DTRAIN_SOURCE/configs/cluster.sbatch" >"$tmp/job"
job=$(sbatch --parsable --output="$tmp/log" --chdir="$DTRAIN_SOURCE" --export=ALL "$tmp/job" --program "$DTRAIN_BIN" \
    -- "${run[@]}" --out "$tmp/run")
again() { [[ $(restarts)$(state) != 0@(PENDING|RUNNING) ]]; }
within again
steps=$(($(step_records) + 200))
sed -i "s/max-steps: .*/max-steps: $steps/" "$tmp/job.yaml"
scontrol update JobId="$job" TimeLimit=10
over() { [[ ! $(state) =~ ^(PENDING|RUNNING|COMPLETING)$ ]]; }
within over
must test "$(restarts)" = 1 # now: Slurm forgets a job after five minutes
must test "$(state)" = COMPLETED
limit=$((4 * limit)) # as many steps as two ranks made in half a minute
accepts "${run[@]}" --out "$tmp/calm"
must test "$steps" -gt 200
equal "$(hashes "$tmp/calm")" "$(hashes "$tmp/run")"
must test "$(step_records)" = "$steps"
[ "$bad" = 0 ] || { scontrol show job "$job"; tail -n 30 "$slurm"/*.log; tail -n 30 "$tmp/log"; }
finish
