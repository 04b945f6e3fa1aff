// For tests whose forked child ends as a program does, by exit(). Included by one file of a program at most.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace tombolo {

inline bool in_forked_child = false;

/// Runs exit handlers and the destructors of static objects, in a child that has none of its parent's
/// threads.
[[noreturn]] inline void exit_forked_child(int status) {
  in_forked_child = true;
  alarm(30);  // an exit handler that waits for ever must not hold up the parent, which waits for this process
  std::exit(status);
}

/// Forks a child that ends so at once, and waits for it. What it ends must be left to this process.
inline void expect_forked_child_exits() {
  std::fflush(nullptr);  // else the child's exit would write it once more
  const pid_t child = fork();
  if (child == 0) exit_forked_child(3);
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

}  // namespace tombolo

/// Asked by the leak detector. In a child it would call lost what only the parent's threads hold.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() {
  return tombolo::in_forked_child ? 1 : 0;
}
