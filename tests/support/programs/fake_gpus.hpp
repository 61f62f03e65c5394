// SPDX-License-Identifier: Apache-2.0
// Fixture of tests that run the program on the tests' own NVML.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/files/file_text.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {

/// What a variable of the environment is while in scope; the programs started in it inherit it.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { ::unsetenv(name_.c_str()); }

 private:
  std::string name_;
};

class Gpus : public ::testing::Test {
 protected:
  ProgramResult run(const std::vector<std::string>& arguments) { return run_program(dir_.path(), arguments); }

  // The complete lines of a JSON-lines text; the last one is the summary.
  static std::vector<nlohmann::json> objects_in(const std::string& text) {
    std::vector<nlohmann::json> objects;
    // A program may be writing the next line.
    const std::string complete = text.substr(0, text.rfind('\n') + 1);
    for (const std::string& line : lines_of(complete)) objects.push_back(nlohmann::json::parse(line));
    return objects;
  }
  // Those about GPUs, or about the process.
  static std::vector<nlohmann::json> lines_with(const std::string& text, const std::string& key) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& line : objects_in(text)) {
      if (line.contains(key) && line.contains("time")) found.push_back(line);
    }
    return found;
  }
  std::string content_of(const std::string& name) const { return text_so_far(dir_ / name); }

  TempDir dir_;
  ScopedVariable nvml_{"H5FEED_NVML", FAKE_NVML_PATH};
};

}  // namespace h5feed::test
