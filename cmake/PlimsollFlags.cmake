# Compiler warnings and sanitizers on INTERFACE targets that users of the library do not inherit.
add_library(plimsoll_flags INTERFACE)
target_compile_options(plimsoll_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;\
-Wold-style-cast;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wno-sign-conversion;-ffp-contract=off;-fno-math-errno>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-sign-conversion>")
if(PLIMSOLL_WERROR)
  target_compile_options(plimsoll_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
# Builds with sanitizers use -O1 for every build type (the compiler uses the last -O of a command line). Their speed is
# not measured, and they build in half the time. Line tables (-g1) are all the debug information that reports need.
if(PLIMSOLL_SANITIZE)
  target_compile_options(plimsoll_flags INTERFACE
    -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all)
  target_link_options(plimsoll_flags INTERFACE -fsanitize=address,undefined)
endif()
if(PLIMSOLL_QUICK)
  target_compile_options(plimsoll_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
endif()
if(PLIMSOLL_TSAN)
  target_compile_options(plimsoll_flags INTERFACE -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread)
  target_link_options(plimsoll_flags INTERFACE -fsanitize=thread)
endif()
if((PLIMSOLL_SANITIZE OR PLIMSOLL_TSAN) AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The checks of the sanitizers prevent GCC from seeing some initializations, for example in std::variant, as its
  # manual states. Its warnings about them are therefore disabled.
  target_compile_options(plimsoll_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(PLIMSOLL_BUILD_FUZZ)
  # Libraries are compiled with counters for their branches, so that the fuzzer detects inputs that reach new ones.
  target_compile_options(plimsoll_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
