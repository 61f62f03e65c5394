// SPDX-License-Identifier: Apache-2.0
// The program that stands in for h5feed-reader, for tests that get its path as H5FEED_FAKE_READER_PROGRAM.
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>

#include "store/isolation/reader_process.hpp"

namespace h5feed::test {

/// Says, while it exists, what the stand-ins do that are started; see fake_reader.cpp.
class FakeReader {
 public:
  explicit FakeReader(const char* what) { ::setenv("H5FEED_FAKE_READER", what, 1); }
  FakeReader(const FakeReader&) = delete;
  FakeReader& operator=(const FakeReader&) = delete;
  ~FakeReader() { ::unsetenv("H5FEED_FAKE_READER"); }

  /// Returns a process that is to be a stand-in.
  static std::shared_ptr<ReaderProcess> process(std::chrono::milliseconds time = std::chrono::seconds(60)) {
    return std::make_shared<ReaderProcess>(
        IsolationLimits{.time = time, .program = H5FEED_FAKE_READER_PROGRAM});
  }
};

}  // namespace h5feed::test
