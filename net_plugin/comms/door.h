// Where the connections of one listener arrive, and are sorted: first connections of comms for
// NCCL's accept, and further lanes for the comms that exist.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "net_plugin/comms/endpoint_query.h"
#include "net_plugin/comms/lanes.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/routing/router.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// Shared by the listen comm and the comms that it accepted: their peers reach them through it when the
/// listen comm has long been closed. May be used by any thread at any time. From the first comm on the
/// transport's background thread takes arrivals too, so that a peer gets its lane although its comm's own
/// thread makes no calls.
class Door final : public transport::bootstrap::Progressable {
 public:
  explicit Door(std::shared_ptr<transport::Router> router);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const transport::Endpoint& endpoint() const noexcept { return listener_->endpoint(); }
  const std::shared_ptr<transport::Router>& router() const noexcept { return router_; }

  struct Arrival {
    std::uint32_t comm = 0;
    std::unique_ptr<transport::Connection> connection;
  };
  /// The first connection of a comm; nothing where none waits. Its lanes are kept from then on, until
  /// forget().
  std::optional<Arrival> accept();
  /// A further connection of that comm; null where none waits.
  std::unique_ptr<transport::Connection> next_lane(std::uint32_t comm);
  void forget(std::uint32_t comm) noexcept;
  /// From now on no comm is accepted; what waits for it is closed.
  void close() noexcept;

  Duration progress_in_background() noexcept override;

 private:
  using Connections = std::vector<std::unique_ptr<transport::Connection>>;
  bool sort(Connections& unwanted);

  std::shared_ptr<transport::Router> router_;
  std::shared_ptr<transport::bootstrap::ProcessHelpers> helpers_;
  std::mutex lock_;  // protects all below; connections end without it
  std::unique_ptr<transport::Listener> listener_;
  EndpointAnswers answers_;
  bool open_ = true;
  bool in_background_ = false;
  std::deque<Arrival> waiting_;                                                        // for accept()
  std::map<std::uint32_t, std::deque<std::unique_ptr<transport::Connection>>> lanes_;  // by comm
};

/// The lanes that arrive for one comm, which forgets them at its end.
class DoorArrivals final : public LaneArrivals {
 public:
  DoorArrivals(std::shared_ptr<Door> door, std::uint32_t comm) : door_(std::move(door)), comm_(comm) {}
  ~DoorArrivals() override { door_->forget(comm_); }
  std::unique_ptr<transport::Connection> next() override { return door_->next_lane(comm_); }

 private:
  std::shared_ptr<Door> door_;
  std::uint32_t comm_;
};

}  // namespace tombolo::net_plugin
