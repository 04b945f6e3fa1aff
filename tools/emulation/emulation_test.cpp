// Emulations on loopback, which every machine permits; tests/netns/emulation_test.cpp has namespaces.
#include "tools/emulation/emulation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tools/cli/testing.h"

namespace tombolo::emulation {
namespace {

using tools::error_of;

std::unique_ptr<Emulation> on_loopback(const std::string& spec) {
  return Emulation::start(Spec::from_text(spec), {Mode::kLoopback, {}});
}

TEST(EmulationMode, HasAName) {
  EXPECT_EQ(parse_mode("auto"), std::nullopt);
  EXPECT_EQ(parse_mode("namespaces"), Mode::kNamespaces);
  EXPECT_EQ(parse_mode("loopback"), Mode::kLoopback);
  EXPECT_EQ(mode_name(Mode::kNamespaces), "namespaces");
  EXPECT_EQ(mode_name(Mode::kLoopback), "loopback");
  EXPECT_MENTIONS(error_of([] { parse_mode("dream"); }), "'dream' is none of auto, namespaces, loopback");
}

TEST(FreePort, IsBelowThoseThatTheKernelGivesAway) {
  const int port = find_free_port("127.0.0.1", static_cast<std::uint32_t>(::getpid()));
  EXPECT_GE(port, 15000);
  EXPECT_LE(port, 32000);
  EXPECT_EQ(find_free_port("203.0.113.1", 1), -1) << "an address of nobody";
  EXPECT_EQ(find_free_port("localhost", 1), -1) << "no address";
}

TEST(LoopbackEmulation, DescribesItsHosts) {
  const auto emulation = on_loopback("holmes:fast=800mbit,slow=80mbit");
  EXPECT_EQ(emulation->mode(), Mode::kLoopback);
  EXPECT_MENTIONS(emulation->description(), "WITHOUT network namespaces");
  EXPECT_MENTIONS(emulation->description(), "(as asked)");
  const auto& cluster = emulation->cluster();
  EXPECT_TRUE(cluster.emulated);
  ASSERT_EQ(cluster.hosts.size(), 4U);
  EXPECT_TRUE(cluster.links.empty()) << "those are for the probe";
  const auto& nics = cluster.hosts[3].nics;
  ASSERT_EQ(nics.size(), 2U);
  EXPECT_EQ(nics[0].kind, topology::NicKind::kRoce) << "the best comes first";
  EXPECT_TRUE(nics[0].emulated);
  EXPECT_EQ(nics[0].rate_bits_per_second, 800'000'000U);
  EXPECT_EQ(nics[1].addresses, std::vector<std::string>{"127.77.1.4"});
  EXPECT_FALSE(nics[1].emulated);
  EXPECT_EQ(nics[1].burst_bytes, 0) << "the transport applies the rate, not a token bucket";
  ASSERT_TRUE(cluster.shared_processor);
  EXPECT_EQ(cluster.shared_processor->hosts, (std::vector<std::string>{"a0", "a1", "b0", "b1"}));
  EXPECT_TRUE(cluster.unreachable.empty()) << "the two fast fabrics are of different kinds";
  EXPECT_EQ(emulation->address("b1", ""), "127.77.1.4");
  EXPECT_EQ(emulation->enter(0), 0) << "there is nothing to enter";
}

TEST(LoopbackEmulation, DividesANicsRateAmongTheRanksOfItsHost) {
  const auto emulation = on_loopback("holmes:fast=800mbit,slow=80mbit");
  using Variables = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(emulation->environment("a0", 1),
            (Variables{{"TOMBOLO_NIC_LIMITS", "fast0=800000000,eth0=80000000"}}));
  EXPECT_EQ(emulation->environment("a0", 4),
            (Variables{{"TOMBOLO_NIC_LIMITS", "fast0=200000000,eth0=20000000"}}));
  EXPECT_EQ(emulation->environment("a0", 0), emulation->environment("a0", 1));
}

TEST(LoopbackEmulation, SaysWhatItHasNot) {
  const auto emulation = on_loopback("holmes");
  EXPECT_MENTIONS(error_of([&] { emulation->address("a0", "B-roce"); }),
                  "host 'a0' has no NIC on fabric 'B-roce'");
  EXPECT_MENTIONS(error_of([&] { emulation->address("z9", ""); }), "has no host 'z9'; it has a0, a1, b0, b1");
  EXPECT_MENTIONS(error_of([&] { emulation->order_relay(0, RelayOrder::kCut); }), "no relay carries link 0");
  EXPECT_GE(emulation->free_port("b0", ""), 15000);
}

TEST(LoopbackEmulation, CannotShapeWhatIsBetweenNics) {
  EXPECT_MENTIONS(error_of([] { on_loopback("two-clusters"); }, Cause::kUnsupported),
                  "has shaped links between clusters, which needs network namespaces");
  Spec spec = Spec::from_text("holmes");
  spec.hosts[0].nics.push_back({"vip", topology::NicKind::kTcp, "storage", "ethernet", 1e8, true, "eth0"});
  EXPECT_MENTIONS(error_of(
                      [&] {
                        Emulation::start(spec, {Mode::kLoopback, {}});
                      },
                      Cause::kUnsupported),
                  "has NICs behind one port");
}

TEST(LoopbackEmulation, FabricsOfOneKindDoNotReachEachOther) {
  Spec spec = Spec::from_text("holmes:hosts=2");
  spec.hosts[1].nics[0].kind = topology::NicKind::kInfiniBand;
  const auto emulation = Emulation::start(spec, {Mode::kLoopback, {}});
  EXPECT_EQ(emulation->cluster().unreachable,
            (std::vector<std::pair<std::string, std::string>>{{"A-ib", "B-roce"}}));
}

TEST(LoopbackEmulation, TakesItsFolderWithIt) {
  std::string folder;
  {
    const auto emulation = on_loopback("holmes:hosts=2");
    folder = emulation->directory();
    EXPECT_TRUE(std::filesystem::is_directory(folder));
    EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all) << "private";
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace tombolo::emulation
