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

/// One rank's part of one attempt. A rank that comes holds a key in the store for as long as this object's
/// Store is there: so it is known of all that have come whether they live, and have not given up. All
/// functions throw as Store does.
class Survivors {
 public:
  struct Rules {
    /// Whether a rank that has not come may still do so. Asked again and again, before each look for it, but
    /// by few ranks: the one that says who has come, and where all come by a list the first in it of all, and
    /// all of the first.
    std::function<bool(int rank)> may_come;
    /// Whether those are enough to go on without the others; the text says what is missing.
    std::function<std::string(const std::vector<int>& here)> refuse;
  };

  /// `prefix`: of the keys of this attempt.
  Survivors(Store& store, std::string prefix, int rank, int size, Rules rules, const Clock& clock,
            Duration patience)
      : store_(store),
        prefix_(std::move(prefix)),
        rank_(rank),
        size_(size),
        rules_(std::move(rules)),
        clock_(clock),
        deadline_(Deadline::after(patience, clock)) {}

  /// All but those. Throws kInvalidUsage where another rank excludes others, or came by of_arrival().
  void without(const std::vector<int>& excluded);
  /// Those that come. The first one that lives says who has, once no more may. Throws kRemote where this rank
  /// came later, or where it is refused, and kInvalidUsage where others came by without(). Where this rank
  /// fails before that was said, which others wait for, it says that nobody goes on, and why.
  void of_arrival();
  /// Those that go on, ascending, as far as the store has said: of_arrival() and without() give it also where
  /// they throw. Empty before.
  const std::vector<int>& agreed() const noexcept { return agreed_; }
  /// Whether that one of agreed() may still make its part. Few look: the first of them after all others, and
  /// these after the first.
  bool may_make_its_part(int rank);
  /// Waits until all of them have come so far as to call this: if the store dies while they make their
  /// parts, either all have one, or (but for the moment in which the last word is on its way) none. Throws
  /// kRemote where one of them has died, or one `gave_up`, which is asked again and again.
  void await_all(const std::function<bool()>& gave_up);

 private:
  std::string key_of(int rank) const;
  bool is_here(int rank) const { return store_.try_get(key_of(rank)).has_value(); }
  std::vector<bool> await_others();
  /// Forgets those that have gone since they came; whether there are any.
  bool forget_who_has_gone(std::vector<bool>& here) const;
  std::string await_decision();
  std::string decide();
  /// Nothing where the one that is to decide has died before it did.
  std::optional<std::string> decision_of(int decider);
  std::string decision_key() const;
  /// What the key holds, in at most kDeciderLook; nothing where it is not there.
  std::optional<std::string> look(const std::string& key);

  Store& store_;
  std::string prefix_;
  int rank_, size_;
  Rules rules_;
  const Clock& clock_;
  Deadline deadline_;
  bool by_list_ = false;
  std::vector<int> agreed_;
};

}  // namespace tombolo::collectives
