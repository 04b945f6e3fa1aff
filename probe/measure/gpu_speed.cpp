#include "probe/measure/gpu_speed.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::probe {
namespace {

// of the matrices; a product then fills the largest GPU several times
constexpr std::size_t kLargestSide = 8192;
constexpr std::size_t kStreamBytes = 512 * kMiB;  // of both vectors: many times the largest cache
constexpr int kCallsPerWait = 4;                  // so that the wait for the GPU is a small share of the time

/// Random bytes, because a GPU draws less power, and runs faster, on equal values.
template <typename Value, typename Convert>
std::vector<Value> random_values(std::size_t count, const Convert& convert) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Value> values(count);
  for (Value& value : values) value = convert(uniform(random));
  return values;
}

/// The GPU's primary context, made current on this thread, and the memory allocated in it.
class GpuSession {
 public:
  GpuSession(const CudaFunctions& cuda, const GpuChoice& gpu) : cuda_(cuda), name_(gpu.text()) {
    check(cuda.init(0), "cuInit");
    if (gpu.pci_address.empty()) {
      check(cuda.device_by_ordinal(&device_, gpu.ordinal), "cuDeviceGet");
    } else {
      check(cuda.device_by_address(&device_, gpu.pci_address.c_str()),
            "cuDeviceGetByPCIBusId (is it hidden by CUDA_VISIBLE_DEVICES?)");
    }
    void* context = nullptr;
    check(cuda.retain_context(&context, device_), "cuDevicePrimaryCtxRetain");
    retained_ = true;
    check(cuda.set_context(context), "cuCtxSetCurrent");
    check(cuda.create(&blas_), "cublasCreate");
  }
  ~GpuSession() {
    for (const auto address : allocated_) cuda_.release(address);
    if (blas_ != nullptr) cuda_.destroy(blas_);
    if (retained_) {
      cuda_.set_context(nullptr);
      cuda_.release_context(device_);
    }
  }
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;

  void check(int status, const char* function) const {
    if (status != 0) fail(Cause::kSystem, "{}: {} failed with code {}", name_, function, status);
  }

  std::size_t free_bytes() const {
    std::size_t free = 0, total = 0;
    check(cuda_.memory_info(&free, &total), "cuMemGetInfo");
    return free;
  }

  /// Allocates memory and fills it with copies of `block`. It lives until release_all().
  template <typename Value>
  CudaFunctions::Address filled(std::size_t count, const std::vector<Value>& block) {
    CudaFunctions::Address address = 0;
    check(cuda_.allocate(&address, count * sizeof(Value)), "cuMemAlloc");
    allocated_.push_back(address);
    for (std::size_t done = 0; done < count; done += block.size()) {
      const std::size_t part = std::min(block.size(), count - done);
      check(cuda_.copy_to_device(address + done * sizeof(Value), block.data(), part * sizeof(Value)),
            "cuMemcpyHtoD");
    }
    return address;
  }
  void release_all() {
    for (const auto address : allocated_) check(cuda_.release(address), "cuMemFree");
    allocated_.clear();
  }

  /// Seconds per call: the mean over about `seconds`, after calls that warm up.
  template <typename Call>
  double seconds_per_call(double seconds, const Clock& clock, const Call& call) {
    call();
    check(cuda_.synchronize(), "cuCtxSynchronize");
    const TimePoint begin = clock.now();
    double elapsed = 0;
    int times = 0;
    do {
      for (int i = 0; i < kCallsPerWait; ++i) call();
      check(cuda_.synchronize(), "cuCtxSynchronize");
      times += kCallsPerWait;
      elapsed = to_seconds(clock.now() - begin);
    } while (elapsed < seconds);
    return elapsed / times;
  }

  void* blas() const noexcept { return blas_; }

 private:
  const CudaFunctions& cuda_;
  std::string name_;
  int device_ = 0;
  bool retained_ = false;
  void* blas_ = nullptr;
  std::vector<CudaFunctions::Address> allocated_;
};

void* pointer(CudaFunctions::Address address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

/// Measures the FLOP/s of square products.
template <typename Value>
double products(GpuSession& session, const CudaFunctions& cuda, const std::vector<Value>& block, int type,
                double seconds, const Clock& clock) {
  std::size_t side = kLargestSide;
  while (side > 256 && 3 * side * side * sizeof(Value) > session.free_bytes() / 2) side /= 2;
  const CudaFunctions::Address a = session.filled(side * side, block), b = session.filled(side * side, block),
                               c = session.filled(side * side, block);
  const float one = 1, zero = 0;
  const int n = static_cast<int>(side);
  const double each = session.seconds_per_call(seconds, clock, [&] {
    session.check(
        cuda.multiply(session.blas(), kCublasNoTranspose, kCublasNoTranspose, n, n, n, &one, pointer(a), type,
                      n, pointer(b), type, n, &zero, pointer(c), type, n, kCublasCompute32F, kCublasDefault),
        "cublasGemmEx");
  });
  session.release_all();
  return 2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side) / each;
}

double stream(GpuSession& session, const CudaFunctions& cuda, const std::vector<float>& block, double seconds,
              const Clock& clock) {
  const std::size_t count = std::min(kStreamBytes, session.free_bytes() / 2) / (2 * sizeof(float));
  const CudaFunctions::Address x = session.filled(count, block), y = session.filled(count, block);
  const float alpha = 1e-3F;
  const double each = session.seconds_per_call(seconds, clock, [&] {
    session.check(
        cuda.add_scaled(session.blas(), static_cast<int>(count), &alpha,
                        static_cast<const float*>(pointer(x)), 1, static_cast<float*>(pointer(y)), 1),
        "cublasSaxpy");
  });
  session.release_all();
  return 3.0 * sizeof(float) * static_cast<double>(count) / each;
}

}  // namespace

std::string GpuChoice::text() const {
  return pci_address.empty() ? fmt::format("GPU {}", ordinal) : fmt::format("GPU {}", pci_address);
}

GpuSpeed time_gpu(const CudaFunctions& cuda, const GpuChoice& gpu, double seconds, const Clock& clock) {
  constexpr std::size_t kBlock = kMiB;
  const auto floats = random_values<float>(kBlock, [](float value) { return value; });
  // bf16 is the upper half of a float.
  const auto halves = random_values<std::uint16_t>(kBlock, [](float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  });
  GpuSession session(cuda, gpu);
  GpuSpeed speed;
  speed.bfloat16_flops_per_second = products(session, cuda, halves, kCudaBfloat16, seconds, clock);
  speed.float32_flops_per_second = products(session, cuda, floats, kCudaFloat32, seconds, clock);
  speed.memory_bytes_per_second = stream(session, cuda, floats, seconds, clock);
  return speed;
}

}  // namespace tombolo::probe
