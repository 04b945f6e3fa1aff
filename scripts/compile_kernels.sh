#!/bin/sh
# compile_kernels.sh REPORT NVCC ARGUMENT...
# Compiles kernels, and leaves in REPORT what ptxas says that each of them takes: registers, memory, spills
# (scripts/check_kernel_spills.py reads it). All else that the compiler says goes to standard error.
report="$1"
shift
"$@" -Xptxas=-v 2> "$report.partial"
status=$?
grep -v -e '^ptxas info ' -e ' bytes stack frame, ' "$report.partial" >&2
[ "$status" -eq 0 ] && mv "$report.partial" "$report"
exit "$status"
