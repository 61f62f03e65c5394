// SPDX-License-Identifier: Apache-2.0
// The re-cut of h5feed repack: whatever the two chunk shapes and the memory, every value arrives once and in
// its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <vector>

#include "h5feed/error.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"
#include "tools/repack/recut.hpp"
#include "tools/repack/scratch.hpp"
#include "tools/storage/recut_plan.hpp"

namespace h5feed::test {
namespace {

struct RecutCase {
  Shape shape;
  Shape source;  // empty: contiguous
  Shape target;
};

void PrintTo(const RecutCase& recut_case, std::ostream* out) {
  *out << format_shape(recut_case.shape) << " from " << format_shape(recut_case.source) << " to "
       << format_shape(recut_case.target);
}

// Puts delivered chunks together again, and notes how often each came.
struct Assembly {
  const RecutCase& recut_case;
  std::vector<std::byte> values;
  std::map<std::uint64_t, int> seen;

  cli::RecutTarget target() {
    return {.encode = [](cli::TargetChunk& chunk) { chunk.encoded.resize(1); },
            .write =
                [this](cli::TargetChunk& chunk) {
                  EXPECT_EQ(chunk.encoded.size(), 1U);
                  ++seen[chunk.number];
                  const cli::ChunkBox whole{Shape(recut_case.shape.size(), 0), recut_case.shape};
                  copy_box({chunk.box.count, recut_case.target, recut_case.shape, 2}, chunk.values.data(),
                           values.data() + 2 * cli::offset_within(whole, chunk.box));
                }};
  }
};

class EveryRecut : public ::testing::TestWithParam<RecutCase> {};

TEST_P(EveryRecut, delivers_every_value_once_within_any_memory_that_holds_two_chunks) {
  const RecutCase& recut_case = GetParam();
  const TempDir dir;
  const auto values = patterned_bytes(2 * product(recut_case.shape));
  {
    H5TestFile file(dir / "a.h5");
    file.create({.file_type = H5T_STD_U16LE, .shape = recut_case.shape, .chunk = recut_case.source});
    file.write("x", values);
  }
  const auto file = H5File::open(dir / "a.h5");
  const auto reader = open_chunk_reader(file, file->describe("x"));
  const cli::RecutShapes shapes{recut_case.shape, reader->chunk_shape(), recut_case.target, 2};
  const std::uint64_t chunks = product(chunk_grid(recut_case.shape, recut_case.target));
  const std::uint64_t target_bytes = 2 * product(recut_case.target);
  const std::uint64_t ample = 64 * (reader->chunk_bytes() + target_bytes + values.size());
  for (std::uint64_t memory = ample; memory > 0; memory /= 3) {
    for (const unsigned jobs : {1U, 3U}) {
      cli::RecutPlan plan;
      try {
        plan = cli::plan_recut(shapes,
                               {.memory_bytes = memory,
                                .jobs = jobs,
                                .decode_bytes = reader->chunk_bytes(),
                                .encode_bytes = target_bytes},
                               "/x");
      } catch (const OptionError&) {
        EXPECT_LT(memory, 4 * (reader->chunk_bytes() + 2 * target_bytes) + 4);
        break;
      }
      EXPECT_LE(plan.memory_bytes, memory);
      if (memory == ample) {
        EXPECT_EQ(plan.visits, 1);
      }
      for (const bool scratch : {false, true}) {
        plan.scratch = scratch;
        Assembly assembly{recut_case, std::vector<std::byte>(values.size()), {}};
        std::uint64_t advanced = 0;
        const auto advance = [&](std::uint64_t bytes) { advanced += bytes; };
        cli::recut(*reader, shapes, plan, dir / "out.h5", assembly.target(), advance);
        EXPECT_TRUE(std::ranges::equal(assembly.values, values)) << memory << (scratch ? " scratch" : "");
        EXPECT_EQ(assembly.seen.size(), chunks);
        for (const auto& [chunk, times] : assembly.seen) EXPECT_EQ(times, 1) << "chunk " << chunk;
        EXPECT_GT(advanced, 0U);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Repack, EveryRecut,
    ::testing::Values(RecutCase{{100}, {7}, {10}}, RecutCase{{64}, {64}, {1}}, RecutCase{{1}, {1}, {1}},
                      RecutCase{{23, 14}, {23, 1}, {1, 14}}, RecutCase{{23, 14}, {1, 14}, {23, 1}},
                      RecutCase{{40, 9}, {8, 3}, {4, 9}}, RecutCase{{40, 9}, {4, 9}, {8, 3}},
                      RecutCase{{23, 14, 9}, {5, 4, 3}, {3, 5, 2}},
                      RecutCase{{23, 14, 9}, {10, 14, 9}, {4, 14, 9}},
                      RecutCase{{23, 14, 9}, {2, 3, 9}, {23, 2, 1}}, RecutCase{{23, 14, 9}, {}, {6, 5, 4}},
                      RecutCase{{17, 6, 6, 3}, {16, 2, 2, 1}, {1, 6, 6, 3}},
                      RecutCase{{17, 6, 6, 3}, {1, 6, 6, 3}, {16, 2, 2, 1}},
                      RecutCase{{12, 5, 4, 3, 2}, {5, 2, 3, 1, 2}, {3, 3, 2, 2, 1}}));

TEST(Repack, names_the_least_memory_that_holds_one_chunk_of_each_kind) {
  const cli::RecutShapes shapes{{1000, 1000}, {1000, 1}, {1, 1000}, 8};
  cli::RecutLimits limits{.memory_bytes = 10'000, .jobs = 4, .decode_bytes = 8000, .encode_bytes = 16'000};
  try {
    cli::plan_recut(shapes, limits, "/x");
    FAIL() << "it fits?";
  } catch (const OptionError& error) {
    EXPECT_STREQ(
        error.what(),
        "--memory 9.8 KiB cannot hold one source chunk (7.8 KiB) and one target chunk (7.8 KiB) of /x; "
        "give at least 2 MiB");
  }
  limits.memory_bytes = 2 << 20;
  EXPECT_LE(cli::plan_recut(shapes, limits, "/x").memory_bytes, limits.memory_bytes);
  // What is held throughout counts, and is named.
  limits.held_bytes = 1 << 20;
  EXPECT_LE(cli::plan_recut(shapes, limits, "/x").memory_bytes, limits.memory_bytes);
  limits.held_bytes = 7 << 18;
  try {
    cli::plan_recut(shapes, limits, "/x");
    FAIL() << "it fits?";
  } catch (const OptionError& error) {
    EXPECT_STREQ(error.what(),
                 "--memory 2 MiB cannot hold one source chunk (7.8 KiB) and one target chunk (7.8 KiB) of /x "
                 "in addition to the positions of all chunks (1.8 MiB); give at least 4 MiB");
  }
}

TEST(Repack, lays_out_scratch_files_without_gaps_or_overlaps) {
  const cli::RecutShapes shapes{{23, 14, 9}, {5, 4, 3}, {3, 5, 2}, 2};
  const cli::RecutPlan plan{.region = {6, 10, 9}};
  const std::vector<cli::ChunkBox> regions = cli::regions_of(shapes, plan);
  const cli::ScratchLayout layout(shapes, regions);
  std::uint64_t end = 0;
  for (std::size_t region = 0; region < regions.size(); ++region) {
    for (const std::uint64_t chunk :
         cli::chunks_touching(regions[region], shapes.source_chunk, shapes.shape)) {
      const auto part =
          cli::intersection(cli::box_of_chunk(chunk, shapes.source_chunk, shapes.shape), regions[region]);
      EXPECT_EQ(layout.offset(region, part), end);
      end += 2 * cli::elements_of(part);
    }
  }
  EXPECT_EQ(end, 2 * product(shapes.shape));
}

TEST(Repack, leaves_chunks_out_of_which_nothing_was_ever_written) {
  const TempDir dir;
  const RecutCase recut_case{{20, 6}, {5, 6}, {2, 3}};
  {
    H5TestFile file(dir / "a.h5");
    file.create({.file_type = H5T_STD_U16LE,
                 .shape = recut_case.shape,
                 .chunk = recut_case.source,
                 .fill_value = {std::byte{7}, std::byte{1}}});
    file.write_box("x", Shape{5, 0}, Shape{3, 6}, patterned_bytes(36));
  }
  const auto expected = read_through_libhdf5(dir / "a.h5", "x");
  const auto file = H5File::open(dir / "a.h5");
  const auto reader = open_chunk_reader(file, file->describe("x"));
  const cli::RecutShapes shapes{recut_case.shape, recut_case.source, recut_case.target, 2};
  const cli::RecutPlan plan = cli::plan_recut(
      shapes, {.memory_bytes = 1 << 20, .jobs = 2, .decode_bytes = 60, .encode_bytes = 12}, "/x");
  Assembly assembly{recut_case, std::vector<std::byte>(240), {}};
  for (std::size_t i = 0; i < 120; ++i) {
    assembly.values[2 * i] = std::byte{7};
    assembly.values[2 * i + 1] = std::byte{1};
  }
  cli::recut(*reader, shapes, plan, dir / "out.h5", assembly.target(), [](std::uint64_t) {});
  // Rows 5 to 9 were written: target rows 4 to 9, in two columns.
  EXPECT_EQ(assembly.seen.size(), 6U);
  EXPECT_EQ(assembly.values, expected);
}

}  // namespace
}  // namespace h5feed::test
