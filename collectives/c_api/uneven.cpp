#include "collectives/c_api/uneven.h"

#include <memory>
#include <utility>
#include <vector>

#include "collectives/c_api/failures.h"
#include "collectives/c_api/handles.h"

namespace tombolo::c_api {
namespace {

using collectives::Collective;
using collectives::CollectiveCall;
using collectives::Parts;

std::shared_ptr<const Parts> parts_of(const char* function, int ranks, PartArrays arrays) {
  require_pointer(arrays.counts, function, "the array of counts");
  const auto all = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> counts(arrays.counts, arrays.counts + all);
  if (arrays.offsets == nullptr) return std::make_shared<const Parts>(Parts::adjoining(std::move(counts)));
  return std::make_shared<const Parts>(
      Parts{std::move(counts), std::vector<std::size_t>(arrays.offsets, arrays.offsets + all)});
}

/// A call without its buffers' parts.
CollectiveCall uneven(Collective collective, const void* send, void* receive, std::size_t count,
                      int root = 0) {
  CollectiveCall call;
  call.collective = collective;
  call.send = send;
  call.receive = receive;
  call.count = count;
  call.root = root;
  call.uneven = true;
  return call;
}

}  // namespace

CollectiveCall all_gather_v(const char* function, tomboloComm_t comm, const void* send, std::size_t count,
                            void* receive, PartArrays parts) {
  const auto member = member_of(comm, function);
  CollectiveCall call = uneven(Collective::kAllGather, send, receive, count);
  call.parts = parts_of(function, member->communicator->size(), parts);
  return call;
}

CollectiveCall reduce_scatter_v(const char* function, tomboloComm_t comm, const void* send, void* receive,
                                PartArrays parts) {
  const auto member = member_of(comm, function);
  CollectiveCall call = uneven(Collective::kReduceScatter, send, receive, 0);
  call.parts = parts_of(function, member->communicator->size(), parts);
  call.count = call.parts->counts[static_cast<std::size_t>(member->communicator->rank())];
  return call;
}

CollectiveCall gather_v(const char* function, tomboloComm_t comm, const void* send, std::size_t count,
                        void* receive, PartArrays parts, int root) {
  const auto member = member_of(comm, function);
  CollectiveCall call = uneven(Collective::kGather, send, receive, count, root);
  if (member->communicator->rank() == root)
    call.parts = parts_of(function, member->communicator->size(), parts);
  return call;
}

CollectiveCall scatter_v(const char* function, tomboloComm_t comm, const void* send, PartArrays parts,
                         void* receive, std::size_t count, int root) {
  const auto member = member_of(comm, function);
  CollectiveCall call = uneven(Collective::kScatter, send, receive, count, root);
  if (member->communicator->rank() == root)
    call.parts = parts_of(function, member->communicator->size(), parts);
  return call;
}

CollectiveCall all_to_all_v(const char* function, tomboloComm_t comm, const void* send, PartArrays sent,
                            void* receive, PartArrays received) {
  const auto member = member_of(comm, function);
  CollectiveCall call = uneven(Collective::kAllToAll, send, receive, 0);
  call.sent_parts = parts_of(function, member->communicator->size(), sent);
  call.parts = parts_of(function, member->communicator->size(), received);
  return call;
}

}  // namespace tombolo::c_api
