#!/usr/bin/env bash
# usage: exported_symbols.sh LIBRARY LIST [--glibc-only]. The library exports the symbols that the list names, one a line and
# sorted, and no other. --glibc-only: and it needs no library but glibc's.
set -euo pipefail
library=$1 list=$2
failed=0

if ! difference=$(diff <(LC_ALL=C sort "$list") <(nm -D --defined-only "$library" | awk '{print $NF}' | LC_ALL=C sort)); then
  echo "$library exports other symbols than $list (< listed, > exported):"
  echo "$difference"
  echo "If the change is meant, change the list; removing or renaming a symbol needs a new major version."
  failed=1
fi

if [ "${3:-}" = --glibc-only ]; then
  for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $needed in
      libc.so.6 | libm.so.6 | ld-linux-x86-64.so.2) ;;
      *) echo "$library links $needed: only glibc's libraries are allowed, others are loaded at run time"; failed=1 ;;
    esac
  done
fi
[ $failed -eq 0 ] && echo "$(wc -l < "$list") symbols, as listed: $library"
exit $failed
