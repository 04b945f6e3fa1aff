// Ranks that make random calls, each result compared, until a call fails; those that are left then go on with
// a sum of their own. Usage: mixed_ranks SEED, the same on every rank. Times are of the monotonic clock.
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tombolo/tombolo.h"

namespace {

constexpr int kMostAtOnce = 3;
constexpr std::size_t kMostElements = 60'000;  // of one rank's part

long long now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

/// What rank `of` sends in call `number`.
std::int32_t value(int of, std::uint32_t number, std::size_t at) {
  return static_cast<std::int32_t>(
      (static_cast<std::uint32_t>(of) * 7 + number * 13 + static_cast<std::uint32_t>(at % 97)) % 10'007);
}

enum class Kind {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
  kExchange
};
constexpr int kKinds = 10;

/// One call on all ranks, with buffers of its own.
class Call {
 public:
  Call(tomboloComm_t comm, int rank, int size, std::mt19937& random, std::uint32_t number)
      : comm_(comm), rank_(rank), size_(size), number_(number) {
    kind_ = static_cast<Kind>(random() % kKinds);
    started_ = random() % 2 == 0 && kind_ != Kind::kExchange;
    root_ = static_cast<int>(random() % static_cast<unsigned>(size));
    // Small ones as often as large ones.
    count_ = 1 + random() % (random() % 2 == 0 ? 100 : kMostElements);
    const std::size_t parts = static_cast<std::size_t>(size) * count_;
    out_.resize(parts);
    in_.assign(parts, -1);
    for (std::size_t i = 0; i < parts; ++i) out_[i] = value(rank, number, i);
  }

  bool started() const { return started_; }

  tomboloResult_t begin() {
    const void* out = out_.data();
    void* in = in_.data();
    tomboloWork_t* work = &work_;
    switch (kind_) {
      case Kind::kAllReduce:
        return started_ ? tomboloAllReduceAsync(out, in, count_, tomboloInt32, tomboloSum, comm_, work)
                        : tomboloAllReduce(out, in, count_, tomboloInt32, tomboloSum, comm_);
      case Kind::kReduceScatter:
        return started_ ? tomboloReduceScatterAsync(out, in, count_, tomboloInt32, tomboloSum, comm_, work)
                        : tomboloReduceScatter(out, in, count_, tomboloInt32, tomboloSum, comm_);
      case Kind::kAllGather:
        return started_ ? tomboloAllGatherAsync(out, in, count_, tomboloInt32, comm_, work)
                        : tomboloAllGather(out, in, count_, tomboloInt32, comm_);
      case Kind::kBroadcast:
        return started_ ? tomboloBroadcastAsync(out, in, count_, tomboloInt32, root_, comm_, work)
                        : tomboloBroadcast(out, in, count_, tomboloInt32, root_, comm_);
      case Kind::kReduce:
        return started_ ? tomboloReduceAsync(out, in, count_, tomboloInt32, tomboloSum, root_, comm_, work)
                        : tomboloReduce(out, in, count_, tomboloInt32, tomboloSum, root_, comm_);
      case Kind::kGather:
        return started_ ? tomboloGatherAsync(out, in, count_, tomboloInt32, root_, comm_, work)
                        : tomboloGather(out, in, count_, tomboloInt32, root_, comm_);
      case Kind::kScatter:
        return started_ ? tomboloScatterAsync(out, in, count_, tomboloInt32, root_, comm_, work)
                        : tomboloScatter(out, in, count_, tomboloInt32, root_, comm_);
      case Kind::kAllToAll:
        return started_ ? tomboloAllToAllAsync(out, in, count_, tomboloInt32, comm_, work)
                        : tomboloAllToAll(out, in, count_, tomboloInt32, comm_);
      case Kind::kBarrier:
        return started_ ? tomboloBarrierAsync(comm_, work) : tomboloBarrier(comm_);
      case Kind::kExchange:
        tomboloGroupStart();
        tomboloSend(out, count_, tomboloInt32, (rank_ + 1) % size_, comm_);
        tomboloRecv(in, count_, tomboloInt32, (rank_ + size_ - 1) % size_, comm_);
        return tomboloGroupEnd();
    }
    return tomboloInternalError;
  }

  /// Of a started call, once.
  tomboloResult_t wait() {
    return work_ == nullptr ? tomboloSuccess : tomboloWorkWait(std::exchange(work_, nullptr));
  }

  /// Whether what was received is what the others have sent.
  bool right() const {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (in_[i] != expected(i)) return false;
    }
    return true;
  }
  std::string text() const {
    return "call " + std::to_string(number_) + " of kind " + std::to_string(static_cast<int>(kind_));
  }

 private:
  std::int32_t sum(std::size_t at) const {
    std::int32_t all = 0;
    for (int rank = 0; rank < size_; ++rank) all += value(rank, number_, at);
    return all;
  }
  std::int32_t expected(std::size_t i) const {
    const int part = static_cast<int>(i / count_);
    const std::size_t within = i % count_, own = static_cast<std::size_t>(rank_) * count_;
    switch (kind_) {
      case Kind::kAllReduce:
        return part == 0 ? sum(i) : -1;
      case Kind::kReduceScatter:
        return part == 0 ? sum(own + i) : -1;
      case Kind::kAllGather:
        return value(part, number_, within);
      case Kind::kBroadcast:
        return part == 0 ? value(root_, number_, i) : -1;
      case Kind::kReduce:
        return part == 0 && rank_ == root_ ? sum(i) : -1;
      case Kind::kGather:
        return rank_ == root_ ? value(part, number_, within) : -1;
      case Kind::kScatter:
        return part == 0 ? value(root_, number_, own + i) : -1;
      case Kind::kAllToAll:
        return value(part, number_, own + within);
      case Kind::kBarrier:
        return -1;
      case Kind::kExchange:
        return part == 0 ? value((rank_ + size_ - 1) % size_, number_, i) : -1;
    }
    return -1;
  }

  tomboloComm_t comm_;
  int rank_, size_;
  std::uint32_t number_;
  Kind kind_{};
  bool started_ = false;
  int root_ = 0;
  std::size_t count_ = 0;
  std::vector<std::int32_t> out_, in_;
  tomboloWork_t work_ = nullptr;
};

/// Makes calls until one fails. Returns the exit code where a result is wrong, else 0.
int call_until_a_failure(tomboloComm_t comm, int rank, int size, unsigned seed) {
  std::mt19937 random(seed);
  for (std::uint32_t number = 0;; number += kMostAtOnce) {
    std::vector<Call> calls;
    for (std::uint32_t i = 0; i < kMostAtOnce; ++i) calls.emplace_back(comm, rank, size, random, number + i);
    tomboloResult_t result = tomboloSuccess;
    std::string error;
    const auto note = [&](tomboloResult_t one) {
      if (one == tomboloSuccess || result != tomboloSuccess) return;
      result = one;
      error = tomboloGetLastError(nullptr);
    };
    std::size_t begun = 0;
    for (; begun < calls.size() && result == tomboloSuccess; ++begun) note(calls[begun].begin());
    for (std::size_t i = 0; i < begun; ++i) note(calls[i].wait());
    if (result != tomboloSuccess) {
      std::printf("failed at %lld with %s: %s\n", now_ns(), tomboloGetErrorString(result), error.c_str());
      return 0;
    }
    for (const Call& call : calls) {
      if (call.right()) continue;
      std::printf("wrong: %s\n", call.text().c_str());
      return 3;
    }
    if (number == 0) {
      std::printf("ready\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tomboloComm_t comm = nullptr, left = nullptr;
  int rank = 0, size = 0;
  if (tomboloCommInitFromEnvironment(&comm) != tomboloSuccess ||
      tomboloCommUserRank(comm, &rank) != tomboloSuccess || tomboloCommCount(comm, &size) != tomboloSuccess) {
    std::printf("set-up: %s\n", tomboloGetLastError(nullptr));
    return 2;
  }
  const int code =
      call_until_a_failure(comm, rank, size, static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)));
  std::fflush(stdout);
  if (code != 0) return code;
  std::vector<std::int32_t> ones(100'000, 1);
  int still = 0;
  if (tomboloCommShrink(comm, nullptr, 0, &left, TOMBOLO_SHRINK_ABORT) != tomboloSuccess ||
      tomboloCommCount(left, &still) != tomboloSuccess ||
      tomboloAllReduce(ones.data(), ones.data(), ones.size(), tomboloInt32, tomboloSum, left) !=
          tomboloSuccess) {
    std::printf("no shrink: %s\n", tomboloGetLastError(nullptr));
    return 4;
  }
  for (const std::int32_t one : ones) {
    if (one == still) continue;
    std::printf("wrong: the sum of those that are left\n");
    return 3;
  }
  std::printf("went on at %lld with %d ranks\n", now_ns(), still);
  tomboloCommDestroy(comm);
  tomboloCommDestroy(left);
  return 0;
}
