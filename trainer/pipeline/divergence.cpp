#include "trainer/pipeline/divergence.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "collectives/engine/gather_texts.h"

namespace tombolo::trainer {
namespace {

std::optional<std::string> check(std::string_view what, const Slice& slice, std::span<const float> values) {
  const auto bad = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == 0) return std::nullopt;
  const std::string layer = slice.layer < 0 ? std::string() : fmt::format("layer {}'s ", slice.layer);
  return fmt::format("{} of {}{}: {} of {} values are not finite", what, layer,
                     tensor_info(slice.tensor).name, bad, values.size());
}

}  // namespace

std::optional<std::string> first_not_finite(StageCompute& compute) {
  const std::vector<Slice>& slices = compute.layout().slices();
  std::vector<float> values;
  for (const Slice& slice : slices) {
    values.resize(slice.elements);
    compute.read_state(StageState::kParameters, slice.offset, values);
    if (auto found = check("value", slice, values)) return found;
  }
  for (auto slice = slices.rbegin(); slice != slices.rend(); ++slice) {
    const Bucket bucket{slice->offset, slice->offset + slice->elements};
    if (auto found = check("gradient", *slice, compute.gradients_to_host(bucket))) return found;
  }
  return std::nullopt;
}

void fail_divergence(const Divergence& divergence, StageCompute& compute, collectives::Communicator* world) {
  std::string own;
  if (const std::optional<std::string> tensor = first_not_finite(compute)) {
    const int rank = world == nullptr ? 0 : world->rank();
    const std::string host =
        world == nullptr ? std::string() : " on " + world->members()[static_cast<std::size_t>(rank)].host;
    own = fmt::format("; it began on rank {}{} (stage {}, replica {}), {}", rank, host,
                      divergence.coordinates.stage, divergence.coordinates.replica, *tensor);
  }
  const std::string own_loss = divergence.own_loss_finite ? "" : own;
  std::vector<std::string> tensors{own}, losses{own_loss};
  if (world != nullptr) {
    tensors = collectives::gather_texts(*world, own);
    losses = collectives::gather_texts(*world, own_loss);
  }
  std::string began;
  for (const std::vector<std::string>* texts : {&losses, &tensors})
    for (const std::string& text : *texts)
      if (began.empty()) began = text;
  fail(Cause::kInvalidUsage,
       "step {}: loss {} with gradient norm {}: training diverged{}. A smaller --lr, or a --clip, helps",
       divergence.step, divergence.loss, divergence.gradient_norm, began);
}

}  // namespace tombolo::trainer
