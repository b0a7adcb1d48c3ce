# The library, for programs that ask pkg-config or CMake for it. Both find it from where they lie.
install(TARGETS dtrain-dist EXPORT dtrain-dist LIBRARY DESTINATION lib INCLUDES DESTINATION include)
install(FILES extra/lib/dist.h DESTINATION include/dtrain)
configure_file(packaging/dtrain-dist.pc.in dtrain-dist.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/dtrain-dist.pc DESTINATION lib/pkgconfig)
set_target_properties(dtrain-dist PROPERTIES EXPORT_NAME dist)
install(EXPORT dtrain-dist NAMESPACE dtrain:: FILE dtrain-dist-config.cmake
    DESTINATION lib/cmake/dtrain-dist)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(dtrain-dist-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/dtrain-dist-config-version.cmake DESTINATION lib/cmake/dtrain-dist)
install(TARGETS dtrain-dist-check DESTINATION bin)
# CMake keeps a path that the site has given.
set_property(TARGET dtrain-dist-check APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../lib")
# -g1 has no types, which packaging/abi-dump reads.
file(GLOB interface CONFIGURE_DEPENDS extra/lib/*.c)
set_property(SOURCE ${interface} APPEND PROPERTY COMPILE_OPTIONS -g)
