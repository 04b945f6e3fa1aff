#include "collectives/gpu/kernel_image.h"

#if defined(TOMBOLO_KERNEL_IMAGE)
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden tombolo_kernel_image\n"
    ".globl tombolo_kernel_image\n"
    "tombolo_kernel_image:\n"
    ".incbin \"" TOMBOLO_KERNEL_IMAGE
    "\"\n"
    ".hidden tombolo_kernel_image_end\n"
    ".globl tombolo_kernel_image_end\n"
    "tombolo_kernel_image_end:\n"
    ".popsection\n");
extern "C" const std::byte tombolo_kernel_image[], tombolo_kernel_image_end[];
#endif

namespace tombolo::collectives::gpu {

std::span<const std::byte> kernel_image() noexcept {
#if defined(TOMBOLO_KERNEL_IMAGE)
  return {tombolo_kernel_image, tombolo_kernel_image_end};
#else
  return {};
#endif
}

}  // namespace tombolo::collectives::gpu
