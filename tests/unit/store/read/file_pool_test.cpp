// SPDX-License-Identifier: Apache-2.0
#include "store/read/file_pool.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Lowers the limit of open files for its lifetime.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t limit) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit low{limit, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

// Takes all descriptors but `left`.
std::vector<FileDescriptor> take_all_but(std::size_t left) {
  std::vector<FileDescriptor> taken;
  while (true) {
    FileDescriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!next.valid()) break;
    taken.push_back(std::move(next));
  }
  taken.resize(taken.size() - std::min(left, taken.size()));
  return taken;
}

// A dataset of `files` files with 2 rows each.
Dataset many_files(const TempDir& dir, const std::string& name, int files) {
  std::vector<std::filesystem::path> paths;
  for (int i = 0; i < files; ++i) {
    paths.push_back(dir / (name + std::to_string(i) + ".h5"));
    H5TestFile file(paths.back());
    file.create({.path = "x", .shape = {2, 3}, .chunk = {1, 3}});
    file.write("x", random_bytes(6));
  }
  return Dataset::open({.files = paths, .data = "x", .input_layout = InputLayout::none});
}

TEST(FilePool, bounds_the_files_that_are_open) {
  TempDir dir;
  const auto pool = std::make_shared<FilePool>(2, 1);
  std::vector<std::shared_ptr<const ByteSource>> sources;
  for (int i = 0; i < 5; ++i) {
    const std::filesystem::path path = dir / std::to_string(i);
    std::ofstream(path) << i << "abc";
    sources.push_back(pool->source(path));
    EXPECT_EQ(pool->source(path), sources.back());
  }
  EXPECT_EQ(pool->num_open(), 0u);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 5; ++i) {
      std::byte first{};
      sources[i]->read(0, {&first, 1});
      EXPECT_EQ(std::to_integer<char>(first), '0' + static_cast<char>(i));
      EXPECT_LE(pool->num_open(), 2u);
    }
  }
  sources.clear();
  EXPECT_EQ(pool->num_open(), 0u);
}

TEST(FilePool, refuses_a_file_that_was_replaced_while_it_was_closed) {
  TempDir dir;
  const auto pool = std::make_shared<FilePool>(1, 1);
  const std::filesystem::path path = dir / "x";
  std::ofstream(path) << "abcd";
  const auto source = pool->source(path);
  std::ofstream(path, std::ios::app) << "efgh";  // growing is fine
  std::byte first{};
  source->read(0, {&first, 1});
  std::ofstream(dir / "y") << "other";
  pool->source(dir / "y")->read(0, {&first, 1});
  std::filesystem::rename(dir / "y", path);
  EXPECT_EQ(refusal_in<Error>(dir.path(),
                              [&] {
                                source->read(0, {&first, 1});
                              }),
            "x: the file was replaced or cut short since it was opened; open it again");
}

TEST(FilePool, opens_a_file_once_for_links_that_follow_each_other) {
  TempDir dir;
  for (const char* const name : {"a.h5", "b.h5"}) {
    H5TestFile file(dir / name);
    file.create({.path = "x", .shape = {1}});
    file.create({.path = "y", .shape = {1}});
  }
  {
    H5TestFile master(dir / "master.h5");
    for (const auto& [file, path, name] :
         {std::tuple("a.h5", "x", "ax"), std::tuple("a.h5", "y", "ay"), std::tuple("b.h5", "x", "bx")})
      require(H5Lcreate_external(file, path, master.id(), name, H5P_DEFAULT, H5P_DEFAULT), name);
  }
  FilePool pool;
  const auto master = pool.open(dir / "master.h5");
  const PlacedObject ax = pool.follow_links(master, "ax");
  const PlacedObject ay = pool.follow_links(master, "ay");
  EXPECT_EQ(ay.file, ax.file);
  EXPECT_EQ(ay.path, "y");
  EXPECT_NE(pool.follow_links(master, "bx").file, ax.file);
  const auto before = pool.follow_links(master, "ay").file;
  std::filesystem::copy_file(dir / "b.h5", dir / "c.h5");
  std::filesystem::rename(dir / "c.h5", dir / "a.h5");
  EXPECT_NE(pool.follow_links(master, "ax").file, before) << "the file was replaced";
}

TEST(FilePool, shares_what_may_be_open_with_all_datasets_of_the_process) {
  const TempDir dir;
  const FewDescriptors few(100);
  const Dataset train = many_files(dir, "train", 70), valid = many_files(dir, "valid", 70);
  DataLoader first(train, {.cache_bytes = 0}), second(valid, {.cache_bytes = 0});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::int64_t samples = 0;
    for (DataLoader* const loader : {&first, &second}) {
      while (const auto batch = loader->next()) samples += batch->size();
    }
    EXPECT_EQ(samples, 280);
    EXPECT_LE(FilePool().num_open(), 50U);
  }
  EXPECT_TRUE(FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)).valid())
      << "the program has the rest";
}

TEST(FilePool, closes_files_where_other_code_has_taken_the_descriptors) {
  const TempDir dir;
  const FewDescriptors few(100);
  const Dataset dataset = many_files(dir, "a", 60);
  DataLoader loader(dataset, {.batch_size = 2, .cache_bytes = 0});
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(loader.next());
  const auto taken = take_all_but(0);
  for (int i = 20; i < 60; ++i) EXPECT_TRUE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(FilePool, calls_a_want_of_descriptors_no_damage_of_the_data) {
  const TempDir dir;
  const FewDescriptors few(100);
  const Dataset dataset = many_files(dir, "a", 3);
  DataLoader loader(dataset,
                    {.batch_size = 2, .cache_bytes = 0, .on_error = OnError::skip, .max_bad_share = 1});
  {
    const auto taken = take_all_but(0);
    EXPECT_THAT(refusal_in<FileError>(dir.path(), [&] { loader.next(); }),
                AllOf(StartsWith("a0.h5: cannot be opened: "), HasSubstr("raise the limit (ulimit -n)")));
  }
  EXPECT_TRUE(loader.next());
  EXPECT_EQ(loader.stats().bad_chunks, 0U);
}

}  // namespace
}  // namespace h5feed::test
