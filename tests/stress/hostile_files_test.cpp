// SPDX-License-Identifier: Apache-2.0
// Files with damaged metadata, opened in another process. Whatever they do to libhdf5, this process goes on:
// a file is read, or refused by an error that names it.
//
//   H5FEED_TEST_MUTANTS=100000 hostile_files_test     so many files; default 400
//   H5FEED_TEST_SEED=7 hostile_files_test             other files
//   H5FEED_TEST_FOLDER=DIR hostile_files_test         also the files of a folder
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/isolation/reader_process.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/captured_log.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

using Random = std::mt19937_64;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void add_attribute(const H5TestFile& file, const std::string& object, const std::string& name) {
  const hsize_t count = 4;
  const Hid space(H5Screate_simple(1, &count, nullptr));
  const Hid attribute(H5Acreate_by_name(file.id(), object.c_str(), name.c_str(), H5T_STD_I32LE, space.get(),
                                        H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  const std::array<std::int32_t, 4> values = {1, 2, 3, 4};
  require(H5Awrite(attribute.get(), H5T_NATIVE_INT32, values.data()), "H5Awrite");
}

// A small file with one of each structure that libhdf5 has to parse. Most of its bytes are metadata.
std::vector<std::byte> whole_file(const std::filesystem::path& path, bool latest) {
  {
    H5TestFile file(path, {.latest = latest});
    file.create({.path = "images", .shape = {12, 6}, .max_shape = {kUnlimited, kUnlimited}, .chunk = {4, 3}});
    file.write("images", patterned_bytes(72));
    file.create({.path = "rows", .shape = {40}, .max_shape = {kUnlimited}, .chunk = {4}});
    file.write("rows", patterned_bytes(40));
    file.create({.path = "packed", .shape = {8, 4}, .chunk = {2, 4}, .filters = {{.id = 2}, gzip_filter(1)}});
    file.write("packed", patterned_bytes(32));
    file.create({.path = "nbit", .shape = {8}, .chunk = {4}, .filters = {{.id = 5}}});
    file.write("nbit", patterned_bytes(8));
    file.create({.path = "small", .shape = {5}, .compact = true, .fill_value = {std::byte{7}}});
    file.write("small", patterned_bytes(5));
    file.create({.path = "a/b/labels", .file_type = H5T_IEEE_F32BE, .shape = {6}});
    file.write("a/b/labels", patterned_bytes(24));
    const Hid ragged(H5Tvlen_create(H5T_STD_U8LE));
    file.create({.path = "a/ragged", .file_type = ragged.get(), .shape = {2}});
    for (char c = 'a'; c < 'm'; ++c) {
      file.create({.path = fmt::format("a/many/{}", c), .shape = {1}});
      add_attribute(file, "images", std::string(1, c));
    }
  }
  return file_bytes(path);
}

// Numbers that libhdf5 adds, multiplies, or takes for addresses and lengths.
std::uint64_t odd_number(Random& random, std::size_t file_size) {
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return ~std::uint64_t{0};
    case 2:
      return std::uint64_t{1} << (random() % 64);
    case 3:
      return (std::uint64_t{1} << (random() % 64)) - 1;
    case 4:
      return random() % file_size;
    default:
      return random() % 300;
  }
}

void repair_checksums(std::vector<std::byte>& bytes);

// Changes a few bytes, preferably near a structure's signature.
std::vector<std::byte> mutant_of(std::vector<std::byte> bytes, Random& random) {
  static constexpr std::array<const char*, 12> kSignatures = {"OHDR", "TREE", "SNOD", "HEAP", "GCOL", "FRHP",
                                                              "FHDB", "BTHD", "BTLF", "EAHD", "FAHD", "FHIB"};
  for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
    std::size_t at = random() % bytes.size();
    if (random() % 2 == 0) {
      const char* const name = kSignatures[random() % kSignatures.size()];
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i + 4 <= bytes.size(); ++i) {
        if (std::memcmp(&bytes[i], name, 4) == 0) places.push_back(i);
      }
      if (!places.empty()) at = places[random() % places.size()] + 4 + random() % 60;
    }
    const std::size_t width = std::size_t{1} << (random() % 4);
    if (at + width > bytes.size()) continue;
    const std::uint64_t number =
        random() % 3 == 0 ? at - random() % 64 : odd_number(random, bytes.size());  // at - …: its own place
    if (random() % 4 == 0) {
      bytes[at] ^= static_cast<std::byte>(1U << (random() % 8));
    } else {
      std::memcpy(&bytes[at], &number, width);
    }
  }
  repair_checksums(bytes);
  return bytes;
}

// The new format would refuse most changes by a checksum: those of object headers are computed anew.
void repair_checksums(std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at + 32 < bytes.size(); ++at) {
    if (std::memcmp(&bytes[at], "OHDR", 4) != 0) continue;
    const auto flags = std::to_integer<unsigned>(bytes[at + 5]);
    const std::size_t size_at = at + 6 + ((flags & 0x20U) != 0 ? 16 : 0) + ((flags & 0x10U) != 0 ? 4 : 0);
    std::uint64_t size = 0;
    std::memcpy(&size, &bytes[size_at], std::size_t{1} << (flags & 3U));
    const std::size_t end = size_at + (std::size_t{1} << (flags & 3U)) + size;
    if (size > bytes.size() || end + 4 > bytes.size()) continue;
    const std::uint32_t checksum = metadata_checksum(std::span(bytes).subspan(at, end - at));
    std::memcpy(&bytes[end], &checksum, sizeof checksum);
  }
}

// Reads all that a training would, and returns how that went: "read", or the kind of the error.
std::string outcome_of(const std::filesystem::path& path, const std::shared_ptr<ReaderProcess>& process) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  std::string worst = "read";
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const IsolationError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(path.filename().string()), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      worst = text.substr(text.find(": ") + 2, 24);
    } catch (const Error&) {
      if (worst == "read") worst = "refused";
    }
  };
  attempt([&] {
    const auto file = H5File::open(path, path, process);
    for (const DatasetEntry& entry : file->list_datasets()) {
      attempt([&] { file->describe_vlen(entry.path); });
      if (!entry.problem.empty() && worst == "read") worst = "refused";
      if (!entry.numeric) continue;
      attempt([&] {
        const DatasetInfo info = file->describe(entry.path);
        if (info.total_bytes() > kMostBytes) return;
        const auto reader = open_chunk_reader(file, info);
        if (reader->chunk_bytes() <= kMostBytes) read_all(*reader, 1);
      });
    }
  });
  return worst;
}

TEST(HostileFiles, do_no_harm_to_the_process_that_opens_them) {
  const CapturedLog log;  // which datasets are read through libhdf5
  const TempDir dir;
  const auto process = std::make_shared<ReaderProcess>(
      IsolationLimits{.time = std::chrono::seconds(2), .memory_bytes = std::uint64_t{1} << 30});
  Random random(from_environment("H5FEED_TEST_SEED", 1));
  const std::array<std::vector<std::byte>, 2> whole = {whole_file(dir / "old.h5", false),
                                                       whole_file(dir / "new.h5", true)};
  EXPECT_EQ(outcome_of(dir / "old.h5", process), "read");
  std::map<std::string, std::uint64_t> outcomes;
  for (std::uint64_t i = 0; i < from_environment("H5FEED_TEST_MUTANTS", 400); ++i) {
    const std::filesystem::path path = dir / "mutant.h5";
    replace_file(path, mutant_of(whole[i % 2], random));
    ++outcomes[outcome_of(path, process)];
  }
  if (const char* const folder = std::getenv("H5FEED_TEST_FOLDER")) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string outcome = outcome_of(entry.path(), process);
      ++outcomes["foreign: " + outcome];
      fmt::print("{}: {}\n", entry.path().filename().string(), outcome);
    }
  }
  for (const auto& [outcome, count] : outcomes) fmt::print("{:>8} {}\n", count, outcome);
  EXPECT_GT(outcomes["refused"], 0U) << "no change did any damage";
  EXPECT_GT(outcomes["read"], 0U) << "no file could be read";
  EXPECT_EQ(outcome_of(dir / "new.h5", process), outcome_of(dir / "old.h5", process)) << "after all that";
}

}  // namespace
}  // namespace h5feed::test
