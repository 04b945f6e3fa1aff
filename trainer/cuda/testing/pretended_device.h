// A device on host memory, for tests: streams that really are asynchronous, and a watch over the rules by
// which work on them must be ordered.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/cuda/device.h"
#include "trainer/cuda/testing/pretended_groups.h"
#include "trainer/cuda/testing/pretended_memory.h"
#include "trainer/cuda/testing/pretended_streams.h"

namespace tombolo::trainer::cuda {

struct PretendedOptions {
  unsigned seed = 1;
  std::array<Eagerness, kStreams> streams{Eagerness::kRandom, Eagerness::kRandom, Eagerness::kRandom,
                                          Eagerness::kRandom};
  /// Over which it sums with other devices; null: it has no such library.
  std::shared_ptr<PretendedNccl> nccl = nullptr;
  std::string address = "pretended machine, slot 0";
  double operation_seconds = 1e-3;  ///< that each operation takes by the device's clock
  std::size_t workspace = 512;      ///< bytes that it wants to be lent
};

/// Work is queued by stream and carried out by run_reference (pretended_streams.h). Every rule below is
/// checked when work is put on a stream, so that a missing event is found whichever order comes about:
///  * memory: every access lies inside one allocation, copies included; nothing is allocated once work has
///    begun; nothing is read that nothing has written
///  * order: of two accesses to the same bytes on different streams, one of them writing, one comes before
///    the other by events, or because the host waited in between
///  * workspace: what a library's operation may use has been lent to its stream, which alone touches it
///  * events: none is waited for that was never recorded
///  * host memory: it does not change between the moment a copy from it is put on a stream and the moment it
///    is carried out, and is not written while a copy to it is under way; host_reads() and host_writes()
///    check what the host does in between
///  * threads: only one at a time puts work on one stream; and those of PretendedGroupState
///  * sums over devices: nothing touches the numbers between the moment a device comes to them and the moment
///    the result is there; it finds poison
/// Copies and sums over devices, whose clocks nothing compares, take no time of the device's clock; so it
/// tells the same whatever the eagerness. What breaks a rule throws Error (kInternal) naming both operations,
/// their streams and the address. Any thread may call any member.
class PretendedDevice final : public Device {
 public:
  explicit PretendedDevice(const PretendedOptions& options = {});
  ~PretendedDevice() override;

  std::string name() const override;
  std::string describe() const override;
  double peak(Element element) const override;
  std::byte* allocate(std::size_t bytes, std::string_view what) override;
  std::byte* allocate_host(std::size_t bytes, std::string_view what) override;
  std::size_t attention_scratch(const Attention& attention) const override;
  std::size_t workspace(const Attention& attention) const override;
  void lend_workspace(Stream stream, std::span<std::byte> memory) override;
  void run(Stream stream, const Operation& operation) override;
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override;
  void clear(Stream stream, void* at, std::size_t bytes) override;
  Event make_event() override;
  Event make_timed_event() override;
  double seconds_between(Event begin, Event end) override;
  void record(Stream stream, Event event) override;
  void wait(Stream stream, Event event) override;
  bool done(Event event) override;
  void synchronize(Event event) override;
  void begin_graph(Stream stream) override;
  Graph end_graph(Stream stream) override;
  void launch(Stream stream, Graph graph) override;
  std::string address() const override { return options_.address; }
  std::string group_library() override;
  GroupId make_group_id() override;
  std::unique_ptr<DeviceGroup> join_group(const GroupId& id, const GroupMember& member) override;

  /// The host is about to read (write) this memory: throws where a copy to it (any copy of it) may be under
  /// way.
  void host_reads(const void* at, std::size_t bytes);
  void host_writes(const void* at, std::size_t bytes);

  /// The streams of everything carried out so far, in the order in which it was.
  std::vector<Stream> history() const;
  /// Commands that are queued still.
  std::size_t pending() const;
  /// Bytes of all allocations in the device's memory.
  std::size_t allocated() const;
  /// How often a graph was launched.
  std::size_t launches() const;

 private:
  class StreamUse;
  class Group;

  std::byte* add_allocation(std::size_t bytes, std::string_view what, bool host);
  void put(Stream stream, PretendedCommand command);
  PretendedNccl& nccl() const;

  PretendedOptions options_;
  mutable std::mutex mutex_;
  bool started_ = false;
  PretendedMemory memory_;
  PretendedStreams streams_;
  std::vector<std::vector<PretendedCommand>> graphs_;
  std::array<std::optional<std::vector<PretendedCommand>>, kStreams> captures_;
  std::array<std::atomic<bool>, kStreams> in_use_{};
  std::array<std::span<std::byte>, kStreams> workspaces_{};
  std::size_t launches_ = 0;
};

}  // namespace tombolo::trainer::cuda
