#include "net_plugin/context.h"

#include <algorithm>

#include "base/error.h"
#include "net_plugin/lane_label.h"

namespace tombolo::net_plugin {
namespace {

std::uint32_t random_comm() {
  std::uint32_t number = 0;
  transport::random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  return number & LaneLabel::kMostComm;
}

/// Dials further lanes of a comm where its first connection went.
class PeerDialer final : public LaneDialer {
 public:
  PeerDialer(std::shared_ptr<transport::Router> router, transport::Endpoint peer, std::uint32_t comm,
             Duration deadline)
      : router_(std::move(router)), peer_(std::move(peer)), comm_(comm), deadline_(deadline) {}

  std::unique_ptr<transport::Connecting> dial(int tag) override {
    transport::ConnectOptions options;
    options.label = LaneLabel{comm_, tag}.encode();
    options.deadline = deadline_;
    options.peer_name = fmt::format("tag {}", tag);
    return router_->connect(peer_, options);
  }

 private:
  std::shared_ptr<transport::Router> router_;
  transport::Endpoint peer_;
  std::uint32_t comm_;
  Duration deadline_;
};

}  // namespace

Context::Context(std::shared_ptr<const Node> node, Log log) : node_(std::move(node)), log_(std::move(log)) {}

const NetDevice& Context::device(int index) const {
  if (index < 0 || static_cast<std::size_t>(index) >= node_->devices.size()) {
    fail(Cause::kInvalidUsage, "device {} does not exist: there are {}", index, node_->devices.size());
  }
  return node_->devices[static_cast<std::size_t>(index)];
}

std::unique_ptr<ListenComm> Context::listen(int device_index) {
  drop_abandoned();
  return std::make_unique<ListenComm>(*node_, device(device_index), log_);
}

/// NCCL says nothing where it gives up connecting, as when a communicator is aborted.
void Context::drop_abandoned() noexcept {
  const TimePoint now = node_->router.clock->now();
  std::map<const std::byte*, Attempt> abandoned;  // declared before the lock, so that they end without it
  std::lock_guard guard(attempts_lock_);
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto one = at++;
    if (now - one->second.asked_for > node_->deadline) abandoned.insert(attempts_.extract(one));
  }
}

std::size_t Context::attempts() const {
  std::lock_guard guard(attempts_lock_);
  return attempts_.size();
}

Context::Attempt Context::start(int device_index, const HandleBytes& bytes) const {
  Handle handle = Handle::decode(bytes);
  Attempt attempt;
  if (handle.groups != node_->groups) {
    fail(Cause::kInvalidUsage,
         "the peer has TOMBOLO_NET_GROUPS={}, this rank {}: NCCL lays out its connections by it, so set it "
         "alike on all ranks",
         handle.groups ? "on" : "off", node_->groups ? "on" : "off");
  }
  attempt.handle = bytes;
  attempt.peer = handle.endpoint;
  attempt.comm = random_comm();
  attempt.router = make_router(*node_, device(device_index), handle.secret, log_);
  transport::ConnectOptions options;
  options.deadline = node_->deadline;
  options.label = LaneLabel{attempt.comm, std::nullopt}.encode();
  attempt.connecting = attempt.router->connect(handle.endpoint, options);
  return attempt;
}

std::unique_ptr<Comm> Context::finish(Attempt& attempt,
                                      std::unique_ptr<transport::Connection> connection) const {
  std::unique_ptr<Lanes> lanes;
  if (node_->groups) {
    lanes = std::make_unique<SendLanes>(
        std::move(connection),
        std::make_unique<PeerDialer>(attempt.router, std::move(attempt.peer), attempt.comm, node_->deadline));
  } else {
    lanes = std::make_unique<OneLane>(std::move(connection));
  }
  return std::make_unique<Comm>(Comm::Direction::kSend, std::move(attempt.router), std::move(lanes), log_);
}

std::unique_ptr<Comm> Context::connect(int device_index,
                                       std::span<const std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> handle) {
  HandleBytes bytes;
  std::ranges::copy(handle, bytes.begin());
  // The attempt is taken out of the map while it progresses: no lock is held over system calls, and an
  // exception drops the attempt.
  Attempt attempt;
  {
    std::lock_guard guard(attempts_lock_);
    if (auto found = attempts_.find(handle.data()); found != attempts_.end()) {
      attempt = std::move(found->second);
      attempts_.erase(found);
    }
  }
  drop_abandoned();
  // Another handle in the same memory means that NCCL gave up the old attempt and used the memory again.
  if (attempt.connecting && attempt.handle != bytes) attempt.connecting.reset();  // before its router
  if (!attempt.connecting) attempt = start(device_index, bytes);

  if (auto connection = attempt.connecting->poll()) return finish(attempt, std::move(connection));
  attempt.asked_for = node_->router.clock->now();
  std::lock_guard guard(attempts_lock_);
  attempts_.insert_or_assign(handle.data(), std::move(attempt));
  return nullptr;
}

}  // namespace tombolo::net_plugin
