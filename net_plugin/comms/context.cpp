#include "net_plugin/comms/context.h"

#include <algorithm>

#include "base/error.h"
#include "net_plugin/comms/lane_label.h"
#include "net_plugin/comms/set_up_stall.h"

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
             Duration deadline, std::shared_ptr<const Legs> legs)
      : router_(std::move(router)),
        peer_(std::move(peer)),
        comm_(comm),
        deadline_(deadline),
        legs_(std::move(legs)) {}

  std::unique_ptr<transport::Connecting> dial(int tag) override {
    transport::ConnectOptions options;
    options.label = LaneLabel{comm_, tag}.encode() | legs_->label();
    options.deadline = deadline_;
    options.peer_name = fmt::format("tag {}", tag);
    return legs_->leg(router_->connect(peer_, options));
  }

 private:
  std::shared_ptr<transport::Router> router_;
  transport::Endpoint peer_;
  std::uint32_t comm_;
  Duration deadline_;
  std::shared_ptr<const Legs> legs_;
};

}  // namespace

Context::Context(std::shared_ptr<const Node> node, Log log, int traffic_class)
    : node_(std::move(node)), log_(std::move(log)), traffic_class_(checked_traffic_class(traffic_class)) {}

const NetDevice& Context::device(int index) const {
  return node_->devices->at(index);
}

std::unique_ptr<ListenComm> Context::listen(int device_index) {
  drop_abandoned();
  return std::make_unique<ListenComm>(*node_, device(device_index), log_, traffic_class_);
}

void Context::set_attributes(const abi::ncclNetAttr_v11_t& attributes) {
  if (attributes_.set(attributes) && log_.enabled(LogLevel::kTrace))
    log_.trace("NCCL {}", describe(attributes));
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

Context::Attempt Context::start(int device_index, const HandleBytes& bytes, int traffic_class) const {
  Handle handle = Handle::decode(bytes);
  Attempt attempt;
  if (handle.groups != node_->groups) {
    fail(Cause::kInvalidUsage,
         "the peer has TOMBOLO_NET_GROUPS={}, this rank {}: NCCL lays out its connections by it, so set it "
         "alike on all ranks",
         handle.groups ? "on" : "off", node_->groups ? "on" : "off");
  }
  static const TunerSettings no_tuner;
  check_tuners_alike(node_->tuner != nullptr ? *node_->tuner : no_tuner, handle.tuner);
  attempt.handle = bytes;
  attempt.peer = handle.endpoint;
  attempt.comm = random_comm();
  attempt.legs = std::make_shared<const Legs>(node_->gpu, gpu::Directions::kSend,
                                              node_->gpu->wants_staging(device(device_index).host.nics),
                                              handle.stages, node_->router.overlong, log_);
  attempt.router = make_router(*node_, device(device_index), handle.secret, log_,
                               checked_traffic_class(traffic_class), attempt.legs.get());
  // Inside a host no NIC is needed.
  if (!handle.more_nics ||
      handle.endpoint.host_id == transport::fabric_hash(node_->devices->at(0).host.name)) {
    dial(attempt);
  } else if (auto known = node_->peers->find(attempt.peer)) {
    attempt.peer = std::move(*known);
    dial(attempt);
  } else {
    attempt.asking = std::make_unique<EndpointQuery>(*attempt.router, attempt.peer, node_->deadline);
  }
  return attempt;
}

void Context::dial(Attempt& attempt) const {
  transport::ConnectOptions options;
  options.deadline = node_->deadline;
  options.label = LaneLabel{attempt.comm, std::nullopt}.encode() | attempt.legs->label();
  attempt.connecting = attempt.legs->leg(attempt.router->connect(attempt.peer, options));
}

std::unique_ptr<transport::Connection> Context::progress(Attempt& attempt) const {
  if (attempt.asking) {
    auto full = attempt.asking->poll();
    if (!full) return nullptr;
    node_->peers->add(attempt.peer, *full);
    attempt.peer = std::move(*full);
    attempt.asking.reset();
    dial(attempt);
  }
  return attempt.connecting->poll();
}

void Context::look_for_stall(Attempt& attempt, int index) const noexcept {
  if (!node_->stalls) return;
  const bool asks = attempt.asking != nullptr;
  const TimePoint now = node_->router.clock->now();
  const std::optional<Duration> stalled = attempt.watch.look(asks ? 1 : 2, now, node_->stalls->limit());
  if (!stalled || !node_->stalls->may_tell(now)) return;
  try {
    SetUpStall facts;
    facts.of = asks ? SetUpStall::Of::kQuery : SetUpStall::Of::kConnect;
    facts.device = device(index).name;
    facts.offers = attempt.peer.offers;
    facts.stalled = *stalled;
    facts.deadline = node_->deadline;
    log_.warning("{}", stall_text(*node_->stalls, facts));
  } catch (...) {
    // Telling ran out of memory, and the job may go on.
  }
}

std::unique_ptr<Comm> Context::finish(Attempt& attempt,
                                      std::unique_ptr<transport::Connection> connection) const {
  std::unique_ptr<Lanes> lanes;
  if (node_->groups) {
    lanes = std::make_unique<SendLanes>(
        std::move(connection), std::make_unique<PeerDialer>(attempt.router, std::move(attempt.peer),
                                                            attempt.comm, node_->deadline, attempt.legs));
  } else {
    lanes = std::make_unique<OneLane>(std::move(connection));
  }
  auto made =
      std::make_unique<Comm>(Comm::Direction::kSend, std::move(attempt.router), std::move(lanes), log_);
  made->tell_of_stalls(node_->stalls);
  return made;
}

std::unique_ptr<Comm> Context::connect(int device_index,
                                       std::span<const std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> handle,
                                       int traffic_class) {
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
  if (attempt.handle != bytes) {  // both before their router
    attempt.asking.reset();
    attempt.connecting.reset();
  }
  if (!attempt.under_way()) attempt = start(device_index, bytes, traffic_class);

  if (auto connection = progress(attempt)) return finish(attempt, std::move(connection));
  look_for_stall(attempt, device_index);
  attempt.asked_for = node_->router.clock->now();
  std::lock_guard guard(attempts_lock_);
  attempts_.insert_or_assign(handle.data(), std::move(attempt));
  return nullptr;
}

}  // namespace tombolo::net_plugin
