#include "transport/routing/backends.h"

#include <algorithm>

#include "base/error.h"
#include "transport/rdma/backend.h"
#include "transport/shm/backend.h"
#include "transport/tcp/backend.h"
#include "transport/ucx/backend.h"

namespace tombolo::transport {
namespace {

/// What the functions that make backends share: each sees what those before it made.
struct Making {
  const RouterOptions& options;
  Duration idle_timeout;
  Backends made;

  /// NICs that verbs or UCX might use.
  template <typename Do>
  void for_real_rdma_nics(Do&& what) const {
    for (const topology::Nic& nic : options.host.nics)
      if (topology::is_rdma(nic.kind) && !nic.emulated) what(nic);
  }
};

std::shared_ptr<Backend> make_tcp(Making& making) {
  return std::make_shared<tcp::TcpBackend>(making.options.tcp, making.options.limits, making.options.log);
}

std::shared_ptr<Backend> make_shm(Making& making) {
  if (!allowed(making.options.policy, Carrier::kShm)) return nullptr;
  return std::make_shared<shm::ShmBackend>(making.options.shm_fetch);
}

std::shared_ptr<Backend> make_rdma(Making& making) {
  const RouterOptions& options = making.options;
  std::shared_ptr<rdma::RdmaBackend> backend;
  if (allowed(options.policy, Carrier::kRdma)) {
    backend =
        std::make_shared<rdma::RdmaBackend>(options.host, options.rdma, making.idle_timeout, options.log);
  }
  making.for_real_rdma_nics([&](const topology::Nic& nic) {
    const bool limited =
        std::ranges::any_of(options.limits, [&](const NicLimit& one) { return one.nic == nic.name; });
    making.made.rdma_problems[nic.name] = limited   ? "TOMBOLO_NIC_LIMITS limits it, which only tcp can keep"
                                          : backend ? backend->why_not(nic.name)
                                                    : "TOMBOLO_TRANSPORTS does not allow rdma";
  });
  return backend && backend->any() ? backend : nullptr;
}

/// Makes the UCX backend where it was asked for, or may be needed. The library is loaded at once where it was
/// asked for or where rdma cannot use all NICs; else with the first peer that wants it.
std::shared_ptr<Backend> make_ucx(Making& making) {
  const RouterOptions& options = making.options;
  // Only tcp applies rate limits.
  if (!allowed(options.policy, Carrier::kUcx) || !options.limits.empty()) return nullptr;
  const bool asked = named(options.policy, Carrier::kUcx);
  if (!asked && !ucx::worth_loading(options.host)) return nullptr;
  const bool without_tcp = allowed(options.policy, Carrier::kTcp) || options.policy.require_rdma;
  auto backend = std::make_shared<ucx::UcxBackend>(options.host, options.ucx, without_tcp, options.log);
  std::map<std::string, std::string>& rdma_problems = making.made.rdma_problems;
  const bool needed = std::ranges::any_of(rdma_problems, [](const auto& one) { return !one.second.empty(); });
  if (!asked && !needed) return backend;
  const std::string problem = backend->why_not();
  if (problem.empty()) return backend;
  options.log.info("no ucx: {}", problem);
  for (auto& [nic, why] : rdma_problems)
    if (!why.empty()) why += "; nor ucx: " + problem;
  return nullptr;
}

/// Checks the carriers: a carrier's value is its bit in Endpoint::carriers, and selects its backend.
void check_carriers(const std::vector<std::shared_ptr<Backend>>& backends) {
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const Carrier carrier = backends[i]->carrier();
    TOMBOLO_CHECK(static_cast<std::size_t>(carrier) < kMostCarriers, "carrier={}", static_cast<int>(carrier));
    for (std::size_t j = 0; j < i; ++j)
      TOMBOLO_CHECK(backends[j]->carrier() != carrier, "two backends for {}", carrier_name(carrier));
  }
}

/// The transports, one line each. rdma comes before ucx, which takes the NICs that rdma cannot use.
constexpr std::shared_ptr<Backend> (*kMakers[])(Making&) = {
    make_tcp,
    make_shm,
    make_rdma,
    make_ucx,
};

}  // namespace

Backends make_backends(const RouterOptions& options, Duration idle_timeout) {
  Making making{options, idle_timeout, {}};
  for (const auto make : kMakers)
    if (auto backend = make(making)) making.made.usable.push_back(std::move(backend));
  for (const BackendMaker& make : options.extra_backends)
    if (auto backend = make(options)) making.made.usable.push_back(std::move(backend));
  check_carriers(making.made.usable);
  return std::move(making.made);
}

}  // namespace tombolo::transport
