// From where a user says the traffic class to the queue pairs that send: over a library of verbs without
// hardware, which notes what each queue pair was given.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/randomized_test.h"
#include "net_plugin/comms/context.h"
#include "net_plugin/rma/group.h"
#include "transport/testing/pretended_rdma.h"

namespace tombolo::net_plugin {
namespace {

using transport::test::PretendedVerbs;

class TrafficClass : public testing::Test {
 protected:
  void SetUp() override { verbs_.reset(test_seed()); }
  void TearDown() override { verbs_.reset(1); }

  /// A node of its own, as in another process; `variables`: of its environment, beside this process's.
  static std::shared_ptr<Node> node(const std::string& host,
                                    const std::map<std::string, const char*>& variables = {}) {
    auto made = std::make_shared<Node>();
    made->router = transport::RouterOptions::from_environment();
    made->environment = NcclEnvironment::read([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found != variables.end() ? found->second : nullptr;
    });
    made->environment.apply(made->router.rdma);
    made->router.extra_backends = {transport::test::pretended_rdma()};
    made->router.helpers = std::make_shared<transport::bootstrap::ProcessHelpers>();
    made->devices =
        std::make_unique<DeviceList>(make_devices(transport::test::loopback_host(host), DeviceMode::kMerged));
    made->deadline = std::chrono::seconds(60);
    return made;
  }

  struct Ends {
    int sending = -1, receiving = -1;
    bool operator==(const Ends&) const = default;
  };
  /// The one traffic class of the queue pairs that each end has now.
  Ends of_queue_pairs() {
    Ends ends;
    for (const auto& [device, traffic_class] : verbs_.traffic_classes()) {
      int& end = device == PretendedVerbs::name(0) ? ends.sending : ends.receiving;
      EXPECT_TRUE(end == -1 || end == traffic_class) << device << ": " << end << " and " << traffic_class;
      end = traffic_class;
    }
    return ends;
  }
  /// Of a connection between two communicators; `per_connection`: as NCCL's connect hands it over before v11.
  Ends of_comms(const std::shared_ptr<Node>& from, int sending, int receiving,
                std::optional<int> per_connection = {}) {
    Context left(from, Log(), sending), right(node("right"), Log(), receiving);
    const auto listener = right.listen(0);
    const HandleBytes handle = listener->handle();
    std::unique_ptr<Comm> connected, accepted;
    for (const auto deadline = transport::test::soon(); !(connected && accepted);) {
      if (!connected)
        connected = per_connection ? left.connect(0, handle, *per_connection) : left.connect(0, handle);
      if (!accepted) accepted = listener->accept();
      if (deadline.passed()) {
        ADD_FAILURE() << "not connected";
        break;
      }
    }
    return of_queue_pairs();
  }
  template <typename Action>
  static std::string refusal(const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << error.what();
      return error.what();
    }
    return "none";
  }

  static constexpr const char* kRefusal =
      "the communicator's traffic class is 256 (ncclConfig_t's trafficClass): expected 0 to 255";
  static constexpr int kNone = abi::NCCL_NET_TRAFFIC_CLASS_UNDEF;
  PretendedVerbs& verbs_ = PretendedVerbs::instance();
};

TEST_F(TrafficClass, IsZeroUnlessSomebodySaysAnother) {
  EXPECT_EQ(of_comms(node("left"), kNone, kNone), (Ends{0, 0}));
}

TEST_F(TrafficClass, OfNcclsVariableIsThatOfAllThisProcessSends) {
  EXPECT_EQ(of_comms(node("left", {{"NCCL_IB_TC", "106"}}), kNone, kNone), (Ends{106, 0}));
}

TEST_F(TrafficClass, OfTheOwnVariableGoesBeforeNccls) {
  setenv("TOMBOLO_RDMA_TC", "7", 1);
  const auto from = node("left", {{"NCCL_IB_TC", "106"}, {"TOMBOLO_RDMA_TC", "7"}});
  unsetenv("TOMBOLO_RDMA_TC");
  EXPECT_EQ(of_comms(from, kNone, kNone), (Ends{7, 0}));
}

TEST_F(TrafficClass, OfACommunicatorGoesBeforeThatOfTheProcess) {
  const auto from = node("left", {{"NCCL_IB_TC", "106"}});
  EXPECT_EQ(of_comms(from, 255, kNone), (Ends{255, 0}));
  EXPECT_EQ(of_comms(from, 0, 96), (Ends{0, 96})) << "0 is one too";
  EXPECT_EQ(of_comms(from, kNone, kNone), (Ends{106, 0})) << "of that communicator alone";
}

TEST_F(TrafficClass, OfAConnectionIsThatOfItsSenderAlone) {
  EXPECT_EQ(of_comms(node("left"), kNone, kNone, 96), (Ends{96, 0}));
}

TEST_F(TrafficClass, ThatIsNoneIsRefusedWhereverItIsSaid) {
  EXPECT_EQ(refusal([] {
              node("left", {{"NCCL_IB_TC", "256"}});
            }),
            "NCCL_IB_TC=256: expected 0 to 255; TOMBOLO_RDMA_TC has a value for the plugin alone");
  EXPECT_EQ(refusal([&] { of_comms(node("left"), 256, kNone); }), kRefusal);
  EXPECT_EQ(refusal([&] { of_comms(node("left"), kNone, kNone, 256); }), kRefusal);
}

// One rank raises a signal of the other, by a connection that it dials for that.
TEST_F(TrafficClass, OfOneSidedOperationsIsThatOfTheirContext) {
  const auto left = node("left", {{"NCCL_IB_TC", "106"}}), right = node("right");
  const auto raised = [&](int traffic_class) {
    rma::Listening near(left, left->devices->at(0), Log()), far(right, right->devices->at(0), Log());
    const std::vector<HandleBytes> handles = {near.handle(), far.handle()};
    rma::Group from(near, handles, 0), to(far, handles, 1);
    std::uint64_t signals[2] = {};
    const rma::Window* window =
        from.add_window(std::as_writable_bytes(std::span(signals, 1)), abi::NCCL_PTR_HOST);
    to.add_window(std::as_writable_bytes(std::span(signals + 1, 1)), abi::NCCL_PTR_HOST);
    from.set_traffic_class(traffic_class);
    rma::Operation* operation = from.put(1, nullptr, 0, 0, nullptr, 0, {window, 0, 1});
    for (const auto deadline = transport::test::soon(); !from.test(operation) && !deadline.passed();)
      to.progress();
    EXPECT_EQ(signals[1], 1U);
    return of_queue_pairs();
  };
  EXPECT_EQ(raised(96), (Ends{96, 0}));
  EXPECT_EQ(raised(kNone), (Ends{106, 0}));
  EXPECT_EQ(refusal([&] { raised(256); }), kRefusal);
}

}  // namespace
}  // namespace tombolo::net_plugin
