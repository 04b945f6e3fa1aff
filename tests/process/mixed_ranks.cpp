// Ranks that make random calls on several communicators, each result compared, until a call fails; those that
// are left go on with a sum of their own, take a new rank in place of the one that is gone, and begin anew.
// Usage: mixed_ranks SEED FOLDER, the same on every rank; mixed_ranks SEED FOLDER GENERATION RANK SIZE for a
// new rank, whose invitation is in FOLDER. It ends after "stop" on any rank's standard input. Times are of
// the monotonic clock. mixed_ranks SEED --rounds N ends after N rounds, or with the first failure.
#include <dirent.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tombolo/tombolo.h"

namespace {

constexpr int kMostAtOnce = 3;
constexpr int kMostDeaths = 2;                 // in one generation
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
constexpr unsigned kKinds = 10;
constexpr std::array kWithParts{Kind::kReduceScatter, Kind::kAllGather, Kind::kGather, Kind::kScatter,
                                Kind::kAllToAll};

/// One call on all ranks, with buffers of its own.
class Call {
 public:
  Call(tomboloComm_t comm, int rank, int size, std::mt19937& random, std::uint32_t number)
      : comm_(comm), rank_(rank), size_(size), number_(number) {
    const std::size_t drawn = random() % (kKinds + kWithParts.size());
    uneven_ = drawn >= kKinds;
    kind_ = uneven_ ? kWithParts.at(drawn - kKinds) : static_cast<Kind>(drawn);
    started_ = random() % 2 == 0 && kind_ != Kind::kExchange;
    root_ = static_cast<int>(random() % static_cast<unsigned>(size));
    // Small ones as often as large ones.
    count_ = 1 + random() % (random() % 2 == 0 ? 100 : kMostElements);
    const std::size_t parts = static_cast<std::size_t>(size) * count_;
    cut();
    out_.resize(parts);
    in_.assign(parts, -1);
    for (std::size_t i = 0; i < parts; ++i) out_[i] = value(rank, number, i);
  }

  bool started() const { return started_; }

  tomboloResult_t begin() {
    if (uneven_) return begin_uneven();
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
    return "call " + std::to_string(number_) + " of kind " + std::to_string(static_cast<int>(kind_)) +
           (uneven_ ? " with uneven parts" : "");
  }

 private:
  /// Uneven parts are whole ones, halves and empty ones, in turns, next to each other.
  void cut() {
    std::size_t begin = 0;
    for (int of = 0; of < size_; ++of) {
      const std::size_t halves = (static_cast<std::size_t>(of) + number_) % 3;
      counts_.push_back(uneven_ ? count_ * halves / 2 : count_);
      begins_.push_back(begin);
      begin += counts_.back();
    }
  }

  /// An all-to-all's input is cut in this way on all ranks, and its output as that of equal parts.
  tomboloResult_t begin_uneven() {
    const void* out = out_.data();
    void* in = in_.data();
    const std::size_t *counts = counts_.data(), *begins = begins_.data();
    const std::size_t own = counts_[static_cast<std::size_t>(rank_)];
    tomboloWork_t* work = &work_;
    switch (kind_) {
      case Kind::kReduceScatter:
        return started_ ? tomboloReduceScatterVAsync(out, in, counts, begins, tomboloInt32, tomboloSum, comm_,
                                                     work)
                        : tomboloReduceScatterV(out, in, counts, begins, tomboloInt32, tomboloSum, comm_);
      case Kind::kAllGather:
        return started_ ? tomboloAllGatherVAsync(out, own, in, counts, begins, tomboloInt32, comm_, work)
                        : tomboloAllGatherV(out, own, in, counts, begins, tomboloInt32, comm_);
      case Kind::kGather:
        return started_ ? tomboloGatherVAsync(out, own, in, counts, begins, tomboloInt32, root_, comm_, work)
                        : tomboloGatherV(out, own, in, counts, begins, tomboloInt32, root_, comm_);
      case Kind::kScatter:
        return started_ ? tomboloScatterVAsync(out, counts, begins, in, own, tomboloInt32, root_, comm_, work)
                        : tomboloScatterV(out, counts, begins, in, own, tomboloInt32, root_, comm_);
      case Kind::kAllToAll: {
        std::vector<std::size_t> received(counts_.size(), own), places(counts_.size());
        for (std::size_t from = 0; from < places.size(); ++from) places[from] = from * count_;
        return started_ ? tomboloAllToAllVAsync(out, counts, begins, in, received.data(), places.data(),
                                                tomboloInt32, comm_, work)
                        : tomboloAllToAllV(out, counts, begins, in, received.data(), places.data(),
                                           tomboloInt32, comm_);
      }
      default:
        return tomboloInternalError;
    }
  }

  std::int32_t sum(std::size_t at) const {
    std::int32_t all = 0;
    for (int rank = 0; rank < size_; ++rank) all += value(rank, number_, at);
    return all;
  }
  /// What is at `i` where the parts of all ranks have come.
  std::int32_t gathered(std::size_t i) const {
    for (int from = 0; from < size_; ++from) {
      const auto part = static_cast<std::size_t>(from);
      if (i - begins_[part] < counts_[part]) return value(from, number_, i - begins_[part]);
    }
    return -1;
  }
  std::int32_t expected(std::size_t i) const {
    const int part = static_cast<int>(i / count_);
    const std::size_t within = i % count_, own = begins_[static_cast<std::size_t>(rank_)];
    const bool in_own = i < counts_[static_cast<std::size_t>(rank_)];
    switch (kind_) {
      case Kind::kAllReduce:
        return part == 0 ? sum(i) : -1;
      case Kind::kReduceScatter:
        return in_own ? sum(own + i) : -1;
      case Kind::kAllGather:
        return gathered(i);
      case Kind::kBroadcast:
        return part == 0 ? value(root_, number_, i) : -1;
      case Kind::kReduce:
        return part == 0 && rank_ == root_ ? sum(i) : -1;
      case Kind::kGather:
        return rank_ == root_ ? gathered(i) : -1;
      case Kind::kScatter:
        return in_own ? value(root_, number_, own + i) : -1;
      case Kind::kAllToAll:
        return within < counts_[static_cast<std::size_t>(rank_)] ? value(part, number_, own + within) : -1;
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
  bool uneven_ = false, started_ = false;
  int root_ = 0;
  std::size_t count_ = 0;                     // of an even part, and the most of an uneven one
  std::vector<std::size_t> counts_, begins_;  // of every rank's part
  std::vector<std::int32_t> out_, in_;
  tomboloWork_t work_ = nullptr;
};

/// What a generation of ranks has: the whole, a copy of it, and a half.
struct Communicators {
  tomboloComm_t whole = nullptr, copy = nullptr, half = nullptr;
  int rank = 0, size = 0;

  bool make_others() {
    return tomboloCommUserRank(whole, &rank) == tomboloSuccess &&
           tomboloCommCount(whole, &size) == tomboloSuccess &&
           tomboloCommSplit(whole, 0, rank, &copy) == tomboloSuccess &&
           tomboloCommSplit(whole, rank % 2, rank, &half) == tomboloSuccess;
  }
  void destroy() {
    for (tomboloComm_t* const one : {&copy, &half, &whole}) tomboloCommDestroy(std::exchange(*one, nullptr));
  }
};

/// The first failure of calls on the whole.
struct Failure {
  tomboloResult_t result = tomboloSuccess;
  std::string text;

  void note(tomboloResult_t one) {
    if (one == tomboloSuccess || result != tomboloSuccess) return;
    result = one;
    text = tomboloGetLastError(nullptr);
  }
};

bool is_stop_asked() {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  return poll(&in, 1, 0) > 0;
}

enum class End { kStopped, kFailed, kWrong };

/// Calls of one round, some under way on each communicator at the same time.
class Round {
 public:
  Round(const Communicators& on, std::mt19937& random, std::uint32_t number) : on_(on) {
    for (std::uint32_t i = 0; i < kMostAtOnce; ++i) {
      const unsigned which = random() % 4;
      const tomboloComm_t comm = which == 0 ? on.copy : which == 1 ? on.half : on.whole;
      int rank = 0, size = 0;
      tomboloCommUserRank(comm, &rank);
      tomboloCommCount(comm, &size);
      std::mt19937 own(random());
      calls_.push_back({comm, Call(comm, rank, size, own, number + i), false, false});
    }
  }

  /// Makes the calls, and no more on parts (false) once one there has failed, or on any once the whole has;
  /// `failure` is then the first on the whole. Afterwards no call is under way.
  void run(Failure& failure, bool& parts_work) {
    for (Placed& one : calls_) {
      one.begun = failure.result == tomboloSuccess && (parts_work || one.comm == on_.whole);
      if (one.begun) note(one, one.call.begin(), failure, parts_work);
    }
    for (Placed& one : calls_) note(one, one.call.wait(), failure, parts_work);
  }

  const Call* wrong() const {
    for (const Placed& one : calls_) {
      if (one.begun && !one.failed && !one.call.right()) return &one.call;
    }
    return nullptr;
  }

 private:
  struct Placed {
    tomboloComm_t comm;
    Call call;
    bool begun = false, failed = false;
  };

  void note(Placed& one, tomboloResult_t result, Failure& failure, bool& parts_work) const {
    if (result == tomboloSuccess) return;
    one.failed = true;
    if (one.comm == on_.whole) failure.note(result);
    // Of one communicator's failure the others learn nothing, and no rank is to wait there for this one.
    parts_work = false;
    for (const tomboloComm_t part : {on_.copy, on_.half}) tomboloCommAbort(part);
  }

  const Communicators& on_;
  std::vector<Placed> calls_;
};

/// Makes calls until one of the whole fails, or all have learnt that one of them is to stop: after so many
/// rounds, or where there is no such number once it is asked to.
End call_until_a_failure(const Communicators& on, int generation, unsigned seed,
                         std::optional<std::uint32_t> rounds) {
  std::mt19937 random(seed + static_cast<unsigned>(generation));
  bool parts_work = true;
  for (std::uint32_t number = 0;; number += kMostAtOnce) {
    Failure failure;
    const bool last = rounds ? number / kMostAtOnce + 1 >= *rounds : is_stop_asked();
    std::int32_t stop = last ? 1 : 0;
    failure.note(tomboloAllReduce(&stop, &stop, 1, tomboloInt32, tomboloMax, on.whole));
    Round round(on, random, number);
    if (failure.result == tomboloSuccess) round.run(failure, parts_work);
    if (failure.result != tomboloSuccess) {
      std::printf("failed at %lld with %s: %s\n", now_ns(), tomboloGetErrorString(failure.result),
                  failure.text.c_str());
      for (const tomboloComm_t part : {on.copy, on.half}) tomboloCommAbort(part);
      return End::kFailed;
    }
    if (const Call* wrong = round.wrong()) {
      std::printf("wrong: %s\n", wrong->text().c_str());
      return End::kWrong;
    }
    if (number == 0) std::printf("ready %d as rank %d of %d\n", generation, on.rank, on.size);
    if (stop != 0) return parts_work ? End::kStopped : End::kWrong;
  }
}

bool sum_is_right(tomboloComm_t comm) {
  std::vector<std::int32_t> ones(100'000, 1);
  int size = 0;
  if (tomboloCommCount(comm, &size) != tomboloSuccess ||
      tomboloAllReduce(ones.data(), ones.data(), ones.size(), tomboloInt32, tomboloSum, comm) !=
          tomboloSuccess)
    return false;
  for (const std::int32_t one : ones) {
    if (one == size) continue;
    std::printf("wrong: a sum of %d, expected %d\n", one, size);
    return false;
  }
  return true;
}

int entries_of(const char* folder) {
  DIR* const opened = opendir(folder);
  int entries = 0;
  while (opened != nullptr && readdir(opened) != nullptr) ++entries;
  if (opened != nullptr) closedir(opened);
  return entries;
}

/// Of the transport and the host's collectives: files without a name in any folder.
int mappings_of_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);)
    found += line.find("/memfd:tombolo (deleted)") != line.npos ? 1 : 0;
  return found;
}

std::string invitation(const std::string& folder, int generation) {
  return folder + "/generation" + std::to_string(generation);
}

/// Those that are left take new ranks until they are as many as before. One of them, by the generation,
/// invites.
bool grow(Communicators& on, tomboloComm_t left, const std::string& folder, int generation) {
  int rank = 0, size = 0;
  tomboloUniqueId id;
  if (tomboloCommUserRank(left, &rank) != tomboloSuccess || tomboloCommCount(left, &size) != tomboloSuccess)
    return false;
  const bool invites = rank == generation % size;
  if (invites) {
    if (tomboloCommGetUniqueId(left, &id) != tomboloSuccess) return false;
    std::ofstream(invitation(folder, generation), std::ios::binary).write(id.internal, sizeof id.internal);
    std::printf("invites to %d of %d\n", size, on.size);
  }
  return tomboloCommGrow(left, on.size, invites ? &id : nullptr, -1, &on.whole, nullptr) == tomboloSuccess;
}

bool join(Communicators& on, const std::string& folder, int generation, int rank, int size) {
  tomboloUniqueId id;
  std::ifstream(invitation(folder, generation), std::ios::binary).read(id.internal, sizeof id.internal);
  return tomboloCommGrow(nullptr, size, &id, rank, &on.whole, nullptr) == tomboloSuccess;
}

/// What is left of `from`, where that works.
bool shrink(tomboloComm_t from, tomboloComm_t& left) {
  int rank = 0, size = 0;
  if (tomboloCommShrink(from, nullptr, 0, &left, TOMBOLO_SHRINK_ABORT) != tomboloSuccess ||
      tomboloCommUserRank(left, &rank) != tomboloSuccess || tomboloCommCount(left, &size) != tomboloSuccess ||
      !sum_is_right(left))
    return false;
  std::printf("went on at %lld as rank %d of %d\n", now_ns(), rank, size);
  return true;
}

/// Those that are left go on, and take new ranks. Where one more has died meanwhile they begin again, with
/// what they have.
bool go_on(Communicators& on, const std::string& folder, int generation) {
  tomboloComm_t from = on.whole;
  for (int deaths = 0; deaths <= kMostDeaths; ++deaths) {
    tomboloComm_t left = nullptr;
    if (shrink(from, left)) {
      const tomboloComm_t before = on.whole;
      if (grow(on, left, folder, generation)) {
        for (const tomboloComm_t one : {on.copy, on.half, before, left, from == before ? nullptr : from})
          tomboloCommDestroy(one);
        return true;
      }
      on.whole = before;
    }
    std::printf("again: %s\n", tomboloGetLastError(nullptr));
    if (left == nullptr) continue;
    if (from != on.whole) tomboloCommDestroy(from);
    from = left;
  }
  return false;
}

int fail(const char* what) {
  std::printf("%s: %s\n", what, tomboloGetLastError(nullptr));
  return 4;
}

/// Calls on all ranks of a job in which none is to fail.
int run_rounds(Communicators& on, unsigned seed, std::uint32_t rounds) {
  if (tomboloCommInitFromEnvironment(&on.whole) != tomboloSuccess) return fail("set-up");
  if (!on.make_others()) return fail("no parts");
  if (call_until_a_failure(on, 0, seed, rounds) != End::kStopped) return 3;
  std::printf("right: %u rounds as rank %d of %d, seed %u\n", rounds, on.rank, on.size, seed);
  on.destroy();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4 && argc != 6) return 2;
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const auto seed = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  const std::string folder = argv[2];
  Communicators on;
  if (argc == 4) return run_rounds(on, seed, static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10)));
  int generation = 0;
  if (argc == 6) {
    generation = std::atoi(argv[3]);
    if (!join(on, folder, generation - 1, std::atoi(argv[4]), std::atoi(argv[5]))) return fail("no growth");
  } else if (tomboloCommInitFromEnvironment(&on.whole) != tomboloSuccess) {
    return fail("set-up");
  }
  for (;; ++generation) {
    if (generation > 0) {
      if (!sum_is_right(on.whole)) return fail("no sum");
      std::printf("grown at %lld\n", now_ns());
    }
    if (!on.make_others()) return fail("no parts");
    const End end = call_until_a_failure(on, generation, seed, std::nullopt);
    if (end == End::kWrong) return 3;
    if (end == End::kStopped) break;
    if (!go_on(on, folder, generation)) return fail("no way on");
  }
  on.destroy();
  std::printf("ended with %d descriptors, %d threads, %d mappings of shared memory\n",
              entries_of("/proc/self/fd"), entries_of("/proc/self/task"), mappings_of_shared_memory());
  return 0;
}
