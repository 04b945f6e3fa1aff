#include "transport/tcp/stream/send_side.h"

namespace tombolo::transport::tcp {

void SendSide::begin_epoch() {
  if (!segments_) segments_ = std::make_unique_for_overwrite<Segment[]>(kSegments);
  clear();
  acknowledged_ = 0;
}

void SendSide::clear() noexcept {
  begin_ = written_ = end_ = 0;
  queued_ = written_of_first_ = 0;
}

bool SendSide::say(const FrameHeader& header) noexcept {
  if (end_ - begin_ == kSegments) return false;
  const std::size_t place = written_ + (mid_frame() ? 1 : 0);
  for (std::size_t i = end_; i > place; --i) at(i) = at(i - 1);
  Segment& segment = at(place);
  encode(header, segment.header);
  segment.data = nullptr;
  segment.length = 0;
  segment.chunk = false;
  ++end_;
  return true;
}

std::vector<std::byte> SendSide::last_words() const {
  std::vector<std::byte> words;
  std::size_t skip = written_of_first_;
  for (std::size_t i = written_; i != end_ && !at(i).chunk; ++i) {
    const HeaderBytes& header = at(i).header;
    words.insert(words.end(), header.begin() + static_cast<std::ptrdiff_t>(skip), header.end());
    skip = 0;
  }
  return words;
}

}  // namespace tombolo::transport::tcp
