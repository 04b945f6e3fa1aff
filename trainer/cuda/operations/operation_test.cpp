#include "trainer/cuda/operations/operation.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace tombolo::trainer::cuda {
namespace {

std::byte* at(std::uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);
}

/// What an operation does to the memory at an address, as text: "r", "w" or "rw", and the bytes.
std::string touched(const Operation& operation, std::uintptr_t address) {
  std::string all;
  for (const Access& access : accesses(operation))
    if (access.at == at(address))
      all += std::string(access.reads ? "r" : "") + (access.writes ? "w" : "") + std::to_string(access.bytes);
  return all;
}

TEST(Operation, EveryOneHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Operation& operation :
       {Operation(Embed{}), Operation(EmbedBackward{}), Operation(Norm{}), Operation(NormBackward{}),
        Operation(Product{}), Operation(Add{}), Operation(Attention{}), Operation(AttentionBackward{}),
        Operation(CrossEntropy{}), Operation(Sum{}), Operation(AdamWUpdate{}), Operation(Convert{})})
    names.insert(operation_name(operation));
  EXPECT_EQ(names.size(), std::variant_size_v<Operation>);
  EXPECT_EQ(operation_name(Norm{}), "layer norm");
  EXPECT_EQ(operation_name(AttentionBackward{}), "attention backward");
}

TEST(Operation, AProductTouchesWhatItsEpilogueSays) {
  Product product{};
  product.out = {at(0x1000), Element::kBfloat16};
  product.a = {at(0x2000), Element::kBfloat16};
  product.b = {at(0x3000), Element::kFloat32};
  product.m = 2;
  product.n = 3;
  product.k = 5;
  EXPECT_EQ(touched(product, 0x1000), "w12");
  EXPECT_EQ(touched(product, 0x2000), "r20");
  EXPECT_EQ(touched(product, 0x3000), "r60");
  EXPECT_EQ(accesses(product).size(), 3U);

  product.vector = {at(0x4000), Element::kFloat32};
  product.auxiliary = {at(0x5000), Element::kBfloat16};
  const auto with = [&](Epilogue epilogue) {
    product.epilogue = epilogue;
    return std::array{touched(product, 0x4000), touched(product, 0x5000)};
  };
  using Pair = std::array<std::string, 2>;
  EXPECT_EQ(with(Epilogue::kNone), (Pair{"", ""}));
  EXPECT_EQ(with(Epilogue::kBias), (Pair{"r12", ""}));
  EXPECT_EQ(with(Epilogue::kBiasGelu), (Pair{"r12", "w12"}));
  EXPECT_EQ(with(Epilogue::kGeluGradient), (Pair{"", "r12"}));
  EXPECT_EQ(with(Epilogue::kSumOfA), (Pair{"w8", ""}));
  product.accumulate = true;
  EXPECT_EQ(touched(product, 0x1000), "rw12");
}

TEST(Operation, ANormWritesItsSumOnlyWhereThereIsAResidual) {
  Norm norm{};
  norm.sum = {at(0x1000), Element::kFloat32};
  norm.x = {at(0x2000), Element::kFloat32};
  norm.rows = 2;
  norm.width = 4;
  EXPECT_EQ(touched(norm, 0x1000), "");
  norm.residual = {at(0x3000), Element::kFloat32};
  EXPECT_EQ(touched(norm, 0x1000), "w32");
  EXPECT_EQ(touched(norm, 0x3000), "r32");
}

TEST(Operation, AdamWTouchesWholeArenas) {
  AdamWUpdate update{};
  update.size = 10;
  update.range_count = 1;
  update.parameters = reinterpret_cast<float*>(at(0x1000));
  update.first_moment = {at(0x2000), Element::kBfloat16};
  update.ranges = reinterpret_cast<const Range*>(at(0x3000));
  EXPECT_EQ(touched(update, 0x1000), "rw40");
  EXPECT_EQ(touched(update, 0x2000), "rw20");
  EXPECT_EQ(touched(update, 0x3000), "r" + std::to_string(sizeof(Range)));
  EXPECT_EQ(accesses(update).size(), 3U) << "there is no copy";
}

}  // namespace
}  // namespace tombolo::trainer::cuda
