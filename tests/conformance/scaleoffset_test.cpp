// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 6 against libhdf5, byte for byte: every type, byte order, scale factor, fill value and number
// of packed bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/with_type.hpp"
#include "conformance/storage_matrix.hpp"
#include "store/format/byte_order.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/scaleoffset_chunk.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

constexpr std::size_t kChunkElements = 111;

// Calls f with a value of the dtype's type, which is one that the filter packs.
template <typename F>
void with_packable_type(DType dtype, F&& f) {
  with_type_of(dtype, [&](auto type) {
    if constexpr (std::is_arithmetic_v<decltype(type)>) f(type);
  });
}

template <typename T>
T fill_value() {
  return std::is_floating_point_v<T> ? static_cast<T>(-7.5) : static_cast<T>(7);
}

// How the values of a chunk spread; every dataset has a chunk of each.
enum class Spread { equal, few, some, all, with_fill };
constexpr Spread kSpreads[] = {Spread::equal, Spread::few, Spread::some, Spread::all, Spread::with_fill};

template <typename T>
T random_value(Spread spread, T base, std::mt19937_64& random) {
  if (spread == Spread::equal) return base;
  if (spread == Spread::with_fill && random() % 4 == 0) return fill_value<T>();
  if constexpr (std::is_floating_point_v<T>) {
    // Not more: libhdf5 itself spoils what overflows when it is scaled.
    const T width = spread == Spread::all ? T{1e20F} : spread == Spread::some ? T{1e3F} : T{1};
    return base + width * static_cast<T>(static_cast<double>(random() >> 11) * 0x1p-53);
  } else {
    using U = std::make_unsigned_t<T>;
    const U width = spread == Spread::all    ? static_cast<U>(~U{0})
                    : spread == Spread::some ? static_cast<U>(U{1} << sizeof(T) * 4)
                                             : U{13};
    return static_cast<T>(static_cast<U>(static_cast<U>(base) + static_cast<U>(random() % width)));
  }
}

template <typename T>
void append(Bytes& bytes, T value) {
  const auto* const at = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), at, at + sizeof(T));
}

template <typename T>
Bytes random_chunks(std::mt19937_64& random) {
  Bytes bytes;
  for (const Spread spread : kSpreads) {
    const T base = std::is_floating_point_v<T> ? static_cast<T>(static_cast<std::int32_t>(random()) >> 16)
                                               : static_cast<T>(random());
    for (std::size_t i = 0; i < kChunkElements; ++i) append(bytes, random_value<T>(spread, base, random));
  }
  return bytes;
}

// In the byte order of the file.
template <typename T>
Bytes stored_fill_value(bool big_endian) {
  Bytes bytes;
  append(bytes, fill_value<T>());
  if (big_endian != kHostIsBigEndian) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

// The value of packed bits by the definition of the filter, with two decimal digits for floats. Values with
// all bits of an element are the element itself in little-endian order, which `scaleoffset_chunk` packs from
// its highest byte on.
template <typename T>
T unpacked(std::uint64_t packed, unsigned bits, T minimum, bool filled) {
  if (bits == 8 * sizeof(T)) {
    T element;
    auto* const bytes = reinterpret_cast<std::byte*>(&element);
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes[kHostIsBigEndian ? sizeof(T) - 1 - i : i] =
          static_cast<std::byte>(packed >> (bits - 8 * (i + 1)));
    return element;
  }
  const std::uint64_t mark = (std::uint64_t{1} << bits) - 1;
  const std::uint64_t value = packed & mark;
  if (filled && value == mark) return fill_value<T>();
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value) / T{100} + minimum;
  } else {
    return static_cast<T>(value + static_cast<std::uint64_t>(minimum));
  }
}

class ScaleOffset : public testing::TestWithParam<std::tuple<std::size_t, H5T_order_t>> {
 protected:
  ElementType element() const { return element_types()[std::get<0>(GetParam())]; }
  bool big_endian() const { return std::get<1>(GetParam()) == H5T_ORDER_BE; }
  bool floating() const { return !is_integer(element().dtype); }
  std::filesystem::path path() const { return dir_ / "x.h5"; }

  TestDataset dataset(std::string name, int factor) const {
    TestDataset result{.path = std::move(name), .file_type = element().file_type(std::get<1>(GetParam()))};
    result.filters = {{.id = filter_id::kScaleOffset,
                       .optional = true,
                       .params = {floating() ? 0U : 2U, static_cast<unsigned>(factor)}}};
    return result;
  }

  // Returns the values of a dataset; nothing if libhdf5 refuses to read it, which HDF5 1.14 does with some
  // chunks that libhdf5 has written itself.
  std::optional<Bytes> values_of_libhdf5(const std::string& name) const {
#if H5_VERSION_GE(1, 14, 0)
    try {
      return read_through_libhdf5(path(), name);
    } catch (const std::runtime_error&) {
      return std::nullopt;
    }
#else
    return read_through_libhdf5(path(), name);
#endif
  }

  // Every dataset of the file is decoded without libhdf5, as libhdf5 decodes it and to the values that are
  // known of it.
  void expect_equal() {
    // libhdf5 refuses to open with locks what h5feed holds open without.
    std::vector<std::pair<std::string, std::optional<Bytes>>> expected;
    for (const DatasetEntry& entry : H5File::open(path())->list_datasets()) {
      expected.emplace_back(entry.path, std::nullopt);
    }
    for (auto& [name, theirs] : expected) theirs = values_of_libhdf5(name);
    ASSERT_FALSE(expected.empty());
    const auto file = H5File::open(path());
    for (const auto& [name, values] : expected) {
      const auto reader = open_chunk_reader(file, file->describe(name));
      ASSERT_TRUE(reader->direct()) << name << ": " << reader->fallback_reason();
      const ByteBuffer ours = read_all(*reader, 1);
      if (values) {
        ASSERT_TRUE(same(ours, *values)) << name << " differs from libhdf5";
        compared_ = true;
      }
      if (const auto known = known_.find(name); known != known_.end()) {
        ASSERT_TRUE(same(ours, known->second)) << name << " differs from its definition";
        compared_ = true;
      }
    }
    if (!compared_ && H5_VERSION_GE(1, 14, 0))
      GTEST_SKIP() << "this libhdf5 (" H5_VERS_INFO ") reads nothing of what it has written";
    EXPECT_TRUE(compared_);
  }

  static bool same(const ByteBuffer& ours, const Bytes& wanted) {
    return std::ranges::equal(ours.span().first(ours.size()), wanted);
  }

  TempDir dir_;
  std::map<std::string, Bytes> known_;  // values by path, in the byte order of this machine
  bool compared_ = false;
};

TEST_P(ScaleOffset, decodes_what_libhdf5_writes) {
  const int bits = static_cast<int>(8 * size_of(element().dtype));
  const std::vector<int> factors =
      floating() ? std::vector{-3, 0, 2, 7, 13} : std::vector{0, 1, bits / 2, bits - 1, bits};
  const FilterSpec gzip{.id = filter_id::kDeflate, .optional = true, .params = {1}};
  const FilterSpec shuffle{.id = filter_id::kShuffle, .optional = true};
  const FilterSpec sum{.id = filter_id::kFletcher32};
  const std::vector<std::vector<FilterSpec>> followers = {{}, {shuffle, gzip}, {sum}};
  std::mt19937_64 random(1);
  with_packable_type(element().dtype, [&](auto type) {
    using T = decltype(type);
    H5TestFile file(path());
    int number = 0;
    const auto put = [&](int factor, auto change) {
      TestDataset one = dataset("x" + std::to_string(number++), factor);
      // The last chunk is cut by the extent.
      one.shape = {std::size(kSpreads) * 37 - 5, 3};
      one.chunk = {37, 3};
      change(one);
      file.create(one);
      file.write(one.path, random_chunks<T>(random));
    };
    for (const int factor : factors) {
      put(factor, [](TestDataset& one) { one.undefined_fill_value = true; });
      put(factor, [](TestDataset&) {});
      for (const auto& more : followers) {
        put(factor, [&](TestDataset& one) {
          one.fill_value = stored_fill_value<T>(big_endian());
          one.filters.insert(one.filters.end(), more.begin(), more.end());
        });
      }
    }
  });
  expect_equal();
}

// libhdf5 writes the fewest bits that do; here are all.
TEST_P(ScaleOffset, decodes_every_number_of_bits) {
  const std::size_t element_bytes = size_of(element().dtype);
  const std::uint64_t chunks = 8 * element_bytes + 1;
  std::mt19937_64 random(2);
  with_packable_type(element().dtype, [&](auto type) {
    using T = decltype(type);
    H5TestFile file(path());
    for (const bool filled : {false, true}) {
      TestDataset one = dataset(filled ? "filled" : "plain", floating() ? 2 : 0);
      one.shape = {chunks * kChunkElements};
      one.chunk = {kChunkElements};
      one.undefined_fill_value = !filled;
      if (filled) one.fill_value = stored_fill_value<T>(big_endian());
      file.create(one);
      Bytes& known = known_["/" + one.path];
      for (unsigned bits = 0; bits < chunks; ++bits) {
        std::vector<std::uint64_t> packed(kChunkElements);
        for (std::uint64_t& value : packed) value = random() % 8 == 0 ? ~std::uint64_t{0} : random();
        const T least = static_cast<T>(static_cast<std::int32_t>(random()) >> 8);
        for (const std::uint64_t value : packed) append(known, unpacked<T>(value, bits, least, filled));
        Bytes minimum;
        append(minimum, least);
        if (kHostIsBigEndian) std::ranges::reverse(minimum);
        const std::uint64_t minimum_bits = little_endian(minimum);
        Bytes stored = scaleoffset_chunk(bits, minimum_bits, packed);
        stored.push_back({});  // libhdf5 itself adds a byte
        file.write_chunk(one.path, Shape{bits * kChunkElements}, stored);
      }
    }
  });
  expect_equal();
}

std::vector<std::size_t> packable_types() {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < element_types().size(); ++i) {
    const DType dtype = element_types()[i].dtype;
    if (is_integer(dtype) || size_of(dtype) >= 4) places.push_back(i);
  }
  return places;
}

INSTANTIATE_TEST_SUITE_P(Types, ScaleOffset,
                         testing::Combine(testing::ValuesIn(packable_types()),
                                          testing::Values(H5T_ORDER_LE, H5T_ORDER_BE)),
                         [](const auto& type) {
                           return std::string(element_types()[std::get<0>(type.param)].name) +
                                  (std::get<1>(type.param) == H5T_ORDER_BE ? "_big_endian"
                                                                           : "_little_endian");
                         });

}  // namespace
}  // namespace h5feed::test
