// Which filters h5feed decodes itself, and why it does not decode the others.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "store/filter_codecs.hpp"
#include "store/filters.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kBloscCodecPlace = 6;

std::string bitshuffle_reason(const std::vector<unsigned>& params) {
  if (params.size() < 3 || params[2] == 0) return "lacks the size of an element among its parameters";
  if (params.size() > 3 && params[3] % 8 != 0) {
    return fmt::format("has blocks that are no multiple of 8 elements ({})", params[3]);
  }
  return fmt::format("compresses with an unknown codec ({}; known are 0 none, 2 lz4, 3 zstd)",
                     params.size() > 4 ? params[4] : 0);
}

// "24 elements of f32 in big-endian order", as the chunks of a dataset have them.
std::string chunk_text(std::uint64_t elements, std::string_view type, std::size_t element_bytes,
                       bool big_endian) {
  std::string text = fmt::format("{} elements of {}", elements, type);
  if (element_bytes > 1) text += big_endian ? " in big-endian order" : " in little-endian order";
  return text;
}

std::string type_text(const ScaleOffsetParams& params) {
  const bool floating = params.value_class == ScaleOffsetParams::Class::floating;
  const char kind = floating ? 'f' : params.is_signed ? 'i' : 'u';
  return fmt::format("{}{}", kind, 8 * params.element_bytes);
}

}  // namespace

bool FilterPipeline::supports(const FilterSpec& filter) noexcept {
  switch (filter.id) {
    case filter_id::kShuffle:
      return filter.params.empty() || filter.params.front() > 0;
    case filter_id::kBlosc:
      return has_blosc_codec(filter.params.size() > kBloscCodecPlace ? filter.params[kBloscCodecPlace] : 0);
    case filter_id::kBitshuffle:
      return BitshuffleParams::from(filter.params).has_value();
    case filter_id::kSzip:
      return SzipParams::from(filter.params).has_value();
    case filter_id::kScaleOffset:
      return ScaleOffsetParams::from(filter.params).has_value();
    case filter_id::kDeflate:
    case filter_id::kFletcher32:
    case filter_id::kBzip2:
    case filter_id::kLzf:
    case filter_id::kLz4:
    case filter_id::kZstd:
      return true;
    default:
      return false;
  }
}

bool FilterPipeline::encodes(const FilterSpec& filter) noexcept {
  return filter.id != filter_id::kSzip && filter.id != filter_id::kScaleOffset && supports(filter);
}

std::string unsupported_reason(const FilterSpec& filter) {
  switch (filter.id) {
    case filter_id::kShuffle:
      return "has elements of 0 bytes";
    case filter_id::kBlosc:
      return fmt::format("compresses with a codec that the libblosc at hand lacks ({})",
                         filter.params.size() > kBloscCodecPlace ? filter.params[kBloscCodecPlace] : 0);
    case filter_id::kBitshuffle:
      return bitshuffle_reason(filter.params);
    case filter_id::kSzip:
    case filter_id::kScaleOffset:
      return fmt::format("has parameters ({}) that its encoder does not write",
                         fmt::join(filter.params, ", "));
    default:
      return "is not built in";
  }
}

std::string contradiction(const FilterSpec& filter, const DatasetInfo& info) {
  if (filter.id != filter_id::kScaleOffset) return {};
  const auto params = ScaleOffsetParams::from(filter.params);
  if (!params) return unsupported_reason(filter);
  const std::uint64_t elements = std::accumulate(info.chunk_shape.begin(), info.chunk_shape.end(),
                                                 std::uint64_t{1}, std::multiplies<>());
  const std::size_t bytes = size_of(info.dtype);
  const std::string stated =
      chunk_text(params->elements, type_text(*params), params->element_bytes, params->big_endian);
  const std::string real = chunk_text(elements, name_of(info.dtype), bytes, info.byte_swapped);
  if (stated == real) return {};
  return fmt::format("was set up for chunks of {}, and those of the dataset have {}", stated, real);
}

}  // namespace h5feed
