// What micro_bench measures: one function per subject, each in the file of its name, which registers the
// subject's benchmarks with Google Benchmark. A benchmark's name begins with its subject, so that
// --benchmark_filter selects one. All of them run on one thread, on inputs that are the same in every run.
#pragma once

namespace tombolo::bench::micro {

void register_matrix_products();
void register_trainer_kernels();
void register_reductions();
void register_framing();
void register_cluster_files();
void register_router_choice();
void register_simulation();
void register_search();

}  // namespace tombolo::bench::micro
