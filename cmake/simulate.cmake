# DTRAIN_SIMULATE: dtrain and tests/simulate/skeleton.c as SimGrid's smpirun wants them (Debian's
# libsimgrid-dev): shared objects, whose ranks are contexts of one process, and whose clock is the
# simulation's. For tests alone.
find_path(SMPI_INCLUDE smpi/smpi_helpers.h REQUIRED)
find_library(SIMGRID simgrid REQUIRED)
add_library(MPI::MPI_C INTERFACE IMPORTED)
target_include_directories(MPI::MPI_C SYSTEM INTERFACE ${SMPI_INCLUDE}/smpi)
target_link_libraries(MPI::MPI_C INTERFACE ${SIMGRID})

# dt_simulated(TARGET): an executable that smpirun loads
function(dt_simulated target)
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/simulate/simulated.c)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/extra)
    target_link_libraries(${target} PRIVATE dt_dist MPI::MPI_C)
    target_link_options(${target} PRIVATE -shared -Wl,-z,defs -Wl,--wrap=MPI_Init_thread
        -Wl,--wrap=dt_watch_open)
endfunction()
