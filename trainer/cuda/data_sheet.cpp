#include "trainer/cuda/data_sheet.h"

namespace tombolo::trainer::cuda {
namespace {

struct Sheet {
  std::string_view name;  ///< part of CUDA's; the first that fits counts
  double bfloat16, float32;
};

// NVIDIA's data sheets and architecture white papers, dense figures (data sheets often print those with
// sparsity, twice as many): "NVIDIA H100 Tensor Core GPU Datasheet", "NVIDIA H200 ...", "NVIDIA DGX B200
// Datasheet" (of which an eighth), "NVIDIA A100 ...", "A30", "A10", "A40", "L4", "L40S"; "NVIDIA RTX 6000
// Ada", "RTX A6000"; white papers "NVIDIA Ada GPU Architecture" (4090), "NVIDIA Ampere GA102" (3090).
constexpr Sheet kSheets[] = {
    {"H100 PCIe", 756e12, 51e12},    {"H100 NVL", 835e12, 60e12},         {"H100", 989.4e12, 66.9e12},
    {"H200 NVL", 835.5e12, 60e12},   {"H200", 989.4e12, 66.9e12},         {"GH200", 989.4e12, 66.9e12},
    {"B200", 2250e12, 75e12},        {"A100", 312e12, 19.5e12},           {"A30", 165e12, 10.3e12},
    {"A10", 125e12, 31.2e12},        {"A40", 149.7e12, 37.4e12},          {"L40S", 362.05e12, 91.6e12},
    {"L4", 121e12, 30.3e12},         {"RTX 6000 Ada", 364.2e12, 91.1e12}, {"RTX A6000", 154.8e12, 38.7e12},
    {"RTX 4090", 165.2e12, 82.6e12}, {"RTX 3090", 71e12, 35.6e12},
};

/// The name as a word of its own: "L4" is no "L40".
bool contains(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || text[at - 1] == ' ';
    const bool ends = end == text.size() || text[end] == ' ' || text[end] == '-';
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

double data_sheet_peak(std::string_view gpu, Element element) noexcept {
  for (const Sheet& sheet : kSheets)
    if (contains(gpu, sheet.name)) return element == Element::kBfloat16 ? sheet.bfloat16 : sheet.float32;
  return 0;
}

}  // namespace tombolo::trainer::cuda
