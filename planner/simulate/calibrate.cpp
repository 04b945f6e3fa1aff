#include "planner/simulate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

constexpr int kMostRounds = 40;
constexpr double kCloseEnough = 1e-3;
constexpr int kHalvings = 14;
// The speed to begin with where the cluster file does not state that of the memory.
constexpr double kSomeMemorySpeed = 1e10;

void check_run(const Plan& plan, const MeasuredRun& run) {
  if (run.global_batch > 0 && run.global_batch != plan.job.global_batch)
    fail(Cause::kInvalidUsage,
         "measured run: its steps have {} rows, but the plan's have {}; it is of another job",
         run.global_batch, plan.job.global_batch);
  if (run.context > 0 && run.context != plan.job.model.context)
    fail(Cause::kInvalidUsage,
         "measured run: its rows have {} tokens, but the plan's have {}; it is of another job", run.context,
         plan.job.model.context);
  if (run.devices > 0 && at(run.devices) != plan.ranks.size())
    fail(Cause::kInvalidUsage,
         "measured run: {} devices trained, but the plan has {} ranks; it was measured with another",
         run.devices, plan.ranks.size());
  if (run.ranks.empty()) return;
  if (plan.ranks.size() != run.ranks.size())
    fail(Cause::kInvalidUsage, "measured run: {} ranks, but the plan has {}; it was measured with another",
         run.ranks.size(), plan.ranks.size());
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const auto& planned = plan.ranks[rank];
    const auto& measured = run.ranks[rank];
    const bool same_host = measured.host == planned.host || measured.host.empty();
    if (!same_host || measured.stage != planned.stage || measured.replica != planned.replica)
      fail(Cause::kInvalidUsage,
           "measured run: rank {} was stage {}, replica {} on host {}, but in the plan it is stage {}, "
           "replica "
           "{} on host {}; it was measured with another plan",
           rank, measured.stage, measured.replica, measured.host, planned.stage, planned.replica,
           planned.host);
  }
}

/// A device on a host, or all devices of a name where the host is -1.
struct DeviceKey {
  int host = -1, device = 0;
  std::string name;
  friend auto operator<=>(const DeviceKey&, const DeviceKey&) = default;
};

int host_at(const topology::ClusterFile& cluster, const std::string& name) {
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host)
    if (cluster.hosts[host].name == name) return static_cast<int>(host);
  fail(Cause::kInvalidUsage, "the plan's host {} is not in {}", name, cluster.source);
}

double ratio(double measured, double predicted) {
  return measured > 0 && predicted > 0 ? measured / predicted : 1;
}

class Calibrator {
 public:
  Calibrator(const Plan& plan, const topology::ClusterFile& cluster, const MeasuredRun& run)
      : plan_(plan), run_(run), given_(cluster), cluster_(cluster), original_(plan.job.profile) {
    if (original_) sending_seconds_per_byte_ = original_->sending_seconds_per_byte;
    for (const RankPlacement& place : plan.ranks) {
      const int host = host_at(cluster, place.host);
      const auto& devices = cluster.hosts[at(host)].devices;
      if (at(place.device) >= devices.size())
        fail(Cause::kInvalidUsage, "the plan uses device {} of host {}, which has {} in {}", place.device,
             place.host, devices.size(), cluster.source);
      const std::string& name = devices[at(place.device)].name;
      keys_.push_back(original_ ? DeviceKey{-1, 0, name} : DeviceKey{host, place.device, name});
      factors_.try_emplace(keys_.back());
    }
    if (!original_ && !run.ranks.empty())
      for (auto& host : cluster_.hosts)
        for (auto& device : host.devices)
          if (device.memory_bytes_per_second <= 0) device.memory_bytes_per_second = kSomeMemorySpeed;
    const bool known = !run.ranks.empty() && std::ranges::all_of(run.ranks, [](const auto& rank) {
      return rank.processor.has_value();
    });
    by_processor_ = known && cluster.shared_processor;
    if (known && on_processors()) sending_seconds_per_byte_ = sending_seconds_per_byte();
  }

  Calibration run() {
    Calibration result;
    result.predicted = simulate(plan_, given_);
    result.predicted_ranks = rank_seconds(result.predicted, plan_);
    for (int round = 0; round < kMostRounds && !run_.ranks.empty(); ++round) {
      apply();
      result.calibrated = simulate(corrected_, corrected_cluster_);
      result.calibrated_ranks = rank_seconds(result.calibrated, plan_);
      if (!improve(by_processor_ ? alone() : result.calibrated_ranks)) break;
    }
    if (by_processor_ || run_.ranks.empty()) {
      fit_the_step();
      result.calibrated = simulate(corrected_, corrected_cluster_);
      result.calibrated_ranks = rank_seconds(result.calibrated, plan_);
    }
    result.cluster = corrected_cluster_;
    result.profile = corrected_.job.profile;
    for (const auto& [key, factor] : factors_)
      result.corrections.push_back({key.host < 0 ? std::string() : cluster_.hosts[at(key.host)].name,
                                    key.device, key.name, factor.forward, factor.backward, factor.update});
    return result;
  }

 private:
  struct Factors {
    double forward = 1, backward = 1, update = 1;
  };

  /// Lengthens or shortens all passes until the simulated step takes as long as the measured one.
  void fit_the_step() {
    const auto factors = factors_;
    double least = 1 / kMostSpread, most = kMostSpread;
    for (int halving = 0; halving < kHalvings; ++halving) {
      const double longer = (least + most) / 2;
      for (auto& [key, factor] : factors_) {
        factor.forward = longer * factors.at(key).forward;
        factor.backward = longer * factors.at(key).backward;
      }
      apply();
      const double step = simulate(corrected_, corrected_cluster_, {.spans = false}).step_seconds;
      (step < run_.median_step() ? least : most) = longer;
    }
  }

  bool on_processors() const {
    return std::ranges::all_of(plan_.ranks, [&](const RankPlacement& place) {
      const auto& devices = given_.hosts[at(host_at(given_, place.host))].devices;
      return devices[at(place.device)].kind == topology::DeviceKind::kCpu;
    });
  }

  double sending_seconds_per_byte() const {
    double seconds = 0, bytes = 0;
    for (const auto& rank : run_.ranks) seconds += rank.processor->sending;
    for (const LinkBytes& link : run_.links) bytes += link.bytes;
    return bytes > 0 ? seconds / bytes : 0;
  }

  /// The seconds that each rank would compute with a processor of its own.
  std::vector<RankSeconds> alone() const {
    topology::ClusterFile apart = corrected_cluster_;
    apart.shared_processor.reset();
    return rank_seconds(simulate(corrected_, apart), plan_);
  }

  /// Makes one step towards the measurement; false once it is reached.
  bool improve(const std::vector<RankSeconds>& now) {
    std::map<DeviceKey, RankSeconds> measured, predicted;
    const auto add = [](RankSeconds& sum, const RankSeconds& more) {
      sum.forward += more.forward;
      sum.backward += more.backward;
      sum.update += more.update;
    };
    for (std::size_t rank = 0; rank < keys_.size(); ++rank) {
      const MeasuredRun::Rank& seen = run_.ranks[rank];
      add(measured[keys_[rank]], by_processor_ ? seen.processor->computing : seen.seconds);
      add(predicted[keys_[rank]], now[rank]);
    }
    double furthest = 0;
    for (auto& [key, factor] : factors_) {
      const RankSeconds &wanted = measured[key], &seen = predicted[key];
      double forward = ratio(wanted.forward, seen.forward), backward = ratio(wanted.backward, seen.backward);
      // Without a profile, one FLOP/s stands for both passes.
      if (!original_)
        forward = backward = ratio(wanted.forward + wanted.backward, seen.forward + seen.backward);
      const double update = ratio(wanted.update, seen.update);
      factor.forward *= forward;
      factor.backward *= backward;
      factor.update *= update;
      for (const double each : {forward, backward, update}) furthest = std::max(furthest, std::abs(each - 1));
    }
    return furthest > kCloseEnough;
  }

  void apply() {
    corrected_ = plan_;
    corrected_cluster_ = cluster_;
    if (original_) {
      correct_profile();
    } else {
      correct_cluster();
    }
  }

  void correct_profile() {
    auto profile = std::make_shared<Profile>(*original_);
    profile->measurements.clear();
    for (const auto& one : original_->measurements)
      if (!factors_.contains({-1, 0, one.device})) profile->measurements.push_back(one);
    for (const auto& [key, factor] : factors_) {
      const bool by_name = was_measured(key.name);
      for (Profile::Measurement one : original_->measurements) {
        if (one.device != (by_name ? key.name : std::string())) continue;
        one.device = key.name;
        one.times.forward *= factor.forward;
        one.times.backward *= factor.backward;
        one.times.update *= factor.update;
        profile->measurements.push_back(std::move(one));
      }
    }
    profile->sending_seconds_per_byte = sending_seconds_per_byte_;
    corrected_.job.profile = std::move(profile);
  }

  /// Whether the device was measured by its name. Otherwise the measurements of "any device" apply to it.
  bool was_measured(const std::string& name) const {
    return std::ranges::any_of(original_->measurements, [&](const auto& one) { return one.device == name; });
  }

  void correct_cluster() {
    for (std::size_t host = 0; host < corrected_cluster_.hosts.size(); ++host) {
      auto& devices = corrected_cluster_.hosts[host].devices;
      for (std::size_t index = 0; index < devices.size(); ++index) {
        const DeviceKey key{static_cast<int>(host), static_cast<int>(index), devices[index].name};
        const auto found = factors_.find(key);
        if (found == factors_.end() && !is_used(key.name)) {
          devices[index] = given_.hosts[host].devices[index];
          continue;
        }
        const Factors factor = found != factors_.end() ? found->second : average(key.name);
        devices[index].flops_per_second /= factor.backward;
        devices[index].memory_bytes_per_second /= factor.update;
      }
    }
  }

  bool is_used(const std::string& name) const {
    return std::ranges::any_of(factors_, [&](const auto& one) { return one.first.name == name; });
  }

  /// The mean factors of the devices of that name that the plan uses.
  Factors average(const std::string& name) const {
    Factors sum{0, 0, 0};
    double count = 0;
    for (const auto& [key, factor] : factors_) {
      if (key.name != name) continue;
      sum.backward += factor.backward;
      sum.update += factor.update;
      ++count;
    }
    return {sum.backward / count, sum.backward / count, sum.update / count};
  }

  const Plan& plan_;
  const MeasuredRun& run_;
  const topology::ClusterFile& given_;
  topology::ClusterFile cluster_;  // with a value in place of unknown memory speeds
  std::shared_ptr<const Profile> original_;
  std::vector<DeviceKey> keys_;  // by rank
  std::map<DeviceKey, Factors> factors_;
  bool by_processor_ = false;
  double sending_seconds_per_byte_ = 0;
  Plan corrected_;
  topology::ClusterFile corrected_cluster_;
};

}  // namespace

std::vector<RankSeconds> rank_seconds(const Simulation& simulation, const Plan& plan) {
  std::vector<RankSeconds> ranks(plan.ranks.size());
  for (const Span& span : simulation.spans) {
    const double seconds = span.end_seconds - span.begin_seconds;
    RankSeconds& rank = ranks[at(span.rank)];
    if (span.name == "forward") rank.forward += seconds;
    if (span.name == "backward" || span.name == "weight gradients") rank.backward += seconds;
    if (span.name == "optimizer") rank.update += seconds;
  }
  // Tensor-parallel ranks work in step, and only the first has spans.
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPlacement& place = plan.ranks[rank];
    if (place.tensor > 0) ranks[rank] = ranks[at(plan.rank_at(place.stage, place.replica))];
  }
  return ranks;
}

Calibration calibrate(const Plan& plan, const topology::ClusterFile& cluster, const MeasuredRun& run) {
  check_run(plan, run);
  return Calibrator(plan, cluster, run).run();
}

}  // namespace tombolo::planner
