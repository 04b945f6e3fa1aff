#include "trainer/run/back_end.h"

#include <array>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "compute/product_speed.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/cuda/stage/cuda_stage.h"

namespace tombolo::trainer {
namespace {

constexpr std::array<std::pair<DeviceChoice, std::string_view>, 3> kDeviceChoices{
    {{DeviceChoice::kCpu, "cpu"}, {DeviceChoice::kCuda, "cuda"}, {DeviceChoice::kAuto, "auto"}}};

}  // namespace

std::string_view device_choice_name(DeviceChoice choice) noexcept {
  for (const auto& [one, name] : kDeviceChoices)
    if (one == choice) return name;
  return "?";
}

std::optional<DeviceChoice> device_choice_from_name(std::string_view name) noexcept {
  for (const auto& [one, its_name] : kDeviceChoices)
    if (its_name == name) return one;
  return std::nullopt;
}

namespace {

/// Of one core; what its bf16 units could do is not measured.
double core_peak(compute::Precision precision) {
  constexpr double kSeconds = 0.01;
  if (precision != compute::Precision::kFloat32) return 0;
  return compute::measure_products(kSeconds, precision).peak;
}

BackEnd cpu_back_end(std::string note) {
  return {DeviceChoice::kCpu, "cpu", {}, cpu_stages(), std::move(note), core_peak};
}

void look_for_nccl(cuda::Device& device, BackEnd& back_end) {
  try {
    back_end.nccl = device.group_library();
  } catch (const Error& error) {
    if (error.cause() != Cause::kUnsupported) throw;
    back_end.nccl_problem = error.what();
  }
}

/// NCCL takes ranks whose NCCL_HOSTID differs for ranks of different hosts, which share no GPU.
std::string address_for_nccl(const cuda::Device& device) {
  const char* host = std::getenv("NCCL_HOSTID");
  return host == nullptr || *host == '\0' ? device.address()
                                          : fmt::format("{} of host {}", device.address(), host);
}

}  // namespace

BackEnd choose_back_end(DeviceChoice choice, int gpu, bool sums,
                        const std::function<std::unique_ptr<cuda::Device>(int)>& open) {
  if (choice == DeviceChoice::kCpu) return cpu_back_end({});
  BackEnd chosen;
  double single_peak = 0, half_peak = 0;
  try {
    // Opened and closed: each stage opens its own, and gives its memory back with it.
    const std::unique_ptr<cuda::Device> device = open(gpu);
    single_peak = device->peak(cuda::Element::kFloat32);
    half_peak = device->peak(cuda::Element::kBfloat16);
    chosen.name = device->name();
    chosen.description = device->describe();
    if (choice == DeviceChoice::kAuto) chosen.note = fmt::format("device: {}", chosen.description);
    chosen.gpu = address_for_nccl(*device);
    if (sums) look_for_nccl(*device, chosen);
  } catch (const Error& error) {
    if (choice == DeviceChoice::kCuda || error.cause() != Cause::kUnsupported) throw;
    return cpu_back_end(fmt::format("device: CPU. {}", error.what()));
  }
  chosen.device = DeviceChoice::kCuda;
  chosen.make_stage = cuda::cuda_stages([open, gpu] { return std::shared_ptr<cuda::Device>(open(gpu)); });
  chosen.peak = [=](compute::Precision precision) {
    return precision == compute::Precision::kBfloat16 ? half_peak : single_peak;
  };
  return chosen;
}

}  // namespace tombolo::trainer
