# Installs into a fresh folder, builds a project against it that finds nothing else of this tree, and starts the programs
# of that project and the installed `plimsoll`. Run by CTest with SOURCE_DIR and BINARY_DIR.
set(work ${BINARY_DIR}/tests/install/work)
file(REMOVE_RECURSE ${work})

function(run expected)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL expected)
    message(FATAL_ERROR "${ARGN}\nended with ${result}, expected ${expected}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(0 ${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${work}/prefix)
# The examples are copied out of the source tree, so that they cannot include headers of src/.
file(GLOB examples ${SOURCE_DIR}/examples/*.cc)
file(COPY ${examples} DESTINATION ${work}/source)
run(0 ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/install/consumer -B ${work}/build -G Ninja
    -DCMAKE_PREFIX_PATH=${work}/prefix -DEXAMPLES=${work}/source)
run(0 ${CMAKE_COMMAND} --build ${work}/build)
run(2 ${work}/build/own_loop)
if(NOT output MATCHES "own_loop: no model: give --model_name_or_path FOLDER")
  message(FATAL_ERROR "own_loop without arguments says:\n${output}")
endif()
run(2 ${work}/build/predict_text)
run(4 ${work}/build/predict_text ${work}/none text)
run(2 ${work}/build/own_metric)
run(0 ${work}/prefix/bin/plimsoll plan --config_name bert-base-uncased)
if(NOT output MATCHES "model weights")
  message(FATAL_ERROR "the installed plimsoll plan prints no table:\n${output}")
endif()
foreach(document share/bash-completion/completions/plimsoll share/zsh/site-functions/_plimsoll
                 share/fish/vendor_completions.d/plimsoll.fish share/plimsoll/settings.schema.json
                 share/man/man1/plimsoll.1 share/man/man1/plimsoll-train.1 share/man/man1/plimsoll-schema.1)
  if(NOT EXISTS ${work}/prefix/${document})
    message(FATAL_ERROR "${document} is not installed")
  endif()
endforeach()
# An installed plimsoll must find the script of --peer next to itself from any working directory, so the error must be about the
# interpreter, which is missing on purpose.
run(2 ${work}/prefix/bin/plimsoll bench --experiments --use_cpu --output_dir ${work}/bench --peer --peer_python ${work}/none)
if(NOT output MATCHES "none cannot be run" OR NOT EXISTS ${work}/prefix/share/plimsoll/experiments_peer.py)
  message(FATAL_ERROR "the installed plimsoll bench --peer says:\n${output}")
endif()
file(REMOVE_RECURSE ${work})
