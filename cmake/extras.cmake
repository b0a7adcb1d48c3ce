# The rooms of extra/, above the core: it trains without them (-D DTRAIN_EXTRAS=OFF).

# dt_extra(NAME links...): extra/NAME is a library as src/NAME is, above the core, which does not see it.
# dt_extra_NAME adds what it has (src/cli/cli.h, src/train/observer.h).
function(dt_extra name)
    dt_library(${name} extra/${name} ${ARGN})
    target_include_directories(dt_${name} PUBLIC ${CMAKE_SOURCE_DIR}/extra)
    set(extras ${extras} ${name} PARENT_SCOPE)
endfunction()

set(extras "")
if(DTRAIN_EXTRAS)
    dt_library(costs extra/costs dt_model)
    target_include_directories(dt_costs PUBLIC ${CMAKE_SOURCE_DIR}/extra)
    dt_extra(engines dt_model)
    dt_extra(exchanges dt_dist)
    target_link_libraries(dt_exchanges PUBLIC MPI::MPI_C)
    target_compile_options(dt_exchanges PRIVATE ${DT_MPI_FLAGS})
    dt_extra(compress dt_dist)
    dt_extra(split dt_train)
    target_link_libraries(dt_split PUBLIC PkgConfig::YAML)
    dt_calls_mpi(dt_split)
    dt_extra(launch dt_cli)
    target_link_libraries(dt_launch PUBLIC PkgConfig::SSL)
    dt_extra(check dt_train)
    dt_extra(pieces dt_train)
    dt_extra(images dt_data)
    find_path(STB_INCLUDE stb_image.h PATH_SUFFIXES stb REQUIRED) # not everywhere has it a .pc file
    target_include_directories(dt_images SYSTEM PRIVATE ${STB_INCLUDE})
    # stb_image lets integers of damaged pictures overflow, and expects that they wrap.
    set_source_files_properties(extra/images/pixels.c PROPERTIES COMPILE_OPTIONS "-fwrapv")
    dt_extra(proof dt_cli)
    target_link_libraries(dt_proof PRIVATE PkgConfig::CRYPTO)
    dt_extra(tools dt_cli dt_launch dt_split dt_images dt_costs dt_proof)
    target_link_libraries(dt_tools PRIVATE PkgConfig::HWLOC)
    dt_extra(watch dt_train)
    target_link_libraries(dt_watch PRIVATE PkgConfig::CRYPTO)
    dt_extra(bench dt_cli dt_watch dt_costs)
    dt_calls_mpi(dt_bench)
    dt_extra(convert dt_cli dt_pieces)
    dt_extra(view dt_convert dt_watch dt_proof)
endif()

# What main calls: each extra adds itself.
set(declared "")
set(called "")
foreach(name ${extras})
    string(APPEND declared "void dt_extra_${name}(void);\n")
    string(APPEND called "    dt_extra_${name}();\n")
endforeach()
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/extras.c CONTENT
    "#include \"cli/cli.h\"\n${declared}void dt_extras_add(void)\n{\n${called}}\n")
add_library(dt_extras STATIC ${CMAKE_BINARY_DIR}/extras.c)
list(TRANSFORM extras PREPEND dt_)
target_link_libraries(dt_extras PUBLIC dt_cli ${extras})
if(NOT DTRAIN_EXTRAS)
    return()
endif()

dt_library(lib extra/lib dt_compress dt_watch)
dt_calls_mpi(dt_lib)
# libdtrain-dist: its folders once more, position independent; programs see dtd_ alone.
file(GLOB lib_sources CONFIGURE_DEPENDS src/base/*.c src/dist/*.c extra/compress/*.c extra/watch/*.c
    extra/lib/*.c)
list(FILTER lib_sources EXCLUDE REGEX "/extra\\.c$")
add_library(dtrain-dist SHARED ${lib_sources})
target_include_directories(dtrain-dist PRIVATE extra)
set_target_properties(dtrain-dist PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 1
    C_VISIBILITY_PRESET hidden LINK_DEPENDS ${CMAKE_SOURCE_DIR}/extra/lib/dist.map)
target_link_libraries(dtrain-dist PRIVATE dt_flags PkgConfig::JANSSON PkgConfig::XXHASH
    PkgConfig::HWLOC PkgConfig::CRYPTO)
target_link_options(dtrain-dist PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/extra/lib/dist.map
    -Wl,-z,defs -Wl,-z,relro,-z,now)
dt_calls_mpi(dtrain-dist)
add_executable(dtrain-dist-check bench/dist_check.c)
target_include_directories(dtrain-dist-check PRIVATE extra)
target_link_libraries(dtrain-dist-check PRIVATE dt_flags dtrain-dist)
if(DTRAIN_ASAN)
    target_sources(dtrain-dist-check PRIVATE tests/support/sanitized.c)
endif()

include(cmake/engines.cmake)
