// SPDX-License-Identifier: Apache-2.0
// Files that another process reads: the same answers as in this one, and errors where that process fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "h5feed/data_loader.hpp"
#include "h5feed/interrupt.hpp"
#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/path_pattern.hpp"
#include "store/hdf5/text_list.hpp"
#include "store/index/chunk_index.hpp"
#include "store/isolation/reader_process.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/fakes/fake_reader.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class StoreIsolation : public testing::Test {
 protected:
  std::filesystem::path path() const { return dir_ / "train.h5"; }

  void write() const {
    H5TestFile file(path());
    file.create({.path = "images",
                 .file_type = H5T_STD_U16BE,
                 .shape = {13, 6},
                 .max_shape = {kUnlimited, 6},
                 .chunk = {4, 6},
                 .filters = {gzip_filter(3)},
                 .fill_value = {std::byte{1}, std::byte{2}}});
    file.write("images", patterned_bytes(13 * 6 * 2));
    file.create({.path = "groups/a/labels", .shape = {13}});
    file.write("groups/a/labels", patterned_bytes(13));
    file.create({.path = "groups/b/labels", .shape = {13}, .compact = true});
    file.write("groups/b/labels", patterned_bytes(13));
    file.create_converted("converted", {8, 4}, patterned_bytes(32));
    const Hid twelve_bits(H5Tcopy(H5T_STD_I16LE));
    require(H5Tset_precision(twelve_bits.get(), 12), "H5Tset_precision");
    file.create({.path = "packed", .file_type = twelve_bits.get(), .shape = {13}, .chunk = {4}});
    file.write("packed", patterned_bytes(2 * 13));
    file.create({.path = "names", .file_type = H5T_C_S1, .shape = {3}});
  }

  std::shared_ptr<H5File> local() const { return H5File::open(path()); }
  std::shared_ptr<H5File> remote(const std::shared_ptr<ReaderProcess>& process = nullptr) const {
    return H5File::open(path(), path(),
                        process ? process : std::make_shared<ReaderProcess>(IsolationLimits{}));
  }

  template <typename Ask>
  std::string refusal(const Ask& ask) const {
    return refusal_in<IsolationError>(dir_.path(), ask);
  }

  TempDir dir_;
};

// The text of any error of both.
template <typename Ask>
std::string text_of(const H5File& file, const Ask& ask) {
  return refusal_of<Error>([&] { ask(file); });
}

std::vector<std::string> lines_of(const std::vector<DatasetEntry>& entries) {
  std::vector<std::string> lines;
  for (const DatasetEntry& entry : entries)
    lines.push_back(entry.path + " " + format_shape(entry.shape) + " " + entry.type_text + entry.problem);
  return lines;
}

TEST_F(StoreIsolation, describes_what_this_process_describes) {
  write();
  const auto here = local();
  const auto there = remote();
  EXPECT_EQ(here->isolation(), nullptr);
  EXPECT_NE(there->isolation(), nullptr);
  EXPECT_EQ(lines_of(there->list_datasets()), lines_of(here->list_datasets()));
  EXPECT_EQ(there->list_one("/converted").type_text, "u8");
  for (const std::string name : {"images", "groups/a/labels", "groups/b/labels", "packed", "converted"}) {
    const DatasetInfo a = here->describe(name);
    const DatasetInfo b = there->describe(name);
    EXPECT_EQ(b.place(), a.place());
    EXPECT_EQ(b.dtype, a.dtype);
    EXPECT_EQ(b.byte_swapped, a.byte_swapped);
    EXPECT_EQ(b.bits.first, a.bits.first);
    EXPECT_EQ(b.bits.count, a.bits.count);
    EXPECT_EQ(b.shape, a.shape);
    EXPECT_EQ(b.max_shape, a.max_shape);
    EXPECT_EQ(b.layout, a.layout);
    EXPECT_EQ(b.chunk_shape, a.chunk_shape);
    EXPECT_EQ(b.index_kind, a.index_kind);
    EXPECT_EQ(b.fill_value, a.fill_value);
    EXPECT_EQ(b.stored_bytes, a.stored_bytes);
    ASSERT_EQ(b.filters.size(), a.filters.size());
    for (std::size_t i = 0; i < a.filters.size(); ++i) EXPECT_EQ(b.filters[i].params, a.filters[i].params);
    const auto values = read_all(*open_chunk_reader(here, a), 1);
    const auto also = read_all(*open_chunk_reader(there, b), 1);
    EXPECT_TRUE(std::ranges::equal(values.span(), also.span())) << name;
  }
  EXPECT_EQ(there->heap_format().reference_bytes(), here->heap_format().reference_bytes());
  EXPECT_EQ(there->contiguous_offset(there->describe("groups/a/labels")),
            here->contiguous_offset(here->describe("groups/a/labels")));
  EXPECT_EQ(expand_path(*there, "groups/*/labels", {}), expand_path(*here, "groups/*/labels", {}));
  EXPECT_EQ(read_text_list(*there, "names", {}), read_text_list(*here, "names", {}));
  EXPECT_TRUE(there->has_filter(1));
  EXPECT_FALSE(there->has_filter(31'999));
}

TEST_F(StoreIsolation, reads_through_libhdf5_in_the_other_process) {
  write();
  const auto file = remote();
  const auto reader = open_chunk_reader(file, file->describe("converted"));
  EXPECT_FALSE(reader->direct());
  const ByteBuffer values = read_all(*reader, 2);
  const std::vector<std::byte> written = patterned_bytes(32);
  EXPECT_TRUE(std::ranges::equal(values.span(), written));
  std::vector<std::byte> row(2 * 12);
  file->read_rows(file->describe("images"), 3, 2, row);
  std::vector<std::byte> here(2 * 12);
  local()->read_rows(local()->describe("images"), 3, 2, here);
  EXPECT_EQ(row, here);
}

TEST_F(StoreIsolation, delivers_the_same_batches_and_takes_the_same_states) {
  write();
  const auto loader_of = [&](Isolation isolation, const std::string& data) {
    return DataLoader(Dataset::open({.files = {path()},
                                     .data = data,
                                     .target = data == "images" ? "groups/a/labels" : "",
                                     .input_layout = InputLayout::none,
                                     .isolation = isolation}),
                      {.batch_size = 4, .shuffle = true, .num_workers = 1});
  };
  for (const std::string data : {"images", "converted"}) {
    auto here = loader_of(Isolation::none, data);
    auto there = loader_of(Isolation::process, data);
    const Delivery first = delivery_of(*here.next());
    EXPECT_EQ(delivery_of(*there.next()), first);
    there.restore(here.state());
    while (const auto batch = here.next()) EXPECT_EQ(delivery_of(*there.next()), delivery_of(*batch));
  }
}

TEST_F(StoreIsolation, refuses_limits_that_cannot_work) {
  write();
  const auto refused = [&](DatasetOptions options) {
    options.files = {path()};
    return refusal_of<OptionError>([&] { Dataset::open(options); });
  };
  EXPECT_EQ(refused({.isolation_timeout = std::chrono::milliseconds(0)}),
            "isolation_timeout must be above 0; got 0 ms");
  EXPECT_EQ(refused({.isolation_memory_bytes = 1000}),
            "isolation_memory_bytes must be 0 or at least 268435456; got 1000");
}

TEST_F(StoreIsolation, refuses_in_the_words_of_this_process) {
  write();
  const auto here = local();
  const auto there = remote();
  const PathOption target{.name = "target"};
  const auto same = [&](const auto& ask) { EXPECT_EQ(text_of(*there, ask), text_of(*here, ask)); };
  same([](const H5File& file) { file.describe("imgs"); });
  same([](const H5File& file) { file.describe("groups"); });
  same([](const H5File& file) { file.describe("names"); });
  same([&](const H5File& file) { file.describe("lables", target); });
  same([](const H5File& file) { expand_path(file, "nothing/*/x", {}); });
  same([&](const H5File& file) {
    std::vector<std::byte> rows(3 * 4);
    file.read_rows(file.describe("converted"), 7, 3, rows);
  });
  EXPECT_THROW(there->describe("imgs"), DatasetError);
  EXPECT_EQ(refusal_of<FileError>([&] { H5File::open("/no/such.h5", "/no/such.h5", there->isolation()); }),
            "/no/such.h5: no such file; check the path");
}

TEST_F(StoreIsolation, says_options_as_they_are_spelled_here) {
  write();
  spell_options([](std::string_view name) -> std::optional<std::string> { return "--" + std::string(name); });
  const std::string text = text_of(*remote(), [](const H5File& file) { file.describe("imgs"); });
  spell_options(nullptr);
  EXPECT_THAT(text, HasSubstr("Try --data images"));
}

TEST_F(StoreIsolation, refuses_a_damaged_index_as_this_process_does) {
  const auto write_images = [&] {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
    file.write("images", patterned_bytes(72));
  };
  const auto indexed = [](const H5File& file) { build_chunk_index(file, file.describe("images")); };
  write_images();
  const std::uint64_t first =
      build_chunk_index(*local(), local()->describe("images")).locations.at(0).address;
  set_chunk_address(path(), 2, 1, first);
  EXPECT_THROW(indexed(*remote()), DamagedChunkIndex);
  EXPECT_EQ(text_of(*remote(), indexed), text_of(*local(), indexed));
  write_images();
  move_chunk(path(), 2, 2, 400);
  EXPECT_THROW(indexed(*remote()), DamagedChunkIndex);
  EXPECT_EQ(text_of(*remote(), indexed), text_of(*local(), indexed));
}

TEST_F(StoreIsolation, shares_one_process_among_files_and_closes_them_there) {
  write();
  std::filesystem::copy_file(path(), dir_ / "other.h5");
  const auto process = std::make_shared<ReaderProcess>(IsolationLimits{});
  const auto one = remote(process);
  const std::uint64_t generation = process->generation();
  for (int i = 0; i < 50; ++i) {
    const auto other = H5File::open(dir_ / "other.h5", dir_ / "other.h5", process);
    EXPECT_EQ(other->describe("images").shape.front(), 13U);
  }
  EXPECT_EQ(one->describe("converted").shape.front(), 8U);
  EXPECT_EQ(process->generation(), generation);
}

TEST_F(StoreIsolation, says_that_the_process_died_and_how) {
  write();
  const FakeReader fake("crash");
  const std::string message = refusal([&] { remote(FakeReader::process()); });
#if defined(H5FEED_ADDRESS_SANITIZER) || defined(H5FEED_THREAD_SANITIZER)
  EXPECT_THAT(message, HasSubstr(", ended with exit code ")) << "the sanitizer ends a process that crashes";
#else
  EXPECT_EQ(
      message,
      "train.h5: libhdf5 crashed over it, in a process of its own (SIGSEGV); the file is damaged or made to "
      "do harm, restore it from a good copy");
#endif
}

TEST_F(StoreIsolation, says_that_the_process_ended) {
  write();
  const FakeReader fake("exit");
  EXPECT_EQ(
      refusal([&] { remote(FakeReader::process()); }),
      "train.h5: h5feed-reader, which reads it, ended with exit code 3 and no answer; install it again if it "
      "does so with every file, else restore this one from a good copy");
}

TEST_F(StoreIsolation, ends_a_process_that_closes_the_connection_and_stays) {
  write();
  const FakeReader fake("close");
  EXPECT_THAT(refusal([&] { remote(FakeReader::process()); }), HasSubstr("(SIGKILL)"));
}

TEST_F(StoreIsolation, ends_a_process_that_does_not_answer_in_time) {
  write();
  const FakeReader fake("hang");
  EXPECT_EQ(
      refusal([&] { remote(FakeReader::process(std::chrono::milliseconds(50))); }),
      "train.h5: libhdf5 took more than 0.05 s over it and was ended; restore the file from a good copy, "
      "or raise isolation_timeout if it is only large");
  spell_options([](std::string_view) -> std::optional<std::string> { return std::nullopt; });
  const std::string in_program = refusal([&] { remote(FakeReader::process(std::chrono::milliseconds(50))); });
  spell_options(nullptr);
  EXPECT_THAT(in_program, ::testing::EndsWith("and was ended; restore the file from a good copy"));
}

TEST_F(StoreIsolation, an_interrupt_check_ends_opening_a_file_over_which_the_process_hangs) {
  write();
  const DatasetOptions options = {.files = {path()}, .data = "images", .isolation = Isolation::process};
  {
    const FakeReader fake("hang");
    ::setenv("H5FEED_READER", H5FEED_FAKE_READER_PROGRAM, 1);
    const InterruptCheck check([] { throw std::domain_error("the user wants to stop"); });
    EXPECT_THROW(Dataset::open(options), std::domain_error);
    ::unsetenv("H5FEED_READER");
  }
  EXPECT_EQ(Dataset::open(options).size(), 13);
}

TEST_F(StoreIsolation, closing_a_loader_ends_what_its_worker_waits_for) {
  write();
  const Dataset data = Dataset::open({.files = {path()},
                                      .data = "converted",
                                      .input_layout = InputLayout::none,
                                      .isolation = Isolation::process,
                                      .isolation_timeout = std::chrono::hours(1)});
  pid_t reader = 0;
  std::ifstream("/proc/thread-self/children") >> reader;
  ASSERT_GT(reader, 0);
  ::kill(reader, SIGSTOP);
  DataLoader loader(data, {.batch_size = 4, .num_workers = 1});
  EXPECT_FALSE(loader.wait_ready(std::chrono::milliseconds(100)));
}

TEST_F(StoreIsolation, refuses_answers_that_are_none) {
  write();
  {
    const FakeReader fake("outcome");
    EXPECT_EQ(refusal([&] { remote(FakeReader::process()); }),
              "train.h5: the process that read it answered with a number that stands for nothing, and was "
              "ended; the file is damaged or made to do harm, restore it from a good copy");
  }
  {
    const FakeReader fake("endless");
    EXPECT_THAT(refusal([&] { remote(FakeReader::process()); }), HasSubstr("a reply of more than 2 GiB"));
  }
  const FakeReader fake("short");
  const auto file = remote(FakeReader::process());
  EXPECT_THAT(refusal([&] { file->describe("images"); }), HasSubstr("answered with an end before its time"));
  std::vector<std::byte> row(12);
  const DatasetInfo info = local()->describe("images");
  EXPECT_THAT(refusal([&] { file->read_rows(info, 0, 1, row); }), HasSubstr("a result of another size"));
}

TEST_F(StoreIsolation, survives_answers_of_random_bytes) {
  write();
  const FakeReader fake("noise");
  const auto file = remote(FakeReader::process());
  const DatasetInfo images = local()->describe("images");
  for (int i = 0; i < 20; ++i) {
    // Each is refused, or is an answer that may be.
    refusal([&] { file->describe("images"); });
    refusal([&] { file->list_datasets(); });
    refusal_of<FileError>([&] { build_chunk_index(*file, images); });
    refusal([&] { file->heap_format(); });
  }
}

TEST_F(StoreIsolation, starts_again_after_the_process_died_over_another_file) {
  write();
  const auto process = std::make_shared<ReaderProcess>(IsolationLimits{});
  const auto file = remote(process);
  const std::uint64_t generation = process->generation();
  EXPECT_THROW(process->refuse("other.h5", "nothing"), IsolationError);
  EXPECT_EQ(file->describe("images").shape.front(), 13U);
  EXPECT_NE(process->generation(), generation);
}

#if !defined(H5FEED_ADDRESS_SANITIZER) && !defined(H5FEED_THREAD_SANITIZER)  // They need terabytes
TEST_F(StoreIsolation, says_that_the_process_needs_more_memory_than_it_may_have) {
  const Hid text(H5Tcopy(H5T_C_S1));
  require(H5Tset_size(text.get(), std::size_t{200} << 20), "H5Tset_size");
  {
    H5TestFile file(path());
    file.create({.path = "names", .file_type = text.get(), .shape = {1}});
  }
  const auto process =
      std::make_shared<ReaderProcess>(IsolationLimits{.memory_bytes = std::uint64_t{256} << 20});
  EXPECT_EQ(refusal([&] { read_text_list(*remote(process), "names", {}); }),
            "train.h5: libhdf5 needs more memory for it than isolation_memory_bytes; restore the file from a "
            "good copy, or raise the limit if it is only large");
}
#endif

TEST_F(StoreIsolation, says_that_the_program_is_missing) {
  write();
  const auto process = std::make_shared<ReaderProcess>(IsolationLimits{.program = "/no/such/program"});
  EXPECT_EQ(refusal_of<FileError>([&] { remote(process); }),
            "isolation = process needs /no/such/program, which cannot be started: No such file or directory; "
            "install it with h5feed");
  ::setenv("H5FEED_READER", "/no/such/reader", 1);
  EXPECT_EQ(refusal_of<FileError>([&] { remote(); }),
            "isolation = process needs the program h5feed-reader, which is not there (looked for "
            "/no/such/reader); install it with h5feed, or set H5FEED_READER to its path");
  ::unsetenv("H5FEED_READER");
}

TEST_F(StoreIsolation, gives_a_forked_process_a_reader_of_its_own) {
  write();
  const auto file = remote();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool read = text_of(*file, [](const H5File& f) { f.describe("images"); }) == "accepted";
    ::_exit(read ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(file->describe("images").shape.front(), 13U) << "that of this process still runs";
}

}  // namespace
}  // namespace h5feed::test
