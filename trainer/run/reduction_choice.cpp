#include "trainer/run/reduction_choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

constexpr std::array<std::pair<ReductionChoice, std::string_view>, 3> kReductionChoices{
    {{ReductionChoice::kAuto, "auto"},
     {ReductionChoice::kEngine, "engine"},
     {ReductionChoice::kNccl, "nccl"}}};

/// With the value 1 NCCL 2.30 and later let ranks share a GPU.
constexpr const char* kShareVariable = "NCCL_MULTI_RANK_GPU_ENABLE";

/// What a rank tells the others.
struct RankFacts {
  std::array<char, 96> gpu{};       ///< its address; empty: the CPU computes
  std::array<char, 400> problem{};  ///< why it has no NCCL; empty: it has
  std::int32_t choice = 0;
  std::int32_t counts_bytes = 0;
  std::int32_t may_share = 0;  ///< its GPU with other ranks
};

template <std::size_t size>
void put(std::array<char, size>& to, std::string_view text) {
  std::ranges::copy(text.substr(0, size - 1), to.begin());
}
template <std::size_t size>
std::string_view text_of(const std::array<char, size>& from) {
  return from.data();
}

/// Why these ranks cannot sum by NCCL; empty where they can.
std::string why_not(const std::vector<RankFacts>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (text_of(ranks[rank].gpu).empty()) return fmt::format("rank {} computes on the CPU", rank);
    if (!text_of(ranks[rank].problem).empty())
      return fmt::format("rank {}: {}", rank, text_of(ranks[rank].problem));
    for (std::size_t other = 0; other < rank; ++other)
      if (text_of(ranks[other].gpu) == text_of(ranks[rank].gpu) &&
          (ranks[other].may_share == 0 || ranks[rank].may_share == 0))
        return fmt::format(
            "ranks {} and {} share a GPU, which NCCL refuses without {}=1 (2.30 and later) or an "
            "NCCL_HOSTID for each",
            other, rank, kShareVariable);
  }
  for (const RankFacts& facts : ranks)
    if (facts.counts_bytes != 0)
      return "--traffic and --measured count bytes, and NCCL does not tell how many it sends";
  return {};
}

std::vector<RankFacts> facts_of_all(const RankFacts& own, collectives::Communicator& world) {
  std::vector<RankFacts> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&own, all.data(), sizeof own, collectives::DataType::kInt8);
  for (RankFacts& facts : all) facts.gpu.back() = facts.problem.back() = '\0';
  return all;
}

}  // namespace

std::string_view reduction_choice_name(ReductionChoice choice) noexcept {
  for (const auto& [one, name] : kReductionChoices)
    if (one == choice) return name;
  return "?";
}

std::optional<ReductionChoice> reduction_choice_from_name(std::string_view name) noexcept {
  for (const auto& [one, its_name] : kReductionChoices)
    if (its_name == name) return one;
  return std::nullopt;
}

void check_reduction(ReductionChoice choice, DeviceChoice device) {
  if (choice == ReductionChoice::kNccl && device == DeviceChoice::kCpu)
    fail(Cause::kInvalidUsage,
         "--reduce nccl sums gradients in the memory of GPUs, but this rank computes on the CPU: --device "
         "cuda, or "
         "--reduce auto");
}

ReductionDecision choose_reduction(const ReductionWish& wish, const BackEnd& back_end,
                                   collectives::Communicator* world) {
  if (world == nullptr) return {};
  RankFacts own;
  put(own.gpu, back_end.gpu);
  put(own.problem, back_end.nccl_problem);
  own.choice = static_cast<std::int32_t>(wish.choice);
  own.counts_bytes = wish.counts_bytes ? 1 : 0;
  const char* may_share = std::getenv(kShareVariable);
  own.may_share = may_share != nullptr && std::string_view(may_share) == "1" ? 1 : 0;
  const std::vector<RankFacts> all = facts_of_all(own, *world);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].choice != all[0].choice)
      fail(Cause::kInvalidUsage, "ranks 0 and {} were started with different values of --reduce", rank);
  if (wish.choice == ReductionChoice::kEngine)
    return {Reduction::kEngine, "gradients: summed by the engine (--reduce engine)"};
  const std::string problem = why_not(all);
  if (wish.choice == ReductionChoice::kNccl && !problem.empty())
    fail(Cause::kUnsupported, "--reduce nccl: {}; --reduce auto takes the engine then", problem);
  if (problem.empty())
    return {Reduction::kNccl, fmt::format("gradients: summed by {}, NCCL_NET_PLUGIN {}", back_end.nccl,
                                          wish.plugin.empty() ? "not set" : wish.plugin)};
  const bool all_on_cpus =
      std::ranges::all_of(all, [](const RankFacts& facts) { return text_of(facts.gpu).empty(); });
  if (all_on_cpus) return {};
  return {Reduction::kEngine, fmt::format("gradients: summed by the engine: {}", problem)};
}

}  // namespace tombolo::trainer
