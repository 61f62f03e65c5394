// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/cifar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed::cli {
namespace {

constexpr std::uint64_t kPixels = 3 * 32 * 32;

struct File {
  std::filesystem::path path;
  std::shared_ptr<const ByteSource> bytes;
  std::uint64_t records = 0;
};
using Files = std::shared_ptr<const std::vector<File>>;

// Position of a part in each record, and the range of its values.
struct Part {
  std::uint64_t record_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  unsigned classes = 0;  // 0: no labels
};

class CifarPart final : public ArraySource {
 public:
  CifarPart(Files files, Part part, std::vector<std::string> class_names)
      : files_(std::move(files)), part_(part), class_names_(std::move(class_names)) {
    std::uint64_t records = 0;
    for (const File& file : *files_) records += file.records;
    shape_ = {records};
    if (part_.bytes > 1) shape_.insert(shape_.end(), {3, 32, 32});
  }

  DType dtype() const noexcept override { return DType::u8; }
  const std::vector<std::uint64_t>& shape() const noexcept override { return shape_; }
  std::vector<std::string> class_names() const override { return class_names_; }

  void read(std::span<std::byte> out) override {
    while (!out.empty()) {
      const File& file = (*files_)[file_];
      if (record_ == file.records) {
        ++file_;
        record_ = 0;
        continue;
      }
      constexpr std::uint64_t kMostRecords = 256;
      const std::uint64_t count = std::min({kMostRecords, out.size() / part_.bytes, file.records - record_});
      records_.resize(static_cast<std::size_t>(count * part_.record_bytes));
      file.bytes->read(record_ * part_.record_bytes, records_);
      for (std::uint64_t i = 0; i < count; ++i) {
        std::memcpy(out.data() + i * part_.bytes, records_.data() + i * part_.record_bytes + part_.offset,
                    part_.bytes);
        check_label(file, record_ + i, out[static_cast<std::size_t>(i * part_.bytes)]);
      }
      record_ += count;
      out = out.subspan(static_cast<std::size_t>(count * part_.bytes));
    }
  }

  void expect_end() override {}  // open_cifar has checked that the files hold whole records

 private:
  void check_label(const File& file, std::uint64_t record, std::byte label) const {
    if (part_.classes == 0 || std::to_integer<unsigned>(label) < part_.classes) return;
    throw FileError(
        fmt::format("{}: record {} has label {}, and there are {} classes; check that it is a "
                    "binary CIFAR file of this kind",
                    file.path.string(), record, std::to_integer<unsigned>(label), part_.classes));
  }

  Files files_;
  Part part_;
  std::vector<std::string> class_names_;
  std::vector<std::uint64_t> shape_;
  std::size_t file_ = 0;
  std::uint64_t record_ = 0;
  std::vector<std::byte> records_;
};

// Reads one name per line; empty if there is no such file, or if it names another number of classes.
std::vector<std::string> names_from(const std::filesystem::path& file, std::size_t classes) {
  std::vector<std::string> names;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  return names.size() == classes ? names : std::vector<std::string>{};
}

}  // namespace

std::vector<CifarArray> open_cifar(const std::vector<std::filesystem::path>& files, CifarKind kind) {
  const std::uint64_t labels = kind == CifarKind::ten ? 1 : 2;
  const std::uint64_t record_bytes = labels + kPixels;
  auto opened = std::make_shared<std::vector<File>>();
  for (const std::filesystem::path& path : files) {
    auto bytes = open_file_source(path);
    const std::uint64_t size = bytes->size();
    if (size == 0 || size % record_bytes != 0) {
      throw FileError(
          fmt::format("{}: {} bytes are no whole number of records of {}; check that it is a binary "
                      "CIFAR-{} file, unpacked",
                      path.string(), size, record_bytes, kind == CifarKind::ten ? 10 : 100));
    }
    opened->push_back({path, std::move(bytes), size / record_bytes});
  }
  const Files all = opened;
  const std::filesystem::path folder = files.front().parent_path();
  std::vector<CifarArray> arrays;
  const auto add = [&](std::string name, const Part& part, std::vector<std::string> names) {
    arrays.push_back({std::move(name), std::make_unique<CifarPart>(all, part, std::move(names))});
  };
  add("images", {record_bytes, labels, kPixels, 0}, {});
  if (kind == CifarKind::ten) {
    add("labels", {record_bytes, 0, 1, 10}, names_from(folder / "batches.meta.txt", 10));
  } else {
    add("labels", {record_bytes, 1, 1, 100}, names_from(folder / "fine_label_names.txt", 100));
    add("coarse_labels", {record_bytes, 0, 1, 20}, names_from(folder / "coarse_label_names.txt", 20));
  }
  return arrays;
}

}  // namespace h5feed::cli
