// A net plugin through NCCL's ABI, beside plain TCP and, where given, other plugins: between two processes
// over loopback, in turns in one run.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "bench/ways.h"
#include "net_plugin/client.h"

namespace {

using namespace tombolo;
using namespace tombolo::bench;
using namespace tombolo::net_plugin;

constexpr std::array<std::size_t, 6> kSizes{8, 8 * kKiB, 64 * kKiB, kMiB, 4 * kMiB, 64 * kMiB};
constexpr Duration kDeadline = std::chrono::seconds(60);

struct Plan {
  std::vector<std::string> plugins{TOMBOLO_NET_PLUGIN_PATH};
  int abi = 0;  ///< 0 = the newest that a plugin has
  int repeats = 5;
  double bytes_per_run = 256e6;
  std::size_t largest = kSizes.back();
};

/// The plugins' warnings, to standard error; the rest is NCCL's business.
void log_warnings(int level, unsigned long, const char*, int, const char* format, ...) {
  if (level != abi::kLogWarn) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
}

void check(abi::Result result, const char* operation) {
  if (result != abi::kSuccess) fail(Cause::kSystem, "{} failed with NCCL result {}", operation, result);
}

std::unique_ptr<Client> load(const std::string& path, int abi) {
  if (abi != 0) return Client::load(path, abi);
  for (int version = kNewestAbi; version > kOldestAbi; --version) {
    try {
      return Client::load(path, version);
    } catch (const Error& error) {
      if (error.cause() != Cause::kUnsupported) throw;
    }
  }
  return Client::load(path, kOldestAbi);
}

/// A loaded plugin with a connection each way to the other process.
class Plugin final : public Way {
 public:
  /// `channel` carries the handles; the other process constructs its end at the same time.
  Plugin(const std::string& path, int abi, int channel) : client_(load(path, abi)) {
    check(client_->init(&context_, 1, log_warnings), "init");
    std::array<std::byte, abi::kHandleBytes> own{}, others{};
    void* listen_comm = nullptr;
    check(client_->listen(context_, 0, own.data(), &listen_comm), "listen");
    if (::send(channel, own.data(), own.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(own.size()) ||
        ::recv(channel, others.data(), others.size(), MSG_WAITALL) != static_cast<ssize_t>(others.size())) {
      fail(Cause::kRemote, "exchanging handles: the other process is gone");
    }
    for (Deadline deadline = Deadline::after(kDeadline); send_ == nullptr || receive_ == nullptr;) {
      if (send_ == nullptr) check(client_->connect(context_, 0, others.data(), &send_), "connect");
      if (receive_ == nullptr) check(client_->accept(listen_comm, &receive_), "accept");
      if (deadline.passed()) fail(Cause::kTimeout, "no connection after {} s", to_seconds(kDeadline));
    }
    check(client_->close_listen(listen_comm), "closeListen");
  }
  ~Plugin() override {
    client_->close_send(send_);
    client_->close_receive(receive_);
    client_->finalize(context_);
  }

  std::string name() const { return fmt::format("{} v{}", client_->name(), client_->abi_version()); }

  void send(std::span<const std::byte> data) override { finish(post(true, data.data(), data.size())); }
  void receive(std::span<std::byte> buffer) override { finish(post(false, buffer.data(), buffer.size())); }
  void stream(bool sending, std::span<std::byte> slots, std::size_t size, std::size_t count) override {
    // As NCCL: up to eight in flight, the oldest tested.
    std::array<void*, kOutstanding> open{};
    for (std::size_t i = 0; i < count + kOutstanding; ++i) {
      void*& request = open[i % kOutstanding];
      if (request != nullptr) finish(request);
      request = i < count ? post(sending, slots.data() + i % kOutstanding * size, size) : nullptr;
    }
  }

 private:
  void* post(bool sending, const std::byte* data, std::size_t size) {
    auto* bytes = const_cast<std::byte*>(data);
    for (void* request = nullptr;;) {
      check(sending ? client_->send(send_, bytes, size, nullptr, &request)
                    : client_->receive(receive_, bytes, size, nullptr, &request),
            sending ? "isend" : "irecv");
      if (request != nullptr) return request;
    }
  }
  void finish(void* request) {
    for (int done = 0; done == 0;) check(client_->test(request, &done, nullptr), "test");
  }

  std::unique_ptr<Client> client_;
  void *context_ = nullptr, *send_ = nullptr, *receive_ = nullptr;
};

void print(const std::vector<std::string>& names, const std::vector<std::vector<Figure>>& figures) {
  std::printf(
      "half round trip in us, throughput in GB/s with %zu outstanding, CPU seconds of the sender per GB\n",
      kOutstanding);
  std::printf("%10s", "size");
  for (const std::string& name : names) std::printf(" | %16s %8s %6s", name.c_str(), "GB/s", "CPU");
  std::printf("\n");
  for (std::size_t size = 0; size < kSizes.size() && !figures[0][size].rates.empty(); ++size) {
    std::printf("%10s", format_size(kSizes[size]).c_str());
    for (const auto& way : figures) {
      const Figure& figure = way[size];
      std::printf(" | %16.2f %8.3f %6.2f", median(figure.half_round_trips) * 1e6, median(figure.rates) / 1e9,
                  median(figure.processor));
    }
    std::printf("\n");
  }
}

void run(const Plan& plan, int channel, int socket, bool leading) {
  std::vector<std::string> names{"plain TCP"};
  std::vector<std::unique_ptr<Way>> ways;
  ways.push_back(std::make_unique<PlainTcp>(socket));
  for (const std::string& path : plan.plugins) {
    auto plugin = std::make_unique<Plugin>(path, plan.abi, channel);
    names.push_back(plugin->name());
    ways.push_back(std::move(plugin));
  }
  std::vector<std::byte> slots(kOutstanding * plan.largest);
  std::vector<std::vector<Figure>> figures(ways.size(), std::vector<Figure>(kSizes.size()));
  for (std::size_t size = 0; size < kSizes.size() && kSizes[size] <= plan.largest; ++size) {
    for (int repeat = 0; repeat < plan.repeats; ++repeat) {
      for (std::size_t way = 0; way < ways.size(); ++way) {
        measure(*ways[way], leading, plan.bytes_per_run, kSizes[size], slots, figures[way][size]);
      }
    }
  }
  if (leading) print(names, figures);
}

int lead(const Plan& plan) {
  auto [near, far] = plain_pair();
  int channel[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, channel) != 0) fail_errno(errno, "socketpair");
  pid_t child = ::fork();
  if (child < 0) fail_errno(errno, "fork");
  bool leading = child != 0;
  if (!leading) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::close(leading ? far : near);
  ::close(channel[leading ? 1 : 0]);
  int status = 0;
  try {
    run(plan, channel[leading ? 0 : 1], leading ? near : far, leading);
  } catch (const Error& error) {
    std::fprintf(stderr, "net_plugin_perf, %s process: %s\n", leading ? "first" : "second", error.what());
    status = 1;
  }
  if (!leading) ::_exit(status);
  if (status != 0) ::kill(child, SIGKILL);
  int ended = 0;
  ::waitpid(child, &ended, 0);
  return status != 0 || ended != 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CLI::App app(
      "Net plugins through NCCL's ABI, beside plain TCP, between two processes over loopback: half round "
      "trip, and "
      "throughput with 8 messages outstanding. Medians of measurements in turns.");
  app.add_option("--plugin", plan.plugins, "libraries to measure (default: Tombolo's)");
  app.add_option("--abi", plan.abi, "ABI version (default: the newest that a library has)")
      ->check(CLI::Range(kOldestAbi, kNewestAbi));
  app.add_option("--repeats", plan.repeats, "measurements of each, in turns")->check(CLI::Range(1, 1000));
  app.add_option("--bytes", plan.bytes_per_run, "bytes per throughput measurement (16 to 50000 messages)")
      ->check(CLI::Range(1.0, 1e12));
  app.add_option("--largest", plan.largest, "skip messages of more bytes (default 64 MiB)")
      ->check(CLI::Range(kSizes.front(), kSizes.back()));
  CLI11_PARSE(app, argc, argv);
  try {
    return lead(plan);
  } catch (const Error& error) {
    std::fprintf(stderr, "net_plugin_perf: %s\n", error.what());
    return 1;
  }
}
