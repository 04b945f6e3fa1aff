# tombolo_room(NAME DEPENDS ... LINK ...): a room's sources (all .cpp below its folder) become the static library
# tombolo_NAME; its tests (*_test.cpp, beside what they test) become the program test_NAME.

add_library(tombolo_flags INTERFACE)
target_compile_options(tombolo_flags INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow
  $<$<BOOL:${TOMBOLO_WERROR}>:-Werror>)
# Files are compiled in batches (CMAKE_UNITY_BUILD in the presets), because most of the time goes into the headers that
# they share. In a batch every file is an included one, so warnings about included files are off; and gcc 12 reports
# overlaps in sums of std::string that do not exist (PR 105651).
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tombolo_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage;-Wno-restrict>")
endif()
# gcc collects garbage from 128 MB on, and precompiled headers alone take that much. Where it begins at 500 MB a batch takes
# a tenth less time, and at most a third more memory.
target_compile_options(tombolo_flags INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=500000 --param ggc-min-expand=300>")
target_compile_definitions(tombolo_flags INTERFACE TOMBOLO_VERSION="${PROJECT_VERSION}")
target_include_directories(tombolo_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
if(TOMBOLO_SANITIZE)
  target_compile_options(tombolo_flags INTERFACE -fsanitize=${TOMBOLO_SANITIZE} -fno-omit-frame-pointer)
  if(TOMBOLO_SANITIZE MATCHES "undefined")
    target_compile_options(tombolo_flags INTERFACE -fno-sanitize-recover=undefined)
    # The vptr check asks the kernel for descriptors, of which one test takes all. What the other two find,
    # AddressSanitizer finds too, and they are a sixth of the time to compile.
    target_compile_options(tombolo_flags INTERFACE -fno-sanitize=vptr,null,pointer-overflow
      # Of tests only the memory is checked; the rest would be a third of the time to compile them.
      $<$<BOOL:$<TARGET_PROPERTY:TOMBOLO_IS_TEST>>:-fno-sanitize=undefined>)
  endif()
  target_link_options(tombolo_flags INTERFACE -fsanitize=${TOMBOLO_SANITIZE})
endif()
if(TOMBOLO_FUZZ)
  target_link_options(tombolo_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
# The rooms whose code tests/fuzz reaches tell libFuzzer which branches were taken. This is what
# -fsanitize=fuzzer-no-link does too, but precompiled headers would have to agree on that flag.
set(TOMBOLO_FUZZED_ROOMS base topology transport planner)
set(TOMBOLO_FUZZ_COVERAGE -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)

# The headers that most files include are compiled once for all rooms, and once for all tests, together with base (whose
# flags are the same). This saves 2 to 3 of the 7 seconds that a small file takes. Without batches (preset debug) every
# file must itself include what it uses.
set(TOMBOLO_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstring> <deque>
  <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string>
  <string_view> <thread> <unordered_map> <vector> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# tombolo_precompile(PROGRAM FIRST [HEADER...]): FIRST compiles the common headers and these; all other targets reuse
# its result.
function(tombolo_precompile PROGRAM FIRST)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  if("${PROGRAM}" STREQUAL "${FIRST}")
    target_precompile_headers(${PROGRAM} PRIVATE ${TOMBOLO_COMMON_HEADERS} ${ARGN})
  else()
    target_precompile_headers(${PROGRAM} REUSE_FROM ${FIRST})
  endif()
  # These options are for ccache, which compares contents.
  target_compile_options(${PROGRAM} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess> "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# tombolo_balance_batches(PROGRAM SOURCE...): makes as few batches as the presets' size allows, all of equal length. A
# short one at the end would compile the shared headers for a few files, while other processors wait for the long ones.
function(tombolo_balance_batches PROGRAM)
  if(CMAKE_UNITY_BUILD AND CMAKE_UNITY_BUILD_BATCH_SIZE)
    list(LENGTH ARGN files)
    math(EXPR batches "(${files} + ${CMAKE_UNITY_BUILD_BATCH_SIZE} - 1) / ${CMAKE_UNITY_BUILD_BATCH_SIZE}")
    math(EXPR size "(${files} + ${batches} - 1) / ${batches}")
    set_property(TARGET ${PROGRAM} PROPERTY UNITY_BUILD_BATCH_SIZE ${size})
  endif()
endfunction()

# tombolo_quick_to_compile(ROOM): marks a room in which compiling fast matters more than running fast. Optimising takes
# half of the time that ThreadSanitizer's build takes for it. (clang's precompiled headers depend on the level only by a
# macro; gcc's keep their own.)
function(tombolo_quick_to_compile ROOM)
  target_compile_options(tombolo_${ROOM} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(TOMBOLO_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(tombolo_${ROOM} PRIVATE -O0 "SHELL:-Xclang -fno-validate-pch")
  endif()
endfunction()

# tombolo_loops(SOURCE...): names files whose loops are to be vectorised. Everything else is compiled at -O2
# (CMakePresets.json), because -O3 takes a fifth longer. Without precompiled headers: with them gcc goes by the level
# that these were compiled at, whatever the command line says.
function(tombolo_loops)
  foreach(source IN LISTS ARGN)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      message(FATAL_ERROR "tombolo_loops: ${CMAKE_CURRENT_SOURCE_DIR} has no ${source}")
    endif()
  endforeach()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3> SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# tombolo_test_program(NAME SOURCE...): makes a program of tests. It is not optimised, which halves the time to compile
# it; what it tests is optimised.
function(tombolo_test_program NAME)
  add_executable(${NAME} ${ARGN})
  target_link_libraries(${NAME} PRIVATE GTest::gtest)
  target_compile_options(${NAME} PRIVATE -O0)
  set_property(TARGET ${NAME} PROPERTY TOMBOLO_IS_TEST ON)
  tombolo_precompile(${NAME} test_base <gtest/gtest.h>)
endfunction()

function(tombolo_room NAME)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LINK;EXCLUDE" ${ARGN})
  # A room's own files come first, so that files that share headers (those of CLI11 in tools/, say) share a batch too.
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(APPEND sources ${all})
  list(REMOVE_DUPLICATES sources)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|main)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  foreach(pattern IN LISTS ROOM_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
    list(FILTER tests EXCLUDE REGEX "${pattern}")
  endforeach()
  set(below ${ROOM_DEPENDS})
  list(TRANSFORM below PREPEND tombolo_)
  if(sources)
    add_library(tombolo_${NAME} STATIC ${sources})
    target_link_libraries(tombolo_${NAME} PUBLIC tombolo_flags ${below} ${ROOM_LINK})
    tombolo_balance_batches(tombolo_${NAME} ${sources})
    tombolo_precompile(tombolo_${NAME} tombolo_base)
    if(TOMBOLO_FUZZ AND NAME IN_LIST TOMBOLO_FUZZED_ROOMS)
      target_compile_options(tombolo_${NAME} PRIVATE ${TOMBOLO_FUZZ_COVERAGE})
    endif()
  else()
    add_library(tombolo_${NAME} INTERFACE)
    target_link_libraries(tombolo_${NAME} INTERFACE tombolo_flags ${below} ${ROOM_LINK})
  endif()
  if(TOMBOLO_HAVE_TESTS AND tests)
    tombolo_test_program(test_${NAME} ${tests})
    target_link_libraries(test_${NAME} PRIVATE tombolo_${NAME} GTest::gtest_main)
    add_test(NAME unit.${NAME} COMMAND test_${NAME})
    set_tests_properties(unit.${NAME} PROPERTIES LABELS unit TIMEOUT 3600)
    if(NAME MATCHES "^(transport|collectives|trainer)$")  # the longest begin first
      set_tests_properties(unit.${NAME} PROPERTIES COST 100)
    endif()
  endif()
endfunction()
