#include "collectives/data/data_type.h"

#include <array>
#include <utility>

namespace tombolo::collectives {
namespace {

struct TypeFacts {
  DataType type;
  std::size_t bytes;
  std::string_view name;
};

// Names as nccl-tests prints them.
constexpr std::array<TypeFacts, 14> kTypes{{{DataType::kInt8, 1, "int8"},
                                            {DataType::kUint8, 1, "uint8"},
                                            {DataType::kInt16, 2, "int16"},
                                            {DataType::kUint16, 2, "uint16"},
                                            {DataType::kInt32, 4, "int32"},
                                            {DataType::kUint32, 4, "uint32"},
                                            {DataType::kInt64, 8, "int64"},
                                            {DataType::kUint64, 8, "uint64"},
                                            {DataType::kFloat16, 2, "half"},
                                            {DataType::kBfloat16, 2, "bfloat16"},
                                            {DataType::kFloat32, 4, "float"},
                                            {DataType::kFloat64, 8, "double"},
                                            {DataType::kFloat8E4m3, 1, "f8e4m3"},
                                            {DataType::kFloat8E5m2, 1, "f8e5m2"}}};

constexpr std::array<std::pair<ReduceOp, std::string_view>, 5> kOps{{{ReduceOp::kSum, "sum"},
                                                                     {ReduceOp::kProduct, "prod"},
                                                                     {ReduceOp::kMin, "min"},
                                                                     {ReduceOp::kMax, "max"},
                                                                     {ReduceOp::kAverage, "avg"}}};

}  // namespace

std::size_t size_of(DataType type) noexcept {
  for (const auto& facts : kTypes) {
    if (facts.type == type) return facts.bytes;
  }
  return 0;
}

std::string_view data_type_name(DataType type) noexcept {
  for (const auto& facts : kTypes) {
    if (facts.type == type) return facts.name;
  }
  return "unknown";
}

std::optional<DataType> data_type_from_name(std::string_view name) noexcept {
  for (const auto& facts : kTypes) {
    if (facts.name == name) return facts.type;
  }
  return std::nullopt;
}

std::string_view reduce_op_name(ReduceOp op) noexcept {
  for (const auto& [value, name] : kOps) {
    if (value == op) return name;
  }
  return "unknown";
}

std::optional<ReduceOp> reduce_op_from_name(std::string_view name) noexcept {
  for (const auto& [value, text] : kOps) {
    if (text == name) return value;
  }
  return std::nullopt;
}

}  // namespace tombolo::collectives
