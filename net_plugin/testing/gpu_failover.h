// For tests: two hosts whose NICs reach the memory of a pretended GPU, over a library of verbs without
// hardware.
#pragma once

#include <gtest/gtest.h>

#include "net_plugin/gpu/leg_staging.h"
#include "net_plugin/testing/random_traffic.h"
#include "transport/rdma/device.h"
#include "transport/routing/failover_connection.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_messages.h"

namespace tombolo::net_plugin::gpu {

using transport::FailoverConnection;
using transport::test::PretendedVerbs;

inline constexpr std::size_t kLeft = 0, kRight = 2;  // the first device of each host

class GpuFailover : public StagedConnections {
 protected:
  void SetUp() override {
    verbs_.reset(test_seed());
    verbs_.set_bus(over_the_bus);
    transport::rdma::Devices::of_process().use(verbs_.functions());
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << book_.text();
    pair_ = {};
    EXPECT_EQ(verbs_.registered(), 0U);
    transport::rdma::Devices::of_process().use(nullptr);
    verbs_.set_bus(nullptr);
    verbs_.reset(1);
  }
  /// NICs reach the memory of GPUs, which does not show at once what they write there.
  static void over_the_bus(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::vector<std::byte> read;
    if (cuda().is_device_memory(from)) {
      read = cuda().read_by_nic(from, bytes);
      from = read.data();
    }
    if (cuda().is_device_memory(to)) {
      cuda().write_by_nic(to, {from, bytes});
    } else {
      std::memcpy(to, from, bytes);
    }
  }

  /// A host with so many RoCE NICs, and Ethernet.
  transport::RouterOptions options(const std::string& host, std::size_t nics, Directions directions,
                                   const std::shared_ptr<Staging>& staging) {
    const bool is_left = host == "left";
    transport::RouterOptions made = transport::test::router_options(host);
    made.log = book_.of(host);
    made.policy.transports = {"rdma", "tcp"};
    made.rdma = transport::test::pretended_options(1, 0);
    made.return_after = std::chrono::milliseconds(1);
    made.tcp.streams = streams_;
    for (std::size_t i = 0; i < nics; ++i) {
      topology::Nic nic;
      nic.name = fmt::format("rail{}", i);
      nic.kind = topology::NicKind::kRoce;
      nic.rdma_device = PretendedVerbs::name((is_left ? kLeft : kRight) + i);
      nic.rdma_port = 1;
      nic.fabric = "fast";
      nic.addresses = {fmt::format("127.0.{}.{}", i + 1, is_left ? 1 : 2)};
      nic.rate_bits_per_second = 100'000'000'000;
      made.host.nics.push_back(nic);
    }
    made.gpu_staging = [=, this](std::uint64_t) {
      return std::make_unique<LegStaging>(staging, directions, log(), transport::Overlong::kError);
    };
    return made;
  }
  void connect(std::size_t nics = 1) { connect(nics, Directions::kBoth, Directions::kBoth, staging_); }
  void connect(std::size_t nics, Directions from, Directions to, const std::shared_ptr<Staging>& receivers) {
    pair_ = transport::test::connect_routers(options("left", nics, from, staging_),
                                             options("right", nics, to, receivers));
    ASSERT_TRUE(pair_.first && pair_.second);
  }
  transport::Connection& left() { return *pair_.first; }
  transport::Connection& right() { return *pair_.second; }
  const std::string& transport_of(transport::Connection& one) { return one.route().transport; }
  std::uint64_t moves() { return dynamic_cast<FailoverConnection&>(left()).moves(); }

  /// Messages both ways, all of which must arrive; nothing may be made for them any more. `turn`: called
  /// again and again meanwhile, with how many have.
  template <typename Turn>
  void exchange(std::size_t count, unsigned seed, Turn&& turn) {
    Traffic there(left(), right(), count, seed, 2), back(right(), left(), count, seed + 1, 2);
    cuda().forbid_making(true);
    for (auto deadline = soon(); !there.over() || !back.over();) {
      there.turn();
      back.turn();
      turn(there.received() + back.received());
      if (HasFatalFailure()) return;
      ASSERT_FALSE(deadline.passed()) << transport_of(left()) << ", " << transport_of(right());
    }
    cuda().forbid_making(false);
  }
  void exchange(std::size_t count, unsigned seed) {
    exchange(count, seed, [](std::size_t) {});
  }
  /// Messages until both ends use that transport.
  void go_on_until(const std::string& transport, unsigned seed) {
    for (auto deadline = soon(); transport_of(left()) != transport || transport_of(right()) != transport;) {
      exchange(2, seed);
      if (HasFatalFailure()) return;
      ASSERT_FALSE(deadline.passed()) << transport_of(left()) << ", " << transport_of(right());
    }
  }
  static PretendedCudaOptions two_gpus() {
    PretendedCudaOptions made;
    made.gpus = 2;
    made.seed = test_seed();
    return made;
  }
  std::string failure() {
    for (auto deadline = soon(); left().error() == nullptr && !deadline.passed();) {
      left().progress();
      right().progress();
    }
    return left().error() != nullptr ? left().error()->what() : "none";
  }

  PretendedVerbs& verbs_ = PretendedVerbs::instance();
  transport::test::LogBook book_;
  transport::test::Pair pair_;
  int streams_ = 0;  // of TCP; 0: its own choice
};

}  // namespace tombolo::net_plugin::gpu
