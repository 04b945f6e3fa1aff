#include "transport/rdma/one_sided.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace tombolo::transport::rdma {
namespace {

static_assert(RemoteWindow::kMostKeys == kMostNicPairs);

/// Keeps the devices open. The registrations are shared by all connections that open the same memory.
class RdmaWindow final : public OpenWindow {
 public:
  RdmaWindow(std::span<const std::unique_ptr<NicPair>> nic_pairs, std::span<std::byte> memory)
      : memory_(memory) {
    try {
      for (const auto& nic_pair : nic_pairs) {
        devices_.push_back(nic_pair->port().device);
        registrations_.push_back(devices_.back()->windows().acquire(memory));
      }
    } catch (...) {
      release();
      throw;
    }
  }
  ~RdmaWindow() override { release(); }
  RdmaWindow(const RdmaWindow&) = delete;
  RdmaWindow& operator=(const RdmaWindow&) = delete;

  RemoteWindow remote() const noexcept override {
    RemoteWindow made;
    made.address = reinterpret_cast<std::uint64_t>(memory_.data());
    made.bytes = memory_.size();
    for (std::size_t i = 0; i < registrations_.size(); ++i) made.keys[i] = registrations_[i]->rkey;
    return made;
  }
  std::uint32_t local_key(std::size_t nic_pair) const noexcept { return registrations_[nic_pair]->lkey; }

 private:
  void release() noexcept {
    for (std::size_t i = 0; i < registrations_.size(); ++i) devices_[i]->windows().release(registrations_[i]);
  }
  std::span<std::byte> memory_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<ibv_mr*> registrations_;
};

}  // namespace

OneSidedWork::OneSidedWork(const Of& of) noexcept : of_(of) {
  std::iota(free_.begin(), free_.end(), 0U);
}

/// Until an end opens a window, its queue pairs let nothing be read.
std::unique_ptr<OpenWindow> OneSidedWork::open(std::span<std::byte> memory) {
  if (ended_ || of_.error) fail(Cause::kUnsupported, "the connection's way has failed");
  if (memory.empty()) fail(Cause::kInvalidUsage, "a window of no bytes");
  auto made = std::make_unique<RdmaWindow>(of_.agreed.nic_pairs, memory);
  if (allowed_) return made;
  for (std::size_t i = 1; i < of_.agreed.queue_pairs.size(); ++i) {
    QueuePair& pair = *of_.agreed.queue_pairs[i];
    of_.agreed.nic_pairs[pair.nic_pair]->allow(pair, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  }
  allowed_ = true;
  return made;
}

OneSided::Begun OneSidedWork::begin(OneSidedOperation& operation) noexcept {
  using State = OneSidedOperation::State;
  if (ended_ || of_.error) return Begun::kNever;
  if (operation.bytes == 0) {
    operation.state.store(State::kDone, std::memory_order_release);
    return Begun::kYes;
  }
  if (free_count_ == 0) return Begun::kTryAgain;
  const std::uint32_t place = free_[--free_count_];
  places_[place] = {&operation, 0, false};
  operation.state.store(State::kUnderWay, std::memory_order_release);
  waiting_[last_++ % kMost] = place;
  // What goes wrong here goes wrong again in the next turn of the connection, which fails by it.
  guarded([&] { advance(); }, [](Cause, std::string_view) noexcept {});
  return Begun::kYes;
}

bool OneSidedWork::advance() {
  bool moved = false;
  while (first_ < last_ && problem_.empty() && !ended_) {
    const std::uint32_t place = waiting_[first_ % kMost];
    if (divided_.empty()) {
      divided_ = of_.shares.divide(static_cast<std::size_t>(places_[place].operation->bytes), parts_);
      next_part_ = part_offset_ = 0;
      part_begin_ = 0;
    }
    if (!give(place)) break;
    divided_ = {};
    places_[place].given = true;
    ++first_;
    moved = true;
  }
  return moved;
}

/// Gives the NICs the operation, and goes on where the last call left off; true once all of it has been
/// given.
bool OneSidedWork::give(std::uint32_t place) {
  const OneSidedOperation& operation = *places_[place].operation;
  const auto& window = static_cast<const RdmaWindow&>(*operation.window);
  const bool writes = operation.kind == OneSidedOperation::Kind::kWrite;
  const bool reads_back = writes && of_.agreed.nic_pairs.size() > 1;
  while (next_part_ < divided_.size()) {
    const std::size_t pair = divided_[next_part_].pair + 1;  // the first is for control
    const std::size_t nic_pair = of_.agreed.queue_pairs[pair]->nic_pair;
    const std::size_t size = divided_[next_part_].bytes;
    while (part_offset_ < size) {
      const std::size_t length = std::min<std::size_t>(size - part_offset_, of_.longest);
      const std::uint64_t at = part_begin_ + part_offset_;
      const ibv_sge here{reinterpret_cast<std::uint64_t>(operation.local) + at,
                         static_cast<std::uint32_t>(length), window.local_key(nic_pair)};
      if (!post(place, pair, writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, here, operation.offset + at))
        return false;
      part_offset_ += length;
    }
    if (reads_back && size > 0) {
      auto* word = &of_.agreed.areas->closed.read_back[pair];
      const ibv_sge here{reinterpret_cast<std::uint64_t>(word), 1,
                         of_.agreed.nic_pairs[nic_pair]->closed_key()};
      if (!post(place, pair, IBV_WR_RDMA_READ, here, operation.offset + part_begin_ + size - 1)) return false;
    }
    part_begin_ += size;
    part_offset_ = 0;
    ++next_part_;
  }
  return true;
}

/// `there`: offset in the other end's window. False where the queue pair is full, or problem() is set.
bool OneSidedWork::post(std::uint32_t place, std::size_t index, ibv_wr_opcode opcode, const ibv_sge& here,
                        std::uint64_t there) {
  QueuePair& pair = *of_.agreed.queue_pairs[index];
  if (pair.send_room == 0) return false;
  const RemoteWindow& remote = places_[place].operation->remote;
  ibv_sge copy = here;
  ibv_send_wr request{};
  request.wr_id = WorkId{WorkId::Kind::kOneSided, static_cast<std::uint8_t>(index), 1, place}.pack();
  request.sg_list = &copy;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = remote.address + there;
  request.wr.rdma.rkey = remote.keys[pair.nic_pair];
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(pair.pair, &request, &refused); error != 0) {
    problem_at_ = pair.nic_pair;
    problem_ = fmt::format("post a {} of {} bytes to RDMA device {}: {}",
                           opcode == IBV_WR_RDMA_WRITE ? "write" : "read", here.length,
                           of_.agreed.nic_pairs[pair.nic_pair]->device().name(), errno_text(error));
    return false;
  }
  --pair.send_room;
  of_.shares.posted(index - 1, here.length, of_.shares.learns() ? of_.clock.now() : TimePoint{});
  if (opcode == IBV_WR_RDMA_WRITE) {
    of_.streams[index]->sent_bytes.add(here.length);
    of_.streams[index]->sent_chunks.add(1);
  }
  ++places_[place].pieces;
  return true;
}

void OneSidedWork::piece_done(std::uint32_t place) noexcept {
  UnderWay& one = places_[place];
  if (--one.pieces > 0 || !one.given) return;
  finish(place, OneSidedOperation::State::kDone);
}

void OneSidedWork::finish(std::uint32_t place, OneSidedOperation::State state) noexcept {
  OneSidedOperation* operation = std::exchange(places_[place].operation, nullptr);
  free_[free_count_++] = place;
  operation->state.store(state, std::memory_order_release);
}

void OneSidedWork::end() noexcept {
  ended_ = true;
  first_ = last_;
  divided_ = {};
  for (std::uint32_t place = 0; place < kMost; ++place)
    if (places_[place].operation != nullptr) finish(place, OneSidedOperation::State::kLost);
}

}  // namespace tombolo::transport::rdma
