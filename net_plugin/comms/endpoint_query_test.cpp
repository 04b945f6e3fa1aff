#include "net_plugin/comms/endpoint_query.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "net_plugin/comms/context.h"

namespace tombolo::net_plugin {
namespace {

using std::chrono::seconds;
using topology::NicKind;

/// A host of a cluster whose rails are fabrics of their own: the Ethernet, and so many RoCE NICs from a first
/// on, carried over loopback addresses.
std::shared_ptr<Node> railed_node(const std::string& name, int first, int count) {
  const auto nic = [](std::string nic_name, NicKind kind, std::string fabric, std::string address,
                      int gigabits) {
    topology::Nic made;
    made.name = std::move(nic_name);
    made.kind = kind;
    made.fabric = std::move(fabric);
    made.addresses = {std::move(address)};
    made.rate_bits_per_second = static_cast<std::uint64_t>(gigabits) * 1'000'000'000;
    made.emulated = topology::is_rdma(kind);
    return made;
  };
  topology::Host host;
  host.name = name;
  for (int i = first; i < first + count; ++i)
    host.nics.push_back(nic(fmt::format("n{}", i), NicKind::kRoce, fmt::format("rail{}", i),
                            fmt::format("127.0.{}.{}", i + 1, name == "a0" ? 1 : 2), 100));
  host.nics.push_back(nic("eth0", NicKind::kTcp, "", name == "a0" ? "127.0.100.1" : "127.0.100.2", 1));
  auto node = std::make_shared<Node>();
  node->devices = std::make_unique<DeviceList>(make_devices(host, DeviceMode::kMerged));
  node->deadline = seconds(60);
  return node;
}

class EndpointExchange : public testing::Test {
 protected:
  Log log() {
    return {LogLevel::kInfo, [this](LogLevel, std::string_view text) { log_ += fmt::format("{}\n", text); }};
  }
  /// Connects from a1 to a listener of a0, and gives what was logged.
  std::string connect(Context& from, Context& to, HandleBytes& handle) {
    log_.clear();
    listeners_.push_back(to.listen(0));  // which stays, or the next one would have another port
    ListenComm* listener = listeners_.back().get();
    handle = listener->handle();
    std::unique_ptr<Comm> sender, receiver;
    for (const auto deadline = Deadline::after(seconds(60)); !(sender && receiver);) {
      if (deadline.passed()) {
        ADD_FAILURE() << log_;
        break;
      }
      if (!sender) sender = from.connect(0, handle);
      if (!receiver) receiver = listener->accept();
    }
    return log_;
  }
  std::string log_;
  std::vector<std::unique_ptr<ListenComm>> listeners_;
};

TEST_F(EndpointExchange, ReachesANicThatTheHandleHasNoRoomForAndAsksOnce) {
  const auto left = railed_node("a0", 0, 12), right = railed_node("a1", 11, 1);
  Context to(left, log()), from(right, log());
  HandleBytes handle{};
  const std::string first = connect(from, to, handle);
  const Handle read = Handle::decode(handle);
  EXPECT_TRUE(read.more_nics);
  EXPECT_LT(read.endpoint.offers.size(), 13U);
  EXPECT_NE(first.find("to all NICs"), std::string::npos) << first;
  EXPECT_NE(first.find("n11 (127.0.12.2) -> n11 (127.0.12.1)"), std::string::npos) << first;
  const std::string second = connect(from, to, handle);
  EXPECT_EQ(second.find("to all NICs"), std::string::npos) << second;
  EXPECT_NE(second.find("n11 (127.0.12.2) -> n11 (127.0.12.1)"), std::string::npos) << second;
}

TEST_F(EndpointExchange, AsksNothingWhereTheHandleTellsAll) {
  const auto left = railed_node("a0", 0, 2), right = railed_node("a1", 1, 1);
  Context to(left, log()), from(right, log());
  HandleBytes handle{};
  const std::string text = connect(from, to, handle);
  EXPECT_FALSE(Handle::decode(handle).more_nics);
  EXPECT_EQ(text.find("to all NICs"), std::string::npos) << text;
}

TEST_F(EndpointExchange, AnAttemptThatAsksIsAbandonedLikeAnyOther) {
  const auto left = railed_node("a0", 0, 12), right = railed_node("a1", 11, 1);
  Context to(left, log());
  auto from = std::make_unique<Context>(right, log());
  auto listener = to.listen(0);
  const HandleBytes handle = listener->handle();
  EXPECT_EQ(from->connect(0, handle), nullptr);
  EXPECT_EQ(from->attempts(), 1U);
  from.reset();
  listener.reset();
}

TEST(EndpointCache, KnowsListenersOfTheSameProcessAndNicsAlone) {
  transport::Endpoint compact;
  compact.process = 7;
  compact.listener = 1;
  compact.offers.push_back({"", NicKind::kTcp, 0, "10.0.0.1", 4000, 1'000'000, false});
  transport::Endpoint full = compact;
  full.host = "a0";
  full.offers.push_back({"eth1", NicKind::kTcp, 5, "10.0.1.1", 4000, 1'000'000, false});
  EndpointCache cache;
  EXPECT_FALSE(cache.find(compact));
  cache.add(compact, full);
  compact.listener = 9;
  const auto found = cache.find(compact);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->listener, 9U);
  EXPECT_EQ(found->offers.size(), 2U);
  transport::Endpoint other = compact;
  other.process = 8;
  EXPECT_FALSE(cache.find(other)) << "another process";
  other = compact;
  other.offers.front().address = "10.0.0.2";
  EXPECT_FALSE(cache.find(other)) << "another device's NICs";
}

}  // namespace
}  // namespace tombolo::net_plugin
