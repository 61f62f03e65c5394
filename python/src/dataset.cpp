// SPDX-License-Identifier: Apache-2.0
#include "python/src/dataset.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "h5feed/labels.hpp"
#include "h5feed/mixture.hpp"
#include "python/src/batch.hpp"
#include "python/src/convert.hpp"
#include "python/src/gil.hpp"
#include "python/src/stats.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

// Random access to samples; not to be used in a forked child.
class PyReader {
 public:
  PyReader(const PyDataset& dataset, const nb::dict& given) {
    const Dataset& data = dataset.get();
    SampleReaderOptions options = reader_options(given);
    std::shared_ptr<SampleReader> reader;
    {
      const GilRelease release;
      reader = std::make_shared<SampleReader>(data, std::move(options));
    }
    held_ = std::make_unique<OfProcess<SampleReader>>(std::move(reader));
    deliver_log();
  }

  Batch read(const Numbers& samples) const {
    const std::shared_ptr<SampleReader> reader = get();
    Batch batch;
    {
      const InterruptCheck check = handling_signals();
      const GilRelease release;
      batch = reader->read(span_of(samples));
    }
    deliver_log();
    return batch;
  }

  nb::dict stats() const { return to_dict(get()->stats()); }

 private:
  const std::shared_ptr<SampleReader>& get() const {
    if (held_->inherited()) {
      throw std::runtime_error(
          "this SampleReader was made before the process forked; make one in the child process");
    }
    return held_->get();
  }

  std::unique_ptr<OfProcess<SampleReader>> held_;
};

PyDataset open(const nb::dict& given) {
  const DatasetOptions options = dataset_options(given);
  const auto opened = [&] {
    const InterruptCheck check = handling_signals();
    const GilRelease release;
    return Dataset::open(options);
  }();
  deliver_log();
  return PyDataset(opened);
}

std::vector<PyDataset*> split(const PyDataset& dataset, const std::vector<double>& fractions,
                              std::uint64_t seed, const nb::object& by) {
  SplitBy unit = SplitBy::automatic;
  convert("by", by, unit);
  std::vector<PyDataset*> parts;
  for (Dataset& part : dataset.get().split(fractions, seed, unit))
    parts.push_back(new PyDataset(std::move(part)));
  return parts;
}

EpochSize epoch_size_of(const nb::handle& value) {
  if (nb::isinstance<nb::str>(value)) return EpochSize(nb::cast<std::string>(value));
  return EpochSize(nb::cast<std::int64_t>(value));
}

PyDataset mixed(const std::vector<PyDataset*>& datasets, const std::vector<double>& weights,
                const std::vector<std::optional<std::string>>& shuffles, const nb::handle& epoch_size) {
  std::vector<MixedSet> sets;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    sets.push_back({.dataset = datasets[i]->get(), .weight = weights[i]});
    if (shuffles[i]) sets.back().shuffle = Shuffle(*shuffles[i]);
  }
  return PyDataset(mix(sets, {.epoch_size = epoch_size_of(epoch_size)}));
}

std::vector<std::tuple<std::int64_t, std::int64_t, double>> label_shares(const PyDataset& dataset,
                                                                         const std::string& field) {
  const Dataset& data = dataset.get();
  std::vector<LabelShare> shares;
  {
    const InterruptCheck check = handling_signals();
    const GilRelease release;
    shares = label_share(data, field);
  }
  deliver_log();
  std::vector<std::tuple<std::int64_t, std::int64_t, double>> tuples;
  for (const LabelShare& share : shares) tuples.emplace_back(share.label, share.samples, share.share);
  return tuples;
}

std::vector<double> class_weights(const PyDataset& dataset, const std::string& field) {
  const Dataset& data = dataset.get();
  std::vector<double> weights;
  {
    const InterruptCheck check = handling_signals();
    const GilRelease release;
    weights = balanced_weights(data, field);
  }
  deliver_log();
  return weights;
}

nb::object tile_grid(const PyDataset& dataset, std::int64_t image) {
  const std::optional<TileGrid> grid = dataset.get().tile_grid(image);
  if (!grid) return nb::none();
  return nb::make_tuple(grid->image_height, grid->image_width, grid->rows, grid->columns, grid->image_depth,
                        grid->layers);
}

}  // namespace

Dataset& PyDataset::get() const {
  if (held_->inherited()) throw std::runtime_error("this Dataset was opened before the process forked");
  return *held_->get();
}

void bind_dataset(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<PyDataset>(module, "Dataset", "An opened dataset.")
      .def("size", [](const PyDataset& self) { return self.get().size(); })
      .def("sample_shape",
           [](const PyDataset& self) { return nb::tuple(nb::cast(self.get().sample_shape())); })
      .def("dtype", [](const PyDataset& self) { return std::string(name_of(self.get().dtype())); })
      .def("unit_range", [](const PyDataset& self) { return self.get().unit_range(); })
      .def("has_target", [](const PyDataset& self) { return self.get().has_target(); })
      .def("tile_grid", &tile_grid, "image"_a)
      .def("num_images", [](const PyDataset& self) { return self.get().num_images(); })
      .def("num_episodes", [](const PyDataset& self) { return self.get().num_episodes(); })
      .def("tiles_left_out", [](const PyDataset& self) { return self.get().tiles_left_out(); })
      .def("delivers_csr", [](const PyDataset& self) { return self.get().delivers_csr(); })
      .def(
          "categories",
          [](const PyDataset& self, const std::string& field) {
            nb::list names;
            for (const std::string& name : self.get().categories(field)) names.append(text_of(name));
            return names;
          },
          "field"_a)
      .def(
          "origin", [](const PyDataset& self, std::int64_t sample) { return self.get().origin(sample); },
          "sample"_a)
      .def(
          "subset",
          [](const PyDataset& self, const Numbers& samples) {
            return PyDataset(self.get().subset(span_of(samples)));
          },
          "samples"_a)
      .def("split", &split, "fractions"_a, "seed"_a, "by"_a, nb::rv_policy::take_ownership)
      .def("refreshed", [](const PyDataset& self) {
        Dataset copy = self.get();
        {
          const InterruptCheck check = handling_signals();
          const GilRelease release;
          copy.refresh();
        }
        deliver_log();
        return PyDataset(std::move(copy));
      });
  module.def("open_dataset", &open, "options"_a);
  module.def("mix", &mixed, "datasets"_a, "weights"_a, "shuffles"_a, "epoch_size"_a);
  module.def("label_share", &label_shares, "dataset"_a, "field"_a);
  module.def("balanced_weights", &class_weights, "dataset"_a, "field"_a);
  nb::class_<PyReader>(module, "SampleReader", "Random access to samples.")
      .def(nb::init<const PyDataset&, const nb::dict&>(), "dataset"_a, "options"_a)
      .def("read", &PyReader::read, "samples"_a)
      .def("stats", &PyReader::stats);
}

}  // namespace h5feed::python
