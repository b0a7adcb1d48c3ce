# simulate.bash - programs on simulated hosts, one rank on each, by SimGrid's smpirun.
#   simulate_build BUILD_DIR: builds dtrain and skeleton there, or says why not and returns 99
#   simulate PLATFORM NP PROGRAM ARGS...
# Between ranks of hosts on Ethernet, Open MPI 4.1.4 takes some 4 us of a core for a message that is
# sent, or received, and 0.8 us for an MPI_Testall that has nothing to tell (`dtrain bench --predict`,
# two cores of Zen 5; SimGrid's own 100 us and more make results wrong by a factor of 40). Computing takes no
# simulated time but where a program sleeps.
simulate_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

simulate_build() {
    simulate_in=$1
    command -v smpirun >/dev/null || { echo "SKIPPED: no SimGrid here"; return 99; }
    { cmake -S "$simulate_here/../.." -B "$1" -G Ninja -D CMAKE_BUILD_TYPE=Release -D BUILD_TESTING=OFF \
        -D DTRAIN_SIMULATE=ON && cmake --build "$1" --target dtrain skeleton; } >"$1.log" 2>&1 ||
        { tail -n 20 "$1.log"; return 1; }
    seq 0 1023 | sed 's/^/n-/' >"$1/hosts"
}

# The launcher's variable makes it a rank; libgomp's keeps the program from starting itself once more.
simulate() {
    local platform=$simulate_here/$1.xml np=$2 program=$simulate_in/$3 message=0:${simulate_message:-4e-6}:0
    shift 3
    PMI_RANK=0 GOMP_SPINCOUNT=1000 OMP_NUM_THREADS=1 smpirun -np "$np" -hostfile "$simulate_in/hosts" \
        -platform "$platform" --cfg=smpi/simulate-computation:no --cfg=smpi/grow-injected-times:no \
        --cfg=smpi/test:0.8e-6 --cfg=smpi/iprobe:0.8e-6 --cfg=smpi/os:$message --cfg=smpi/ois:$message \
        --cfg=smpi/or:$message --log=root.thresh:warning "$program" "$@"
}
