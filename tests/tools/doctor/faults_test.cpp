// SPDX-License-Identifier: Apache-2.0
// Faults that doctor finds on machines and storage unlike the one that runs the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/resolve.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "tools/doctor/file_faults.hpp"
#include "tools/doctor/loader_faults.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it
using ::testing::HasSubstr;

StorageProbe nfs() {
  return {.statfs = [](const char*, struct ::statfs* into) {
    *into = {};
    into->f_type = 0x6969;
    return 0;
  }};
}

TEST(DoctorFaults, name_network_storage_that_every_epoch_reads) {
  const TempDir dir;
  {
    H5TestFile file(dir / "train.h5");
    file.create({.path = "images", .shape = {100, 32, 32, 3}, .chunk = {10, 32, 32, 3}});
    file.write("images", patterned_bytes(100 * 32 * 32 * 3));
  }
  const Dataset dataset = DatasetAccess::open({.files = {dir / "train.h5"}}, {}, nfs());
  const auto faults_of = [](const Dataset& opened, std::uint64_t cache_bytes) {
    const DatasetState& state = *DatasetAccess::state(opened);
    return file_faults(state, resolve({.batch_size = 10, .cache_bytes = cache_bytes}, state, nullptr,
                                      system_limits(), MemoryClaim::foreseen)
                                  .options);
  };
  std::vector<Fault> faults = faults_of(dataset, 100'000);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].name, "network_storage");
  EXPECT_EQ(faults[0].severity, Severity::serious);
  EXPECT_THAT(faults[0].what, HasSubstr("train.h5 is on nfs"));
  EXPECT_THAT(faults[0].mend.at(0), HasSubstr("stage_dir="));

  faults = faults_of(dataset, 1'000'000);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].severity, Severity::minor) << "only the first epoch reads the file";

  EXPECT_TRUE(faults_of(Dataset::open({.files = {dir / "train.h5"}}), 100'000).empty());
}

TEST(DoctorFaults, name_cores_that_are_kept_from_the_process) {
  const auto name_of = [](unsigned cpus, unsigned host, const std::string& by, std::int64_t workers) {
    const std::optional<Fault> fault =
        core_fault({.cpus = cpus, .cpus_bound_by = by, .host_cpus = host}, workers);
    return fault ? fault->name + " " + fault->what : std::string();
  };
  EXPECT_EQ(name_of(32, 32, "host", kAuto), "");
  EXPECT_EQ(name_of(8, 32, "affinity", 8), "") << "as batch systems divide a host";
  EXPECT_EQ(name_of(1, 1, "host", kAuto), "") << "there are no more";
  EXPECT_THAT(name_of(1, 32, "affinity", kAuto),
              HasSubstr("may use 1 of the 32 cores of the host (affinity)"));
  EXPECT_THAT(name_of(2, 32, "cgroup cpu quota", 8),
              HasSubstr("2 of the 32 cores of the host (cgroup cpu quota)"));
  EXPECT_THAT(name_of(2, 2, "host", 16), HasSubstr("the machine has 2 cores, which 16 workers"));
  EXPECT_THAT(core_fault({.cpus = 2, .cpus_bound_by = "cgroup cpu quota", .host_cpus = 32}, 8)->mend.at(0),
              HasSubstr("docker run --cpus=8"));
}

}  // namespace
}  // namespace h5feed::test
