// Which vector instructions this processor has: kernels are chosen by its capabilities, never by its model.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/parameter.h"

namespace tombolo::compute {

/// The sets, the smallest first; each includes those before it.
enum class InstructionSet {
  kBaseline,  ///< what every x86-64 processor has (SSE2), and every other architecture
  kAvx2,      ///< x86-64-v3: AVX2, FMA, F16C
  kAvx512,    ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL
};

/// "baseline", "avx2", "avx512".
std::string_view instruction_set_name(InstructionSet set) noexcept;

/// Those parts of the instruction CPUID and of the register XCR0 that matter (Intel's Software Developer's
/// Manual, volume 2, CPUID).
struct Cpuid {
  std::uint32_t leaf1_ecx = 0;
  std::uint32_t leaf7_ebx = 0;
  std::uint32_t leaf7_1_eax = 0;  ///< leaf 7, subleaf 1
  std::uint64_t xcr0 = 0;         ///< which registers the operating system saves; 0 where it uses no XSAVE
};

/// The values of this machine; all 0 where there is no CPUID.
Cpuid read_cpuid() noexcept;

/// The largest set that a processor with these values has.
InstructionSet instruction_set_of(const Cpuid& cpuid) noexcept;

/// Whether a processor with these values multiplies bfloat16 (AVX512_BF16 in addition to kAvx512).
bool multiplies_bfloat16(const Cpuid& cpuid) noexcept;

/// The set named `wanted`, or `most` for "auto". Throws kInvalidUsage where `wanted` is unknown or larger
/// than `most`.
InstructionSet choose_instruction_set(std::string_view wanted, InstructionSet most);

/// The set by which kernels are chosen: the largest that this processor has, or a smaller one set by
/// TOMBOLO_INSTRUCTION_SET. It is decided once per process. Throws kInvalidUsage where that variable names a
/// set that the processor lacks, or an unknown one.
InstructionSet instruction_set();

/// Whether kernels for bfloat16 may be used: this processor has them, and instruction_set() is kAvx512.
/// Throws as that does.
bool bfloat16_kernels();

const std::vector<const Parameter*>& compute_parameters();

}  // namespace tombolo::compute
