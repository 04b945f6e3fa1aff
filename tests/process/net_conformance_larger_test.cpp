// What NCCL relies on in a net plugin, point by point: messages that are larger than their receives. By
// default they are errors; where the environment asks for it, a receive takes what fits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/format.h"
#include "tests/process/net_harness.h"

namespace tombolo::net_plugin::test {
namespace {

class NetLarger : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetLarger, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

using Bytes = std::vector<std::byte>;

TEST_P(NetLarger, ASendLargerThanItsReceiveIsAnError) {
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        auto data = pattern(1001, 1);
        void* request = side.send(comm, data);
        // The send may be done, as far as the sender knows, or have failed with the connection.
        int done = 0;
        Deadline deadline = Deadline::after(kPatience);
        while (done == 0 && side.plugin().test(request, &done, nullptr) == abi::ncclSuccess)
          REQUIRE(!deadline.passed());
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        std::vector<std::byte> buffer(1001, std::byte{0xee});
        buffer.resize(1000);
        take_log();
        EXPECT_NE(side.finish_badly(side.receive(comm, buffer)), abi::ncclSuccess);
        auto lines = take_log();
        ASSERT_FALSE(lines.empty());
        EXPECT_TRUE(lines.back().starts_with("2 ")) << lines.back();
        EXPECT_NE(lines.back().find("1001"), std::string::npos) << lines.back();
        channel.signal();
      });
}

TEST_P(NetLarger, ASendLargerThanItsReceiveIsCutWhereTheEnvironmentAsksForIt) {
  if (overlong_is_always_an_error()) GTEST_SKIP() << "such a message is an error over RDMA and UCX";
  ::setenv("TOMBOLO_NET_OVERLONG", "truncate", 1);
  constexpr std::array<std::size_t, 5> kSent{1001, 8, 3'000'000, 500, 2'000'000};
  constexpr std::array<std::size_t, 5> kRoom{1000, 8, 70'000, 0, 2'500'000};
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<std::vector<std::byte>> data;
        std::vector<void*> requests;
        for (std::size_t i = 0; i < kSent.size(); ++i)
          data.push_back(pattern(kSent[i], static_cast<unsigned>(i)));
        for (const auto& one : data) requests.push_back(side.send(comm, one));
        for (std::size_t i = 0; i < kSent.size(); ++i) REQUIRE(side.finish(requests[i]) == kSent[i]);
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        abi::ncclNetProperties_v12_t properties{};
        EXPECT_EQ(side.plugin().get_properties(0, &properties), abi::ncclSuccess);
        EXPECT_EQ(properties.regIsGlobal, GetParam() >= 8 ? 1 : 0);
        for (std::size_t i = 0; i < kSent.size(); ++i) {
          std::vector<std::byte> buffer(kRoom[i]);
          const std::size_t fits = std::min(kSent[i], kRoom[i]);
          ASSERT_EQ(side.finish(side.receive(comm, buffer)), fits);
          const auto expected = pattern(kSent[i], static_cast<unsigned>(i));
          EXPECT_TRUE(std::equal(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(fits),
                                 expected.begin()));
        }
        channel.signal();
      });
  ::unsetenv("TOMBOLO_NET_OVERLONG");
}

// Sent eagerly and by rendezvous. Over RDMA and UCX, which cut no message, it is one also where that is asked
// for.
TEST_P(NetLarger, OneOfAGroupIsAnErrorThatNamesTagAndSizes) {
  std::vector<const char*> answers{"error"};
  if (overlong_is_always_an_error()) answers.push_back("truncate");
  for (const char* answer : answers) {
    for (const std::size_t room : {1000UL, 700'000UL}) {
      ::setenv("TOMBOLO_NET_OVERLONG", answer, 1);
      Pair::run(
          GetParam(),
          [&](Side& side, void* comm, Channel& channel) {
            // Tag 2 has a byte too many.
            std::vector<Bytes> data;
            for (int tag = 0; tag < 4; ++tag)
              data.push_back(pattern(room + (tag == 2 ? 1 : 0), static_cast<unsigned>(tag)));
            void* request = nullptr;
            std::vector<void*> requests;
            for (int tag = 3; tag >= 0; --tag) {
              // The comm may have failed before all are posted.
              abi::ncclResult_t posted = abi::ncclSuccess;
              const Deadline deadline = Deadline::after(kPatience);
              for (request = nullptr; request == nullptr && posted == abi::ncclSuccess;) {
                auto& one = data[static_cast<std::size_t>(tag)];
                posted = side.plugin().isend(comm, one.data(), one.size(), tag, nullptr, &request);
                REQUIRE(!deadline.passed());
              }
              if (posted != abi::ncclSuccess) break;
              requests.push_back(request);
            }
            // What the receiver has taken may be done before the comm fails.
            const Deadline deadline = Deadline::after(kPatience);
            for (void* one : requests) {
              int done = 0;
              while (done == 0 && side.plugin().test(one, &done, nullptr) == abi::ncclSuccess)
                REQUIRE(!deadline.passed());
            }
            channel.wait();
          },
          [&](Side& side, void* comm, Channel& channel) {
            std::vector<Bytes> buffers(4, Bytes(room));
            take_log();
            void* group = side.receive_group(comm, buffers, std::vector<int>{0, 1, 2, 3});
            EXPECT_NE(side.finish_badly(group), abi::ncclSuccess);
            const auto lines = take_log();
            ASSERT_FALSE(lines.empty());
            for (const std::string& said :
                 {std::string("tag 2"), std::to_string(room), std::to_string(room + 1)})
              EXPECT_NE(lines.back().find(said), std::string::npos) << lines.back();
            channel.signal();
          });
      ::unsetenv("TOMBOLO_NET_OVERLONG");
    }
  }
}

TEST_P(NetLarger, AGroupTakesWhatFitsWhereTheEnvironmentAsksForIt) {
  if (overlong_is_always_an_error()) GTEST_SKIP() << "such a message is an error over RDMA and UCX";
  ::setenv("TOMBOLO_NET_OVERLONG", "truncate", 1);
  constexpr std::array<std::size_t, 4> kSent{200, 50'000, 0, 64};
  constexpr std::array<std::size_t, 4> kRoom{100, 49'999, 10, 64};
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        for (const int step : {0, 1}) {
          std::vector<Bytes> data;
          for (int tag = 0; tag < 4; ++tag)
            data.push_back(
                pattern(kSent[static_cast<std::size_t>(tag)], static_cast<unsigned>(8 * step + tag)));
          std::vector<void*> requests;
          for (int tag = 3; tag >= 0; --tag)
            requests.push_back(side.send_with(tag, comm, data[static_cast<std::size_t>(tag)]));
          for (void* request : requests) side.finish(request);
        }
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        for (const int step : {0, 1}) {
          std::vector<Bytes> buffers;
          for (const std::size_t room : kRoom) buffers.emplace_back(room);
          const std::vector<int> tags{0, 1, 2, 3};
          const auto sizes = side.finish_group(side.receive_group(comm, buffers, tags), tags.size());
          for (std::size_t i = 0; i < tags.size(); ++i) {
            const std::size_t fits = std::min(kSent[i], kRoom[i]);
            ASSERT_EQ(sizes[i], fits);
            Bytes wanted = pattern(kSent[i], static_cast<unsigned>(8 * step + tags[i]));
            wanted.resize(fits);
            buffers[i].resize(fits);
            EXPECT_EQ(buffers[i], wanted) << "tag " << tags[i];
          }
        }
        channel.signal();
      });
  ::unsetenv("TOMBOLO_NET_OVERLONG");
}

}  // namespace
}  // namespace tombolo::net_plugin::test
