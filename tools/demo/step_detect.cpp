#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "tools/cli/table.h"
#include "tools/demo/steps.h"
#include "tools/reports/html.h"

namespace tombolo::tools::demo {
namespace {

/// The description of an interface by the host's own detection. On loopback the hosts have no interfaces of
/// their own, and one of the same name would be this machine's.
std::string as_found(const Session& session, const Json& machine, const std::string& name) {
  if (session.emulation.mode() == emulation::Mode::kLoopback) return "an address on loopback";
  for (const auto& nic : machine.at("nics")) {
    if (nic.at("name") != name) continue;
    return fmt::format("{} interface, {}", nic.at("role").get<std::string>(),
                       nic.at("state").get<std::string>());
  }
  return "not found";
}

std::string as_declared(const topology::Nic& nic) {
  std::string rate =
      nic.rate_bits_per_second == 0
          ? std::string()
          : fmt::format(", {}", format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8));
  return fmt::format("{}{}{}", kind_title(nic.kind), rate, nic.emulated ? " (emulated)" : "");
}

std::string reach(const topology::Nic& nic) {
  return nic.fabric.empty() ? "everybody" : fmt::format("fabric {}", nic.fabric);
}

}  // namespace

void detect(const Session& session) {
  const auto& hosts = session.emulation.cluster().hosts;
  session.emulation.cluster().save(session.file("emulated.json"));
  Table table({"HOST", "CLUSTER", "NIC", "FOUND", "DECLARED", "ADDRESS", "REACHES"});
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    std::string text = run_on_host(session, h, {"topo", "--json"});
    Json machine =
        JsonDocument::parse(text, fmt::format("tombolo topo on host {}", hosts[h].name)).root().raw();
    for (const auto& nic : hosts[h].nics) {
      table.add({hosts[h].name, hosts[h].cluster, nic.name, as_found(session, machine, nic.name),
                 as_declared(nic), nic.addresses.empty() ? "-" : nic.addresses.front(), reach(nic)});
    }
  }
  session.screen.say(table.text(0));
}

}  // namespace tombolo::tools::demo
