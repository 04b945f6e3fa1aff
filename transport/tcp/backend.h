// TCP between any two processes: one or more streams, over one or several pairs of NICs. This folder owns
// everything that only TCP needs: its options, the framing, acknowledgement and replay, repair of broken
// streams, congestion control, pacing, limits per NIC, and the number of streams.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/backend.h"
#include "transport/tcp/settings.h"

namespace tombolo::transport::tcp {

class TcpBackend final : public Backend {
 public:
  /// Throws kInvalidUsage for options that are out of range.
  TcpBackend(const TcpOptions& options, const std::vector<NicLimit>& limits, const Log& log)
      : settings_(std::make_shared<TcpSettings>(options, limits, log)) {}
  Carrier carrier() const noexcept override { return Carrier::kTcp; }
  Resumes resumes() const noexcept override { return Resumes::kInPlaceOfAnother; }
  void prepare_stream(int socket, const std::string& nic, std::size_t streams) const override;
  std::unique_ptr<Connecting> connect(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                      bootstrap::Way way) override;
  std::unique_ptr<Connecting> accept(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                     bootstrap::AuthenticatedStream stream) override;

 private:
  std::shared_ptr<const TcpSettings> settings_;
};

}  // namespace tombolo::transport::tcp
