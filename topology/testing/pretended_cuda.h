// For tests: a library of the CUDA driver's name and functions. A program that is linked with it finds it in
// place of the driver's. It has no GPU: its device memory is memory that the processor may not touch, and its
// copies are carried out at a time that it chooses. It holds its caller to the rules that a program which
// copies beside somebody else's work must keep, and notes every breach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tombolo::topology::test {

/// When a copy that was queued is carried out.
enum class PretendedPace : std::uint8_t {
  kEarly,   ///< at once
  kLate,    ///< one command of one stream at each sixteenth question for an event
  kRandom,  ///< at any question for an event, by the seed
  kNever,   ///< not before the pace changes
};

struct PretendedCudaOptions {
  int gpus = 1;
  bool starts = true;
  bool gpu_direct_rdma = false, dma_buf = false;
  bool ordered_writes = false;  ///< what NICs write is seen without a flush
  bool flushes_writes = true;   ///< cuFlushGPUDirectRDMAWrites works
  bool contexts = true;         ///< others than the primary one can be made
  bool default_stream = false;  ///< events may be recorded on it, to wait for the program
  PretendedPace pace = PretendedPace::kRandom;
  std::uint64_t seed = 1;
};

/// A kernel that every module has, in place of what its image holds.
struct PretendedKernel {
  std::string name;
  std::size_t parameter_bytes = 0;  ///< of its only parameter
  /// The memory that it reads and writes.
  std::function<std::vector<std::span<const std::byte>>(const void* parameter)> touches;
  std::function<void(const void* parameter, unsigned blocks, unsigned threads)> run;
};

/// What the caller holds still.
struct PretendedCudaHoldings {
  int contexts = 0, streams = 0, events = 0, host_allocations = 0, allocations = 0, modules = 0;
  std::size_t host_bytes = 0;
};

/// The driver of the process. Threads: any.
///
/// Rules: every call but those that need no context finds a context of the right GPU pushed on its
/// thread, and the thread's capture mode relaxed; both are as before when the thread is asked; copies go on
/// non-blocking streams of the GPU whose memory it is, which are the caller's own, between that and pinned
/// memory alone; memory that belongs to the primary context is copied in that; while the program's own calls
/// wait, none is made in the primary context; pinned memory, streams, events and modules are not made while
/// `forbid_making` is on; kernels are of modules of the stream's context, and touch pinned memory alone that
/// is mapped for them; nothing is freed that a queued copy or kernel touches, and no module unloaded of which
/// a kernel is queued; no call is made in a child of the process that uses the driver.
class PretendedCuda {
 public:
  static PretendedCuda& instance();

  /// Forgets everything, breaches included; device memory that is still allocated is gone.
  void reset(const PretendedCudaOptions& options = {});
  void set_pace(PretendedPace pace);

  enum class MemoryOf : std::uint8_t { kNoContext, kPrimaryContext };
  /// Device memory of `gpu`, page-aligned and full of a pattern: of cuMemCreate, or of cuMemAlloc.
  std::byte* allocate(std::size_t bytes, int gpu = 0, MemoryOf of = MemoryOf::kNoContext);
  void release(std::byte* memory);
  /// Device memory as a kernel reads and writes it; the range lies in one allocation.
  void write(std::byte* device, std::span<const std::byte> bytes);
  std::vector<std::byte> read(const std::byte* device, std::size_t bytes);

  /// A NIC writes device memory, or reads it. What is written is not seen, but by NICs, before a read by a
  /// NIC or cuFlushGPUDirectRDMAWrites.
  void write_by_nic(std::byte* device, std::span<const std::byte> bytes);
  std::vector<std::byte> read_by_nic(const std::byte* device, std::size_t bytes);
  bool is_device_memory(const std::byte* address) const;
  /// Calls of cuFlushGPUDirectRDMAWrites that succeeded.
  std::uint64_t flushes() const;

  /// A stream of the program's, in the GPU's primary context; the caller may only record events there.
  void* make_program_stream(int gpu = 0);
  /// Queues a kernel on a stream of the program's (null: the default stream of GPU 0) that writes device
  /// memory.
  void launch_write(void* stream, std::byte* device, std::span<const std::byte> bytes);
  /// From now on nothing of that stream of the program's is carried out, or it goes on.
  void hold(void* stream, bool held);
  /// From now on graphs are captured of the program's streams, where no event of others can be recorded.
  void capture(bool captured);

  /// Until reset().
  void add_kernel(PretendedKernel kernel);
  /// From now on launches are refused with this result of CUDA; 0: no longer.
  void refuse_launches(int result);
  /// From now on no kernel of the caller's is carried out, nor what is queued behind it, or they go on.
  void hold_launches(bool held);
  /// Kernels of the caller's that were launched.
  std::uint64_t launches() const;

  /// From now on making pinned memory, streams, events or modules is a breach, or no longer.
  void forbid_making(bool forbidden);
  /// From now on a call in the primary context would wait, as where the program frees memory while a kernel
  /// runs: a breach.
  void let_program_wait(bool waits);
  /// From now on every copy and question for an event fails with this result of CUDA, and what was queued is
  /// not carried out, as in a context that is lost; 0: no longer.
  void fail_with(int result);
  /// Notes a breach unless the calling thread's capture mode and contexts are as they were at its begin.
  void check_thread();

  std::vector<std::string> breaches() const;
  PretendedCudaHoldings holdings() const;
  /// The most copies of one direction that were queued at a time.
  std::size_t most_copies_to_host() const;
  std::size_t most_copies_to_device() const;
  std::uint64_t copies() const;

 private:
  PretendedCuda() = default;
};

}  // namespace tombolo::topology::test
