#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <vector>

namespace tombolo {
namespace {

/// What `action` throws, as its cause's name and its text.
template <typename Action>
std::string thrown_by(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return fmt::format("{}: {}", cause_name(error.cause()), error.what());
  }
  return "nothing";
}

TEST(ErrorCauses, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Cause cause : {Cause::kSystem, Cause::kRemote, Cause::kTimeout, Cause::kAborted,
                            Cause::kInvalidUsage, Cause::kUnsupported, Cause::kInternal})
    names.insert(cause_name(cause));
  EXPECT_EQ(names.size(), 7U);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(cause_name(static_cast<Cause>(99)), "unknown") << "a cause may come from another process";
}

TEST(Errors, TellTheTextThatWasFormatted) {
  EXPECT_EQ(thrown_by([] { fail(Cause::kTimeout, "rank {} took {:.1f} s", 3, 2.25); }),
            "timeout: rank 3 took 2.2 s");
}

TEST(Errors, OfTheSystemHaveItsWordsAndItsNumber) {
  EXPECT_EQ(thrown_by([] { fail_errno(ENOENT, "open {x}"); }),
            fmt::format("system: open {{x}}: No such file or directory (errno {})", ENOENT));
  EXPECT_NE(errno_text(123456).find("123456"), std::string::npos) << "an unknown number is told";
}

TEST(Checks, ThatHoldDoNothingMore) {
  int formatted = 0;
  const auto value = [&] { return ++formatted; };
  TOMBOLO_CHECK(1 + 1 == 2);
  TOMBOLO_CHECK(1 + 1 == 2, "value={}", value());
  EXPECT_EQ(formatted, 0) << "checks stand where they must cost nothing";
}

TEST(Checks, ThatFailTellExpressionValuesAndPlace) {
  const std::string with_values = thrown_by([] {
    const int used = 5, capacity = 4;
    TOMBOLO_CHECK(used <= capacity, "used={} capacity={}", used, capacity);
  });
  EXPECT_TRUE(with_values.starts_with("internal: ")) << with_values;
  EXPECT_NE(with_values.find("error_test.cpp:"), std::string::npos) << with_values;
  EXPECT_NE(with_values.find(": check failed: used <= capacity: used=5 capacity=4. This is a bug"),
            std::string::npos)
      << with_values;
  // What an expression holds of a format's signs is text.
  const std::string bare = thrown_by([] { TOMBOLO_CHECK(std::string("{}").size() % 2 == 1); });
  EXPECT_NE(bare.find(": check failed: std::string(\"{}\").size() % 2 == 1. This is a bug"),
            std::string::npos)
      << bare;
}

}  // namespace
}  // namespace tombolo
