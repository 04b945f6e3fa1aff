#include "planner/job.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace tombolo::planner {

namespace {

constexpr std::array<std::pair<Recompute, std::string_view>, 3> kRecomputes{
    {{Recompute::kNone, "none"}, {Recompute::kSelective, "selective"}, {Recompute::kFull, "full"}}};
constexpr std::array<std::pair<Framework, std::string_view>, 2> kFrameworks{
    {{Framework::kTombolo, "tombolo"}, {Framework::kMegatron, "megatron"}}};

template <typename Names, typename Value>
std::string_view name_in(const Names& names, Value value) noexcept {
  for (const auto& [one, name] : names)
    if (one == value) return name;
  return "?";
}

template <typename Names>
auto value_in(const Names& names, std::string_view name) noexcept
    -> std::optional<std::remove_cv_t<decltype(names[0].first)>> {
  for (const auto& [one, its_name] : names)
    if (its_name == name) return one;
  return std::nullopt;
}

}  // namespace

std::string_view recompute_name(Recompute recompute) noexcept {
  return name_in(kRecomputes, recompute);
}

std::optional<Recompute> recompute_from_name(std::string_view name) noexcept {
  return value_in(kRecomputes, name);
}

std::string_view framework_name(Framework framework) noexcept {
  return name_in(kFrameworks, framework);
}

std::optional<Framework> framework_from_name(std::string_view name) noexcept {
  return value_in(kFrameworks, name);
}

void Job::check() const {
  model.check();
  if (global_batch < 1)
    fail(Cause::kInvalidUsage, "job: global_batch is {}, expected rows > 0", global_batch);
  if (tensor > 1 && model.heads % tensor != 0)
    fail(Cause::kInvalidUsage,
         "job: {} tensor-parallel ranks cannot share {} heads evenly; take a divisor of {}", tensor,
         model.heads, model.heads);
  if (sequence_parallel && tensor == 1)
    fail(Cause::kInvalidUsage,
         "job: sequence parallelism divides what tensor-parallel ranks hold alike; it needs tensor > 1");
  if (schedule == Schedule::kInterleaved ? chunks < 2 : chunks != 1)
    fail(Cause::kInvalidUsage, "job: {} model chunks per stage with the {} schedule; {}", chunks,
         schedule_name(schedule),
         schedule == Schedule::kInterleaved ? "interleaving takes at least 2"
                                            : "only interleaved takes more than 1");
  if (framework != Framework::kTombolo) return;
  const auto lacks = [](std::string_view what) {
    fail(Cause::kUnsupported, "job: the bundled trainer has no {}; plan for framework megatron", what);
  };
  if (tensor > 1) lacks("tensor parallelism");
  if (schedule != Schedule::kOneForwardOneBackward) lacks("schedule but 1f1b");
  if (recompute != Recompute::kNone) lacks("recomputation");
  if (shard_optimizer) lacks("sharded optimizer");
}

}  // namespace tombolo::planner
