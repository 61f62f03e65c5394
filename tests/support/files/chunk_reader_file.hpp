// SPDX-License-Identifier: Apache-2.0
// Fixture: one dataset in a file and its ChunkReader.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

/// Fixture for tests on one dataset of a file, read chunk by chunk. Collects warnings in `warnings_`.
class StoreChunkReader : public testing::Test {
 protected:
  StoreChunkReader() {
    set_log_sink([this](LogLevel level, std::string_view line) {
      if (level == LogLevel::warning) warnings_.push_back(without_directory(std::string(line)));
    });
  }
  ~StoreChunkReader() override { set_log_sink({}); }

  std::filesystem::path path() const { return dir_ / "train.h5"; }

  std::string without_directory(std::string text) const {
    return without_folder(std::move(text), dir_.path());
  }

  // Creates the file with one dataset of patterned values and returns them.
  Bytes write(const TestDataset& dataset, bool latest = false) {
    const Hid type(H5Tcopy(dataset.file_type));
    Bytes values = patterned_bytes(product(dataset.shape) * H5Tget_size(type.get()));
    H5TestFile file(path(), {.latest = latest});
    file.create(dataset);
    file.write(dataset.path, values);
    return values;
  }

  std::shared_ptr<const ChunkReader> open(const std::string& name = "images") const {
    const auto file = H5File::open(path());
    return open_chunk_reader(file, file->describe(name));
  }

  /// Returns the text of the error that opening a dataset throws; "accepted" if it throws none.
  std::string open_message(const std::string& name = "images") const {
    return without_directory(refusal_of<h5feed::Error>([&] { open(name); }));
  }

  template <typename Error>
  std::string read_message(const ChunkReader& reader, std::uint64_t chunk) const {
    ReadScratch scratch;
    Bytes out(reader.chunk_bytes());
    return without_directory(refusal_of<Error>([&] { reader.read_chunk(chunk, out, scratch); }));
  }

  TempDir dir_;
  std::vector<std::string> warnings_;
};

inline const std::vector<FilterSpec> kGzip = {{.id = 1, .optional = true, .params = {4}, .name = "gzip"}};

}  // namespace h5feed::test
