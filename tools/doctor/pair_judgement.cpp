#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/units.h"
#include "tools/doctor/pair.h"

namespace tombolo::doctor {
namespace {

// The limit by which transport/tcp chooses: one stream on shorter paths, eight beyond this round trip.
constexpr double kLongRoundTrip = 5e-3;
constexpr int kStreamsWhenLong = 8;
// In seconds. If clocks differ by less, logs and traces of two hosts can be read side by side.
constexpr double kClocksApart = 0.1;
// Fewer retransmissions than this, among the about 700 segments of a bulk, may be chance.
constexpr std::uint64_t kRetransmittedToJudge = 4;
// Loss limits a path whose estimate is below this share of its NICs' rate.
constexpr double kHeldBack = 0.5;

const HostFacts::NicFacts* nic_named(const HostFacts& facts, const std::string& name) {
  const auto found = std::ranges::find(facts.nics, name, &HostFacts::NicFacts::name);
  return found == facts.nics.end() ? nullptr : &*found;
}

std::optional<std::string> setting_of(const HostFacts& facts, const std::string& name) {
  const auto found = facts.settings.find(name);
  if (found == facts.settings.end()) return std::nullopt;
  return found->second;
}

/// The last number of a setting: the maximum in tcp_rmem and tcp_wmem.
std::uint64_t most_of(const HostFacts& facts, const std::string& name) {
  std::istringstream words(setting_of(facts, name).value_or(""));
  std::uint64_t last = 0;
  for (std::uint64_t number = 0; words >> number;) last = number;
  return last;
}

std::string to(const HostFacts& theirs, const Way& way) {
  return fmt::format("{} -> {} {} ({})", way.nic, theirs.host, way.peer_nic, way.peer_address);
}

void judge_reach(const HostFacts& theirs, const Way& way, std::vector<Check>& findings) {
  using enum Way::Reach;
  const std::string where = fmt::format("port {} of {}", way.peer_port, way.peer_address);
  switch (way.reach) {
    case kConnected:
      return;
    case kRefused:
      findings.push_back(
          {"firewall", Status::kFailed,
           fmt::format("{}: {} refuses, although a process listens there", to(theirs, way), where),
           fmt::format("a filter rejects it: on {} let TCP in on {} for the ports of "
                       "net.ipv4.ip_local_port_range (nft list ruleset; iptables -S)",
                       theirs.host, way.peer_nic)});
      return;
    case kNoAnswer:
      findings.push_back(
          {"firewall", Status::kFailed,
           fmt::format("{}: {} does not answer: packets vanish without a word", to(theirs, way), where),
           fmt::format("a filter drops them, on {} or between: let TCP in on {} for the ports of "
                       "net.ipv4.ip_local_port_range (nft list ruleset; security groups; switch ACLs)",
                       theirs.host, way.peer_nic)});
      return;
    case kUnreachable:
      findings.push_back(
          {"route", Status::kFailed, fmt::format("{}: {}", to(theirs, way), way.error),
           fmt::format("there is no way to it: ip route get {}; if nothing joins the two networks, give "
                       "the NICs different fabrics in a cluster file",
                       way.peer_address)});
      return;
    case kOther:
      findings.push_back({"connection", Status::kFailed, fmt::format("{}: {}", to(theirs, way), way.error),
                          "look at addresses, routes and filters: ip route get " + way.peer_address});
  }
}

void judge_mtu(const HostFacts& theirs, const HostFacts::NicFacts* my_nic,
               const HostFacts::NicFacts* their_nic, const Way& way, std::vector<Check>& findings) {
  if (way.reach != Way::Reach::kConnected) return;
  if (!way.bulk_arrived) {
    findings.push_back(
        {"path MTU", Status::kFailed,
         fmt::format(
             "{}: a connection is made, but of a larger transfer {} were acknowledged in 3 s, after {} "
             "retransmissions: large packets vanish",
             to(theirs, way), format_size(way.bulk_acknowledged), way.retransmitted),
         "give every NIC, switch and tunnel on the way the same MTU, or let ICMP 'fragmentation needed' "
         "pass; "
         "sysctl -w net.ipv4.tcp_mtu_probing=1 gets around it"});
    return;
  }
  if (my_nic != nullptr && their_nic != nullptr && my_nic->mtu > 0 && their_nic->mtu > 0 &&
      my_nic->mtu != their_nic->mtu) {
    findings.push_back({"MTU", Status::kWarning,
                        fmt::format("{}: {} here and {} there", to(theirs, way), my_nic->mtu, their_nic->mtu),
                        fmt::format("set both to the same, as the switches between can: ip link set {} mtu N",
                                    my_nic->mtu < their_nic->mtu ? my_nic->name + " (here)"
                                                                 : their_nic->name + " (there)")});
  } else if (way.packet_lost > 0 && way.packet_arrived > 0) {
    findings.push_back(
        {"path MTU", Status::kWarning,
         fmt::format("{}: packets of {} bytes arrive, those of {} do not", to(theirs, way),
                     way.packet_arrived, way.packet_lost),
         fmt::format("something on the way takes no larger ones: raise its MTU, or set {} on both NICs",
                     way.packet_arrived)});
  }
}

void judge_buffers(const HostFacts& mine, const HostFacts& theirs, double rate, const Way& way,
                   std::vector<Check>& findings) {
  if (way.reach != Way::Reach::kConnected || rate <= 0 || way.round_trip <= 0) return;
  const double under_way = rate * way.round_trip;  // bytes that fill the path
  const int streams = way.round_trip >= kLongRoundTrip ? kStreamsWhenLong : 1;
  const std::uint64_t send = most_of(mine, "net.ipv4.tcp_wmem"),
                      receive = most_of(theirs, "net.ipv4.tcp_rmem");
  // The kernel's own structures count too: about half of either buffer holds payload.
  const double had = streams * 0.5 *
                     static_cast<double>(std::min(send == 0 ? receive : send, receive == 0 ? send : receive));
  const bool scaling_off = setting_of(mine, "net.ipv4.tcp_window_scaling") == "0" ||
                           setting_of(theirs, "net.ipv4.tcp_window_scaling") == "0";
  if (scaling_off && under_way > 65535.0 * streams) {
    findings.push_back(
        {"window scaling", Status::kFailed,
         fmt::format("{}: off, so that a stream has at most 64 KiB under way where {} fill the path",
                     to(theirs, way), format_size(static_cast<std::uint64_t>(under_way))),
         "sysctl -w net.ipv4.tcp_window_scaling=1 on both hosts"});
  }
  if (had <= 0 || had >= under_way) return;
  const bool sender = send != 0 && send < receive;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(2 * under_way / streams / 1e6)) * 1'000'000;
  findings.push_back(
      {"socket buffers", Status::kWarning,
       fmt::format(
           "{}: {} and {} round trip need {} under way; {} stream(s) with buffers of at most {} ({} here, {} "
           "there) hold {}",
           to(theirs, way), format_bit_rate(rate), format_seconds(way.round_trip),
           format_size(static_cast<std::uint64_t>(under_way)), streams, format_size(std::min(send, receive)),
           format_size(send), format_size(receive), format_size(static_cast<std::uint64_t>(had))),
       fmt::format("on {}: sysctl -w net.ipv4.tcp_{}=\"4096 131072 {}\"{}", sender ? mine.host : theirs.host,
                   sender ? "wmem" : "rmem", wanted,
                   static_cast<double>(send) < 2 * under_way / streams && !sender
                       ? fmt::format(", and on {} tcp_wmem likewise", mine.host)
                       : "")});
}

void judge_loss(const HostFacts& mine, const HostFacts& theirs, double rate, const Way& way,
                std::vector<Check>& findings) {
  if (way.reach != Way::Reach::kConnected || !way.bulk_arrived || rate <= 0 || way.segments == 0) return;
  const std::string current = setting_of(mine, "net.ipv4.tcp_congestion_control").value_or("unknown");
  if (way.retransmitted < kRetransmittedToJudge || current == "bbr" || way.round_trip < kLongRoundTrip)
    return;
  const double loss = static_cast<double>(way.retransmitted) / static_cast<double>(way.segments);
  // The formula is from Mathis, Semke, Mahdavi, Ott: "The macroscopic behavior of the TCP congestion
  // avoidance algorithm", 1997.
  const double estimate = 1.22 * std::max(way.path_mtu - 52, 500) / (way.round_trip * std::sqrt(loss));
  const int streams = way.round_trip >= kLongRoundTrip ? kStreamsWhenLong : 1;
  if (estimate * streams >= kHeldBack * rate) return;
  const std::string available = setting_of(mine, "net.ipv4.tcp_available_congestion_control").value_or("");
  findings.push_back(
      {"congestion control", Status::kWarning,
       fmt::format("{}: {} with {:.2f} % of the segments sent again and {} round trip attains about {} a "
                   "stream, of {}",
                   to(theirs, way), current, 100 * loss, format_seconds(way.round_trip),
                   format_bit_rate(estimate), format_bit_rate(rate)),
       fmt::format("{}sysctl -w net.ipv4.tcp_congestion_control=bbr",
                   available.find("bbr") == std::string::npos ? "modprobe tcp_bbr; " : "")});
}

void judge_gids(const HostFacts& theirs, const HostFacts::NicFacts* my_nic,
                const HostFacts::NicFacts* their_nic, const Way& way, std::vector<Check>& findings) {
  if (my_nic == nullptr || their_nic == nullptr || my_nic->emulated || their_nic->emulated) return;
  if (my_nic->kind != "roce" || their_nic->kind != "roce") return;
  const auto types = [](const HostFacts::NicFacts& nic) {
    return nic.gid_types.empty() ? std::string("none") : fmt::format("{}", fmt::join(nic.gid_types, ", "));
  };
  for (const std::string& type : my_nic->gid_types) {
    if (std::ranges::find(their_nic->gid_types, type) != their_nic->gid_types.end()) return;
  }
  findings.push_back(
      {"GID", Status::kFailed,
       fmt::format("{}: GID types {} here and {} there have nothing in common", to(theirs, way),
                   types(*my_nic), types(*their_nic)),
       "give both ports an address (a RoCE v2 GID is made of it) and the same RoCE mode: rdma link, "
       "cma_roce_mode, show_gids"});
}

}  // namespace

std::vector<Check> judge_way(const HostFacts& mine, const HostFacts& theirs, const Way& way) {
  const auto* my_nic = nic_named(mine, way.nic);
  const auto* their_nic = nic_named(theirs, way.peer_nic);
  std::vector<Check> findings;
  judge_reach(theirs, way, findings);
  judge_mtu(theirs, my_nic, their_nic, way, findings);
  // The rate of the slower NIC in bytes per second; a NIC of unknown rate sets no limit.
  double rate = 0;
  for (const auto* nic : {my_nic, their_nic}) {
    const double one = nic == nullptr ? 0 : static_cast<double>(nic->rate_bits_per_second) / 8;
    if (one > 0) rate = rate > 0 ? std::min(rate, one) : one;
  }
  judge_buffers(mine, theirs, rate, way, findings);
  judge_loss(mine, theirs, rate, way, findings);
  judge_gids(theirs, my_nic, their_nic, way, findings);
  if (way.reach == Way::Reach::kConnected && std::abs(way.clock_ahead) - way.clock_error > kClocksApart) {
    findings.push_back(
        {"clock difference", Status::kWarning,
         fmt::format("{}: {} {} by {} (give or take {})", to(theirs, way), theirs.host,
                     way.clock_ahead > 0 ? "is ahead" : "is behind",
                     format_seconds(std::abs(way.clock_ahead)), format_seconds(way.clock_error)),
         "logs and traces of the two do not fit together: run chrony or ntpd on both"});
  }
  return findings;
}

std::vector<Check> judge_hosts(const HostFacts& mine, const std::vector<HostFacts>& all) {
  std::vector<Check> findings;
  for (const HostFacts& other : all) {
    if (other.version != mine.version) {
      findings.push_back({"versions", Status::kFailed,
                          fmt::format("Tombolo {} here, {} with rank {} on {}", mine.version, other.version,
                                      other.rank, other.host),
                          "install the same on all hosts"});
      break;
    }
  }
  for (const HostFacts& other : all) {
    if (other.host != mine.host || other.machine == mine.machine) continue;
    findings.push_back(
        {"host names", Status::kFailed,
         fmt::format("ranks {} and {} run on different machines that both call themselves '{}'", mine.rank,
                     other.rank, mine.host),
         "give each a name of its own: hostnamectl set-hostname, or TOMBOLO_HOST"});
    break;
  }
  if (setting_of(mine, "net.ipv4.tcp_sack") == "0") {
    findings.push_back({"selective acknowledgements", Status::kWarning,
                        "net.ipv4.tcp_sack is 0: every loss costs a round trip for each lost segment",
                        "sysctl -w net.ipv4.tcp_sack=1"});
  }
  const std::uint64_t backlog = most_of(mine, "net.core.somaxconn");
  if (backlog != 0 && backlog < std::min<std::size_t>(all.size() * 8, 4096)) {
    findings.push_back(
        {"listen backlog", Status::kWarning,
         fmt::format("net.core.somaxconn is {}, and {} ranks may connect with eight streams each", backlog,
                     all.size()),
         "sysctl -w net.core.somaxconn=4096"});
  }
  return findings;
}

Check describe_way(const HostFacts& theirs, const Way& way) {
  if (way.reach != Way::Reach::kConnected) return {"way", Status::kFailed, to(theirs, way), {}};
  return {"way",
          Status::kOk,
          fmt::format("{}: {} round trip, path MTU {}{}, clock {}{} (± {})", to(theirs, way),
                      format_seconds(way.round_trip), way.path_mtu,
                      way.packet_arrived > 0 ? fmt::format(", packets of {} arrive", way.packet_arrived) : "",
                      way.clock_ahead < 0 ? "-" : "+", format_seconds(std::abs(way.clock_ahead)),
                      format_seconds(way.clock_error)),
          {}};
}

nlohmann::json to_json(const HostFacts& facts) {
  nlohmann::json nics = nlohmann::json::array();
  for (const auto& nic : facts.nics) {
    nics.push_back({{"name", nic.name},
                    {"kind", nic.kind},
                    {"fabric", nic.fabric},
                    {"address", nic.address},
                    {"emulated", nic.emulated},
                    {"mtu", nic.mtu},
                    {"rate", nic.rate_bits_per_second},
                    {"gid_types", nic.gid_types},
                    {"tcp_port", nic.tcp_port},
                    {"udp_port", nic.udp_port}});
  }
  return {{"rank", facts.rank},       {"host", facts.host}, {"machine", facts.machine},
          {"version", facts.version}, {"nics", nics},       {"settings", facts.settings}};
}

HostFacts host_facts_from_json(const nlohmann::json& json) try {
  HostFacts facts;
  json.at("rank").get_to(facts.rank);
  json.at("host").get_to(facts.host);
  json.at("machine").get_to(facts.machine);
  json.at("version").get_to(facts.version);
  json.at("settings").get_to(facts.settings);
  for (const auto& each : json.at("nics")) {
    auto& nic = facts.nics.emplace_back();
    each.at("name").get_to(nic.name);
    each.at("kind").get_to(nic.kind);
    each.at("fabric").get_to(nic.fabric);
    each.at("address").get_to(nic.address);
    each.at("emulated").get_to(nic.emulated);
    each.at("mtu").get_to(nic.mtu);
    each.at("rate").get_to(nic.rate_bits_per_second);
    each.at("gid_types").get_to(nic.gid_types);
    each.at("tcp_port").get_to(nic.tcp_port);
    each.at("udp_port").get_to(nic.udp_port);
  }
  return facts;
} catch (const nlohmann::json::exception& error) {
  fail(Cause::kRemote, "a rank sent host facts that this build does not read: {}", error.what());
}

}  // namespace tombolo::doctor
