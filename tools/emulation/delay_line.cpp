#include "tools/emulation/delay_line.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tombolo::emulation {
namespace {

double bytes_in(const LineOptions& options, Duration time) {
  return options.bits_per_second / 8 * to_seconds(time);
}

constexpr Duration kLeastQueue = std::chrono::milliseconds(20);

}  // namespace

std::uint64_t default_queue_bytes(const LineOptions& options) noexcept {
  const double bytes = bytes_in(options, std::max(2 * options.delay, kLeastQueue));
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(bytes), 2 * kMostFrame);
}

DelayLine::DelayLine(const LineOptions& options)
    : options_(options),
      queue_bytes_(options.queue_bytes != 0 ? options.queue_bytes : default_queue_bytes(options)),
      // The store holds bytes that wait, bytes on the line, and another 20 ms of bytes in case the relay is
      // late.
      capacity_(static_cast<std::size_t>(bytes_in(options, options.delay + kLeastQueue)) + queue_bytes_ +
                8 * kMostFrame),
      // not initialised, because pages that are never touched cost no memory
      store_(new std::byte[capacity_]),
      random_(options.seed),
      spare_(kMostFrame) {
  until_loss_ = draw_gap();
}

std::uint64_t DelayLine::draw_gap() {
  if (options_.loss <= 0) return std::numeric_limits<std::uint64_t>::max();
  if (options_.loss >= 1) return 0;
  return std::geometric_distribution<std::uint64_t>(options_.loss)(random_);
}

Duration DelayLine::per_byte(double bytes) const noexcept {
  return from_seconds(bytes * 8 / options_.bits_per_second);
}

bool DelayLine::has_room() const noexcept {
  if (entries_.empty()) return true;
  const std::size_t tail = entries_.front().at;
  // The two are equal only when the store is empty, which was tested above.
  return head_ > tail ? capacity_ - head_ >= kMostFrame : tail - head_ > kMostFrame;
}

std::span<std::byte> DelayLine::space() noexcept {
  if (entries_.empty()) head_ = 0;
  if (capacity_ - head_ < kMostFrame && !entries_.empty() && entries_.front().at > kMostFrame &&
      head_ > entries_.front().at) {
    head_ = 0;
  }
  overflow_ = !has_room();
  return overflow_ ? std::span(spare_) : std::span(store_.get() + head_, kMostFrame);
}

void DelayLine::keep(std::size_t frame_bytes, const Segments& segments, TimePoint out) {
  entries_.push_back({out, head_, frame_bytes, segments});
  head_ += frame_bytes;
}

void DelayLine::enter(std::size_t frame_bytes, TimePoint now) {
  const std::span<const std::byte> frame(overflow_ ? spare_.data() : store_.get() + head_, frame_bytes);
  const Segments segments = segments_of(frame);
  if (cut_) {
    counters_.cut += segments.count;
    return;
  }
  const TimePoint start = std::max(now, free_);
  const double waiting = bytes_in(options_, start - now);
  std::size_t fit = segments.count;
  while (fit > 0 &&
         waiting + static_cast<double>(segments.wire_bytes(0, fit)) > static_cast<double>(queue_bytes_)) {
    --fit;
  }
  if (overflow_) fit = 0;
  counters_.overflowed += segments.count - fit;
  if (fit == 0) return;
  free_ = start + per_byte(static_cast<double>(segments.wire_bytes(0, fit)));

  if (fit == segments.count && until_loss_ >= fit) {  // the usual case
    until_loss_ -= options_.loss > 0 ? fit : 0;
    keep(frame_bytes, segments, free_ + options_.delay);
    return;
  }
  // Keeps the runs of segments between lost ones. The frame is copied away first, because the runs are
  // written to where it lies.
  std::vector<std::byte> whole(frame.begin(), frame.end());
  std::vector<std::byte> piece;
  for (std::size_t first = 0; first < fit;) {
    const std::size_t last = static_cast<std::size_t>(std::min<std::uint64_t>(fit, first + until_loss_));
    if (last > first) {
      piece.clear();
      cut_segments(whole, segments, first, last, piece);
      auto room = space();
      if (overflow_) {
        counters_.overflowed += last - first;
      } else {
        std::ranges::copy(piece, room.begin());
        keep(piece.size(), segments_of(piece),
             start + per_byte(static_cast<double>(segments.wire_bytes(0, last))) + options_.delay);
      }
    }
    until_loss_ -= options_.loss > 0 ? last - first : 0;
    first = last;
    if (first < fit) {
      ++counters_.lost;
      ++first;
      until_loss_ = draw_gap();
    }
  }
}

std::optional<TimePoint> DelayLine::next() const noexcept {
  if (entries_.empty()) return std::nullopt;
  return entries_.front().out;
}

std::span<const std::byte> DelayLine::front(TimePoint now) const noexcept {
  if (entries_.empty() || entries_.front().out > now) return {};
  return {store_.get() + entries_.front().at, entries_.front().bytes};
}

void DelayLine::pop() noexcept {
  const Segments& segments = entries_.front().segments;
  counters_.packets += segments.count;
  counters_.bytes += segments.wire_bytes(0, segments.count);
  entries_.pop_front();
}

void DelayLine::cut(bool cut) noexcept {
  cut_ = cut;
  if (!cut) return;
  for (const Entry& entry : entries_) counters_.cut += entry.segments.count;
  entries_.clear();
  free_ = TimePoint{};
}

}  // namespace tombolo::emulation
