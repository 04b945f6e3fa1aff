#include "probe/measure/nic_routers.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace tombolo::probe {
namespace {

template <typename Source, typename Ask>
std::unique_ptr<transport::Connection> wait_for(Source& source, const Ask& ask, Duration allowed,
                                                const std::string& what) {
  const Deadline deadline = Deadline::after(allowed);
  for (;;) {
    if (auto connection = ask(source)) return connection;
    if (deadline.passed()) {
      fail(Cause::kTimeout, "probe: {} was not ready within {:.3g} s", what, to_seconds(allowed));
    }
    std::vector<pollfd> handles;
    source.append_wait_handles(handles);
    if (::poll(handles.data(), handles.size(), std::min(10, deadline.poll_milliseconds())) < 0 &&
        errno != EINTR) {
      fail_errno(errno, "poll");
    }
  }
}

}  // namespace

std::vector<NicRouter> open_nic_routers(const collectives::Options& options,
                                        const transport::Secret& secret) {
  const topology::Host& host = options.router.host;
  std::vector<NicRouter> routers(host.nics.size());
  for (std::size_t n = 0; n < host.nics.size(); ++n) {
    if (!host.nics[n].usable || host.nics[n].addresses.empty()) continue;
    transport::RouterOptions router = options.router;
    router.host = host;
    router.host.nics = {host.nics[n]};
    router.secret = secret;
    // Every link is measured, including those that the job's policy would refuse.
    router.policy.require_rdma = false;
    router.policy.only_kind.reset();
    routers[n].router = std::make_unique<transport::Router>(std::move(router));
    routers[n].listener = routers[n].router->listen();
  }
  return routers;
}

EndpointList endpoints_of(const std::vector<NicRouter>& nics) {
  EndpointList endpoints;
  for (const NicRouter& nic : nics)
    endpoints.push_back(nic.listener ? std::optional(nic.listener->endpoint()) : std::nullopt);
  return endpoints;
}

std::unique_ptr<transport::Connection> connect_from(NicRouter& nic, const transport::Endpoint& endpoint,
                                                    const transport::ConnectOptions& options,
                                                    const std::string& what) {
  auto connecting = nic.router->connect(endpoint, options);
  return wait_for(
      *connecting, [](auto& source) { return source.poll(); }, options.deadline, what);
}

std::unique_ptr<transport::Connection> accept_at(NicRouter& nic, std::uint64_t label, Duration allowed,
                                                 const std::string& what) {
  // A connection of an earlier measurement that was given up here may still arrive, and is ignored.
  return wait_for(
      *nic.listener,
      [label](auto& source) {
        auto accepted = source.accept();
        return accepted && accepted->label() == label ? std::move(accepted) : nullptr;
      },
      allowed, what);
}

}  // namespace tombolo::probe
