#include "net_plugin/comms/door.h"

#include "base/error.h"
#include "net_plugin/comms/lane_label.h"

namespace tombolo::net_plugin {

using transport::bootstrap::BackgroundProgress;
using transport::bootstrap::ProcessHelpers;

Door::Door(std::shared_ptr<transport::Router> router)
    : router_(std::move(router)),
      helpers_(router_->options().helpers ? router_->options().helpers : ProcessHelpers::of_process()),
      listener_(router_->listen()) {}

Door::~Door() {
  if (in_background_) helpers_->background_progress().remove(this);
}

std::optional<Door::Arrival> Door::accept() {
  Connections unwanted;
  std::lock_guard guard(lock_);
  sort(unwanted);
  if (waiting_.empty()) return std::nullopt;
  Arrival first = std::move(waiting_.front());
  waiting_.pop_front();
  if (!in_background_) helpers_->background_progress().add(this);
  in_background_ = true;
  return first;
}

std::unique_ptr<transport::Connection> Door::next_lane(std::uint32_t comm) {
  Connections unwanted;
  std::lock_guard guard(lock_);
  sort(unwanted);
  auto found = lanes_.find(comm);
  if (found == lanes_.end() || found->second.empty()) return nullptr;
  auto connection = std::move(found->second.front());
  found->second.pop_front();
  return connection;
}

void Door::forget(std::uint32_t comm) noexcept {
  decltype(lanes_)::node_type ended;
  std::lock_guard guard(lock_);
  ended = lanes_.extract(comm);
}

void Door::close() noexcept {
  std::deque<Arrival> ended;
  std::lock_guard guard(lock_);
  open_ = false;
  for (const Arrival& one : waiting_) lanes_.erase(one.comm);
  ended.swap(waiting_);
}

Duration Door::progress_in_background() noexcept {
  try {
    Connections unwanted;
    std::lock_guard guard(lock_);
    return sort(unwanted) ? BackgroundProgress::kSoon : BackgroundProgress::kIdle;
  } catch (...) {
    return BackgroundProgress::kIdle;  // a caller of accept() or next_lane() meets the same, and reports it
  }
}

/// True where anything arrived.
bool Door::sort(Connections& unwanted) {
  const Log& log = router_->options().log;
  bool any = false;
  while (auto connection = listener_->accept()) {
    any = true;
    if (connection->label() == LaneLabel::kAsksForEndpoint) {
      answers_.add(std::move(connection), listener_->endpoint());
      continue;
    }
    const LaneLabel label = LaneLabel::decode(connection->label());
    const auto found = lanes_.find(label.comm);
    if (label.tag && found != lanes_.end()) {
      found->second.push_back(std::move(connection));
    } else if (!label.tag && found == lanes_.end() && open_) {
      lanes_[label.comm];
      waiting_.push_back({label.comm, std::move(connection)});
    } else {
      log.info("a connection from {} is closed: {}", connection->route().peer_host,
               label.tag ? fmt::format("the comm that it is for has ended (tag {})", *label.tag)
               : !open_  ? "NCCL has closed the listen comm that it is for"
                         : "another comm has the same number");
      unwanted.push_back(std::move(connection));
    }
  }
  return answers_.progress() || any;
}

}  // namespace tombolo::net_plugin
