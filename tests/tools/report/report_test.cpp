// SPDX-License-Identifier: Apache-2.0
// Pages of h5feed report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "h5feed/error.hpp"
#include "support/case_step.hpp"
#include "support/files/file_text.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/report_inputs.hpp"
#include "support/programs/run_program.hpp"
#include "support/refusal.hpp"
#include "tools/report/html.hpp"
#include "tools/report/page.hpp"
#include "tools/report/ticks.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Report : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return (dir_ / name).string();
  }
  // The page of files, made in this process.
  static std::string page(const std::vector<std::string>& files) {
    std::vector<cli::Input> inputs;
    for (const std::string& file : files) inputs.push_back(cli::read_input(file));
    cli::label_inputs(inputs);
    return cli::page_of(inputs);
  }
  std::string page_with(const std::string& name, const std::string& text) const {
    return page({write(name, text)});
  }
  ProgramResult run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "report");
    return run_program(dir_.path(), arguments);
  }

  const TempDir dir_;
};

// Every exact value of the tables of a page.
std::multiset<double> values_in(const std::string& page) {
  static const std::regex value("data-v=\"([^\"]*)\"");
  std::multiset<double> values;
  for (std::sregex_iterator it(page.begin(), page.end(), value), end; it != end; ++it)
    values.insert(std::stod((*it)[1]));
  return values;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(Report, has_the_numbers_of_a_result_of_bench) {
  const Json result = bench_result(12345.678901);
  const std::string html = page_with("a.json", result.dump(2));
  const std::multiset<double> values = values_in(html);
  for (const Json& row : result["rows"]) {
    for (const char* const key : {"samples_per_s", "wait_fraction", "cache_hit_rate", "read_amplification",
                                  "cpu_s_per_1k_samples", "peak_rss_bytes"})
      EXPECT_THAT(values, Contains(row[key].get<double>())) << key;
    const double limit = row["samples_per_s"].get<double>() / row["share_of_limit"].get<double>();
    EXPECT_THAT(values, Contains(limit));
  }
  EXPECT_THAT(html, HasSubstr(">4,938 (4,444 … 5,432)</td>"));
  EXPECT_THAT(html, HasSubstr("put into your code: options.num_workers = h5feed::kAuto;"));
  for (const char* const label : {">0</th>", ">1</th>", ">2</th>", ">auto</th>"})
    EXPECT_THAT(html, HasSubstr(label));
}

TEST_F(Report, has_the_numbers_of_a_short_record_of_monitor) {
  const std::string html = page_with("run.jsonl", monitor_lines(20, 2));
  const std::multiset<double> values = values_in(html);
  for (std::size_t i = 0; i < 20; ++i) {
    const double share = static_cast<double>(i % 97) / 97;
    for (const double value : {1 - share, share / 2, share / 4, 1000 * share, 1e6 * share, 1e8 + share})
      EXPECT_THAT(values, Contains(value)) << i;
  }
  EXPECT_THAT(html, Not(HasSubstr("A point is the mean")));
  EXPECT_THAT(html, HasSubstr("starved_gpu: the training waited 25 % of the time (from 1 s to 2 s)"));
  EXPECT_THAT(html, HasSubstr("<li>more workers</li>"));
}

TEST_F(Report, has_the_numbers_of_an_epoch_log) {
  const std::string html =
      page_with("log.jsonl", epoch_line(0, 3.25) + epoch_line(1, 2.5) + epoch_line(2, 2.75));
  const std::multiset<double> values = values_in(html);
  for (const double seconds : {3.25, 2.5, 2.75}) {
    for (const double value : {seconds * 0.5, seconds * 0.125, seconds * 0.375, 4000 / seconds})
      EXPECT_THAT(values, Contains(value)) << seconds;
  }
  EXPECT_THAT(
      html,
      HasSubstr(
          "epoch 2: input-bound: the consumer waited 50.0 % of the time; 75 % of that was for decoding"));
  EXPECT_THAT(html, HasSubstr("<li>a faster filter</li>"));
}

TEST_F(Report, tells_the_loaders_of_one_epoch_log_apart) {
  std::string lines;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const int samples : {900, 100}) {
      Json line = Json::parse(epoch_line(epoch, samples / 100.0));
      line.update({{"loader", 7 + epoch}, {"data", "train.h5:/images"}, {"dataset_samples", samples}});
      lines += line.dump() + '\n';
    }
  }
  const cli::Input input = cli::read_input(write("log.jsonl", lines));
  ASSERT_EQ(input.epochs.size(), 4U);
  EXPECT_EQ(input.epochs[2].loader, "rank 0, train.h5:/images (900 samples)");
  EXPECT_EQ(input.epochs[3].loader, "rank 0, train.h5:/images (100 samples)");
}

TEST_F(Report, counts_an_epoch_once_that_a_loader_published_while_it_ran) {
  std::string lines;
  for (const double seconds : {1.0, 2.0, 3.0}) {
    Json line = Json::parse(epoch_line(0, seconds));
    line.update({{"time", 1.7e9 + seconds}, {"pid", 42}, {"loader", 0}, {"finished", seconds == 3}});
    lines += line.dump() + '\n';
  }
  const cli::Input input = cli::read_input(write("stats.jsonl", lines));
  ASSERT_EQ(input.epochs.size(), 1U);
  EXPECT_EQ(input.epochs[0].seconds, 3);
  EXPECT_TRUE(input.epochs[0].finished);
}

TEST_F(Report, draws_two_inputs_over_each_other_and_says_what_differs) {
  Json other = bench_result(20000);
  other["settings"]["batch_size"] = 512;
  const std::string html = page({write("a.json", bench_result(10000).dump()), write("b.json", other.dump())});
  const std::size_t differs = html.find("What differs"), others = html.find("Other settings (");
  ASSERT_LT(differs, others);
  const std::string section = html.substr(differs, others - differs);
  EXPECT_THAT(section, HasSubstr("<th scope=\"row\">settings.batch_size</th><td>256</td><td>512</td>"));
  EXPECT_THAT(section, Not(HasSubstr("settings.shuffle")));
  EXPECT_THAT(section, Not(HasSubstr("available_bytes")));
  EXPECT_THAT(html,
              HasSubstr("<th scope=\"col\">a.json (samples/s)</th><th scope=\"col\">b.json (samples/s)</th>"
                        "<th scope=\"col\">a.json, limit (samples/s)</th>"));
}

TEST_F(Report, shows_inputs_of_all_kinds_on_one_page) {
  const std::string html =
      page({write("a.json", bench_result(1000).dump(2)), write("run.jsonl", monitor_lines(5, 1)),
            write("log.jsonl", epoch_line(0, 1) + epoch_line(1, 1))});
  for (const char* const heading : {"Measured by bench", "Epochs of the loaders", "Watched by monitor"})
    EXPECT_THAT(html, HasSubstr(heading));
}

TEST_F(Report, shows_processes_sides_and_loaders_that_bench_measured) {
  Json ranks = bench_result(100);
  ranks["rows"] = Json::array({{{"world_size", 1}, {"num_workers", 1}, {"samples_per_s", 111.5}},
                               {{"world_size", 2}, {"num_workers", 1}, {"samples_per_s", 222.5}}});
  EXPECT_THAT(values_in(page_with("ranks.json", ranks.dump())), ElementsAre(111.5, 222.5));
  Json peers = bench_result(100);
  peers["rows"] = Json::array({{{"loader", "pytorch"},
                                {"mode", "tuned"},
                                {"num_workers", 2},
                                {"samples_per_s", 333.5},
                                {"error", nullptr}},
                               {{"loader", "spdl"},
                                {"mode", nullptr},
                                {"num_workers", 2},
                                {"samples_per_s", nullptr},
                                {"error", "no module spdl"}}});
  const std::string html = page_with("peers.json", peers.dump());
  EXPECT_THAT(values_in(html), Contains(333.5));
  EXPECT_THAT(html, AllOf(HasSubstr("pytorch, tuned, 2 workers"), HasSubstr("no module spdl")));
  Json sides = bench_result(100);
  sides.erase("rows");
  sides["sides"] = Json::array({{{"text", "num_workers=1"}, {"samples_per_s", 444.5}},
                                {{"text", "num_workers=2"}, {"samples_per_s", 555.5}}});
  sides["rate"] = {{"ratio", 1.25}, {"low", 1.2}, {"high", 1.3}, {"p", 0.0001}, {"significant", true}};
  sides["pairs"] = 20;
  const std::string both = page_with("sides.json", sides.dump());
  EXPECT_THAT(values_in(both), ElementsAre(444.5, 555.5));
  EXPECT_THAT(both, HasSubstr("25.0 %"));
}

TEST_F(Report, escapes_names_from_hostile_files) {
  const std::string evil =
      "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x01\x1b[31m\u202Egnp.\xff";
  Json result = bench_result(1000);
  result["file"] = evil;
  result["settings"]["data"] = evil;
  result["settings"]["evil" + evil.substr(0, 40)] = 1;
  for (Json& row : result["rows"]) row["swept"] = {{evil.substr(0, 30), evil.substr(0, 50)}};
  result["rows"][0]["page_cache"] = "<b>cold</b>";
  const std::string bench = result.dump(-1, ' ', false, Json::error_handler_t::replace);
  Json line = Json::parse(epoch_line(0, 1));
  line["advice"] = {evil.substr(0, 60)};
  line["bottleneck"] = "<i>";
  const std::string html =
      page({write("a\"><script>alert(3)<.json", bench), write("log'&\u202E.jsonl", line.dump() + '\n')});
  EXPECT_EQ(count_of(html, "<script"), 1U);
  EXPECT_EQ(count_of(html, "</script"), 1U);
  for (const char* const raw : {"<img", "<b>cold", "<i>", "\x01", "\x1b", "\u202E", "\xff", "\"><script"})
    EXPECT_THAT(html, Not(HasSubstr(raw)));
  EXPECT_THAT(html, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)"));
}

TEST_F(Report, allows_nothing_but_its_own_style_and_script) {
  const std::string html = page_with("a.json", bench_result(1000).dump());
  static const std::regex policy(
      "content=\"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; script-src "
      "'sha256-[A-Za-z0-9+/]{43}='; base-uri 'none'; form-action 'none'\"");
  EXPECT_TRUE(std::regex_search(html, policy));
  for (const char* const outside :
       {"http:", "https:", "src=", "href=", "@import", "url(", " style=", "onclick"})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
}

TEST_F(Report, stays_small_and_says_that_points_are_means) {
  const std::string file = write("long.jsonl", monitor_lines(900, 4));
  const std::string more = write("longer.jsonl", monitor_lines(1200, 4));
  const std::string html = page({file, more});
  EXPECT_LE(html.size(), cli::kMostPageBytes);
  EXPECT_GT(html.size(), cli::kMostPageBytes / 3);
  EXPECT_THAT(html, HasSubstr("A point is the mean of the readings of "));
  std::string epochs;
  for (int epoch = 0; epoch < 3000; ++epoch) epochs += epoch_line(epoch, 1.5);
  const std::string log = page_with("log.jsonl", epochs);
  EXPECT_LE(log.size(), cli::kMostPageBytes);
  EXPECT_THAT(log, HasSubstr("Means of 75 epochs."));
  EXPECT_THAT(log, HasSubstr(">2925–2999</th>"));
}

TEST_F(Report, tells_a_killed_run_and_foreign_lines) {
  std::string lines = monitor_lines(12, 1);
  lines.resize(lines.rfind("{\"summary\""));
  const std::string killed = page_with("killed.jsonl", lines + "{\"time\": 17000");
  EXPECT_THAT(killed, HasSubstr("Its last line is cut off"));
  EXPECT_THAT(killed, HasSubstr("no last line with a verdict"));
  EXPECT_THAT(killed, HasSubstr("The input holds no verdict."));
  const std::string mixed =
      page_with("mixed.jsonl", monitor_lines(12, 1) + epoch_line(0, 1) + "not json\n[1]\n");
  EXPECT_THAT(mixed, HasSubstr("1 line of a loader between those of monitor"));
  EXPECT_THAT(mixed, HasSubstr("1 line is no JSON and left out."));
  EXPECT_THAT(mixed, HasSubstr("1 line is of neither monitor nor a loader"));
}

TEST_F(Report, refuses_what_is_no_input) {
  const auto refusal = [&](const std::string& text) {
    const std::string file = write("x.json", text);
    return refusal_in<FileError>(dir_.path(), [&] { page({file}); });
  };
  const std::string give = "; give a file of bench --export-json, of monitor -o, or of a loader's epoch_log";
  EXPECT_EQ(refusal(""), "x.json: is empty" + give);
  EXPECT_EQ(refusal("\x89HDF\r\n\x1a\n"), "x.json: is an HDF5 file" + give);
  EXPECT_EQ(refusal("{\n  \"rows\": [\n"), "x.json: is no whole result of bench" + give);
  EXPECT_EQ(refusal("{\n\"a\": 1\n}\n"), "x.json: is no whole result of bench" + give);
  for (const char* const text :
       {"hello\n", "{\"a\": 1}\n", "[]\n", "{\"rows\": []}\n", "\n\n", "{\"time\": 1}\n"})
    EXPECT_EQ(refusal(text),
              "x.json: has no line of monitor or of a loader, and is no result of bench" + give)
        << text;
}

// Each member of each kind of input, replaced by values of every type.
TEST_F(Report, survives_members_of_any_type) {
  const std::vector<Json> others = {nullptr, 1e300, -1, "text", Json::array({nullptr, -2}), Json({{"a", 1}})};
  const auto try_all = [&](const Json& input, const auto& as_text) {
    const Json flat = input.flatten();
    std::set<std::string> places;
    for (const auto& [place, value] : flat.items()) {
      for (std::string parent = place; !parent.empty(); parent.resize(parent.rfind('/')))
        places.insert(parent);
    }
    std::size_t pages = 0, n = 0;
    for (const std::string& place : places) {
      for (const Json& other : others) {
        if (n++ % kCaseStep != 0) continue;
        Json changed = input;
        changed[Json::json_pointer(place)] = other;
        const std::string file = write("x.json", as_text(changed));
        try {
          EXPECT_LE(page({file}).size(), cli::kMostPageBytes);
          ++pages;
        } catch (const FileError& refused) {
          EXPECT_THAT(refused.what(), HasSubstr("x.json: "));
        }
      }
    }
    EXPECT_GT(pages, 0U);
  };
  Json result = bench_result(1000);
  for (const std::size_t row : {2U, 1U}) result["rows"].erase(row);
  result["rows"][0]["swept"] = {{"echo", 2}};
  result["target_rate"] = {{"samples_per_s", 10.0}, {"row", 0}};
  try_all(result, [](const Json& json) { return json.dump(); });
  const std::string lines = monitor_lines(3, 1);
  const auto last = lines.rfind("{\"summary\"");
  try_all(Json::parse(lines.substr(last)),
          [&](const Json& json) { return lines.substr(0, last) + json.dump() + '\n'; });
  try_all(Json::parse(epoch_line(0, 1)),
          [](const Json& json) { return epoch_line(1, 2) + json.dump() + '\n'; });
}

TEST_F(Report, is_the_same_for_the_same_inputs) {
  const std::string file = write("a.json", bench_result(1000).dump());
  EXPECT_EQ(page({file}), page({file}));
}

TEST_F(Report, writes_its_page_whole_and_replaces_only_pages) {
  write("a.json", bench_result(1000).dump(2));
  write("b.json", bench_result(1100).dump(2));
  const ProgramResult made = run({"a.json", "b.json", "-o", "page.html"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(StartsWith("wrote page.html ("), HasSubstr(" from 2 inputs")));
  const std::string first = text_of(dir_ / "page.html");
  EXPECT_THAT(first, StartsWith("<!doctype html>"));
  const ProgramResult again = run({"a.json", "-o", "page.html", "--json"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  const Json summary = Json::parse(again.out);
  EXPECT_EQ(summary["page"], "page.html");
  EXPECT_EQ(summary["bytes"], text_of(dir_ / "page.html").size());
  EXPECT_EQ(summary["inputs"][0]["kind"], "bench");
  EXPECT_NE(text_of(dir_ / "page.html"), first);
  EXPECT_THAT(names_in(dir_.path()), ElementsAre("a.json", "b.json", "page.html"));
  // Half an input: the page stays.
  write("b.json", "{\n");
  EXPECT_EQ(run({"b.json", "-o", "page.html"}).exit_code, 1);
  EXPECT_EQ(text_of(dir_ / "page.html").size(), summary["bytes"]);
}

TEST_F(Report, refuses_places_and_inputs_with_one_line) {
  write("a.json", bench_result(1000).dump(2));
  write("data.h5", "\x89HDF");
  fs::create_symlink("a.json", dir_ / "link.json");
  const auto refusal = [&](const std::vector<std::string>& arguments, int exit_code) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(refusal({"a.json"}, 2), "--output is required; try h5feed report --help\n");
  EXPECT_EQ(refusal({"a.json", "-o", "a.json"}, 2),
            "a.json is both input and output; choose another file for -o\n");
  EXPECT_EQ(refusal({"a.json", "-o", "link.json"}, 2),
            "link.json is both input and output; choose another file for -o\n");
  EXPECT_EQ(refusal({"a.json", "-o", "data.h5"}, 2),
            "data.h5 is no HTML page and is not replaced; choose another file for -o, or remove it\n");
  EXPECT_EQ(refusal({"a.json", "link.json", "-o", "p.html"}, 2),
            "link.json is given twice; give each input once\n");
  EXPECT_EQ(refusal({"1", "2", "3", "4", "5", "6", "7", "8", "9", "-o", "p.html"}, 2),
            "9 inputs are too many for one page; give at most 8\n");
  EXPECT_THAT(refusal({"none.json", "-o", "p.html"}, 1), StartsWith("none.json: is not there; give "));
  EXPECT_THAT(refusal({".", "-o", "p.html"}, 1), StartsWith(".: is not a file; give "));
  EXPECT_THAT(names_in(dir_.path()), ElementsAre("a.json", "data.h5", "link.json"));
}

TEST(ReportNumbers, are_written_for_people) {
  EXPECT_EQ(cli::shown_number(0), "0");
  EXPECT_EQ(cli::shown_number(8684.6), "8,685");
  EXPECT_EQ(cli::shown_number(12.3456), "12.3");
  EXPECT_EQ(cli::shown_number(0.01234), "0.0123");
  EXPECT_EQ(cli::shown_number(-1500), "-1,500");
  EXPECT_EQ(cli::shown_number(1e20), "1e+20");
  EXPECT_EQ(std::stod(cli::exact_number(0.1 + 0.2)), 0.1 + 0.2);
  EXPECT_EQ(cli::shortened("abcdefghij", 5), "ab…ij");
  EXPECT_EQ(cli::escaped("a<b>&\"'\u202E\x02"), "a&lt;b&gt;&amp;&quot;&#39;??");
}

TEST(ReportTicks, are_round_and_reach_the_largest_value) {
  const auto texts = [](double largest) {
    const cli::Ticks ticks = cli::ticks_up_to(largest, 5);
    std::vector<std::string> all;
    for (const double value : ticks.values) all.push_back(ticks.text(value));
    return all;
  };
  EXPECT_THAT(texts(1), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(texts(7), ElementsAre("0", "2", "4", "6", "8"));
  EXPECT_THAT(texts(4800), ElementsAre("0", "1,000", "2,000", "3,000", "4,000", "5,000"));
  EXPECT_THAT(texts(83455), ElementsAre("0", "20k", "40k", "60k", "80k", "100k"));
  EXPECT_THAT(texts(0), ElementsAre("0", "1"));
  EXPECT_THAT(texts(0.0021), ElementsAre("0", "0.0005", "0.0010", "0.0015", "0.0020", "0.0025"));
}

}  // namespace
}  // namespace h5feed::test
