#include "net_plugin/comms/endpoint_query.h"

#include "base/error.h"
#include "net_plugin/comms/lane_label.h"

namespace tombolo::net_plugin {
namespace {

/// Endpoints of processes that have ended stay, so there is a bound; beyond it peers are asked again.
constexpr std::size_t kMostKnown = 4096;

}  // namespace

std::string EndpointCache::key_of(transport::Endpoint compact) {
  compact.listener = 0;
  const std::vector<std::byte> bytes = compact.encode();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<transport::Endpoint> EndpointCache::find(const transport::Endpoint& compact) const {
  const std::lock_guard guard(lock_);
  const auto found = known_.find(key_of(compact));
  if (found == known_.end()) return std::nullopt;
  transport::Endpoint full = found->second;
  full.listener = compact.listener;
  return full;
}

void EndpointCache::add(const transport::Endpoint& compact, transport::Endpoint full) {
  const std::lock_guard guard(lock_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_.insert_or_assign(key_of(compact), std::move(full));
}

EndpointQuery::EndpointQuery(transport::Router& router, const transport::Endpoint& compact, Duration deadline)
    : compact_(compact), answer_(kMostAnswer) {
  transport::ConnectOptions options;
  options.label = LaneLabel::kAsksForEndpoint;
  options.deadline = deadline;
  options.peer_name = "all NICs";
  connecting_ = router.connect(compact, options);
}

std::optional<transport::Endpoint> EndpointQuery::poll() {
  if (!connection_) {
    connection_ = connecting_->poll();
    if (!connection_) return std::nullopt;
    connecting_.reset();
  }
  const auto failed = [&]() -> const Error& { return *connection_->error(); };
  if (receive_ == nullptr) {
    receive_ = connection_->post_receive(answer_);
    if (receive_ == nullptr) {
      if (connection_->error() != nullptr) throw failed();
      return std::nullopt;
    }
  }
  std::size_t bytes = 0;
  switch (connection_->test(receive_, bytes)) {
    case transport::Outcome::kPending:
      return std::nullopt;
    case transport::Outcome::kFailed:
      throw failed();
    case transport::Outcome::kDone:
      break;
  }
  auto full = transport::Endpoint::decode(std::span(answer_).first(bytes));
  if (full.process != compact_.process || full.listener != compact_.listener) {
    fail(Cause::kRemote, "asked for its NICs, listener {} of process {:x} answered for listener {} of {:x}",
         compact_.listener, compact_.process, full.listener, full.process);
  }
  return full;
}

void EndpointAnswers::add(std::unique_ptr<transport::Connection> connection,
                          const transport::Endpoint& full) {
  answers_.push_back({full.encode(), std::move(connection)});
}

bool EndpointAnswers::progress() noexcept {
  std::erase_if(answers_, [](Answer& one) {
    if (one.send == nullptr) one.send = one.connection->post_send(one.bytes);
    if (one.send == nullptr) return one.connection->error() != nullptr;
    std::size_t bytes = 0;
    return one.connection->test(one.send, bytes) != transport::Outcome::kPending;
  });
  return !answers_.empty();
}

}  // namespace tombolo::net_plugin
