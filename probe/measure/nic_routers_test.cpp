#include "probe/measure/nic_routers.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::probe {
namespace {

collectives::Options options_of_host_with(std::vector<topology::Nic> nics) {
  collectives::Options options;
  options.router.host.name = "a0";
  options.router.host.nics = std::move(nics);
  return options;
}

topology::Nic loopback_nic(const std::string& name) {
  topology::Nic made;
  made.name = name;
  made.addresses = {"127.0.0.1"};
  return made;
}

TEST(NicRouters, EachKnowsItsOwnNicAndUnusableOnesHaveNone) {
  auto without_address = loopback_nic("eth1"), unusable = loopback_nic("eth2");
  without_address.addresses.clear();
  unusable.usable = false;
  const auto nics = open_nic_routers(
      options_of_host_with({loopback_nic("eth0"), without_address, unusable, loopback_nic("eth3")}),
      transport::Secret::random());
  const auto endpoints = decode_endpoints(encode_endpoints(endpoints_of(nics)));
  ASSERT_EQ(endpoints.size(), 4U);
  EXPECT_FALSE(endpoints[1] || endpoints[2]);
  for (const std::size_t at : {0, 3}) {
    ASSERT_TRUE(endpoints[at]);
    ASSERT_EQ(endpoints[at]->offers.size(), 1U);
    EXPECT_EQ(endpoints[at]->offers[0].nic, at == 0 ? "eth0" : "eth3");
  }
}

TEST(NicRouters, AListOfEndpointsThatIsCutShortIsRefused) {
  const auto nics =
      open_nic_routers(options_of_host_with({loopback_nic("eth0")}), transport::Secret::random());
  const std::string text = encode_endpoints(endpoints_of(nics));
  try {
    decode_endpoints(text.substr(0, text.size() - 1));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kRemote);
  }
  EXPECT_TRUE(decode_endpoints("").empty());
  for (const char* wrong :
       {"zzzzzzzz", "-0000001", " 0000000", "0x000000", "ffffffff", "0000000", "000000000"}) {
    try {
      decode_endpoints(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
    }
  }
}

}  // namespace
}  // namespace tombolo::probe
