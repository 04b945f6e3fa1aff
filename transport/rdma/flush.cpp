#include "transport/rdma/flush.h"

#include <cerrno>
#include <functional>

#include "base/error.h"

namespace tombolo::transport::rdma {

Flusher::Flusher(std::span<const std::unique_ptr<NicPair>> nic_pairs, const RdmaOptions& options)
    : flushes_(kMost) {
  for (Flush& flush : flushes_) {
    flush.next_free = free_;
    free_ = &flush;
  }
  try {
    for (const auto& nic_pair : nic_pairs) {
      Loop& loop = loops_.emplace_back();
      loop.nic_pair = nic_pair.get();
      Device& device = nic_pair->device();
      loop.registration =
          device.add(std::as_writable_bytes(std::span(words_).subspan(loops_.size() - 1, 1)), Access::kByNic);
      loop.queue = device.verbs().create_cq(device.context(), static_cast<int>(kMost), nullptr, nullptr, 0);
      if (loop.queue == nullptr)
        fail_errno(errno,
                   fmt::format("create a completion queue for flushes on RDMA device {}", device.name()));
      loop.pair = nic_pair->make_queue_pair(loop.queue, kMost, 1, IBV_ACCESS_REMOTE_READ);
      nic_pair->connect(*loop.pair, nic_pair->port().facts, {loop.pair->pair->qp_num, loop.pair->first},
                        options);
    }
  } catch (...) {
    release();
    throw;
  }
}

Flusher::~Flusher() {
  release();
}

void Flusher::stop() noexcept {
  for (Loop& loop : loops_)
    if (loop.pair != nullptr) loop.nic_pair->destroy(*loop.pair);
}

void Flusher::release() noexcept {
  for (Loop& loop : loops_)
    if (!loop.nic_pair->device().is_copy())
      loop.nic_pair->device().look();  // destroying blocks until every event was taken
  stop();
  for (Loop& loop : loops_) {
    Device& device = loop.nic_pair->device();
    if (device.is_copy()) continue;
    if (loop.queue != nullptr) device.verbs().destroy_cq(loop.queue);
    if (loop.registration != nullptr) device.remove(loop.registration);
  }
}

bool Flusher::owns(const Request* request) const noexcept {
  const std::less<const Request*> before;
  return !before(request, &flushes_.front()) && !before(&flushes_.back(), request);
}

void Flusher::note_problem(const Loop& loop, const std::string& what) {
  problem_ = fmt::format("RDMA device {} {}", loop.nic_pair->device().name(), what);
  problem_at_ = static_cast<std::size_t>(&loop - loops_.data());
}

Request* Flusher::post(const std::byte* at, const RdmaMemory& memory) {
  Flush* flush = free_;
  if (flush == nullptr || !problem_.empty()) return nullptr;
  for (std::size_t i = 0; i < loops_.size(); ++i) {
    Loop& loop = loops_[i];
    ibv_sge word{reinterpret_cast<std::uint64_t>(&words_[i]), 1, loop.registration->lkey};
    ibv_send_wr read{};
    read.wr_id = static_cast<std::uint64_t>(flush - flushes_.data());
    read.sg_list = &word;
    read.num_sge = 1;
    read.opcode = IBV_WR_RDMA_READ;
    read.send_flags = IBV_SEND_SIGNALED;
    read.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(at);
    read.wr.rdma.rkey = memory.registrations()[i]->rkey;
    ibv_send_wr* refused = nullptr;
    if (const int error = ibv_post_send(loop.pair->pair, &read, &refused); error != 0) {
      note_problem(loop, fmt::format("takes no read that would flush its writes to GPU memory: {}",
                                     errno_text(error)));
      return nullptr;
    }
    ++flush->reads;
  }
  free_ = flush->next_free;
  ++under_way_;
  return flush;
}

bool Flusher::poll() {
  bool moved = false;
  for (Loop& loop : loops_) {
    std::array<ibv_wc, 16> completions;
    const int count = ibv_poll_cq(loop.queue, static_cast<int>(completions.size()), completions.data());
    moved |= count > 0;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& one = completions[static_cast<std::size_t>(i)];
      if (one.status == IBV_WC_SUCCESS) {
        --flushes_[one.wr_id].reads;
      } else if (problem_.empty()) {
        note_problem(loop, fmt::format("did not read back what it wrote to GPU memory: {}",
                                       loop.nic_pair->device().verbs().wc_status_str(one.status)));
      }
    }
    if (count < 0 && problem_.empty()) note_problem(loop, "refuses to tell the completions of its flushes");
  }
  return moved;
}

Outcome Flusher::test(Request* request, bool failed) noexcept {
  auto* flush = static_cast<Flush*>(request);
  const bool done = flush->reads == 0;
  if (!done && !failed) return Outcome::kPending;
  flush->reads = 0;
  flush->next_free = free_;
  free_ = flush;
  --under_way_;
  return done ? Outcome::kDone : Outcome::kFailed;
}

}  // namespace tombolo::transport::rdma
