// Which types of value the devices of a cluster multiply matrices in.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "planner/model/job.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// A GPU whose library entry has no such type.
struct LackingGpu {
  std::string host, device;
};
/// The first GPU of the cluster for which `counts` (its host's name, its number there) holds and whose
/// library entry has no `dtype` ("bf16", "fp8"). Devices that the library does not know are taken to have all
/// types. Reads the library.
std::optional<LackingGpu> gpu_without(const topology::ClusterFile& cluster, std::string_view dtype,
                                      const std::function<bool(const std::string&, int)>& counts);

/// In what the job's framework multiplies on the devices for which `counts` holds, as gpu_without() asks it:
/// fp16 in place of bf16 where a GPU of them has no bf16. The bundled trainer has no fp16, and is left with
/// bf16. Throws kUnsupported, naming the GPU, where another framework has none.
Precision precision_on(const topology::ClusterFile& cluster, const Job& job,
                       const std::function<bool(const std::string&, int)>& counts);

}  // namespace tombolo::planner
