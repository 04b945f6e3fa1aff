#include "transport/tcp/path/congestion.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/units.h"
#include "transport/kernel.h"
#include "transport/sockets/socket.h"
#include "transport/tcp/path/long_path.h"

namespace tombolo::transport::tcp {
namespace {

// bbr derives the path's rate from what arrives, not from what is lost: at 20 ms and 0.1 % loss one stream
// gave 938 of 1000 Mbit/s where cubic gave 30.
constexpr std::string_view kForLoss = "bbr";
constexpr std::string_view kAuto = "auto", kSystem = "system";
constexpr std::string_view kLong = "long", kShort = "short";
// TCP_CA_NAME_MAX includes the final zero.
constexpr std::size_t kLongestName = 15;

// With fewer segments than this nothing can be said about losses.
constexpr std::uint64_t kEnoughSegments = 2000;
// The share of lost packets from which losses limit the rate: with 1 in 10'000, reno attains 1.22 * 1460 B /
// (round trip * sqrt(1e-4)), which is 1.4 Gbit/s at 1 ms.
constexpr double kLossThatCosts = 1e-4;
constexpr Duration kLossCostsFrom = std::chrono::milliseconds(1);
// When the round trip exceeds the shortest by this share, packets queue, and a loss means congestion.
constexpr double kQueueShare = 0.25;

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_' ||
           letter == '-';
  });
}

}  // namespace

CongestionRules::CongestionRules(std::string_view text, std::string_view source) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    Rule rule;
    if (equals != std::string_view::npos) rule.where = part.substr(0, equals);
    rule.how = equals == std::string_view::npos ? part : part.substr(equals + 1);
    if (!valid_name(rule.how) || equals == 0) {
      fail(Cause::kInvalidUsage,
           "{}='{}': expected [WHERE=]NAME, where NAME is auto, system or a congestion control of the kernel "
           "(sysctl net.ipv4.tcp_available_congestion_control lists them), found '{}'",
           source, text, part);
    }
    rules_.push_back(std::move(rule));
    begin = end + 1;
  }
}

std::string_view CongestionRules::choice(std::string_view nic, bool is_long) const noexcept {
  for (std::string_view where : {nic, is_long ? kLong : kShort, std::string_view()}) {
    for (const Rule& rule : rules_)
      if (rule.where == where) return rule.how;
  }
  return kAuto;
}

bool loses_without_queue(const LossSample& sample) noexcept {
  if (sample.sent < kEnoughSegments || sample.shortest < kLossCostsFrom) return false;
  const double share = static_cast<double>(sample.repeated) / static_cast<double>(sample.sent);
  return share >= kLossThatCosts &&
         to_seconds(sample.round_trip) <= (1 + kQueueShare) * to_seconds(sample.shortest);
}

std::string congestion_of(int socket) {
  std::array<char, kLongestName + 1> name{};
  socklen_t size = name.size();
  if (kernel().getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return {};
  return {name.data(), std::find(name.begin(), name.end(), '\0')};
}

void Congestion::set(int socket, std::string_view nic, std::string_view name, bool asked_for) const noexcept {
  if (kernel().setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                          static_cast<socklen_t>(name.size())) == 0)
    return;
  const int error = errno;
  if (told_.exchange(true)) return;
  const std::string text = fmt::format(
      "the kernel refuses congestion control {} for streams of NIC {}: {} (errno {}); they keep {}. {}", name,
      nic, errno_text(error), error, congestion_of(socket),
      error == EPERM ? fmt::format("Add {} to sysctl net.ipv4.tcp_allowed_congestion_control, or run with "
                                   "CAP_NET_ADMIN",
                                   name)
                     : fmt::format("`modprobe tcp_{}` makes it available where the kernel has it", name));
  // What the user asked for by name is worth a warning, what "auto" would have liked is not.
  if (asked_for) {
    log_.warning("{}", text);
  } else {
    log_.warning("{}; without it, long and lossy paths carry less per stream", text);
  }
}

void Congestion::begin(int socket, std::string_view nic) const noexcept {
  const bool is_long = sockets::path_length(socket) >= kLongPath;
  const std::string_view how = rules_.choice(nic, is_long);
  if (how == kSystem || (how == kAuto && !is_long)) return;
  set(socket, nic, how == kAuto ? kForLoss : how, how != kAuto);
}

void Congestion::look(int socket, std::string_view nic, Watch& watch) const noexcept {
  if (watch.decided) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (kernel().getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  if (info.tcpi_segs_out < watch.sent) watch = {};  // another socket
  const LossSample sample{info.tcpi_segs_out - watch.sent, info.tcpi_total_retrans - watch.repeated,
                          std::chrono::microseconds(info.tcpi_rtt),
                          std::chrono::microseconds(info.tcpi_min_rtt)};
  if (sample.sent < kEnoughSegments) return;
  watch.sent = info.tcpi_segs_out;
  watch.repeated = info.tcpi_total_retrans;
  if (!loses_without_queue(sample) || rules_.choice(nic, sample.shortest >= kLongPath) != kAuto) return;
  watch.decided = true;
  if (congestion_of(socket) == kForLoss) return;
  set(socket, nic, kForLoss, false);
  if (congestion_of(socket) != kForLoss) return;
  log_.info("NIC {}: {} of {} packets of a stream were lost at {} round trip without a queue; it has {} now",
            nic, sample.repeated, sample.sent, format_seconds(to_seconds(sample.round_trip)),
            congestion_of(socket));
}

}  // namespace tombolo::transport::tcp
