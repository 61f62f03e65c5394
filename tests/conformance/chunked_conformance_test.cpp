// SPDX-License-Identifier: Apache-2.0
// ChunkReader against H5Dread, byte for byte, over the matrix of storage_matrix.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "conformance/storage_matrix.hpp"
#include "h5feed/log.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

struct Storage {
  IndexKind kind;
  Pipeline pipeline;
};

void PrintTo(const Storage& storage, std::ostream* out) {
  *out << storage.kind.name << ", " << storage.pipeline.name;
}

std::vector<Storage> all_storages() {
  std::vector<Storage> result;
  for (const IndexKind& kind : test::index_kinds()) {
    for (const Pipeline& pipeline : test::pipelines()) {
      if (!test::storage_cases(kind, pipeline).empty()) result.push_back({kind, pipeline});
    }
  }
  return result;
}

class StorageMatrix : public testing::TestWithParam<Storage> {
 protected:
  StorageMatrix() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~StorageMatrix() override { set_log_sink({}); }

  TempDir dir_;
};

// All the ways of reading agree with `expected`.
void expect_delivers(const ChunkReader& reader, const std::vector<std::byte>& expected) {
  EXPECT_TRUE(reader.direct()) << reader.fallback_reason();
  for (const unsigned threads : {1U, 3U}) {
    const ByteBuffer bytes = read_all(reader, threads);
    ASSERT_EQ(bytes.size(), expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.data())) << threads << " threads";
  }
  if (!reader.rows_readable()) return;
  std::vector<std::byte> row(reader.info().row_bytes());
  for (std::uint64_t r = 0; r < reader.info().rows(); ++r) {
    reader.read_rows(r, 1, row);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.data() + r * row.size())) << "row " << r;
  }
}

TEST_P(StorageMatrix, delivers_what_libhdf5_reads) {
  for (const StorageCase& stored : test::storage_cases(GetParam().kind, GetParam().pipeline)) {
    SCOPED_TRACE(testing::Message() << name_of(stored.storing) << ", " << stored.type.name);
    const std::filesystem::path path = dir_ / "x.h5";
    const std::vector<std::byte> written = test::write_case(stored, path);
    const bool readable = test::libhdf5_decodes(stored.pipeline.filters(1, 1));
    const std::vector<std::byte> expected = readable ? test::read_through_libhdf5(path, "x") : written;
    if (!test::libhdf5_loses_values(stored)) {
      EXPECT_EQ(expected, written);
    }
    const auto file = H5File::open(path);
    expect_delivers(*open_chunk_reader(file, file->describe("x")), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, StorageMatrix, testing::ValuesIn(all_storages()), [](const auto& storage) {
  return std::string(storage.param.kind.name) + "_" + storage.param.pipeline.name;
});

TEST(StorageMatrixCoverage, has_at_least_four_hundred_files) {
  std::size_t files = 0;
  for (const Storage& storage : all_storages())
    files += test::storage_cases(storage.kind, storage.pipeline).size();
  RecordProperty("files", std::to_string(files));
  EXPECT_GE(files, 400U);
}

TEST(StorageMatrixCoverage, every_type_meets_every_pipeline_and_every_way_of_storing) {
  std::map<std::string, std::set<std::string>> types_of;
  for (const Storage& storage : all_storages()) {
    for (const StorageCase& stored : test::storage_cases(storage.kind, storage.pipeline)) {
      types_of[stored.pipeline.name].insert(stored.type.name);
      types_of[name_of(stored.storing)].insert(stored.type.name);
    }
  }
  EXPECT_EQ(types_of.size(), test::pipelines().size() + 16);
  for (const auto& [what, types] : types_of) {
    // Shrinking needs libhdf5 to decode: how many pipelines have it depends on the plugins of the machine.
    const bool all = !what.starts_with("shrunk");
    EXPECT_GE(types.size(), all ? test::element_types().size() : 4) << what;
  }
}

}  // namespace
}  // namespace h5feed::test
