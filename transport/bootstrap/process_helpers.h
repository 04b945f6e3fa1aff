// What all routers of a process share, so that many connections cost no more than one: where it accepts
// streams, the thread that moves connections whose owners make no calls, and the sockets of closed
// connections.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "transport/bootstrap/background_progress.h"
#include "transport/bootstrap/closing_patience.h"
#include "transport/bootstrap/half_open_streams.h"
#include "transport/bootstrap/registrations.h"
#include "transport/sockets/closing_sockets.h"

namespace tombolo::transport::bootstrap {

/// Held by every acceptor, and ended by the last one, so that a library that holds it can be unloaded then.
/// The end waits until the peers' kernels have the last bytes of closed connections, at most half a second
/// for peers that take nothing. Thread-safe.
class ProcessHelpers {
 public:
  /// Refused streams that are kept so that their peers read why, and for how long: they cost a descriptor
  /// each, and are owed nothing else.
  static constexpr std::size_t kMostRefused = 64;
  static constexpr Duration kLongestRefused = std::chrono::seconds(2);

  /// Makes one beside that of the process, for tests that pretend several processes in one. By `clock`
  /// handshakes end that take too long; the sockets of closed connections go by real time.
  explicit ProcessHelpers(const Clock& clock = Clock::steady());
  /// Makes one for a simulation: all of it goes by `clock`, and its owner calls
  /// background_progress().round().
  struct Simulated {};
  ProcessHelpers(Simulated, const Clock& clock);
  ProcessHelpers(const ProcessHelpers&) = delete;
  ProcessHelpers& operator=(const ProcessHelpers&) = delete;

  /// The one of this process; made at the first call, and again where the last one has ended. A process that
  /// was forked gets its own. Where the library is unloaded, or the process ends, its background thread ends
  /// first, whoever still holds it: what was never closed would have it run code that is gone.
  static std::shared_ptr<ProcessHelpers> of_process();

  /// Random; tells processes apart (Endpoint::process).
  std::uint64_t process() const noexcept { return process_; }
  const Clock& clock() const noexcept { return *clock_; }

  Registrations& registrations() noexcept { return registrations_; }
  HalfOpenStreams& half_open_streams() noexcept { return half_open_streams_; }
  /// Keeps the sockets of closed connections until their last bytes have arrived.
  sockets::ClosingSockets& closing_sockets() noexcept { return closing_sockets_; }
  ClosingPatience& closing_patience() noexcept { return closing_patience_; }
  /// Moves connections whose owners make no calls.
  BackgroundProgress& background_progress() noexcept { return background_progress_; }

  /// Accepts streams and moves handshakes, within bounds: what is left is done by the next call. Returns at
  /// once where another thread is at it.
  void progress() noexcept;

 private:
  ProcessHelpers(const Clock& clock, const Clock& clock_of_closing, BackgroundProgress::Drive drive);
  bool progress_in_background() noexcept;

  const Clock* clock_;
  std::uint64_t process_;
  Registrations registrations_;
  sockets::ClosingSockets refused_sockets_;
  sockets::ClosingSockets closing_sockets_;
  ClosingPatience closing_patience_;
  HalfOpenStreams half_open_streams_;
  BackgroundProgress background_progress_;  // declared last, so that it ends first
};

}  // namespace tombolo::transport::bootstrap
