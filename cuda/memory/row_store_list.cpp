// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_store_list.hpp"

#include <vector>

#include "base/mutex.hpp"
#include "cuda/memory/row_store.hpp"
#include "h5feed/gpu.hpp"

namespace h5feed::gpu {
namespace {

struct List {
  Mutex mutex;
  std::vector<RowStore*> stores H5FEED_GUARDED_BY(mutex);
};

// Never destroyed: a library may allocate GPU memory while the program ends.
List& list() {
  static List& only = *new List;
  return only;
}

}  // namespace

void list_row_store(RowStore& store) {
  List& all = list();
  const MutexLock lock(all.mutex);
  all.stores.push_back(&store);
}

void unlist_row_store(RowStore& store) noexcept {
  List& all = list();
  const MutexLock lock(all.mutex);
  std::erase(all.stores, &store);
}

void keep_memory_free() noexcept {
  List& all = list();
  const MutexLock lock(all.mutex);
  for (RowStore* const store : all.stores) store->keep_memory_free();
}

}  // namespace h5feed::gpu
