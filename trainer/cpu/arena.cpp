#include "trainer/cpu/arena.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::trainer::cpu {

Arena::Arena(std::size_t floats, std::string_view what) : size_(aligned(floats)) {
  if (size_ == 0) return;
  data_.reset(static_cast<float*>(std::aligned_alloc(kAlignment * sizeof(float), bytes())));
  if (!data_) fail(Cause::kSystem, "no memory for {}: {}", what, format_size(bytes()));
  std::memset(data_.get(), 0, bytes());
}

void Arena::Free::operator()(float* data) const noexcept {
  std::free(data);
}

}  // namespace tombolo::trainer::cpu
