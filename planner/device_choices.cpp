#include "planner/device_choices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "planner/model/index.h"
#include "planner/plan/device_precision.h"
#include "topology/files/library.h"

namespace tombolo::planner {

namespace {

const topology::Device& device_in(const ClusterView& view, const LauncherSlot& slot) {
  return view.host(slot.host).devices[at(slot.device)];
}

/// What the library says of GPUs, each asked for once.
class KnownGpus {
 public:
  /// Whether the GPU has multicast and reaches all others of its host by NVLink switches.
  bool multicasts(const topology::Device& device) {
    if (device.kind != topology::DeviceKind::kGpu) return false;
    const auto [entry, is_new] = multicasts_.try_emplace(device.name, false);
    if (is_new)
      if (const auto known = library_.device_names.find(device.name))
        entry->second = library_.devices[*known].compute_capability >= 9 && library_.devices[*known].switched;
    return entry->second;
  }
  /// Whether it multiplies in bf16; what the library does not know is taken to.
  bool has_bf16(const topology::Device& device) {
    if (device.kind != topology::DeviceKind::kGpu) return true;
    const auto [entry, is_new] = has_bf16_.try_emplace(device.name, true);
    if (is_new)
      if (const auto known = library_.device_names.find(device.name))
        entry->second = library_.devices[*known].peak("bf16") != 0;
    return entry->second;
  }

 private:
  topology::Library library_ = topology::Library::load();
  std::map<std::string, bool> multicasts_, has_bf16_;
};

/// Whether devices of a host reach each other faster than PCI Express 6.0 x16 carries; two GPUs of an NVLink
/// switch of Hopper's 3.5 times as fast.
bool has_nvlink(const ClusterView& view, int host) {
  constexpr double kNoNvlink = 1.3e11;
  return view.path(host, host).bytes_per_second > kNoNvlink;
}

/// Whether the software whose constants count was measured on the device.
bool is_measured(const Job& job, const topology::Device& device) {
  return job.software.empty() || !job.compute || device.kind != topology::DeviceKind::kGpu ||
         job.compute->find(device.name) != nullptr;
}

template <typename Keep>
std::vector<LauncherSlot> those(const std::vector<LauncherSlot>& slots, const Keep& keep) {
  std::vector<LauncherSlot> some;
  std::ranges::copy_if(slots, std::back_inserter(some), keep);
  return some;
}

/// "in fp16", "without exchanges beside products": in what a job differs from another.
std::string other_choices(const Job& other, const Job& job) {
  std::vector<std::string> words;
  if (other.multiplies_in() != job.multiplies_in())
    words.push_back(fmt::format("in {}", precision_name(other.multiplies_in())));
  if (other.overlap_tensor != job.overlap_tensor)
    words.push_back(fmt::format("with{} exchanges beside products", other.overlap_tensor ? "" : "out"));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

bool suits_tensor_overlap(const ClusterView& view, const std::vector<LauncherSlot>& slots) {
  KnownGpus gpus;
  return std::ranges::all_of(slots, [&](const LauncherSlot& slot) {
    return has_nvlink(view, slot.host) && gpus.multicasts(device_in(view, slot));
  });
}

Job decided_for(const ClusterView& view, const std::vector<LauncherSlot>& slots, const Job& job,
                const PlanOptions& options) {
  for (const LauncherSlot& slot : slots)
    if (const topology::Device& device = device_in(view, slot); !is_measured(job, device))
      fail(Cause::kInvalidUsage,
           "host {} has GPUs {}, of which the library has no constants of {} (library/compute.json); leave "
           "out --software, or add a record",
           view.host(slot.host).name, device.name, job.software);
  Job decided = job;
  if (options.precision_by_devices) {
    std::set<std::pair<std::string, int>> used;
    for (const LauncherSlot& slot : slots) used.insert({view.host(slot.host).name, slot.device});
    const Precision precision = precision_on(view.cluster(), job, [&](const std::string& host, int device) {
      return used.contains({host, device});
    });
    if (precision != job.multiplies_in()) decided.precision = precision;
  }
  if (options.overlap_by_devices) decided.overlap_tensor = suits_tensor_overlap(view, slots);
  return decided;
}

std::vector<SlotChoice> slot_choices(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                                     const Job& job, const PlanOptions& options) {
  std::vector<SlotChoice> choices{{slots, ""}};
  if (!options.may_leave_out) return choices;
  const auto narrow = [&](std::string lack, const auto& keep) {
    std::vector<LauncherSlot> some = those(choices.front().slots, keep);
    if (!some.empty() && some.size() < choices.front().slots.size())
      choices.insert(choices.begin(), {std::move(some), std::move(lack)});
  };
  narrow(fmt::format("were not measured with {}", job.software),
         [&](const LauncherSlot& slot) { return is_measured(job, device_in(view, slot)); });
  if (choices.size() > 1) choices.pop_back();  // a plan on the others is refused
  KnownGpus gpus;
  if (options.precision_by_devices && job.framework != Framework::kTombolo &&
      job.multiplies_in() == Precision::kBf16)
    narrow("have no bf16", [&](const LauncherSlot& slot) { return gpus.has_bf16(device_in(view, slot)); });
  if (options.overlap_by_devices)
    narrow("cannot exchange beside products without further ado", [&](const LauncherSlot& slot) {
      return has_nvlink(view, slot.host) && gpus.multicasts(device_in(view, slot));
    });
  return choices;
}

bool has_other_choices(const Job& one, const Job& other) noexcept {
  return one.multiplies_in() != other.multiplies_in() || one.overlap_tensor != other.overlap_tensor;
}

void note_devices(const ClusterView& view, const std::vector<LauncherSlot>& all, const SlotChoice& taken,
                  const Job& job, const std::vector<ChoiceTime>& times, Plan& plan) {
  std::set<std::pair<int, int>> kept;
  for (const LauncherSlot& slot : taken.slots) kept.insert({slot.host, slot.device});
  std::map<std::string, std::pair<int, std::set<std::string>>> types;
  for (const LauncherSlot& slot : all) {
    if (kept.contains({slot.host, slot.device})) continue;
    const topology::Host& host = view.host(slot.host);
    plan.left_out.push_back({host.name, slot.device});
    auto& [count, hosts] = types[host.devices[at(slot.device)].name];
    ++count;
    hosts.insert(host.name);
  }
  std::vector<std::string> idle;
  for (const auto& [name, type] : types)
    idle.push_back(fmt::format("{} {} of {}", type.first, name, fmt::join(type.second, ", ")));
  if (!idle.empty())
    plan.notes.push_back(fmt::format("left out: {}, which {}", fmt::join(idle, "; "), taken.lack));
  const ChoiceTime* other = nullptr;
  for (const ChoiceTime& one : times)
    if (has_other_choices(one.job, job) && (!other || one.step_seconds < other->step_seconds)) other = &one;
  if (other)
    plan.notes.push_back(fmt::format("on {}, {}, a step would take {} ({:.2f}x)",
                                     counted(other->devices, "device"), other_choices(other->job, job),
                                     format_seconds(other->step_seconds),
                                     other->step_seconds / plan.prediction.step_seconds));
}

}  // namespace tombolo::planner
