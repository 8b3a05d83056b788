# Installs the build BUILD into the folder PREFIX, builds examples/digits of SOURCE against it, and runs it in
# two processes: the second must compile no kernel.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${PREFIX})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX}/kiln)
run(${PREFIX}/kiln/bin/kiln --version)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/examples/digits -B ${PREFIX}/digits -DCMAKE_PREFIX_PATH=${PREFIX}/kiln
    -DCMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${PREFIX}/digits)
run(${PREFIX}/digits/digits ${SOURCE}/examples/digits --cache ${PREFIX}/kernels.sqlite)
run(${PREFIX}/digits/digits ${SOURCE}/examples/digits --cache ${PREFIX}/kernels.sqlite --warm)
