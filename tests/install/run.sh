#!/usr/bin/env bash
# Installs the build tree into a temporary prefix, then builds and runs one consumer by find_package and one by
# pkg-config:  tests/install/run.sh <build-folder>
set -euo pipefail
build=$(realpath "${1:?usage: $0 build-folder}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
for file in bin/tombolo bin/all_reduce_perf bin/hypercube_perf include/tombolo/tombolo.h include/tombolo/tombolo.hpp; do
  [ -e "$work/prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
"$work/prefix/bin/tombolo" --version
# The library is the installed one.
"$work/prefix/bin/tombolo" library | grep -F "$work/prefix"

echo "== find_package(Tombolo)"
cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/configure.log"
cmake --build "$work/consumer" > "$work/build.log"
"$work/consumer/consumer"

echo "== pkg-config"
lib=$(dirname "$(find "$work/prefix" -name tombolo.pc)")
# The .pc file was configured for the default prefix; pkg-config can move it.
flags=$(PKG_CONFIG_PATH=$lib pkg-config --define-variable=prefix="$work/prefix" --cflags --libs tombolo)
# shellcheck disable=SC2086
c++ -std=c++20 "$here/consumer/main.cpp" -o "$work/pc" $flags -Wl,-rpath,"${lib%/pkgconfig}"
"$work/pc"
