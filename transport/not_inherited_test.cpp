#include "transport/not_inherited.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace tombolo::transport {
namespace {

/// Whether a child that is forked now has the pipe whose end this is.
bool a_child_has(int end) {
  const pid_t child = fork();
  if (child == 0) {
    struct stat status {};
    _exit(::fstat(end, &status) != 0 ? 2 : S_ISFIFO(status.st_mode) ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << "its number belongs to nothing: " << status;
  return WEXITSTATUS(status) == 1;
}

TEST(NotInherited, HoldsADescriptorBackUntilItEnds) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_TRUE(a_child_has(ends[0]));
  NotInherited first = not_inherited(ends[0]);
  EXPECT_FALSE(a_child_has(ends[0]));
  EXPECT_TRUE(a_child_has(ends[1]));
  EXPECT_EQ(::fcntl(ends[0], F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(ends[1], F_GETFD), 0);
  NotInherited moved = std::move(first);
  EXPECT_FALSE(a_child_has(ends[0]));
  moved = not_inherited(ends[1]);
  EXPECT_TRUE(a_child_has(ends[0]));
  EXPECT_FALSE(a_child_has(ends[1]));
  moved.reset();
  EXPECT_TRUE(a_child_has(ends[1])) << "it may name something of the program's by now";
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace tombolo::transport
