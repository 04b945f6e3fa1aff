#include "net_plugin/tuner/tuner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string_view>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::net_plugin {
namespace {

constexpr std::array<std::string_view, 5> kCollectiveNames{"broadcast", "reduce", "all-gather",
                                                           "reduce-scatter", "all-reduce"};
constexpr std::array<std::string_view, 2> kPatternNames{"tree", "ring"};
constexpr std::array<std::string_view, 3> kProtocolNames{"LL", "LL128", "Simple"};

std::optional<Collective> collective_of(abi::ncclFunc_t function) {
  const int number = function;
  if (number < abi::ncclFuncBroadcast || number > abi::ncclFuncAllReduce) return std::nullopt;
  return static_cast<Collective>(number);
}

/// NCCL gives no channel less.
constexpr std::size_t kLeastTraffic = 32 * 1024;

bool available(float cost) {
  return cost >= 0;
}

/// Below the largest float, which NCCL takes for no cost at all.
float microseconds(double seconds) {
  constexpr double kMost = 1e30;
  return static_cast<float>(std::min(seconds * 1e6, kMost));
}

}  // namespace

Choice cheapest(const CostTable& table) {
  Choice best;
  float least = std::numeric_limits<float>::max();
  for (int algorithm = 0; algorithm < table.algorithms; ++algorithm) {
    for (int protocol = 0; protocol < table.protocols; ++protocol) {
      const float cost = table.at(algorithm, protocol);
      if (!available(cost) || cost >= least) continue;
      least = cost;
      best = {algorithm, protocol};
    }
  }
  return best;
}

Tuner::Tuner(const Knowledge& knowledge, std::size_t ranks, std::size_t nodes, ChoiceSink choices)
    : ranks_(ranks), nodes_(nodes), choices_(std::move(choices)) {
  if (knowledge.span) model_ = std::make_unique<const CostModel>(*knowledge.span, ranks, nodes);
}

bool Tuner::tune(abi::ncclFunc_t function, std::size_t bytes, int operations, CostTable table) const {
  const auto collective = collective_of(function);
  if (!model_ || !collective || table.costs == nullptr) return false;
  // What NCCL can use and the model knows.
  const auto cost = [&](int algorithm, int protocol) -> std::optional<double> {
    if (!available(table.at(algorithm, protocol))) return std::nullopt;
    if (algorithm >= static_cast<int>(kPatterns.size()) || protocol >= static_cast<int>(kProtocols.size()))
      return std::nullopt;
    return model_->seconds(*collective, static_cast<Pattern>(algorithm), static_cast<Protocol>(protocol),
                           bytes, operations);
  };
  const auto for_each = [&](const auto& body) {
    for (int algorithm = 0; algorithm < table.algorithms; ++algorithm) {
      for (int protocol = 0; protocol < table.protocols; ++protocol) body(algorithm, protocol);
    }
  };
  bool any = false;
  for_each([&](int algorithm, int protocol) { any |= cost(algorithm, protocol).has_value(); });
  if (!any) return false;
  for_each([&](int algorithm, int protocol) {
    const auto seconds = cost(algorithm, protocol);
    table.at(algorithm, protocol) = seconds ? microseconds(*seconds) : abi::NCCL_ALGO_PROTO_IGNORE;
  });
  if (choices_) show(*collective, bytes, operations, table);
  return true;
}

int Tuner::channels(abi::ncclFunc_t function, std::size_t bytes) const {
  const auto collective = collective_of(function);
  if (!model_ || !collective) return 0;
  if (*collective == Collective::kBroadcast || *collective == Collective::kAllGather) return 0;
  const std::size_t filling = static_cast<std::size_t>(model_->filling_channels().all);
  const int taken = static_cast<int>(std::clamp(bytes / kLeastTraffic, std::size_t{1}, filling));
  if (choices_) show_channels(taken);
  return taken;
}

void Tuner::show_channels(int channels) const {
  {
    std::lock_guard guard(shown_lock_);
    if (!shown_channels_.insert(channels).second) return;
  }
  const FillingChannels& filling = model_->filling_channels();
  choices_->info(
      "tuner: {} ranks on {} nodes, {} channel{} of the {} that fill the link between clusters: "
      "{} for what it carries in a round trip, {} for its rate, {} for a host's NICs, 2 at least; "
      "one for each {}",
      ranks_, nodes_, channels, channels == 1 ? "" : "s", filling.all, filling.round_trip, filling.rate,
      filling.nics, format_size(kLeastTraffic));
}

Choice Tuner::choose(abi::ncclFunc_t function, std::size_t bytes, int operations) const {
  if (!model_) return {};
  constexpr int kAlgorithms = 2, kProtocolCount = 3;
  std::array<float, kAlgorithms * kProtocolCount> costs{};
  const CostTable table{costs.data(), kAlgorithms, kProtocolCount};
  for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm)
    table.at(algorithm, abi::NCCL_PROTO_LL128) = abi::NCCL_ALGO_PROTO_IGNORE;
  if (!collective_of(function)) return {};
  tune(function, bytes, operations, table);
  return cheapest(table);
}

std::size_t Tuner::chunk_size(int channels, std::size_t own) const {
  if (!model_) return own;
  const std::size_t filling = model_->filling_chunk(channels);
  if (choices_) show_chunk(channels, own, filling);
  return std::max(own, filling);
}

void Tuner::show_chunk(int channels, std::size_t own, std::size_t filling) const {
  // NCCL's chunk may follow the size of the message; a class of its sizes gives one line, and no job a flood.
  {
    std::lock_guard guard(shown_lock_);
    if (!shown_chunks_.emplace(channels, std::bit_width(own)).second) return;
  }
  choices_->info(
      "tuner: {} ranks on {} nodes, chunks of {} channel{}: {} of NCCL's {} and the {} that fill {}", ranks_,
      nodes_, channels, channels == 1 ? "" : "s", format_size(std::max(own, filling)), format_size(own),
      format_size(filling), "the link between clusters for a round trip, eight on each channel");
}

void Tuner::show(Collective collective, std::size_t bytes, int operations, const CostTable& table) const {
  const Choice chosen = cheapest(table);
  {
    std::lock_guard guard(shown_lock_);
    if (!shown_.emplace(collective, std::bit_width(bytes), chosen.algorithm, chosen.protocol).second) return;
  }
  std::string costs;
  for (int algorithm = 0; algorithm < static_cast<int>(kPatterns.size()); ++algorithm) {
    for (int protocol = 0; protocol < static_cast<int>(kProtocols.size()); ++protocol) {
      if (algorithm >= table.algorithms || protocol >= table.protocols) continue;
      const float cost = table.at(algorithm, protocol);
      if (!available(cost)) continue;
      costs += fmt::format("{}{}/{} {}", costs.empty() ? "" : ", ",
                           kPatternNames[static_cast<std::size_t>(algorithm)],
                           kProtocolNames[static_cast<std::size_t>(protocol)],
                           format_seconds(static_cast<double>(cost) * 1e-6));
    }
  }
  choices_->info("tuner: {} ranks on {} nodes, {} of {}{}: {}/{} of {}", ranks_, nodes_,
                 kCollectiveNames[static_cast<std::size_t>(collective)], format_size(bytes),
                 operations > 1 ? fmt::format(" in {} operations", operations) : "",
                 kPatternNames[static_cast<std::size_t>(chosen.algorithm)],
                 kProtocolNames[static_cast<std::size_t>(chosen.protocol)], costs);
}

}  // namespace tombolo::net_plugin
