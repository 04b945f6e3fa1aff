// One-sided operations through the tables that NCCL looks up, in the order of NCCL 2.30's calls: ranks as
// processes, which put, get and raise signals at random, and compare every byte with what the plan says. The
// program is linked with a pretended CUDA driver, so that windows may lie in GPU memory.
#include "net_plugin/abi/rma.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <new>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/format.h"
#include "base/randomized_test.h"
#include "net_plugin/abi/net.h"
#include "tests/process/in_child.h"
#include "tests/process/plugin_library.h"
#include "topology/testing/pretended_cuda.h"

namespace tombolo::tests {
namespace {

namespace abi = net_plugin::abi;
using topology::test::PretendedCuda;

constexpr std::size_t kMostRanks = 8;
constexpr Duration kPatience = std::chrono::seconds(60);

/// Throws where a call does not answer as it must; also in processes, where googletest's macros are not.
void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what + "\n" + log_text);
}
void succeed(abi::ncclResult_t result, const char* what) {
  require(result == abi::ncclSuccess, fmt::format("{}: result {}", what, static_cast<int>(result)));
}

/// What the ranks share in place of NCCL's bootstrap.
struct Bootstrap {
  pthread_barrier_t barrier;
  std::array<std::array<std::byte, abi::NCCL_NET_HANDLE_MAXSIZE>, kMostRanks> handles;
  std::atomic<int> finished{0};
  static_assert(std::atomic<int>::is_always_lock_free);

  void wait() { ::pthread_barrier_wait(&barrier); }
};

/// Runs `body` as so many ranks, each a process, and expects that all succeed but those in `killed`.
void run_ranks(int ranks, const std::function<void(int rank, Bootstrap&)>& body, int killed = -1) {
  void* memory =
      ::mmap(nullptr, sizeof(Bootstrap), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* bootstrap = new (memory) Bootstrap;
  pthread_barrierattr_t shared;
  ::pthread_barrierattr_init(&shared);
  ::pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  ::pthread_barrier_init(&bootstrap->barrier, &shared, static_cast<unsigned>(ranks));
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = ::fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      ::alarm(120);  // a rank that hangs ends the test
      int code = 0;
      try {
        body(rank, *bootstrap);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        code = 1;
      }
      std::fflush(nullptr);
      std::_Exit(code);
    }
    processes.push_back(process);
  }
  // A rank that fails may leave others at the barrier.
  for (std::size_t left = processes.size(); left > 0; --left) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    const auto rank = std::find(processes.begin(), processes.end(), ended) - processes.begin();
    if (rank == killed) continue;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ": status " << status;
    if (status != 0)
      for (const pid_t one : processes) ::kill(one, SIGKILL);
  }
  ::munmap(memory, sizeof(Bootstrap));
}

/// One rank's calls of one version's table. Those that must succeed do, or throw.
class Rank {
 public:
  virtual ~Rank() = default;
  virtual void* reg(void* data, std::size_t size, bool on_gpu, std::uint64_t flags) = 0;
  virtual void dereg(void* window) = 0;
  virtual abi::ncclResult_t put(std::uint64_t from, void* source, std::size_t size, std::uint64_t to,
                                void* window, std::uint32_t rank, void** request) = 0;
  virtual abi::ncclResult_t put_signal(std::uint64_t from, void* source, std::size_t size, std::uint64_t to,
                                       void* window, std::uint32_t rank, std::uint64_t signal, void* signals,
                                       std::uint64_t value, std::uint32_t op, void** request) = 0;
  virtual abi::ncclResult_t get(std::uint64_t from, void* window, std::size_t size, std::uint64_t to,
                                void* target, std::uint32_t rank, void** request) = 0;
  virtual abi::ncclResult_t flush(void* window, std::uint32_t rank, void** request) = 0;
  virtual abi::ncclResult_t test(void* request, bool& done) = 0;
  virtual void progress() = 0;
  virtual bool failed() = 0;

  /// Tests until the request ends.
  abi::ncclResult_t finish(void* request) {
    for (const Deadline deadline = Deadline::after(kPatience);;) {
      bool done = false;
      const abi::ncclResult_t result = test(request, done);
      if (done || result != abi::ncclSuccess) return result;
      require(!deadline.passed(), "an operation does not end");
    }
  }
};

template <typename Table>
class TableRank final : public Rank {
 public:
  TableRank(const char* symbol, int rank, int ranks, Bootstrap& bootstrap)
      : table_(table_of<Table>(symbol)), net_(table_of<abi::ncclNet_v12_t>("ncclNetPlugin_v12")) {
    abi::ncclNetCommConfig_v12_t config{abi::NCCL_NET_TRAFFIC_CLASS_UNDEF};
    succeed(net_.init(&net_context_, 7, &config, keep_line, nullptr), "net init");
    succeed(table_.init(&context_, 7, keep_line), "init");
    int devices = 0;
    succeed(table_.devices(&devices), "devices");
    require(devices > 0 && context_ != nullptr, "no devices");
    void* listening = nullptr;
    auto* mine = &bootstrap.handles[static_cast<std::size_t>(rank)];
    succeed(table_.listen(context_, 0, mine, &listening), "listen");
    bootstrap.wait();
    auto handles = bootstrap.handles;
    std::array<void*, kMostRanks> places{};
    for (std::size_t i = 0; i < kMostRanks; ++i) places[i] = &handles[i];
    succeed(table_.connect(net_context_, places.data(), ranks, rank, listening, &group_), "connect");
    abi::ncclNetProperties_v12_t properties{};
    succeed(table_.getProperties(0, &properties), "getProperties");
    require(properties.maxRecvs > 0 && properties.name != nullptr, "properties");
    succeed(table_.closeListen(listening), "closeListen");
    std::remove_pointer_t<decltype(config_of(table_.createContext))> made{};
    made.nContexts = 2;
    made.trafficClass = abi::NCCL_NET_TRAFFIC_CLASS_UNDEF;
    if constexpr (kOldest) {
      abi::ncclNetDeviceHandle_v11_t* device = nullptr;
      succeed(table_.createContext(group_, &made, &rma_, &device), "createContext");
    } else {
      succeed(table_.createContext(group_, &made, &rma_), "createContext");
    }
  }
  ~TableRank() override {
    table_.destroyContext(rma_);
    table_.closeColl(group_);
    table_.finalize(context_);
    net_.finalize(net_context_);
  }

  void* reg(void* data, std::size_t size, bool on_gpu, std::uint64_t flags) override {
    void* window = nullptr;
    const int type = on_gpu ? abi::NCCL_PTR_CUDA : abi::NCCL_PTR_HOST;
    if constexpr (kOldest) {
      void* device = nullptr;
      succeed(table_.regMrSym(group_, data, size, type, flags, &window, &device), "regMrSym");
    } else {
      succeed(table_.regMrSym(group_, data, size, type, flags, &window), "regMrSym");
    }
    return window;
  }
  void dereg(void* window) override { succeed(table_.deregMrSym(group_, window), "deregMrSym"); }
  abi::ncclResult_t put(std::uint64_t from, void* source, std::size_t size, std::uint64_t to, void* window,
                        std::uint32_t rank, void** request) override {
    if constexpr (kNewest)
      return table_.iput(rma_, 0, from, source, size, to, window, rank, 1, request);
    else
      return table_.iput(rma_, 0, from, source, size, to, window, rank, request);
  }
  abi::ncclResult_t put_signal(std::uint64_t from, void* source, std::size_t size, std::uint64_t to,
                               void* window, std::uint32_t rank, std::uint64_t signal, void* signals,
                               std::uint64_t value, std::uint32_t op, void** request) override {
    if constexpr (kNewest) {
      return table_.iputSignal(rma_, 1, from, source, size, to, window, rank, signal, signals, value, op,
                               true, 0, request);
    } else if constexpr (kOldest) {
      return table_.iputSignal(rma_, 1, from, source, size, to, window, rank, signal, signals, value, op,
                               request);
    } else {
      return table_.iputSignal(rma_, 1, from, source, size, to, window, rank, signal, signals, value, op,
                               true, request);
    }
  }
  abi::ncclResult_t get(std::uint64_t from, void* window, std::size_t size, std::uint64_t to, void* target,
                        std::uint32_t rank, void** request) override {
    if constexpr (kNewest)
      return table_.iget(rma_, 0, from, window, size, to, target, rank, 0, request);
    else
      return table_.iget(rma_, 0, from, window, size, to, target, rank, request);
  }
  abi::ncclResult_t flush(void* window, std::uint32_t rank, void** request) override {
    return table_.iflush(rma_, 0, window, rank, request);
  }
  abi::ncclResult_t test(void* request, bool& done) override {
    int answer = 0;
    const abi::ncclResult_t result = table_.test(group_, request, &answer);
    done = answer != 0;
    return result;
  }
  void progress() override {
    if constexpr (kOldest)
      succeed(table_.ginProgress(rma_), "progress");
    else
      succeed(table_.rmaProgress(rma_), "progress");
  }
  bool failed() override {
    bool has_error = false;
    succeed(table_.queryLastError(rma_, &has_error), "queryLastError");
    return has_error;
  }

 private:
  static constexpr bool kOldest = std::is_same_v<Table, abi::ncclRma_v13_t>;
  static constexpr bool kNewest = std::is_same_v<Table, abi::ncclRma_v15_t>;
  template <typename Config, typename... More>
  static Config* config_of(abi::ncclResult_t (*)(void*, Config*, More...)) {
    return nullptr;
  }

  Table& table_;
  abi::ncclNet_v12_t& net_;
  void *net_context_ = nullptr, *context_ = nullptr, *group_ = nullptr, *rma_ = nullptr;
};

std::unique_ptr<Rank> make_rank(int version, int rank, int ranks, Bootstrap& bootstrap) {
  if (version == 13)
    return std::make_unique<TableRank<abi::ncclRma_v13_t>>("ncclRmaPlugin_v13", rank, ranks, bootstrap);
  if (version == 14)
    return std::make_unique<TableRank<abi::ncclRma_v14_t>>("ncclRmaPlugin_v14", rank, ranks, bootstrap);
  return std::make_unique<TableRank<abi::ncclRma_v15_t>>("ncclRmaPlugin_v15", rank, ranks, bootstrap);
}

/// A window's memory, on the host or on a GPU.
class Memory {
 public:
  Memory(std::size_t size, bool on_gpu) : size_(size), on_gpu_(on_gpu), host_(on_gpu ? 0 : size / 8 + 1) {
    data_ = on_gpu ? PretendedCuda::instance().allocate(size) : reinterpret_cast<std::byte*>(host_.data());
    write(0, std::vector<std::byte>(size));
  }
  ~Memory() {
    if (on_gpu_) PretendedCuda::instance().release(data_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void write(std::size_t offset, const std::vector<std::byte>& bytes) {
    if (on_gpu_)
      PretendedCuda::instance().write(data_ + offset, bytes);
    else
      std::ranges::copy(bytes, data_ + offset);
  }
  std::vector<std::byte> read(std::size_t offset, std::size_t bytes) const {
    if (on_gpu_) return PretendedCuda::instance().read(data_ + offset, bytes);
    return {data_ + offset, data_ + offset + bytes};
  }
  std::uint64_t word(std::size_t number) const {
    if (!on_gpu_) {
      auto* words = reinterpret_cast<std::uint64_t*>(data_);
      return std::atomic_ref(words[number]).load(std::memory_order_acquire);
    }
    std::uint64_t value = 0;
    std::memcpy(&value, read(8 * number, 8).data(), 8);
    return value;
  }
  void* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  bool on_gpu_;
  std::vector<std::uint64_t> host_;
  std::byte* data_;
};

/// What one rank does, which every other rank can work out too.
struct Step {
  enum class Kind { kPut, kPutSignal, kSignal, kGet, kFlush } kind;
  std::uint32_t rank;  // the other one
  std::size_t size, from, to;
  std::uint64_t value;
  bool increments;
};

constexpr std::size_t kRegion = 512 * 1024;  // of each rank in every rank's window

std::vector<Step> plan_of(unsigned seed, int rank, int ranks, int steps) {
  std::mt19937 random(seed * 31 + static_cast<unsigned>(rank));
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  std::vector<Step> plan;
  for (int i = 0; i < steps; ++i) {
    Step step{};
    step.kind = static_cast<Step::Kind>(below(5));
    step.rank = static_cast<std::uint32_t>(below(static_cast<std::size_t>(ranks)));
    constexpr std::array<std::size_t, 6> kLimits{9, 4098, 4098, 20'000, 140'000, 400'000};
    step.size = below(kLimits[below(kLimits.size())]);
    step.from = below(kRegion - step.size);
    step.to = below(kRegion - step.size);
    step.value = below(1000);
    step.increments = below(2) == 0;
    plan.push_back(step);
  }
  return plan;
}

std::vector<std::byte> source_of(unsigned seed, int rank) {
  std::mt19937_64 random(seed + 77U * static_cast<unsigned>(rank));
  std::vector<std::byte> bytes(kRegion);
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

struct Setting {
  int version;
  const char* transports;
  bool on_gpu;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << "v" << setting.version << " over " << setting.transports << (setting.on_gpu ? " on a GPU" : "");
}

/// The windows' words: one for each rank, which counts its signalled puts, and one to which all add.
void replay(const Setting& setting, unsigned seed, int rank, int ranks, Bootstrap& bootstrap) {
  if (setting.on_gpu) PretendedCuda::instance().reset({.seed = seed});
  const auto all = static_cast<std::size_t>(ranks);
  {
    Memory signals(8 * (all + 1), setting.on_gpu), data(all * kRegion, setting.on_gpu);
    Memory stamps(8 * all, setting.on_gpu), source(kRegion, setting.on_gpu), got(kRegion, setting.on_gpu);
    Memory numbers(8 * 4096, false);  // what is put as a stamp: its own number
    source.write(0, source_of(seed, rank));
    for (std::uint64_t i = 0; i < 4096; ++i) {
      std::vector<std::byte> word(8);
      std::memcpy(word.data(), &i, 8);
      numbers.write(8 * i, word);
    }
    auto plugin = make_rank(setting.version, rank, ranks, bootstrap);
    // Ranks are not at the same point when the first operations arrive.
    if (rank % 2 == 1) ::usleep(20'000);
    void* signal_window =
        plugin->reg(signals.data(), signals.size(), setting.on_gpu,
                    abi::NCCL_NET_MR_FLAG_FORCE_SO | abi::NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET);
    void* stamp_window = plugin->reg(stamps.data(), stamps.size(), setting.on_gpu, 0);
    void* source_window = plugin->reg(source.data(), source.size(), setting.on_gpu, 0);
    void* number_window = plugin->reg(numbers.data(), numbers.size(), false, 0);
    void* got_window = plugin->reg(got.data(), got.size(), setting.on_gpu, 0);
    void* data_window = plugin->reg(data.data(), data.size(), setting.on_gpu, 0);

    if (setting.on_gpu) PretendedCuda::instance().forbid_making(true);

    struct UnderWay {
      void* request;
      Step step;
    };
    std::vector<UnderWay> under_way;
    std::vector<std::size_t> per_rank(all);
    std::vector<std::uint64_t> stamped(all);
    std::mt19937 random(seed + static_cast<unsigned>(rank));
    const auto place = static_cast<std::uint64_t>(rank) * kRegion;
    const auto me = static_cast<std::uint64_t>(rank);
    bool getting = false;

    // A signal that is seen follows the puts before it: the stamp of that number, or a later one, is there.
    const auto look = [&] {
      for (std::size_t other = 0; other < all; ++other) {
        const std::uint64_t count = signals.word(other), stamp = stamps.word(other);
        require(stamp >= count,
                fmt::format("rank {} sees signal {} of rank {} but stamp {}", rank, count, other, stamp));
      }
    };
    const auto end_one = [&](std::size_t at) {
      bool done = false;
      succeed(plugin->test(under_way[at].request, done), "test");
      if (!done) return;
      const Step step = under_way[at].step;
      if (step.kind == Step::Kind::kGet) {
        getting = false;
        const auto there = source_of(seed, static_cast<int>(step.rank));
        const std::vector<std::byte> wanted(
            there.begin() + static_cast<std::ptrdiff_t>(step.from),
            there.begin() + static_cast<std::ptrdiff_t>(step.from + step.size));
        require(got.read(step.to, step.size) == wanted, "a get brought other bytes");
      }
      --per_rank[step.rank];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(at));
    };
    const auto posted = [&](abi::ncclResult_t result, void* const& request, const Step& step) {
      succeed(result, "post");
      require(request != nullptr, "a null request");
      under_way.push_back({request, step});
      ++per_rank[step.rank];
    };
    for (const Step& step : plan_of(seed, rank, ranks, kSanitized ? 60 : 200)) {
      while (per_rank[step.rank] + 2 > 256 || (getting && step.kind == Step::Kind::kGet) ||
             random() % 3 == 0) {
        if (under_way.empty()) break;
        end_one(random() % under_way.size());
        look();
      }
      void* request = nullptr;
      switch (step.kind) {
        case Step::Kind::kPut:
          posted(plugin->put(step.from, source_window, step.size, place + step.to, data_window, step.rank,
                             &request),
                 request, step);
          break;
        case Step::Kind::kPutSignal: {  // a stamp, then bytes with the signal that counts it
          const std::uint64_t number = ++stamped[step.rank];
          posted(plugin->put(8 * number, number_window, 8, 8 * me, stamp_window, step.rank, &request),
                 request, step);
          posted(
              plugin->put_signal(step.from, source_window, step.size, place + step.to, data_window, step.rank,
                                 8 * me, signal_window, 5, abi::NCCL_NET_SIGNAL_OP_INC, &request),
              request, step);
          break;
        }
        case Step::Kind::kSignal:
          posted(plugin->put_signal(
                     0, nullptr, 0, 0, nullptr, step.rank, 8 * all, signal_window, step.value,
                     step.increments ? abi::NCCL_NET_SIGNAL_OP_INC : abi::NCCL_NET_SIGNAL_OP_ADD, &request),
                 request, step);
          break;
        case Step::Kind::kGet:
          posted(plugin->get(step.from, source_window, step.size, step.to, got_window, step.rank, &request),
                 request, step);
          getting = true;
          break;
        case Step::Kind::kFlush:
          posted(plugin->flush(data_window, step.rank, &request), request, step);
          break;
      }
    }
    const Deadline deadline = Deadline::after(kPatience);
    while (!under_way.empty()) {
      end_one(random() % under_way.size());
      require(!deadline.passed(), "operations do not end");
    }
    for (++bootstrap.finished; bootstrap.finished < ranks;) {
      plugin->progress();
      look();
      require(!deadline.passed(), "the other ranks do not end");
    }
    require(!plugin->failed(), "an error is told of");

    std::uint64_t sum = 0;
    std::vector<std::uint64_t> counts(all);
    for (int other = 0; other < ranks; ++other) {
      std::vector<std::byte> wanted(kRegion);
      const std::vector<std::byte> there = source_of(seed, other);
      for (const Step& step : plan_of(seed, other, ranks, kSanitized ? 60 : 200)) {
        if (step.rank != static_cast<std::uint32_t>(rank)) continue;
        if (step.kind == Step::Kind::kSignal) sum += step.increments ? 1 : step.value;
        if (step.kind == Step::Kind::kPutSignal) ++counts[static_cast<std::size_t>(other)];
        if (step.kind == Step::Kind::kPut || step.kind == Step::Kind::kPutSignal)
          std::memcpy(&wanted[step.to], &there[step.from], step.size);
      }
      require(data.read(static_cast<std::size_t>(other) * kRegion, kRegion) == wanted,
              fmt::format("rank {} has other bytes of rank {} than were put", rank, other));
      require(signals.word(static_cast<std::size_t>(other)) == counts[static_cast<std::size_t>(other)],
              "a count");
    }
    require(signals.word(all) == sum, fmt::format("the sum is {} instead of {}", signals.word(all), sum));
    for (void* window : {data_window, got_window, number_window, source_window, stamp_window, signal_window})
      plugin->dereg(window);
  }
  if (setting.on_gpu) {
    PretendedCuda::instance().check_thread();
    for (const std::string& breach : PretendedCuda::instance().breaches()) require(false, breach);
  }
}

class RmaReplay : public testing::TestWithParam<Setting> {
 protected:
  static std::map<std::string, std::string> environment() {
    return {{"TOMBOLO_RMA", "auto"},
            {"TOMBOLO_TRANSPORTS", GetParam().transports},
            {"TOMBOLO_NET_GPU", GetParam().on_gpu ? "staged" : "off"}};
  }
};

TEST_P(RmaReplay, EveryByteAndSignalIsWhereItBelongs) {
  const unsigned seed = test_seed();
  std::mt19937 random(seed);
  const int most = kSanitized || GetParam().on_gpu ? 3 : 8;
  const int ranks = 2 + static_cast<int>(random() % static_cast<unsigned>(most - 1));
  in_child(environment(), [&] {
    run_ranks(ranks,
              [&](int rank, Bootstrap& bootstrap) { replay(GetParam(), seed, rank, ranks, bootstrap); });
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, RmaReplay,
                         testing::Values(Setting{13, "tcp", false}, Setting{14, "tcp", false},
                                         Setting{14, "shm,tcp", false}, Setting{15, "tcp", false},
                                         Setting{15, "shm,tcp", false}, Setting{14, "tcp", true},
                                         Setting{15, "shm,tcp", true}));

TEST(Rma, OffersNothingUnlessAskedFor) {
  in_child({{"TOMBOLO_RMA", ""}}, [] {
    const auto expect_nothing = [](auto& table) {
      void* context = &table;
      int devices = -1;
      EXPECT_EQ(table.init(&context, 1, keep_line), abi::ncclSuccess);
      EXPECT_EQ(context, nullptr);
      EXPECT_EQ(table.devices(&devices), abi::ncclSuccess);
      EXPECT_EQ(devices, 0);
    };
    expect_nothing(table_of<abi::ncclRma_v13_t>("ncclRmaPlugin_v13"));
    expect_nothing(table_of<abi::ncclRma_v14_t>("ncclRmaPlugin_v14"));
    expect_nothing(table_of<abi::ncclRma_v15_t>("ncclRmaPlugin_v15"));
    EXPECT_EQ(log_text, "");
  });
}

TEST(Rma, WhatLiesOutsideAWindowIsRefused) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "tcp"}}, [] {
    run_ranks(2, [](int rank, Bootstrap& bootstrap) {
      Memory memory(1 << 16, false), signals(64, false);
      auto plugin = make_rank(15, rank, 2, bootstrap);
      void* window = plugin->reg(memory.data(), rank == 0 ? 65536 : 8192, false, 0);
      void* signal = plugin->reg(signals.data(), 64, false, 0);
      void* request = nullptr;
      if (rank == 0) {
        // What is wrong on this rank is refused here, and harms nothing.
        require(plugin->put(65536, window, 1, 0, window, 1, &request) == abi::ncclInvalidUsage,
                "beyond the end");
        require(plugin->put(0, window, 1, 0, window, 2, &request) == abi::ncclInvalidUsage, "no such rank");
        require(plugin->put(0, nullptr, 1, 0, window, 1, &request) == abi::ncclInvalidUsage, "no window");
        require(plugin->put_signal(0, window, 1, 0, window, 1, 0, signal, 1, 3, &request) ==
                    abi::ncclInvalidUsage,
                "no such signal operation");
        require(request == nullptr && !plugin->failed(), "an error remains");
        succeed(plugin->put(0, window, 8192, 0, window, 1, &request), "put");
        succeed(plugin->finish(request), "a put that fits");
        // What is wrong there is refused there: the connection has failed.
        succeed(plugin->put(0, window, 8192, 1, window, 1, &request), "put");
        require(plugin->finish(request) == abi::ncclRemoteError, "one byte beyond the other rank's window");
        require(log_text.find(
                    "put of 8192 bytes to rank 1, window 0 at offset 1: rank 1 refused: the range is not "
                    "inside its window of 8192 bytes") != std::string::npos,
                "the line");
        require(plugin->failed(), "no error is told of");
        require(plugin->put(0, window, 1, 0, window, 1, &request) == abi::ncclRemoteError, "after a failure");
        // A signal of this rank's own that is not aligned.
        succeed(plugin->put_signal(0, nullptr, 0, 0, nullptr, 0, 4, signal, 1, 2, &request), "putSignal");
        require(plugin->finish(request) == abi::ncclRemoteError, "a signal that is not aligned");
      }
      for (++bootstrap.finished; bootstrap.finished < 2;) plugin->progress();
      require(memory.word(0) == 0, "bytes that nobody put");
    });
  });
}

TEST(Rma, AnOperationOnARankThatDiesFails) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "tcp"}}, [] {
    const auto body = [](int rank, Bootstrap& bootstrap) {
      Memory memory(1 << 20, false);
      auto plugin = make_rank(14, rank, 2, bootstrap);
      void* window = plugin->reg(memory.data(), memory.size(), false, 0);
      if (rank == 1) {
        while (memory.word(0) == 0) plugin->progress();
        ::kill(::getpid(), SIGKILL);
      }
      const std::vector<std::byte> ones(memory.size(), std::byte{1});
      memory.write(0, ones);
      for (const Deadline deadline = Deadline::after(kPatience);;) {
        void* request = nullptr;
        const abi::ncclResult_t posted = plugin->put(0, window, memory.size(), 0, window, 1, &request);
        if (posted != abi::ncclSuccess || plugin->finish(request) != abi::ncclSuccess) break;
        require(!deadline.passed(), "nothing fails");
      }
      require(plugin->failed(), "no error is told of");
      plugin->dereg(window);
    };
    run_ranks(2, body, 1);
  });
}

TEST(Rma, MemoryMayBeDeregisteredUnderAnOperation) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "tcp"}}, [] {
    run_ranks(2, [](int rank, Bootstrap& bootstrap) {
      auto plugin = make_rank(14, rank, 2, bootstrap);
      auto memory = std::make_unique<Memory>(16 << 20, false);
      void* window = plugin->reg(memory->data(), memory->size(), false, 0);
      if (rank == 0) {
        void* request = nullptr;
        succeed(plugin->put(0, window, memory->size(), 0, window, 1, &request), "put");
        for (int i = 0; i < 1000; ++i) {
          bool done = false;
          succeed(plugin->test(request, done), "test");
          require(!done, "the other rank makes no calls");
        }
        plugin->dereg(window);
        memory.reset();
        require(plugin->finish(request) != abi::ncclSuccess, "the operation did not fail");
      }
      bootstrap.wait();
    });
  });
}

TEST(Rma, DeregisteringWaitsForTheCopiesOfTheGpu) {
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "tcp"}, {"TOMBOLO_NET_GPU", "staged"}}, [] {
    run_ranks(2, [](int rank, Bootstrap& bootstrap) {
      PretendedCuda::instance().reset({.pace = topology::test::PretendedPace::kLate});
      auto plugin = make_rank(14, rank, 2, bootstrap);
      for (const std::size_t size : {std::size_t{64}, std::size_t{100'000}}) {
        auto memory = std::make_unique<Memory>(size, true);
        void* window = plugin->reg(memory->data(), size, true, 0);
        void* request = nullptr;
        // To itself, since a connection that has failed takes no more: one for each size.
        const auto to = static_cast<std::uint32_t>(size == 64 ? rank : 1 - rank);
        succeed(plugin->put(0, window, size, 0, window, to, &request), "put");
        for (int i = 0; i < 10; ++i) plugin->progress();
        plugin->dereg(window);
        memory.reset();
        bool done = false;
        require(plugin->test(request, done) != abi::ncclSuccess, "the operation did not fail");
        bootstrap.wait();
      }
      plugin.reset();
      for (const std::string& breach : PretendedCuda::instance().breaches()) require(false, breach);
    });
  });
}

TEST(Rma, WindowsComeAndGoBesideOperations) {
  constexpr int kRanks = 3, kPuts = 200, kWindows = 50;
  in_child({{"TOMBOLO_RMA", "auto"}, {"TOMBOLO_TRANSPORTS", "shm,tcp"}}, [] {
    run_ranks(kRanks, [](int rank, Bootstrap& bootstrap) {
      Memory memory(1 << 16, false), signals(8, false), others(1 << 16, false);
      auto plugin = make_rank(15, rank, kRanks, bootstrap);
      void* window = plugin->reg(memory.data(), memory.size(), false, 0);
      void* signal = plugin->reg(signals.data(), signals.size(), false, 0);
      // NCCL's progress thread, beside the one in which its user registers windows.
      std::string wrong;
      std::thread progress([&] {
        try {
          for (std::uint64_t i = 0; i < kPuts; ++i) {
            void* request = nullptr;
            succeed(plugin->put_signal(0, window, 1 + (i * 997) % 30'000, 32'768, window,
                                       static_cast<std::uint32_t>((rank + 1) % kRanks), 0, signal, 1,
                                       abi::NCCL_NET_SIGNAL_OP_INC, &request),
                    "putSignal");
            succeed(plugin->finish(request), "test");
          }
          for (++bootstrap.finished; bootstrap.finished < kRanks;) plugin->progress();
        } catch (const std::exception& error) {
          wrong = error.what();
        }
      });
      for (int i = 0; i < kWindows; ++i) {
        void* another = plugin->reg(others.data(), others.size(), false, 0);
        plugin->dereg(another);
      }
      progress.join();
      require(wrong.empty(), wrong);
      require(signals.word(0) == kPuts, "the signals");
      plugin->dereg(signal);
      plugin->dereg(window);
    });
  });
}

}  // namespace
}  // namespace tombolo::tests
