#!/usr/bin/env bash
# Configures and builds one CMake preset:  scripts/build.sh [preset] [target...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-release}
[ $# -eq 0 ] || shift
case "$preset" in
  release | ci) folder=build ;;
  *) folder=build-$preset ;;
esac

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "==> Configuring ($preset) into $folder/"
if ! cmake --preset "$preset" > "$log" 2>&1; then
  cat "$log" >&2
  echo "Configuring failed. The message above names what is missing; ./demo.sh and ./test.sh install it." >&2
  exit 1
fi
echo "==> Building with $(nproc) jobs"
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
NINJA_STATUS="[%f/%t %es] " cmake --build "$folder" -j "$(nproc)" "${targets[@]}"
