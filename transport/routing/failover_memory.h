// Memory registered with a connection that outlives its legs: each leg needs a registration of its own.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "transport/descriptor.h"
#include "transport/gpu_staging.h"
#include "transport/kernel.h"
#include "transport/transport.h"

namespace tombolo::transport {

class FailoverMemory;

/// The leg that registers, and the memory that was registered. One thread uses the leg; any thread may
/// register and deregister. A forked child's copy takes no lock as its memory ends, since a thread that is
/// not there may hold it.
class FailoverMemories {
 public:
  /// As Connection::register_memory().
  std::unique_ptr<Memory> add(std::span<std::byte> buffer, MemoryKind kind);
  std::unique_ptr<Memory> add_dma_buf(std::span<std::byte> range, int file, std::uint64_t offset);
  void remove(FailoverMemory& memory) noexcept;
  /// Whether GPU memory was ever registered.
  bool any_gpu_memory();
  /// Why GPU memory that was registered cannot go over every other leg, so that its connection does not move;
  /// empty where there is none of that kind.
  std::string why_gpu_memory_stays();
  /// From now on legs that reach host memory alone carry GPU memory by it; it outlives all memory. Null: they
  /// do not.
  void stage_by(GpuStaging* staging) noexcept { staging_ = staging; }

  /// Registers with that leg from now on; null: with none. What was registered with the one before is
  /// deregistered; with a new one it is registered when it is first used. Waits for a registration that is
  /// under way.
  void use(Connection* leg) noexcept;
  /// Registers with no leg, and keeps what was registered with the one before until retired().
  void retire_leg() noexcept;
  void retired() noexcept;
  /// Undoes retire_leg().
  void take_back(Connection* leg) noexcept;

 private:
  std::unique_ptr<Memory> keep(std::unique_ptr<FailoverMemory> memory);
  void prepare(std::span<std::byte> range);

  const unsigned generation_ = fork_generation();
  std::mutex lock_;
  Connection* leg_ = nullptr;
  GpuStaging* staging_ = nullptr;
  std::set<FailoverMemory*> all_;
  bool gpu_ = false;
  std::string stays_;
};

/// A range of memory. Belongs to the connection's thread once it is made, as long as leg and memory live.
class FailoverMemory final : public Memory {
 public:
  /// `file`: of a DMA-BUF in which the range begins at `offset`; none: memory that has an address alone.
  FailoverMemory(FailoverMemories& memories, std::span<std::byte> range, MemoryKind kind, Descriptor file,
                 std::uint64_t offset, std::unique_ptr<Memory> on_leg)
      : memories_(memories),
        range_(range),
        kind_(kind),
        file_(std::move(file)),
        offset_(offset),
        on_leg_(std::move(on_leg)) {}
  ~FailoverMemory() override { memories_.remove(*this); }
  FailoverMemory(const FailoverMemory&) = delete;
  FailoverMemory& operator=(const FailoverMemory&) = delete;

  /// The registration with the leg, made if it is missing. Throws as Connection::register_memory().
  Memory* on(Connection& leg) {
    if (!on_leg_) on_leg_ = registered_with(leg);
    return on_leg_.get();
  }
  /// The registration with the leg that retires, made if it is missing. Throws as on() does.
  Memory* on_retiring(Connection& leg) {
    if (!on_retiring_) on_retiring_ = registered_with(leg);
    return on_retiring_.get();
  }
  void leave_leg() noexcept { on_leg_.reset(); }
  void retire_leg() noexcept { on_retiring_ = std::move(on_leg_); }
  void retired() noexcept { on_retiring_.reset(); }
  void take_back() noexcept { on_leg_ = std::move(on_retiring_); }

 private:
  std::unique_ptr<Memory> registered_with(Connection& leg) {
    return file_ ? leg.register_dma_buf(range_, file_.get(), offset_) : leg.register_memory(range_, kind_);
  }

  FailoverMemories& memories_;
  std::span<std::byte> range_;
  MemoryKind kind_;
  Descriptor file_;
  std::uint64_t offset_;
  std::unique_ptr<Memory> on_leg_, on_retiring_;
};

}  // namespace tombolo::transport
