#include "net_plugin/plugin.h"

#include <cstdlib>
#include <map>
#include <string>

#include "base/error.h"
#include "net_plugin/explain.h"
#include "net_plugin/nccl_log.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin {
namespace {

/// Why RDMA cannot be had on NICs of an RDMA kind. A router finds it out, so it is asked as one that makes
/// connections would be.
std::map<std::string, std::string> rdma_problems(const Node& node, const Log& log) {
  std::map<std::string, std::string> problems;
  try {
    transport::RouterOptions options = node.router;
    options.host = node.devices->at(0).host;
    options.log = log;
    options.meters = std::make_shared<transport::Meters>();  // its reports begin with the first connection
    const transport::Router router(std::move(options));
    for (const transport::Offer& offer : router.offers()) problems[offer.nic] = offer.rdma_problem;
  } catch (const Error& error) {
    log.warning("connections will fail: {}", error.what());
  }
  return problems;
}

std::string setting_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? fmt::format("{} is not set", variable) : fmt::format("{}='{}'", variable, value);
}

void log_node(const Log& log, const Node& node, int abi_version) {
  Explanation of;
  of.version = TOMBOLO_VERSION;
  of.name = kNetNameParameter.text();
  of.library = library_path();
  of.abi = abi_version;
  of.host = node.devices->at(0).host.name;
  of.source = node.source;
  for (std::size_t i = 0; i < node.devices->size(); ++i) {
    of.devices.push_back(&node.devices->at(static_cast<int>(i)));
    of.memory.push_back(node.gpu->describe(of.devices.back()->host.nics));
  }
  of.nics = node.nics;
  of.rdma_problems = rdma_problems(node, log);
  of.variables = node.environment.seen;
  of.beside = {
      fmt::format("beside it: {}, {}", setting_of("NCCL_TUNER_PLUGIN"), setting_of("NCCL_PROFILER_PLUGIN"))};
  if (node.tuner != nullptr && !node.tuner->describe().empty()) of.beside.push_back(node.tuner->describe());
  for (const auto& [nic, found] : node.gpu->reach()) {
    of.beside.push_back(fmt::format("GPU memory and {} ({}={}): {}, {}", nic, kNetGpuParameter.name,
                                    kNetGpuParameter.text(),
                                    found.reach == gpu::GpuReach::kDirect   ? "reached by the NIC"
                                    : found.reach == gpu::GpuReach::kStaged ? "staged where it is promised"
                                                                            : "not at all",
                                    found.reason));
  }
  for (const std::string& line : explain(of)) log.info("{}", line);
}

}  // namespace

Plugin& Plugin::instance() {
  static Plugin plugin;
  return plugin;
}

std::unique_ptr<Context> Plugin::open_locked(abi::ncclDebugLogger_t logger, int abi_version,
                                             int traffic_class) {
  log_ = nccl_log(logger, log_level_from_environment());
  if (!node_) {
    node_ = std::make_shared<const Node>(make_node(log_));
    log_node(log_, *node_, abi_version);
  }
  return std::make_unique<Context>(node_, log_, traffic_class);
}

std::unique_ptr<Context> Plugin::open(abi::ncclDebugLogger_t logger, int abi_version, int traffic_class) {
  std::lock_guard guard(lock_);
  return open_locked(logger, abi_version, traffic_class);
}

void Plugin::open_shared(abi::ncclDebugLogger_t logger, int abi_version) {
  std::lock_guard guard(lock_);
  if (!shared_) shared_ = open_locked(logger, abi_version, abi::NCCL_NET_TRAFFIC_CLASS_UNDEF);
}

Context& Plugin::shared() {
  std::lock_guard guard(lock_);
  if (!shared_) fail(Cause::kInvalidUsage, "the plugin was used before init, or init failed");
  return *shared_;
}

void Plugin::drop_abandoned() noexcept {
  Context* shared = nullptr;
  {
    std::lock_guard guard(lock_);
    shared = shared_.get();  // it stays
  }
  if (shared != nullptr) shared->drop_abandoned();
}

std::shared_ptr<const Node> Plugin::node() const {
  std::lock_guard guard(lock_);
  if (!node_) fail(Cause::kInvalidUsage, "the plugin was asked for its devices before init, or init failed");
  return node_;
}

Log Plugin::log() const {
  std::lock_guard guard(lock_);
  return log_;
}

}  // namespace tombolo::net_plugin
