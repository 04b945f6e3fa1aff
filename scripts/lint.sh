#!/usr/bin/env bash
# scripts/lint.sh fast    formatting, shell syntax, Python syntax, include layering
# scripts/lint.sh tidy    clang-tidy on the rooms that meet the wire and untrusted files
# scripts/lint.sh format  rewrites the sources in the project's format
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sources() { git ls-files -co --exclude-standard -- '*.h' '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.c'; }

case "${1:-fast}" in
  format) sources | xargs -r clang-format -i ;;
  fast)
    sources | xargs -r clang-format --dry-run --Werror
    git ls-files -- '*.sh' .ci/run | while read -r script; do bash -n "$script"; done
    git ls-files -- '*.py' | xargs -r /usr/bin/python3 -c '
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, encoding="utf-8").read(), path)'
    /usr/bin/python3 scripts/check_layering.py
    echo "format, scripts and layering are in order" ;;
  tidy)
    # Which reads file by file, where the builds take batches.
    cmake --preset tidy > /dev/null
    git ls-files -- 'base/*.cpp' 'topology/*.cpp' 'transport/*.cpp' 'net_plugin/*.cpp' |
      grep -v '_test\.cpp$' | xargs -r -P "$(nproc)" -n 8 clang-tidy -p build-tidy --quiet --extra-arg=-Wno-error
    echo "clang-tidy is content" ;;
  *) echo "usage: $0 fast|tidy|format" >&2; exit 2 ;;
esac
