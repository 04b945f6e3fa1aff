#include "compute/instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/error.h"

namespace tombolo::compute {
namespace {

constexpr Parameter kInstructionSetParameter = {"TOMBOLO_INSTRUCTION_SET", ParameterType::kChoice, "auto",
                                                "The most that kernels for processors may use; auto is what "
                                                "this one has. For comparisons: less is slower.",
                                                "auto|baseline|avx2|avx512"};

template <typename Word>
constexpr bool has_all(Word word, Word bits) noexcept {
  return (word & bits) == bits;
}

// Bits of leaf 1's ECX.
constexpr std::uint32_t kFma = 1U << 12, kMovbe = 1U << 22, kXsave = 1U << 27, kAvx = 1U << 28,
                        kF16c = 1U << 29;
// Bits of leaf 7's EBX.
constexpr std::uint32_t kBmi1 = 1U << 3, kAvx2 = 1U << 5, kBmi2 = 1U << 8, kAvx512F = 1U << 16,
                        kAvx512Dq = 1U << 17, kAvx512Cd = 1U << 28, kAvx512Bw = 1U << 30,
                        kAvx512Vl = 1U << 31;
// A bit of leaf 7, subleaf 1's EAX.
constexpr std::uint32_t kAvx512Bf16 = 1U << 5;
// Bits of XCR0: 128-bit and 256-bit registers; then mask registers and both parts of the 512-bit ones.
constexpr std::uint64_t kSavesAvx = 0x6, kSavesAvx512 = 0xe6;

}  // namespace

InstructionSet choose_instruction_set(std::string_view wanted, InstructionSet most) {
  for (const InstructionSet set :
       {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (wanted != instruction_set_name(set)) continue;
    if (set > most)
      fail(Cause::kInvalidUsage, "{}={}: this processor has {} at most; leave it unset or name less",
           kInstructionSetParameter.name, wanted, instruction_set_name(most));
    return set;
  }
  return most;
}

std::string_view instruction_set_name(InstructionSet set) noexcept {
  switch (set) {
    case InstructionSet::kBaseline:
      return "baseline";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "unknown";
}

Cpuid read_cpuid() noexcept {
  Cpuid result;
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) result.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    result.leaf7_ebx = ebx;
    const std::uint32_t last_subleaf = eax;
    if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) result.leaf7_1_eax = eax;
  }
  if (has_all(result.leaf1_ecx, kXsave)) {
    std::uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    result.xcr0 = (static_cast<std::uint64_t>(high) << 32) | low;
  }
#endif
  return result;
}

InstructionSet instruction_set_of(const Cpuid& cpuid) noexcept {
  if (!has_all(cpuid.leaf1_ecx, kFma | kMovbe | kXsave | kAvx | kF16c) ||
      !has_all(cpuid.leaf7_ebx, kBmi1 | kAvx2 | kBmi2) || !has_all(cpuid.xcr0, kSavesAvx))
    return InstructionSet::kBaseline;
  if (!has_all(cpuid.leaf7_ebx, kAvx512F | kAvx512Dq | kAvx512Cd | kAvx512Bw | kAvx512Vl) ||
      !has_all(cpuid.xcr0, kSavesAvx512))
    return InstructionSet::kAvx2;
  return InstructionSet::kAvx512;
}

bool multiplies_bfloat16(const Cpuid& cpuid) noexcept {
  return instruction_set_of(cpuid) == InstructionSet::kAvx512 && has_all(cpuid.leaf7_1_eax, kAvx512Bf16);
}

bool bfloat16_kernels() {
  static const bool may = instruction_set() == InstructionSet::kAvx512 && multiplies_bfloat16(read_cpuid());
  return may;
}

InstructionSet instruction_set() {
  static const InstructionSet set =
      choose_instruction_set(kInstructionSetParameter.choice(), instruction_set_of(read_cpuid()));
  return set;
}

const std::vector<const Parameter*>& compute_parameters() {
  static const std::vector<const Parameter*> all{&kInstructionSetParameter};
  return all;
}

}  // namespace tombolo::compute
