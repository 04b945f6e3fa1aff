// Runs real NCCL with several ranks on one GPU. Each rank is a process that claims a host of its own, so that
// every byte goes through the net plugin. Checks every element of every result, and measures. The environment
// selects the plugin; tests/gpu/run.sh sets it.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUsage = 2;
constexpr int kNoGpu = 77;  // ctest counts this exit code as skipped

struct Options {
  int ranks = 2;
  int seconds = 55;  ///< limit for the whole run, after which the ranks are killed
  std::size_t largest = 64 << 20;
  std::string results;  ///< JSON lines are appended here; empty = standard output
};

[[noreturn]] void die(const char* what, const char* why) {
  std::fprintf(stderr, "nccl_two_ranks: %s: %s\n", what, why);
  std::fflush(stderr);
  std::_Exit(1);
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) die(what, cudaGetErrorString(status));
}

void check(ncclResult_t status, const char* what) {
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

void write_f32(void* at, int value) {
  float number = static_cast<float>(value);
  std::memcpy(at, &number, sizeof number);
}

void write_bf16(void* at, int value) {
  // bfloat16 is the upper half of a float; integers up to 256 are exact.
  float number = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  auto half = static_cast<std::uint16_t>(bits >> 16);
  std::memcpy(at, &half, sizeof half);
}

void write_i8(void* at, int value) {
  auto number = static_cast<std::int8_t>(value);
  std::memcpy(at, &number, sizeof number);
}

constexpr Type kFloat{"f32", ncclFloat32, 4, write_f32};
constexpr Type kBfloat{"bf16", ncclBfloat16, 2, write_bf16};
constexpr Type kByte{"i8", ncclInt8, 1, write_i8};

/// The contribution of rank `rank` at `index`: 0 to 12, so that sums of up to 9 ranks fit int8 and bf16.
int contribution(int rank, std::size_t index) {
  return static_cast<int>((index * 7 + index / 1000 + static_cast<std::size_t>(rank) * 5) % 13);
}

std::vector<std::byte> fill(const Type& type, std::size_t count,
                            const std::function<int(std::size_t)>& value) {
  std::vector<std::byte> bytes(count * type.bytes);
  for (std::size_t i = 0; i < count; ++i) type.write(bytes.data() + i * type.bytes, value(i));
  return bytes;
}

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
    auto expected = fill(type, count, [&](std::size_t i) {
      int sum = 0;
      for (int rank = 0; rank < options_.ranks; ++rank) sum += contribution(rank, i);
      return sum;
    });
    run_case("all_reduce", type, count, expected, [&] {
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

  void run_case(const char* name, const Type& type, std::size_t count, const std::vector<std::byte>& expected,
                const std::function<void()>& operation) {
    auto own = fill(type, count, [&](std::size_t i) { return contribution(rank_, i); });
    check(cudaMemcpy(input_, own.data(), own.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemset(output_, 0x5a, own.size()), "cudaMemset");
    // All ranks must agree on how often: fewer rounds for what takes long on a time-sliced GPU.
    int rounds = own.size() >= (std::size_t{16} << 20) ? 5 : 11;
    operation();  // connects and warms up
    check(cudaStreamSynchronize(stream_), "first run");
    compare(name, type, expected);
    std::vector<double> seconds;
    for (int round = 0; round < rounds; ++round) {
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

void read_all(int fd, void* data, std::size_t size) {
  for (auto* at = static_cast<char*>(data); size > 0;) {
    ssize_t got = ::read(fd, at, size);
    if (got <= 0) die("reading NCCL's id", "rank 0 is gone");
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

/// `ids`: a pipe per rank; rank 0 makes the id, since the process that does runs NCCL's bootstrap root.
[[noreturn]] void run_rank(const Options& options, int rank, const std::vector<std::array<int, 2>>& ids) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A host of its own: NCCL then allows two ranks on one GPU and uses neither peer-to-peer nor shared memory.
  std::string host = "tombolo-test-host-" + std::to_string(rank);
  ::setenv("NCCL_HOSTID", host.c_str(), 1);
  ncclUniqueId id;
  if (rank == 0) {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    for (int other = 1; other < options.ranks; ++other) {
      if (::write(ids[static_cast<std::size_t>(other)][1], &id, sizeof id) != sizeof id) {
        die("passing NCCL's id on", std::strerror(errno));
      }
    }
  } else {
    read_all(ids[static_cast<std::size_t>(rank)][0], &id, sizeof id);
  }
  Rank(options, rank, id).run();
  std::fflush(nullptr);
  std::_Exit(0);
}

/// A child looks for the GPU: a process that has initialised CUDA must not fork ranks.
int gpus() {
  pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    std::_Exit(cudaGetDeviceCount(&count) == cudaSuccess ? std::min(count, 100) : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int run(const Options& options) {
  if (gpus() == 0) {
    std::fprintf(stderr, "nccl_two_ranks: no usable GPU on this machine (is the driver loaded?): skipped\n");
    return kNoGpu;
  }
  std::vector<std::array<int, 2>> ids(static_cast<std::size_t>(options.ranks));
  for (auto& pipe : ids) {
    if (::pipe(pipe.data()) != 0) die("pipe", std::strerror(errno));
  }
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    pid_t child = ::fork();
    if (child < 0) die("fork", std::strerror(errno));
    if (child == 0) run_rank(options, rank, ids);
    ranks.push_back(child);
  }
  for (auto& pipe : ids) {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  auto deadline = Clock::now() + std::chrono::seconds(options.seconds);
  bool failed = false;
  while (std::ranges::any_of(ranks, [](pid_t pid) { return pid != 0; })) {
    if (failed || Clock::now() > deadline) {
      if (!failed)
        std::fprintf(stderr, "nccl_two_ranks: not done after %d s: ranks killed\n", options.seconds);
      failed = true;
      for (pid_t pid : ranks) {
        if (pid != 0) ::kill(pid, SIGKILL);
      }
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      int status = 0;
      if (ranks[rank] == 0 || ::waitpid(ranks[rank], &status, WNOHANG) != ranks[rank]) continue;
      ranks[rank] = 0;
      if (status == 0) continue;
      if (!failed) std::fprintf(stderr, "nccl_two_ranks: rank %zu failed (status 0x%x)\n", rank, status);
      failed = true;
    }
    ::poll(nullptr, 0, 20);
  }
  return failed ? 1 : 0;
}

int usage(const char* wrong) {
  std::fprintf(
      stderr,
      "nccl_two_ranks: cannot read '%s'\n"
      "usage: nccl_two_ranks [--ranks N (2 to 9)] [--seconds N] [--largest BYTES] [--results FILE]\n",
      wrong);
  return kUsage;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    std::string name = arguments[i];
    if (i + 1 == count) return usage(arguments[i]);
    std::string value = arguments[i + 1];
    char* rest = nullptr;
    long number = std::strtol(value.c_str(), &rest, 10);
    bool is_number = *rest == '\0' && number > 0;
    if (name == "--results") {
      options.results = value;
    } else if (name == "--ranks" && is_number && number >= 2 && number <= 9) {
      options.ranks = static_cast<int>(number);
    } else if (name == "--seconds" && is_number) {
      options.seconds = static_cast<int>(number);
    } else if (name == "--largest" && is_number) {
      options.largest = static_cast<std::size_t>(std::max(number, 4096L));
    } else {
      return usage(arguments[i]);
    }
  }
  return run(options);
}
