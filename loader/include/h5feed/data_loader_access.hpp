// SPDX-License-Identifier: Apache-2.0
// What adapters of h5feed need of a DataLoader beyond its public functions. Not a stable interface.
#pragma once

#include <utility>

#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"

namespace h5feed {

struct DataLoaderAccess {
  /// Starts an epoch as `DataLoader::begin()`. Batches that go to a GPU are delivered as by
  /// `next_into(provide)`, those of a loader on the CPU, or with an empty `provide`, as by `next()`.
  static DataLoader::Iterator begin_into(DataLoader& loader, ProvideOutput provide) {
    return loader.begin_into(std::move(provide));
  }
};

}  // namespace h5feed
