// Attention by a library, as another way beside our own kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "trainer/cuda/gpu/launcher.h"
#include "trainer/cuda/operations/operation.h"

namespace tombolo::trainer::cuda::gpu {

/// Deterministic in both directions. Threads may call it at once.
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  /// "cuDNN 9.19.0"
  virtual std::string name() const = 0;
  /// True where the library runs this shape in both directions. Plans are made by the first question for a
  /// shape, which may take seconds.
  virtual bool takes(const Attention& attention) = 0;
  /// Bytes of scratch for forward and backward of a shape that it takes. Forward's is the caller's too.
  virtual std::size_t forward_scratch(const Attention& attention) = 0;
  virtual std::size_t backward_scratch(const Attention& attention) = 0;
  /// Put it on the launcher's stream. Throw kSystem with the library's words.
  virtual void run(const Launcher& launcher, const Attention& attention, std::byte* scratch) = 0;
  virtual void run(const Launcher& launcher, const AttentionBackward& attention) = 0;
};

/// cuDNN's, on the thread's current GPU. Null where this build has no cuDNN or the machine has none: then
/// `problem` says so.
std::unique_ptr<AttentionLibrary> open_cudnn_attention(std::string& problem);

}  // namespace tombolo::trainer::cuda::gpu
