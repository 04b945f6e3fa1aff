#include "trainer/cuda/operations/operation.h"

#include <algorithm>
#include <array>

namespace tombolo::trainer::cuda {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Operation>> kOperationNames{
    "embedding", "embedding backward", "layer norm",         "layer norm backward", "matrix product",
    "addition",  "attention",          "attention backward", "cross-entropy",       "sum",
    "AdamW",     "conversion"};

/// Collects what one operation touches; memory that is not given is not touched.
class Touched {
 public:
  void read(const Values& values, std::size_t count) { add(values, count, true, false); }
  void write(const Values& values, std::size_t count) { add(values, count, false, true); }
  void change(const Values& values, std::size_t count) { add(values, count, true, true); }
  template <typename T>
  void read(const T* at, std::size_t count) {
    add(at, count * sizeof(T), true, false);
  }
  template <typename T>
  void write(const T* at, std::size_t count) {
    add(at, count * sizeof(T), false, true);
  }
  template <typename T>
  void change(const T* at, std::size_t count) {
    add(at, count * sizeof(T), true, true);
  }
  std::vector<Access> take() { return std::move(accesses_); }

 private:
  void add(const Values& values, std::size_t count, bool reads, bool writes) {
    add(values.at, count * element_bytes(values.element), reads, writes);
  }
  void add(const void* at, std::size_t bytes, bool reads, bool writes) {
    if (at != nullptr && bytes > 0) accesses_.push_back({at, bytes, reads, writes});
  }
  std::vector<Access> accesses_;
};

void touch(Touched& touched, const Embed& o) {
  touched.read(o.tokens, o.count);
  touched.read(o.token_embedding, o.vocabulary * o.width);
  touched.read(o.position_embedding, std::min(o.context, o.count) * o.width);
  touched.write(o.out, o.count * o.width);
}

void touch(Touched& touched, const EmbedBackward& o) {
  touched.read(o.tokens, o.count);
  touched.read(o.order, o.count);
  touched.read(o.runs, o.count + 1);
  touched.read(o.gradient, o.count * o.width);
  touched.change(o.token_gradient, o.vocabulary * o.width);
  touched.change(o.position_gradient, std::min(o.context, o.count) * o.width);
}

void touch(Touched& touched, const Norm& o) {
  touched.read(o.x, o.rows * o.width);
  touched.read(o.weight, o.width);
  touched.read(o.bias, o.width);
  if (o.residual.at != nullptr) {
    touched.read(o.residual, o.rows * o.width);
    touched.write(o.sum, o.rows * o.width);
  }
  touched.write(o.out, o.rows * o.width);
  touched.write(o.mean, o.rows);
  touched.write(o.inverse, o.rows);
}

void touch(Touched& touched, const NormBackward& o) {
  touched.read(o.gradient, o.rows * o.width);
  touched.read(o.x, o.rows * o.width);
  touched.read(o.weight, o.width);
  touched.read(o.mean, o.rows);
  touched.read(o.inverse, o.rows);
  touched.change(o.x_gradient, o.rows * o.width);
  touched.change(o.weight_gradient, o.width);
  touched.change(o.bias_gradient, o.width);
  touched.write(o.scratch, norm_backward_scratch(o.width));
}

void touch(Touched& touched, const Product& o) {
  touched.read(o.a, o.m * o.k);
  touched.read(o.b, o.k * o.n);
  if (o.accumulate)
    touched.change(o.out, o.m * o.n);
  else
    touched.write(o.out, o.m * o.n);
  switch (o.epilogue) {
    case Epilogue::kNone:
      break;
    case Epilogue::kBias:
      touched.read(o.vector, o.n);
      break;
    case Epilogue::kBiasGelu:
      touched.read(o.vector, o.n);
      touched.write(o.auxiliary, o.m * o.n);
      break;
    case Epilogue::kGeluGradient:
      touched.read(o.auxiliary, o.m * o.n);
      break;
    case Epilogue::kSumOfA:
      touched.write(o.vector, o.m);
      break;
  }
}

void touch(Touched& touched, const Add& o) {
  touched.change(o.to, o.count);
  touched.read(o.from, o.count);
}

void touch(Touched& touched, const Attention& o) {
  const std::size_t tokens = o.rows * o.context, width = o.heads * o.head_size;
  touched.read(o.qkv, tokens * 3 * width);
  touched.write(o.out, tokens * width);
  touched.write(o.log_sum, tokens * o.heads);
}

// The scratch's size is the device's matter: it is checked to begin where the device may write.
void touch(Touched& touched, const AttentionBackward& o) {
  const std::size_t tokens = o.rows * o.context, width = o.heads * o.head_size;
  touched.read(o.gradient, tokens * width);
  touched.read(o.out, tokens * width);
  touched.read(o.qkv, tokens * 3 * width);
  touched.read(o.log_sum, tokens * o.heads);
  touched.write(o.scratch, 1);
  touched.write(o.qkv_gradient, tokens * 3 * width);
}

void touch(Touched& touched, const CrossEntropy& o) {
  touched.read(o.targets, o.rows);
  touched.write(o.losses, o.rows);
  if (o.gradient)
    touched.change(o.scores, o.rows * o.stride);
  else
    touched.read(o.scores, o.rows * o.stride);
}

void touch(Touched& touched, const Sum& o) {
  touched.read(o.x, o.count);
  touched.write(o.scratch, kSumScratch);
  touched.change(o.sum, 1);
}

void touch(Touched& touched, const AdamWUpdate& o) {
  touched.read(o.ranges, o.range_count);
  touched.read(o.step, 1);
  touched.read(o.step_number, 1);
  touched.read(o.gradients, o.size);
  touched.change(o.parameters, o.size);
  touched.change(o.first_moment, o.size);
  touched.change(o.second_moment, o.size);
  touched.write(o.copy, o.size);
}

void touch(Touched& touched, const Convert& o) {
  touched.read(o.from, o.count);
  touched.write(o.to, o.count);
}

}  // namespace

std::size_t element_bytes(Element element) noexcept {
  return element == Element::kBfloat16 ? 2 : 4;
}

std::size_t norm_backward_scratch(std::size_t width) noexcept {
  return 2 * kNormParts * width;
}

std::string_view operation_name(const Operation& operation) noexcept {
  return kOperationNames[operation.index()];
}

std::vector<Access> accesses(const Operation& operation) {
  Touched touched;
  std::visit([&](const auto& one) { touch(touched, one); }, operation);
  return touched.take();
}

}  // namespace tombolo::trainer::cuda
