// SPDX-License-Identifier: Apache-2.0
#include "tools/check/entries.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "h5feed/error.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/mapped_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {
namespace {

std::vector<std::uint64_t> chunk_shape_of(const DatasetInfo& info) {
  return info.chunk_shape.empty() ? rows_as_chunks(info) : info.chunk_shape;
}

// Of a virtual dataset, the chunks of its sources tell.
std::uint64_t num_chunks(CheckedFiles& files, const H5File& file, const DatasetInfo& info) {
  if (info.layout == StorageLayout::virtual_dataset) {
    const ScopedLogSink quiet(ignore_log);
    return on_grid(open_chunk_reader(files.open(files.name_of(file)), info))->num_chunks();
  }
  std::uint64_t chunks = 1;
  for (const std::uint64_t cells : chunk_grid(info.shape, chunk_shape_of(info))) chunks *= cells;
  return chunks;
}

// Returns whether `path` is `top` or an object below it. Both are absolute.
bool is_at_or_below(const std::string& path, const std::string& top) {
  if (top == "/" || path == top) return true;
  return path.size() > top.size() && path.starts_with(top) && path[top.size()] == '/';
}

class Lister {
 public:
  explicit Lister(CheckedFiles& files) : files_(files) {}

  void add_one(const H5File& file, const std::string& name) {
    const std::string path = file.describe(name).path;
    if (is_new(file, path)) add(file, file.list_one(path));
  }

  // Adds what is at or below `top`, and what the links there lead to.
  void add_all(const H5File& file, const std::string& top) {
    add_below(file, top);
    for (; !links_.empty(); links_.pop_front()) follow(links_.front());
  }

  std::vector<CheckEntry> take() { return std::move(entries_); }

 private:
  struct Link {
    std::filesystem::path file;
    std::string path;
  };
  struct Listing {
    std::vector<DatasetEntry> datasets;
    std::vector<ExternalLink> links;
  };

  bool is_new(const H5File& file, const std::string& path) {
    return seen_.emplace(files_.name_of(file).string(), path).second;
  }

  void add(const H5File& file, DatasetEntry listed) {
    check_interrupted();
    CheckEntry entry{.file = files_.name_of(file), .listed = std::move(listed)};
    entry.problem = entry.listed.problem;
    try {
      if (entry.listed.numeric) {
        entry.info = file.describe(entry.listed.path);
        entry.chunks = num_chunks(files_, file, *entry.info);
      }
    } catch (const Error& error) {
      entry.problem = error.what();
    }
    entries_.push_back(std::move(entry));
  }

  // Returns whether anything was found.
  bool add_below(const H5File& file, const std::string& top) {
    const auto [known, is_unknown] = listings_.try_emplace(files_.name_of(file).string());
    Listing& listing = known->second;
    if (is_unknown) listing = {file.list_datasets(), file.list_external_links()};
    bool found = false;
    for (const DatasetEntry& listed : listing.datasets) {
      if (!is_at_or_below(listed.path, top)) continue;
      found = true;
      if (is_new(file, listed.path)) add(file, listed);
    }
    for (const ExternalLink& link : listing.links) {
      if (!is_at_or_below(link.path, top)) continue;
      found = true;
      if (is_new(file, link.path)) links_.push_back({files_.name_of(file), link.path});
    }
    return found;
  }

  void follow(const Link& link) {
    check_interrupted();
    try {
      const PlacedObject object = files_.follow(files_.open(link.file), link.path);
      const std::string top = object.path.starts_with('/') ? object.path : '/' + object.path;
      if (!add_below(*object.file, top)) add_unlisted(*object.file, top);
    } catch (const IsolationError&) {
      throw;
    } catch (const Error& error) {
      entries_.push_back({.file = link.file,
                          .listed = {.path = link.path, .type_text = "link", .problem = error.what()},
                          .problem = error.what()});
    }
  }

  // Adds what has a name over links within its file, which is not among the names that are listed.
  void add_unlisted(const H5File& file, const std::string& path) {
    try {
      add_one(file, path);
    } catch (const DatasetError&) {
      if (is_new(file, path))
        entries_.push_back({.file = files_.name_of(file), .listed = {.path = path, .type_text = "group"}});
    }
  }

  CheckedFiles& files_;
  std::map<std::string, Listing> listings_;             // By file
  std::set<std::pair<std::string, std::string>> seen_;  // Datasets and links, by file and path
  std::deque<Link> links_;                              // To be followed
  std::vector<CheckEntry> entries_;
};

}  // namespace

CheckedFiles::CheckedFiles(std::shared_ptr<H5File> first)
    : first_(std::move(first)), last_(first_), pool_(FilePlaces(), first_->isolation()) {
  names_.emplace(std::filesystem::weakly_canonical(first_->path()).string(), first_->path());
}

const std::filesystem::path& CheckedFiles::name_of(const H5File& file) {
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(file.path());
  return names_.try_emplace(canonical.string(), file.path().lexically_normal()).first->second;
}

std::shared_ptr<H5File> CheckedFiles::open(const std::filesystem::path& path) {
  if (path == first_->path()) return first_;
  if (path != last_->path()) last_ = pool_.open(path);
  return last_;
}

PlacedObject CheckedFiles::follow(std::shared_ptr<H5File> file, const std::string& path) {
  return pool_.follow_links(std::move(file), path);
}

std::vector<CheckEntry> list_entries(CheckedFiles& files, const std::vector<std::string>& wanted) {
  Lister lister(files);
  if (wanted.empty()) lister.add_all(*files.first(), "/");
  for (const std::string& name : wanted) {
    const PlacedObject object = files.follow(files.first(), name);
    lister.add_one(*object.file, object.path);
  }
  return lister.take();
}

}  // namespace h5feed::cli
