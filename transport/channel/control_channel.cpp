#include "transport/channel/control_channel.h"

#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/way.h"

namespace tombolo::transport::channel {
namespace {

/// Dials the control channel, and has a backend make the connection over it.
class ChannelConnecting final : public Connecting {
 public:
  ChannelConnecting(std::shared_ptr<bootstrap::Acceptor> acceptor, bootstrap::Way way,
                    ControlChannelBackend& backend)
      : acceptor_(std::move(acceptor)),
        way_(std::move(way)),
        backend_(&backend),
        dialing_(acceptor_->local(), way_, bootstrap::target_of(way_, way_.from, way_.to),
                 bootstrap::hello_of(way_, acceptor_->endpoint().process), 1) {}

  std::unique_ptr<Connection> poll() override {
    if (!set_up_) {
      if (!dialing_.poll()) return nullptr;
      dialing_.complete(way_.route);
      const bootstrap::Local& local = *acceptor_->local();
      set_up_ = backend_->set_up({dialing_.streams()[0].take_socket(), true, way_.from, way_.to, way_.route,
                                  way_.options.label, way_.options.peer_name, dialing_.deadline(),
                                  local.meters, way_.nic_pairs, local.idle_timeout, local.clock, local.log,
                                  local.overlong, way_.whole});
    }
    return set_up_->poll();
  }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    if (set_up_) return set_up_->append_wait_handles(handles);
    dialing_.append_wait_handles(handles);
  }

 private:
  std::shared_ptr<bootstrap::Acceptor> acceptor_;  // holds the backend
  bootstrap::Way way_;
  ControlChannelBackend* backend_;
  bootstrap::Dialing dialing_;
  std::unique_ptr<Connecting> set_up_;
};

}  // namespace

std::unique_ptr<Connecting> ControlChannelBackend::connect(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                                           bootstrap::Way way) {
  return std::make_unique<ChannelConnecting>(std::move(acceptor), std::move(way), *this);
}

std::unique_ptr<Connecting> ControlChannelBackend::accept(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                                          bootstrap::AuthenticatedStream stream) {
  const bootstrap::Local& local = *acceptor->local();
  Route route = bootstrap::route_of(*acceptor, stream);
  return set_up({std::move(stream.socket),
                 false,
                 acceptor->endpoint().offers[stream.offer],
                 {},
                 std::move(route),
                 stream.hello.label,
                 {},
                 Deadline::after(bootstrap::patience_of(stream.hello), *local.clock),
                 local.meters,
                 {},
                 local.idle_timeout,
                 local.clock,
                 local.log,
                 local.overlong,
                 false});
}

}  // namespace tombolo::transport::channel
