#include "tests/simulation/runs/plugin_run.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "tests/simulation/checks/allocations.h"
#include "tests/simulation/runs/plugin_checks.h"
#include "tests/simulation/runs/plugin_end.h"
#include "tests/simulation/runs/plugin_owner.h"
#include "tests/simulation/runs/plugin_process.h"
#include "tests/simulation/runs/simulated_host.h"
#include "tests/simulation/world/world.h"
#include "transport/kernel.h"

namespace tombolo::simulation {
namespace {

// Ends that cannot go on have as long as the protocol promises: ten idle timeouts where the peer's host
// lives.
constexpr Duration kPluginLimit = 16 * kIdleTimeout;

class PluginRun {
 public:
  PluginRun(const PluginPlan& plan, const RunOptions& options)
      : plan_(plan), options_(options), world_(plan.network) {
    world_.kernel().set_loses_bytes(options.defect == Defect::kLostByte);
    for (unsigned number = 0; number < plan.comms.size(); ++number) {
      for (const auto role : {PluginEnd::Role::kSender, PluginEnd::Role::kReceiver}) {
        PluginEnd end;
        end.plan = &plan.comms[number];
        end.number = number;
        end.role = role;
        end.host = role == PluginEnd::Role::kSender ? end.plan->sender : 1 - end.plan->sender;
        ends_.push_back(std::move(end));
      }
    }
    for (unsigned host = 0; host < 2; ++host)
      processes_.emplace_back(host, plan_, options_, world_, noting());
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      PluginEnd& end = ends_[i];
      owners_.emplace_back(end, ends_[i ^ 1U], processes_[end.host], plan_, world_, noting());
    }
  }

  Verdict go() {
    const transport::KernelInPlace kernel(world_.kernel());
    for (unsigned host = 0; host < 2; ++host) {
      world_.kernel().set_host(host);
      processes_[host].load(ends_);
      world_.add(host, [this, host] { processes_[host].live(ends_); });
    }
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      world_.add(ends_[i].host, [this, i] { owners_[i].run(); });
      if (ends_[i].aborts()) world_.add(ends_[i].host, [this, i] { owners_[i].abort(); });
    }
    std::string wrong = world_.run(kPluginLimit);
    for (const PluginProcess& process : processes_) count_streams(process.meters(), verdict_);
    if (!wrong.empty()) {
      for (const PluginEnd& end : ends_) wrong += "; " + end.doing();
      note(wrong);
      for (PluginProcess& process : processes_) process.abandon();
    } else {
      check_end();
    }
    return finish();
  }

 private:
  void note(const std::string& what) {
    if (verdict_.wrong.empty()) verdict_.wrong = what;
  }
  std::function<void(const std::string&)> noting() {
    return [this](const std::string& what) { note(what); };
  }

  void check_end() {
    for (const PluginEnd& end : ends_) note(check_buffers(end));
    const PluginFacts facts{
        world_.terminal_fault(), world_.last_cut(), {processes_[0].dead(), processes_[1].dead()}};
    for (std::size_t i = 0; i < ends_.size(); i += 2) note(check_comm(ends_[i], ends_[i + 1], plan_, facts));
    if (const std::size_t left = world_.kernel().open_descriptors(); left != 0)
      note(fmt::format("{} descriptors are left:{}", left, world_.kernel().describe_open()));
  }

  Verdict finish() {
    bool connected = true;
    for (const PluginEnd& end : ends_) {
      if (end.role == PluginEnd::Role::kReceiver) verdict_.messages += end.done;
      verdict_.failed |= !end.failed.empty();
      connected = connected && end.made;
    }
    verdict_.connected = connected;
    verdict_.tls = plan_.network.tls;
    verdict_.turns = world_.turns();
    verdict_.course = world_.course();
    verdict_.seconds = world_.elapsed();
    return verdict_;
  }

  const PluginPlan& plan_;
  RunOptions options_;
  World world_;
  std::deque<PluginProcess> processes_;  // by host
  std::vector<PluginEnd> ends_;          // each connection's sender, then its receiver
  std::deque<PluginOwner> owners_;       // of each end
  Verdict verdict_;
};

}  // namespace

Verdict run_plugin(const PluginPlan& plan, const RunOptions& options) {
  return with_allocations_checked(options, [&](const RunOptions& one) { return PluginRun(plan, one).go(); });
}

}  // namespace tombolo::simulation
