// SPDX-License-Identifier: Apache-2.0
// Measures the cost of datasets that are not one array in one file.
//   dataset_shapes FOLDER [jpeg|list|virtual] [ROUNDS]     default: all three, 5 rounds
// Writes its files into FOLDER (2 GB for list and virtual, kept for the next run) and prints JSON.
//   jpeg     2,000 JPEGs of about 16 KB in variable-length uint8: the loader with 2 workers, and 2 threads
//            that call cv::imdecode on the same bytes in memory
//   list     10,000 files of one sample of 100 KB each, and one file of as many samples; the time to open a
//            quarter, a half and all of them, and the most descriptors that the process had. Also two
//            threads that only call pread(2) on both, to show the kernel's part of the difference
//   virtual  1,000 files of ten such samples behind a virtual dataset, and one file
// The two sides take turns; prints medians of samples/s, their ratio, and every round. Files are in the page
// cache, loaded by a first epoch: a file just written is there in larger pieces, the more so the larger the
// file, and is temporarily read faster.
// On a machine that does other work as well, CPU time per sample is more reliable: "cpu_us" has its medians,
// and "cpu_ratio" the second side's CPU time as a multiple of the first side's, as "ratio" has the speeds.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hdf5.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "peers/pread_loop.hpp"

namespace {

namespace fs = std::filesystem;
using h5feed::bench::drop_pages;
using h5feed::bench::PreadLoop;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kWorkers = 2;
constexpr hsize_t kSamples = 10'000;
constexpr hsize_t kChannels = 3;
constexpr hsize_t kHeight = 180;
constexpr hsize_t kWidth = 190;
constexpr hsize_t kSampleBytes = kChannels * kHeight * kWidth;
constexpr int kJpegs = 2'000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

hid_t checked(hid_t id) {
  if (id < 0) throw std::runtime_error("dataset_shapes: libhdf5 refused");
  return id;
}

// Creates /images with `rows` samples.
void write_samples(const fs::path& path, hsize_t rows, unsigned seed) {
  if (fs::exists(path)) return;
  std::vector<std::uint32_t> values(rows * kSampleBytes / 4);
  std::minstd_rand random(seed + 1);
  for (std::uint32_t& value : values) value = static_cast<std::uint32_t>(random());
  const hsize_t shape[] = {rows, kChannels, kHeight, kWidth};
  const hid_t file = checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  const hid_t space = checked(H5Screate_simple(4, shape, nullptr));
  const hid_t dataset =
      checked(H5Dcreate2(file, "images", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  checked(H5Dwrite(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  H5Dclose(dataset);
  H5Sclose(space);
  H5Fclose(file);
}

std::string part_name(const std::string& folder, hsize_t number) {
  return fmt::format("{}/{:05}.h5", folder, number);
}

// Creates `files` files of `rows` samples each.
std::vector<fs::path> write_parts(const fs::path& folder, const std::string& name, hsize_t files,
                                  hsize_t rows) {
  fs::create_directories(folder / name);
  std::vector<fs::path> paths;
  for (hsize_t i = 0; i < files; ++i) {
    paths.push_back(folder / part_name(name, i));
    write_samples(paths.back(), rows, static_cast<unsigned>(i));
  }
  return paths;
}

void write_virtual(const fs::path& path, const std::string& name, hsize_t files, hsize_t rows) {
  const hsize_t shape[] = {files * rows, kChannels, kHeight, kWidth};
  const hsize_t part[] = {rows, kChannels, kHeight, kWidth};
  const hid_t file = checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  const hid_t space = checked(H5Screate_simple(4, shape, nullptr));
  const hid_t source = checked(H5Screate_simple(4, part, nullptr));
  const hid_t plist = checked(H5Pcreate(H5P_DATASET_CREATE));
  for (hsize_t i = 0; i < files; ++i) {
    const hsize_t start[] = {i * rows, 0, 0, 0};
    checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, part, nullptr));
    checked(H5Pset_virtual(plist, space, part_name(name, i).c_str(), "images", source));
  }
  checked(H5Sselect_all(space));
  H5Dclose(checked(H5Dcreate2(file, "images", H5T_STD_U8LE, space, H5P_DEFAULT, plist, H5P_DEFAULT)));
  H5Pclose(plist);
  H5Sclose(source);
  H5Sclose(space);
  H5Fclose(file);
}

std::vector<std::vector<unsigned char>> make_jpegs() {
  std::vector<std::vector<unsigned char>> jpegs(kJpegs);
  cv::RNG random(1);
  for (auto& jpeg : jpegs) {
    cv::Mat noise(224, 224, CV_8UC3);
    random.fill(noise, cv::RNG::UNIFORM, 0, 256);
    cv::Mat image;
    cv::GaussianBlur(noise, image, {}, 1.2);
    cv::imencode(".jpg", image, jpeg, {cv::IMWRITE_JPEG_QUALITY, 88});
  }
  return jpegs;
}

void write_jpegs(const fs::path& path, std::vector<std::vector<unsigned char>>& jpegs) {
  std::vector<hvl_t> elements;
  for (auto& jpeg : jpegs) elements.push_back({jpeg.size(), jpeg.data()});
  const hsize_t rows = jpegs.size();
  const hid_t file = checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  const hid_t type = checked(H5Tvlen_create(H5T_STD_U8LE));
  const hid_t space = checked(H5Screate_simple(1, &rows, nullptr));
  const hid_t dataset =
      checked(H5Dcreate2(file, "images", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()));
  H5Dclose(dataset);
  H5Sclose(space);
  H5Tclose(type);
  H5Fclose(file);
}

struct Rate {
  double per_s = 0;
  double cpu_us = 0;  // CPU time of all threads per sample
};

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Measures `work`, which returns the number of samples that it processed.
Rate rate_of(const std::function<std::size_t()>& work) {
  const double cpu = cpu_seconds();
  const Clock::time_point start = Clock::now();
  const auto samples = static_cast<double>(work());
  return {samples / seconds_since(start), (cpu_seconds() - cpu) / samples * 1e6};
}

// Measures one epoch.
Rate epoch_rate(h5feed::DataLoader& loader) {
  return rate_of([&] {
    std::size_t samples = 0;
    loader.start_epoch();
    while (const auto batch = loader.next()) samples += static_cast<std::size_t>(batch->size());
    return samples;
  });
}

std::size_t imdecode_all(const std::vector<std::vector<unsigned char>>& jpegs) {
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> pixels = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < jpegs.size(); i = next++)
      pixels += cv::imdecode(jpegs[i], cv::IMREAD_COLOR).total();
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kWorkers; ++i) threads.emplace_back(work);
  }
  if (pixels == 0) throw std::runtime_error("dataset_shapes: nothing was decoded");
  return jpegs.size();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void compare(const char* name, const char* a_name, const std::function<Rate()>& a, const char* b_name,
             const std::function<Rate()>& b, int rounds, const std::string& more) {
  a();
  b();
  std::vector<double> a_rates, b_rates, a_cpu, b_cpu;
  for (int round = 0; round < rounds; ++round) {
    for (const auto& [side, rates, cpu] :
         {std::tuple(&a, &a_rates, &a_cpu), std::tuple(&b, &b_rates, &b_cpu)}) {
      const Rate rate = (*side)();
      rates->push_back(rate.per_s);
      cpu->push_back(rate.cpu_us);
    }
  }
  fmt::print(
      "{{\"case\": \"{}\", \"{}\": {:.0f}, \"{}\": {:.0f}, \"ratio\": {:.3f}, \"cpu_us\": [{:.1f}, {:.1f}], "
      "\"cpu_ratio\": {:.3f}, \"{}_rounds\": [{:.0f}], \"{}_rounds\": [{:.0f}]{}}}\n",
      name, a_name, median(a_rates), b_name, median(b_rates), median(a_rates) / median(b_rates),
      median(a_cpu), median(b_cpu), median(b_cpu) / median(a_cpu), a_name, fmt::join(a_rates, ", "), b_name,
      fmt::join(b_rates, ", "), more);
}

std::size_t descriptors() {
  const fs::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

h5feed::DataLoaderOptions loader_options() {
  return {.batch_size = 64, .shuffle = true, .seed = 1, .num_workers = kWorkers, .cache_bytes = 0};
}

void run_jpeg(const fs::path& folder, int rounds) {
  auto jpegs = make_jpegs();
  std::size_t bytes = 0;
  for (const auto& jpeg : jpegs) bytes += jpeg.size();
  write_jpegs(folder / "jpeg.h5", jpegs);
  h5feed::DataLoader loader(h5feed::Dataset::open({.files = {folder / "jpeg.h5"}, .data = "images"}),
                            loader_options());
  compare(
      "jpeg", "loader", [&] { return epoch_rate(loader); }, "imdecode",
      [&] { return rate_of([&] { return imdecode_all(jpegs); }); }, rounds,
      fmt::format(", \"mean_bytes\": {}", bytes / jpegs.size()));
}

void run_list(const fs::path& folder, int rounds) {
  const std::vector<fs::path> files = write_parts(folder, "list", kSamples, 1);
  write_samples(folder / "one.h5", kSamples, 0);
  drop_pages(files);
  drop_pages({folder / "one.h5"});
  std::string opened;
  for (const std::size_t count : {files.size() / 4, files.size() / 2, files.size()}) {
    const Clock::time_point start = Clock::now();
    const auto dataset = h5feed::Dataset::open(
        {.files = {files.begin(), files.begin() + static_cast<std::ptrdiff_t>(count)}, .data = "images"});
    opened += fmt::format(", \"open_{}_s\": {:.2f}", count, seconds_since(start));
  }
  h5feed::DataLoader list(h5feed::Dataset::open({.files = files, .data = "images"}), loader_options());
  h5feed::DataLoader one(h5feed::Dataset::open({.files = {folder / "one.h5"}, .data = "images"}),
                         loader_options());
  std::size_t most = 0;
  compare(
      "list", "list",
      [&] {
        const Rate rate = epoch_rate(list);
        most = std::max(most, descriptors());
        return rate;
      },
      "one", [&] { return epoch_rate(one); }, rounds, opened);
  fmt::print("{{\"case\": \"list\", \"descriptors\": {}}}\n", most);
}

void run_list_pread(const fs::path& folder, int rounds) {
  PreadLoop list(write_parts(folder, "list", kSamples, 1), kSamples, kSampleBytes, kWorkers);
  PreadLoop one({folder / "one.h5"}, kSamples, kSampleBytes, kWorkers);
  compare(
      "list_pread", "list", [&] { return rate_of([&] { return list.run(); }); }, "one",
      [&] { return rate_of([&] { return one.run(); }); }, rounds, "");
}

void run_virtual(const fs::path& folder, int rounds) {
  constexpr hsize_t kFiles = 1'000;
  const std::vector<fs::path> files = write_parts(folder, "virtual", kFiles, kSamples / kFiles);
  write_virtual(folder / "virtual.h5", "virtual", kFiles, kSamples / kFiles);
  write_samples(folder / "one.h5", kSamples, 0);
  drop_pages(files);
  drop_pages({folder / "one.h5"});
  const Clock::time_point start = Clock::now();
  const auto dataset = h5feed::Dataset::open({.files = {folder / "virtual.h5"}, .data = "images"});
  const double opened = seconds_since(start);
  h5feed::DataLoader joined(dataset, loader_options());
  h5feed::DataLoader one(h5feed::Dataset::open({.files = {folder / "one.h5"}, .data = "images"}),
                         loader_options());
  compare(
      "virtual", "virtual", [&] { return epoch_rate(joined); }, "one", [&] { return epoch_rate(one); },
      rounds, fmt::format(", \"open_s\": {:.2f}", opened));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("dataset_shapes: name a folder for the files");
    const fs::path folder(argv[1]);
    fs::create_directories(folder);
    const std::string only = argc > 2 ? argv[2] : "";
    const int rounds = argc > 3 ? std::stoi(argv[3]) : 5;
    if (only.empty() || only == "jpeg") run_jpeg(folder, rounds);
    if (only.empty() || only == "list") {
      run_list(folder, rounds);
      run_list_pread(folder, rounds);
    }
    if (only.empty() || only == "virtual") run_virtual(folder, rounds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
