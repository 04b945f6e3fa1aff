// Checks which instruction set the kernels use, and how fast they are.
#include "base/format.h"
#include "tools/doctor/checks.h"

namespace tombolo::doctor {
namespace {

// Matrix products that are blocked well attain 80 to 95 % of a core's peak; less than this share indicates a
// problem.
constexpr double kLeastShare = 0.5;

}  // namespace

std::vector<Check> check_processor(const Facts& facts) {
  if (!facts.products) {
    if (facts.why_no_products.empty()) return {};
    return {{"matrix products", Status::kFailed, facts.why_no_products,
             "unset it, or set it to what this processor has"}};
  }
  const compute::ProductSpeed& speed = *facts.products;
  Check check{"matrix products", Status::kOk, speed.text(), {}};
  if (speed.used < speed.most) {
    check.status = Status::kWarning;
    check.advice = fmt::format("this processor has {}; unset TOMBOLO_INSTRUCTION_SET to use it",
                               compute::instruction_set_name(speed.most));
  } else if (speed.attained < kLeastShare * speed.peak) {
    check.status = Status::kWarning;
    check.advice =
        "that is far below what the processor's instructions promise: look for other work that shares its "
        "caches, a "
        "build without optimisation, or an emulated processor";
  }
  return {check};
}

}  // namespace tombolo::doctor
