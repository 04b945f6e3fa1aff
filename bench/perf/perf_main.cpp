// TOMBOLO_COLLECTIVE names this program's.
#include "bench/perf/perf.h"

int main(int argc, char** argv) {
  return tombolo::bench::run_perf(*tombolo::bench::find_collective(TOMBOLO_COLLECTIVE), argc, argv);
}
