#include "net_plugin/context.h"

#include <algorithm>

#include "base/error.h"
#include "net_plugin/leg.h"

namespace tombolo::net_plugin {

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
  attempt.handle = bytes;
  attempt.router = make_router(*node_, device(device_index), handle.secret, log_);
  transport::ConnectOptions options;
  options.deadline = node_->deadline;
  const bool stages = node_->gpu->wants_staging(device(device_index).host.nics);
  if (stages) options.label |= kLabelStages;
  attempt.stages = stages || handle.stages;
  attempt.connecting = attempt.router->connect(handle.endpoint, options);
  return attempt;
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

  if (auto connection = attempt.connecting->poll()) {
    auto leg = make_leg(std::move(connection), gpu::Directions::kSend, attempt.stages, *node_->gpu, log_);
    return std::make_unique<Comm>(Comm::Direction::kSend, std::move(attempt.router), std::move(leg), log_);
  }
  attempt.asked_for = node_->router.clock->now();
  std::lock_guard guard(attempts_lock_);
  attempts_.insert_or_assign(handle.data(), std::move(attempt));
  return nullptr;
}

}  // namespace tombolo::net_plugin
