#include "transport/rdma/establishing.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "transport/bootstrap/secret.h"
#include "transport/rdma/connection.h"

namespace tombolo::transport::rdma {
Establishing::Establishing(bootstrap::ControlChannel channel, PortAt port_at, const RdmaOptions& options)
    : ChannelSetUp(std::move(channel), "rdma", "queue pairs were"),
      agreed_{make_areas(), {}, {}, {}, 0, 0, options},
      port_at_(std::move(port_at)) {
  random_bytes(std::as_writable_bytes(std::span(&token_, 1)));
  if (channel_.connecting) offer();
}

void Establishing::offer() {
  Card card;
  card.kind = Kind::kOffer;
  std::string problem;
  for (const auto& [from, to] : channel_.nic_pairs) {
    if (card.lanes.size() == kMostLanes) break;
    try {
      ports_.push_back(port_at_(from.address));
      card.lanes.push_back({ports_.back().facts, to.address, 0});
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  if (card.lanes.empty())
    give_up(Cause::kUnsupported, problem.empty() ? "no NICs were chosen for it" : problem);
  pairs_per_lane_ = static_cast<std::size_t>(agreed_.options.queue_pairs);
  card.pairs_per_lane = static_cast<std::uint8_t>(pairs_per_lane_);
  card.eager_bytes = static_cast<std::uint32_t>(agreed_.options.eager_bytes);
  say(card);
}

std::unique_ptr<Connection> Establishing::make() {
  Route& route = channel_.route;
  route.local_nic = agreed_.lanes[0]->port().facts.nic;
  route.peer_nic = agreed_.peer_lanes[0].port.nic;
  std::string nics;
  for (std::size_t i = 0; i < agreed_.lanes.size(); ++i) {
    const Port& port = agreed_.lanes[i]->port();
    nics += fmt::format("{}{} (GID {}) - {}, packets of {}", i == 0 ? "" : "; ", port.device->name(),
                        port.gid_index, agreed_.peer_lanes[i].port.nic,
                        128 << std::min(port.facts.mtu, agreed_.peer_lanes[i].port.mtu));
  }
  channel_.log.info("{}: {} queue pair(s) for payload over {}", description_, agreed_.queue_pairs.size() - 1,
                    nics);
  return std::make_unique<RdmaConnection>(std::move(channel_), std::move(agreed_));
}

Establishing::Kind Establishing::hear(const Card& card) {
  switch (card.kind) {
    case Kind::kOffer:
      hear_offer(card);
      return Kind::kQueues;
    case Kind::kAnswer:
      hear_answer(card);
      return Kind::kReady;
    case Kind::kQueues:
      connect_all(card);
      say(mine(Kind::kReady));
      break;
    default:
      break;
  }
  start_test();
  return Kind::kProved;
}

void Establishing::hear_offer(const Card& card) {
  Card answer;
  std::vector<Port> ports;
  std::string problem = "it offered no NICs";
  for (std::size_t i = 0; i < card.lanes.size(); ++i) {
    try {
      Port port = port_at_(card.lanes[i].peer_address);
      problem = why_not_together(port.facts, card.lanes[i].port);
      if (!problem.empty()) continue;
      answer.kept[i] = true;
      ports.push_back(std::move(port));
      agreed_.peer_lanes.push_back(card.lanes[i]);
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  if (ports.empty()) fail(Cause::kUnsupported, "{}", problem);
  agreed_.eager_bytes = std::min<std::size_t>(card.eager_bytes, agreed_.options.eager_bytes);
  make_lanes(std::move(ports), card.pairs_per_lane);
  Card whole = mine(Kind::kAnswer);
  whole.kept = answer.kept;
  say(whole);
}

void Establishing::hear_answer(const Card& card) {
  std::vector<Port> ports;
  for (std::size_t i = 0; i < ports_.size(); ++i)
    if (card.kept[i]) ports.push_back(ports_[i]);
  if (ports.empty() || ports.size() != card.lanes.size() || card.pairs_per_lane != pairs_per_lane_) {
    fail(Cause::kRemote, "the peer answers {} offered lanes with {}", ports_.size(), card.lanes.size());
  }
  agreed_.eager_bytes = std::min<std::size_t>(card.eager_bytes, agreed_.options.eager_bytes);
  make_lanes(std::move(ports), pairs_per_lane_);
  connect_all(card);
  say(mine(Kind::kQueues));
}

void Establishing::make_lanes(std::vector<Port> ports, std::size_t pairs_per_lane) {
  pairs_per_lane_ = pairs_per_lane;
  for (Port& port : ports) {
    const bool control = agreed_.lanes.empty();
    agreed_.lanes.push_back(std::make_unique<Lane>(std::move(port), *agreed_.areas, pairs_per_lane, control));
  }
  auto& all = agreed_.queue_pairs;
  all.push_back(agreed_.lanes[0]->queue_pairs()[0].get());
  for (std::size_t i = 0; i < pairs_per_lane; ++i) {
    for (std::size_t lane = 0; lane < agreed_.lanes.size(); ++lane) {
      all.push_back(agreed_.lanes[lane]->queue_pairs()[i + (lane == 0 ? 1 : 0)].get());
      all.back()->lane = lane;
    }
  }
  int error = 0;
  for (std::uint32_t slot = 0; slot < kSlots && error == 0; ++slot) error = post_slot_receive(agreed_, slot);
  for (std::size_t pair = 1; pair < all.size() && error == 0; ++pair) {
    for (std::uint32_t i = 0; i < kPayloadReceives && error == 0; ++i)
      error = post_empty_receive(agreed_, pair);
  }
  if (error != 0) fail_errno(error, "post the first receives");
}

Card Establishing::mine(Kind kind) const {
  Card card;
  card.kind = kind;
  card.pairs_per_lane = static_cast<std::uint8_t>(pairs_per_lane_);
  card.eager_bytes = static_cast<std::uint32_t>(agreed_.eager_bytes);
  card.area = reinterpret_cast<std::uint64_t>(&agreed_.areas->open);
  card.token = token_;
  for (const auto& lane : agreed_.lanes) card.lanes.push_back({lane->port().facts, {}, lane->open_key()});
  for (const QueuePair* pair : agreed_.queue_pairs)
    card.queue_pairs.push_back({pair->pair->qp_num, pair->first});
  return card;
}

void Establishing::connect_all(const Card& card) {
  if (card.lanes.size() != agreed_.lanes.size() || card.queue_pairs.size() != agreed_.queue_pairs.size()) {
    fail(Cause::kRemote, "the peer has {} lanes and {} queue pairs, this end {} and {}", card.lanes.size(),
         card.queue_pairs.size(), agreed_.lanes.size(), agreed_.queue_pairs.size());
  }
  for (std::size_t i = 0; i < card.lanes.size(); ++i) {
    const std::string problem = why_not_together(agreed_.lanes[i]->port().facts, card.lanes[i].port);
    if (!problem.empty()) fail(Cause::kUnsupported, "{}", problem);
  }
  agreed_.peer_lanes = card.lanes;
  agreed_.peer_area = card.area;
  agreed_.areas->closed.test = card.token;
  for (std::size_t i = 0; i < agreed_.queue_pairs.size(); ++i) {
    QueuePair& pair = *agreed_.queue_pairs[i];
    agreed_.lanes[pair.lane]->connect(pair, card.lanes[pair.lane].port, card.queue_pairs[i], agreed_.options);
  }
}

void Establishing::start_test() {
  begin_test();
  arrived_.resize(agreed_.queue_pairs.size());
  acknowledged_.resize(agreed_.queue_pairs.size());
  for (std::size_t i = 0; i < agreed_.queue_pairs.size(); ++i) {
    if (const int error = post_test(agreed_, i); error != 0) fail_errno(error, "post a test write");
  }
}

void Establishing::watch_test() {
  if (proved()) return;
  const auto all = [](const std::vector<bool>& flags) {
    return std::ranges::all_of(flags, [](bool flag) { return flag; });
  };
  const auto over = [&] { return all(arrived_) && all(acknowledged_); };
  for (const ibv_wc& one : std::exchange(early_, {})) note(one);
  for (auto& lane : agreed_.lanes) {
    lane->disarm();
    ibv_wc completion{};
    // What follows the test is the connection's.
    while (!over() && ibv_poll_cq(lane->queue(), 1, &completion) > 0) note(completion);
  }
  if (over()) return prove(mine(Kind::kProved));
  if (!timer().passed()) return;
  const auto missing = [](const std::vector<bool>& flags) { return std::ranges::count(flags, false); };
  give_up(
      Cause::kRemote,
      fmt::format("no bytes get through: of {} queue pairs {} had no test write from the peer and {} none "
                  "acknowledged by it within {}",
                  arrived_.size(), missing(arrived_), missing(acknowledged_),
                  format_seconds(to_seconds(timer().allowed()))));
}

void Establishing::note(const ibv_wc& completion) {
  const WorkId work = WorkId::unpack(completion.wr_id);
  const Lane& lane = *agreed_.lanes[agreed_.queue_pairs[work.queue_pair]->lane];
  if (completion.status != IBV_WC_SUCCESS) {
    lane.device().look();
    give_up(Cause::kRemote, fmt::format("a test write over RDMA device {} failed: {}{}", lane.device().name(),
                                        lane.device().verbs().wc_status_str(completion.status),
                                        lane.device().trouble(lane.port().number)));
  }
  if (work.kind == WorkId::Kind::kTest) {
    ++agreed_.queue_pairs[work.queue_pair]->send_room;
    acknowledged_[work.queue_pair] = true;
    return;
  }
  const bool slot = work.kind == WorkId::Kind::kSlotReceive;
  const bool sound = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
                     ntohl(completion.imm_data) == kTestMark &&
                     agreed_.areas->open.tests[work.queue_pair] == token_ && !arrived_[work.queue_pair];
  if (!sound) give_up(Cause::kRemote, "a test write brought other bytes than were sent");
  arrived_[work.queue_pair] = true;
  const int error =
      slot ? post_slot_receive(agreed_, work.slot) : post_empty_receive(agreed_, work.queue_pair);
  if (error != 0) fail_errno(error, fmt::format("{}: post a receive", description_));
}

bool Establishing::append_test_handles(std::vector<pollfd>& handles) const {
  if (proved()) return false;
  for (const auto& lane : agreed_.lanes) {
    lane->arm();
    // What came before it was armed wakes nobody.
    ibv_wc completion{};
    if (ibv_poll_cq(lane->queue(), 1, &completion) > 0) early_.push_back(completion);
    handles.push_back({lane->descriptor(), POLLIN, 0});
  }
  return !early_.empty();
}

}  // namespace tombolo::transport::rdma
