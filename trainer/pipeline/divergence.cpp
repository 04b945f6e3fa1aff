#include "trainer/pipeline/divergence.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "collectives/engine/gather_texts.h"

namespace tombolo::trainer {
namespace {

std::optional<NotFinite> check(NotFinite::Kind kind, const Slice& slice, std::span<const float> values) {
  const auto bad = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == 0) return std::nullopt;
  const std::string layer = slice.layer < 0 ? std::string() : fmt::format("layer {}'s ", slice.layer);
  const std::string_view what = kind == NotFinite::Kind::kParameter ? "value" : "gradient";
  return NotFinite{kind, fmt::format("{} of {}{}: {} of {} values are not finite", what, layer,
                                     tensor_info(slice.tensor).name, bad, values.size())};
}

/// printf's sign of what is no number tells nothing.
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  return std::isinf(value) ? "infinite" : fmt::format("{}", value);
}

}  // namespace

std::optional<NotFinite> first_not_finite(StageCompute& compute) {
  const std::vector<Slice>& slices = compute.layout().slices();
  std::vector<float> values;
  for (const Slice& slice : slices) {
    values.resize(slice.elements);
    compute.read_state(StageState::kParameters, slice.offset, values);
    if (auto found = check(NotFinite::Kind::kParameter, slice, values)) return found;
  }
  for (auto slice = slices.rbegin(); slice != slices.rend(); ++slice) {
    values.resize(slice->elements);
    compute.read_gradients(slice->offset, values);
    if (auto found = check(NotFinite::Kind::kGradient, *slice, values)) return found;
  }
  return std::nullopt;
}

void fail_divergence(const Divergence& divergence, StageCompute& compute, collectives::Communicator* world) {
  // The smallest comes first: how near to the cause this rank's finding is, then what it says.
  Json own = Json::array();
  if (const std::optional<NotFinite> tensor = first_not_finite(compute)) {
    const int rank = world == nullptr ? 0 : world->rank();
    const std::string host =
        world == nullptr ? std::string() : " on " + world->members()[static_cast<std::size_t>(rank)].host;
    const int nearness = !divergence.own_loss_finite                   ? -2
                         : tensor->kind == NotFinite::Kind::kParameter ? -1
                                                                       : 0;
    own = {nearness, nearness < 0 ? 0 : -divergence.coordinates.stage, rank,
           fmt::format("; it began on rank {}{} (stage {}, replica {}), {}", rank, host,
                       divergence.coordinates.stage, divergence.coordinates.replica, tensor->text)};
  }
  std::vector<std::string> texts{own.dump()};
  if (world != nullptr) texts = collectives::gather_texts(*world, own.dump());
  Json nearest;
  for (const std::string& text : texts) {
    Json one = parse_peer_json(text, "what a rank says of the divergence");
    if (!one.empty() && (nearest.empty() || one < nearest)) nearest = std::move(one);
  }
  const std::string began = nearest.empty() ? std::string() : nearest[3].get<std::string>();
  throw Diverged(fmt::format(
      "step {}: loss {} with gradient norm {}: training diverged{}. A smaller --lr, or a --clip, "
      "helps",
      divergence.step, number_text(divergence.loss), number_text(divergence.gradient_norm), began));
}

}  // namespace tombolo::trainer
