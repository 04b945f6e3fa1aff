// What one-sided operations are over connections that only send and receive. The rank that asks sends a
// request frame; the rank that is asked carries it out and answers each request, in order, with a reply
// frame. A frame carries the bytes of a short operation itself; those of a longer one follow or answer it as
// parts, messages of their own. Where NICs carry bytes themselves, the frames are for signals, flushes, and
// what a rank must know of the other's windows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/gpu/pinned_pool.h"

namespace tombolo::net_plugin::rma {

enum class OperationKind : std::uint32_t {
  kPut = 1,  ///< with or without a signal
  kGet = 2,
  kFlush = 3,  ///< answered when all before it is done
  kWindow =
      4,  ///< answered with the transport::RemoteWindow of `window`; of no bytes where NICs cannot reach it
};

inline constexpr std::uint32_t kNoWindow = 0xffffffff;

/// Both ends are x86-64, so that the fields travel as they are.
struct RequestFrame {
  OperationKind kind = OperationKind::kFlush;
  std::uint32_t window = kNoWindow;
  std::uint64_t offset = 0, bytes = 0;
  std::uint32_t signal_window = kNoWindow;  ///< kNoWindow: no signal
  std::uint32_t unused = 0;
  std::uint64_t signal_offset = 0;
  std::uint64_t signal_add = 0;
};
static_assert(sizeof(RequestFrame) == 48);

enum class Answer : std::uint32_t {
  kDone = 0,
  kNoSuchWindow = 1,  ///< or one that was deregistered
  kOutOfWindow = 2,
  kNoSuchSignal = 3,  ///< its window is unknown, or its word lies outside or is not aligned
  kCopyFailed = 4,    ///< CUDA refused
  kNotUnderstood = 5,
};

struct ReplyFrame {
  Answer answer = Answer::kDone;
  std::uint32_t unused = 0;
  std::uint64_t window_bytes = 0;  ///< of the window at the rank that was asked, where it refuses
};
static_assert(sizeof(ReplyFrame) == 16);

/// Operations of at most so many bytes travel in the frame.
inline constexpr std::size_t kInlineBytes = 4096;
inline constexpr std::size_t kFrameBytes = sizeof(RequestFrame) + kInlineBytes;
/// Of each part but the last.
inline constexpr std::size_t kPartBytes = gpu::kPieceBytes;

}  // namespace tombolo::net_plugin::rma
