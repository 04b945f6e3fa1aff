// How new ranks join the members of a communicator: all of them meet in a store that a member has opened for
// that, and which the new ranks know by its unique id.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
namespace {

/// What a member asks for.
struct GrowRequest {
  std::int32_t size, has_id;
};

}  // namespace

std::unique_ptr<Communicator> Communicator::grow(int larger, const UniqueId* id) {
  State& parent = *state_;
  parent.require_usable();
  // What is wrong is found by all members alike: none waits for another that has thrown.
  const GrowRequest own{larger, id != nullptr ? 1 : 0};
  std::vector<GrowRequest> requests(static_cast<std::size_t>(size()));
  all_gather(&own, requests.data(), sizeof(own), DataType::kInt8);
  const auto giver = std::ranges::find(requests, 1, &GrowRequest::has_id);
  for (const GrowRequest& one : requests) {
    if (one.size <= size() || one.size != requests.front().size)
      fail(Cause::kInvalidUsage,
           "grow: from {} ranks to {}: it must be more, and the same on every member (rank 0: {})", size(),
           one.size, requests.front().size);
  }
  if (giver == requests.end())
    fail(Cause::kInvalidUsage, "grow: no member gives the unique id by which the new ranks come");
  UniqueId agreed = id != nullptr ? *id : UniqueId{};
  broadcast(agreed.data(), agreed.data(), agreed.size(), DataType::kInt8,
            static_cast<int>(giver - requests.begin()));
  const Options joining = options_to_join(agreed, rank(), larger);
  if (parent.router && !std::ranges::equal(joining.secret.bytes(), secret().bytes())) {
    fail(Cause::kInvalidUsage,
         "grow: the unique id was not made for this communicator (tomboloCommGetUniqueId on a member)");
  }
  Options options = parent.options;
  options.identity = joining.identity;
  options.secret = joining.secret;
  options.make_secret = false;
  options.store.reset();
  options.store_elsewhere = true;
  options.store_reach = joining.store_reach;
  options.store_prefix = joining.store_prefix;
  std::vector<int> members(static_cast<std::size_t>(size()));
  std::iota(members.begin(), members.end(), 0);
  auto grown = std::make_unique<State>(options);
  grown->rendezvous = rendezvous_of(options);
  grown->begin_to_report();
  // What all ranks share is found out anew, with those that are new.
  if (options.routing == Routing::kPerPeer) {
    grown->router = parent.router;
    grown->standby = parent.standby;
  }
  const Rendezvous at = grown->rendezvous;
  return std::make_unique<Communicator>(make_together(at, members, fmt::format("grow from {} ranks", size()),
                                                      fmt::format("{} ranks", larger), [&] {
                                                        grown->set_up();
                                                        return std::move(grown);
                                                      }));
}

}  // namespace tombolo::collectives
