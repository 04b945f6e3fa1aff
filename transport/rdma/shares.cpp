#include "transport/rdma/shares.h"

#include <algorithm>
#include <bitset>

#include "base/error.h"

namespace tombolo::transport::rdma {
namespace {

/// How much a new measurement counts.
constexpr double kNew = 0.25;
/// An interval that was looked at so often tells its end well enough.
constexpr int kOften = 8;

}  // namespace

Shares::Shares(std::span<const double> declared, std::size_t depth, bool learns) : learns_(learns) {
  TOMBOLO_CHECK(declared.size() <= kMostQueuePairs, "pairs={}", declared.size());
  const bool known = std::ranges::all_of(declared, [](double rate) { return rate > 0; });
  loads_.resize(declared.size());
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    loads_[i].declared = known ? declared[i] : 1;
    loads_[i].pieces.resize(depth);
  }
}

std::span<const Part> Shares::divide(std::size_t bytes, PartList& parts) noexcept {
  const std::size_t pairs = loads_.size();
  first_ = first_ + 1 < pairs ? first_ + 1 : 0;  // so that pairs take turns where all are alike
  std::bitset<kMostQueuePairs> out;
  // All that take a part end at the same time; a pair whose part would be too small, or which has more under
  // way than it gets done until then, takes none, and the others' end is sought again.
  const std::size_t most = std::clamp<std::size_t>(bytes / kSmallestPart, 1, pairs);
  double ends = 0;
  for (std::size_t left = pairs;; --left) {
    double rates = 0, work = static_cast<double>(bytes);
    for (std::size_t i = 0; i < pairs; ++i) {
      if (out[i]) continue;
      rates += rate(i);
      work += static_cast<double>(loads_[i].under_way);
    }
    ends = work / rates;
    std::size_t least = pairs;
    double least_share = 0;
    for (std::size_t turn = pairs; turn > 0; --turn) {
      const std::size_t i = (first_ + turn - 1) % pairs;
      if (out[i]) continue;
      const double share = rate(i) * ends - static_cast<double>(loads_[i].under_way);
      if (least == pairs || share < least_share) {
        least = i;
        least_share = share;
      }
    }
    if (left == 1 || (left <= most && least_share >= static_cast<double>(kSmallestPart))) break;
    out[least] = true;
  }

  std::size_t count = 0, given = 0;
  for (std::size_t turn = 0; turn < pairs; ++turn) {
    const std::size_t i = (first_ + turn) % pairs;
    if (out[i]) continue;
    const double share = rate(i) * ends - static_cast<double>(loads_[i].under_way);
    const std::size_t whole = static_cast<std::size_t>(std::max(share, 0.0)) / kGrain * kGrain;
    parts[count++] = {i, std::min(whole, bytes - given)};
    given += parts[count - 1].bytes;
  }
  parts[count - 1].bytes += bytes - given;
  return {parts.data(), count};
}

void Shares::posted(std::size_t pair, std::size_t bytes, TimePoint now) noexcept {
  Load& load = loads_[pair];
  if (load.count == load.pieces.size()) return;
  if (load.count == 0) {
    load.since = now;
    load.moved = 0;
  }
  load.pieces[(load.first + load.count++) % load.pieces.size()] = bytes;
  load.under_way += bytes;
  waiting_ = true;
}

void Shares::done(std::size_t pair) noexcept {
  Load& load = loads_[pair];
  if (load.count == 0) return;
  const std::size_t bytes = load.pieces[load.first];
  load.first = (load.first + 1) % load.pieces.size();
  --load.count;
  load.under_way -= bytes;
  load.moved += bytes;
}

void Shares::looked(TimePoint now) noexcept {
  const Duration gap = now - looked_;
  looked_ = now;
  bool learned = false;
  waiting_ = false;
  for (Load& load : loads_) {
    waiting_ |= load.count > 0;
    const Duration elapsed = now - load.since;
    if (load.moved == 0 || elapsed <= Duration::zero()) continue;
    const double seen = static_cast<double>(load.moved) / to_seconds(elapsed) / load.declared;
    const bool exact = load.count > 0 || gap * kOften < elapsed;
    if (exact || seen > load.efficiency) {
      load.efficiency = load.efficiency > 0 ? load.efficiency + kNew * (seen - load.efficiency) : seen;
      learned = true;
    }
    load.since = now;
    load.moved = 0;
  }
  if (!learned) return;
  double sum = 0;
  int known = 0;
  for (const Load& load : loads_) {
    if (load.efficiency == 0) continue;
    sum += load.efficiency;
    ++known;
  }
  mean_ = sum / known;
}

}  // namespace tombolo::transport::rdma
