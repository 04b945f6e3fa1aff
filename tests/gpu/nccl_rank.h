// What one rank of nccl_two_ranks does: every collective of NCCL and send and receive, each element of each
// result compared; communicators one after the other; and one that is aborted in the middle of a sum.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace tombolo::gpu_test {

using Clock = std::chrono::steady_clock;

struct Options {
  int ranks = 2;
  int seconds = 55;  ///< limit for the whole run, after which the ranks are killed
  std::size_t largest = 64 << 20;
  int communicators = 3;  ///< made and ended one after the other
  std::string results;    ///< JSON lines are appended here; empty = standard output
};

[[noreturn]] inline void die(const char* what, const char* why) {
  std::fprintf(stderr, "nccl_two_ranks: %s: %s\n", what, why);
  std::fflush(stderr);
  std::_Exit(1);
}

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) die(what, cudaGetErrorString(status));
}

inline void check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess)
    die(what, (std::string(ncclGetErrorString(status)) + "; " + ncclGetLastError(nullptr)).c_str());
}

/// An element type: its NCCL name, and how small integers look in it, all sums being exact.
struct Type {
  const char* name;
  ncclDataType_t nccl;
  std::size_t bytes;
  void (*write)(void* at, int value);
};

inline void write_f32(void* at, int value) {
  float number = static_cast<float>(value);
  std::memcpy(at, &number, sizeof number);
}

inline void write_bf16(void* at, int value) {
  // bfloat16 is the upper half of a float; integers up to 256 are exact.
  float number = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  auto half = static_cast<std::uint16_t>(bits >> 16);
  std::memcpy(at, &half, sizeof half);
}

inline void write_i8(void* at, int value) {
  auto number = static_cast<std::int8_t>(value);
  std::memcpy(at, &number, sizeof number);
}

inline constexpr Type kFloat{"f32", ncclFloat32, 4, write_f32};
inline constexpr Type kBfloat{"bf16", ncclBfloat16, 2, write_bf16};
inline constexpr Type kByte{"i8", ncclInt8, 1, write_i8};

/// The contribution of rank `rank` at `index`: 0 to 12, so that sums of up to 9 ranks fit int8 and bf16.
inline int contribution(int rank, std::size_t index) {
  return static_cast<int>((index * 7 + index / 1000 + static_cast<std::size_t>(rank) * 5) % 13);
}

inline std::vector<std::byte> fill(const Type& type, std::size_t count,
                                   const std::function<int(std::size_t)>& value) {
  std::vector<std::byte> bytes(count * type.bytes);
  for (std::size_t i = 0; i < count; ++i) type.write(bytes.data() + i * type.bytes, value(i));
  return bytes;
}

inline constexpr std::byte kUntouched{0x5a};

class Rank {
 public:
  Rank(const Options& options, int rank, const ncclUniqueId& id) : options_(options), rank_(rank) {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(ncclCommInitRank(&comm_, options.ranks, id, rank), "ncclCommInitRank");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaMalloc(&input_, options.largest), "cudaMalloc");
    check(cudaMalloc(&output_, options.largest), "cudaMalloc");
    if (rank == 0) {
      results_ = options.results.empty() ? stdout : std::fopen(options.results.c_str(), "a");
      if (results_ == nullptr) die(options.results.c_str(), std::strerror(errno));
    }
  }

  void run() {
    for (std::size_t bytes : {1, 3, 1000}) all_reduce(kByte, bytes);
    for (const Type* type : {&kFloat, &kBfloat}) {
      for (std::size_t bytes : {std::size_t{4}, std::size_t{1} << 10, std::size_t{64} << 10,
                                std::size_t{1} << 20, std::size_t{16} << 20, std::size_t{64} << 20}) {
        if (bytes <= options_.largest) all_reduce(*type, bytes);
      }
    }
    for (std::size_t bytes :
         {std::size_t{1}, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20}) {
      if (bytes <= options_.largest) send_receive(bytes);
    }
    for (std::size_t bytes : {std::size_t{1} << 10, std::size_t{1} << 20, std::size_t{16} << 20}) {
      if (bytes > options_.largest) continue;
      broadcast(bytes);
      reduce(bytes);
      all_gather(bytes);
      reduce_scatter(bytes);
      all_to_all(bytes);
    }
    make_communicators(options_.communicators);
    abort_in_the_middle();
    check(ncclCommFinalize(comm_), "ncclCommFinalize");
    check(ncclCommDestroy(comm_), "ncclCommDestroy");
    if (results_ != nullptr && results_ != stdout) std::fclose(results_);
    check(cudaFree(input_), "cudaFree");
    check(cudaFree(output_), "cudaFree");
    check(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  }

 private:
  void all_reduce(const Type& type, std::size_t bytes) {
    std::size_t count = bytes / type.bytes;
    run_case("all_reduce", type, count, sums(type, 0, count), [&] {
      check(ncclAllReduce(input_, output_, count, type.nccl, ncclSum, comm_, stream_), "ncclAllReduce");
    });
  }

  /// Every rank sends to the next one at the same time.
  void send_receive(std::size_t bytes) {
    int next = (rank_ + 1) % options_.ranks, previous = (rank_ + options_.ranks - 1) % options_.ranks;
    auto expected = fill(kByte, bytes, [&](std::size_t i) { return contribution(previous, i); });
    run_case("send_receive", kByte, bytes, expected, [&] {
      check(ncclGroupStart(), "ncclGroupStart");
      check(ncclSend(input_, bytes, ncclInt8, next, comm_, stream_), "ncclSend");
      check(ncclRecv(output_, bytes, ncclInt8, previous, comm_, stream_), "ncclRecv");
      check(ncclGroupEnd(), "ncclGroupEnd");
    });
  }

  /// Of `count` elements of every rank's input, the sum.
  std::vector<std::byte> sums(const Type& type, std::size_t first, std::size_t count) const {
    return fill(type, count, [&](std::size_t i) {
      int sum = 0;
      for (int rank = 0; rank < options_.ranks; ++rank) sum += contribution(rank, first + i);
      return sum;
    });
  }

  /// From the last rank, so that the root is another than reduce()'s.
  void broadcast(std::size_t bytes) {
    const int root = options_.ranks - 1;
    run_case("broadcast", kByte, bytes,
             fill(kByte, bytes, [&](std::size_t i) { return contribution(root, i); }), [&] {
               check(ncclBroadcast(input_, output_, bytes, ncclInt8, root, comm_, stream_), "ncclBroadcast");
             });
  }

  /// To rank 0; the output of the others stays as it was.
  void reduce(std::size_t bytes) {
    const std::size_t count = bytes / kFloat.bytes;
    const auto expected = rank_ == 0 ? sums(kFloat, 0, count) : std::vector<std::byte>(bytes, kUntouched);
    run_case("reduce", kFloat, count, expected, [&] {
      check(ncclReduce(input_, output_, count, kFloat.nccl, ncclSum, 0, comm_, stream_), "ncclReduce");
    });
  }

  /// `bytes` in all, a part of each rank.
  void all_gather(std::size_t bytes) {
    const std::size_t part = bytes / static_cast<std::size_t>(options_.ranks);
    const auto expected = fill(kByte, part * static_cast<std::size_t>(options_.ranks), [&](std::size_t i) {
      return contribution(static_cast<int>(i / part), i % part);
    });
    run_case("all_gather", kByte, expected.size(), expected,
             [&] { check(ncclAllGather(input_, output_, part, ncclInt8, comm_, stream_), "ncclAllGather"); });
  }

  void reduce_scatter(std::size_t bytes) {
    const std::size_t part = bytes / kFloat.bytes / static_cast<std::size_t>(options_.ranks);
    run_case(
        "reduce_scatter", kFloat, part, sums(kFloat, part * static_cast<std::size_t>(rank_), part),
        [&] {
          check(ncclReduceScatter(input_, output_, part, kFloat.nccl, ncclSum, comm_, stream_),
                "ncclReduceScatter");
        },
        part * static_cast<std::size_t>(options_.ranks));
  }

  /// `bytes` in all, a part for each rank, as one group of sends and receives.
  void all_to_all(std::size_t bytes) {
    const std::size_t part = bytes / static_cast<std::size_t>(options_.ranks);
    const auto expected = fill(kByte, part * static_cast<std::size_t>(options_.ranks), [&](std::size_t i) {
      return contribution(static_cast<int>(i / part), part * static_cast<std::size_t>(rank_) + i % part);
    });
    run_case("all_to_all", kByte, expected.size(), expected, [&] {
      check(ncclGroupStart(), "ncclGroupStart");
      for (int rank = 0; rank < options_.ranks; ++rank) {
        const std::size_t at = part * static_cast<std::size_t>(rank);
        check(ncclSend(static_cast<std::byte*>(input_) + at, part, ncclInt8, rank, comm_, stream_),
              "ncclSend");
        check(ncclRecv(static_cast<std::byte*>(output_) + at, part, ncclInt8, rank, comm_, stream_),
              "ncclRecv");
      }
      check(ncclGroupEnd(), "ncclGroupEnd");
    });
  }

  /// What is compared next must have been written since. (What the default stream does is over then, too.)
  void forget_output(std::size_t bytes) {
    check(cudaMemset(output_, std::to_integer<int>(kUntouched), bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  /// A sum over another communicator, compared.
  void sum_once(ncclComm_t other) {
    constexpr std::size_t kCount = 1000;
    const auto own = fill(kByte, kCount, [&](std::size_t i) { return contribution(rank_, i); });
    check(cudaMemcpy(input_, own.data(), own.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    forget_output(kCount);
    check(ncclAllReduce(input_, output_, kCount, ncclInt8, ncclSum, other, stream_), "ncclAllReduce");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    compare("a communicator's sum", kByte, sums(kByte, 0, kCount));
  }

  /// One after the other, each of which makes connections, sums and ends.
  void make_communicators(int count) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) {
      ncclComm_t other{};
      check(ncclCommSplit(comm_, 0, rank_, &other, nullptr), "ncclCommSplit");
      sum_once(other);
      check(ncclCommDestroy(other), "ncclCommDestroy");
    }
    tell("communicators", count, std::chrono::duration<double>(Clock::now() - start).count());
  }

  /// Rank 0 is in a sum that no other rank joins; aborting must end it on all within seconds.
  void abort_in_the_middle() {
    ncclComm_t other{};
    check(ncclCommSplit(comm_, 0, rank_, &other, nullptr), "ncclCommSplit");
    sum_once(other);
    if (rank_ == 0)
      check(ncclAllReduce(input_, output_, 1000, ncclInt8, ncclSum, other, stream_), "ncclAllReduce");
    ::poll(nullptr, 0, 200);  // so that its kernel has begun; nothing depends on it
    const auto start = Clock::now();
    check(ncclCommAbort(other), "ncclCommAbort");
    check(cudaStreamSynchronize(stream_), "after ncclCommAbort");
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    constexpr double kMostSeconds = 20;  // a bound, not a measure
    if (seconds > kMostSeconds) die("ncclCommAbort", "took more than 20 s");
    tell("abort", 1, seconds);
  }

  void tell(const char* test, int count, double seconds) {
    if (results_ == nullptr) return;
    std::fprintf(results_,
                 "{\"test\": \"%s\", \"count\": %d, \"ranks\": %d, \"seconds\": %.3f, \"correct\": true}\n",
                 test, count, options_.ranks, seconds);
    std::fflush(results_);
  }

  /// `count` elements come out; as many of each rank's go in, or `inputs`.
  void run_case(const char* name, const Type& type, std::size_t count, const std::vector<std::byte>& expected,
                const std::function<void()>& operation, std::size_t inputs = 0) {
    auto own = fill(type, std::max(count, inputs), [&](std::size_t i) { return contribution(rank_, i); });
    check(cudaMemcpy(input_, own.data(), own.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    forget_output(own.size());
    // All ranks must agree on how often: fewer rounds for what takes long on a time-sliced GPU.
    int rounds = own.size() >= (std::size_t{16} << 20) ? 5 : 11;
    operation();  // connects and warms up
    check(cudaStreamSynchronize(stream_), "first run");
    compare(name, type, expected);
    std::vector<double> seconds;
    for (int round = 0; round < rounds; ++round) {
      if (round + 1 == rounds) forget_output(own.size());
      auto start = Clock::now();
      operation();
      check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    compare(name, type, expected);
    std::ranges::sort(seconds);
    if (results_ != nullptr) {
      std::fprintf(results_,
                   "{\"test\": \"%s\", \"type\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"rounds\": %d, "
                   "\"median_us\": %.1f, \"best_us\": %.1f, \"correct\": true}\n",
                   name, type.name, own.size(), options_.ranks, rounds, seconds[seconds.size() / 2] * 1e6,
                   seconds.front() * 1e6);
      std::fflush(results_);
    }
  }

  void compare(const char* name, const Type& type, const std::vector<std::byte>& expected) {
    std::vector<std::byte> actual(expected.size());
    check(cudaMemcpy(actual.data(), output_, actual.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    auto at = std::ranges::mismatch(actual, expected).in1 - actual.begin();
    if (static_cast<std::size_t>(at) == expected.size()) return;
    std::fprintf(
        stderr,
        "nccl_two_ranks: rank %d: %s of %zu bytes of %s: wrong at byte %td: 0x%02x, expected 0x%02x\n", rank_,
        name, expected.size(), type.name, at, std::to_integer<unsigned>(actual[at]),
        std::to_integer<unsigned>(expected[at]));
    std::_Exit(1);
  }

  Options options_;
  int rank_;
  ncclComm_t comm_{};
  cudaStream_t stream_{};
  void* input_ = nullptr;
  void* output_ = nullptr;
  std::FILE* results_ = nullptr;
};

}  // namespace tombolo::gpu_test
