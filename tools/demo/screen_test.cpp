#include "tools/demo/screen.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace tombolo::tools::demo {
namespace {

std::string content_of(std::FILE* file) {
  std::fflush(file);
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

TEST(Screen, NumbersTheStepsAndShowsTheTimeSinceTheStart) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  FakeClock clock;
  {
    Screen screen(file, 2, clock);
    screen.step("Detecting");
    clock.advance(std::chrono::milliseconds(12500));
    screen.step("Probing");
    screen.say("one\ntwo");
  }
  EXPECT_EQ(content_of(file),
            "\n[  0.0 s] 1/2 Detecting\n\n[ 12.5 s] 2/2 Probing\n          one\n          two\n");
  std::fclose(file);
}

TEST(Screen, ThinsOutProgressWhereThereIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  FakeClock clock;
  {
    Screen screen(file, 1, clock);
    for (int i = 0; i < 25; ++i) {
      screen.progress("step " + std::to_string(i));
      clock.advance(std::chrono::seconds(1));
    }
  }
  EXPECT_EQ(content_of(file), "          (10 s) step 10\n          (20 s) step 20\n");
  std::fclose(file);
}

}  // namespace
}  // namespace tombolo::tools::demo
