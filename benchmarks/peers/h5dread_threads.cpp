// SPDX-License-Identifier: Apache-2.0
// H5Dread in threads of one process: for chunked data, whole chunks in the order of chunks; for order full,
// single rows. Each thread reads into a slot of a batch that it reuses. libhdf5 holds one lock while it reads
// and decompresses, which this benchmark shows.
#include <hdf5.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "peers/peer_run.hpp"

namespace {

using h5feed::peers::PeerRun;

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + " failed");
}

struct Source {
  hid_t data = H5I_INVALID_HID;
  hid_t type = H5I_INVALID_HID;
  std::vector<hsize_t> shape;
  std::size_t chunk_rows = 20;  // rows that are read at once if storage is contiguous
  std::size_t row_bytes = 0;
};

Source open_source(const PeerRun& run) {
  Source source;
  const hid_t file = H5Fopen(run.file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  require(file >= 0, "H5Fopen");
  source.data = H5Dopen2(file, run.data.c_str(), H5P_DEFAULT);
  require(source.data >= 0, "H5Dopen2");
  source.type = H5Tget_native_type(H5Dget_type(source.data), H5T_DIR_DEFAULT);
  const hid_t space = H5Dget_space(source.data);
  source.shape.resize(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, source.shape.data(), nullptr);
  const hid_t plist = H5Dget_create_plist(source.data);
  if (H5Pget_layout(plist) == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(source.shape.size());
    H5Pget_chunk(plist, static_cast<int>(chunk.size()), chunk.data());
    source.chunk_rows = chunk[0];
  }
  source.row_bytes = H5Tget_size(source.type);
  for (std::size_t i = 1; i < source.shape.size(); ++i) source.row_bytes *= source.shape[i];
  return source;
}

void read_rows(const Source& source, std::size_t first, std::size_t rows, char* place) {
  std::vector<hsize_t> start(source.shape.size(), 0);
  std::vector<hsize_t> count = source.shape;
  start[0] = first;
  count[0] = rows;
  const hid_t memory = H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr);
  const hid_t file = H5Dget_space(source.data);
  H5Sselect_hyperslab(file, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
  const herr_t status = H5Dread(source.data, source.type, memory, file, H5P_DEFAULT, place);
  H5Sclose(file);
  H5Sclose(memory);
  require(status >= 0, "H5Dread");
}

void measure(const PeerRun& run) {
  hbool_t threadsafe = false;
  H5is_library_threadsafe(&threadsafe);
  require(threadsafe, "this libhdf5 is not thread-safe: reading in threads");
  const Source source = open_source(run);
  const std::size_t rows = source.shape[0];
  const std::size_t at_once = run.order == "full" ? 1 : source.chunk_rows;
  std::vector<std::size_t> order;
  for (const std::size_t row : h5feed::peers::row_order(run, rows, source.chunk_rows)) {
    if (row % at_once == 0) order.push_back(row);
  }

  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> samples = 0;
  std::mutex error_mutex;
  std::exception_ptr error;
  const h5feed::peers::Stopwatch watch;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < run.threads; ++i) {
    threads.emplace_back([&] {
      try {
        const std::size_t places = std::max<std::size_t>(1, run.batch_size / at_once);
        std::vector<char> slot(places * at_once * source.row_bytes);
        std::size_t place = 0;
        while (watch.seconds() < run.seconds) {
          const std::size_t first = order[next++ % order.size()];
          const std::size_t count = std::min(at_once, rows - first);
          read_rows(source, first, count, slot.data() + place * at_once * source.row_bytes);
          place = (place + 1) % places;
          samples += count;
        }
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  h5feed::peers::print_result(samples, watch.seconds());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    measure(h5feed::peers::parse_run(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
