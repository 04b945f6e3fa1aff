#include "transport/ucx/connection.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/error.h"
#include "transport/kernel.h"
#include "transport/ucx/closing_workers.h"

namespace tombolo::transport::ucx {
namespace {

// How long to wait for messages of a process that died.
constexpr Duration kDrainTime = std::chrono::seconds(2);
// When operations are under way, how long closing waits until what counts as sent has left this process.
constexpr Duration kFlushTime = std::chrono::milliseconds(100);
// UCX may notice a peer's end before the control channel says why.
constexpr Duration kLinkLag = std::chrono::milliseconds(200);

ucp_request_param_t params_for(const UcxMemory* memory) noexcept {
  ucp_request_param_t params{};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.memory_type = memory != nullptr ? memory->type() : UCS_MEMORY_TYPE_HOST;
  if (memory != nullptr && memory->handle() != nullptr) {
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    params.memh = memory->handle();
  }
  return params;
}

}  // namespace

UcxConnection::UcxConnection(channel::ControlChannel channel, Agreed agreed)
    : ChannelConnection(std::move(channel), "ucx"),
      agreed_(std::move(agreed)),
      context_(agreed_.worker->context()),
      peer_(socket(), channel_.clock) {
  credit_.owner = this;
  for (Operation& one : sending_) one.owner = this;
  for (Operation& one : receiving_) one.owner = this;
  expect_credit();
}

UcxConnection::~UcxConnection() {
  if (error_ || is_copy()) return;
  cancel_receives();
  if (!closing()) {
    const bool sound = trouble_.status == UCS_OK && agreed_.worker->trouble() == UCS_OK;
    const bool mid_air = any_under_way();
    if (sound && mid_air) {
      // Cancelling an operation could also discard small messages that count as sent and wait behind it. (A
      // flush cannot be used: where the peer resets meanwhile, UCX 1.13 over tcp aborts the process in it.)
      const TimePoint until = now() + kFlushTime;
      while (agreed_.worker->progress() && now() < until) {
      }
    }
    peer_.say(goodbye_for(GoodbyeReason::kClosed));
    if (sound && !mid_air) {
      // Each end learns that the other has ended.
      kernel().shutdown(socket(), SHUT_WR);
      ClosingWorkers::of_process().add(std::move(channel_.socket), std::move(agreed_.worker),
                                       channel_.idle_timeout);
      return;
    }
  }
  end_operations();
  peer_.shut();
}

std::unique_ptr<Memory> UcxConnection::register_memory(std::span<std::byte> buffer, MemoryKind kind) {
  return std::make_unique<UcxMemory>(context_, buffer, kind);
}

std::unique_ptr<Memory> UcxConnection::register_dma_buf(std::span<std::byte> range, int, std::uint64_t) {
  fail(Cause::kUnsupported,
       "{}: register a DMA-BUF of {} bytes: UCX takes host memory, and GPU memory by its address alone",
       description_, range.size());
}

Request* UcxConnection::post_send(std::span<const std::byte> data, Memory* memory) noexcept {
  PostedRequest* request = new_send(data);
  if (request == nullptr || error_) return request;
  sending_[outgoing_.posted() % kRequestsPerDirection].memory = static_cast<UcxMemory*>(memory);
  outgoing_.push(request);
  guarded([&] { send_all(); });
  return request;
}

Request* UcxConnection::post_receive(std::span<std::byte> buffer, Memory* memory) noexcept {
  PostedRequest* request = new_receive(buffer);
  if (request == nullptr || error_) return request;
  const std::uint64_t sequence = incoming_.posted();
  receiving_[sequence % kRequestsPerDirection].memory = static_cast<UcxMemory*>(memory);
  incoming_.push(request);
  guarded([&] { start_receive(sequence, *request); });
  return request;
}

bool UcxConnection::covered(const UcxMemory* memory, const std::byte* data, std::size_t size) {
  if (memory == nullptr || memory->covers(data, size)) return true;
  fail_with(Cause::kInvalidUsage, fmt::format("{} bytes at {} are not within the memory registered for them",
                                              size, static_cast<const void*>(data)));
  return false;
}

bool UcxConnection::send_all() {
  bool moved = false;
  while (!error_ && next_ < outgoing_.posted() && next_ < credits_got_ * kCreditEvery + kMostAhead &&
         trouble_.status == UCS_OK) {
    moved = true;
    const std::uint64_t sequence = next_++;
    if (!start_send(sequence, *outgoing_.find(sequence))) break;
  }
  return moved;
}

bool UcxConnection::start_send(std::uint64_t sequence, PostedRequest& request) {
  Operation& operation = sending_[sequence % kRequestsPerDirection];
  if (!covered(operation.memory, request.data, request.size)) return false;
  operation.sequence = sequence;
  ucp_request_param_t params = params_for(operation.memory);
  params.cb.send = on_sent;
  params.user_data = &operation;
  void* const status = ucx().tag_send_nbx(agreed_.worker->endpoint(), request.data, request.size,
                                          tag_of(agreed_.peer_token, TagKind::kMessage, sequence), &params);
  if (UCS_PTR_IS_PTR(status)) {
    operation.handle = status;
    return true;
  }
  sent(sequence, UCS_PTR_RAW_STATUS(status));
  return trouble_.status == UCS_OK;
}

void UcxConnection::start_receive(std::uint64_t sequence, PostedRequest& request) {
  Operation& operation = receiving_[sequence % kRequestsPerDirection];
  if (!covered(operation.memory, request.data, request.size)) return;
  operation.sequence = sequence;
  operation.over = false;
  ucp_request_param_t params = params_for(operation.memory);
  // UCX 1.13 tells the size of a message that is there already to a callback only.
  params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.cb.recv = on_received;
  params.user_data = &operation;
  void* const status = agreed_.worker->receive(request.data, request.size,
                                               tag_of(agreed_.token, TagKind::kMessage, sequence), params);
  if (operation.over) return;
  if (UCS_PTR_IS_PTR(status)) {
    operation.handle = status;
  } else {
    note({UCS_PTR_RAW_STATUS(status), false, sequence, 0});
  }
}

void UcxConnection::expect_credit() noexcept {
  // A peer that grants more than it was sent could keep this end here for ever.
  while (!unearned_credit()) {
    ucp_request_param_t params = params_for(nullptr);
    params.cb.recv = on_credit;
    params.user_data = &credit_;
    void* const status =
        agreed_.worker->receive(nullptr, 0, tag_of(agreed_.token, TagKind::kCredit, credits_got_), params);
    if (UCS_PTR_IS_PTR(status)) {
      credit_.handle = status;
      return;
    }
    if (UCS_PTR_RAW_STATUS(status) != UCS_OK) return note({UCS_PTR_RAW_STATUS(status), false, 0, 0});
    ++credits_got_;
  }
}

bool UcxConnection::give_credit() noexcept {
  bool gave = false;
  while (received_ >= (credits_given_ + 1) * kCreditEvery && !closing() && trouble_.status == UCS_OK) {
    gave = true;
    ucp_request_param_t params = params_for(nullptr);
    params.cb.send = on_credit_sent;
    params.user_data = const_cast<UcxFunctions*>(&ucx());
    void* const status =
        ucx().tag_send_nbx(agreed_.worker->endpoint(), nullptr, 0,
                           tag_of(agreed_.peer_token, TagKind::kCredit, credits_given_++), &params);
    if (!UCS_PTR_IS_PTR(status) && UCS_PTR_RAW_STATUS(status) != UCS_OK)
      note({UCS_PTR_RAW_STATUS(status), true, 0, 0});
  }
  return gave;
}

void UcxConnection::on_sent(void* request, ucs_status_t status, void* user) noexcept {
  auto& operation = *static_cast<Operation*>(user);
  operation.handle = nullptr;
  operation.owner->ucx().request_free(request);
  operation.owner->sent(operation.sequence, status);
}

void UcxConnection::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                                void* user) noexcept {
  auto& operation = *static_cast<Operation*>(user);
  operation.handle = nullptr;
  operation.over = true;
  const std::size_t length = info != nullptr ? info->length : 0;
  operation.owner->ucx().request_free(request);
  operation.owner->received(operation.sequence, status, length);
}

void UcxConnection::on_credit(void* request, ucs_status_t status, const ucp_tag_recv_info_t*,
                              void* user) noexcept {
  auto& self = *static_cast<Operation*>(user)->owner;
  self.credit_.handle = nullptr;
  self.ucx().request_free(request);
  if (status != UCS_OK) return self.note({status, false, 0, 0});
  ++self.credits_got_;  // progress() posts the receive for the next one
  self.unearned_credit();
}

/// Whether the peer says that it took messages that were never sent.
bool UcxConnection::unearned_credit() noexcept {
  if (credits_got_ * kCreditEvery <= next_) return false;
  note({UCS_ERR_INVALID_PARAM, false, next_, 0});
  return true;
}

/// UCX may call this after the connection is destroyed, so what it uses lives as long as the worker.
void UcxConnection::on_credit_sent(void* request, ucs_status_t, void* functions) noexcept {
  static_cast<const UcxFunctions*>(functions)->request_free(request);
}

void UcxConnection::sent(std::uint64_t sequence, ucs_status_t status) noexcept {
  PostedRequest* request = outgoing_.find(sequence);
  if (request == nullptr) return;
  if (status != UCS_OK) return note({status, true, sequence, request->size});
  ++sent_;
  finish_send(sequence, *request);
}

void UcxConnection::received(std::uint64_t sequence, ucs_status_t status, std::size_t length) noexcept {
  PostedRequest* request = incoming_.find(sequence);
  if (request == nullptr) return;
  if (status != UCS_OK) return note({status, false, sequence, length});
  ++received_;
  finish_receive(sequence, *request, length);
}

void UcxConnection::note(Trouble trouble) noexcept {
  // This end cancelled the operation.
  if (trouble_.status == UCS_OK && trouble.status != UCS_ERR_CANCELED) trouble_ = trouble;
}

Outcome UcxConnection::test(Request* base, std::size_t& bytes) noexcept {
  auto* request = static_cast<PostedRequest*>(base);
  if (request->state != PostedRequest::State::kDone && !error_) progress();
  return outcome_of(*request, bytes);
}

bool UcxConnection::progress() noexcept {
  if (error_) return false;
  bool moved = true;
  guarded([&] { moved = advance(); });
  return moved;
}

bool UcxConnection::advance() {
  if (wake_up()) {
    look_at_channel();
    if (error_) return true;
  }
  const bool came = agreed_.worker->progress();
  bool moved = came;
  if (credit_.handle == nullptr && trouble_.status == UCS_OK) expect_credit();
  if (next_ < outgoing_.posted()) moved |= send_all();
  if (!error_) moved |= give_credit();
  if (!error_ && (trouble_.status != UCS_OK || agreed_.worker->trouble() != UCS_OK)) look_at_trouble();
  if (error_) return true;
  if (closing()) {
    if (moved && peer_.goodbye()) peer_.prolong();
    close_when_drained(came);
  } else if (count_turn(moved)) {
    look_at_channel();
    if (error_) return moved;
    if (const std::string why = stalled(); !why.empty()) fail_with(Cause::kTimeout, why);
  }
  return moved;
}

void UcxConnection::look_at_trouble() {
  if (trouble_.status == UCS_ERR_MESSAGE_TRUNCATED) {
    const PostedRequest* request = incoming_.find(trouble_.sequence);
    Goodbye goodbye = goodbye_for(GoodbyeReason::kTooLarge);
    goodbye.size = trouble_.size;
    goodbye.capacity = request != nullptr ? request->size : 0;
    fail_with(Cause::kRemote,
              fmt::format("message {} has {} bytes, but the receive posted for it takes {} bytes",
                          trouble_.sequence, goodbye.size, goodbye.capacity),
              goodbye);
    return;
  }
  if (trouble_.status == UCS_ERR_INVALID_PARAM && credits_got_ * kCreditEvery > next_) {
    fail_with(Cause::kRemote, fmt::format("the peer says to have taken {} messages, of {} that were sent",
                                          credits_got_ * kCreditEvery, next_));
    return;
  }
  look_at_channel();
  if (error_) return;
  if (closing()) {
    peer_.give_up();
    return;
  }
  if (trouble_since_ == TimePoint{}) trouble_since_ = now();
  if (now() - trouble_since_ < kLinkLag) return;
  if (trouble_.status == UCS_OK) {
    fail_with(Cause::kRemote,
              fmt::format("UCX gave the peer up: {}", ucx().status_string(agreed_.worker->trouble())));
  } else {
    fail_with(Cause::kRemote,
              fmt::format("UCX failed to {} message {}: {}", trouble_.sending ? "send" : "receive",
                          trouble_.sequence, ucx().status_string(trouble_.status)));
  }
}

void UcxConnection::look_at_channel() {
  if (const std::string nonsense = peer_.look(); !nonsense.empty())
    fail_with(Cause::kRemote, fmt::format("the peer sent {}", nonsense));
}

/// Closes once everything that the peer sent before its end has been delivered. `came`: UCX found something
/// in this call.
void UcxConnection::close_when_drained(bool came) {
  if (const auto& goodbye = peer_.goodbye()) {
    const std::uint64_t delivered = std::min(goodbye->received, next_);
    const bool more = received_ < goodbye->sent || outgoing_.oldest() < delivered;
    if (goodbye->reason == GoodbyeReason::kClosed && more && peer_.patient()) return;
    // Stays open for messages that have arrived and lack a receive, while no other operation waits for the
    // peer.
    if (received_ < goodbye->sent && outgoing_.empty() && incoming_.empty()) return;
    // What the peer's count says to be in its receives is done, although its completion was lost; but only
    // once UCX no longer uses the buffer.
    if (outgoing_.oldest() < delivered) {
      end_operations();
      for (std::uint64_t one = outgoing_.oldest(); one < delivered; ++one) sent(one, UCS_OK);
    }
  } else if (came && peer_.patient()) {
    return;  // A process that died sends no counts: what is here already comes in as many calls as it takes.
  }
  fail_with(Cause::kRemote, peer_.ending());
}

/// Cancels the receives for which no message has come; UCX ends the others with the endpoint.
void UcxConnection::cancel_receives() noexcept {
  for (Operation& one : receiving_)
    if (one.handle != nullptr) agreed_.worker->cancel(one.handle);
  if (credit_.handle != nullptr) agreed_.worker->cancel(credit_.handle);
  agreed_.worker->progress();
}

bool UcxConnection::any_under_way() const noexcept {
  const auto under_way = [](const Operation& one) { return one.handle != nullptr; };
  return under_way(credit_) || std::ranges::any_of(sending_, under_way) ||
         std::ranges::any_of(receiving_, under_way);
}

/// Ends all operations. After it UCX and the NICs do not touch the user's memory.
void UcxConnection::end_operations() noexcept {
  agreed_.worker.reset();
}

Goodbye UcxConnection::goodbye_for(GoodbyeReason reason) const noexcept {
  return {reason, sent_, 0, incoming_.oldest(), 0, 0, {}};
}

void UcxConnection::fail_with(Cause cause, std::string_view what) noexcept {
  Goodbye goodbye = goodbye_for(GoodbyeReason::kFailed);
  goodbye.say(what);
  fail_with(cause, what, goodbye);
}

void UcxConnection::fail_with(Cause cause, std::string_view what, const Goodbye& goodbye) noexcept {
  if (error_) return;
  set_error(cause, what);
  if (!closing()) peer_.say(goodbye);
  // This comes before any request is reported as failed, because after that its owner may reuse the buffer.
  end_operations();
  peer_.shut();
}

void UcxConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  fall_asleep();
  bool look_again = error_.has_value() || closing() || trouble_.status != UCS_OK;
  if (!look_again) {
    look_again = agreed_.worker->trouble() != UCS_OK || !agreed_.worker->arm();
    handles.push_back({agreed_.worker->descriptor(), POLLIN, 0});
  }
  handles.push_back(channel_handle(look_again));
}

}  // namespace tombolo::transport::ucx
