# What `cmake --install` puts where, and the target `plimsoll_product` that builds all of it.
#
# Programs of others link one shared library, libplimsoll: the rooms behind the public API and the libraries they need are its
# own affair, so that a user's project finds nothing but headers and plimsoll::plimsoll. The command line links the rooms
# statically: it starts faster, and the file runs from anywhere.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_custom_target(plimsoll_product)

if(TARGET plimsoll)
  add_dependencies(plimsoll_product plimsoll)
  install(TARGETS plimsoll RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # `plimsoll bench --peer` looks for it there, from where the program lies.
  install(FILES ${PROJECT_SOURCE_DIR}/bench/experiments_peer.py DESTINATION share/plimsoll)
endif()

if(TARGET plimsoll_api)
  # A shared library must have a source of its own; every symbol comes from the API's archive, taken as a whole.
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
  # The pages that README links to lie beside it as in the tree.
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md
          DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

# README runs the examples from the build directory.
if(TARGET own_loop)
  add_dependencies(plimsoll_product own_loop)
endif()
if(TARGET plimsoll_demo_programs)
  add_dependencies(plimsoll_product plimsoll_demo_programs)
endif()
