// The tables of NCCL's tuner interface. NCCL looks for them in the network's library too, where no other
// tuner is set, so they are in every job that uses the plugin; entry_points.h says when they change anything.
#include "net_plugin/abi/tuner.h"
#include "net_plugin/entry_points.h"
#include "net_plugin/tuner/entry_points.h"

namespace tombolo::net_plugin {
namespace {

// Each name has an overload per argument list, and a table's member selects the one of its own type.

abi::ncclResult_t init_tuner(std::size_t ranks, std::size_t nodes, abi::ncclDebugLogger_t logger,
                             void** context) {
  return tuner_entry::init(ranks, nodes, logger, context);
}
abi::ncclResult_t init_tuner(void** context, std::uint64_t, std::size_t ranks, std::size_t nodes,
                             abi::ncclDebugLogger_t logger, abi::ncclNvlDomainInfo_v5_t*,
                             abi::ncclTunerConstants_v5_t*) {
  return tuner_entry::init(ranks, nodes, logger, context);
}

abi::ncclResult_t get_coll_info(void* context, abi::ncclFunc_t function, std::size_t bytes, int, int,
                                int operations, int* algorithm, int* protocol, int*) {
  return tuner_entry::get_choice(context, function, bytes, operations, algorithm, protocol);
}
abi::ncclResult_t get_coll_info(void* context, abi::ncclFunc_t function, std::size_t bytes, int operations,
                                float** costs, int algorithms, int protocols, int* channels) {
  // NCCL passes a block of floats as if it were an array of rows.
  const CostTable table{reinterpret_cast<float*>(costs), algorithms, protocols};
  return tuner_entry::get_costs(context, function, bytes, operations, table, channels);
}
abi::ncclResult_t get_coll_info(void* context, abi::ncclFunc_t function, std::size_t bytes, int operations,
                                float** costs, int algorithms, int protocols, int, int* channels) {
  return get_coll_info(context, function, bytes, operations, costs, algorithms, protocols, channels);
}

abi::ncclResult_t get_chunk_size(void* context, abi::ncclFunc_t, std::size_t, int, int, int channels,
                                 std::size_t* size) {
  return tuner_entry::get_chunk_size(context, channels, size);
}

template <typename Table>
Table tuner_table() {
  Table made{};
  made.name = entry::name();
  made.init = init_tuner;
  made.getCollInfo = get_coll_info;
  if constexpr (requires { made.destroy; }) made.destroy = tuner_entry::finalize;
  if constexpr (requires { made.finalize; }) made.finalize = tuner_entry::finalize;
  if constexpr (requires { made.getChunkSize; }) made.getChunkSize = get_chunk_size;
  return made;
}

}  // namespace

// The library's version script hides every other symbol.
extern "C" {
[[gnu::visibility("default")]] abi::ncclTuner_v2_t ncclTunerPlugin_v2 = tuner_table<abi::ncclTuner_v2_t>();
[[gnu::visibility("default")]] abi::ncclTuner_v3_t ncclTunerPlugin_v3 = tuner_table<abi::ncclTuner_v3_t>();
[[gnu::visibility("default")]] abi::ncclTuner_v4_t ncclTunerPlugin_v4 = tuner_table<abi::ncclTuner_v4_t>();
[[gnu::visibility("default")]] abi::ncclTuner_v5_t ncclTunerPlugin_v5 = tuner_table<abi::ncclTuner_v5_t>();
[[gnu::visibility("default")]] abi::ncclTuner_v6_t ncclTunerPlugin_v6 = tuner_table<abi::ncclTuner_v6_t>();
}

}  // namespace tombolo::net_plugin
