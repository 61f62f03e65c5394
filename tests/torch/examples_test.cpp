// SPDX-License-Identifier: Apache-2.0
// The examples that train in one process, shortened; and LibTorch's own MNIST training with the lines of its
// dataset and loader changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "support/files/file_text.hpp"
#include "support/files/idx_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/processes.hpp"

namespace h5feed::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Returns the number at the end of a line, which may be followed by "%".
double last_number(const std::string& line) {
  const std::string number = line.substr(0, line.find_last_not_of(" %") + 1);
  return std::stod(number.substr(number.find_last_of(' ') + 1));
}

class Examples : public ::testing::Test {
 protected:
  std::string run(std::vector<std::string> words) const {
    test::Process process(directory_.path(), words, {{"OMP_NUM_THREADS", "1"}});
    EXPECT_EQ(process.wait(), 0) << words.front() << "\n" << process.output();
    return process.output();
  }

  void write_idx(const std::string& name, const std::vector<std::uint32_t>& shape,
                 const std::vector<std::byte>& values) const {
    const std::vector<std::byte> bytes = test::idx_bytes(0x08, shape, values);
    std::ofstream(directory_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  // Gray images that are the brighter the higher their class: a task that is learned in a few steps.
  void write_part(const std::string& part, std::uint32_t samples) const {
    std::vector<std::byte> images, labels;
    for (std::uint32_t i = 0; i < samples; ++i) {
      const std::uint32_t label = i % 10;
      labels.push_back(static_cast<std::byte>(label));
      for (std::uint32_t pixel = 0; pixel < 28 * 28; ++pixel) {
        images.push_back(static_cast<std::byte>(20 * label + (i * 31 + pixel * 17) % 20));
      }
    }
    write_idx(part + "-images", {samples, 28, 28}, images);
    write_idx(part + "-labels", {samples}, labels);
  }

  const test::TempDir directory_;
};

TEST_F(Examples, first_learns_the_labels_of_a_generated_file) {
  run({H5FEED_PROGRAM, "generate", "demo.h5", "--samples", "500", "--shape", "3,64,64"});
  const std::vector<std::string> epochs = lines_with(run({H5FEED_FIRST, "demo.h5"}), ": mean loss ");
  ASSERT_THAT(epochs, SizeIs(3));
  // With any weights and order about 2.25 and 1.60; on far fewer or smaller images chance may decide.
  EXPECT_LT(last_number(epochs[2]), last_number(epochs[0]));
}

TEST_F(Examples, fashion_mnist_trains_several_batch_sizes_with_a_scaled_learning_rate) {
  write_part("train", 512);
  write_part("test", 64);
  run({H5FEED_PROGRAM, "pack", "fashion.h5", "--idx", "train/images=train-images", "--idx",
       "train/labels=train-labels", "--idx", "test/images=test-images", "--idx", "test/labels=test-labels"});
  const std::string output =
      run({H5FEED_FASHION_MNIST, "fashion.h5", "--epochs", "2", "--batch-size", "32,128", "--lr-scaling",
           "linear", "--warmup-epochs", "0.5", "--device", "cpu"});
  EXPECT_THAT(lines_with(output, "training on cpu"),
              ElementsAre(HasSubstr("batches of 32, learning rate 0.0005 after the warm-up"),
                          HasSubstr("batches of 128, learning rate 0.002 after the warm-up")));
  EXPECT_THAT(
      lines_with(output, "epoch 2/2: "),
      ElementsAre(HasSubstr("batch size 32, learning rate 0.0005, loss "),
                  AllOf(HasSubstr("batch size 128, learning rate 0.002, loss "), HasSubstr(", no GPU,"))));
  EXPECT_THAT(lines_with(output, "peak host memory "), SizeIs(4));
  EXPECT_THAT(lines_with(output, ", test accuracy: "), SizeIs(2));
  EXPECT_THAT(lines_with(output, "1,024 samples in "), SizeIs(2)) << "the loader's report";
}

TEST_F(Examples, echo_prints_a_row_for_each_factor) {
  write_part("train", 512);
  write_part("test", 64);
  run({H5FEED_PROGRAM, "pack", "fashion.h5", "--idx", "train/images=train-images", "--idx",
       "train/labels=train-labels", "--idx", "test/images=test-images", "--idx", "test/labels=test-labels"});
  const std::string output =
      run({H5FEED_ECHO, "fashion.h5", "--factors", "1,2,4", "--seeds", "2", "--epochs", "2"});
  const std::vector<std::string> lines = lines_of(output);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], HasSubstr("echo.factor"));
  // As many steps with each factor: 16 batches of 64, of which a fourth is fresh with factor 4.
  EXPECT_THAT(lines[1], HasSubstr("          1           1024  "));
  EXPECT_THAT(lines[2], HasSubstr("          2            512  "));
  EXPECT_THAT(lines[3], HasSubstr("          4            256  "));
}

TEST_F(Examples, resnet_training_ends_with_the_loaders_report) {
  run({H5FEED_PROGRAM, "generate", "images.h5", "--samples", "32", "--shape", "3,224,224", "--dtype", "u8",
       "--classes", "10", "--chunk", "8", "--filter", "gzip:1", "--seed", "1"});
  const std::string output = run({H5FEED_RESNET_TRAINING, "images.h5", "--batch-size", "4", "--steps", "2",
                                  "--shuffle", "chunk:2", "--device", "cpu"});
  EXPECT_THAT(output, AllOf(HasSubstr("epoch 1: loss "), HasSubstr("8 samples in 2 batches"),
                            HasSubstr("memory: budget ")));
}

TEST_F(Examples, wrong_options_are_named_in_one_line) {
  run({H5FEED_PROGRAM, "generate", "few.h5", "--samples", "8", "--shape", "3,32,32"});
  const auto refusal = [&](const std::vector<std::string>& words) {
    test::Process process(directory_.path(), words, {});
    EXPECT_EQ(process.wait(), 2) << process.output();
    return process.output();
  };
  EXPECT_THAT(refusal({H5FEED_FASHION_MNIST, "few.h5", "--batch-size", "64,0"}),
              HasSubstr("--batch-size: 0 is not a number from 1\n"));
  EXPECT_THAT(refusal({H5FEED_FASHION_MNIST, "few.h5", "--device", "tpu"}),
              EndsWith("fashion_mnist: --device tpu: use auto, cpu, cuda or cuda:N\n"));
  EXPECT_THAT(refusal({H5FEED_RESNET_TRAINING, "few.h5", "--depth", "19"}), HasSubstr("--depth: 19 not in"));
  EXPECT_THAT(refusal({H5FEED_RESNET_TRAINING, "few.h5", "--shuffle", "full", "--batch-size", "9"}),
              EndsWith("resnet_training: --batch-size 9 is more than the 8 images\n"));
}

TEST_F(Examples, the_docs_show_the_patch_that_is_tested) {
  const std::string page = test::text_of(H5FEED_SOURCE_DIR "/docs/libtorch.md");
  const std::string patch = test::text_of(H5FEED_SOURCE_DIR "/tests/torch/mnist/mnist_with_h5feed.patch");
  const std::size_t begin = page.find("```diff\n") + 8;
  const std::string shown = page.substr(begin, page.find("```", begin) - begin);
  ASSERT_GT(shown.size(), 100U);
  EXPECT_THAT(patch, HasSubstr(shown));
}

// Fashion-MNIST has the files and sizes of MNIST.
TEST_F(Examples, libtorchs_mnist_training_gives_the_same_from_hdf5) {
  const std::string source = "/usr/share/datasets/fashion-mnist/";
  std::vector<std::string> pack = {H5FEED_PROGRAM, "pack", "mnist.h5"};
  for (const auto& [file, dataset] : {std::pair{"train-images-idx3-ubyte", "train/images"},
                                      std::pair{"train-labels-idx1-ubyte", "train/labels"},
                                      std::pair{"t10k-images-idx3-ubyte", "test/images"},
                                      std::pair{"t10k-labels-idx1-ubyte", "test/labels"}}) {
    const std::string name = file;
    run({"/bin/sh", "-c", "gzip -dc " + source + name + ".gz > " + name});
    pack.insert(pack.end(), {"--idx", dataset + ("=" + name)});
  }
  run(pack);
  const std::string libtorch = run({H5FEED_MNIST, ".", "60"});
  const std::string h5feed = run({H5FEED_MNIST_WITH_H5FEED, "mnist.h5", "60"});

  const auto losses = lines_with(libtorch, "step ");
  const auto h5feed_losses = lines_with(h5feed, "step ");
  ASSERT_THAT(losses, SizeIs(6));
  ASSERT_EQ(h5feed_losses.size(), losses.size());
  EXPECT_EQ(lines_with(h5feed, "initial weights "), lines_with(libtorch, "initial weights "));
  // The same samples in the same order: only the rounding of Normalize differs, which training amplifies
  // (training_test.cpp: with LibTorch's arithmetic there is no difference at any step).
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(last_number(h5feed_losses[i]), last_number(losses[i]), 2e-3) << losses[i];
  }
  const double accuracy = last_number(lines_with(libtorch, "accuracy ").at(0));
  EXPECT_GT(accuracy, 30);
  EXPECT_NEAR(last_number(lines_with(h5feed, "accuracy ").at(0)), accuracy, 2);
}

}  // namespace
}  // namespace h5feed::test
