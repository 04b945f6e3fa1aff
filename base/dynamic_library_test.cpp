#include "base/dynamic_library.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(DynamicLibrary, FindsAFunctionAndMissesAnother) {
  auto library = DynamicLibrary::open({"libtombolo-none.so.9", "libm.so.6"});
  ASSERT_TRUE(library.has_value());
  EXPECT_EQ(library->name(), "libm.so.6");
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library->find("cos", cosine));
  EXPECT_DOUBLE_EQ(cosine(0), 1);
  void (*none)() = nullptr;
  EXPECT_FALSE(library->find("tombolo_none", none));
  DynamicLibrary moved = *std::move(library);
  EXPECT_TRUE(moved.find("cos", cosine));
}

TEST(DynamicLibrary, SaysWhyNothingCouldBeOpened) {
  std::string problem;
  EXPECT_FALSE(DynamicLibrary::open({"libtombolo-none.so.9"}, &problem).has_value());
  EXPECT_NE(problem.find("libtombolo-none.so.9"), std::string::npos) << problem;
}

}  // namespace
}  // namespace tombolo
