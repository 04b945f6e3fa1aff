#include "planner/model/profile.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/error.h"
#include "planner/model/index.h"
#include "planner/model/model_json.h"

namespace tombolo::planner {

namespace {

constexpr std::string_view kLayer = "layer";
constexpr std::int64_t kMostLayers = 100'000;
constexpr int kLargestCount = std::numeric_limits<int>::max();

LayerTimes operator*(double factor, const LayerTimes& times) {
  return {factor * times.forward, factor * times.backward, times.update,
          static_cast<std::uint64_t>(factor * static_cast<double>(times.kept_bytes))};
}

LayerTimes between(const LayerTimes& low, const LayerTimes& high, double share) {
  const auto mix = [share](double a, double b) { return a + share * (b - a); };
  return {mix(low.forward, high.forward), mix(low.backward, high.backward), mix(low.update, high.update),
          static_cast<std::uint64_t>(
              mix(static_cast<double>(low.kept_bytes), static_cast<double>(high.kept_bytes)))};
}

/// The times of more rows than were measured, see Profile::times().
LayerTimes beyond(const std::map<int, LayerTimes>& by_rows, int rows) {
  constexpr double kHardlyLonger = 1.1;
  const auto& [most, last] = *by_rows.rbegin();
  LayerTimes times = static_cast<double>(rows) / most * last;
  if (by_rows.size() < 2) return times;
  const auto& [fewer, before] = *std::next(by_rows.rbegin());
  const auto along = [&, most = most, fewer = fewer](double small, double large, double proportional) {
    if (large < kHardlyLonger * small) return proportional;
    return std::min(proportional, large + (large - small) / (most - fewer) * (rows - most));
  };
  times.forward = along(before.forward, last.forward, times.forward);
  times.backward = along(before.backward, last.backward, times.backward);
  return times;
}

}  // namespace

std::string_view Profile::kind_of(int layer) const noexcept {
  return layers.empty() ? kLayer : std::string_view(layers[at(layer)]);
}

const Profile::Kind* Profile::find_kind(std::string_view name) const noexcept {
  const auto found = std::ranges::find_if(kinds, [&](const Kind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

std::optional<LayerTimes> Profile::times(std::string_view device, std::string_view kind, int tensor,
                                         int micro_batch) const {
  std::map<int, LayerTimes> by_rows;
  for (const std::string_view name : {device, std::string_view()}) {
    for (const Measurement& one : measurements)
      if (one.device == name && one.kind == kind && one.tensor == tensor)
        by_rows[one.micro_batch] = one.times;
    if (!by_rows.empty()) break;
  }
  if (by_rows.empty()) return std::nullopt;
  for (auto larger = by_rows.rbegin(), one = std::next(larger); one != by_rows.rend(); larger = one++) {
    one->second.forward = std::min(one->second.forward, larger->second.forward);
    one->second.backward = std::min(one->second.backward, larger->second.backward);
  }
  const auto above = by_rows.lower_bound(micro_batch);
  if (above == by_rows.end()) return beyond(by_rows, micro_batch);
  if (above->first == micro_batch) return above->second;
  if (above == by_rows.begin()) {
    LayerTimes times = above->second;
    times.kept_bytes =
        // memory grows in proportion from zero, without a minimum
        (static_cast<double>(micro_batch) / above->first * times).kept_bytes;
    return times;
  }
  const auto below = std::prev(above);
  return between(below->second, above->second,
                 static_cast<double>(micro_batch - below->first) / (above->first - below->first));
}

void Profile::check(const Model& wanted) const {
  if (!layers.empty() && static_cast<int>(layers.size()) != wanted.layers)
    fail(Cause::kInvalidUsage,
         "profile: layers lists the kinds of {} layers, but the model has {}; list each layer once",
         layers.size(), wanted.layers);
  if (!model) return;
  const auto same = [](std::string_view what, auto measured, auto planned) {
    if (measured != planned)
      fail(Cause::kInvalidUsage,
           "profile: measured with {} {}, but the model has {}; measure this model (tombolo profile)", what,
           measured, planned);
  };
  same("width", model->hidden, wanted.hidden);
  same("heads", model->heads, wanted.heads);
  same("context", model->context, wanted.context);
  same("vocabulary", model->vocabulary, wanted.vocabulary);
  same("bytes_per_value", model->bytes_per_value, wanted.bytes_per_value);
  same("kv_heads", model->key_value_heads(), wanted.key_value_heads());
  same("feed_forward", model->inner(), wanted.inner());
  same("gated", model->gated, wanted.gated);
  same("learned_positions", model->learned_positions, wanted.learned_positions);
  same("tied_embeddings", model->tied_embeddings, wanted.tied_embeddings);
  same("biases", model->biases, wanted.biases);
  same("kv_rank", model->kv_rank, wanted.kv_rank);
}

std::vector<int> Profile::micro_batches(std::string_view device) const {
  std::set<int> found;
  for (const std::string_view name : {device, std::string_view()}) {
    for (const Measurement& one : measurements)
      if (one.device == name && one.kind == kind_of(0)) found.insert(one.micro_batch);
    if (!found.empty()) break;
  }
  return {found.begin(), found.end()};
}

Profile Profile::load(const std::string& path) {
  return parse(JsonDocument::load(path));
}

Profile Profile::parse(const JsonDocument& document) {
  const JsonCursor root = document.root();
  root.only({"tombolo_profile", "model", "layers", "kinds", "overhead_bytes", "sending_seconds_per_byte",
             "recompute", "devices", "measurements"});
  const JsonCursor version = root.field("tombolo_profile");
  if (version.integer(1, kLargestCount) != kVersion)
    version.reject(fmt::format("version {} of the format; this build reads {}",
                               version.integer(1, kLargestCount), kVersion));
  Profile profile;
  const auto bytes = [](const JsonCursor& at, std::string_view field) {
    const auto found = at.optional(field);
    return found ? static_cast<std::uint64_t>(found->integer(0, std::numeric_limits<std::int64_t>::max()))
                 : 0;
  };
  profile.overhead_bytes = bytes(root, "overhead_bytes");
  if (const auto sending = root.optional("sending_seconds_per_byte"))
    profile.sending_seconds_per_byte = sending->number_at_least(0);
  if (const auto model = root.optional("model")) profile.model = parse_model(*model);
  if (const auto recompute = root.optional("recompute")) {
    const auto named = recompute_from_name(recompute->text());
    if (!named)
      recompute->reject(fmt::format("expected none, selective or full, found \"{}\"", recompute->text()));
    profile.recompute = *named;
  }
  if (const auto devices = root.optional("devices"))
    for (const JsonCursor& item : devices->elements()) {
      item.only({"name", "description", "peak_flops_per_second"});
      Device device;
      device.name = item.field("name").text();
      if (const auto text = item.optional("description")) device.description = text->text();
      if (const auto peak = item.optional("peak_flops_per_second"))
        device.peak_flops_per_second = peak->number_at_least(0);
      profile.devices.push_back(std::move(device));
    }
  if (const auto layers = root.optional("layers"))
    for (const JsonCursor& item : layers->elements()) {
      item.only({"kind", "count"});
      const auto left = kMostLayers - static_cast<std::int64_t>(profile.layers.size());
      const auto count = static_cast<std::size_t>(item.field("count").integer(1, left));
      profile.layers.insert(profile.layers.end(), count, item.field("kind").text());
    }
  if (const auto kinds = root.optional("kinds"))
    for (const JsonCursor& item : kinds->elements()) {
      item.only({"name", "parameters", "replicated_parameters", "output_bytes"});
      Kind kind;
      kind.name = item.field("name").text();
      kind.parameters = bytes(item, "parameters");
      kind.replicated_parameters = bytes(item, "replicated_parameters");
      if (kind.replicated_parameters > kind.parameters)
        item.reject(fmt::format("{} replicated_parameters, but {} parameters in all",
                                kind.replicated_parameters, kind.parameters));
      if (const auto output = item.optional("output_bytes")) kind.output_bytes = output->number_at_least(0);
      profile.kinds.push_back(std::move(kind));
    }
  std::set<std::tuple<std::string, std::string, int, int>> seen;
  for (const JsonCursor& item : root.field("measurements").elements()) {
    item.only({"device", "kind", "tensor", "micro_batch", "forward_seconds", "backward_seconds",
               "update_seconds", "kept_bytes"});
    Measurement one;
    if (const auto device = item.optional("device")) one.device = device->text();
    const auto kind = item.optional("kind");
    one.kind = kind ? kind->text() : std::string(kLayer);
    if (const auto tensor = item.optional("tensor"))
      one.tensor = static_cast<int>(tensor->integer(1, kLargestCount));
    one.micro_batch = static_cast<int>(item.field("micro_batch").integer(1, kLargestCount));
    one.times.forward = item.field("forward_seconds").number_at_least(0);
    one.times.backward = item.field("backward_seconds").number_at_least(0);
    if (const auto update = item.optional("update_seconds")) one.times.update = update->number_at_least(0);
    one.times.kept_bytes = bytes(item, "kept_bytes");
    if (!seen.insert({one.device, one.kind, one.tensor, one.micro_batch}).second)
      item.reject(fmt::format("kind \"{}\" with micro-batches of {} rows is there already{}; keep one",
                              one.kind, one.micro_batch,
                              one.device.empty() ? "" : fmt::format(" for device \"{}\"", one.device)));
    profile.measurements.push_back(std::move(one));
  }
  if (profile.measurements.empty())
    root.field("measurements").reject("expected at least one; without any there is nothing to go by");
  return profile;
}

Json Profile::to_json() const {
  Json json = {
      {"tombolo_profile", kVersion}, {"overhead_bytes", overhead_bytes}, {"measurements", Json::array()}};
  if (sending_seconds_per_byte > 0) json["sending_seconds_per_byte"] = sending_seconds_per_byte;
  if (model) json["model"] = planner::to_json(*model);
  if (recompute != Recompute::kNone) json["recompute"] = recompute_name(recompute);
  for (const Device& device : devices) {
    Json item = {{"name", device.name}};
    if (!device.description.empty()) item["description"] = device.description;
    if (device.peak_flops_per_second > 0) item["peak_flops_per_second"] = device.peak_flops_per_second;
    json["devices"].push_back(std::move(item));
  }
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    json["layers"].push_back({{"kind", layers[i]}, {"count", end - i}});
    i = end;
  }
  for (const Kind& kind : kinds)
    json["kinds"].push_back({{"name", kind.name},
                             {"parameters", kind.parameters},
                             {"replicated_parameters", kind.replicated_parameters},
                             {"output_bytes", kind.output_bytes}});
  for (const Measurement& one : measurements) {
    Json item = {{"kind", one.kind},
                 {"tensor", one.tensor},
                 {"micro_batch", one.micro_batch},
                 {"forward_seconds", one.times.forward},
                 {"backward_seconds", one.times.backward},
                 {"update_seconds", one.times.update},
                 {"kept_bytes", one.times.kept_bytes}};
    if (!one.device.empty()) item["device"] = one.device;
    json["measurements"].push_back(std::move(item));
  }
  return json;
}

}  // namespace tombolo::planner
