// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_store_list.hpp"

#include <map>
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

// The lists by device: freeing memory of one GPU must not wait for another one.
struct Lists {
  Mutex mutex;
  std::map<int, List> by_device H5FEED_GUARDED_BY(mutex);

  // Returns the list of a device, which stays where it is; null if no store was listed yet.
  List* find(int device) H5FEED_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    const auto found = by_device.find(device);
    return found == by_device.end() ? nullptr : &found->second;
  }
  List& make(int device) H5FEED_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    return by_device[device];
  }
};

// Never destroyed: a library may allocate GPU memory while the program ends.
Lists& lists() {
  static Lists& only = *new Lists;
  return only;
}

}  // namespace

void list_row_store(int device, RowStore& store) {
  List& list = lists().make(device);
  const MutexLock lock(list.mutex);
  list.stores.push_back(&store);
}

void unlist_row_store(int device, RowStore& store) noexcept {
  List* const list = lists().find(device);
  if (list == nullptr) return;
  const MutexLock lock(list->mutex);
  std::erase(list->stores, &store);
}

void keep_memory_free(int device) noexcept {
  List* const list = lists().find(device);
  if (list == nullptr) return;
  const MutexLock lock(list->mutex);
  for (RowStore* const store : list->stores) store->keep_memory_free();
}

}  // namespace h5feed::gpu
