# The Debian packages, which `make deb` makes with CPack:
#
#   plimsoll           the program, completions of shells, manual pages, documents
#   libplimsollX.Y     the shared library
#   libplimsoll-dev    headers and the CMake package
#
# dpkg-shlibdeps determines the dependencies from the libraries that were linked, so a package can be installed in the release of Debian
# in which it was built. The version names that release.
if(NOT TARGET plimsoll OR NOT TARGET plimsoll_api OR NOT EXISTS /etc/debian_version)
  return()
endif()
file(STRINGS /etc/os-release release REGEX "^VERSION_ID=")
string(REGEX REPLACE "[^0-9]" "" release "${release}")
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

# dpkg requires the name and the address of a maintainer. DEBFULLNAME and DEBEMAIL are the variables of Debian's own
# tools.
set(name $ENV{DEBFULLNAME})
set(address $ENV{DEBEMAIL})
if(NOT name OR NOT address)
  set(name "Plimsoll contributors")
  set(address "plimsoll@packages.invalid")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME plimsoll)
set(CPACK_PACKAGE_VENDOR "Plimsoll contributors")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/dist)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_files.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE "1~deb${release}")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${name} <${address}>")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME plimsoll)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
# Libraries that the program opens at run time: for downloads (recommended) and for pictures as PNG (suggested).
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "libcurl4, libssl3, ca-certificates")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "libcairo2")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "train and run transformers with a plan of every byte
Plimsoll trains, evaluates and runs BERT, GPT-2, Llama and related models on
CPUs and NVIDIA GPUs, from Hugging Face checkpoints and with the argument
names of Hugging Face's Trainer. Before it allocates anything, it reports to
the byte how much memory the run will hold, where and why.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libplimsoll${soversion})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
# Debian's policy requires that a package with a shared library triggers ldconfig. CPack does not write this trigger.
file(WRITE ${PROJECT_BINARY_DIR}/generated/debian/triggers "activate-noawait ldconfig\n")
file(WRITE ${PROJECT_BINARY_DIR}/generated/debian/shlibs
  "libplimsoll ${soversion} libplimsoll${soversion} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
    ${PROJECT_BINARY_DIR}/generated/debian/triggers ${PROJECT_BINARY_DIR}/generated/debian/shlibs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "train and run transformers with a plan of every byte (library)
Plimsoll trains, evaluates and runs transformers on CPUs and NVIDIA GPUs. This
package contains the shared library that other programs link.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libplimsoll-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libplimsoll${soversion} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "train and run transformers with a plan of every byte (headers)
Plimsoll trains, evaluates and runs transformers on CPUs and NVIDIA GPUs. This
package contains the headers of its library and a CMake package.")

# The variables below are read by cmake/package_files.cmake.
set(CPACK_PLIMSOLL_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_PLIMSOLL_VERSION "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(CPACK_PLIMSOLL_PACKAGES program plimsoll library libplimsoll${soversion} development libplimsoll-dev)
set(CPACK_PLIMSOLL_CUDA ${PLIMSOLL_HAS_CUDA})
include(CPack)
