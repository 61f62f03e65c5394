# SPDX-License-Identifier: Apache-2.0
# cmake -D SOURCE=… -D BUILD=… -D OPTIONS="-DA=b -DC=d" -D READELF=… -P check_exports.cmake
# Configures the project from scratch, compiles consumer_objects, and fails if they use a symbol of h5feed that a shared
# library would not export.
separate_arguments(options UNIX_COMMAND "${OPTIONS}")
file(REMOVE_RECURSE "${BUILD}")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BUILD}" -G "${GENERATOR}" ${options}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD}" --target consumer_objects COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE objects "${BUILD}/CMakeFiles/consumer_objects.dir/*.o")
execute_process(COMMAND "${READELF}" --symbols --wide ${objects} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
# An exception's type is compared with that of the library, although each has its own copy: it must not be hidden either.
string(REGEX MATCHALL " (DEFAULT|HIDDEN) +(UND _Z(T[ISV])?N|[0-9]+ _ZT[IS]N)K?6h5feed[^\n]*" used "${symbols}")
list(LENGTH used count)
if(count LESS 5)
  message(FATAL_ERROR "the consumer uses only ${count} symbols of h5feed")
endif()
list(FILTER used INCLUDE REGEX HIDDEN)
if(used)
  list(JOIN used "\n" names)
  message(FATAL_ERROR "a shared library of h5feed would not export, for want of H5FEED_EXPORT:\n${names}")
endif()
