# Cross compilation on Debian, from packages of both architectures (scripts/foreign-machine):
#   cmake -D CMAKE_TOOLCHAIN_FILE=cmake/foreign.cmake -D DTRAIN_TRIPLET=aarch64-linux-gnu ...
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DTRAIN_TRIPLET)
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR ${DTRAIN_TRIPLET})
set(CMAKE_C_COMPILER ${DTRAIN_TRIPLET}-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE ${DTRAIN_TRIPLET})
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${DTRAIN_TRIPLET}/pkgconfig:/usr/share/pkgconfig)
