#include "tests/simulation/checks/reference.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "tests/simulation/checks/pattern.h"

namespace tombolo::simulation {
namespace {

using collectives::Collective;
using collectives::DataType;
using collectives::ReduceOp;

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

/// Element `at` of what a rank gives: small enough that every type holds it, and sums and products of six of
/// them where the step combines.
std::int64_t value_of(const StepView& view, std::size_t member, std::size_t at) {
  std::uint64_t mixed = (view.number + 1) * 0x9e3779b97f4a7c15U ^
                        (view.members[member] + 1) * 0xc2b2ae3d27d4eb4fU ^ (at + 1) * 0x165667b19e3779f9U;
  for (int round = 0; round < 2; ++round) {
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9U;
    mixed ^= mixed >> 32;
  }
  return 1 + static_cast<std::int64_t>(mixed % (reduces(view.step.collective) ? 2 : 100));
}

std::int64_t combined(const StepView& view, std::size_t at) {
  std::int64_t all = value_of(view, 0, at);
  for (std::size_t member = 1; member < view.members.size(); ++member) {
    const std::int64_t one = value_of(view, member, at);
    switch (view.step.op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        all += one;
        break;
      case ReduceOp::kProduct:
        all *= one;
        break;
      case ReduceOp::kMin:
        all = std::min(all, one);
        break;
      case ReduceOp::kMax:
        all = std::max(all, one);
        break;
    }
  }
  return view.step.op == ReduceOp::kAverage ? all / static_cast<std::int64_t>(view.members.size()) : all;
}

template <typename T>
void append(std::vector<std::byte>& to, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void append(std::vector<std::byte>& to, DataType type, std::int64_t value) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return append(to, static_cast<std::uint8_t>(value));
    case DataType::kInt32:
    case DataType::kUint32:
      return append(to, static_cast<std::uint32_t>(value));
    case DataType::kInt64:
    case DataType::kUint64:
      return append(to, static_cast<std::uint64_t>(value));
    case DataType::kFloat32:
      return append(to, static_cast<float>(value));
    case DataType::kFloat64:
      return append(to, static_cast<double>(value));
    case DataType::kBfloat16:
      return append(
          to, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    default:
      TOMBOLO_CHECK(false, "type={}", static_cast<int>(type));
  }
}

/// How many parts of `count` elements the buffers have.
std::size_t parts_in(const StepView& view) {
  switch (view.step.collective) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
    case Collective::kAllToAll:
      return view.members.size();
    case Collective::kBarrier:
      return 0;
    default:
      return 1;
  }
}

std::size_t parts_out(const StepView& view) {
  switch (view.step.collective) {
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kAllToAll:
      return view.members.size();
    case Collective::kBarrier:
      return 0;
    default:
      return 1;
  }
}

}  // namespace

std::vector<std::byte> input_of(const StepView& view) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at < parts_in(view) * view.step.count; ++at)
    append(bytes, view.step.type, value_of(view, view.me, at));
  return bytes;
}

std::size_t output_bytes(const StepView& view) {
  return parts_out(view) * view.step.count * collectives::size_of(view.step.type);
}

std::vector<std::byte> expected_of(const StepView& view) {
  const CollectiveStep& step = view.step;
  const bool at_root = view.me == view.root();
  if ((step.collective == Collective::kReduce || step.collective == Collective::kGather) && !at_root)
    return {};
  std::vector<std::byte> bytes;
  for (std::size_t part = 0; part < parts_out(view); ++part) {
    for (std::size_t i = 0; i < step.count; ++i) {
      const std::size_t mine = view.me * step.count + i;
      std::int64_t value = 0;
      switch (step.collective) {
        case Collective::kAllReduce:
        case Collective::kReduce:
          value = combined(view, i);
          break;
        case Collective::kReduceScatter:
          value = combined(view, mine);
          break;
        case Collective::kAllGather:
        case Collective::kGather:
          value = value_of(view, part, i);
          break;
        case Collective::kBroadcast:
          value = value_of(view, view.root(), i);
          break;
        case Collective::kScatter:
          value = value_of(view, view.root(), mine);
          break;
        case Collective::kAllToAll:
          value = value_of(view, part, mine);
          break;
        case Collective::kBarrier:
          break;
      }
      append(bytes, step.type, value);
    }
  }
  return bytes;
}

std::vector<std::byte> message_of(const CollectiveStep& step, std::size_t number, std::size_t transfer) {
  const Transfer& one = step.transfers[transfer];
  const auto bytes = message_bytes(one.from, number * 64 + transfer, one.bytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace tombolo::simulation
