#include "tests/simulation/shrink.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/simulation/runs/connection_run.h"

namespace tombolo::simulation {
namespace {

constexpr std::uint64_t kSeeds = 40;

class Shrinking {
 public:
  Shrinking(Plan plan, const RunOptions& options, std::uint64_t most_turns)
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

  bool goes_wrong(const Plan& plan) {
    const Verdict verdict = run_connection(plan, options_);
    turns_left_ -= std::min(verdict.turns, turns_left_);
    return !verdict.ok();
  }

  /// Takes the changed plan where it goes wrong with some seed.
  template <typename Change>
  bool simplify(const Change& change) {
    Plan changed = plan_;
    change(changed);
    for (std::uint64_t more = 0; more < kSeeds && !spent(); ++more, ++changed.seed) {
      if (!goes_wrong(changed)) continue;
      plan_ = changed;
      return true;
    }
    return false;
  }

  /// One round of attempts; whether any of them did.
  bool shorten() {
    bool shorter = leave_out(&Plan::faults);
    shorter |= leave_out(&Plan::messages);
    const auto reset = [&](auto... members) { ((shorter |= set_to_default(members)), ...); };
    reset(&Plan::nics, &Plan::tls, &Plan::checksums, &Plan::streams, &Plan::chunk, &Plan::replay,
          &Plan::short_one_in, &Plan::fetch, &Plan::or_tcp, &Plan::lap, &Plan::yield_one_in,
          &Plan::early_one_in, &Plan::delay, &Plan::bytes_per_second);
    for (std::size_t i = 0; i < plan_.messages.size(); ++i)
      if (plan_.messages[i].size > 1)
        shorter |= simplify([i](Plan& changed) { changed.messages[i].size /= 2; });
    return shorter;
  }

  template <typename T>
  bool leave_out(std::vector<T> Plan::*list) {
    bool any = false;
    for (std::size_t step = std::max<std::size_t>((plan_.*list).size() / 2, 1); step != 0; step /= 2) {
      for (std::size_t at = 0; at < (plan_.*list).size();) {
        const bool shorter = simplify([&](Plan& changed) {
          auto& all = changed.*list;
          const std::size_t end = std::min(at + step, all.size());
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(at),
                    all.begin() + static_cast<std::ptrdiff_t>(end));
        });
        any |= shorter;
        if (!shorter) at += step;
      }
    }
    return any;
  }

  template <typename T>
  bool set_to_default(T Plan::*member) {
    const Plan simple;
    return plan_.*member != simple.*member &&
           simplify([&](Plan& changed) { changed.*member = simple.*member; });
  }

  Plan plan_;
  RunOptions options_;
  std::uint64_t turns_left_;
};

}  // namespace

Shrunk shrink(const Plan& plan, const RunOptions& options, std::uint64_t most_turns) {
  return Shrinking(plan, options, most_turns).go();
}

}  // namespace tombolo::simulation
