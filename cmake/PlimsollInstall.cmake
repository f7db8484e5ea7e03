# The files that `cmake --install` installs, and the target `plimsoll_product` that builds them.
#
# Other programs link one shared library, libplimsoll. The rooms of the implementation and the libraries that
# they need stay private, so a user's project sees only headers and plimsoll::plimsoll. The command line links
# the rooms statically: it starts faster, and the file runs from anywhere.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_custom_target(plimsoll_product)

if(TARGET plimsoll)
  add_dependencies(plimsoll_product plimsoll)
  install(TARGETS plimsoll RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # `plimsoll bench --peer` searches for it there, relative to the program.
  install(FILES ${PROJECT_SOURCE_DIR}/bench/experiments_peer.py DESTINATION share/plimsoll)
endif()

if(TARGET plimsoll_api)
  # A shared library must have its own source; all symbols come from the API's archive, which is linked
  # completely.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/library_version.cc
    CONTENT "extern \"C\" const char* plimsoll_library_version() { return \"@PROJECT_VERSION@\"; }\n" @ONLY)
  add_library(plimsoll_shared SHARED ${PROJECT_BINARY_DIR}/generated/library_version.cc)
  target_link_libraries(plimsoll_shared PRIVATE
    $<BUILD_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,plimsoll_api>> $<BUILD_INTERFACE:plimsoll_flags>)
  target_include_directories(plimsoll_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(plimsoll_shared INTERFACE cxx_std_20)
  set_target_properties(plimsoll_shared PROPERTIES
    OUTPUT_NAME plimsoll EXPORT_NAME plimsoll
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  add_dependencies(plimsoll_product plimsoll_shared)

  install(TARGETS plimsoll_shared EXPORT plimsollTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plimsoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT plimsollTargets NAMESPACE plimsoll:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/plimsollConfigVersion.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/plimsollConfig.cmake.in
    ${PROJECT_BINARY_DIR}/generated/plimsollConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
  install(FILES ${PROJECT_BINARY_DIR}/generated/plimsollConfig.cmake
                ${PROJECT_BINARY_DIR}/generated/plimsollConfigVersion.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
  # The pages that README links to are installed next to it, as in the tree.
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md
          DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

# README runs the examples from the build directory.
if(TARGET plimsoll_examples)
  add_dependencies(plimsoll_product plimsoll_examples)
endif()
if(TARGET plimsoll_demo_programs)
  add_dependencies(plimsoll_product plimsoll_demo_programs)
endif()
