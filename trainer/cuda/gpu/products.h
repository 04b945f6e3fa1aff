// Matrix products by cuBLASLt, which is loaded at run time.
#pragma once

#include <cstddef>
#include <memory>

#include "trainer/cuda/gpu/launcher.h"
#include "trainer/cuda/operations/operation.h"

namespace tombolo::trainer::cuda::gpu {

/// The products of one GPU, which must be the thread's current one. Deterministic: the same shape gets the
/// same algorithm, and none adds with atomics. Threads may call it at once.
class Products {
 public:
  /// Throws kUnsupported where cuBLASLt is not found, naming where it was looked for.
  Products();
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Puts the product on the launcher's stream. `workspace`: kProductWorkspace bytes that no other stream
  /// uses. Throws kUnsupported where the library has no kernel for the shape, kSystem where it fails.
  void run(const Launcher& launcher, const Product& product, std::byte* workspace);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tombolo::trainer::cuda::gpu
