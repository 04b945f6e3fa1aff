#include "net_plugin/comms/listen_comm.h"

#include <limits>

#include "base/error.h"
#include "net_plugin/comms/set_up_stall.h"

namespace tombolo::net_plugin {

int checked_traffic_class(int traffic_class) {
  constexpr int kNotSet = std::numeric_limits<int>::min();
  if (traffic_class == kNotSet) return abi::NCCL_NET_TRAFFIC_CLASS_UNDEF;
  if (traffic_class != abi::NCCL_NET_TRAFFIC_CLASS_UNDEF && (traffic_class < 0 || traffic_class > 255)) {
    fail(Cause::kInvalidUsage,
         "the communicator's traffic class is {} (ncclConfig_t's trafficClass): expected 0 to 255",
         traffic_class);
  }
  return traffic_class;
}

std::shared_ptr<transport::Router> make_router(const Node& node, const NetDevice& device,
                                               const transport::Secret& secret, const Log& log,
                                               int traffic_class, const Legs* legs) {
  transport::RouterOptions options = node.router;
  options.host = device.host;
  options.standby = device.standby;
  options.gpu_staging = legs != nullptr ? legs->further_legs() : transport::GpuStagingMaker();
  // The processor cannot copy a small message from or to the GPU's memory.
  if (legs != nullptr && node.gpu->promise(device.host.nics).direct) options.rdma.eager_bytes = 0;
  options.secret = secret;
  options.secret_hint = "the handle that NCCL carried is of another run, or another job took over the port";
  options.log = log;
  options.traffic_class = traffic_class;
  return std::make_shared<transport::Router>(std::move(options));
}

namespace {

/// Further lanes, as legs.
class LegArrivals final : public LaneArrivals {
 public:
  LegArrivals(std::unique_ptr<LaneArrivals> beneath, const Legs& legs)
      : beneath_(std::move(beneath)), legs_(legs) {}
  std::unique_ptr<transport::Connection> next() override { return legs_.leg(beneath_->next()); }

 private:
  std::unique_ptr<LaneArrivals> beneath_;
  Legs legs_;
};

}  // namespace

ListenComm::ListenComm(const Node& node, const NetDevice& device, Log log, int traffic_class)
    : log_(std::move(log)),
      device_(device.name),
      stages_(node.gpu->wants_staging(device.host.nics)),
      legs_(node.gpu, gpu::Directions::kReceive, stages_, false, node.router.overlong, log_),
      groups_(node.groups),
      tuner_(node.tuner),
      stalls_(node.stalls),
      clock_(*node.router.clock),
      secret_(transport::Secret::random()),
      door_(std::make_shared<Door>(make_router(node, device, secret_, log_, traffic_class, &legs_))) {}

ListenComm::~ListenComm() {
  door_->close();
}

HandleBytes ListenComm::handle() const {
  Handle made{secret_, door_->endpoint(), groups_, stages_};
  if (tuner_ != nullptr) made.tuner = tuner_->mark();
  return made.encode();
}

/// NCCL asks again and again from when it wants a comm.
void ListenComm::look_for_stall() noexcept {
  if (!stalls_) return;
  const TimePoint now = clock_.now();
  const std::optional<Duration> stalled = watch_.look(0, now, stalls_->limit());
  if (!stalled || !stalls_->may_tell(now)) return;
  try {
    SetUpStall facts;
    facts.of = SetUpStall::Of::kAccept;
    facts.device = device_;
    facts.offers = door_->endpoint().offers;
    facts.stalled = *stalled;
    log_.warning("{}", stall_text(*stalls_, facts));
  } catch (...) {
    // As in Context.
  }
}

std::unique_ptr<Comm> ListenComm::accept() {
  auto arrival = door_->accept();
  if (!arrival) {
    look_for_stall();
    return nullptr;
  }
  watch_.begin();
  auto first = legs_.leg(std::move(arrival->connection));
  std::unique_ptr<Lanes> lanes;
  if (groups_) {
    auto arrivals =
        std::make_unique<LegArrivals>(std::make_unique<DoorArrivals>(door_, arrival->comm), legs_);
    lanes = std::make_unique<ReceiveLanes>(std::move(first), std::move(arrivals), clock_);
  } else {
    lanes = std::make_unique<OneLane>(std::move(first));
    door_->forget(arrival->comm);
  }
  auto made = std::make_unique<Comm>(Comm::Direction::kReceive, door_->router(), std::move(lanes), log_);
  made->tell_of_stalls(stalls_);
  return made;
}

}  // namespace tombolo::net_plugin
