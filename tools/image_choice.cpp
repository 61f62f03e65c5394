#include "tools/image_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

std::string_view group_of(std::string_view path) { return path.substr(0, path.rfind('/')); }
std::string_view name_of_path(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool one_number_a_row(const DatasetEntry& entry) {
  return entry.numeric && (entry.shape.size() == 1 || (entry.shape.size() == 2 && entry.shape[1] == 1));
}

std::vector<DatasetEntry> image_datasets(const std::vector<DatasetEntry>& datasets) {
  std::vector<DatasetEntry> images;
  for (const DatasetEntry& entry : datasets) {
    const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
    if (dtype && looks_like_images(entry.shape, *dtype)) images.push_back(entry);
  }
  return images;
}

// Empty unless there is a choice to make; the largest dataset is offered, as a rule the training one.
std::string choice_hint(const DatasetOptions& options, std::string_view command) {
  const auto datasets = H5File::open(options.files.front())->list_datasets();
  const auto images = image_datasets(datasets);
  if (images.size() < 2) return {};
  const auto& largest = *std::max_element(images.begin(), images.end(), [](const auto& a, const auto& b) {
    return a.shape.front() < b.shape.front();
  });
  std::string hint = fmt::format(". Try: h5feed {} {} --data {}", command, options.files.front().string(),
                                 largest.path.substr(1));
  const std::string labels = labels_beside(largest, datasets);
  if (!labels.empty()) hint += fmt::format(" --target {}", labels.substr(1));
  return hint;
}

}  // namespace

std::string labels_beside(const DatasetEntry& images, const std::vector<DatasetEntry>& datasets) {
  static constexpr std::array<std::string_view, 5> kUsualNames = {"labels", "label", "targets", "target",
                                                                  "y"};
  std::string found;
  auto found_rank = kUsualNames.size() + 1;
  for (const DatasetEntry& entry : datasets) {
    if (!one_number_a_row(entry) || entry.shape.front() != images.shape.front() ||
        group_of(entry.path) != group_of(images.path)) {
      continue;
    }
    const auto usual = std::find(kUsualNames.begin(), kUsualNames.end(), name_of_path(entry.path));
    const auto rank = static_cast<std::size_t>(usual - kUsualNames.begin());
    if (rank < found_rank) {
      found = entry.path;
      found_rank = rank;
    }
  }
  return found;
}

Dataset open_dataset(const DatasetOptions& options, std::string_view command) {
  try {
    return Dataset::open(options);
  } catch (const DatasetError& error) {
    if (!options.data.empty()) throw;
    const std::string hint = choice_hint(options, command);
    if (hint.empty()) throw;
    throw DatasetError(error.what() + hint);
  }
}

}  // namespace h5feed::cli
