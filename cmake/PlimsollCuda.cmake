# CUDA code is built if nvcc is found; otherwise stubs are used (src/device/none). The program links the CUDA
# runtime statically and opens the driver, NVML and the product libraries at run time, so one binary runs with
# and without a driver.
#
# The variable below lists the GPU architectures of a release. sm_75 does not support bf16. For the newest architecture,
# PTX is included too, from which drivers compile code for later GPUs.
# GPUs of compute capability 8.6 run the code for 8.0; code of their own would make the wheel 2.4 MB larger.
set(PLIMSOLL_CUDA_RELEASE_ARCHITECTURES 75-real 80-real 89-real 90-real 100-real 120)
option(PLIMSOLL_CUDA "Build for NVIDIA GPUs too, where nvcc is found" ON)
set(PLIMSOLL_CUDA_ARCHITECTURES "90-real" CACHE STRING "CUDA architectures to build for, or RELEASE for all of them")
option(PLIMSOLL_CUDA_LINES "Store source lines in CUDA code, which profilers and compute-sanitizer show; the program is 4 times as large" OFF)

set(PLIMSOLL_HAS_CUDA OFF)
if(PLIMSOLL_CUDA AND NOT PLIMSOLL_SANITIZE AND NOT PLIMSOLL_TSAN AND NOT PLIMSOLL_BUILD_FUZZ)
  if(PLIMSOLL_CUDA_ARCHITECTURES STREQUAL "RELEASE")
    set(CMAKE_CUDA_ARCHITECTURES ${PLIMSOLL_CUDA_RELEASE_ARCHITECTURES})
  else()
    set(CMAKE_CUDA_ARCHITECTURES ${PLIMSOLL_CUDA_ARCHITECTURES})
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      find_package(CUDAToolkit REQUIRED)
      set(PLIMSOLL_HAS_CUDA ON)
    else()
      message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is older than 12.8: building without CUDA")
    endif()
  endif()
endif()
set(PLIMSOLL_CUDA_BUILT ${PLIMSOLL_HAS_CUDA} CACHE INTERNAL "")
if(PLIMSOLL_HAS_CUDA)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  # nvcc supports C++20, but CMake 3.25 has no compiler option for it, so the option is set here.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # nvcc's front end cannot evaluate fmt's checked format strings at compile time; the C++ compiler checks the same headers.
  set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} --expt-relaxed-constexpr -DFMT_CONSTEVAL= -DFMT_USE_CONSTEXPR=1 -Xcudafe --display_error_number")
  # The kernels are stored compressed, and the driver decompresses a kernel when it is first used. Drivers for CUDA 12.4
  # and later support this.
  set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} --compress-mode=size")
  if(PLIMSOLL_CUDA_LINES)
    set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -lineinfo")
  endif()
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
  message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA: not built; the program runs on CPUs")
endif()

# plimsoll_cuda_sources(TARGET SOURCES...): adds sources (.cu, or .cc that includes CUDA's headers) to a
# library if CUDA is enabled.
function(plimsoll_cuda_sources target)
  if(PLIMSOLL_HAS_CUDA)
    target_sources(${target} PRIVATE ${ARGN})
    target_link_libraries(${target} PUBLIC CUDA::cudart_static)
  endif()
endfunction()

# plimsoll_gpu_test(NAME [APART] SOURCES ... DEPS ...): a test that needs a GPU. It is built if CUDA is enabled and run
# only by `make test-gpu`. A suite that compares numbers prints a line with its largest errors
# (tests/support/suite_figures.cc).
function(plimsoll_gpu_test name)
  cmake_parse_arguments(ARG "APART" "TIMEOUT" "SOURCES;DEPS" ${ARGN})
  foreach(source ${ARG_SOURCES})
    get_filename_component(absolute ${source} ABSOLUTE)
    set_property(GLOBAL APPEND PROPERTY PLIMSOLL_TEST_SOURCES ${absolute})
  endforeach()
  if(PLIMSOLL_HAS_CUDA)
    plimsoll_test(${name} ${ARGN} LABELS gpu)
    if(PLIMSOLL_BUILD_TESTS)
      target_link_libraries(${name} PRIVATE plimsoll_suite_figures CUDA::cudart_static)
    endif()
  endif()
endfunction()

# plimsoll_gpu_variant(NAME PROGRAM [GPUS 2]): registers the CPU test PROGRAM a second time, under another name, as a
# test that runs on the first GPU or on two GPUs.
function(plimsoll_gpu_variant name program)
  cmake_parse_arguments(ARG "" "GPUS" "" ${ARGN})
  if(PLIMSOLL_HAS_CUDA AND PLIMSOLL_BUILD_TESTS)
    add_test(NAME ${name} COMMAND ${program})
    set_tests_properties(${name} PROPERTIES LABELS gpu RUN_SERIAL ON TIMEOUT 600 ENVIRONMENT "PLIMSOLL_TEST_DEVICE=cuda:0")
    if(ARG_GPUS)
      set_tests_properties(${name} PROPERTIES LABELS gpus)
    endif()
  endif()
endfunction()
