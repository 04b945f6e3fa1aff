# All dependencies come from Debian's packages; scripts/dependencies.sh lists and installs them.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_path(TOMBOLO_PCRE2_INCLUDE pcre2.h REQUIRED)
find_library(TOMBOLO_PCRE2 NAMES pcre2-8 REQUIRED)
find_path(TOMBOLO_ASIO_INCLUDE asio/ip/tcp.hpp REQUIRED)
find_path(TOMBOLO_FMT_INCLUDE fmt/format.h REQUIRED)
find_path(TOMBOLO_HWLOC_INCLUDE hwloc.h REQUIRED)  # the library itself is loaded at run time
find_path(TOMBOLO_VERBS_INCLUDE infiniband/verbs.h REQUIRED)  # likewise
find_path(TOMBOLO_UCX_INCLUDE ucp/api/ucp.h REQUIRED)  # likewise

# What only the tests need. The tests are built where it is installed, so that the programs alone need none of it.
set(TOMBOLO_HAVE_TESTS OFF)
if(NOT TOMBOLO_TESTS STREQUAL "OFF")
  find_package(GTest QUIET)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(GTest_FOUND AND Python3_FOUND)
    set(TOMBOLO_HAVE_TESTS ON)
  elseif(TOMBOLO_TESTS STREQUAL "ON")
    message(FATAL_ERROR "TOMBOLO_TESTS=ON, but GoogleTest (${GTest_FOUND}) or Python 3 (${Python3_FOUND}) was not found: "
                        "scripts/dependencies.sh test installs both")
  endif()
endif()
message(STATUS "Tests: ${TOMBOLO_HAVE_TESTS}")

# CUDA: nvcc makes the trainer's CUDA library; the tests of the NCCL plugin on a GPU need NCCL too.
set(TOMBOLO_HAVE_CUDA OFF)
set(TOMBOLO_HAVE_NVCC OFF)
if(NOT TOMBOLO_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  find_path(TOMBOLO_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(TOMBOLO_NCCL NAMES nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  find_program(TOMBOLO_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR})
  find_path(TOMBOLO_CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  include(cmake/Cudnn.cmake)
  # nvcc compiles the host's half by gcc, whatever compiles the rest.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(TOMBOLO_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  else()
    find_program(TOMBOLO_CUDA_HOST_COMPILER g++)
  endif()
  if(CUDAToolkit_FOUND AND TOMBOLO_NCCL_INCLUDE AND TOMBOLO_NCCL)
    set(TOMBOLO_HAVE_CUDA ON)
  elseif(TOMBOLO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TOMBOLO_CUDA=ON, but CUDA (${CUDAToolkit_FOUND}) or NCCL (${TOMBOLO_NCCL}) was not found")
  endif()
  # A sanitizer sees nothing of a GPU; CUDA 12 is the first whose nvcc knows C++20.
  if(CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.4 AND TOMBOLO_NVCC AND TOMBOLO_CUBLASLT_INCLUDE
     AND TOMBOLO_CUDA_HOST_COMPILER AND NOT TOMBOLO_SANITIZE)
    set(TOMBOLO_HAVE_NVCC ON)
  elseif(TOMBOLO_CUDA STREQUAL "ON" AND NOT TOMBOLO_SANITIZE)
    message(FATAL_ERROR "TOMBOLO_CUDA=ON, but nvcc (${TOMBOLO_NVCC}) of CUDA 12.4 or later (${CUDAToolkit_VERSION}), cublasLt.h "
                        "(${TOMBOLO_CUBLASLT_INCLUDE}) or g++ (${TOMBOLO_CUDA_HOST_COMPILER}) was not found")
  endif()
endif()
message(STATUS "CUDA and NCCL: ${TOMBOLO_HAVE_CUDA}; the trainer's CUDA library: ${TOMBOLO_HAVE_NVCC}; "
               "cuDNN's front end: ${TOMBOLO_CUDNN_FRONTEND_INCLUDE}")
