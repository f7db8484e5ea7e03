# Runs before CPack makes the Debian packages: writes the files that Debian's policy requires of each package, and compresses manual pages.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(packages ${CPACK_PLIMSOLL_PACKAGES})
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
while(packages)
  list(POP_FRONT packages component package)
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  if(NOT IS_DIRECTORY ${root})
    message(FATAL_ERROR "cpack installed no component ${component} into ${root}")
  endif()
  set(documents ${root}/share/doc/${package})
  file(WRITE ${documents}/changelog.Debian "plimsoll (${CPACK_PLIMSOLL_VERSION}) unstable; urgency=medium

  * Package made by CPack from the sources; CHANGELOG.md lists the changes.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
  run(gzip -9nf ${documents}/changelog.Debian)
  file(COPY ${CPACK_PLIMSOLL_SOURCE}/CHANGELOG.md DESTINATION ${documents})
  file(RENAME ${documents}/CHANGELOG.md ${documents}/changelog)
  run(gzip -9nf ${documents}/changelog)
  run(python3 ${CPACK_PLIMSOLL_SOURCE}/scripts/third_party.py copyright ${CPACK_PLIMSOLL_CUDA} ${documents}/copyright)
  # The file LICENSE is not needed, because the copyright file that was written above contains the licence.
  file(REMOVE ${documents}/LICENSE)
  file(GLOB pages ${root}/share/man/man1/*.1)
  foreach(page ${pages})
    run(gzip -9nf ${page})
  endforeach()
  file(GLOB_RECURSE files ${root}/share/*)
  run(chmod 0644 ${files})
endwhile()
