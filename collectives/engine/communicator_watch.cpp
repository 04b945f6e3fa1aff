// How a communicator notices that the network is not as it was found, and finds out anew.
#include <algorithm>
#include <map>
#include <utility>

#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
namespace {

/// A store whose machine is gone without a word costs each check no more.
constexpr Duration kRenewalStorePatience = std::chrono::seconds(2);

}  // namespace

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
                static_cast<std::size_t>(options.identity.rank), networks);
}

std::optional<Communicator::State::WatchedCall> Communicator::State::count_call(const ScheduleKey& key,
                                                                                bool moves) {
  // Others bring a rank what was sent long before it came, or much less to each than the network could.
  if (key.collective != Collective::kAllReduce || !watch->shows_rates(key.problem.bytes())) return {};
  const std::size_t number = watch->count();
  if (!moves || !channels->idle()) return {};
  return WatchedCall{number, options.router.clock->now(), received_by_rank()};
}

void Communicator::State::note_watched() {
  const WatchedCall one = *std::exchange(watched, std::nullopt);
  const Duration took = options.router.clock->now() - one.since;
  std::vector<std::uint64_t> received = received_by_rank();
  for (std::size_t peer = 0; peer < received.size(); ++peer) received[peer] -= one.before[peer];
  watch->note(one.number, took, watch->sort(received));
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

void Communicator::State::check_network_before(const CollectiveCall& call) {
  const bool meets_all = call.collective == Collective::kBarrier ||
                         (call.collective == Collective::kAllReduce && call.count > 0);
  if (!meets_all || !watch->due()) return;
  check_arguments(call);
  const auto what = [&] {
    return fmt::format("comparing the network with what was found of it, before {} #{}",
                       collective_name(call.collective), operations + 1);
  };
  try {
    // They go as the network was when they were called.
    wait_until([&] { return deferred.empty(); }, what);
    const std::unique_ptr<Store> store = store_for_renewal();
    NetworkWatch::Judgement found = exchange_reports(store.get(), what);
    if (found.verdict != NetworkVerdict::kAsFound) renew_network(*store, std::move(found.why));
  } catch (const std::exception& error) {
    fail_for(error, what);
  }
}

std::unique_ptr<Store> Communicator::State::store_for_renewal() {
  // Its process need not stay as long as the communicator, which does without it.
  signal->check();
  if (!signal->reaches_store()) return nullptr;
  try {
    return rendezvous.store->connect(within(std::min<Duration>(kRenewalStorePatience, options.deadline)),
                                     options.log);
  } catch (const Error&) {
    return nullptr;
  }
}

NetworkWatch::Judgement Communicator::State::exchange_reports(const Store* store,
                                                              const std::function<std::string()>& what) {
  const auto own = watch->begin_check(store != nullptr);
  std::vector<float> all(own.size() * members.size());
  const CollectiveCall exchange{Collective::kAllGather, own.data(), all.data(), own.size(),
                                DataType::kFloat32};
  const ScheduleKey key = check(exchange);
  const Choice choice = collectives::choose(key.collective, key.problem, situation());
  const Channels::Ticket ticket = start_by_messages(exchange, key, choice, 0);
  wait_until([&] { return channels->done(ticket); },
             [&] {
               const auto awaited = channels->awaited(ticket);
               return what() +
                      (awaited ? ": waiting for " + mesh->describe(awaited->traffic, awaited->peer) : "");
             });
  return watch->judge(all);
}

void Communicator::State::renew_network(Store& store, std::string why) {
  if (options.identity.rank == 0)
    options.log.info("the network is not as it was found: {}; the hosts measure again", why);
  ++networks;
  Discovery before = std::move(discovery);
  discover(store, within(options.deadline));
  // Hosts too busy to measure know less than they did before; all come to the same conclusion.
  const bool in_time = discovery.found.count > 1 || discovery.found.inside_bytes_per_second > 0;
  if (in_time) {
    discovery.renewed = std::move(why);
  } else {
    discovery = std::move(before);
  }
  arrange_ranks();
  begin_to_watch();
  schedules.clear();
  last.reset();
  if (table && !difference(table->shape, shape()).empty()) table.reset();
}

}  // namespace tombolo::collectives
