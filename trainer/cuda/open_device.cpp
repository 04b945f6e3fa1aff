#include "trainer/cuda/open_device.h"

#include <array>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/dynamic_library.h"
#include "base/error.h"
#include "trainer/cuda/cuda_library.h"

namespace tombolo::trainer::cuda {
namespace {

constexpr std::string_view kRemedy =
    "Install Tombolo with its CUDA library (a build where the CUDA toolkit is found makes it), or train on "
    "the "
    "CPU with --device cpu";

/// Loaded once; never unloaded.
const DynamicLibrary* library_at(const std::string& place, std::string& problem) {
  static std::mutex mutex;
  static std::map<std::string, DynamicLibrary> loaded;
  const std::scoped_lock lock(mutex);
  if (const auto found = loaded.find(place); found != loaded.end()) return &found->second;
  auto library = DynamicLibrary::open({place.c_str()}, &problem);
  if (!library) return nullptr;
  return &loaded.emplace(place, std::move(*library)).first->second;
}

}  // namespace

std::vector<std::string> library_places(std::string_view name) {
  std::vector<std::string> places;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path folder = program.parent_path();
    for (const char* relative : {".", "trainer", "../trainer", "../lib", "../lib/x86_64-linux-gnu",
                                 "../lib/aarch64-linux-gnu", "../lib64"}) {
      const std::filesystem::path place = (folder / relative / name).lexically_normal();
      if (std::filesystem::exists(place, error)) places.push_back(place.string());
    }
  }
  places.emplace_back(name);
  return places;
}

std::vector<std::string> cuda_library_places() {
  return library_places(kCudaLibraryName);
}

std::unique_ptr<Device> open_device_of(const std::vector<std::string>& places, int number) {
  std::string problems;
  for (const std::string& place : places) {
    std::string problem;
    const DynamicLibrary* library = library_at(place, problem);
    if (library == nullptr) {
      problems += (problems.empty() ? "" : "; ") + problem;
      continue;
    }
    OpenDeviceFunction* open = nullptr;
    if (!library->find(kOpenDeviceFunction, open))
      fail(Cause::kUnsupported, "GPU {}: {} has no function {}: it is not Tombolo's. {}", number, place,
           kOpenDeviceFunction, kRemedy);
    std::array<char, 1024> text{};
    std::unique_ptr<Device> device(open(kCudaLibraryVersion, number, text.data(), text.size()));
    if (!device) fail(Cause::kUnsupported, "GPU {} cannot be used: {}", number, std::string(text.data()));
    return device;
  }
  fail(Cause::kUnsupported, "GPU {} cannot be used: {} was not found ({}). {}", number, kCudaLibraryName,
       problems, kRemedy);
}

std::unique_ptr<Device> open_cuda_device(int number) {
  return open_device_of(cuda_library_places(), number);
}

}  // namespace tombolo::trainer::cuda
