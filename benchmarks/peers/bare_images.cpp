// SPDX-License-Identifier: Apache-2.0
// Baseline for `h5feed pack` on a folder of images: the bare work, without storing anything.
//   bare_images make DIR IMAGES CLASSES     writes JPEGs of 320 x 240, about 30 KB each, one folder per class
//   bare_images read DIR SIZE THREADS       reads, decodes and resizes each to SIZE x SIZE; prints seconds
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Smooth fields with noise; twenty of them, repeated.
int make(const fs::path& directory, int images, int classes) {
  std::vector<std::vector<unsigned char>> files(20);
  cv::RNG random(1);
  for (auto& file : files) {
    cv::Mat coarse(24, 32, CV_8UC3), image, grain(240, 320, CV_8UC3);
    random.fill(coarse, cv::RNG::UNIFORM, 0, 256);
    cv::resize(coarse, image, cv::Size(320, 240), 0, 0, cv::INTER_CUBIC);
    random.fill(grain, cv::RNG::UNIFORM, 0, 24);
    cv::imencode(".jpg", image + grain, file, {cv::IMWRITE_JPEG_QUALITY, 85});
  }
  for (int i = 0; i < images; ++i) {
    const fs::path folder = directory / ("class" + std::to_string(1000 + i % classes));
    if (i < classes) fs::create_directories(folder);
    const auto& file = files[static_cast<std::size_t>(i) % files.size()];
    std::ofstream(folder / ("image" + std::to_string(1'000'000 + i) + ".jpg"), std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  }
  return 0;
}

int read(const fs::path& directory, int size, int threads) {
  cv::setNumThreads(1);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      std::ifstream in(files[i], std::ios::binary);
      const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      cv::Mat resized;
      cv::resize(cv::imdecode(bytes, cv::IMREAD_COLOR), resized, cv::Size(size, size), 0, 0, cv::INTER_AREA);
    }
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::jthread> pool;
  for (int i = 0; i < threads; ++i) pool.emplace_back(work);
  pool.clear();
  std::printf("%.3f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "make")
    return make(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  if (argc == 5 && std::string(argv[1]) == "read")
    return read(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  std::fputs("bare_images make DIR IMAGES CLASSES | read DIR SIZE THREADS\n", stderr);
  return 2;
}
