// SPDX-License-Identifier: Apache-2.0
// How the program reads option texts and writes tables and progress.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "support/refusal.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/h5py_line.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OptionText, reads_times_in_seconds_unless_a_unit_is_given) {
  using std::chrono::milliseconds;
  EXPECT_EQ(parse_duration("--t", "3"), milliseconds(3000));
  EXPECT_EQ(parse_duration("--t", "0.25s"), milliseconds(250));
  EXPECT_EQ(parse_duration("--t", "500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("--t", "2m"), milliseconds(120000));
  for (const char* text : {"", "s", "-1s", "0", "3h", "1e9", "nan", "3 s x", "90000s"}) {
    EXPECT_THROW(parse_duration("--t", text), OptionError) << text;
  }
}

TEST(OptionText, reads_shapes_whose_elements_can_be_counted) {
  EXPECT_THAT(parse_shape("--shape", "3,224,224"), ElementsAre(3, 224, 224));
  EXPECT_THAT(parse_shape("--shape", "28x28"), ElementsAre(28, 28));
  for (const char* text : {"", "3,", "0", "-1", "3;4", "4294967296,4294967296"}) {
    EXPECT_THROW(parse_shape("--shape", text), OptionError) << text;
  }
}

TEST(OptionText, reads_chunks_as_samples_auto_or_none) {
  EXPECT_EQ(parse_chunk("--chunk", "64", true), std::uint64_t{64});
  EXPECT_EQ(parse_chunk("--chunk", "none", false), std::uint64_t{0});
  EXPECT_EQ(parse_chunk("--chunk", "auto", true), std::nullopt);
  EXPECT_THROW(parse_chunk("--chunk", "auto", false), OptionError);
  EXPECT_THROW(parse_chunk("--chunk", "0", true), OptionError);
}

TEST(OptionText, calls_large_numbers_too_large_and_not_misformed) {
  using test::refusal_of;
  EXPECT_EQ(refusal_of<OptionError>([] { parse_size("--memory", "99999999999GiB"); }),
            "--memory \"99999999999GiB\" is too large; give at most 4 EiB (2^62 bytes)");
  EXPECT_EQ(parse_size("--memory", "4EiB"), std::uint64_t{1} << 62U);
  EXPECT_EQ(parse_size("--memory", "2PB"), 2'000'000'000'000'000U);
  for (const char* text : {"99999999999.5 GiB", "9223372036854775808", "18446744073709551616",
                           "99999999999999999999999T", "16EiB"})
    EXPECT_THAT(refusal_of<OptionError>([&] { parse_size("--memory", text); }), HasSubstr("is too large"));
  for (const char* text : {"99999999999GiG", "-99999999999GiB", "1.2.3GiB", "GiB", "", "1e99"})
    EXPECT_THAT(refusal_of<OptionError>([&] { parse_size("--memory", text); }),
                HasSubstr("give a size such as"));
  EXPECT_EQ(refusal_of<OptionError>([] { parse_number("--seed", "18446744073709551616"); }),
            "--seed \"18446744073709551616\" is too large; give a smaller number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_list("--num-workers", "1,9223372036854775808"); }),
            "--num-workers \"9223372036854775808\" is too large; give a smaller number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_chunk("--chunk", "99999999999999999999", true); }),
            "--chunk \"99999999999999999999\" is too large; give a smaller number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_integer("--batch-size", "9223372036854775808"); }),
            "--batch-size \"9223372036854775808\" is too large; give a smaller number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_integer("--low", "-9223372036854775809"); }),
            "--low \"-9223372036854775809\" is too small; give a larger number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_shape("--shape", "4294967296,4294967296"); }),
            "--shape \"4294967296,4294967296\" is too large; its product must be below 2^63");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_duration("--time-budget", "90000s"); }),
            "--time-budget \"90000s\" is too long; give at most a day (1440m)");
}

TEST(OptionText, reads_words_in_any_case) {
  EXPECT_EQ(parse_layout("--input-layout", "nhwc"), InputLayout::nhwc);
  EXPECT_EQ(parse_layout("--input-layout", "NCHW"), InputLayout::nchw);
  EXPECT_EQ(parse_layout("--input-layout", "Automatic"), InputLayout::automatic);
  EXPECT_THROW(parse_layout("--input-layout", "CHWN"), OptionError);
  EXPECT_THROW(parse_layout("--input-layout", "NCH"), OptionError);
  EXPECT_THROW(parse_layout("--input-layout", ""), OptionError);
  EXPECT_EQ(parse_cache_policy("--cache-policy", "Clairvoyant"), CachePolicy::clairvoyant);
  EXPECT_THROW(parse_cache_policy("--cache-policy", "belady"), OptionError);
  EXPECT_EQ(parse_on_error("--on-error", "Skip"), OnError::skip);
  EXPECT_THROW(parse_on_error("--on-error", "ignore"), OptionError);
}

TEST(Table, aligns_text_of_any_script_and_numbers_to_the_right) {
  Table table({{"name"}, {"count", true}});
  table.add_row({"3×4", "7"});
  table.add_row({"longer", "1,000"});
  EXPECT_EQ(table.to_text(),
            "name    count\n"
            "3×4         7\n"
            "longer  1,000\n");
}

TEST(Table, quotes_what_csv_and_markdown_would_misread) {
  Table table({{"a"}, {"b", true}});
  table.add_row({"x,\"y\"", "p|q"});
  EXPECT_EQ(table.to_csv(), "a,b\n\"x,\"\"y\"\"\",p|q\n");
  EXPECT_EQ(table.to_markdown(), "| a | b |\n|---|---:|\n| x,\"y\" | p\\|q |\n");
}

TEST(Table, has_numbers_in_csv_that_other_programs_read) {
  Table table({{"text"}, {"number", true}});
  for (const char* const cell :
       {"94,964", "1,234,567", "7", "1.5", "12 MiB", "1,2", "1234,567", ",000", "1,000 %", "1,000,", "-"})
    table.add_row({"1,000", cell});
  EXPECT_EQ(table.to_csv(),
            "text,number\n\"1,000\",94964\n\"1,000\",1234567\n\"1,000\",7\n\"1,000\",1.5\n\"1,000\",12 MiB\n"
            "\"1,000\",\"1,2\"\n\"1,000\",\"1234,567\"\n\"1,000\",\",000\"\n\"1,000\",\"1,000 %\"\n"
            "\"1,000\",\"1,000,\"\n\"1,000\",\n");
}

TEST(Table, control_characters_of_a_file_do_not_reach_the_terminal) {
  EXPECT_EQ(printable("/a\x1b[31m\n×"), "/a?[31m?×");
}

TEST(ProgressLine, shows_share_rate_and_time_left) {
  EXPECT_EQ(progress_line("pack", ProgressUnit::bytes, 100.0 * kMiB, 400.0 * kMiB, 10, 60),
            "pack [######....................]  25 %  10 MiB/s  30 s left");
  EXPECT_EQ(progress_line("bench", ProgressUnit::seconds, 90, 120, 90, 50),
            "bench [##################.......]  75 %  30 s left");
}

TEST(ProgressLine, fits_narrow_terminals_and_has_no_figure_before_the_start) {
  EXPECT_EQ(progress_line("pack", ProgressUnit::bytes, 0, 100, 0, 20), "pack [.......]   0 %");
  EXPECT_LE(display_width(progress_line("a long label", ProgressUnit::bytes, 1, 100, 1, 10)), 10U);
}

TEST(ShellWord, is_one_word_whatever_it_holds) {
  EXPECT_EQ(shell_word("/data/train-1.h5"), "/data/train-1.h5");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("my train.h5"), "'my train.h5'");
  EXPECT_EQ(shell_word("$(rm x);é"), "'$(rm x);é'");
  EXPECT_EQ(shell_word("a'; rm x"), R"('a'\''; rm x')");
  EXPECT_EQ(shell_word("a\x1b[2J\\"), "$'a\\x1b[2J\\\\'");
  EXPECT_EQ(command_line({"sh", "-c", "exit 3"}), "sh -c 'exit 3'");
}

TEST(PythonString, ends_where_it_ends) {
  EXPECT_EQ(python_string("/images"), "\"/images\"");
  EXPECT_EQ(python_string("a\"+b\\\n"), "\"a\\\"+b\\\\?\"");
}

TEST(Printable, replaces_control_characters_and_bytes_that_are_not_utf8) {
  EXPECT_EQ(printable("caf\xC3\xA9 3×4 \xF0\x9F\x99\x82"), "caf\xC3\xA9 3×4 \xF0\x9F\x99\x82");
  EXPECT_EQ(printable("a\x1B[2J\n\x7F"), "a?[2J??");
  EXPECT_EQ(printable("gnp.\u202Eexe\u2066\u061C"), "gnp.?exe??");
  EXPECT_EQ(printable("\xE9t\xC3"), "?t?");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m \xC0\xAF \xED\xA0\x80"),
            "?1m ?? ???");
}

TEST(Table, shows_json_that_does_not_control_a_terminal) {
  EXPECT_EQ(printable_json("{\n  \"caf\xC3\xA9 \\u001b\": \"a\x7F\xC2\x9B\u202Eb\u2066\u061C\"}\n"),
            "{\n  \"caf\xC3\xA9 \\u001b\": \"a\\u007f\\u009b\\u202eb\\u2066\\u061c\"}\n");
}

TEST(Say, writes_one_line_that_does_not_control_a_terminal) {
  ::testing::internal::CaptureStderr();
  cli::say("u.h5:/a\x1b[31m\nb\u009B\u202E: caf\u00E9");
  cli::say_lines("two\x1b\nlines");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "u.h5:/a?[31m?b??: caf\u00E9\ntwo?\nlines\n");
}

TEST(Print, writes_lines_that_do_not_control_a_terminal) {
  ::testing::internal::CaptureStdout();
  cli::print("a\x1b[31m\n\tb\r\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "a?[31m\n\tb?\n");
}

}  // namespace
}  // namespace h5feed::test
