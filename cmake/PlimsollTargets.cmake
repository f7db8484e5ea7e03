# plimsoll_library(NAME [APART] SOURCES ... DEPS ...): the library of one folder of src/. With PLIMSOLL_UNITY several sources are
#   compiled as one, except with APART, which is needed if two sources define the same name. A folder that sets
#   PLIMSOLL_LIBRARIES_APART requests this for all its libraries. APART has the same meaning below.
# plimsoll_test(NAME [APART] SOURCES ... DEPS ... [LABELS ...] [TIMEOUT SECONDS] [COST SECONDS] [SLOW_SANITIZED WHY]
#   [NOT_SANITIZED WHY]): a GoogleTest program registered with CTest as one test. COST is the approximate duration of a long
#   test: CTest starts such tests first, so that it need not wait for one of them at the end. WHY is the reason, in a sentence:
#   SLOW_SANITIZED adds the label slow_sanitized, whose tests .ci/run does not run under sanitizers; NOT_SANITIZED excludes a
#   test that cannot pass under any sanitizer from builds with sanitizers.
# plimsoll_bench(NAME SOURCES ... DEPS ...): a Google Benchmark program, built only with PLIMSOLL_BUILD_BENCH.
set_property(GLOBAL PROPERTY PLIMSOLL_TEST_SOURCES "")

# Up to eight sources of the target are compiled as one, so that the compiler reads common headers only once. A complete build then takes
# about two thirds of the time. scripts/check_tidy.sh sets PLIMSOLL_UNITY=OFF, because clang-tidy reads single sources.
function(plimsoll_compile_as_one target apart)
  if(PLIMSOLL_UNITY AND NOT apart)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()

function(plimsoll_library name)
  cmake_parse_arguments(ARG "APART" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(NOT PLIMSOLL_LIBRARIES_APART)
    plimsoll_compile_as_one(${name} ${ARG_APART})
  endif()
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:plimsoll_flags>)
endfunction()

# Every test includes GoogleTest's header, which takes a second to parse. It is precompiled once, for all tests.
function(plimsoll_precompile_gtest target)
  if(NOT TARGET plimsoll_gtest_header)
    # The precompiled header belongs to a program and not to a library, because it must be compiled with the options of
    # programs (-fPIE).
    file(WRITE ${PROJECT_BINARY_DIR}/gtest_header.cc "// Owns the precompiled header of the tests.\nint main() {}\n")
    add_executable(plimsoll_gtest_header EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/gtest_header.cc)
    target_compile_options(plimsoll_gtest_header PRIVATE $<$<CONFIG:Release>:-O1>)
    target_link_libraries(plimsoll_gtest_header PRIVATE GTest::gtest plimsoll_flags)
    if(TARGET OpenMP::OpenMP_CXX)
      target_link_libraries(plimsoll_gtest_header PRIVATE OpenMP::OpenMP_CXX)
    endif()
    target_precompile_headers(plimsoll_gtest_header PRIVATE <gtest/gtest.h>)
  endif()
  # A precompiled header is only valid with the same compiler options. Every test therefore gets the options of OpenMP,
  # even if its libraries do not need them.
  if(TARGET OpenMP::OpenMP_CXX)
    target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
  endif()
  # GCC 12 warns about the code of std::string (its bugs 105329 and 105651). It suppresses these warnings only in
  # headers that are not precompiled.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
  endif()
  target_precompile_headers(${target} REUSE_FROM plimsoll_gtest_header)
endfunction()

function(plimsoll_test name)
  if(NOT PLIMSOLL_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "APART" "TIMEOUT;COST;SLOW_SANITIZED;NOT_SANITIZED" "SOURCES;DEPS;LABELS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR ARG_KEYWORDS_MISSING_VALUES OR "slow_sanitized" IN_LIST ARG_LABELS)
    message(FATAL_ERROR "plimsoll_test(${name}): cannot read '${ARG_UNPARSED_ARGUMENTS}', or a WHY is missing for "
                        "'${ARG_KEYWORDS_MISSING_VALUES}' or slow_sanitized")
  endif()
  foreach(source ${ARG_SOURCES})
    get_filename_component(absolute ${source} ABSOLUTE)
    set_property(GLOBAL APPEND PROPERTY PLIMSOLL_TEST_SOURCES ${absolute})
  endforeach()
  if(ARG_NOT_SANITIZED AND (PLIMSOLL_SANITIZE OR PLIMSOLL_TSAN))
    message(STATUS "Left out under sanitizers: ${name}. ${ARG_NOT_SANITIZED}")
    return()
  endif()
  if(ARG_SLOW_SANITIZED)
    list(APPEND ARG_LABELS slow_sanitized)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  plimsoll_compile_as_one(${name} ${ARG_APART})
  # Test sources are compiled with -O1, which takes two thirds of the time that the options of a release take. The code
  # under test is in libraries, which are compiled with those options.
  target_compile_options(${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gtest_main plimsoll_flags)
  plimsoll_precompile_gtest(${name})
  target_compile_definitions(${name} PRIVATE PLIMSOLL_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             PLIMSOLL_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(ARG_COST)
    set_tests_properties(${name} PROPERTIES COST ${ARG_COST})
  endif()
  # Tests without the label gpu see no GPU, so that they test the CPU on every machine. Tests with the label gpu run one at a time.
  if("gpu" IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  else()
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "CUDA_VISIBLE_DEVICES=")
  endif()
  # Tests must not access the hub. A test of downloads uses its own server.
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "HF_HUB_OFFLINE=1")
  # The file lists memory leaks of other libraries, which are ignored. A variable also reaches the programs that a test starts.
  if(PLIMSOLL_SANITIZE)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
                 "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/leaks_of_libraries.txt:print_suppressions=0")
  endif()
  # The file lists libraries that are not compiled for ThreadSanitizer, so that it cannot see how their threads synchronize.
  if(PLIMSOLL_TSAN)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
                 "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/races_of_libraries.txt")
  endif()
endfunction()

function(plimsoll_bench name)
  if(NOT PLIMSOLL_BUILD_BENCH)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark plimsoll_flags)
endfunction()

# plimsoll_fuzz(NAME SOURCES ... DEPS ... [DICTIONARY FILE]): a libFuzzer program, built only with PLIMSOLL_BUILD_FUZZ (and
# clang). Run it as `NAME -dict=NAME.dict -max_total_time=600 CORPUS_FOLDER`; with PLIMSOLL_SANITIZE=ON it finds more
# errors. The dictionary contains words of the format that the fuzzer parses. It is copied next to the program as NAME.dict.
function(plimsoll_fuzz name)
  if(NOT PLIMSOLL_BUILD_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "DICTIONARY" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} plimsoll_flags)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(ARG_DICTIONARY)
    configure_file(${ARG_DICTIONARY} ${CMAKE_CURRENT_BINARY_DIR}/${name}.dict COPYONLY)
  endif()
endfunction()

# If a file *_test.cc belongs to no test, the configuration fails.
function(plimsoll_check_every_test_is_built)
  get_property(built GLOBAL PROPERTY PLIMSOLL_TEST_SOURCES)
  file(GLOB_RECURSE found ${PROJECT_SOURCE_DIR}/src/*_test.cc ${PROJECT_SOURCE_DIR}/tests/*_test.cc)
  foreach(test ${found})
    list(FIND built ${test} index)
    if(index EQUAL -1)
      message(SEND_ERROR "${test} exists but no target builds it: add it to a plimsoll_test() in its folder's CMakeLists.txt")
    endif()
  endforeach()
endfunction()
