// SPDX-License-Identifier: Apache-2.0
// Opener of a field whose samples differ in length.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataset/field_opener.hpp"
#include "dataset/ragged_field.hpp"

namespace h5feed {

/// Opens a field of variable length: rows of numbers of variable length, or with `SampleUnit::dataset` one
/// dataset per sample, alike except in the first dimension. Not thread-safe.
class RaggedOpener final : public PartOpener {
 public:
  RaggedOpener(FieldSpec spec, std::shared_ptr<FilePool> pool)
      : PartOpener(std::move(spec)), pool_(std::move(pool)) {}

  std::uint64_t look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap) override;

  /// Returns all kept rows. Throws DatasetError if there are none.
  std::shared_ptr<const RaggedField> finish();

 private:
  void keep_found() override;
  std::shared_ptr<const RaggedPart> open_one(const std::shared_ptr<H5File>& in, const std::string& name);

  const std::shared_ptr<FilePool> pool_;
  std::vector<std::shared_ptr<const RaggedPart>> found_;
  std::vector<std::shared_ptr<const RaggedPart>> parts_;
};

}  // namespace h5feed
