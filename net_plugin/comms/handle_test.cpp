#include "net_plugin/comms/handle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace tombolo::net_plugin {
namespace {

transport::Offer offer(topology::NicKind kind, std::string_view fabric, const std::string& address) {
  transport::Offer made;
  made.kind = kind;
  made.fabric = transport::fabric_hash(fabric);
  made.address = address;
  made.port = 40000;
  made.rate_bits_per_second = 100'000'000'000;
  return made;
}

std::set<std::string> addresses_after_a_round_trip(const std::vector<transport::Offer>& offers) {
  Handle handle{transport::Secret::random(), {}};
  handle.endpoint.offers = offers;
  Handle read = Handle::decode(handle.encode());
  EXPECT_TRUE(std::ranges::equal(read.secret.bytes(), handle.secret.bytes()));
  std::set<std::string> addresses;
  for (const transport::Offer& one : read.endpoint.offers) addresses.insert(one.address);
  return addresses;
}

TEST(Handle, CarriesSecretAndOffers) {
  EXPECT_EQ(addresses_after_a_round_trip({offer(topology::NicKind::kRoce, "roce-B", "10.2.0.1"),
                                          offer(topology::NicKind::kTcp, "", "192.168.7.1")}),
            (std::set<std::string>{"10.2.0.1", "192.168.7.1"}));
}

TEST(Handle, SaysWhetherItsListenerTakesGroups) {
  for (const bool groups : {true, false}) {
    Handle handle{transport::Secret::random(), {}, groups};
    handle.endpoint.offers = {offer(topology::NicKind::kTcp, "", "192.168.7.1")};
    EXPECT_EQ(Handle::decode(handle.encode()).groups, groups);
  }
}

TEST(Handle, SaysWhetherTheListenerStages) {
  Handle handle{transport::Secret::random(), {}};
  handle.endpoint.offers = {offer(topology::NicKind::kTcp, "", "192.168.7.1")};
  EXPECT_FALSE(Handle::decode(handle.encode()).stages);
  handle.stages = true;
  EXPECT_TRUE(Handle::decode(handle.encode()).stages);
}

TEST(Handle, SaysWhatTheListenersTunerGoesBy) {
  Handle handle{transport::Secret::random(), {}};
  handle.endpoint.offers = {offer(topology::NicKind::kTcp, "", "192.168.7.1")};
  handle.stages = true;
  EXPECT_EQ(Handle::decode(handle.encode()).tuner, TunerMark{});
  for (const TunerMode mode : {TunerMode::kAuto, TunerMode::kOff, TunerMode::kSpanning}) {
    for (const bool active : {false, true}) {
      handle.tuner = {mode, 0xa7, active};
      const Handle read = Handle::decode(handle.encode());
      EXPECT_EQ(read.tuner, handle.tuner);
      EXPECT_TRUE(read.stages);
      EXPECT_TRUE(read.groups);
      EXPECT_FALSE(read.more_nics);
    }
  }
}

TEST(Handle, SaysWhetherItHasRoomForAllNics) {
  std::vector<transport::Offer> offers;
  const auto more_nics = [&] {
    Handle handle{transport::Secret::random(), {}};
    handle.endpoint.offers = offers;
    return Handle::decode(handle.encode()).more_nics;
  };
  offers.push_back(offer(topology::NicKind::kTcp, "", "10.0.0.1"));
  offers.push_back(offer(topology::NicKind::kTcp, "loopback", "127.0.0.1"));
  for (int i = 2; i < 5; ++i) {
    offers.push_back(offer(topology::NicKind::kTcp, "", "10.0.0." + std::to_string(i)));
    EXPECT_FALSE(more_nics()) << i << " IPv4 addresses beside loopback";
  }
  offers.push_back(offer(topology::NicKind::kTcp, "", "10.0.0.5"));
  EXPECT_TRUE(more_nics());
  // Loopback itself is of no use to another host.
  offers = {offer(topology::NicKind::kTcp, "", "fd00::1"), offer(topology::NicKind::kTcp, "x", "fd00::2"),
            offer(topology::NicKind::kTcp, "y", "fd00::3")};
  EXPECT_TRUE(more_nics());
  offers[2] = offer(topology::NicKind::kTcp, "loopback", "::1");
  EXPECT_FALSE(more_nics());
}

TEST(Handle, KeepsTheEthernetThatAllShareWhenThereIsNoRoomForAll) {
  std::vector<transport::Offer> offers;
  for (int i = 0; i < 8; ++i) {
    offers.push_back(offer(topology::NicKind::kInfiniBand, "ib-A", "10.1.0." + std::to_string(i + 1)));
  }
  offers.push_back(offer(topology::NicKind::kTcp, "", "192.168.7.1"));
  auto kept = addresses_after_a_round_trip(offers);
  EXPECT_TRUE(kept.contains("192.168.7.1"));
  EXPECT_TRUE(kept.contains("10.1.0.1"));
}

TEST(Handle, KeepsItWhenEveryRailIsAFabricOfItsOwnAndAddressesAreLong) {
  std::vector<transport::Offer> offers;
  for (int i = 0; i < 8; ++i) {
    offers.push_back(
        offer(topology::NicKind::kRoce, "rail-" + std::to_string(i), "fd00:1::" + std::to_string(i + 1)));
  }
  offers.push_back(offer(topology::NicKind::kTcp, "", "fd00:7::1"));
  auto kept = addresses_after_a_round_trip(offers);
  EXPECT_TRUE(kept.contains("fd00:7::1"));
  EXPECT_TRUE(kept.contains("fd00:1::1"));
}

TEST(Handle, IsRefusedWhenItIsNotTombolosOrDamaged) {
  Handle handle{transport::Secret::random(), {}};
  handle.endpoint.offers = {offer(topology::NicKind::kTcp, "", "10.0.0.1")};
  HandleBytes good = handle.encode();
  EXPECT_NO_THROW(Handle::decode(good));
  EXPECT_THROW(Handle::decode(HandleBytes{}), Error);
  for (std::size_t at : {0UL, 4UL}) {
    HandleBytes bad = good;
    bad[at] ^= std::byte{0x40};
    EXPECT_THROW(Handle::decode(bad), Error) << "byte " << at;
  }
  for (unsigned length = 0; length < 256; ++length) {
    // Every claimed length gives an error or an endpoint, never a read beyond the handle (which ASan would
    // find).
    HandleBytes bad = good;
    bad[5] = static_cast<std::byte>(length);
    try {
      Handle::decode(bad);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
    }
  }
}

}  // namespace
}  // namespace tombolo::net_plugin
