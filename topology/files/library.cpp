#include "topology/files/library.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "topology/files/fields.h"

namespace tombolo::topology {
namespace {

constexpr std::int64_t kMaximumPorts = 16;

double share_of(const JsonCursor& cursor) {
  const double share = cursor.positive_number();
  if (share > 1) cursor.reject(fmt::format("expected a share of at most 1, found {}", share));
  return share;
}

UsualShare usual_of(const JsonCursor& cursor, bool latency) {
  UsualShare usual;
  if (latency) {
    cursor.only({"share", "latency_seconds", "note"});
    usual.latency_seconds = latency_of(cursor.field("latency_seconds"));
  } else {
    cursor.only({"share", "note"});
  }
  usual.share = share_of(cursor.field("share"));
  (void)cursor.field("note").text();
  return usual;
}

std::array<double, 5> peaks_of(const JsonCursor& cursor) {
  cursor.only({"fp32", "tf32", "bf16", "fp16", "fp8"});
  std::array<double, 5> peaks{};
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    if (const auto value = cursor.optional(LibraryDevice::kDtypes[i])) peaks[i] = flops_of(*value);
  }
  return peaks;
}

LibraryDevice device_of(const JsonCursor& cursor, LibraryNames& names) {
  cursor.only({"name", "aliases", "kind", "compute_capability", "memory_bytes", "memory_bytes_per_second",
               "peak_flops_per_second", "device_link", "device_bytes_per_second", "attained_share",
               "attained_note", "source"});
  LibraryDevice device{.at = cursor, .name = names.add(cursor)};
  device.kind = cursor.field("kind").choice({"cpu", "gpu"}) == 0 ? DeviceKind::kCpu : DeviceKind::kGpu;
  if (const auto value = cursor.optional("compute_capability"))
    device.compute_capability = value->positive_number();
  if (const auto value = cursor.optional("memory_bytes")) {
    device.memory_bytes = memory_of(*value);
  } else if (device.kind == DeviceKind::kGpu) {
    (void)cursor.field("memory_bytes");
  }
  device.memory_bytes_per_second = memory_speed_of(cursor.field("memory_bytes_per_second"));
  const auto peaks = cursor.field("peak_flops_per_second");
  device.peaks = peaks_of(peaks);
  if (device.peak(device.usual_dtype()) == 0) peaks.reject("expected a peak for bf16, fp16 or fp32");
  if (const auto value = cursor.optional("device_bytes_per_second")) {
    device.device_bytes_per_second = bandwidth_of(*value);
    device.switched = cursor.field("device_link").text().ends_with(", switched");
  }
  device.attained_share = share_of(cursor.field("attained_share"));
  (void)cursor.field("attained_note").text();
  (void)cursor.field("source").text();
  return device;
}

LibraryNic nic_of(const JsonCursor& cursor, LibraryNames& names) {
  cursor.only({"name", "aliases", "kinds", "rate_gbps", "ports", "rdma_device", "pci_ids", "source"});
  LibraryNic nic{.at = cursor, .name = names.add(cursor)};
  const auto kinds = cursor.field("kinds");
  for (const auto& element : kinds.elements()) {
    const NicKind kind = kind_of(element);
    if (!nic.kinds.empty() && kind <= nic.kinds.back()) {
      element.reject("expected each kind once, best first: infiniband, roce, iwarp, tcp");
    }
    nic.kinds.push_back(kind);
  }
  if (nic.kinds.empty()) kinds.reject("expected at least one kind");
  nic.rate_bits_per_second = rate_of(cursor.field("rate_gbps"));
  if (const auto value = cursor.optional("ports")) (void)value->integer(1, kMaximumPorts);
  if (const auto value = cursor.optional("rdma_device")) nic.rdma_device = name_of(*value, false);
  if (is_rdma(nic.kinds.front()) && nic.rdma_device.empty()) (void)cursor.field("rdma_device");
  if (const auto value = cursor.optional("pci_ids")) {
    for (const auto& element : value->elements()) {
      const std::string id = element.text();
      const bool good =
          id.size() == 9 && id[4] == ':' && id.find_first_not_of("0123456789abcdef:") == id.npos;
      if (!good) element.reject(fmt::format("expected vendor and device as \"15b3:1021\", found \"{}\"", id));
    }
  }
  (void)cursor.field("source").text();
  return nic;
}

[[noreturn]] void unknown(const JsonCursor& at, const std::string& name, const char* what, const char* list,
                          const LibraryNames& names) {
  const auto nearest = names.nearest(name);
  at.reject(
      fmt::format("the library has no {} \"{}\"{}; `tombolo library {}` lists them, and {} can name a folder "
                  "with more",
                  what, name, nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : "", list,
                  kLibraryParameter.name));
}

}  // namespace

const Parameter kLibraryParameter{
    "TOMBOLO_LIBRARY", ParameterType::kText, "",
    "Folder of the library of devices, NICs and models (docs/library.md). Unset: "
    "share/tombolo/library beside the folder of the program."};

std::string_view LibraryDevice::usual_dtype() const {
  for (const std::string_view dtype : {"bf16", "fp16"}) {
    if (peak(dtype) > 0) return dtype;
  }
  return "fp32";
}

double LibraryDevice::peak(std::string_view dtype) const {
  const auto found = std::find(kDtypes.begin(), kDtypes.end(), dtype);
  return found == kDtypes.end() ? 0 : peaks[static_cast<std::size_t>(found - kDtypes.begin())];
}

Library Library::load() {
  return parse(JsonDocument::load(library_file("devices.json")),
               JsonDocument::load(library_file("nics.json")));
}

Library Library::parse(const JsonDocument& devices, const JsonDocument& nics) {
  Library library;
  const JsonCursor device_root = library_root(devices);
  device_root.only({"tombolo_library", "note", "attained", "devices"});
  const auto inside = device_root.field("attained");
  inside.only({"memory", "device_link"});
  library.memory = usual_of(inside.field("memory"), false);
  library.device_link = usual_of(inside.field("device_link"), false);
  for (const auto& element : device_root.field("devices").elements()) {
    library.devices.push_back(device_of(element, library.device_names));
  }
  const JsonCursor nic_root = library_root(nics);
  nic_root.only({"tombolo_library", "note", "attained", "nics"});
  const auto between = nic_root.field("attained");
  between.only({"infiniband", "roce", "iwarp", "tcp"});
  for (const NicKind kind : {NicKind::kInfiniBand, NicKind::kRoce, NicKind::kIwarp, NicKind::kTcp}) {
    library.nic_shares[static_cast<std::size_t>(kind)] = usual_of(between.field(nic_kind_name(kind)), true);
  }
  for (const auto& element : nic_root.field("nics").elements()) {
    library.nics.push_back(nic_of(element, library.nic_names));
  }
  return library;
}

const LibraryDevice& Library::device(const JsonCursor& at) const {
  const std::string name = at.text();
  if (const auto found = device_names.find(name)) return devices[*found];
  unknown(at, name, "device", "devices", device_names);
}

const LibraryNic& Library::nic(const JsonCursor& at) const {
  const std::string name = at.text();
  if (const auto found = nic_names.find(name)) return nics[*found];
  unknown(at, name, "NIC", "nics", nic_names);
}

}  // namespace tombolo::topology
