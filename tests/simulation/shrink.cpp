#include "tests/simulation/shrink.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/plans/reduction.h"

namespace tombolo::simulation {
namespace {

constexpr std::uint64_t kSeeds = 40;

std::uint64_t& seed_of(Plan& plan) {
  return plan.seed;
}
std::uint64_t& seed_of(auto& plan) {
  return plan.network.seed;
}

template <typename P>
class Shrinking {
 public:
  Shrinking(P plan, const RunOptions& options, std::uint64_t most_turns)
      : plan_(std::move(plan)), options_(options), turns_left_(most_turns) {
    options_.log = false;
  }

  Shrunk go() {
    if (goes_wrong(plan_)) {
      while (!spent() && shorten()) {
      }
    }
    return {plan_, !spent()};
  }

 private:
  bool spent() const noexcept { return turns_left_ == 0; }

  bool goes_wrong(const P& plan) {
    const Verdict verdict = run_plan(plan, options_);
    turns_left_ -= std::min(verdict.turns, turns_left_);
    return !verdict.ok();
  }

  /// Keeps the changed plan where it goes wrong with some seed.
  bool keep_if_wrong(P changed) {
    for (std::uint64_t more = 0; more < kSeeds && !spent(); ++more, ++seed_of(changed)) {
      if (!goes_wrong(changed)) continue;
      plan_ = std::move(changed);
      return true;
    }
    return false;
  }

  /// One round of attempts; whether any of them did.
  bool shorten() {
    bool shorter = false;
    for (const Reduction<P>& one : reductions_) shorter |= take(one);
    return shorter;
  }

  /// At many places at once, then at fewer.
  bool take(const Reduction<P>& one) {
    bool any = false;
    for (std::size_t step = std::max<std::size_t>(one.places(plan_) / 2, 1); step != 0; step /= 2) {
      for (std::size_t at = 0; at < one.places(plan_);) {
        P changed = plan_;
        const bool shorter = one.take(changed, at, std::min(at + step, one.places(plan_))) &&
                             keep_if_wrong(std::move(changed));
        any |= shorter;
        if (!shorter) at += step;
      }
    }
    return any;
  }

  const Reductions<P> reductions_ = all_reductions<P>();
  P plan_;
  RunOptions options_;
  std::uint64_t turns_left_;
};

}  // namespace

Shrunk shrink(const AnyPlan& plan, const RunOptions& options, std::uint64_t most_turns) {
  return std::visit([&]<typename P>(const P& one) { return Shrinking<P>(one, options, most_turns).go(); },
                    plan);
}

}  // namespace tombolo::simulation
