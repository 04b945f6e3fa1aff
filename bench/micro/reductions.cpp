// The reduction kernels of the collectives, by type and operator.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bench/micro/subjects.h"
#include "collectives/data/data_type.h"

namespace tombolo::bench::micro {
namespace {

using collectives::DataType;
using collectives::ReduceOp;

// Size of each buffer. Three of them fit any second-level cache, so that memory does not limit the kernels.
constexpr std::size_t kBufferBytes = 64 * 1024;

/// The number 1 in the given type.
std::uint64_t bits_of_one(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x3c00;
    case DataType::kBfloat16:
      return 0x3f80;
    case DataType::kFloat32:
      return 0x3f800000;
    case DataType::kFloat64:
      return 0x3ff0000000000000;
    default:
      return 1;
  }
}

std::vector<std::byte> buffer_of_ones(DataType type) {
  std::vector<std::byte> buffer(kBufferBytes);
  const std::uint64_t one = bits_of_one(type);
  const std::size_t size = collectives::size_of(type);
  for (std::size_t at = 0; at < buffer.size(); at += size) std::memcpy(buffer.data() + at, &one, size);
  return buffer;
}

void measure_combine(benchmark::State& state, DataType type, ReduceOp op) {
  const auto left = buffer_of_ones(type), right = left;
  std::vector<std::byte> out(kBufferBytes);
  for (auto _ : state) {
    collectives::combine(out.data(), left.data(), right.data(), kBufferBytes / collectives::size_of(type),
                         type, op);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBufferBytes));  // bytes of results
}

void measure_divide(benchmark::State& state, DataType type) {
  auto data = buffer_of_ones(type);
  // Divides by one rank, so that the numbers do not change.
  for (auto _ : state) {
    collectives::divide(data.data(), kBufferBytes / collectives::size_of(type), type, 1);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBufferBytes));
}

}  // namespace

void register_reductions() {
  // kAverage combines as kSum does, and divides.
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax};
  for (int number = 0; number <= static_cast<int>(DataType::kFloat64); ++number) {
    const auto type = static_cast<DataType>(number);
    const auto name = [&](std::string_view op) {
      return fmt::format("reductions/{}/{}", collectives::data_type_name(type), op);
    };
    for (const ReduceOp op : kOps)
      benchmark::RegisterBenchmark(name(collectives::reduce_op_name(op)).c_str(),
                                   [=](benchmark::State& state) { measure_combine(state, type, op); });
    benchmark::RegisterBenchmark(name("divide").c_str(),
                                 [=](benchmark::State& state) { measure_divide(state, type); });
  }
}

}  // namespace tombolo::bench::micro
