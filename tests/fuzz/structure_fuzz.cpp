// SPDX-License-Identifier: Apache-2.0
// The checks of superblock, object headers and B-trees. An input is the address of a dataset (u16), then a
// file.
#include <hdf5.h>

#include <array>
#include <filesystem>
#include <tuple>

#include "fuzz/fuzz_target.hpp"
#include "fuzz/input_source.hpp"
#include "fuzz/object_info.hpp"
#include "store/checks/structure_check.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

// Nodes of few entries: the tool that runs the targets limits the size of an input.
Hid creation(bool user_block) {
  Hid list(H5Pcreate(H5P_FILE_CREATE));
  constexpr unsigned kLeaf = 1, kInner = 1;
  require(H5Pset_sym_k(list.get(), kInner, kLeaf), "H5Pset_sym_k");
  require(H5Pset_istore_k(list.get(), kInner), "H5Pset_istore_k");
  if (user_block) require(H5Pset_userblock(list.get(), 512), "H5Pset_userblock");
  return list;
}

// A dataset of `chunks` chunks of one byte, unlimited in `unlimited` dimensions.
void add_dataset(hid_t file, const char* path, hsize_t chunks, int unlimited) {
  const std::array<hsize_t, 2> shape = {chunks, 1};
  const std::array<hsize_t, 2> most = {unlimited > 0 ? H5S_UNLIMITED : chunks,
                                       unlimited > 1 ? H5S_UNLIMITED : 1};
  const std::array<hsize_t, 2> chunk = {1, 1};
  const Hid space(H5Screate_simple(2, shape.data(), most.data()));
  const Hid list(H5Pcreate(H5P_DATASET_CREATE));
  require(H5Pset_chunk(list.get(), 2, chunk.data()), "H5Pset_chunk");
  const Hid links(H5Pcreate(H5P_LINK_CREATE));
  require(H5Pset_create_intermediate_group(links.get(), 1), "H5Pset_create_intermediate_group");
  const Hid dataset(H5Dcreate2(file, path, H5T_STD_U8LE, space.get(), links.get(), list.get(), H5P_DEFAULT));
  const std::vector<std::byte> values(chunks);
  require(H5Dwrite(dataset.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
}

// A file of groups and datasets, and the address of one of them.
fuzz::Bytes file_of(const std::filesystem::path& path, bool latest, bool user_block, int unlimited) {
  haddr_t address = 0;
  {
    const Hid access(H5Pcreate(H5P_FILE_ACCESS));
    const H5F_libver_t oldest = latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST;
    require(H5Pset_libver_bounds(access.get(), oldest, H5F_LIBVER_LATEST), "H5Pset_libver_bounds");
    const Hid file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation(user_block).get(), access.get()));
    add_dataset(file.get(), "a/b/x", 4, unlimited);
    add_dataset(file.get(), "y", 1, unlimited);
    require(H5Lcreate_soft("/y", file.get(), "soft", H5P_DEFAULT, H5P_DEFAULT), "H5Lcreate_soft");
    require(H5Lcreate_external("z.h5", "/z", file.get(), "external", H5P_DEFAULT, H5P_DEFAULT),
            "H5Lcreate_external");
    address = fuzz::object_info(file.get(), "a/b/x").addr;
  }
  return fuzz::Writer().u16(static_cast<unsigned>(address)).bytes(file_bytes(path)).done();
}

}  // namespace

namespace fuzz {

void fuzz_one(std::span<const std::byte> input) {
  Reader reader(input);
  const unsigned address = reader.u16();
  const InputSource file(reader.rest());
  structure_damage(file);
  header_damage(file, address);
  chunk_tree_damage(file, address);
}

std::vector<Bytes> seeds() {
  const TempDir dir;
  std::vector<Bytes> result;
  for (const auto& [latest, user_block, unlimited] :
       {std::tuple{false, false, 0}, {false, true, 0}, {true, false, 0}, {true, true, 1}, {true, false, 2}}) {
    result.push_back(file_of(dir / "x.h5", latest, user_block, unlimited));
    const InputSource intact(std::span(result.back()).subspan(2));
    require(structure_damage(intact).empty(), "a seed is intact");
  }
  return result;
}

}  // namespace fuzz
}  // namespace h5feed::test
