// The kernels that carry out reductions on a real GPU, against the processor's: every type by every operation
// on special and random values, bit by bit. And how long either takes, by size.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/gpu/kernel_image.h"
#include "collectives/gpu/staging.h"
#include "collectives/testing/reduction_cases.h"

namespace tombolo::collectives {
namespace {

using gpu::Operation;
using transport::gpu::Queued;

constexpr int kSkipped = 77;
constexpr DataType kTypes[] = {
    DataType::kInt8,    DataType::kUint8,   DataType::kInt16,      DataType::kUint16,    DataType::kInt32,
    DataType::kUint32,  DataType::kInt64,   DataType::kUint64,     DataType::kFloat16,   DataType::kBfloat16,
    DataType::kFloat32, DataType::kFloat64, DataType::kFloat8E4m3, DataType::kFloat8E5m2};

/// Page-locked memory as both see it.
struct Place {
  std::byte* host;
  std::byte* gpu;
};

class Check {
 public:
  Check(const std::shared_ptr<const topology::CudaFunctions>& cuda, const char* results)
      : staging_(cuda), kernels_(staging_.kernels_of(0)), results_(results) {}

  bool run(unsigned seed) {
    std::mt19937_64 random(seed);
    for (const DataType type : kTypes) {
      for (const std::size_t offset : {0, 1, 3}) {
        const test::ReductionCase one(type, 100'000, random);
        for (const Operation operation : test::kAllOperations) compare(one, operation, offset);
      }
    }
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8E4m3})
      for (std::size_t bytes = std::size_t{16} << 10; bytes <= std::size_t{16} << 20; bytes *= 2)
        measure(type, bytes);
    std::printf("reduction_check: %d of %d cases right\n", right_cases_, cases_);
    return right_cases_ == cases_;
  }

 private:
  Place take(std::size_t bytes) {
    const gpu::Block block = staging_.take(0, bytes);
    return {block.data, staging_.seen_by(0, block)};
  }

  /// Waits for its end.
  void launch(const gpu::ReductionArguments& given, DataType type) {
    Queued queued;
    kernels_.start(given, type, queued);
    const auto deadline = Deadline::after(std::chrono::seconds(20));
    while (queued.state.load() == Queued::State::kUnderWay) {
      kernels_.look();
      if (deadline.passed()) fail(Cause::kTimeout, "{} does not end", gpu::kernel_name(type));
    }
    if (queued.state.load() != Queued::State::kDone)
      fail(Cause::kSystem, "{}: {}", gpu::kernel_name(type), kernels_.gpu().cuda().describe(queued.result));
  }

  /// The left operand begins `offset` elements behind a word's beginning.
  void compare(const test::ReductionCase& one, Operation operation, std::size_t offset) {
    const std::size_t bytes = one.left.size(), before = offset * size_of(one.type);
    reserve(bytes + before);
    std::memcpy(left_.host + before, one.left.data(), bytes);
    std::memcpy(right_.host, one.right.data(), bytes);
    launch({target_.gpu, left_.gpu + before, right_.gpu, one.count, one.operand(operation), operation},
           one.type);
    const std::size_t wrong = one.first_wrong(operation, target_.host);
    const bool correct = wrong == one.count;
    ++cases_;
    right_cases_ += correct ? 1 : 0;
    const std::string name = fmt::format("{} operation {} offset {}", data_type_name(one.type),
                                         static_cast<int>(operation), offset);
    if (!correct) std::printf("reduction_check: %s: element %zu is wrong\n", name.c_str(), wrong);
    results_ << fmt::format("{{\"test\": \"bits\", \"case\": \"{}\", \"correct\": {}}}\n", name, correct);
  }

  /// The median of several sums, each with what its caller would wait for.
  void measure(DataType type, std::size_t bytes) {
    reserve(bytes);
    const std::size_t count = bytes / size_of(type);
    const auto median = [](const auto& action) {
      std::vector<double> seconds;
      for (int i = 0; i < 21; ++i) {
        const TimePoint begun = Clock::steady().now();
        action();
        seconds.push_back(to_seconds(Clock::steady().now() - begun));
      }
      std::ranges::sort(seconds);
      return 1e6 * seconds[seconds.size() / 2];
    };
    const double on_gpu = median([&] {
      launch({target_.gpu, left_.gpu, right_.gpu, count, 0, Operation::kSum}, type);
    });
    const double on_processor =
        median([&] { combine(target_.host, left_.host, right_.host, count, type, ReduceOp::kSum); });
    std::printf("sum of %8zu bytes of %-8s: GPU %9.1f us, processor %9.1f us\n", bytes,
                std::string(data_type_name(type)).c_str(), on_gpu, on_processor);
    for (const auto& [by, us] : {std::pair("GPU", on_gpu), std::pair("processor", on_processor)})
      results_ << fmt::format(
          "{{\"test\": \"time\", \"case\": \"sum of {} bytes of {}, {}\", \"correct\": true, \"us\": "
          "{:.1f}}}\n",
          bytes, data_type_name(type), by, us);
  }

  void reserve(std::size_t bytes) {
    if (bytes <= reserved_) return;
    left_ = take(bytes);
    right_ = take(bytes);
    target_ = take(bytes);
    reserved_ = bytes;
    for (const Place& one : {left_, right_, target_}) std::memset(one.host, 0, bytes);
  }

  gpu::Staging staging_;
  gpu::Kernels& kernels_;
  std::ofstream results_;
  Place left_{}, right_{}, target_{};
  std::size_t reserved_ = 0;
  int cases_ = 0, right_cases_ = 0;
};

int run(unsigned seed, const char* results) {
  std::string why;
  const auto cuda = topology::CudaFunctions::load(&why);
  if (cuda == nullptr || gpu::kernel_image().empty()) {
    std::printf("reduction_check: skipped: %s\n", cuda == nullptr ? why.c_str() : "built without nvcc");
    return kSkipped;
  }
  return Check(cuda, results).run(seed) ? 0 : 1;
}

}  // namespace
}  // namespace tombolo::collectives

int main(int argc, char** argv) try {
  unsigned seed = 1;
  const char* results = "/dev/null";
  for (int at = 1; at < argc; at += 2) {
    const std::string name = argv[at];
    if ((name != "--seed" && name != "--results") || at + 1 == argc) {
      std::fprintf(stderr, "usage: reduction_check [--seed N] [--results FILE]\n");
      return 2;
    }
    if (name == "--seed") seed = static_cast<unsigned>(std::stoul(argv[at + 1]));
    if (name == "--results") results = argv[at + 1];
  }
  return tombolo::collectives::run(seed, results);
} catch (const std::exception& error) {
  std::fprintf(stderr, "reduction_check: %s\n", error.what());
  return 1;
}
