// SPDX-License-Identifier: Apache-2.0
// The filters that h5feed decodes, each defined next to its codec, and the names of filters that it does not
// decode.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "store/filters/entry.hpp"

namespace h5feed {

// Filters whose libraries are optional.
#if H5FEED_HAS_BLOSC2
#define H5FEED_BLOSC2_FILTER(FILTER) FILTER(blosc2)
#else
#define H5FEED_BLOSC2_FILTER(FILTER)
#endif
#if H5FEED_HAS_ZFP
#define H5FEED_ZFP_FILTER(FILTER) FILTER(zfp)
#else
#define H5FEED_ZFP_FILTER(FILTER)
#endif

// One line for each filter, in the order in which the message about `--filter` lists them: FILTER(deflate)
// stands for deflate_filter, which deflate.cpp defines.
#define H5FEED_FILTERS(FILTER) \
  FILTER(shuffle)              \
  FILTER(deflate)              \
  FILTER(lz4)                  \
  FILTER(zstd)                 \
  FILTER(lzf)                  \
  FILTER(bzip2)                \
  FILTER(bitshuffle)           \
  FILTER(blosc)                \
  FILTER(fletcher32)           \
  FILTER(szip)                 \
  FILTER(scaleoffset)          \
  FILTER(nbit)                 \
  H5FEED_BLOSC2_FILTER(FILTER) \
  H5FEED_ZFP_FILTER(FILTER)

#define H5FEED_DECLARE(name) extern const FilterEntry name##_filter;
H5FEED_FILTERS(H5FEED_DECLARE)
#undef H5FEED_DECLARE

namespace {

#define H5FEED_ADDRESS(name) &name##_filter,
constexpr auto kFilters = std::to_array<const FilterEntry*>({H5FEED_FILTERS(H5FEED_ADDRESS)});
#undef H5FEED_ADDRESS
#undef H5FEED_FILTERS
#undef H5FEED_BLOSC2_FILTER
#undef H5FEED_ZFP_FILTER

// Filters of "Registered Filter Plugins" that only libhdf5 decodes, some of them if h5feed was built without
// their library.
struct NamedFilter {
  unsigned id;
  std::string_view name;
};
constexpr std::array<NamedFilter, 8> kForeignFilters = {{{32013, "zfp"},
                                                         {32017, "sz"},
                                                         {32019, "jpeg"},
                                                         {32024, "sz3"},
                                                         {32026, "blosc2"},
                                                         {32028, "sperr"},
                                                         {32031, "jpeg2000"},
                                                         {32012, "lpc-rice"}}};

std::string is_not_built_in(const FilterSpec&) { return "is not built in"; }

std::size_t refuse_to_decode(const FilterSpec& filter, std::span<const std::byte>, std::span<std::byte>,
                             CodecState&) {
  throw FilterError(fmt::format("filter {} ({}) is not built in", filter.id, filter.name));
}

constexpr FilterEntry kNotBuiltIn = {.unsupported = is_not_built_in, .decode = refuse_to_decode};

}  // namespace

std::span<const FilterEntry* const> all_filters() noexcept { return kFilters; }

const FilterEntry& filter_entry(unsigned id) noexcept {
  const auto found = std::ranges::find(kFilters, id, &FilterEntry::id);
  return found == kFilters.end() ? kNotBuiltIn : **found;
}

std::string_view filter_name(unsigned id) noexcept {
  if (has_own_decoder(id)) return filter_entry(id).name;
  const auto foreign = std::ranges::find(kForeignFilters, id, &NamedFilter::id);
  return foreign == kForeignFilters.end() ? std::string_view() : foreign->name;
}

std::vector<unsigned> named_filters() {
  std::vector<unsigned> ids;
  for (const FilterEntry* filter : kFilters) ids.push_back(filter->id);
  std::ranges::sort(ids);
  for (const NamedFilter& filter : kForeignFilters) {
    if (!has_own_decoder(filter.id)) ids.push_back(filter.id);
  }
  return ids;
}

bool has_own_decoder(unsigned id) noexcept { return &filter_entry(id) != &kNotBuiltIn; }

bool compresses(unsigned id) noexcept { return filter_entry(id).compresses; }

std::string h5py_arguments(const FilterSpec& filter) {
  const std::string_view keywords = filter_entry(filter.id).h5py;
  if (!keywords.empty()) return fmt::format(fmt::runtime(keywords), param(filter, 0, 0));
  const std::string number = fmt::format("compression={}", filter.id);
  if (filter.params.empty()) return number;
  return fmt::format("{}, compression_opts=({},)", number, fmt::join(filter.params, ", "));
}

}  // namespace h5feed
