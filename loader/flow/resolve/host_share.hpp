// SPDX-License-Identifier: Apache-2.0
// The share of the host that one of the processes that train together on it may take.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/system_limits.hpp"

namespace h5feed {

/// Largest `world_size` and `local_world_size`.
inline constexpr std::int64_t kMaxWorldSize = 1 << 20;

/// Returns the value of an environment variable; null if it is not set.
using Variable = std::function<const char*(const char* name)>;

/// Returns `given`, or if it is 0 the number that a launcher has put into the environment: LOCAL_WORLD_SIZE
/// (torchrun), OMPI_COMM_WORLD_LOCAL_SIZE (Open MPI), MPI_LOCALNRANKS (MPICH, Intel MPI),
/// SLURM_STEP_TASKS_PER_NODE (srun) or SLURM_NTASKS_PER_NODE (Slurm's option `--ntasks-per-node`). The first
/// that holds a number from 1 to 2²⁰ counts, of a list of hosts such as "4(x2),3" the largest; 1 if none
/// does.
std::int64_t local_processes(std::int64_t given, const Variable& variable);

/// Does the same with the environment of this process.
std::int64_t local_processes(std::int64_t given);

/// Returns the CPUs that one of `processes` processes may use: an equal share of those that this process may
/// use. If the affinity of this process leaves it at most an equal share of the host already, then all of
/// them: the launcher has given each process its own.
double cpu_share(const SystemLimits& limits, std::int64_t processes) noexcept;

/// Returns what bounds the CPUs of `cpu_share`: "host", or "host, shared by 8 processes".
std::string cpu_share_bound_by(const SystemLimits& limits, std::int64_t processes);

/// Returns the available memory in bytes that one of `processes` processes may count on.
std::uint64_t memory_share(const SystemLimits& limits, std::int64_t processes) noexcept;

}  // namespace h5feed
