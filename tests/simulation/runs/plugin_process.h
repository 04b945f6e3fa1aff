// A simulated process that has loaded the plugin: its contexts and its log, and how its calls are judged.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "net_plugin/entry_points.h"
#include "tests/simulation/checks/verdict.h"
#include "tests/simulation/plans/plugin_plan.h"
#include "tests/simulation/runs/plugin_end.h"
#include "tests/simulation/world/world.h"
#include "transport/bootstrap/process_helpers.h"

namespace tombolo::simulation {

/// Lives until its world has run, like the plan, the options and the ends.
class PluginProcess {
 public:
  /// `wrong` is called with what must not be.
  PluginProcess(unsigned host, const PluginPlan& plan, const RunOptions& options, World& world,
                std::function<void(const std::string&)> wrong);

  /// Loads the plugin, and gives a context to each of the ends that are on its host.
  void load(std::vector<PluginEnd>& ends);
  /// The rest of a process: its background thread, and the end of its contexts.
  void live(const std::vector<PluginEnd>& ends);
  /// Ends the end's context.
  void finalize(PluginEnd& end);

  /// Makes one call of the plugin's. `most`: the virtual time that it may take.
  net_plugin::abi::ncclResult_t call(PluginEnd& end, const char* function, Duration most,
                                     const std::function<net_plugin::abi::ncclResult_t()>& make);

  bool dead() const { return world_.kernel().killed(host_); }
  /// A defect, to see that it is found.
  bool makes_no_connection() const {
    return options_.defect == Defect::kInterrupted && world_.kernel().interrupted(host_);
  }
  std::size_t devices() const noexcept { return node_->devices->size(); }
  /// What its connections' meters count.
  const transport::Meters& meters() const noexcept { return *meters_; }
  /// After a run that did not end: leaves what the stacks of actors refer to that will never go on.
  void abandon();

 private:
  Log log_with_errors();
  void finalize_all();

  unsigned host_;
  const PluginPlan& plan_;
  const RunOptions& options_;
  World& world_;
  std::function<void(const std::string&)> wrong_;
  std::shared_ptr<transport::bootstrap::ProcessHelpers> helpers_;
  std::shared_ptr<const net_plugin::Node> node_;
  std::shared_ptr<const transport::Meters> meters_;
  std::vector<void*> contexts_;
  std::size_t errors_logged_ = 0;
  std::string last_error_;
};

}  // namespace tombolo::simulation
