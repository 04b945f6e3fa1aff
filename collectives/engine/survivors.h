// Which ranks of a communicator go on: they agree on it in a store, whether that is the one where the whole
// has met or one of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collectives/rendezvous/bootstrap.h"

namespace tombolo::collectives {

/// "0, 2", or "none"
std::string text_of(const std::vector<int>& ranks);

/// One rank's part of one attempt. All functions throw as Store does.
class Survivors {
 public:
  struct Rules {
    /// Whether a rank that has not come may still do so. Asked again and again, before each look for it.
    std::function<bool(int rank)> may_come;
    /// Whether those are enough to go on without the others; the text says what is missing.
    std::function<std::string(const std::vector<int>& here)> refuse;
  };

  /// `prefix`: of the keys of this attempt.
  Survivors(Store& store, std::string prefix, int rank, int size, const Clock& clock, Duration patience)
      : store_(store),
        prefix_(std::move(prefix)),
        rank_(rank),
        size_(size),
        clock_(clock),
        deadline_(Deadline::after(patience, clock)) {}

  /// All but those. Throws kInvalidUsage where another rank excludes others, or came by of_arrival().
  std::vector<int> without(const std::vector<int>& excluded);
  /// Those that come. The first one that lives says who has, once no more may. Throws kRemote where this rank
  /// came later, or where it is refused, and kInvalidUsage where others came by without().
  std::vector<int> of_arrival(const Rules& rules);
  /// Waits until all of those have come so far as to call this: if the store dies while they make their
  /// parts, either all have one, or (but for the moment in which the last word is on its way) none. Throws
  /// kRemote where one of them has died.
  void await_all(const std::vector<int>& ranks, const Rules& rules);

 private:
  std::string key_of(int rank) const;
  std::vector<bool> await_others(const Rules& rules);
  std::string decide(const Rules& rules);
  /// Nothing where the one that is to decide has died before it did.
  std::optional<std::string> decision_of(const std::vector<int>& decider, const Rules& rules);
  std::string decision_key() const;
  /// What the key holds, in at most kDeciderLook; nothing where it is not there.
  std::optional<std::string> look(const std::string& key);

  Store& store_;
  std::string prefix_;
  int rank_, size_;
  const Clock& clock_;
  Deadline deadline_;
};

}  // namespace tombolo::collectives
