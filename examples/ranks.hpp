// SPDX-License-Identifier: Apache-2.0
// Processes that train together: the rank of this one, and communication through LibTorch's c10d: Gloo for
// tensors on the CPU, NCCL for tensors on GPUs if LibTorch has it.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

// A LibTorch with NCCL defines USE_C10D_NCCL; its header includes NCCL's own, which LibTorch does not ship.
#if defined(USE_C10D_NCCL) && __has_include(<nccl.h>)
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#define H5FEED_EXAMPLE_HAS_NCCL 1
#else
#define H5FEED_EXAMPLE_HAS_NCCL 0
#endif

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace example {

/// Rank of this process among those that were started together.
struct Ranks {
  int rank = 0;
  int local_rank = 0;  ///< rank among the processes on the same machine
  int world_size = 1;
  std::string launcher = "none";
};

namespace detail {

/// Returns the value of an environment variable; empty if it is not set. Throws std::runtime_error if it is
/// not a number.
inline std::optional<int> number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), number);
  if (error != std::errc() || end != view.data() + view.size()) {
    throw std::runtime_error(std::string(name) + " is \"" + text + "\", not a number");
  }
  return number;
}

}  // namespace detail

/// Reads the variables that torchrun, Open MPI's mpirun, MPICH's mpiexec or Slurm's srun set, in this order;
/// a single process if none are set. Throws std::runtime_error for impossible numbers, and for a RANK without
/// WORLD_SIZE, with which every process would train alone.
inline Ranks ranks_from_environment() {
  struct Launcher {
    const char* name;
    const char* rank;
    const char* local_rank;
    const char* world_size;
  };
  static constexpr Launcher kLaunchers[] = {
      {"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"},
      {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"mpiexec (MPICH)", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
      {"Slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
  };
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = detail::number_in_environment(launcher.rank);
    const auto world_size = detail::number_in_environment(launcher.world_size);
    if (!rank || !world_size) continue;
    if (*world_size < 1 || *rank < 0 || *rank >= *world_size) {
      throw std::runtime_error(std::string(launcher.rank) + " is " + std::to_string(*rank) + " and " +
                               launcher.world_size + " " + std::to_string(*world_size) +
                               "; the rank must be 0 to the world size - 1");
    }
    return {*rank, detail::number_in_environment(launcher.local_rank).value_or(0), *world_size,
            launcher.name};
  }
  if (std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") == nullptr) {
    throw std::runtime_error(
        "RANK is set and WORLD_SIZE is not; set both, or start by torchrun, mpirun or srun");
  }
  return {};
}

/// How the processes find each other.
struct Meeting {
  /// A file on storage that all processes share, a new one for each run. Empty: a TCP store on rank 0, at
  /// MASTER_ADDR and MASTER_PORT (default: 127.0.0.1 and 29500); with several machines MASTER_ADDR must be
  /// set.
  std::string file;
  /// Other ranks that do not answer for this long count as failed.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

/// Backend that sums tensors on GPUs: NCCL, or Gloo through host memory, which also works for ranks that
/// share a GPU.
enum class GpuSums { gloo, nccl };

inline constexpr bool kHasNccl = H5FEED_EXAMPLE_HAS_NCCL != 0;

/// Collective operations of all ranks: every rank must call the same ones in the same order. They block, and
/// throw std::runtime_error if another rank has died or does not answer within the timeout. For one thread.
class Communicator {
 public:
  /// Connects to the other ranks. Blocks. Throws std::runtime_error, also for `GpuSums::nccl` if LibTorch has
  /// no NCCL.
  Communicator(const Ranks& ranks, const Meeting& meeting, GpuSums gpu_sums = GpuSums::gloo) : ranks_(ranks) {
    if (gpu_sums == GpuSums::nccl && !kHasNccl)
      throw std::runtime_error("this LibTorch has no NCCL; use Gloo");
    if (ranks.world_size == 1) return;
    if (meeting.file.empty()) require_address();
    const std::uint16_t port = master_port();
    guarded("meeting the other ranks", [&] {
      const auto store = open_store(meeting, port);
      auto options = c10d::ProcessGroupGloo::Options::create(meeting.timeout);
      options->devices.push_back(network_device(meeting));
      options->timeout = meeting.timeout;
      gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>("gloo", store), ranks.rank, ranks.world_size, options);
#if H5FEED_EXAMPLE_HAS_NCCL
      if (gpu_sums == GpuSums::gloo) return;
      // wait() must block, and throw if a rank has failed, instead of NCCL's watchdog ending the process: the
      // variable's names up to LibTorch 2.1 and since 2.2.
      ::setenv("NCCL_BLOCKING_WAIT", "1", 0);
      ::setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 0);
      const auto nccl = c10d::ProcessGroupNCCL::Options::create();
      nccl->timeout = meeting.timeout;
      nccl_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<c10d::PrefixStore>("nccl", store), ranks.rank, ranks.world_size, nccl);
#endif
    });
  }

  const Ranks& ranks() const noexcept { return ranks_; }

  /// Returns a contiguous copy or view of `tensor` that `sum()` accepts: in host memory, or on the GPU with
  /// NCCL.
  torch::Tensor summable(const torch::Tensor& tensor) const {
#if H5FEED_EXAMPLE_HAS_NCCL
    if (nccl_ && tensor.is_cuda()) return tensor.contiguous();
#endif
    return tensor.cpu().contiguous();
  }

  /// Replaces all tensors by rank 0's values. Tensors must be contiguous and on the CPU. Blocks.
  void broadcast(std::vector<torch::Tensor> tensors) {
    if (!gloo_) return;
    guarded("a broadcast", [&] {
      for (torch::Tensor& tensor : tensors) {
        std::vector<torch::Tensor> one = {tensor};
        gloo_->broadcast(one)->wait();
      }
    });
  }

  /// Replaces all tensors by their sums over all ranks, bitwise identical on every rank. All reductions run
  /// at once. Each tensor must be as `summable()` returns it. Blocks.
  void sum(std::vector<torch::Tensor> tensors) {
    if (!gloo_) return;
    guarded("summing over the ranks", [&] {
      std::vector<c10::intrusive_ptr<c10d::Work>> running;
      for (torch::Tensor& tensor : tensors) {
        std::vector<torch::Tensor> one = {tensor};
        running.push_back(start_sum(one));
      }
      for (auto& work : running) work->wait();
    });
  }

  /// Throws std::runtime_error, on all ranks, unless `value` is the same on all of them. Blocks.
  void require_equal(const std::string& what, std::uint64_t value) {
    const torch::Tensor first = torch::empty({1}, torch::kInt64);
    std::memcpy(first.data_ptr(), &value, sizeof value);
    const torch::Tensor mine = first.clone();
    broadcast({first});
    const torch::Tensor different = (first != mine).to(torch::kInt64);
    sum({different});
    const auto count = different.item<std::int64_t>();
    if (count == 0) return;
    throw std::runtime_error(what + " of " + std::to_string(count) + " of " +
                             std::to_string(ranks_.world_size) + " ranks is not that of rank 0" +
                             (torch::equal(first, mine) ? "" : ", this one among them") +
                             "; start all with the same file and options");
  }

 private:
  c10::intrusive_ptr<c10d::Work> start_sum(std::vector<torch::Tensor>& one) {
#if H5FEED_EXAMPLE_HAS_NCCL
    if (one.front().is_cuda()) return nccl_->allreduce(one);
#endif
    return gloo_->allreduce(one);
  }

  c10::intrusive_ptr<c10d::Store> open_store(const Meeting& meeting, std::uint16_t port) const {
    if (!meeting.file.empty()) return c10::make_intrusive<c10d::FileStore>(meeting.file, ranks_.world_size);
    c10d::TCPStoreOptions options;
    options.port = port;
    // torchrun's agent may have opened the store already.
    const char* const agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
    options.isServer = ranks_.rank == 0 && (agent == nullptr || std::string_view(agent) != "True");
    options.numWorkers = static_cast<std::size_t>(ranks_.world_size);
    options.waitWorkers = false;
    options.timeout = meeting.timeout;
    const auto store = c10::make_intrusive<c10d::TCPStore>(master_address(), options);
    return c10::make_intrusive<c10d::PrefixStore>("h5feed", store);
  }

  static std::uint16_t master_port() {
    const int port =
        detail::number_in_environment("MASTER_PORT").value_or(c10d::TCPStoreOptions::kDefaultPort);
    if (port < 1 || port > 65535) {
      throw std::runtime_error("MASTER_PORT is " + std::to_string(port) + "; a port is 1 to 65535");
    }
    return static_cast<std::uint16_t>(port);
  }

  // Slurm and Open MPI do not set the address of rank 0.
  static void require_address() {
    if (std::getenv("MASTER_ADDR") != nullptr) return;
    const int machines = detail::number_in_environment("SLURM_STEP_NUM_NODES").value_or(1);
    const int here = detail::number_in_environment("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(0);
    const int all = detail::number_in_environment("OMPI_COMM_WORLD_SIZE").value_or(here);
    if (machines <= 1 && (here == 0 || here == all)) return;
    throw std::runtime_error("the ranks are on several machines; set MASTER_ADDR to that of rank 0");
  }

  static std::string master_address() {
    const char* const address = std::getenv("MASTER_ADDR");
    return address == nullptr ? "127.0.0.1" : address;
  }

  static std::shared_ptr<::gloo::transport::Device> network_device(const Meeting& meeting) {
    if (const char* const interface = std::getenv("GLOO_SOCKET_IFNAME")) {
      return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
    }
    const std::string address = master_address();
    if (!meeting.file.empty() || address == "127.0.0.1" || address == "localhost") {
      return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
    }
    return c10d::ProcessGroupGloo::createDefaultDevice();
  }

  template <typename Call>
  void guarded(const char* what, const Call& call) const {
    try {
      call();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      throw std::runtime_error(std::string(what) + " failed; another rank has ended or does not answer: " +
                               text.substr(0, text.find('\n')));
    }
  }

  const Ranks ranks_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;  // null: a single process
#if H5FEED_EXAMPLE_HAS_NCCL
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl_;  // null: sums go through host memory
#endif
};

}  // namespace example
