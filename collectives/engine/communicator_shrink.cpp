// How the ranks that are left go on without the others: a communicator of theirs is made through the store of
// the whole, whose own connections it does not need.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
namespace {

/// How long ranks that live, as far as the store can tell, are waited for after the last one has come. What
/// makes a rank give up reaches the others within tens of milliseconds, or at the same deadline; those of a
/// host that has vanished look as if they lived.
constexpr Duration kArrivalPatience = std::chrono::seconds(3);
constexpr Duration kLookInterval = std::chrono::milliseconds(20);
/// The store is there already, or its process has died.
constexpr Duration kStorePatience = std::chrono::seconds(5);

std::vector<std::byte> encode_ranks(const std::vector<int>& ranks) {
  std::vector<std::byte> bytes(ranks.size() * sizeof(std::int32_t));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::int32_t rank = ranks[i];
    std::memcpy(bytes.data() + i * sizeof(rank), &rank, sizeof(rank));
  }
  return bytes;
}

/// Throws kRemote where these are not ascending ranks below `size`.
std::vector<int> decode_ranks(const std::vector<std::byte>& bytes, int size) {
  std::vector<int> ranks(bytes.size() / sizeof(std::int32_t));
  int before = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::int32_t rank = 0;
    std::memcpy(&rank, bytes.data() + i * sizeof(rank), sizeof(rank));
    if (rank <= before || rank >= size) fail(Cause::kRemote, "shrink: the store holds no list of ranks");
    ranks[i] = before = rank;
  }
  return ranks;
}

std::string text_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text.empty() ? "none" : text;
}

/// One attempt of one communicator to go on with fewer ranks.
class Shrinking {
 public:
  /// `of_whole`: where the whole has met; `at`: where those that are left do.
  Shrinking(Store& store, const Rendezvous& of_whole, const Rendezvous& at, const Communicator& whole,
            Deadline deadline)
      : store_(store), of_whole_(of_whole), prefix_(at.prefix), whole_(whole), deadline_(deadline) {}

  /// All but those, if every other rank excludes the same.
  std::vector<int> without(const std::vector<int>& excluded) {
    std::vector<int> ranks;
    for (int rank = 0; rank < whole_.size(); ++rank) {
      if (std::ranges::find(excluded, rank) == excluded.end()) ranks.push_back(rank);
    }
    const auto first = decode_ranks(store_.claim(prefix_ + "/ranks", encode_ranks(ranks)), whole_.size());
    if (first != ranks) {
      fail(Cause::kInvalidUsage, "shrink: rank {} goes on with ranks {}, and another one with {}",
           whole_.rank(), text_of(ranks), text_of(first));
    }
    return ranks;
  }

  /// Those that come. The first one says who has, once no more do: those whose communicator or process has
  /// ended are not waited for.
  std::vector<int> of_arrival() {
    store_.set(key_of(whole_.rank()), {});
    const bool first = store_.add(prefix_ + "/arrivals", 1) == 1;
    auto ranks = first ? decide() : decision();
    if (std::ranges::find(ranks, whole_.rank()) == ranks.end()) {
      fail(Cause::kRemote,
           "shrink: ranks {} have gone on without rank {}, which came more than {} after them",
           text_of(ranks), whole_.rank(), format_seconds(to_seconds(kArrivalPatience)));
    }
    return ranks;
  }

 private:
  std::string key_of(int rank) const { return fmt::format("{}/here/{}", prefix_, rank); }

  std::vector<int> decide() {
    std::vector<bool> here(static_cast<std::size_t>(whole_.size()), false);
    auto patience = Deadline::after(kArrivalPatience, *of_whole_.clock);
    for (;;) {
      bool missing = false;
      for (int rank = 0; rank < whole_.size(); ++rank) {
        auto&& is_here = here[static_cast<std::size_t>(rank)];
        if (is_here) continue;
        // Asked for in this order: a rank becomes present before it has read the records, and it may end
        // after it has come here.
        const bool was_present = store_.try_get(read_key(of_whole_, kRankRecords, rank)).has_value();
        const bool lives = store_.try_get(presence_key(of_whole_, rank)).has_value() || !was_present;
        is_here = store_.try_get(key_of(rank)).has_value();
        if (is_here) patience = Deadline::after(kArrivalPatience, *of_whole_.clock);
        missing |= lives && !is_here;
      }
      if (!missing || patience.passed() || deadline_.passed()) break;
      std::this_thread::sleep_for(kLookInterval);
    }
    std::vector<int> ranks;
    for (int rank = 0; rank < whole_.size(); ++rank) {
      if (here[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
    }
    store_.set(prefix_ + "/ranks", encode_ranks(ranks));
    return ranks;
  }

  std::vector<int> decision() {
    try {
      return decode_ranks(store_.get(prefix_ + "/ranks", deadline_), whole_.size());
    } catch (const Error& error) {
      if (error.cause() != Cause::kTimeout) throw;
      fail(Cause::kTimeout,
           "shrink: the rank that came first did not say within {} who is left (did it die?)",
           format_seconds(to_seconds(deadline_.allowed())));
    }
  }

  Store& store_;
  const Rendezvous& of_whole_;
  std::string prefix_;
  const Communicator& whole_;
  Deadline deadline_;
};

}  // namespace

std::unique_ptr<Communicator> Communicator::shrink(const std::vector<int>& excluded) {
  State& whole = *state_;
  for (const int rank : excluded) whole.check_peer(rank, "shrink");
  if (std::ranges::find(excluded, rank()) != excluded.end())
    fail(Cause::kInvalidUsage, "shrink: rank {} excludes itself", rank());
  if (whole.phase == Phase::kFinalized) whole.require_usable();
  Rendezvous at = whole.rendezvous;
  at.prefix = fmt::format("{}/shrunk/{}", at.prefix, ++whole.shrinks);
  std::vector<int> ranks{0};
  if (size() > 1) {
    std::unique_ptr<Store> store;
    try {
      store = at.store->reconnect(whole.within(std::min<Duration>(kStorePatience, whole.options.deadline)),
                                  whole.options.log);
    } catch (const Error& error) {
      fail(error.cause(), "shrink: the ranks that are left meet at the store of {}, which is gone: {}",
           whole.options.store_elsewhere ? "the process that made the unique id" : "rank 0", error.what());
    }
    Shrinking shrinking(*store, whole.rendezvous, at, *this, whole.within(whole.options.deadline));
    ranks = excluded.empty() ? shrinking.of_arrival() : shrinking.without(excluded);
  }
  return std::make_unique<Communicator>(make_child(at, ranks));
}

}  // namespace tombolo::collectives
