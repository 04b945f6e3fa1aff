#!/usr/bin/env bash
# usage: net_symbols.sh LIBRARY. The plugin shows NCCL's seven tables and nothing else, and needs nothing but glibc.
set -eu
library=$1
failed=0

expected=$(printf 'ncclNetPlugin_v%s\n' 6 7 8 9 10 11 12 | sort)
actual=$(nm -D --defined-only "$library" | awk '{print $NF}' | sort)
if [ "$actual" != "$expected" ]; then
  echo "exported symbols differ (< expected, > found):"
  diff <(echo "$expected") <(echo "$actual") || true
  failed=1
fi

for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
  case $needed in
    libc.so.6 | libm.so.6 | ld-linux-x86-64.so.2) ;;
    *) echo "hard-links $needed"; failed=1 ;;
  esac
done
[ $failed -eq 0 ] && echo "seven tables, glibc alone: $library"
exit $failed
