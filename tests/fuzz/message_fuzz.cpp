// SPDX-License-Identifier: Apache-2.0
// Replies of the process that reads metadata. An input is the kind of the reply (u8), then its bytes.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "fuzz/fuzz_target.hpp"
#include "store/hdf5/external_files.hpp"
#include "store/hdf5/global_heap.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/virtual_sources.hpp"
#include "store/index/chunk_index.hpp"
#include "store/isolation/sent_dataset.hpp"
#include "store/sparse/sparse_group.hpp"

namespace h5feed::test::fuzz {
namespace {

// The results of all requests.
using Replies =
    std::tuple<bool, DatasetEntry, DatasetInfo, HeapFormat, PathEnd, SentLocations, H5File::StoredChunk,
               std::optional<CategoricalColumn>, std::optional<SparseGroup>, std::optional<VlenInfo>,
               std::optional<std::uint64_t>, std::optional<std::vector<std::string>>,
               std::vector<DatasetEntry>, std::vector<ExternalLink>, std::vector<ExternalPart>,
               std::vector<StoredMapping>, std::vector<std::string>, std::vector<std::uint64_t>>;
constexpr std::size_t kKinds = std::tuple_size_v<Replies>;

// What was received is what was sent.
template <typename T>
void receive(std::span<const std::byte> bytes) {
  try {
    WireReader reader(bytes);
    const T value = reader.get<T>();
    reader.finish();
    WireWriter writer;
    writer.put(value);
    require(std::ranges::equal(writer.bytes(), bytes), "a value that was received has one form");
  } catch (const BadMessage&) {
  }
}

template <std::size_t... kKind>
void receive_kind(std::size_t kind, std::span<const std::byte> bytes, std::index_sequence<kKind...>) {
  constexpr std::array<void (*)(std::span<const std::byte>), kKinds> kReceive = {
      receive<std::tuple_element_t<kKind, Replies>>...};
  kReceive[kind % kKinds](bytes);
}

template <typename T>
Bytes seed(std::size_t kind, const T& value) {
  WireWriter writer;
  writer.put(value);
  return Writer().u8(static_cast<unsigned>(kind)).bytes(writer.bytes()).done();
}

template <std::size_t... kKind>
std::vector<Bytes> default_values(std::index_sequence<kKind...>) {
  return {seed(kKind, std::tuple_element_t<kKind, Replies>())...};
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  Reader reader(input);
  const unsigned kind = reader.u8();
  receive_kind(kind, reader.rest(), std::make_index_sequence<kKinds>());
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> result = default_values(std::make_index_sequence<kKinds>());
  DatasetInfo info;
  info.file = "x.h5";
  info.path = "/images";
  info.shape = info.max_shape = {4, 6};
  info.layout = StorageLayout::chunked;
  info.chunk_shape = {2, 6};
  info.filters = {{.id = 1, .params = {4}, .name = "gzip"}};
  info.fill_value = {std::byte{7}};
  result.push_back(seed(2, info));
  result.push_back(seed(5, SentLocations{.locations = {{100, 10, 0}, {200, 20, 1}}}));
  result.push_back(seed(16, std::vector<std::string>{"a", "b/c"}));
  return result;
}

}  // namespace h5feed::test::fuzz
