#include "trainer/cuda/testing/pretended_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "base/randomized_test.h"
#include "trainer/cuda/memory/stage_buffers.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

constexpr std::size_t kBytes = 64;

PretendedOptions with(Eagerness eagerness, unsigned seed = 1) {
  PretendedOptions options;
  options.seed = seed;
  options.streams.fill(eagerness);
  return options;
}

/// Two buffers of the device and one of the host.
struct Memory {
  explicit Memory(Device& device)
      : one(device.allocate(kBytes, "one")),
        other(device.allocate(kBytes, "other")),
        host(device.allocate_host(kBytes, "host")) {
    std::iota(reinterpret_cast<unsigned char*>(host), reinterpret_cast<unsigned char*>(host) + kBytes, 1);
  }
  std::byte *one, *other, *host;
};

Values fp32_at(std::byte* at) {
  return {at, Element::kFloat32};
}

void expect_broken_rule(const std::function<void()>& action, std::initializer_list<const char*> words) {
  test::expect_refusal(action, words, Cause::kInternal);
}

TEST(PretendedDevice, DoesNothingBeforeTheHostWaitsWhereItIsLate) {
  PretendedDevice device(with(Eagerness::kLate));
  const Memory memory(device);
  const Event event = device.make_event();
  device.copy(Stream::kFromHost, memory.one, memory.host, kBytes);
  device.record(Stream::kFromHost, event);
  EXPECT_EQ(device.pending(), 2U);
  EXPECT_NE(memory.one[0], memory.host[0]);
  device.synchronize(event);
  EXPECT_EQ(device.pending(), 0U);
  EXPECT_TRUE(std::equal(memory.one, memory.one + kBytes, memory.host));
}

TEST(PretendedDevice, DoesEverythingAtOnceWhereItIsEarly) {
  PretendedDevice device(with(Eagerness::kEarly));
  const Memory memory(device);
  device.copy(Stream::kFromHost, memory.one, memory.host, kBytes);
  EXPECT_EQ(device.pending(), 0U);
  EXPECT_TRUE(std::equal(memory.one, memory.one + kBytes, memory.host));
}

TEST(PretendedDevice, TellsTheSameTimesWhateverItsEagerness) {
  for (const Eagerness eagerness : {Eagerness::kEarly, Eagerness::kRandom, Eagerness::kLate}) {
    PretendedOptions options = with(eagerness);
    options.seed = test_seed();
    options.operation_seconds = 0.5;
    PretendedDevice device(options);
    const Memory memory(device);
    const Event begin = device.make_timed_event(), brought = device.make_timed_event(),
                end = device.make_timed_event(), untimed = device.make_event();
    const auto work = [&](Stream stream, int operations) {
      const auto count = kBytes / sizeof(float);
      for (int one = 0; one < operations; ++one)
        device.run(stream, Convert{fp32_at(memory.one), fp32_at(memory.other), count});
    };
    device.clear(Stream::kCompute, memory.other, kBytes);
    device.record(Stream::kCompute, begin);
    work(Stream::kCompute, 2);
    device.record(Stream::kCompute, untimed);
    device.wait(Stream::kFromHost, untimed);
    work(Stream::kFromHost, 3);
    device.record(Stream::kFromHost, brought);
    device.wait(Stream::kCompute, brought);
    work(Stream::kCompute, 1);
    device.record(Stream::kCompute, end);
    device.synchronize(end);
    EXPECT_DOUBLE_EQ(device.seconds_between(begin, brought), 2.5) << "a stream waits for the other's event";
    EXPECT_DOUBLE_EQ(device.seconds_between(begin, end), 3);
    EXPECT_DOUBLE_EQ(device.seconds_between(end, begin), -3);
    expect_broken_rule([&] { device.seconds_between(begin, untimed); }, {"keeps no time"});
    const Event never = device.make_timed_event();
    expect_broken_rule([&] { device.seconds_between(begin, never); }, {"has not happened"});
  }
}

TEST(PretendedDevice, AskingOftenEnoughFindsAnEventDone) {
  PretendedDevice device(with(Eagerness::kLate));
  const Memory memory(device);
  const Event event = device.make_event();
  for (int copies = 0; copies < 5; ++copies) device.copy(Stream::kFromHost, memory.one, memory.host, kBytes);
  device.record(Stream::kFromHost, event);
  EXPECT_FALSE(device.done(event));
  int asked = 0;
  while (!device.done(event)) ASSERT_LT(++asked, 10);
}

TEST(PretendedDevice, TheSeedDecidesHowStreamsInterleaveAndEventsHold) {
  std::set<std::vector<Stream>> histories;
  for (unsigned seed = 0; seed < 20; ++seed) {
    PretendedDevice device(with(Eagerness::kRandom, test_seed(1) + seed));
    const Memory memory(device);
    const Event brought = device.make_event(), moved = device.make_event();
    for (int copies = 0; copies < 4; ++copies)
      device.copy(Stream::kFromHost, memory.one, memory.host, kBytes);
    for (int clears = 0; clears < 4; ++clears) device.clear(Stream::kCompute, memory.other, kBytes);
    device.record(Stream::kFromHost, brought);
    device.wait(Stream::kCompute, brought);
    device.copy(Stream::kCompute, memory.other, memory.one, kBytes);
    device.record(Stream::kCompute, moved);
    device.synchronize(moved);
    EXPECT_TRUE(std::equal(memory.other, memory.other + kBytes, memory.host)) << "seed " << seed;
    histories.insert(device.history());
  }
  EXPECT_GT(histories.size(), 5U);
}

TEST(PretendedDevice, FindsAMissingEventInEveryOrder) {
  for (const Eagerness eagerness : {Eagerness::kEarly, Eagerness::kLate, Eagerness::kRandom}) {
    PretendedDevice device(with(eagerness));
    const Memory memory(device);
    device.copy(Stream::kFromHost, memory.one, memory.host, kBytes);
    // Written on one stream, read on the other.
    expect_broken_rule([&] { device.copy(Stream::kCompute, memory.other, memory.one, kBytes); },
                       {"copy on stream \"compute\" reads", "\"one\" + 0", "on stream \"from host\" writes"});
  }
  for (const Eagerness eagerness : {Eagerness::kEarly, Eagerness::kLate, Eagerness::kRandom}) {
    PretendedDevice device(with(eagerness));
    const Memory memory(device);
    device.clear(Stream::kCompute, memory.one, kBytes);
    device.copy(Stream::kCompute, memory.other, memory.one, kBytes);
    // Read on one, written on the other; a part of it is enough.
    expect_broken_rule([&] { device.clear(Stream::kFromHost, memory.one + 60, 4); },
                       {"clear on stream \"from host\" writes", "\"one\" + 60"});
  }
}

TEST(PretendedDevice, TwoThatReadNeedNoOrder) {
  PretendedDevice device(with(Eagerness::kLate));
  const Memory memory(device);
  device.copy(Stream::kCompute, memory.one, memory.host, kBytes);
  device.copy(Stream::kFromHost, memory.other, memory.host, kBytes);
}

TEST(PretendedDevice, AnEventOrdersOnlyWhatWasThereWhenItWasRecorded) {
  PretendedDevice device(with(Eagerness::kLate));
  const Memory memory(device);
  const Event event = device.make_event();
  device.clear(Stream::kFromHost, memory.one, kBytes);
  device.record(Stream::kFromHost, event);
  device.clear(Stream::kFromHost, memory.other, kBytes);
  device.wait(Stream::kCompute, event);
  device.clear(Stream::kCompute, memory.one, kBytes);
  expect_broken_rule([&] { device.clear(Stream::kCompute, memory.other, kBytes); }, {"\"other\" + 0"});
}

TEST(PretendedDevice, WhatTheHostHasWaitedForIsOrdered) {
  PretendedDevice device(with(Eagerness::kLate));
  const Memory memory(device);
  const Event event = device.make_event();
  device.clear(Stream::kFromHost, memory.one, kBytes);
  device.record(Stream::kFromHost, event);
  device.synchronize(event);
  device.clear(Stream::kCompute, memory.one, kBytes);
}

TEST(PretendedDevice, ReadingWhatNothingHasWrittenIsFound) {
  PretendedDevice device;
  const Memory memory(device);
  device.clear(Stream::kCompute, memory.one, kBytes / 2);
  device.copy(Stream::kCompute, memory.other, memory.one, kBytes / 2);
  expect_broken_rule([&] { device.copy(Stream::kCompute, memory.other, memory.one, kBytes); },
                     {"reads", "\"one\" + 32", "nothing has written"});
  expect_broken_rule(
      [&] {
        device.run(Stream::kCompute, Add{reinterpret_cast<float*>(memory.one),
                                         reinterpret_cast<const float*>(memory.other), kBytes / 4});
      },
      {"addition", "nothing has written"});
}

TEST(PretendedDevice, MemoryOutsideAnAllocationIsRefused) {
  PretendedDevice device;
  const Memory memory(device);
  expect_broken_rule([&] { device.clear(Stream::kCompute, memory.one + 1, kBytes); },
                     {"64 bytes", "\"one\" + 1", "not inside an allocation"});
  std::vector<std::byte> pageable(kBytes);
  expect_broken_rule([&] { device.copy(Stream::kFromHost, memory.one, pageable.data(), kBytes); },
                     {"not inside an allocation"});
  expect_broken_rule(
      [&] {
        device.run(Stream::kCompute, Add{reinterpret_cast<float*>(memory.host),
                                         reinterpret_cast<const float*>(memory.host), 1});
      },
      {"addition", "memory of the host"});
}

TEST(PretendedDevice, NothingIsAllocatedOnceWorkHasBegun) {
  PretendedDevice device;
  const Memory memory(device);
  device.clear(Stream::kCompute, memory.one, kBytes);
  expect_broken_rule([&] { device.allocate(1, "late"); }, {"late", "after work has begun"});
  expect_broken_rule([&] { device.allocate_host(1, "late"); }, {"late"});
}

TEST(PretendedDevice, AnEventThatWasNeverRecordedIsNotWaitedFor) {
  PretendedDevice device;
  const Event event = device.make_event();
  expect_broken_rule([&] { device.wait(Stream::kCompute, event); }, {"\"compute\"", "never recorded"});
  expect_broken_rule([&] { device.synchronize(event); }, {"never recorded"});
  expect_broken_rule([&] { device.done(event); }, {"never recorded"});
  expect_broken_rule([&] { device.record(Stream::kCompute, {7}); }, {"no event 7"});
}

TEST(PretendedDevice, HostMemoryThatChangesUnderACopyIsFound) {
  PretendedDevice device(with(Eagerness::kLate));
  const Memory memory(device);
  const Event event = device.make_event();
  device.copy(Stream::kFromHost, memory.one, memory.host, kBytes);
  device.record(Stream::kFromHost, event);
  memory.host[3] = std::byte{0};
  expect_broken_rule([&] { device.synchronize(event); }, {"the host changed", "\"host\" + 0"});
}

TEST(PretendedDevice, HostMemoryIsPoisonUntilTheCopyToItIsDone) {
  PretendedDevice device(with(Eagerness::kLate));
  const Memory memory(device);
  const Event event = device.make_event();
  device.clear(Stream::kToHost, memory.one, kBytes);
  device.copy(Stream::kToHost, memory.host, memory.one, kBytes);
  device.record(Stream::kToHost, event);
  EXPECT_EQ(memory.host[0], std::byte{0xff}) << "whoever reads too early finds no number";
  expect_broken_rule([&] { device.host_reads(memory.host, 4); },
                     {"the host reads", "\"host\" + 0", "copy on stream \"to host\" writes"});
  memory.host[5] = std::byte{1};
  expect_broken_rule([&] { device.synchronize(event); }, {"the host wrote", "\"host\" + 0"});
}

TEST(PretendedDevice, TheHostMayTouchWhatItHasWaitedFor) {
  PretendedDevice device(with(Eagerness::kLate));
  const Memory memory(device);
  const Event event = device.make_event();
  device.copy(Stream::kFromHost, memory.one, memory.host, kBytes);
  device.record(Stream::kFromHost, event);
  device.host_reads(memory.host, kBytes);
  expect_broken_rule([&] { device.host_writes(memory.host, kBytes); }, {"the host writes", "reads"});
  device.synchronize(event);
  device.host_writes(memory.host, kBytes);
}

// Holds the device's lock while the other thread begins: a copy of a large piece takes long enough to be
// seen, and the attempt is repeated until it is.
TEST(PretendedDevice, TwoThreadsOnOneStreamAreFound) {
  PretendedDevice device(with(Eagerness::kEarly));
  constexpr std::size_t kLarge = std::size_t{1} << 22;
  std::byte* const memory = device.allocate(kLarge, "large");
  std::atomic<bool> found{false};
  const auto put = [&] {
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    try {
      while (!found && !deadline.passed()) device.clear(Stream::kCompute, memory, kLarge);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("two threads"), std::string::npos) << error.what();
      found = true;
    }
  };
  std::thread other(put);
  put();
  other.join();
  EXPECT_TRUE(found);
}

TEST(PretendedDevice, AGraphDoesAtEachLaunchWhatWasCaptured) {
  for (const Eagerness eagerness : {Eagerness::kEarly, Eagerness::kLate, Eagerness::kRandom}) {
    PretendedDevice device(with(eagerness));
    auto* const sum = reinterpret_cast<float*>(device.allocate(sizeof(float), "sum"));
    auto* const one = reinterpret_cast<float*>(device.allocate(sizeof(float), "one"));
    auto* const host = reinterpret_cast<float*>(device.allocate_host(sizeof(float), "host"));
    const Event event = device.make_event(), inside = device.make_event();
    *host = 1.5F;
    device.clear(Stream::kCompute, sum, sizeof(float));
    device.copy(Stream::kCompute, one, host, sizeof(float));
    device.begin_graph(Stream::kCompute);
    device.run(Stream::kCompute, Add{sum, one, 1});
    device.record(Stream::kCompute, inside);
    const Graph graph = device.end_graph(Stream::kCompute);
    device.record(Stream::kCompute, event);
    device.synchronize(event);
    EXPECT_EQ(*sum, 0) << "capturing does nothing";
    expect_broken_rule([&] { device.wait(Stream::kToHost, inside); }, {"never recorded"});
    for (int launch = 1; launch <= 3; ++launch) {
      device.launch(Stream::kCompute, graph);
      device.wait(Stream::kToHost, inside);
      device.copy(Stream::kToHost, host, sum, sizeof(float));
      device.record(Stream::kToHost, event);
      device.synchronize(event);
      EXPECT_EQ(*host, 1.5F * static_cast<float>(launch));
    }
    EXPECT_EQ(device.launches(), 3U);
    expect_broken_rule([&] { device.end_graph(Stream::kCompute); }, {"no graph", "under way"});
    expect_broken_rule([&] { device.launch(Stream::kCompute, {4}); }, {"no graph 4"});
  }
}

TEST(PretendedDevice, TheScratchOfAttentionIsWatchedToo) {
  PretendedDevice device;
  Attention shape{};
  shape.rows = shape.context = shape.heads = shape.head_size = 2;
  std::byte* const qkv = device.allocate(256, "qkv");
  std::byte* const scratch = device.allocate(device.attention_scratch(shape) - 1, "scratch");
  device.clear(Stream::kCompute, qkv, 256);
  AttentionBackward backward{};
  backward.qkv_gradient = backward.gradient = backward.out = backward.qkv = {qkv, Element::kFloat32};
  backward.log_sum = reinterpret_cast<const float*>(qkv);
  backward.scratch = scratch;
  backward.rows = backward.context = backward.heads = backward.head_size = 2;
  expect_broken_rule([&] { device.run(Stream::kCompute, backward); }, {"\"scratch\" + 0", "not inside"});
}

TEST(PretendedDevice, AProductNeedsAWorkspaceThatNoOtherStreamTouches) {
  PretendedDevice device;
  const std::size_t bytes = device.workspace({});
  std::byte* const numbers = device.allocate(256, "numbers");
  std::byte* const workspace = device.allocate(bytes, "workspace");
  std::byte* const of_host = device.allocate_host(bytes, "host");
  device.clear(Stream::kCompute, numbers, 256);
  Product product{};
  product.out = {numbers, Element::kFloat32};
  product.a = {numbers + 64, Element::kFloat32};
  product.b = {numbers + 128, Element::kFloat32};
  product.m = product.n = product.k = 2;
  expect_broken_rule([&] { device.run(Stream::kCompute, product); }, {"0 bytes of workspace are lent"});
  expect_broken_rule([&] { device.lend_workspace(Stream::kCompute, {of_host, bytes}); }, {"is the host's"});
  expect_broken_rule(
      [&] {
        device.lend_workspace(Stream::kCompute, {workspace, bytes + 4096});
      },
      {"\"workspace\" + 0", "not inside"});
  device.lend_workspace(Stream::kCompute, {workspace, bytes});
  device.run(Stream::kCompute, product);
  expect_broken_rule([&] { device.clear(Stream::kFromHost, workspace, 8); }, {"\"workspace\" + 0"});
}

}  // namespace
}  // namespace tombolo::trainer::cuda
