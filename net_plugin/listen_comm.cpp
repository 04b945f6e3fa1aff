#include "net_plugin/listen_comm.h"

#include "net_plugin/leg.h"

namespace tombolo::net_plugin {

std::shared_ptr<transport::Router> make_router(const Node& node, const NetDevice& device,
                                               const transport::Secret& secret, const Log& log) {
  transport::RouterOptions options = node.router;
  options.host = device.host;
  // The processor cannot copy a small message from or to the GPU's memory.
  if (node.gpu->promise(device.host.nics).direct) options.rdma.eager_bytes = 0;
  options.secret = secret;
  options.secret_hint = "the handle that NCCL carried is of another run, or another job took over the port";
  options.log = log;
  return std::make_shared<transport::Router>(std::move(options));
}

ListenComm::ListenComm(const Node& node, const NetDevice& device, Log log)
    : gpu_(node.gpu),
      stages_(node.gpu->wants_staging(device.host.nics)),
      log_(std::move(log)),
      secret_(transport::Secret::random()),
      router_(make_router(node, device, secret_, log_)),
      listener_(router_->listen()) {}

HandleBytes ListenComm::handle() const {
  return Handle{secret_, listener_->endpoint(), stages_}.encode();
}

std::unique_ptr<Comm> ListenComm::accept() {
  auto connection = listener_->accept();
  if (!connection) return nullptr;
  const bool peer_stages = (connection->label() & kLabelStages) != 0;
  connection =
      make_leg(std::move(connection), gpu::Directions::kReceive, stages_ || peer_stages, *gpu_, log_);
  return std::make_unique<Comm>(Comm::Direction::kReceive, router_, std::move(connection), log_);
}

}  // namespace tombolo::net_plugin
