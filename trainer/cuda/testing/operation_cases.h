// Cases of every operation (case_maker.h), for whatever carries operations out, and how far each result may
// be from run_reference's.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/format.h"
#include "trainer/cuda/operations/reference.h"
#include "trainer/cuda/testing/case_maker.h"

namespace tombolo::trainer::cuda::testing {

// Neighbours in bf16 are up to 2^-7 of their value apart: two that are rounded from nearly the same may be.
inline double stored_bound(Element element) {
  return element == Element::kBfloat16 ? 1.0 / 128 : 1e-6;
}
inline std::string element_name(Element element) {
  return element == Element::kBfloat16 ? "bf16" : "fp32";
}
template <typename T>
T* pointer(std::byte* memory, std::size_t offset) {
  return reinterpret_cast<T*>(memory + offset);
}

inline Case embed_case(Element e, std::size_t count, std::size_t context, std::size_t width,
                       std::size_t vocabulary, unsigned seed) {
  CaseMaker make(fmt::format("embedding {} {} x {}, context {}", element_name(e), count, width, context),
                 seed);
  const Kind kind = kind_of(e);
  const std::size_t table = make.numbers(kind, vocabulary * width),
                    places = make.numbers(kind, context * width);
  const std::size_t tokens = make.integers(make.tokens(count, vocabulary));
  const std::size_t out = make.numbers(kind, count * width);
  make.output("out", kind, out, count * width, stored_bound(e), 1e-6);
  return make.made([=](std::byte* m) {
    return Embed{{m + out, e}, {m + table, e}, {m + places, e}, pointer<std::int32_t>(m, tokens),
                 count,        context,        width,           vocabulary};
  });
}

inline Case embed_backward_case(Element e, std::size_t count, std::size_t context, std::size_t width,
                                std::size_t vocabulary, unsigned seed) {
  CaseMaker make(
      fmt::format("embedding backward {} {} x {}, context {}", element_name(e), count, width, context), seed);
  const std::vector<std::int32_t> drawn = make.tokens(count, vocabulary);
  std::vector<std::int32_t> sorted(count), borders;
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::int32_t one, std::int32_t other) {
    return drawn[static_cast<std::size_t>(one)] < drawn[static_cast<std::size_t>(other)];
  });
  for (std::size_t i = 0; i < count; ++i)
    if (i == 0 ||
        drawn[static_cast<std::size_t>(sorted[i])] != drawn[static_cast<std::size_t>(sorted[i - 1])])
      borders.push_back(static_cast<std::int32_t>(i));
  borders.resize(count + 1, static_cast<std::int32_t>(count));
  const std::size_t gradient = make.numbers(kind_of(e), count * width);
  const std::size_t table = make.numbers(Kind::kFloat32, vocabulary * width);
  const std::size_t places = make.numbers(Kind::kFloat32, context * width);
  const std::size_t tokens = make.integers(drawn), order = make.integers(sorted),
                    runs = make.integers(borders);
  // A frequent token's sum has hundreds of terms, whose rounding is a share of what its row has grown to.
  make.output("token gradient", Kind::kFloat32, table, vocabulary * width, 1e-5, 1e-5, 1, width);
  make.output("position gradient", Kind::kFloat32, places, context * width, 1e-5, 1e-5);
  return make.made([=](std::byte* m) {
    return EmbedBackward{pointer<float>(m, table),
                         pointer<float>(m, places),
                         {m + gradient, e},
                         pointer<std::int32_t>(m, tokens),
                         pointer<std::int32_t>(m, order),
                         pointer<std::int32_t>(m, runs),
                         count,
                         context,
                         width,
                         vocabulary};
  });
}

inline Case norm_case(Element e, std::size_t rows, std::size_t width, bool with_residual, unsigned seed) {
  CaseMaker make(fmt::format("layer norm {} {} x {}{}", element_name(e), rows, width,
                             with_residual ? " with residual" : ""),
                 seed);
  const Kind kind = kind_of(e);
  const std::size_t x = make.numbers(kind, rows * width, 2, 0.5), residual = make.numbers(kind, rows * width);
  const std::size_t weight = make.numbers(kind, width, 0.3, 1), bias = make.numbers(kind, width);
  const std::size_t out = make.numbers(kind, rows * width), sum = make.numbers(kind, rows * width);
  const std::size_t mean = make.numbers(Kind::kFloat32, rows), inverse = make.numbers(Kind::kFloat32, rows);
  make.output("out", kind, out, rows * width, stored_bound(e), 1e-5);
  if (with_residual) make.output("sum", kind, sum, rows * width, 0, 0);
  make.output("mean", Kind::kFloat32, mean, rows, 1e-5, 1e-5);
  make.output("inverse deviation", Kind::kFloat32, inverse, rows, 1e-5, 0);
  return make.made([=](std::byte* m) {
    return Norm{{m + out, e},
                {with_residual ? m + sum : nullptr, e},
                {m + x, e},
                {with_residual ? m + residual : nullptr, e},
                {m + weight, e},
                {m + bias, e},
                pointer<float>(m, mean),
                pointer<float>(m, inverse),
                rows,
                width};
  });
}

inline Case norm_backward_case(Element e, std::size_t rows, std::size_t width, unsigned seed) {
  CaseMaker make(fmt::format("layer norm backward {} {} x {}", element_name(e), rows, width), seed);
  const Kind kind = kind_of(e);
  const std::size_t x = make.numbers(kind, rows * width), gradient = make.numbers(kind, rows * width);
  const std::size_t weight = make.numbers(kind, width, 0.3, 1);
  const std::size_t mean = make.numbers(Kind::kFloat32, rows, 0.1);
  const std::size_t inverse = make.numbers(Kind::kFloat32, rows, 0.1, 1);
  const std::size_t x_gradient = make.numbers(kind, rows * width);
  const std::size_t weight_gradient = make.numbers(Kind::kFloat32, width);
  const std::size_t bias_gradient = make.numbers(Kind::kFloat32, width);
  const std::size_t scratch = make.array(Kind::kFloat32, norm_backward_scratch(width));
  make.scratch(scratch, norm_backward_scratch(width) * sizeof(float));
  make.output("x gradient", kind, x_gradient, rows * width, stored_bound(e), 1e-5);
  make.output("weight gradient", Kind::kFloat32, weight_gradient, width, 1e-5, 1e-5);
  make.output("bias gradient", Kind::kFloat32, bias_gradient, width, 1e-5, 1e-5);
  return make.made([=](std::byte* m) {
    return NormBackward{{m + x_gradient, e},
                        {m + gradient, e},
                        {m + x, e},
                        {m + weight, e},
                        pointer<float>(m, weight_gradient),
                        pointer<float>(m, bias_gradient),
                        pointer<float>(m, mean),
                        pointer<float>(m, inverse),
                        pointer<float>(m, scratch),
                        rows,
                        width};
  });
}

/// `e` is that of a and b; a weight gradient's result is fp32 even so (`out`).
inline Case product_case(Element e, Element out_element, std::size_t m, std::size_t n, std::size_t k,
                         bool a_transposed, bool b_transposed, bool accumulate, Epilogue epilogue,
                         unsigned seed) {
  constexpr const char* kNames[] = {"", " + bias", " + bias, GELU", " x GELU'", " and sum of a"};
  CaseMaker make(
      fmt::format("matrix product {}->{} {} x {} x {}{}{}{}{}", element_name(e), element_name(out_element), m,
                  n, k, a_transposed ? " a^T" : "", b_transposed ? " b^T" : "", accumulate ? " +=" : "",
                  kNames[static_cast<int>(epilogue)]),
      seed);
  const Kind kind = kind_of(e), out_kind = kind_of(out_element);
  const std::size_t a = make.numbers(kind, m * k), b = make.numbers(kind, k * n);
  const bool sum_of_a = epilogue == Epilogue::kSumOfA;
  const Element vector_element = sum_of_a ? Element::kFloat32 : out_element;
  const std::size_t vector = make.numbers(kind_of(vector_element), sum_of_a ? m : n);
  const std::size_t auxiliary = make.numbers(out_kind, m * n), out = make.numbers(out_kind, m * n);
  // Where an epilogue is a kernel of its own the product is rounded once more before it.
  const double relative = 3 * stored_bound(out_element),
               share = out_element == e && e == Element::kBfloat16 ? 1.0 / 128 : 1e-5;
  make.output("out", out_kind, out, m * n, relative, share);
  if (sum_of_a) make.output("sum of a", Kind::kFloat32, vector, m, 1e-5, 1e-5);
  if (epilogue == Epilogue::kBiasGelu)
    make.output("before GELU", out_kind, auxiliary, m * n, relative, share);
  return make.made([=](std::byte* memory) {
    Product product;
    product.out = {memory + out, out_element};
    product.a = {memory + a, e};
    product.b = {memory + b, e};
    product.a_transposed = a_transposed;
    product.b_transposed = b_transposed;
    product.accumulate = accumulate;
    product.m = m;
    product.n = n;
    product.k = k;
    product.epilogue = epilogue;
    if (epilogue != Epilogue::kNone && epilogue != Epilogue::kGeluGradient)
      product.vector = {memory + vector, vector_element};
    if (epilogue == Epilogue::kBiasGelu || epilogue == Epilogue::kGeluGradient)
      product.auxiliary = {memory + auxiliary, out_element};
    return product;
  });
}

inline Case add_case(std::size_t count, std::size_t shift, unsigned seed) {
  CaseMaker make(fmt::format("addition of {}, {} from alignment", count, shift), seed);
  const std::size_t to = make.numbers(Kind::kFloat32, count, 1, 0, shift);
  const std::size_t from = make.numbers(Kind::kFloat32, count);
  make.output("to", Kind::kFloat32, to, count, 0, 0);
  return make.made([=](std::byte* m) { return Add{pointer<float>(m, to), pointer<float>(m, from), count}; });
}

// Weights and their gradients are rounded to bf16 before they meet other factors: an error of 2^-9 of each
// term, so that where few large terms nearly cancel, as at a row's first tokens, the error is a share of what
// the head's other numbers are.
inline double attention_relative(Element e) {
  return e == Element::kBfloat16 ? 1.0 / 64 : 1e-5;
}
inline double attention_share(Element e) {
  return e == Element::kBfloat16 ? 1.0 / 64 : 2e-5;
}

inline Case attention_case(Element e, std::size_t rows, std::size_t context, std::size_t heads,
                           std::size_t head_size, unsigned seed) {
  CaseMaker make(
      fmt::format("attention {} {} x {}, {} heads of {}", element_name(e), rows, context, heads, head_size),
      seed);
  const std::size_t width = heads * head_size, tokens = rows * context;
  const Kind kind = kind_of(e);
  const std::size_t qkv = make.numbers(kind, tokens * 3 * width), out = make.numbers(kind, tokens * width);
  const std::size_t log_sum = make.numbers(Kind::kFloat32, tokens * heads);
  make.output("out", kind, out, tokens * width, attention_relative(e), attention_share(e), 1, head_size);
  // A score is a sum of products of either sign, whose standard deviation is 1 here.
  make.output("log sum", Kind::kFloat32, log_sum, tokens * heads, 1e-5, 1e-5, 1, 0, 1);
  return make.made([=](std::byte* m) {
    return Attention{{m + out, e}, {m + qkv, e}, pointer<float>(m, log_sum), rows, context, heads, head_size};
  });
}

inline Case attention_backward_case(Element e, std::size_t rows, std::size_t context, std::size_t heads,
                                    std::size_t head_size, std::size_t scratch_bytes, unsigned seed) {
  CaseMaker make(fmt::format("attention backward {} {} x {}, {} heads of {}", element_name(e), rows, context,
                             heads, head_size),
                 seed);
  const std::size_t width = heads * head_size, tokens = rows * context;
  const Kind kind = kind_of(e);
  const std::size_t qkv = make.numbers(kind, tokens * 3 * width),
                    gradient = make.numbers(kind, tokens * width);
  const std::size_t out = make.numbers(kind, tokens * width);
  const std::size_t log_sum = make.numbers(Kind::kFloat32, tokens * heads);
  const std::size_t qkv_gradient = make.numbers(kind, tokens * 3 * width);
  const std::size_t bytes = std::max(
      scratch_bytes, reference_attention_scratch({{}, {}, nullptr, rows, context, heads, head_size}));
  const std::size_t scratch = make.array(Kind::kFloat32, bytes / 4 + 1);
  make.scratch(scratch, bytes);
  std::byte* const m = make.memory();
  run_reference(
      Attention{{m + out, e}, {m + qkv, e}, pointer<float>(m, log_sum), rows, context, heads, head_size});
  make.output("gradient", kind, qkv_gradient, tokens * 3 * width, attention_relative(e), attention_share(e),
              1, head_size);
  return make.made([=](std::byte* memory) {
    return AttentionBackward{{memory + qkv_gradient, e},
                             {memory + gradient, e},
                             {memory + out, e},
                             {memory + qkv, e},
                             pointer<float>(memory, log_sum),
                             memory + scratch,
                             rows,
                             context,
                             heads,
                             head_size};
  });
}

inline Case cross_entropy_case(Element e, std::size_t rows, std::size_t vocabulary, std::size_t stride,
                               bool gradient, unsigned seed) {
  CaseMaker make(fmt::format("cross-entropy {} {} x {} of {}{}", element_name(e), rows, vocabulary, stride,
                             gradient ? " with gradient" : ""),
                 seed);
  const Kind kind = kind_of(e);
  constexpr double kMeanScore = 5;
  const std::size_t scores = make.numbers(kind, rows * stride, 3, kMeanScore);
  const std::size_t targets = make.integers(make.tokens(rows, vocabulary));
  const std::size_t losses = make.numbers(Kind::kFloat32, rows);
  make.output("losses", Kind::kFloat32, losses, rows, 1e-5, 1e-5, 1, 0, kMeanScore);
  if (gradient)  // Of a target that is nearly certain the gradient is a small difference.
    make.output("gradient", kind, scores, rows * stride, 2e-5 + stored_bound(e), 1e-4);
  return make.made([=](std::byte* m) {
    return CrossEntropy{{m + scores, e},
                        pointer<float>(m, losses),
                        pointer<std::int32_t>(m, targets),
                        rows,
                        vocabulary,
                        stride,
                        0.125F,
                        gradient};
  });
}

inline Case sum_case(std::size_t count, bool squares, std::size_t shift, unsigned seed) {
  CaseMaker make(fmt::format("sum of {}{}, {} from alignment", count, squares ? " squares" : "", shift),
                 seed);
  const std::size_t x = make.numbers(Kind::kFloat32, count, 1, 0.1, shift);
  const std::size_t sum = make.positive(Kind::kFloat64, 1, 1);  // so that nothing cancels
  const std::size_t scratch = make.array(Kind::kFloat64, kSumScratch);
  make.scratch(scratch, kSumScratch * sizeof(double));
  // A sum of both signs is small beside its terms.
  make.output("sum", Kind::kFloat64, sum, 1, squares ? 1e-6 : 1e-4, 0);
  return make.made([=](std::byte* m) {
    return Sum{pointer<double>(m, sum), pointer<float>(m, x), pointer<double>(m, scratch), count, squares};
  });
}

inline Case adamw_case(Element moments, bool copy, const std::vector<Range>& ranges, std::size_t size,
                       unsigned seed) {
  CaseMaker make(fmt::format("AdamW, moments {}{}, {} ranges of {}", element_name(moments),
                             copy ? ", copy" : "", ranges.size(), size),
                 seed);
  const Kind kind = kind_of(moments);
  const std::size_t parameters = make.numbers(Kind::kFloat32, size, 0.02);
  const std::size_t copies = make.numbers(Kind::kBfloat16, size);
  const std::size_t gradients = make.numbers(Kind::kFloat32, size);
  const std::size_t first = make.numbers(kind, size, 0.1), second = make.positive(kind, size, 0.2);
  const std::size_t list = make.array(Kind::kInteger, ranges.size() * sizeof(Range) / 4);
  std::memcpy(make.memory() + list, ranges.data(), ranges.size() * sizeof(Range));
  AdamW options;
  options.weight_decay = 0.1;
  options.clip = 1;
  const std::size_t step = make.object(adamw_step(options, 6, 3.0));
  const std::size_t number_of_step = make.object(std::int64_t{6});
  std::size_t largest = 0;
  for (const Range& range : ranges) largest = std::max<std::size_t>(largest, range.count);
  // A rounding at random goes the other way in few places, where the last bits of what is rounded differ.
  const double differing = moments == Element::kBfloat16 ? 0.01 : 1;
  const double moment_bound = moments == Element::kBfloat16 ? 1.0 / 128 : 1e-5;
  make.output("parameters", Kind::kFloat32, parameters, size, 1e-5, 1e-6);
  make.output("first moment", kind, first, size, moment_bound, 1e-6, differing);
  make.output("second moment", kind, second, size, moment_bound, 1e-6, differing);
  if (copy) make.output("copy", Kind::kBfloat16, copies, size, stored_bound(Element::kBfloat16), 1e-6);
  return make.made([=, count = ranges.size()](std::byte* m) {
    return AdamWUpdate{pointer<float>(m, parameters),
                       {copy ? m + copies : nullptr, Element::kBfloat16},
                       {m + first, moments},
                       {m + second, moments},
                       pointer<float>(m, gradients),
                       pointer<Range>(m, list),
                       count,
                       largest,
                       size,
                       pointer<AdamWStep>(m, step),
                       pointer<std::int64_t>(m, number_of_step)};
  });
}

inline Case convert_case(Element to, Element from, std::size_t count, std::size_t shift, unsigned seed) {
  CaseMaker make(fmt::format("conversion {} to {} of {}, {} from alignment", element_name(from),
                             element_name(to), count, shift),
                 seed);
  const std::size_t source = make.numbers(kind_of(from), count);
  const std::size_t target = make.numbers(kind_of(to), count, 1, 0, shift);
  make.output("to", kind_of(to), target, count, 0, 0);
  return make.made([=](std::byte* m) { return Convert{{m + target, to}, {m + source, from}, count}; });
}

/// How large the cases are: emulated threads are slow, a GPU is not.
enum class Size { kSmall, kLarge };

/// Every operation but products, one after another, since the large ones are large. `scratch`: the bytes that
/// AttentionBackward of a shape takes.
inline void for_operation_cases(Size size, unsigned seed,
                                const std::function<std::size_t(const Attention&)>& scratch,
                                const std::function<void(const Case&)>& each) {
  const bool large = size == Size::kLarge;
  for (const Element e : {Element::kFloat32, Element::kBfloat16}) {
    each(embed_case(e, 37, 16, 20, 50, ++seed));
    each(embed_case(e, 40, 32, 768, 90, ++seed));
    each(embed_backward_case(e, 37, 16, 20, 50, ++seed));
    each(embed_backward_case(e, 90, 64, 264, 7, ++seed));
    each(embed_backward_case(e, 10, 16, 8, 300, ++seed));
    for (const bool residual : {false, true}) {
      each(norm_case(e, 5, 20, residual, ++seed));
      each(norm_case(e, 19, 768, residual, ++seed));
      each(norm_case(e, 3, 1600, residual, ++seed));
      each(norm_case(e, 2, 4099, residual, ++seed));
      each(norm_case(e, 1, 16384, residual, ++seed));
    }
    each(norm_backward_case(e, 5, 20, ++seed));
    each(norm_backward_case(e, 35, 768, ++seed));
    each(norm_backward_case(e, 9, 1600, ++seed));
    each(norm_backward_case(e, 3, 4099, ++seed));
    // More rows than parts; where a row takes the whole block these are few.
    if (large || e == Element::kFloat32) each(norm_backward_case(e, 258, 8200, ++seed));
    for (const bool gradient : {false, true}) {
      each(cross_entropy_case(e, 3, 50, 64, gradient, ++seed));
      each(cross_entropy_case(e, 2, 50, 51, gradient, ++seed));
      each(cross_entropy_case(e, 2, 5003, 5120, gradient, ++seed));
    }
    struct Heads {
      std::size_t rows, context, heads, head_size;
    };
    std::vector<Heads> shapes{{1, 1, 1, 64}, {1, 70, 1, 96}, {1, 33, 2, 20}, {1, 9, 1, 256}};
    if (large || e == Element::kBfloat16) {
      shapes.push_back({2, 130, 2, 64});
      shapes.push_back({1, 97, 2, 80});
      shapes.push_back({1, 135, 1, 128});
    }
    if (large) {
      shapes.push_back({2, 1024, 3, 64});
      shapes.push_back({1, 777, 2, 80});
      shapes.push_back({1, 513, 2, 96});
      shapes.push_back({1, 640, 2, 128});
    }
    for (const Heads& s : shapes) {
      each(attention_case(e, s.rows, s.context, s.heads, s.head_size, ++seed));
      each(attention_backward_case(
          e, s.rows, s.context, s.heads, s.head_size,
          scratch({{nullptr, e}, {nullptr, e}, nullptr, s.rows, s.context, s.heads, s.head_size}), ++seed));
    }
    const std::vector<Range> ranges{{0, 5000, 1}, {5008, 16, 0}, {5027, 40, 1}, {5080, 1, 0}, {5088, 123, 1}};
    each(adamw_case(e, true, ranges, 5300, ++seed));
    each(adamw_case(e, false, ranges, 5300, ++seed));
    for (const Element from : {Element::kFloat32, Element::kBfloat16}) {
      each(convert_case(e, from, 5003, 0, ++seed));
      each(convert_case(e, from, 100, 3, ++seed));
    }
    if (large) {
      each(embed_case(e, 8192, 1024, 768, 50304, ++seed));
      each(embed_backward_case(e, 8192, 1024, 768, 50304, ++seed));
      each(norm_case(e, 8192, 768, true, ++seed));
      each(norm_case(e, 1023, 12288, true, ++seed));
      each(norm_backward_case(e, 8192, 768, ++seed));
      each(norm_backward_case(e, 2047, 1600, ++seed));
      each(cross_entropy_case(e, 257, 50257, 50304, true, ++seed));
      each(convert_case(e, Element::kFloat32, 3000001, 0, ++seed));
    }
  }
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{4099}, large ? std::size_t{5000003} : std::size_t{70000}})
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
      each(add_case(count, shift, ++seed));
      each(sum_case(count, true, shift, ++seed));
      each(sum_case(count, false, shift, ++seed));
    }
}

/// The products of a stage: forward, the gradient by the input, the gradient by the weight.
inline void for_product_cases(unsigned seed, const std::function<void(const Case&)>& each) {
  struct Linear {
    std::size_t tokens, in, out;
  };
  for (const Element e : {Element::kFloat32, Element::kBfloat16})
    for (const Linear s : {Linear{1, 64, 128}, Linear{48, 64, 96}, Linear{37, 20, 33}, Linear{1100, 16, 24},
                           Linear{256, 768, 2304}}) {
      for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kBias, Epilogue::kBiasGelu})
        each(product_case(e, e, s.tokens, s.out, s.in, false, true, false, epilogue, ++seed));
      each(product_case(e, e, s.tokens, s.out, s.in, false, true, true, Epilogue::kBias, ++seed));
      each(product_case(e, e, s.tokens, s.out, s.in, false, true, true, Epilogue::kNone, ++seed));
      for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kGeluGradient})
        each(product_case(e, e, s.tokens, s.in, s.out, false, false, false, epilogue, ++seed));
      for (const bool accumulate : {false, true})
        for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kSumOfA})
          each(product_case(e, Element::kFloat32, s.out, s.in, s.tokens, true, false, accumulate, epilogue,
                            ++seed));
    }
}

/// Where `found` is not what the case allows: a line that says what is wrong and where; empty where all is
/// right. Memory that is neither output nor scratch must not have changed.
inline std::string difference(const Case& c, const std::vector<std::byte>& expected,
                              const std::vector<std::byte>& found) {
  std::vector<bool> free_to_change(found.size());
  const auto frees = [&](std::size_t offset, std::size_t bytes) {
    std::fill_n(free_to_change.begin() + static_cast<std::ptrdiff_t>(offset), bytes, true);
  };
  for (const auto& [offset, bytes] : c.scratch) frees(offset, bytes);
  for (const Output& o : c.outputs) {
    const std::size_t size = kind_bytes(o.kind);
    frees(o.offset, o.count * size);
    const auto root_mean_square = [&](std::size_t first, std::size_t count) {
      double squares = 0;
      for (std::size_t i = first; i < first + count; ++i) {
        const double value = number(expected.data() + o.offset + i * size, o.kind);
        squares += value * value;
      }
      return std::sqrt(squares / static_cast<double>(count));
    };
    const double of_all = o.share * std::max(root_mean_square(0, o.count), o.terms);
    double share = of_all;
    std::size_t differing = 0;
    for (std::size_t i = 0; i < o.count; ++i) {
      if (o.row != 0 && i % o.row == 0)
        share = of_all + o.share * root_mean_square(i, std::min(o.row, o.count - i));
      const double right = number(expected.data() + o.offset + i * size, o.kind);
      const double mine = number(found.data() + o.offset + i * size, o.kind);
      const double bound = o.relative * std::abs(right) + share;
      if (!(std::abs(mine - right) <= bound))
        return fmt::format("{}: {}[{}] of {} is {}, but must be {} within {}", c.name, o.what, i, o.count,
                           mine, right, bound);
      differing += mine != right ? 1 : 0;
    }
    if (static_cast<double>(differing) > o.differing * static_cast<double>(o.count))
      return fmt::format("{}: {} of {} of {} differ, but {} of them may", c.name, differing, o.count, o.what,
                         o.differing);
  }
  for (std::size_t at = 0; at < found.size(); ++at)
    if (!free_to_change[at] && found[at] != c.memory[at])
      return fmt::format("{}: byte {} was written, which is no output", c.name, at);
  return {};
}

/// The case's memory after run_reference.
inline std::vector<std::byte> reference_of(const Case& c) {
  std::vector<std::byte> memory = c.memory;
  run_reference(c.at(memory.data()));
  return memory;
}

}  // namespace tombolo::trainer::cuda::testing
