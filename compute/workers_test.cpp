#include "compute/workers.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <set>

namespace tombolo::compute {
namespace {

/// While it lives no thread can be made: each would need a stack larger than any address space.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t wanted;
    ::pthread_getattr_default_np(&wanted);
    ::pthread_attr_setstacksize(&wanted, std::size_t{1} << 56);
    ::pthread_setattr_default_np(&wanted);
    ::pthread_attr_destroy(&wanted);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(Workers, TheCallerRunsThePiecesOfThreadsThatCannotBeHad) {
  Workers workers;
  std::vector<int> calls(3, 0);
  std::vector<std::thread::id> threads(3);
  const auto piece = [&](int index) {
    ++calls[static_cast<std::size_t>(index)];
    threads[static_cast<std::size_t>(index)] = std::this_thread::get_id();
  };
  {
    const NoThreads limit;
    EXPECT_THROW(std::thread([] {}).join(), std::system_error);  // otherwise the test would prove nothing
    workers.run(3, piece);
  }
  EXPECT_EQ(calls, std::vector<int>(3, 1));
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 1U);
  workers.run(3, piece);
  EXPECT_EQ(calls, std::vector<int>(3, 2));
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 3U);
}

TEST(Workers, RunEveryPieceOnceOnAThreadOfItsOwn) {
  Workers workers;
  for (const int count : {1, 4, 2, 3, 4, 1}) {
    std::vector<int> calls(8, 0);
    std::vector<std::thread::id> threads(8);
    workers.run(count, [&](int index) {
      ++calls[static_cast<std::size_t>(index)];
      threads[static_cast<std::size_t>(index)] = std::this_thread::get_id();
    });
    for (int index = 0; index < 8; ++index)
      EXPECT_EQ(calls[static_cast<std::size_t>(index)], index < count ? 1 : 0);
    EXPECT_EQ(threads[0], std::this_thread::get_id());
    EXPECT_EQ(std::set(threads.begin(), threads.begin() + count).size(), static_cast<std::size_t>(count));
  }
}

TEST(Workers, SeeWhatTheCallerWroteAndTheCallerSeesWhatTheyWrote) {
  Workers workers;
  std::vector<long> values(3, 0);
  for (long round = 1; round <= 200; ++round) {
    workers.run(3, [&](int index) { values[static_cast<std::size_t>(index)] += round; });
    ASSERT_EQ(values, std::vector<long>(3, round * (round + 1) / 2));
  }
}

}  // namespace
}  // namespace tombolo::compute
