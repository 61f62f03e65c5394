# Finds everything h5feed builds on. Required: Debian packages named in tools/install_deps.sh.
# LibTorch and CUDA are found, not required.
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 1.10.8 REQUIRED COMPONENTS C CXX)
find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Libdeflate REQUIRED)
find_package(Lz4 REQUIRED)
find_package(Zstd REQUIRED)
