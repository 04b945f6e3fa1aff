#!/usr/bin/env bash
# Builds the fuzz targets (clang, preset asan) and runs each:  tests/fuzz/run.sh [seconds for each target] [target...]
# heap_limit.cpp says how much memory an input may take.
# First every input of its corpus, then new ones. What fails is left in build-asan/failures/; mend the product, and add
# the input to tests/fuzz/corpus/<target>/ under a name that says what it showed.
# tests/fuzz/run.sh seeds   writes the seeds again, after a change of format.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=0 ${ASAN_OPTIONS:-}"

if [ "${1:-}" = seeds ]; then
  scripts/build.sh asan fuzz_seeds
  build-asan/bin/fuzz_seeds tests/fuzz/corpus
  exit 0
fi
seconds=${1:-5}
[ $# -eq 0 ] || shift
scripts/build.sh asan fuzzers
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cd tests/fuzz && ls -- */*_fuzz.cpp | sed 's|.*/||; s/_fuzz\.cpp$//')
mkdir -p build-asan/failures

# libFuzzer counts a feature as rare until 255 inputs had it, and looks for each feature of each input in the list of
# the rare ones: for targets with sockets, whose inputs have some ten thousand, that took four fifths of all time.
export options=-entropic_feature_frequency_threshold=2

one() {
  local target=$1 seconds=$2 found=build-asan/found/$1 log=build-asan/$1.log leaks=1
  # Records of closed connections outlive an input, so that libFuzzer would look for leaks after nearly each. The process looks
  # for them at its end.
  [ "$target" != tcp_connection ] || leaks=0
  mkdir -p "$found" "tests/fuzz/corpus/$target"
  if nice -n 5 setarch "$(uname -m)" -R build-asan/bin/fuzz_"$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=5120 "$options" -detect_leaks="$leaks" \
      -artifact_prefix=build-asan/failures/"$target"- -print_final_stats=1 "$found" "tests/fuzz/corpus/$target" > "$log" 2>&1; then
    echo "ok      $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
  else
    echo "FAILED  $target"
    tail -n 60 "$log"
    return 1
  fi
}
export -f one
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'one "$1" "$2"' _ {} "$seconds"
