// Which streams of a TCP connection are opened again: when, over which pair of NICs, in which epoch. Decides
// from times and outcomes; the attempts themselves (bootstrap::Dial) belong to the streams. The connecting
// end opens streams; at the accepting end, where all streams are at home for good, nothing is ever due. Used
// by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "transport/tcp/stream/stream_state.h"

namespace tombolo::transport::tcp {

/// How the peer's addresses have answered the last attempts to reach it. Targets are pairs of NICs, as
/// indices.
class Refusals {
 public:
  /// An attempt at the target was `refused` by the peer's kernel, or `turned_away`: ended on purpose.
  void note(std::size_t target, bool refused, bool turned_away) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << target % 64;
    refusing_ = refused ? refusing_ | bit : refusing_ & ~bit;
    turned_away_ = turned_away ? turned_away_ + 1 : 0;
  }
  /// Why the last attempt failed. Stays, for people, when the rest is forgotten.
  void say(std::string why) { last_ = std::move(why); }
  const std::string& last() const noexcept { return last_; }
  /// What was noted says nothing about the peer's state any more.
  void forget() noexcept { refusing_ = turned_away_ = 0; }
  /// Whether the last attempt was refused at each of so many targets. False where there are none.
  bool all_of(std::size_t targets) const noexcept {
    const std::uint64_t all = targets < 64 ? (std::uint64_t{1} << targets) - 1 : UINT64_MAX;
    return all != 0 && (refusing_ & all) == all;
  }
  /// Attempts in a row that were turned away.
  std::size_t turned_away() const noexcept { return turned_away_; }

 private:
  std::uint64_t refusing_ = 0;  // by bit
  std::size_t turned_away_ = 0;
  std::string last_;
};

class Reconnector {
 public:
  /// How long an attempt to open a stream again may take, its handshake included, at first.
  static constexpr Duration kHandshake = std::chrono::seconds(1);

  /// A stream whose own pair of NICs is `home`, and whose next attempt gets `next_epoch` or a higher one.
  void add(std::size_t stream, std::size_t home, std::uint32_t next_epoch = 1);
  /// Makes room for so many streams, those that are not added being at home 0.
  void grow(std::size_t streams) {
    if (streams > plans_.size()) plans_.resize(streams);
  }

  std::size_t home(std::size_t stream) const noexcept { return plans_[stream].home; }
  /// The pair of NICs over which it goes, or went last.
  std::size_t at(std::size_t stream) const noexcept { return plans_[stream].at; }
  /// The pair over which it is tried now, or next.
  std::size_t target(std::size_t stream) const noexcept { return plans_[stream].next; }
  /// Whether it goes over other NICs than its own.
  bool away(std::size_t stream) const noexcept { return plans_[stream].at != plans_[stream].home; }
  /// Whether a stream in that state has to be opened: it has no socket, or a suspect one beside which another
  /// is tried, or it should return to its own NICs.
  bool wants(std::size_t stream, StreamState state) const noexcept {
    return !is_live(state) || state == StreamState::kSuspect || away(stream);
  }
  /// No attempt begins before this time.
  TimePoint due(std::size_t stream) const noexcept { return plans_[stream].after; }

  struct Attempt {
    std::size_t target = 0;
    std::uint32_t epoch = 0;
    Duration patience{};  ///< how long the peer's kernel may leave it unanswered
  };
  /// Begins an attempt for a stream that is wanted, over one of so many targets; nothing before it is due.
  std::optional<Attempt> begin(std::size_t stream, StreamState state, std::size_t targets, TimePoint now);
  /// Whether the attempt's handshake has gone unanswered for too long.
  bool overdue(std::size_t stream, TimePoint now) const noexcept;

  /// While no stream is live, none waits for long.
  void hurry(std::size_t stream, TimePoint now) noexcept;
  /// The attempt was dropped in that epoch. The peer may have accepted it, so the next one gets a higher
  /// epoch.
  void dropped(std::size_t stream, std::uint32_t epoch) noexcept;
  /// The attempt has failed in that epoch, which the peer has not accepted, so that the next one may have it
  /// too.
  void not_accepted(std::size_t stream, std::uint32_t epoch) noexcept;
  /// An attempt has failed: the next one is made later, elsewhere. `alone`: no stream is live.
  void failed(std::size_t stream, StreamState state, std::size_t targets, bool alone, TimePoint now) noexcept;
  /// The path of a live stream has fallen silent.
  void suspected(std::size_t stream) noexcept;
  /// The stream was lost. `other` is a pair of NICs that is known to work, if its own is in doubt and there
  /// is one. Whether an attempt that is under way goes over the wrong pair, so that it should be dropped.
  bool lost(std::size_t stream, bool doubts_path, std::optional<std::size_t> other, TimePoint now) noexcept;
  /// The stream has a new socket over that pair of NICs.
  void joined(std::size_t stream, std::size_t at, std::uint32_t epoch, TimePoint now) noexcept;

 private:
  struct Plan {
    std::size_t home = 0, at = 0, next = 0;
    TimePoint after{};         // no attempt before this time
    TimePoint since{};         // when the attempt under way was begun
    TimePoint home_since{};    // since when it has been over its own NICs
    unsigned home_breaks = 0;  // how often in a row the path of its own NICs soon fell silent again
    unsigned failures = 0;     // attempts in a row that failed
    std::uint32_t next_epoch = 1;
  };
  static Duration home_again(const Plan& plan) noexcept;

  std::vector<Plan> plans_;
};

}  // namespace tombolo::transport::tcp
