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

/// What a member gives: numbers that are small enough for every type to hold them and, where the step
/// combines, sums and products of six of them.
class Given {
 public:
  Given(const StepView& view, std::size_t member)
      : seed_((view.number + 1) * 0x9e3779b97f4a7c15U ^ (view.members[member] + 1) * 0xc2b2ae3d27d4eb4fU),
        combines_(reduces(view.step.collective)) {}
  std::int64_t operator[](std::size_t at) const noexcept {
    std::uint64_t mixed = seed_ ^ (at + 1) * 0x165667b19e3779f9U;
    for (int round = 0; round < 2; ++round) {
      mixed ^= mixed >> 29;
      mixed *= 0xbf58476d1ce4e5b9U;
      mixed ^= mixed >> 32;
    }
    return 1 + static_cast<std::int64_t>(combines_ ? mixed % 2 : mixed % 100);
  }
  /// Elements `first` to `first` + `count` - 1, behind what is in `to`.
  void append(std::vector<std::int64_t>& to, std::size_t first, std::size_t count) const {
    for (std::size_t at = first; at < first + count; ++at) to.push_back((*this)[at]);
  }

 private:
  std::uint64_t seed_;
  bool combines_;
};

std::int64_t combined(ReduceOp op, std::int64_t one, std::int64_t other) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return one + other;
    case ReduceOp::kProduct:
      return one * other;
    case ReduceOp::kMin:
      return std::min(one, other);
    case ReduceOp::kMax:
      return std::max(one, other);
  }
  return 0;
}

/// Elements `first` to `first` + `count` - 1 of what all give, combined.
std::vector<std::int64_t> combined(const StepView& view, std::size_t first, std::size_t count) {
  std::vector<std::int64_t> all;
  all.reserve(count);
  Given(view, 0).append(all, first, count);
  for (std::size_t member = 1; member < view.members.size(); ++member) {
    const Given given(view, member);
    for (std::size_t i = 0; i < count; ++i) all[i] = combined(view.step.op, all[i], given[first + i]);
  }
  if (view.step.op == ReduceOp::kAverage)
    for (std::int64_t& one : all) one /= static_cast<std::int64_t>(view.members.size());
  return all;
}

template <typename T, typename Encode>
std::vector<std::byte> encoded(std::span<const std::int64_t> values, const Encode& encode) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T one = encode(values[i]);
    std::memcpy(bytes.data() + i * sizeof one, &one, sizeof one);
  }
  return bytes;
}

template <typename T>
std::vector<std::byte> encoded(std::span<const std::int64_t> values) {
  return encoded<T>(values, [](std::int64_t value) { return static_cast<T>(value); });
}

std::uint16_t bfloat16(std::int64_t value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

std::vector<std::byte> encoded(DataType type, std::span<const std::int64_t> values) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return encoded<std::uint8_t>(values);
    case DataType::kInt32:
    case DataType::kUint32:
      return encoded<std::uint32_t>(values);
    case DataType::kInt64:
    case DataType::kUint64:
      return encoded<std::uint64_t>(values);
    case DataType::kFloat32:
      return encoded<float>(values);
    case DataType::kFloat64:
      return encoded<double>(values);
    case DataType::kBfloat16:
      return encoded<std::uint16_t>(values, bfloat16);
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
  std::vector<std::int64_t> values;
  Given(view, view.me).append(values, 0, parts_in(view) * view.step.count);
  return encoded(view.step.type, values);
}

std::size_t output_bytes(const StepView& view) {
  return parts_out(view) * view.step.count * collectives::size_of(view.step.type);
}

std::vector<std::byte> expected_of(const StepView& view) {
  const CollectiveStep& step = view.step;
  const bool at_root = view.me == view.root();
  if ((step.collective == Collective::kReduce || step.collective == Collective::kGather) && !at_root)
    return {};
  const std::size_t count = step.count, mine = view.me * count;
  std::vector<std::int64_t> values;
  switch (step.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      values = combined(view, 0, count);
      break;
    case Collective::kReduceScatter:
      values = combined(view, mine, count);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      for (std::size_t part = 0; part < view.members.size(); ++part)
        Given(view, part).append(values, 0, count);
      break;
    case Collective::kBroadcast:
      Given(view, view.root()).append(values, 0, count);
      break;
    case Collective::kScatter:
      Given(view, view.root()).append(values, mine, count);
      break;
    case Collective::kAllToAll:
      for (std::size_t part = 0; part < view.members.size(); ++part)
        Given(view, part).append(values, mine, count);
      break;
    case Collective::kBarrier:
      break;
  }
  return encoded(step.type, values);
}

std::vector<std::byte> message_of(const CollectiveStep& step, std::size_t number, std::size_t transfer) {
  const Transfer& one = step.transfers[transfer];
  const auto bytes = message_bytes(one.from, number * 64 + transfer, one.bytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace tombolo::simulation
