// Memory of connections that move, in a child that was forked while another thread registered some.
#include "transport/routing/failover_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <latch>
#include <thread>

#include "transport/testing/inert_connection.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport {
namespace {

/// A leg that registers for as long as it is told to.
class SlowlyRegistering final : public test::InertConnection<HostMemoryConnection> {
 public:
  std::unique_ptr<Memory> register_memory(std::span<std::byte>, MemoryKind) override {
    begun.count_down();
    may_end.wait();
    return nullptr;
  }

  std::latch begun{1}, may_end{1};
};

TEST(FailoverMemoriesTest, AForkedChildEndsItsCopiesThoughAThreadThatIsNotThereRegisters) {
  FailoverMemories memories;
  std::array<std::byte, 10> buffer{};
  auto memory = memories.add(buffer, MemoryKind::kHost);
  SlowlyRegistering leg;
  memories.use(&leg);
  std::thread other([&] { memories.add(buffer, MemoryKind::kHost).reset(); });
  leg.begun.wait();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // else the lock that the other thread holds would hold up the parent as well
    memory.reset();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  leg.may_end.count_down();
  other.join();
}

}  // namespace
}  // namespace tombolo::transport
