#!/usr/bin/env bash
# scripts/lint.sh fast    formatting, shell syntax, Python syntax, include layering
# scripts/lint.sh tidy    clang-tidy on the rooms that meet the wire and untrusted files
# scripts/lint.sh docs    the public headers' reference is built, in a temporary folder, and has no warnings
# scripts/lint.sh format  rewrites the sources in the project's format
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sources() { git ls-files -co --exclude-standard -- '*.h' '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.c'; }

case "${1:-fast}" in
  format) sources | xargs -r clang-format -i ;;
  fast)
    sources | xargs -r clang-format --dry-run --Werror
    git ls-files -- '*.sh' .ci/run | while read -r script; do bash -n "$script"; done
    git ls-files -- '*.py' bench/run bench/trainer bench/micro/compare | xargs -r /usr/bin/python3 -c '
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, encoding="utf-8").read(), path)'
    /usr/bin/python3 scripts/check_layering.py
    echo "format, scripts and layering are in order" ;;
  docs)
    if ! command -v doxygen > /dev/null; then
      echo "skipped: doxygen is not installed (scripts/dependencies.sh lint)"
      exit 0
    fi
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    { cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $folder"; } | doxygen -
    echo "the reference of the public headers has no warnings" ;;
  tidy)
    # Checks the unity batches of clang's build: most of the time goes into the headers that files share.
    cmake --preset asan > /dev/null
    /usr/bin/python3 -c '
import json, re
for entry in json.load(open("build-asan/compile_commands.json")):
    if re.search(r"-o \S+/tombolo_(base|topology|transport|collectives|probe|net_plugin)\.dir/(?!cmake_pch)", entry["command"]):
        print(entry["file"])' |
      xargs -r -P "$(nproc)" -n 1 clang-tidy -p build-asan --quiet --extra-arg=-Wno-error \
        2> >(grep -v 'warnings generated' >&2)
    echo "clang-tidy is content" ;;
  *) echo "usage: $0 fast|docs|tidy|format" >&2; exit 2 ;;
esac
