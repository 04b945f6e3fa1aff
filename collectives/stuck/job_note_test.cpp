#include "collectives/stuck/job_note.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace tombolo::collectives {
namespace {

TEST(JobNote, IsFoundInTheProcessThatKeepsItUntilThatLetsGo) {
  JobNote note{"10.0.0.1", 29400, "comm/0", transport::Secret::random(), 3, 8};
  const auto ours = [&] {
    const auto notes = job_notes_of(getpid());
    return std::ranges::count_if(notes, [&](const JobNote& one) {
      return one.address == note.address && one.port == note.port && one.prefix == note.prefix &&
             one.rank == note.rank && one.size == note.size &&
             std::ranges::equal(one.secret.bytes(), note.secret.bytes());
    });
  };
  EXPECT_EQ(ours(), 0);
  {
    const transport::Descriptor file = note.publish();
    EXPECT_EQ(ours(), 1);
  }
  EXPECT_EQ(ours(), 0);
  EXPECT_TRUE(job_notes_of(0).empty());  // no process has this number
}

}  // namespace
}  // namespace tombolo::collectives
