#include "topology/files/library.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tombolo::topology {
namespace {

TEST(Library, HoldsEveryEntryWithinReason) {
  const Library library = Library::load();
  EXPECT_GE(library.devices.size(), 40U);
  EXPECT_GE(library.nics.size(), 30U);
  for (const LibraryDevice& device : library.devices) {
    SCOPED_TRACE(device.name);
    const bool gpu = device.kind == DeviceKind::kGpu;
    EXPECT_GE(device.peak(device.usual_dtype()), 1e12);
    EXPECT_LE(device.peak(device.usual_dtype()), 1e16);
    // Narrower values are never slower.
    double last = 0;
    for (const char* dtype : {"fp32", "tf32", "bf16", "fp8"}) {
      if (device.peak(dtype) == 0) continue;
      EXPECT_GE(device.peak(dtype), last) << dtype;
      last = device.peak(dtype);
    }
    if (gpu) {
      EXPECT_GE(device.memory_bytes, 8e9);
      EXPECT_LE(device.memory_bytes, 4e11);
      EXPECT_GT(device.device_bytes_per_second, 5e9);
      EXPECT_LT(device.device_bytes_per_second, device.memory_bytes_per_second);
    }
    EXPECT_GE(device.memory_bytes_per_second, 1e11);
    EXPECT_LE(device.memory_bytes_per_second, 1e13);
    EXPECT_GE(device.attained_share, 0.4);
    EXPECT_LE(device.attained_share, 0.95);
    EXPECT_GE(device.at.field("source").text().size(), 10U);
    EXPECT_TRUE(device.at.field("attained_note").text().starts_with("estimate: "))
        << "nobody measured it here";
  }
  for (const LibraryNic& nic : library.nics) {
    SCOPED_TRACE(nic.name);
    EXPECT_GE(nic.rate_bits_per_second, 1'000'000'000U);
    EXPECT_LE(nic.rate_bits_per_second, 800'000'000'000U);
    EXPECT_EQ(is_rdma(nic.kinds.front()), !nic.rdma_device.empty());
    EXPECT_GE(nic.at.field("source").text().size(), 10U);
  }
  for (const UsualShare& each : library.nic_shares) {
    EXPECT_GT(each.share, 0.5);
    EXPECT_GT(each.latency_seconds, 1e-7);
    EXPECT_LT(each.latency_seconds, 1e-3);
  }
}

TEST(Library, KnowsPublishedFigures) {
  const Library library = Library::load();
  const auto device = [&](const char* name) {
    return library.devices.at(library.device_names.find(name).value());
  };
  const LibraryDevice a100 = device("A100-80G");
  EXPECT_EQ(a100.name, "A100-SXM4-80GB");
  EXPECT_EQ(a100.peak("bf16"), 312e12);
  EXPECT_EQ(a100.peak("fp8"), 0);
  EXPECT_EQ(a100.peak("int4"), 0);
  EXPECT_EQ(a100.memory_bytes, 80.0 * (1ULL << 30));
  EXPECT_EQ(a100.device_bytes_per_second, 300e9);
  EXPECT_EQ(a100.compute_capability, 8.0);
  EXPECT_EQ(device("B200").compute_capability, 10.0);
  EXPECT_EQ(device("MI300X").compute_capability, 0);
  EXPECT_EQ(device("V100").usual_dtype(), "fp16");
  EXPECT_EQ(device("EPYC 7763").usual_dtype(), "fp32");
  EXPECT_EQ(device("nvidia h100 80gb hbm3").peak("fp8"), 1979e12) << "as NVML names it, however spelt";
  const LibraryNic& nic = library.nics.at(library.nic_names.find("ConnectX-6 HDR").value());
  EXPECT_EQ(nic.rate_bits_per_second, 200'000'000'000U);
  EXPECT_EQ(nic.kinds, (std::vector{NicKind::kInfiniBand, NicKind::kRoce, NicKind::kTcp}));
}

constexpr const char* kDevices = R"({"tombolo_library": 1,
 "attained": {"memory": {"share": 0.9, "note": "n"}, "device_link": {"share": 0.8, "note": "n"}},
 "devices": [
  {"name": "One", "aliases": ["first"], "kind": "gpu", "memory_bytes": 8e9, "memory_bytes_per_second": 1e11,
   "peak_flops_per_second": {"fp32": 1e13}, "attained_share": 0.5, "attained_note": "n", "source": "s"},
  {"name": "Two", "kind": "cpu", "memory_bytes_per_second": 1e11,
   "peak_flops_per_second": {"fp32": 1e13}, "attained_share": 0.5, "attained_note": "n", "source": "s"}]})";
constexpr const char* kNics = R"({"tombolo_library": 1,
 "attained": {"infiniband": {"share": 0.9, "latency_seconds": 2e-6, "note": "n"},
              "roce": {"share": 0.9, "latency_seconds": 2e-6, "note": "n"},
              "iwarp": {"share": 0.9, "latency_seconds": 2e-6, "note": "n"},
              "tcp": {"share": 0.9, "latency_seconds": 2e-5, "note": "n"}},
 "nics": [{"name": "Card", "kinds": ["infiniband", "tcp"], "rate_gbps": 100, "rdma_device": "x_",
           "pci_ids": ["15b3:1021"], "source": "s"}]})";

void expect_library_error(const Json& devices, const Json& nics, std::string_view part) {
  try {
    Library::parse(JsonDocument::parse(devices.dump(1), "d.json"),
                   JsonDocument::parse(nics.dump(1), "n.json"));
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "wanted: " << part << "\n   got: " << error.what();
    return;
  }
  ADD_FAILURE() << "accepted, wanted: " << part;
}

TEST(Library, NamesLineAndFieldOfEachMistake) {
  const Json devices = Json::parse(kDevices), nics = Json::parse(kNics);
  const auto device = [&](const char* pointer, const Json& value, std::string_view part) {
    Json changed = devices;
    changed[Json::json_pointer(pointer)] = value;
    expect_library_error(changed, nics, part);
  };
  const auto nic = [&](const char* pointer, const Json& value, std::string_view part) {
    Json changed = nics;
    changed[Json::json_pointer(pointer)] = value;
    expect_library_error(devices, changed, part);
  };
  EXPECT_NO_THROW(Library::parse(JsonDocument::parse(kDevices, "d"), JsonDocument::parse(kNics, "n")));
  device("/tombolo_library", 2, "d.json:");
  device("/tombolo_library", 2, "reads version 1 of the library's files, found version 2");
  device("/devices/1/name", "FIRST",
         "devices[1].name: \"FIRST\" also names an earlier entry, there spelt \"first\"");
  device("/devices/1/aliases", {"o n e"}, "devices[1].aliases[0]: ");
  device("/devices/1/name", "--", "expected a name with letters or digits");
  device("/devices/0/memory_bytes", nullptr, "devices[0]: the field \"memory_bytes\" is missing");
  device("/devices/0/memory_bytes", -1, "devices[0].memory_bytes: expected a number > 0");
  device("/devices/0/memory_bytes", 1e30, "expected at most");
  device("/devices/0/peak_flops_per_second", {{"fp64", 1}}, "fp64: unknown field");
  device("/devices/0/peak_flops_per_second", {{"fp8", 1e12}}, "expected a peak for bf16, fp16 or fp32");
  device("/devices/0/attained_share", 1.5, "expected a share of at most 1, found 1.5");
  device("/devices/0/sauce", 1, "devices[0].sauce: unknown field; did you mean \"source\"?");
  device("/devices/0/device_bytes_per_second", 1e9, "\"device_link\" is missing");
  nic("/nics/0/kinds", {"tcp", "roce"}, "nics[0].kinds[1]: expected each kind once, best first");
  nic("/nics/0/kinds", Json::array(), "nics[0].kinds: expected at least one kind");
  nic("/nics/0/pci_ids", {"1021"}, "nics[0].pci_ids[0]: expected vendor and device");
  nic("/nics/0/rdma_device", nullptr, "\"rdma_device\" is missing");
  nic("/nics/0/rate_gbps", 0, "rate_gbps: expected a number > 0");
  nic("/attained/tcp", nullptr, "attained: the field \"tcp\" is missing");
}

TEST(Library, SaysWhereItLooked) {
  ::setenv("TOMBOLO_LIBRARY", "/nowhere", 1);
  try {
    library_file("devices.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("looked for /nowhere/devices.json"), std::string::npos)
        << error.what();
  }
  ::unsetenv("TOMBOLO_LIBRARY");
}

}  // namespace
}  // namespace tombolo::topology
