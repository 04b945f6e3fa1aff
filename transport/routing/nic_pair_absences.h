// Which pairs of NICs a connection has lost, and when it may try to have one back.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tombolo::transport {

/// By this end's name for its NIC, and the address of the peer's; the address is empty where it is not known.
struct NicPairName {
  std::string nic, peer_address;
  friend bool operator==(const NicPairName&, const NicPairName&) = default;
};

/// A pair is tried again once its NIC at this end has been ready without a break for the pair's patience.
/// That begins with `first`; it doubles with each try that fails, and where the pair fails soon after it was
/// back: each such failure costs a pause. It asks no clock and no NIC. Used by one thread at a time.
class NicPairAbsences {
 public:
  /// At most 32 times `first`; a pair that has been back for 10 times as long begins anew. TCP does alike
  /// with its streams (tcp/lifecycle/reconnector.cpp).
  static constexpr int kMostFactor = 32, kStaysFactor = 10;

  explicit NicPairAbsences(Duration first) noexcept : first_(first) {}

  void failed(const NicPairName& name, TimePoint now) {
    Pair& pair = of(name);
    if (pair.away) return;
    const bool soon = pair.back_since && now - *pair.back_since < kStaysFactor * first_;
    pair.patience = soon ? twice(pair.patience) : first_;
    pair.away = true;
    pair.ready_since.reset();
  }
  void tried_in_vain(const NicPairName& name, TimePoint now) {
    Pair& pair = of(name);
    pair.patience = twice(pair.patience);
    pair.ready_since = now;
  }
  void returned(const NicPairName& name, TimePoint now) {
    const auto found = std::ranges::find(pairs_, name, &Pair::name);
    if (found == pairs_.end() || !found->away) return;
    found->away = false;
    found->back_since = now;
  }

  bool any() const noexcept { return std::ranges::any_of(pairs_, &Pair::away); }
  /// Those that are away, but for one.
  std::vector<NicPairName> away(const std::optional<NicPairName>& but = {}) const {
    std::vector<NicPairName> names;
    for (const Pair& pair : pairs_)
      if (pair.away && pair.name != but) names.push_back(pair.name);
    return names;
  }
  /// The pair that is to be tried now: the one that has been due for longest. `ready` tells whether that NIC
  /// of this end works at the moment; it is to be called often in comparison with the patience.
  template <typename Ready>
  std::optional<NicPairName> due(TimePoint now, Ready&& ready) {
    const Pair* next = nullptr;
    for (Pair& pair : pairs_) {
      if (!pair.away) continue;
      if (!ready(pair.name.nic))
        pair.ready_since.reset();
      else if (!pair.ready_since)
        pair.ready_since = now;
      if (!pair.ready_since || now < pair.due_at()) continue;
      if (next == nullptr || pair.due_at() < next->due_at()) next = &pair;
    }
    return next == nullptr ? std::nullopt : std::optional(next->name);
  }
  /// Of a pair that has failed before; for tests and messages.
  Duration patience_of(const NicPairName& name) { return of(name).patience; }

 private:
  struct Pair {
    NicPairName name;
    bool away = false;
    Duration patience{};
    std::optional<TimePoint> ready_since{}, back_since{};
    TimePoint due_at() const noexcept { return *ready_since + patience; }
  };

  Duration twice(Duration patience) const noexcept { return std::min(2 * patience, kMostFactor * first_); }
  Pair& of(const NicPairName& name) {
    const auto found = std::ranges::find(pairs_, name, &Pair::name);
    if (found != pairs_.end()) return *found;
    pairs_.push_back({name, false, first_});
    return pairs_.back();
  }

  Duration first_;
  std::vector<Pair> pairs_;
};

}  // namespace tombolo::transport
