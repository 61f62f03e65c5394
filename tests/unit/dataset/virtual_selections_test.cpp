// SPDX-License-Identifier: Apache-2.0
// Virtual datasets whose sources are not runs of whole rows: tiles, interleaved rows, gaps, overlaps. Their
// values are those that libhdf5 reads, however the sources are stored.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "base/interrupt.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/interrupt.hpp"
#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "support/files/virtual_files.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

class VirtualSelections : public testing::Test, protected VirtualFiles {
 protected:
  Dataset open(const std::string& name, Isolation isolation = Isolation::none) const {
    return Dataset::open(
        {.files = {folder() / name}, .data = "x", .input_layout = InputLayout::none, .isolation = isolation});
  }

  static const ChunkReader& reader_of(const Dataset& dataset) {
    return *DatasetAccess::state(dataset)->data.reader;
  }

  std::uint64_t rows_per_chunk(const std::string& name) const {
    return reader_of(open(name)).rows().rows_per_chunk();
  }

  // Returns the first difference to what libhdf5 reads; the dataset must be read directly.
  std::string difference(const std::string& name) const {
    const Dataset dataset = open(name);
    if (!reader_of(dataset).direct()) return "not direct: " + reader_of(dataset).fallback_reason();
    return first_difference(dataset, read_through_libhdf5(folder() / name, "x"));
  }

  std::string refusal(const std::string& name) const {
    return refusal_in<Error>(folder(), [&] { open(name); });
  }
};

TEST_F(VirtualSelections, put_the_tiles_of_a_detector_together) {
  // Two by two modules with gaps between them.
  std::vector<VirtualPiece> pieces;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string name = "m" + std::to_string(i) + ".h5";
    source(name, {23, 6, 5}, {4, 6, 5});
    pieces.push_back({name, "x", {23, 6, 5}, {run(0, 23), run(i / 2 * 8, 6), run(i % 2 * 7, 5)}, {}});
  }
  make("v.h5", {23, 14, 12}, pieces);
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(rows_per_chunk("v.h5"), 4U);
}

struct Ended : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void end() { throw Ended("the user wants to stop"); }

TEST_F(VirtualSelections, are_read_no_further_once_the_user_wants_to_stop) {
  source("a.h5", {6, 4}, {2, 4});
  source("b.h5", {6, 4}, {3, 2});
  make(
      "v.h5", {6, 8},
      {{"a.h5", "x", {6, 4}, {run(0, 6), run(0, 4)}, {}}, {"b.h5", "x", {6, 4}, {run(0, 6), run(4, 4)}, {}}});
  const Dataset dataset = open("v.h5");
  const ChunkReader& reader = reader_of(dataset);
  std::vector<std::byte> chunk(reader.chunk_bytes());
  ReadScratch scratch;
  {
    const InterruptCheck check(end);
    const auto wait = [] {
      while (true) check_interrupt();
    };
    EXPECT_THROW(wait(), Ended);  // From now on the check is due
    EXPECT_THROW(reader.read_chunk(0, chunk, scratch), Ended);
  }
  set_stop_check(end);
  EXPECT_THROW(reader.read_chunk(0, chunk, scratch), Ended);
  set_stop_check(nullptr);
  EXPECT_EQ(difference("v.h5"), "");
}

TEST_F(VirtualSelections, interleave_the_rows_of_files) {
  source("a.h5", {10, 3}, {4, 3});
  source("b.h5", {9, 3}, {2, 3});
  source("c.h5", {9, 3});
  make("v.h5", {28, 3},
       {{"a.h5", "x", {10, 3}, {{0, 3, 10, 1}, run(0, 3)}, {}},
        {"b.h5", "x", {9, 3}, {{1, 3, 9, 1}, run(0, 3)}, {}},
        {"c.h5", "x", {9, 3}, {{2, 3, 9, 1}, run(0, 3)}, {}}});
  EXPECT_EQ(difference("v.h5"), "");
}

TEST_F(VirtualSelections, stack_files_in_a_dimension_of_their_own) {
  source("a.h5", {9, 4, 5}, {3, 4, 5});
  source("b.h5", {9, 4, 5}, {3, 2, 5});
  source("c.h5", {4, 5}, {4, 5});
  make("v.h5", {9, 3, 4, 5},
       {{"a.h5", "x", {9, 4, 5}, {run(0, 9), one(0), run(0, 4), run(0, 5)}, {}},
        {"b.h5", "x", {9, 4, 5}, {run(0, 9), one(2), run(0, 4), run(0, 5)}, {}},
        {"c.h5", "x", {4, 5}, {one(4), one(1), run(0, 4), run(0, 5)}, {}}});
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(rows_per_chunk("v.h5"), 3U);
}

TEST_F(VirtualSelections, take_every_other_element_of_a_source) {
  source("a.h5", {20, 12}, {6, 5});
  make("v.h5", {10, 4}, {{"a.h5", "x", {20, 12}, {run(0, 10), run(0, 4)}, {{1, 2, 10, 1}, {2, 3, 4, 1}}}});
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(rows_per_chunk("v.h5"), 3U);
}

TEST_F(VirtualSelections, have_the_fill_value_where_no_source_is) {
  source("a.h5", {6, 4}, {4, 4});
  const Selection all = {run(0, 6), run(0, 4)};
  make("gap.h5", {17, 4},
       {{"a.h5", "x", {6, 4}, all, {}}, {"a.h5", "x", {6, 4}, {run(9, 6), run(0, 4)}, {}}});
  make("side.h5", {8, 7}, {{"a.h5", "x", {6, 4}, {run(1, 6), run(2, 4)}, {}}});
  for (const char* const name : {"gap.h5", "side.h5"}) EXPECT_EQ(difference(name), "") << name;
  // What rows of a source are is read as the source is.
  const Dataset gap = open("gap.h5");
  EXPECT_EQ(gap.origin(10).file, (folder() / "a.h5").string());
  EXPECT_EQ(gap.origin(10).row, 1);
}

TEST_F(VirtualSelections, of_nothing_leave_the_fill_value) {
  const Hid nothing = space_of({3, 4}, {});
  require(H5Sselect_none(nothing.get()), "H5Sselect_none");
  make_of("v.h5", {3, 4}, [&](hid_t plist) { add_source(plist, nothing, "gone.h5", nothing); });
  EXPECT_EQ(difference("v.h5"), "");
}

TEST_F(VirtualSelections, have_the_last_of_several_sources) {
  source("a.h5", {8, 6}, {3, 6});
  source("b.h5", {4, 3}, {4, 3});
  make(
      "v.h5", {8, 6},
      {{"a.h5", "x", {8, 6}, {run(0, 8), run(0, 6)}, {}}, {"b.h5", "x", {4, 3}, {run(2, 4), run(1, 3)}, {}}});
  make(
      "w.h5", {8, 6},
      {{"b.h5", "x", {4, 3}, {run(2, 4), run(1, 3)}, {}}, {"a.h5", "x", {8, 6}, {run(0, 8), run(0, 6)}, {}}});
  make("rows.h5", {10, 6},
       {{"a.h5", "x", {8, 6}, {run(0, 8), run(0, 6)}, {}},
        {"a.h5", "x", {8, 6}, {run(5, 5), run(0, 6)}, {run(1, 5), run(0, 6)}}});
  for (const char* const name : {"v.h5", "w.h5", "rows.h5"}) EXPECT_EQ(difference(name), "") << name;
}

TEST_F(VirtualSelections, begin_chunks_where_those_of_the_sources_begin) {
  // Two files one after the other, of two halves each; the first rows of the sources are left out.
  std::vector<VirtualPiece> pieces;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string name = std::to_string(i) + ".h5";
    source(name, {20, 3}, {8, 3});
    pieces.push_back({name, "x", {20, 3}, {run(i / 2 * 15, 15), run(i % 2 * 3, 3)}, {run(5, 15), run(0, 3)}});
  }
  make("v.h5", {30, 6}, pieces);
  EXPECT_EQ(difference("v.h5"), "");
  const Dataset dataset = open("v.h5");
  const RowLayout& rows = reader_of(dataset).rows();
  std::vector<std::uint64_t> beginnings;
  for (std::uint64_t chunk = 0; chunk < rows.num_chunks(); ++chunk)
    beginnings.push_back(rows.rows_of(chunk).first);
  EXPECT_EQ(beginnings, (std::vector<std::uint64_t>{0, 3, 11, 15, 18, 26}));
}

TEST_F(VirtualSelections, of_virtual_datasets_are_read_from_the_last_sources) {
  source("a.h5", {12, 4}, {5, 4});
  source("b.h5", {12, 4}, {3, 2}, H5T_STD_U16BE);
  make("v.h5", {12, 8},
       {{"a.h5", "x", {12, 4}, {run(0, 12), run(0, 4)}, {}},
        {"b.h5", "x", {12, 4}, {run(0, 12), run(4, 4)}, {}}});
  make("w.h5", {16, 10},
       {{"v.h5", "x", {12, 8}, {run(0, 12), run(1, 8)}, {}},
        {"v.h5", "x", {12, 8}, {{12, 1, 4, 1}, {0, 2, 5, 1}}, {{0, 3, 4, 1}, run(2, 5)}}});
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(difference("w.h5"), "");
  // Each level may decode chunks of the next one again: deeper ones are left to libhdf5.
  make("x.h5", {16, 4}, {{"w.h5", "x", {16, 10}, {run(0, 16), run(0, 4)}, {run(0, 16), run(3, 4)}}});
  const std::vector<std::byte> expected = read_through_libhdf5(folder() / "x.h5", "x");
  const Dataset deep = open("x.h5");
  EXPECT_FALSE(reader_of(deep).direct());
  EXPECT_EQ(first_difference(deep, expected), "");
}

TEST_F(VirtualSelections, of_complex_numbers_keep_their_parts_together) {
  const Hid type(H5Tcreate(H5T_COMPOUND, 2 * sizeof(float)));
  require(H5Tinsert(type.get(), "r", 0, H5T_IEEE_F32LE), "H5Tinsert");
  require(H5Tinsert(type.get(), "i", sizeof(float), H5T_IEEE_F32LE), "H5Tinsert");
  source("a.h5", {6, 4}, {4, 3}, type.get());
  make("v.h5", {6, 4}, {{"a.h5", "x", {6, 4}, {run(0, 6), {0, 2, 2, 1}}, {run(0, 6), run(1, 2)}}},
       type.get());
  const std::vector<std::byte> expected = read_through_libhdf5(folder() / "v.h5", "x");
  const Dataset dataset = open("v.h5");
  EXPECT_TRUE(reader_of(dataset).direct());
  EXPECT_EQ(dataset.sample_shape(), (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(first_difference(dataset, expected), "");
}

TEST_F(VirtualSelections, follow_other_files_in_a_list) {
  source("a.h5", {6, 2}, {4, 2});
  source("plain.h5", {3, 4}, {2, 4});
  make(
      "v.h5", {6, 4},
      {{"a.h5", "x", {6, 2}, {run(0, 6), run(0, 2)}, {}}, {"a.h5", "x", {6, 2}, {run(0, 6), run(2, 2)}, {}}});
  std::vector<std::byte> expected = read_through_libhdf5(folder() / "v.h5", "x");
  for (const char* const next : {"plain.h5", "v.h5"}) {
    const std::vector<std::byte> more = read_through_libhdf5(folder() / next, "x");
    expected.insert(expected.end(), more.begin(), more.end());
  }
  const Dataset dataset =
      Dataset::open({.files = {folder() / "v.h5", folder() / "plain.h5", folder() / "v.h5"},
                     .data = "x",
                     .input_layout = InputLayout::none});
  EXPECT_EQ(first_difference(dataset, expected), "");
}

TEST_F(VirtualSelections, are_read_in_isolation_alike) {
  source("a.h5", {6, 4}, {4, 3});
  make("v.h5", {12, 5}, {{"a.h5", "x", {6, 4}, {{0, 2, 6, 1}, run(1, 4)}, {}}});
  const std::vector<std::byte> expected = read_through_libhdf5(folder() / "v.h5", "x");
  const Dataset dataset = open("v.h5", Isolation::process);
  EXPECT_TRUE(reader_of(dataset).direct());
  EXPECT_EQ(first_difference(dataset, expected), "");
}

TEST_F(VirtualSelections, that_are_not_regular_are_read_by_libhdf5) {
  source("a.h5", {6, 4});
  const Hid to = space_of({9, 4}, {run(0, 2), run(0, 4)});
  const std::array<hsize_t, 2> start = {5, 0}, count = {4, 4};
  require(H5Sselect_hyperslab(to.get(), H5S_SELECT_OR, start.data(), nullptr, count.data(), nullptr),
          "H5Sselect_hyperslab");
  make_of("v.h5", {9, 4}, [&](hid_t plist) { add_source(plist, to, "a.h5", space_of({6, 4}, {})); });
  const std::vector<std::byte> expected = read_through_libhdf5(folder() / "v.h5", "x");
  const Dataset dataset = open("v.h5");
  EXPECT_EQ(reader_of(dataset).fallback_reason(),
            "it is a virtual dataset whose sources are not regular selections");
  EXPECT_EQ(first_difference(dataset, expected), "");
}

// The names of sources have "%%" for "%".
TEST_F(VirtualSelections, find_sources_whose_names_have_percent_signs) {
  source("a%.h5", {4, 3});
  source("a%%.h5", {4, 3});
  make("v.h5", {4, 3}, {{"a%%.h5", "x", {4, 3}, {run(0, 4), run(0, 3)}, {}}});
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(open("v.h5").origin(1).file, (folder() / "a%.h5").string());
}

// libhdf5 leaves memory as it was where sources overlap and others are missing.
TEST_F(VirtualSelections, that_libhdf5_reads_have_the_fill_value_where_no_source_is) {
  source("a.h5", {6, 4}, {}, H5T_STD_U32LE);
  make(
      "v.h5", {12, 4},
      {{"a.h5", "x", {6, 4}, {run(0, 6), run(0, 4)}, {}}, {"a.h5", "x", {6, 4}, {run(0, 6), run(0, 4)}, {}}});
  const Dataset dataset = open("v.h5");
  EXPECT_FALSE(reader_of(dataset).direct());
  const ByteBuffer values = read_all(reader_of(dataset), 1);
  EXPECT_EQ(numbers_of(values.span().subspan(6 * 4 * 2)), std::vector<std::uint16_t>(6 * 4, kFill));
}

// libhdf5 would return fill values for a source that it cannot lock.
TEST_F(VirtualSelections, that_libhdf5_reads_take_no_lock_of_their_sources) {
  source("a.h5", {6, 4}, {}, H5T_STD_U32LE);
  make("v.h5", {6, 4}, {{"a.h5", "x", {6, 4}, {run(0, 6), run(0, 4)}, {}}});
  const FileDescriptor lock(::open((folder() / "a.h5").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  for (const Isolation isolation : {Isolation::none, Isolation::process}) {
    const Dataset dataset = open("v.h5", isolation);
    EXPECT_FALSE(reader_of(dataset).direct());
    EXPECT_NE(numbers_of(read_all(reader_of(dataset), 1).span()), std::vector<std::uint16_t>(6 * 4, kFill));
  }
}

// libhdf5 would return fill values for a source that the program has open with another setting of locks.
TEST_F(VirtualSelections, that_libhdf5_reads_are_read_apart_from_the_program) {
  source("a.h5", {6, 4}, {}, H5T_STD_U32LE);
  make("v.h5", {6, 4}, {{"a.h5", "x", {6, 4}, {run(0, 6), run(0, 4)}, {}}});
  const std::vector<std::byte> expected = read_through_libhdf5(folder() / "v.h5", "x");
  const Hid unlocked(H5Pcreate(H5P_FILE_ACCESS));
  require(H5Pset_file_locking(unlocked.get(), false, true), "H5Pset_file_locking");
  const Hid whole(H5Fopen((folder() / "v.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  const Hid part(H5Fopen((folder() / "a.h5").c_str(), H5F_ACC_RDWR, unlocked.get()));
  EXPECT_EQ(first_difference(open("v.h5"), expected), "");
}

TEST_F(VirtualSelections, that_libhdf5_has_to_read_are_refused_where_it_lacks_a_filter_of_a_source) {
  if (libhdf5_has_filter(filter_id::kLzf)) GTEST_SKIP() << "libhdf5 finds the plugin of LZF";
  {
    H5TestFile file(folder() / "a.h5");
    file.create(
        {.file_type = H5T_STD_U32LE, .shape = {6, 4}, .chunk = {2, 4}, .filters = parse_filters("lzf", 4)});
    file.write_chunk("x", std::vector<std::uint64_t>{0, 0}, patterned_bytes(32));
  }
  make("v.h5", {6, 4}, {{"a.h5", "x", {6, 4}, {run(0, 6), run(0, 4)}, {}}});
  EXPECT_THAT(
      refusal("v.h5"),
      testing::HasSubstr("a.h5:/x: libhdf5 has to read it (it is a virtual dataset of sources of another "
                         "type or shape), and finds no plugin for its filter 32000 (lzf); install"));
}

// libhdf5 opens all sources at once, and returns fill values for those that it cannot open.
TEST_F(VirtualSelections, that_libhdf5_reads_are_refused_with_more_sources_than_it_can_open) {
  constexpr std::uint64_t kFiles = 40;
  std::vector<VirtualPiece> pieces;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    const std::string name = fmt::format("{}.h5", i);
    source(name, {1, 2}, {}, H5T_STD_U32LE);
    pieces.push_back({name, "x", {1, 2}, {one(i), run(0, 2)}, {}});
  }
  make("v.h5", {kFiles, 2}, pieces);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const std::string refused = refusal("v.h5");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(refused, testing::HasSubstr("opens its 40 source files at once, where the limit on open files "
                                          "allows for 32; raise it (ulimit -n)"));
}

TEST_F(VirtualSelections, of_sources_of_another_rank_are_refused) {
  source("a.h5", {24});
  make("v.h5", {6, 4}, {{"a.h5", "x", {6, 4}, {run(0, 6), run(0, 4)}, {run(0, 6), run(0, 4)}}});
  EXPECT_EQ(
      refusal("v.h5"),
      "v.h5:/x: source 0 of the virtual dataset: a.h5:/x has 1 dimensions, the virtual dataset takes from 2; "
      "write it again with sources of these dimensions");
}

// Each of the eight datasets of a level names all of the next one: 8 to the power of 10 paths.
TEST_F(VirtualSelections, name_each_other_along_very_many_paths) {
  constexpr int kLevels = 10, kBranches = 8;
  for (int i = 0; i < kBranches; ++i) source(fmt::format("0-{}.h5", i), {kBranches, 2});
  for (int level = 1; level <= kLevels; ++level) {
    for (int i = 0; i < kBranches; ++i) {
      std::vector<VirtualPiece> pieces;
      for (std::uint64_t j = 0; j < kBranches; ++j) {
        pieces.push_back({fmt::format("{}-{}.h5", level - 1, j),
                          "x",
                          {kBranches, 2},
                          {one(j), run(0, 2)},
                          {one(j), run(0, 2)}});
      }
      make(fmt::format("{}-{}.h5", level, i), {kBranches, 2}, pieces);
    }
  }
  EXPECT_EQ(open(fmt::format("{}-0.h5", kLevels)).size(), kBranches);
}

TEST_F(VirtualSelections, beyond_their_source_are_refused) {
  source("a.h5", {6, 4});
  make("columns.h5", {6, 4}, {{"a.h5", "x", {6, 9}, {run(0, 6), run(0, 4)}, {run(0, 6), {1, 2, 4, 1}}}});
  make("all.h5", {6, 8}, {{"a.h5", "x", {6, 5}, {run(0, 6), run(2, 5)}, {}}});
  make("stack.h5", {2, 7, 4}, {{"a.h5", "x", {7, 4}, {one(1), run(0, 7), run(0, 4)}, {}}});
  EXPECT_EQ(refusal("columns.h5"),
            "columns.h5:/x: source 0 of the virtual dataset: a.h5:/x has 4 elements in dimension 1, the "
            "virtual dataset takes 7 from element 1 on; complete it");
  EXPECT_EQ(refusal("all.h5"),
            "all.h5:/x: source 0 of the virtual dataset: a.h5:/x has 4 elements in dimension 1, the virtual "
            "dataset takes 5 from element 0 on; complete it");
  EXPECT_EQ(
      refusal("stack.h5"),
      "stack.h5:/x: source 0 of the virtual dataset: a.h5:/x has 24 elements, the virtual dataset takes "
      "28; complete it");
}

}  // namespace
}  // namespace h5feed::test
