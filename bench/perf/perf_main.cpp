// The main function of every *_perf program. The macro TOMBOLO_COLLECTIVE names the collective of this one.
#include "bench/perf/perf.h"

int main(int argc, char** argv) {
  return tombolo::bench::run_perf(*tombolo::bench::find_collective(TOMBOLO_COLLECTIVE), argc, argv);
}
