#include "net_plugin/plugin.h"

#include <string>

#include "base/error.h"
#include "base/units.h"
#include "net_plugin/nccl_log.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin {
namespace {

std::string describe(const topology::Nic& nic) {
  std::string rate = nic.rate_bits_per_second == 0
                         ? std::string("speed unknown")
                         : format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8);
  return fmt::format("{} {}{} {}", nic.name, topology::nic_kind_name(nic.kind),
                     nic.emulated ? " (emulated)" : "", rate);
}

std::string describe(const NetDevice& device) {
  std::string nics;
  for (const topology::Nic& nic : device.host.nics) nics += (nics.empty() ? "" : ", ") + describe(nic);
  return fmt::format("{} [{}]", device.name, nics);
}

void log_node(const Log& log, const Node& node, int abi_version) {
  std::string devices;
  for (const NetDevice& device : node.devices) devices += (devices.empty() ? "" : "; ") + describe(device);
  log.info("Tombolo {} as {}, net ABI v{}, {}, on host {}: {}. Every connection chooses its own transport",
           TOMBOLO_VERSION, kNetNameParameter.text(), abi_version,
           node.gpu->describe(node.devices.front().host.nics), node.devices.front().host.name, devices);
}

}  // namespace

Plugin& Plugin::instance() {
  static Plugin plugin;
  return plugin;
}

std::unique_ptr<Context> Plugin::open_locked(abi::ncclDebugLogger_t logger, int abi_version) {
  log_ = nccl_log(logger, log_level_from_environment());
  if (!node_) {
    node_ = std::make_shared<const Node>(make_node(log_));
    log_node(log_, *node_, abi_version);
  }
  return std::make_unique<Context>(node_, log_);
}

std::unique_ptr<Context> Plugin::open(abi::ncclDebugLogger_t logger, int abi_version) {
  std::lock_guard guard(lock_);
  return open_locked(logger, abi_version);
}

void Plugin::open_shared(abi::ncclDebugLogger_t logger, int abi_version) {
  std::lock_guard guard(lock_);
  if (!shared_) shared_ = open_locked(logger, abi_version);
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
