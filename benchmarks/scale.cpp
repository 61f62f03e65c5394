// SPDX-License-Identifier: Apache-2.0
// How time and memory grow with the size of what is loaded.
//   scale FOLDER [CASE ...]     default: all cases; FOLDER takes up to 300 MB, and sparse files of 100 GB
// Each case is measured at several sizes, each in a process of its own, whose peak memory it is:
//   samples       samples of one byte each, contiguous, in full shuffle
//   chunks        chunks of one compressed sample each, listed by a version 1 index
//   chunks_latest the same, listed by an index of libver latest
//   files         files of one sample each
//   sparse_gb     size of one contiguous dataset of 1 MiB samples, in GB
//   chunk_mb      size of a compressed chunk of 63 samples, in MB
//   row_mb        size of one sample, in MB
//   batch         samples in a batch, of 1 KiB each
//   workers       workers, on (3,64,64) gzip:1 in chunks of 20
// Prints one line of JSON for each size: milliseconds to open the dataset, for `plan()`, to make a loader,
// until its first batch and for `batches` batches more; the peak of resident memory in MB before the dataset
// is opened and at the end; or the error that refuses it.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/log.hpp"
#include "store/filters/filters.hpp"
#include "support/files/h5_test_file.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using h5feed::DataLoaderOptions;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double peak_mb() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Writes a dataset "x" of uint8 into `path` unless it is there. Its storage is allocated but not written;
// with chunks, `stored` has the bytes of each.
void write(const fs::path& path, const std::vector<std::uint64_t>& shape,
           const std::vector<std::uint64_t>& chunk = {}, const std::vector<std::byte>& stored = {},
           bool latest = false) {
  if (fs::exists(path)) return;
  h5feed::test::H5TestFile file(path, {.latest = latest});
  if (chunk.empty()) {
    file.create({.shape = shape, .early_allocation = true, .undefined_fill_value = true});
    return;
  }
  file.create({.shape = shape, .chunk = chunk, .filters = {h5feed::test::gzip_filter(1)}});
  std::vector<std::uint64_t> at(shape.size(), 0);
  for (; at.front() < shape.front(); at.front() += chunk.front()) file.write_chunk("x", at, stored);
}

// Bytes that gzip halves.
std::vector<std::byte> values(std::uint64_t bytes) {
  std::vector<std::byte> all(bytes);
  std::uint64_t state = 1;
  for (std::byte& byte : all) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>((state >> 60) & 0xF);
  }
  return all;
}

std::vector<std::byte> gzipped(std::vector<std::byte> chunk) {
  return h5feed::FilterPipeline({h5feed::test::gzip_filter(1)}, chunk.size(), 1).encode(chunk);
}

// What is measured of a case at one size.
struct Run {
  std::vector<fs::path> files;
  DataLoaderOptions options;
  int batches = 0;  // after the first one
};

struct Case {
  const char* name;
  std::vector<std::uint64_t> sizes;
  // Writes the files unless they are there.
  Run (*prepare)(const fs::path& folder, std::uint64_t size);
};

Run chunks(const fs::path& folder, std::uint64_t size, bool latest) {
  const fs::path path = folder / fmt::format("chunks-{}-{}.h5", size, latest);
  write(path, {size, 64}, {1, 64}, gzipped(values(64)), latest);
  return {{path}, {.batch_size = 256, .shuffle = "chunk:16", .num_workers = 2}, 30};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"samples",
       {1'000'000, 10'000'000, 100'000'000, 1'000'000'000},
       [](const fs::path& folder, std::uint64_t size) {
         const fs::path path = folder / fmt::format("samples-{}.h5", size);
         write(path, {size, 1});
         return Run{{path}, {.batch_size = 256, .shuffle = true, .num_workers = 2}, 100};
       }},
      {"chunks",
       {10'000, 100'000, 1'000'000},
       [](const fs::path& folder, std::uint64_t size) { return chunks(folder, size, false); }},
      {"chunks_latest",
       {10'000, 100'000, 1'000'000},
       [](const fs::path& folder, std::uint64_t size) { return chunks(folder, size, true); }},
      {"files",
       {100, 1'000, 10'000},
       [](const fs::path& folder, std::uint64_t size) {
         fs::create_directories(folder / "files");
         Run run{{}, {.batch_size = 64, .shuffle = true, .num_workers = 2}, 100};
         for (std::uint64_t number = 0; number < size; ++number) {
           run.files.push_back(folder / "files" / fmt::format("{}.h5", number));
           write(run.files.back(), {1, 1024});
         }
         return run;
       }},
      {"sparse_gb",
       {1, 10, 100},
       [](const fs::path& folder, std::uint64_t size) {
         const fs::path path = folder / fmt::format("sparse-{}.h5", size);
         write(path, {size << 10, 1 << 20});
         return Run{{path}, {.batch_size = 4, .shuffle = true}, 100};
       }},
      {"chunk_mb",
       {63, 1'008, 4'032},
       [](const fs::path& folder, std::uint64_t size) {
         const fs::path path = folder / fmt::format("chunk-{}.h5", size);
         const std::uint64_t row = size / 63 * kMiB;
         if (!fs::exists(path)) write(path, {126, row}, {63, row}, gzipped(std::vector<std::byte>(63 * row)));
         return Run{{path}, {.batch_size = 2, .num_workers = 1}, 20};
       }},
      {"row_mb",
       {1, 8, 64},
       [](const fs::path& folder, std::uint64_t size) {
         const fs::path path = folder / fmt::format("row-{}.h5", size);
         write(path, {256, size * kMiB});
         return Run{{path}, {.batch_size = 4, .shuffle = true, .num_workers = 2}, 30};
       }},
      {"batch",
       {256, 16, 1},
       [](const fs::path& folder, std::uint64_t size) {
         const fs::path path = folder / "batch.h5";
         write(path, {100'000, 1024}, {100, 1024}, gzipped(values(102'400)));
         return Run{{path},
                    {.batch_size = static_cast<std::int64_t>(size), .shuffle = "chunk:16", .num_workers = 2},
                    static_cast<int>(51'200 / size)};
       }},
      {"workers",
       {0, 2, 8, 64},
       [](const fs::path& folder, std::uint64_t size) {
         const fs::path path = folder / "workers.h5";
         write(path, {8'000, 3, 64, 64}, {20, 3, 64, 64}, gzipped(values(20 * 12'288)));
         return Run{{path},
                    {.batch_size = 32,
                     .shuffle = "chunk:16",
                     .num_workers = static_cast<std::int64_t>(size),
                     .cache_bytes = 16 * kMiB},
                    240};
       }},
  };
  return all;
}

std::string line_of(const Run& run) {
  const double before = peak_mb();
  const auto begin = Clock::now();
  const auto dataset =
      h5feed::Dataset::open({.files = run.files, .data = "x", .input_layout = h5feed::InputLayout::none});
  const double opened = ms_since(begin);
  h5feed::plan(dataset, run.options);
  const double planned = ms_since(begin);
  h5feed::DataLoader loader(dataset, run.options);
  const double made = ms_since(begin);
  if (!loader.next()) throw std::runtime_error("the dataset has no batch");
  const double first = ms_since(begin);
  int batches = 0;
  while (batches < run.batches && loader.next()) ++batches;
  const double end = ms_since(begin);
  return fmt::format(
      R"("open_ms": {:.1f}, "plan_ms": {:.1f}, "loader_ms": {:.1f}, "first_ms": {:.1f}, "batches": {}, )"
      R"("rest_ms": {:.1f}, "peak_mb_before": {:.0f}, "peak_mb": {:.0f})",
      opened, planned - opened, made - planned, first - made, batches, end - first, before, peak_mb());
}

// Runs `work` in a new process, since the peak of a process's memory never falls. Returns whether it
// succeeded.
template <typename Work>
bool in_new_process(const Work& work) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    std::fflush(stdout);
    std::_Exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void measure(const Case& what, std::uint64_t size, const fs::path& folder) {
  const auto prepared = [&] { return what.prepare(folder, size); };
  bool well = in_new_process(prepared);
  well = well && in_new_process([&] {
           std::string line;
           try {
             line = line_of(prepared());
           } catch (const std::exception& error) {
             std::string text = error.what();
             std::ranges::replace(text, '"', '\'');
             line = fmt::format(R"("error": "{}", "peak_mb": {:.0f})", text, peak_mb());
           }
           fmt::print("{{\"case\": \"{}\", \"size\": {}, {}}}\n", what.name, size, line);
         });
  if (!well) fmt::print("{{\"case\": \"{}\", \"size\": {}, \"error\": \"died\"}}\n", what.name, size);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "scale FOLDER [CASE ...]\n");
    return 2;
  }
  const std::vector<std::string> wanted(argv + 2, argv + argc);
  h5feed::set_log_sink([](h5feed::LogLevel, std::string_view) {});
  for (const Case& each : cases()) {
    if (!wanted.empty() && std::ranges::find(wanted, each.name) == wanted.end()) continue;
    for (const std::uint64_t size : each.sizes) measure(each, size, argv[1]);
  }
}
