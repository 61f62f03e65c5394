// SPDX-License-Identifier: Apache-2.0
// The command line's filter grammar. An input is an element's size, then the text.
#include <string>
#include <string_view>

#include "fuzz/fuzz_target.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"

namespace h5feed::test::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  Reader reader(input);
  const std::size_t element_bytes = 1 + reader.u8();
  const std::string_view text(reinterpret_cast<const char*>(reader.rest().data()), reader.rest().size());
  try {
    const std::vector<FilterSpec> filters = parse_filters(text, element_bytes);
    const std::string printed = format_filters(filters);
    const std::vector<FilterSpec> again = parse_filters(printed, element_bytes);
    require(again.size() == filters.size(), "what is printed reads as many filters");
    for (std::size_t i = 0; i < filters.size(); ++i) {
      require(again[i].id == filters[i].id && again[i].params == filters[i].params,
              "what is printed reads the same");
      require(FilterPipeline::supports(filters[i]), "what is read can be decoded");
    }
  } catch (const OptionError& error) {
    require(std::string_view(error.what()).find("accepted are") != std::string_view::npos,
            "a refusal says what is accepted");
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> result;
  for (const std::string_view text :
       {"none", "gzip:4", "shuffle+gzip:9+fletcher32", "lz4", "zstd:22", "lzf", "bzip2:9", "bitshuffle+lz4",
        "bitshuffle:zstd:3", "blosc", "blosc:lz4hc:9", "fletcher32"}) {
    result.push_back(Writer().u8(3).bytes(std::as_bytes(std::span(text))).done());
  }
  return result;
}

}  // namespace h5feed::test::fuzz
