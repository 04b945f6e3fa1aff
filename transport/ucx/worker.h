// One end of a connection inside UCX: a worker with its one endpoint.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/ucx/context.h"

namespace tombolo::transport::ucx {

/// Used by one thread at a time.
class Worker {
 public:
  /// Makes a worker without an endpoint. Throws kSystem where UCX refuses.
  explicit Worker(std::shared_ptr<Context> context);
  /// Ends every operation, and so every access to memory that was given to one. The peer is not involved.
  /// Callbacks may be called meanwhile, but need not be.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const UcxFunctions& ucx() const noexcept { return context_->ucx(); }
  const std::shared_ptr<Context>& context() const noexcept { return context_; }

  /// The address by which the peer reaches this worker.
  std::vector<std::byte> address() const;
  /// Connects to the peer's worker. UCX trusts the address, so it must come from an authenticated peer.
  /// Throws kUnsupported where no way leads there.
  void connect(std::span<const std::byte> address);
  ucp_ep_h endpoint() const noexcept { return endpoint_; }
  /// The lanes that UCX chose, as "rc_mlx5/mlx5_0:1, tcp/eth0"; empty where UCX does not report them.
  std::string lanes() const;

  /// Starts a receive. Returns UCX's request, null, or a status: see ucp_tag_recv_nbx().
  ucs_status_ptr_t receive(std::byte* data, std::size_t size, std::uint64_t tag,
                           const ucp_request_param_t& params) noexcept {
    return ucx().tag_recv_nbx(worker_, data, size, tag, UINT64_MAX, &params);
  }
  void cancel(ucs_status_ptr_t request) noexcept { ucx().request_cancel(worker_, request); }

  /// Progresses UCX; true if anything moved.
  bool progress() noexcept;
  /// What UCX found to be wrong with the peer; UCS_OK where nothing was.
  ucs_status_t trouble() const noexcept { return trouble_; }

  /// A descriptor that is readable, after arm(), once there is something to progress. arm() is false where
  /// there is already.
  int descriptor() const noexcept { return descriptor_; }
  bool arm() const noexcept;

 private:
  std::shared_ptr<Context> context_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  int descriptor_ = -1;
  ucs_status_t trouble_ = UCS_OK;
};

}  // namespace tombolo::transport::ucx
