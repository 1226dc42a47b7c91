job=$folder/slurm.sh
ray_log=$folder/logs/slurm-$SLURM_JOB_ID-ray.log
driver='' next='' asked='' caught=''

say() { echo "$(date '+%F %T') slurm.sh: $*"; }

# ---- How it ends -----------------------------------------------------------------------------------------------

submit_again() {
    [ -z "$next" ] || return 0
    if next=$(sbatch --parsable --dependency="singleton,afterany:$SLURM_JOB_ID" "$job"); then
        say "job ${next%%;*} goes on with $sweep"
    else
        say "cannot be submitted again from here; go on with: sbatch $job"
    fi
}

withdraw() {
    [ -z "$next" ] || scancel "${next%%;*}"
    next=''
}

stop_driver() {
    asked=1
    [ -z "$driver" ] || kill -TERM "$driver"
}

limit_is_near() { # USR1 from Slurm: updates under way end and are saved, and another job goes on
    caught=1
    say "the time limit is near"
    submit_again
    stop_driver
}

is_ended() { # TERM from Slurm, which sends it to everything, Ray and the driver too: nothing is left to wait for
    caught=1
    case $(scontrol show job --oneliner "$SLURM_JOB_ID") in
    *Reason=TimeLimit* | *PreemptTime=[0-9]*) submit_again ;;
    *" Restarts=${SLURM_RESTART_COUNT:-0} "*) # scancel
        say "cancelled"
        withdraw
        ;;
    *) say "Slurm itself will run this job again" ;; # preempted, where that means to be requeued
    esac
    [ -n "$asked" ] || stop_driver # its second: it stops at once
}

trap limit_is_near USR1
trap is_ended TERM

# ---- Ray, on every node ----------------------------------------------------------------------------------------

RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN RAY_USAGE_STATS_ENABLED=0

# The address by which Slurm itself reaches this node; a setup line may name another one in RLPLAN_HEAD_ADDRESS.
address_of_this_node() {
    local address
    address=$(scontrol show node --oneliner "$SLURMD_NODENAME" | grep -o 'NodeAddr=[^ ]*' | cut -d= -f2)
    address=$(getent ahostsv4 "$address" | awk 'NR == 1 {print $1}')
    case $address in
    '' | 127.*) hostname -I | cut -d' ' -f1 ;;
    *) echo "$address" ;;
    esac
}
head=${RLPLAN_HEAD_ADDRESS:-$(address_of_this_node)}
port=$((20000 + SLURM_JOB_ID % 10000)) # two jobs on one node must not meet
temporary=$(mktemp -d /tmp/rlp-XXXXXX) # short: it begins the names of sockets; on the other nodes it has the same name
trap 'rm -rf "$temporary"' EXIT
export head port temporary

start_ray() {
    # Ray lets everybody write in a folder that it is given, so it gets one within another that nobody else enters.
    mkdir -m 700 "$temporary" 2>/dev/null
    if [ "$(stat -c '%u %a' "$temporary")" != "$(id -u) 700" ]; then
        echo "slurm.sh: $temporary on $SLURMD_NODENAME is open to other users, and Ray is not started in it"
        return 1
    fi
    if [ "$SLURM_NODEID" = 0 ]; then
        set -- --head --node-ip-address="$head" --port="$port" --include-dashboard=false --temp-dir="$temporary/r"
    else
        until (exec 3<>"/dev/tcp/$head/$port") 2>/dev/null; do sleep 1; done
        set -- --address="$head:$port"
    fi
    [ -z "${SLURM_GPUS_ON_NODE:-}" ] || set -- "$@" --num-gpus="$SLURM_GPUS_ON_NODE"
    PYTHONUNBUFFERED=1 ray start "$@" --block --num-cpus="$SLURM_CPUS_ON_NODE" --disable-usage-stats \
        --min-worker-port=0 --max-worker-port=0 --dashboard-agent-listen-port=0 --dashboard-agent-grpc-port=0 \
        --runtime-env-agent-port=0 --metrics-export-port=0 &
    trap 'kill -TERM $!' TERM
    wait
    wait # again, when a signal has ended the first
    rm -rf "$temporary"
}

nodes_up() { grep -c 'Ray runtime started' "$ray_log"; }

: >"$ray_log" # before anything looks into it
say "job $SLURM_JOB_ID of $sweep on $SLURM_JOB_NODELIST, Ray's head at $head:$port"
srun --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 --cpu-bind=none \
    bash -c "$(declare -f start_ray); start_ray" >>"$ray_log" 2>&1 &
ray=$!
for ((look = 0; look < 5 * patience; look++)); do
    [ "$(nodes_up)" -lt "$SLURM_JOB_NUM_NODES" ] || break
    kill -0 "$ray" 2>/dev/null || break
    [ -z "$asked" ] || break
    sleep 0.2
done
up=$(nodes_up)
if [ "$up" = 0 ] && [ -z "$asked" ]; then
    say "Ray has not started: see $ray_log"
    exit 1
fi
[ "$up" = "$SLURM_JOB_NUM_NODES" ] || [ -n "$asked" ] || say "Ray runs on $up of $SLURM_JOB_NUM_NODES nodes, which is made do with: see $ray_log"

# ---- The sweep -------------------------------------------------------------------------------------------------

code=130
if [ -z "$asked" ]; then
    "${resume[@]}" --ray-address="$head:$port" &
    driver=$!
    [ -z "$asked" ] || kill -TERM "$driver" # the signal came before it was there
    caught=1
    while [ -n "$caught" ]; do # until a wait is ended by the driver and not by a signal
        caught=''
        wait "$driver"
        code=$?
    done
fi

head_is_gone() { ! (exec 3<>"/dev/tcp/$head/$port") 2>/dev/null; }

case $code in
0 | 3 | 5) # finished, nothing left to do, finished with failed trials
    withdraw
    say "$sweep has ended"
    [ $code = 3 ] && code=0
    ;;
130 | 143 | 137 | -1) # stopped by a signal from here, by rlplan stop, or since Ray's head is gone; -1: two signals at
    # once can make bash's wait lose what a driver that was asked to stop has ended with
    [ -n "$asked" ] || [ $SECONDS -lt 600 ] || ! head_is_gone || submit_again
    [ -n "$next" ] || say "nothing goes on by itself: rlplan resume $sweep --slurm, or sbatch $job"
    [ $code = 137 ] || code=0
    ;;
*)
    withdraw
    say "$sweep was not driven (exit code $code): see above, then sbatch $job"
    ;;
esac
kill -TERM "$ray" 2>/dev/null
while kill -0 "$ray" 2>/dev/null; do wait "$ray"; done # a signal ends a wait, and a job without it leaves Ray behind
exit $code
