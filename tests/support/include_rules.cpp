#include "support/include_rules.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string_view>

namespace h5feed::testing {
namespace {

namespace fs = std::filesystem;

// "h5feed" is the public face, loader/include/h5feed. A folder may include itself, the public face
// and the folders listed here.
const std::map<std::string, std::set<std::string>>& allowed_folders() {
  static const std::set<std::string> loader = {"base",  "images", "store", "dataset",
                                               "cache", "plan",   "batch", "flow"};
  static const auto with = [](std::set<std::string> more) {
    more.insert(loader.begin(), loader.end());
    return more;
  };
  static const std::map<std::string, std::set<std::string>> table = {
      {"loader/include/h5feed", {}},
      {"loader/base", {}},
      {"loader/images", {"base"}},
      {"loader/store", {"base"}},
      {"loader/plan", {"base"}},
      {"loader/dataset", {"plan", "store", "base"}},
      {"loader/cache", {"base"}},
      {"loader/batch", {"cache", "base"}},
      {"loader/flow", {"batch", "cache", "plan", "dataset", "store", "base"}},
      {"cuda", loader},
      {"cuda/include/h5feed", {}},
      {"tools", with({"cuda"})},
      {"examples", {}},
      {"benchmarks", with({"cuda", "examples", "support"})},
      {"benchmarks/peers", {"base", "dataset", "flow", "plan"}},  // the order that all contenders follow
      // Files and limits as those of `h5feed generate` and `h5feed bench`.
      {"benchmarks/gpu", with({"cuda", "tools", "examples"})},
      {"tests", with({"cuda", "tools", "support", "conformance", "gpu", "examples"})},
      {"tests/fuzz", with({"support"})},
  };
  return table;
}

// A third-party header and the path prefixes of the files that may include it.
struct LibraryRule {
  std::string_view name;
  std::regex header;
  std::vector<std::string_view> users;
};

const std::vector<LibraryRule>& library_rules() {
  static const std::vector<LibraryRule> rules = {
      {"HDF5",
       std::regex("(hdf5/.*)?(H5.*|hdf5.*)\\.(h|hpp)"),
       {"loader/store/", "tests/", "benchmarks/peers/"}},
      {"TBB", std::regex("(tbb|oneapi)/.*"), {"loader/flow/", "tools/"}},
      {"OpenCV", std::regex("opencv.*"), {"loader/images/opencv_", "benchmarks/peers/", "tests/"}},
      {"libjpeg", std::regex("(jpeglib|turbojpeg)\\.h"), {"loader/images/jpeg_pixels", "tests/"}},
      {"Torch",
       std::regex("(torch|ATen|c10|caffe2)/.*"),
       {"loader/include/h5feed/torch", "cuda/include/h5feed/torch", "examples/", "tests/", "benchmarks/"}},
      {"CUDA",
       std::regex("(cuda|cub|thrust|cooperative_groups|nvtx3|nvml|driver_types).*"),
       {"cuda/", "tests/", "benchmarks/gpu/"}},
  };
  return rules;
}

bool is_source(const fs::path& path) {
  static constexpr std::array<std::string_view, 7> kExtensions = {".cpp", ".hpp", ".h",  ".cu",
                                                                  ".cuh", ".cc",  ".inl"};
  const std::string extension = path.extension().string();
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

// The row of the table that a file belongs to: its longest listed parent folder. Empty when unknown.
std::string row_of(const fs::path& relative) {
  for (fs::path folder = relative.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    const std::string name = folder.generic_string();
    if (allowed_folders().contains(name)) return name;
    // A room that is not listed must not pass as part of a wider row.
    if (folder.parent_path() == "loader" || folder.parent_path().empty()) break;
  }
  return {};
}

// The name by which other folders include files of a row.
std::string include_name_of(const std::string& row) { return fs::path(row).filename().string(); }

void check_line(const std::string& where, const std::string& file, const std::string& row, bool quoted,
                const std::string& header, std::vector<std::string>& violations) {
  for (const LibraryRule& rule : library_rules()) {
    if (quoted || !std::regex_match(header, rule.header)) continue;
    const bool allowed = std::any_of(rule.users.begin(), rule.users.end(),
                                     [&](std::string_view user) { return file.starts_with(user); });
    if (!allowed)
      violations.push_back(where + "includes <" + header + ">: " + std::string(rule.name) +
                           " has no place there");
  }
  if (!quoted) return;
  const auto slash = header.find('/');
  if (slash == std::string::npos) {
    violations.push_back(where + "includes \"" + header + "\" without its folder");
    return;
  }
  const std::string folder = header.substr(0, slash);
  if (folder == "h5feed" || folder == include_name_of(row) || allowed_folders().at(row).contains(folder))
    return;
  violations.push_back(where + "includes \"" + header + "\": " + row + " must not use " + folder);
}

void check_file(const fs::path& root, const fs::path& relative, std::vector<std::string>& violations) {
  static const std::regex include_line("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  const std::string file = relative.generic_string();
  const std::string row = row_of(relative);
  if (row.empty()) {
    violations.push_back(file + ": its folder is not in the table of the include direction");
    return;
  }
  std::ifstream in(root / relative);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::smatch match;
    if (!std::regex_match(line, match, include_line)) continue;
    check_line(file + ":" + std::to_string(number) + ": ", file, row, match[1] == "\"", match[2], violations);
  }
}

}  // namespace

std::vector<std::string> include_violations(const fs::path& root) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& top : fs::directory_iterator(root)) {
    const std::string name = top.path().filename().string();
    if (name.starts_with(".") || name.starts_with("build")) continue;
    if (!top.is_directory()) {
      if (is_source(top.path())) files.push_back(top.path().filename());
      continue;
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top.path())) {
      if (entry.is_regular_file() && is_source(entry.path()))
        files.push_back(fs::relative(entry.path(), root));
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> violations;
  for (const fs::path& file : files) check_file(root, file, violations);
  return violations;
}

}  // namespace h5feed::testing
