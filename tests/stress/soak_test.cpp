// SPDX-License-Identifier: Apache-2.0
// Eight threads make loaders over the same and different files, check what they deliver and drop them, while
// the program itself reads the same files, and writes one, by libhdf5. Some have their metadata read by
// another process (isolation = process). Between the rounds nothing of h5feed is left; then memory,
// descriptors, threads and processes are counted, and must not grow.
//   H5FEED_TEST_SECONDS=3600 soak_test      takes so long; default 5 s
//   H5FEED_TEST_SEED=17                     begins with this seed; default 1
//   H5FEED_TEST_JSON=OUT.json               writes the counts of each round
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/log.hpp"
#include "stress/random_runs/draw.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kThreads = 8;

std::string from_environment(const char* name, const char* otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}

std::int64_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

// What the process holds at a moment at which no loader exists.
struct Holdings {
  std::uint64_t resident_bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  bool processes = false;  // Whether it has a child, if only one that was not waited for

  static Holdings now() {
    malloc_trim(0);  // pages that the allocator only keeps in reserve do not count
    std::ifstream in("/proc/self/statm");
    std::uint64_t size = 0, resident = 0;
    in >> size >> resident;
    return {resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)), entries_of("/proc/self/fd"),
            entries_of("/proc/self/task"), has_children()};
  }
};

// Drops the process's log lines, of which an hour has too many to keep or to print.
class Silence {
 public:
  Silence() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence() { set_log_sink({}); }
};

void check(bool right, const std::string& what) {
  if (!right) throw Mismatch(what);
}

// The sets, each stored in another way. Every sample carries its number: its pixels and its label depend on
// it.
class Sets {
 public:
  static constexpr std::size_t kContiguous = 3;

  const SampleSet& operator[](std::size_t number) const { return *sets_.at(number); }
  std::size_t size() const noexcept { return sets_.size(); }
  std::size_t any(Draw& draw) const {
    return static_cast<std::size_t>(draw.number(0, static_cast<std::int64_t>(size()) - 1));
  }

 private:
  static SampleSetSpec spec(std::vector<std::uint64_t> chunk, int gzip, bool checksum) {
    return {.shape = {600, 24, 24},
            .chunk_shape = std::move(chunk),
            .shuffle = gzip > 0,
            .gzip = gzip,
            .fletcher32 = checksum,
            .label_dtype = DType::i32,
            .label_count = 600};
  }

  const SampleSet gzip_{spec({16, 24, 24}, 4, true)}, cut_{spec({10, 24, 24}, 1, false)},
      plain_{spec({25, 24, 24}, -1, false)}, contiguous_{spec({}, -1, false)};
  const std::array<const SampleSet*, 4> sets_ = {&gzip_, &cut_, &plain_, &contiguous_};
};

DataLoaderOptions draw_options(Draw& draw, bool chunked) {
  DataLoaderOptions options{.batch_size = draw.number(1, 90)};
  options.shuffle =
      chunked ? draw.any<Shuffle>({false, true, "chunk:3", "chunk:8"}) : draw.any<Shuffle>({false, true});
  options.seed = draw.seed();
  options.num_workers = draw.any<std::int64_t>({0, 1, 2, 3, kAuto});
  options.cache_bytes = draw.any<std::uint64_t>({0, 20'000, 200'000, 4 * kMiB});
  options.cache_policy = draw.any({CachePolicy::lru, CachePolicy::clairvoyant, CachePolicy::keep_first});
  options.drop_last = draw.one_in(4);
  return options;
}

Dataset open_own(const SampleSet& set, Draw& draw) {
  return Dataset::open({.files = {set.path()},
                        .data = "images",
                        .target = "labels",
                        .isolation = draw.any({Isolation::none, Isolation::process})});
}

// Takes epochs of one loader, perhaps left early, and compares every sample with what was written.
void train(const SampleSet& set, const Dataset& dataset, bool chunked, Draw& draw) {
  const DataLoaderOptions options = draw_options(draw, chunked);
  DataLoader loader(dataset, options);
  for (std::int64_t epochs = draw.number(1, 2); epochs > 0; --epochs) {
    const std::size_t last = draw.one_in(3) ? static_cast<std::size_t>(draw.number(0, 20)) : loader.size();
    std::vector<bool> seen(set.samples());
    std::size_t batches = 0, samples = 0;
    for (const Batch& batch : loader) {
      const auto* const labels = reinterpret_cast<const std::int64_t*>(batch.target.bytes.get());
      for (std::size_t i = 0; i < batch.indices.size(); ++i) {
        const std::int64_t sample = batch.indices[i];
        const std::string name = "sample " + std::to_string(sample);
        check(!seen.at(static_cast<std::size_t>(sample)), name + " comes twice in an epoch");
        seen[static_cast<std::size_t>(sample)] = true;
        check(labels[i] == set.label(sample), name + " has another label");
        check(std::memcmp(batch.data.bytes.get() + i * set.sample_bytes(), set.sample(sample),
                          set.sample_bytes()) == 0,
              name + " has other pixels");
      }
      samples += batch.indices.size();
      if (++batches == last) break;
    }
    if (last == loader.size() && !options.drop_last)
      check(samples == set.samples(), "an epoch delivered " + std::to_string(samples) + " samples");
  }
}

// What a host program does with libhdf5 beside h5feed: reads a file that loaders read at the same time, with
// a lock as is libhdf5's default.
void read_by_libhdf5(const SampleSet& set, Draw& draw) {
  const Hid file(H5Fopen(set.path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid data(H5Dopen2(file.get(), "images", H5P_DEFAULT));
  const Hid space(H5Dget_space(data.get()));
  const auto sample = static_cast<hsize_t>(draw.number(0, static_cast<std::int64_t>(set.samples()) - 1));
  const hsize_t start[] = {sample, 0, 0}, count[] = {1, 24, 24};
  require(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start, nullptr, count, nullptr),
          "H5Sselect_hyperslab");
  const Hid memory(H5Screate_simple(3, count, nullptr));
  std::vector<std::byte> read(set.sample_bytes());
  require(H5Dread(data.get(), H5T_NATIVE_UINT8, memory.get(), space.get(), H5P_DEFAULT, read.data()),
          "H5Dread");
  check(std::memcmp(read.data(), set.sample(static_cast<std::int64_t>(sample)), read.size()) == 0,
        "libhdf5 read other pixels");
}

// It also writes a file and reads it. Without locks: a process that another thread starts at the moment at
// which the file is closed has it open for a moment longer.
void write_by_libhdf5(const std::filesystem::path& path) {
  const Hid access(H5Pcreate(H5P_FILE_ACCESS));
  require(H5Pset_file_locking(access.get(), false, true), "H5Pset_file_locking");
  std::vector<std::int32_t> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
  const hsize_t count = values.size();
  {
    const Hid file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));
    const Hid space(H5Screate_simple(1, &count, nullptr));
    const Hid data(
        H5Dcreate2(file.get(), "own", H5T_STD_I32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    require(H5Dwrite(data.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
  }
  std::vector<std::int32_t> read(values.size());
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  const Hid data(H5Dopen2(file.get(), "own", H5P_DEFAULT));
  require(H5Dread(data.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data()), "H5Dread");
  check(read == values, "libhdf5 read other values than it wrote");
}

class Soak : public testing::Test {
 protected:
  // Runs all threads until `end`; returns after they have been joined.
  void run_round(std::uint64_t seed, Clock::time_point end) {
    std::vector<Dataset> shared;
    for (std::size_t i = 0; i < sets_.size(); ++i) shared.push_back(open(sets_[i]));
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        run(
            [&, draw = Draw(seed * kThreads + static_cast<std::uint64_t>(number))]() mutable {
              const std::size_t set = sets_.any(draw);
              train(sets_[set], draw.one_in(3) ? open_own(sets_[set], draw) : shared[set],
                    set != Sets::kContiguous, draw);
              ++loaders_;
            },
            end);
      });
    }
    if (libhdf5_is_thread_safe()) {
      threads.emplace_back([&] { run([&] { write_by_libhdf5(folder_.path() / "own.h5"); }, end); });
      threads.emplace_back([&] {
        run([&, draw = Draw(seed)]() mutable { read_by_libhdf5(sets_[sets_.any(draw)], draw); }, end);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static bool libhdf5_is_thread_safe() {
    hbool_t safe = false;
    return H5is_library_threadsafe(&safe) >= 0 && safe;
  }

  std::uint64_t loaders() const noexcept { return loaders_; }
  std::string mistake() const {
    const std::lock_guard lock(mutex_);
    return mistake_;
  }

 private:
  // Repeats `work` until `end`, or until it throws.
  template <typename Work>
  void run(Work&& work, Clock::time_point end) {
    try {
      do {
        work();
      } while (Clock::now() < end && mistake().empty());
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      mistake_ = error.what();
    }
  }

  const Silence quiet_;
  const TempDir folder_;
  const Sets sets_{};
  std::atomic<std::uint64_t> loaders_ = 0;
  mutable std::mutex mutex_;
  std::string mistake_;
};

TEST_F(Soak, holds_no_more_at_its_end_than_at_its_beginning) {
  const double seconds = std::stod(from_environment("H5FEED_TEST_SECONDS", "5"));
  std::uint64_t seed = std::stoull(from_environment("H5FEED_TEST_SEED", "1"));
  const std::string json = from_environment("H5FEED_TEST_JSON", "");
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto round = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds / 20));

  run_round(seed++, Clock::now() + round);  // what libraries keep for the life of the process
  std::vector<Holdings> held = {Holdings::now()};
  std::vector<std::string> rounds;
  while (elapsed() < seconds && mistake().empty()) {
    run_round(seed++, Clock::now() + round);
    held.push_back(Holdings::now());
    rounds.push_back(fmt::format(
        R"({{"seconds": {:.0f}, "loaders": {}, "resident_bytes": {}, "descriptors": {}, "threads": {}, "processes": {}}})",
        elapsed(), loaders(), held.back().resident_bytes, held.back().descriptors, held.back().threads,
        held.back().processes ? 1 : 0));
    if (!json.empty()) std::ofstream(json) << fmt::format("[\n{}\n]\n", fmt::join(rounds, ",\n"));
  }
  ASSERT_EQ(mistake(), "") << "in a round before seed " << seed;
  EXPECT_GE(loaders(), static_cast<std::uint64_t>(kThreads));
  const Holdings& first = held.front();
  for (const Holdings& each : held) {
    EXPECT_EQ(each.descriptors, first.descriptors);
    EXPECT_EQ(each.threads, first.threads);
    EXPECT_FALSE(each.processes);
  }
#if !defined(H5FEED_ADDRESS_SANITIZER) && !defined(H5FEED_THREAD_SANITIZER)  // they keep what is freed
  std::uint64_t early = 0, late = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    std::uint64_t& most = i <= held.size() / 4 ? early : late;
    most = std::max(most, held[i].resident_bytes);
  }
  EXPECT_LE(late, early + early / 20 + 4 * kMiB) << "of the rounds after the first quarter; bytes";
#endif
  std::printf("%llu loaders in %zu rounds, %.0f s\n", static_cast<unsigned long long>(loaders()), held.size(),
              elapsed());
}

}  // namespace
}  // namespace h5feed::test
