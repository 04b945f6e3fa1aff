// What the searches are tested against: random clusters and jobs, and a search that leaves nothing out.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/model/index.h"
#include "planner/search/shape.h"
#include "planner/testing/testing.h"

namespace tombolo::planner::testing {

/// Hosts of one or two devices of random speed, links of random rates in each direction.
inline topology::ClusterFile random_cluster(std::mt19937_64& random, int devices) {
  std::uniform_real_distribution<> factor(0.3, 3);
  topology::ClusterFile cluster;
  for (int left = devices; left > 0;) {
    topology::Host host;
    host.name = "h" + std::to_string(cluster.hosts.size());
    host.cluster = random() % 2 == 0 ? "a" : "b";
    topology::Nic nic;
    nic.name = "eth";
    host.nics.push_back(nic);
    topology::Device device;
    device.name = "test";
    device.kind = topology::DeviceKind::kGpu;
    device.flops_per_second = 1e9 * factor(random);
    const int count = std::min<int>(left, 1 + static_cast<int>(random() % 2));
    host.devices.assign(at(count), device);
    left -= count;
    cluster.hosts.push_back(host);
  }
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts)
      cluster.links.push_back({from.name, "eth", to.name, "eth",
                               (from.name == to.name ? 1e8 : 1e6) * factor(random), 1e-5 * factor(random),
                               true});
  return cluster;
}

inline Job random_job(std::mt19937_64& random, int layers, int rows) {
  Job job;
  job.model = small_model(layers);
  job.global_batch = rows;
  job.reserve_bytes = 0;  // the tests' devices have a few megabytes
  job.framework =
      std::array{Framework::kTombolo, Framework::kMegatron, Framework::kAny, Framework::kAny}[random() % 4];
  job.tensor = traits(job.framework).tensor_parallel ? 0 : 1;
  if (traits(job.framework).some_layers_again && rows % 2 == 0) job.recompute_layers = Job::kAsNeeded;
  return job;
}

/// A cluster and a job, with everything that searches need of them.
struct SearchSetting {
  explicit SearchSetting(topology::ClusterFile its_cluster, Job its_job)
      : cluster(std::move(its_cluster)),
        view(cluster, "per-peer", {}),
        slots(launcher_slots(view, {})),
        job(std::move(its_job)) {
    options.uneven_replicas = traits(job.framework).uneven_replicas;
  }
  topology::ClusterFile cluster;
  ClusterView view;
  std::vector<LauncherSlot> slots;
  PlanOptions options;
  Job job;
  SearchContext context{view, view, slots, options};
  std::vector<Pool> pools = pools_of(context);
};

/// A job whose replicas and tensor degrees are open, and may differ.
inline Job free_job(int layers, int rows) {
  Job job;
  job.model = small_model(layers);
  job.global_batch = rows;
  job.framework = Framework::kAny;
  job.tensor = 0;
  job.reserve_bytes = 0;
  return job;
}

/// Clusters of GPUs, which have links of 1 GB/s inside their host.
inline topology::ClusterFile gpu_cluster(const std::vector<ClusterSpec>& specs, double ethernet) {
  auto cluster = make_cluster(specs, ethernet, 1e-5);
  for (auto& host : cluster.hosts) {
    host.device_bytes_per_second = 1e9;
    for (auto& device : host.devices) device.kind = topology::DeviceKind::kGpu;
  }
  return cluster;
}

/// Tries every layout with every saving, without bounds and without symmetry: each order of all ranks, cut
/// into groups and pipelines in every way, with every split of layers and rows; where ranks may be left out,
/// every beginning of each order too.
class Everything {
 public:
  Everything(const topology::ClusterFile& cluster, const Job& job, bool may_leave_out = false,
             std::vector<Saving> savings = {})
      : view_(cluster, "per-peer", {}), job_(job) {
    options_.savings = std::move(savings);
    options_.uneven_replicas = traits(job.framework).uneven_replicas && job.context_parallel == 1;
    options_.may_leave_out = may_leave_out;
  }

  double best() {
    for (const auto& slots : startable_slots(launcher_slots(view_, {}), traits(job_.framework))) {
      slots_ = slots;
      std::vector<int> order(slots_.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
      do {
        Layout layout;
        cut(order, 0, layout);
      } while (std::next_permutation(order.begin(), order.end()));
    }
    return best_;
  }

 private:
  void cut(const std::vector<int>& order, std::size_t next, Layout& layout) {
    if (next == order.size() || (options_.may_leave_out && next > 0)) rows(layout, 0, job_.replica_rows());
    if (next == order.size()) return;
    for (std::size_t size = 1; next + size <= order.size(); ++size) {
      const std::vector<int> group(order.begin() + static_cast<std::ptrdiff_t>(next),
                                   order.begin() + static_cast<std::ptrdiff_t>(next + size));
      if (size > 1 && job_.tensor == 1) break;
      if (!std::ranges::is_sorted(group)) continue;
      if (std::ranges::any_of(
              group, [&](int rank) { return slots_[at(rank)].host != slots_[at(group.front())].host; }))
        continue;
      if (!layout.replicas.empty()) {
        layout.replicas.back().slots.push_back({group, 1});
        cut(order, next + size, layout);
        layout.replicas.back().slots.pop_back();
      }
      layout.replicas.push_back({{{group, 1}}, 0, 0});
      cut(order, next + size, layout);
      layout.replicas.pop_back();
    }
  }

  void rows(Layout& layout, std::size_t replica, int left) {
    if (replica == layout.replicas.size()) {
      if (left == 0) layers(layout, 0, 0, job_.model.layers);
      return;
    }
    for (int share = 1; share <= left; ++share)
      for (int micro_batch = 1; micro_batch <= share; ++micro_batch) {
        if (share % micro_batch != 0) continue;
        layout.replicas[replica].rows = share;
        layout.replicas[replica].micro_batch = micro_batch;
        rows(layout, replica + 1, left - share);
      }
  }

  void layers(Layout& layout, std::size_t replica, std::size_t slot, int left) {
    if (replica == layout.replicas.size()) {
      const SearchContext context{view_, view_, slots_, options_};
      for (const Saving& saving : savings_of(options_, job_, layout.replicas.size())) {
        layout.saving = saving;
        best_ = std::min(best_, Scorer(context, job_).seconds(layout));
      }
      return;
    }
    auto& slots = layout.replicas[replica].slots;
    if (slot + 1 == slots.size()) {
      slots[slot].layers = left;
      if (left > 0) layers(layout, replica + 1, 0, job_.model.layers);
      return;
    }
    for (int share = 1; share < left; ++share) {
      slots[slot].layers = share;
      layers(layout, replica, slot + 1, left - share);
    }
  }

  ClusterView view_;
  std::vector<LauncherSlot> slots_;
  PlanOptions options_;
  const Job& job_;
  double best_ = Scorer::kNever;
};

}  // namespace tombolo::planner::testing
