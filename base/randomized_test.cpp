#include "base/randomized_test.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>

namespace tombolo {
namespace {

/// Sets or unsets TOMBOLO_TEST_SEED for the life of the object.
class SeedVariable {
 public:
  explicit SeedVariable(const char* value) {
    if (const char* given = std::getenv(kTestSeedVariable)) before_ = given;
    set(value);
  }
  ~SeedVariable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static void set(const char* value) {
    if (value != nullptr) {
      ::setenv(kTestSeedVariable, value, 1);
    } else {
      ::unsetenv(kTestSeedVariable);
    }
  }

  std::optional<std::string> before_;
};

TEST(TestSeed, IsTheEnvironmentsWhereItIsSet) {
  SeedVariable given("4294967295");
  EXPECT_EQ(test_seed(), 4294967295U);
  EXPECT_EQ(test_seed(7), 4294967295U);
}

TEST(TestSeed, IsTheFixedOneWhereNoneIsSet) {
  SeedVariable unset(nullptr);
  EXPECT_EQ(test_seed(7), 7U);
}

TEST(TestSeed, IsOneForAWholeTest) {
  SeedVariable unset("");
  const unsigned seed = test_seed();
  EXPECT_EQ(test_seed(), seed);
  EXPECT_EQ(test_seed(seed + 1), seed);
}

TEST(TestSeed, ThatIsNoNumberIsAnErrorThatNamesTheVariable) {
  for (const char* bad : {"-1", "4294967296", "12a", " 1", "0x10", "one"}) {
    try {
      parse_test_seed(bad);
      ADD_FAILURE() << bad << " was taken";
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(kTestSeedVariable), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(bad), std::string::npos) << error.what();
    }
  }
}

/// What the tests below start: disabled, since it fails on purpose.
TEST(TestSeed, DISABLED_FailsWithAFreshSeed) {
  std::mt19937 random(test_seed());
  ADD_FAILURE() << "drew " << random() << " first";
}
TEST(TestSeed, DISABLED_FailsWithAFixedSeed) {
  ADD_FAILURE() << "seed " << test_seed(99);
}

/// What this program prints when it runs that disabled test.
std::string output_of(const std::string& test) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "'" + self + "' --gtest_also_run_disabled_tests --gtest_filter=TestSeed." + test + " 2>&1";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string output;
  std::array<char, 4096> part;
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) output += part.data();
  return output;
}

/// The text between two others; empty where it is not found.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + before.size(), end = text.find(after, begin);
  return end == std::string::npos ? std::string{} : text.substr(begin, end - begin);
}

TEST(TestSeed, OfAFailureIsPrintedWithTheCommandThatRepeatsIt) {
  SeedVariable unset(nullptr);
  const std::string output = output_of("DISABLED_FailsWithAFreshSeed");
  const std::string seed = between(output, "To repeat this failure: TOMBOLO_TEST_SEED=", " ");
  EXPECT_NE(seed, "") << output;
  EXPECT_NE(output.find(" --gtest_filter=TestSeed.DISABLED_FailsWithAFreshSeed\n"), std::string::npos)
      << output;
  const std::string drawn = between(output, "drew ", " first");
  SeedVariable given(seed.c_str());
  const std::string again = output_of("DISABLED_FailsWithAFreshSeed");
  EXPECT_EQ(between(again, "drew ", " first"), drawn) << again;
}

TEST(TestSeed, ThatIsFixedIsPrintedOnFailureToo) {
  SeedVariable unset(nullptr);
  const std::string output = output_of("DISABLED_FailsWithAFixedSeed");
  EXPECT_NE(output.find("To repeat this failure: TOMBOLO_TEST_SEED=99 "), std::string::npos) << output;
}

}  // namespace
}  // namespace tombolo
