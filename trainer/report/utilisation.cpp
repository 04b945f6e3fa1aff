#include "trainer/report/utilisation.h"

namespace tombolo::trainer {

double training_flops_per_token(const Shape& shape) noexcept {
  const auto parameters = static_cast<double>(parameter_count(shape));
  return 6 * parameters + 6.0 * shape.layers * shape.width * shape.context;
}

double utilisation(const Shape& shape, double tokens_per_second, double peak) noexcept {
  return peak > 0 ? training_flops_per_token(shape) * tokens_per_second / peak : 0;
}

}  // namespace tombolo::trainer
