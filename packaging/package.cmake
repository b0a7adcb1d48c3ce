# cmake --install BUILD --prefix PREFIX, and cpack -G DEB in the build folder (packaging/deb does both
# from the start). The tree may be moved: its links are relative.
set(CPACK_PACKAGE_CONTACT "the dtrain authors <dtrain@dtrain.invalid>" CACHE STRING "a package's maintainer")
install(TARGETS dtrain DESTINATION bin)
if(DTRAIN_EXTRAS)
    include(packaging/library.cmake)
    # The manual and the completions, which the core alone has not.
    install(CODE "execute_process(COMMAND \"${CMAKE_SOURCE_DIR}/packaging/make-files\" \"$<TARGET_FILE:dtrain>\"
    \"${CMAKE_BINARY_DIR}/made\" \"${CPACK_PACKAGE_CONTACT}\" RESULT_VARIABLE failed)
        if(failed)
            message(FATAL_ERROR \"packaging/make-files has failed: \${failed}\")
        endif()")
    install(DIRECTORY ${CMAKE_BINARY_DIR}/made/ DESTINATION . USE_SOURCE_PERMISSIONS)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "exact data-parallel training on CPUs over MPI")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Trains ResNet-50 and VGG11 on CIFAR-10, with the same weights, bit for bit, on
any number of ranks, threads and nodes, and after any kill. It has kernels of
its own for AMX, AVX-512 and AVX2. Its exchange of gradients is a library for
other programs, libdtrain-dist.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/debian/triggers)
set(launcher openmpi-bin)
if(MPI_C_LIBRARIES MATCHES "mpich")
    set(launcher mpich)
endif()
set(CPACK_DEBIAN_PACKAGE_DEPENDS "${launcher}, procps")
# A library's package is called by its SONAME: libdnnl.so.3.6 is in libdnnl3.6.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox")
foreach(soname ${DT_OPENBLAS_SONAME} ${DT_ONEDNN_SONAME})
    string(REPLACE ".so." "" package ${soname})
    string(APPEND CPACK_DEBIAN_PACKAGE_RECOMMENDS ", ${package}")
endforeach()
include(CPack)
