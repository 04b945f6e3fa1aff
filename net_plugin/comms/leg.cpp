#include "net_plugin/comms/leg.h"

#include "net_plugin/comms/lane_label.h"
#include "net_plugin/gpu/leg_staging.h"

namespace tombolo::net_plugin {
namespace {

class LegConnecting final : public transport::Connecting {
 public:
  LegConnecting(std::unique_ptr<transport::Connecting> beneath, const Legs& legs)
      : beneath_(std::move(beneath)), legs_(legs) {}
  std::unique_ptr<transport::Connection> poll() override { return legs_.leg(beneath_->poll()); }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    beneath_->append_wait_handles(handles);
  }

 private:
  std::unique_ptr<transport::Connecting> beneath_;
  Legs legs_;
};

}  // namespace

transport::GpuStagingMaker Legs::further_legs() const {
  return [legs = *this](std::uint64_t label) -> std::unique_ptr<transport::GpuStaging> {
    // A question for NICs is asked and answered from host memory, and says nothing of staging.
    if (!legs.stages(label) || label == LaneLabel::kAsksForEndpoint) return nullptr;
    return std::make_unique<gpu::LegStaging>(legs.support_->staging(), legs.directions_, legs.log_,
                                             legs.overlong_);
  };
}

std::unique_ptr<transport::Connection> Legs::leg(std::unique_ptr<transport::Connection> connection) const {
  if (!connection) return connection;
  if (!stages(connection->label()) || connection->route().reaches_gpu_memory) return connection;
  log_.info("the {} connection to {} stages GPU memory through host memory, by pieces of {} bytes",
            connection->route().transport, connection->route().peer_host, gpu::kPieceBytes);
  // What may go on over another way stages its legs itself.
  if (connection->route().resumable) return connection;
  return std::make_unique<gpu::StagedConnection>(std::move(connection), directions_, support_->staging(),
                                                 log_, overlong_);
}

std::unique_ptr<transport::Connecting> Legs::leg(std::unique_ptr<transport::Connecting> connecting) const {
  return std::make_unique<LegConnecting>(std::move(connecting), *this);
}

}  // namespace tombolo::net_plugin
