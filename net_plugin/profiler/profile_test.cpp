#include "net_plugin/profiler/profile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "base/format.h"
#include "base/randomized_test.h"
#include "transport/observe/report/chrome_trace.h"

namespace tombolo::net_plugin {
namespace {

using std::chrono::microseconds;

transport::Route tcp_route() {
  transport::Route route;
  route.transport = "tcp";
  route.local_nic = "eth0";
  route.peer_nic = "eth1";
  return route;
}

constexpr ProfileKey kSend{0, 1, 2, true}, kReceive{0, 1, 2, false};

TEST(Profile, SumsUpMessagesAndWhatStepsWaitedFor) {
  FakeClock clock;
  Profile profile(nullptr, clock);
  const transport::Route route = tcp_route();
  const std::uint64_t communicator = profile.open("");
  ProfileEvent* operation = profile.start_operation(communicator, kSend);
  for (int step = 0; step < 3; ++step) {
    ProfileEvent* one = profile.start_step(operation);
    profile.waits(one, StepWait::kGpu);
    clock.advance(microseconds(5));
    profile.waits(one, StepWait::kPeer);
    clock.advance(microseconds(7));
    profile.waits(one, StepWait::kNetwork);
    ProfileEvent* message = profile.start_message(one, {&route, 9, true, 4096});
    clock.advance(microseconds(100));
    profile.update(message, {nullptr, 9, true, 1000});
    profile.stop(message);
    profile.stop(one);
  }
  profile.stop(operation);
  EXPECT_EQ(profile.communicators(), 1U);
  const Profile::Rows rows = profile.close(communicator);
  EXPECT_EQ(profile.communicators(), 0U);
  ASSERT_EQ(rows.size(), 1U);
  const ProfileRow& row = rows.at(kSend);
  EXPECT_EQ(row.total().messages, 3U);
  EXPECT_EQ(row.total().bytes, 3000U);
  EXPECT_EQ(row.total().in_flight, microseconds(300));
  EXPECT_EQ(row.waited, (std::array<Duration, kStepWaits>{microseconds(0), microseconds(15), microseconds(21),
                                                          microseconds(300), microseconds(0)}));
  EXPECT_EQ(
      describe(kSend, row),
      "rank 0 -> 1, channel 2, tcp eth0 - eth1: 3 messages, 2.93 KiB, 300 us in flight; steps waited 15 us "
      "for the GPU, 21 us for the peer, 300 us for the network");
}

TEST(Profile, TellsKindsOfCollectivesApart) {
  FakeClock clock;
  Profile profile(nullptr, clock);
  const transport::Route route = tcp_route();
  const std::uint64_t communicator = profile.open("");
  ProfileEvent* const reduces = profile.start_collective("AllReduce");
  ProfileEvent* const sends = profile.start_collective("Send");
  EXPECT_NE(reduces, sends);
  EXPECT_EQ(profile.start_collective("AllReduce"), reduces);
  // NCCL stops the collective before its operations start.
  profile.stop(reduces);
  profile.stop(sends);
  int foreign = 0;
  const auto run = [&](const void* collective, int channel, microseconds gpu, microseconds peer) {
    ProfileEvent* operation = profile.start_operation(communicator, {0, 1, channel, true}, collective);
    ProfileEvent* step = profile.start_step(operation);
    profile.waits(step, StepWait::kGpu);
    clock.advance(gpu);
    profile.waits(step, StepWait::kPeer);
    clock.advance(peer);
    profile.waits(step, StepWait::kNetwork);
    ProfileEvent* message = profile.start_message(step, {&route, 9, true, 1024});
    clock.advance(microseconds(100));
    for (ProfileEvent* event : {message, step, operation}) profile.stop(event);
  };
  run(reduces, 0, microseconds(10), microseconds(1));
  run(reduces, 1, microseconds(20), microseconds(2));
  run(sends, 0, microseconds(3), microseconds(30));
  run(&foreign, 0, microseconds(5), microseconds(5));  // as of another process, whose steps this one makes
  run(nullptr, 0, microseconds(5), microseconds(5));
  const auto families = series_of(profile.sums());
  std::map<std::string, double> waited;  // for the GPU
  for (const auto& one : families.at(3).series) {
    const std::map<std::string, std::string> labels(one.labels.begin(), one.labels.end());
    if (labels.at("on") == "gpu") waited[labels.at("collective")] = one.value;
  }
  EXPECT_EQ(waited, (std::map<std::string, double>{{"", 1e-5}, {"AllReduce", 3e-5}, {"Send", 3e-6}}));
  const Profile::Rows rows = profile.close(communicator);
  EXPECT_EQ(rows.size(), 4U);
  const ProfileKey second{0, 1, 1, true, "AllReduce"};
  EXPECT_EQ(describe(second, rows.at(second)),
            "rank 0 -> 1, channel 1, AllReduce, tcp eth0 - eth1: 1 messages, 1 KiB, 100 us in flight; steps "
            "waited 20 us "
            "for the GPU, 2 us for the peer, 100 us for the network");
  EXPECT_EQ(describe_collectives(rows),
            (std::vector<std::string>{
                "AllReduce: 2 messages, 2 KiB; steps waited 30 us for the GPU, 3 us for the peer, "
                "200 us for the network",
                "Send: 1 messages, 1 KiB; steps waited 3 us for the GPU, 30 us for the peer, "
                "100 us for the network"}));
}

TEST(Profile, KeepsABoundedNumberOfNamesOfCollectives) {
  Profile profile(nullptr);
  for (int i = 0; i < 64; ++i) EXPECT_NE(profile.start_collective(std::to_string(i)), nullptr);
  EXPECT_EQ(profile.start_collective("one more"), nullptr);
  EXPECT_NE(profile.start_collective("7"), nullptr);
}

TEST(Profile, TheMetersShowSumsOverChannelsAndCommunicatorsAlsoOfThoseThatEnded) {
  FakeClock clock;
  Profile profile(nullptr, clock);
  const transport::Route route = tcp_route();
  for (int round = 0; round < 2; ++round) {
    const std::uint64_t communicator = profile.open("");
    for (int channel = 0; channel < 2; ++channel) {
      ProfileEvent* step = profile.start_step(profile.start_operation(communicator, {0, 1, channel, true}));
      profile.waits(step, StepWait::kNetwork);
      ProfileEvent* message = profile.start_message(step, {&route, 9, true, 1000});
      clock.advance(std::chrono::milliseconds(250));
      profile.stop(message);
      profile.stop(step);
    }
    if (round == 0) profile.close(communicator);
  }
  const auto families = series_of(profile.sums());
  const auto value_of = [&](const std::string& name, const std::string& on) {
    for (const transport::SeriesFamily& family : families) {
      if (family.name != name) continue;
      for (const auto& one : family.series) {
        const std::map<std::string, std::string> labels(one.labels.begin(), one.labels.end());
        if (!on.empty() && labels.at("on") != on) continue;
        EXPECT_EQ(labels.at("rank") + labels.at("peer_rank"), "01");
        EXPECT_EQ(labels.at("direction"), "send");
        EXPECT_EQ(labels.at("transport") + labels.at("nic") + labels.at("peer_nic"), "tcpeth0eth1");
        return one.value;
      }
    }
    return -1.0;
  };
  EXPECT_EQ(value_of("tombolo_nccl_messages_total", ""), 4);
  EXPECT_EQ(value_of("tombolo_nccl_bytes_total", ""), 4000);
  EXPECT_EQ(value_of("tombolo_nccl_in_flight_seconds_total", ""), 1);
  EXPECT_EQ(value_of("tombolo_nccl_step_wait_seconds_total", "network"), 1);
  EXPECT_EQ(value_of("tombolo_nccl_step_wait_seconds_total", "gpu"), 0);
}

TEST(Profile, AStateThatIsNoWaitIsNone) {
  EXPECT_EQ(wait_of(abi::ncclProfilerProxyStepSendGPUWait), StepWait::kGpu);
  EXPECT_EQ(wait_of(abi::ncclProfilerProxyStepRecvFlushWait), StepWait::kFlush);
  for (const int state : {0, 7, 13, 21, 30, 1000})
    EXPECT_EQ(wait_of(static_cast<abi::ncclProfilerEventState_t>(state)), StepWait::kNothing) << state;
}

TEST(Profile, MessagesCountForTheWayThatTheyTook) {
  FakeClock clock;
  transport::Tracer tracer(10);
  Profile profile(&tracer, clock);
  const transport::Route tcp = tcp_route();
  transport::Route rdma = tcp_route();
  rdma.transport = "rdma";
  rdma.local_nic = "mlx0";
  rdma.peer_nic = "mlx1";
  const std::uint64_t communicator = profile.open("");
  ProfileEvent* step = profile.start_step(profile.start_operation(communicator, kSend));
  const auto message = [&](const transport::Route* end, std::size_t bytes) {
    ProfileEvent* one = profile.start_message(step, {&rdma, 9, true, 4096});
    clock.advance(microseconds(100));
    profile.update(one, {end, 9, true, bytes});
    profile.stop(one);
  };
  message(&rdma, 1024);
  message(&tcp, 2048);
  message(&tcp, 1024);
  message(nullptr, 0);  // it failed
  const auto families = series_of(profile.sums());
  std::map<std::string, double> bytes, messages;
  for (const auto& [family, sums] : {std::pair{0, &messages}, std::pair{1, &bytes}}) {
    for (const auto& one : families.at(static_cast<std::size_t>(family)).series) {
      const std::map<std::string, std::string> labels(one.labels.begin(), one.labels.end());
      (*sums)[labels.at("transport") + " " + labels.at("nic") + " " + labels.at("peer_nic")] += one.value;
    }
  }
  EXPECT_EQ(messages, (std::map<std::string, double>{{"rdma mlx0 mlx1", 2}, {"tcp eth0 eth1", 2}}));
  EXPECT_EQ(bytes, (std::map<std::string, double>{{"rdma mlx0 mlx1", 1024}, {"tcp eth0 eth1", 3072}}));
  EXPECT_EQ(
      describe(kSend, profile.close(communicator).at(kSend)),
      "rank 0 -> 1, channel 2, rdma mlx0 - mlx1: 2 messages, 1 KiB, 200 us in flight; tcp eth0 - eth1: 2 "
      "messages, 3 KiB, 200 us in flight; steps waited 0 us for the GPU, 0 us for the peer, 0 us for the "
      "network");
  const std::string trace = transport::report::to_chrome_trace(tracer, {"a0", 42});
  for (const char* way : {"rdma mlx0 - mlx1", "tcp eth0 - eth1"})
    EXPECT_NE(trace.find(way), std::string::npos) << trace;
}

TEST(Profile, NullEventsAreIgnored) {
  Profile profile(nullptr);
  const transport::Route route = tcp_route();
  EXPECT_EQ(profile.start_step(nullptr), nullptr);
  EXPECT_EQ(profile.start_message(nullptr, {&route, 1, true, 8}), nullptr);
  profile.waits(nullptr, StepWait::kGpu);
  profile.update(nullptr, {});
  profile.stop(nullptr);
  EXPECT_TRUE(profile.close(profile.open("")).empty());
  EXPECT_TRUE(profile.close(77).empty());
}

TEST(Profile, AnEventMayBeStoppedAfterItsCommunicator) {
  FakeClock clock;
  transport::Tracer tracer(10);
  Profile profile(&tracer, clock);
  const transport::Route route = tcp_route();
  const std::uint64_t first = profile.open("");
  ProfileEvent* operation = profile.start_operation(first, kSend);
  ProfileEvent* step = profile.start_step(operation);
  profile.waits(step, StepWait::kGpu);
  ProfileEvent* message = profile.start_message(step, {&route, 1, true, 8});
  EXPECT_EQ(profile.close(first).at(kSend).total().messages, 0U);
  for (ProfileEvent* event : {message, step, operation, operation}) profile.stop(event);
  EXPECT_EQ(
      profile.start_message(profile.start_step(profile.start_operation(first, kSend)), {&route, 1, true, 8}),
      nullptr)
      << "there is nothing to add it to";
  EXPECT_TRUE(tracer.events().empty());
}

// Any order of starts and stops that keeps children within parents' starts, over several communicators.
TEST(Profile, RandomSchedulesAreSummedUpRight) {
  std::mt19937 random(test_seed());
  FakeClock clock;
  Profile profile(nullptr, clock);
  const transport::Route route = tcp_route();
  struct UnderWay {
    ProfileEvent* event;
    std::size_t owner;
    ProfileKey key;
    Duration since;
    std::size_t bytes;
  };
  std::vector<std::uint64_t> communicators;
  std::vector<Profile::Rows> expected(3);
  for (std::size_t i = 0; i < expected.size(); ++i) communicators.push_back(profile.open(""));
  std::vector<UnderWay> messages;
  Duration now{};
  for (int i = 0; i < test_rounds(3000); ++i) {
    const Duration pause{random() % 1000};
    clock.advance(pause);
    now += pause;
    if (messages.size() < 40 && random() % 2 == 0) {
      const std::size_t owner = random() % communicators.size();
      const ProfileKey key{static_cast<int>(random() % 2), static_cast<int>(random() % 3),
                           static_cast<int>(random() % 2), random() % 2 == 0};
      ProfileEvent* operation = profile.start_operation(communicators[owner], key);
      ProfileEvent* step = profile.start_step(operation);
      profile.stop(operation);
      messages.push_back({profile.start_message(step, {&route, random() % 3, key.send, 0}), owner, key, now,
                          random() % 100000});
      profile.stop(step);
    } else if (!messages.empty()) {
      const std::size_t which = random() % messages.size();
      const UnderWay over = messages[which];
      messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(which));
      profile.update(over.event, {nullptr, 0, over.key.send, over.bytes});
      profile.stop(over.event);
      ProfileRow& row = expected[over.owner][over.key];
      row.ways.resize(1);
      row.ways.front().counts += {1, over.bytes, now - over.since};
    }
  }
  for (const UnderWay& left : messages) expected[left.owner].try_emplace(left.key);
  for (std::size_t i = 0; i < communicators.size(); ++i) {
    const Profile::Rows rows = profile.close(communicators[i]);
    ASSERT_EQ(rows.size(), expected[i].size());
    for (const auto& [key, row] : expected[i]) {
      EXPECT_EQ(rows.at(key).total().messages, row.total().messages);
      EXPECT_EQ(rows.at(key).total().bytes, row.total().bytes);
      EXPECT_EQ(rows.at(key).total().in_flight, row.total().in_flight);
    }
  }
}

/// The events of a trace without the times of day, which differ from run to run, one a line.
std::string without_times(const std::string& trace) {
  std::string lines;
  const auto parsed = nlohmann::json::parse(trace);
  for (nlohmann::json event : parsed.at("traceEvents")) {
    event.erase("ts");
    if (event.value("cat", "") == "connection") event.erase("dur");  // until now
    lines += event.dump() + "\n";
  }
  return lines;
}

TEST(Profile, TheTraceIsTheGoldenOne) {
  FakeClock clock;
  transport::Tracer tracer(10);
  Profile profile(&tracer, clock);
  const transport::Route route = tcp_route();
  const std::uint64_t communicator = profile.open("world ");
  ProfileEvent* const collective = profile.start_collective("AllReduce");
  const auto message = [&](const ProfileKey& key, std::uint64_t connection, std::size_t bytes) {
    ProfileEvent* step = profile.start_step(profile.start_operation(communicator, key, collective));
    if (key.send) {
      profile.waits(step, StepWait::kGpu);
      clock.advance(microseconds(4));
    }
    profile.waits(step, StepWait::kNetwork);  // which the message shows
    return profile.start_message(step, {&route, connection, key.send, bytes});
  };
  ProfileEvent* first = message(kSend, 7, 65536);
  clock.advance(microseconds(10));
  ProfileEvent* overlapping = message(kSend, 7, 65536);
  ProfileEvent* received = message(kReceive, 8, 4096);
  clock.advance(microseconds(20));
  for (ProfileEvent* event : {first, overlapping, received}) profile.stop(event);
  profile.close(communicator);
  EXPECT_EQ(without_times(transport::report::to_chrome_trace(tracer, {"a0", 42})),
            R"({"args":{"name":"a0 process 42"},"name":"process_name","ph":"M","pid":42,"tid":0}
{"args":{"name":"#1 world rank 0 -> 1, channel 2, AllReduce, steps"},"name":"thread_name","ph":"M","pid":42,"tid":2048}
{"args":{"sort_index":2048},"name":"thread_sort_index","ph":"M","pid":42,"tid":2048}
{"args":{"connection":1},"cat":"connection","name":"world rank 0 -> 1, channel 2, AllReduce, steps","ph":"X","pid":42,"tid":2048}
{"args":{"name":"#2 world rank 0 -> 1, channel 2, AllReduce, tcp eth0 - eth1"},"name":"thread_name","ph":"M","pid":42,"tid":4096}
{"args":{"sort_index":4096},"name":"thread_sort_index","ph":"M","pid":42,"tid":4096}
{"args":{"connection":2},"cat":"connection","name":"world rank 0 -> 1, channel 2, AllReduce, tcp eth0 - eth1","ph":"X","pid":42,"tid":4096}
{"args":{"name":"#3 world rank 0 <- 1, channel 2, AllReduce, tcp eth0 - eth1"},"name":"thread_name","ph":"M","pid":42,"tid":6144}
{"args":{"sort_index":6144},"name":"thread_sort_index","ph":"M","pid":42,"tid":6144}
{"args":{"connection":3},"cat":"connection","name":"world rank 0 <- 1, channel 2, AllReduce, tcp eth0 - eth1","ph":"X","pid":42,"tid":6144}
{"args":{"connection":1},"cat":"wait","dur":4.0,"name":"waits for the GPU","ph":"X","pid":42,"tid":3584}
{"args":{"bytes":65536,"connection":2,"failed":false},"cat":"message","dur":34.0,"name":"send 64 KiB","ph":"X","pid":42,"tid":4097}
{"args":{"connection":1},"cat":"wait","dur":4.0,"name":"waits for the GPU","ph":"X","pid":42,"tid":3584}
{"args":{"bytes":65536,"connection":2,"failed":false},"cat":"message","dur":20.0,"name":"send 64 KiB","ph":"X","pid":42,"tid":4098}
{"args":{"bytes":4096,"connection":3,"failed":false},"cat":"message","dur":20.0,"name":"receive 4 KiB","ph":"X","pid":42,"tid":7168}
{"args":{"name":"#1 waits"},"name":"thread_name","ph":"M","pid":42,"tid":3584}
{"args":{"sort_index":3584},"name":"thread_sort_index","ph":"M","pid":42,"tid":3584}
{"args":{"name":"#2 sends"},"name":"thread_name","ph":"M","pid":42,"tid":4097}
{"args":{"sort_index":4097},"name":"thread_sort_index","ph":"M","pid":42,"tid":4097}
{"args":{"name":"#2 sends"},"name":"thread_name","ph":"M","pid":42,"tid":4098}
{"args":{"sort_index":4098},"name":"thread_sort_index","ph":"M","pid":42,"tid":4098}
{"args":{"name":"#3 receives"},"name":"thread_name","ph":"M","pid":42,"tid":7168}
{"args":{"sort_index":7168},"name":"thread_sort_index","ph":"M","pid":42,"tid":7168}
)");
}

}  // namespace
}  // namespace tombolo::net_plugin
