// Ranks as processes that call NCCL's tables of one-sided operations, and the memory of their windows.
#pragma once

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
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/format.h"
#include "net_plugin/abi/net.h"
#include "net_plugin/abi/rma.h"
#include "tests/process/in_child.h"
#include "tests/process/plugin_library.h"
#include "topology/testing/pretended_cuda.h"

namespace tombolo::tests {

namespace abi = net_plugin::abi;
using topology::test::PretendedCuda;

inline constexpr std::size_t kMostRanks = 8;
inline constexpr Duration kPatience = std::chrono::seconds(120);  // an emulated machine may be slow

/// Throws where a call does not answer as it must; also in processes, where googletest's macros are not.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what + "\n" + log_text);
}
inline void succeed(abi::ncclResult_t result, const char* what) {
  require(result == abi::ncclSuccess, fmt::format("{}: result {}", what, static_cast<int>(result)));
}

/// What the ranks share in place of NCCL's bootstrap.
struct Bootstrap {
  pthread_barrier_t barrier;
  std::array<std::array<std::byte, abi::NCCL_NET_HANDLE_MAXSIZE>, kMostRanks> handles;
  std::atomic<int> finished{0}, met{0};
  static_assert(std::atomic<int>::is_always_lock_free);

  void wait() { ::pthread_barrier_wait(&barrier); }
};

/// Runs `body` as so many ranks, each a process, and expects that all succeed but `killed`.
/// TOMBOLO_TEST_PEER_HOST gives every other rank another TOMBOLO_HOST.
inline void run_ranks(int ranks, const std::function<void(int rank, Bootstrap&)>& body, int killed = -1) {
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
      ::alarm(240);  // a rank that hangs ends the test
      const char* peer_host = std::getenv("TOMBOLO_TEST_PEER_HOST");
      if (rank % 2 == 1 && peer_host != nullptr) ::setenv("TOMBOLO_HOST", peer_host, 1);
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

inline std::unique_ptr<Rank> make_rank(int version, int rank, int ranks, Bootstrap& bootstrap) {
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

}  // namespace tombolo::tests
