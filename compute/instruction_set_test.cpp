#include "compute/instruction_set.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::compute {
namespace {

// Leaf 1's ECX and leaf 7's EBX as such processors report them, and what Linux enables in XCR0.
constexpr std::uint32_t kNehalemEcx = 0x0098e3bd, kSandyBridgeEcx = 0x1fbae3ff, kHaswellEcx = 0x7ffafbff;
constexpr std::uint32_t kHaswellEbx = 0x000037ab, kZen2Ebx = 0x219c91a9, kSkylakeServerEbx = 0xd39ffffb,
                        kAlderLakeEbx = 0x239ca7eb, kKnightsLandingEbx = 0x1c0d23ab, kZen4Ebx = 0xf1bf97a9,
                        kSapphireRapidsEbx = 0xf3bfbfeb;
constexpr std::uint64_t kSse = 0x3, kAvx = 0x7, kAvx512 = 0xe7, kAmx = 0x602e7;

TEST(InstructionSet, IsThatOfTheFeaturesOldAndNew) {
  EXPECT_EQ(instruction_set_of({}), InstructionSet::kBaseline);
  EXPECT_EQ(instruction_set_of({kNehalemEcx, 0, 0, 0}), InstructionSet::kBaseline);
  EXPECT_EQ(instruction_set_of({kSandyBridgeEcx, 0, 0, kAvx}), InstructionSet::kBaseline)
      << "AVX without AVX2 and FMA";
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kHaswellEbx, 0, kAvx}), InstructionSet::kAvx2);
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kZen2Ebx, 0, kAvx}), InstructionSet::kAvx2);
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kAlderLakeEbx, 0, kAvx}), InstructionSet::kAvx2);
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kSkylakeServerEbx, 0, kAvx512}), InstructionSet::kAvx512);
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kZen4Ebx, 0, kAvx512}), InstructionSet::kAvx512);
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kSapphireRapidsEbx, 0, kAmx}), InstructionSet::kAvx512);
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kKnightsLandingEbx, 0, kAvx512}), InstructionSet::kAvx2)
      << "AVX-512 without its byte, word and short-vector instructions";
}

TEST(InstructionSet, NeedsASystemThatSavesTheRegisters) {
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kZen4Ebx, 0, kAvx}), InstructionSet::kAvx2);
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kZen4Ebx, 0, kSse}), InstructionSet::kBaseline);
  EXPECT_EQ(instruction_set_of({kHaswellEcx, kZen4Ebx, 0, 0}), InstructionSet::kBaseline);
}

TEST(InstructionSet, Bfloat16NeedsItsOwnBitAndAllOfAvx512) {
  constexpr std::uint32_t kZen4Leaf71Eax = 0x20, kSapphireRapidsLeaf71Eax = 0x1c30,
                          kAlderLakeLeaf71Eax = 0x1810;
  EXPECT_TRUE(multiplies_bfloat16({kHaswellEcx, kZen4Ebx, kZen4Leaf71Eax, kAvx512}));
  EXPECT_TRUE(multiplies_bfloat16({kHaswellEcx, kSapphireRapidsEbx, kSapphireRapidsLeaf71Eax, kAmx}));
  EXPECT_FALSE(multiplies_bfloat16({kHaswellEcx, kSkylakeServerEbx, 0, kAvx512}));
  EXPECT_FALSE(multiplies_bfloat16({kHaswellEcx, kAlderLakeEbx, kAlderLakeLeaf71Eax, kAvx}));
  EXPECT_FALSE(multiplies_bfloat16({kHaswellEcx, kZen4Ebx, kZen4Leaf71Eax, kAvx}))
      << "registers are not saved";
}

TEST(InstructionSet, AgreesWithTheCompilersOwnDetection) {
#if defined(__x86_64__)
  const InstructionSet set = instruction_set_of(read_cpuid());
  EXPECT_EQ(set >= InstructionSet::kAvx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(set == InstructionSet::kAvx512,
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"));
  EXPECT_EQ(multiplies_bfloat16(read_cpuid()),
            set == InstructionSet::kAvx512 && __builtin_cpu_supports("avx512bf16"));
#else
  EXPECT_EQ(instruction_set_of(read_cpuid()), InstructionSet::kBaseline);
#endif
}

TEST(InstructionSet, ChosenByTheEnvironmentNamesWhatIsMissing) {
  EXPECT_EQ(choose_instruction_set("auto", InstructionSet::kAvx2), InstructionSet::kAvx2);
  EXPECT_EQ(choose_instruction_set("baseline", InstructionSet::kAvx512), InstructionSet::kBaseline);
  EXPECT_EQ(choose_instruction_set("avx2", InstructionSet::kAvx512), InstructionSet::kAvx2);
  try {
    choose_instruction_set("avx512", InstructionSet::kAvx2);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_STREQ(
        error.what(),
        "TOMBOLO_INSTRUCTION_SET=avx512: this processor has avx2 at most; leave it unset or name less");
  }
}

}  // namespace
}  // namespace tombolo::compute
