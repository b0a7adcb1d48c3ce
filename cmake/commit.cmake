# The commit that is built, as DTRAIN_COMMIT in <build>/generated/commit.h. It is looked up at
# each build, not when CMake runs, and the header is written only when the commit is another
# one: then what includes it is compiled again, else nothing is.
if(CMAKE_SCRIPT_MODE_FILE)
    cmake_policy(VERSION 3.18)
    execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT commit) # an unpacked archive, or a machine without git
        set(commit "unknown")
    endif()
    file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define DTRAIN_COMMIT \"@commit@\"\n" @ONLY)
    return()
endif()

set(commit_header ${CMAKE_BINARY_DIR}/generated/commit.h)
add_custom_target(commit_header
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR} -D HEADER=${commit_header}
        -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${commit_header} COMMENT "" VERBATIM)

# dt_knows_commit(TARGET): its sources may include "commit.h"
function(dt_knows_commit target)
    add_dependencies(${target} commit_header)
    target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated)
endfunction()
