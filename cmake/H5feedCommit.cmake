# SPDX-License-Identifier: Apache-2.0
# Sets H5FEED_COMMIT: the commit of the sources at configure time.
set(H5FEED_COMMIT "unknown")
find_program(git git NO_CACHE)
if(git AND EXISTS "${PROJECT_SOURCE_DIR}/.git")
  execute_process(COMMAND "${git}" -C "${PROJECT_SOURCE_DIR}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE code)
  if(code EQUAL 0)
    set(H5FEED_COMMIT "${output}")
  endif()
endif()
