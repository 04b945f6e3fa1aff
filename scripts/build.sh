#!/usr/bin/env bash
# Configures and builds one CMake preset:  scripts/build.sh [--check] [preset] [target...]
# --check only makes sure that it could write; it needs nothing that dependencies.sh installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=
[ "${1:-}" != --check ] || { check=yes; shift; }
preset=${1:-release}
[ $# -eq 0 ] || shift
case "$preset" in
  release | ci) folder=build ;;
  *) folder=build-$preset ;;
esac

if ! mkdir -p "$folder" 2> /dev/null || [ ! -w "$folder" ]; then
  echo "$PWD/$folder cannot be written to. Copy this checkout to a folder of your own and start there." >&2
  exit 1
fi
[ -z "$check" ] || exit 0
# CMake refuses the cache of another checkout, such as after a move, and that of another generator.
cache=$folder/CMakeCache.txt
cached() { sed -n "s/^$1:[A-Z]*=//p" "$cache"; }
if [ -f "$cache" ] && ! { [ "$(cached CMAKE_GENERATOR)" = Ninja ] && [ "$(cached CMAKE_HOME_DIRECTORY)" -ef . ] &&
                          [ "$(cached CMAKE_CACHEFILE_DIR)" -ef "$folder" ]; }; then
  echo "==> $folder/ was configured in another place or for another generator; configuring it anew"
  rm -rf "$cache" "$folder/CMakeFiles"
fi

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
