// Measures one connection over long, lossy or several paths between two hosts, beside plain TCP in the same
// run: through the transport's interface, and through NCCL's ABI. Two ranks of this program run on the hosts,
// started by `tombolo run` or another launcher.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "bench/channels.h"
#include "bench/ways.h"
#include "topology/detect.h"
#include "topology/files/cluster_file.h"
#include "transport/routing/router.h"

namespace {

using namespace tombolo;
using namespace tombolo::bench;

constexpr Duration kSetUp = std::chrono::seconds(60);
/// The settings that decide how TCP fills a long path, with the values of a stock Linux kernel. Each network
/// namespace has its own, copied from the machine's first namespace when it is made.
constexpr std::string_view kCongestion = "tcp_congestion_control";
constexpr std::array<std::pair<const char*, const char*>, 3> kStock{{{"tcp_congestion_control", "cubic"},
                                                                     {"tcp_rmem", "4096 131072 6291456"},
                                                                     {"tcp_wmem", "4096 16384 4194304"}}};

constexpr std::string_view kEach = "plain-each";

struct Plan {
  std::string plugin = TOMBOLO_NET_PLUGIN_PATH;
  std::vector<std::string> sizes{"1M", "4M"};
  std::vector<std::string> ways{"plain", "plain-many", "transport", "plugin"};
  int streams = 8;
  double warm_up = 2;
  int seconds = 4;
  int rounds = 2;
  std::string link, congestion;
  bool stock = false;
  std::string json;
};

/// The control connection to the other rank: small messages, and the handles of plugins.
class Control {
 public:
  Control(int rank, const std::string& address, int port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::inet_pton(AF_INET, address.c_str(), &at.sin_addr) != 1)
      fail(Cause::kInvalidUsage, "MASTER_ADDR '{}' is no numeric IPv4 address", address);
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto* generic = reinterpret_cast<sockaddr*>(&at);
    int one = 1;
    if (rank == 0) {
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
      if (::bind(socket.get(), generic, sizeof at) != 0 || ::listen(socket.get(), 1) != 0)
        fail_errno(errno, fmt::format("listening at {}:{}", address, port));
      pollfd wait{socket.get(), POLLIN, 0};
      if (::poll(&wait, 1, 60'000) != 1) fail(Cause::kTimeout, "rank 1 did not come within 60 s");
      socket_.reset(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    } else {
      for (Deadline deadline = Deadline::after(kSetUp);;) {
        if (::connect(socket.get(), generic, sizeof at) == 0) break;
        if (deadline.passed()) fail_errno(errno, fmt::format("connecting to rank 0 at {}:{}", address, port));
        ::usleep(20'000);
        socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      }
      socket_ = std::move(socket);
    }
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }

  int socket() const { return socket_.get(); }
  bool readable() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }
  void put(const std::string& text) {
    std::uint32_t size = static_cast<std::uint32_t>(text.size());
    if (::send(socket_.get(), &size, sizeof size, MSG_NOSIGNAL) != sizeof size ||
        ::send(socket_.get(), text.data(), size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
      fail_errno(errno, "telling the other rank");
    }
  }
  std::string get() {
    std::uint32_t size = 0;
    if (::recv(socket_.get(), &size, sizeof size, MSG_WAITALL) != sizeof size || size > 1 << 20)
      fail(Cause::kRemote, "the other rank is gone");
    std::string text(size, '\0');
    if (size > 0 && ::recv(socket_.get(), text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
      fail(Cause::kRemote, "the other rank is gone");
    return text;
  }

 private:
  Descriptor socket_;
};

/// A connection of the transport's interface.
class TransportChannels final : public Channels {
 public:
  explicit TransportChannels(std::unique_ptr<transport::Connection> connection)
      : connection_(std::move(connection)) {}
  std::string name() const override {
    const auto counts = connection_->statistics();
    return fmt::format("{}; {} of {} streams live", connection_->route().reason, counts.live_streams,
                       counts.decided_streams);
  }
  void send(std::span<std::byte> data) override { finish(connection_->post_send(data)); }
  void receive(std::span<std::byte> buffer) override { finish(connection_->post_receive(buffer)); }
  void stream(bool sending, const Stream& stream) override {
    std::array<transport::Request*, kOutstanding> open{};
    std::size_t posted = 0;
    bool ending = false;
    auto ask = [&] { ending = ending || (stream.go_on && !stream.go_on()); };
    for (std::size_t finished = 0; finished < (ending ? posted : stream.count);) {
      while (!ending && posted < stream.count && posted < finished + kOutstanding) {
        auto slot = stream.slot(0, posted);
        if (sending) stamp(slot, 0, posted);
        auto* request = sending ? connection_->post_send(slot) : connection_->post_receive(slot);
        if (request == nullptr) break;
        open[posted++ % kOutstanding] = request;
      }
      std::size_t bytes = 0;
      const auto outcome = connection_->test(open[finished % kOutstanding], bytes);
      if (outcome == transport::Outcome::kFailed) throw *connection_->error();
      if (outcome == transport::Outcome::kPending) {
        stream.idle(1);
        ask();
      } else {
        if (!sending) {
          check_stamp(stream.slot(0, finished), 0, finished);
          if (stream.received != nullptr) *stream.received += bytes;
        }
        if (++finished % kPassesPerQuestion == 0) ask();
      }
      if (ending && !sending) return;
    }
  }

 private:
  void finish(transport::Request* request) {
    std::size_t bytes = 0;
    for (;;) {
      auto outcome = connection_->test(request, bytes);
      if (outcome == transport::Outcome::kDone) return;
      if (outcome == transport::Outcome::kFailed) throw *connection_->error();
    }
  }
  std::unique_ptr<transport::Connection> connection_;
};

/// One measurement.
struct Turn {
  std::string way;
  std::size_t size = 0;  ///< message size
  std::size_t path = 0;  ///< path that plain-each uses
};

struct WayResult {
  std::string key;
  std::vector<double> rates;      ///< bytes per second, one per round
  std::vector<double> seconds;    ///< bytes per second, one per second of measurement
  std::vector<double> processor;  ///< seconds per GB of both ranks, one per round
  std::string route;
};

class Bench {
 public:
  Bench(const Plan& plan, int rank, Control& control)
      : plan_(plan), rank_(rank), control_(control), host_(topology::local_host({})) {}

  void run() {
    set_up_sysctls();
    agree_on_paths();
    std::vector<Turn> turns;
    for (const std::string& way : plan_.ways) {
      // A stream of bytes has no messages, so only one size is measured.
      const std::size_t sizes = way.starts_with("plain") ? 1 : plan_.sizes.size();
      for (std::size_t size = 0; size < sizes; ++size)
        for (std::size_t path = 0; path < (way == kEach ? paths_.size() : 1); ++path)
          turns.push_back({way, parse_size(plan_.sizes.at(size), "--sizes"), path});
    }
    for (int round = 0; round < plan_.rounds; ++round)
      for (const Turn& turn : turns) measure(turn);
    if (rank_ == 0) report();
  }

 private:
  bool receiving() const { return rank_ == 0; }

  void set_up_sysctls() {
    auto cluster = topology::cluster_file_from_environment();
    if (plan_.stock && !(cluster && cluster->emulated))
      fail(Cause::kInvalidUsage, "--stock-sysctls changes the host's settings: only in an emulation");
    for (const auto& [name, value] : kStock) {
      const std::string path = std::string("/proc/sys/net/ipv4/") + name;
      auto write = [&](const char* text) { return bool(std::ofstream(path) << text << std::flush); };
      // A namespace may only use what the machine's first one permits in tcp_allowed_congestion_control. reno
      // always is; on lossy paths it is no better than cubic.
      if (plan_.stock && !write(value) && !(std::string_view(name) == kCongestion && write("reno")))
        fail(Cause::kSystem, "writing '{}' to {}", value, path);
      std::string now;
      std::getline(std::ifstream(path), now);
      std::ranges::replace(now, '\t', ' ');
      sysctls_[name] = now;
    }
    if (!receiving()) return;
    std::printf("in this host's network namespace:");
    for (const auto& [name, value] : sysctls_)
      std::printf(" net.ipv4.%s=\"%s\"", name.c_str(), value.c_str());
    std::printf("\n");
    std::fflush(stdout);
  }

  // The receiver's addresses on fabrics on which the sender has a NIC too, in the receiver's order: best
  // first.
  void agree_on_paths() {
    Json mine = Json::array();
    for (const topology::Nic& nic : host_.nics) {
      if (!nic.addresses.empty()) mine.push_back({nic.fabric, nic.addresses[0], nic.rate_bits_per_second});
    }
    control_.put(mine.dump());
    const Json theirs = Json::parse(control_.get());
    const Json& receivers = receiving() ? mine : theirs;
    const Json& senders = receiving() ? theirs : mine;
    for (const Json& to : receivers) {
      for (const Json& from : senders) {
        if (to[0] != from[0]) continue;
        paths_.push_back({from[1], to[1]});
        break;
      }
    }
    if (paths_.empty()) fail(Cause::kUnsupported, "the two ranks have no fabric in common");
  }

  /// Distributes the streams over the paths in turn, from `path` on.
  std::unique_ptr<Channels> make_plain(int streams, std::size_t path) {
    std::vector<int> sockets;
    for (int i = 0; i < streams; ++i) {
      const auto& [from, to] = paths_[path++ % paths_.size()];
      sockaddr_in at{};
      at.sin_family = AF_INET;
      ::inet_pton(AF_INET, (receiving() ? to : from).c_str(), &at.sin_addr);
      auto* generic = reinterpret_cast<sockaddr*>(&at);
      socklen_t length = sizeof at;
      Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const std::string& congestion = plan_.congestion;
      if (!congestion.empty() && ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                                              static_cast<socklen_t>(congestion.size())) != 0) {
        fail_errno(errno, "TCP_CONGESTION " + congestion);
      }
      if (::bind(socket.get(), generic, length) != 0) fail_errno(errno, "binding a plain stream");
      if (receiving()) {
        if (::listen(socket.get(), 1) != 0 || ::getsockname(socket.get(), generic, &length) != 0)
          fail_errno(errno, "listening for a plain stream");
        control_.put(std::to_string(ntohs(at.sin_port)));
        pollfd wait{socket.get(), POLLIN, 0};
        if (::poll(&wait, 1, 60'000) != 1) fail(Cause::kTimeout, "no plain stream within 60 s");
        sockets.push_back(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      } else {
        at.sin_port = htons(static_cast<std::uint16_t>(std::stoi(control_.get())));
        ::inet_pton(AF_INET, to.c_str(), &at.sin_addr);
        if (::connect(socket.get(), generic, sizeof at) != 0) fail_errno(errno, "connecting a plain stream");
        sockets.push_back(socket.release());
      }
    }
    return std::make_unique<PlainChannels>(std::move(sockets));
  }

  std::unique_ptr<Channels> make_transport() {
    transport::RouterOptions options = transport::RouterOptions::from_environment();
    options.host = host_;
    options.policy.transports = {"tcp"};
    auto text = [](std::span<const std::byte> bytes) {
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    std::unique_ptr<transport::Connection> connection;
    if (receiving()) {
      options.secret = transport::Secret::random();
      transport::Router router(options);
      auto listener = router.listen();
      control_.put(text(options.secret.bytes()) + text(listener->endpoint().encode()));
      for (Deadline deadline = Deadline::after(kSetUp); !(connection = listener->accept()); ::usleep(500)) {
        if (deadline.passed()) fail(Cause::kTimeout, "no connection within {} s", to_seconds(kSetUp));
      }
    } else {
      const std::string told = control_.get();
      auto bytes = std::as_bytes(std::span(told));
      options.secret = transport::Secret::from_bytes(bytes.first<transport::Secret::kBytes>());
      transport::Router router(options);
      auto connecting =
          router.connect(transport::Endpoint::decode(bytes.subspan(transport::Secret::kBytes)), {});
      while (!(connection = connecting->poll())) ::usleep(500);
    }
    return std::make_unique<TransportChannels>(std::move(connection));
  }

  std::unique_ptr<Channels> make(const Turn& turn) {
    if (turn.way == "plain" || turn.way == kEach) return make_plain(1, turn.path);
    if (turn.way == "plain-many") return make_plain(plan_.streams, 0);
    if (turn.way == "transport") return make_transport();
    ::setenv("TOMBOLO_TRANSPORTS", "tcp", 1);
    return std::make_unique<PluginChannels>(load_plugin(plan_.plugin, 0), 1, control_.socket());
  }

  std::string key_of(const Turn& turn) const {
    if (turn.way == "plain") return "plain TCP";
    if (turn.way == kEach) return fmt::format("plain TCP, path {} alone", turn.path + 1);
    if (turn.way == "plain-many") return fmt::format("plain TCP x{}", plan_.streams);
    return fmt::format("{} {}", turn.way, format_size(turn.size));
  }

  void measure(const Turn& turn) {
    const bool many = turn.way == "plain-many";
    auto channels = make(turn);
    std::uint64_t received = 0;
    Stream stream;
    stream.channels = many ? static_cast<std::size_t>(plan_.streams) : 1;
    stream.size = turn.size;
    stream.count = ~std::size_t{0} / turn.size;  // until told to stop
    slots_.resize(std::max(slots_.size(), stream.channels * kOutstanding * turn.size));
    stream.slots = slots_;
    stream.received = &received;
    // Neither end spins, because the emulation of the link runs on the same processors.
    stream.idle = [](unsigned) {
      timespec nap{0, 50'000};
      ::nanosleep(&nap, nullptr);
    };
    const double before = used_processor_seconds();
    if (!receiving()) {
      stream.go_on = [&] { return !control_.readable(); };
      channels->stream(true, stream);
      control_.get();
      control_.put(std::to_string(used_processor_seconds() - before));
      control_.put(channels->name());
      control_.get();
      return;
    }
    WayResult& result = result_of(key_of(turn));
    TimePoint next = Clock::steady().now() + from_seconds(plan_.warm_up), last = next, begin = next;
    std::uint64_t mark = 0, first = 0;
    int samples = -1;  // the first look only records the start
    bool told = false;
    stream.go_on = [&] {
      const TimePoint now = Clock::steady().now();
      if (told) return !control_.readable();
      if (now < next) return true;
      if (samples < 0) {
        begin = now;
        first = received;
      } else {
        result.seconds.push_back(static_cast<double>(received - mark) / to_seconds(now - last));
      }
      mark = received;
      last = now;
      next = now + std::chrono::seconds(1);
      if (++samples == plan_.seconds) {
        result.rates.push_back(static_cast<double>(received - first) / to_seconds(now - begin));
        control_.put("stop");
        told = true;
      }
      return true;
    };
    channels->stream(false, stream);
    const double mine = used_processor_seconds() - before;
    result.processor.push_back((mine + std::stod(control_.get())) / (static_cast<double>(received) / 1e9));
    result.route = control_.get();
    control_.put("close");
  }

  WayResult& result_of(const std::string& key) {
    auto found = std::ranges::find(results_, key, &WayResult::key);
    if (found != results_.end()) return *found;
    return results_.emplace_back(WayResult{key, {}, {}, {}, {}});
  }

  void report() const {
    const double link = plan_.link.empty() ? 0 : parse_bit_rate(plan_.link, "--link");
    std::printf("%-24s %14s %10s %10s %14s\n", "", "Mbit/s, median", "least 1 s", "of link", "CPU-s per GB");
    Json json{{"sysctls", sysctls_}, {"paths", paths_.size()}, {"link_bits_per_second", link}};
    for (const WayResult& result : results_) {
      const double rate = median(result.rates) * 8;
      std::printf("%-24s %14.1f %10.1f %10s %14.2f\n", result.key.c_str(), rate / 1e6,
                  *std::ranges::min_element(result.seconds) * 8 / 1e6,
                  link > 0 ? fmt::format("{:.1f} %", 100 * rate / link).c_str() : "",
                  median(result.processor));
      json["ways"][result.key] = {{"bits_per_second", rate},
                                  {"samples", result.seconds},
                                  {"processor_seconds_per_gb", median(result.processor)},
                                  {"route", result.route}};
    }
    for (const WayResult& result : results_) {
      if (result.key.starts_with("transport")) {
        std::printf("route: %s\n", result.route.c_str());
        break;
      }
    }
    if (plan_.json.empty()) return;
    const std::string text = json.dump(1) + "\n";
    if (plan_.json == "-") {
      std::fputs(text.c_str(), stdout);
    } else if (!(std::ofstream(plan_.json) << text << std::flush)) {
      fail(Cause::kSystem, "writing {}", plan_.json);
    }
  }

  const Plan& plan_;
  int rank_;
  Control& control_;
  topology::Host host_;
  std::vector<std::pair<std::string, std::string>> paths_;  // from, to
  std::map<std::string, std::string> sysctls_;
  std::vector<std::byte> slots_;
  std::vector<WayResult> results_;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    fail(Cause::kInvalidUsage,
         "{} is not set: run two ranks, such as `tombolo perf path --emulate two-clusters:hosts=2,rtt=20ms`",
         name);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CLI::App app(
      "One connection between two hosts, over long, lossy or several paths: what it attains through the "
      "transport's interface and as one comm through NCCL's ABI, with 8 messages outstanding, beside plain "
      "TCP. "
      "Two ranks; bytes flow from rank 1 to rank 0. Medians over seconds, in turns.");
  app.add_option(
         "--ways", plan.ways,
         "what to measure: plain (one stream on the best path), plain-each (likewise on every path alone), "
         "plain-many, transport, plugin")
      ->delimiter(',')
      ->check(CLI::IsMember({"plain", "plain-each", "plain-many", "transport", "plugin"}));
  app.add_option("--sizes", plan.sizes, "bytes of messages, such as 1M,4M")->delimiter(',');
  app.add_option("--streams", plan.streams, "of plain-many, over all paths in turn")
      ->check(CLI::Range(1, 64));
  app.add_option("--link", plan.link, "what the paths together give, such as 1.25gbit, for shares");
  app.add_option("--warm-up", plan.warm_up, "seconds before each measurement")->check(CLI::Range(0.0, 600.0));
  app.add_option("--seconds", plan.seconds, "of each measurement")->check(CLI::Range(1, 600));
  app.add_option("--rounds", plan.rounds, "measurements of each, in turns")->check(CLI::Range(1, 1000));
  app.add_option("--plain-congestion", plan.congestion,
                 "congestion control of the plain streams, such as cubic (default: the system's)");
  app.add_flag("--stock-sysctls", plan.stock,
               "set both hosts' TCP settings to a stock kernel's (cubic, or reno where that is refused; 6 "
               "MiB and 4 MiB of "
               "buffers); in an emulation only");
  app.add_option("--plugin", plan.plugin,
                 "the plugin's library (default: the one built beside this program)");
  app.add_option("--json", plan.json, "write all to this file; - for standard output");
  CLI11_PARSE(app, argc, argv);
  int rank = -1;
  try {
    rank = std::stoi(variable("RANK"));
    if (variable("WORLD_SIZE") != "2") fail(Cause::kInvalidUsage, "two ranks are needed");
    Control control(rank, variable("MASTER_ADDR"), std::stoi(variable("MASTER_PORT")));
    Bench(plan, rank, control).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "path_perf, rank %d: %s\n", rank, error.what());
    return 1;
  }
}
