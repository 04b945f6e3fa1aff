#include "bench/plugin/candidates.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "bench/nccl_socket.h"

namespace tombolo::bench::plugin {

std::vector<Candidate> candidates_of(const Plan& plan, std::size_t most_channels) {
  std::vector<Candidate> all;
  auto plugin = [&](std::string path, int abi) {
    return [=](bool, int control) -> std::unique_ptr<Channels> {
      return std::make_unique<PluginChannels>(load_plugin(path, abi), most_channels, control);
    };
  };
  // There are two sets of sockets, one for each direction; each is indexed by side.
  using Sockets = std::array<std::array<std::vector<int>, 2>, 2>;
  auto sockets_for = [&](std::size_t ways) {
    auto made = std::make_shared<Sockets>();
    for (std::size_t way = 0; way < ways; ++way) {
      for (std::size_t channel = 0; channel < most_channels; ++channel) {
        auto [near, far] = plain_pair();
        (*made)[way][0].push_back(near);
        (*made)[way][1].push_back(far);
      }
    }
    return made;
  };
  all.push_back({"plain", "", {}, [sockets = sockets_for(1)](bool leading, int) -> std::unique_ptr<Channels> {
                   return std::make_unique<PlainChannels>((*sockets)[0][leading ? 0 : 1]);
                 }});
  all.push_back(
      {"plain-each", "", {}, [sockets = sockets_for(2)](bool leading, int) -> std::unique_ptr<Channels> {
         const std::size_t side = leading ? 0 : 1;
         return std::make_unique<PlainChannels>((*sockets)[side][side], (*sockets)[1 - side][side]);
       }});
  all.push_back({"tombolo", "", {{"TOMBOLO_TRANSPORTS", "tcp"}}, plugin(plan.plugin, plan.abi)});
  if (!plan.no_nccl) {
    all.push_back({"nccl-socket",
                   "",
                   {{"NCCL_SOCKET_IFNAME", "lo"}},
                   [nccl = plan.nccl, most_channels](bool, int control) -> std::unique_ptr<Channels> {
                     return std::make_unique<PluginChannels>(load_nccl_socket(nccl), most_channels, control);
                   }});
  }
  for (const std::string& peer : plan.peers) {
    std::size_t equals = peer.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(Cause::kInvalidUsage, "--peer '{}': expected name=path.so", peer);
    all.push_back({peer.substr(0, equals), "", {}, plugin(peer.substr(equals + 1), plan.abi)});
  }
  if (plan.ucx) all.push_back({"ucx", "", {{"TOMBOLO_TRANSPORTS", "ucx"}}, plugin(plan.plugin, plan.abi)});
  auto shared_memory = [&](std::string key, std::string fetch) {
    all.push_back({std::move(key),
                   "",
                   {{"TOMBOLO_TRANSPORTS", "shm"}, {"TOMBOLO_SHM_FETCH", std::move(fetch)}},
                   plugin(plan.plugin, plan.abi)});
  };
  shared_memory("tombolo-shm", "on");
  if (plan.shm_ways) {
    shared_memory("tombolo-area", "off");
    shared_memory("tombolo-read", "always");
  }
  std::vector<std::string> keys;
  for (const Candidate& one : all) keys.push_back(one.key);
  for (const std::string& key : plan.only)
    if (std::ranges::find(keys, key) == keys.end())
      fail(Cause::kInvalidUsage, "--only {}: there is only {}", key, fmt::join(keys, ", "));
  if (!plan.only.empty())
    std::erase_if(
        all, [&](const Candidate& one) { return std::ranges::find(plan.only, one.key) == plan.only.end(); });
  return all;
}

}  // namespace tombolo::bench::plugin
