#include "transport/rdma/connection_set_up.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "transport/rdma/connection.h"
#include "transport/sockets/secret.h"

namespace tombolo::transport::rdma {
namespace {

// Soft-RoCE takes 7, the most, to mean "for ever".
constexpr int kResumableRetries = 6;

}  // namespace

ConnectionSetUp::ConnectionSetUp(channel::ControlChannel channel, PortAt port_at, const RdmaOptions& options)
    : ChannelSetUp(std::move(channel), "rdma", "queue pairs were"),
      agreed_{make_areas(), {}, {}, {}, 0, 0, options},
      port_at_(std::move(port_at)) {
  random_bytes(std::as_writable_bytes(std::span(&token_, 1)));
  // A connecting end does not know before the handshake, which is over, whether both ends want it.
  if (channel_.route.resumable && options.resumable_timeout != 0) {
    agreed_.options.timeout = options.resumable_timeout;
    agreed_.options.retries = std::min(options.retries, kResumableRetries);
  }
  if (channel_.connecting) offer();
}

void ConnectionSetUp::offer() {
  SetUpMessage message;
  message.kind = Kind::kOffer;
  std::string problem;
  for (const auto& [from, to] : channel_.nic_pairs) {
    if (message.nic_pairs.size() == kMostNicPairs) break;
    try {
      ports_.push_back(port_at_(from.address));
      peer_addresses_.push_back(to.address);
      message.nic_pairs.push_back({ports_.back().facts, to.address, 0});
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  if (message.nic_pairs.empty() || (channel_.whole && !problem.empty()))
    give_up(Cause::kUnsupported, problem.empty() ? "no NICs were chosen for it" : problem);
  queue_pairs_per_nic_pair_ = static_cast<std::size_t>(agreed_.options.queue_pairs);
  message.queue_pairs_per_nic_pair = static_cast<std::uint8_t>(queue_pairs_per_nic_pair_);
  message.eager_bytes = static_cast<std::uint32_t>(agreed_.options.eager_bytes);
  say(message);
}

std::unique_ptr<Connection> ConnectionSetUp::make() {
  Route& route = channel_.route;
  route.reaches_gpu_memory = true;
  route.local_nic = agreed_.nic_pairs[0]->port().facts.nic;
  route.peer_nic = agreed_.peer_nic_pairs[0].port.nic;
  std::string nics;
  for (std::size_t i = 0; i < agreed_.nic_pairs.size(); ++i) {
    const Port& port = agreed_.nic_pairs[i]->port();
    nics += fmt::format("{}{} (GID {}) - {}, packets of {}", i == 0 ? "" : "; ", port.device->name(),
                        port.gid_index, agreed_.peer_nic_pairs[i].port.nic,
                        128 << std::min(port.facts.mtu, agreed_.peer_nic_pairs[i].port.mtu));
  }
  channel_.log.info("{}: {} queue pair(s) for payload over {}", description_, agreed_.queue_pairs.size() - 1,
                    nics);
  return std::make_unique<RdmaConnection>(std::move(channel_), std::move(agreed_));
}

ConnectionSetUp::Kind ConnectionSetUp::hear(const SetUpMessage& message) {
  switch (message.kind) {
    case Kind::kOffer:
      hear_offer(message);
      return Kind::kQueues;
    case Kind::kAnswer:
      hear_answer(message);
      return Kind::kReady;
    case Kind::kQueues:
      connect_all(message);
      say(mine(Kind::kReady));
      break;
    default:
      break;
  }
  start_test();
  return Kind::kProved;
}

void ConnectionSetUp::hear_offer(const SetUpMessage& message) {
  SetUpMessage answer;
  std::vector<Port> ports;
  std::string problem = "it offered no NICs";
  for (std::size_t i = 0; i < message.nic_pairs.size(); ++i) {
    try {
      Port port = port_at_(message.nic_pairs[i].peer_address);
      problem = why_not_together(port.facts, message.nic_pairs[i].port);
      if (!problem.empty()) continue;
      answer.kept[i] = true;
      ports.push_back(std::move(port));
      agreed_.peer_nic_pairs.push_back(message.nic_pairs[i]);
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  if (ports.empty()) fail(Cause::kUnsupported, "{}", problem);
  agreed_.eager_bytes = std::min<std::size_t>(message.eager_bytes, agreed_.options.eager_bytes);
  make_nic_pairs(std::move(ports), message.queue_pairs_per_nic_pair);
  SetUpMessage whole = mine(Kind::kAnswer);
  whole.kept = answer.kept;
  say(whole);
}

void ConnectionSetUp::hear_answer(const SetUpMessage& message) {
  std::vector<Port> ports;
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    if (!message.kept[i]) continue;
    ports.push_back(ports_[i]);
    agreed_.peer_addresses.push_back(peer_addresses_[i]);
  }
  if (ports.empty() || ports.size() != message.nic_pairs.size() ||
      message.queue_pairs_per_nic_pair != queue_pairs_per_nic_pair_) {
    fail(Cause::kRemote, "the peer answers {} offered NIC pairs with {}", ports_.size(),
         message.nic_pairs.size());
  }
  if (channel_.whole && ports.size() < ports_.size())
    fail(Cause::kUnsupported, "the peer can use only {} of {} NIC pairs", ports.size(), ports_.size());
  agreed_.eager_bytes = std::min<std::size_t>(message.eager_bytes, agreed_.options.eager_bytes);
  make_nic_pairs(std::move(ports), queue_pairs_per_nic_pair_);
  connect_all(message);
  say(mine(Kind::kQueues));
}

void ConnectionSetUp::make_nic_pairs(std::vector<Port> ports, std::size_t queue_pairs_per_nic_pair) {
  queue_pairs_per_nic_pair_ = queue_pairs_per_nic_pair;
  for (Port& port : ports) {
    const bool control = agreed_.nic_pairs.empty();
    agreed_.nic_pairs.push_back(
        std::make_unique<NicPair>(std::move(port), *agreed_.areas, queue_pairs_per_nic_pair, control));
  }
  auto& all = agreed_.queue_pairs;
  all.push_back(agreed_.nic_pairs[0]->queue_pairs()[0].get());
  for (std::size_t i = 0; i < queue_pairs_per_nic_pair; ++i) {
    for (std::size_t nic_pair = 0; nic_pair < agreed_.nic_pairs.size(); ++nic_pair) {
      all.push_back(agreed_.nic_pairs[nic_pair]->queue_pairs()[i + (nic_pair == 0 ? 1 : 0)].get());
      all.back()->nic_pair = nic_pair;
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

SetUpMessage ConnectionSetUp::mine(Kind kind) const {
  SetUpMessage message;
  message.kind = kind;
  message.queue_pairs_per_nic_pair = static_cast<std::uint8_t>(queue_pairs_per_nic_pair_);
  message.eager_bytes = static_cast<std::uint32_t>(agreed_.eager_bytes);
  message.area = reinterpret_cast<std::uint64_t>(&agreed_.areas->open);
  message.token = token_;
  for (const auto& nic_pair : agreed_.nic_pairs)
    message.nic_pairs.push_back({nic_pair->port().facts, {}, nic_pair->open_key()});
  for (const QueuePair* pair : agreed_.queue_pairs)
    message.queue_pairs.push_back({pair->pair->qp_num, pair->first});
  return message;
}

void ConnectionSetUp::connect_all(const SetUpMessage& message) {
  if (message.nic_pairs.size() != agreed_.nic_pairs.size() ||
      message.queue_pairs.size() != agreed_.queue_pairs.size()) {
    fail(Cause::kRemote, "the peer has {} NIC pairs and {} queue pairs, this end {} and {}",
         message.nic_pairs.size(), message.queue_pairs.size(), agreed_.nic_pairs.size(),
         agreed_.queue_pairs.size());
  }
  for (std::size_t i = 0; i < message.nic_pairs.size(); ++i) {
    const std::string problem =
        why_not_together(agreed_.nic_pairs[i]->port().facts, message.nic_pairs[i].port);
    if (!problem.empty()) fail(Cause::kUnsupported, "{}", problem);
  }
  agreed_.peer_nic_pairs = message.nic_pairs;
  agreed_.peer_area = message.area;
  agreed_.areas->closed.test = message.token;
  for (std::size_t i = 0; i < agreed_.queue_pairs.size(); ++i) {
    QueuePair& pair = *agreed_.queue_pairs[i];
    agreed_.nic_pairs[pair.nic_pair]->connect(pair, message.nic_pairs[pair.nic_pair].port,
                                              message.queue_pairs[i], agreed_.options);
  }
}

void ConnectionSetUp::start_test() {
  begin_test();
  arrived_.resize(agreed_.queue_pairs.size());
  acknowledged_.resize(agreed_.queue_pairs.size());
  for (std::size_t i = 0; i < agreed_.queue_pairs.size(); ++i) {
    if (const int error = post_test(agreed_, i); error != 0) fail_errno(error, "post a test write");
  }
}

void ConnectionSetUp::watch_test() {
  if (proved()) return;
  const auto all = [](const std::vector<bool>& flags) {
    return std::ranges::all_of(flags, [](bool flag) { return flag; });
  };
  const auto over = [&] { return all(arrived_) && all(acknowledged_); };
  for (const ibv_wc& one : std::exchange(early_, {})) note(one);
  for (auto& nic_pair : agreed_.nic_pairs) {
    nic_pair->disarm();
    ibv_wc completion{};
    // Completions that follow those of the test belong to the connection.
    while (!over() && ibv_poll_cq(nic_pair->queue(), 1, &completion) > 0) note(completion);
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

void ConnectionSetUp::note(const ibv_wc& completion) {
  const WorkId work = WorkId::unpack(completion.wr_id);
  const NicPair& nic_pair = *agreed_.nic_pairs[agreed_.queue_pairs[work.queue_pair]->nic_pair];
  if (completion.status != IBV_WC_SUCCESS) {
    nic_pair.device().look();
    give_up(Cause::kRemote,
            fmt::format("a test write over RDMA device {} failed: {}{}", nic_pair.device().name(),
                        nic_pair.device().verbs().wc_status_str(completion.status),
                        nic_pair.device().trouble(nic_pair.port().number)));
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

bool ConnectionSetUp::append_test_handles(std::vector<pollfd>& handles) const {
  if (proved()) return false;
  for (const auto& nic_pair : agreed_.nic_pairs) {
    nic_pair->arm();
    // A completion that came before the queue was armed raises no event.
    ibv_wc completion{};
    if (ibv_poll_cq(nic_pair->queue(), 1, &completion) > 0) early_.push_back(completion);
    handles.push_back({nic_pair->descriptor(), POLLIN, 0});
  }
  return !early_.empty();
}

}  // namespace tombolo::transport::rdma
