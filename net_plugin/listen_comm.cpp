#include "net_plugin/listen_comm.h"

namespace tombolo::net_plugin {

std::shared_ptr<transport::Router> make_router(const Node& node, const NetDevice& device,
                                               const transport::Secret& secret, const Log& log) {
  transport::RouterOptions options = node.router;
  options.host = device.host;
  options.standby = device.standby;
  options.secret = secret;
  options.secret_hint = "the handle that NCCL carried is of another run, or another job took over the port";
  options.log = log;
  return std::make_shared<transport::Router>(std::move(options));
}

ListenComm::ListenComm(const Node& node, const NetDevice& device, Log log)
    : log_(std::move(log)),
      secret_(transport::Secret::random()),
      router_(make_router(node, device, secret_, log_)),
      listener_(router_->listen()) {}

HandleBytes ListenComm::handle() const {
  return Handle{secret_, listener_->endpoint()}.encode();
}

std::unique_ptr<Comm> ListenComm::accept() {
  auto connection = listener_->accept();
  if (!connection) return nullptr;
  return std::make_unique<Comm>(Comm::Direction::kReceive, router_, std::move(connection), log_);
}

}  // namespace tombolo::net_plugin
