// SPDX-License-Identifier: Apache-2.0
// Access of h5feed's own adapters to a DataLoader beyond its public functions. Not a stable interface.
#pragma once

#include <utility>

#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"

namespace h5feed {

/// Gives adapters access to private functions of DataLoader.
struct DataLoaderAccess {
  /// Starts an epoch as `DataLoader::begin()` does. Batches on a GPU are delivered by `next_into(provide)`;
  /// with a loader on the CPU or an empty `provide`, batches are delivered by `next()`.
  static DataLoader::Iterator begin_into(DataLoader& loader, ProvideOutput provide) {
    return loader.begin_into(std::move(provide));
  }
};

}  // namespace h5feed
