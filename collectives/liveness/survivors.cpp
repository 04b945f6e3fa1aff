#include "collectives/liveness/survivors.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"

namespace tombolo::collectives {
namespace {

/// How long ranks that may come are waited for after the last one has. What makes a rank give up reaches the
/// others within tens of milliseconds, or at the same deadline; those of a host that has vanished look as if
/// they lived.
constexpr Duration kArrivalPatience = std::chrono::seconds(3);
constexpr Duration kLookInterval = std::chrono::milliseconds(20);
/// How often a rank that waits for another one's decision looks whether that one lives.
constexpr Duration kDeciderLook = std::chrono::milliseconds(100);
/// What a decision begins with: before a text that says why nobody goes on, before the ranks that have come,
/// and before those that a list leaves.
constexpr char kRefused = '!';
constexpr char kDecided = '=';
constexpr char kListed = '#';

std::string encode_ranks(const std::vector<int>& ranks) {
  std::string bytes(ranks.size() * sizeof(std::int32_t), 0);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::int32_t rank = ranks[i];
    std::memcpy(bytes.data() + i * sizeof(rank), &rank, sizeof(rank));
  }
  return bytes;
}

/// Throws kRemote where these are not ascending ranks below `size`.
std::vector<int> decode_ranks(std::string_view bytes, int size) {
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

std::string text_in(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string text_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text.empty() ? "none" : text;
}

void Survivors::without(const std::vector<int>& excluded) {
  by_list_ = true;
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (std::ranges::find(excluded, rank) == excluded.end()) ranks.push_back(rank);
  }
  store_.hold(key_of(rank_));
  const std::string own = kListed + encode_ranks(ranks);
  const std::string decided = text_in(store_.claim(decision_key(), std::as_bytes(std::span(own))));
  if (decided.starts_with(kListed) || decided.starts_with(kDecided))
    agreed_ = decode_ranks(std::string_view(decided).substr(1), size_);
  if (!decided.starts_with(kListed)) {
    fail(Cause::kInvalidUsage, "shrink: rank {} excludes ranks {}, and others came without a list", rank_,
         text_of(excluded));
  }
  if (agreed_ != ranks) {
    fail(Cause::kInvalidUsage, "shrink: rank {} goes on with ranks {}, and another one with {}", rank_,
         text_of(ranks), text_of(agreed_));
  }
}

void Survivors::of_arrival() {
  store_.hold(key_of(rank_));
  std::string decided;
  try {
    decided = await_decision();
  } catch (const std::exception& error) {
    const std::string own = kRefused + fmt::format("rank {} gave up: {}", rank_, error.what());
    decided = text_in(store_.claim(decision_key(), std::as_bytes(std::span(own))));
    if (decided == own) throw;
  }
  if (decided.starts_with(kListed) || decided.starts_with(kDecided))
    agreed_ = decode_ranks(std::string_view(decided).substr(1), size_);
  if (decided.starts_with(kListed)) {
    fail(Cause::kInvalidUsage, "shrink: rank {} came without a list, and others go on with ranks {}", rank_,
         text_of(agreed_));
  }
  if (!decided.starts_with(kDecided))
    fail(Cause::kRemote, "shrink: {}",
         std::string_view(decided).substr(decided.starts_with(kRefused) ? 1 : 0));
  if (std::ranges::find(agreed_, rank_) == agreed_.end()) {
    fail(Cause::kRemote, "shrink: ranks {} have gone on without rank {}, which came more than {} after them",
         text_of(agreed_), rank_, format_seconds(to_seconds(kArrivalPatience)));
  }
}

bool Survivors::may_make_its_part(int rank) {
  const int first = agreed_.front();
  if (rank == rank_ || (rank != first && rank_ != first) || is_here(rank)) return true;
  return by_list_ && rules_.may_come(rank);
}

std::string Survivors::key_of(int rank) const {
  return fmt::format("{}/here/{}", prefix_, rank);
}

std::string Survivors::decision_key() const {
  return prefix_ + "/ranks";
}

std::string Survivors::await_decision() {
  // Whoever is to decide may die of it; then the next one is.
  for (int term = 0;; ++term) {
    const std::string own = encode_ranks({rank_});
    const auto claimed =
        store_.claim(fmt::format("{}/decider/{}", prefix_, term), std::as_bytes(std::span(own)));
    const auto decider = decode_ranks(text_in(claimed), size_);
    if (decider.size() != 1) fail(Cause::kRemote, "shrink: the store names no rank that decides");
    if (decider.front() == rank_) return decide();
    if (auto decided = decision_of(decider.front())) return *std::move(decided);
  }
}

std::vector<bool> Survivors::await_others() {
  std::vector<bool> here(static_cast<std::size_t>(size_), false);
  auto patience = Deadline::after(kArrivalPatience, clock_);
  for (;;) {
    bool missing = false;
    for (int rank = 0; rank < size_; ++rank) {
      auto&& has_come = here[static_cast<std::size_t>(rank)];
      if (has_come) continue;
      // Asked for in this order, for it may end after it has come here.
      const bool may_come = rules_.may_come(rank);
      has_come = is_here(rank);
      if (has_come) patience = Deadline::after(kArrivalPatience, clock_);
      missing |= may_come && !has_come;
    }
    // Others have come by a list, or one that has died has decided before.
    if (store_.try_get(decision_key())) return here;
    const bool over = patience.passed() || deadline_.passed();
    if ((over || !missing) && (!forget_who_has_gone(here) || over)) return here;
    std::this_thread::sleep_for(kLookInterval);
  }
}

bool Survivors::forget_who_has_gone(std::vector<bool>& here) const {
  bool any = false;
  for (int rank = 0; rank < size_; ++rank) {
    if (!here[static_cast<std::size_t>(rank)] || is_here(rank)) continue;
    here[static_cast<std::size_t>(rank)] = false;
    any = true;
  }
  return any;
}

std::string Survivors::decide() {
  const auto here = await_others();
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (here[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  const std::string refusal = rules_.refuse(ranks);
  const std::string own = refusal.empty() ? kDecided + encode_ranks(ranks) : kRefused + refusal;
  // One that has died may have decided before.
  return text_in(store_.claim(decision_key(), std::as_bytes(std::span(own))));
}

std::optional<std::string> Survivors::look(const std::string& key) {
  try {
    const auto slice = Deadline::after(std::min<Duration>(kDeciderLook, deadline_.remaining()), clock_);
    return text_in(store_.get(key, slice));
  } catch (const Error& error) {
    if (error.cause() != Cause::kTimeout) throw;
    return std::nullopt;
  }
}

void Survivors::await_all(const std::function<bool()>& gave_up) {
  deadline_ = Deadline::after(deadline_.allowed(), clock_);  // arrival may have taken all of it
  const std::string all = prefix_ + "/all-made";
  if (store_.add(prefix_ + "/made", 1) == static_cast<std::int64_t>(agreed_.size())) store_.set(all, {});
  for (;;) {
    const auto dead = std::ranges::find_if(agreed_, [&](int rank) { return !may_make_its_part(rank); });
    const bool one_gave_up = gave_up(), last_look = deadline_.passed();
    if (look(all)) return;
    if (one_gave_up) fail(Cause::kRemote, "shrink: another rank gave up before all had made their parts");
    if (dead != agreed_.end())
      fail(Cause::kRemote, "shrink: rank {} died before all had made their parts", *dead);
    if (last_look) {
      fail(Cause::kTimeout, "shrink: ranks {} did not all make their parts within {}", text_of(agreed_),
           format_seconds(to_seconds(deadline_.allowed())));
    }
  }
}

std::optional<std::string> Survivors::decision_of(int decider) {
  for (;;) {
    const bool lives = is_here(decider), last_look = deadline_.passed();
    if (auto decided = look(decision_key())) return decided;
    if (!lives) return std::nullopt;
    if (last_look) {
      fail(Cause::kTimeout, "shrink: rank {}, which came first, did not say within {} who is left", decider,
           format_seconds(to_seconds(deadline_.allowed())));
    }
  }
}

}  // namespace tombolo::collectives
