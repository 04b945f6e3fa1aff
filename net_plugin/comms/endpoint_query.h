// All NICs of a listener, where NCCL's handle had no room for them: the connecting end asks on a connection
// of its own, over what the handle did tell, and remembers the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/endpoint.h"
#include "transport/routing/router.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// Most bytes of an answer: an endpoint of the most NICs that one can have, with long names.
inline constexpr std::size_t kMostAnswer = std::size_t{64} << 10;

/// The answers of this process's peers. What a listener of one process and device offers is the same for all
/// its listeners but for their numbers, so one question per peer process and device is enough. Any thread may
/// use it.
class EndpointCache {
 public:
  /// Everything of a listener of which `compact` was in the handle; nothing where its process and device were
  /// not asked yet.
  std::optional<transport::Endpoint> find(const transport::Endpoint& compact) const;
  void add(const transport::Endpoint& compact, transport::Endpoint full);

 private:
  static std::string key_of(transport::Endpoint compact);
  mutable std::mutex lock_;
  std::map<std::string, transport::Endpoint> known_;
};

/// One question under way. Used by one thread at a time.
class EndpointQuery {
 public:
  /// Starts to connect. Throws as Router::connect does.
  EndpointQuery(transport::Router& router, const transport::Endpoint& compact, Duration deadline);

  /// The whole endpoint once it is there; nothing means "ask again". Throws where it will not come, kRemote
  /// where the answer is another listener's.
  std::optional<transport::Endpoint> poll();

 private:
  const transport::Endpoint compact_;
  std::vector<std::byte> answer_;  // declared before the connection, which writes it
  std::unique_ptr<transport::Connecting> connecting_;
  std::unique_ptr<transport::Connection> connection_;
  transport::Request* receive_ = nullptr;
};

/// The listening end's answers under way.
class EndpointAnswers {
 public:
  /// Answers on a connection that asked.
  void add(std::unique_ptr<transport::Connection> connection, const transport::Endpoint& full);
  /// Moves them, and closes those that are over. True where any are left.
  bool progress() noexcept;

 private:
  struct Answer {
    std::vector<std::byte> bytes;
    std::unique_ptr<transport::Connection> connection;
    transport::Request* send = nullptr;
  };
  std::vector<Answer> answers_;
};

}  // namespace tombolo::net_plugin
