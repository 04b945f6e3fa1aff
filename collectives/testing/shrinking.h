// For tests of ranks that go on without others.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "collectives/engine/communicator.h"
#include "collectives/testing/held_clock.h"
#include "collectives/testing/hooked_store.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives::test {

inline std::int64_t sum_of_ones(Communicator& communicator) {
  std::int64_t value = 1;
  communicator.all_reduce(&value, &value, 1, DataType::kInt64, ReduceOp::kSum);
  return value;
}

/// Those that come are waited for, however slow the machine: no time passes for this rank meanwhile.
inline std::unique_ptr<Communicator> shrink_in_no_time(Communicator& communicator, HeldClock& own) {
  own.hold();
  auto left = communicator.shrink({});
  own.let_go();
  return left;
}

inline void one_host(Options& options) {
  options.router.host.name = "host";
}

/// Until another rank's failure reaches this one.
inline void fail_once(Communicator& communicator) {
  EXPECT_THROW(
      {
        for (;;) sum_of_ones(communicator);
      },
      Error);
}

/// Hooks that count how often one looks whether a rank has come, once so many have. It sees them all from the
/// second look on.
class Arrivals {
 public:
  explicit Arrivals(int awaited, int others) {
    // A rank counts itself once the store holds that it is there.
    hooks.before_put = [this](std::string_view key) { come += key.ends_with("/decider/0") ? 1 : 0; };
    hooks.before_try_get = [this, others, end = fmt::format("/here/{}", awaited)](std::string_view key) {
      if (key.ends_with(end) && come == others) ++looks;
    };
  }
  void into(Options& options) const {
    options.store =
        std::make_shared<HookedStore>(store_at("127.0.0.1", options.identity.port, kTestSecret), hooks);
  }
  /// After the third look `clock` goes on, by more than anybody waits for one that lives; the deadline is for
  /// later.
  void let_time_pass(FakeClock& clock) {
    hooks.before_try_get = [this, &clock, counts = hooks.before_try_get](std::string_view key) {
      counts(key);
      if (looks == 3 && !time_has_passed_.exchange(true)) clock.advance(std::chrono::seconds(4));
    };
  }

  StoreHooks hooks;
  std::atomic<int> come{0}, looks{0};

 private:
  std::atomic<bool> time_has_passed_{false};
};

}  // namespace tombolo::collectives::test
