#include "net_plugin/rma/target.h"

#include <atomic>
#include <exception>

#include "base/error.h"

namespace tombolo::net_plugin::rma {

using transport::Outcome;

namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

std::span<std::byte> bytes_of(std::uint64_t& word) {
  return std::as_writable_bytes(std::span(&word, 1));
}

}  // namespace

Target::Target(std::uint32_t rank, std::unique_ptr<transport::Connection> connection, Windows& windows,
               CopyPieces& pieces)
    : rank_(rank),
      windows_(windows),
      parts_in_(Parts::Way::kReceive, pieces),
      parts_out_(Parts::Way::kSend, pieces),
      transfer_(pieces),
      connection_(std::move(connection)) {}

Target::~Target() {
  windows_.end_turn(this);
}

bool Target::progress() noexcept {
  if (over_) return false;
  try {
    bool moved = replies_.retire(*connection_);
    if (!stopped_)
      while (step()) moved = true;
    if (const Error* error = connection_->error(); error != nullptr) {
      // Between operations the other rank may close its group.
      if (state_ == State::kWaiting || state_ == State::kRefused) {
        over_ = true;
        return true;
      }
      throw Error(*error);
    }
    if (!moved) moved = connection_->progress();
    return moved;
  } catch (const std::exception& error) {
    abandon(error.what());
    return true;
  }
}

void Target::abandon(const std::string& why) noexcept {
  over_ = true;
  error_ = why;
  connection_.reset();
  open_.clear();
  windows_.end_turn(this);
}

/// Goes on to `next` where what it waits for is done. True where it went on.
bool Target::await(Outcome outcome, State next) {
  if (outcome == Outcome::kPending) return false;
  if (outcome == Outcome::kFailed) {
    if (connection_->error() != nullptr) return false;
    if (state_ == State::kReading || state_ == State::kWriting) windows_.end_turn(this);
    refuse(Answer::kCopyFailed, nullptr);
    return true;
  }
  state_ = next;
  return true;
}

bool Target::step() {
  switch (state_) {
    case State::kWaiting:
      return ask();
    case State::kHeld:
      return examine();
    case State::kPutting:
      return await(transfer_.poll(), State::kTurn);
    case State::kPartsIn:
      return await(parts_in_.progress(*connection_), State::kTurn);
    case State::kTurn:
      if (signal_ != nullptr && !windows_.take_turn(this)) return false;
      signal();
      return true;
    case State::kReading:
      if (!await(transfer_.poll(), State::kWriting)) return false;
      if (state_ != State::kWriting) return true;
      word_ += request_.signal_add;
      transfer_.write(*signal_, request_.signal_offset, bytes_of(word_));
      return true;
    case State::kWriting:
      if (!await(transfer_.poll(), State::kAnswering)) return false;
      windows_.end_turn(this);
      return true;
    case State::kGathering:
      return await(transfer_.poll(), State::kAnswering);
    case State::kAnswering:
      return answer();
    case State::kPartsOut:
      if (!await(parts_out_.progress(*connection_), State::kWaiting)) return false;
      if (state_ == State::kWaiting) requests_.done();
      return true;
    case State::kRefused:
      return false;
  }
  return false;
}

bool Target::ask() {
  const auto frame = requests_.poll(*connection_);
  if (!frame) return false;
  window_ = signal_ = nullptr;
  reply_ = {};
  inline_bytes_ = 0;
  held_ = Deadline::after(windows_.patience());
  state_ = State::kHeld;
  if (frame->size() < sizeof(request_)) {
    refuse(Answer::kNotUnderstood, nullptr);
    return true;
  }
  std::memcpy(&request_, frame->data(), sizeof(request_));
  bytes_ = frame->subspan(sizeof(request_));
  return true;
}

/// Whether the request can be carried out, and begins with it. It waits for windows that this rank has not
/// registered yet.
bool Target::examine() {
  const bool has_bytes = request_.kind != OperationKind::kFlush && request_.bytes > 0;
  const bool has_signal = request_.kind == OperationKind::kPut && request_.signal_window != kNoWindow;
  const bool asks = request_.kind == OperationKind::kWindow;
  if (!held_.passed() && (((has_bytes || asks) && windows_.is_to_come(request_.window)) ||
                          (has_signal && windows_.is_to_come(request_.signal_window)))) {
    return false;
  }
  const bool is_inline = request_.kind == OperationKind::kPut && request_.bytes <= kInlineBytes;
  if (bytes_.size() != (is_inline ? request_.bytes : 0)) {
    refuse(Answer::kNotUnderstood, nullptr);
    return true;
  }
  if (has_bytes) {
    window_ = windows_.find(request_.window);
    if (window_ == nullptr || !window_->holds(request_.offset, request_.bytes)) {
      refuse(window_ == nullptr ? Answer::kNoSuchWindow : Answer::kOutOfWindow, window_);
      return true;
    }
  }
  if (has_signal) {
    signal_ = windows_.find(request_.signal_window);
    if (signal_ == nullptr || request_.signal_offset % kWordBytes != 0 ||
        !signal_->holds(request_.signal_offset, kWordBytes)) {
      refuse(Answer::kNoSuchSignal, signal_);
      return true;
    }
  }
  switch (request_.kind) {
    case OperationKind::kPut:
      put();
      break;
    case OperationKind::kGet:
      return get();
    case OperationKind::kFlush:
      state_ = State::kAnswering;
      break;
    case OperationKind::kWindow:
      return tell_window();
    default:
      refuse(Answer::kNotUnderstood, nullptr);
  }
  return true;
}

void Target::put() {
  if (window_ == nullptr) {
    state_ = State::kTurn;
  } else if (request_.bytes <= kInlineBytes) {
    transfer_.write(*window_, request_.offset, bytes_);
    state_ = State::kPutting;
  } else {
    parts_in_.begin(*window_, request_.offset, request_.bytes);
    state_ = State::kPartsIn;
  }
}

/// The bytes of the put are where they belong, and so are those of all puts of that rank before it.
void Target::signal() {
  state_ = State::kAnswering;
  if (signal_ == nullptr) return;
  if (signal_->copier == nullptr) {
    auto* word = reinterpret_cast<std::uint64_t*>(signal_->at(request_.signal_offset));
    std::atomic_ref(*word).fetch_add(request_.signal_add, std::memory_order_release);
    windows_.end_turn(this);
    return;
  }
  transfer_.read(*signal_, request_.signal_offset, bytes_of(word_));
  state_ = State::kReading;
}

bool Target::get() {
  if (window_ == nullptr || request_.bytes > kInlineBytes) {
    state_ = State::kAnswering;
    return true;
  }
  FrameSender::Slot* slot = replies_.next();
  if (slot == nullptr) return false;
  inline_bytes_ = static_cast<std::size_t>(request_.bytes);
  transfer_.read(*window_, request_.offset,
                 std::span(slot->bytes).subspan(sizeof(ReplyFrame), inline_bytes_));
  state_ = State::kGathering;
  return true;
}

/// Where NICs cannot reach the window, messages do.
bool Target::tell_window() {
  FrameSender::Slot* slot = replies_.next();
  if (slot == nullptr) return false;
  const transport::RemoteWindow remote = remote_of(request_.window);
  inline_bytes_ = sizeof(remote);
  std::memcpy(slot->bytes.data() + sizeof(ReplyFrame), &remote, sizeof(remote));
  state_ = State::kAnswering;
  return true;
}

transport::RemoteWindow Target::remote_of(std::uint32_t number) {
  const Window* window = windows_.find(number);
  transport::OneSided* nics = connection_->one_sided();
  if (window == nullptr || window->copier != nullptr || nics == nullptr || !windows_.by_nic()) return {};
  auto& open = open_[number];
  try {
    if (open == nullptr) open = nics->open({window->base, static_cast<std::size_t>(window->bytes)});
    return open->remote();
  } catch (const Error& error) {
    open_.erase(number);
    windows_.note(fmt::format("rank {} reaches window {} by messages, not by its NICs: {}", rank_, number,
                              error.what()));
    return {};
  }
}

void Target::refuse(Answer why, const Window* window) noexcept {
  reply_.answer = why;
  reply_.window_bytes = window != nullptr ? window->bytes : 0;
  try {
    error_ = fmt::format(
        "an operation of rank {} was refused: kind {}, {} bytes, window {} at offset {}, signal "
        "window {} at offset {}",
        rank_, static_cast<std::uint32_t>(request_.kind), request_.bytes, request_.window, request_.offset,
        static_cast<std::int64_t>(static_cast<std::int32_t>(request_.signal_window)), request_.signal_offset);
  } catch (...) {
    // The other rank is told in any case.
  }
  inline_bytes_ = 0;
  window_ = signal_ = nullptr;
  state_ = State::kAnswering;
}

bool Target::answer() {
  FrameSender::Slot* slot = replies_.next();
  if (slot == nullptr) return false;
  put_frame(*slot, reply_);
  if (!replies_.post(*connection_, sizeof(reply_) + inline_bytes_)) return false;
  if (reply_.answer != Answer::kDone) {
    // What follows on the connection is not looked at: the other rank gives it up.
    state_ = State::kRefused;
  } else if (request_.kind == OperationKind::kGet && request_.bytes > kInlineBytes) {
    parts_out_.begin(*window_, request_.offset, request_.bytes);
    state_ = State::kPartsOut;
  } else {
    state_ = State::kWaiting;
    requests_.done();
  }
  return true;
}

bool Target::uses(const Window& window) const noexcept {
  return !over_ && state_ != State::kWaiting && (window_ == &window || signal_ == &window);
}

}  // namespace tombolo::net_plugin::rma
