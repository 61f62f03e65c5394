// SPDX-License-Identifier: Apache-2.0
// Files with damaged metadata of a dataset and its chunk index: each must end in an exception or in
// data, never in a crash.
//
// The input names one of the intact files made at the start, then the bytes to change: byte 0 the
// file, then for each change two bytes of position and one to xor with. Checksums are left wrong, as
// damage leaves them: in the newer format libhdf5 finds it so; the oldest has no checksums, and there
// every change is looked at. With H5FEED_FUZZ_FORGED, files of the newer format get right checksums, as
// who means harm would give them.
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/fuzz_target.hpp"
#include "fuzz/object_info.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/filters/filters.hpp"
#include "store/format/byte_order.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

#ifdef H5FEED_FUZZ_FORGED
constexpr bool kForged = true;
#else
constexpr bool kForged = false;
#endif

constexpr std::array<std::uint64_t, 2> kShape = {40, 6};

struct Layout {
  bool latest;
  bool early_allocation;
  std::array<std::uint64_t, 2> max_shape;
  std::array<std::uint64_t, 2> chunk;  // zeros: not chunked
  const char* filters;
};

constexpr Layout kLayouts[] = {
    {false, false, kShape, {4, 3}, "none"},
    {false, false, kShape, {1, 1}, "gzip:1"},  // a B-tree of two levels
    {true, false, kShape, kShape, "gzip:1"},
    {true, true, kShape, {4, 3}, "none"},
    {true, false, kShape, {4, 3}, "gzip:1+fletcher32"},
    {true, false, {kUnlimited, 6}, {4, 3}, "gzip:1"},
    {true, false, {kUnlimited, kUnlimited}, {4, 3}, "gzip:1"},
    {true, false, {kShape[0], kUnlimited}, {4, 3}, "gzip:1"},
    {false, false, kShape, {0, 0}, "none"},
};

// Bytes that have a checksum behind them.
struct Sealed {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct IntactFile {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> description;  // offsets that may change
  std::vector<Sealed> sealed;
};

// Offsets of a file that belong to the description of "x" and to its chunk index: not the file's own
// superblock and groups, whose damage is none of the reader's.
std::vector<std::size_t> description_of_x(const std::filesystem::path& path,
                                          std::span<const std::byte> file) {
  std::vector<std::size_t> offsets;
  const auto add = [&](std::size_t begin, std::size_t bytes) {
    for (std::size_t at = begin; at < std::min(begin + bytes, file.size()); ++at) offsets.push_back(at);
  };
  const Hid opened(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const auto object = fuzz::object_info(opened.get(), "x");
  add(object.addr, object.hdr.space.total);
  // Nodes of version 1 B-trees of chunks, and the blocks of the other indexes, by their signatures.
  constexpr std::string_view kSignatures[] = {"TREE\x01", "FAHD", "FADB", "EAHD",
                                              "EAIB",     "EADB", "BTHD", "BTLF"};
  constexpr std::size_t kBlockBytes = 400;  // the used part of the small files' blocks
  for (std::size_t at = 0; at + 5 <= file.size(); ++at) {
    const auto is_here = [&](std::string_view name) {
      return std::memcmp(&file[at], name.data(), name.size()) == 0;
    };
    if (std::ranges::any_of(kSignatures, is_here)) add(at, kBlockBytes);
  }
  return offsets;
}

// The blocks of metadata in a file of the newer format: those whose checksum is found behind their signature.
std::vector<Sealed> sealed_blocks(std::span<const std::byte> file) {
  constexpr std::string_view kSignatures[] = {"FAHD", "FADB", "EAHD", "EAIB", "EASB",
                                              "EADB", "BTHD", "BTIN", "BTLF", "OHDR"};
  constexpr std::size_t kLeast = 8, kMost = 4096;
  std::vector<Sealed> blocks;
  for (std::size_t begin = 0; begin + kLeast <= file.size(); ++begin) {
    const auto is_here = [&](std::string_view name) {
      return std::memcmp(&file[begin], name.data(), name.size()) == 0;
    };
    if (std::ranges::none_of(kSignatures, is_here)) continue;
    for (std::size_t end = begin + kLeast; end + 4 <= std::min(begin + kMost, file.size()); ++end) {
      if (little_endian(file.subspan(end, 4)) != metadata_checksum(file.subspan(begin, end - begin)))
        continue;
      blocks.push_back({begin, end});
      break;
    }
  }
  return blocks;
}

// One of each chunk index, and of the flat layouts.
std::vector<IntactFile> intact_files(const std::filesystem::path& path) {
  std::vector<IntactFile> files;
  for (const Layout& layout : kLayouts) {
    if (kForged && !layout.latest) continue;
    std::vector<std::uint64_t> chunk(layout.chunk.begin(), layout.chunk.end());
    if (chunk[0] == 0) chunk.clear();
    {
      H5TestFile file(path, {.latest = layout.latest});
      file.create({.path = "x",
                   .shape = {kShape.begin(), kShape.end()},
                   .max_shape = {layout.max_shape.begin(), layout.max_shape.end()},
                   .chunk = chunk,
                   .filters = parse_filters(layout.filters, 1),
                   .early_allocation = layout.early_allocation});
      file.write("x", patterned_bytes(kShape[0] * kShape[1]));
    }
    IntactFile intact;
    intact.bytes = file_bytes(path);
    intact.description = description_of_x(path, intact.bytes);
    if (kForged) intact.sealed = sealed_blocks(intact.bytes);
    files.push_back(std::move(intact));
  }
  return files;
}

struct Fixture {
  TempDir dir;
  std::filesystem::path path = dir / "x.h5";
  std::vector<IntactFile> files = intact_files(path);

  Fixture() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
};

void read_every_chunk(const std::filesystem::path& path) {
  const auto file = H5File::open(path);
  const DatasetInfo info = file->describe("x");
  // A damaged shape may claim a million chunks, which any file may have. To ask libhdf5 for each of them
  // takes seconds under the sanitizers.
  constexpr std::uint64_t kMostListed = 1 << 11;
  std::uint64_t listed = 1;
  if (info.layout == StorageLayout::chunked) {
    for (const std::uint64_t cells : chunk_grid(info.shape, info.chunk_shape)) {
      if (cells > kMostListed) return;
      if ((listed *= cells) > kMostListed) return;
    }
  }
  const auto reader = open_chunk_reader(file, info);
  // What libhdf5 has to decode is as safe as libhdf5, which reads beyond chunks that are smaller than their
  // checksum.
  if (kForged && !reader->direct()) return;
  // Damaged shapes may claim terabytes: what a loader's budget refuses is not read here either.
  constexpr std::uint64_t kMaxChunkBytes = 1 << 22;
  if (reader->chunk_bytes() > kMaxChunkBytes || reader->scratch_bytes() > 4 * kMaxChunkBytes) return;
  std::vector<std::byte> out(reader->chunk_bytes());
  ReadScratch scratch;
  // Chunks among many are alike, and reading them takes most of the time.
  constexpr std::uint64_t kMostRead = 40;
  const std::uint64_t step = (reader->num_chunks() - 1) / kMostRead + 1;
  for (std::uint64_t chunk = 0; chunk < reader->num_chunks(); chunk += step) {
    try {
      reader->read_chunk(chunk, out, scratch);
    } catch (const Error&) {
      // The next chunk may be whole.
    }
  }
}

}  // namespace

namespace fuzz {

void fuzz_one(std::span<const std::byte> input) {
  // Damage may name any filter, and a plugin that was loaded and unloaded hides where memory came from.
  static const bool no_plugins = H5PLset_loading_state(0) >= 0;
  static const Fixture fixture;
  if (!no_plugins) return;
  Reader reader(input);
  const IntactFile& intact = fixture.files[reader.u8() % fixture.files.size()];
  std::vector<std::byte> bytes = intact.bytes;
  while (!reader.rest().empty()) {
    const std::size_t offset = intact.description[reader.u16() % intact.description.size()];
    bytes[offset] ^= static_cast<std::byte>(reader.u8());
  }
  for (const Sealed& block : intact.sealed)
    put_little_endian(bytes, block.end,
                      metadata_checksum(std::span(bytes).subspan(block.begin, block.end - block.begin)));
  replace_file(fixture.path, bytes);
  try {
    read_every_chunk(fixture.path);
  } catch (const Error&) {
    // Refused: right.
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> result;
  for (unsigned file = 0; file < std::size(kLayouts); ++file) {
    for (const unsigned offset : {30U, 100U, 200U, 300U, 400U})
      result.push_back(Writer().u8(file).u16(offset).u8(1).done());
  }
  return result;
}

}  // namespace fuzz
}  // namespace h5feed::test
