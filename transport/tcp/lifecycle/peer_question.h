// How the accepting end of a TCP connection, which opens no streams itself, learns whether its peer still has
// the connection.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "transport/bootstrap/dial.h"
#include "transport/bootstrap/local.h"
#include "transport/tcp/lifecycle/reconnector.h"

namespace tombolo::transport::tcp {

/// Asks again and again while it is polled. Used by one thread at a time.
class PeerQuestion {
 public:
  enum class Answer : std::uint8_t {
    kNone,       ///< none has come yet, or it is too early to ask again
    kLives,      ///< the peer has the connection, and will open its streams again
    kUnreached,  ///< the attempt to ask failed, for a reason that the refusals keep
    kGone,       ///< the peer, or what is at its address now, does not have the connection
  };
  /// Moves the question, or begins one. `joined` is the hello with which the peer's first stream came. Notes
  /// in `refusals` how the attempt went, as for target 0. Does not throw for what goes wrong on the way.
  Answer poll(const std::shared_ptr<const bootstrap::Local>& local,
              const std::shared_ptr<const bootstrap::Target>& target, const bootstrap::Hello& joined,
              Refusals& refusals, TimePoint now);
  /// The answer is not needed any more.
  void drop() noexcept { dial_.reset(); }

  /// Appends what to poll(2) for; returns the longest time to sleep.
  Duration append_wait_handles(std::vector<pollfd>& handles, TimePoint now) const {
    return dial_ ? dial_->append_wait_handles(handles, now) : Duration::max();
  }

 private:
  std::unique_ptr<bootstrap::Dial> dial_;
  TimePoint after_{};  // none is begun before this time
};

}  // namespace tombolo::transport::tcp
