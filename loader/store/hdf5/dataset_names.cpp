// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/dataset_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace h5feed {
namespace {

constexpr std::size_t kListedEntries = 8;

std::string entry_text(const DatasetEntry& entry) {
  if (!entry.problem.empty()) return fmt::format("{} ({})", short_path(entry.path), entry.type_text);
  return fmt::format("{} ({} {})", short_path(entry.path), shape_text(entry), entry.type_text);
}

// Returns the texts of the first few, and how many more there are.
template <typename Entry, typename Text>
std::string first_texts(const std::vector<Entry>& entries, const Text& text_of) {
  std::string text;
  const std::size_t listed = std::min(entries.size(), kListedEntries);
  for (std::size_t i = 0; i < listed; ++i) text += (i == 0 ? "" : ", ") + text_of(entries[i]);
  if (entries.size() > listed) text += fmt::format(" and {} more", entries.size() - listed);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view last_component(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string_view without_leading_slashes(std::string_view path) {
  return path.substr(std::min(path.find_first_not_of('/'), path.size()));
}

// Returns the Levenshtein distance; keeps one row of the table at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

bool looks_like_images(const DatasetEntry& entry) {
  return entry.type_text == name_of(DType::u8) && (entry.shape.size() == 3 || entry.shape.size() == 4);
}

}  // namespace

std::string shape_text(const DatasetEntry& entry) {
  if (!entry.problem.empty()) return "-";
  // A null dataspace has no shape either, but is not a scalar.
  return entry.type_text == "without elements" ? "none" : format_shape(entry.shape);
}

std::string list_text(const std::vector<DatasetEntry>& entries) {
  return entries.empty() ? "no datasets" : first_texts(entries, entry_text);
}

std::string list_text(const std::vector<ExternalLink>& links) {
  return first_texts(links, [](const ExternalLink& link) {
    return fmt::format("{} to {}:{}", short_path(link.path), link.other_file, short_path(link.other_path));
  });
}

std::string no_images_text(const H5File& file, const std::vector<DatasetEntry>& entries) {
  const std::vector<ExternalLink> links = file.list_external_links();
  const auto damaged =
      std::ranges::find_if(entries, [](const auto& entry) { return !entry.problem.empty(); });
  return fmt::format("{}: no dataset looks like images; it has {}{}{}", file.path().string(),
                     list_text(entries),
                     links.empty() ? "" : ", and links into other files: " + list_text(links),
                     damaged == entries.end() ? "" : "; " + damaged->problem);
}

std::string closest_dataset(const std::vector<DatasetEntry>& entries, std::string_view wanted,
                            bool want_images) {
  const std::string name = lower(without_leading_slashes(wanted));
  const DatasetEntry* nearest = nullptr;
  std::size_t nearest_edits = 0;
  const DatasetEntry* containing = nullptr;
  const DatasetEntry* images = nullptr;
  std::size_t image_sets = 0;
  for (const DatasetEntry& entry : entries) {
    if (!entry.numeric) continue;
    const std::string path = lower(without_leading_slashes(entry.path));
    const std::string_view base = last_component(path);
    const std::size_t edits =
        base == last_component(name) ? 0 : std::min(edit_distance(path, name), edit_distance(base, name));
    // If more than half of the letters differ, it is another word.
    const bool near = edits * 2 <= std::max(base.size(), name.size());
    if (near && (nearest == nullptr || edits < nearest_edits)) {
      nearest = &entry;
      nearest_edits = edits;
    }
    if (containing == nullptr && name.size() >= 3 && path.find(name) != std::string::npos)
      containing = &entry;
    if (looks_like_images(entry)) {
      images = &entry;
      ++image_sets;
    }
  }
  const DatasetEntry* best = nearest != nullptr ? nearest : containing;
  if (best == nullptr && want_images && image_sets == 1) best = images;
  return best == nullptr ? std::string() : std::string(without_leading_slashes(best->path));
}

}  // namespace h5feed
