#include "net_plugin/comms/lanes.h"

#include "base/error.h"
#include "net_plugin/comms/lane_label.h"

namespace tombolo::net_plugin {
namespace {

std::array<std::byte, 4> bytes_of(int tag) {
  std::array<std::byte, 4> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::uint32_t>(tag) >> (8 * i));
  return bytes;
}

int tag_of(const std::array<std::byte, 4>& bytes) {
  std::uint32_t tag = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) tag |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
  return static_cast<int>(tag);
}

}  // namespace

Lanes::Lanes(std::unique_ptr<transport::Connection> first)
    : unassigned_(std::move(first)), first_(unassigned_.get()) {}

Lanes::~Lanes() = default;

transport::Connection& Lanes::first() noexcept {
  return *first_;
}

Lane& Lanes::append(int tag) {
  auto lane = std::make_unique<Lane>();
  lane->tag = tag;
  return *lanes_.emplace_back(std::move(lane));
}

void Lanes::open(Lane& lane, std::unique_ptr<transport::Connection> connection) noexcept {
  // The first connection has index 0, whenever its tag becomes known.
  lane.index = connection.get() == first_ ? 0 : ++connections_;
  lane.number = connection->statistics().connection;
  lane.connecting.reset();
  lane.connection = std::move(connection);
  lane.state = Lane::State::kOpen;
}

void Lanes::give_up(Lane& lane, const Error& cause) {
  lane.state = Lane::State::kFailed;
  const transport::Route& route = first_->route();
  fail(cause.cause(), "no connection for tag {} with {} ({} -> {}): {}", lane.tag, route.peer_host,
       route.local_nic, route.peer_nic, cause.what());
}

Lane* Lanes::opening() noexcept {
  for (const auto& lane : lanes_)
    if (lane->state == Lane::State::kOpening) return lane.get();
  return nullptr;
}

// ---- without groups

OneLane::OneLane(std::unique_ptr<transport::Connection> connection) : Lanes(std::move(connection)) {
  Lane& lane = append(0);
  lane.any_tag = true;
  open(lane, std::move(unassigned_));
}

Lane& OneLane::add(int tag) {
  fail(Cause::kInternal, "a lane of its own for tag {} of a comm that has one lane for all", tag);
}

// ---- the sender's

SendLanes::SendLanes(std::unique_ptr<transport::Connection> first, std::unique_ptr<LaneDialer> dialer)
    : Lanes(std::move(first)), dialer_(std::move(dialer)) {}

Lane& SendLanes::add(int tag) {
  if (unassigned_) {
    Lane& lane = append(tag);
    first_tag_ = bytes_of(tag);
    // Where this is refused the connection is dead, and so refuses the message that follows.
    announcing_ = unassigned_->post_send(first_tag_);
    settled_ = announcing_ == nullptr;
    open(lane, std::move(unassigned_));
    return lane;
  }
  auto connecting = dialer_->dial(tag);
  Lane& lane = append(tag);
  lane.connecting = std::move(connecting);
  settled_ = false;
  return lane;
}

void SendLanes::progress() {
  if (announcing_ != nullptr) {
    std::size_t bytes = 0;
    if (first_->test(announcing_, bytes) != transport::Outcome::kPending) announcing_ = nullptr;
  }
  bool any_opening = false;
  for (const auto& lane : lanes_) {
    if (lane->state != Lane::State::kOpening) continue;
    try {
      if (auto connection = lane->connecting->poll()) {
        open(*lane, std::move(connection));
        continue;
      }
    } catch (const Error& error) {
      give_up(*lane, error);
    }
    any_opening = true;
    // Where the peer has gone there is no need to wait until the time for connecting is over.
    first_->progress();
    if (const Error* error = first_->error()) give_up(*lane, *error);
  }
  settled_ = !any_opening && announcing_ == nullptr;
}

// ---- the receiver's

ReceiveLanes::ReceiveLanes(std::unique_ptr<transport::Connection> first,
                           std::unique_ptr<LaneArrivals> arrivals, const Clock& clock)
    : Lanes(std::move(first)), arrivals_(std::move(arrivals)), clock_(clock) {}

Lane& ReceiveLanes::add(int tag) {
  // Not before there is a receive, so that nothing is pending on an idle connection.
  if (unassigned_ && announcing_ == nullptr) announcing_ = unassigned_->post_receive(first_tag_);
  Lane& lane = append(tag);
  settled_ = false;
  progress();
  return lane;
}

void ReceiveLanes::learn_first_tag() {
  std::size_t bytes = 0;
  transport::Outcome outcome = transport::Outcome::kFailed;
  if (announcing_ != nullptr) outcome = first_->test(announcing_, bytes);
  if (outcome == transport::Outcome::kPending) return;
  announcing_ = nullptr;
  const Error* error = first_->error();
  if (outcome == transport::Outcome::kFailed) {
    if (error != nullptr) throw Error(*error);
    fail(Cause::kInternal, "the connection to {} took no receive", first_->route().peer_host);
  }
  if (bytes != first_tag_.size()) {
    fail(Cause::kRemote,
         "{} began with a message of {} bytes instead of the {} that say its first tag: "
         "TOMBOLO_NET_GROUPS must be alike on all ranks",
         first_->route().peer_host, bytes, first_tag_.size());
  }
  const int tag = tag_of(first_tag_);
  Lane* lane = find(tag);
  open(lane != nullptr ? *lane : append(tag), std::move(unassigned_));
}

void ReceiveLanes::progress() {
  if (unassigned_) learn_first_tag();
  while (auto connection = arrivals_->next()) {
    const std::optional<int> tag = LaneLabel::decode(connection->label()).tag;
    if (!tag) fail(Cause::kRemote, "a connection without a tag came for a comm that has its first one");
    Lane* lane = find(*tag);
    if (lane != nullptr && lane->connection)
      fail(Cause::kRemote, "{} made two connections for tag {}", connection->route().peer_host, *tag);
    open(lane != nullptr ? *lane : append(*tag), std::move(connection));
  }
  Lane* awaited = opening();
  settled_ = !unassigned_ && awaited == nullptr;
  if (awaited == nullptr || unassigned_) return;
  // What came on a connection may still wait for receives, and its error with it. Where that fills the
  // connection, its end cannot be seen behind it, but perhaps another one's can.
  const transport::Connection* ended = nullptr;
  for (const auto& lane : lanes_) {
    if (!lane->connection) continue;
    lane->connection->progress();
    if (ended == nullptr && lane->connection->peer_ended()) ended = lane->connection.get();
  }
  if (ended == nullptr) return;
  if (!grace_) grace_ = Deadline::after(kGrace, clock_);
  if (!grace_->passed()) return;
  const Error* error = ended->error();
  give_up(*awaited, error != nullptr
                        ? *error
                        : Error(Cause::kRemote, "the peer has ended the communicator, or has died"));
}

}  // namespace tombolo::net_plugin
