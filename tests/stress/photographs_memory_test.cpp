// SPDX-License-Identifier: Apache-2.0
// The memory budget, held against what the process takes while it decodes photographs. Part of memory_test.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

// Returns a size from /proc/self/status, such as that of "VmHWM:".
std::uint64_t status_bytes(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == name && in >> kibibytes) return kibibytes * kKiB;
  }
  return 0;
}

// Lets the kernel measure VmHWM, the peak, from now on.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

TEST(Photographs, are_decoded_within_the_budget) {
  const test::CapturedLog quiet;
  const TempDir dir;
  {
    // 34 MiB decoded; small files, so that only decoding takes memory.
    const cv::Mat smooth(3000, 4000, CV_8UC3, cv::Scalar(40, 90, 160));
    const H5TestFile file(dir / "photographs.h5");
    write_ragged(file, "encoded", std::vector<Bytes>(12, encoded(smooth, ".jpg")));
  }
  const Dataset dataset = Dataset::open(
      {.files = {dir / "photographs.h5"}, .data = "encoded", .images = {.height = 32, .width = 32}});
  DataLoaderOptions options{.batch_size = 4, .cache_bytes = 1 * kMiB, .memory_budget_bytes = kGiB};
  ASSERT_TRUE(DataLoader(dataset, options).next());  // loads the codecs
  malloc_trim(0);
  const std::uint64_t idle = status_bytes("VmRSS:");
  forget_peak();
  options.num_workers = 6;
  options.memory_budget_bytes = 64 * kMiB;
  {
    DataLoader loader(dataset, options);
    std::int64_t samples = 0;
    for (const Batch& batch : loader) samples += batch.size();
    EXPECT_EQ(samples, 12);
  }
  const std::uint64_t above = status_bytes("VmHWM:") - idle;
  EXPECT_GE(above, 30 * kMiB) << "the peak is not measured";
  EXPECT_LE(above, (64 + 32) * kMiB) << format_bytes(above) << " above idle";
}

}  // namespace
}  // namespace h5feed::test
