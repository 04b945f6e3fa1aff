// Memory that messages over real verbs are sent from and received into, and flushes of it.
#include <sys/mman.h>

#include <algorithm>

#include "tests/rdma_vm/verbs_fixture.h"

namespace tombolo::transport {
namespace {

using test::expect_carried;
using test::finish;
using test::random_data;

TEST_F(Verbs, RegisteredMemoryIsSentFromAndReceivedInto) {
  test::expect_registered_memory_is_used(connect(2), random_);
}

TEST_F(Verbs, ABufferOutsideItsRegistrationIsRefusedByName) {
  test::expect_a_buffer_outside_its_registration_is_refused(connect());
}

TEST_F(Verbs, MemoryThatWasUnmappedAndMappedAnewIsNeverReachedThroughAnOldRegistration) {
  auto pair = connect();
  constexpr std::size_t kSize = 1 << 20;
  void* const place = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  std::vector<std::byte> buffer(kSize);
  for (int turn = 1; turn <= 3; ++turn) {
    // Other pages at the same address, which are not registered.
    ASSERT_EQ(::mmap(place, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              place);
    const std::span data(static_cast<std::byte*>(place), kSize);
    std::ranges::fill(data, static_cast<std::byte>(turn));
    expect_carried(*pair.first, *pair.second, data, buffer);
    // And the other way round, into them.
    ASSERT_EQ(::mmap(place, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              place);
    expect_carried(*pair.second, *pair.first, buffer, data);
  }
  ::munmap(place, kSize);
}

// The memory is the host's, which soft-RoCE registers like any other: the test is that queue pairs connected
// to themselves read.
TEST_F(Verbs, AFlushReadsBackWithEveryNicThroughAQueuePairOfItsOwn) {
  for (const std::size_t nics : {1, 2}) {
    RdmaOptions options;
    options.eager_bytes = 0;
    auto pair = connect(nics, options);
    const auto data = random_data(random_, 300'000);
    std::vector<std::byte> buffer(data.size());
    const auto memory = pair.second->register_memory(buffer, MemoryKind::kCuda);
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<Request*> flushes;
      for (int i = 0; i < 100; ++i)
        flushes.push_back(pair.second->post_flush(std::span(buffer).first(1000), memory.get()));
      expect_carried(*pair.first, *pair.second, data, buffer);
      for (Request* one : flushes) {
        ASSERT_NE(one, nullptr);
        std::size_t bytes = 0;
        ASSERT_EQ(finish(*pair.second, one, bytes), Outcome::kDone) << pair.second->error()->what();
      }
    }
  }
}

}  // namespace
}  // namespace tombolo::transport
