#include "planner/explain/utilisation.h"

#include <algorithm>
#include <map>
#include <optional>

#include "topology/files/library.h"

namespace tombolo::planner {

namespace {

std::string_view dtype_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "fp32";
    case Precision::kTf32:
      return "tf32";
    case Precision::kFp16:
      return "fp16";
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp8Hybrid:
    case Precision::kFp8E4m3:
      break;
  }
  return "fp8";
}

/// Peaks of devices by name; 0 for what is no GPU, or not in the library.
class Peaks {
 public:
  explicit Peaks(Precision precision) : precision_(precision) {}

  double of(const topology::Device& device) {
    if (device.kind != topology::DeviceKind::kGpu) return 0;
    const auto [at, fresh] = known_.emplace(device.name, 0);
    if (!fresh) return at->second;
    if (!library_) library_ = topology::Library::load();
    if (const auto entry = library_->device_names.find(device.name)) {
      at->second = library_->devices[*entry].peak(dtype_of(precision_));
      // GPUs before Ampere take fp16 for bf16.
      if (at->second == 0 && precision_ == Precision::kBf16)
        at->second = library_->devices[*entry].peak("fp16");
    }
    return at->second;
  }

 private:
  Precision precision_;
  std::optional<topology::Library> library_;
  std::map<std::string, double> known_;
};

}  // namespace

Utilisation utilisation_of(const Plan& plan, const topology::ClusterFile& cluster, double step_seconds) {
  const Model& model = plan.job.model;
  const double flops =
      3.0 * plan.job.global_batch * (model.layers_forward_flops() + model.head_forward_flops());
  double peak = 0;
  bool all_known = true;
  Peaks peaks(plan.job.multiplies_in());
  for (const RankPlacement& place : plan.ranks) {
    const topology::Host* host = cluster.find_host(place.host);
    const auto device = static_cast<std::size_t>(place.device);
    const double one = host && device < host->devices.size() ? peaks.of(host->devices[device]) : 0;
    all_known &= one > 0;
    peak += one;
  }
  const double attained = flops / step_seconds;
  return {attained / static_cast<double>(std::max<std::size_t>(1, plan.ranks.size())),
          all_known && peak > 0 ? attained / peak : 0};
}

}  // namespace tombolo::planner
