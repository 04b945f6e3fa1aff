#include "collectives/data/data_type.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

TEST(DataType, HasANameOfItsOwnThatLeadsBackToIt) {
  std::set<std::string_view> names;
  for (const DataType type : test::kAllTypes) {
    EXPECT_TRUE(names.insert(data_type_name(type)).second) << data_type_name(type);
    EXPECT_EQ(data_type_from_name(data_type_name(type)), type);
  }
}

TEST(DataType, HasTheSizeThatItsNameSays) {
  EXPECT_EQ(size_of(DataType::kInt8), 1u);
  EXPECT_EQ(size_of(DataType::kUint16), 2u);
  EXPECT_EQ(size_of(DataType::kInt32), 4u);
  EXPECT_EQ(size_of(DataType::kUint64), 8u);
  EXPECT_EQ(size_of(DataType::kFloat16), 2u);
  EXPECT_EQ(size_of(DataType::kBfloat16), 2u);
  EXPECT_EQ(size_of(DataType::kFloat32), sizeof(float));
  EXPECT_EQ(size_of(DataType::kFloat64), sizeof(double));
  EXPECT_EQ(size_of(DataType::kFloat8E4m3), 1u);
  EXPECT_EQ(size_of(DataType::kFloat8E5m2), 1u);
}

TEST(ReduceOp, HasANameOfItsOwnThatLeadsBackToIt) {
  std::set<std::string_view> names;
  for (const ReduceOp op : test::kAllOps) {
    EXPECT_TRUE(names.insert(reduce_op_name(op)).second) << reduce_op_name(op);
    EXPECT_EQ(reduce_op_from_name(reduce_op_name(op)), op);
  }
}

// A caller's number that is none of ours must not be taken for a type of some size.
TEST(DataType, ThatDoesNotExistHasNoSizeAndNoName) {
  EXPECT_EQ(size_of(static_cast<DataType>(99)), 0u);
  EXPECT_EQ(data_type_name(static_cast<DataType>(99)), "unknown");
  EXPECT_EQ(reduce_op_name(static_cast<ReduceOp>(99)), "unknown");
  for (const char* name : {"", "unknown", "Float", "float ", "sum"})
    EXPECT_FALSE(data_type_from_name(name)) << "'" << name << "'";
  for (const char* name : {"", "unknown", "SUM", "float"})
    EXPECT_FALSE(reduce_op_from_name(name)) << "'" << name << "'";
}

}  // namespace
}  // namespace tombolo::collectives
