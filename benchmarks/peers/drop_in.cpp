// What changing the dataset and loader lines of a LibTorch program brings: float32 tensors of LibTorch's
// Normalize and Stack, the same samples in the same order, in turn from
//   hdf5    LibTorch's DataLoader over rows read through the HDF5 C++ API, chunk cache as libhdf5 has it
//   memory  LibTorch's DataLoader over a tensor that holds all samples
//   h5feed  h5feed::make_data_loader, which begins each round with an empty cache
//
//   drop_in FILE DATA WORKERS SECONDS [ROUNDS]
//
// Prints the medians over the rounds of samples/s and of CPU seconds per 1,000 samples, all threads together.
#include <sys/resource.h>
#include <torch/data/dataloader.h>
#include <torch/data/samplers/random.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>
#include <torch/utils.h>
#include <h5feed/torch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "peers/shared_file.hpp"

namespace {

using h5feed::peers::OptionalSize;
using h5feed::peers::SharedFile;
namespace transforms = torch::data::transforms;

constexpr std::size_t kBatch = 256;
constexpr double kMean = 127.5;
constexpr double kStd = 63.75;

class Rows : public torch::data::datasets::Dataset<Rows> {
 public:
  explicit Rows(std::shared_ptr<SharedFile> file) : file_(std::move(file)) {}
  torch::data::Example<> get(std::size_t index) override { return {file_->read(index), torch::empty({0})}; }
  OptionalSize size() const override { return file_->rows(); }

 private:
  std::shared_ptr<SharedFile> file_;
};

class InMemory : public torch::data::datasets::Dataset<InMemory> {
 public:
  explicit InMemory(torch::Tensor samples) : samples_(std::move(samples)) {}
  torch::data::Example<> get(std::size_t index) override {
    return {samples_[static_cast<std::int64_t>(index)], torch::empty({0})};
  }
  OptionalSize size() const override { return static_cast<std::size_t>(samples_.size(0)); }

 private:
  torch::Tensor samples_;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Contender {
  const char* name;
  std::vector<double> samples_per_s = {};
  std::vector<double> cpu_s_per_1k = {};
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The first batches of an epoch, for about `limit_s` seconds.
template <typename MakeLoader>
void measure(Contender& contender, double limit_s, const MakeLoader& make_loader) {
  torch::manual_seed(1);
  const double cpu_before = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  double seconds = 0;
  double samples = 0;
  {
    auto loader = make_loader();
    for (auto& batch : *loader) {
      samples += static_cast<double>(batch.data.size(0));
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (seconds >= limit_s) break;
    }
  }
  contender.samples_per_s.push_back(samples / seconds);
  contender.cpu_s_per_1k.push_back((cpu_seconds() - cpu_before) / samples * 1e3);
}

template <typename Source>
auto mapped(Source source) {
  return std::move(source).map(transforms::Normalize<>(kMean, kStd)).map(transforms::Stack<>());
}

void run(const std::string& path, const std::string& data, std::size_t workers, double limit_s, int rounds) {
  constexpr std::size_t kCacheBytesOfLibhdf5 = std::size_t{1} << 20;
  const auto options = torch::data::DataLoaderOptions(kBatch).workers(workers);
  const auto file = std::make_shared<SharedFile>(path, data, kCacheBytesOfLibhdf5);
  const auto open = [&] {
    return h5feed::TorchDataset(h5feed::Dataset::open({.files = {path}, .data = data}));
  };
  std::vector<torch::Tensor> parts;
  const auto whole = h5feed::make_data_loader(open(), h5feed::DataLoaderOptions{.batch_size = 1024});
  for (auto& batch : *whole) parts.push_back(batch.data);
  const torch::Tensor all = torch::cat(parts);
  parts.clear();

  Contender hdf5{"hdf5"}, memory{"memory"}, h5feed{"h5feed"};
  for (int round = 0; round < rounds; ++round) {
    measure(hdf5, limit_s, [&] { return torch::data::make_data_loader(mapped(Rows(file)), options); });
    measure(memory, limit_s, [&] { return torch::data::make_data_loader(mapped(InMemory(all)), options); });
    measure(h5feed, limit_s, [&] { return h5feed::make_data_loader(mapped(open()), options); });
  }
  for (const Contender* contender : {&hdf5, &memory, &h5feed}) {
    std::printf("%-8s %10.0f samples/s %8.3f CPU s per 1,000 samples\n", contender->name,
                median(contender->samples_per_s), median(contender->cpu_s_per_1k));
  }
  std::printf(
      "h5feed is %.1f times as fast as LibTorch's loader over HDF5, at %.2f times the CPU of LibTorch's over "
      "memory\n",
      median(h5feed.samples_per_s) / median(hdf5.samples_per_s),
      median(h5feed.cpu_s_per_1k) / median(memory.cpu_s_per_1k));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: drop_in FILE DATA WORKERS SECONDS [ROUNDS]\n");
    return 2;
  }
  try {
    H5::Exception::dontPrint();
    run(argv[1], argv[2], std::stoul(argv[3]), std::stod(argv[4]), argc > 5 ? std::stoi(argv[5]) : 3);
    return 0;
  } catch (const H5::Exception& error) {
    std::fprintf(stderr, "%s: %s\n", error.getCFuncName(), error.getCDetailMsg());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
