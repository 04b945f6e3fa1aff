#include "probe/measure/nic_routers.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <span>

#include "base/error.h"

namespace tombolo::probe {
namespace {

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

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

// The text holds the endpoints one after the other, each after its length; a NIC that does not listen has
// length 0.
std::string encode_endpoints(const std::vector<NicRouter>& nics) {
  std::string text;
  for (const NicRouter& nic : nics) {
    std::string one = nic.listener ? as_text(nic.listener->endpoint().encode()) : std::string();
    text += fmt::format("{:08x}", one.size()) + one;
  }
  return text;
}

std::vector<std::optional<transport::Endpoint>> decode_endpoints(std::string_view text) {
  std::vector<std::optional<transport::Endpoint>> endpoints;
  while (text.size() >= 8) {
    std::size_t length = 0;
    const auto read = std::from_chars(text.data(), text.data() + 8, length, 16);
    text.remove_prefix(8);
    if (read.ec != std::errc{} || read.ptr != text.data() || length > text.size())
      fail(Cause::kRemote, "probe: a rank sent a broken list of endpoints");
    auto bytes = std::as_bytes(std::span<const char>(text.data(), length));
    endpoints.push_back(length > 0 ? std::optional(transport::Endpoint::decode(bytes)) : std::nullopt);
    text.remove_prefix(length);
  }
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
