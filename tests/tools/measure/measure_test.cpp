// SPDX-License-Identifier: Apache-2.0
// Statistics of repetitions, and pages of files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/measure/statistics.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it
using ::testing::HasSubstr;

TEST(Statistics, has_the_median_and_the_spread_of_repetitions) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(relative_spread({90, 100, 120}), 0.3);
  EXPECT_EQ(relative_spread({}), 0);
}

TEST(PageCache, names_the_process_that_holds_pages) {
  const TempDir dir;
  const std::vector<std::byte> bytes = random_bytes(100'000);
  replace_file(dir / "a.h5", bytes);
  EXPECT_EQ(resident_share(dir / "a.h5"), 1.0) << "it was just written";
  const FileDescriptor fd(::open((dir / "a.h5").c_str(), O_RDONLY | O_CLOEXEC));
  void* const mapping = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  try {
    require_droppable(dir / "a.h5");
    ADD_FAILURE() << "mapped pages were dropped";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), ::testing::AnyOf(HasSubstr(": process " + std::to_string(::getpid()) +
                                                         " (measuring_test) maps it; end that process"),
                                               HasSubstr("is in memory (tmpfs)")));
  }
  ::munmap(mapping, bytes.size());
}

}  // namespace
}  // namespace h5feed::test
