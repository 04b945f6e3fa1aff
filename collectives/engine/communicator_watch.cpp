// How a communicator notices that the network is not as it was found, and finds out anew.
#include <algorithm>
#include <map>
#include <utility>

#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {

void Communicator::State::begin_to_watch() {
  watch.reset();
  using Source = Discovery::Source;
  if (!may_discover || (discovery.source != Source::kMeasured && discovery.source != Source::kKept)) return;
  std::vector<int> island_of_rank(members.size());
  for (std::size_t island = 0; island < rank_map.clusters.size(); ++island) {
    for (const int each : rank_map.clusters[island])
      island_of_rank[static_cast<std::size_t>(each)] = static_cast<int>(island);
  }
  std::vector<std::size_t> host_of_rank;
  std::map<std::string, std::size_t> hosts;
  for (const Member& member : members)
    host_of_rank.push_back(hosts.emplace(member.host, hosts.size()).first->second);
  watch.emplace(discovery.found, std::move(island_of_rank), std::move(host_of_rank),
                static_cast<std::size_t>(options.identity.rank));
}

void Communicator::State::watch_call(const ScheduleKey& key) {
  watched.reset();
  // Of parts that differ not every rank knows all.
  if (key.problem.uneven ||
      !watch->shows_rates(size_of_call(key.collective, key.problem, options.identity.size)))
    return;
  const std::size_t number = watch->count();
  if (!channels->idle()) return;
  watched = WatchedCall{number, options.router.clock->now(), received_by_rank(),
                        key.collective == Collective::kAllReduce};
}

void Communicator::State::note_watched() {
  const WatchedCall one = *std::exchange(watched, std::nullopt);
  const Duration took = options.router.clock->now() - one.since;
  std::vector<std::uint64_t> received = received_by_rank();
  for (std::size_t peer = 0; peer < received.size(); ++peer) received[peer] -= one.before[peer];
  ReceivedInCall sorted = watch->sort(received);
  if (!one.both_ways) sorted.expected_seconds = 0;
  watch->note(one.number, took, sorted);
}

std::vector<std::uint64_t> Communicator::State::received_by_rank() const {
  std::vector<std::uint64_t> all(members.size());
  for (const Traffic traffic : kChannelTraffic) {
    for (std::size_t peer = 0; peer < all.size(); ++peer) {
      if (const auto* connection = mesh->find(traffic, static_cast<int>(peer)))
        all[peer] += connection->statistics().bytes_received;
    }
  }
  return all;
}

bool Communicator::State::network_is_checked() {
  if (!watch) return true;
  if (!network_check) {
    if (!watch->due()) return true;
    network_check = std::make_unique<NetworkCheck>();
    network_check->own = watch->begin_check();
    network_check->all.resize(network_check->own.size() * members.size());
    const CollectiveCall exchange{Collective::kAllGather, network_check->own.data(),
                                  network_check->all.data(), network_check->own.size(), DataType::kFloat32};
    const ScheduleKey key = check(exchange);
    const Choice choice = collectives::choose(key.collective, key.problem, situation());
    network_check->ticket = start_by_messages(exchange, key, choice, 0);
  }
  if (!channels->done(network_check->ticket)) return false;
  NetworkWatch::Judgement found = watch->judge(network_check->all);
  network_check.reset();
  if (found.verdict != NetworkVerdict::kAsFound) renew_network(std::move(found.why));
  return true;
}

void Communicator::State::renew_network(std::string why) {
  if (options.identity.rank == 0)
    options.log.info("the network is not as it was found: {}; the hosts measure again", why);
  ++networks;
  try {
    const Deadline deadline = within(options.deadline);
    discover(*rendezvous.store->connect(deadline, options.log), deadline);
  } catch (const std::exception& error) {
    fail_for(error, [] { return std::string("measuring the network again"); });
  }
  discovery.renewed = std::move(why);
  arrange_ranks();
  begin_to_watch();
  schedules.clear();
  last.reset();
  if (table && !difference(table->shape, shape()).empty()) table.reset();
}

}  // namespace tombolo::collectives
