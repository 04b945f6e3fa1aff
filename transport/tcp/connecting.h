// The connecting end of a connection over TCP: opens as many streams as the path needs.
#pragma once

#include <memory>
#include <vector>

#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/inbox.h"
#include "transport/bootstrap/way.h"
#include "transport/tcp/settings.h"
#include "transport/transport.h"

namespace tombolo::transport::tcp {

class TcpConnecting final : public Connecting {
 public:
  TcpConnecting(std::shared_ptr<const TcpSettings> settings, std::shared_ptr<bootstrap::Acceptor> acceptor,
                bootstrap::Way way);

  ~TcpConnecting() override;

  std::unique_ptr<Connection> poll() override;
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    dialing_.append_wait_handles(handles);
  }

 private:
  std::shared_ptr<const TcpSettings> settings_;
  std::shared_ptr<bootstrap::Acceptor> acceptor_;
  bootstrap::Way way_;
  std::vector<std::shared_ptr<const bootstrap::Target>> targets_;  // by pair of NICs
  bootstrap::Hello hello_;
  // The accepting end may have its connection before this end has, and may ask whether it is still wanted.
  std::shared_ptr<bootstrap::Inbox> inbox_ = std::make_shared<bootstrap::Inbox>();
  bool made_ = false;  // the connection owns the inbox and its entry in the acceptor
  bootstrap::Dialing dialing_;
};

}  // namespace tombolo::transport::tcp
