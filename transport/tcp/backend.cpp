#include "transport/tcp/backend.h"

#include "transport/bootstrap/acceptor.h"
#include "transport/tcp/connecting.h"

namespace tombolo::transport::tcp {

void TcpBackend::prepare_stream(int socket, const std::string& nic, std::size_t streams) const {
  settings_->limit_buffers(socket, streams);
  settings_->congestion.begin(socket, nic);
}

std::unique_ptr<Connecting> TcpBackend::connect(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                                bootstrap::Way way) {
  return std::make_unique<TcpConnecting>(settings_, std::move(acceptor), std::move(way));
}

std::unique_ptr<Connecting> TcpBackend::accept(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                               bootstrap::AuthenticatedStream stream) {
  const bootstrap::Hello hello = stream.hello;
  std::shared_ptr<StreamGroup> group;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<StreamGroup>& known = groups_[{hello.listener, hello.connection}];
    group = known.lock();
    first = !group;
    if (first) {
      known = group = std::make_shared<StreamGroup>(hello.streams);
      std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
    }
  }
  group->add(std::move(stream), acceptor->local()->log);
  if (!first) return nullptr;
  return std::make_unique<TcpAccepting>(settings_, std::move(acceptor), std::move(group), hello);
}

}  // namespace tombolo::transport::tcp
