// SPDX-License-Identifier: Apache-2.0
// Names of the columns of sparse matrices.
#include <gtest/gtest.h>

#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "support/files/sparse_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

// Nothing of these lists is in the file: only their lengths are.
TEST(SparseNames, that_claim_more_memory_than_any_list_has_are_refused) {
  const TempDir folder;
  for (const bool text : {true, false}) {
    const std::string name = text ? "text.h5" : "numbers.h5";
    {
      SparseFile file(folder / name);
      file.matrix("X", random_rows(5, 4), 16);
      file.file().createGroup("var");
      file.attribute("var", "_index", "gene");
      const hsize_t count = hsize_t{1} << 33, chunk = 1 << 16;
      H5::DSetCreatPropList plist;
      plist.setChunk(1, &chunk);
      const H5::DataType type =
          text ? H5::DataType(H5::StrType(H5::PredType::C_S1, 8)) : H5::DataType(H5::PredType::NATIVE_INT32);
      file.file().createDataSet("var/gene", type, H5::DataSpace(1, &count), plist);
    }
    const DatasetOptions options{.files = {folder / name},
                                 .data = "X",
                                 .sparse = SparseOptions{.format = SparseFormat::dense, .columns = {"g1"}}};
    EXPECT_EQ(
        refusal_in<DatasetError>(folder.path(), [&] { Dataset::open(options); }),
        name + ":/var/gene: a list of 8,589,934,592 names is too long; restore the file from a good copy");
  }
}

}  // namespace
}  // namespace h5feed::test
