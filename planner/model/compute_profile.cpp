#include "planner/model/compute_profile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tombolo::planner {

namespace {

ComputeProfile constants_of(const JsonCursor& at) {
  ComputeProfile profile;
  const auto read = [&](std::string_view name, double& value) {
    if (const auto field = at.optional(name)) value = field->number_at_least(0);
  };
  const auto read_share = [&](std::string_view name, double& value) {
    if (const auto field = at.optional(name)) value = field->positive_number();
  };
  read_share("products", profile.products);
  read_share("attention", profile.attention);
  read_share("inside_share", profile.inside_share);
  read_share("network_share", profile.network_share);
  if (const auto field = at.optional("fused_attention")) profile.fused_attention = field->boolean();
  read("traffic", profile.traffic);
  read("loss_traffic", profile.loss_traffic);
  read("forward_floor", profile.forward_floor);
  read("backward_floor", profile.backward_floor);
  read("floor_per_host", profile.floor_per_host);
  read("floor_per_pipelined_rank", profile.floor_per_pipelined_rank);
  read("hop_seconds", profile.hop_seconds);
  read("network_hop_seconds", profile.network_hop_seconds);
  read("step_seconds", profile.step_seconds);
  read("crowded_seconds", profile.crowded_seconds);
  profile.source = at.field("source").text();
  return profile;
}

HeldMemory memory_of(const JsonCursor& at) {
  HeldMemory memory;
  memory.gradient_bytes = at.field("gradient_bytes").number_at_least(0);
  memory.kept_hidden = at.field("kept_hidden").number_at_least(8);
  memory.kept_inner = at.field("kept_inner").positive_number();
  memory.logit_bytes = at.field("logit_bytes").number_at_least(4);
  if (const auto field = at.optional("deferred_alone")) memory.deferred_alone = field->number_at_least(0);
  if (const auto field = at.optional("deferred_staged")) {
    memory.deferred_staged = field->number_at_least(0);
    memory.deferred_tensor = static_cast<int>(at.field("deferred_tensor").integer(1, 1 << 20));
  }
  memory.bytes = at.field("bytes").number_at_least(0);
  memory.source = at.field("source").text();
  return memory;
}

}  // namespace

void ComputeProfiles::add(std::string device, ComputeProfile profile) {
  by_device_.emplace_back(std::move(device), std::move(profile));
}

const ComputeProfile* ComputeProfiles::find(std::string_view device) const noexcept {
  const ComputeProfile* any = nullptr;
  for (const auto& [name, profile] : by_device_) {
    if (name == device) return &profile;
    if (name == ComputeLibrary::kAnyGpu) any = &profile;
  }
  return any;
}

ComputeLibrary ComputeLibrary::load() {
  return parse(JsonDocument::load(topology::library_file("compute.json")));
}

ComputeLibrary ComputeLibrary::parse(const JsonDocument& document) {
  ComputeLibrary library;
  const JsonCursor root = topology::library_root(document);
  root.only({"tombolo_library", "note", "records", "memory"});
  std::set<std::pair<std::string, std::string>> seen;
  for (const JsonCursor& at : root.field("records").elements()) {
    at.only({"device", "software", "products", "fused_attention", "attention", "traffic", "loss_traffic",
             "forward_floor", "backward_floor", "floor_per_host", "floor_per_pipelined_rank", "inside_share",
             "network_share", "hop_seconds", "network_hop_seconds", "step_seconds", "crowded_seconds",
             "source"});
    Record record{at.field("device").text(), {}, constants_of(at)};
    for (const JsonCursor& software : at.field("software").elements()) {
      record.software.push_back(software.text());
      if (!seen.insert({record.device, record.software.back()}).second)
        software.reject(
            fmt::format("{} on {} has a record already; keep one", record.software.back(), record.device));
    }
    library.records.push_back(std::move(record));
  }
  if (const auto memory = root.optional("memory"))
    for (const JsonCursor& at : memory->elements()) {
      at.only({"software", "gradient_bytes", "kept_hidden", "kept_inner", "logit_bytes", "bytes",
               "deferred_alone", "deferred_staged", "deferred_tensor", "source"});
      MemoryRecord record{{}, memory_of(at)};
      for (const JsonCursor& software : at.field("software").elements()) {
        record.software.push_back(software.text());
        if (!seen.insert({"", record.software.back()}).second)
          software.reject(
              fmt::format("the memory of {} has a record already; keep one", record.software.back()));
      }
      library.memory.push_back(std::move(record));
    }
  return library;
}

std::shared_ptr<const ComputeProfiles> ComputeLibrary::of(std::string_view software) const {
  auto profiles = std::make_shared<ComputeProfiles>();
  bool found = false;
  for (const Record& record : records)
    if (std::ranges::find(record.software, software) != record.software.end()) {
      profiles->add(record.device, record.profile);
      found = true;
    }
  for (const MemoryRecord& record : memory)
    if (std::ranges::find(record.software, software) != record.software.end())
      profiles->memory = record.memory;
  return found ? profiles : nullptr;
}

std::vector<std::string> ComputeLibrary::software() const {
  std::set<std::string> names;
  for (const Record& record : records) names.insert(record.software.begin(), record.software.end());
  return {names.begin(), names.end()};
}

std::shared_ptr<const ComputeProfiles> library_profiles(std::string_view framework,
                                                        std::string_view software) {
  if (framework == "tombolo") return nullptr;
  const ComputeLibrary library = ComputeLibrary::load();
  auto profiles = library.of(software.empty() ? framework : software);
  if (!profiles && !software.empty())
    fail(Cause::kInvalidUsage, "the library has no constants of the software \"{}\"; it has those of {}",
         software, fmt::join(library.software(), ", "));
  return profiles;
}

}  // namespace tombolo::planner
