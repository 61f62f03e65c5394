// SPDX-License-Identifier: Apache-2.0
// How the processes of a host share it.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/system_limits.hpp"
#include "flow/resolve/host_share.hpp"

namespace h5feed::test {
namespace {

TEST(HostShare, does_not_divide_cpus_that_a_process_has_for_itself) {
  SystemLimits bound;
  bound.cpus = 8;
  bound.host_cpus = 32;
  bound.cpus_bound_by = "affinity";
  EXPECT_EQ(cpu_share(bound, 4), 8) << "Slurm has bound each of the four";
  EXPECT_EQ(cpu_share_bound_by(bound, 4), "affinity");
  EXPECT_EQ(cpu_share_bound_by(bound, 8), "affinity, shared by 8 processes");
  EXPECT_EQ(cpu_share(bound, 8), 1) << "more processes than shares: they share the 8";
  bound.cpus_bound_by = "cgroup cpu quota";
  EXPECT_EQ(cpu_share(bound, 4), 2);
}

TEST(HostShare, asks_the_launcher_for_the_processes_on_the_host) {
  std::map<std::string, std::string> environment;
  const Variable variable = [&](const char* name) -> const char* {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  };
  EXPECT_EQ(local_processes(0, variable), 1);
  environment["SLURM_NTASKS_PER_NODE"] = "4(x2)";
  EXPECT_EQ(local_processes(0, variable), 4);
  environment["SLURM_NTASKS_PER_NODE"] = "6";
  EXPECT_EQ(local_processes(0, variable), 6);
  environment["SLURM_STEP_TASKS_PER_NODE"] = "3(x2),8,1";
  EXPECT_EQ(local_processes(0, variable), 8) << "srun without --ntasks-per-node";
  environment["MPI_LOCALNRANKS"] = "5";
  EXPECT_EQ(local_processes(0, variable), 5);
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "3";
  EXPECT_EQ(local_processes(0, variable), 3);
  environment["LOCAL_WORLD_SIZE"] = "2";
  EXPECT_EQ(local_processes(0, variable), 2);
  EXPECT_EQ(local_processes(7, variable), 7) << "a given number counts";
  for (const char* const nonsense :
       {"", "0", "-1", "many", "2x", "2(3)", "99999999", "1e3", "2,", ",2", "2,x"}) {
    environment["LOCAL_WORLD_SIZE"] = nonsense;
    EXPECT_EQ(local_processes(0, variable), 3) << nonsense;
  }
}

}  // namespace
}  // namespace h5feed::test
