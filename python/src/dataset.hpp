// SPDX-License-Identifier: Apache-2.0
// Dataset and SampleReader in Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <span>

#include "h5feed/dataset.hpp"
#include "h5feed/sample_reader.hpp"
#include "python/src/process.hpp"

namespace h5feed::python {

namespace nb = nanobind;

/// Sample numbers: a contiguous NumPy array of int64.
using Numbers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Returns the numbers as a span that borrows them.
inline std::span<const std::int64_t> span_of(const Numbers& numbers) {
  return {numbers.data(), numbers.size()};
}

/// A handle of a dataset that is never used in a forked child; h5feed.Dataset opens it again there.
class PyDataset {
 public:
  explicit PyDataset(Dataset dataset)
      : held_(std::make_shared<OfProcess<Dataset>>(std::make_shared<Dataset>(std::move(dataset)))) {}

  /// Returns the dataset. Raises RuntimeError in a forked child.
  Dataset& get() const;

 private:
  std::shared_ptr<OfProcess<Dataset>> held_;
};

/// Binds Dataset and SampleReader.
void bind_dataset(nb::module_& module);

}  // namespace h5feed::python
