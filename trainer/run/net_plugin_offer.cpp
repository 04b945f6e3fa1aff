#include "trainer/run/net_plugin_offer.h"

#include <cstdlib>
#include <optional>

#include "base/dynamic_library.h"
#include "base/format.h"
#include "trainer/cuda/open_device.h"

namespace tombolo::trainer {
namespace {

constexpr const char* kPluginVariable = "NCCL_NET_PLUGIN";
/// With the value 1 NCCL keeps the plugin when the last communicator of a process ends.
constexpr const char* kKeepVariable = "NCCL_NET_PLUGIN_REF_COUNT";
constexpr const char* kPluginName = "tombolo";
constexpr std::string_view kPluginFile = "libnccl-net-tombolo.so";

}  // namespace

std::string offer_net_plugin() {
  return offer_net_plugin(cuda::library_places(kPluginFile));
}

std::string offer_net_plugin(const std::vector<std::string>& places) {
  if (const char* named = std::getenv(kPluginVariable)) return named;
  // Loaded as long as the process, so that NCCL finds it whenever it looks.
  static std::optional<DynamicLibrary> loaded;
  for (const std::string& place : places) {
    loaded = DynamicLibrary::open({place.c_str()});
    if (!loaded) continue;
    ::setenv(kPluginVariable, kPluginName, 0);
    ::setenv(kKeepVariable, "1", 0);
    return fmt::format("{} ({})", kPluginName, place);
  }
  return {};
}

}  // namespace tombolo::trainer
