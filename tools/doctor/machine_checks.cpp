// Checks of NICs, limits and the kernel's settings.
#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/units.h"
#include "tools/doctor/checks.h"

namespace tombolo::doctor {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// Buffers that are registered with an RDMA NIC are locked in memory: gradients and staging buffers take
// hundreds of MiB per rank.
constexpr std::uint64_t kLockedEnough = 2 * kGiB;
// A process needs a descriptor for each stream of each connection to each peer; 4096 serve a few hundred
// peers.
constexpr std::uint64_t kFilesEnough = 4096;
// One stream at 10 Gbit/s over 10 ms has 12.5 MB under way.
constexpr std::uint64_t kBufferEnough = 8 * kMiB;

std::optional<std::string> read_setting(const Facts& facts, const std::string& name) {
  std::string path = name;
  std::replace(path.begin(), path.end(), '.', '/');
  std::ifstream file(facts.root / "proc/sys" / path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::uint64_t> last_number(const std::string& line) {
  std::istringstream words(line);
  std::optional<std::uint64_t> last;
  for (std::uint64_t number = 0; words >> number;) last = number;
  return last;
}

Check buffer_check(const Facts& facts, const std::string& name) {
  auto line = read_setting(facts, name);
  if (!line)
    return {name, Status::kWarning, "not readable in this namespace", "check it on the machine itself"};
  std::uint64_t most = last_number(*line).value_or(0);
  if (most >= 4 * kMiB) return {name, Status::kOk, fmt::format("at most {}", format_size(most)), {}};
  return {name, Status::kWarning, fmt::format("at most {}", format_size(most)),
          fmt::format("one TCP stream cannot fill a long fast path: sysctl -w {}=\"{}{}\"", name,
                      name.find("tcp_") != std::string::npos ? "4096 131072 " : "", kBufferEnough)};
}

std::string names(const std::vector<const topology::Nic*>& nics) {
  std::string text;
  for (const auto* nic : nics) text += (text.empty() ? "" : ", ") + nic->name;
  return text;
}

Check mtu_check(const std::vector<const topology::Nic*>& usable) {
  // NICs of one kind and rate should have equal settings. Where their MTUs differ, one was probably
  // forgotten.
  for (const auto* left : usable) {
    for (const auto* right : usable) {
      if (left->kind == right->kind && left->rate_bits_per_second == right->rate_bits_per_second &&
          left->mtu != right->mtu && left->mtu > 0 && right->mtu > 0) {
        return {"MTU", Status::kWarning,
                fmt::format("{} has {} and {} has {}, though they are alike", left->name, left->mtu,
                            right->name, right->mtu),
                "set the same MTU on both, and on their switches: packets of the larger size may vanish"};
      }
    }
  }
  std::string seen;
  for (const auto* nic : usable)
    seen += fmt::format("{}{} {}", seen.empty() ? "" : ", ", nic->name, nic->mtu);
  return {"MTU", Status::kOk, seen, {}};
}

}  // namespace

std::vector<Check> check_nics(const Facts& facts) {
  std::vector<Check> checks;
  std::vector<const topology::Nic*> usable;
  std::vector<const topology::Nic*> bridges;
  for (const auto& nic : facts.machine.nics) {
    if (nic.usable) usable.push_back(&nic);
    if (nic.role == topology::NicRole::kContainerBridge && nic.state != topology::NicState::kDown)
      bridges.push_back(&nic);
  }
  if (usable.empty()) {
    checks.push_back({"NICs", Status::kFailed, fmt::format("none of {} is usable", facts.machine.nics.size()),
                      "tombolo topo says why for each"});
    return checks;
  }
  std::string seen;
  bool rdma = false;
  for (const auto* nic : usable) {
    rdma = rdma || topology::is_rdma(nic->kind);
    seen += fmt::format("{}{} ({})", seen.empty() ? "" : ", ", nic->name, topology::nic_kind_name(nic->kind));
  }
  checks.push_back({"NICs", Status::kOk, seen, {}});
  if (!rdma) {
    checks.push_back(
        {"RDMA", Status::kWarning, "no usable InfiniBand, RoCE or iWARP NIC",
         "all traffic goes over TCP; if there should be one, tombolo topo says what is missing"});
  } else {
    std::uint64_t limit = facts.locked_memory_limit;
    bool enough = limit >= kLockedEnough;
    checks.push_back({"locked memory", enough ? Status::kOk : Status::kFailed,
                      limit == kUnlimited ? "unlimited" : format_size(limit),
                      enough
                          ? ""
                          : "buffers cannot be registered with the RDMA NIC: ulimit -l unlimited (memlock in "
                            "/etc/security/limits.conf, LimitMEMLOCK in a unit)"});
  }
  checks.push_back(mtu_check(usable));
  if (!bridges.empty()) {
    checks.push_back({"container bridges", Status::kWarning, names(bridges),
                      fmt::format("Tombolo leaves them out, but NCCL's own sockets may pick one: "
                                  "NCCL_SOCKET_IFNAME={}",
                                  usable.front()->name)});
  }
  return checks;
}

std::vector<Check> check_limits(const Facts& facts) {
  std::uint64_t files = facts.open_files_limit;
  bool enough = files >= kFilesEnough;
  return {{"open files", enough ? Status::kOk : Status::kWarning,
           files == kUnlimited ? "unlimited" : fmt::format("{}", files),
           enough ? ""
                  : fmt::format("many peers with several streams each need more: ulimit -n {}",
                                16 * kFilesEnough)}};
}

std::vector<Check> check_kernel(const Facts& facts) {
  std::vector<Check> checks;
  for (const char* name :
       {"net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}) {
    checks.push_back(buffer_check(facts, name));
  }
  auto available = read_setting(facts, "net.ipv4.tcp_available_congestion_control").value_or("");
  auto current = read_setting(facts, "net.ipv4.tcp_congestion_control").value_or("unknown");
  bool bbr = available.find("bbr") != std::string::npos;
  checks.push_back({"congestion control", bbr ? Status::kOk : Status::kWarning,
                    fmt::format("{} (available: {})", current, available.empty() ? "unknown" : available),
                    bbr ? "" : "on lossy long paths bbr is far faster than cubic: modprobe tcp_bbr"});
  auto probing = read_setting(facts, "net.ipv4.tcp_mtu_probing");
  bool probes = probing && *probing != "0";
  bool jumbo = std::any_of(facts.machine.nics.begin(), facts.machine.nics.end(),
                           [](const auto& nic) { return nic.usable && nic.mtu > 1500; });
  checks.push_back(
      {"path MTU", probes || !jumbo ? Status::kOk : Status::kWarning,
       fmt::format("tcp_mtu_probing={}{}", probing.value_or("unknown"), jumbo ? ", large frames" : ""),
       probes || !jumbo ? ""
                        : "a router that drops large packets silently would hang connections: sysctl "
                          "-w net.ipv4.tcp_mtu_probing=1"});
  bool namespaces = facts.why_no_namespaces.empty();
  checks.push_back({"namespaces", namespaces ? Status::kOk : Status::kWarning,
                    namespaces ? "permitted: clusters can be emulated" : facts.why_no_namespaces,
                    namespaces ? "" : "emulation falls back to loopback; training is not affected"});
  auto scope = read_setting(facts, "kernel.yama.ptrace_scope");
  bool restricted = scope && *scope != "0";
  checks.push_back(
      {"ptrace scope", restricted ? Status::kWarning : Status::kOk, scope.value_or("not restricted"),
       restricted ? "ranks of one machine could not read one another's memory directly: sysctl -w "
                    "kernel.yama.ptrace_scope=0"
                  : ""});
  std::ifstream clock(facts.root / "sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string source;
  std::getline(clock, source);
  bool slow = source == "hpet" || source == "acpi_pm";
  checks.push_back(
      {"clock", slow ? Status::kWarning : Status::kOk, source.empty() ? "unknown" : source,
       slow ? "reading this clock takes a microsecond or more, and every wait reads it; tsc or kvm-clock "
              "are fast"
            : ""});
  return checks;
}

}  // namespace tombolo::doctor
