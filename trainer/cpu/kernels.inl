// The kernels' one source. Each kernels_<set>.cpp includes it under its own target pragma and namespace, and
// includes nothing else that defines inline functions: the linker might otherwise keep a copy that needs
// AVX-512 for the whole program.
//
// A Vector is always 16 floats, in as many registers as the instruction set needs: kRegisterLanes floats fit
// one. (A vector type of 16 floats would do for compilers' own splitting, but gcc 12 takes it through memory
// where registers are narrower.)

namespace {

#define TOMBOLO_INLINE inline __attribute__((always_inline))

constexpr std::size_t kLanes = 16;
constexpr std::size_t kRegisters = kLanes / kRegisterLanes;
typedef float Register __attribute__((vector_size(4 * kRegisterLanes)));
typedef std::int32_t IntegerRegister __attribute__((vector_size(4 * kRegisterLanes)));

struct Vector {
  Register part[kRegisters];
};

#define TOMBOLO_OPERATOR(OPERATOR)                                                                   \
  TOMBOLO_INLINE Vector operator OPERATOR(Vector left, const Vector& right) {                        \
    for (std::size_t i = 0; i < kRegisters; ++i) left.part[i] = left.part[i] OPERATOR right.part[i]; \
    return left;                                                                                     \
  }                                                                                                  \
  TOMBOLO_INLINE Vector operator OPERATOR(Vector left, float right) {                                \
    for (std::size_t i = 0; i < kRegisters; ++i) left.part[i] = left.part[i] OPERATOR right;         \
    return left;                                                                                     \
  }                                                                                                  \
  TOMBOLO_INLINE Vector operator OPERATOR(float left, Vector right) {                                \
    for (std::size_t i = 0; i < kRegisters; ++i) right.part[i] = left OPERATOR right.part[i];        \
    return right;                                                                                    \
  }
TOMBOLO_OPERATOR(+)
TOMBOLO_OPERATOR(-)
TOMBOLO_OPERATOR(*)
TOMBOLO_OPERATOR(/)
#undef TOMBOLO_OPERATOR

TOMBOLO_INLINE void operator+=(Vector& left, const Vector& right) {
  left = left + right;
}

TOMBOLO_INLINE Vector splat(float value) {
  Vector result;
  for (Register& part : result.part) part = value - Register{};  // x - 0 is x for every x
  return result;
}

// Register by register: gcc 12 copies a whole Vector in pieces of 16 bytes, and a wider load right after them
// waits for memory. A row's rest goes through an array of its own, so that full vectors stay in registers.
TOMBOLO_INLINE Vector load_full(const float* from) {
  Vector result;
  for (std::size_t i = 0; i < kRegisters; ++i)
    __builtin_memcpy(&result.part[i], from + i * kRegisterLanes, sizeof(Register));
  return result;
}
TOMBOLO_INLINE void store_full(float* to, const Vector& value) {
  for (std::size_t i = 0; i < kRegisters; ++i)
    __builtin_memcpy(to + i * kRegisterLanes, &value.part[i], sizeof(Register));
}

/// `left` values are there; missing lanes become `fill`.
TOMBOLO_INLINE Vector load(const float* from, std::size_t left, float fill = 0) {
  if (left >= kLanes) return load_full(from);
  float lanes[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lane < left ? from[lane] : fill;
  return load_full(lanes);
}

TOMBOLO_INLINE void store(float* to, const Vector& value, std::size_t left) {
  if (left >= kLanes) return store_full(to, value);
  float lanes[kLanes];
  store_full(lanes, value);
  for (std::size_t lane = 0; lane < left; ++lane) to[lane] = lanes[lane];
}

TOMBOLO_INLINE Register larger(Register left, Register right) {
  return left > right ? left : right;
}
TOMBOLO_INLINE Register smaller(Register left, Register right) {
  return left < right ? left : right;
}
TOMBOLO_INLINE Vector larger(Vector left, const Vector& right) {
  for (std::size_t i = 0; i < kRegisters; ++i) left.part[i] = larger(left.part[i], right.part[i]);
  return left;
}
TOMBOLO_INLINE Vector smaller(Vector left, const Vector& right) {
  for (std::size_t i = 0; i < kRegisters; ++i) left.part[i] = smaller(left.part[i], right.part[i]);
  return left;
}

/// One value of all lanes: lane by lane with the other half, quarter, eighth, sixteenth. A fixed tree, so
/// that every instruction set adds in the same order; what crosses registers of any width is done on four
/// floats, which all have.
template <typename Combine>
TOMBOLO_INLINE float fold(const Vector& value, const Combine& combine) {
  typedef float Quad __attribute__((vector_size(16)));
  Quad quads[4];
  __builtin_memcpy(quads, &value, sizeof quads);
  const Quad halves[2] = {combine(quads[0], quads[2]), combine(quads[1], quads[3])};
  Quad all = combine(halves[0], halves[1]);
  all = combine(all, __builtin_shufflevector(all, all, 2, 3, 0, 1));
  all = combine(all, __builtin_shufflevector(all, all, 1, 0, 3, 2));
  return all[0];
}

TOMBOLO_INLINE float sum(const Vector& value) {
  return fold(
      value, [](auto left, auto right) __attribute__((always_inline)) { return left + right; });
}

TOMBOLO_INLINE float largest(const Vector& value) {
  return fold(
      value,
      [](auto left, auto right) __attribute__((always_inline)) { return left > right ? left : right; });
}

/// exp within 2 units in the last place on [-87, 88]; clamped outside; NaN of NaN. x = n ln 2 + r, |r| <= ln 2
/// / 2; the polynomial is exp's Taylor series to r^7, whose remainder there is below 2^-24 of the value.
TOMBOLO_INLINE Register exponential(Register x) {
  // Both comparisons are false for NaN, and then the second operand is taken. The exponent below becomes 0
  // for it, because the conversion's result, which is x86's, has a last byte of zeros.
  x = smaller(88.0F - Register{}, larger(-87.0F - Register{}, x));
  constexpr float kRound = 12582912.0F;  // 1.5 x 2^23: adding it rounds to an integer
  const Register shifted = x * 1.44269504F + kRound;
  const Register n = shifted - kRound;
  // ln 2 in two parts; the first has so few bits that n times it is exact.
  const Register r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  Register p = 1.0F / 5040 - Register{};
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const IntegerRegister exponent = __builtin_convertvector(n, IntegerRegister) << 23;
  IntegerRegister bits;
  __builtin_memcpy(&bits, &p, sizeof bits);
  bits += exponent;
  __builtin_memcpy(&p, &bits, sizeof p);
  return p;
}
TOMBOLO_INLINE Vector exponential(Vector x) {
  for (Register& part : x.part) part = exponential(part);
  return x;
}

void add_bias(float* out, const float* x, const float* bias, std::size_t rows, std::size_t width) {
  for (std::size_t row = 0; row < rows; ++row, out += width, x += width)
    for (std::size_t at = 0; at < width; at += kLanes)
      store(out + at, load(x + at, width - at) + load(bias + at, width - at), width - at);
}

void sum_rows(float* bias_gradient, const float* gradient, std::size_t rows, std::size_t width) {
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4, gradient += 4 * width)
    for (std::size_t at = 0; at < width; at += kLanes) {
      const std::size_t left = width - at;
      const float* from = gradient + at;
      const Vector pair = load(from, left) + load(from + width, left);
      const Vector other = load(from + 2 * width, left) + load(from + 3 * width, left);
      store(bias_gradient + at, load(bias_gradient + at, left) + (pair + other), left);
    }
  for (; row < rows; ++row, gradient += width)
    for (std::size_t at = 0; at < width; at += kLanes)
      store(bias_gradient + at, load(bias_gradient + at, width - at) + load(gradient + at, width - at),
            width - at);
}

void embed(float* out, const std::int32_t* tokens, const float* embedding, const float* positions,
           std::size_t count, std::size_t context, std::size_t width) {
  for (std::size_t token = 0; token < count; ++token)
    add_bias(out + token * width, embedding + static_cast<std::size_t>(tokens[token]) * width,
             positions + token % context * width, 1, width);
}

void embed_backward(float* embedding_gradient, float* position_gradient, const float* gradient,
                    const std::int32_t* tokens, std::size_t count, std::size_t context, std::size_t width) {
  for (std::size_t token = 0; token < count; ++token) {
    sum_rows(embedding_gradient + static_cast<std::size_t>(tokens[token]) * width, gradient + token * width,
             1, width);
    sum_rows(position_gradient + token % context * width, gradient + token * width, 1, width);
  }
}

void norm(float* out, float* mean, float* inverse, const float* x, const float* weight, const float* bias,
          std::size_t rows, std::size_t width) {
  const float share = 1.0F / static_cast<float>(width);
  for (std::size_t row = 0; row < rows; ++row, out += width, x += width) {
    Vector total{};
    for (std::size_t at = 0; at < width; at += kLanes) total += load(x + at, width - at);
    const float middle = sum(total) * share;
    Vector squares{};
    for (std::size_t at = 0; at < width; at += kLanes) {
      const Vector off = load(x + at, width - at, middle) - middle;
      squares += off * off;
    }
    const float scale = 1.0F / __builtin_sqrtf(sum(squares) * share + 1e-5F);
    for (std::size_t at = 0; at < width; at += kLanes) {
      const std::size_t left = width - at;
      store(out + at, (load(x + at, left) - middle) * scale * load(weight + at, left) + load(bias + at, left),
            left);
    }
    mean[row] = middle;
    inverse[row] = scale;
  }
}

void norm_backward(float* x_gradient, float* weight_gradient, float* bias_gradient, const float* gradient,
                   const float* x, const float* mean, const float* inverse, const float* weight,
                   std::size_t rows, std::size_t width) {
  const float share = 1.0F / static_cast<float>(width);
  for (std::size_t row = 0; row < rows; ++row, gradient += width, x += width, x_gradient += width) {
    const float middle = mean[row];
    const float scale = inverse[row];
    Vector total{};
    Vector product{};
    for (std::size_t at = 0; at < width; at += kLanes) {
      const std::size_t left = width - at;
      const Vector g = load(gradient + at, left);
      const Vector normal = (load(x + at, left) - middle) * scale;
      const Vector inner = g * load(weight + at, left);
      total += inner;
      product += inner * normal;
      store(weight_gradient + at, load(weight_gradient + at, left) + g * normal, left);
      store(bias_gradient + at, load(bias_gradient + at, left) + g, left);
    }
    const float mean_inner = sum(total) * share;
    const float mean_product = sum(product) * share;
    for (std::size_t at = 0; at < width; at += kLanes) {
      const std::size_t left = width - at;
      const Vector normal = (load(x + at, left) - middle) * scale;
      const Vector inner = load(gradient + at, left) * load(weight + at, left);
      store(x_gradient + at,
            load(x_gradient + at, left) + (inner - mean_inner - normal * mean_product) * scale, left);
    }
  }
}

constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

/// (1 + tanh u) / 2 = 1 / (1 + exp(-2u)): no cancellation anywhere.
TOMBOLO_INLINE Vector gelu_gate(Vector x) {
  const Vector u = kGeluScale * x * (1.0F + kGeluCubic * x * x);
  return 1.0F / (1.0F + exponential(-2.0F * u));
}

void gelu(float* out, const float* x, std::size_t count) {
  for (std::size_t at = 0; at < count; at += kLanes) {
    const Vector value = load(x + at, count - at);
    store(out + at, value * gelu_gate(value), count - at);
  }
}

void gelu_backward(float* gradient, const float* x, float* bias_gradient, std::size_t rows,
                   std::size_t width) {
  for (std::size_t row = 0; row < rows; ++row, gradient += width, x += width)
    for (std::size_t at = 0; at < width; at += kLanes) {
      const std::size_t left = width - at;
      const Vector value = load(x + at, left);
      const Vector gate = gelu_gate(value);
      const Vector slope = 2.0F * kGeluScale * (1.0F + 3.0F * kGeluCubic * value * value);
      const Vector result = load(gradient + at, left) * (gate + value * gate * (1.0F - gate) * slope);
      store(gradient + at, result, left);
      store(bias_gradient + at, load(bias_gradient + at, left) + result, left);
    }
}

// Value of missing lanes in a softmax: its exp is practically 0.
constexpr float kNothing = -1e30F;

/// exp(x - largest) in place; returns the sum.
TOMBOLO_INLINE float exponentials(float* row, std::size_t count, float top) {
  Vector total{};
  for (std::size_t at = 0; at < count; at += kLanes) {
    const Vector value = exponential(load(row + at, count - at, kNothing) - top);
    store(row + at, value, count - at);
    total += value;
  }
  return sum(total);
}

TOMBOLO_INLINE float top_of(const float* row, std::size_t count) {
  Vector top = splat(kNothing);
  for (std::size_t at = 0; at < count; at += kLanes) top = larger(top, load(row + at, count - at, kNothing));
  return largest(top);
}

void causal_softmax(float* scores, std::size_t first, std::size_t rows, std::size_t width,
                    std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row, scores += stride) {
    const std::size_t count = first + row + 1;
    const float scale = 1.0F / exponentials(scores, count, top_of(scores, count));
    for (std::size_t at = 0; at < count; at += kLanes)
      store(scores + at, load(scores + at, count - at) * scale, count - at);
    for (std::size_t at = count; at < width; ++at) scores[at] = 0;
  }
}

void softmax_backward(float* gradient, const float* probabilities, std::size_t rows, std::size_t width,
                      std::size_t gradient_stride, std::size_t probability_stride, float scale) {
  for (std::size_t row = 0; row < rows;
       ++row, gradient += gradient_stride, probabilities += probability_stride) {
    Vector total{};
    for (std::size_t at = 0; at < width; at += kLanes)
      total += load(gradient + at, width - at) * load(probabilities + at, width - at);
    const float inner = sum(total);
    for (std::size_t at = 0; at < width; at += kLanes) {
      const std::size_t left = width - at;
      store(gradient + at, load(probabilities + at, left) * (load(gradient + at, left) - inner) * scale,
            left);
    }
  }
}

double cross_entropy(float* scores, const std::int32_t* targets, std::size_t rows, std::size_t width,
                     float scale) {
  double losses = 0;
  for (std::size_t row = 0; row < rows; ++row, scores += width) {
    const float top = top_of(scores, width);
    const float target = scores[targets[row]];
    const float total = exponentials(scores, width, top);
    losses += static_cast<double>(__builtin_logf(total)) - static_cast<double>(target - top);
    const float factor = scale / total;
    for (std::size_t at = 0; at < width; at += kLanes)
      store(scores + at, load(scores + at, width - at) * factor, width - at);
    scores[targets[row]] -= scale;
  }
  return losses;
}

double square_sum(const float* x, std::size_t count) {
  double total = 0;
  constexpr std::size_t kPiece = 1024;  // short enough for float partial sums
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    const std::size_t piece = count - begin < kPiece ? count - begin : kPiece;
    Vector squares{};
    for (std::size_t at = 0; at < piece; at += kLanes) {
      const Vector value = load(x + begin + at, piece - at);
      squares += value * value;
    }
    total += static_cast<double>(sum(squares));
  }
  return total;
}

TOMBOLO_INLINE Vector square_root(Vector value) {
  float lanes[kLanes];
  store_full(lanes, value);
  for (float& lane : lanes) lane = __builtin_sqrtf(lane);
  return load_full(lanes);
}

void adamw(float* parameters, const float* gradients, float* first_moment, float* second_moment,
           std::size_t count, const AdamWStep& step, float decay) {
  const AdamWStep s = step;
  for (std::size_t at = 0; at < count; at += kLanes) {
    const std::size_t left = count - at;
    const Vector g = load(gradients + at, left) * s.gradient_scale;
    const Vector m = s.beta1 * load(first_moment + at, left) + (1.0F - s.beta1) * g;
    const Vector v = s.beta2 * load(second_moment + at, left) + (1.0F - s.beta2) * (g * g);
    const Vector p = load(parameters + at, left) * decay;
    store(first_moment + at, m, left);
    store(second_moment + at, v, left);
    store(parameters + at, p - s.rate * m / (square_root(v) * s.root_scale + s.epsilon), left);
  }
}

constexpr Kernels table(std::string_view name) {
  return {name,          sum_rows,   embed,         embed_backward, norm,
          norm_backward, gelu,       gelu_backward, causal_softmax, softmax_backward,
          cross_entropy, square_sum, adamw};
}

}  // namespace
