#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tools/cli/testing.h"
#include "tools/doctor/checks.h"

namespace tombolo::doctor {
namespace {

TEST(DoctorFacts, AreThoseOfThisMachine) {
  const Facts facts = gather_facts();
  EXPECT_EQ(facts.root, "/");
  EXPECT_FALSE(facts.machine.host_name.empty());
  EXPECT_GT(facts.machine.cores, 0);
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(facts.open_files_limit, files.rlim_cur == RLIM_INFINITY ? UINT64_MAX : files.rlim_cur);
  ASSERT_TRUE(facts.products) << facts.why_no_products;
  EXPECT_GT(facts.products->attained, 0);
  EXPECT_EQ(facts.load("libc.so.6"), "");
  EXPECT_MENTIONS(facts.load("libno-such-library.so.7"), "libno-such-library.so.7");
}

TEST(DoctorFacts, AStatusHasAWord) {
  EXPECT_EQ(status_name(Status::kOk), "ok");
  EXPECT_EQ(status_name(Status::kWarning), "warning");
  EXPECT_EQ(status_name(Status::kFailed), "failed");
}

}  // namespace
}  // namespace tombolo::doctor
