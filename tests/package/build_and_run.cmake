# SPDX-License-Identifier: Apache-2.0
# cmake -D SOURCE=… -D BUILD=… -D DATA=file.h5 -D OPTIONS="-DA=b -DC=d" [-D INSTALL_TO=prefix] -P build_and_run.cmake
# Configures and builds a project from scratch, runs its consumers on DATA, and installs it if asked to.
separate_arguments(options UNIX_COMMAND "${OPTIONS}")
file(REMOVE_RECURSE "${BUILD}")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BUILD}" -G "${GENERATOR}" ${options}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD}" COMMAND_ERROR_IS_FATAL ANY)
file(GLOB consumers "${BUILD}/*consumer")
if(NOT consumers)
  message(FATAL_ERROR "nothing to run in ${BUILD}")
endif()
foreach(consumer IN LISTS consumers)
  execute_process(COMMAND "${consumer}" "${DATA}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
if(INSTALL_TO)
  file(REMOVE_RECURSE "${INSTALL_TO}")
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${INSTALL_TO}" COMMAND_ERROR_IS_FATAL ANY)
endif()
