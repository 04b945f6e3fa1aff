#include "net_plugin/listen_comm.h"

namespace tombolo::net_plugin {

std::shared_ptr<transport::Router> make_router(const Node& node, const NetDevice& device,
                                               const transport::Secret& secret, const Log& log) {
  transport::RouterOptions options = node.router;
  options.host = device.host;
  options.secret = secret;
  options.secret_hint = "the handle that NCCL carried is of another run, or another job took over the port";
  options.log = log;
  return std::make_shared<transport::Router>(std::move(options));
}

ListenComm::ListenComm(const Node& node, const NetDevice& device, Log log)
    : log_(std::move(log)),
      groups_(node.groups),
      clock_(*node.router.clock),
      secret_(transport::Secret::random()),
      door_(std::make_shared<Door>(make_router(node, device, secret_, log_))) {}

ListenComm::~ListenComm() {
  door_->close();
}

HandleBytes ListenComm::handle() const {
  return Handle{secret_, door_->endpoint(), groups_}.encode();
}

std::unique_ptr<Comm> ListenComm::accept() {
  auto arrival = door_->accept();
  if (!arrival) return nullptr;
  std::unique_ptr<Lanes> lanes;
  if (groups_) {
    lanes = std::make_unique<ReceiveLanes>(std::move(arrival->connection),
                                           std::make_unique<DoorArrivals>(door_, arrival->comm), clock_);
  } else {
    lanes = std::make_unique<OneLane>(std::move(arrival->connection));
    door_->forget(arrival->comm);
  }
  return std::make_unique<Comm>(Comm::Direction::kReceive, door_->router(), std::move(lanes), log_);
}

}  // namespace tombolo::net_plugin
