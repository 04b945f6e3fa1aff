// How communicators come to be: each rank publishes its addresses and settings in the store, and reads those
// of all others.
#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "collectives/discovery/discover.h"
#include "collectives/engine/communicator_state.h"
#include "collectives/engine/rank_record.h"
#include "collectives/rendezvous/rendezvous_address.h"
#include "collectives/schedule/cluster_weights.h"
#include "compute/cores.h"

namespace tombolo::collectives {
namespace {

/// How often a rank that waits for one other checks whether the rest has arrived, or has given up.
constexpr auto kArrivalCheckInterval = std::chrono::milliseconds(200);
/// How long a wait spins before it sleeps: about what two system calls of a peer cost. Sleeping and waking
/// costs more.
constexpr auto kSpin = std::chrono::microseconds(20);

/// How long a rank whose measuring breaks off waits for the note of one that gave up before it: the note is
/// under way by the time at which connections of that rank, or its store, close.
constexpr auto kNotePatience = std::chrono::seconds(1);
constexpr std::string_view kLoopbackAddress = "127.0.0.1";

/// The settings that must be equal on every rank, by the names that users know.
std::vector<std::pair<std::string, std::string>> settings_of(const Options& options) {
  return {{"number of ranks", std::to_string(options.identity.size)},
          {"TOMBOLO_ROUTING", std::string(routing_name(options.routing))},
          {"TOMBOLO_ALGORITHM", options.algorithm},
          {"TOMBOLO_TUNING", options.tuning_file.empty() ? "off" : "on"},
          {"TOMBOLO_COMPRESSION", std::string(compression_name(options.compression))},
          {"TOMBOLO_SEGMENT", std::to_string(options.tuning.segment_bytes)},
          {"TOMBOLO_DISCOVER", options.discover ? "on" : "off"},
          {"TOMBOLO_HOST_LIMIT", options.host_limit ? std::to_string(*options.host_limit) : "unset"},
          {"small-vector limit", std::to_string(options.tuning.small_bytes)}};
}

/// " (rank 5 before the shrink)"; empty where it had the same number, or there was none.
std::string name_before_shrink(int rank, const std::vector<int>& before) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= before.size()) return {};
  const int was = before[static_cast<std::size_t>(rank)];
  return was == rank ? "" : fmt::format(" (rank {} before the shrink)", was);
}

/// `before`: State::ranks_before_shrink.
std::string list_ranks(const std::vector<int>& ranks, const std::vector<int>& before) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr std::size_t kMost = 16;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i)
    text += fmt::format("{}{}{}", i > 0 ? ", " : "", ranks[i], name_before_shrink(ranks[i], before));
  if (ranks.size() > kMost) text += fmt::format(" and {} more", ranks.size() - kMost);
  return text;
}

Deadline slice_of(Deadline deadline, const Rendezvous& at) {
  return Deadline::after(std::min<Duration>(kArrivalCheckInterval, deadline.remaining()), *at.clock);
}

/// Those that can come no more.
std::vector<int> that_are_gone(const std::vector<int>& ranks, const Communicator::MayCome& may_come) {
  std::vector<int> others;
  for (const int rank : ranks) {
    if (may_come && !may_come(rank)) others.push_back(rank);
  }
  return others;
}

/// Whether another rank has left a note that it gives up, once the signal watches for that.
bool gave_up(AbortSignal& signal) {
  return signal.check() == AbortSignal::News::kNote;
}

[[noreturn]] void fail_by_note(const AbortSignal& signal, const std::vector<int>& before) {
  const AbortNote& note = signal.note();
  fail(note.cause, "rank {}{} gave up first: {}", note.rank, name_before_shrink(note.rank, before),
       note.text);
}

/// What rank 0 publishes begins with this in place of a table that it cannot read: why it cannot.
constexpr char kRefusal = '!';

/// Rank 0 usually keeps the store. If what it reads makes it fail, its store closes, and ranks that have not
/// read yet would learn that it left, and not why; so it waits until all have read. For a rank that dies
/// before that it waits no longer than the deadline, and for one that gives up, or that is known to be dead,
/// not at all: the first call that needs that rank names it.
void stay_until_all_have_read(Store& store, const Rendezvous& at, std::string_view what, AbortSignal& signal,
                              int rank, int size, Deadline deadline,
                              const Communicator::MayCome& may_come = {}) {
  try {
    // Nobody waits for rank 0's word, but those that shrink want to know how far it has come.
    if (rank != 0 || what == kRankRecords) store.set(read_key(at, what, rank), {});
    if (rank != 0) return;
    for (int reader = 1; reader < size && !gave_up(signal) && !deadline.passed();) {
      try {
        store.get(read_key(at, what, reader), slice_of(deadline, at));
        ++reader;
      } catch (const Error& error) {
        if (error.cause() != Cause::kTimeout) throw;
        if (may_come && !may_come(reader)) ++reader;
      }
    }
  } catch (const Error& error) {
    if (error.cause() != Cause::kTimeout && error.cause() != Cause::kRemote) throw;
  }
}

/// What every rank has published under `what`; throws naming every rank that has not come by the deadline, or
/// the one that gives up before all have come, or those that have died.
std::vector<std::vector<std::byte>> collect(Store& store, const Rendezvous& at, std::string_view what,
                                            AbortSignal& signal, int rank, int size, Deadline deadline,
                                            const Communicator::MayCome& may_come = {},
                                            const std::vector<int>& before = {}) {
  std::vector<std::optional<std::vector<std::byte>>> arrived(static_cast<std::size_t>(size));
  const auto key = [&](int of) { return fmt::format("{}/{}/{}", at.prefix, what, of); };
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int each = 0; each < size; ++each) {
      if (!arrived[static_cast<std::size_t>(each)]) ranks.push_back(each);
    }
    return ranks;
  };
  std::vector<int> dead;
  try {
    for (auto waiting = missing(); !waiting.empty(); waiting = missing()) {
      // A rank that had all it needed may have given up since: what it published counts.
      const bool one_gave_up = gave_up(signal), last_look = deadline.passed();
      if (!last_look && !one_gave_up) {
        try {
          arrived[static_cast<std::size_t>(waiting.front())] =
              store.get(key(waiting.front()), slice_of(deadline, at));
          continue;
        } catch (const Error& error) {
          if (error.cause() != Cause::kTimeout) throw;
        }
      }
      for (const int each : waiting) arrived[static_cast<std::size_t>(each)] = store.try_get(key(each));
      waiting = missing();
      if (one_gave_up) break;
      // The store may see the end of a rank before what it has published last: only the second look counts.
      const auto dead_before = std::exchange(dead, that_are_gone(waiting, may_come));
      if (!dead.empty() && dead == dead_before) break;
      if (last_look && !waiting.empty()) {
        fail(Cause::kTimeout,
             "{} of {} did not arrive within {} at {}:{}. Were they started, with the same address and port?",
             list_ranks(waiting, before), size, format_seconds(to_seconds(deadline.allowed())), at.known_as,
             at.port);
      }
    }
  } catch (const Error& error) {
    if (error.cause() != Cause::kRemote) throw;
    fail(Cause::kRemote, "rank 0 gave up while {} of {} had not arrived at {}:{} ({})",
         list_ranks(missing(), before), size, at.known_as, at.port, error.what());
  }
  if (!missing().empty()) {
    if (gave_up(signal)) fail_by_note(signal, before);
    fail(Cause::kRemote, "{} of {} died before arriving at {}:{}", list_ranks(dead, before), size,
         at.known_as, at.port);
  }
  stay_until_all_have_read(store, at, what, signal, rank, size, deadline, may_come);
  std::vector<std::vector<std::byte>> all;
  for (auto& one : arrived) all.push_back(std::move(*one));
  return all;
}

}  // namespace

Rendezvous rendezvous_of(const Options& options) {
  const Identity& identity = options.identity;
  const std::string& address = options.store_reach.empty() ? identity.address : options.store_reach;
  return {options.store ? options.store : store_at(address, identity.port, options.secret),
          identity.address,
          identity.port,
          options.store_prefix,
          options.router.clock,
          !options.store_reach.empty()};
}

Communicator::State::State(Options given)
    : options(std::move(given)), signal(std::make_unique<AbortSignal>()) {
  options.router.secret = options.secret;
  idle_patience = options.deadline;
}

void Communicator::State::set_up(const MayCome& may_come) {
  const int rank = options.identity.rank, size = options.identity.size;
  std::vector<compute::ProcessorSet> neighbours;  // of the ranks of this host
  if (size == 1) {
    members = {{0, options.router.host.name, options.router.host.cluster}};
  } else {
    const auto deadline = within(options.deadline);
    // The ranks of another communicator come to a store that was there before.
    const auto store = router ? rendezvous.store->reconnect(deadline, options.log)
                              : rendezvous.store->connect(deadline, options.log);
    if (!router) {
      if (options.make_secret) options.router.secret = agree_on_secret(*store, deadline);
      if (options.routing == Routing::kShared) agree_on_kind(*store, deadline);
      router = std::make_shared<transport::Router>(options.router);
    }
    mesh = std::make_unique<Mesh>(router, rank, fnv1a<std::uint32_t>(rendezvous.prefix), options.deadline);
    absentees.emplace(*signal, rendezvous, size, [this](int peer) { return mesh->awaits(peer); });
    if (may_use_host_memory()) host = HostGroup::create(reach_in_host());
    RankRecord own{options.router.host.name,
                   options.router.host.cluster,
                   {},
                   settings_of(options),
                   host ? host->card() : HostCard{},
                   compute::own_processors(),
                   mesh->endpoint(),
                   links_digest(),
                   own_standby(),
                   rendezvous.kept_here};
    std::uint64_t drawn = 0;
    transport::random_bytes(std::as_writable_bytes(std::span(&drawn, 1)));
    own.token = fmt::format("{:016x}", drawn);
    const auto claimed = store->claim(record_key(rank), own.encode());
    if (const RankRecord holder = RankRecord::decode(claimed, rank); holder.token != own.token) {
      fail(Cause::kInvalidUsage,
           "rank {} has arrived at {}:{} already, from host {}: two processes say that they are rank {}",
           rank, rendezvous.known_as, rendezvous.port, holder.host, rank);
    }
    signal->watch(rendezvous, rank, deadline);
    const auto records = collect(*store, rendezvous, kRankRecords, *signal, rank, size, deadline, may_come,
                                 ranks_before_shrink);
    std::vector<Mesh::Peer> peers;
    std::vector<HostCard> cards;
    for (int peer = 0; peer < size; ++peer) {
      const RankRecord record = RankRecord::decode(records[static_cast<std::size_t>(peer)], peer);
      for (std::size_t i = 0; i < own.settings.size(); ++i) {
        if (i < record.settings.size() && record.settings[i] == own.settings[i]) continue;
        fail(Cause::kInvalidUsage,
             "rank {} was started with another {} ({}) than rank {} ({}): it must be the same on every rank",
             peer, own.settings[i].first, i < record.settings.size() ? record.settings[i].second : "unknown",
             rank, own.settings[i].second);
      }
      same_links &= record.links == own.links;
      members.push_back({peer, record.host, record.cluster});
      standbys.push_back(record.standby);
      if (record.keeps_store) store_keeper = peer;
      addresses.emplace_back();
      for (const auto& offer : record.endpoint.offers) addresses.back() += offer.address + ' ';
      peers.push_back({record.host, record.endpoint, name_before_shrink(peer, ranks_before_shrink)});
      cards.push_back(record.memory);
      if (record.host == own.host) neighbours.push_back(record.processors);
    }
    const bool one_host = std::all_of(members.begin(), members.end(),
                                      [&](const Member& member) { return member.host == own.host; });
    if (!one_host) host.reset();
    if (host) {
      host->join(cards, rank);
      host_collective = std::make_unique<HostCollective>(*host);
      host_calls.emplace(*host_collective);
    }
    mesh->set_peers(std::move(peers));
    // One failed as the network was measured again, and not all of them had heard what was found.
    if (!may_discover && !same_links) discovery = {};
    try {
      if (discovery.islands.empty()) discover(*store, deadline);
    } catch (const Error& error) {
      if (!gave_up(*signal)) AbortSignal::publish(rendezvous, {rank, error.cause(), error.what()});
      throw;
    }
    agree_on_tuning(*store, deadline);
    channels = std::make_unique<Channels>(*mesh);
  }
  arrange_ranks();
  begin_to_watch();
  messages = std::make_unique<PointToPoint>(mesh.get(), rank);
  // Where ranks share a processor, spinning keeps the very rank from running that is waited for. Each may be
  // bound to one of its own, as MPI's launchers do.
  const bool share_processors = !compute::has_processor_for_each(neighbours);
  spin = options.spin ? *options.spin : share_processors ? Duration::zero() : Duration(kSpin);
  // The limit counts where all ranks are on one host, and so know the same processors.
  options.tuning.host_bytes =
      options.host_limit.value_or(share_processors ? kHostBytesOnSharedProcessors : Tuning().host_bytes);
}

std::string Communicator::State::record_key(int rank) const {
  return fmt::format("{}/{}/{}", rendezvous.prefix, kRankRecords, rank);
}

StandbyStore Communicator::State::own_standby() {
  if (options.store) return {};  // whoever reaches the store in another way does not meet over the network
  const bool in_host = is_loopback(rendezvous.known_as);
  if (!standby || (!in_host && is_loopback(standby->address))) {
    const std::string address =
        in_host ? std::string(kLoopbackAddress) : rendezvous_address(options.router.host);
    standby = std::make_shared<OwnStandby>(address, router->options().secret, options.log);
  }
  return {standby->address, static_cast<std::uint16_t>(standby->server.port()), standby->server.id()};
}

std::string Communicator::State::name_rank(int rank) const {
  const bool known = rank >= 0 && static_cast<std::size_t>(rank) < members.size();
  return fmt::format("rank {}{}{}{}", rank, name_before_shrink(rank, ranks_before_shrink),
                     known ? " on host " : "", known ? members[static_cast<std::size_t>(rank)].host : "");
}

std::string Communicator::State::name_store_keeper() const {
  if (store_keeper) return name_rank(*store_keeper);
  return options.store_elsewhere ? "the process that made the unique id" : "the process that keeps the store";
}

std::uint64_t Communicator::State::links_digest() const {
  std::uint64_t digest = options.cluster_file_digest;
  if (discovery.islands.empty()) return digest;
  std::string text = discovery.found.encode();
  for (const std::string& island : discovery.islands) text += ' ' + island;
  return digest ^ std::max<std::uint64_t>(fnv1a<std::uint64_t>(text), 1);
}

void Communicator::State::arrange_ranks() {
  rank_map = RankMap::make(options.identity.rank, locations());
  rank_map.uniform_links = options.routing == Routing::kShared;
  std::vector<int> firsts;
  for (const auto& cluster : rank_map.clusters) firsts.push_back(cluster.front());
  rank_map.cluster_weights = cluster_weights(discovery.between(firsts));
  costs.reset();
  weigh_network();
}

void Communicator::State::weigh_network() {
  const std::vector<RankLocation> where = locations();
  const NetworkFacts facts = facts_of(where);
  const std::optional<NetworkCosts> known = network_costs(facts);
  const bool agreed = facts.from != KnownFrom::kClusterFile || same_links;
  if (known && agreed) costs.emplace(rank_map, *known);
  tune_to_links(options.tuning, rank_map, costs ? &*costs : nullptr);
}

NetworkFacts Communicator::State::facts_of(const std::vector<RankLocation>& where) const {
  return network_facts({.locations = where,
                        .declared = discovery.islands.empty() && !members.front().cluster.empty(),
                        .discovery = discovery,
                        .cluster_file = options.cluster_file.get(),
                        .shared_routing = options.routing == Routing::kShared});
}

std::vector<RankLocation> Communicator::State::locations() const {
  std::vector<RankLocation> all;
  for (std::size_t each = 0; each < members.size(); ++each) {
    all.push_back(
        {members[each].host, discovery.islands.empty() ? members[each].cluster : discovery.islands[each]});
  }
  return all;
}

void Communicator::State::discover(Store& store, Deadline deadline) {
  const auto declared = [](const Member& member) { return !member.cluster.empty(); };
  if (!may_discover || !options.discover || options.routing != Routing::kPerPeer ||
      std::ranges::any_of(members, declared))
    return;
  std::vector<RankOfHost> ranks;
  for (std::size_t each = 0; each < members.size(); ++each)
    ranks.push_back({members[each].host, addresses[each]});
  const auto await = [&](const std::string& key, int of) {
    return await_rank(store, key, of, deadline, "measure with the other hosts");
  };
  const int rank = options.identity.rank;
  const std::string what = networks == 0 ? "islands" : fmt::format("islands-again-{}", networks);
  const std::string prefix = fmt::format("{}/{}", rendezvous.prefix, what);
  try {
    discovery = discover_islands(ranks, rank, *router, store, await, prefix, options.islands_file,
                                 networks == 0 ? Known::kMayBeKept : Known::kOnlyMeasured);
  } catch (const Error& error) {
    if (error.cause() == Cause::kRemote && signal->await(within(kNotePatience)) == AbortSignal::News::kNote)
      fail_by_note(*signal, ranks_before_shrink);
    throw;
  }
  if (!discovery.islands.empty())
    stay_until_all_have_read(store, rendezvous, what, *signal, rank, options.identity.size, deadline);
}

std::vector<std::byte> Communicator::State::await_rank(Store& store, const std::string& key, int of,
                                                       Deadline deadline, std::string_view did_not) {
  for (;;) {
    if (gave_up(*signal)) {
      if (auto there = store.try_get(key)) return *std::move(there);
      fail_by_note(*signal, ranks_before_shrink);
    }
    if (deadline.passed()) {
      fail(Cause::kTimeout, "{} did not {} within {} (did its process die?)", name_rank(of), did_not,
           format_seconds(to_seconds(deadline.allowed())));
    }
    try {
      return store.get(key, slice_of(deadline, rendezvous));
    } catch (const Error& error) {
      if (error.cause() != Cause::kTimeout) throw;
    }
  }
}

void Communicator::State::agree_on_tuning(Store& store, Deadline deadline) {
  if (options.tuning_file.empty()) return;
  const int rank = options.identity.rank;
  const std::string key = rendezvous.prefix + "/tuning";
  const bool first = options.tuning_table == nullptr;
  std::string text;
  std::exception_ptr refusal;
  if (rank == 0) {
    try {
      if (first)
        options.tuning_table = std::make_shared<const TuningTable>(TuningTable::load(options.tuning_file));
      text = options.tuning_table->encode();
    } catch (const Error& error) {
      refusal = std::current_exception();
      text = fmt::format("{}{}", kRefusal, error.what());
    }
    store.set(key, std::as_bytes(std::span(text)));
  } else {
    const auto bytes = await_rank(store, key, 0, deadline, "read its tuning table");
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  // Also before rank 0 fails, and its store closes: all tell what is wrong with the table.
  stay_until_all_have_read(store, rendezvous, "tuning", *signal, rank, options.identity.size, deadline);
  if (refusal) std::rethrow_exception(refusal);
  if (text.starts_with(kRefusal)) fail(Cause::kInvalidUsage, "rank 0: {}", text.substr(1));
  if (rank != 0)
    options.tuning_table =
        std::make_shared<const TuningTable>(TuningTable::decode(text, "rank 0's tuning table"));
  const std::string differs = difference(options.tuning_table->shape, shape());
  if (differs.empty()) {
    table = options.tuning_table;
  } else if (rank == 0 && first) {
    options.log.warning("TOMBOLO_TUNING={} is not used: {}. tombolo perf --tune makes one for this job",
                        options.tuning_file, differs);
  }
}

transport::Secret Communicator::State::agree_on_secret(Store& store, Deadline deadline) {
  using transport::Secret;
  const std::string key = rendezvous.prefix + "/secret";
  std::vector<std::byte> bytes;
  if (options.identity.rank == 0) {
    bytes = store.claim(key, Secret::random().bytes());
  } else {
    try {
      bytes = store.get(key, deadline);
    } catch (const Error& error) {
      if (error.cause() != Cause::kTimeout) throw;
      fail(Cause::kTimeout, "rank 0 did not arrive within {} at {}:{}",
           format_seconds(to_seconds(deadline.allowed())), rendezvous.known_as, rendezvous.port);
    }
  }
  if (bytes.size() != Secret::kBytes)
    fail(Cause::kRemote, "the store holds {} bytes as the job's secret", bytes.size());
  return Secret::from_bytes(std::span<const std::byte>(bytes).first<Secret::kBytes>());
}

bool Communicator::State::may_use_host_memory() const {
  return options.identity.size <= kMostHostRanks && options.host_limit != std::size_t{0} &&
         options.algorithm == kAutomatic && options.routing == Routing::kPerPeer &&
         transport::allowed(options.router.policy, transport::Carrier::kShm);
}

Reach Communicator::State::reach_in_host() const {
  return options.router.shm_fetch == transport::shm::Fetch::kNever ? Reach::kShared : Reach::kBuffers;
}

void Communicator::State::agree_on_kind(Store& store, Deadline deadline) {
  // Only a router that listens knows what this host can offer. This one is temporary: no rank connects to it.
  transport::Router router_of_all(options.router);
  const auto own = router_of_all.listen()->endpoint().encode();
  store.set(fmt::format("{}/kinds/{}", rendezvous.prefix, options.identity.rank), own);
  std::vector<transport::Endpoint> endpoints;
  for (const auto& bytes :
       collect(store, rendezvous, "kinds", *signal, options.identity.rank, options.identity.size, deadline)) {
    endpoints.push_back(transport::Endpoint::decode(bytes));
  }
  options.router.policy.only_kind = transport::shared_kind(endpoints);
  if (!options.router.policy.only_kind) {
    fail(Cause::kUnsupported,
         "TOMBOLO_ROUTING=shared: there is no NIC kind that all {} ranks share; use per-peer routing",
         endpoints.size());
  }
}

std::unique_ptr<Communicator> Communicator::create(const Options& options) {
  const Identity& identity = options.identity;
  if (identity.size < 1 || identity.rank < 0 || identity.rank >= identity.size) {
    fail(Cause::kInvalidUsage, "rank {} of {}: ranks go from 0 to size - 1", identity.rank, identity.size);
  }
  if (options.tuning.segment_bytes == 0)
    fail(Cause::kInvalidUsage, "TOMBOLO_SEGMENT=0: a piece has at least one byte");
  if (!is_algorithm_choice(options.algorithm)) {
    fail(Cause::kInvalidUsage, "algorithm '{}': expected one of {}", options.algorithm, algorithm_choices());
  }
  auto state = std::make_unique<State>(options);
  if (identity.size > 1 && identity.rank == 0 && !options.store_elsewhere && !options.store) {
    state->server =
        std::make_shared<StoreServer>(identity.address, identity.port, options.secret, options.log);
    state->options.identity.port = state->server->port();
    state->options.store_reach = state->server->own_address();
  }
  state->rendezvous = rendezvous_of(state->options);
  state->begin_to_report();
  state->set_up();
  return std::make_unique<Communicator>(std::move(state));
}

}  // namespace tombolo::collectives
