// The profiler's tables as NCCL finds them in the network's library, driven by a pretended core together with
// the network itself.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/descriptor.h"
#include "base/format.h"
#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "base/units.h"
#include "net_plugin/abi/net.h"
#include "net_plugin/testing/pretended_core.h"
#include "tests/process/in_child.h"
#include "tests/process/plugin_library.h"

namespace tombolo::tests {
namespace {

namespace abi = net_plugin::abi;
using net_plugin::testing_support::PretendedCore;

void check(abi::ncclResult_t result, const char* what) {
  if (result != abi::ncclSuccess) throw std::runtime_error(std::string(what) + " failed: " + log_text);
}

/// A send comm and its receive comm in this process, by the network's table v12.
class Pair {
 public:
  explicit Pair(abi::ncclProfilerCallback_t callback) {
    abi::ncclNetCommConfig_v12_t config{abi::NCCL_NET_TRAFFIC_CLASS_UNDEF};
    check(net_.init(&context_, 1, &config, keep_line, callback), "init");
    std::array<char, abi::NCCL_NET_HANDLE_MAXSIZE> handle{};
    check(net_.listen(context_, 0, handle.data(), &listen_), "listen");
    while (send_ == nullptr || receive_ == nullptr) {
      abi::ncclNetDeviceHandle_v12_t* unused = nullptr;
      if (send_ == nullptr) check(net_.connect(context_, 0, handle.data(), &send_, &unused), "connect");
      if (receive_ == nullptr) check(net_.accept(listen_, &receive_, &unused), "accept");
    }
  }
  ~Pair() {
    net_.closeSend(send_);
    net_.closeRecv(receive_);
    net_.closeListen(listen_);
    net_.finalize(context_);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void* send(std::size_t bytes, void* parent, int tag = 0) {
    void* request = nullptr;
    while (request == nullptr)
      check(net_.isend(send_, out_.data(), bytes, tag, nullptr, parent, &request), "isend");
    return request;
  }
  /// One receive for each parent, with tags from 0 on.
  void* receive(std::vector<void*> parents) {
    void* request = nullptr;
    std::vector<void*> data(parents.size(), in_.data()), memories(parents.size());
    std::vector<std::size_t> sizes(parents.size(), in_.size());
    std::vector<int> tags(parents.size());
    std::iota(tags.begin(), tags.end(), 0);
    while (request == nullptr) {
      check(net_.irecv(receive_, static_cast<int>(parents.size()), data.data(), sizes.data(), tags.data(),
                       memories.data(), parents.data(), &request),
            "irecv");
    }
    return request;
  }
  bool test(void* request) {
    int done = 0;
    std::array<int, 8> sizes{};
    check(net_.test(request, &done, sizes.data()), "test");
    return done != 0;
  }

 private:
  abi::ncclNet_v12_t& net_ = table_of<abi::ncclNet_v12_t>("ncclNetPlugin_v12");
  void* context_ = nullptr;
  void* listen_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
  std::vector<char> out_ = std::vector<char>(200'000), in_ = out_;
};

/// One step of the proxy: its event, its request, and which operation it belongs to.
template <typename Core>
struct Step {
  typename Core::Step event;
  void* request = nullptr;
};

/// Sends that many messages of random sizes as NCCL's proxy would, several steps under way at a time.
template <typename Core>
std::size_t exchange(Core& core, Pair& pair, int messages, unsigned seed) {
  std::mt19937 random(seed);
  void* const sending = core.start_operation(0, 1, 3, true, core.run_collective("AllReduce", 0));
  void* const receiving = core.start_operation(1, 0, 3, false, core.run_collective("Recv", 1, true));
  std::vector<std::unique_ptr<Step<Core>>> steps;
  std::size_t bytes = 0;
  int receives = 0, sends = 0;
  while (receives + sends < 2 * messages || !steps.empty()) {
    if (receives < messages && receives - sends < 8) {
      auto& step = *steps.emplace_back(std::make_unique<Step<Core>>());
      step.event = core.start_step(receiving, 1);
      step.request = pair.receive({&step.event});
      core.record(step.event, abi::ncclProfilerProxyStepRecvWait);
      ++receives;
    }
    if (sends < receives && random() % 2 == 0) {
      auto& step = *steps.emplace_back(std::make_unique<Step<Core>>());
      step.event = core.start_step(sending, 0);
      core.record(step.event, abi::ncclProfilerProxyStepSendGPUWait);
      const std::size_t size = random() % 200'000;
      bytes += size;
      core.record(step.event, abi::ncclProfilerProxyStepSendWait);
      step.request = pair.send(size, &step.event);
      ++sends;
    }
    const std::size_t which = random() % steps.size();
    if (!pair.test(steps[which]->request)) continue;
    core.stop(steps[which]->event.event);
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(which));
  }
  core.stop(sending);
  core.stop(receiving);
  return bytes;
}

std::map<std::string, std::string> environment(const std::string& profiler) {
  return {{"TOMBOLO_PROFILER", profiler}, {"TOMBOLO_CLUSTER", ""}};
}

template <typename Table>
struct Version {
  int number;
};

/// Calls body(version, table) for every version of the interface, each in a process of its own.
template <typename Body>
void for_each_version(const std::string& profiler, const Body& body) {
  const auto one = [&]<typename Table>(Version<Table> version) {
    SCOPED_TRACE("version " + std::to_string(version.number));
    in_child(environment(profiler), [&] {
      body(version.number, table_of<Table>("ncclProfiler_v" + std::to_string(version.number)));
    });
  };
  one(Version<abi::ncclProfiler_v1_t>{1});
  one(Version<abi::ncclProfiler_v2_t>{2});
  one(Version<abi::ncclProfiler_v3_t>{3});
  one(Version<abi::ncclProfiler_v4_t>{4});
  one(Version<abi::ncclProfiler_v5_t>{5});
  one(Version<abi::ncclProfiler_v6_t>{6});
  one(Version<abi::ncclProfiler_v7_t>{7});
}

constexpr int kMessages = 40;

TEST(ProfilerTables, AskForNothingUntilTheUserDoes) {
  for_each_version("", [](int, auto& table) {
    using Core = PretendedCore<std::remove_reference_t<decltype(table)>>;
    Core core(table, "world", 0x77, 0, keep_line);
    EXPECT_EQ(core.mask(), 0);
    EXPECT_EQ(log_text, "") << "a job that did not ask sees nothing of it";
    Pair pair(Core::callback);
    exchange(core, pair, kMessages, 1);
    EXPECT_EQ(core.started(abi::ncclProfileNetPlugin), 0U);
    EXPECT_EQ(log_text.find("profiler"), std::string::npos) << log_text;
  });
}

TEST(ProfilerTables, EventsPairUpAndNestAndAreSummedUp) {
  const unsigned seed = test_seed();
  for_each_version("meters", [&](int version, auto& table) {
    using Core = PretendedCore<std::remove_reference_t<decltype(table)>>;
    std::size_t bytes = 0;
    {
      Core core(table, "world", 0x77, 0, keep_line);
      EXPECT_EQ(core.mask(), version < 3 ? 2 + 4 + 8 + 16 : 2 + 4 + 8 + 16 + 128);
      Pair pair(Core::callback);
      bytes = exchange(core, pair, kMessages, seed);
      EXPECT_EQ(core.started(abi::ncclProfileColl), version < 2 ? 0U : 1U) << "v1 has no names";
      EXPECT_EQ(core.started(abi::ncclProfileP2p), version < 2 ? 0U : 1U);
      EXPECT_EQ(core.started(abi::ncclProfileProxyOp), 2U);
      EXPECT_EQ(core.started(abi::ncclProfileProxyStep), 2U * kMessages);
      EXPECT_EQ(core.started(abi::ncclProfileNetPlugin), version < 3 ? 0U : 2U * kMessages);
    }
    if (version < 4) return;  // there is no logger
    for (const char* row : {"rank 0 -> 1, channel 3, AllReduce, ", "rank 1 <- 0, channel 3, Recv, ",
                            "AllReduce: 40 messages, ", "Recv: 40 messages, "})
      EXPECT_NE(log_text.find("profiler: " + std::string(row)), std::string::npos) << log_text;
    const std::string total = fmt::format("{} messages, {}", kMessages, format_size(bytes));
    EXPECT_NE(log_text.find(total), log_text.rfind(total)) << "both directions of " << total << "\n"
                                                           << log_text;
  });
}

/// What the process serves at /json on its port of loopback.
nlohmann::json served(int port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("nobody serves the meters");
  const std::string_view request = "GET /json HTTP/1.0\r\n\r\n";
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) <= 0)
    throw std::runtime_error("the request is not taken");
  std::string answer;
  std::array<char, 65536> part{};
  for (ssize_t got = 0; (got = ::recv(socket.get(), part.data(), part.size(), 0)) > 0;)
    answer.append(part.data(), static_cast<std::size_t>(got));
  return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
}

TEST(ProfilerTables, TheProcessesMetersShowTheSums) {
  auto variables = environment("meters");
  variables["TOMBOLO_METRICS"] = "0";  // any port that is free; the log says which
  in_child(variables, [] {
    auto& table = table_of<abi::ncclProfiler_v6_t>("ncclProfiler_v6");
    using Core = PretendedCore<abi::ncclProfiler_v6_t>;
    std::size_t bytes = 0;
    {
      Core core(table, "world", 0x77, 0, keep_line);
      Pair pair(Core::callback);
      bytes = exchange(core, pair, kMessages, 3);
    }
    const std::string before = "http://127.0.0.1:";
    const std::size_t at = log_text.find(before);
    ASSERT_NE(at, std::string::npos) << log_text;
    const auto json = served(std::stoi(log_text.substr(at + before.size())));
    const auto& sums = json.at("more").at("nccl_bytes");
    ASSERT_EQ(sums.size(), 2U);
    for (const auto& one : sums) {
      EXPECT_EQ(one.at("value"), bytes);
      EXPECT_NE(one.at("nic"), "");
      EXPECT_EQ(one.at("rank"), one.at("direction") == "send" ? "0" : "1");
      EXPECT_EQ(one.at("collective"), one.at("direction") == "send" ? "AllReduce" : "Recv");
    }
  });
}

TEST(ProfilerTables, AGroupOfReceivesHasAnEventForEachPartWithAParent) {
  const unsigned seed = test_seed();
  in_child(environment("meters"), [&] {
    auto& table = table_of<abi::ncclProfiler_v6_t>("ncclProfiler_v6");
    using Core = PretendedCore<abi::ncclProfiler_v6_t>;
    Core core(table, "world", 0x77, 0, keep_line);
    Pair pair(Core::callback);
    std::mt19937 random(seed);
    void* const receiving = core.start_operation(1, 0, 3, false);
    std::size_t expected = 0;
    for (int round = 0; round < test_rounds(60); ++round) {
      std::vector<Core::Step> steps(1 + random() % 8);
      std::vector<void*> parents;
      for (Core::Step& step : steps) {
        step = core.start_step(receiving, 1);
        const bool told = random() % 4 != 0;
        parents.push_back(told ? &step : nullptr);
        expected += told ? 1 : 0;
      }
      void* const group = pair.receive(parents);
      std::vector<void*> sends;
      for (int tag = static_cast<int>(steps.size()) - 1; tag >= 0; --tag)
        sends.push_back(pair.send(random() % 100'000, nullptr, tag));
      bool received = false;
      while (!received || !sends.empty()) {
        received = received || pair.test(group);
        if (!sends.empty() && pair.test(sends.back())) sends.pop_back();
      }
      for (const Core::Step& step : steps) core.stop(step.event);
    }
    core.stop(receiving);
    EXPECT_EQ(core.started(abi::ncclProfileNetPlugin), expected);
  });
}

TEST(ProfilerTables, TheTraceIsWrittenWithTheLastCommunicator) {
  TemporaryFolder folder;
  for_each_version("trace:" + folder.file("v%p.json"), [&](int version, auto& table) {
    using Core = PretendedCore<std::remove_reference_t<decltype(table)>>;
    const std::string file = "v" + std::to_string(::getpid()) + ".json";
    {
      Core core(table, nullptr, 0x77, 0, keep_line);
      void* other = nullptr;
      if constexpr (requires { table.init(&other, 1, nullptr, nullptr, 2, 2, 1, keep_line); }) {
        int mask = 0;
        table.init(&other, 1, &mask, nullptr, 2, 2, 1, keep_line);
      }
      Pair pair(Core::callback);
      exchange(core, pair, kMessages, 5);
      if (other != nullptr) table.finalize(other);
      EXPECT_FALSE(std::filesystem::exists(folder.path() / file)) << "a communicator is left";
    }
    const auto trace = nlohmann::json::parse(folder.read(file));
    int sends = 0, receives = 0, waits = 0;
    for (const auto& event : trace.at("traceEvents")) {
      if (event.value("name", "") == "waits for the GPU") ++waits;
      if (event.value("cat", "") != "message") continue;
      ++(event.at("name").get<std::string>().starts_with("send") ? sends : receives);
    }
    EXPECT_EQ(waits, kMessages);
    EXPECT_EQ(sends, version < 3 ? 0 : kMessages);
    EXPECT_EQ(receives, version < 3 ? 0 : kMessages);
  });
}

TEST(ProfilerTables, AValueThatIsNoneIsSaidAndRecordsNothing) {
  in_child(environment("everything"), [] {
    auto& table = table_of<abi::ncclProfiler_v5_t>("ncclProfiler_v5");
    void* context = nullptr;
    int mask = 7;
    EXPECT_EQ(table.init(&context, 1, &mask, nullptr, 2, 2, 0, keep_line), abi::ncclSuccess);
    EXPECT_EQ(mask, 0);
    EXPECT_EQ(context, nullptr);
    EXPECT_NE(log_text.find("TOMBOLO_PROFILER='everything': expected trace"), std::string::npos) << log_text;
    EXPECT_EQ(table.finalize(context), abi::ncclSuccess);
  });
}

TEST(ProfilerTables, NullEventsAndForeignOnesAreIgnored) {
  in_child(environment("meters"), [] {
    auto& table = table_of<abi::ncclProfiler_v6_t>("ncclProfiler_v6");
    void* context = nullptr;
    int mask = 0;
    ASSERT_EQ(table.init(&context, 1, &mask, nullptr, 2, 2, 0, keep_line), abi::ncclSuccess);
    int unused = 0;
    for (const std::uint64_t type : {1, 16, 64, 128, 4096}) {
      abi::ncclProfilerEventDescr_v6_t description{};
      description.type = type;
      description.detail.netPlugin = {abi::NCCL_PROFILER_NET_TYPE_IB | 1, nullptr};
      void* event = &unused;
      EXPECT_EQ(table.startEvent(context, &event, &description), abi::ncclSuccess);
      EXPECT_EQ(event, nullptr) << "of type " << type;
    }
    EXPECT_EQ(table.stopEvent(nullptr), abi::ncclSuccess);
    EXPECT_EQ(table.recordEventState(nullptr, abi::ncclProfilerNetPluginUpdate, nullptr), abi::ncclSuccess);
    EXPECT_EQ(table.finalize(context), abi::ncclSuccess);
    EXPECT_EQ(table.finalize(nullptr), abi::ncclSuccess);
  });
}

}  // namespace
}  // namespace tombolo::tests
