#include "tests/simulation/checks/defects.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tests/simulation/world/world.h"

namespace tombolo::simulation {
namespace {

using std::chrono::seconds;
using namespace transport;

class Defective final : public Connection {
 public:
  Defective(std::unique_ptr<Connection> inner, Defect defect, World& world)
      : inner_(std::move(inner)), defect_(defect), world_(world) {
    if (defect_ == Defect::kSpins) {
      always_ready_ = world_.kernel().eventfd(1, 0);
    }
  }
  ~Defective() override {
    if (defect_ == Defect::kWrittenLate && last_receive_.data() != nullptr && !last_receive_.empty())
      last_receive_[0] = std::byte{1};
    if (defect_ == Defect::kSlowClose) world_.sleep({}, world_.clock().now() + seconds(10));
    if (defect_ == Defect::kLeakedDescriptor) world_.kernel().eventfd(0, 0);
    if (defect_ == Defect::kLeakedMemory) lost_memory = new int(1);
    if (always_ready_ >= 0) world_.kernel().close(always_ready_);
  }

  std::unique_ptr<Memory> register_memory(std::span<std::byte> buffer, MemoryKind kind) override {
    return inner_->register_memory(buffer, kind);
  }
  std::unique_ptr<Memory> register_dma_buf(std::span<std::byte> range, int file,
                                           std::uint64_t offset) override {
    return inner_->register_dma_buf(range, file, offset);
  }
  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override {
    if (defect_ == Defect::kNotSent && unsent_ == nullptr && ++sends_ == 2) {
      unsent_ = &unsent_request_;
      unsent_size_ = data.size();
      return unsent_;
    }
    Request* request = inner_->post_send(data, memory);
    if (request != nullptr) receives_.erase(request);
    return request;
  }
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override {
    Request* request = inner_->post_receive(buffer, memory);
    if (request != nullptr) receives_[request] = buffer;
    return request;
  }
  Outcome test(Request* request, std::size_t& bytes) noexcept override {
    if (request == unsent_ && request != nullptr) {
      bytes = unsent_size_;
      unsent_ = nullptr;
      return Outcome::kDone;
    }
    if (defect_ == Defect::kNeverDone && receives_.contains(request)) {
      inner_->progress();
      return Outcome::kPending;
    }
    if (hides_error_now()) return Outcome::kPending;
    if (defect_ == Defect::kGivesUp && ++tests_ > 20) {
      own_error_.emplace(Cause::kRemote, "connection to host h0 or host h1: given up for no reason");
      return Outcome::kFailed;
    }
    const Outcome outcome = inner_->test(request, bytes);
    if (outcome != Outcome::kDone) return outcome;
    const auto receive = receives_.find(request);
    if (receive == receives_.end()) {
      if (defect_ == Defect::kWrongSize && bytes != 0) --bytes;
    } else {
      change(receive->second, bytes);
      receives_.erase(receive);
    }
    return outcome;
  }
  bool progress() noexcept override { return inner_->progress(); }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    // An ended stream would be ready all the time.
    if (hides_error_now()) return;
    inner_->append_wait_handles(handles);
    if (always_ready_ >= 0) handles.push_back({always_ready_, POLLIN, 0});
  }
  const Error* error() const noexcept override {
    if (own_error_) return &*own_error_;
    const Error* error = inner_->error();
    if (error == nullptr || defect_ == Defect::kNoError || hides_error_now()) return nullptr;
    if (defect_ == Defect::kNamelessError) {
      own_error_.emplace(Cause::kRemote, "it failed");
      return &*own_error_;
    }
    return error;
  }
  std::uint64_t label() const noexcept override { return inner_->label(); }
  const Route& route() const noexcept override { return inner_->route(); }
  Statistics statistics() const noexcept override { return inner_->statistics(); }

 private:
  bool hides_error_now() const noexcept {
    return defect_ == Defect::kNoticesLate && world_.terminal_fault() &&
           world_.clock().now() < *world_.terminal_fault() + seconds(20);
  }
  void change(std::span<std::byte> buffer, std::size_t& bytes) noexcept {
    if (defect_ == Defect::kOtherBytes && bytes != 0) buffer[bytes / 2] ^= std::byte{1};
    if (defect_ == Defect::kWrittenBeyond && bytes < buffer.size()) buffer[bytes] = std::byte{0};
    if (defect_ == Defect::kTwice) {
      const std::vector<std::byte> now(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes));
      const std::size_t again = std::min(before_.size(), buffer.size());
      std::copy_n(before_.begin(), again, buffer.begin());
      if (!before_.empty()) bytes = again;
      before_ = now;
    }
    last_receive_ = buffer;
  }

  std::unique_ptr<Connection> inner_;
  Defect defect_;
  World& world_;
  std::map<Request*, std::span<std::byte>> receives_;
  std::span<std::byte> last_receive_;
  std::vector<std::byte> before_;
  mutable std::optional<Error> own_error_;
  struct Unsent final : Request {
  } unsent_request_;
  Request* unsent_ = nullptr;
  std::size_t unsent_size_ = 0;
  int sends_ = 0, tests_ = 0, always_ready_ = -1;
  // Kept where a sanitizer finds it: this defect is for what counts allocations.
  static inline int* lost_memory = nullptr;
};

}  // namespace

const char* name_of(Defect defect) {
  switch (defect) {
    case Defect::kNone:
      return "none";
    case Defect::kLostByte:
      return "lost-byte";
    case Defect::kLostWakeUp:
      return "lost-wake-up";
    case Defect::kOtherBytes:
      return "other-bytes";
    case Defect::kTwice:
      return "twice";
    case Defect::kNotSent:
      return "not-sent";
    case Defect::kWrongSize:
      return "wrong-size";
    case Defect::kWrittenBeyond:
      return "written-beyond";
    case Defect::kWrittenLate:
      return "written-late";
    case Defect::kNoError:
      return "no-error";
    case Defect::kNamelessError:
      return "nameless-error";
    case Defect::kGivesUp:
      return "gives-up";
    case Defect::kNeverDone:
      return "never-done";
    case Defect::kSpins:
      return "spins";
    case Defect::kSlowClose:
      return "slow-close";
    case Defect::kSlowConnect:
      return "slow-connect";
    case Defect::kInterrupted:
      return "interrupted";
    case Defect::kNoticesLate:
      return "notices-late";
    case Defect::kLeakedDescriptor:
      return "leaked-descriptor";
    case Defect::kLeakedMemory:
      return "leaked-memory";
  }
  return "?";
}

std::unique_ptr<Connection> with_defect(std::unique_ptr<Connection> inner, Defect defect, World& world) {
  if (defect == Defect::kNone || inner == nullptr) return inner;
  return std::make_unique<Defective>(std::move(inner), defect, world);
}

}  // namespace tombolo::simulation
