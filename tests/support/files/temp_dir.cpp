// SPDX-License-Identifier: Apache-2.0
#include "support/files/temp_dir.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <stdexcept>
#include <system_error>

namespace h5feed::test {

TempDir::TempDir() : TempDir(std::filesystem::path(testing::TempDir())) {}

TempDir::TempDir(const std::filesystem::path& parent) {
  std::string name = (parent / "h5feed_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory: " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace h5feed::test
