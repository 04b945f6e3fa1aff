#include "planner/model/precision.h"

#include "planner/model/names.h"

namespace tombolo::planner {

namespace {

constexpr NameTable<Precision, 6> kPrecisions{{{Precision::kFp32, "fp32"},
                                               {Precision::kTf32, "tf32"},
                                               {Precision::kFp16, "fp16"},
                                               {Precision::kBf16, "bf16"},
                                               {Precision::kFp8Hybrid, "fp8-hybrid"},
                                               {Precision::kFp8E4m3, "fp8-e4m3"}}};

}  // namespace

std::string_view precision_name(Precision precision) noexcept {
  return name_in(kPrecisions, precision);
}

std::optional<Precision> precision_from_name(std::string_view name) noexcept {
  return value_in(kPrecisions, name);
}

}  // namespace tombolo::planner
