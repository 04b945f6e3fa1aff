// Whether ranks that are to connect live, as far as the store knows: of one that died before it had connected
// nothing else tells.
#pragma once

#include <functional>
#include <optional>

#include "base/clock.h"
#include "collectives/abort/abort_signal.h"

namespace tombolo::collectives {

/// Asks over the signal's connection, and never waits for an answer: a store that does not answer costs no
/// time. One thread at a time.
class AbsentRanks {
 public:
  /// `awaited`: whether that one of `size` ranks is to connect. What is given must outlive this object.
  AbsentRanks(AbortSignal& signal, const Rendezvous& rendezvous, int size,
              std::function<bool(int rank)> awaited)
      : signal_(signal), rendezvous_(rendezvous), size_(size), awaited_(std::move(awaited)) {}

  /// In a wait in which nothing has moved since then: goes on with what it asks. Returns how long it has
  /// nothing to do; an answer wakes whoever polls the signal's descriptors.
  Duration look(TimePoint now, TimePoint idle_since);
  /// One that was found to have ended, in the wait that look() was called in last.
  std::optional<int> gone() const noexcept { return gone_; }

 private:
  /// What the store is asked about `rank_`.
  enum class Question {
    kNone,
    kHasRead,    // whether it has come so far that it was present
    kIsPresent,  // whether it still is
  };
  void ask_about_next();

  AbortSignal& signal_;
  const Rendezvous& rendezvous_;
  int size_;
  std::function<bool(int rank)> awaited_;
  TimePoint idle_since_{}, next_look_{};
  Question question_ = Question::kNone;
  int rank_ = 0;
  std::optional<int> gone_;
};

}  // namespace tombolo::collectives
