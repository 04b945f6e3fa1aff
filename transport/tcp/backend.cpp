#include "transport/tcp/backend.h"

#include "transport/bootstrap/acceptor.h"
#include "transport/tcp/accepting.h"
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
  return std::make_unique<TcpAccepting>(settings_, std::move(acceptor), std::move(stream));
}

}  // namespace tombolo::transport::tcp
