#!/usr/bin/env bash
# Installs what is missing, builds into build/, runs the tests.
#   ./test.sh                  everything that this machine can run
#   ./test.sh -L unit          only tests with that label: unit, process, demo, netns, rdma_vm, parity, docs, lint
#   ./test.sh -R transport     only tests whose name matches
#   ./test.sh --preset asan    with AddressSanitizer and UBSan, by clang (build-asan/); tsan likewise
#   TOMBOLO_TEST_SEED=N ./test.sh ...   with the seed that a failed random test printed
# Other options go to ctest. What a machine lacks (namespaces, a GPU) is skipped with a notice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

preset=release
folder=build
options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?--preset needs a name: release, ci, debug, asan or tsan}; folder=build-$preset; shift 2
              [ "$preset" = ci ] || [ "$preset" = release ] && folder=build ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) options+=("$1"); shift ;;
  esac
done

scripts/build.sh --check "$preset"
# The sanitized presets are clang's, which comes with the linters.
wants=test
[ "$preset" != asan ] && [ "$preset" != tsan ] || wants=lint
scripts/dependencies.sh "$wants"
scripts/build.sh "$preset"

# Address-space randomisation beyond 28 bits breaks clang 14's sanitizers.
# Most tests wait half of their time, so that twice as many run as there are cores.
run=(ctest --test-dir "$folder" --timeout 600 --no-tests=error --parallel "$((2 * $(nproc)))")
[ "$preset" = tsan ] || [ "$preset" = asan ] && run=(setarch "$(uname -m)" -R "${run[@]}")
# The fake stack misaligns the 64-byte vectors of the trainer's kernels.
export ASAN_OPTIONS="detect_stack_use_after_return=0 ${ASAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1 ${UBSAN_OPTIONS:-}"
# What failed is all that a long log need say.
export GTEST_BRIEF=${GTEST_BRIEF:-1}
echo "==> Testing ($folder)"
"${run[@]}" "${options[@]}" && exit
failed=$?
scripts/what_failed.py "$folder"
exit "$failed"
