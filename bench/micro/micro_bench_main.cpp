// Runs the benchmarks of single parts that determine the figures of the slower benchmarks.
#include <benchmark/benchmark.h>

#include "bench/micro/subjects.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  using namespace tombolo::bench::micro;
  register_matrix_products();
  register_trainer_kernels();
  register_reductions();
  register_framing();
  register_cluster_files();
  register_router_choice();
  register_simulation();
  register_search();
  // Google Benchmark returns 0 even where the filter matches nothing; this program fails then.
  const bool any = benchmark::RunSpecifiedBenchmarks() > 0;
  benchmark::Shutdown();
  return any ? 0 : 1;
}
