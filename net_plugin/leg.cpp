#include "net_plugin/leg.h"

namespace tombolo::net_plugin {

std::unique_ptr<transport::Connection> make_leg(std::unique_ptr<transport::Connection> connection,
                                                gpu::Directions directions, bool either_wants_staging,
                                                gpu::Support& support, const Log& log) {
  if (!either_wants_staging || connection->route().transport == "rdma") return connection;
  log.info("the {} connection to {} stages GPU memory through host memory, by pieces of {} bytes",
           connection->route().transport, connection->route().peer_host, gpu::kPieceBytes);
  return std::make_unique<gpu::StagedConnection>(std::move(connection), directions, support.staging(), log);
}

}  // namespace tombolo::net_plugin
