#include "trainer/cuda/testing/pretended_command.h"

#include <array>

#include "trainer/cuda/operations/reference.h"

namespace tombolo::trainer::cuda {

std::string_view stream_name(int stream) {
  constexpr std::array<std::string_view, kStreams> kNames{"compute", "to host", "from host", "reduce"};
  return kNames[static_cast<std::size_t>(stream)];
}

std::string_view PretendedCommand::name() const {
  switch (kind) {
    case Kind::kOperation:
      return operation_name(*operation);
    case Kind::kCopy:
      return "copy";
    case Kind::kClear:
      return "clear";
    case Kind::kRecord:
      return "record";
    case Kind::kWait:
      return "wait";
    case Kind::kSum:
      return "sum over devices";
  }
  return {};
}

std::vector<Access> PretendedCommand::touched() const {
  switch (kind) {
    case Kind::kOperation: {
      std::vector<Access> all = accesses(*operation);
      if (const auto* attention = std::get_if<AttentionBackward>(&*operation)) {
        Attention shape{};
        shape.rows = attention->rows;
        shape.context = attention->context;
        shape.heads = attention->heads;
        all.push_back({attention->scratch, reference_attention_scratch(shape), false, true});
      }
      if (!workspace.empty()) all.push_back({workspace.data(), workspace.size(), false, true});
      return all;
    }
    case Kind::kCopy:
      return {{from, bytes, true, false}, {to, bytes, false, true}};
    case Kind::kClear:
      return {{to, bytes, false, true}};
    case Kind::kSum:
      return {{to, bytes, true, true}};
    case Kind::kRecord:
    case Kind::kWait:
      break;
  }
  return {};
}

}  // namespace tombolo::trainer::cuda
