#include "transport/tcp/lifecycle/shutdown.h"

namespace tombolo::transport::tcp {
bool Shutdown::fail(Error error) noexcept {
  if (failed()) return false;
  state_ = State::kFailed;
  error_.emplace(std::move(error));
  return true;
}

bool Shutdown::flushes(TimePoint now, bool owes, Duration quiet_for) const noexcept {
  return !failed() && owes && now < flush_until_ && quiet_for < longest_quiet_;
}

FrameHeader Shutdown::goodbye(GoodbyeReason reason, const FrameHeader& about) noexcept {
  FrameHeader header = about;
  header.type = FrameType::kGoodbye;
  header.reason = reason;
  header.length = 0;
  return header;
}

std::vector<std::byte> Shutdown::last_words(std::vector<std::byte> rest, std::uint32_t count) {
  FrameHeader ack;
  ack.type = FrameType::kAck;
  ack.ack = count;
  for (const FrameHeader& header : {ack, goodbye(GoodbyeReason::kClosed)}) {
    HeaderBytes bytes;
    encode(header, bytes);
    rest.insert(rest.end(), bytes.begin(), bytes.end());
  }
  return rest;
}

}  // namespace tombolo::transport::tcp
