// SPDX-License-Identifier: Apache-2.0
// Stages as ranges of NVTX, as a tool sees them.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "h5feed/data_loader.hpp"
#include "h5feed/nvtx.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What the tool has noted since the last call. NVTX looks for a tool at its first call, once in the life of a
// process.
std::string take_notes() {
  void* const tool = ::dlopen(FAKE_NVTX_PATH, RTLD_NOW | RTLD_LOCAL);
  if (tool == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<const char* (*)()>(::dlsym(tool, "fake_nvtx_take_notes"))();
}

TEST(NvtxTrace, names_stages_and_batches_on_the_thread_that_works) {
  ASSERT_EQ(::setenv("NVTX_INJECTION64_PATH", FAKE_NVTX_PATH, 1), 0);
  const auto trace = gpu::nvtx_trace();
  trace->begin(Stage::gather, 7);
  trace->begin(Stage::read_decode, 8);
  trace->end(Stage::read_decode, 8);
  trace->end(Stage::gather, 7);
  EXPECT_EQ(take_notes(), "domain h5feed\n+gather 7 category 3\n+read+decode 8 category 2\n-\n-\n");

  const SampleSet set(gzip_set());
  DataLoaderOptions options{.batch_size = 25, .num_workers = 2};
  options.trace = trace;
  {
    DataLoader loader(open(set), options);
    while (loader.next()) {
    }
  }
  const std::string all = "\n" + take_notes();
  EXPECT_THAT(all, HasSubstr("\n+wait 3 category 5\n"));
  EXPECT_THAT(all, HasSubstr("\n+gather 3 category 3\n"));
  std::size_t begun = 0, ended = 0;
  for (std::size_t at = 0; (at = all.find('\n', at)) != std::string::npos; ++at) {
    if (all[at + 1] == '+') ++begun;
    if (all[at + 1] == '-') ++ended;
  }
  EXPECT_GE(begun, 10u);
  EXPECT_EQ(begun, ended);
}

}  // namespace
}  // namespace h5feed::test
