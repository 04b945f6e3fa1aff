#include "transport/routing/backends.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "transport/bootstrap/inbox.h"
#include "transport/bootstrap/way.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport {
namespace {

topology::Nic nic_of(const std::string& name, topology::NicKind kind) {
  topology::Nic nic;
  nic.name = name;
  nic.kind = kind;
  nic.addresses = {"127.0.0.1"};
  return nic;
}

/// A host whose one RDMA NIC has no device that verbs could open.
RouterOptions options_with_rdma_nic() {
  RouterOptions options = test::router_options("left");
  options.host.nics.push_back(nic_of("ib0", topology::NicKind::kInfiniBand));
  options.policy.transports = {"tcp", "shm", "rdma"};
  return options;
}

Backends made_of(const RouterOptions& options) {
  return make_backends(options, std::chrono::seconds(10));
}

std::vector<Carrier> carriers_of(const RouterOptions& options) {
  std::vector<Carrier> carriers;
  for (const auto& one : made_of(options).usable) carriers.push_back(one->carrier());
  return carriers;
}

TEST(Backends, AreThoseThatThePolicyAllows) {
  RouterOptions options = test::router_options("left");
  EXPECT_EQ(carriers_of(options), (std::vector{Carrier::kTcp, Carrier::kShm}));
  options.policy.transports = {"tcp"};
  EXPECT_EQ(carriers_of(options), std::vector{Carrier::kTcp});
  // tcp is there always: it carries what the others agree by.
  options.policy.transports = {"shm"};
  EXPECT_EQ(carriers_of(options), (std::vector{Carrier::kTcp, Carrier::kShm}));
}

TEST(Backends, SayWhyARealRdmaNicCannotBeUsed) {
  RouterOptions options = options_with_rdma_nic();
  Backends made = made_of(options);
  EXPECT_EQ(made.usable.size(), 2u) << "no rdma without a device";
  ASSERT_TRUE(made.rdma_problems.contains("ib0"));
  EXPECT_NE(made.rdma_problems["ib0"], "");
  EXPECT_FALSE(made.rdma_problems.contains("eth0")) << "it is none";

  options.policy.transports = {"tcp", "shm"};
  made = made_of(options);
  EXPECT_EQ(made.rdma_problems["ib0"], "TOMBOLO_TRANSPORTS does not allow rdma");

  options = options_with_rdma_nic();
  options.limits = {{"ib0", 1e6}};
  made = made_of(options);
  EXPECT_EQ(made.rdma_problems["ib0"], "TOMBOLO_NIC_LIMITS limits it, which only tcp can keep");
}

TEST(Backends, AnEmulatedNicIsNoRdmaNic) {
  RouterOptions options = options_with_rdma_nic();
  options.host.nics.back().emulated = true;
  EXPECT_TRUE(made_of(options).rdma_problems.empty());
}

TEST(Backends, OptionsOutOfRangeAreRefused) {
  RouterOptions options = test::router_options("left");
  options.limits = {{"eth0", 0}};
  EXPECT_THROW(made_of(options), Error);
}

// Limits are kept by tcp alone.
TEST(Backends, UcxDoesNotGoAroundALimit) {
  RouterOptions options = test::router_options("left");
  options.policy.transports = {"tcp", "ucx"};
  options.limits = {{"eth0", 1e6}};
  EXPECT_EQ(carriers_of(options), std::vector{Carrier::kTcp});
}

class Other final : public Backend {
 public:
  explicit Other(Carrier carrier) : carrier_(carrier) {}
  Carrier carrier() const noexcept override { return carrier_; }
  std::unique_ptr<Connecting> connect(std::shared_ptr<bootstrap::Acceptor>, bootstrap::Way) override {
    return nullptr;
  }
  std::unique_ptr<Connecting> accept(std::shared_ptr<bootstrap::Acceptor>,
                                     bootstrap::AuthenticatedStream) override {
    return nullptr;
  }

 private:
  Carrier carrier_;
};

TEST(Backends, OfOthersComeLastAndEachNeedsACarrierOfItsOwn) {
  RouterOptions options = test::router_options("left");
  const auto adding = [&](int carrier) {
    options.extra_backends = {[](const RouterOptions&) { return nullptr; },
                              [carrier](const RouterOptions& given) {
                                EXPECT_EQ(given.host.name, "left");
                                return std::make_shared<Other>(static_cast<Carrier>(carrier));
                              }};
    return carriers_of(options);
  };
  EXPECT_EQ(adding(5), (std::vector{Carrier::kTcp, Carrier::kShm, static_cast<Carrier>(5)}));
  EXPECT_THROW(adding(static_cast<int>(Carrier::kShm)), Error) << "there is one";
  EXPECT_THROW(adding(kMostCarriers), Error) << "an endpoint has no bit for it";
}

}  // namespace
}  // namespace tombolo::transport
