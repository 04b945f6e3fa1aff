#include "tests/simulation/pretended/fibers.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <exception>
#include <stdexcept>
#include <string>

namespace tombolo::simulation {
namespace {

TEST(Fibers, RunInTheOrderThatTheCallerChooses) {
  Fibers fibers;
  std::string order;
  for (const char name : {'a', 'b'}) {
    fibers.add([&, name] {
      for (int i = 0; i < 2; ++i) {
        order += name;
        fibers.yield();
      }
    });
  }
  for (const std::size_t next : {1, 0, 0, 1, 1, 0}) fibers.run(next);
  EXPECT_EQ(order, "baab");
  EXPECT_TRUE(fibers.ended(0));
  EXPECT_TRUE(fibers.ended(1));
}

TEST(Fibers, KnowWhoRuns) {
  Fibers fibers;
  std::size_t seen = Fibers::npos;
  fibers.add([] {});
  fibers.add([&] { seen = fibers.current(); });
  fibers.run(1);
  EXPECT_EQ(seen, 1u);
  EXPECT_EQ(fibers.current(), Fibers::npos);
}

TEST(Fibers, KeepWhatLiesOnTheirStacks) {
  Fibers fibers;
  std::string seen;
  fibers.add([&] {
    const std::string kept(100, 'x');
    fibers.yield();
    seen = kept;
  });
  fibers.run(0);
  fibers.run(0);
  EXPECT_EQ(seen, std::string(100, 'x'));
}

TEST(Fibers, KeepTheirOwnWayOfRounding) {
  Fibers fibers;
  int before = -1, after = -1;
  fibers.add([&] {
    std::fesetround(FE_UPWARD);
    fibers.yield();
    after = std::fegetround();
  });
  fibers.run(0);
  before = std::fegetround();
  fibers.run(0);
  EXPECT_EQ(before, FE_TONEAREST);
  EXPECT_EQ(after, FE_UPWARD);
}

/// Calls itself so often, with an array in each frame, and then yields.
int stop_below(Fibers& fibers, std::size_t depth) {
  volatile char array[40] = {};
  array[depth % sizeof(array)] = 1;
  if (depth > 0) return stop_below(fibers, depth - 1) + array[depth % sizeof(array)];
  fibers.yield();
  return array[0];
}

/// Passed by value, it lies in its caller's frame without a declaration of its own.
struct Large {
  explicit Large(char value) {
    for (char& one : bytes) one = value;
  }
  ~Large() { bytes[0] = 0; }
  Large(const Large&) = default;
  char bytes[4000];
};
int first_of(Large large) {
  return large.bytes[0];
}
void fill_a_frame() {
  EXPECT_EQ(first_of(Large(1)), 1);
}

TEST(Fibers, UseStacksOfThoseThatWereLeftInTheMiddle) {  // AddressSanitizer guards what lies between arrays
  for (std::size_t depth = 0; depth < 30; ++depth) {
    {
      Fibers fibers;
      fibers.run(fibers.add([&] { stop_below(fibers, depth); }));
    }
    Fibers fibers;
    fibers.run(fibers.add(fill_a_frame));
  }
}

TEST(Fibers, WhatABodyThrowsReachesTheCaller) {
  Fibers fibers;
  fibers.add([] { throw std::runtime_error("from below"); });
  EXPECT_THROW(fibers.run(0), std::runtime_error);
  EXPECT_TRUE(fibers.ended(0));
}

// The C++ runtime keeps exceptions that are being handled in one list per thread.
TEST(Fibers, MayYieldWhileTheyHandleExceptions) {
  Fibers fibers;
  std::string seen;
  for (const char* name : {"a", "b"}) {
    fibers.add([&, name] {
      try {
        throw std::runtime_error(name);
      } catch (const std::runtime_error&) {
        fibers.yield();
        try {
          throw;
        } catch (const std::runtime_error& again) {
          seen += again.what();
        }
      }
    });
  }
  for (const std::size_t next : {0, 1, 0, 1}) fibers.run(next);
  EXPECT_EQ(seen, "ab");
}

TEST(Fibers, ThatUnwindAreNotSeenByOthersAsUnwinding) {
  struct YieldsAtItsEnd {
    Fibers& fibers;
    ~YieldsAtItsEnd() { fibers.yield(); }
  };
  Fibers fibers;
  int within = -1;
  fibers.add([&] {
    try {
      const YieldsAtItsEnd object{fibers};
      throw std::runtime_error("unwinds");
    } catch (const std::runtime_error&) {
    }
  });
  fibers.add([&] { within = std::uncaught_exceptions(); });
  fibers.run(0);
  fibers.run(1);
  fibers.run(0);
  EXPECT_EQ(within, 0);
}

}  // namespace
}  // namespace tombolo::simulation
