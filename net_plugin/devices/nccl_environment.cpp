#include "net_plugin/devices/nccl_environment.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin {
namespace {

using topology::Nic;
using topology::NicKind;

/// The number at the start of a text, as atoi(3) has it.
int number_at_start(std::string_view text) {
  return std::atoi(std::string(text).c_str());
}

NicFilter::Entry parse_entry(std::string_view text) {
  NicFilter::Entry entry;
  entry.name = text.substr(0, text.find(':'));
  int* const numbers[] = {&entry.port, &entry.rail, &entry.plane};
  for (int* number : numbers) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
    // NCCL leaves a port out as "mlx5_0::1".
    if (!text.empty() && text.front() != ':') *number = number_at_start(text);
  }
  return entry;
}

/// By which names a filter of RDMA NICs knows a NIC: its device, or where a cluster file names none its
/// interface.
const std::string& rdma_name(const Nic& nic) {
  return nic.rdma_device.empty() ? nic.name : nic.rdma_device;
}

int rdma_port(const Nic& nic) {
  return nic.rdma_device.empty() || nic.rdma_port == 0 ? -1 : nic.rdma_port;
}

bool is_ipv6(const std::string& address) {
  return address.find(':') != std::string::npos;
}

/// Whether a NIC that detection left out can be had where the user names it.
bool can_be_had(const Nic& nic) {
  return !nic.usable && nic.kind == NicKind::kTcp && nic.state != topology::NicState::kDown &&
         !nic.addresses.empty();
}

std::string list_of(const std::vector<const Nic*>& nics) {
  std::string text;
  for (const Nic* nic : nics) {
    text += fmt::format(
        "{}{} ({}{}{})", text.empty() ? "" : ", ", nic->name, topology::nic_kind_name(nic->kind),
        nic->rdma_device.empty() ? "" : " " + nic->rdma_device, nic->usable ? "" : ", not used by default");
  }
  return text;
}

/// Applies one filter to the NICs that `concerns` selects; `takes` says whether the filter takes a NIC.
/// `kept_elsewhere`: another NIC, which the filter does not concern, bears a name of the list.
void apply_filter(std::vector<Nic>& nics, const NamedFilter& by, const auto& concerns, const auto& takes,
                  bool kept_elsewhere, std::string_view what) {
  const bool names_some = !by.filter.exclude && !by.filter.entries.empty();
  std::vector<const Nic*> there;
  bool any_usable = false;
  for (const Nic& nic : nics) {
    if (!concerns(nic) || !(nic.usable || can_be_had(nic))) continue;
    there.push_back(&nic);
    any_usable |= nic.usable;
  }
  const auto taken = [&](const Nic& nic) {
    return takes(nic) && (nic.usable || (names_some && can_be_had(nic)));
  };
  const bool none = std::ranges::none_of(there, [&](const Nic* nic) { return taken(*nic); });
  if (none && any_usable && !kept_elsewhere) {
    fail(Cause::kInvalidUsage,
         "{}='{}' leaves none of this host's {}: {}. Set it to some of these, or unset it; {} has another "
         "list "
         "for the plugin alone",
         by.variable, by.value, what, list_of(there), kNetNicsParameter.name);
  }
  for (Nic& nic : nics) {
    if (!concerns(nic)) continue;
    if (taken(nic)) {
      if (!nic.usable) nic.reason = fmt::format("named by {}='{}'", by.variable, by.value);
      nic.usable = true;
    } else if (nic.usable) {
      nic.usable = false;
      nic.reason = fmt::format("left out by {}='{}'", by.variable, by.value);
    }
  }
}

void keep_family(std::vector<Nic>& nics, SocketFamily family) {
  const bool ipv6 = family == SocketFamily::kIpv6;
  std::vector<const Nic*> there;
  for (const Nic& nic : nics)
    if (nic.usable && !nic.addresses.empty()) there.push_back(&nic);
  const auto has_some = [&](const Nic* nic) {
    return std::ranges::any_of(nic->addresses, [&](const std::string& one) { return is_ipv6(one) == ipv6; });
  };
  if (!there.empty() && std::ranges::none_of(there, has_some)) {
    fail(Cause::kInvalidUsage, "NCCL_SOCKET_FAMILY='{}' leaves no address: {} have {} addresses alone",
         ipv6 ? "AF_INET6" : "AF_INET", list_of(there), ipv6 ? "IPv4" : "IPv6");
  }
  for (Nic& nic : nics)
    std::erase_if(nic.addresses, [&](const std::string& address) { return is_ipv6(address) != ipv6; });
}

/// Without RDMA, its NICs are Ethernet (or IP over InfiniBand) interfaces. One that only pretends to be of an
/// RDMA kind is no such interface.
void make_plain(std::vector<Nic>& nics) {
  for (Nic& nic : nics) {
    if (!topology::is_rdma(nic.kind) || !nic.usable) continue;
    if (nic.emulated) {
      nic.usable = false;
      nic.reason = "left out by NCCL_IB_DISABLE";
      continue;
    }
    nic.kind = NicKind::kTcp;
    nic.rdma_device.clear();
    nic.rdma_port = 0;
    nic.gids.clear();
  }
}

}  // namespace

NicFilter NicFilter::parse(std::string_view text) {
  NicFilter filter;
  filter.exclude = text.starts_with('^');
  if (filter.exclude) text.remove_prefix(1);
  filter.exact = text.starts_with('=');
  if (filter.exact) text.remove_prefix(1);
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    // NCCL skips colons before a name.
    const std::size_t start = one.find_first_not_of(':');
    if (start == 0) filter.entries.push_back(parse_entry(one));
  }
  return filter;
}

const NicFilter::Entry* NicFilter::find(std::string_view name, int port) const noexcept {
  for (const Entry& entry : entries) {
    const bool same = exact ? name == entry.name : name.starts_with(entry.name);
    if (same && (port == -1 || entry.port == -1 || port == entry.port)) return &entry;
  }
  return nullptr;
}

bool NicFilter::takes(std::string_view name, int port) const noexcept {
  const bool listed = entries.empty() || find(name, port) != nullptr;
  return listed != exclude;
}

NcclEnvironment NcclEnvironment::read(const Lookup& lookup) {
  NcclEnvironment read;
  const auto value_of = [&](const char* name) -> std::optional<std::string> {
    const char* text = lookup(name);
    return text != nullptr && *text != '\0' ? std::optional<std::string>(text) : std::nullopt;
  };
  const auto note = [&](const char* name, const std::string& value, std::string effect) {
    read.seen.push_back({name, value, std::move(effect)});
  };
  const auto overridden = [&](const Parameter& ours) {
    return fmt::format("not looked at: {} is set", ours.name);
  };

  const auto ours = value_of("TOMBOLO_NET_NICS");
  if (ours) {
    read.all = NamedFilter{"TOMBOLO_NET_NICS", *ours, NicFilter::parse(*ours)};
    note("TOMBOLO_NET_NICS", *ours, "says which NICs are used");
  }
  const auto filter = [&](const char* name, std::size_t shortest, std::optional<NamedFilter>& to,
                          std::string effect) {
    const auto value = value_of(name);
    if (!value) return;
    if (value->size() < shortest) {
      note(name, *value, "not looked at: NCCL takes a single character for none");
    } else if (ours) {
      note(name, *value, overridden(kNetNicsParameter));
    } else {
      to = NamedFilter{name, *value, NicFilter::parse(*value)};
      note(name, *value, std::move(effect));
    }
  };
  filter("NCCL_SOCKET_IFNAME", 2, read.sockets, "says which NICs carry TCP");
  filter("NCCL_IB_HCA", 1, read.rdma, "says which RDMA NICs are used");

  if (const auto family = value_of("NCCL_SOCKET_FAMILY")) {
    read.family = *family == "AF_INET"    ? SocketFamily::kIpv4
                  : *family == "AF_INET6" ? SocketFamily::kIpv6
                                          : SocketFamily::kAny;
    note("NCCL_SOCKET_FAMILY", *family,
         read.family == SocketFamily::kAny ? "not looked at: neither AF_INET nor AF_INET6"
                                           : "says which addresses are used");
  }

  /// NCCL reads numbers by strtoll(3) with base 0 and ignores what it cannot read.
  const auto number = [&](const char* name) -> std::optional<long long> {
    const auto text = value_of(name);
    if (!text) return std::nullopt;
    errno = 0;
    const long long value = std::strtoll(text->c_str(), nullptr, 0);
    if (errno == 0) return value;
    note(name, *text, "not looked at: not a number");
    return std::nullopt;
  };
  if (const auto off = number("NCCL_IB_DISABLE")) {
    const std::string text = *value_of("NCCL_IB_DISABLE");
    if (value_of("TOMBOLO_TRANSPORTS")) {
      note("NCCL_IB_DISABLE", text, "not looked at: TOMBOLO_TRANSPORTS is set");
    } else {
      read.rdma_off = *off != 0;
      note("NCCL_IB_DISABLE", text, read.rdma_off ? "RDMA NICs carry TCP alone" : "RDMA NICs are used");
    }
  }
  const auto option = [&](const char* name, const char* before, int least, int most, std::optional<int>& to) {
    const auto value = number(name);
    if (!value) return;
    const std::string text = *value_of(name);
    if (value_of(before)) {
      note(name, text, fmt::format("not looked at: {} is set", before));
    } else if (*value == -1) {
      note(name, text, "NCCL's own default: the plugin chooses");
    } else if (*value < least || *value > most) {
      fail(Cause::kInvalidUsage, "{}={}: expected {} to {}; {} has a value for the plugin alone", name, text,
           least, most, before);
    } else {
      to = static_cast<int>(*value);
      note(name, text, fmt::format("taken for {}", before));
    }
  };
  option("NCCL_IB_GID_INDEX", "TOMBOLO_RDMA_GID_INDEX", 0, 255, read.gid_index);
  option("NCCL_IB_TC", "TOMBOLO_RDMA_TC", 0, 255, read.traffic_class);
  option("NCCL_IB_SL", "TOMBOLO_RDMA_SL", 0, 15, read.service_level);
  option("NCCL_IB_TIMEOUT", "TOMBOLO_RDMA_TIMEOUT", 1, 31, read.timeout);
  option("NCCL_IB_RETRY_CNT", "TOMBOLO_RDMA_RETRIES", 0, 7, read.retries);
  if (const auto level = value_of("NCCL_NET_GDR_LEVEL"))
    note("NCCL_NET_GDR_LEVEL", *level, "NCCL's own: how near a NIC must be to a GPU for GPU-direct");
  return read;
}

NcclEnvironment NcclEnvironment::of_process() {
  return read([](const char* name) { return std::getenv(name); });
}

void NcclEnvironment::apply(std::vector<Nic>& nics) const {
  if (rdma_off) make_plain(nics);
  if (all) {
    apply_filter(
        nics, *all, [](const Nic&) { return true; },
        [&](const Nic& nic) {
          const bool by_device =
              !nic.rdma_device.empty() && all->filter.find(nic.rdma_device, rdma_port(nic)) != nullptr;
          if (!by_device) return all->filter.takes(nic.name, rdma_port(nic));
          return !all->filter.exclude;
        },
        false, "NICs");
  }
  if (rdma) {
    apply_filter(
        nics, *rdma, [](const Nic& nic) { return topology::is_rdma(nic.kind); },
        [&](const Nic& nic) { return rdma->filter.takes(rdma_name(nic), rdma_port(nic)); }, false,
        "RDMA NICs");
  }
  if (sockets) {
    // "ib0" names an RDMA NIC's interface, over which TCP goes where RDMA cannot.
    const bool kept = std::ranges::any_of(nics, [&](const Nic& nic) {
      return nic.usable && topology::is_rdma(nic.kind) && sockets->filter.takes(nic.name);
    });
    apply_filter(
        nics, *sockets, [](const Nic& nic) { return nic.kind == NicKind::kTcp; },
        [&](const Nic& nic) { return sockets->filter.takes(nic.name); }, kept, "TCP NICs");
  }
  if (family != SocketFamily::kAny) keep_family(nics, family);
}

void NcclEnvironment::apply(transport::RdmaOptions& options) const noexcept {
  options.gid_index = gid_index.value_or(options.gid_index);
  options.traffic_class = traffic_class.value_or(options.traffic_class);
  options.service_level = service_level.value_or(options.service_level);
  options.timeout = timeout.value_or(options.timeout);
  options.retries = retries.value_or(options.retries);
}

const NicFilter::Entry* NcclEnvironment::entry_of(const Nic& nic) const noexcept {
  const auto& by = all ? all : rdma;
  if (!by || by->filter.exclude || !topology::is_rdma(nic.kind)) return nullptr;
  return by->filter.find(rdma_name(nic), rdma_port(nic));
}

}  // namespace tombolo::net_plugin
