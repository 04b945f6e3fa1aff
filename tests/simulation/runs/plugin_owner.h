// What NCCL does with one end of a connection in a simulated process: makes it, posts and tests requests,
// closes it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "tests/simulation/plans/plugin_plan.h"
#include "tests/simulation/runs/plugin_end.h"
#include "tests/simulation/runs/plugin_process.h"
#include "tests/simulation/world/world.h"

namespace tombolo::simulation {

/// Lives until its world has run, like all that it is made with. One actor calls run(), another abort() where
/// the end aborts.
class PluginOwner {
 public:
  /// `peer` is the other end of the connection; `wrong` is called with what must not be.
  PluginOwner(PluginEnd& end, const PluginEnd& peer, PluginProcess& process, const PluginPlan& plan,
              World& world, std::function<void(const std::string&)> wrong);

  void run();
  /// What another thread does where NCCL aborts, while run() goes on.
  void abort();

 private:
  using Role = PluginEnd::Role;
  using State = PluginEnd::State;

  bool listen(void** listen_comm);
  bool accept();
  bool connect();
  bool post();
  bool make_request(PluginRequest& one);
  bool prepare(PluginRequest::Part& part);
  bool test();
  void take(PluginRequest& one, std::span<const int> reported);
  void check(const PluginRequest::Part& part, int reported);
  void tell_attributes();
  void deregister(void* memory, Duration most = Duration::zero());
  void close_listen(void* listen_comm);
  void close();
  int device() const noexcept { return static_cast<int>(end_.number % process_.devices()); }
  bool peer_is_lost() const;
  void pause_after(unsigned& fruitless);
  void sleep(Duration how_long) { world_.sleep({}, world_.clock().now() + how_long); }
  template <typename Call>
  auto call(const char* function, Duration most, const Call& make) {
    return process_.call(end_, function, most, make);
  }

  PluginEnd& end_;
  const PluginEnd& peer_;
  PluginProcess& process_;
  const PluginPlan& plan_;
  World& world_;
  std::function<void(const std::string&)> wrong_;
};

}  // namespace tombolo::simulation
