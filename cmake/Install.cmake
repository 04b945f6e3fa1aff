# Installs the programs, the shared library with its public headers, the NCCL plugin, and what find_package(Tombolo) and
# pkg-config tombolo read.
include(CMakePackageConfigHelpers)

install(TARGETS tombolo RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TOMBOLO_BENCH)
  get_property(perf_programs GLOBAL PROPERTY TOMBOLO_PERF_PROGRAMS)
  install(TARGETS ${perf_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS tombolo_shared EXPORT TomboloTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS nccl-net-tombolo LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tombolo_cuda)
  install(TARGETS tombolo_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/tombolo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY library DESTINATION ${CMAKE_INSTALL_DATADIR}/tombolo FILES_MATCHING PATTERN "*.json")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tombolo)
install(EXPORT TomboloTargets NAMESPACE Tombolo:: DESTINATION ${package_dir})
configure_package_config_file(cmake/TomboloConfig.cmake.in ${CMAKE_BINARY_DIR}/TomboloConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TomboloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TomboloConfig.cmake ${CMAKE_BINARY_DIR}/TomboloConfigVersion.cmake
        DESTINATION ${package_dir})

configure_file(cmake/tombolo.pc.in ${CMAKE_BINARY_DIR}/tombolo.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tombolo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
