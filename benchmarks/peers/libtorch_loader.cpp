// SPDX-License-Identifier: Apache-2.0
// LibTorch's own DataLoader over the HDF5 C++ API: get() reads one row under a mutex, since libhdf5's lock
// does not cover that API, and Stack collates. The chunk cache is 1 GiB, as in PyTorch's tuned peer.
#include <H5Cpp.h>
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "peers/fixed_order.hpp"
#include "peers/peer_run.hpp"
#include "peers/shared_file.hpp"

namespace {

using h5feed::peers::FixedOrder;
using h5feed::peers::OptionalSize;
using h5feed::peers::PeerRun;
using h5feed::peers::SharedFile;

class Rows : public torch::data::datasets::Dataset<Rows, torch::data::TensorExample> {
 public:
  explicit Rows(std::shared_ptr<SharedFile> file) : file_(std::move(file)) {}
  torch::data::TensorExample get(std::size_t index) override { return file_->read(index); }
  OptionalSize size() const override { return file_->rows(); }

 private:
  std::shared_ptr<SharedFile> file_;
};

void measure(const PeerRun& run) {
  const auto file = std::make_shared<SharedFile>(run.file, run.data, std::size_t{1} << 30U);
  FixedOrder order(h5feed::peers::row_order(run, file->rows(), file->chunk_rows()));
  auto loader = torch::data::make_data_loader(
      Rows(file).map(torch::data::transforms::Stack<torch::data::TensorExample>()), std::move(order),
      torch::data::DataLoaderOptions(run.batch_size).workers(run.threads));
  const std::size_t round = std::max<std::size_t>(1, run.threads);
  std::size_t batches = 0, samples = 0;
  double seconds = 0;
  const h5feed::peers::Stopwatch watch;
  // Workers deliver in turn; only whole rounds count, so that the position of the cut does not matter.
  while (seconds < run.seconds) {
    for (auto& batch : *loader) {
      samples += static_cast<std::size_t>(batch.data.size(0));
      ++batches;
      seconds = watch.seconds();
      if (seconds >= run.seconds && batches % round == 0) break;
    }
    seconds = watch.seconds();
  }
  h5feed::peers::print_result(samples, seconds);
  std::fflush(stdout);
  std::_Exit(0);  // skips waiting for what the workers read ahead
}

}  // namespace

int main(int argc, char** argv) {
  try {
    H5::Exception::dontPrint();
    measure(h5feed::peers::parse_run(argc, argv));
    return 0;
  } catch (const H5::Exception& error) {
    std::fprintf(stderr, "%s: %s\n", error.getCFuncName(), error.getCDetailMsg());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
