#include "trainer/cuda/operations/operation_shape.h"

#include "base/format.h"

namespace tombolo::trainer::cuda {
namespace {

std::string_view name_of(Element element) {
  return element == Element::kBfloat16 ? "bf16" : "fp32";
}

std::string shape(const Embed& o) {
  return fmt::format("{}, {} tokens of width {}, vocabulary {}", name_of(o.out.element), o.count, o.width,
                     o.vocabulary);
}
std::string shape(const EmbedBackward& o) {
  return fmt::format("{}, {} tokens of width {}, vocabulary {}", name_of(o.gradient.element), o.count,
                     o.width, o.vocabulary);
}
std::string shape(const Norm& o) {
  return fmt::format("{}, {} rows of width {}{}", name_of(o.out.element), o.rows, o.width,
                     o.residual.at != nullptr ? " with a residual" : "");
}
std::string shape(const NormBackward& o) {
  return fmt::format("{}, {} rows of width {}", name_of(o.gradient.element), o.rows, o.width);
}
std::string shape(const Product& o) {
  constexpr std::string_view kEpilogues[] = {"", ", bias", ", bias and GELU", ", GELU's gradient",
                                             ", sum of a"};
  return fmt::format("{} to {}, {} x {} x {}{}{}{}{}", name_of(o.a.element), name_of(o.out.element), o.m, o.n,
                     o.k, o.a_transposed ? ", a transposed" : "", o.b_transposed ? ", b transposed" : "",
                     o.accumulate ? ", accumulating" : "", kEpilogues[static_cast<std::size_t>(o.epilogue)]);
}
std::string shape(const Add& o) {
  return fmt::format("{} numbers", o.count);
}
template <typename Either>
std::string attention_shape(const Either& o) {
  return fmt::format("{}, {} rows of {} tokens, {} heads of {}", name_of(o.qkv.element), o.rows, o.context,
                     o.heads, o.head_size);
}
std::string shape(const Attention& o) {
  return attention_shape(o);
}
std::string shape(const AttentionBackward& o) {
  return attention_shape(o);
}
std::string shape(const CrossEntropy& o) {
  return fmt::format("{}, {} rows of {} scores", name_of(o.scores.element), o.rows, o.vocabulary);
}
std::string shape(const Sum& o) {
  return fmt::format("{} {}", o.count, o.squares ? "squares" : "numbers");
}
std::string shape(const AdamWUpdate& o) {
  return fmt::format("{} parameters in {} ranges, moments {}", o.size, o.range_count,
                     name_of(o.first_moment.element));
}
std::string shape(const Convert& o) {
  return fmt::format("{} numbers from {} to {}", o.count, name_of(o.from.element), name_of(o.to.element));
}

}  // namespace

std::string operation_shape(const Operation& operation) {
  return std::visit([](const auto& one) { return shape(one); }, operation);
}

}  // namespace tombolo::trainer::cuda
