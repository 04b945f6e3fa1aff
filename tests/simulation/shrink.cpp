#include "tests/simulation/shrink.h"

#include <optional>

#include "tests/simulation/runs/connection_run.h"

namespace tombolo::simulation {
namespace {

constexpr std::uint64_t kSeeds = 40;

/// The plan with a seed with which it goes wrong; nothing where there is none.
std::optional<Plan> still_wrong(Plan plan, const RunOptions& options) {
  const std::uint64_t own = plan.seed;
  for (std::uint64_t more = 0; more < kSeeds; ++more) {
    plan.seed = own + more;
    if (!run_connection(plan, options).ok()) return plan;
  }
  return std::nullopt;
}

template <typename Change>
bool simplify(Plan& plan, const RunOptions& options, const Change& change) {
  Plan changed = plan;
  change(changed);
  if (auto wrong = still_wrong(changed, options)) {
    plan = *wrong;
    return true;
  }
  return false;
}

template <typename T>
bool leave_out(Plan& plan, const RunOptions& options, std::vector<T> Plan::*list) {
  bool any = false;
  for (std::size_t step = std::max<std::size_t>((plan.*list).size() / 2, 1); step != 0; step /= 2) {
    for (std::size_t at = 0; at < (plan.*list).size();) {
      const bool shorter = simplify(plan, options, [&](Plan& changed) {
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

}  // namespace

Plan shrink(Plan plan, const RunOptions& given) {
  RunOptions options = given;
  options.log = false;
  if (run_connection(plan, options).ok()) return plan;
  for (bool shorter = true; shorter;) {
    shorter = leave_out(plan, options, &Plan::faults);
    shorter |= leave_out(plan, options, &Plan::messages);
    const Plan simple;
    auto set = [&](auto member) {
      if (plan.*member != simple.*member &&
          simplify(plan, options, [&](Plan& changed) { changed.*member = simple.*member; }))
        shorter = true;
    };
    set(&Plan::nics);
    set(&Plan::tls);
    set(&Plan::checksums);
    set(&Plan::streams);
    set(&Plan::chunk);
    set(&Plan::replay);
    set(&Plan::short_one_in);
    set(&Plan::fetch);
    set(&Plan::or_tcp);
    set(&Plan::lap);
    set(&Plan::yield_one_in);
    set(&Plan::early_one_in);
    set(&Plan::delay);
    set(&Plan::bytes_per_second);
    for (std::size_t i = 0; i < plan.messages.size(); ++i)
      if (plan.messages[i].size > 1)
        shorter |= simplify(plan, options, [&](Plan& changed) { changed.messages[i].size /= 2; });
  }
  return plan;
}

}  // namespace tombolo::simulation
