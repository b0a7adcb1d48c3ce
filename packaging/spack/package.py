# Spack's recipe, for a repository of packages of your own; Spack builds the clone that this is by
#     spack dev-build -d CLONE dtrain@main
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Dtrain(CMakePackage):
    """Exact data-parallel training on CPUs over MPI: the same weights, bit for bit, on any number
    of ranks, threads and nodes."""

    homepage = "https://dtrain.invalid"
    git = "https://dtrain.invalid/dtrain.git"  # where your site has it

    license("MIT")

    version("main", branch="main")

    variant("openblas", default=False, description="--engine openblas")
    variant("onednn", default=False, description="--engine onednn")

    # The picture decoder is a header.
    resource(
        name="stb",
        git="https://github.com/nothings/stb.git",
        commit="f58f558c120e9b32c217290b80bad1a0729fbb2c",
        placement="stb",
    )

    depends_on("c", type="build")
    depends_on("cmake@3.18:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hwloc@2:")
    depends_on("jansson")
    depends_on("libyaml")
    depends_on("openssl")
    depends_on("xxhash")
    depends_on("openblas", when="+openblas")
    depends_on("onednn", when="+onednn")

    def cmake_args(self):
        return [
            self.define("BUILD_TESTING", False),
            self.define("STB_INCLUDE", join_path(self.stage.source_path, "stb")),
            self.define("CMAKE_INSTALL_RPATH_USE_LINK_PATH", True),
            self.define("DTRAIN_OPENBLAS", "ON" if "+openblas" in self.spec else "OFF"),
            self.define("DTRAIN_ONEDNN", "ON" if "+onednn" in self.spec else "OFF"),
        ]
