#include "topology/system/locality.h"

#include <hwloc.h>

#include <mutex>

#include "base/dynamic_library.h"
#include "base/format.h"

namespace tombolo::topology {
namespace {

struct Hwloc {
  DynamicLibrary library;
  unsigned (*version)() = nullptr;
  int (*init)(hwloc_topology_t*) = nullptr;
  int (*set_io_filter)(hwloc_topology_t, hwloc_type_filter_e) = nullptr;
  int (*load)(hwloc_topology_t) = nullptr;
  void (*destroy)(hwloc_topology_t) = nullptr;
  int (*count)(hwloc_topology_t, int) = nullptr;
  hwloc_obj_t (*object)(hwloc_topology_t, int, unsigned) = nullptr;
  int (*first)(hwloc_const_bitmap_t) = nullptr;
  int (*weight)(hwloc_const_bitmap_t) = nullptr;

  bool find_all() {
    return library.find("hwloc_get_api_version", version) && library.find("hwloc_topology_init", init) &&
           library.find("hwloc_topology_set_io_types_filter", set_io_filter) &&
           library.find("hwloc_topology_load", load) && library.find("hwloc_topology_destroy", destroy) &&
           library.find("hwloc_get_nbobjs_by_depth", count) &&
           library.find("hwloc_get_obj_by_depth", object) && library.find("hwloc_bitmap_first", first) &&
           library.find("hwloc_bitmap_weight", weight);
  }

  /// The one node that an I/O object is near to; nothing where it is equally near to several.
  std::optional<int> node_of(hwloc_obj_t object_) const {
    while (object_ != nullptr && object_->nodeset == nullptr) object_ = object_->parent;
    if (object_ == nullptr || weight(object_->nodeset) != 1) return std::nullopt;
    return first(object_->nodeset);
  }
};

}  // namespace

std::optional<Locality> read_locality(std::string* problem) {
  // Only one thread at a time loads a topology, because hwloc calls libudev, which sets up its tables without
  // a lock.
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  auto library = DynamicLibrary::open({"libhwloc.so.15"}, problem);
  if (!library) return std::nullopt;
  Hwloc hwloc{*std::move(library)};
  // hwloc's structures keep their layout within a major version.
  if (!hwloc.find_all() || (hwloc.version() >> 16) != (HWLOC_API_VERSION >> 16)) {
    if (problem != nullptr) *problem = hwloc.library.name() + " is not of hwloc's version 2";
    return std::nullopt;
  }
  hwloc_topology_t topology = nullptr;
  if (hwloc.init(&topology) != 0) {
    if (problem != nullptr) *problem = "hwloc_topology_init failed";
    return std::nullopt;
  }
  Locality locality;
  hwloc.set_io_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc.load(topology) != 0) {
    hwloc.destroy(topology);
    if (problem != nullptr) *problem = "hwloc_topology_load failed";
    return std::nullopt;
  }
  locality.numa_nodes = hwloc.count(topology, HWLOC_TYPE_DEPTH_NUMANODE);
  for (int i = 0; i < hwloc.count(topology, HWLOC_TYPE_DEPTH_PCI_DEVICE); ++i) {
    hwloc_obj_t object = hwloc.object(topology, HWLOC_TYPE_DEPTH_PCI_DEVICE, static_cast<unsigned>(i));
    const auto& pci = object->attr->pcidev;
    if (auto node = hwloc.node_of(object)) {
      locality.node_of_pci[fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func)] =
          *node;
    }
  }
  for (int i = 0; i < hwloc.count(topology, HWLOC_TYPE_DEPTH_OS_DEVICE); ++i) {
    hwloc_obj_t object = hwloc.object(topology, HWLOC_TYPE_DEPTH_OS_DEVICE, static_cast<unsigned>(i));
    auto node = hwloc.node_of(object);
    if (node && object->name != nullptr) locality.node_of_device[object->name] = *node;
  }
  hwloc.destroy(topology);
  return locality;
}

}  // namespace tombolo::topology
