#include "base/units.h"
#include "compute/cores.h"
#include "compute/product_speed.h"
#include "tools/demo/layer_speed.h"
#include "tools/demo/steps.h"

namespace tombolo::tools::demo {

void measure_computing(const Options& options, Screen& screen, Report& report) {
  constexpr double kProductSeconds = 0.1, kLayerSeconds = 1;
  report.products = compute::measure_products(kProductSeconds).text();
  report.cores = compute::usable_cores();
  report.profile =
      std::make_shared<const planner::Profile>(measure_layers(micro_batches(options), kLayerSeconds));
  report.flops_per_second = flops_per_second(*report.profile, demo_job().micro_batch);
  report.computing_seconds = computing_seconds(*report.profile, report.cores);
  report.rates = choose_link_rates(*report.profile, report.cores, options.ethernet);
  screen.line("matrix products: {}", report.products);
  screen.line("a layer attains {:.1f} GFLOP/s on a core; the ranks share {:g} cores: a step computes for {}",
              report.flops_per_second / 1e9, report.cores, format_seconds(report.computing_seconds));
  screen.line("{}", describe(report.rates));
}

}  // namespace tombolo::tools::demo
