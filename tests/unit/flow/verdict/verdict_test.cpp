// SPDX-License-Identifier: Apache-2.0
// Text, JSON and advice of verdicts.
#include "h5feed/verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_units.hpp"
#include "flow/verdict/epoch_verdict.hpp"
#include "flow/verdict/stats_file.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/files/file_text.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using Cause = Verdict::Cause;

constexpr std::uint64_t kSecond = 1'000'000'000;

// 10 s of an epoch of 1000 samples from 100 chunks, of which the consumer waited 6 s for `cause`, while the
// workers spent `work` seconds in that stage.
LoaderStats waiting_for(Cause cause, double work) {
  LoaderStats stats;
  stats.samples = 1000;
  stats.batches = 10;
  stats.chunk_loads = 100;
  stats.bytes_read = 800 * kMiB;
  stats.epoch_ns = 10 * kSecond;
  const auto ns = static_cast<std::uint64_t>(work * 1e9);
  stats.wait_ns = cause == Cause::consumer ? 0 : 6 * kSecond;
  if (cause == Cause::read) stats.read_ns = ns, stats.wait_read_ns = stats.wait_ns;
  if (cause == Cause::decode) stats.decode_ns = ns, stats.wait_decode_ns = stats.wait_ns;
  if (cause == Cause::gather) stats.gather_ns = ns, stats.wait_gather_ns = stats.wait_ns;
  if (cause == Cause::transform) stats.transform_ns = ns, stats.wait_transform_ns = stats.wait_ns;
  if (cause == Cause::transfer) stats.wait_transfer_ns = stats.wait_ns;
  return stats;
}

VerdictFacts on_cpus(std::int64_t cpus, std::int64_t workers) {
  return {.num_workers = workers, .usable_cpus = cpus, .samples = 1000, .chunks = 100};
}

TEST(WhatWouldHelp, are_more_workers_where_there_are_cpus_for_them) {
  // 2 workers decode for 10 s what the consumer takes in 4 s: 5 are needed, and a reserve.
  const Verdict verdict = make_verdict(waiting_for(Cause::decode, 20), on_cpus(8, 2));
  EXPECT_EQ(verdict.bottleneck, Cause::decode);
  EXPECT_DOUBLE_EQ(verdict.needed_workers, 5);
  EXPECT_DOUBLE_EQ(verdict.consumer_samples_per_s(), 250);
  EXPECT_DOUBLE_EQ(verdict.samples_per_s(), 100);
  EXPECT_THAT(verdict.advice, ElementsAre("4 workers more would feed this model",
                                          "a filter that decodes faster: h5feed repack --filter lz4"));
  EXPECT_EQ(verdict.to_string(),
            "input-bound: the consumer waited 60.0 % of the time; 100 % of that was for decoding; 4 workers "
            "more would feed this model; a filter that decodes faster: h5feed repack --filter lz4");
}

TEST(WhatWouldHelp, says_what_the_cpus_can_make_where_they_are_too_few) {
  EXPECT_THAT(make_verdict(waiting_for(Cause::decode, 20), on_cpus(2, 2)).advice.front(),
              "2 CPUs can make at most 40 % of what the model takes");
  EXPECT_THAT(make_verdict(waiting_for(Cause::decode, 10'000), on_cpus(2, 2)).advice.front(),
              "2 CPUs can make less than 1 % of what the model takes");
  EXPECT_THAT(
      make_verdict(waiting_for(Cause::transform, 20), on_cpus(3, 2)).advice,
      ElementsAre("1 worker more would use all 3 CPUs, which can make at most 60 % of what the model takes"));
  EXPECT_THAT(make_verdict(waiting_for(Cause::gather, 4), on_cpus(2, 0)).advice,
              ElementsAre("num_workers auto: batches are then made while the model computes"));
}

TEST(WhatWouldHelp, is_a_larger_cpu_limit_where_it_keeps_self_tuning_from_more_workers) {
  const auto advice = [](std::int64_t cpus, std::optional<double> limit) {
    VerdictFacts facts = on_cpus(cpus, 1);
    facts.self_tuning = true;
    facts.cpu_limit = limit;
    return make_verdict(waiting_for(Cause::gather, 20), facts).advice;
  };
  EXPECT_THAT(advice(8, 1.5), ElementsAre("cpu_limit 6 instead of 1.5 would feed this model"));
  EXPECT_THAT(advice(3, 1),
              ElementsAre("cpu_limit 3 instead of 1 would use all 3 CPUs, which can make at most "
                          "60 % of what the model takes"));
  EXPECT_THAT(advice(8, std::nullopt), ElementsAre("5 workers more would feed this model"));
}

TEST(WhatWouldHelp, compares_storage_with_what_the_model_takes) {
  VerdictFacts facts = on_cpus(8, 2);
  facts.storage = "nfs";
  EXPECT_THAT(
      make_verdict(waiting_for(Cause::read, 10), facts).advice,
      ElementsAre("storage gives 80 MiB/s, the model takes 200 MiB/s",
                  "the files are on nfs, a network file system: stage_dir copies them to a local disk "
                  "once",
                  "num_workers auto, or a larger io_depth, for more reads at once"));
}

TEST(WhatWouldHelp, is_a_cache_that_holds_all) {
  VerdictFacts facts = on_cpus(8, 8);
  facts.fit_bytes = 3 * kGiB;
  facts.cache_bytes = kGiB;
  LoaderStats stats = waiting_for(Cause::decode, 20);
  EXPECT_THAT(make_verdict(stats, facts).advice.front(),
              "cache_bytes 3.0 GiB would hold all from the second epoch on");
  stats.chunk_loads = 310;
  EXPECT_THAT(
      make_verdict(stats, facts).advice.front(),
      R"(each chunk is decoded 3.1 times: shuffle "chunk:K", or cache_bytes 3.0 GiB, which holds all)");
}

TEST(WhatWouldHelp, is_nothing_where_the_consumer_is_slow) {
  LoaderStats stats = waiting_for(Cause::consumer, 0);
  stats.decode_ns = 30 * kSecond;
  const Verdict verdict = make_verdict(stats, on_cpus(8, 2));
  EXPECT_EQ(verdict.bottleneck, Cause::consumer);
  EXPECT_THAT(verdict.advice, IsEmpty());
  EXPECT_EQ(verdict.to_string(), "the consumer was the slow side: it waited 0.0 % of the time");
}

TEST(Verdict, has_no_values_that_json_lacks_before_the_first_batch) {
  EXPECT_EQ(make_verdict({}, {}).to_json(),
            R"({"epoch": 0, "rank": 0, "finished": false, "headroom": false, "loader": 0, "data": "", )"
            R"("dataset_samples": 0, "samples": 0, "batches": 0, )"
            R"("seconds": 0, "samples_per_s": 0, "consumer_samples_per_s": 0, "wait_share": 0, )"
            R"("bottleneck": "consumer", "wait_read_s": 0, "wait_decode_s": 0, "wait_gather_s": 0, )"
            R"("wait_transform_s": 0, "wait_transfer_s": 0, "wait_free_slot_s": 0, "wait_other_s": 0, )"
            R"("num_workers": 0, "usable_cpus": 1, "needed_workers": 0, "read_bytes_per_s": 0, )"
            R"("needed_bytes_per_s": 0, "advice": []})");
}

TEST(Verdict, escapes_the_quotes_of_its_advice) {
  Verdict verdict;
  verdict.advice = {R"(shuffle = "full")", "b\\c"};
  EXPECT_THAT(verdict.to_json(), HasSubstr(R"("advice": ["shuffle = \"full\"", "b\\c"]})"));
}

class EpochVerdict : public testing::Test {
 protected:
  static void take_epoch(DataLoader& loader) {
    while (loader.next()) continue;
  }

  SampleSet set_{gzip_set()};
  TempDir folder_;
};

TEST_F(EpochVerdict, is_of_the_running_epoch_or_the_last_one) {
  DataLoader loader(open(set_), {.batch_size = 10, .num_workers = 2});
  EXPECT_FALSE(loader.verdict());
  ASSERT_TRUE(loader.next());
  ASSERT_TRUE(loader.verdict());
  EXPECT_EQ(loader.verdict()->batches, 1U);
  EXPECT_FALSE(loader.verdict()->finished);
  while (loader.next()) continue;
  EXPECT_EQ(loader.verdict()->batches, 10U);
  EXPECT_EQ(loader.verdict()->samples, 100U);
  EXPECT_TRUE(loader.verdict()->finished);
  EXPECT_EQ(loader.verdict()->epoch, 0U);
  take_epoch(loader);
  EXPECT_EQ(loader.verdict()->epoch, 1U);
  EXPECT_EQ(loader.verdict()->batches, 10U) << "counted from the beginning of its epoch";
}

TEST_F(EpochVerdict, charges_waits_only_to_stages_that_the_loader_has) {
  const SampleSet plain({.shape = {100, 8, 6}, .chunk_shape = {10, 8, 6}});
  for (const std::int64_t workers : {0, 1, 3}) {
    DataLoader loader(open(plain), {.batch_size = 10, .num_workers = workers, .row_reads = RowReads::never});
    take_epoch(loader);
    const LoaderStats stats = loader.stats();
    EXPECT_GT(stats.read_ns, 0U);
    EXPECT_GT(stats.gather_ns, 0U);
    EXPECT_EQ(stats.wait_transform_ns, 0U);
    EXPECT_EQ(stats.wait_transfer_ns, 0U);
    EXPECT_LE(stats.wait_read_ns + stats.wait_decode_ns + stats.wait_gather_ns, stats.wait_ns);
  }
  for (const std::int64_t workers : {0, 1, 3}) {
    std::atomic<int> calls = 0;
    DataLoader loader(open(set_), {.batch_size = 100,
                                   .collate_fn = [&](Batch&) { ++calls; },
                                   .num_workers = workers,
                                   .transform = [](const SampleView&, const SampleKey&) {}});
    take_epoch(loader);
    EXPECT_GE(calls, 1) << "workers may prepare the next epoch";
    EXPECT_GT(loader.stats().transform_ns, 0U);
    EXPECT_GT(loader.stats().decode_ns, 0U);
    EXPECT_LE(loader.stats().wait_transform_ns, loader.stats().wait_ns);
  }
}

TEST_F(EpochVerdict, is_logged_and_appended_once_for_each_finished_epoch) {
  const std::filesystem::path path = folder_.path() / "epochs.jsonl";
  CapturedLog log;
  for (int run = 0; run < 2; ++run) {
    DataLoader loader(open(set_), {.batch_size = 10, .num_workers = 1, .epoch_log = path});
    take_epoch(loader);
    ASSERT_TRUE(loader.next());
    loader.start_epoch();  // abandons one
    take_epoch(loader);
  }
  const std::vector<std::string> lines = lines_of(text_of(path));
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], AllOf(HasSubstr(R"({"epoch": 0, )"), HasSubstr(R"("finished": true)"),
                              HasSubstr(R"("samples": 100, "batches": 10)")));
  EXPECT_THAT(lines[1], HasSubstr(R"({"epoch": 2, )"));
  EXPECT_THAT(log.lines(), Contains(StartsWith("epoch 0: ")).Times(2));
  EXPECT_THAT(log.lines(), Contains(StartsWith("epoch 2: ")).Times(2));
}

TEST_F(EpochVerdict, tells_the_loaders_of_one_log_apart) {
  const std::filesystem::path path = folder_.path() / "epochs.jsonl";
  const std::vector<Dataset> parts = open(set_).split(std::vector<double>{0.8, 0.2}, 1);
  DataLoader training(parts[0], {.batch_size = 10, .epoch_log = path});
  DataLoader validation(parts[1], {.batch_size = 10, .epoch_log = path});
  take_epoch(training);
  take_epoch(validation);
  const std::vector<std::string> lines = lines_of(text_of(path));
  ASSERT_THAT(lines, SizeIs(2));
  const std::string data = R"("data": ")" + set_.path().string() + ":/images\"";
  EXPECT_THAT(lines[0], AllOf(HasSubstr(data), HasSubstr(R"("dataset_samples": 80, )")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr(data), HasSubstr(R"("dataset_samples": 20, )")));
  const auto number = [](const DataLoader& loader) { return loader.verdict()->loader; };
  EXPECT_EQ(number(validation), number(training) + 1);
}

TEST(Verdict, is_json_whatever_bytes_a_name_has) {
  Verdict verdict;
  verdict.data = "a\"b\n\xC3\xA4\xFF\xED\xA0\x80.h5";
  EXPECT_THAT(verdict.to_json(), HasSubstr("\"data\": \"a\\\"b\\u000a\xC3\xA4????.h5\""));
}

TEST_F(EpochVerdict, ends_its_epoch_although_the_log_throws) {
  const std::filesystem::path path = folder_.path() / "epochs.jsonl";
  set_log_sink([](LogLevel, std::string_view) { throw std::runtime_error("the disk of the log is full"); });
  {
    DataLoader loader(open(set_), {.batch_size = 10, .num_workers = 1, .epoch_log = path});
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int batch = 0; batch < 10; ++batch) EXPECT_TRUE(loader.next());
      EXPECT_FALSE(loader.next());
    }
  }
  set_log_sink({});
  EXPECT_THAT(lines_of(text_of(path)), SizeIs(2));
}

TEST_F(EpochVerdict, refuses_a_log_that_cannot_be_written) {
  EXPECT_THAT(refusal<OptionError>(open(set_), {.epoch_log = folder_.path() / "none" / "epochs.jsonl"}),
              AllOf(HasSubstr("epoch_log: "), HasSubstr("cannot be written")));
}

TEST_F(EpochVerdict, is_published_with_process_and_loader_where_the_environment_names_a_file) {
  const std::filesystem::path path = folder_.path() / "stats.jsonl";
  ASSERT_EQ(::setenv(kStatsFileVariable, path.c_str(), 1), 0);
  DataLoader first(open(set_), {.batch_size = 10});
  DataLoader second(open(set_), {.batch_size = 10});
  ASSERT_EQ(::unsetenv(kStatsFileVariable), 0);
  ASSERT_TRUE(first.next());
  take_epoch(second);
  const std::vector<std::string> lines = lines_of(text_of(path));
  ASSERT_GE(lines.size(), 2U);
  const std::string process = "\"pid\": " + std::to_string(::getpid());
  EXPECT_THAT(lines[0], AllOf(StartsWith("{\"time\": "), HasSubstr(process),
                              HasSubstr(R"("epoch": 0, "rank": 0, "finished": false)"),
                              HasSubstr(R"("samples": 10, "batches": 1)")));
  EXPECT_THAT(lines[1], HasSubstr(process));
  const auto loader_of = [](const std::string& line) { return line.substr(line.find("\"loader\": "), 12); };
  EXPECT_NE(loader_of(lines[0]), loader_of(lines[1]));
}

TEST(StatsFile, has_a_line_each_second_and_for_epochs_that_are_not_too_short) {
  const TempDir folder;
  StatsFile file(folder / "stats.jsonl");
  const auto lines = [&] { return lines_of(text_of(folder / "stats.jsonl")).size(); };
  EXPECT_TRUE(file.due(5 * kSecond)) << "the first";
  file.append({.seconds = 0.01}, 5 * kSecond);
  EXPECT_FALSE(file.due(6 * kSecond - 1));
  EXPECT_TRUE(file.due(6 * kSecond));
  EXPECT_EQ(lines(), 1U);
  file.append({.finished = true, .seconds = 0.09}, 6 * kSecond - 1);
  EXPECT_EQ(lines(), 1U) << "short, and none is due";
  file.append({.finished = true, .seconds = 0.1}, 6 * kSecond - 1);
  EXPECT_EQ(lines(), 2U);
  file.append({.finished = true, .seconds = 0.01}, 7 * kSecond);
  EXPECT_EQ(lines(), 3U);
}

TEST(StatsFile, that_cannot_be_written_is_logged_and_publishes_nothing) {
  const TempDir folder;
  CapturedLog log;
  const StatsFile file(folder / "none" / "stats.jsonl");
  EXPECT_FALSE(file.publishes());
  EXPECT_FALSE(file.due(kSecond));
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("H5FEED_STATS_FILE: ")));
  EXPECT_FALSE(StatsFile(std::filesystem::path()).publishes());
}

TEST_F(EpochVerdict, refuses_to_append_its_log_to_other_files) {
  const std::string before = text_of(set_.path());
  EXPECT_EQ(refusal<OptionError>(open(set_), {.epoch_log = set_.path()}),
            "epoch_log: " + set_.path().string() + " exists and is no JSON; name another file");
  EXPECT_EQ(refusal<OptionError>(open(set_), {.trace_path = set_.path()}),
            "trace_path: " + set_.path().string() + " exists and is no JSON; name another file");
  EXPECT_EQ(text_of(set_.path()), before);
}

TEST(Verdict, of_headroom_does_not_count_the_wait_for_the_first_batch) {
  Verdict verdict;
  verdict.headroom = true;
  verdict.samples = 1000;
  verdict.seconds = 10;
  verdict.waits.decode = 5;
  EXPECT_THAT(verdict.to_string(), StartsWith("headroom: 200 samples/s "));
}

TEST_F(EpochVerdict, of_headroom_repeats_the_first_batch_without_reading) {
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(
        open(set_),
        {.batch_size = 30, .shuffle = true, .num_workers = workers, .cache_bytes = 0, .headroom = true});
    const OptionalBatch<Batch> first = loader.next();
    ASSERT_TRUE(first);
    EXPECT_EQ(loader.size(), 4U);
    for (std::uint64_t number = 1; number < 4; ++number) {
      const OptionalBatch<Batch> again = loader.next();
      ASSERT_TRUE(again);
      EXPECT_EQ(again->number, number);
      EXPECT_EQ(again->indices, first->indices);
      EXPECT_EQ(again->data.bytes, first->data.bytes);
    }
    EXPECT_FALSE(loader.next());
    const std::uint64_t reads = loader.stats().read_calls;
    take_epoch(loader);
    EXPECT_EQ(loader.verdict()->batches, 4U);
    EXPECT_EQ(loader.stats().samples, 240U);
    if (workers == 0) {
      EXPECT_EQ(loader.stats().read_calls, reads);
    }
    EXPECT_THAT(loader.verdict()->to_string(), HasSubstr("headroom: "));
    EXPECT_THAT(loader.report(), HasSubstr("\nheadroom: ")) << "not that of the first batch";
    EXPECT_THAT(loader.report(), testing::Not(HasSubstr("per chunk and epoch")));
    EXPECT_THROW(loader.state(), OptionError);
  }
  EXPECT_THAT(refusal<OptionError>(open(set_), {.echo = {.factor = 2}, .headroom = true}),
              HasSubstr("headroom repeats one batch by itself"));
}

TEST_F(EpochVerdict, of_echo_has_its_price_in_the_plan) {
  const PlanReport plan =
      h5feed::plan(open(set_), {.batch_size = 10, .echo = {.factor = 4}, .shuffle = "chunk:2"});
  EXPECT_DOUBLE_EQ(plan.mixing_with_echo, plan.mixing / 4);
  EXPECT_THAT(plan.to_string(), HasSubstr("with echo.factor 4: repeats bring no new samples"));
  EXPECT_THAT(h5feed::plan(open(set_), {}).to_string(), testing::Not(HasSubstr("echo")));
}

TEST_F(EpochVerdict, of_echo_has_its_price_in_the_report) {
  DataLoader loader(open(set_), {.batch_size = 10, .echo = {.factor = 4}, .shuffle = true});
  take_epoch(loader);
  EXPECT_THAT(
      loader.report(),
      AllOf(HasSubstr("400 samples in 40 batches"),
            HasSubstr("\necho: 300 of the samples were repeats; mixing 1.00, 0.25 with echo.factor 4\n"),
            HasSubstr("\ndecodes: 1.00 per chunk and epoch")));
  DataLoader plain(open(set_), {.batch_size = 10});
  take_epoch(plain);
  EXPECT_THAT(plain.report(), testing::Not(HasSubstr("echo")));
}

}  // namespace
}  // namespace h5feed::test
