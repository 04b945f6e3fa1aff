#include "transport/ucx/connection_set_up.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>

#include "base/error.h"
#include "base/units.h"
#include "transport/sockets/secret.h"
#include "transport/ucx/connection.h"

namespace tombolo::transport::ucx {
namespace {

// UCX sends the small message eagerly, and the large one by rendezvous wherever it can.
constexpr std::size_t kTestSizes[] = {16, std::size_t{1} << 20};

std::vector<std::byte> filled_with(std::uint64_t value, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size; at += sizeof value)
    std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

}  // namespace

ConnectionSetUp::ConnectionSetUp(channel::ControlChannel channel, ContextFor context_for, bool without_tcp)
    : ChannelSetUp(std::move(channel), "ucx", "UCX was"),
      context_for_(std::move(context_for)),
      without_tcp_(without_tcp) {
  random_bytes(std::as_writable_bytes(std::span(&agreed_.token, 1)));
  random_bytes(std::as_writable_bytes(std::span(&proof_, 1)));
  if (!channel_.connecting) return;
  std::vector<std::string> here, there;
  for (const auto& [from, to] : channel_.nic_pairs) {
    if (here.size() == kMostNicPairs) break;
    here.push_back(from.address);
    there.push_back(to.address);
  }
  try {
    open(here, without_tcp_);
    SetUpMessage offer = mine(Kind::kOffer);
    offer.wanted = there;
    say(offer);
  } catch (const Error& error) {
    give_up(error.cause(), error.what());
  }
}

ConnectionSetUp::~ConnectionSetUp() {
  if (!agreed_.worker || incoming_.empty()) return;  // no test is under way
  // UCX 1.13 aborts the process where an endpoint is closed while the two ends are still connecting, as they
  // are on a dead path. So the resources of such an attempt stay, unused, as long as the process.
  struct Abandoned {
    std::unique_ptr<Worker> worker;
    std::vector<Test> incoming, outgoing;
  };
  static std::mutex lock;
  static auto* const all = new std::list<Abandoned>;
  std::lock_guard guard(lock);
  all->push_back({std::move(agreed_.worker), std::move(incoming_), std::move(outgoing_)});
}

void ConnectionSetUp::open(const std::vector<std::string>& addresses, bool without_tcp) {
  agreed_.worker = std::make_unique<Worker>(context_for_(addresses, channel_.route.kind, without_tcp));
}

SetUpMessage ConnectionSetUp::mine(Kind kind) const {
  SetUpMessage message;
  message.kind = kind;
  message.without_tcp = without_tcp_;
  message.token = agreed_.token;
  message.proof = proof_;
  if (kind == Kind::kProved) return message;
  message.address = agreed_.worker->address();
  if (message.address.size() > kLongestAddress) {
    fail(Cause::kUnsupported,
         "UCX's address of {} bytes is longer than {}: restrict its devices (UCX_NET_DEVICES)",
         message.address.size(), kLongestAddress);
  }
  return message;
}

std::unique_ptr<Connection> ConnectionSetUp::make() {
  const std::string lanes = agreed_.worker->lanes();
  channel_.log.info("{}: UCX carries it by {}", description_, lanes.empty() ? "its own choice" : lanes);
  return std::make_unique<UcxConnection>(std::move(channel_), std::move(agreed_));
}

ConnectionSetUp::Kind ConnectionSetUp::hear(const SetUpMessage& message) {
  if (message.kind == Kind::kOffer) {
    open(message.wanted, without_tcp_ || message.without_tcp);
    say(mine(Kind::kAnswer));
  }
  agreed_.peer_token = message.token;
  agreed_.worker->connect(message.address);
  start_test(message);
  return Kind::kProved;
}

void ConnectionSetUp::start_test(const SetUpMessage& peer) {
  begin_test();
  ucp_request_param_t params{};
  const auto note = [](Test& test, ucs_status_ptr_t status, std::string_view what, const UcxFunctions& ucx) {
    if (UCS_PTR_IS_ERR(status))
      fail(Cause::kSystem, "UCX refuses a test message ({}): {}", what,
           ucx.status_string(UCS_PTR_RAW_STATUS(status)));
    test.request = status;
    test.done = status == nullptr;
  };
  Worker& worker = *agreed_.worker;
  incoming_.resize(std::size(kTestSizes));
  outgoing_.resize(std::size(kTestSizes));
  for (std::size_t i = 0; i < std::size(kTestSizes); ++i) {
    Test& in = incoming_[i];
    in.data.resize(kTestSizes[i]);
    note(in, worker.receive(in.data.data(), in.data.size(), tag_of(agreed_.token, TagKind::kTest, i), params),
         "receive", worker.ucx());
    Test& out = outgoing_[i];
    out.data = filled_with(peer.proof, kTestSizes[i]);
    note(out,
         worker.ucx().tag_send_nbx(worker.endpoint(), out.data.data(), out.data.size(),
                                   tag_of(peer.token, TagKind::kTest, i), &params),
         "send", worker.ucx());
  }
}

bool ConnectionSetUp::finished(Test& test, std::string_view what) {
  if (test.done) return true;
  const ucs_status_t status = agreed_.worker->ucx().request_check_status(test.request);
  if (status == UCS_INPROGRESS) return false;
  agreed_.worker->ucx().request_free(std::exchange(test.request, nullptr));
  test.done = true;
  if (status != UCS_OK) {
    give_up(Cause::kRemote, fmt::format("a test message of {} bytes could not be {}: {}", test.data.size(),
                                        what, agreed_.worker->ucx().status_string(status)));
  }
  return true;
}

void ConnectionSetUp::watch_test() {
  if (!proved()) look_at_test();
  // The peer's test may still need this end's progress.
  if (proved()) agreed_.worker->progress();
}

void ConnectionSetUp::look_at_test() {
  while (agreed_.worker->progress()) {
  }
  bool over = true;
  for (Test& one : outgoing_) over &= finished(one, "sent");
  for (Test& one : incoming_) over &= finished(one, "received");
  if (over) {
    for (const Test& one : incoming_)
      if (one.data != filled_with(proof_, one.data.size()))
        give_up(Cause::kRemote, "a test message brought other bytes than were sent");
    incoming_.clear();
    outgoing_.clear();
    return prove(mine(Kind::kProved));
  }
  if (agreed_.worker->trouble() != UCS_OK) {
    give_up(Cause::kRemote, fmt::format("UCX does not reach the peer: {}",
                                        agreed_.worker->ucx().status_string(agreed_.worker->trouble())));
  }
  if (!timer().passed()) return;
  give_up(Cause::kRemote, fmt::format("no bytes get through by UCX ({}) within {}", agreed_.worker->lanes(),
                                      format_seconds(to_seconds(timer().allowed()))));
}

bool ConnectionSetUp::append_test_handles(std::vector<pollfd>& handles) const {
  const bool look_again = !agreed_.worker->arm();
  handles.push_back({agreed_.worker->descriptor(), POLLIN, 0});
  return look_again;
}

}  // namespace tombolo::transport::ucx
