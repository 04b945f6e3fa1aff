#!/usr/bin/env bash
# Installs what Tombolo needs from Debian's packages, and nothing that is already there.
#   scripts/dependencies.sh build   to build and run the programs (./demo.sh)
#   scripts/dependencies.sh test    also what the tests need (./test.sh)
#   scripts/dependencies.sh lint    also the linters, and ccache (.ci/run)
# As root it installs; as another user it uses sudo where that needs no password; otherwise it prints the command and
# stops with exit code 3.
set -euo pipefail

build=(g++ cmake ninja-build
  libasio-dev libcli11-dev nlohmann-json3-dev libfmt-dev libssl-dev libpcre2-dev libhwloc-dev libibverbs-dev libucx-dev
  iproute2 bible-kjv bible-kjv-text)
test=(libgtest-dev python3 pkg-config python3-prometheus-client curl nftables
  python3-torch libopenblas0-pthread  # without OpenBLAS this PyTorch multiplies matrices many times slower
  libbenchmark-dev  # micro_bench
  gdb  # reads the layouts in NCCL's libraries, for tests/nccl
  graphviz  # tombolo topo --format svg
  qemu-system-x86 busybox-static kmod cpio ibverbs-providers)  # these: tests/rdma_vm, an emulated machine with RDMA
lint=(clang-format clang-tidy clang libclang-rt-dev lld ccache
  doxygen  # the reference of the public headers
  procps)  # pkill, for .ci/run

case "${1:-build}" in
  build) wanted=("${build[@]}") ;;
  test) wanted=("${build[@]}" "${test[@]}") ;;
  lint) wanted=("${build[@]}" "${test[@]}" "${lint[@]}") ;;
  *) echo "usage: $0 build|test|lint" >&2; exit 2 ;;
esac

if ! command -v dpkg-query > /dev/null; then
  echo "This is not a Debian-like system. Install the equivalents of: ${wanted[*]}" >&2
  exit 3
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

by_hand="sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  privileged=()
elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
  privileged=(sudo)
else
  printf '%s\n' "Some packages are missing. Run this, then start again:" "  $by_hand" >&2
  exit 3
fi

# apt-get's output is shown only where it fails, and where it waits for another program that installs packages.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt_get() {
  "${privileged[@]}" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=1 "$@" 2>&1 |
    tee -a "$log" | sed -un '/^Waiting for/p' | uniq
}
echo "==> Installing Debian packages: ${missing[*]}"
apt_get update || true  # a source that fails need not be one of these packages'
if ! apt_get install --no-install-recommends "${missing[@]}"; then
  grep -m 3 '^E:' "$log" >&2 || tail -n 20 "$log" >&2
  printf '%s\n' "Installing failed; apt-get's first reasons are above. Is there a network? By hand it is:" "  $by_hand" >&2
  exit 3
fi
