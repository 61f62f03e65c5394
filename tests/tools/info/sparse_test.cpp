// SPDX-License-Identifier: Apache-2.0
// h5feed info on files with sparse matrices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/files/sparse_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Info, prints_the_lines_that_read_sparse_rows) {
  const TempDir dir;
  const SparseRowsSet set = random_rows(20, 10);
  {
    SparseFile file(dir / "cells.h5ad");
    file.matrix("X", set, 16);
    file.file().createGroup("layers");
    file.matrix("layers/genes", set, 16, "csc_matrix");
    file.file().createGroup("obs");
    const std::vector<std::int8_t> codes(20, 0);
    file.categories("obs/batch", codes, {"a"});
    file.categories("obs/cell_type", codes, {"B"});
  }
  const std::string printed = run_program(dir.path(), {"info", "cells.h5ad"}).out;
  EXPECT_THAT(printed,
              HasSubstr("sparse rows, 20 cells of 10 genes:\n"
                        "  C++:    h5feed::Dataset::open({.files = {\"cells.h5ad\"}, .data = \"/X\", "
                        ".target = \"/obs/cell_type\"})\n"
                        "  Python: h5feed.Dataset.open(\"cells.h5ad\", data=\"/X\", "
                        "target=\"/obs/cell_type\")\n"));
  EXPECT_THAT(printed, HasSubstr("cells.h5ad:/layers/genes is a CSC matrix"));
  EXPECT_THAT(printed, HasSubstr("a.layers[\"genes\"] = a.layers[\"genes\"].tocsr()"));
  EXPECT_THAT(run_program(dir.path(), {"bench", "cells.h5ad", "--data", "X", "--shuffle", "chunk:1",
                                       "--num-workers", "1", "--time-budget", "1s"})
                  .exit_code,
              0);
}

TEST(Info, says_what_is_wrong_with_a_damaged_matrix_in_place_of_lines_that_read_it) {
  const TempDir dir;
  SparseRowsSet set = random_rows(20, 10);
  {
    SparseFile file(dir / "cells.h5ad");
    file.file().createGroup("layers");
    file.matrix("layers/whole", set, 16);
    set.indptr[7] = set.indptr[20] + 1;
    file.matrix("X", set, 16);
  }
  const ProgramResult info = run_program(dir.path(), {"info", "cells.h5ad"});
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_THAT(info.out, HasSubstr("cells.h5ad:/X/indptr falls from "));
  EXPECT_THAT(info.out, HasSubstr("at row 7; restore the file from a good copy\n"));
  EXPECT_THAT(info.out, Not(HasSubstr("data=\"/X\"")));
  EXPECT_THAT(info.out, HasSubstr("data=\"/layers/whole\""));
}

}  // namespace
}  // namespace h5feed::test
