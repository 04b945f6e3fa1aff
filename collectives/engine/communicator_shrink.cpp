// How the ranks that are left go on without the others: they meet in the store of the whole, or where that
// has gone in the store on standby of the first of them, and make a communicator of theirs there.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "collectives/engine/communicator_state.h"
#include "collectives/liveness/survivors.h"
#include "collectives/rendezvous/listener_probe.h"
#include "collectives/rendezvous/rendezvous_address.h"

namespace tombolo::collectives {
namespace {

/// The store is there already, or its process has died.
constexpr Duration kStorePatience = std::chrono::seconds(5);
/// How long a rank that lives may take to come and open its store, where others meet.
constexpr Duration kStandbyPatience = std::chrono::seconds(3);
/// How long the end of the keeper's connections may take after that of its port.
constexpr Duration kEndPatience = std::chrono::milliseconds(200);

bool is_among(int rank, const std::vector<int>& ranks) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace

/// One call of shrink() on one rank.
class Communicator::Shrinking {
 public:
  /// `at`: where the whole has met, with the prefix of what is to be made.
  Shrinking(const Communicator& whole, const std::vector<int>& excluded, Rendezvous at)
      : whole_(whole),
        state_(*whole.state_),
        excluded_(excluded),
        at_(std::move(at)),
        dead_(static_cast<std::size_t>(whole.size()), false) {
    for (const StandbyStore& one : state_.standbys) probes_.add({one.address, one.port});
  }

  std::unique_ptr<State> run() {
    Attempt last;
    // Whom the caller gives up has no part in it, though it may live and keep the store.
    if (!gives_up_store()) last = at_store_of_whole();
    for (int rank = 0; rank < whole_.size() && !last.made; ++rank) {
      if (may_keep(rank)) last = at_standby_of(rank);
    }
    if (!last.made) throw Error(Cause::kRemote, last.why);
    return std::move(last.made);
  }

 private:
  enum class Reached { kThere, kGone, kSilent };
  struct Attempt {
    std::unique_ptr<State> made;  // where the store was there
    Reached store = Reached::kThere;
    std::string why = {};  // it was not
  };

  const StandbyStore& standby_of(int rank) const { return state_.standbys[static_cast<std::size_t>(rank)]; }
  const std::string& host_of(int rank) const { return state_.members[static_cast<std::size_t>(rank)].host; }
  Deadline within(Duration most) const { return state_.within(std::min(most, state_.options.deadline)); }

  /// Whether the rank's store on standby can serve all: every rank comes to the same answer.
  bool may_keep(int rank) const {
    if (is_among(rank, excluded_) || standby_of(rank).port == 0) return false;
    return !is_loopback(standby_of(rank).address) || is_loopback(state_.rendezvous.known_as) ||
           std::ranges::all_of(state_.members,
                               [&](const Member& member) { return member.host == host_of(rank); });
  }

  /// Whether a refused connection to the rank's host tells that the rank's process is gone. Of another host a
  /// firewall may say that, or a host that has the same address, as those of networks inside hosts have.
  bool is_near(int rank) const {
    return host_of(rank) == host_of(whole_.rank()) || is_loopback(state_.rendezvous.known_as);
  }

  bool gives_up_store() const {
    if (!state_.store_keeper || !is_among(*state_.store_keeper, excluded_)) return false;
    for (int rank = 0; rank < whole_.size(); ++rank) {
      if (may_keep(rank)) return true;
    }
    return false;
  }

  Attempt at_store_of_whole() {
    Attempt attempt = make_at(at_, kStorePatience, [&](Store& store) {
      const auto is_present = [&](int rank) { return state_.is_present(store, rank); };
      // Others may have named the one that keeps it in a list, and gone on elsewhere.
      return Survivors::Rules{is_present, [this, is_present](const std::vector<int>& here) {
                                return state_.store_keeper ? too_few(here, is_present) : std::string();
                              }};
    });
    const auto describe = [&](std::string_view what) {
      return fmt::format("shrink: the ranks that are left meet at the store of {}, which {}: {}",
                         state_.name_store_keeper(), what, attempt.why);
    };
    // It would go on with those that reach it.
    if (attempt.store == Reached::kSilent) {
      fail(Cause::kTimeout,
           "{}. Its process may live; to go on without it, name it among the ranks that are gone "
           "(excludeRanksList)",
           describe("does not answer"));
    }
    if (attempt.store == Reached::kGone) {
      attempt.why = describe("is gone");
      if (const auto keeper = state_.store_keeper;
          keeper && (is_near(*keeper) || state_.signal->store_has_ended(Deadline::after(kEndPatience))))
        dead_[static_cast<std::size_t>(*keeper)] = true;
    }
    return attempt;
  }

  Attempt at_standby_of(int rank) {
    Rendezvous at = at_;
    const bool own = rank == whole_.rank();
    if (own) state_.standby->server.serve();
    const StandbyStore& known = standby_of(rank);
    at.store = store_at(own ? state_.standby->server.own_address() : known.address, known.port,
                        whole_.secret(), known.id);
    at.known_as = known.address;
    at.port = known.port;
    at.kept_here = own;
    state_.options.log.info("shrink: {} {}; the ranks that are left meet at rank {}'s store, {}:{}",
                            state_.name_store_keeper(),
                            gives_up_store() ? "keeps the store, and is excluded" : "is gone with the store",
                            rank, known.address, known.port);
    // By a list all come, and the rank is waited for as long as in the making.
    const Duration patience = excluded_.empty() ? kStandbyPatience : state_.options.deadline;
    Attempt attempt = make_at(at, patience, [&](Store&) {
      return Survivors::Rules{[&](int other) { return may_live(other); },
                              [&](const std::vector<int>& here) {
                                return too_few(here, [&](int other) { return !is_dead(other); });
                              }};
    });
    if (attempt.store == Reached::kGone) note_gone(rank);
    if (attempt.store == Reached::kSilent && !excluded_.empty()) {
      fail(Cause::kTimeout,
           "shrink: the ranks that are left meet at rank {} on host {}, which is not in the list "
           "(excludeRanksList) and has not come within {}: {}",
           rank, host_of(rank), format_seconds(to_seconds(patience)), attempt.why);
    }
    return attempt;
  }

  /// By what the kernel of its host says.
  bool may_live(int rank) {
    if (is_dead(rank)) return false;
    if (!may_keep(rank)) return true;
    if (probes_.look(static_cast<std::size_t>(rank)) != ListenerProbe::Answer::kGone) return true;
    note_gone(rank);
    return false;
  }

  /// Nobody listens at the rank's store on standby.
  void note_gone(int rank) {
    if (is_near(rank)) dead_[static_cast<std::size_t>(rank)] = true;
  }
  bool is_dead(int rank) const { return dead_[static_cast<std::size_t>(rank)]; }

  /// Nothing else keeps two halves of a job, which do not see each other or meet in two places, from going on
  /// both.
  std::string too_few(const std::vector<int>& here, const std::function<bool(int rank)>& may_live) const {
    std::vector<int> all;
    for (int rank = 0; rank < whole_.size(); ++rank) {
      if (is_among(rank, here) || may_live(rank)) all.push_back(rank);
    }
    if (2 * here.size() > all.size()) return {};
    return fmt::format(
        "only {} of {} ranks that may live came to meet (came: {}; may live: {}): it takes more than half. "
        "Those that are gone for certain can be named (excludeRanksList)",
        here.size(), all.size(), text_of(here), text_of(all));
  }

  /// Throws kRemote where it is gone.
  std::unique_ptr<Store> reach(const Rendezvous& at, Duration patience) const {
    return at.store->reconnect(within(patience), state_.options.log);
  }

  /// Meets the others there, and makes this rank's part.
  Attempt make_at(const Rendezvous& at, Duration patience,
                  const std::function<Survivors::Rules(Store&)>& rules_in) {
    std::unique_ptr<Store> store;
    try {
      store = reach(at, patience);
    } catch (const Error& error) {
      if (error.cause() != Cause::kRemote && error.cause() != Cause::kTimeout) throw;
      return {nullptr, error.cause() == Cause::kRemote ? Reached::kGone : Reached::kSilent, error.what()};
    }
    Survivors survivors(*store, at.prefix, whole_.rank(), whole_.size(), rules_in(*store), *at.clock,
                        state_.options.deadline);
    std::unique_ptr<State> made;  // whose end takes time, and others are told before
    try {
      excluded_.empty() ? survivors.of_arrival() : survivors.without(excluded_);
      made = whole_.make_child(at, survivors.agreed(),
                               [&](int rank) { return survivors.may_make_its_part(rank); });
      survivors.await_all([&] { return made->signal->check() == AbortSignal::News::kNote; });
      return {std::move(made)};
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      const Cause cause = known != nullptr ? known->cause() : Cause::kSystem;
      if (cause == Cause::kRemote && has_gone(at)) return {nullptr, Reached::kGone, error.what()};
      give_up(*store, at, survivors.agreed(), {0, cause, error.what()});
    }
  }

  /// Called while an error is handled, which is thrown on unless another rank of `ranks` gave up before:
  /// tells those, which would wait for this one.
  [[noreturn]] void give_up(Store& store, const Rendezvous& at, const std::vector<int>& ranks,
                            AbortNote note) const {
    const auto own = std::ranges::find(ranks, whole_.rank());
    if (own == ranks.end()) throw;
    note.rank = static_cast<int>(own - ranks.begin());
    AbortNote standing = note;
    try {
      standing = AbortSignal::publish(store, at, note);
    } catch (const Error&) {  // then this rank cannot tell them
    }
    if (standing.rank == note.rank || standing.rank < 0 || standing.rank >= static_cast<int>(ranks.size()))
      throw;
    const int first = ranks[static_cast<std::size_t>(standing.rank)];
    fail(standing.cause,
         "shrink: rank {} on host {} could not make its part, which therefore no rank has: {}", first,
         host_of(first), standing.text);
  }

  bool has_gone(const Rendezvous& at) const {
    try {
      reach(at, kStorePatience);
    } catch (const Error& error) {
      return error.cause() == Cause::kRemote;
    }
    return false;
  }

  const Communicator& whole_;
  State& state_;
  const std::vector<int>& excluded_;
  Rendezvous at_;
  std::vector<bool> dead_;  // by rank; as far as this one can be sure of it
  ListenerProbes probes_;
};

std::unique_ptr<Communicator> Communicator::shrink(const std::vector<int>& excluded) {
  State& whole = *state_;
  for (const int rank : excluded) whole.check_peer(rank, "shrink");
  if (is_among(rank(), excluded)) fail(Cause::kInvalidUsage, "shrink: rank {} excludes itself", rank());
  if (whole.phase == Phase::kFinalized) whole.require_usable();
  Rendezvous at = whole.rendezvous;
  at.prefix = fmt::format("{}/shrunk/{}", at.prefix, ++whole.shrinks);
  return std::make_unique<Communicator>(size() == 1 ? make_child(at, {0})
                                                    : Shrinking(*this, excluded, at).run());
}

}  // namespace tombolo::collectives
