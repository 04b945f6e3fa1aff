#include "net_plugin/rma/messages.h"

#include <algorithm>

namespace tombolo::net_plugin::rma {

using transport::Connection;
using transport::Outcome;

bool FrameSender::post(Connection& connection, std::size_t bytes) noexcept {
  Slot& slot = slots_[end_ % slots_.size()];
  slot.request = connection.post_send(std::span(slot.bytes).first(bytes));
  if (slot.request == nullptr) return false;
  ++end_;
  return true;
}

bool FrameSender::retire(Connection& connection) noexcept {
  bool any = false;
  for (std::size_t bytes = 0; oldest_ < end_; ++oldest_, any = true) {
    if (connection.test(slots_[oldest_ % slots_.size()].request, bytes) == Outcome::kPending) break;
  }
  return any;
}

std::optional<std::span<const std::byte>> FrameReceiver::poll(Connection& connection) noexcept {
  if (!has_) {
    if (request_ == nullptr) request_ = connection.post_receive(*bytes_);
    if (request_ == nullptr) return std::nullopt;
    const Outcome outcome = connection.test(request_, size_);
    if (outcome == Outcome::kPending) return std::nullopt;
    request_ = nullptr;
    if (outcome == Outcome::kFailed) return std::nullopt;  // the owner asks for the connection's error
    has_ = true;
  }
  return std::span<const std::byte>(*bytes_).first(size_);
}

void Parts::begin(const Window& window, std::uint64_t offset, std::uint64_t bytes) {
  window_ = &window;
  posted_ = done_ = offset;
  end_ = offset + bytes;
  step_ = Step::kBegin;
  if (window.copier != nullptr && buffer_.empty()) buffer_.resize(kPartBytes);
}

std::size_t Parts::next_bytes() const noexcept {
  return static_cast<std::size_t>(std::min<std::uint64_t>(kPartBytes, end_ - posted_));
}

bool Parts::post(Connection& connection, std::byte* data, std::size_t bytes) noexcept {
  transport::Request* request = way_ == Way::kSend
                                    ? connection.post_send(std::span<const std::byte>(data, bytes))
                                    : connection.post_receive({data, bytes});
  if (request == nullptr) return false;
  ring_[newest_++ % ring_.size()] = {request, bytes};
  posted_ += bytes;
  return true;
}

/// Asks for the oldest part.
Outcome Parts::take(Connection& connection) noexcept {
  const UnderWay& oldest = ring_[oldest_ % ring_.size()];
  std::size_t bytes = 0;
  const Outcome outcome = connection.test(oldest.request, bytes);
  if (outcome == Outcome::kPending) return outcome;
  ++oldest_;
  if (outcome == Outcome::kFailed || (way_ == Way::kReceive && bytes != oldest.bytes))
    return Outcome::kFailed;
  done_ += oldest.bytes;
  return Outcome::kDone;
}

Outcome Parts::host(Connection& connection) noexcept {
  while (done_ < end_) {
    while (posted_ < end_ && newest_ - oldest_ < ring_.size() &&
           post(connection, window_->at(posted_), next_bytes())) {
    }
    if (oldest_ == newest_) return Outcome::kPending;
    if (const Outcome outcome = take(connection); outcome != Outcome::kDone) return outcome;
  }
  return Outcome::kDone;
}

Outcome Parts::device(Connection& connection) noexcept {
  while (done_ < end_ || step_ != Step::kBegin) {
    switch (step_) {
      case Step::kBegin:
        if (way_ == Way::kSend) transfer_.read(*window_, posted_, std::span(buffer_).first(next_bytes()));
        step_ = way_ == Way::kSend ? Step::kCopying : Step::kToPost;
        break;
      case Step::kCopying:
        if (const Outcome outcome = transfer_.poll(); outcome != Outcome::kDone) return outcome;
        step_ = way_ == Way::kSend ? Step::kToPost : Step::kBegin;
        break;
      case Step::kToPost:
        if (!post(connection, buffer_.data(), next_bytes())) return Outcome::kPending;
        step_ = Step::kUnderWay;
        break;
      case Step::kUnderWay: {
        const std::uint64_t at = done_;
        if (const Outcome outcome = take(connection); outcome != Outcome::kDone) return outcome;
        if (way_ == Way::kReceive)
          transfer_.write(*window_, at, std::span(buffer_).first(static_cast<std::size_t>(done_ - at)));
        step_ = way_ == Way::kReceive ? Step::kCopying : Step::kBegin;
        break;
      }
    }
  }
  return Outcome::kDone;
}

Outcome Parts::progress(Connection& connection) noexcept {
  return window_->copier == nullptr ? host(connection) : device(connection);
}

}  // namespace tombolo::net_plugin::rma
