// SPDX-License-Identifier: Apache-2.0
#include "conformance/storage_matrix.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "support/files/h5_test_file.hpp"

namespace h5feed::test {
namespace {

constexpr IndexKind kIndexKinds[] = {
    {"version_1_b_tree", H5D_CHUNK_IDX_BTREE, false},
    {"single_chunk", H5D_CHUNK_IDX_SINGLE, true},
    {"implicit", H5D_CHUNK_IDX_NONE, true},
    {"fixed_array", H5D_CHUNK_IDX_FARRAY, true},
    {"extensible_array", H5D_CHUNK_IDX_EARRAY, true},
    {"version_2_b_tree", H5D_CHUNK_IDX_BT2, true},
    {"extensible_array_of_columns", H5D_CHUNK_IDX_EARRAY, true, 1},
};

// IEEE half precision and bfloat16, which libhdf5 has no names for before 1.14 and 2.0.
hid_t half_type(H5T_order_t order) { return float16_type(10, 15, order); }
hid_t brain_type(H5T_order_t order) { return float16_type(7, 127, order); }

bool little(H5T_order_t order) { return order == H5T_ORDER_LE; }

constexpr ElementType kElementTypes[] = {
    {"u8", DType::u8, [](H5T_order_t o) { return little(o) ? H5T_STD_U8LE : H5T_STD_U8BE; }},
    {"i8", DType::i8, [](H5T_order_t o) { return little(o) ? H5T_STD_I8LE : H5T_STD_I8BE; }},
    {"u16", DType::u16, [](H5T_order_t o) { return little(o) ? H5T_STD_U16LE : H5T_STD_U16BE; }},
    {"i16", DType::i16, [](H5T_order_t o) { return little(o) ? H5T_STD_I16LE : H5T_STD_I16BE; }},
    {"u32", DType::u32, [](H5T_order_t o) { return little(o) ? H5T_STD_U32LE : H5T_STD_U32BE; }},
    {"i32", DType::i32, [](H5T_order_t o) { return little(o) ? H5T_STD_I32LE : H5T_STD_I32BE; }},
    {"u64", DType::u64, [](H5T_order_t o) { return little(o) ? H5T_STD_U64LE : H5T_STD_U64BE; }},
    {"i64", DType::i64, [](H5T_order_t o) { return little(o) ? H5T_STD_I64LE : H5T_STD_I64BE; }},
    {"f16", DType::f16, half_type},
    {"bf16", DType::bf16, brain_type},
    {"f32", DType::f32, [](H5T_order_t o) { return little(o) ? H5T_IEEE_F32LE : H5T_IEEE_F32BE; }},
    {"f64", DType::f64, [](H5T_order_t o) { return little(o) ? H5T_IEEE_F64LE : H5T_IEEE_F64BE; }},
};

constexpr unsigned kSzip = 4;

FilterSpec filter(unsigned id, std::vector<unsigned> params, bool optional = true) {
  return {.id = id, .optional = optional, .params = std::move(params), .name = {}};
}
FilterSpec shuffle(unsigned element_bytes) { return filter(2, {element_bytes}); }
FilterSpec fletcher32() { return filter(3, {}, false); }

// Parameters as the writers of each filter leave them in a file (their sources: facts of the HDF Group's
// registry of filters); libhdf5 completes those of its own filters at creation.
constexpr Pipeline kPipelines[] = {
    {"no_filter", [](unsigned, unsigned) { return std::vector<FilterSpec>(); }},
    {"gzip", [](unsigned, unsigned) { return std::vector{gzip_filter(4)}; }},
    {"shuffle_gzip",
     [](unsigned element, unsigned) {
       return std::vector{shuffle(element), gzip_filter(4)};
     }},
    {"fletcher32", [](unsigned, unsigned) { return std::vector{fletcher32()}; }},
    {"shuffle_gzip_fletcher32",
     [](unsigned element, unsigned) {
       return std::vector{shuffle(element), gzip_filter(4), fletcher32()};
     }},
    {"fletcher32_first_gzip",
     [](unsigned, unsigned) {
       return std::vector{fletcher32(), gzip_filter(4)};
     }},
    {"fletcher32_first_shuffle_gzip",
     [](unsigned element, unsigned) {
       return std::vector{fletcher32(), shuffle(element), gzip_filter(4)};
     }},
    // Nearest-neighbour coding of blocks of 8 elements.
    {"szip",
     [](unsigned, unsigned) {
       return std::vector{filter(kSzip, {32, 8})};
     }},
    {"lzf",
     [](unsigned, unsigned chunk) {
       return std::vector{filter(32000, {4, 0x0105, chunk})};
     }},
    {"shuffle_lzf",
     [](unsigned element, unsigned chunk) {
       return std::vector{shuffle(element), filter(32000, {4, 0x0105, chunk})};
     }},
    {"lz4", [](unsigned, unsigned) { return std::vector{filter(32004, {})}; }},
    {"zstd", [](unsigned, unsigned) { return std::vector{filter(32015, {3})}; }},
    {"shuffle_zstd_fletcher32",
     [](unsigned element, unsigned) {
       return std::vector{shuffle(element), filter(32015, {1}), fletcher32()};
     }},
    {"blosc_lz4",
     [](unsigned element, unsigned chunk) {
       return std::vector{filter(32001, {2, 2, element, chunk, 5, 1, 1})};
     }},
    {"bitshuffle_lz4",
     [](unsigned element, unsigned) {
       return std::vector{filter(32008, {0, 4, element, 0, 2})};
     }},
    {"bitshuffle_zstd",
     [](unsigned element, unsigned) {
       return std::vector{filter(32008, {0, 4, element, 0, 3, 3})};
     }},
    {"bzip2", [](unsigned, unsigned) { return std::vector{filter(307, {1})}; }},
};

constexpr const char* kStoringNames[] = {"aligned",         "ragged",
                                         "whole_rows",      "incompressible",
                                         "many_chunks",     "unfiltered_edges",
                                         "missing_chunks",  "never_written",
                                         "masked_chunks",   "user_block_512",
                                         "user_block_4096", "big_endian",
                                         "shrunk",          "shrunk_unfiltered_edges",
                                         "extended",        "chunk_beyond_extent"};

bool exists(const IndexKind& kind, const std::vector<FilterSpec>& filters, Storing storing) {
  const bool filtered = !filters.empty();
  const bool resizable = kind.type != H5D_CHUNK_IDX_SINGLE;
  switch (storing) {
    case Storing::unfiltered_edges:
    case Storing::shrunk_unfiltered_edges:
      // The flag makes libhdf5 choose a newer index than the version 1 B-tree.
      return filtered && resizable && kind.latest &&
             (storing == Storing::unfiltered_edges || libhdf5_decodes(filters));
    case Storing::shrunk:
      // libhdf5 decodes the chunks at the new edge, and overwrites what lies beyond.
      return libhdf5_decodes(filters);
    case Storing::masked_chunks:
      return filtered;
    case Storing::extended:
      return resizable;
    case Storing::chunk_beyond_extent:
      return resizable && kind.type != H5D_CHUNK_IDX_NONE;
    default:
      return true;
  }
}

// What libhdf5 can do with a filter: the bits of H5Zget_filter_info, 0 where it has none. Remembered,
// because it searches its plugins again at each call.
unsigned abilities(unsigned id) {
  static std::map<unsigned, unsigned> known;
  const auto [found, is_new] = known.try_emplace(id, 0);
  const auto filter = static_cast<H5Z_filter_t>(id);
  if (is_new && H5Zfilter_avail(filter) > 0)
    require(H5Zget_filter_info(filter, &found->second), "H5Zget_filter_info");
  return found->second;
}

bool libhdf5_has(const std::vector<FilterSpec>& filters, unsigned ability) {
  return std::ranges::all_of(
      filters, [ability](const FilterSpec& filter) { return (abilities(filter.id) & ability) != 0; });
}

}  // namespace

std::span<const IndexKind> index_kinds() { return kIndexKinds; }
std::span<const ElementType> element_types() { return kElementTypes; }
std::span<const Pipeline> pipelines() { return kPipelines; }
const char* name_of(Storing storing) { return kStoringNames[static_cast<std::size_t>(storing)]; }

std::vector<StorageCase> storage_cases(const IndexKind& kind, const Pipeline& pipeline) {
  const std::vector<FilterSpec> filters = pipeline.filters(1, 1);
  // An implicit index has no room for the sizes of filtered chunks.
  if (kind.type == H5D_CHUNK_IDX_NONE && !filters.empty()) return {};
  std::vector<StorageCase> cases;
  // Every type meets every pipeline, and every way of storing.
  auto type = static_cast<std::size_t>(kind.type) * 3 + std::char_traits<char>::length(pipeline.name);
  for (std::size_t i = 0; i < std::size(kStoringNames); ++i, ++type) {
    const auto storing = static_cast<Storing>(i);
    if (exists(kind, filters, storing))
      cases.push_back({kind, pipeline, storing, kElementTypes[type % std::size(kElementTypes)]});
  }
  return cases;
}

bool libhdf5_decodes(const std::vector<FilterSpec>& filters) {
  return libhdf5_has(filters, H5Z_FILTER_CONFIG_DECODE_ENABLED);
}
bool libhdf5_encodes(const std::vector<FilterSpec>& filters) {
  return libhdf5_has(filters, H5Z_FILTER_CONFIG_ENCODE_ENABLED);
}

bool libhdf5_loses_values(const StorageCase& stored) {
  const std::vector<FilterSpec> filters = stored.pipeline.filters(1, 1);
  const bool shrinks =
      stored.storing == Storing::shrunk || stored.storing == Storing::shrunk_unfiltered_edges;
  return shrinks && std::ranges::any_of(filters, [](const FilterSpec& filter) { return filter.id == kSzip; });
}

}  // namespace h5feed::test
