// What one rank does in one collective, as data. This folder owns schedules, the algorithms that make them,
// and the choice between these; it moves no bytes. A schedule is steps on three buffers, and which steps must
// come first. An algorithm writes its steps down as if they ran one after the other; the builder finds out
// which of them really touch the same bytes, and everything else may overlap. So algorithms are pure
// functions that a test can run without sockets, and pipelining needs no code of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/data/compression.h"
#include "collectives/data/premultiply.h"
#include "collectives/schedule/collective.h"

namespace tombolo::collectives {

enum class Buffer : std::uint8_t {
  kInput,
  kOutput,
  kScratch,
  kResidual,  ///< what encoding lost, by the element (Problem::residual)
};

/// A place in a buffer, in bytes. Offsets of the output may be negative: in place, the input may start before
/// it.
struct Piece {
  Buffer buffer = Buffer::kScratch;
  std::ptrdiff_t offset = 0;
  Piece operator+(std::size_t bytes) const noexcept {
    return {buffer, offset + static_cast<std::ptrdiff_t>(bytes)};
  }
};

enum class StepKind : std::uint8_t {
  kSend,     ///< left to peer
  kReceive,  ///< from peer into target
  kCombine,  ///< target = left op right
  kCopy,     ///< target = left
  kDivide,   ///< target /= ranks
  // Floats of `bytes` bytes, encoded by the schedule's compression:
  kEncode,     ///< target = left, encoded; with the residual of `right` where that is a place in one
  kDecode,     ///< target = what left encodes
  kDecodeAdd,  ///< target = right + what left encodes
  kFence,      ///< nothing; orders what comes before and after
};

struct Step {
  StepKind kind = StepKind::kFence;
  int peer = -1;
  Piece target, left, right;
  std::size_t bytes = 0;
  /// Of kCombine and kCopy: which operand is this rank's contribution, still to be multiplied by its factor.
  Premultiplied premultiplied = Premultiplied::kNone;
};

/// All messages with one peer, each direction in the order in which they must be posted: they match in that
/// order.
struct Flow {
  int peer = -1;
  std::vector<std::uint32_t> sends, receives;  ///< steps
};

/// Immutable once built.
struct Schedule {
  std::string_view algorithm;                    ///< static text: "ring", "two-level"
  Compression compression = Compression::kNone;  ///< of its steps that encode and decode
  std::vector<Step> steps;
  std::vector<Flow> flows;                      ///< one per peer
  std::vector<std::uint32_t> dependencies;      ///< per step: how many steps it waits for
  std::vector<std::uint32_t> dependents_begin;  ///< per step and one more: a range of `dependents`
  std::vector<std::uint32_t> dependents;
  std::size_t scratch_bytes = 0;
};

class ScheduleBuilder {
 public:
  /// Where input and output are the same memory, the input begins `input_in_output` bytes after the output.
  /// Of a premultiplied problem each read of the input gives products: combine() and copy() multiply as they
  /// read, and for the others the products are put into scratch of their own first.
  ScheduleBuilder(const Problem& problem, bool in_place, std::ptrdiff_t input_in_output = 0,
                  Compression compression = Compression::kNone)
      : premultiplied_(problem.premultiplied), in_place_(in_place), input_in_output_(input_in_output) {
    schedule_.compression = compression;
  }

  // A send or receive of zero bytes adds no step, on either side.
  void send(int peer, Piece from, std::size_t bytes);
  void receive(int peer, Piece into, std::size_t bytes);
  void combine(Piece target, Piece left, Piece right, std::size_t bytes);
  /// Adds no step where both places are the same and nothing is to be multiplied.
  void copy(Piece target, Piece from, std::size_t bytes);
  void divide(Piece target, std::size_t bytes);
  // Of `bytes` bytes of floats, whose encoded form takes encoded_bytes().
  /// `element`: where the residual of the first float is, if there is one. Each has its turn once at most.
  void encode(Piece target, Piece from, std::size_t bytes, std::optional<std::size_t> element);
  void decode(Piece target, Piece from, std::size_t bytes);
  void decode_add(Piece target, Piece from, Piece right, std::size_t bytes);
  /// Makes all later steps wait for all earlier ones.
  void fence();

  Piece scratch(std::size_t bytes);
  bool in_place() const noexcept { return in_place_; }
  Schedule build(std::string_view algorithm);

 private:
  struct Range {
    std::ptrdiff_t end;
    std::uint32_t writer;
    std::vector<std::uint32_t> readers;
  };
  using Ranges = std::map<std::ptrdiff_t, Range>;

  Piece place(Piece piece) const noexcept;
  bool multiplies(Piece piece) const noexcept { return premultiplied_ && piece.buffer == Buffer::kInput; }
  /// Where the bytes of `piece` are to be read by a step that cannot multiply.
  Piece products_of(Piece piece, std::size_t bytes);
  void add(Step step);
  void read(Piece piece, std::size_t bytes, std::uint32_t step);
  void write(Piece piece, std::size_t bytes, std::uint32_t step);
  std::size_t encoded(std::size_t bytes) const noexcept {
    return encoded_bytes(schedule_.compression, bytes / sizeof(float));
  }
  void cut(Ranges& ranges, std::ptrdiff_t at);
  void depend(std::uint32_t on);

  bool premultiplied_;
  bool in_place_;
  std::ptrdiff_t input_in_output_;
  Schedule schedule_;
  Ranges ranges_[3];                                            // of all buffers but the residual
  std::vector<std::uint32_t> waits_;                            // of the step being added
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // from, to
  std::uint32_t fence_ = kNoStep;
  std::uint32_t since_fence_ = 0;
  static constexpr std::uint32_t kNoStep = ~std::uint32_t{0};
};

/// Scratch places used in turn. The builder sees the bytes that they share, so that the reuse of one waits
/// for the end of its earlier use.
class ScratchRing {
 public:
  ScratchRing(ScheduleBuilder& builder, std::size_t slot_bytes, std::size_t slots);
  Piece next() noexcept { return next(1); }
  /// So many places one behind the other. Who takes several at once takes them in turns of equal sums, of
  /// which the ring has a whole number: no such place goes around its end.
  Piece next(std::size_t count) noexcept;

 private:
  Piece base_;
  std::size_t slot_bytes_, slots_, turn_ = 0;
};

}  // namespace tombolo::collectives
