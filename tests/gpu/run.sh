#!/usr/bin/env bash
# Real NCCL over the plugin: two ranks on one GPU; the engine's collectives on GPU memory; the trainer's CUDA back end against the CPU; and runs of it whose ranks
# share a GPU, or have two. Needs a GPU, NCCL, python3, and what a build with CUDA makes (bin/nccl_two_ranks,
# lib/libnccl-net-tombolo.so; and bin/cuda_kernels_check, bin/reduction_check, bin/tombolo, lib/libtombolo_cuda.so where nvcc was); PyTorch and
# compute-sanitizer are used where they are.
# Ends with 0 when every test passed, 1 when one failed, 77 when there is no GPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build="$root/build" out="$root/docs/results" ranks=2 commit="" asked=nccl,engine,kernels,trainer

usage() {
  cat <<USAGE
usage: tests/gpu/run.sh [--build-dir DIR] [--out DIR] [--ranks N] [--commit HASH] [--cases LIST]
  --build-dir  where bin/nccl_two_ranks and lib/libnccl-net-tombolo.so lie (default: build)
  --out        where gpu.json and the logs go (default: docs/results)
  --ranks      processes that share the GPU (default 2, at most 9)
  --commit     what was built, for gpu.json (default: asked of git)
  --cases      some of nccl, engine, kernels, trainer, or of their cases by name, with commas between (default: all)
USAGE
}

while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --build-dir | --out | --ranks | --commit | --cases)
      [ $# -ge 2 ] || { echo "run.sh: $1 needs a value" >&2; usage >&2; exit 2; }
      case $1 in
        --build-dir) build=$2 ;;
        --out) out=$2 ;;
        --ranks) ranks=$2 ;;
        --commit) commit=$2 ;;
        --cases) asked=$2 ;;
      esac
      shift 2 ;;
    *) echo "run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done
for one in ${asked//,/ }; do
  case $one in
    nccl | engine | engine_* | kernels | trainer | kernels_* | trainer_* | tombolo | tombolo_* | socket | torch | torch_staged) ;;
    *) echo "run.sh: --cases: no case or group is called '$one'" >&2; usage >&2; exit 2 ;;
  esac
done

if ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
  echo "run.sh: no GPU (nvidia-smi lists none): skipped"
  exit 77
fi
build=$(cd "$build" 2>/dev/null && pwd) || { echo "run.sh: the build directory does not exist" >&2; exit 1; }
program="$build/bin/nccl_two_ranks" plugin="$build/lib/libnccl-net-tombolo.so"
for file in "$program" "$plugin"; do
  [ -e "$file" ] || { echo "run.sh: $file is missing: build the targets nccl_two_ranks and nccl-net-tombolo" >&2; exit 1; }
done
chmod +x "$program" 2>/dev/null
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: "${commit:=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)}"

# NCCL: PyTorch's own first, so that all tests run the same one.
nccl=$(python3 - <<'PYTHON'
import glob, site, sys, sysconfig
places = {sysconfig.get_paths()["purelib"], *sys.path, *site.getsitepackages()}
found = [f for p in sorted(places) if p for f in glob.glob(p + "/nvidia/nccl/lib/libnccl.so.2")]
print(found[0] if found else "")
PYTHON
)
if [ -z "$nccl" ]; then
  for file in /usr/local/cuda/lib64/libnccl.so.2 /usr/local/cuda/lib/libnccl.so.2 \
    /usr/local/cuda/targets/x86_64-linux/lib/libnccl.so.2 /usr/lib/x86_64-linux-gnu/libnccl.so.2; do
    [ -e "$file" ] && nccl=$file && break
  done
fi
[ -n "$nccl" ] || { echo "run.sh: no libnccl.so.2 found (python's nvidia-nccl, /usr/local/cuda, /usr/lib)" >&2; exit 1; }
echo "NCCL: $nccl"
# cuBLAS and cuDNN may be PyTorch's too.
for folder in "$(dirname "$nccl")" "$(dirname "$nccl")"/../../cu1?/lib "$(dirname "$nccl")"/../../{cublas,cudnn}/lib \
  /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
  [ -d "$folder" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
done
export LD_LIBRARY_PATH

# Two ranks of one GPU must take the network: no peer-to-peer, no shared memory, no NVLink fabric; few blocks, since the
# ranks' kernels take turns on the GPU.
export NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0 \
  NCCL_MAX_CTAS=2 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_RAS_ENABLE=0

# The ranks share a host, but the test is of the path between hosts. TOMBOLO_TRANSPORTS=shm tests shared memory instead.
export TOMBOLO_TRANSPORTS="${TOMBOLO_TRANSPORTS:-tcp}"

# wanted GROUP NAME: whether a case was asked for; else it says so and counts as skipped.
wanted() {
  case ",$asked," in *",$1,"* | *",$2,"*) return 0 ;; esac
  echo "skipped" >"$work/$2.status"
  return 1
}

# test_case NAME NET SECONDS COMMAND...: runs it with one plugin; the verdict goes to $work/NAME.status. A case whose name
# ends in _staged must have had its buffers in GPU memory.
test_case() {
  local name=$1 net=$2 seconds=$3 started status verdict
  shift 3
  wanted nccl "$name" || return 0
  local log="$work/$name.log"
  started=$(date +%s)
  if [ "$net" = Tombolo ]; then
    NCCL_NET_PLUGIN="$plugin" NCCL_NET=Tombolo timeout -k 5 "$seconds" "$@" >"$log" 2>&1
  else
    NCCL_NET_PLUGIN=none NCCL_NET="$net" timeout -k 5 "$seconds" "$@" >"$log" 2>&1
  fi
  status=$?
  verdict=passed
  if [ $status -eq 77 ]; then
    verdict=skipped
  elif [ $status -ne 0 ]; then
    verdict="failed (exit status $status)"
  elif ! grep -q "via NET/$net" "$log"; then
    verdict="failed (NCCL's log does not say 'via NET/$net')"
  elif [ "${name%_staged}" != "$name" ] && ! grep -q "via NET/$net.*/GDRDMA" "$log"; then
    verdict="failed (NCCL's log does not say 'via NET/$net.../GDRDMA': its buffers lay in host memory)"
  fi
  echo "$verdict" >"$work/$name.status"
  echo "$name: $verdict, $(($(date +%s) - started)) s, $(grep -c "via NET/$net" "$log") channels via NET/$net"
  case $verdict in
    failed*) grep -E "WARN|nccl_two_ranks:|Error|error" "$log" | head -20; tail -15 "$log" ;;
  esac
}

test_case tombolo Tombolo 90 "$program" --ranks "$ranks" --seconds 85 --communicators 100 --results "$work/tombolo.jsonl"
test_case tombolo_4_ranks Tombolo 90 "$program" --ranks 4 --seconds 85 --largest 1048576 --results "$work/tombolo_4_ranks.jsonl"
test_case socket Socket 60 "$program" --ranks "$ranks" --seconds 55 --results "$work/socket.jsonl"
TOMBOLO_TRANSPORTS=shm test_case tombolo_shm Tombolo 60 "$program" --ranks "$ranks" --seconds 55 --results "$work/tombolo_shm.jsonl"
# The same with NCCL's buffers in GPU memory, which the plugin stages. By itself NCCL would not use them with a device that has
# no place on the PCI bus, nor for sends before Ampere. One queue to the GPU, as Megatron-LM sets it, makes it hardest.
staged() {
  CUDA_DEVICE_MAX_CONNECTIONS=1 TOMBOLO_NET_GPU=staged NCCL_NET_GDR_LEVEL=SYS NCCL_NET_GDR_READ=1 test_case "$@"
}
staged tombolo_staged Tombolo 180 "$program" --ranks "$ranks" --seconds 170 --results "$work/tombolo_staged.jsonl"
TOMBOLO_TRANSPORTS=shm staged tombolo_shm_staged Tombolo 180 "$program" --ranks "$ranks" --seconds 170 \
  --results "$work/tombolo_shm_staged.jsonl"

# With the tuner and the profiler of the plugin's library: NCCL must have asked the one and told the other, on every rank.
cluster_of_ranks() {
  python3 - "$ranks" <<'PYTHON'
import json
import sys

clusters = [f"C{rank}" for rank in range(int(sys.argv[1]))]
print(json.dumps({
    "tombolo_cluster": 1,
    "hosts": [{"name": f"h{at}", "cluster": cluster, "devices": [],
               "nics": [{"name": "lo", "kind": "tcp", "address": "127.0.0.1"}]} for at, cluster in enumerate(clusters)],
    "fabrics": [{"from_cluster": a, "to_cluster": b, "bytes_per_second": 1e10 if a == b else 1.25e8,
                 "latency_seconds": 5e-6 if a == b else 0.01} for a in clusters for b in clusters]}))
PYTHON
}
if wanted nccl tombolo_tuned; then
  cluster_of_ranks >"$work/cluster.json"
  TOMBOLO_CLUSTER="$work/cluster.json" TOMBOLO_HOST=h0 TOMBOLO_TUNER=spanning TOMBOLO_TUNER_LOG="$work/tuner-%p.txt" \
    TOMBOLO_PROFILER="trace:$work/profile-%p.json" \
    test_case tombolo_tuned Tombolo 60 "$program" --ranks "$ranks" --seconds 55 --results "$work/tombolo_tuned.jsonl"
  if [ "$(cat "$work/tombolo_tuned.status")" = passed ]; then
    python3 "$here/tuned_and_profiled.py" --ranks "$ranks" "$work" >>"$work/tombolo_tuned.log" 2>&1 ||
      { echo "failed (tuner or profiler; see tuned_and_profiled.py's lines)" >"$work/tombolo_tuned.status"; tail -5 "$work/tombolo_tuned.log"; }
  fi
fi

if ! wanted nccl torch && ! wanted nccl torch_staged; then
  :
elif timeout 60 python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  test_case torch Tombolo 90 python3 "$here/torch_two_ranks.py" --results "$work/torch.jsonl"
  staged torch_staged Tombolo 180 python3 "$here/torch_two_ranks.py" --results "$work/torch_staged.jsonl"
else
  echo "torch: python3 has no PyTorch that sees the GPU: skipped"
  for name in torch torch_staged; do echo "skipped" >"$work/$name.status"; done
fi

# The engine's collectives on GPU memory: by the host's memory, and by messages, where the processor or the GPU combines.
engine_case() {
  local name=$1 verdict=passed status library="$build/lib/libtombolo.so"
  wanted engine "$name" || return 0
  if [ ! -e "$library" ]; then
    echo "$name: $library was not built: skipped"
    echo "skipped" >"$work/$name.status"
    return
  fi
  timeout -k 5 180 python3 "$here/engine_two_ranks.py" --library "$library" --results "$work/$name.jsonl" >"$work/$name.log" 2>&1
  status=$?
  [ $status -eq 77 ] && verdict=skipped
  [ $status -ne 0 ] && [ $status -ne 77 ] && verdict="failed (exit status $status)"
  echo "$verdict" >"$work/$name.status"
  echo "$name: $verdict"
  case $verdict in failed*) tail -15 "$work/$name.log" ;; esac
}
engine_case engine
TOMBOLO_HOST_LIMIT=0 engine_case engine_messages
TOMBOLO_HOST_LIMIT=0 TOMBOLO_GPU_REDUCE=on engine_case engine_gpu_reduce

# kernels_case NAME SECONDS COMMAND...: a run of cuda_kernels_check, or of reduction_check.
kernels_case() {
  local name=$1 seconds=$2 started status verdict
  shift 2
  wanted kernels "$name" || return 0
  started=$(date +%s)
  timeout -k 5 "$seconds" "$@" --results "$work/$name.jsonl" >"$work/$name.log" 2>&1
  status=$?
  verdict=passed
  [ $status -eq 77 ] && verdict=skipped
  [ $status -ne 0 ] && [ $status -ne 77 ] && verdict="failed (exit status $status)"
  echo "$verdict" >"$work/$name.status"
  echo "$name: $verdict, $(($(date +%s) - started)) s"
  case $verdict in failed*) grep -E "_check:|=========" "$work/$name.log" | head -30 ;; esac
}

# The kernels by which libtombolo carries out reductions, and how long they and the processor take.
if [ -e "$build/bin/reduction_check" ]; then
  chmod +x "$build/bin/reduction_check" 2>/dev/null
  kernels_case kernels_reduction 300 "$build/bin/reduction_check"
else
  echo "kernels_reduction: $build/bin/reduction_check was not built: skipped"
  echo "skipped" >"$work/kernels_reduction.status"
fi

kernels="$build/bin/cuda_kernels_check"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -e "$kernels" ] && [ -e "$build/lib/libtombolo_cuda.so" ]; then
  chmod +x "$kernels" 2>/dev/null
  kernels_case kernels 600 "$kernels"
  # cuBLAS and cuDNN are not ours to check, and slow to. The three share the GPU.
  for tool in memcheck racecheck synccheck; do
    if [ -n "$sanitizer" ]; then
      TOMBOLO_CUDA_ATTENTION=own kernels_case "kernels_$tool" 900 "$sanitizer" --tool "$tool" --error-exitcode 9 \
        --kernel-name-exclude kns=cublas --kernel-name-exclude kns=cutlass --kernel-name-exclude kns=gemm "$kernels" --size small &
    else
      echo "kernels_$tool: no compute-sanitizer: skipped"
      echo "skipped" >"$work/kernels_$tool.status"
    fi
  done
  wait
else
  echo "kernels: $kernels or libtombolo_cuda.so was not built: skipped"
  for name in kernels kernels_memcheck kernels_racecheck kernels_synccheck; do echo "skipped" >"$work/$name.status"; done
fi

# trainer_case NAME RANKS REDUCE SAYS OPTION...: trains on CPUs and on GPUs and compares the losses of every step; the
# trainer must say SAYS. With own_hosts=yes every rank claims a host of its own towards NCCL, which then lets them share a GPU.
trainer_case() {
  local name=$1 count=$2 reduce=$3 says=$4 started verdict device
  local rank=("$tombolo")
  shift 4
  wanted trainer "$name" || return 0
  # shellcheck disable=SC2016  # the rank's own shell fills these in
  [ "${own_hosts:-no}" = yes ] && rank=(bash -c 'NCCL_HOSTID="host-$RANK" exec "$0" "$@"' "$tombolo")
  started=$(date +%s)
  verdict=passed
  for device in cpu cuda; do
    local options=(--device "$device")
    [ $device = cuda ] && options+=(--reduce "$reduce" "$@")
    timeout -k 5 120 "$tombolo" run -n "$count" -- "${rank[@]}" train --data "$root/README.md" --layers 4 --width 64 --heads 2 \
      --context 64 --batch 8 --steps 10 --replicas 2 --pipeline $((count / 2)) "${options[@]}" \
      --log "$work/$name.$device.steps" >>"$work/$name.log" 2>&1 || verdict="failed on $device (exit status $?)"
  done
  if [ "$verdict" = passed ] && ! grep -q "$says" "$work/$name.log"; then verdict="failed (it does not say '$says')"; fi
  if [ "$verdict" = passed ]; then
    python3 "$here/same_losses.py" --case "$name" --results "$work/$name.jsonl" "$work/$name.cpu.steps" \
      "$work/$name.cuda.steps" >>"$work/$name.log" 2>&1 || verdict="failed (the losses differ)"
  fi
  echo "$verdict" >"$work/$name.status"
  echo "$name: $verdict, $(($(date +%s) - started)) s"
  case $verdict in failed*) tail -15 "$work/$name.log" ;; esac
}

tombolo="$build/bin/tombolo"
export TOMBOLO_NCCL_LIBRARY="$nccl"
if [ ! -e "$tombolo" ] || [ ! -e "$build/lib/libtombolo_cuda.so" ]; then
  echo "trainer: $tombolo or libtombolo_cuda.so was not built: skipped"
  for name in trainer_2_ranks trainer_4_ranks trainer_nccl_2_ranks trainer_nccl_4_ranks trainer_nccl; do echo "skipped" >"$work/$name.status"; done
else
  chmod +x "$tombolo" 2>/dev/null
  # Ranks that share a GPU: their gradients are summed by the engine, since NCCL would refuse them, as users have it; and by
  # NCCL where they claim hosts of their own, which finds the plugin where the trainer says that it is.
  for count in 2 4; do
    trainer_case "trainer_${count}_ranks" "$count" auto \
      "gradients: summed by the engine: ranks 0 and 1 share a GPU" --gpu 0
    own_hosts=yes trainer_case "trainer_nccl_${count}_ranks" "$count" nccl "via NET/Tombolo" --gpu 0
  done
  if [ "$(nvidia-smi -L | grep -c '^GPU')" -ge 2 ]; then
    trainer_case trainer_nccl 2 nccl "via NET/Tombolo"
  else
    echo "trainer_nccl: one GPU, and this case is of one for each rank: skipped"
    echo "skipped" >"$work/trainer_nccl.status"
  fi
fi

# timeline_case: where the time of a step goes, by kernel: GPT-2 124M in bf16 under Nsight Systems.
timeline_case() {
  local verdict=passed nsys
  wanted trainer trainer_timeline || return 0
  nsys=$(command -v nsys || ls /usr/local/cuda/bin/nsys 2>/dev/null)
  if [ -z "$nsys" ] || [ ! -e "$tombolo" ] || [ ! -e "$build/lib/libtombolo_cuda.so" ]; then
    echo "trainer_timeline: no nsys, or no trainer with CUDA: skipped"
    echo "skipped" >"$work/trainer_timeline.status"
    return
  fi
  timeout -k 5 240 "$nsys" profile --trace cuda --force-overwrite true --output "$work/steps" "$tombolo" train --device cuda \
    --dtype bf16 --data "$root/README.md" --vocabulary 50257 --layers 12 --width 768 --heads 12 --context 1024 --batch 16 \
    --steps 10 >"$work/trainer_timeline.log" 2>&1 || verdict="failed (exit status $?)"
  if [ "$verdict" = passed ]; then
    timeout -k 5 240 "$nsys" stats --report cuda_gpu_kern_sum --format csv --force-export true "$work/steps.nsys-rep" \
      >"$out/gpu_kernels.csv" 2>>"$work/trainer_timeline.log" || verdict="failed (nsys stats: exit status $?)"
  fi
  echo "$verdict" >"$work/trainer_timeline.status"
  echo "trainer_timeline: $verdict, $out/gpu_kernels.csv"
  case $verdict in failed*) tail -15 "$work/trainer_timeline.log" ;; esac
}
timeline_case

cat "$work"/*.log >"$out/gpu.log"
exec_status=0
python3 "$here/report.py" --work "$work" --out "$out/gpu.json" --commit "$commit" --nccl "$nccl" --ranks "$ranks" --asked "$asked" ||
  exec_status=1
exit $exec_status
