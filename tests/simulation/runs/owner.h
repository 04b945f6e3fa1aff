// What the owner of a connection does in a simulated process: makes it, posts and tests requests, closes it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/checks/oracles.h"
#include "tests/simulation/plans/plan.h"
#include "tests/simulation/runs/connection_run.h"
#include "tests/simulation/world/world.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/routing/router.h"
#include "transport/shm/connection.h"

namespace tombolo::simulation {

/// Lives until its world has run. One actor calls run(), another move_in_background().
class Owner {
 public:
  /// `wrong` is called with what must not be.
  Owner(unsigned host, const Plan& plan, const RunOptions& options, World& world,
        std::function<void(std::string)> wrong);

  /// Both before the world runs.
  void meets(Owner& peer) noexcept { peer_ = &peer; }

  void run();
  /// Stands for the background thread, until both owners have closed.
  void move_in_background();

  Account account() const;
  const transport::Statistics& statistics() const noexcept { return statistics_; }
  /// Looks at buffers whose requests are over.
  void check_buffers() const;
  /// After a run that did not end: leaves what belongs to actors that will never go on.
  void abandon();

 private:
  struct Posted {
    transport::Request* request = nullptr;
    std::size_t index = 0;
    std::vector<std::byte> buffer;
    std::unique_ptr<transport::Memory> memory;  // where it is registered
    bool send = false;
  };

  transport::RouterOptions router_options();
  std::string host_name(unsigned host) const;
  void draw_copy_costs();
  bool make();
  bool accept();
  bool connect();
  bool work();
  bool post(std::size_t sends, std::size_t receives);
  bool post_receive();
  bool post_send();
  void register_some(Posted& one);
  bool test_some();
  void take(Posted& one, transport::Outcome outcome, std::size_t bytes);
  void take_back(Posted& one);
  void close();
  void note_error();
  std::uint64_t messages_completed() const;
  void fail(std::string text);
  bool dead() const { return world_.kernel().killed(host_); }
  std::pair<std::size_t, std::size_t> posted_now() const;
  std::size_t size_of_receive(std::size_t index) const { return peer_->to_send_[index].size; }
  template <typename Waiting>
  void wait(const Waiting& on, Duration most);
  void sleep(Duration how_long) { world_.sleep({}, world_.clock().now() + how_long); }

  unsigned host_;
  const Plan& plan_;
  const RunOptions& options_;
  World& world_;
  std::function<void(std::string)> wrong_;
  Owner* peer_ = nullptr;

  Account account_;
  std::vector<Message> to_send_;
  std::size_t posted_sends_ = 0, posted_receives_ = 0;
  std::vector<Posted> posted_;
  std::vector<std::vector<std::byte>> over_;  // buffers whose requests are over
  bool paused_ = false;                       // it has made the pause before its next message
  bool finished_ = false;                     // it wants nothing more
  SpinWatch spins_;
  // That it sleeps on. What lies on the stack of an actor that never goes on would be lost.
  std::vector<pollfd> handles_;
  transport::Statistics statistics_;
  std::vector<std::byte> endpoint_;  // encoded; empty until it listens

  std::shared_ptr<transport::shm::CopyBook> copies_;  // keeps what it knows of the peer
  std::shared_ptr<transport::bootstrap::ProcessHelpers> helpers_;
  std::unique_ptr<transport::Router> router_;
  std::unique_ptr<transport::Listener> listener_;
  std::unique_ptr<transport::Connecting> connecting_;
  std::unique_ptr<transport::Connection> connection_;
};

}  // namespace tombolo::simulation
