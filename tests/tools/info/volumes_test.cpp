// SPDX-License-Identifier: Apache-2.0
// h5feed info on files with volumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST(Info, prints_the_lines_that_read_volumes_by_patches) {
  const TempDir dir;
  {
    H5TestFile file(dir / "scan.h5");
    file.create(
        {.path = "raw", .file_type = H5T_IEEE_F32LE, .shape = {80, 100, 120}, .chunk = {16, 32, 100}});
    file.create({.path = "label", .shape = {80, 100, 120}});
    H5TestFile whole_numbers(dir / "cells.h5");
    whole_numbers.create({.path = "label", .shape = {80, 100, 120}, .chunk = {16, 32, 100}});
    whole_numbers.create({.path = "raw", .shape = {80, 100, 120}, .chunk = {16, 32, 100}});
    H5TestFile many(dir / "many.h5");
    many.create({.path = "mri", .file_type = H5T_STD_I16LE, .shape = {3, 40, 200, 180, 2}});
    H5TestFile images(dir / "images.h5");
    images.create({.path = "photos", .shape = {200, 64, 64}});
  }
  const std::string scan = run_program(dir.path(), {"info", "scan.h5"}).out;
  EXPECT_THAT(scan,
              HasSubstr("\npatches of one volume of 80×100×120: --data /raw --target /label --sample dataset "
                        "--input-layout NDHW --tile-size 64x64x100 --tile-per-image 8\n"));
  EXPECT_THAT(scan,
              HasSubstr("\n  Python: h5feed.Dataset.open(\"scan.h5\", data=\"/raw\", target=\"/label\", "
                        "sample=\"dataset\", input_layout=\"ndhw\", tiles={\"size\": (64, 64, 100), "
                        "\"per_image\": 8})\n"));
  EXPECT_THAT(
      scan,
      HasSubstr("\n  C++:    h5feed::Dataset::open({.files = {\"scan.h5\"}, .data = \"/raw\", .target = "
                "\"/label\", .sample = h5feed::SampleUnit::dataset, .input_layout = "
                "h5feed::InputLayout::ndhw, .tiles = h5feed::TileOptions{.size = {64, 64, 100}, "
                ".per_image = 8}})\n"));
  const std::string cells = run_program(dir.path(), {"info", "cells.h5"}).out;
  EXPECT_THAT(cells, HasSubstr("\npatches of one volume of 80×100×120: --data /raw --target /label"));
  EXPECT_THAT(cells, testing::Not(HasSubstr("--data /label --target /raw")));
  EXPECT_THAT(run_program(dir.path(), {"info", "many.h5"}).out,
              HasSubstr("\npatches of 3 volumes of 40×200×180: --data /mri --input-layout NDHWC --tile-size "
                        "40x64x64 --tile-per-image 8\n"));
  EXPECT_THAT(run_program(dir.path(), {"info", "images.h5"}).out, testing::Not(HasSubstr("volume")));
  // The chunks of the scan fit its patches; one chunk for each slice does not.
  EXPECT_THAT(scan, testing::Not(HasSubstr("a patch of")));
  {
    H5TestFile slices(dir / "slices.h5");
    slices.create(
        {.path = "raw", .file_type = H5T_IEEE_F32LE, .shape = {100, 512, 512}, .chunk = {1, 512, 512}});
    slices.create({.path = "label", .shape = {100, 512, 512}});
  }
  EXPECT_THAT(run_program(dir.path(), {"info", "slices.h5"}).out,
              HasSubstr("\n/raw: a patch of 64×128×128 at a random place decodes 16 times its own voxels "
                        "with chunks of 1×512×512, "));
  const ProgramResult bench = run_program(dir.path(), {"bench",
                                                       "scan.h5",
                                                       "--data",
                                                       "/raw",
                                                       "--target",
                                                       "/label",
                                                       "--sample",
                                                       "dataset",
                                                       "--input-layout",
                                                       "NDHW",
                                                       "--tile-size",
                                                       "64x64x100",
                                                       "--tile-per-image",
                                                       "8",
                                                       "--batch-size",
                                                       "2",
                                                       "--num-workers",
                                                       "1",
                                                       "--runs",
                                                       "1",
                                                       "--time-budget",
                                                       "1s"});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
}

}  // namespace
}  // namespace h5feed::test
