// SPDX-License-Identifier: Apache-2.0
// h5feed pack: labels in CSV files, and which files a list or folder of images takes.
#include "tools/pack/list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kPixel = "P6\n1 1\n255\nrgb";

void write_list_text(const std::filesystem::path& path, const std::string& text) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string file_text(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = file_bytes(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Lists one image per label, in lines that have only path and label.
cli::ImageSets sets_of(const std::vector<std::string>& labels) {
  const TempDir dir;
  std::string text;
  for (const std::string& label : labels) text += "a.ppm," + label + "\n";
  write_list_text(dir / "list.csv", text);
  return cli::list_csv({(dir / "list.csv").string()});
}

std::vector<std::int64_t> labels_in(const cli::ImageSets& sets) {
  std::vector<std::int64_t> labels;
  for (const cli::ImageItem& item : sets.sets.at(0).items) labels.push_back(item.label);
  return labels;
}

std::string refusal(const std::vector<std::string>& labels) {
  try {
    sets_of(labels);
  } catch (const FileError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PackList, keeps_integers_negative_ones_too) {
  const cli::ImageSets sets = sets_of({"-1", "0", "10", " 2 ", "+3", "9223372036854775807"});
  EXPECT_THAT(labels_in(sets), ElementsAre(-1, 0, 10, 2, 3, INT64_MAX));
  EXPECT_THAT(sets.class_names, IsEmpty());
  EXPECT_THAT(sets.label_values, IsEmpty());
}

TEST(PackList, keeps_numbers_with_fractions) {
  const cli::ImageSets sets = sets_of({"1.5", "-2", "1e3", "1.5"});
  EXPECT_THAT(sets.label_values, ElementsAre(1.5, -2, 1000, 1.5));
  EXPECT_THAT(labels_in(sets), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(sets.class_names, IsEmpty());
}

TEST(PackList, numbers_names_in_alphabetical_order_without_spaces_around_them) {
  const cli::ImageSets sets = sets_of({"dog", " cat", "dog\t", "nan"});
  EXPECT_THAT(sets.class_names, ElementsAre("cat", "dog", "nan"));
  EXPECT_THAT(labels_in(sets), ElementsAre(1, 0, 1, 2));
}

TEST(PackList, refuses_numbers_among_names_and_numbers_that_do_not_fit) {
  EXPECT_THAT(refusal({"1", "2", "dog"}),
              EndsWith("list.csv: line 1 has the label \"1\", a number, and line 3 has \"dog\", which is no "
                       "number; give numbers in all lines, or names in all"));
  EXPECT_THAT(refusal({"species", "2"}),
              EndsWith("line 2 has the label \"2\", a number, and line 1 has "
                       "\"species\", which is no number; give numbers in all lines, "
                       "or names in all; if it names the columns, call them path "
                       "and label"));
  EXPECT_THAT(refusal({"1", "99999999999999999999"}),
              EndsWith("line 2 has the label \"99999999999999999999\", which does not fit an integer of 64 "
                       "bits; give smaller numbers"));
  EXPECT_THAT(refusal({"0.5", "9007199254740993"}), HasSubstr("line 2 has the label \"9007199254740993\""));
  EXPECT_THAT(refusal({"1", std::string(1000, 'x')}), HasSubstr("\"" + std::string(60, 'x') + "...\""));
  EXPECT_THAT(refusal({"1e999"}), HasSubstr("line 1 has the label \"1e999\""));
  EXPECT_THAT(refusal({"1", "  "}), EndsWith("line 2 has no path and label; give lines of path,label"));
  EXPECT_THAT(refusal({"\"two\nlines\"", "7"}), HasSubstr("line 3 has the label \"7\""));
}

TEST(PackList, names_both_lists_that_disagree) {
  const TempDir dir;
  write_list_text(dir / "a.csv", "path,label\nx.ppm,dog\n");
  write_list_text(dir / "b.csv", "x.ppm,4\n");
  const ProgramResult result = run_program(
      dir.path(), {"pack", "p.h5", "--csv", "train=a.csv", "--csv", "test=b.csv", "--store", "bytes"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "b.csv: line 1 has the label \"4\", a number, and a.csv: line 2 has \"dog\", which is no number; "
            "give numbers in all lines, or names in all\n");
}

TEST(PackList, skips_a_byte_order_mark) {
  const TempDir dir;
  write_list_text(dir / "list.csv", "\xEF\xBB\xBFpath, label\r\na.ppm,3\r\nb.ppm,0\r\n");
  const cli::ImageSets sets = cli::list_csv({(dir / "list.csv").string()});
  EXPECT_THAT(labels_in(sets), ElementsAre(3, 0));
  EXPECT_EQ(sets.sets[0].items[0].file.filename(), "a.ppm");
}

TEST(PackList, stores_numbers_as_they_are) {
  const TempDir dir;
  for (const std::string name : {"a", "b", "c", "d"}) write_list_text(dir / (name + ".ppm"), kPixel);
  const auto pack = [&](const std::string& list) {
    write_list_text(dir / "list.csv", list);
    const ProgramResult result =
        run_program(dir.path(), {"pack", "p.h5", "--csv", "list.csv", "--store", "bytes", "--force"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_through_libhdf5(dir / "p.h5", "labels");
  };
  const std::vector<std::byte> whole = pack("path,label\na.ppm,-1\nb.ppm,0\nc.ppm,10\nd.ppm,2\n");
  EXPECT_EQ(H5File::open(dir / "p.h5")->describe("labels").shape_text(), "4 i64");
  std::vector<std::int64_t> labels(4);
  ASSERT_EQ(whole.size(), 4 * sizeof(std::int64_t));
  std::memcpy(labels.data(), whole.data(), whole.size());
  EXPECT_THAT(labels, ElementsAre(-1, 0, 10, 2));
  const std::vector<std::byte> parts = pack("a.ppm,1.5\nb.ppm,-2\n");
  EXPECT_EQ(H5File::open(dir / "p.h5")->describe("labels").shape_text(), "2 f64");
  std::vector<double> values(2);
  ASSERT_EQ(parts.size(), 2 * sizeof(double));
  std::memcpy(values.data(), parts.data(), parts.size());
  EXPECT_THAT(values, ElementsAre(1.5, -2));
}

TEST(PackList, does_not_write_over_its_own_input) {
  const TempDir dir;
  write_list_text(dir / "photos/a/x.ppm", kPixel);
  write_list_text(dir / "list.csv", "photos/a/x.ppm,0\n");
  std::filesystem::create_symlink("photos/a/x.ppm", dir / "link.h5");
  const auto refused = [&](const std::string& out, const std::string& option, const std::string& source) {
    const ProgramResult result =
        run_program(dir.path(), {"pack", out, option, source, "--store", "bytes", "--force"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, out + " is both input and output; choose another name for the output\n");
  };
  refused("photos/a/x.ppm", "--images", "train=photos");
  refused("link.h5", "--images", "photos");
  refused("photos/a/x.ppm", "--csv", "list.csv");
  refused("./list.csv", "--csv", "train=list.csv");
  EXPECT_EQ(file_text(dir / "photos/a/x.ppm"), kPixel);
  EXPECT_EQ(file_text(dir / "list.csv"), "photos/a/x.ppm,0\n");
}

TEST(PackList, takes_links_that_lead_nowhere_and_special_files_for_bad_images) {
  const TempDir dir;
  write_list_text(dir / "photos/a/x.ppm", kPixel);
  write_list_text(dir / "photos/b/y.ppm", kPixel);
  write_list_text(dir / "photos/b/notes.txt", "no image");
  const std::vector<std::string> good = {"pack", "good.h5", "--images", "photos", "--store", "bytes"};
  ASSERT_EQ(run_program(dir.path(), good).exit_code, 0);
  const auto expect_bad = [&](const std::string& name, const std::string& problem) {
    std::vector<std::string> arguments = {"pack", "p.h5", "--images", "photos", "--store", "bytes"};
    const ProgramResult failed = run_program(dir.path(), arguments);
    EXPECT_EQ(failed.exit_code, 1);
    EXPECT_THAT(failed.err,
                HasSubstr("photos/" + name + " " + problem +
                          "; repair or remove it, or leave bad images out with --on-error skip\n"));
    arguments.insert(arguments.end(), {"--on-error", "skip", "--json", "--force"});
    const ProgramResult skipped = run_program(dir.path(), arguments);
    ASSERT_EQ(skipped.exit_code, 0) << skipped.err;
    const auto json = nlohmann::json::parse(skipped.out);
    ASSERT_EQ(json["skipped"].size(), 1U);
    EXPECT_EQ(json["skipped"][0]["file"], "photos/" + name);
    EXPECT_EQ(json["skipped"][0]["reason"], problem);
    EXPECT_EQ(read_through_libhdf5(dir / "p.h5", "labels"), read_through_libhdf5(dir / "good.h5", "labels"));
    std::filesystem::remove(dir / "p.h5");
    std::filesystem::remove(dir / "photos" / name);
  };
  const auto link = [&](const std::string& target, const std::string& name) {
    std::filesystem::create_symlink(target, dir / "photos" / name);
  };
  link("not-fetched", "a/w.jpg");
  expect_bad("a/w.jpg", "cannot be opened (No such file or directory)");
  link("self.png", "a/self.png");
  expect_bad("a/self.png", "cannot be opened (Too many levels of symbolic links)");
  link("/dev/zero", "b/zero.png");
  expect_bad("b/zero.png", "is not a regular file");
  ASSERT_EQ(::mkfifo((dir / "photos/b/pipe.jpg").c_str(), 0600), 0);
  expect_bad("b/pipe.jpg", "is not a regular file");
  link("not-fetched", "aa");
  expect_bad("aa", "cannot be opened (No such file or directory)");
}

}  // namespace
}  // namespace h5feed::test
