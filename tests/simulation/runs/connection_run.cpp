#include "tests/simulation/runs/connection_run.h"

#include <algorithm>
#include <memory>

#include "base/format.h"
#include "base/units.h"
#include "tests/simulation/checks/allocations.h"
#include "tests/simulation/checks/oracles.h"
#include "tests/simulation/runs/owner.h"
#include "tests/simulation/world/world.h"
#include "transport/kernel.h"

namespace tombolo::simulation {
namespace {

// An end may wait for ten idle timeouts where its peer's host lives.
constexpr Duration kLimit = 14 * kIdleTimeout;

class Run {
 public:
  Run(const Plan& plan, const RunOptions& options) : plan_(plan), world_(plan) {
    world_.set_log(options.log);
    world_.kernel().set_loses_bytes(options.defect == Defect::kLostByte);
    world_.kernel().set_loses_lone_bytes(options.defect == Defect::kLostWakeUp);
    for (unsigned host = 0; host < 2; ++host)
      owners_[host] = std::make_unique<Owner>(host, plan, options, world_,
                                              [this](std::string what) { note(std::move(what)); });
    for (unsigned host = 0; host < 2; ++host) owners_[host]->meets(*owners_[1 - host]);
  }

  Verdict go() {
    const transport::KernelInPlace kernel(world_.kernel());
    for (unsigned host = 0; host < 2; ++host) {
      Owner& owner = *owners_[host];
      world_.add(host, [&owner] { owner.run(); });
      world_.add(host, [&owner] { owner.move_in_background(); });
    }
    const std::string stuck = world_.run(kLimit);
    const Facts facts = this->facts();
    if (stuck.empty()) {
      for (const auto& owner : owners_) owner->check_buffers();
      note(check_end(facts));
    } else {
      note(stuck + "; " + describe_ends(facts));
      // What still lies on the actors' stacks is lost.
      for (const auto& owner : owners_) owner->abandon();
    }
    return verdict(facts);
  }

 private:
  /// The first that is wrong counts.
  void note(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  Facts facts() {
    Facts facts;
    for (unsigned host = 0; host < 2; ++host) facts.ends[host] = owners_[host]->account();
    facts.may_be_refused = std::ranges::any_of(plan_.faults, &Fault::may_refuse);
    facts.terminal = world_.terminal_fault();
    facts.last_cut = world_.last_cut();
    facts.shares_memory = std::ranges::all_of(facts.ends, &Account::shared_memory);
    facts.descriptors_left = world_.kernel().open_descriptors();
    if (facts.descriptors_left != 0) facts.which_descriptors = world_.kernel().describe_open();
    return facts;
  }

  Verdict verdict(const Facts& facts) {
    Verdict verdict;
    verdict.wrong = wrong_;
    verdict.connected = facts.ends[0].made && facts.ends[1].made;
    for (unsigned host = 0; host < 2; ++host) {
      const transport::Statistics& statistics = owners_[host]->statistics();
      verdict.breaks += statistics.breaks;
      verdict.rejoins += statistics.rejoins;
      verdict.replayed += statistics.replayed;
      verdict.messages += facts.ends[host].done_receives;
      verdict.failed |= !facts.ends[host].error.empty();
    }
    verdict.tls = plan_.tls;
    verdict.turns = world_.turns();
    verdict.course = world_.course();
    verdict.seconds = world_.elapsed();
    return verdict;
  }

  const Plan& plan_;
  World world_;
  std::unique_ptr<Owner> owners_[2];
  std::string wrong_;
};

}  // namespace

Verdict run_connection(const Plan& plan, const RunOptions& options) {
  return with_allocations_checked(options, [&](const RunOptions& one) { return Run(plan, one).go(); });
}

}  // namespace tombolo::simulation
