// Files with damaged metadata: each must end in an exception or in data, never in a crash.
//
// The input names one of the intact files made at the start, then the bytes to change: byte 0 the
// file, then for each change two bytes of offset and one to xor with. Where the format has checksums
// they are made right again, so that libhdf5 looks at what was changed.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/metadata_checksums.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/chunk_reader.hpp"
#include "store/filters.hpp"
#include "support/h5_test_file.hpp"
#include "support/temp_dir.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

struct Layout {
  bool latest;
  bool early_allocation;
  std::vector<std::uint64_t> max_shape;
  std::vector<std::uint64_t> chunk;
  const char* filters;
};

struct IntactFile {
  std::vector<std::byte> bytes;
  std::vector<test::ChecksummedBlock> blocks;
  std::vector<std::size_t> index;  // offsets that may change
};

// Offsets of a file that belong to the description of "x" and to its chunk index: not the file's own
// superblock and groups, whose damage is none of the reader's.
std::vector<std::size_t> index_bytes(const std::filesystem::path& path, std::span<const std::byte> file,
                                     std::span<const test::ChecksummedBlock> blocks) {
  std::vector<std::size_t> offsets;
  const auto add = [&](std::size_t begin, std::size_t bytes) {
    for (std::size_t at = begin; at < std::min(begin + bytes, file.size()); ++at) offsets.push_back(at);
  };
  const test::Hid opened(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  H5O_info_t object = {};
  test::require(H5Oget_info_by_name2(opened.get(), "x", &object, H5O_INFO_BASIC | H5O_INFO_HDR, H5P_DEFAULT),
                "H5Oget_info_by_name2");
  add(object.addr, object.hdr.space.total);
  // Nodes of version 1 B-trees of chunks.
  constexpr std::array<std::byte, 5> kNode = {std::byte{'T'}, std::byte{'R'}, std::byte{'E'}, std::byte{'E'},
                                              std::byte{1}};
  for (auto at = file.begin(); (at = std::search(at, file.end(), kNode.begin(), kNode.end())) != file.end();
       ++at)
    add(static_cast<std::size_t>(at - file.begin()), 400);
  for (const test::ChecksummedBlock& block : blocks) {
    const std::string_view name(reinterpret_cast<const char*>(&file[block.offset]), 2);
    if (name == "FA" || name == "EA" || name == "BT") add(block.offset, block.bytes);
  }
  return offsets;
}

// One of each chunk index, and of the flat layouts.
std::vector<IntactFile> intact_files(const std::filesystem::path& path) {
  const std::vector<std::uint64_t> shape = {40, 6};
  const Layout layouts[] = {
      {false, false, shape, {4, 3}, "none"},
      {false, false, shape, {1, 1}, "gzip:1"},  // a B-tree of two levels
      {true, false, shape, shape, "gzip:1"},
      {true, true, shape, {4, 3}, "none"},
      {true, false, shape, {4, 3}, "gzip:1+fletcher32"},
      {true, false, {kUnlimited, 6}, {4, 3}, "gzip:1"},
      {true, false, {kUnlimited, kUnlimited}, {4, 3}, "gzip:1"},
      {false, false, shape, {}, "none"},
  };
  std::vector<IntactFile> files;
  for (const Layout& layout : layouts) {
    {
      test::H5TestFile file(path, {.latest = layout.latest});
      file.create({.path = "x",
                   .shape = shape,
                   .max_shape = layout.max_shape,
                   .chunk = layout.chunk,
                   .filters = parse_filters(layout.filters, 1),
                   .early_allocation = layout.early_allocation});
      file.write("x", test::patterned_bytes(40 * 6));
    }
    IntactFile intact;
    intact.bytes = test::file_bytes(path);
    intact.blocks = test::checksummed_blocks(intact.bytes);
    intact.index = index_bytes(path, intact.bytes, intact.blocks);
    files.push_back(std::move(intact));
  }
  return files;
}

struct Fixture {
  test::TempDir dir;
  std::filesystem::path path = dir / "x.h5";
  std::vector<IntactFile> files = intact_files(path);

  Fixture() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
};

void read_every_chunk(const std::filesystem::path& path) {
  const auto file = H5File::open(path);
  const auto reader = ChunkReader::open(file, file->describe("x"));
  // Damaged shapes may claim terabytes: what a loader's budget refuses is not read here either.
  constexpr std::uint64_t kMaxChunks = 1000;
  constexpr std::uint64_t kMaxChunkBytes = 1 << 22;
  if (reader->chunk_bytes() > kMaxChunkBytes || reader->scratch_bytes() > 4 * kMaxChunkBytes) return;
  std::vector<std::byte> out(reader->chunk_bytes());
  ReadScratch scratch;
  for (std::uint64_t chunk = 0; chunk < std::min(reader->num_chunks(), kMaxChunks); ++chunk) {
    try {
      reader->read_chunk(chunk, out, scratch);
    } catch (const Error&) {
      // The next chunk may be whole.
    }
  }
}

}  // namespace
}  // namespace h5feed

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h5feed;
  static const Fixture fixture;
  if (size < 4) return 0;
  const IntactFile& intact = fixture.files[data[0] % fixture.files.size()];
  std::vector<std::byte> bytes = intact.bytes;
  for (std::size_t i = 1; i + 3 <= size; i += 3) {
    const std::size_t number = (data[i] | std::size_t{data[i + 1]} << 8) % intact.index.size();
    bytes[intact.index[number]] ^= std::byte{data[i + 2]};
  }
  test::mend_checksums(bytes, intact.blocks);
  test::replace_file(fixture.path, bytes);
  try {
    read_every_chunk(fixture.path);
  } catch (const Error&) {
    // Refused: right.
  }
  return 0;
}
