// Measures a net plugin through NCCL's ABI, beside plain TCP, NCCL's own Socket transport and other plugins
// where given: each between two processes of its own over loopback, in turns, in one run.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "bench/channels.h"
#include "bench/nccl_socket.h"

namespace {

using namespace tombolo;
using namespace tombolo::bench;

struct Plan {
  std::string plugin = TOMBOLO_NET_PLUGIN_PATH;
  int abi = 0;  ///< 0 = the newest that a plugin has
  std::vector<std::string> peers;
  std::string nccl;
  bool no_nccl = false;
  bool ucx = false;
  bool shm_ways = false;
  std::vector<std::string> only;  ///< keys of candidates; empty = all
  std::vector<std::string> sizes{"8K", "32K", "64K", "256K", "1M", "4M", "16M", "64M"};
  std::vector<std::string> trips{"8", "1K", "8K", "64K"};
  std::vector<std::size_t> channels{1, 4};
  int repeats = 5;
  double bytes_per_run = 256e6;
  double memory = 1e9;
  std::string json;
};

/// One transport that is measured, and how its channels are made; they live in processes of their own.
struct Candidate {
  std::string key;    ///< short, in the tables and in JSON
  std::string label;  ///< filled in by the process that loaded it
  std::vector<std::pair<std::string, std::string>> environment;
  std::function<std::unique_ptr<Channels>(bool leading, int control)> make;
};

enum class Task : std::uint32_t { kVerify, kTrips, kStream, kEnd };

/// What the coordinator sends to both processes of a candidate, and their answers.
struct Order {
  Task task = Task::kEnd;
  std::size_t size = 0, channels = 1, count = 0;
};
struct Answer {
  bool good = false;
  double seconds = 0;    ///< seconds of the leading process for a round trip, or for a whole stream
  double processor = 0;  ///< processor seconds, user and system
  char text[480] = {};   ///< the candidate's name, or what went wrong
};

/// Message buffers that keep their memory while the orders have the same size, so that no page fault falls
/// into a measurement.
class MessageBuffers {
 public:
  ~MessageBuffers() { drop(); }
  std::span<std::byte> get(std::size_t bytes) {
    if (bytes == bytes_) return {at_, bytes_};
    drop();
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) fail_errno(errno, "memory for the messages");
    at_ = static_cast<std::byte*>(mapped);
    bytes_ = bytes;
    std::fill_n(at_, bytes_, std::byte{1});
    return {at_, bytes_};
  }

 private:
  void drop() {
    if (at_ != nullptr) ::munmap(at_, bytes_);
    at_ = nullptr;
    bytes_ = 0;
  }
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

void fill(std::span<std::byte> data, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < data.size(); i += 8) {
    std::uint64_t word = random();
    std::memcpy(data.data() + i, &word, std::min<std::size_t>(8, data.size() - i));
  }
}

/// Checks every byte of one message of that size, in both directions.
void verify(Channels& channels, bool leading, std::size_t size) {
  std::vector<std::byte> data(size), expected(size);
  for (std::uint64_t direction : {0, 1}) {
    fill(expected, 2 * size + direction);
    if (leading == (direction == 0)) {
      data = expected;
      channels.send(data);
    } else {
      std::ranges::fill(data, std::byte{0});
      channels.receive(data);
      if (data != expected) fail(Cause::kInternal, "a message of {} bytes arrived with other bytes", size);
    }
  }
}

/// The median of the round trips, in seconds; it leaves out those during which the process lost the
/// processor.
double ping_pong(Channels& channels, bool leading, std::span<std::byte> slot, std::size_t times) {
  std::vector<double> trips(times);
  for (std::size_t i = 0; i < times; ++i) {
    const TimePoint begin = Clock::steady().now();
    if (leading) {
      stamp(slot, 0, i);
      channels.send(slot);
      stamp(slot, 1, i);
    }
    channels.receive(slot);
    check_stamp(slot, 0, i);
    if (!leading) channels.send(slot);
    trips[i] = to_seconds(Clock::steady().now() - begin);
  }
  return median(std::move(trips));
}

/// Measures a stream in one direction; a token back tells the sender that everything has arrived.
void one_way(Channels& channels, bool leading, const Stream& stream) {
  std::byte token{};
  channels.stream(leading, stream);
  if (leading) {
    channels.receive({&token, 1});
  } else {
    channels.send({&token, 1});
  }
}

Answer carry_out(Channels& channels, bool leading, const Order& order, MessageBuffers& slots) {
  Answer answer;
  auto room = slots.get(std::max<std::size_t>(order.channels * kOutstanding * order.size, 8));
  const double before = used_processor_seconds();
  const TimePoint begin = Clock::steady().now();
  double trip = 0;
  if (order.task == Task::kVerify) {
    verify(channels, leading, order.size);
  } else if (order.task == Task::kTrips) {
    trip = ping_pong(channels, leading, room.first(order.size), order.count);
  } else {
    one_way(channels, leading, {order.channels, order.size, order.count, room, nullptr, spin_and_yield, {}});
  }
  answer.seconds = order.task == Task::kTrips ? trip : to_seconds(Clock::steady().now() - begin);
  answer.processor = used_processor_seconds() - before;
  answer.good = true;
  return answer;
}

[[noreturn]] void serve(const Candidate& candidate, bool leading, int orders, int control) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, candidate.key.c_str());  // for perf(1) and top(1)
  Answer answer;
  try {
    for (const auto& [name, value] : candidate.environment) ::setenv(name.c_str(), value.c_str(), 1);
    auto channels = candidate.make(leading, control);
    channels->name().copy(answer.text, sizeof answer.text - 1);
    answer.good = true;
    MessageBuffers slots;
    for (Order order; ::send(orders, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer &&
                      ::recv(orders, &order, sizeof order, 0) == sizeof order && order.task != Task::kEnd;) {
      answer = carry_out(*channels, leading, order, slots);
    }
    channels.reset();
    ::_exit(0);
  } catch (const std::exception& error) {
    answer.good = false;
    std::string(error.what()).copy(answer.text, sizeof answer.text - 1);
    ::send(orders, &answer, sizeof answer, MSG_NOSIGNAL);
  }
  ::_exit(1);
}

/// The two processes of a candidate.
class Pair {
 public:
  explicit Pair(Candidate candidate) : candidate_(std::move(candidate)) {
    int control[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) fail_errno(errno, "socketpair");
    for (std::size_t side = 0; side < 2; ++side) {
      int orders[2];
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders) != 0)
        fail_errno(errno, "socketpair");
      pids_[side] = ::fork();
      if (pids_[side] < 0) fail_errno(errno, "fork");
      if (pids_[side] == 0) {
        ::close(orders[0]);
        ::close(control[1 - side]);
        serve(candidate_, side == 0, orders[1], control[side]);
      }
      ::close(orders[1]);
      orders_[side].reset(orders[0]);
    }
    ::close(control[0]);
    ::close(control[1]);
  }
  ~Pair() {
    for (std::size_t side = 0; side < 2; ++side) {
      Order end;
      ::send(orders_[side].get(), &end, sizeof end, MSG_NOSIGNAL);
      if (failed_) ::kill(pids_[side], SIGKILL);
    }
    for (pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  /// Waits until both processes have loaded the candidate and connected. Throws their error.
  void greet() {
    candidate_.label = answer_of(0).text;
    answer_of(1);
  }
  const Candidate& candidate() const { return candidate_; }

  /// Carries out an order; returns the time of the leading process, and the processor time of both.
  std::pair<double, double> order(const Order& order) {
    for (const Descriptor& each : orders_) {
      if (::send(each.get(), &order, sizeof order, MSG_NOSIGNAL) != sizeof order) failed_ = true;
    }
    Answer first = answer_of(0), second = answer_of(1);
    return {first.seconds, first.processor + second.processor};
  }

 private:
  Answer answer_of(std::size_t side) {
    Answer answer;
    // A side that fails ends, and the transport of the other side reports that.
    timeval patience{300, 0};
    ::setsockopt(orders_[side].get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t got = ::recv(orders_[side].get(), &answer, sizeof answer, 0);
    if (got == sizeof answer && answer.good) return answer;
    failed_ = true;
    fail(Cause::kSystem, "{}, {} process: {}", candidate_.key, side == 0 ? "first" : "second",
         got == sizeof answer ? answer.text : "ended, or silent for 300 s");
  }

  Candidate candidate_;
  std::array<pid_t, 2> pids_{};
  std::array<Descriptor, 2> orders_;
  bool failed_ = false;
};

std::vector<Candidate> candidates_of(const Plan& plan, std::size_t most_channels) {
  std::vector<Candidate> all;
  auto plugin = [&](std::string path, int abi) {
    return [=](bool, int control) -> std::unique_ptr<Channels> {
      return std::make_unique<PluginChannels>(load_plugin(path, abi), most_channels, control);
    };
  };
  // There are two sets of sockets, one for each direction; each is indexed by side.
  using Sockets = std::array<std::array<std::vector<int>, 2>, 2>;
  auto sockets_for = [&](std::size_t ways) {
    auto made = std::make_shared<Sockets>();
    for (std::size_t way = 0; way < ways; ++way) {
      for (std::size_t channel = 0; channel < most_channels; ++channel) {
        auto [near, far] = plain_pair();
        (*made)[way][0].push_back(near);
        (*made)[way][1].push_back(far);
      }
    }
    return made;
  };
  all.push_back({"plain", "", {}, [sockets = sockets_for(1)](bool leading, int) -> std::unique_ptr<Channels> {
                   return std::make_unique<PlainChannels>((*sockets)[0][leading ? 0 : 1]);
                 }});
  all.push_back(
      {"plain-each", "", {}, [sockets = sockets_for(2)](bool leading, int) -> std::unique_ptr<Channels> {
         const std::size_t side = leading ? 0 : 1;
         return std::make_unique<PlainChannels>((*sockets)[side][side], (*sockets)[1 - side][side]);
       }});
  all.push_back({"tombolo", "", {{"TOMBOLO_TRANSPORTS", "tcp"}}, plugin(plan.plugin, plan.abi)});
  if (!plan.no_nccl) {
    all.push_back({"nccl-socket",
                   "",
                   {{"NCCL_SOCKET_IFNAME", "lo"}},
                   [nccl = plan.nccl, most_channels](bool, int control) -> std::unique_ptr<Channels> {
                     return std::make_unique<PluginChannels>(load_nccl_socket(nccl), most_channels, control);
                   }});
  }
  for (const std::string& peer : plan.peers) {
    std::size_t equals = peer.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(Cause::kInvalidUsage, "--peer '{}': expected name=path.so", peer);
    all.push_back({peer.substr(0, equals), "", {}, plugin(peer.substr(equals + 1), plan.abi)});
  }
  if (plan.ucx) all.push_back({"ucx", "", {{"TOMBOLO_TRANSPORTS", "ucx"}}, plugin(plan.plugin, plan.abi)});
  auto shared_memory = [&](std::string key, std::string fetch) {
    all.push_back({std::move(key),
                   "",
                   {{"TOMBOLO_TRANSPORTS", "shm"}, {"TOMBOLO_SHM_FETCH", std::move(fetch)}},
                   plugin(plan.plugin, plan.abi)});
  };
  shared_memory("tombolo-shm", "on");
  if (plan.shm_ways) {
    shared_memory("tombolo-area", "off");
    shared_memory("tombolo-read", "always");
  }
  for (const std::string& key : plan.only)
    if (std::ranges::find(all, key, &Candidate::key) == all.end())
      fail(Cause::kInvalidUsage, "--only {}: there is only {}", key,
           fmt::join(all | std::views::transform(&Candidate::key), ", "));
  if (!plan.only.empty())
    std::erase_if(
        all, [&](const Candidate& one) { return std::ranges::find(plan.only, one.key) == plan.only.end(); });
  return all;
}

/// One row of a table: the medians of each candidate.
struct Row {
  std::size_t size = 0, channels = 1;
  std::map<std::string, std::vector<double>> values, processor;
};

class Bench {
 public:
  Bench(const Plan& plan, std::vector<std::unique_ptr<Pair>> pairs) : plan_(plan), pairs_(std::move(pairs)) {}

  void run() {
    header("half round trip, us");
    for (const std::string& text : plan_.trips) {
      trips_.push_back(measure_trips(parse_size(text, "--trips")));
      print(trips_.back(), false);
    }
    for (std::size_t channels : plan_.channels) {
      header(fmt::format("{} comm{}: GB/s one way, CPU seconds per GB of both processes", channels,
                         channels == 1 ? "" : "s"));
      for (const std::string& text : plan_.sizes) {
        const std::size_t size = parse_size(text, "--sizes");
        if (static_cast<double>(size * channels * kOutstanding) > plan_.memory) continue;
        streams_.push_back(measure_stream(size, channels));
        print(streams_.back(), true);
      }
    }
  }

  Json as_json() const {
    Json all{{"repeats", plan_.repeats}, {"outstanding", kOutstanding}};
    for (const auto& pair : pairs_) all["candidates"][pair->candidate().key] = pair->candidate().label;
    auto add = [&](const char* what, const std::vector<Row>& rows, bool rate) {
      for (const Row& row : rows) {
        Json entry{{"bytes", row.size}, {"comms", row.channels}};
        for (const auto& [key, values] : row.values) {
          entry[rate ? "bytes_per_second" : "half_round_trip_seconds"][key] = median(values);
          if (rate) entry["processor_seconds_per_gb"][key] = median(row.processor.at(key));
          if (!compared(key)) continue;
          entry["tombolo_over"][key] = ratio(row.values, key);
          if (rate) entry["tombolo_processor_over"][key] = ratio(row.processor, key);
        }
        all[what].push_back(std::move(entry));
      }
    };
    add("latency", trips_, false);
    add("throughput", streams_, true);
    return all;
  }

 private:
  Row measure_trips(std::size_t size) {
    Row row{size, 1, {}, {}};
    for (auto& pair : pairs_) pair->order({Task::kVerify, size, 1, 1});
    std::map<std::string, std::size_t> counts;
    for (auto& pair : pairs_) {
      // Makes as many round trips as take about 50 ms, after a few for warm-up.
      pair->order({Task::kTrips, size, 1, 50});
      const double each = pair->order({Task::kTrips, size, 1, 50}).first;
      counts[pair->candidate().key] = static_cast<std::size_t>(std::clamp(0.05 / each, 20.0, 10000.0));
    }
    for (int repeat = 0; repeat < plan_.repeats; ++repeat) {
      for (auto& pair : pairs_) {
        const std::string& key = pair->candidate().key;
        auto [seconds, processor] = pair->order({Task::kTrips, size, 1, counts[key]});
        row.values[key].push_back(seconds / 2);
        row.processor[key].push_back(processor);
      }
    }
    return row;
  }

  Row measure_stream(std::size_t size, std::size_t channels) {
    Row row{size, channels, {}, {}};
    for (auto& pair : pairs_) pair->order({Task::kVerify, size, 1, 1});
    const auto wanted = static_cast<std::size_t>(plan_.bytes_per_run / static_cast<double>(size * channels));
    const std::size_t count = std::clamp<std::size_t>(wanted, 2 * kOutstanding, 50'000);
    for (auto& pair : pairs_) pair->order({Task::kStream, size, channels, 2 * kOutstanding});
    for (int repeat = 0; repeat < plan_.repeats; ++repeat) {
      for (auto& pair : pairs_) {
        const std::string& key = pair->candidate().key;
        auto [seconds, processor] = pair->order({Task::kStream, size, channels, count});
        const double bytes = static_cast<double>(size * channels * count);
        row.values[key].push_back(bytes / seconds);
        row.processor[key].push_back(processor / (bytes / 1e9));
      }
    }
    for (auto& pair : pairs_) pair->order({Task::kVerify, 8, 1, 1});  // frees the memory of the streams
    return row;
  }

  void header(const std::string& what) const {
    std::printf("\n%s\n%10s", what.c_str(), "size");
    for (const auto& pair : pairs_) std::printf(" | %15s", pair->candidate().key.c_str());
    for (const auto& pair : pairs_) {
      if (compared(pair->candidate().key)) std::printf(" | tombolo/%s", pair->candidate().key.c_str());
    }
    std::printf("\n");
  }

  void print(const Row& row, bool with_processor) const {
    std::printf("%10s", format_size(row.size).c_str());
    auto value = [&](const std::string& key) { return median(row.values.at(key)); };
    auto cost = [&](const std::string& key) { return median(row.processor.at(key)); };
    for (const auto& pair : pairs_) {
      const std::string& key = pair->candidate().key;
      const std::string text = with_processor ? fmt::format("{:9.3f} {:5.2f}", value(key) / 1e9, cost(key))
                                              : fmt::format("{:9.2f}      ", value(key) * 1e6);
      std::printf(" | %s", text.c_str());
    }
    for (const auto& pair : pairs_) {
      const std::string& key = pair->candidate().key;
      if (!compared(key)) continue;
      std::string text = fmt::format("{:.2f}x", ratio(row.values, key));
      if (with_processor) text += fmt::format(" {:.2f}x", ratio(row.processor, key));
      std::printf(" | %*s", static_cast<int>(8 + key.size()), text.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  /// The median over the rounds of the ratio of Tombolo's TCP to the other, because what slows a round slows
  /// both.
  static double ratio(const std::map<std::string, std::vector<double>>& values, const std::string& key) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < values.at(key).size(); ++i)
      ratios.push_back(values.at("tombolo")[i] / values.at(key)[i]);
    return median(std::move(ratios));
  }
  /// Whether Tombolo's TCP is compared with that candidate.
  bool compared(const std::string& key) const {
    return !key.starts_with("tombolo") &&
           std::ranges::any_of(pairs_, [](const auto& pair) { return pair->candidate().key == "tombolo"; });
  }

  const Plan& plan_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::vector<Row> trips_, streams_;
};

int lead(const Plan& plan) {
  std::size_t most_channels = 1;
  for (std::size_t channels : plan.channels) most_channels = std::max(most_channels, channels);
  std::vector<std::unique_ptr<Pair>> pairs;
  for (Candidate& candidate : candidates_of(plan, most_channels)) {
    const bool optional = candidate.key == "nccl-socket" && plan.nccl.empty();
    auto pair = std::make_unique<Pair>(std::move(candidate));
    try {
      pair->greet();
    } catch (const Error& error) {
      if (!optional) throw;
      std::printf("without NCCL's Socket transport: %s\n", error.what());
      continue;
    }
    std::printf("%-12s %s\n", pair->candidate().key.c_str(), pair->candidate().label.c_str());
    pairs.push_back(std::move(pair));
  }
  Bench bench(plan, std::move(pairs));
  bench.run();
  if (!plan.json.empty()) {
    const std::string text = bench.as_json().dump(1) + "\n";
    FILE* file = plan.json == "-" ? stdout : std::fopen(plan.json.c_str(), "w");
    if (file == nullptr || std::fputs(text.c_str(), file) < 0) fail_errno(errno, "writing " + plan.json);
    if (file != stdout) std::fclose(file);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CLI::App app(
      "Net plugins through NCCL's ABI beside plain TCP and NCCL's own Socket transport, each between two "
      "processes over loopback, host memory: half round trip, and throughput with 8 messages of each comm "
      "outstanding. \"plain\" writes 64 KiB at a time, on one socket for both ways; \"plain-each\" writes "
      "each message by itself, on a socket for each way, as NCCL's connections do. Every message carries a "
      "mark that its receiver checks. Medians of measurements in turns.");
  app.add_option("--plugin", plan.plugin, "Tombolo's library (default: the one built beside this program)");
  app.add_option("--peer", plan.peers, "another plugin to measure, as name=path.so (repeatable)");
  app.add_option("--abi", plan.abi, "ABI version of plugins (default: the newest that each has)")
      ->check(CLI::Range(net_plugin::kOldestAbi, net_plugin::kNewestAbi));
  app.add_option("--nccl", plan.nccl,
                 "NCCL's library for its Socket transport (default: where it is found; skipped with a notice "
                 "where it is not)");
  app.add_flag("--no-nccl", plan.no_nccl, "leave NCCL's Socket transport out");
  app.add_flag("--ucx", plan.ucx, "also Tombolo over UCX, which inside a host uses its tcp");
  app.add_flag(
      "--shm-ways", plan.shm_ways,
      "also Tombolo over shared memory by each of its two ways alone: tombolo-area copies all through "
      "the segment, tombolo-read reads large messages in the sender's memory");
  app.add_option("--only", plan.only, "measure these columns alone, such as tombolo,tombolo-shm")
      ->delimiter(',');
  app.add_option("--sizes", plan.sizes, "bytes of messages for throughput, such as 8K,1M")->delimiter(',');
  app.add_option("--trips", plan.trips, "bytes of messages for the half round trip, such as 8,8K")
      ->delimiter(',');
  app.add_option("--comms", plan.channels, "comms at the same time, such as 1,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  app.add_option("--repeats", plan.repeats, "measurements of each, in turns")->check(CLI::Range(1, 1000));
  app.add_option("--bytes", plan.bytes_per_run,
                 "bytes per throughput measurement (16 to 50000 messages on each comm)")
      ->check(CLI::Range(1.0, 1e12));
  app.add_option("--memory", plan.memory, "skip sizes whose slots take more bytes than this in a process")
      ->check(CLI::Range(1.0, 1e12));
  app.add_option("--json", plan.json, "write all medians to this file; - for standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    return lead(plan);
  } catch (const Error& error) {
    std::fprintf(stderr, "plugin_perf: %s\n", error.what());
    return 1;
  }
}
