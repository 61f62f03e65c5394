// SPDX-License-Identifier: Apache-2.0
#include "support/programs/bad_input.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "support/files/h5_test_file.hpp"
#include "support/files/idx_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "tools/program/commands.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using Listing = std::map<std::string, std::vector<std::byte>>;

constexpr std::size_t kLongestLine = 400;

std::string text_of(const Words& words) {
  std::string text = "h5feed";
  for (const std::string& word : words) text += " " + word;
  return text;
}

// Sources that every command can work with, as HDF5 and in a format that pack takes.
struct Sources {
  std::vector<std::byte> h5, idx;
};

Sources make_sources() {
  const std::vector<std::byte> images = patterned_bytes(10 * 3 * 8 * 8), labels = patterned_bytes(10, 1);
  const TempDir dir;
  {
    H5TestFile file(dir / "good.h5");
    file.create({.path = "images",
                 .shape = {10, 3, 8, 8},
                 .chunk = {2, 3, 8, 8},
                 .filters = {{.id = 1, .params = {4}}}});
    file.write("images", images);
    file.create({.path = "labels", .shape = {10}});
    file.write("labels", labels);
  }
  return {file_bytes(dir / "good.h5"), idx_bytes(0x08, {10, 3, 8, 8}, images)};
}

// Every name below `folder`, with the bytes of regular files.
Listing listing(const fs::path& folder) {
  Listing found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    found[entry.path().lexically_relative(folder)] =
        entry.is_regular_file() ? file_bytes(entry.path()) : std::vector<std::byte>();
  }
  return found;
}

std::string fault_in_text(const Mistake& mistake, const std::string& text) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines != mistake.notes + 1 || !text.ends_with('\n')) return "not one line";
  const std::size_t before = text.rfind('\n', text.size() - 2);
  const std::string line = text.substr(before == std::string::npos ? 0 : before + 1);
  if (line.size() < 10 || line.size() > kLongestLine) return "too short or too long a line";
  if (line.find(mistake.mention) == std::string::npos) return "does not name " + mistake.mention;
  for (const char* const raw : {"HDF5-DIAG", "std::", "H5::", "exception", "Exception", "terminate called",
                                "basic_string", "stoi", "json.", "errno"}) {
    if (line.find(raw) != std::string::npos) return std::string("raw text of a library: ") + raw;
  }
  return {};
}

// One run that has been started.
class Attempt {
 public:
  explicit Attempt(const Mistake& mistake) : mistake_(mistake) {
    static const Sources sources = make_sources();
    replace_file(dir_ / "good.h5", sources.h5);
    replace_file(dir_ / "good.idx", sources.idx);
    mistake_.prepare(dir_.path());
    before_ = listing(dir_.path());
    program_.emplace(dir_.path(), mistake_.arguments, mistake_.limits);
  }

  // What is wrong with how the program takes the mistake; empty: nothing. Blocks until its end.
  std::string fault() {
    const ProgramResult result = program_->wait();
    std::string fault = fault_in_text(mistake_, result.err);
    if (result.exit_code != mistake_.exit_code)
      fault = "exit code is not " + std::to_string(mistake_.exit_code);
    if (listing(dir_.path()) != before_) fault = "the folder changed";
    if (result.timed_out) fault = "does not end";
    if (fault.empty()) return {};
    return fault + "\n  " + text_of(mistake_.arguments) + "\n  exit code " +
           std::to_string(result.exit_code) + ", signal " + std::to_string(result.signal) + "\n  " +
           result.err.substr(0, 2000);
  }

 private:
  const Mistake& mistake_;
  const TempDir dir_;
  Listing before_;
  std::optional<Program> program_;
};

// A copy of a process with threads is not one that can go on.
std::ptrdiff_t threads_of_this_process() {
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

}  // namespace

void expect_all_refused(const std::vector<Mistake>& mistakes) {
  ASSERT_EQ(threads_of_this_process(), 1);
  const std::size_t at_once = std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
  std::deque<std::unique_ptr<Attempt>> attempts;
  const auto finish_first = [&] {
    EXPECT_EQ(attempts.front()->fault(), "");
    attempts.pop_front();
  };
  for (const Mistake& mistake : mistakes) {
    if (attempts.size() == at_once) finish_first();
    attempts.push_back(std::make_unique<Attempt>(mistake));
  }
  while (!attempts.empty()) finish_first();
}

Words with(Words words, std::string_view pattern, const std::string& value) {
  for (std::string& word : words) {
    if (const auto at = word.find(pattern); at != std::string::npos) word.replace(at, pattern.size(), value);
  }
  return words;
}

}  // namespace h5feed::test

// A copy of this process that runs `bench` starts its rows as it would as the program: by its own executable.
int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == h5feed::cli::kBenchRowCommand)
    return h5feed::cli::run_to_end(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
