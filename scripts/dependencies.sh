#!/usr/bin/env bash
# Installs what Tombolo needs from Debian's packages, and nothing that is already there.
#   scripts/dependencies.sh build   to build and run (./demo.sh)
#   scripts/dependencies.sh test    also what the tests use (./test.sh)
#   scripts/dependencies.sh lint    also the linters (.ci/run)
# As root it installs; as another user it uses sudo where that needs no password; otherwise it prints the command and
# stops with exit code 3.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config ccache
  libboost-dev libcli11-dev nlohmann-json3-dev libfmt-dev libssl-dev libhwloc-dev libibverbs-dev libucx-dev libucx0
  libopenblas-pthread-dev libgtest-dev
  iproute2 bible-kjv bible-kjv-text)
test=(python3 python3-torch python3-prometheus-client curl nftables
  libbenchmark-dev  # micro_bench
  graphviz  # tombolo topo --format svg
  qemu-system-x86 busybox-static kmod cpio ibverbs-providers)  # these: tests/rdma_vm, an emulated machine with RDMA
lint=(clang-format clang-tidy clang libclang-rt-dev lld
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

if [ "$(id -u)" -eq 0 ]; then
  privileged=()
elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
  privileged=(sudo)
else
  echo "Some packages are missing. Run this, then start again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 3
fi

echo "==> Installing ${#missing[@]} packages: ${missing[*]}"
"${privileged[@]}" apt-get -o DPkg::Lock::Timeout=300 update -q
"${privileged[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"
