// A report with invented figures, to test what is made of it; the demo itself fills one with measurements.
#pragma once

#include <string>

#include "tools/demo/report.h"

namespace tombolo::tools::demo {

inline Report made_up_report() {
  Report report;
  report.cluster.emulated = true;
  const char* names[] = {"A0", "A1", "B0", "B1"};
  for (int i = 0; i < 4; ++i) {
    topology::Host host;
    host.name = names[i];
    host.cluster = i < 2 ? "A" : "B";
    topology::Nic fast, slow;
    fast.name = "fast0";
    fast.kind = i < 2 ? topology::NicKind::kInfiniBand : topology::NicKind::kRoce;
    fast.fabric = host.cluster + "-fast";
    fast.emulated = true;
    fast.addresses = {"10.0.0." + std::to_string(i + 1)};
    slow.name = "eth0";
    slow.rate_bits_per_second = 100'000'000;
    slow.addresses = {"10.1.0." + std::to_string(i + 1)};
    host.nics = {fast, slow};
    host.devices.resize(1);
    host.devices[0].name = "cpu";
    report.cluster.hosts.push_back(host);
  }
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      if ((a < 2) == (b < 2)) {
        report.cluster.links.push_back({names[a], "fast0", names[b], "fast0", 1.9e9 + 1e7 * a, 3.1e-5, true});
      }
      report.cluster.links.push_back({names[a], "eth0", names[b], "eth0", 11.9e6, 1.1e-4, true});
    }
  }
  report.data = "a text <made up> & short";
  report.data_bytes = 4.4e6;
  report.flops_per_second = 4.2e10;
  report.cores = 2;
  report.warm_up_steps = 2;
  const char* run_names[] = {"one-communicator", "per-peer", "holmes"};
  const char* titles[] = {"One communicator today", "Transport per peer", "Holmes plan"};
  double measured[] = {0.50, 0.40, 0.20};
  double predicted[] = {0.54, 0.38, 0.19};
  for (int i = 0; i < 3; ++i) {
    Run run;
    run.name = run_names[i];
    run.title = titles[i];
    run.plan.strategy = i == 2 ? "holmes" : "megatron";
    run.plan.routing = i == 0 ? "shared" : "per-peer";
    run.plan.job.model = {"demo", 8, 128, 4, 128, 256, 4};
    run.plan.job.global_batch = 8;
    run.plan.job.micro_batch = 2;
    run.plan.job.pipeline = 2;
    run.plan.job.data = 2;
    run.plan.pipelines = {{{{0, 4}, {4, 4}}, 8, 1}};
    const char* order[] = {"A0", "B0", "A1", "B1"};
    for (int r = 0; r < 4; ++r)
      run.plan.ranks.push_back({order[r], 0, i == 2 ? r % 2 : r / 2, i == 2 ? r / 2 : r % 2});
    run.measured_step_seconds = measured[i];
    run.predicted.step_seconds = predicted[i];
    run.tokens_per_second = 1024 / measured[i];
    run.step_seconds = {0.6, measured[i]};
    run.loss = {5.55, 5.2 + 1e-5 * i};
    run.links.push_back({"A0", i == 0 ? "eth0" : "fast0", "A1", i == 0 ? "eth0" : "fast0",
                         i == 0 ? topology::NicKind::kTcp : topology::NicKind::kInfiniBand, 2.4e7, 2.4e6});
    run.links.push_back(
        {"A0", "eth0", "B0", "eth0", topology::NicKind::kTcp, i == 2 ? 4e6 : 3.2e7, i == 2 ? 4e5 : 3.2e6});
    for (int r = 0; r < 4; ++r) {
      double shift = 0.03 * run.plan.ranks[static_cast<std::size_t>(r)].stage;
      for (int m = 0; m < 2; ++m) {
        run.predicted.spans.push_back({r, "forward", m, shift + 0.06 * m, shift + 0.06 * m + 0.02});
        run.predicted.spans.push_back({r, "backward", m, shift + 0.06 * m + 0.02, shift + 0.06 * m + 0.06});
      }
      run.predicted.spans.push_back({r, "all-reduce", -1, shift + 0.1, predicted[i] - 0.01});
      run.predicted.spans.push_back({r, "optimizer", -1, predicted[i] - 0.01, predicted[i]});
    }
    run.measured = run.predicted.spans;
    report.runs.push_back(run);
  }
  for (int step = 0; step < 200; ++step) report.loss.push_back(2.4 + 3.1 / (1 + 0.05 * step));
  report.sample = "And the LORD said unto <him> & \"them\"";
  report.environment = {"Linux 6.1", "some processor",       "gcc 12", "0.1.0", "", 2, 8e9, "namespaces",
                        "",          "2026-01-01T00:00:00Z", 170};
  return report;
}

}  // namespace tombolo::tools::demo
