// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/pages.hpp"

#include <fmt/format.h>
#include <filesystem>

#include <cstdint>

#include "base/system_limits.hpp"
#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"
#include "store/read/joined_reader.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

std::vector<bool> choose_pages(const BenchSettings& settings, bool cold, bool warm) {
  const std::string file = settings.file();
  const bool is_pattern = !std::filesystem::exists(file) && file.find_first_of("*?[") != std::string::npos;
  if (settings.mixture || settings.dataset.files.size() > 1 || is_pattern ||
      !settings.dataset.stage_dir.empty()) {
    if (cold)
      throw OptionError("--cold drops the pages of one file; give one, without a pattern and --stage-dir");
    return {false};
  }
  const std::uint64_t file_bytes = open_file_source(file)->size();
  if (cold) {
    require_droppable(file);
    return warm ? std::vector<bool>{false, true} : std::vector<bool>{true};
  }
  if (warm || file_bytes <= system_limits().available_bytes) return {false};
  try {
    require_droppable(file);
    return {false, true};
  } catch (const FileError& error) {
    say(fmt::format("{}; no cold rows", error.what()));
    return {false};
  }
}

void require_values_in(const std::string& file, const ChunkReader& reader) {
  const auto check = [&](const DatasetInfo& info) {
    const bool elsewhere = info.file != file || info.layout == StorageLayout::external ||
                           info.layout == StorageLayout::virtual_dataset;
    if (!elsewhere) return;
    throw OptionError(
        fmt::format("--cold drops the pages of {}, and values of {} are in other files; measure a "
                    "copy by h5feed repack, or leave --cold out and set --warm",
                    file, reader.info().place()));
  };
  const std::vector<JoinedPart> parts = reader.parts();
  if (parts.empty()) check(reader.info());
  for (const JoinedPart& part : parts) check(part.reader->info());
}

void load_if_it_fits(const BenchSettings& settings) {
  if (!settings.reads_one_file() || resident_share(settings.file()) == 1.0) return;
  if (std::filesystem::file_size(settings.file()) <= system_limits().available_bytes)
    load_pages(settings.file(), settings.time_budget);
}

std::string pages_text(const std::vector<bool>& pages) {
  if (pages.size() > 1) return "warm pages, then cold ones";
  return pages.front() ? "cold pages" : "warm pages";
}

}  // namespace h5feed::cli
