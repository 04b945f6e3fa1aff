// When the chunks that came on one stream are acknowledged: not each by itself, because a frame without
// payload costs as much as a small message.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tombolo::transport::tcp {

/// Counts the chunks of one epoch of a stream. Used by one thread at a time.
class DelayedAck {
 public:
  /// Whole chunks that came in this epoch, modulo 2^32: what an acknowledgement says.
  std::uint32_t count() const noexcept { return count_; }

  /// A whole chunk of so many bytes came. It is acknowledged once `most_bytes` came since the last
  /// acknowledgement, if nothing asks for that sooner. `asked`: how often the peer's sender has asked so far,
  /// on whatever stream, for what was not acknowledged yet.
  void came(std::size_t bytes, std::size_t most_bytes, std::uint64_t asked) noexcept {
    ++count_;
    untold_bytes_ += bytes;
    if (untold_chunks_++ == 0) asked_before_ = asked;
    if (untold_bytes_ >= most_bytes || untold_chunks_ >= kMostChunks) due_ = true;
  }
  /// This end has nothing else to do: an acknowledgement for which the peer does not wait yet may go out now.
  void idle() noexcept { due_ |= untold_bytes_ >= kBytesWhenIdle; }
  /// Whether an acknowledgement is due: much has come since the last, or the peer has asked since.
  bool due(std::uint64_t asked) const noexcept {
    return due_ || (untold_chunks_ != 0 && asked_before_ != asked);
  }
  /// It was sent.
  void told() noexcept {
    due_ = false;
    untold_bytes_ = untold_chunks_ = 0;
  }

 private:
  // Well before the list of a sender's chunks is full.
  static constexpr std::size_t kMostChunks = 128;
  static constexpr std::size_t kBytesWhenIdle = 128 * 1024;

  std::uint32_t count_ = 0;
  bool due_ = false;
  std::size_t untold_bytes_ = 0, untold_chunks_ = 0;
  std::uint64_t asked_before_ = 0;  // the count of questions when the first untold chunk came
};

}  // namespace tombolo::transport::tcp
