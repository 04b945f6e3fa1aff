# Attention by cuDNN, which is optional: cudnn.h, and cudnn_frontend.h of its C++ front end, which is headers alone. Sets
# TOMBOLO_CUDNN_INCLUDE and TOMBOLO_CUDNN_FRONTEND_INCLUDE, and TOMBOLO_CUDNN_LIBRARY_DIR: where libcudnn lies beside the
# headers, which is loaded at run time. TOMBOLO_CUDNN_ROOT may be any folder that has them below include/, a Python environment
# with PyPI's packages, or its site-packages; an environment variable CUDNN_ROOT is looked at likewise.
set(TOMBOLO_CUDNN_ROOT "" CACHE PATH "Where cuDNN and its C++ front end are, for attention by cuDNN")
set(cudnn_roots ${TOMBOLO_CUDNN_ROOT} $ENV{CUDNN_ROOT})
set(cudnn_packages "")
foreach(root IN LISTS cudnn_roots)
  file(GLOB packages "${root}/lib/python3*/site-packages")
  list(APPEND cudnn_packages ${packages})
endforeach()
# What was found for another root does not count.
if(NOT "${cudnn_roots}" STREQUAL "${TOMBOLO_CUDNN_SEARCHED}")
  unset(TOMBOLO_CUDNN_INCLUDE CACHE)
  unset(TOMBOLO_CUDNN_FRONTEND_INCLUDE CACHE)
endif()
set(TOMBOLO_CUDNN_SEARCHED "${cudnn_roots}" CACHE INTERNAL "")
find_path(TOMBOLO_CUDNN_INCLUDE cudnn.h
          HINTS ${cudnn_roots} ${cudnn_packages} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include nvidia/cudnn/include)
find_path(TOMBOLO_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
          HINTS ${cudnn_roots} ${cudnn_packages} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
if(TOMBOLO_CUDNN_ROOT AND NOT (TOMBOLO_CUDNN_INCLUDE AND TOMBOLO_CUDNN_FRONTEND_INCLUDE))
  message(FATAL_ERROR "TOMBOLO_CUDNN_ROOT=${TOMBOLO_CUDNN_ROOT}, but cudnn.h (${TOMBOLO_CUDNN_INCLUDE}) or cudnn_frontend.h "
                      "(${TOMBOLO_CUDNN_FRONTEND_INCLUDE}) was not found there: PyPI's nvidia-cudnn-cu13 (or -cu12) and "
                      "nvidia-cudnn-frontend have them")
endif()
set(TOMBOLO_CUDNN_LIBRARY_DIR "")
if(TOMBOLO_CUDNN_INCLUDE)
  get_filename_component(beside "${TOMBOLO_CUDNN_INCLUDE}/../lib" ABSOLUTE)
  file(GLOB libraries "${beside}/libcudnn.so.*")
  if(libraries)
    set(TOMBOLO_CUDNN_LIBRARY_DIR ${beside})
  endif()
endif()
