// SPDX-License-Identifier: Apache-2.0
// Virtual datasets: read from their sources, or through libhdf5, and never silently full of fill values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

using Extent = std::vector<hsize_t>;

// Where a source goes: boxes in both.
struct Piece {
  std::string file;
  std::string dataset = "x";
  Extent to_start;
  Extent to_count;
  Extent source_shape;
  Extent from_start;
  Extent from_count;
};

class Virtual : public testing::Test {
 protected:
  void make(const std::string& name, const Extent& shape, const std::vector<Piece>& pieces,
            hid_t type = H5T_STD_U8LE) {
    const H5TestFile file(dir_ / name);
    const Hid space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    const std::uint8_t fill = 99;
    test::require(H5Pset_fill_value(plist.get(), H5T_NATIVE_UINT8, &fill), "H5Pset_fill_value");
    for (const Piece& piece : pieces) {
      const Hid to(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
      test::require(H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, piece.to_start.data(), nullptr,
                                        piece.to_count.data(), nullptr),
                    "H5Sselect_hyperslab");
      const Hid from(
          H5Screate_simple(static_cast<int>(piece.source_shape.size()), piece.source_shape.data(), nullptr));
      if (!piece.from_start.empty()) {
        test::require(H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, piece.from_start.data(), nullptr,
                                          piece.from_count.data(), nullptr),
                      "H5Sselect_hyperslab");
      }
      test::require(
          H5Pset_virtual(plist.get(), to.get(), piece.file.c_str(), piece.dataset.c_str(), from.get()),
          "H5Pset_virtual");
    }
    const Hid dataset(H5Dcreate2(file.id(), "x", type, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }

  std::vector<std::byte> source(const std::string& name, std::vector<std::uint64_t> shape,
                                std::vector<std::uint64_t> chunk = {}) {
    std::size_t bytes = 1;
    for (const std::uint64_t extent : shape) bytes *= extent;
    std::vector<std::byte> values = test::random_bytes(bytes, seed_++);
    H5TestFile file(dir_ / name);
    test::TestDataset dataset{.shape = std::move(shape), .chunk = std::move(chunk)};
    if (!dataset.chunk.empty()) dataset.filters = {{.id = 1, .params = {1}}};
    file.create(dataset);
    file.write("x", values);
    return values;
  }

  Dataset open(const std::string& name) const {
    return Dataset::open({.files = {dir_ / name}, .data = "x", .input_layout = InputLayout::none});
  }

  // As libhdf5 gives it; directly or not.
  void check(const std::string& name, bool direct) {
    const Dataset dataset = open(name);
    EXPECT_EQ(DatasetAccess::state(dataset)->data.reader->direct(), direct);
    EXPECT_EQ(first_difference(dataset, test::read_through_libhdf5(dir_ / name, "x")), "");
  }

  std::string refusal(const std::string& name) const {
    return refusal_in<Error>(dir_.path(), [&] { open(name); });
  }

  // As the tools read it: through libhdf5, which gives fill values for what is missing.
  ByteBuffer read_without_pool(const std::string& name) const {
    const auto file = H5File::open(dir_ / name);
    return read_all(*open_chunk_reader(file, file->describe("x"), nullptr, {.log_fallback = false}), 1);
  }

  std::string refusal_without_pool(const std::string& name) const {
    return refusal_in<Error>(dir_.path(), [&] { read_without_pool(name); });
  }

  TempDir dir_;
  unsigned seed_ = 1;
};

TEST_F(Virtual, of_files_in_a_row_is_read_from_them) {
  source("a.h5", {7, 4, 5}, {3, 4, 5});
  source("b.h5", {5, 4, 5});
  source("c.h5", {9, 4, 5}, {4, 2, 3});
  make("v.h5", {21, 4, 5},
       {{"c.h5", "x", {12, 0, 0}, {9, 4, 5}, {9, 4, 5}, {}, {}},  // not in the order of the rows
        {"a.h5", "x", {0, 0, 0}, {7, 4, 5}, {7, 4, 5}, {}, {}},
        {"b.h5", "x", {7, 0, 0}, {5, 4, 5}, {5, 4, 5}, {}, {}}});
  check("v.h5", true);
  const SampleOrigin origin = open("v.h5").origin(13);
  EXPECT_EQ(origin.file, (dir_ / "c.h5").string());
  EXPECT_EQ(origin.row, 1);
}

TEST_F(Virtual, of_parts_of_files_is_read_from_them) {
  source("a.h5", {17, 4, 5}, {5, 4, 5});
  make("v.h5", {15, 4, 5},
       {{"a.h5", "x", {0, 0, 0}, {4, 4, 5}, {17, 4, 5}, {8, 0, 0}, {4, 4, 5}},
        {"a.h5", "x", {4, 0, 0}, {1, 4, 5}, {17, 4, 5}, {14, 0, 0}, {1, 4, 5}},
        {"a.h5", "x", {5, 0, 0}, {10, 4, 5}, {17, 4, 5}, {3, 0, 0}, {10, 4, 5}}});
  check("v.h5", true);
}

TEST_F(Virtual, that_stacks_files_is_read_from_them) {
  source("a.h5", {4, 5}, {2, 5});
  source("b.h5", {4, 5});
  source("c.h5", {4, 5}, {4, 5});
  std::vector<Piece> pieces;
  for (hsize_t i = 0; i < 3; ++i)
    pieces.push_back(
        {std::string(1, static_cast<char>('a' + i)) + ".h5", "x", {i, 0, 0}, {1, 4, 5}, {4, 5}, {}, {}});
  make("v.h5", {3, 4, 5}, pieces);
  check("v.h5", true);
}

TEST_F(Virtual, of_virtual_datasets_is_read_from_the_last_sources) {
  source("a.h5", {6, 4}, {4, 4});
  source("b.h5", {5, 4});
  make("v.h5", {11, 4},
       {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}, {"b.h5", "x", {6, 0}, {5, 4}, {5, 4}, {}, {}}});
  make("w.h5", {12, 4},
       {{"v.h5", "x", {0, 0}, {8, 4}, {11, 4}, {2, 0}, {8, 4}},
        {"v.h5", "x", {8, 0}, {4, 4}, {11, 4}, {5, 0}, {4, 4}}});
  check("w.h5", true);
}

TEST_F(Virtual, in_a_list_of_files_goes_on_in_the_next) {
  const std::vector<std::byte> a = source("a.h5", {6, 4}, {4, 4});
  make("v.h5", {6, 4}, {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}});
  const std::vector<std::byte> b = source("w.h5", {3, 4});
  std::vector<std::byte> both = a;
  both.insert(both.end(), b.begin(), b.end());
  EXPECT_EQ(first_difference(Dataset::open({.files = {dir_ / "v.h5", dir_ / "w.h5"},
                                            .data = "x",
                                            .input_layout = InputLayout::none}),
                             both),
            "");
}

TEST_F(Virtual, of_a_shape_without_elements_holds_no_samples) {
  const std::vector<Extent> shapes = {{10, 0}, {10, 0, 3}, {10, 3, 0}, {1, 0}};
  for (const Extent& shape : shapes) {
    source("a.h5", {shape.begin(), shape.end()});
    make("v.h5", shape, {{"a.h5", "x", Extent(shape.size(), 0), shape, shape, {}, {}}});
    EXPECT_THAT(refusal("v.h5"), testing::EndsWith(" u8) holds no samples"));
    EXPECT_EQ(read_without_pool("v.h5").size(), 0U);
  }
  EXPECT_EQ(refusal("v.h5"), "v.h5:/x (1×0 u8) holds no samples");
}

TEST_F(Virtual, of_another_type_or_shape_goes_through_libhdf5) {
  source("a.h5", {6, 4});
  make("wide.h5", {6, 4}, {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}}, H5T_STD_U16LE);
  make("turned.h5", {4, 6}, {{"a.h5", "x", {0, 0}, {4, 6}, {6, 4}, {}, {}}});
  for (const char* const name : {"wide.h5", "turned.h5"}) {
    SCOPED_TRACE(name);
    check(name, false);
  }
}

TEST_F(Virtual, names_a_source_that_is_missing) {
  source("a.h5", {6, 4});
  { H5TestFile(dir_ / "empty.h5").create({.path = "y", .shape = {2}}); }
  make("file.h5", {12, 4},
       {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}, {"gone/b.h5", "x", {6, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("dataset.h5", {12, 4},
       {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}, {"empty.h5", "x", {6, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("columns.h5", {6, 8},
       {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}, {"empty.h5", "x", {0, 4}, {6, 4}, {6, 4}, {}, {}}});
  EXPECT_EQ(
      refusal("file.h5"),
      "file.h5:/x: source 1 of the virtual dataset, gone/b.h5, is missing; put it next to the file, or set "
      "HDF5_VDS_PREFIX to its folder");
  EXPECT_EQ(refusal("dataset.h5"),
            "dataset.h5:/x: source 1 of the virtual dataset: empty.h5: no dataset \"x\"; it has /y (2 u8)");
  make("all.h5", {8, 4}, {{"a.h5", "x", {0, 0}, {8, 4}, {8, 4}, {}, {}}});
  make("rows.h5", {4, 4}, {{"a.h5", "x", {0, 0}, {4, 4}, {8, 4}, {3, 0}, {4, 4}}});
  EXPECT_EQ(
      refusal("all.h5"),
      "all.h5:/x: source 0 of the virtual dataset: a.h5:/x has 6 rows, the virtual dataset takes 8 from row "
      "0 on; complete it");
  EXPECT_EQ(
      refusal("rows.h5"),
      "rows.h5:/x: source 0 of the virtual dataset: a.h5:/x has 6 rows, the virtual dataset takes 4 from "
      "row 3 on; complete it");
  EXPECT_THAT(refusal("columns.h5"), HasSubstr("source 1 of the virtual dataset: empty.h5: no dataset"));
}

// libhdf5 would wait for the writer of the pipe, with its lock held.
TEST_F(Virtual, names_a_source_that_is_no_file) {
  source("a.h5", {6, 4});
  ASSERT_EQ(::mkfifo((dir_ / "pipe.h5").c_str(), 0600), 0);
  const Piece first = {"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}};
  make("rows.h5", {12, 4}, {first, {"pipe.h5", "x", {6, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("columns.h5", {6, 8}, {first, {"pipe.h5", "x", {0, 4}, {6, 4}, {6, 4}, {}, {}}});
  for (const char* const name : {"rows.h5", "columns.h5"}) {
    EXPECT_EQ(refusal(name), std::string(name) +
                                 ":/x: source 1 of the virtual dataset, pipe.h5, is not a regular file; "
                                 "restore it, or set HDF5_VDS_PREFIX to the folder that has it");
  }
}

TEST_F(Virtual, is_refused_alike_where_libhdf5_is_to_read_it) {
  source("a.h5", {6, 4});
  { H5TestFile(dir_ / "empty.h5").create({.path = "y", .shape = {2}}); }
  const Piece first = {"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}};
  make("file.h5", {12, 4}, {first, {"gone/b.h5", "x", {6, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("dataset.h5", {12, 4}, {first, {"empty.h5", "x", {6, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("short.h5", {14, 4}, {first, {"a.h5", "x", {6, 0}, {8, 4}, {8, 4}, {}, {}}});
  make("columns.h5", {6, 8}, {first, {"empty.h5", "x", {0, 4}, {6, 4}, {6, 4}, {}, {}}});
  make("nested.h5", {12, 4}, {{"file.h5", "x", {0, 0}, {12, 4}, {12, 4}, {}, {}}});
  // The first source is of another type, the second is too short as well.
  make("wide.h5", {14, 4}, {first, {"a.h5", "x", {6, 0}, {8, 4}, {8, 4}, {}, {}}}, H5T_STD_U16LE);
  for (const char* const name : {"file.h5", "dataset.h5", "short.h5", "columns.h5", "nested.h5", "wide.h5"}) {
    SCOPED_TRACE(name);
    const std::string with_pool = refusal(name);
    EXPECT_THAT(with_pool, HasSubstr("of the virtual dataset"));
    EXPECT_EQ(refusal_without_pool(name), with_pool);
  }
}

TEST_F(Virtual, of_sources_that_are_there_is_read_where_libhdf5_is_to_read_it) {
  source("a.h5", {6, 4});
  source("flat.h5", {2, 12});
  make("rows.h5", {6, 4}, {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("gap.h5", {13, 4}, {{"a.h5", "x", {7, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("columns.h5", {6, 8}, {{"a.h5", "x", {0, 4}, {6, 4}, {6, 4}, {}, {}}});
  make("reshaped.h5", {6, 4}, {{"flat.h5", "x", {0, 0}, {6, 4}, {2, 12}, {}, {}}});
  for (const char* const name : {"rows.h5", "gap.h5", "columns.h5", "reshaped.h5"}) {
    SCOPED_TRACE(name);
    const std::vector<std::byte> expected = test::read_through_libhdf5(dir_ / name, "x");
    const ByteBuffer bytes = read_without_pool(name);
    EXPECT_TRUE(std::ranges::equal(expected, bytes.span()));
  }
}

TEST_F(Virtual, whose_source_goes_after_it_was_opened_is_refused) {
  source("a.h5", {6, 4});
  const Piece all = {"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}};
  make("direct.h5", {6, 4}, {all});
  make("wide.h5", {6, 4}, {all}, H5T_STD_U16LE);
  const auto open_reader = [&](const char* name) {
    const auto file = H5File::open(dir_ / name);
    return open_chunk_reader(file, file->describe("x"), nullptr, {.log_fallback = false});
  };
  const auto direct = open_reader("direct.h5"), wide = open_reader("wide.h5");
  std::filesystem::remove(dir_ / "a.h5");
  const auto refusal_of = [&](const ChunkReader& reader) {
    return refusal_in<FileError>(dir_.path(), [&] { read_all(reader, 1); });
  };
  EXPECT_THAT(refusal_of(*direct),
              HasSubstr("a.h5:/x: chunk (0,0) (samples 0-5) cannot be read: no such file"));
  EXPECT_THAT(refusal_of(*wide),
              HasSubstr("source 0 of the virtual dataset, a.h5, is missing; put it next to the file"));
}

TEST_F(Virtual, of_files_by_number_is_read_where_libhdf5_is_to_read_it) {
  source("p-0.h5", {1, 4});
  source("p-1.h5", {1, 4});
  {
    const H5TestFile file(dir_ / "v.h5", {.latest = true});
    const Extent shape = {2, 4};
    const Extent most = {H5S_UNLIMITED, 4};
    const Extent one = {1, 4};
    const Extent start = {0, 0};
    const Extent count = {H5S_UNLIMITED, 1};
    const Hid space(H5Screate_simple(2, shape.data(), most.data()));
    const Hid from(H5Screate_simple(2, one.data(), nullptr));
    const Hid to(H5Screate_simple(2, shape.data(), most.data()));
    test::require(
        H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, start.data(), one.data(), count.data(), one.data()),
        "H5Sselect_hyperslab");
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    test::require(H5Pset_virtual(plist.get(), to.get(), "p-%b.h5", "x", from.get()), "H5Pset_virtual");
    const Hid dataset(
        H5Dcreate2(file.id(), "x", H5T_STD_U8LE, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }
  const std::vector<std::byte> expected = test::read_through_libhdf5(dir_ / "v.h5", "x");
  EXPECT_EQ(expected.size(), 8U);
  const ByteBuffer bytes = read_without_pool("v.h5");
  EXPECT_TRUE(std::ranges::equal(expected, bytes.span()));
}

TEST_F(Virtual, refuses_a_dataset_that_is_its_own_source) {
  make("v.h5", {6, 4}, {{".", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}});
  EXPECT_EQ(refusal("v.h5"),
            "v.h5:/x: the virtual dataset is its own source: v.h5:/x takes from v.h5:/x; write it again with "
            "sources that hold data");
}

TEST_F(Virtual, refuses_a_circle_of_datasets_in_one_sentence) {
  make("a.h5", {6, 4}, {{"b.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("b.h5", {6, 4}, {{"c.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}});
  make("c.h5", {6, 4}, {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}});
  // Which leads into the circle and is none of it.
  make("v.h5", {6, 4}, {{"a.h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}});
  EXPECT_EQ(
      refusal("a.h5"),
      "b.h5:/x: the virtual dataset is its own source: b.h5:/x takes from c.h5:/x takes from a.h5:/x takes "
      "from b.h5:/x; write it again with sources that hold data");
  EXPECT_EQ(
      refusal("v.h5"),
      "a.h5:/x: the virtual dataset is its own source: a.h5:/x takes from b.h5:/x takes from c.h5:/x takes "
      "from a.h5:/x; write it again with sources that hold data");
}

TEST_F(Virtual, refuses_a_circle_that_libhdf5_would_have_to_read) {
  make("v.h5", {6, 8},
       {{".", "x", {0, 0}, {6, 4}, {6, 8}, {0, 4}, {6, 4}},
        {".", "x", {0, 4}, {6, 4}, {6, 8}, {0, 0}, {6, 4}}});
  EXPECT_THAT(refusal("v.h5"),
              HasSubstr("v.h5:/x: the virtual dataset is its own source: v.h5:/x takes from"));
  // Nor is it read without the loader.
  const auto file = H5File::open(dir_ / "v.h5");
  const DatasetInfo info = file->describe("x");
  std::vector<std::byte> rows(info.total_bytes());
  EXPECT_THAT(refusal_in<FileError>(dir_.path(), [&] { file->read_rows(info, 0, 6, rows); }),
              HasSubstr("v.h5:/x: the virtual dataset is its own source: v.h5:/x takes from v.h5:/x; "));
}

TEST_F(Virtual, may_refer_to_others_many_times_but_not_without_end) {
  source("0.h5", {6, 4});
  for (int i = 1; i <= 17; ++i) {
    make(std::to_string(i) + ".h5", {6, 4},
         {{std::to_string(i - 1) + ".h5", "x", {0, 0}, {6, 4}, {6, 4}, {}, {}}});
  }
  EXPECT_EQ(open("16.h5").size(), 6);
  EXPECT_EQ(
      refusal("17.h5"),
      "17.h5:/x: virtual datasets refer to each other more than 16 deep; write it again from the last of "
      "them");
}

}  // namespace
}  // namespace h5feed::test
