// Finds and loads the library that drives GPUs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/cuda/device.h"

namespace tombolo::trainer::cuda {

/// Where a library of this name may lie: beside this program, in the folders of libraries that belong to it
/// (only where it is there), and wherever the system's loader looks (the bare name). In the order in which
/// they are tried.
std::vector<std::string> library_places(std::string_view name);
/// Those of libtombolo_cuda.so.
std::vector<std::string> cuda_library_places();

/// open_cuda_device() with the libraries at these places. A library stays loaded until the process ends, as
/// the driver's threads may run in it.
std::unique_ptr<Device> open_device_of(const std::vector<std::string>& places, int number);

}  // namespace tombolo::trainer::cuda
