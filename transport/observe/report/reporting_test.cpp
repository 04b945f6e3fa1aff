// What a process reports, from start to end, is in tests/process/observability_test.py: it does so once.
#include "transport/observe/report/reporting.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"

namespace tombolo::transport::report {
namespace {

TEST(ReportPaths, TakeHostAndProcessAndRefuseOtherLetters) {
  EXPECT_EQ(expand_pattern("a-%h-%%", "b0", "X"), "a-b0-%");
  EXPECT_EQ(expand_pattern("%p", "b0", "X"), std::to_string(getpid()));
  EXPECT_THROW(expand_pattern("a%", "b0", "X"), Error);
  EXPECT_THROW(expand_pattern("%x", "b0", "X"), Error);
}

TEST(ReportPaths, AreRefusedWithTheVariableAndWhatIsAllowed) {
  try {
    expand_pattern("/tmp/%q.json", "b0", "TOMBOLO_TRACE");
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    const std::string text = error.what();
    EXPECT_NE(text.find("TOMBOLO_TRACE='/tmp/%q.json'"), std::string::npos) << text;
    EXPECT_NE(text.find("%h (host), %p (process) or %%"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tombolo::transport::report
