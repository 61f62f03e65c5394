// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/wire.hpp"

#include <gtest/gtest.h>

#include <random>

#include "store/hdf5/external_files.hpp"
#include "store/hdf5/virtual_sources.hpp"
#include "store/index/chunk_index.hpp"
#include "store/sparse/sparse_group.hpp"

namespace h5feed::test {
namespace {

DatasetInfo some_info() {
  return {.file = "train.h5",
          .path = "/images",
          .dtype = DType::u16,
          .shape = {12, 6},
          .max_shape = {~std::uint64_t{0}, 6},
          .layout = StorageLayout::chunked,
          .chunk_shape = {4, 6},
          .filters = {{.id = 1, .optional = true, .params = {6}, .name = "gzip"}},
          .index_kind = "B-tree v1",
          .fill_value = {std::byte{1}, std::byte{2}},
          .stored_bytes = 99};
}

template <typename T>
std::vector<std::byte> encoded(const T& value) {
  WireWriter writer;
  writer.put(value);
  return writer.take();
}

// What a receiver makes of bytes: "accepted", or why not.
template <typename T>
std::string received(std::span<const std::byte> bytes) {
  try {
    WireReader reader(bytes);
    reader.get<T>();
    reader.finish();
    return "accepted";
  } catch (const BadMessage& error) {
    return error.what();
  }
}

TEST(Wire, carries_a_description_unchanged) {
  const DatasetInfo info = some_info();
  const std::vector<std::byte> bytes = encoded(info);
  WireReader reader(bytes);
  const auto arrived = reader.get<DatasetInfo>();
  reader.finish();
  EXPECT_EQ(encoded(arrived), bytes);
  EXPECT_EQ(arrived.path, "/images");
  EXPECT_EQ(arrived.shape, info.shape);
  EXPECT_EQ(arrived.filters.at(0).params, info.filters.at(0).params);
  EXPECT_EQ(arrived.fill_value, info.fill_value);
}

TEST(Wire, refuses_a_description_that_contradicts_itself) {
  EXPECT_EQ(received<DatasetInfo>(encoded(some_info())), "accepted");
  const auto refuses = [](auto change) {
    DatasetInfo info = some_info();
    change(info);
    return received<DatasetInfo>(encoded(info)) == "values that contradict each other";
  };
  EXPECT_TRUE(refuses([](DatasetInfo& info) { info.chunk_shape = {4}; }));
  EXPECT_TRUE(refuses([](DatasetInfo& info) { info.chunk_shape = {4, 0}; }));
  EXPECT_TRUE(refuses([](DatasetInfo& info) { info.chunk_shape.clear(); }));
  EXPECT_TRUE(refuses([](DatasetInfo& info) {
    info.shape = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  }));
  EXPECT_TRUE(refuses([](DatasetInfo& info) { info.max_shape.clear(); }));
  EXPECT_TRUE(refuses([](DatasetInfo& info) { info.fill_value.resize(1); }));
  EXPECT_TRUE(refuses([](DatasetInfo& info) { info.values_per_element = 0; }));
  EXPECT_TRUE(refuses([](DatasetInfo& info) { info.values_per_element = 2; }));
  EXPECT_TRUE(refuses([](DatasetInfo& info) { info.filters.resize(33); }));
}

TEST(Wire, refuses_selections_that_are_none_or_exceed_any_dataset) {
  const auto received_of = [](SelectedIndices indices) {
    return received<SelectedIndices>(encoded(indices));
  };
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  EXPECT_EQ(received_of({3, 4, 5, 2}), "accepted");
  EXPECT_EQ(received_of({kMost - 1, 0, 1, 1}), "accepted");
  for (const SelectedIndices& wrong :
       {SelectedIndices{0, 1, 0, 1}, SelectedIndices{0, 1, 1, 0}, SelectedIndices{0, 2, 2, 3},
        SelectedIndices{0, 0, 2, 1}, SelectedIndices{kMost, 1, 1, 1}, SelectedIndices{1, 1, 1, kMost},
        SelectedIndices{0, kMost, 3, 1}, SelectedIndices{0, ~std::uint64_t{0}, 2, 1},
        SelectedIndices{0, 1, ~std::uint64_t{0}, 1}})
    EXPECT_EQ(received_of(wrong), "values that contradict each other") << wrong.start << " " << wrong.count;
}

TEST(Wire, refuses_bytes_that_end_too_early_and_bytes_behind_the_end) {
  std::vector<std::byte> bytes = encoded(some_info());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(received<DatasetInfo>(std::span(bytes).first(size)), "accepted") << size;
  bytes.push_back(std::byte{});
  EXPECT_EQ(received<DatasetInfo>(bytes), "bytes behind its end");
}

TEST(Wire, refuses_counts_for_which_there_are_no_bytes) {
  EXPECT_EQ(received<std::vector<std::string>>(encoded(~std::uint64_t{0})), "more values than it has bytes");
  EXPECT_EQ(received<std::string>(encoded(~std::uint64_t{0})), "an end before its time");
  EXPECT_EQ(received<std::vector<std::byte>>(encoded(std::uint64_t{9})), "more values than it has bytes");
  EXPECT_EQ(received<std::vector<ChunkLocation>>(encoded(std::string("too short"))),
            "an end before its time");
}

TEST(Wire, refuses_numbers_that_stand_for_nothing) {
  EXPECT_EQ(received<bool>(encoded(std::uint8_t{2})), "a truth value that is neither");
  EXPECT_EQ(received<DType>(encoded(std::uint8_t{12})), "a number that stands for nothing");
  EXPECT_EQ(received<StorageLayout>(encoded(std::uint8_t{255})), "a number that stands for nothing");
}

// Sanitizers see what is read or allocated beyond the bytes.
TEST(Wire, survives_any_bytes) {
  std::mt19937 random(1);
  const std::vector<std::byte> whole = encoded(some_info());
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = whole;
    if (i % 2 == 0) bytes.resize(random() % 100);
    for (unsigned changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    received<DatasetInfo>(bytes);
    received<std::vector<DatasetEntry>>(bytes);
    received<std::optional<VlenInfo>>(bytes);
    received<SentLocations>(bytes);
    received<std::vector<StoredMapping>>(bytes);
    received<std::vector<ExternalPart>>(bytes);
    received<std::optional<SparseGroup>>(bytes);
    received<std::optional<std::vector<std::string>>>(bytes);
  }
}

}  // namespace
}  // namespace h5feed::test
