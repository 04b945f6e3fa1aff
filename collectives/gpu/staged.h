// The buffers of one call that lie in GPU memory, and the host memory that stands for them meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/gpu/reducer.h"
#include "collectives/gpu/staging.h"

namespace tombolo::collectives::gpu {

struct Range {
  std::size_t offset = 0, bytes = 0;
};

/// A buffer of a call, in GPU or in host memory, and which parts of it the call reads and writes.
struct Buffer {
  std::string_view name;  ///< "send", for errors
  std::byte* at = nullptr;
  std::vector<Range> read, written;

  bool used() const noexcept { return !read.empty() || !written.empty(); }
};

/// From the call to its end: what is queued on the caller's stream before the call is waited for; what the
/// call reads is copied into page-locked memory (is_ready()); the call is carried out there; what it has
/// written is copied back (write_back(), is_done()). Nothing of this blocks; progress() moves it. One thread
/// at a time.
class Staged {
 public:
  /// `buffers`: those of the call that lie in that GPU's memory; they may overlap each other. `reduce_from`:
  /// bytes of the steps that reducer() takes; nothing: there is none. Throws as Staging does.
  Staged(std::shared_ptr<Staging> staging, int gpu, std::vector<Buffer> buffers, CudaFunctions::Stream stream,
         std::optional<std::size_t> reduce_from);
  ~Staged() { end(); }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  /// Where in host memory that byte of one of the buffers is.
  std::byte* host(const void* device) const;

  /// By which the call's steps are carried out on the GPU while it is ready; null: the processor does all.
  Reducer* reducer() noexcept { return reducer_.get(); }
  /// Page-locked memory for what is between the call's steps, which the reducer sees; once, with reducer().
  /// Throws kSystem.
  void take_scratch(std::size_t bytes);
  std::byte* scratch() const noexcept { return scratch_.data; }  ///< null where none was taken

  /// Does what is possible now; true if that was anything.
  bool progress();
  /// What the call reads is in host memory.
  bool is_ready() const noexcept { return state_ == State::kReady; }
  /// What the call has written is to be copied back. It was ready.
  void write_back();
  bool is_done() const noexcept { return state_ == State::kDone; }
  /// Copies or kernels are under way, which take no longer than the bus needs for them.
  bool is_moving() const noexcept {
    return state_ == State::kReading || state_ == State::kWriting || (reducer_ && reducer_->is_under_way());
  }
  /// What failed: empty while nothing has. It makes no progress then.
  const std::string& failure() const noexcept { return failure_; }
  /// "the copies of 4 MiB from GPU 0"; for errors.
  std::string describe_wait() const;

  /// Stops, after what is under way: no buffer is touched any more. It waits for copies and kernels, but not
  /// for the caller's stream. Those that do not end within Staging::copy_time() keep their host memory for
  /// good.
  void end() noexcept;

 private:
  enum class State : std::uint8_t { kAwaitingStream, kReading, kReady, kWriting, kDone, kEnded };
  struct Piece {
    std::string_view buffer;
    std::byte* device = nullptr;
    std::byte* host = nullptr;
    std::size_t bytes = 0;
  };
  /// Buffers that overlap share host memory, so that what is in place there is so here.
  struct Area {
    std::byte* device = nullptr;
    std::size_t bytes = 0, offset = 0;  ///< of the block
  };
  /// The copies of one direction, of which the first `begun` were started and the first `ended` have ended.
  struct Copies {
    Copier::Way way;
    std::vector<Piece> pieces;
    std::unique_ptr<transport::gpu::Copy[]> copies;
    std::size_t begun = 0, ended = 0;
    std::size_t bytes = 0;
  };

  void lay_out(const std::vector<Buffer>& buffers);
  void add(Copies& to, const Buffer& buffer, const Range& range);
  bool await_stream();
  bool move(Copies& copies, State then);
  void give_event_back() noexcept;
  bool is_under_way() noexcept;

  std::shared_ptr<Staging> staging_;
  const int gpu_;
  Copier& copier_;
  std::vector<Area> areas_;
  std::size_t bytes_ = 0;
  Block block_, scratch_;
  std::unique_ptr<Reducer> reducer_;
  Copies in_{Copier::Way::kToHost, {}, {}}, out_{Copier::Way::kToDevice, {}, {}};
  CudaFunctions::Event event_ = nullptr;
  CudaFunctions::Stream stream_ = nullptr;
  State state_ = State::kAwaitingStream;
  std::string failure_;
};

}  // namespace tombolo::collectives::gpu
