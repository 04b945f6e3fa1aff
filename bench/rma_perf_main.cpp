// Measures the plugin's one-sided operations beside its isend and irecv, through NCCL's tables, between two
// processes of one host: half a round trip of a put with a signal, and the rate of puts.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "bench/channels.h"
#include "net_plugin/abi/rma.h"

namespace {

using namespace tombolo;
using namespace tombolo::bench;
namespace abi = net_plugin::abi;

constexpr std::size_t kLargest = std::size_t{1} << 20;
constexpr std::size_t kSlots = 8;  // as many messages are under way

constexpr std::array<std::size_t, 2> kTrips{8, 8192};  // bytes of the messages of round trips

struct Plan {
  std::string plugin = TOMBOLO_NET_PLUGIN_PATH;
  std::vector<std::string> transports{"tcp", "shm"};
  int trips = 2000;
  int puts = 512;
  std::string json;
};

/// Of isend with irecv, and of put.
struct Pair {
  double two_sided = 0, one_sided = 0;
};
/// Of one transport.
struct Figures {
  std::array<Pair, kTrips.size()> half_round_trip_seconds;
  Pair bytes_per_second;  // of messages of kLargest
};

/// Written by a process of the measurement, read by its parent.
class SharedFigures {
 public:
  SharedFigures() {
    void* mapped =
        ::mmap(nullptr, sizeof(Figures), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) fail_errno(errno, "memory for the figures");
    figures_ = new (mapped) Figures;
  }
  ~SharedFigures() { ::munmap(figures_, sizeof(Figures)); }
  SharedFigures(const SharedFigures&) = delete;
  SharedFigures& operator=(const SharedFigures&) = delete;
  Figures& operator*() const { return *figures_; }

 private:
  Figures* figures_;
};

void succeed(abi::ncclResult_t result, const char* what) {
  if (result != abi::ncclSuccess) fail(Cause::kInternal, "{}: result {}", what, static_cast<int>(result));
}

void quiet(abi::ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {}

/// Both ends call it at the same time.
void meet(int control) {
  char byte = 0;
  if (::write(control, &byte, 1) != 1 || ::read(control, &byte, 1) != 1)
    fail(Cause::kRemote, "the other process has ended");
}

/// One end of a group of two ranks: a window of kSlots messages and one of signals.
class Rma {
 public:
  Rma(const std::string& plugin, std::uint32_t rank, int control)
      : peer_(1 - rank), memory_(kSlots * kLargest / 8), signals_(2) {
    void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) table_ = static_cast<abi::ncclRma_v15_t*>(::dlsym(library, "ncclRmaPlugin_v15"));
    if (table_ == nullptr) fail(Cause::kSystem, "{} has no ncclRmaPlugin_v15: {}", plugin, ::dlerror());
    succeed(table_->init(&context_, 1, quiet), "init");
    if (context_ == nullptr) fail(Cause::kInternal, "the plugin offers no one-sided operations");
    std::array<std::array<std::byte, abi::NCCL_NET_HANDLE_MAXSIZE>, 2> handles{};
    void* listening = nullptr;
    succeed(table_->listen(context_, 0, &handles[rank], &listening), "listen");
    if (::write(control, &handles[rank], sizeof(handles[rank])) != sizeof(handles[rank]) ||
        ::recv(control, &handles[peer_], sizeof(handles[peer_]), MSG_WAITALL) != sizeof(handles[peer_])) {
      fail(Cause::kRemote, "the other process has ended");
    }
    std::array<void*, 2> places{&handles[0], &handles[1]};
    succeed(table_->connect(nullptr, places.data(), 2, static_cast<int>(rank), listening, &group_),
            "connect");
    succeed(table_->closeListen(listening), "closeListen");
    abi::ncclRmaConfig_v15_t config{1, abi::NCCL_NET_TRAFFIC_CLASS_UNDEF, 1};
    succeed(table_->createContext(group_, &config, &rma_), "createContext");
    succeed(table_->regMrSym(group_, memory_.data(), memory_.size() * 8, abi::NCCL_PTR_HOST, 0, &window_),
            "regMrSym");
    succeed(table_->regMrSym(group_, signals_.data(), signals_.size() * 8, abi::NCCL_PTR_HOST,
                             abi::NCCL_NET_MR_FLAG_FORCE_SO, &signal_window_),
            "regMrSym");
  }
  ~Rma() {
    table_->destroyContext(rma_);
    table_->closeColl(group_);
    table_->finalize(context_);
  }
  Rma(const Rma&) = delete;
  Rma& operator=(const Rma&) = delete;

  void* put(std::size_t slot, std::size_t size) {
    void* request = nullptr;
    succeed(table_->iput(rma_, 0, slot * size, window_, size, slot * size, window_, peer_, 0, &request),
            "iput");
    return request;
  }
  void* put_with_signal(std::size_t size) {
    void* request = nullptr;
    succeed(table_->iputSignal(rma_, 0, 0, window_, size, 0, window_, peer_, 0, signal_window_, 1,
                               abi::NCCL_NET_SIGNAL_OP_INC, true, 0, &request),
            "iputSignal");
    return request;
  }
  void finish(void* request) {
    int done = 0;
    for (unsigned passes = 1;; ++passes) {
      succeed(table_->test(group_, request, &done), "test");
      if (done != 0) return;
      spin_and_yield(passes);
    }
  }
  void await_signal(std::uint64_t count) {
    for (unsigned passes = 1; std::atomic_ref(signals_[0]).load(std::memory_order_acquire) < count;
         ++passes) {
      succeed(table_->rmaProgress(rma_), "rmaProgress");
      spin_and_yield(passes);
    }
  }

 private:
  abi::ncclRma_v15_t* table_ = nullptr;
  std::uint32_t peer_;
  std::vector<std::uint64_t> memory_, signals_;
  void *context_ = nullptr, *group_ = nullptr, *rma_ = nullptr, *window_ = nullptr, *signal_window_ = nullptr;
};

double seconds_of(const auto& body) {
  const TimePoint begin = Clock::steady().now();
  body();
  return to_seconds(Clock::steady().now() - begin);
}

/// One of the two processes; rank 0 fills in the figures.
void run(const Plan& plan, const std::string& transport, std::uint32_t rank, int control, Figures& figures) {
  ::setenv("TOMBOLO_RMA", "auto", 1);
  ::setenv("TOMBOLO_TRANSPORTS", transport.c_str(), 1);
  const bool first = rank == 0;
  std::vector<std::byte> slots(kSlots * kLargest);
  PluginChannels channels(load_plugin(plan.plugin, 0), 1, control);
  Rma rma(plan.plugin, rank, control);
  std::uint64_t signals = 0;
  for (std::size_t i = 0; i < kTrips.size(); ++i) {
    const std::size_t size = kTrips[i];
    const auto message = std::span(slots).first(size);
    const auto there_and_back = [&] {
      if (first) channels.send(message);
      channels.receive(message);
      if (!first) channels.send(message);
    };
    void* last = nullptr;
    const auto put_and_back = [&] {
      if (first) last = rma.put_with_signal(size);
      rma.await_signal(++signals);
      if (!first) last = rma.put_with_signal(size);
      rma.finish(last);
    };
    const auto half = [&](const auto& trip) {
      for (int j = 0; j < plan.trips / 10; ++j) trip();
      meet(control);
      return seconds_of([&] {
               for (int j = 0; j < plan.trips; ++j) trip();
             }) /
             plan.trips / 2;
    };
    const double two_sided = half(there_and_back), one_sided = half(put_and_back);
    if (first) figures.half_round_trip_seconds[i] = {two_sided, one_sided};
  }
  Stream stream;
  stream.size = kLargest;
  stream.count = static_cast<std::size_t>(plan.puts);
  stream.slots = slots;
  const auto puts = [&] {
    if (!first) return rma.await_signal(signals + 1);
    std::deque<void*> under_way;
    for (std::size_t i = 0; i < stream.count; ++i) {
      if (under_way.size() == kSlots) {
        rma.finish(under_way.front());
        under_way.pop_front();
      }
      under_way.push_back(rma.put(i % kSlots, kLargest));
    }
    for (void* request : under_way) rma.finish(request);
    rma.finish(rma.put_with_signal(8));  // the other end waits for it
  };
  meet(control);
  const double two_sided = seconds_of([&] { channels.stream(first, stream); });
  meet(control);
  const double one_sided = seconds_of(puts);
  const double bytes = static_cast<double>(stream.count * kLargest);
  if (first) figures.bytes_per_second = {bytes / two_sided, bytes / one_sided};
  meet(control);
}

/// Of one transport, between two processes. Throws where one of them fails.
Figures measure(const Plan& plan, const std::string& transport) {
  const SharedFigures figures;
  std::array<int, 2> control{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control.data()) != 0)
    fail_errno(errno, "socketpair");
  std::array<pid_t, 2> processes{};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    processes[rank] = ::fork();
    if (processes[rank] < 0) fail_errno(errno, "fork");
    if (processes[rank] != 0) continue;
    ::close(control[1 - rank]);
    int code = 0;
    try {
      run(plan, transport, rank, control[rank], *figures);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rma_perf: %s: %s\n", transport.c_str(), error.what());
      code = 1;
    }
    std::fflush(nullptr);
    std::_Exit(code);
  }
  for (const int one : control) ::close(one);
  bool good = true;
  for (const pid_t process : processes) {
    int status = 0;
    ::waitpid(process, &status, 0);
    good = good && status == 0;
  }
  if (!good) fail(Cause::kSystem, "{}: a process of the measurement has failed", transport);
  return *figures;
}

void print(const std::string& transport, const Figures& figures) {
  const auto row = [&](std::size_t size, const char* what, const std::string& two_sided,
                       const std::string& one_sided) {
    std::printf("%-4s %8s  %-16s %14s %14s\n", transport.c_str(), format_size(size).c_str(), what,
                two_sided.c_str(), one_sided.c_str());
  };
  for (std::size_t i = 0; i < kTrips.size(); ++i) {
    const Pair& half = figures.half_round_trip_seconds[i];
    row(kTrips[i], "half round trip", format_seconds(half.two_sided), format_seconds(half.one_sided));
  }
  const Pair& rate = figures.bytes_per_second;
  row(kLargest, "8 under way", fmt::format("{:.2f} GB/s", rate.two_sided / 1e9),
      fmt::format("{:.2f} GB/s", rate.one_sided / 1e9));
  std::fflush(stdout);
}

Json as_json(const std::vector<std::pair<std::string, Figures>>& all) {
  const auto both = [](const Pair& pair) { return Json{{"isend", pair.two_sided}, {"put", pair.one_sided}}; };
  Json json{{"outstanding", kSlots}};
  for (const auto& [transport, figures] : all) {
    for (std::size_t i = 0; i < kTrips.size(); ++i) {
      json["latency"].push_back({{"transport", transport},
                                 {"bytes", kTrips[i]},
                                 {"half_round_trip_seconds", both(figures.half_round_trip_seconds[i])}});
    }
    json["throughput"].push_back({{"transport", transport},
                                  {"bytes", kLargest},
                                  {"bytes_per_second", both(figures.bytes_per_second)}});
  }
  return json;
}

void measure_all(const Plan& plan) {
  std::printf("%-4s %8s  %-16s %14s %14s\n", "", "bytes", "", "isend, irecv", "put");
  std::fflush(stdout);
  std::vector<std::pair<std::string, Figures>> all;
  for (const std::string& transport : plan.transports) {
    all.emplace_back(transport, measure(plan, transport));
    print(transport, all.back().second);
  }
  if (!plan.json.empty()) write_text_file(plan.json, as_json(all).dump(1) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CLI::App app(
      "Measures put and signal of the NCCL plugin beside its isend and irecv, between two processes.");
  app.add_option("--plugin", plan.plugin, "the plugin's library");
  app.add_option("--transports", plan.transports, "which transports, a comma list")->delimiter(',');
  app.add_option("--trips", plan.trips, "round trips for each size")->check(CLI::Range(10, 1'000'000));
  app.add_option("--puts", plan.puts, "messages of 1 MiB")->check(CLI::Range(1, 1'000'000));
  app.add_option("--json", plan.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    measure_all(plan);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rma_perf: %s\n", error.what());
    return 1;
  }
}
