#include "collectives/gpu/reducer.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::collectives::gpu {

using transport::gpu::Queued;

namespace {

std::string_view operation_name(Operation operation) noexcept {
  switch (operation) {
    case Operation::kSum:
      return "sum";
    case Operation::kProduct:
      return "prod";
    case Operation::kMin:
      return "min";
    case Operation::kMax:
      return "max";
    case Operation::kSumOfMultipliedLeft:
    case Operation::kSumOfMultipliedRight:
      return "premulsum";
    case Operation::kMultiply:
      return "factor";
    case Operation::kDivide:
      break;
  }
  return "division";
}

bool reads_right(Operation operation) noexcept {
  return operation != Operation::kMultiply && operation != Operation::kDivide;
}

}  // namespace

Operation operation_of(ReduceOp op, Premultiplied premultiplied) noexcept {
  if (premultiplied == Premultiplied::kLeft) return Operation::kSumOfMultipliedLeft;
  if (premultiplied == Premultiplied::kRight) return Operation::kSumOfMultipliedRight;
  switch (op) {
    case ReduceOp::kProduct:
      return Operation::kProduct;
    case ReduceOp::kMin:
      return Operation::kMin;
    case ReduceOp::kMax:
      return Operation::kMax;
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      break;
  }
  return Operation::kSum;
}

std::byte* Reducer::at_gpu(const std::byte* host, std::size_t bytes) const noexcept {
  for (const Memory& one : memory_)
    if (host >= one.host && host + bytes <= one.host + one.bytes) return one.at_gpu + (host - one.host);
  return nullptr;
}

bool Reducer::start(const Reduction& reduction, std::uint32_t step) {
  const std::size_t element = size_of(reduction.type), bytes = reduction.count * element;
  if (bytes < least_ || !failure_.empty()) return false;
  ReductionArguments given;
  given.target = at_gpu(reduction.target, bytes);
  given.left = at_gpu(reduction.left, bytes);
  given.right = reads_right(reduction.operation) ? at_gpu(reduction.right, bytes) : given.left;
  given.count = reduction.count;
  given.operation = reduction.operation;
  given.operand = reduction.operand;
  const auto usable = [element](const std::byte* at) {
    return at != nullptr && reinterpret_cast<std::uintptr_t>(at) % element == 0;
  };
  if (!usable(given.target) || !usable(given.left) || !usable(given.right)) return false;
  Launched& next = launched_.emplace_back();
  next.step = step;
  next.reduction = reduction;
  if (kernels_.start(given, reduction.type, next.queued)) return true;
  launched_.pop_back();
  return false;
}

std::optional<std::uint32_t> Reducer::next_done() {
  if (!is_under_way()) return std::nullopt;
  const Launched& oldest = launched_.front();
  if (oldest.queued.state.load(std::memory_order_acquire) == Queued::State::kUnderWay) kernels_.look();
  switch (oldest.queued.state.load(std::memory_order_acquire)) {
    case Queued::State::kDone: {
      const std::uint32_t step = oldest.step;
      launched_.pop_front();
      return step;
    }
    case Queued::State::kFailed:
      failure_ = fmt::format("{} failed: {}; find the call on that GPU that failed first in this program",
                             describe(), kernels_.gpu().cuda().describe(oldest.queued.result));
      break;
    case Queued::State::kUnderWay:
    case Queued::State::kNone:
      break;
  }
  return std::nullopt;
}

std::string Reducer::describe() const {
  const Reduction& oldest = launched_.front().reduction;
  return fmt::format("kernel {} ({}, {} bytes) on GPU {}", kernel_name(oldest.type),
                     operation_name(oldest.operation), oldest.count * size_of(oldest.type),
                     kernels_.gpu().ordinal());
}

bool Reducer::touches_memory() noexcept {
  if (kernels_.gpu().usable()) kernels_.look();
  return std::ranges::any_of(launched_, [](const Launched& one) {
    return one.queued.state.load(std::memory_order_acquire) == Queued::State::kUnderWay;
  });
}

}  // namespace tombolo::collectives::gpu
